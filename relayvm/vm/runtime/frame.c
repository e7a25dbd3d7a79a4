/* The stack of frames: mapped segments, each twice as large as the one before, kept until a trim. The stress build
 * gives every frame a segment of its own, so that each call and each growing tail call moves. */
#include "machine.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define FIRST_SEGMENT_BYTES ((uint64_t)64 * 1024)
#define LARGEST_SEGMENT_BYTES ((uint64_t)16 * 1024 * 1024)

static rvm_segment *segment_new(rvm_machine *m, uint64_t bytes) {
    if (!heap_charge(&m->heap, bytes)) {
        return NULL;
    }
#ifdef RVM_STRESS
    if (m->heap.fail_countdown > 0 && --m->heap.fail_countdown == 0) {
        heap_uncharge(&m->heap, bytes);
        return NULL;
    }
    rvm_segment *segment = malloc(bytes);
    bool failed = !segment;
#else
    m->heap.system_calls++;
    rvm_segment *segment = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    bool failed = segment == MAP_FAILED;
#endif
    if (failed) {
        heap_uncharge(&m->heap, bytes);
        return NULL;
    }
    segment->previous = segment->next = NULL;
    segment->bytes = bytes;
    m->stack_bytes += bytes;
    segment->end = (uint8_t *)segment + bytes;
    return segment;
}

static void segment_free(rvm_machine *m, rvm_segment *segment) {
    uint64_t bytes = segment->bytes;
#ifdef RVM_STRESS
    memset(segment, 0xDD, bytes);
    free(segment);
#else
    munmap(segment, bytes);
#endif
    m->stack_bytes -= bytes;
    heap_uncharge(&m->heap, bytes);
}

static void free_after(rvm_machine *m, rvm_segment *segment) {
    rvm_segment *next = segment->next;
    segment->next = NULL;
    while (next) {
        rvm_segment *following = next->next;
        segment_free(m, next);
        next = following;
    }
}

static void make_current(rvm_machine *m, rvm_segment *segment) {
    m->segment = segment;
    m->base = segment->start;
    m->limit = segment->end;
}

bool frame_init(rvm_machine *m) {
    rvm_segment *first = segment_new(m, FIRST_SEGMENT_BYTES);
    if (!first) {
        return false;
    }
    make_current(m, first);
    return true;
}

void frame_trim(rvm_machine *m) {
    free_after(m, m->segment);
}

void frame_close(rvm_machine *m) {
    if (m->segment) {
        free_after(m, m->segment);
        segment_free(m, m->segment);
        m->segment = NULL;
    }
}

static uint64_t next_segment_bytes(const rvm_machine *m, uint64_t needed) {
#ifdef RVM_STRESS
    (void)m;
    return needed;
#else
    uint64_t bytes = m->segment->bytes * 2;
    if (bytes > LARGEST_SEGMENT_BYTES) {
        bytes = LARGEST_SEGMENT_BYTES;
    }
    while (bytes < needed) {
        bytes *= 2;
    }
    return bytes;
#endif
}

rvm_frame *frame_push_slow(rvm_machine *m, const rvm_function *function) {
    uint64_t needed = sizeof(rvm_segment) + function->frame_bytes;
    rvm_segment *segment = m->segment->next;
    if (segment && segment->bytes < needed) {
        free_after(m, m->segment);
        segment = NULL;
    }
    if (!segment) {
        segment = segment_new(m, next_segment_bytes(m, needed));
        if (!segment && next_segment_bytes(m, needed) > needed) {
            segment = segment_new(m, (needed + 4095) & ~(uint64_t)4095);
        }
        if (!segment) {
            return NULL;
        }
        segment->previous = m->segment;
        m->segment->next = segment;
    }
    make_current(m, segment);
    rvm_frame *frame = (rvm_frame *)(void *)segment->start;
    frame->function = function;
    frame_clear(frame, function);
    return frame;
}

void frame_pop_slow(rvm_machine *m) {
    if (m->segment->previous) {
        make_current(m, m->segment->previous);
#ifdef RVM_STRESS
        free_after(m, m->segment);
#endif
    }
}
