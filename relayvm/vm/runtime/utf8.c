/* Whether bytes are UTF-8 as Unicode defines it: no overlong forms, surrogates or numbers beyond. */
#include <string.h>

#include "loader.h"

/* Length of the character at `p`, of which `room` bytes can be read; 0 if there is none. */
static size_t character(const uint8_t *p, size_t room) {
    const uint8_t lead = p[0];
    if (lead < 0x80) return 1;
    const size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
    if (lead < 0xc2 || lead > 0xf4 || length > room) return 0;
    for (size_t i = 1; i < length; i++)
        if ((p[i] & 0xc0) != 0x80) return 0;
    if (lead == 0xe0 && p[1] < 0xa0) return 0; /* overlong */
    if (lead == 0xed && p[1] > 0x9f) return 0; /* surrogate */
    if (lead == 0xf0 && p[1] < 0x90) return 0; /* overlong */
    if (lead == 0xf4 && p[1] > 0x8f) return 0; /* beyond U+10FFFF */
    return length;
}

size_t utf8_valid_bytes(const uint8_t *bytes, size_t size) {
    size_t i = 0;
    while (i < size) {
        uint64_t word;
        while (size - i >= sizeof word) {
            memcpy(&word, bytes + i, sizeof word);
            if (word & UINT64_C(0x8080808080808080)) break;
            i += sizeof word;
        }
        if (i == size) break;
        const size_t length = character(bytes + i, size - i);
        if (length == 0) break;
        i += length;
    }
    return i;
}
