/* Making, changing and growing arrays. */
#include "array.h"

#include <string.h>

#define MOST_ITEMS ((uint64_t)INT32_MAX) /* a length is an int32 */

rvm_array *array_alloc(rvm_heap *heap, const rvm_layout *shape, uint64_t capacity) {
    unsigned size_class = heap_size_class(sizeof(rvm_array));
    rvm_array *array = heap_alloc(heap, size_class);
    if (!array) {
        return NULL;
    }
    object_init(heap, &array->head, RVM_ARRAY, shape->number, size_class);
    array->shape = shape;
    array->length = 0;
    array->capacity = 0;
    array->items = NULL;
    array->items_class = 0;
    if (capacity) {
        array->items_class = heap_size_class(capacity * sizeof(uint64_t));
        array->items = heap_alloc(heap, (unsigned)array->items_class);
        if (!array->items) {
            object_release(heap, &array->head);
            return NULL;
        }
        array->capacity = heap_class_bytes((unsigned)array->items_class) / sizeof(uint64_t);
    }
    return array;
}

int32_t array_new(rvm_machine *m, const rvm_layout *shape, int64_t capacity, uint64_t *result) {
    if (capacity < 0 || (uint64_t)capacity > MOST_ITEMS) {
        return trap_set(m, RVM_TRAP_SIZE_OVERFLOW, "an array cannot have room for %lld items", (long long)capacity);
    }
    rvm_array *array = array_alloc(&m->heap, shape, (uint64_t)capacity);
    *result = object_word(array);
    return array ? 0 : trap_out_of_memory(m);
}

/* A unique array of the same items with room for `capacity`; consumes `array` unless it returns null. */
static rvm_array *array_copy(rvm_machine *m, rvm_array *array, uint64_t capacity) {
    rvm_heap *heap = &m->heap;
    m->copied_items += array->length;
    rvm_array *copy = array_alloc(heap, array->shape, capacity);
    if (!copy) {
        return NULL;
    }
    if (array->length) {
        memcpy(copy->items, array->items, array->length * sizeof(uint64_t));
    }
    copy->length = array->length;
    if (array->shape->num_object_fields) {
        for (uint64_t i = 0; i < copy->length; i++) {
            object_retain(word_object(copy->items[i]));
        }
    }
    object_release(heap, &array->head);
    return copy;
}

static bool array_grow(rvm_heap *heap, rvm_array *array) {
    uint64_t capacity = array->capacity ? array->capacity * 2 : 4;
    unsigned size_class = heap_size_class(capacity * sizeof(uint64_t));
    uint64_t *items = heap_alloc(heap, size_class);
    if (!items) {
        return false;
    }
    if (array->items) {
        memcpy(items, array->items, array->length * sizeof(uint64_t));
        heap_free(heap, array->items, (unsigned)array->items_class);
    }
    array->items = items;
    array->items_class = size_class;
    array->capacity = heap_class_bytes(size_class) / sizeof(uint64_t);
    return true;
}

int32_t array_bad_index(rvm_machine *m, const rvm_array *array, uint64_t i) {
    return trap_set(m, RVM_TRAP_INDEX_OUT_OF_RANGE, "index %lld of an array of %llu item%s", (long long)i,
                    (unsigned long long)array->length, array->length == 1 ? "" : "s");
}

static int32_t give_up(rvm_machine *m, const rvm_layout *shape, uint64_t array, uint64_t value, int32_t trap) {
    object_release(&m->heap, word_object(array));
    if (shape->num_object_fields) {
        object_release(&m->heap, word_object(value));
    }
    return trap;
}

static int32_t wrong_layout(rvm_machine *m, const rvm_layout *shape) {
    return trap_set(m, RVM_TRAP_BAD_VALUE, "a value is not the `%s` that the program expects", shape->name);
}

int32_t array_set(rvm_machine *m, const rvm_layout *shape, uint64_t word, uint64_t i, uint64_t value,
                  uint64_t *result) {
    rvm_array *array = word_array(word);
    if (array->head.layout != shape->number) {
        return give_up(m, shape, word, value, wrong_layout(m, shape));
    }
    if (i >= array->length) {
        return give_up(m, shape, word, value, array_bad_index(m, array, i));
    }
    if (!object_is_unique(&array->head)) {
        rvm_array *copy = array_copy(m, array, array->length);
        if (!copy) {
            return give_up(m, shape, word, value, trap_out_of_memory(m));
        }
        array = copy;
    }
    uint64_t old = array->items[i];
    array->items[i] = value;
    if (shape->num_object_fields) {
        object_release(&m->heap, word_object(old));
    }
    *result = object_word(array);
    return 0;
}

int32_t array_push(rvm_machine *m, const rvm_layout *shape, uint64_t word, uint64_t value, uint64_t *result) {
    rvm_array *array = word_array(word);
    if (array->head.layout != shape->number) {
        return give_up(m, shape, word, value, wrong_layout(m, shape));
    }
    if (!object_is_unique(&array->head)) {
        rvm_array *copy = array_copy(m, array, array->length + array->length / 2 + 4);
        if (!copy) {
            return give_up(m, shape, word, value, trap_out_of_memory(m));
        }
        array = copy;
    }
    if (array->length == MOST_ITEMS) {
        int32_t trap = trap_set(m, RVM_TRAP_SIZE_OVERFLOW, "an array cannot have more than %lld items",
                                (long long)MOST_ITEMS);
        return give_up(m, shape, object_word(array), value, trap);
    }
    if (array->length == array->capacity && !array_grow(&m->heap, array)) {
        return give_up(m, shape, object_word(array), value, trap_out_of_memory(m));
    }
    array->items[array->length++] = value;
    *result = object_word(array);
    return 0;
}
