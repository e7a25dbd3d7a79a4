/* The loop that runs bytecode: control instructions here, all others from the instruction table through their
 * bodies. Verified code is trusted in what the verifier proves and in nothing else. */
#include "bodies_tensor.h"
#include "fuse.h"

#include "generated/bodies.inc"

static inline uint64_t read_imm64(const uint16_t *p) {
    uint64_t value;
    memcpy(&value, p, sizeof value);
    return value;
}

static inline uint32_t read_u32(const uint16_t *p) {
    uint32_t value;
    memcpy(&value, p, sizeof value);
    return value;
}

static inline const uint64_t *gather_words(uint64_t *buffer, const uint16_t *p, uint32_t n, const uint64_t *r) {
    for (uint32_t i = 0; i < n; i++) {
        buffer[i] = r[p[i]];
    }
    return buffer;
}

/* Reads the registers of a list; owned ones are emptied. */
static inline const uint64_t *gather_classes(uint64_t *buffer, const uint16_t *p, uint32_t n, uint64_t *r,
                                             const uint8_t *classes) {
    for (uint32_t i = 0; i < n; i++) {
        buffer[i] = r[p[i]];
        if (classes[i] == RVM_CLASS_OWNED) {
            r[p[i]] = 0;
        }
    }
    return buffer;
}

static inline void scatter(const uint64_t *values, const uint16_t *p, uint32_t n, uint64_t *r) {
    for (uint32_t i = 0; i < n; i++) {
        r[p[i]] = values[i];
    }
}

/* Moves arguments from the registers of a caller to those of a new frame, from parameter `first` on. */
static inline void pass_arguments(const rvm_function *callee, rvm_frame *frame, uint32_t first, const uint16_t *p,
                                  uint32_t n, uint64_t *r) {
    const uint16_t *slot = callee->param_slot + first;
    const uint8_t *classes = callee->param_class + first;
    for (uint32_t i = 0; i < n; i++) {
        frame->slots[slot[i]] = r[p[i]];
        if (classes[i] == RVM_CLASS_OWNED) {
            r[p[i]] = 0;
        }
    }
}

/* The arguments of a loop: most stand where they must already, and then one more needs no buffer. */
static inline void pass_to_itself(rvm_machine *m, const rvm_function *callee, const uint16_t *p, uint32_t n,
                                  uint64_t *r) {
    const uint16_t *slot = callee->param_slot;
    uint32_t moved = 0, last = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (p[i] != slot[i]) {
            moved++;
            last = i;
        }
    }
    if (moved == 0) {
        return;
    }
    if (moved == 1) {
        uint64_t value = r[p[last]];
        if (callee->param_class[last] == RVM_CLASS_OWNED) {
            r[p[last]] = 0;
        }
        r[slot[last]] = value;
        return;
    }
    scatter(gather_classes(m->gather, p, n, r, callee->param_class), slot, n, r);
}

static inline bool is_closure(uint64_t word, uint16_t signature) {
    if (UNLIKELY(word_object(word)->kind != RVM_CELL)) {
        return false;
    }
    const rvm_layout *shape = word_cell(word)->shape;
    return LIKELY(shape->callee && shape->signature == signature);
}

static int32_t not_callable(rvm_machine *m) {
    return trap_set(m, RVM_TRAP_BAD_VALUE, "a value is not the function that the program expects");
}

static int32_t out_of_depth(rvm_machine *m) {
    return trap_set(m, RVM_TRAP_OUT_OF_DEPTH, "calls are nested %llu deep", (unsigned long long)m->max_depth);
}

/* What the loop keeps in registers besides pc and the registers `r` of the innermost frame: in `state` the fuel, in its
 * upper half, and how many more calls may be nested, in the lower. */
#define ONE_STEP ((int64_t)1 << 32)
#define FRAME frame_of(r)
#define DEPTH() (whole_depth - (uint32_t)state)
#define SAVE_FUEL() (m->fuel = state >> 32)
#define LOAD_FUEL() (state = (int64_t)((uint64_t)m->fuel << 32 | (uint32_t)state))

/* Each entry of a function changes it: a compiler that sees hundreds of blocks of which few do would keep it in memory. */
#if defined __x86_64__ && defined __GNUC__ && !defined __clang__
#define IN_REGISTER(name) __asm__(name)
#else
#define IN_REGISTER(name)
#endif

static inline rvm_frame *frame_of(uint64_t *slots) {
    return (rvm_frame *)(void *)((uint8_t *)slots - offsetof(rvm_frame, slots));
}

#define READ_IMM64(p) read_imm64(p)
#define READ_IMM32(p) read_u32(p)
#ifdef RVM_PROFILED
#define PROFILE_ENTER() profile_enter(m->profile, callee->index, DEPTH())
#define PROFILE_REPEAT() profile_repeat(m->profile)
#define PROFILE_BACK() profile_back(m->profile, DEPTH())
#else
#define PROFILE_ENTER() (void)0
#define PROFILE_REPEAT() (void)0
#define PROFILE_BACK() (void)0
#endif
#define GATHER(p, n) gather_words(m->gather, p, n, r)
#define GATHER_FIELDS(layout, p, n) gather_classes(m->gather, p, n, r, m->layouts[layout].field_class)
#define RESULTS(n) (m->results)
#define SCATTER(buffer, p, n) scatter(buffer, p, n, r)
#define TRAP(code)                                                                                \
    do {                                                                                          \
        trap = (code);                                                                            \
        goto trapped;                                                                             \
    } while (0)
#define NEXT_AT(target)                                                                           \
    do {                                                                                          \
        pc = (target);                                                                            \
        DISPATCH();                                                                               \
    } while (0)
#ifdef RVM_LEAVING
#define ENTER_CODE(target) goto compiled
#else
#define ENTER_CODE(target)                                                                        \
    do {                                                                                          \
        pc = (target);                                                                            \
        state -= ONE_STEP;                                                                        \
        if (UNLIKELY(state < 0)) {                                                                \
            goto safepoint;                                                                       \
        }                                                                                         \
        DISPATCH();                                                                               \
    } while (0)
#endif
#define ENTER(target)                                                                             \
    do {                                                                                          \
        PROFILE_ENTER();                                                                          \
        ENTER_CODE(target);                                                                       \
    } while (0)

/* The frame of a call, `entered`, which is current once the arguments are in it and the results have their list. */
#define BEGIN_CALL(target)                                                                        \
    callee = (target);                                                                            \
    if (UNLIKELY((uint32_t)state == 0)) {                                                         \
        TRAP(out_of_depth(m));                                                                    \
    }                                                                                             \
    rvm_frame *const entered = frame_push(m, frame_end(FRAME), callee);                           \
    if (UNLIKELY(!entered)) {                                                                     \
        TRAP(trap_out_of_memory(m));                                                              \
    }
#define ENTER_FRAME(list)                                                                         \
    do {                                                                                          \
        FRAME->results = (list);                                                                  \
        entered->caller = FRAME;                                                                  \
        r = entered->slots;                                                                       \
        state--;                                                                                  \
        ENTER(callee->code);                                                                      \
    } while (0)

#include "fused_steps.h"

#if defined RVM_STRESS || defined RVM_TRACED || defined RVM_PROFILED || defined RVM_LEAVING
#define ONE_DISPATCH
#if defined RVM_TRACED || defined RVM_PROFILED || defined RVM_LEAVING
#define ONE_BY_ONE
#endif
#define OP(name)                                                                                  \
    case RVM_OP_##name:                                                                           \
    op_##name:                                                                                    \
    __attribute__((unused));
#define DISPATCH() goto dispatch
#else
#define OP(name) op_##name:
#define DISPATCH() goto *labels[*pc]
#endif
#define NEXT(units)                                                                               \
    do {                                                                                          \
        pc += (units);                                                                            \
        DISPATCH();                                                                               \
    } while (0)

#ifdef RVM_TRACED
static int32_t show(const rvm_machine *m, rvm_frame *frame, const uint16_t *pc, uint64_t depth) {
    const rvm_function *function = frame->function;
    rvm_trace_event event = {
        .slots = frame->slots,
        .depth = depth,
        .run = m->invocations,
        .function = function->index,
        .unit = (uint32_t)(pc - function->code),
    };
    return m->trace(m->trace_context, &event);
}
#endif

#ifdef RVM_LEAVING
int32_t interpreter_leave(rvm_machine *machine, rvm_frame *frame, const uint16_t *pc, uint64_t *results) {
#else
int32_t interpreter_run(rvm_machine *machine, rvm_frame *frame, uint64_t *results) {
    const uint16_t *pc = frame->function->code;
#endif
#ifndef ONE_DISPATCH
    static const void *const labels[RVM_NUM_OPCODES + RVM_NUM_FUSED] = {
#define X(name, opcode) [opcode] = &&op_##name,
#include "generated/opcodes.inc"
#undef X
    };
#endif
    register rvm_machine *m IN_REGISTER("r13") = machine;
    uint64_t *r = frame->slots;
    /* All that returns adds to it, those that wait already too: the lower half must hold the whole depth. */
    const uint64_t calls_left = m->max_depth - m->depth, most_left = m->depth < UINT32_MAX ? UINT32_MAX - m->depth : 0;
    register int64_t state IN_REGISTER("r15") = (int64_t)(calls_left < most_left ? calls_left : most_left);
    const uint64_t whole_depth = m->depth + (uint32_t)state;
    LOAD_FUEL();
    int32_t trap = 0;
    const rvm_function *callee = frame->function;
#ifdef RVM_LEAVING
    m->switches++;
    if (pc == callee->code) {
        state += ONE_STEP; /* who is entered counts the step, which has been counted here too */
        goto compiled;
    }
    DISPATCH();
#else
    ENTER(pc);
#endif

#ifndef RVM_LEAVING
safepoint:
    SAVE_FUEL();
#endif
safepoint_of_machine: /* where kernels may have used up more than fits the register */
    trap = trap_safepoint(m);
    LOAD_FUEL();
    if (trap) {
        goto trapped;
    }
#if !defined RVM_LEAVING && !defined RVM_TRACED && !defined RVM_PROFILED
    native_consider(m, m->steps);
    if (UNLIKELY(native_is_ready(m))) {
        m->depth = DEPTH();
        return interpreter_leave(m, FRAME, pc, results);
    }
#endif
    DISPATCH();

#ifdef ONE_DISPATCH
dispatch:
#ifdef RVM_TRACED
    if (show(m, FRAME, pc, DEPTH())) {
        TRAP(trap_set(m, RVM_TRAP_INTERRUPTED, "the run was interrupted"));
    }
#endif
#ifdef RVM_PROFILED
    profile_instruction(m->profile, pc);
#endif
#ifdef ONE_BY_ONE
    switch (plain_opcode(*pc)) {
#else
    switch (*pc) {
#endif
#endif

#include "generated/dispatch.inc"
#ifndef ONE_BY_ONE
#include "generated/fused.inc"
#endif

    OP(goto) {
        pc += read_u32(pc + 1);
        DISPATCH();
    }

    OP(branch_false) {
        if (r[pc[1]]) {
            NEXT(4);
        }
        pc += read_u32(pc + 2);
        DISPATCH();
    }

    OP(switch_tag) {
        uint32_t tag = (uint32_t)word_object(r[pc[1]])->layout - pc[2];
        if (UNLIKELY(tag >= pc[3])) {
            TRAP(body_wrong_layout(m, pc[2]));
        }
        pc += read_u32(pc + 4 + 2 * tag);
        DISPATCH();
    }

    OP(trap) {
        TRAP(trap_named(m, pc[1]));
    }

    OP(return) {
        rvm_frame *caller = FRAME->caller;
        uint32_t n = pc[1];
        if (!caller) {
            gather_words(results, pc + 2, n, r);
            frame_pop(m, FRAME);
            SAVE_FUEL();
            return 0;
        }
        const uint16_t *list = caller->results + 1;
        for (uint32_t i = 0; i < n; i++) {
            caller->slots[list[i]] = r[pc[2 + i]];
        }
        frame_pop(m, FRAME);
        state++;
        PROFILE_BACK();
        r = caller->slots;
        NEXT_AT(list + n);
    }

    OP(call) {
        uint32_t n = pc[2];
        BEGIN_CALL(&m->functions[pc[1]]);
        pass_arguments(callee, entered, 0, pc + 3, n, r);
        ENTER_FRAME(pc + 3 + n);
    }

    OP(call_closure) {
        uint32_t n = pc[3];
        if (UNLIKELY(!is_closure(r[pc[1]], pc[2]))) {
            TRAP(not_callable(m));
        }
        BEGIN_CALL(word_cell(r[pc[1]])->shape->callee);
        entered->slots[callee->param_slot[0]] = r[pc[1]];
        r[pc[1]] = 0;
        pass_arguments(callee, entered, 1, pc + 4, n, r);
        ENTER_FRAME(pc + 4 + n);
    }

    OP(tail_call) {
        callee = &m->functions[pc[1]];
        uint32_t n = pc[2];
        if (callee == FRAME->function) {
            pass_to_itself(m, callee, pc + 3, n, r);
            PROFILE_REPEAT();
            ENTER_CODE(callee->code);
        }
        gather_classes(m->gather, pc + 3, n, r, callee->param_class);
        goto enter_tail;
    }

    OP(tail_call_closure) {
        uint32_t n = pc[3];
        if (UNLIKELY(!is_closure(r[pc[1]], pc[2]))) {
            TRAP(not_callable(m));
        }
        callee = word_cell(r[pc[1]])->shape->callee;
        m->gather[0] = r[pc[1]];
        r[pc[1]] = 0;
        gather_classes(m->gather + 1, pc + 4, n, r, callee->param_class + 1);
        goto enter_tail;
    }

    OP(kernel) {
        const rvm_kernel *kernel = &m->program->kernels[pc[1]];
        const uint16_t *outputs = pc + 3 + kernel->num_inputs;
        SAVE_FUEL();
        trap = kernel_call(m, kernel, 0, pc + 2, outputs, r);
        if (UNLIKELY(trap)) {
            goto trapped_in_machine;
        }
        pc = outputs + 1 + kernel->num_outputs;
        goto called_kernel;
    }

    OP(kernel_reuse) {
        const rvm_kernel *kernel = &m->program->kernels[pc[1]];
        const uint16_t *outputs = pc + 5 + kernel->num_inputs;
        SAVE_FUEL();
        trap = kernel_call(m, kernel, read_u32(pc + 2), pc + 4, outputs, r);
        if (UNLIKELY(trap)) {
            goto trapped_in_machine;
        }
        pc = outputs + 1 + kernel->num_outputs;
        goto called_kernel;
    }

#ifdef ONE_DISPATCH
    default:
        __builtin_unreachable();
    }
#endif

called_kernel:
    if (UNLIKELY(m->fuel < 0)) {
        goto safepoint_of_machine;
    }
    LOAD_FUEL();
    DISPATCH();

enter_tail: { /* the arguments of `callee` stand in m->gather, the frame is given up */
    rvm_frame *caller = FRAME->caller, *entered = frame_replace(m, FRAME, callee);
    if (UNLIKELY(!entered)) {
        for (uint32_t i = 0; i < callee->num_params; i++) {
            if (callee->param_class[i] == RVM_CLASS_OWNED) {
                object_release(&m->heap, word_object(m->gather[i]));
            }
        }
        pc = caller ? caller->results - 1 : pc;
        SAVE_FUEL();
        trap = trap_out_of_memory(m);
        trap_unwind(m, caller, pc, trap);
        return trap;
    }
    r = entered->slots;
    scatter(m->gather, callee->param_slot, callee->num_params, r);
    ENTER(callee->code);
}

#ifdef RVM_LEAVING
compiled: { /* where a function is entered its parameters are all that is live */
    rvm_frame *caller = FRAME->caller;
    callee = FRAME->function;
    for (uint32_t i = 0; i < callee->num_params; i++) {
        m->gather[i] = r[callee->param_slot[i]];
    }
    frame_pop(m, FRAME);
    SAVE_FUEL();
    m->depth = DEPTH();
    trap = native_run(m, callee, m->gather, caller ? m->results : results);
    if (UNLIKELY(trap)) {
        trap_unwind_callers(m, caller);
        return trap;
    }
    if (!caller) {
        return 0;
    }
    LOAD_FUEL();
    state++;
    r = caller->slots;
    scatter(m->results, caller->results + 1, *caller->results, r);
    NEXT_AT(caller->results + 1 + *caller->results);
}
#endif

trapped:
    SAVE_FUEL();
trapped_in_machine:
    trap_unwind(m, FRAME, pc, trap);
    return trap;
}
