/* Running compiled code: the functions it calls besides the bodies of instructions, its traps, and its stack. Kernels
 * and callbacks of the host run on the thread's own stack, whatever they need of it. */
#include "native.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "bodies_tensor.h"
#include "generated/bodies.inc"
#include "generated/opcodes.h"
#include "kernel_phases.h"

#define FIRST_BYTES ((uint64_t)64 * 1024)
#define PROBABLE_MARGIN_BYTES ((uint64_t)1024 * 1024) /* of code that is not there yet */
#define STACK_PAGES 3 /* that runs begin with, and one */
#define LARGEST_STEP_BYTES ((uint64_t)16 * 1024 * 1024)
#define MOST_STACK_BYTES ((uint64_t)64 * 1024 * 1024 * 1024)
#define ORIGIN_KNOWN (-1) /* the trap's code is set already */
#define PENDING INT64_MIN

/* --- stacks ---------------------------------------------------------------------------------------- */

#if defined(__x86_64__)
#define IS_SUPPORTED true
/* Calls f(argument) on another stack; the stack left is noted below the red zone. */
static __attribute__((noinline)) void run_on(void *top, void (*f)(void *), void *argument, void **left) {
    __asm__ volatile("movq %%rsp, %%rbx\n\t"
                     "leaq -256(%%rsp), %%rax\n\t"
                     "andq $-64, %%rax\n\t"
                     "movq %%rax, (%%rcx)\n\t"
                     "movq %%rsi, %%rsp\n\t"
                     "callq *%%rdx\n\t"
                     "movq %%rbx, %%rsp\n\t"
                     : "+D"(argument), "+S"(top), "+d"(f), "+c"(left)
                     :
                     : "rax", "rbx", "r8", "r9", "r10", "r11", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5",
                       "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15",
                       "memory", "cc");
}
#elif defined(__aarch64__)
#define IS_SUPPORTED true
static __attribute__((noinline)) void run_on(void *top, void (*f)(void *), void *argument, void **left) {
    register void *x0 __asm__("x0") = argument;
    register void *x1 __asm__("x1") = top;
    register void (*x2)(void *) __asm__("x2") = f;
    register void **x3 __asm__("x3") = left;
    __asm__ volatile("mov x19, sp\n\t"
                     "str x19, [x3]\n\t"
                     "mov sp, x1\n\t"
                     "blr x2\n\t"
                     "mov sp, x19\n\t"
                     : "+r"(x0), "+r"(x1), "+r"(x2), "+r"(x3)
                     :
                     : "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14", "x15", "x16", "x17",
                       "x19", "x30", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v16", "v17", "v18", "v19",
                       "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31", "memory",
                       "cc");
}
#else
#define IS_SUPPORTED false
static void run_on(void *top, void (*f)(void *), void *argument, void **left) {
    (void)top, (void)left;
    f(argument);
}
#endif

bool rvm_native_is_supported(void) {
    return IS_SUPPORTED;
}

/* The top of the stack, of which the C code that is called may use the margin. */
static uint8_t *stack_top(const rvm_native *native) {
    return native->stack + native->stack_bytes;
}

static void set_usable(rvm_native *native, uint64_t bytes) {
    native->usable_bytes = bytes;
    native->limit = (uint64_t)(uintptr_t)stack_top(native) - bytes;
}

/* Address space for as many calls as the limits allow, which costs nothing until it is touched. The more registers a
 * function has the more it may keep on the stack. */
static uint64_t wanted_bytes(const rvm_machine *m) {
    uint64_t most = 0;
    for (uint32_t i = 0; i < m->program->num_functions; i++) {
        most = m->program->functions[i].slots > most ? m->program->functions[i].slots : most;
    }
    const uint64_t each = 256 + 16 * most;
    uint64_t bytes = m->max_depth < MOST_STACK_BYTES / each ? m->max_depth * each : MOST_STACK_BYTES;
    return bytes < m->heap.limit_bytes ? bytes : m->heap.limit_bytes;
}

static uint64_t least_bytes(uint64_t margin_bytes) {
    return (margin_bytes + FIRST_BYTES + 4095) & ~(uint64_t)4095;
}

/* Maps a stack, with a page below it that nothing may touch, and the room for what a trap leaves. */
static bool map_stack(rvm_machine *m, uint64_t margin_bytes) {
    rvm_native *native = &m->native;
    uint64_t most = 1;
    for (uint32_t i = 0; i < m->program->num_functions; i++) {
        most = m->program->functions[i].slots > most ? m->program->functions[i].slots : most;
    }
    const uint64_t least = least_bytes(margin_bytes);
    uint64_t bytes = (wanted_bytes(m) & ~(uint64_t)4095) + least;
    native->slots = native->slots ? native->slots : calloc(most, sizeof *native->slots);
    void *stack = MAP_FAILED;
    for (; native->slots && stack == MAP_FAILED && bytes >= least; bytes = bytes > least ? least + (bytes - least) / 2 : 0) {
        native->mapped_bytes = bytes &= ~(uint64_t)4095;
        stack = mmap(NULL, bytes + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK,
                     -1, 0);
    }
    if (stack == MAP_FAILED) {
        return false;
    }
    mprotect(stack, 4096, PROT_NONE);
    native->mapped = (uint8_t *)stack + 4096;
    return true;
}

static void unmap_stack(rvm_native *native) {
    if (native->mapped) {
        munmap(native->mapped - 4096, native->mapped_bytes + 4096);
        native->mapped = NULL;
    }
}

bool rvm_machine_set_native(rvm_machine *m) {
    rvm_native *native = &m->native;
    native->margin_bytes = m->program->native_margin_bytes;
    if (native->mapped_bytes < least_bytes(native->margin_bytes)) {
        unmap_stack(native);
    }
    if (!native->mapped && !map_stack(m, native->margin_bytes)) {
        return false;
    }
    native->stack = native->mapped;
    native->stack_bytes = native->mapped_bytes;
    native->constants = m->program->constant_objects;
    native->layouts = m->program->layouts;
    native->kernels = m->program->kernels;
    native->memory_shapes = heap_memory_shapes;
    set_usable(native, FIRST_BYTES);
#ifdef RVM_STRESS
    native->interpret_first = 1;
#endif
    return true;
}

/* What asking and the later switch need is done bit by bit, at the ends of several slices: each is a pause. */
void native_ask(rvm_machine *m) {
    rvm_native *native = &m->native;
    if (native_compile_ask(m->program)) {
        return;
    }
    if (native->readiness == 0 && map_stack(m, PROBABLE_MARGIN_BYTES)) {
        native->readiness = STACK_PAGES;
    } else if (native->readiness > 1) {
        *(volatile uint8_t *)(native->mapped + native->mapped_bytes - 4096 * (uint64_t)--native->readiness) = 0;
    } else {
        native->readiness = 1;
    }
}

void rvm_machine_follow_native(rvm_machine *m, uint64_t ask_after_steps) {
    m->native.follows = true;
    m->native.ask_after_steps = ask_after_steps;
    if (ask_after_steps && !rvm_program_is_native(m->program)) {
        native_compile_prepare();
    }
}

void rvm_machine_interpret_first(rvm_machine *m, uint64_t steps) {
    m->native.interpret_first = steps;
}

bool rvm_machine_is_native(rvm_machine *m) {
    return m->native.stack || (m->native.follows && rvm_program_is_native(m->program));
}

bool native_follow(rvm_machine *m) {
    if (!rvm_program_is_native(m->program)) {
        return false;
    }
    m->native.follows = false;
    m->native.ask_after_steps = 0;
    return rvm_machine_set_native(m);
}

void native_trim(rvm_machine *m) {
    rvm_native *native = &m->native;
    if (native->mapped) {
        madvise(native->mapped, native->mapped_bytes, MADV_DONTNEED);
    }
    if (native->stack) {
        heap_uncharge(&m->heap, native->usable_bytes - FIRST_BYTES);
        m->stack_bytes -= native->usable_bytes - FIRST_BYTES;
        set_usable(native, FIRST_BYTES);
    }
}

void native_close(rvm_machine *m) {
    native_trim(m);
    unmap_stack(&m->native);
    free(m->native.slots);
}

/* --- what compiled code calls ------------------------------------------------------------------------ */

/* A call is due for which there is no depth or no stack left. More stack is counted as it comes to be used. */
static int32_t native_deeper(rvm_machine *m, int64_t state, uint64_t stack) {
    rvm_native *native = &m->native;
    if ((uint32_t)state == 0) {
        return trap_set(m, RVM_TRAP_OUT_OF_DEPTH, "calls are nested %llu deep", (unsigned long long)m->max_depth);
    }
    while (stack < native->limit) {
        const uint64_t left = native->stack_bytes - native->margin_bytes - native->usable_bytes;
        uint64_t more = native->usable_bytes < LARGEST_STEP_BYTES ? native->usable_bytes : LARGEST_STEP_BYTES;
        more = more < left ? more : left;
        if (more == 0 || !heap_charge(&m->heap, more)) {
            return trap_out_of_memory(m);
        }
        m->stack_bytes += more;
        set_usable(native, native->usable_bytes + more);
    }
    return 0;
}

typedef struct host_call {
    rvm_machine *m;
    const rvm_kernel *kernel;
    const uint16_t *inputs, *outputs;
    uint64_t *r;
    uint32_t given;
    int32_t trap;
} host_call;

static void safepoint_there(void *argument) {
    host_call *call = argument;
    call->trap = trap_safepoint(call->m);
}

static void kernel_there(void *argument) {
    host_call *call = argument;
    call->trap = kernel_call(call->m, call->kernel, call->given, call->inputs, call->outputs, call->r);
}

static int32_t on_host_stack(void (*f)(void *), host_call *call) {
    void *left;
    run_on(call->m->native.host_stack, f, call, &left);
    call->m->native.trap = call->trap;
    return call->trap;
}

/* The end of a slice, where the fuel stands in the machine. */
static int64_t native_settle(rvm_machine *m, int64_t state) {
    host_call call = {.m = m};
    if (on_host_stack(safepoint_there, &call)) {
        return PENDING;
    }
    return (int64_t)((uint64_t)m->fuel << 32 | (uint32_t)state);
}

static int64_t native_safepoint(rvm_machine *m, int64_t state) {
    m->fuel = state >> 32;
    return native_settle(m, state);
}

/* `inputs` and `outputs` are lists of places in `r`, as kernel_call has them. Takes and leaves the fuel in the machine. */
static int32_t native_kernel(rvm_machine *m, uint32_t kernel, uint32_t given, const uint16_t *inputs,
                             const uint16_t *outputs, uint64_t *r) {
    host_call call = {.m = m, .kernel = &m->program->kernels[kernel], .given = given};
    call.inputs = inputs;
    call.outputs = outputs;
    call.r = r;
    return on_host_stack(kernel_there, &call);
}

/* A tensor for a kernel's output; 0 where memory is out. */
static uint64_t native_tensor(rvm_machine *m, uint32_t dtype, uint32_t rank, const int64_t *dims, int64_t elements) {
    return object_word(tensor_new(&m->heap, (uint8_t)dtype, rank, dims, elements));
}

static int32_t native_stopped(rvm_machine *m, uint32_t kernel, int32_t status) {
    return kernel_trap(m, &m->program->kernels[kernel], status, m->kernel_values);
}

/* Records one function that a trap leaves, and drops what it owns. `code` is 0 for those that wait for a call. */
static void native_trapped(rvm_machine *m, uint32_t number, uint32_t unit, int32_t code, int64_t state) {
    const rvm_function *function = &m->program->functions[number];
    uint64_t *slots = m->native.slots;
    if (code) {
        if (code != ORIGIN_KNOWN) {
            m->native.trap = code;
            m->fuel = state >> 32;
        }
        trap_begin(m, (int32_t)m->native.trap);
        trap_add_registers(m, function, slots);
    }
    trap_add_frame(m, function, unit);
    for (unsigned i = function->words, end = i + function->owned; i < end; i++) {
        if (slots[i]) {
            object_release(&m->heap, word_object(slots[i]));
        }
    }
    memset(slots, 0, function->slots * sizeof *slots);
}

static int32_t native_wrong_layout(rvm_machine *m, uint32_t type) {
    return body_wrong_layout(m, (uint16_t)type);
}

static int32_t native_not_callable(rvm_machine *m) {
    return trap_set(m, RVM_TRAP_BAD_VALUE, "a value is not the function that the program expects");
}

static int32_t native_named(rvm_machine *m, uint32_t code) {
    return trap_named(m, (uint16_t)code);
}

/* Instrumented code says where it is; what is left of the depth stands in its state. */
static void native_entered(rvm_machine *m, uint32_t function, int64_t state) {
    profile_enter(m->profile, function, m->profile->native_depth - (uint32_t)state + 1);
}

static void native_repeated(rvm_machine *m) {
    profile_repeat(m->profile);
}

static void native_returned(rvm_machine *m, int64_t state) {
    profile_back(m->profile, m->profile->native_depth - (uint32_t)state + 1);
}

#define NATIVE_CALLS(X)                                                                           \
    X(deeper) X(settle) X(safepoint) X(kernel) X(trapped) X(wrong_layout) X(not_callable) X(named) X(tensor) X(stopped)   \
    X(entered) X(repeated) X(returned)

enum {
    BEFORE_CALLS = RVM_NUM_OPCODES - 1,
#define NUMBER(name) CALL_##name,
    NATIVE_CALLS(NUMBER)
#undef NUMBER
        NUM_CALLS
};

/* ISO C has no cast of functions to `void *`; POSIX makes them one. */
typedef void (*any_function)(void);
static const any_function native_calls[NUM_CALLS] = {
#include "generated/native.inc"
#define ADDRESS(name) [CALL_##name] = (any_function)native_##name,
    NATIVE_CALLS(ADDRESS)
#undef ADDRESS
};

uint64_t rvm_native_call(const char *name) {
#define NUMBER(known)                                                                             \
    if (strcmp(name, #known) == 0) {                                                              \
        return CALL_##known;                                                                      \
    }
    NATIVE_CALLS(NUMBER)
#undef NUMBER
    return UINT64_MAX;
}

static const struct {
    const char *name;
    uint64_t offset;
} native_fields[] = {
    {"calls", offsetof(rvm_machine, native.calls)},
    {"constants", offsetof(rvm_machine, native.constants)},
    {"layouts", offsetof(rvm_machine, native.layouts)},
    {"slots", offsetof(rvm_machine, native.slots)},
    {"limit", offsetof(rvm_machine, native.limit)},
    {"fuel", offsetof(rvm_machine, fuel)},
    {"gather", offsetof(rvm_machine, gather)},
    {"results", offsetof(rvm_machine, results)},
    {"free_blocks", offsetof(rvm_machine, heap.free_blocks)},
    {"layout_bytes", sizeof(rvm_layout)},
    {"layout_signature", offsetof(rvm_layout, signature)},
    {"layout_native", offsetof(rvm_layout, native)},
    {"layout_profiled", offsetof(rvm_layout, profiled)},
    {"profile_hits", offsetof(rvm_profile, hits)},
    {"fields", offsetof(rvm_cell, fields)},
    {"shape", offsetof(rvm_cell, shape)},
    {"profile", offsetof(rvm_machine, profile)},
    {"kernel_calls", offsetof(rvm_machine, kernel_calls)},
    {"kernel_dims", offsetof(rvm_machine, kernel_dims)},
    {"kernel_values", offsetof(rvm_machine, kernel_values)},
    {"kernels", offsetof(rvm_machine, native.kernels)},
    {"memory_shapes", offsetof(rvm_machine, native.memory_shapes)},
    {"new_cells", offsetof(rvm_machine, heap.new_cells)},
    {"reused_cells", offsetof(rvm_machine, heap.reused_cells)},
    {"kernel_bytes", sizeof(rvm_kernel)},
    {"kernel_phases", offsetof(rvm_kernel, phases)},
    {"kernel_calls_host", offsetof(rvm_kernel, calls_host)},
    {"tensor_dtype", offsetof(rvm_tensor, dtype)},
    {"tensor_storage", offsetof(rvm_tensor, storage)},
    {"tensor_data", offsetof(rvm_tensor, data)},
    {"tensor_dims", offsetof(rvm_tensor, dims)},
    {"storage_foreign", offsetof(rvm_storage, foreign)},
    {"array_length", offsetof(rvm_array, length)},
    {"array_capacity", offsetof(rvm_array, capacity)},
    {"ref_value", offsetof(rvm_ref, value)},
    {"ref_full", offsetof(rvm_ref, full)},
    {"array_items", offsetof(rvm_array, items)},
};
#define NUM_FIELDS (sizeof native_fields / sizeof *native_fields)

uint64_t rvm_native_offset(const char *name) {
    for (size_t i = 0; i < NUM_FIELDS; i++) {
        if (strcmp(name, native_fields[i].name) == 0) {
            return native_fields[i].offset;
        }
    }
    return UINT64_MAX;
}

static uint64_t mixed(uint64_t hash, uint64_t value) {
    return (hash ^ value) * UINT64_C(0x100000001b3);
}

static uint64_t mixed_text(uint64_t hash, const char *text) {
    for (; *text; text++) {
        hash = mixed(hash, (uint8_t)*text);
    }
    return mixed(hash, 0);
}

uint64_t rvm_native_abi(void) {
    uint64_t hash = mixed(RVM_NATIVE_SALT, rvm_is_stress_build());
    for (size_t i = 0; i < NUM_FIELDS; i++) {
        hash = mixed(mixed_text(hash, native_fields[i].name), native_fields[i].offset);
    }
#define MIX(name) hash = mixed_text(hash, #name);
    NATIVE_CALLS(MIX)
#undef MIX
    return hash;
}

/* --- runs --------------------------------------------------------------------------------------------- */

typedef struct run {
    rvm_machine *m;
    const rvm_native_code *code;
    const uint64_t *args;
    uint64_t *results;
    int64_t state;
} run;

static void run_there(void *argument) {
    run *r = argument;
    r->state = r->code->enter(r->m, r->code->code, r->state, r->args, r->results);
}

int32_t native_run(rvm_machine *m, const rvm_function *function, const uint64_t *args, uint64_t *results) {
    const uint64_t calls = m->max_depth - m->depth;
    const uint32_t depth = calls < UINT32_MAX ? (uint32_t)calls : UINT32_MAX;
    const rvm_native_code *code = &m->program->native[function->index];
    if (m->profile) {
        code = &m->program->profiled[function->index];
        m->profile->native_depth = depth;
        m->profile->is_native = 1;
    }
    run r = {m, code, args, results, (int64_t)((uint64_t)m->fuel << 32 | depth)};
    memcpy(&m->native.calls, &(const any_function *){native_calls}, sizeof m->native.calls);
    run_on(stack_top(&m->native), run_there, &r, &m->native.host_stack);
    if (r.state < 0) {
        return (int32_t)m->native.trap;
    }
    m->fuel = r.state >> 32;
    return 0;
}
