/* The machine: what one invocation at a time runs on. Public functions are those that Python and C callers use; the
 * rest is shared by the files of the runtime. */
#ifndef RVM_MACHINE_H
#define RVM_MACHINE_H

#include "heap.h"
#include "native.h"
#include "profile.h"
#include "program.h"

#define RVM_FUEL_SLICE 65536
#define RVM_LIST_WORDS 65536u    /* the longest operand list */
#define RVM_TRACE_FRAMES 50u     /* recorded at each end of the stack */
#define RVM_TRACE_REGISTERS 32u
#define RVM_POLL_NS 20000000

/* One activation. Its registers follow. */
typedef struct rvm_frame {
    struct rvm_frame *caller;
    const rvm_function *function;
    const uint16_t *results; /* while a callee runs: the list of registers that takes its results */
    uint64_t slots[];
} rvm_frame;

typedef struct rvm_segment {
    struct rvm_segment *previous, *next;
    uint8_t *end;
    uint64_t bytes;
    uint64_t unused[4];
    uint8_t start[];
} rvm_segment;

typedef struct rvm_trace_frame {
    uint32_t function;
    uint32_t unit; /* of the instruction at work */
} rvm_trace_frame;

typedef struct rvm_trace_register {
    uint32_t slot;
    uint32_t kind; /* rvm_object_kind, RVM_FREE for a word */
    uint64_t word;
    uint16_t layout;
    uint8_t dtype, rank;
    int64_t dims[RVM_MAX_RANK];
    const char *name;
} rvm_trace_register;

/* The trap of the last run. Innermost frames come first; `skipped` lie between the two groups. */
typedef struct rvm_trap_record {
    int32_t code;
    uint32_t num_frames, num_inner, num_registers;
    uint64_t skipped;
    char message[256];
    const char *kernel; /* what the message is about, if a kernel met a value; or null */
    rvm_trace_frame frames[2 * RVM_TRACE_FRAMES];
    rvm_trace_register registers[RVM_TRACE_REGISTERS];
} rvm_trap_record;

/* Called at most every 20 ms while a program runs; other than 0 interrupts it. */
typedef int32_t (*rvm_poll)(void *context);

/* The instruction that runs next: at `unit` of a function, in the frame with registers `slots`, `depth` calls deep in
 * the machine's run number `run`. */
typedef struct rvm_trace_event {
    const uint64_t *slots;
    uint64_t depth, run;
    uint32_t function, unit;
} rvm_trace_event;

/* Called before each instruction; other than 0 interrupts the program. */
typedef int32_t (*rvm_trace)(void *context, const rvm_trace_event *event);

typedef struct rvm_machine {
    rvm_heap heap;
    rvm_native native;
    rvm_program *program;
    const rvm_function *functions; /* of the program, like `layouts` */
    const rvm_layout *layouts;
    struct rvm_lender *lender; /* of results that the host keeps */
    rvm_segment *segment;
    uint8_t *base, *limit; /* of the current segment */
    uint64_t stack_bytes; /* of all segments */
    uint64_t depth, max_depth; /* open calls, while no interpreter counts them in a register */
    int64_t fuel;       /* left of the slice, while no interpreter holds it in a register */
    int64_t slice;      /* steps handed out with it */
    uint64_t steps, max_steps; /* handed out and used up in earlier slices; the limit */
    uint64_t *gather, *results, *invoke_values;
    void **kernel_args;
    uint64_t *kernel_slots; /* scalar operands */
    int64_t *kernel_dims;   /* variables, then strides */
    int64_t kernel_values[2]; /* what the phase that trapped last says of it */
    rvm_tensor **kernel_results;
    void **worker_args; /* rows like kernel_args, in `worker_memory` */
    uint8_t *scratch, *private_memory, *worker_memory;
    uint64_t scratch_bytes, private_bytes, worker_bytes;
    uint32_t num_threads, num_cores; /* that kernels may use; that the process has */
    rvm_poll poll;
    void *poll_context;
    rvm_trace trace; /* null: not traced */
    void *trace_context;
    int64_t last_poll_ns;
    rvm_profile *profile; /* of this invocation; null: not measured */
    uint64_t kernel_calls, safepoints, invocations, total_steps;
    uint64_t switches; /* runs that began interpreted and went on compiled */
    uint64_t copied_items; /* of arrays that somebody else held when they were to be changed */
    _Atomic int32_t interrupted;
    _Atomic int32_t running;
    rvm_trap_record trap;
} rvm_machine;

typedef struct rvm_stats {
    uint64_t held_bytes, peak_bytes, stack_bytes, steps, kernel_calls, invocations, system_calls, safepoints, copied_items,
        new_cells, reused_cells, switches;
    int64_t live_objects;
} rvm_stats;

/* Returns owned, or null when memory is out or a constant of the program is bound late. Retains the program. Limits of 0 mean the defaults of the caller. */
rvm_machine *rvm_machine_new(rvm_program *program, uint64_t max_memory, uint64_t max_steps, uint64_t max_depth);
void rvm_machine_free(rvm_machine *machine);
void rvm_machine_set_poll(rvm_machine *machine, rvm_poll poll, void *context);
/* Kernels may use that many threads, 1 at first. Threads beyond the cores sleep between kernels. */
void rvm_machine_set_threads(rvm_machine *machine, uint32_t num_threads, uint32_t num_cores);
void rvm_machine_set_trace(rvm_machine *machine, rvm_trace trace, void *context);

/* Runs a function on a machine that is not running. Owned arguments are consumed, borrowed ones lent; results of class
 * o are owned by the caller and usable by any thread. Returns 0 or a trap code; then `rvm_machine_trap` tells more and
 * there are no results. */
int32_t machine_run(rvm_machine *machine, uint32_t function, const uint64_t *args, uint64_t *results);
/* The two halves of it: between them, results belong to the machine alone, and those taken are set to 0. */
int32_t machine_start(rvm_machine *machine, uint32_t function, const uint64_t *args, uint64_t *results);
int32_t machine_share_results(rvm_machine *machine, const rvm_function *function, const uint64_t *results);
/* A clock that never goes back. */
int64_t machine_clock_ns(void);
/* What is due when no value of the machine's own is left. */
void machine_settle(rvm_machine *machine);
const rvm_trap_record *rvm_machine_trap(const rvm_machine *machine);

void rvm_machine_interrupt(rvm_machine *machine);
/* False if the machine is running. */
bool rvm_machine_trim(rvm_machine *machine);
/* May be called while the machine runs; the counters are then those of different moments. */
void rvm_machine_stats(const rvm_machine *machine, rvm_stats *stats);

/* Stress builds: lets the k-th allocation from now fail (0: none). Returns false in other builds. */
bool rvm_machine_fail_allocation(rvm_machine *machine, int64_t k);
bool rvm_is_stress_build(void);

/* frame.c */
bool frame_init(rvm_machine *m);
void frame_close(rvm_machine *m);
void frame_trim(rvm_machine *m);
/* A frame on a new segment; null when memory is out. */
rvm_frame *frame_push_slow(rvm_machine *m, const rvm_function *function);
/* Leaves the segment that began with the frame. */
void frame_pop_slow(rvm_machine *m);

/* trap.c */
int32_t trap_set(rvm_machine *m, int32_t code, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Sets the message of a row of the table of reasons, numbered from 1, and what a kernel says of it. */
void trap_tell(rvm_machine *m, const char *kernel, uint32_t reason, bool is_unsigned, const int64_t *values);
int32_t trap_out_of_memory(rvm_machine *m);
int32_t trap_empty_reference(rvm_machine *m);
void trap_unwind(rvm_machine *m, rvm_frame *frame, const uint16_t *pc, int32_t code);
/* Ends the record of a trap that compiled code has begun, with the frames that wait for it, and drops them. */
void trap_unwind_callers(rvm_machine *m, rvm_frame *frame);
/* The record of a trap in pieces: registers of the innermost function, then all frames, from the innermost out. */
void trap_begin(rvm_machine *m, int32_t code);
void trap_add_registers(rvm_machine *m, const rvm_function *function, const uint64_t *slots);
void trap_add_frame(rvm_machine *m, const rvm_function *function, uint32_t unit);
void trap_end(rvm_machine *m);
/* Settles used fuel and hands out a new slice; 0, or the trap code of a limit or an interrupt. */
int32_t trap_safepoint(rvm_machine *m);
/* Looks for interrupts; 0 or a trap code. */
int32_t trap_poll(rvm_machine *m);
/* The trap that an instruction names. */
int32_t trap_named(rvm_machine *m, uint16_t code);

/* interpreter.c */
int32_t interpreter_run(rvm_machine *m, rvm_frame *frame, uint64_t *results);
int32_t interpreter_run_traced(rvm_machine *m, rvm_frame *frame, uint64_t *results);
int32_t interpreter_run_profiled(rvm_machine *m, rvm_frame *frame, uint64_t *results);
/* Goes on with a run at `pc`, every function that is entered from here on compiled. */
int32_t interpreter_leave(rvm_machine *m, rvm_frame *frame, const uint16_t *pc, uint64_t *results);

/* kernel_call.c: reads and writes registers of `r` as the lists [count, register...] say; consumes the inputs in
 * `given` in every case. */
int32_t kernel_call(rvm_machine *m, const rvm_kernel *kernel, uint32_t given, const uint16_t *inputs,
                    const uint16_t *outputs, uint64_t *r);
bool kernel_buffers_init(rvm_machine *m);
void kernel_buffers_free(rvm_machine *m);
void kernel_scratch_free(rvm_machine *m);

/* Owned registers of a new activation are empty; the others, and those that take arguments, are written before they are
 * read. */
static inline void frame_clear(rvm_frame *frame, const rvm_function *function) {
    uint64_t *slots = frame->slots;
#ifdef RVM_STRESS
    for (unsigned i = 0; i < function->slots; i++) {
        slots[i] = 0xdeaddeaddeaddeadu;
    }
#endif
    for (uint32_t i = function->first_empty, end = function->end_of_empty; i < end; i++) {
        slots[i] = 0;
    }
}

/* Where the frame that a call makes would begin. */
static inline uint8_t *frame_end(rvm_frame *frame) {
    return (uint8_t *)frame + frame->function->frame_bytes;
}

/* The innermost frame, behind `top`, with empty registers; null when memory is out. */
static inline rvm_frame *frame_push(rvm_machine *m, uint8_t *top, const rvm_function *function) {
#ifdef RVM_STRESS
    (void)top;
#else
    if (__builtin_expect((size_t)(m->limit - top) >= function->frame_bytes, 1)) {
        rvm_frame *frame = (rvm_frame *)(void *)top;
        frame->function = function;
        frame_clear(frame, function);
        return frame;
    }
#endif
    return frame_push_slow(m, function);
}

static inline void frame_pop(rvm_machine *m, const rvm_frame *frame) {
    if (__builtin_expect((const uint8_t *)frame == m->base, 0)) {
        frame_pop_slow(m);
    }
}

/* Gives the innermost frame room for another function; its registers are lost. May move it, or return null. */
static inline rvm_frame *frame_replace(rvm_machine *m, rvm_frame *frame, const rvm_function *function) {
    rvm_frame *caller = frame->caller;
#ifndef RVM_STRESS
    if (__builtin_expect((size_t)(m->limit - (uint8_t *)frame) >= function->frame_bytes, 1)) {
        frame->function = function;
        frame_clear(frame, function);
        return frame;
    }
#endif
    frame_pop(m, frame);
    rvm_frame *moved = frame_push_slow(m, function);
    if (moved) {
        moved->caller = caller;
    }
    return moved;
}

#endif
