/* A measured run: how often each instruction ran, the tree of its calls, and the time of each branch of it. Counts are
 * exact. Where intervals between calls are short, times are those of bursts, and the rest is shared out by the host. */
#ifndef RVM_PROFILE_H
#define RVM_PROFILE_H

#include <stdbool.h>
#include <stdint.h>

#if !defined(__x86_64__) && !defined(__aarch64__)
#include <time.h>
#endif

struct rvm_function;
struct rvm_kernel;
struct rvm_machine;
struct rvm_program;

#define RVM_PROFILE_END UINT32_MAX /* in an event: what began last is over */

/* What calls of a kernel touched and made; calls that a check refused are not among them. */
typedef struct rvm_kernel_profile {
    uint64_t calls;
    uint64_t work;  /* scalar operations by estimate; UINT64_MAX if more */
    uint64_t bytes; /* of all operands */
    uint64_t new_tensors, new_bytes; /* outputs that took no input's memory */
} rvm_kernel_profile;

/* A function below its callers, or a kernel; row 0 is the host. A function that is among its own callers goes on in the
 * row that it has there, so that recursion makes no towers. */
typedef struct rvm_profile_node {
    uint32_t code;   /* number of the function, or that of the kernel behind all functions */
    uint32_t parent;
    uint32_t edges;  /* private */
    uint32_t unused;
    uint64_t calls;
    uint64_t intervals, timed; /* stretches of its own time between calls; those that were measured */
    uint64_t ticks;            /* of these */
} rvm_profile_node;

/* Timed runs of one kind of instruction, without the kernels in them. */
typedef struct rvm_profile_sample {
    uint64_t count, ticks;
} rvm_profile_sample;

/* `code` began at `ticks`, or what began last ended. */
typedef struct rvm_profile_event {
    uint64_t ticks;
    uint32_t code, unused;
} rvm_profile_event;

typedef struct rvm_profile {
    /* for the host, once a call is over */
    rvm_kernel_profile *kernels;
    rvm_profile_node *nodes;
    rvm_profile_sample *samples; /* by opcode; only where an interpreter ran */
    rvm_profile_event *events;
    uint64_t *hits; /* by unit of the code section, or by block of instrumented code */
    uint64_t num_nodes, num_events, max_events, lost_events, num_hits;
    uint64_t time_ns, steps, ticks;
    uint64_t untimed_ticks; /* of intervals that were not measured */
    uint64_t first_ticks;   /* when the first call began */
    uint64_t held_before_bytes, held_after_bytes, peak_bytes, system_calls, reused_cells;
    int32_t is_native; /* instrumented code ran */
    /* private */
    struct rvm_profile_edge *edges;
    uint64_t peak_before_bytes, num_edges, room_edges, room_nodes, room_stack;
    uint32_t *stack; /* the row of each open call, by depth */
    uint64_t depth, native_depth;
    uint64_t last, burst_begin, burst_ticks, slow_ticks, random;
    uint64_t left_timed, left_skipped;
    uint64_t outside_ticks, sample_outside_ticks, sample_begin; /* kernels and the profile itself */
    const uint16_t *code;
    uint32_t current, num_functions, left_instructions, sample_gap, sampled;
} rvm_profile;

/* Returns owned, or null when memory is out. Up to `max_events` beginnings and ends are kept, and then each is timed. */
rvm_profile *rvm_profile_new(const struct rvm_program *program, uint64_t max_events);
void rvm_profile_free(rvm_profile *profile);
/* The first unit of a function in the code section. */
uint64_t rvm_profile_first_unit(const struct rvm_program *program, uint32_t function);

/* Around a call of the host's. */
void profile_begin(struct rvm_machine *m, rvm_profile *profile);
void profile_end(struct rvm_machine *m);

/* A function is entered at `depth`, 1 for the outermost; what was open there is over. */
void profile_enter(rvm_profile *p, uint32_t function, uint64_t depth);
/* A function that jumps to its own beginning. */
void profile_repeat(rvm_profile *p);
/* The call at this depth goes on: its callee is over. */
void profile_back(rvm_profile *p, uint64_t depth);
/* Returns whether the kernel is timed, to be handed to the end. */
uint64_t profile_kernel_begin(rvm_profile *p, uint32_t kernel);
void profile_kernel_end(rvm_profile *p, uint32_t kernel, uint64_t begin);
/* Ends a timed instruction, and begins another if the time has come. */
void profile_sample(rvm_profile *p, uint16_t opcode);

static inline uint64_t profile_ticks(void) {
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    uint64_t ticks;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
#else
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
#endif
}

/* Before each instruction of an interpreter. */
static inline void profile_instruction(rvm_profile *p, const uint16_t *pc) {
    p->hits[pc - p->code]++;
    if (__builtin_expect(--p->left_instructions == 0, 0)) {
        profile_sample(p, *pc);
    }
}

#endif
