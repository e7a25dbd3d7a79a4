/* Making machines, running functions on them, and their public odds and ends. */
#include "cycles.h"
#include "lending.h"
#include "machine.h"

#include <stdio.h> /* stress build */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

rvm_machine *rvm_machine_new(rvm_program *program, uint64_t max_memory, uint64_t max_steps, uint64_t max_depth) {
    rvm_machine *m = program->num_late_constants ? NULL : calloc(1, sizeof *m);
    if (!m) {
        return NULL;
    }
    heap_init(&m->heap, max_memory);
    m->heap.program = program;
    rvm_program_retain(program);
    m->program = program;
    m->functions = program->functions;
    m->layouts = program->layouts;
    m->max_steps = max_steps;
    m->max_depth = max_depth;
    m->num_threads = m->num_cores = 1;
    m->gather = malloc(RVM_LIST_WORDS * sizeof *m->gather);
    m->results = malloc(RVM_LIST_WORDS * sizeof *m->results);
    uint32_t most = 1;
    for (uint32_t i = 0; i < program->num_functions; i++) {
        most = program->functions[i].num_params > most ? program->functions[i].num_params : most;
    }
    m->invoke_values = calloc(most, sizeof *m->invoke_values);
    m->lender = lender_new();
    if (!m->gather || !m->results || !m->invoke_values || !m->lender || !kernel_buffers_init(m) || !frame_init(m)) {
        rvm_machine_free(m);
        return NULL;
    }
    return m;
}

void rvm_machine_free(rvm_machine *m) {
    if (!m) {
        return;
    }
    lender_close(m);
    frame_close(m);
    native_close(m);
    kernel_buffers_free(m);
    heap_close(&m->heap);
    free(m->gather);
    free(m->results);
    free(m->invoke_values);
    rvm_program_release(m->program);
    free(m);
}

int64_t machine_clock_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

void rvm_machine_set_threads(rvm_machine *m, uint32_t num_threads, uint32_t num_cores) {
    m->num_threads = num_threads;
    m->num_cores = num_cores;
}

void rvm_machine_set_poll(rvm_machine *m, rvm_poll poll, void *context) {
    m->poll = poll;
    m->poll_context = context;
}

void rvm_machine_set_trace(rvm_machine *m, rvm_trace trace, void *context) {
    m->trace = trace;
    m->trace_context = context;
}

static void begin_steps(rvm_machine *m, uint64_t slice) {
    m->depth = 1;
    m->steps = 0;
    m->slice = m->fuel = (int64_t)(m->max_steps < slice ? m->max_steps : slice);
}

static void end_steps(rvm_machine *m) {
    m->total_steps += m->steps + (uint64_t)(m->slice - m->fuel);
}

static int32_t start_native(rvm_machine *m, const rvm_function *function, const uint64_t *args, uint64_t *results) {
    begin_steps(m, RVM_FUEL_SLICE);
    int32_t trap = native_run(m, function, args, results);
    end_steps(m);
    if (m->profile) {
        profile_back(m->profile, 0);
    }
    if (trap) {
        trap_unwind_callers(m, NULL);
    }
    return trap;
}

static int32_t interpret(rvm_machine *m, rvm_frame *frame, uint64_t *results) {
    if (m->trace) {
        return interpreter_run_traced(m, frame, results);
    }
    if (!m->profile) {
        return interpreter_run(m, frame, results);
    }
    int32_t trap = interpreter_run_profiled(m, frame, results);
    profile_back(m->profile, 0);
    return trap;
}

static int32_t start(rvm_machine *m, const rvm_function *function, const uint64_t *args, uint64_t *results) {
    if (native_is_ready(m) && m->max_depth && !m->trace && (m->profile ? m->program->profiled != NULL
                                                                      : !m->native.interpret_first)) {
        return start_native(m, function, args, results);
    }
    rvm_frame *frame = m->max_depth ? frame_push(m, m->base, function) : NULL;
    if (!frame) {
        for (unsigned i = 0; i < function->num_params; i++) {
            if (function->param_class[i] == RVM_CLASS_OWNED) {
                object_release(&m->heap, word_object(args[i]));
            }
        }
        int32_t trap = m->max_depth ? trap_out_of_memory(m)
                                    : trap_set(m, RVM_TRAP_OUT_OF_DEPTH, "no call is allowed");
        trap_unwind(m, NULL, NULL, trap);
        return trap;
    }
    frame->caller = NULL;
    for (unsigned i = 0; i < function->num_params; i++) {
        frame->slots[function->param_slot[i]] = args[i];
    }
    const uint64_t first = m->native.interpret_first;
    begin_steps(m, first && first < RVM_FUEL_SLICE ? first : RVM_FUEL_SLICE);
    int32_t trap = interpret(m, frame, results);
    end_steps(m);
    native_consider(m, 0);
    return trap;
}

/* The host may keep results and hand them to other machines. */
int32_t machine_share_results(rvm_machine *m, const rvm_function *function, const uint64_t *results) {
    bool shared = true;
    for (unsigned i = 0; i < function->num_results; i++) {
        if (function->result_class[i] == RVM_CLASS_OWNED && results[i]) {
            shared = heap_share(&m->heap, word_object(results[i])) && shared;
        }
    }
    if (shared) {
        return 0;
    }
    for (unsigned i = 0; i < function->num_results; i++) {
        if (function->result_class[i] == RVM_CLASS_OWNED && results[i]) {
            object_release(&m->heap, word_object(results[i]));
        }
    }
    int32_t trap = trap_out_of_memory(m);
    trap_unwind(m, NULL, NULL, trap);
    return trap;
}

void machine_settle(rvm_machine *m) {
    heap_collect_cycles(&m->heap);
    heap_balance(&m->heap);
#ifdef RVM_STRESS
    if (m->heap.live_objects != 0) {
        fprintf(stderr, "relayvm: %lld objects are left after a run\n", (long long)m->heap.live_objects);
        abort();
    }
#endif
}

int32_t machine_start(rvm_machine *m, uint32_t function, const uint64_t *args, uint64_t *results) {
    atomic_store(&m->interrupted, 0);
    m->invocations++;
    lending_collect(m);
    heap_begin_scans(&m->heap);
    return start(m, &m->program->functions[function], args, results);
}

int32_t machine_run(rvm_machine *m, uint32_t function, const uint64_t *args, uint64_t *results) {
    int32_t trap = machine_start(m, function, args, results);
    return trap ? trap : machine_share_results(m, &m->program->functions[function], results);
}

const rvm_trap_record *rvm_machine_trap(const rvm_machine *m) {
    return &m->trap;
}

void rvm_machine_interrupt(rvm_machine *m) {
    atomic_store(&m->interrupted, 1);
}

bool rvm_machine_trim(rvm_machine *m) {
    if (atomic_exchange(&m->running, 1)) {
        return false;
    }
    lending_collect(m);
    frame_trim(m);
    native_trim(m);
    kernel_scratch_free(m);
    shared_cycles_settle(SHARED_CYCLES_TRIM);
    heap_free_tables(&m->heap);
    heap_trim(&m->heap);
#ifdef __GLIBC__
    malloc_trim(0); /* what was freed may lie below what is in use */
#endif
    atomic_store(&m->running, 0);
    return true;
}

/* It may read counters that the machine changes at that moment, which is meant. */
__attribute__((no_sanitize("thread"))) void rvm_machine_stats(const rvm_machine *m, rvm_stats *stats) {
    memset(stats, 0, sizeof *stats);
    stats->held_bytes = m->heap.held_bytes;
    stats->peak_bytes = m->heap.peak_bytes;
    stats->stack_bytes = m->stack_bytes;
    stats->steps = m->total_steps;
    stats->kernel_calls = m->kernel_calls;
    stats->invocations = m->invocations;
    stats->system_calls = m->heap.system_calls;
    stats->safepoints = m->safepoints;
    stats->copied_items = m->copied_items;
    stats->new_cells = m->heap.new_cells;
    stats->reused_cells = m->heap.reused_cells;
    stats->switches = m->switches;
    stats->live_objects = m->heap.live_objects;
}

bool rvm_machine_fail_allocation(rvm_machine *m, int64_t k) {
#ifdef RVM_STRESS
    m->heap.fail_countdown = k ? k : -1;
    return true;
#else
    (void)m;
    (void)k;
    return false;
#endif
}

bool rvm_is_stress_build(void) {
#ifdef RVM_STRESS
    return true;
#else
    return false;
#endif
}

static rvm_tensor *constant_object(const rvm_constant *constant) {
    rvm_tensor *tensor = calloc(1, sizeof *tensor + constant->rank * sizeof(int64_t));
    if (!tensor) {
        return NULL;
    }
    tensor->head.kind = RVM_TENSOR;
    tensor->head.layout = RVM_NO_LAYOUT;
    tensor->dtype = constant->dtype;
    tensor->rank = constant->rank;
    tensor->data = (uint8_t *)(uintptr_t)constant->data;
    tensor->elements = (int64_t)(constant->size_bytes / rvm_dtype_bytes[constant->dtype]);
    for (unsigned i = 0; i < constant->rank; i++) {
        tensor->dims[i] = constant->dims[i];
    }
    return tensor;
}

static void prepare_function(rvm_function *function) {
    uint32_t owned_params = 0;
    for (uint32_t i = 0; i < function->num_params; i++) {
        owned_params += function->param_class[i] == RVM_CLASS_OWNED;
    }
    function->frame_bytes = (uint32_t)(sizeof(rvm_frame) + function->slots * sizeof(uint64_t));
    function->first_empty = function->words + owned_params;
    function->end_of_empty = (uint32_t)function->words + function->owned;
}

int rvm_program_prepare(rvm_program *program) {
    for (uint32_t i = 0; i < program->num_layouts; i++) {
        rvm_layout *layout = &program->layouts[i];
        uint64_t bytes = sizeof(rvm_cell) + layout->num_fields * sizeof(uint64_t);
        layout->size_class = (uint8_t)heap_size_class(bytes);
        const rvm_object head = {
            .count = 1, .layout = layout->number, .kind = RVM_CELL, .size_class = layout->size_class};
        memcpy(&layout->head, &head, sizeof head);
        layout->callee = layout->kind == RVM_LAYOUT_CLOSURE ? &program->functions[layout->function] : NULL;
    }
    for (uint32_t i = 0; i < program->num_functions; i++) {
        prepare_function(&program->functions[i]);
    }
    program->constant_objects = calloc(program->num_constants + 1, sizeof *program->constant_objects);
    if (!program->constant_objects) {
        return -1;
    }
    for (uint32_t i = 0; i < program->num_constants; i++) {
        program->constant_objects[i] = constant_object(&program->constants[i]);
        if (!program->constant_objects[i]) {
            return -1;
        }
    }
    return 0;
}

void rvm_program_unprepare(rvm_program *program) {
    native_drop(program);
    if (!program->constant_objects) {
        return;
    }
    for (uint32_t i = 0; i < program->num_constants; i++) {
        free(program->constant_objects[i]);
    }
    free(program->constant_objects);
    program->constant_objects = NULL;
}
