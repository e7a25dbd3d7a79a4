/* Bodies of the instructions on objects: cells, references, and the short ones on arrays and tensors. A body consumes
 * its owned operands whether it traps or not; results are owned by the register that takes them. */
#ifndef RVM_BODIES_OBJECT_H
#define RVM_BODIES_OBJECT_H

#include "array.h"
#include "bodies_word.h"
#include "machine.h"
#include "reference.h"
#include "tensor.h"

#define LIKELY(condition) __builtin_expect(!!(condition), 1)
#define UNLIKELY(condition) __builtin_expect(!!(condition), 0)

static inline void body_move_object(uint64_t *dst, uint64_t src) {
    *dst = src;
}

static inline void body_borrow(uint64_t *dst, uint64_t src) {
    *dst = src;
}

static inline void body_retain(rvm_machine *m, uint64_t *dst, uint64_t src) {
    (void)m;
    object_retain(word_object(src));
    *dst = src;
}

static inline void body_release(rvm_machine *m, uint64_t src) {
    object_release(&m->heap, word_object(src));
}

static inline void body_constant(rvm_machine *m, uint64_t *dst, uint16_t k) {
    *dst = object_word(m->program->constant_objects[k]);
}

static inline const rvm_layout *body_layout(const rvm_machine *m, uint16_t type) {
    return &m->layouts[type];
}

static inline int32_t body_wrong_layout(rvm_machine *m, uint16_t type) {
    return trap_set(m, RVM_TRAP_BAD_VALUE, "a value is not the `%s` that the program expects",
                    body_layout(m, type)->name);
}

static inline int32_t body_cell_new(rvm_machine *m, uint64_t *dst, uint16_t type, const uint64_t *fields,
                                    uint32_t num_fields) {
    const rvm_layout *shape = body_layout(m, type);
    rvm_cell *cell = heap_alloc(&m->heap, shape->size_class);
    if (UNLIKELY(!cell)) {
        for (unsigned i = 0; i < shape->num_object_fields; i++) {
            object_release(&m->heap, word_object(fields[shape->object_fields[i]]));
        }
        return trap_out_of_memory(m);
    }
    object_init(&m->heap, &cell->head, RVM_CELL, type, shape->size_class);
    m->heap.new_cells++;
    cell->shape = shape;
    for (uint32_t i = 0; i < num_fields; i++) {
        cell->fields[i] = fields[i];
    }
    *dst = object_word(cell);
    return 0;
}

static inline bool body_is_memory(const rvm_cell *cell, unsigned size_class) {
    return object_is_unique(&cell->head) && cell->head.kind == RVM_CELL && cell->head.layout == RVM_NO_LAYOUT &&
           cell->head.size_class == size_class;
}

static inline int32_t body_cell_reuse(rvm_machine *m, uint64_t *dst, uint64_t memory, uint16_t type,
                                      const uint64_t *fields, uint32_t num_fields) {
    const rvm_layout *shape = body_layout(m, type);
    rvm_cell *cell = (rvm_cell *)(uintptr_t)memory;
    if (UNLIKELY(!body_is_memory(cell, shape->size_class))) {
        object_release(&m->heap, &cell->head);
        return body_cell_new(m, dst, type, fields, num_fields);
    }
    cell->head.layout = type;
    m->heap.reused_cells++;
    cell->shape = shape;
    for (uint32_t i = 0; i < num_fields; i++) {
        cell->fields[i] = fields[i];
    }
    *dst = memory;
    return 0;
}

static inline rvm_cell *word_cell(uint64_t word) {
    return (rvm_cell *)(uintptr_t)word;
}

static inline int32_t body_field_word(rvm_machine *m, uint64_t *dst, uint64_t src, uint16_t type, uint16_t i) {
    if (UNLIKELY(word_object(src)->layout != type)) {
        return body_wrong_layout(m, type);
    }
    *dst = word_cell(src)->fields[i];
    return 0;
}

static inline int32_t body_field_borrow(rvm_machine *m, uint64_t *dst, uint64_t src, uint16_t type, uint16_t i) {
    return body_field_word(m, dst, src, type, i);
}

static inline int32_t body_field_retain(rvm_machine *m, uint64_t *dst, uint64_t src, uint16_t type, uint16_t i) {
    uint64_t field = 0;
    int32_t trap = body_field_word(m, &field, src, type, i);
    if (UNLIKELY(trap)) {
        return trap;
    }
    object_retain(word_object(field));
    *dst = field;
    return 0;
}

/* Reads the fields; true if the cell was the caller's alone and is now its memory. Otherwise it is dropped. */
static inline bool body_take_apart(rvm_machine *m, rvm_cell *cell, uint64_t *dst, uint32_t num_dst) {
    for (uint32_t i = 0; i < num_dst; i++) {
        dst[i] = cell->fields[i];
    }
    if (object_is_unique(&cell->head)) {
        return true;
    }
    const rvm_layout *shape = cell->shape;
    for (unsigned i = 0; i < shape->num_object_fields; i++) {
        object_retain(word_object(dst[shape->object_fields[i]]));
    }
    object_release(&m->heap, &cell->head);
    return false;
}

static inline int32_t body_cell_unpack(rvm_machine *m, uint64_t src, uint16_t type, uint64_t *dst,
                                       uint32_t num_dst) {
    rvm_cell *cell = word_cell(src);
    if (UNLIKELY(cell->head.layout != type)) {
        object_release(&m->heap, &cell->head);
        return body_wrong_layout(m, type);
    }
    const unsigned size_class = cell->shape->size_class;
    if (body_take_apart(m, cell, dst, num_dst)) {
#ifdef RVM_STRESS
        m->heap.live_objects--;
#endif
        heap_free(&m->heap, cell, size_class);
    }
    return 0;
}

static inline int32_t body_cell_unpack_keep(rvm_machine *m, uint64_t *memory, uint64_t src, uint16_t type,
                                            uint64_t *dst, uint32_t num_dst) {
    const rvm_layout *shape = body_layout(m, type);
    if (shape->size_class > HEAP_SMALL_LIMIT / 16) {
        *memory = object_word(&heap_nothing);
        return body_cell_unpack(m, src, type, dst, num_dst);
    }
    rvm_cell *cell = word_cell(src);
    if (UNLIKELY(cell->head.layout != type)) {
        object_release(&m->heap, &cell->head);
        return body_wrong_layout(m, type);
    }
    if (!body_take_apart(m, cell, dst, num_dst)) {
        *memory = object_word(&heap_nothing);
        return 0;
    }
#ifdef RVM_STRESS
    memset(cell->fields, 0xDD, num_dst * sizeof *dst);
#endif
    cell->head.layout = RVM_NO_LAYOUT;
    cell->shape = &heap_memory_shapes[shape->size_class];
    *memory = src;
    return 0;
}

static inline int32_t body_tag(rvm_machine *m, uint64_t *dst, uint64_t src, uint16_t type) {
    uint32_t tag = (uint32_t)word_object(src)->layout - type;
    if (UNLIKELY(tag >= body_layout(m, type)->num_constructors)) {
        return body_wrong_layout(m, type);
    }
    *dst = tag;
    return 0;
}

static inline int32_t body_ref_new(rvm_machine *m, uint64_t *dst, uint16_t type, uint64_t value) {
    rvm_ref *ref = reference_new(&m->heap, body_layout(m, type), value);
    *dst = object_word(ref);
    return ref ? 0 : trap_out_of_memory(m);
}

static inline int32_t body_ref_new_word(rvm_machine *m, uint64_t *dst, uint16_t type, uint64_t value) {
    return body_ref_new(m, dst, type, value);
}

static inline rvm_ref *word_ref(uint64_t word) {
    return (rvm_ref *)(uintptr_t)word;
}

static inline int32_t body_ref_read(rvm_machine *m, uint64_t *dst, uint64_t ref, uint16_t type) {
    if (UNLIKELY(word_object(ref)->layout != type)) {
        return body_wrong_layout(m, type);
    }
    return reference_read(word_ref(ref), dst) ? 0 : trap_empty_reference(m);
}

static inline int32_t body_ref_read_word(rvm_machine *m, uint64_t *dst, uint64_t ref, uint16_t type) {
    return body_ref_read(m, dst, ref, type);
}

static inline int32_t body_ref_write(rvm_machine *m, uint64_t ref, uint16_t type, uint64_t value) {
    if (UNLIKELY(word_object(ref)->layout != type)) {
        if (body_layout(m, type)->num_object_fields) {
            object_release(&m->heap, word_object(value));
        }
        return body_wrong_layout(m, type);
    }
    return reference_write(&m->heap, word_ref(ref), value, m->program) ? 0 : trap_out_of_memory(m);
}

static inline int32_t body_ref_write_word(rvm_machine *m, uint64_t ref, uint16_t type, uint64_t value) {
    return body_ref_write(m, ref, type, value);
}

static inline int32_t body_ref_take(rvm_machine *m, uint64_t *dst, uint64_t ref, uint16_t type) {
    if (UNLIKELY(word_object(ref)->layout != type)) {
        return body_wrong_layout(m, type);
    }
    return reference_take(word_ref(ref), dst) ? 0 : trap_empty_reference(m);
}

static inline int32_t body_array_new(rvm_machine *m, uint64_t *dst, uint16_t type, uint64_t capacity) {
    return array_new(m, body_layout(m, type), (int64_t)capacity, dst);
}

static inline int32_t body_array_length(rvm_machine *m, uint64_t *dst, uint64_t src, uint16_t type) {
    if (UNLIKELY(word_object(src)->layout != type)) {
        return body_wrong_layout(m, type);
    }
    *dst = word_array(src)->length;
    return 0;
}

static inline int32_t body_array_get_word(rvm_machine *m, uint64_t *dst, uint64_t src, uint16_t type, uint64_t i) {
    if (UNLIKELY(word_object(src)->layout != type)) {
        return body_wrong_layout(m, type);
    }
    const rvm_array *array = word_array(src);
    if (UNLIKELY(i >= array->length)) { /* a negative index is a large one */
        return array_bad_index(m, array, i);
    }
    *dst = array->items[i];
    return 0;
}

static inline int32_t body_array_get(rvm_machine *m, uint64_t *dst, uint64_t src, uint16_t type, uint64_t i) {
    uint64_t item = 0;
    int32_t trap = body_array_get_word(m, &item, src, type, i);
    if (!trap) {
        object_retain(word_object(item));
        *dst = item;
    }
    return trap;
}

static inline int32_t body_array_set(rvm_machine *m, uint64_t *dst, uint64_t src, uint16_t type, uint64_t i,
                                     uint64_t value) {
    return array_set(m, body_layout(m, type), src, i, value, dst);
}

static inline int32_t body_array_set_word(rvm_machine *m, uint64_t *dst, uint64_t src, uint16_t type, uint64_t i,
                                          uint64_t value) {
    return array_set(m, body_layout(m, type), src, i, value, dst);
}

static inline int32_t body_array_push(rvm_machine *m, uint64_t *dst, uint64_t src, uint16_t type, uint64_t value) {
    return array_push(m, body_layout(m, type), src, value, dst);
}

static inline int32_t body_array_push_word(rvm_machine *m, uint64_t *dst, uint64_t src, uint16_t type,
                                           uint64_t value) {
    return array_push(m, body_layout(m, type), src, value, dst);
}

#endif
