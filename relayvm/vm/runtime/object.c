/* What happens when the last reference to an object goes, and when an object leaves its machine. All of it is
 * iterative: a list of a million cells is freed and shared in constant C stack. */
#include "object.h"

#include "cycles.h"
#include "tensor.h"

#include <stdlib.h>
#include <string.h>

#define FREED_AT_ONCE ((uint64_t)32) /* items of an array */

static uint64_t object_bytes(const rvm_object *object) {
    uint64_t bytes = heap_class_bytes(object->size_class);
    if (object->kind == RVM_ARRAY) {
        const rvm_array *array = (const rvm_array *)(const void *)object;
        if (array->items) {
            bytes += heap_class_bytes((unsigned)array->items_class);
        }
    }
    return bytes;
}

/* Drops one reference; true if it was the last, and then the object is the caller's to free. */
static bool drop(rvm_heap *heap, rvm_object *object) {
    int32_t count = object_count(object);
    if (object_is_local(count)) {
        if (count > 1) {
            object_set_count(object, count - 1);
            return false;
        }
#ifdef RVM_STRESS
        heap->live_objects--;
#endif
        return true;
    }
    if (count == 0 || count > 0 ||
        atomic_fetch_add_explicit(&object->count, 1, memory_order_acq_rel) != -1) {
        return false;
    }
    const uint64_t bytes = object_bytes(object);
    heap->held_bytes += bytes; /* shared blocks are nobody's until someone frees them */
    heap->adopted_bytes += (int64_t)bytes;
    return true;
}

static void free_storage(rvm_heap *heap, rvm_storage *storage) {
    heap_free(heap, storage_block(storage), storage->head.size_class);
}

static void free_tensor(rvm_heap *heap, rvm_tensor *tensor) {
    if (tensor->storage && drop(heap, &tensor->storage->head)) {
        free_storage(heap, tensor->storage);
    }
    heap_free(heap, tensor, tensor->head.size_class);
}

/* The dead wait in a list that is linked through their headers; kind and size are found through the layout. */
typedef struct dead_cell {
    struct dead_cell *next;
    const struct rvm_layout *shape;
} dead_cell;

static dead_cell *bury(rvm_heap *heap, rvm_object *object, dead_cell *dead) {
    if (object->kind == RVM_TENSOR) {
        free_tensor(heap, (rvm_tensor *)(void *)object);
        return dead;
    }
    if (object->kind == RVM_STORAGE) {
        free_storage(heap, (rvm_storage *)(void *)object);
        return dead;
    }
    dead_cell *cell = (dead_cell *)(void *)object;
    cell->next = dead;
    return cell;
}

static dead_cell *drop_child(rvm_heap *heap, uint64_t word, dead_cell *dead) {
    rvm_object *child = word_object(word);
    return child && drop(heap, child) ? bury(heap, child, dead) : dead;
}

/* The first object that another holds, if any. */
static const rvm_object *first_held(const rvm_object *object) {
    if (object && object->kind == RVM_TENSOR) {
        return (const rvm_object *)((const rvm_tensor *)(const void *)object)->storage;
    }
    if (object && object->kind == RVM_CELL) {
        const rvm_cell *cell = (const rvm_cell *)(const void *)object;
        return cell->shape->num_object_fields ? word_object(cell->fields[cell->shape->object_fields[0]]) : NULL;
    }
    return NULL;
}

/* Items of a long array were made long ago and lie in no cache any more, nor do tensors and their memory in cells. All
 * are fetched at once, a step down for all before the next. */
static void prefetch_items(const uint64_t *items) {
    for (unsigned i = 0; i < FREED_AT_ONCE; i++) {
        __builtin_prefetch(word_object(items[i]), 1);
    }
    for (unsigned i = 0; i < FREED_AT_ONCE; i++) {
        __builtin_prefetch(first_held(word_object(items[i])), 1);
    }
    for (unsigned i = 0; i < FREED_AT_ONCE; i++) {
        __builtin_prefetch(first_held(first_held(word_object(items[i]))), 1);
    }
}

/* Drops the last few items of an array; the rest waits behind those that die with them, which so are still in a cache
 * when their turn comes. */
static dead_cell *free_array(rvm_heap *heap, rvm_array *array, dead_cell *dead) {
    if (array->items && array->length && array->shape->num_object_fields) {
        const uint64_t count = array->length < FREED_AT_ONCE ? array->length : FREED_AT_ONCE;
        const uint64_t *items = array->items + (array->length - count);
        array->length -= count;
        dead_cell *rest = (dead_cell *)(void *)array;
        rest->next = dead;
        dead = rest;
        if (count == FREED_AT_ONCE) {
            prefetch_items(items);
        }
        for (uint64_t i = 0; i < count; i++) {
            dead = drop_child(heap, items[i], dead);
        }
        return dead;
    }
    if (array->items) {
        heap_free(heap, array->items, (unsigned)array->items_class);
    }
    heap_free(heap, array, heap_size_class(sizeof(rvm_array)));
    return dead;
}

static dead_cell *free_ref(rvm_heap *heap, rvm_ref *ref, dead_cell *dead) {
    heap_unlink_ref(heap, ref);
    if (ref->full && ref->shape->num_object_fields) {
        dead = drop_child(heap, ref->value, dead);
    }
    heap_free(heap, ref, heap_size_class(sizeof(rvm_ref)));
    return dead;
}

static dead_cell *free_cell(rvm_heap *heap, rvm_cell *cell, dead_cell *dead) {
    const rvm_layout *shape = cell->shape;
    for (unsigned i = 0; i < shape->num_object_fields; i++) {
        dead = drop_child(heap, cell->fields[shape->object_fields[i]], dead);
    }
    heap_free(heap, cell, shape->size_class);
    return dead;
}

static void free_graph(rvm_heap *heap, rvm_object *object) {
    dead_cell *dead = bury(heap, object, NULL);
    while (dead) {
        dead_cell *cell = dead;
        dead = cell->next;
        if (cell->shape->kind == RVM_LAYOUT_ARRAY) {
            dead = free_array(heap, (rvm_array *)(void *)cell, dead);
        } else if (cell->shape->kind == RVM_LAYOUT_REF) {
            dead = free_ref(heap, (rvm_ref *)(void *)cell, dead);
        } else {
            dead = free_cell(heap, (rvm_cell *)(void *)cell, dead);
        }
    }
}

void heap_destroy(rvm_heap *heap, rvm_object *object) {
#ifdef RVM_STRESS
    heap->live_objects--;
#endif
    free_graph(heap, object);
}

void heap_release_shared(rvm_heap *heap, rvm_object *object) {
    if (drop(heap, object)) {
        free_graph(heap, object);
    }
}

typedef struct share_list {
    size_t length, shared;
    bool failed, stuck;
} share_list;

#define FIRST_SHARES ((uint64_t)256)
#define MOST_KEPT_SHARES ((uint64_t)64 * 1024)

static bool grow_shares(rvm_heap *heap) {
    const uint64_t room = heap->room_shares ? heap->room_shares * 2 : FIRST_SHARES;
    rvm_object **items = realloc(heap->shares, room * sizeof *items);
    if (!items) {
        return false;
    }
    heap->system_calls++;
    heap->shares = items;
    heap->room_shares = room;
    return true;
}

static void share_push(rvm_heap *heap, share_list *list, uint64_t word) {
    rvm_object *object = word_object(word);
    if (!object || object_count(object) <= 0) {
        return;
    }
    int32_t count = object_count(object);
    object_set_count(object, count >= RVM_STICKY ? 0 : -count);
    const uint64_t bytes = object_bytes(object);
    heap->held_bytes -= bytes;
    heap->adopted_bytes -= heap->adopted_bytes > 0 ? (int64_t)bytes : 0;
#ifdef RVM_STRESS
    heap->live_objects--;
#endif
    if (list->length == heap->room_shares && !grow_shares(heap)) {
        list->failed = list->stuck = true;
        return;
    }
    list->shared++;
    heap->shares[list->length++] = object;
}

static void share_children(rvm_heap *heap, share_list *list, rvm_object *object) {
    if (object->kind == RVM_TENSOR) {
        rvm_tensor *tensor = (rvm_tensor *)(void *)object;
        if (tensor->storage && tensor->storage->foreign && !tensor_detach(heap, tensor)) {
            list->failed = true; /* the rest is shared all the same, so that it can be dropped */
        }
        share_push(heap, list, object_word(tensor->storage));
    } else if (object->kind == RVM_ARRAY) {
        rvm_array *array = (rvm_array *)(void *)object;
        for (uint64_t i = 0; array->shape->num_object_fields && i < array->length; i++) {
            share_push(heap, list, array->items[i]);
        }
    } else if (object->kind == RVM_REF) {
        rvm_ref *ref = (rvm_ref *)(void *)object;
        heap_unlink_ref(heap, ref);
        if (ref->full && ref->shape->num_object_fields) {
            share_push(heap, list, ref->value);
        }
    } else if (object->kind == RVM_CELL) {
        rvm_cell *cell = (rvm_cell *)(void *)object;
        for (unsigned i = 0; i < cell->shape->num_object_fields; i++) {
            share_push(heap, list, cell->fields[cell->shape->object_fields[i]]);
        }
    }
}

bool heap_share(rvm_heap *heap, rvm_object *object) {
    share_list list = {0};
    share_push(heap, &list, object_word(object));
    while (list.length && !list.stuck) {
        share_children(heap, &list, heap->shares[--list.length]);
    }
    if (heap->room_shares > MOST_KEPT_SHARES) {
        free(heap->shares);
        heap->shares = NULL;
        heap->room_shares = 0;
    }
    if (list.shared) {
        shared_cycles_made(list.shared);
    }
    return !list.failed;
}
