/* Arrays: growable vectors of words or objects, changed in place where nobody else can see them. */
#ifndef RVM_ARRAY_H
#define RVM_ARRAY_H

#include "machine.h"

/* Each returns 0 or a trap code and leaves an owned array in *result; `array` and `value` are consumed always. */
int32_t array_new(rvm_machine *m, const rvm_layout *shape, int64_t capacity, uint64_t *result);
int32_t array_set(rvm_machine *m, const rvm_layout *shape, uint64_t array, uint64_t i, uint64_t value,
                  uint64_t *result);
int32_t array_push(rvm_machine *m, const rvm_layout *shape, uint64_t array, uint64_t value, uint64_t *result);
int32_t array_bad_index(rvm_machine *m, const rvm_array *array, uint64_t i);

/* An empty array with room; null where memory ran out. */
rvm_array *array_alloc(rvm_heap *heap, const rvm_layout *shape, uint64_t capacity);

static inline rvm_array *word_array(uint64_t word) {
    return (rvm_array *)(uintptr_t)word;
}

#endif
