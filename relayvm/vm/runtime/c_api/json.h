/* Reads JSON texts: what the manifest needs of it. */
#ifndef RVM_JSON_H
#define RVM_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Memory that goes all at once. */
typedef struct rvm_arena {
    struct rvm_arena_block *blocks;
} rvm_arena;

/* Zeroed; NULL if memory is out. */
void *arena_take(rvm_arena *arena, size_t count, size_t size);
/* Whether a pointer is to something that was taken. */
bool arena_has(const rvm_arena *arena, const void *pointer);
void arena_free(rvm_arena *arena);

typedef enum json_kind { JSON_NULL, JSON_BOOL, JSON_NUMBER, JSON_STRING, JSON_LIST, JSON_OBJECT } json_kind;

typedef struct json {
    json_kind kind;
    const char *key;  /* in an object */
    const char *text; /* of a string, with a final zero */
    int64_t number;   /* truncated; saturated beyond 64 bits */
    size_t count;     /* of items */
    struct json *first, *next;
} json;

/* NULL where the text is no JSON, nests too deep, or memory is out; then `*at` is the place. */
const json *json_read(rvm_arena *arena, const char *text, size_t size, size_t *at);
/* The item of a key; NULL if there is none, or `object` is none. */
const json *json_get(const json *object, const char *key);

#endif
