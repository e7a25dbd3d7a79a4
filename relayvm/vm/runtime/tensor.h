/* Tensors: dense values over a storage. Making them, viewing them, and asking whether one may be overwritten. */
#ifndef RVM_TENSOR_H
#define RVM_TENSOR_H

#include "heap.h"

#include <string.h>

/* The number of elements; false if dims are negative or the bytes would reach 2^46. */
bool tensor_count_elements(unsigned rank, const int64_t *dims, uint8_t dtype, int64_t *elements);

/* Return owned, or null where memory ran out; sizes must have passed `tensor_count_elements`. */
rvm_tensor *tensor_new(rvm_heap *heap, uint8_t dtype, unsigned rank, const int64_t *dims, int64_t elements);
/* Over the memory of a host's array, which must outlive the call that it is made for. */
rvm_tensor *tensor_wrap(rvm_heap *heap, uint8_t dtype, unsigned rank, const int64_t *dims, int64_t elements,
                        void *data);
/* Gives the tensor a storage of its own with the same bytes; false if memory ran out. */
bool tensor_detach(rvm_heap *heap, rvm_tensor *tensor);
/* Borrows `base` and retains its storage. */
rvm_tensor *tensor_view(rvm_heap *heap, const rvm_tensor *base, unsigned rank, const int64_t *dims,
                        int64_t elements, uint64_t offset_bytes);

/* True if nobody else can see the bytes: they may be overwritten in place. */
static inline bool tensor_is_unique(const rvm_tensor *tensor) {
    return object_is_unique(&tensor->head) && tensor->storage && object_is_unique(&tensor->storage->head) &&
           !tensor->storage->foreign;
}

static inline uint64_t tensor_bytes(const rvm_tensor *tensor) {
    return (uint64_t)tensor->elements * rvm_dtype_bytes[tensor->dtype];
}

/* The register word of an element, and back; integers are extended as their dtype says. */
uint64_t tensor_load_word(uint8_t dtype, const void *element);

static inline void tensor_store_word(uint8_t dtype, void *element, uint64_t word) {
    memcpy(element, &word, rvm_dtype_bytes[dtype]); /* hosts are little endian */
}

static inline rvm_tensor *word_tensor(uint64_t word) {
    return (rvm_tensor *)(uintptr_t)word;
}

#endif
