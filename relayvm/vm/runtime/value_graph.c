/* Host operations on whole values, in constant C stack: equality, and lists from their items. */
#include "scalar.h"
#include "tensor.h"
#include "value.h"

#include <stdlib.h>

typedef struct pair_list {
    uint64_t *items; /* two a pair */
    size_t length, capacity;
} pair_list;

static bool push_pair(pair_list *list, uint64_t a, uint64_t b) {
    if (list->length + 2 > list->capacity) {
        size_t capacity = list->capacity ? list->capacity * 2 : 128;
        uint64_t *items = realloc(list->items, capacity * sizeof *items);
        if (!items) {
            return false;
        }
        list->items = items;
        list->capacity = capacity;
    }
    list->items[list->length++] = a;
    list->items[list->length++] = b;
    return true;
}

/* As numpy compares: NaN differs from itself, zeros are equal. */
static bool same_word(uint8_t dtype, uint64_t a, uint64_t b) {
    switch (dtype) {
    case RVM_DTYPE_FLOAT16:
        return get_f16(a) == get_f16(b);
    case RVM_DTYPE_BFLOAT16:
        return get_bf16(a) == get_bf16(b);
    case RVM_DTYPE_FLOAT32:
        return get_f32(a) == get_f32(b);
    case RVM_DTYPE_FLOAT64:
        return get_f64(a) == get_f64(b);
    default:
        return a == b;
    }
}

static bool same_tensor(const rvm_tensor *a, const rvm_tensor *b) {
    if (a->dtype != b->dtype || a->rank != b->rank || memcmp(a->dims, b->dims, a->rank * sizeof *a->dims) != 0) {
        return false;
    }
    if (rvm_dtype_kind[a->dtype] != RVM_KIND_FLOAT) {
        return a->elements == 0 || memcmp(a->data, b->data, tensor_bytes(a)) == 0;
    }
    size_t step = rvm_dtype_bytes[a->dtype];
    for (size_t i = 0; i < (size_t)a->elements; i++) {
        if (!same_word(a->dtype, tensor_load_word(a->dtype, a->data + i * step),
                       tensor_load_word(a->dtype, b->data + i * step))) {
            return false;
        }
    }
    return true;
}

static bool same_layout(const rvm_layout *a, const rvm_layout *b) {
    if (a == b) {
        return true;
    }
    return a->kind == b->kind && a->num_fields == b->num_fields && strcmp(a->name, b->name) == 0 &&
           strcmp(a->type_name, b->type_name) == 0 &&
           (a->num_fields == 0 || memcmp(a->field_dtype, b->field_dtype, a->num_fields) == 0);
}

/* Compares two objects that are not the same; their objects are pushed. -1 where memory ran out. */
static int same_step(pair_list *list, const rvm_object *a, const rvm_object *b) {
    if (a->kind != b->kind || a->kind == RVM_REF) {
        return 0;
    }
    if (a->kind == RVM_TENSOR) {
        return same_tensor((const rvm_tensor *)(const void *)a, (const rvm_tensor *)(const void *)b);
    }
    const rvm_layout *shape = ((const rvm_cell *)(const void *)a)->shape;
    if (shape->kind == RVM_LAYOUT_CLOSURE || !same_layout(shape, ((const rvm_cell *)(const void *)b)->shape)) {
        return 0;
    }
    bool array = a->kind == RVM_ARRAY;
    const rvm_array *one = (const rvm_array *)(const void *)a, *two = (const rvm_array *)(const void *)b;
    const uint64_t *x = array ? one->items : ((const rvm_cell *)(const void *)a)->fields;
    const uint64_t *y = array ? two->items : ((const rvm_cell *)(const void *)b)->fields;
    uint64_t count = array ? one->length : shape->num_fields;
    if (array && one->length != two->length) {
        return 0;
    }
    for (uint64_t i = 0; i < count; i++) {
        uint64_t row = array ? 0 : i;
        if (shape->field_class[row] != RVM_CLASS_WORD) {
            if (x[i] != y[i] && !push_pair(list, x[i], y[i])) {
                return -1;
            }
        } else if (!same_word(shape->field_dtype[row], x[i], y[i])) {
            return 0;
        }
    }
    return 1;
}

int rvm_value_equal(uint64_t a, uint64_t b) {
    pair_list list = {NULL, 0, 0};
    int same = a == b || push_pair(&list, a, b) ? 1 : -1;
    while (same == 1 && list.length) {
        list.length -= 2;
        same = same_step(&list, word_object(list.items[list.length]), word_object(list.items[list.length + 1]));
    }
    free(list.items);
    return same;
}

uint64_t rvm_value_new_list(const rvm_program *program, uint32_t nil, uint32_t cons, uint32_t item,
                            const uint64_t *items, uint64_t count) {
    uint64_t rest = rvm_value_new_cell(program, nil, NULL);
    bool objects = program->layouts[cons].field_class[item] != RVM_CLASS_WORD;
    for (uint64_t i = count; i-- > 0;) {
        if (rest) {
            uint64_t fields[2];
            fields[item] = items[i];
            fields[1 - item] = rest;
            rest = rvm_value_new_cell(program, cons, fields);
        } else if (objects) {
            rvm_value_release(items[i]);
        }
    }
    return rest;
}
