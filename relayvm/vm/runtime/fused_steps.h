/* What the blocks of fused instructions are made of. Each does the common case and leaves any other to the instruction
 * itself, before anything has changed. Not for the interpreters that stop at each instruction. */
#ifndef RVM_FUSED_STEPS_H
#define RVM_FUSED_STEPS_H

/* The torture build counts, poisons and refuses memory, and moves each frame, where the instructions themselves do it. */
#ifdef RVM_STRESS
#define IS_COMMON 0
#else
#define IS_COMMON 1
#endif

#define REPEAT() ENTER_CODE(FRAME->function->code)

#define RETURN_1(value)                                                                           \
    do {                                                                                          \
        BEGIN_RETURN();                                                                           \
        caller->slots[list[0]] = (value);                                                         \
        END_RETURN(1);                                                                            \
    } while (0)
#define RETURN_2(a, b)                                                                            \
    do {                                                                                          \
        BEGIN_RETURN();                                                                           \
        caller->slots[list[0]] = (a);                                                             \
        caller->slots[list[1]] = (b);                                                             \
        END_RETURN(2);                                                                            \
    } while (0)
#define BEGIN_RETURN()                                                                            \
    rvm_frame *const caller = FRAME->caller;                                                      \
    if (UNLIKELY(!caller)) {                                                                      \
        goto op_return;                                                                           \
    }                                                                                             \
    const uint16_t *const list = caller->results + 1
#define END_RETURN(n)                                                                             \
    frame_pop(m, FRAME);                                                                          \
    state++;                                                                                      \
    r = caller->slots;                                                                            \
    NEXT_AT(list + (n))

/* Whether a closure can be called, and its function fits where the innermost frame is. */
#define FITS_FRAME(closure, signature)                                                            \
    (IS_COMMON && is_closure(closure, signature) &&                                               \
     (size_t)(m->limit - (uint8_t *)FRAME) >= word_cell(closure)->shape->callee->frame_bytes)
#define REPLACE_FRAME(target)                                                                     \
    do {                                                                                          \
        callee = (target);                                                                        \
        FRAME->function = callee;                                                                 \
        frame_clear(FRAME, callee);                                                               \
    } while (0)

/* Memory for a cell, or null. */
#define CELL_MEMORY(size_class) cell_memory(&m->heap, size_class)
#define KEPT_MEMORY(size_class, memory) kept_memory(&m->heap, size_class, memory)
#define START_CELL(cell, type)                                                                    \
    do {                                                                                          \
        const rvm_layout *shape = &m->layouts[type];                                              \
        memcpy(&(cell)->head, &shape->head, sizeof(cell)->head);                                  \
        (cell)->shape = shape;                                                                    \
    } while (0)
/* Whether a cell is of this layout and nobody else's. */
#define IS_SOLE(cell, type) (IS_COMMON && (cell)->head.layout == (type) && object_is_unique(&(cell)->head))
#define FREE_MEMORY(cell, size_class) heap_free(&m->heap, cell, size_class)
#define KEEP_MEMORY(cell, size_class)                                                             \
    do {                                                                                          \
        (cell)->head.layout = RVM_NO_LAYOUT;                                                      \
        (cell)->shape = &heap_memory_shapes[size_class];                                          \
    } while (0)

static inline rvm_cell *cell_memory(rvm_heap *heap, unsigned size_class) {
    heap_block *block = IS_COMMON ? heap->free_blocks[size_class] : NULL;
    if (LIKELY(block)) {
        heap->free_blocks[size_class] = block->next;
        heap->new_cells++;
    }
    return (rvm_cell *)(void *)block;
}

static inline rvm_cell *kept_memory(rvm_heap *heap, unsigned size_class, uint64_t memory) {
    rvm_cell *cell = word_cell(memory);
    if (LIKELY(IS_COMMON && body_is_memory(cell, size_class))) {
        heap->reused_cells++;
        return cell;
    }
    return NULL;
}

#endif
