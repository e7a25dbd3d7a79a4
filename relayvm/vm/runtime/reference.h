/* References: mutable boxes. What a shared one holds is shared, and a small lock guards it. */
#ifndef RVM_REFERENCE_H
#define RVM_REFERENCE_H

#include "heap.h"
#include "program.h"

/* Consumes `value`; returns owned, or null where memory ran out. */
rvm_ref *reference_new(rvm_heap *heap, const rvm_layout *shape, uint64_t value);
/* The value, owned; false if the reference is empty. */
bool reference_read(rvm_ref *ref, uint64_t *value);
/* The same, out of a reference that is empty then until it is written; a shared one keeps its value. */
bool reference_take(rvm_ref *ref, uint64_t *value);
/* Consumes `value`; false if it could not be shared for want of memory. `program` is that of the reference. */
bool reference_write(rvm_heap *heap, rvm_ref *ref, uint64_t value, rvm_program *program);

#endif
