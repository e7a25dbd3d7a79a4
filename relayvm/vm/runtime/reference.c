/* Making, reading and writing references. */
#include "reference.h"

#include "cycles.h"

static bool is_shared(const rvm_ref *ref) {
    return object_count(&ref->head) < 0;
}

static void lock(rvm_ref *ref) {
    while (atomic_exchange_explicit(&ref->lock, 1, memory_order_acquire)) {
    }
}

static void unlock(rvm_ref *ref) {
    atomic_store_explicit(&ref->lock, 0, memory_order_release);
}

rvm_ref *reference_new(rvm_heap *heap, const rvm_layout *shape, uint64_t value) {
    unsigned size_class = heap_size_class(sizeof(rvm_ref));
#ifdef RVM_STRESS
    if (heap->num_refs < 64) { /* more would take too long */
        heap_scan_cycles(heap);
    }
#endif
    rvm_ref *ref = heap_alloc(heap, size_class);
    if (!ref) {
        if (shape->num_object_fields) {
            object_release(heap, word_object(value));
        }
        return NULL;
    }
    object_init(heap, &ref->head, RVM_REF, shape->number, size_class);
    ref->shape = shape;
    ref->value = value;
    atomic_init(&ref->lock, 0);
    ref->full = 1;
    ref->previous = ref->next = NULL;
    if (shape->num_object_fields && !heap->is_host) {
        heap_link_ref(heap, ref);
    }
    return ref;
}

bool reference_read(rvm_ref *ref, uint64_t *value) {
    bool shared = is_shared(ref);
    if (shared) {
        lock(ref);
    }
    bool full = ref->full != 0;
    if (full) {
        *value = ref->value;
        if (ref->shape->num_object_fields) {
            object_retain(word_object(ref->value));
        }
    }
    if (shared) {
        unlock(ref);
    }
    return full;
}

bool reference_take(rvm_ref *ref, uint64_t *value) {
    if (is_shared(ref)) { /* others may look at any time, also after a trap */
        return reference_read(ref, value);
    }
    bool full = ref->full != 0;
    if (full) {
        *value = ref->value;
        ref->value = 0;
        ref->full = 0;
    }
    return full;
}

bool reference_write(rvm_heap *heap, rvm_ref *ref, uint64_t value, rvm_program *program) {
    bool objects = ref->shape->num_object_fields != 0;
    bool shared = is_shared(ref);
    if (shared) {
        if (objects && !heap_share(heap, word_object(value))) {
            object_release(heap, word_object(value));
            return false;
        }
        lock(ref);
    }
    uint64_t old = ref->full ? ref->value : 0;
    ref->value = value;
    ref->full = 1;
    if (shared) {
        unlock(ref);
    }
    if (!objects || !old) {
        return true;
    }
    if (shared && cycles_may_pass(word_object(old), true)) {
        /* Under the lock already where the host writes. */
        if (heap->is_host) {
            shared_cycles_drop(heap, word_object(old), program, 0);
        } else {
            heap_host_lock();
            shared_cycles_drop(heap, word_object(old), heap->program, 1);
            heap_host_unlock();
        }
        return true;
    }
    object_release(heap, word_object(old));
    return true;
}
