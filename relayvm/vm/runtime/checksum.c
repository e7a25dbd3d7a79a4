/* The checksum of a section: see `checksum` in vm/file/format.py, which must agree with this. */
#include <string.h>

#include "program.h"

#define MULTIPLIER UINT64_C(0x9E3779B97F4A7C15)
#define MIXER UINT64_C(0xD6E8FEB86659FD93)

static inline uint64_t mix(uint64_t word, uint64_t position) {
    uint64_t x = (word ^ (position * MULTIPLIER)) * MIXER;
    x ^= x >> 32;
    return x * MULTIPLIER;
}

uint64_t rvm_checksum(const void *bytes, size_t size) {
    const uint8_t *p = bytes;
    uint64_t total = 0, position = 1, word;
    size_t i = 0;
    for (; i + 8 <= size; i += 8, position++) {
        memcpy(&word, p + i, 8);
        total += mix(word, position);
    }
    if (i < size) {
        word = 0;
        memcpy(&word, p + i, size - i);
        total += mix(word, position);
    }
    return total ^ ((uint64_t)size * MIXER);
}
