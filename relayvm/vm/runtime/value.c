/* Host values: construction, inspection and release under the lock of the host heap. */
#include "value.h"

#include "array.h"
#include "cycles.h"
#include "reference.h"
#include "tensor.h"

void rvm_value_inspect(uint64_t value, rvm_value_info *info) {
    const rvm_object *object = word_object(value);
    memset(info, 0, sizeof *info);
    info->kind = object->kind;
    info->layout = object->layout;
    if (object->kind == RVM_TENSOR) {
        const rvm_tensor *tensor = word_tensor(value);
        info->dtype = tensor->dtype;
        info->rank = tensor->rank;
        info->elements = tensor->elements;
        info->data = tensor->data;
        memcpy(info->dims, tensor->dims, tensor->rank * sizeof(int64_t));
        return;
    }
    const rvm_layout *shape = ((const rvm_cell *)(const void *)object)->shape;
    info->layout_kind = shape->kind;
    info->tag = shape->constructor;
    info->num_fields = object->kind == RVM_ARRAY ? word_array(value)->length : shape->num_fields;
    info->name = shape->name;
    info->type_name = shape->type_name;
    info->field_dtype = shape->field_dtype;
}

void rvm_value_retain(uint64_t value) {
    object_retain(word_object(value));
}

void rvm_value_release(uint64_t value) {
    rvm_heap *heap = heap_host_lock();
    object_release(heap, word_object(value));
    heap_host_unlock();
}

void rvm_value_drop(uint64_t value, rvm_program *program) {
    if (program->cyclic) {
        shared_cycles_drop(heap_host_lock(), word_object(value), program, 0);
        heap_host_unlock();
        shared_cycles_settle(SHARED_CYCLES_DROP);
    } else {
        rvm_value_release(value);
    }
    rvm_program_release(program);
}

void rvm_value_fields(uint64_t value, uint64_t *fields) {
    const rvm_object *object = word_object(value);
    if (object->kind == RVM_ARRAY) {
        const rvm_array *array = word_array(value);
        if (array->length) {
            memcpy(fields, array->items, array->length * sizeof *fields);
        }
    } else if (object->kind == RVM_CELL) {
        const rvm_cell *cell = (const rvm_cell *)(const void *)object;
        memcpy(fields, cell->fields, cell->shape->num_fields * sizeof *fields);
    }
}

void rvm_value_copy_data(uint64_t value, void *to) {
    const rvm_tensor *tensor = word_tensor(value);
    if (tensor->elements) {
        memmove(to, tensor->data, tensor_bytes(tensor)); /* it may be an argument, and so may the place */
    }
}

bool rvm_value_read_reference(uint64_t value, uint64_t *content) {
    return reference_read((rvm_ref *)(uintptr_t)value, content);
}

bool rvm_value_write_reference(uint64_t value, uint64_t content, rvm_program *program) {
    rvm_heap *heap = heap_host_lock();
    bool written = reference_write(heap, (rvm_ref *)(uintptr_t)value, content, program);
    heap_host_unlock();
    return written;
}

void rvm_value_take_data(uint64_t value, void *to) {
    rvm_value_copy_data(value, to);
    rvm_value_release(value);
}

uint64_t rvm_value_new_tensor(uint8_t dtype, uint32_t rank, const int64_t *dims, const void *data) {
    int64_t elements;
    if (rank > RVM_MAX_RANK || !tensor_count_elements(rank, dims, dtype, &elements)) {
        return 0;
    }
    rvm_heap *heap = heap_host_lock();
    rvm_tensor *tensor = tensor_new(heap, dtype, rank, dims, elements);
    heap_host_unlock();
    if (tensor && elements) {
        memcpy(tensor->data, data, tensor_bytes(tensor));
    }
    return object_word(tensor);
}

uint64_t rvm_value_new_word(uint8_t dtype, uint64_t word) {
    return rvm_value_new_tensor(dtype, 0, NULL, &word); /* hosts are little endian */
}

static void drop_fields(rvm_heap *heap, const rvm_layout *shape, const uint64_t *fields) {
    for (unsigned i = 0; i < shape->num_object_fields; i++) {
        object_release(heap, word_object(fields[shape->object_fields[i]]));
    }
}

uint64_t rvm_value_new_cell(const rvm_program *program, uint32_t layout, const uint64_t *fields) {
    const rvm_layout *shape = &program->layouts[layout];
    rvm_heap *heap = heap_host_lock();
    rvm_cell *cell = heap_alloc(heap, shape->size_class);
    if (cell) {
        object_init(heap, &cell->head, RVM_CELL, shape->number, shape->size_class);
        cell->shape = shape;
        for (unsigned i = 0; i < shape->num_fields; i++) {
            cell->fields[i] = fields[i];
        }
    } else {
        drop_fields(heap, shape, fields);
    }
    heap_host_unlock();
    return object_word(cell);
}

uint64_t rvm_value_new_reference(const rvm_program *program, uint32_t layout, uint64_t content) {
    rvm_heap *heap = heap_host_lock();
    rvm_ref *ref = reference_new(heap, &program->layouts[layout], content);
    heap_host_unlock();
    return object_word(ref);
}

uint64_t rvm_value_new_array(const rvm_program *program, uint32_t layout, const uint64_t *items, uint64_t length) {
    const rvm_layout *shape = &program->layouts[layout];
    rvm_heap *heap = heap_host_lock();
    rvm_array *array = array_alloc(heap, shape, length);
    if (array) {
        if (length) {
            memcpy(array->items, items, length * sizeof *items);
        }
        array->length = length;
    }
    for (uint64_t i = 0; !array && shape->num_object_fields && i < length; i++) {
        object_release(heap, word_object(items[i]));
    }
    heap_host_unlock();
    return object_word(array);
}

uint64_t rvm_value_load_word(uint8_t dtype, const void *element) {
    return tensor_load_word(dtype, element);
}
