/* What compiled code needs of a machine: the functions that it calls, and a stack of its own. */
#ifndef RVM_NATIVE_H
#define RVM_NATIVE_H

#include <stdbool.h>
#include <stdint.h>

struct rvm_function;
struct rvm_image_function;
struct rvm_kernel;
struct rvm_layout;
struct rvm_machine;
struct rvm_program;

/* The code of one function, and what calls it from C: loads arguments, stores results, returns the state. */
typedef struct rvm_native_code {
    const void *code;
    int64_t (*enter)(struct rvm_machine *m, const void *code, int64_t state, const uint64_t *args, uint64_t *results);
} rvm_native_code;

/* Of one machine. The state that compiled code hands on is its fuel in the upper half and the number of calls that may
 * still be nested in the lower; a negative one says that a trap is pending. */
typedef struct rvm_native {
    const void *const *calls; /* bodies by opcode, then the functions of native.c */
    void **constants;
    const struct rvm_layout *layouts;
    const struct rvm_kernel *kernels;
    const struct rvm_layout *memory_shapes;
    uint64_t *slots; /* registers that a trapped function leaves to be recorded and released */
    uint64_t limit;  /* where the stack ends for now; compiled code looks before each call */
    int64_t trap;    /* code of the pending trap */
    uint8_t *stack;  /* null: the machine interprets */
    uint64_t stack_bytes, usable_bytes, margin_bytes;
    uint8_t *mapped; /* memory of the stack, which may be there before it is used */
    uint64_t mapped_bytes;
    uint32_t readiness; /* 0: nothing is mapped; above 1: pages that are still to be touched, and one */
    void *host_stack; /* of the thread, below what it holds */
    bool follows;     /* the program's code runs once it is there */
    uint64_t ask_after_steps; /* the machine asks for it then; 0: never */
    uint64_t interpret_first; /* steps of each run, a test mode */
} rvm_native;

/* Whether a machine can go on in compiled code. */
bool native_follow(struct rvm_machine *m);
#define native_is_ready(m) ((m)->native.stack || ((m)->native.follows && native_follow(m)))
/* Asks for compiled code, or makes the machine ready for it: a little at each call. */
void native_ask(struct rvm_machine *m);
/* Does so where a machine has taken many steps, `more` of them in this run. */
#define native_consider(m, more)                                                                  \
    do {                                                                                          \
        if ((m)->native.ask_after_steps && (m)->total_steps + (more) >= (m)->native.ask_after_steps) { \
            native_ask(m);                                                                        \
        }                                                                                         \
    } while (0)

/* More than compiled functions ever need unasked: what files may say. */
#define NATIVE_MOST_MARGIN_BYTES (UINT64_C(1) << 32)

/* A number of all that compiled code takes for granted of this runtime: its version, instructions, the table of calls
 * and where fields are. Code made for another number must not run. */
uint64_t rvm_native_abi(void);
/* Gives a program compiled code: offsets from `base` of each function and of what enters it, and the stack that a
 * function and the C code it calls may use unasked. -1 where memory is out. Machines that interpret may run meanwhile;
 * where two threads do it, one code is taken. */
int32_t rvm_program_set_native(struct rvm_program *program, const void *base,
                               const struct rvm_image_function *functions, uint64_t margin_bytes);
/* The same for instrumented code, which only measured runs use. */
int32_t rvm_program_set_profiled(struct rvm_program *program, const void *base,
                                 const struct rvm_image_function *functions);
bool rvm_program_is_profiled(const struct rvm_program *program);
bool rvm_program_is_native(const struct rvm_program *program);
/* Lets a machine run its program's compiled code; false where there is no memory for its stack. */
bool rvm_machine_set_native(struct rvm_machine *machine);
/* Whether the next call runs compiled code. */
bool rvm_machine_is_native(struct rvm_machine *machine);
/* Lets a machine interpret until its program has compiled code, which is asked for after so many steps, 0 for never. */
void rvm_machine_follow_native(struct rvm_machine *machine, uint64_t ask_after_steps);
/* Lets each run of a machine begin interpreted, for at least so many steps: a test mode. */
void rvm_machine_interpret_first(struct rvm_machine *machine, uint64_t steps);

/* Where compiled code finds things, by name: offsets of fields, indices of `calls`; UINT64_MAX for unknown names. */
uint64_t rvm_native_offset(const char *name);
uint64_t rvm_native_call(const char *name);
/* Whether this host can switch stacks. */
bool rvm_native_is_supported(void);

/* Runs a function as interpreter_run does; depth and fuel are set. After a trap, the record lacks those that wait. */
int32_t native_run(struct rvm_machine *m, const struct rvm_function *function, const uint64_t *args,
                   uint64_t *results);
void native_trim(struct rvm_machine *m);
void native_close(struct rvm_machine *m);
void native_drop(struct rvm_program *program);

/* native_compile.c: the command that compiles a program in the background, which gets a note besides the program, and a
 * request to do so, which never waits. */
void rvm_program_set_compiler(struct rvm_program *program, const char *const *words, uint32_t count, const char *note);
bool rvm_program_has_compiler(const struct rvm_program *program);
/* 1 while programs are compiled in the background. */
uint32_t rvm_native_compiles(void);
/* Starts the thread that compiles, so that asking need not. */
void native_compile_prepare(void);
/* False where there is nothing to ask for, or it has been asked for already. */
bool native_compile_ask(struct rvm_program *program);
/* Held while a program is given code; forks keep it whole. */
void native_compile_lock(void);
void native_compile_unlock(void);

#endif
