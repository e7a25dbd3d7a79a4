/* The loop that runs bytecode: control instructions here, all others from the instruction table through their
 * bodies. Verified code is trusted in what the verifier proves and in nothing else. */
#include "bodies_tensor.h"
#include "generated/opcodes.h"

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

/* Moves arguments from the registers of a caller to those of a new frame. */
static inline void pass_arguments(const rvm_function *callee, rvm_frame *frame, const uint16_t *p, uint32_t n,
                                  uint64_t *r) {
    const uint16_t *slot = callee->param_slot;
    for (uint32_t i = 0; i < n; i++) {
        frame->slots[slot[i]] = r[p[i]];
        if (callee->param_class[i] == RVM_CLASS_OWNED) {
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

static int32_t closure_target(rvm_machine *m, uint64_t word, uint16_t signature, const rvm_function **callee) {
    const rvm_object *object = word_object(word);
    if (object->kind == RVM_CELL) {
        const rvm_layout *shape = ((const rvm_cell *)(const void *)object)->shape;
        if (shape->kind == RVM_LAYOUT_CLOSURE && shape->signature == signature) {
            *callee = &m->program->functions[shape->function];
            return 0;
        }
    }
    return trap_set(m, RVM_TRAP_BAD_VALUE, "a value is not the function that the program expects");
}

static int32_t out_of_depth(rvm_machine *m) {
    return trap_set(m, RVM_TRAP_OUT_OF_DEPTH, "calls are nested %llu deep", (unsigned long long)m->max_depth);
}

#define READ_IMM64(p) read_imm64(p)
#define READ_IMM32(p) read_u32(p)
#ifdef RVM_PROFILED
#define PROFILE_ENTER() profile_enter(m->profile, callee->index, m->depth)
#define PROFILE_REPEAT() profile_repeat(m->profile)
#define PROFILE_BACK() profile_back(m->profile, m->depth)
#else
#define PROFILE_ENTER() (void)0
#define PROFILE_REPEAT() (void)0
#define PROFILE_BACK() (void)0
#endif
#define GATHER(p, n) gather_words(m->gather, p, n, r)
#define GATHER_FIELDS(layout, p, n) gather_classes(m->gather, p, n, r, m->program->layouts[layout].field_class)
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
        if (UNLIKELY(--fuel < 0)) {                                                               \
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

#if defined RVM_STRESS || defined RVM_TRACED || defined RVM_PROFILED || defined RVM_LEAVING
#define ONE_DISPATCH
#define OP(name) case RVM_OP_##name:
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
static int32_t show(const rvm_machine *m, rvm_frame *frame, const uint16_t *pc) {
    const rvm_function *function = frame->function;
    rvm_trace_event event = {
        .slots = frame->slots,
        .depth = m->depth,
        .run = m->invocations,
        .function = function->index,
        .unit = (uint32_t)(pc - function->code),
    };
    return m->trace(m->trace_context, &event);
}
#endif

#ifdef RVM_LEAVING
int32_t interpreter_leave(rvm_machine *m, rvm_frame *frame, const uint16_t *pc, uint64_t *results) {
#else
int32_t interpreter_run(rvm_machine *m, rvm_frame *frame, uint64_t *results) {
    const uint16_t *pc = frame->function->code;
#endif
#ifndef ONE_DISPATCH
    static const void *const labels[RVM_NUM_OPCODES] = {
#define X(name, opcode) [opcode] = &&op_##name,
#include "generated/opcodes.inc"
#undef X
    };
#endif
    uint64_t *r = frame->slots;
    int64_t fuel = m->fuel;
    int32_t trap = 0;
    const rvm_function *callee = frame->function;
#ifdef RVM_LEAVING
    m->switches++;
    if (pc == callee->code) {
        fuel++; /* who is entered counts the step, which has been counted here too */
        goto compiled;
    }
    DISPATCH();
#else
    ENTER(pc);
#endif

safepoint:
    m->fuel = fuel;
    trap = trap_safepoint(m);
    fuel = m->fuel;
    if (trap) {
        goto trapped;
    }
#if !defined RVM_LEAVING && !defined RVM_TRACED && !defined RVM_PROFILED
    native_consider(m, m->steps);
    if (UNLIKELY(native_is_ready(m))) {
        return interpreter_leave(m, frame, pc, results);
    }
#endif
    DISPATCH();

#ifdef ONE_DISPATCH
dispatch:
#ifdef RVM_TRACED
    if (show(m, frame, pc)) {
        TRAP(trap_set(m, RVM_TRAP_INTERRUPTED, "the run was interrupted"));
    }
#endif
#ifdef RVM_PROFILED
    profile_instruction(m->profile, pc);
#endif
    switch (*pc) {
#endif

#include "generated/dispatch.inc"

    OP(goto) {
        pc = frame->function->code + read_u32(pc + 1);
        DISPATCH();
    }

    OP(branch_false) {
        if (r[pc[1]]) {
            NEXT(4);
        }
        pc = frame->function->code + read_u32(pc + 2);
        DISPATCH();
    }

    OP(switch_tag) {
        uint32_t tag = (uint32_t)word_object(r[pc[1]])->layout - pc[2];
        if (UNLIKELY(tag >= pc[3])) {
            TRAP(body_wrong_layout(m, pc[2]));
        }
        pc = frame->function->code + read_u32(pc + 4 + 2 * tag);
        DISPATCH();
    }

    OP(trap) {
        TRAP(trap_named(m, pc[1]));
    }

    OP(return) {
        rvm_frame *caller = frame->caller;
        uint32_t n = pc[1];
        if (!caller) {
            gather_words(results, pc + 2, n, r);
            frame_pop(m, frame);
            m->fuel = fuel;
            return 0;
        }
        const uint16_t *list = caller->results + 1;
        for (uint32_t i = 0; i < n; i++) {
            caller->slots[list[i]] = r[pc[2 + i]];
        }
        frame_pop(m, frame);
        m->depth--;
        PROFILE_BACK();
        frame = caller;
        r = frame->slots;
        NEXT_AT(list + n);
    }

    OP(call) {
        callee = &m->program->functions[pc[1]];
        uint32_t n = pc[2];
        if (UNLIKELY(m->depth >= m->max_depth)) {
            TRAP(out_of_depth(m));
        }
        rvm_frame *callee_frame = frame_push(m, callee);
        if (UNLIKELY(!callee_frame)) {
            TRAP(trap_out_of_memory(m));
        }
        pass_arguments(callee, callee_frame, pc + 3, n, r);
        frame->results = pc + 3 + n;
        callee_frame->caller = frame;
        frame = callee_frame;
        m->depth++;
        r = frame->slots;
        ENTER(callee->code);
    }

    OP(call_closure) {
        uint32_t n = pc[3];
        trap = closure_target(m, r[pc[1]], pc[2], &callee);
        if (UNLIKELY(trap)) {
            goto trapped;
        }
        if (UNLIKELY(m->depth >= m->max_depth)) {
            TRAP(out_of_depth(m));
        }
        rvm_frame *callee_frame = frame_push(m, callee);
        if (UNLIKELY(!callee_frame)) {
            TRAP(trap_out_of_memory(m));
        }
        callee_frame->slots[callee->param_slot[0]] = r[pc[1]];
        r[pc[1]] = 0;
        for (uint32_t i = 0; i < n; i++) {
            callee_frame->slots[callee->param_slot[i + 1]] = r[pc[4 + i]];
            if (callee->param_class[i + 1] == RVM_CLASS_OWNED) {
                r[pc[4 + i]] = 0;
            }
        }
        frame->results = pc + 4 + n;
        callee_frame->caller = frame;
        frame = callee_frame;
        m->depth++;
        r = frame->slots;
        ENTER(callee->code);
    }

    OP(tail_call) {
        callee = &m->program->functions[pc[1]];
        uint32_t n = pc[2];
        if (callee == frame->function) {
            pass_to_itself(m, callee, pc + 3, n, r);
            PROFILE_REPEAT();
            ENTER_CODE(callee->code);
        }
        gather_classes(m->gather, pc + 3, n, r, callee->param_class);
        goto enter_tail;
    }

    OP(tail_call_closure) {
        uint32_t n = pc[3];
        trap = closure_target(m, r[pc[1]], pc[2], &callee);
        if (UNLIKELY(trap)) {
            goto trapped;
        }
        m->gather[0] = r[pc[1]];
        r[pc[1]] = 0;
        for (uint32_t i = 0; i < n; i++) {
            m->gather[i + 1] = r[pc[4 + i]];
            if (callee->param_class[i + 1] == RVM_CLASS_OWNED) {
                r[pc[4 + i]] = 0;
            }
        }
        goto enter_tail;
    }

    OP(kernel) {
        const rvm_kernel *kernel = &m->program->kernels[pc[1]];
        const uint16_t *outputs = pc + 3 + kernel->num_inputs;
        m->fuel = fuel;
        trap = kernel_call(m, kernel, 0, pc + 2, outputs, r);
        fuel = m->fuel;
        if (UNLIKELY(trap)) {
            goto trapped;
        }
        pc = outputs + 1 + kernel->num_outputs;
        if (UNLIKELY(fuel < 0)) {
            goto safepoint;
        }
        DISPATCH();
    }

    OP(kernel_reuse) {
        const rvm_kernel *kernel = &m->program->kernels[pc[1]];
        const uint16_t *outputs = pc + 5 + kernel->num_inputs;
        m->fuel = fuel;
        trap = kernel_call(m, kernel, read_u32(pc + 2), pc + 4, outputs, r);
        fuel = m->fuel;
        if (UNLIKELY(trap)) {
            goto trapped;
        }
        pc = outputs + 1 + kernel->num_outputs;
        if (UNLIKELY(fuel < 0)) {
            goto safepoint;
        }
        DISPATCH();
    }

#ifdef ONE_DISPATCH
    default:
        __builtin_unreachable();
    }
#endif

enter_tail: { /* the arguments of `callee` stand in m->gather, the frame is given up */
    rvm_frame *caller = frame->caller;
    frame = frame_replace(m, frame, callee);
    if (UNLIKELY(!frame)) {
        for (uint32_t i = 0; i < callee->num_params; i++) {
            if (callee->param_class[i] == RVM_CLASS_OWNED) {
                object_release(&m->heap, word_object(m->gather[i]));
            }
        }
        frame = caller;
        pc = frame ? frame->results - 1 : pc;
        TRAP(trap_out_of_memory(m));
    }
    r = frame->slots;
    scatter(m->gather, callee->param_slot, callee->num_params, r);
    ENTER(callee->code);
}

#ifdef RVM_LEAVING
compiled: { /* where a function is entered its parameters are all that is live */
    callee = frame->function;
    rvm_frame *caller = frame->caller;
    for (uint32_t i = 0; i < callee->num_params; i++) {
        m->gather[i] = frame->slots[callee->param_slot[i]];
    }
    frame_pop(m, frame);
    m->fuel = fuel;
    trap = native_run(m, callee, m->gather, caller ? m->results : results);
    if (UNLIKELY(trap)) {
        trap_unwind_callers(m, caller);
        return trap;
    }
    if (!caller) {
        return 0;
    }
    m->depth--;
    frame = caller;
    r = frame->slots;
    fuel = m->fuel;
    scatter(m->results, frame->results + 1, *frame->results, r);
    NEXT_AT(frame->results + 1 + *frame->results);
}
#endif

trapped:
    m->fuel = fuel;
    trap_unwind(m, frame, pc, trap);
    return trap;
}
