/* A recursive-descent reader of JSON, of bounded depth, into memory of an arena. */
#include "json.h"

#include <stdlib.h>
#include <string.h>

#define BLOCK_BYTES ((size_t)16384)
#define DEEPEST 256 /* writers of manifests stay below 120 */

typedef struct rvm_arena_block {
    struct rvm_arena_block *next;
    size_t used, size;
    _Alignas(16) uint8_t bytes[];
} rvm_arena_block;

void *arena_take(rvm_arena *arena, size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || bytes > SIZE_MAX / 2) {
        return NULL;
    }
    bytes = (bytes + 15) & ~(size_t)15;
    rvm_arena_block *block = arena->blocks;
    if (!block || block->size - block->used < bytes) {
        const size_t room = bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES;
        block = calloc(1, sizeof *block + room);
        if (!block) {
            return NULL;
        }
        block->size = room;
        block->next = arena->blocks;
        arena->blocks = block;
    }
    void *taken = block->bytes + block->used;
    block->used += bytes;
    return taken;
}

bool arena_has(const rvm_arena *arena, const void *pointer) {
    const uintptr_t at = (uintptr_t)pointer;
    for (const rvm_arena_block *block = arena->blocks; block; block = block->next) {
        if (at >= (uintptr_t)block->bytes && at - (uintptr_t)block->bytes < block->used) {
            return true;
        }
    }
    return false;
}

void arena_free(rvm_arena *arena) {
    while (arena->blocks) {
        rvm_arena_block *next = arena->blocks->next;
        free(arena->blocks);
        arena->blocks = next;
    }
}

typedef struct reader {
    rvm_arena *arena;
    const char *at, *end;
    int depth;
} reader;

static json *read_value(reader *r);

static void skip_space(reader *r) {
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\n' || *r->at == '\t' || *r->at == '\r')) {
        r->at++;
    }
}

static bool take_char(reader *r, char wanted) {
    skip_space(r);
    if (r->at < r->end && *r->at == wanted) {
        r->at++;
        return true;
    }
    return false;
}

static bool read_hex(reader *r, uint32_t *code) {
    *code = 0;
    for (int i = 0; i < 4; i++, r->at++) {
        if (r->at >= r->end) {
            return false;
        }
        const char c = *r->at;
        const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
        if (digit < 0) {
            return false;
        }
        *code = *code << 4 | (uint32_t)digit;
    }
    return true;
}

static char *write_utf8(char *to, uint32_t code) {
    if (code < 0x80) {
        *to++ = (char)code;
        return to;
    }
    const int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    *to++ = (char)((0xf00 >> more & 0xff) | code >> (6 * more));
    for (int i = more - 1; i >= 0; i--) {
        *to++ = (char)(0x80 | (code >> (6 * i) & 0x3f));
    }
    return to;
}

static char *read_escape(reader *r, char *to) {
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    const char name = r->at < r->end ? *r->at++ : 0;
    if (name != 'u') {
        const char *found = name ? strchr(names, name) : NULL;
        if (!found) {
            return NULL;
        }
        *to++ = values[found - names];
        return to;
    }
    uint32_t code, low;
    if (!read_hex(r, &code)) {
        return NULL;
    }
    if (code >= 0xd800 && code < 0xdc00 && r->end - r->at > 6 && r->at[0] == '\\' && r->at[1] == 'u') {
        r->at += 2;
        if (!read_hex(r, &low) || low < 0xdc00 || low > 0xdfff) {
            return NULL;
        }
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    return write_utf8(to, code);
}

/* A text is never longer than how it is written. */
static const char *read_string(reader *r) {
    if (!take_char(r, '"')) {
        return NULL;
    }
    const char *end = r->at;
    while (end < r->end && *end != '"') {
        end += *end == '\\' && end + 1 < r->end ? 2 : 1;
    }
    if (end >= r->end) {
        return NULL;
    }
    char *text = arena_take(r->arena, (size_t)(end - r->at) + 1, 1), *to = text;
    while (text && r->at < end) {
        const char c = *r->at++;
        if (c != '\\') {
            *to++ = c;
        } else if (!(to = read_escape(r, to))) {
            return NULL;
        }
    }
    r->at = end + 1;
    return text;
}

static bool read_number(reader *r, json *value) {
    const bool negative = take_char(r, '-');
    const char *begin = r->at;
    int64_t number = 0;
    for (; r->at < r->end && *r->at >= '0' && *r->at <= '9'; r->at++) {
        if (__builtin_mul_overflow(number, 10, &number) || __builtin_add_overflow(number, *r->at - '0', &number)) {
            number = INT64_MAX;
        }
    }
    const bool digits = r->at > begin;
    while (r->at < r->end && *r->at && strchr(".eE+-0123456789", *r->at)) {
        r->at++;
    }
    value->kind = JSON_NUMBER;
    value->number = negative ? -number : number;
    return digits;
}

static bool read_items(reader *r, json *value, char close) {
    json **link = &value->first;
    value->kind = close == ']' ? JSON_LIST : JSON_OBJECT;
    if (take_char(r, close)) {
        return true;
    }
    do {
        const char *key = NULL;
        if (close == '}' && (!(key = read_string(r)) || !take_char(r, ':'))) {
            return false;
        }
        json *item = read_value(r);
        if (!item) {
            return false;
        }
        item->key = key;
        *link = item;
        link = &item->next;
        value->count++;
    } while (take_char(r, ','));
    return take_char(r, close);
}

static bool read_word(reader *r, json *value) {
    static const char *const words[] = {"null", "true", "false"};
    for (int i = 0; i < 3; i++) {
        const size_t size = strlen(words[i]);
        if ((size_t)(r->end - r->at) >= size && memcmp(r->at, words[i], size) == 0) {
            r->at += size;
            value->kind = i ? JSON_BOOL : JSON_NULL;
            value->number = i == 1;
            return true;
        }
    }
    return false;
}

static json *read_value(reader *r) {
    json *value = arena_take(r->arena, 1, sizeof *value);
    skip_space(r);
    if (!value || r->at >= r->end || r->depth == DEEPEST) {
        return NULL;
    }
    const char c = *r->at;
    bool good;
    if (c == '"') {
        value->kind = JSON_STRING;
        value->text = read_string(r);
        good = value->text != NULL;
    } else if (c == '{' || c == '[') {
        r->at++;
        r->depth++;
        good = read_items(r, value, c == '{' ? '}' : ']');
        r->depth--;
    } else {
        good = c == '-' || (c >= '0' && c <= '9') ? read_number(r, value) : read_word(r, value);
    }
    return good ? value : NULL;
}

const json *json_read(rvm_arena *arena, const char *text, size_t size, size_t *at) {
    reader r = {arena, text, text + size, 0};
    const json *value = read_value(&r);
    skip_space(&r);
    *at = (size_t)(r.at - text);
    return value && r.at == r.end ? value : NULL;
}

const json *json_get(const json *object, const char *key) {
    if (!object || object->kind != JSON_OBJECT) {
        return NULL;
    }
    for (const json *item = object->first; item; item = item->next) {
        if (strcmp(item->key, key) == 0) {
            return item;
        }
    }
    return NULL;
}
