/* Bodies of the instructions on tensors. They consume owned operands whether they trap or not. */
#ifndef RVM_BODIES_TENSOR_H
#define RVM_BODIES_TENSOR_H

#include <stdio.h>

#include "bodies_object.h"

static inline int32_t body_not_a_tensor(rvm_machine *m) {
    return trap_set(m, RVM_TRAP_BAD_VALUE, "a value is not the tensor that the program expects");
}

static inline int32_t body_tensor_dim(rvm_machine *m, uint64_t *dst, uint64_t src, uint16_t axis) {
    if (UNLIKELY(word_object(src)->kind != RVM_TENSOR)) {
        return body_not_a_tensor(m);
    }
    const rvm_tensor *tensor = word_tensor(src);
    if (UNLIKELY(axis >= tensor->rank)) {
        return trap_set(m, RVM_TRAP_SHAPE_MISMATCH, "a tensor of rank %u has no axis %u", tensor->rank, axis);
    }
    *dst = (uint64_t)tensor->dims[axis];
    return 0;
}

static inline int32_t body_tensor_rank(rvm_machine *m, uint64_t *dst, uint64_t src) {
    if (UNLIKELY(word_object(src)->kind != RVM_TENSOR)) {
        return body_not_a_tensor(m);
    }
    *dst = word_tensor(src)->rank;
    return 0;
}

static int32_t body_wrong_view(rvm_machine *m, int64_t elements, const uint64_t *dims, uint32_t num_dims) {
    char shape[RVM_MAX_RANK * 24 + 1] = "";
    size_t length = 0;
    for (uint32_t i = 0; i < num_dims && i < RVM_MAX_RANK; i++) {
        int written = snprintf(shape + length, sizeof shape - length, i ? ", %lld" : "%lld", (long long)dims[i]);
        length += written > 0 ? (size_t)written : 0;
    }
    return trap_set(m, RVM_TRAP_SHAPE_MISMATCH, "%lld elements do not fit the shape (%s)", (long long)elements, shape);
}

static inline int32_t body_tensor_view(rvm_machine *m, uint64_t *dst, uint64_t src, const uint64_t *dims,
                                       uint32_t num_dims) {
    rvm_tensor *base = word_tensor(src);
    int64_t elements = 0;
    if (UNLIKELY(base->head.kind != RVM_TENSOR)) {
        return body_not_a_tensor(m);
    }
    if (num_dims > RVM_MAX_RANK ||
        !tensor_count_elements(num_dims, (const int64_t *)(const void *)dims, base->dtype, &elements) ||
        elements != base->elements) {
        return body_wrong_view(m, base->elements, dims, num_dims);
    }
    rvm_tensor *view = tensor_view(&m->heap, base, num_dims, (const int64_t *)(const void *)dims, elements, 0);
    *dst = object_word(view);
    return view ? 0 : trap_out_of_memory(m);
}

static inline int32_t body_tensor_view_take(rvm_machine *m, uint64_t *dst, uint64_t src, const uint64_t *dims,
                                            uint32_t num_dims) {
    int32_t trap = body_tensor_view(m, dst, src, dims, num_dims);
    object_release(&m->heap, word_object(src));
    return trap;
}

static inline int32_t body_slice_view(rvm_machine *m, uint64_t *dst, uint64_t src, uint64_t begin, uint64_t end) {
    rvm_tensor *base = word_tensor(src);
    if (UNLIKELY(base->head.kind != RVM_TENSOR)) {
        return body_not_a_tensor(m);
    }
    if (UNLIKELY(base->rank == 0)) {
        return trap_set(m, RVM_TRAP_SHAPE_MISMATCH, "a tensor of rank 0 has no axis to slice");
    }
    if (UNLIKELY(begin > end || end > (uint64_t)base->dims[0])) {
        return trap_set(m, RVM_TRAP_INDEX_OUT_OF_RANGE, "slice [%lld, %lld) of an axis of size %lld",
                        (long long)begin, (long long)end, (long long)base->dims[0]);
    }
    int64_t dims[RVM_MAX_RANK];
    memcpy(dims, base->dims, base->rank * sizeof *dims);
    int64_t row = base->dims[0] ? base->elements / base->dims[0] : 0;
    dims[0] = (int64_t)(end - begin);
    rvm_tensor *view = tensor_view(&m->heap, base, base->rank, dims, row * dims[0],
                                   begin * (uint64_t)row * rvm_dtype_bytes[base->dtype]);
    *dst = object_word(view);
    return view ? 0 : trap_out_of_memory(m);
}

static inline int32_t body_tensor_from_words(rvm_machine *m, uint64_t *dst, uint16_t type, const uint64_t *values,
                                             uint32_t num_values) {
    int64_t dim = num_values;
    rvm_tensor *tensor = tensor_new(&m->heap, (uint8_t)type, 1, &dim, dim);
    if (UNLIKELY(!tensor)) {
        return trap_out_of_memory(m);
    }
    uint8_t size = rvm_dtype_bytes[type];
    for (uint32_t i = 0; i < num_values; i++) {
        tensor_store_word((uint8_t)type, tensor->data + (size_t)i * size, values[i]);
    }
    *dst = object_word(tensor);
    return 0;
}

static inline int32_t body_box_word(rvm_machine *m, uint64_t *dst, uint64_t src, uint16_t type) {
    rvm_tensor *tensor = tensor_new(&m->heap, (uint8_t)type, 0, NULL, 1);
    if (UNLIKELY(!tensor)) {
        return trap_out_of_memory(m);
    }
    tensor_store_word((uint8_t)type, tensor->data, src);
    *dst = object_word(tensor);
    return 0;
}

static inline int32_t body_unbox_word(rvm_machine *m, uint64_t *dst, uint64_t src, uint16_t type) {
    const rvm_tensor *tensor = word_tensor(src);
    if (UNLIKELY(tensor->head.kind != RVM_TENSOR || tensor->dtype != type || tensor->rank != 0)) {
        return trap_set(m, RVM_TRAP_BAD_VALUE, "a value is not the number that the program expects");
    }
    *dst = tensor_load_word(tensor->dtype, tensor->data);
    return 0;
}

static inline int32_t body_check_dim(rvm_machine *m, uint64_t src, uint16_t axis, uint64_t size) {
    uint64_t dim = 0;
    int32_t trap = body_tensor_dim(m, &dim, src, axis);
    if (UNLIKELY(!trap && dim != size)) {
        return trap_set(m, RVM_TRAP_SHAPE_MISMATCH, "axis %u has size %lld where %lld is required", axis,
                        (long long)dim, (long long)size);
    }
    return trap;
}

static inline int32_t body_check_equal(rvm_machine *m, uint64_t a, uint64_t b) {
    if (UNLIKELY(a != b)) {
        return trap_set(m, RVM_TRAP_SHAPE_MISMATCH, "sizes %lld and %lld must be equal", (long long)a,
                        (long long)b);
    }
    return 0;
}

static inline int32_t body_tensor_check(rvm_machine *m, uint64_t src, uint16_t type) {
    const rvm_tensor *tensor = word_tensor(src);
    const rvm_tensor_type *wanted = &m->program->tensor_types[type];
    if (UNLIKELY(tensor->head.kind != RVM_TENSOR || tensor->dtype != wanted->dtype ||
                 tensor->rank != wanted->rank)) {
        return trap_set(m, RVM_TRAP_SHAPE_MISMATCH, "a tensor has not the dtype and rank that are required");
    }
    for (unsigned i = 0; i < wanted->rank; i++) {
        if (UNLIKELY(wanted->dims[i] >= 0 && wanted->dims[i] != tensor->dims[i])) {
            return trap_set(m, RVM_TRAP_SHAPE_MISMATCH, "axis %u has size %lld where %lld is required", i,
                            (long long)tensor->dims[i], (long long)wanted->dims[i]);
        }
    }
    return 0;
}

#endif
