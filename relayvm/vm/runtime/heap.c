/* Pools of blocks by size class, the shared depot they come from and go back to, and the limit on held memory. */
#include "heap.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_BYTES ((size_t)256 * 1024)
#define RUN_BYTES 4096u
#define POISON 0xDD
#define MOST_ADOPTED_BYTES ((int64_t)1024 * 1024)

typedef struct heap_chunk {
    struct heap_chunk *next;
    size_t carved_bytes; /* handed out as blocks so far */
    size_t tally_bytes;  /* of these, found free by a trim */
    bool active;         /* some heap still carves it */
} heap_chunk;

#define SHAPE(c) {.number = RVM_NO_LAYOUT, .kind = RVM_LAYOUT_TUPLE, .size_class = (c), .function = RVM_NO_INDEX, \
                  .signature = RVM_NO_INDEX, .name = "memory", .type_name = "memory"}
#define SHAPES(c) SHAPE(c), SHAPE((c) + 1), SHAPE((c) + 2), SHAPE((c) + 3), SHAPE((c) + 4), SHAPE((c) + 5), \
                  SHAPE((c) + 6), SHAPE((c) + 7)
const rvm_layout heap_memory_shapes[HEAP_SMALL_LIMIT / 16 + 1] = {
    SHAPES(0), SHAPES(8), SHAPES(16), SHAPES(24), SHAPES(32), SHAPES(40), SHAPES(48), SHAPES(56), SHAPE(64),
};
rvm_cell heap_nothing = {
    .head = {.layout = RVM_NO_LAYOUT, .kind = RVM_CELL},
    .shape = &heap_memory_shapes[0],
};

static pthread_mutex_t host_mutex = PTHREAD_MUTEX_INITIALIZER;
static rvm_heap host_heap;
static bool host_ready;
static heap_chunk *all_chunks; /* guarded by host_mutex */

void heap_init(rvm_heap *heap, uint64_t limit_bytes) {
    memset(heap, 0, sizeof *heap);
    heap->limit_bytes = limit_bytes;
    heap->fail_countdown = -1;
    heap->refs.previous = heap->refs.next = &heap->refs;
    heap_begin_scans(heap);
}

static void lock_host(void) {
    pthread_mutex_lock(&host_mutex);
}

/* A fork must not copy the lock while another thread has it, which is not there to give it back. */
rvm_heap *heap_host_lock(void) {
    lock_host();
    if (!host_ready) {
        pthread_atfork(lock_host, heap_host_unlock, heap_host_unlock);
        heap_init(&host_heap, UINT64_MAX);
        host_heap.is_host = true;
        host_ready = true;
    }
    return &host_heap;
}

void heap_host_unlock(void) {
    pthread_mutex_unlock(&host_mutex);
}

unsigned heap_size_class(uint64_t bytes) {
    if (bytes <= HEAP_SMALL_LIMIT) {
        return bytes ? (unsigned)((bytes + 15) / 16) : 1;
    }
    unsigned shift = 63u - (unsigned)__builtin_clzll(bytes - 1);
    unsigned step = (unsigned)((bytes - 1 - ((uint64_t)1 << shift)) >> (shift - 2));
    return 64 + (shift - 10) * 4 + step + 1;
}

uint64_t heap_class_bytes(unsigned size_class) {
    if (size_class <= HEAP_SMALL_LIMIT / 16) {
        return (uint64_t)size_class * 16;
    }
    unsigned index = size_class - 65;
    return ((uint64_t)(5 + index % 4) << (index / 4)) * 256;
}

uint64_t heap_used_bytes(const rvm_heap *heap) {
    uint64_t free_bytes = 0;
    for (unsigned c = 1; c < HEAP_CLASSES; c++) {
        for (const heap_block *block = heap->free_blocks[c]; block; block = block->next) {
            free_bytes += heap_class_bytes(c);
        }
    }
    return heap->held_bytes - free_bytes;
}

static void free_cached_large(rvm_heap *heap) {
    for (unsigned c = heap_size_class(HEAP_POOLED_LIMIT) + 1; c < HEAP_CLASSES; c++) {
        while (heap->free_blocks[c]) {
            heap_block *block = heap->free_blocks[c];
            heap->free_blocks[c] = block->next;
            heap->held_bytes -= heap_class_bytes(c);
            free(block);
        }
    }
}

static void retire_bump(rvm_heap *heap) {
    if (heap->bump) {
        heap_chunk *chunk = (heap_chunk *)(((uintptr_t)heap->bump_end - 1) & ~(CHUNK_BYTES - 1));
        chunk->active = false;
        heap->bump = heap->bump_end = NULL;
    }
}

/* Requires the host lock. */
static void give_blocks(rvm_heap *heap, rvm_heap *depot) {
    heap->adopted_bytes = 0;
    for (unsigned c = 1; c <= heap_size_class(HEAP_POOLED_LIMIT); c++) {
        while (heap->free_blocks[c]) {
            heap_block *block = heap->free_blocks[c];
            heap->free_blocks[c] = block->next;
            heap->held_bytes -= heap_class_bytes(c);
            block->next = depot->free_blocks[c];
            depot->free_blocks[c] = block;
        }
    }
}

/* Requires the host lock. */
static void give_to_depot(rvm_heap *heap, rvm_heap *depot) {
    give_blocks(heap, depot);
    retire_bump(heap);
}

static heap_chunk *chunk_of(const void *block) {
    return (heap_chunk *)((uintptr_t)block & ~(CHUNK_BYTES - 1));
}

/* Requires the host lock. Frees chunks all of whose blocks lie in the depot. */
static void reclaim_chunks(rvm_heap *depot) {
    retire_bump(depot);
    for (heap_chunk *chunk = all_chunks; chunk; chunk = chunk->next) {
        chunk->tally_bytes = 0;
    }
    unsigned last = heap_size_class(HEAP_POOLED_LIMIT);
    for (unsigned c = 1; c <= last; c++) {
        for (heap_block *block = depot->free_blocks[c]; block; block = block->next) {
            chunk_of(block)->tally_bytes += heap_class_bytes(c);
        }
    }
    for (unsigned c = 1; c <= last; c++) {
        heap_block **link = &depot->free_blocks[c];
        while (*link) {
            heap_chunk *chunk = chunk_of(*link);
            if (!chunk->active && chunk->tally_bytes == chunk->carved_bytes) {
                *link = (*link)->next;
            } else {
                link = &(*link)->next;
            }
        }
    }
    heap_chunk **link = &all_chunks;
    while (*link) {
        heap_chunk *chunk = *link;
        if (!chunk->active && chunk->tally_bytes == chunk->carved_bytes) {
            *link = chunk->next;
            free(chunk);
        } else {
            link = &chunk->next;
        }
    }
}

void heap_free_tables(rvm_heap *heap) {
    free(heap->cycle_rows);
    free(heap->cycle_slots);
    free(heap->shares);
    heap->cycle_rows = heap->cycle_slots = NULL;
    heap->shares = NULL;
    heap->room_cycles = 0;
    heap->room_shares = 0;
}

void heap_trim(rvm_heap *heap) {
    free_cached_large(heap);
    rvm_heap *depot = heap_host_lock();
    if (depot != heap) {
        give_to_depot(heap, depot);
    }
    reclaim_chunks(depot);
    heap_host_unlock();
}

void heap_balance(rvm_heap *heap) {
    if (heap->adopted_bytes > MOST_ADOPTED_BYTES) {
        free_cached_large(heap);
        rvm_heap *depot = heap_host_lock();
        give_blocks(heap, depot);
        heap_host_unlock();
    }
}

void heap_close(rvm_heap *heap) {
    heap_free_tables(heap);
    free_cached_large(heap);
    rvm_heap *depot = heap_host_lock();
    give_to_depot(heap, depot);
    heap_host_unlock();
}

static bool has_room(const rvm_heap *heap, uint64_t bytes) {
    return bytes <= heap->limit_bytes && heap->held_bytes <= heap->limit_bytes - bytes;
}

bool heap_charge(rvm_heap *heap, uint64_t bytes) {
    if (!has_room(heap, bytes)) {
        if (heap->is_host || bytes > heap->limit_bytes) {
            return false;
        }
        heap_trim(heap);
        if (!has_room(heap, bytes) && heap->num_refs) {
            heap_scan_cycles(heap);
            heap_trim(heap);
        }
        if (!has_room(heap, bytes)) {
            return false;
        }
    }
    heap->held_bytes += bytes;
    if (heap->held_bytes > heap->peak_bytes) {
        heap->peak_bytes = heap->held_bytes;
    }
    return true;
}

void heap_uncharge(rvm_heap *heap, uint64_t bytes) {
    heap->held_bytes -= bytes;
}

#ifndef RVM_STRESS /* which has every block from the system, so that a sanitizer sees it */

static bool fetch_chunk(rvm_heap *heap) {
    heap_chunk *chunk = aligned_alloc(CHUNK_BYTES, CHUNK_BYTES);
    if (!chunk) {
        return false;
    }
    heap->system_calls++;
    chunk->carved_bytes = 0;
    chunk->tally_bytes = 0;
    chunk->active = true;
    if (!heap->is_host) {
        pthread_mutex_lock(&host_mutex);
    }
    retire_bump(heap);
    chunk->next = all_chunks;
    all_chunks = chunk;
    if (!heap->is_host) {
        pthread_mutex_unlock(&host_mutex);
    }
    heap->bump = (uint8_t *)chunk + RVM_ALIGN_BYTES;
    heap->bump_end = (uint8_t *)chunk + CHUNK_BYTES;
    return true;
}

/* Moves up to `wanted` blocks from the depot to the heap; returns how many. They are charged already. */
static uint64_t take_from_depot(rvm_heap *heap, unsigned size_class, uint64_t wanted) {
    uint64_t taken = 0;
    rvm_heap *depot = heap_host_lock();
    while (taken < wanted && depot->free_blocks[size_class]) {
        heap_block *block = depot->free_blocks[size_class];
        depot->free_blocks[size_class] = block->next;
        block->next = heap->free_blocks[size_class];
        heap->free_blocks[size_class] = block;
        taken++;
    }
    heap_host_unlock();
    return taken;
}

static uint64_t carve(rvm_heap *heap, unsigned size_class, uint64_t wanted) {
    uint64_t bytes = heap_class_bytes(size_class);
    uint64_t align = bytes % RVM_ALIGN_BYTES ? 16 : RVM_ALIGN_BYTES;
    uint64_t taken = 0;
    while (taken < wanted) {
        uint8_t *start = (uint8_t *)(((uintptr_t)heap->bump + align - 1) & ~(uintptr_t)(align - 1));
        if (!heap->bump || start > heap->bump_end || (uint64_t)(heap->bump_end - start) < bytes) {
            if (taken || !fetch_chunk(heap)) {
                break;
            }
            continue;
        }
        heap->bump = start + bytes;
        chunk_of(start)->carved_bytes += bytes;
        heap_block *block = (heap_block *)(void *)start;
        block->next = heap->free_blocks[size_class];
        heap->free_blocks[size_class] = block;
        taken++;
    }
    return taken;
}

static void *alloc_pooled(rvm_heap *heap, unsigned size_class) {
    uint64_t bytes = heap_class_bytes(size_class);
    uint64_t wanted = bytes >= RUN_BYTES ? 1 : RUN_BYTES / bytes;
    if (!heap_charge(heap, wanted * bytes)) {
        wanted = 1;
        if (!heap_charge(heap, bytes)) {
            return NULL;
        }
    }
    uint64_t taken = heap->is_host ? 0 : take_from_depot(heap, size_class, wanted);
    if (!taken) {
        taken = carve(heap, size_class, wanted);
    }
    heap_uncharge(heap, (wanted - taken) * bytes);
    heap_block *block = heap->free_blocks[size_class];
    if (block) {
        heap->free_blocks[size_class] = block->next;
    }
    return block;
}

#endif

static void *alloc_large(rvm_heap *heap, unsigned size_class) {
    uint64_t bytes = heap_class_bytes(size_class);
    if (!heap_charge(heap, bytes)) {
        return NULL;
    }
    void *memory = NULL;
    /* Large constants begin in the middle of a page, so that rows of both do not meet in the sets of a cache. */
    const size_t align = bytes > HEAP_POOLED_LIMIT ? RVM_PAGE_BYTES : RVM_ALIGN_BYTES;
    if (posix_memalign(&memory, align, (size_t)bytes)) {
        heap_uncharge(heap, bytes);
        return NULL;
    }
    heap->system_calls++;
    return memory;
}

void *heap_alloc_slow(rvm_heap *heap, unsigned size_class) {
#ifdef RVM_STRESS
    if (heap->fail_countdown > 0 && --heap->fail_countdown == 0) {
        return NULL;
    }
    void *memory = alloc_large(heap, size_class);
    if (memory) {
        memset(memory, POISON, (size_t)heap_class_bytes(size_class));
    }
    return memory;
#else
    if (size_class <= heap_size_class(HEAP_POOLED_LIMIT)) {
        return alloc_pooled(heap, size_class);
    }
    return alloc_large(heap, size_class);
#endif
}

void heap_free_slow(rvm_heap *heap, void *memory, unsigned size_class) {
#ifdef RVM_STRESS
    memset(memory, POISON, (size_t)heap_class_bytes(size_class));
    heap_uncharge(heap, heap_class_bytes(size_class));
    free(memory);
#else
    if (heap->is_host && size_class > heap_size_class(HEAP_POOLED_LIMIT)) {
        heap_uncharge(heap, heap_class_bytes(size_class));
        free(memory);
        return;
    }
    heap_block *block = memory;
    block->next = heap->free_blocks[size_class];
    heap->free_blocks[size_class] = block;
#endif
}
