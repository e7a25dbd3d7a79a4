/* Objects: the header that all values on the heap share, and the meaning of its count.
 * Does not allocate or free; that is heap.h. */
#ifndef RVM_OBJECT_H
#define RVM_OBJECT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "generated/abi.h"

/* The layout number of objects that have none. */
#define RVM_NO_LAYOUT 0xffffu

/* A count of 1 .. STICKY-1 belongs to one machine and is changed with plain arithmetic. From STICKY on the object is
 * never freed, which keeps a count from wrapping. A negative count -n is n references by any thread, changed
 * atomically. Zero is immortal: constants. */
#define RVM_STICKY ((int32_t)1 << 30)

enum rvm_object_kind {
    RVM_FREE = 0,
    RVM_TENSOR = 1,
    RVM_CELL = 2, /* tuple, constructor, closure */
    RVM_REF = 3,
    RVM_ARRAY = 4,
    RVM_STORAGE = 5,
};

struct rvm_layout;

typedef struct rvm_object {
    _Atomic int32_t count;
    uint16_t layout; /* number of the layout; RVM_NO_LAYOUT for tensors and storages */
    uint8_t kind;
    uint8_t size_class;
} rvm_object;

typedef struct rvm_cell {
    rvm_object head;
    const struct rvm_layout *shape;
    uint64_t fields[];
} rvm_cell;

/* Bytes of tensors. The struct is the second half of the first aligned line of its block. Memory of our own begins behind
 * it, or in the first half where that is enough; that of a host's array is `foreign`: it is lent for one
 * call, never written, and copied before a value that holds it leaves the machine. */
typedef struct rvm_storage {
    rvm_object head;
    uint64_t bytes;
    uint8_t *data;
    uint64_t foreign;
} rvm_storage;

typedef struct rvm_tensor {
    rvm_object head;
    uint8_t dtype;
    uint8_t rank;
    uint8_t unused[6];
    rvm_storage *storage; /* null for constants, whose memory is the executable's */
    uint8_t *data;
    int64_t elements;
    int64_t dims[];
} rvm_tensor;

/* A growable vector of one layout's items, words or owned objects. */
typedef struct rvm_array {
    rvm_object head;
    const struct rvm_layout *shape;
    uint64_t length;
    uint64_t capacity;
    uint64_t *items;
    uint64_t items_class;
} rvm_array;

/* A mutable box. A machine's own references are linked, so that what only cycles hold can be found. */
typedef struct rvm_ref {
    rvm_object head;
    const struct rvm_layout *shape;
    uint64_t value;
    _Atomic uint32_t lock; /* taken while a shared reference is read or written */
    uint32_t full;
    struct rvm_ref *previous;
    struct rvm_ref *next;
} rvm_ref;

_Static_assert(sizeof(rvm_object) == 8, "the header is one word");
_Static_assert(2 * sizeof(rvm_storage) == RVM_ALIGN_BYTES, "a storage is half of an aligned line");

static inline int32_t object_count(const rvm_object *object) {
    return atomic_load_explicit(&object->count, memory_order_relaxed);
}

static inline void object_set_count(rvm_object *object, int32_t count) {
    atomic_store_explicit(&object->count, count, memory_order_relaxed);
}

static inline bool object_is_local(int32_t count) {
    return (uint32_t)(count - 1) < (uint32_t)(RVM_STICKY - 1);
}

/* Adds a reference: the caller owns one more. */
static inline void object_retain(rvm_object *object) {
    int32_t count = object_count(object);
    if (object_is_local(count)) {
        object_set_count(object, count + 1);
    } else if (count < 0) {
        atomic_fetch_sub_explicit(&object->count, 1, memory_order_relaxed);
    }
}

/* True if the caller's reference is the only one and no other thread can hold one. */
static inline bool object_is_unique(const rvm_object *object) {
    return object_count(object) == 1;
}

static inline rvm_object *word_object(uint64_t word) {
    return (rvm_object *)(uintptr_t)word;
}

static inline uint64_t object_word(const void *object) {
    return (uint64_t)(uintptr_t)object;
}

/* The storage in a block of memory, and back. */
static inline rvm_storage *block_storage(uint8_t *block) {
    return (rvm_storage *)(void *)(block + sizeof(rvm_storage));
}

static inline void *storage_block(rvm_storage *storage) {
    return storage - 1;
}

#endif
