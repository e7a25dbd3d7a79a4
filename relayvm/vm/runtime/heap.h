/* The heap: pooled blocks by size class, and the release of objects. One heap belongs to one machine; the host heap is
 * shared and locked. Memory moves between them in blocks, so whoever drops the last reference keeps the block. */
#ifndef RVM_HEAP_H
#define RVM_HEAP_H

#include "object.h"
#include "program.h"

#define HEAP_CLASSES 224
#define HEAP_SMALL_LIMIT 1024u         /* classes of 16 bytes each up to here, then four a doubling */
#define HEAP_POOLED_LIMIT (32u * 1024) /* larger blocks come from the system one by one */

typedef struct heap_block {
    struct heap_block *next;
} heap_block;

typedef struct rvm_heap {
    heap_block *free_blocks[HEAP_CLASSES];
    uint64_t held_bytes;  /* blocks in use by local objects and in the free lists, and other counted memory */
    uint64_t peak_bytes;  /* the most that was ever held */
    uint64_t limit_bytes; /* what may be held */
    int64_t adopted_bytes; /* freed here and made elsewhere, less what went the other way */
    uint64_t system_calls; /* memory fetched from the system, for stats */
    uint64_t new_cells, reused_cells; /* cells made from free memory, and in that of dead ones */
    uint8_t *bump;
    uint8_t *bump_end;
    rvm_ref refs; /* ring of this heap's local references that hold objects */
    uint64_t num_refs;
    uint64_t scan_refs, scan_bytes; /* as many references, or held bytes, make a search for cycles worth while */
    int64_t live_objects; /* local objects alive; audited by the stress build */
    int64_t fail_countdown; /* stress: the allocation that makes it reach 0 fails; negative is off */
    void *cycle_rows, *cycle_slots; /* the table of the last search for cycles, for the next */
    uint32_t room_cycles;
    rvm_object **shares; /* room for what waits to be shared */
    uint64_t room_shares;
    bool is_host;
    struct rvm_program *program; /* of the machine */
} rvm_heap;

void heap_init(rvm_heap *heap, uint64_t limit_bytes);
void heap_close(rvm_heap *heap);
/* Gives free memory to the depot, and from there to the system. */
void heap_trim(rvm_heap *heap);
/* Gives tables that are kept for later calls back to the system; valid between calls. */
void heap_free_tables(rvm_heap *heap);

/* Gives free blocks to the depot where many have come from elsewhere: whoever made them needs new ones. */
void heap_balance(rvm_heap *heap);

/* The host heap, taken and given back around each use. */
rvm_heap *heap_host_lock(void);
void heap_host_unlock(void);

unsigned heap_size_class(uint64_t bytes);
uint64_t heap_class_bytes(unsigned size_class);

/* Returns null when the limit or the system refuses. */
void *heap_alloc_slow(rvm_heap *heap, unsigned size_class);
void heap_free_slow(rvm_heap *heap, void *block, unsigned size_class);

/* Counts memory that is not a block (stack segments); false if the limit forbids it. */
bool heap_charge(rvm_heap *heap, uint64_t bytes);
void heap_uncharge(rvm_heap *heap, uint64_t bytes);

/* Consumes the last reference to `object`, whose count is already known to be spent. Iterative. */
void heap_destroy(rvm_heap *heap, rvm_object *object);
void heap_release_shared(rvm_heap *heap, rvm_object *object);

/* Makes `object` and all it reaches usable by any thread and independent of the host's arrays. False if memory ran
 * out; then the caller must drop it. */
bool heap_share(rvm_heap *heap, rvm_object *object);

/* cycles.c: the ring of references, and those that only cycles keep alive. A reference that is not in the ring may be
 * unlinked. */
void heap_link_ref(rvm_heap *heap, rvm_ref *ref);
void heap_unlink_ref(rvm_heap *heap, rvm_ref *ref);
/* Searches for them; linear in what the references reach. Gives up silently where it gets no memory. */
void heap_scan_cycles(rvm_heap *heap);
/* Makes the first search of a run due as if nothing were known. */
void heap_begin_scans(rvm_heap *heap);
/* Empties them all; valid when no frame of the machine holds any object. */
void heap_collect_cycles(rvm_heap *heap);

/* Held bytes that are not free blocks. Linear in the free blocks. */
uint64_t heap_used_bytes(const rvm_heap *heap);

/* A cell that a match took apart: memory that waits for the next cell of its size, as an object without fields of which
 * no instruction believes that it is anything else. `heap_nothing` stands for memory that there is not. */
extern const rvm_layout heap_memory_shapes[HEAP_SMALL_LIMIT / 16 + 1];
extern rvm_cell heap_nothing;

static inline bool heap_scan_is_due(const rvm_heap *heap) {
    return heap->num_refs && (heap->num_refs >= heap->scan_refs || heap->held_bytes > heap->scan_bytes);
}

static inline void *heap_alloc(rvm_heap *heap, unsigned size_class) {
#ifndef RVM_STRESS
    heap_block *block = heap->free_blocks[size_class];
    if (block) {
        heap->free_blocks[size_class] = block->next;
        __builtin_prefetch(block->next, 1); /* long lists lie in no cache */
        return block;
    }
#endif
    return heap_alloc_slow(heap, size_class);
}

static inline void heap_free(rvm_heap *heap, void *memory, unsigned size_class) {
#ifndef RVM_STRESS
    if (size_class <= HEAP_SMALL_LIMIT / 16) {
        heap_block *block = memory;
        block->next = heap->free_blocks[size_class];
        heap->free_blocks[size_class] = block;
        return;
    }
#endif
    heap_free_slow(heap, memory, size_class);
}

static inline void object_init(rvm_heap *heap, rvm_object *object, uint8_t kind, uint16_t layout,
                               unsigned size_class) {
    object_set_count(object, heap->is_host ? -1 : 1);
    object->kind = kind;
    object->layout = layout;
    object->size_class = (uint8_t)size_class;
#ifdef RVM_STRESS
    heap->live_objects += !heap->is_host;
#endif
}

/* Consumes one reference. */
static inline void object_release(rvm_heap *heap, rvm_object *object) {
    int32_t count = object_count(object);
    if (object_is_local(count)) {
        if (count == 1) {
            heap_destroy(heap, object);
        } else {
            object_set_count(object, count - 1);
        }
    } else if (count < 0) {
        heap_release_shared(heap, object);
    }
}

#endif
