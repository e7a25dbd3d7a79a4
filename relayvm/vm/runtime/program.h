/* A loaded program: what the machine reads. Built once by loader.c, verified, then never changed
 * (but for the entries of kernels, which are set before the first run). Shared between threads. */
#ifndef RVM_PROGRAM_H
#define RVM_PROGRAM_H

#include <stddef.h>
#include <stdint.h>

#include "generated/abi.h"
#include "generated/format.h"

/* Classes of registers, parameters, results and fields. */
enum { RVM_CLASS_WORD = 0, RVM_CLASS_OWNED = 1, RVM_CLASS_BORROWED = 2 };

enum {
    RVM_LAYOUT_TUPLE = 0,
    RVM_LAYOUT_CONSTRUCTOR = 1,
    RVM_LAYOUT_CLOSURE = 2,
    RVM_LAYOUT_REF = 3,
    RVM_LAYOUT_ARRAY = 4
};

#define RVM_DTYPE_OBJECT 255u
#define RVM_NO_INDEX 0xffffu

typedef struct rvm_line {
    uint32_t unit; /* first unit this row holds for; rows of a function ascend */
    uint32_t source;
    uint32_t line;
    uint32_t column;
} rvm_line;

typedef struct rvm_register_name {
    uint32_t slot;
    const char *name;
} rvm_register_name;

/* slots = words + owned + borrowed; slot numbers: words, then owned, then borrowed registers. */
typedef struct rvm_function {
    const uint16_t *code;
    uint32_t num_units;
    uint32_t index;
    uint64_t code_offset; /* of the first unit in the file, in bytes: for messages */
    uint16_t words, owned, borrowed, slots;
    uint16_t num_params, num_results;
    uint32_t frame_bytes;               /* of an activation; set by rvm_program_prepare */
    uint32_t first_empty, end_of_empty; /* owned registers that no parameter arrives in */
    const uint16_t *param_slot; /* slot in which each parameter arrives */
    const uint8_t *param_class;
    const uint8_t *result_class;
    const char *name;
    uint32_t num_lines, num_register_names;
    const rvm_line *lines;
    const rvm_register_name *register_names;
} rvm_function;

/* The layouts of one data type's constructors have consecutive numbers: number - tag is that of
 * constructor 0, all with the same num_constructors. */
typedef struct rvm_layout {
    uint16_t number;
    uint8_t kind;
    uint8_t size_class; /* for the heap; set by rvm_program_prepare */
    uint8_t cyclic;     /* a reference is reachable from it */
    uint16_t num_fields, num_object_fields;
    uint16_t constructor, num_constructors;
    uint16_t function, signature;  /* closures, else RVM_NO_INDEX */
    const uint16_t *object_fields; /* field numbers of class o, ascending */
    const uint8_t *field_class;    /* RVM_CLASS_WORD or RVM_CLASS_OWNED */
    const uint8_t *field_dtype;    /* dtype code, RVM_DTYPE_OBJECT for objects */
    const char *name, *type_name;
    const rvm_function *callee; /* of closures, else null; set by rvm_program_prepare, like `head` */
    uint64_t head;              /* the header of a new cell */
    const void *native; /* compiled code of a closure's function, if there is any */
    const void *profiled; /* the same, instrumented */
} rvm_layout;

/* A closure's parameters after the closure itself, which is the callee's first (owned) parameter. */
typedef struct rvm_signature {
    uint16_t num_params, num_results;
    const uint8_t *param_class; /* w or o */
    const uint8_t *result_class;
} rvm_signature;

typedef struct rvm_tensor_type {
    uint8_t dtype, rank;
    const int64_t *dims; /* -1: any size */
} rvm_tensor_type;

/* The data lies in the mapped file, aligned to 64 bytes, and is never written. NULL for a constant that
 * is bound late: a program that has one gets no machine. */
typedef struct rvm_constant {
    uint8_t dtype, rank;
    uint64_t size_bytes;
    const int64_t *dims;
    const void *data;
} rvm_constant;

/* A dim: a constant, a variable, or a postfix program; see rvm_dim_value. */
enum { RVM_DIM_CONSTANT = 0, RVM_DIM_VARIABLE = 1, RVM_DIM_PROGRAM = 2 };

typedef struct rvm_dim {
    uint32_t kind;
    uint32_t length;
    int64_t value;       /* the constant, or the number of the variable */
    const int64_t *code; /* postfix program of `length` words */
} rvm_dim;

typedef struct rvm_operand {
    uint8_t direction, dtype, rank, access;
    uint32_t dims; /* index of its first dim in rvm_kernel.dims */
} rvm_operand;

typedef struct rvm_dim_source {
    uint16_t operand; /* an input */
    int16_t axis;     /* -1: the value of a scalar integer input */
} rvm_dim_source;

typedef struct rvm_dim_check {
    rvm_dim a, b;
    const char *what;
} rvm_dim_check;

typedef struct rvm_in_place {
    uint16_t output, input; /* operand numbers: dense, of one dtype */
} rvm_in_place;

/* `args` holds the operands and, where a kernel has private memory, its address. */
typedef int32_t (*rvm_phase)(void *const *args, const int64_t *dims, int64_t begin, int64_t end,
                             void *scratch, int64_t *values);

typedef struct rvm_kernel {
    const char *name;
    const char *nest; /* text of the portable nest */
    uint32_t nest_bytes;
    uint16_t num_operands, num_inputs, num_outputs;
    uint16_t num_vars, num_checks, num_in_place, num_phases;
    uint16_t num_strides; /* words after the variables in `dims`: ranks of strided operands */
    const rvm_operand *operands; /* inputs, then outputs */
    const rvm_dim *dims;         /* of all operands, in order */
    const rvm_dim_source *sources;
    const char *const *var_names;
    const rvm_dim_check *checks;
    const rvm_in_place *in_place;
    rvm_dim scratch, private_bytes, work;
    const rvm_dim *phase_extents; /* of each phase its rounds, then of each how many of them are a chain */
    rvm_phase *phases; /* NULL until linked */
    uint8_t calls_host; /* its phases are the host's, so they run on the calling thread alone */
} rvm_kernel;

typedef struct rvm_source {
    const char *name;
    const char *text;
    uint32_t text_bytes;
} rvm_source;

typedef struct rvm_entry {
    const char *name;
    uint32_t function;
} rvm_entry;

typedef struct rvm_image_import {
    uint32_t symbol; /* number in IMAGE_IMPORTS */
    uint32_t slot;   /* offset of the 8 bytes that receive its address */
} rvm_image_import;

/* Native code as stored; runs only after rvm_program_link_image. */
typedef struct rvm_image_phase {
    uint32_t kernel, phase, offset;
} rvm_image_phase;

typedef struct rvm_image_function {
    uint32_t code, enter;
} rvm_image_function;

typedef struct rvm_image {
    const char *triple;
    const char *features; /* separated by commas */
    const uint8_t *code;
    uint32_t code_bytes;
    uint32_t num_imports, num_phases;
    uint32_t num_functions; /* those of the program, or 0 */
    const rvm_image_import *imports;
    const rvm_image_phase *phases;
    const rvm_image_function *functions;
    uint64_t abi, margin_bytes; /* see rvm_native_abi and rvm_program_set_native */
} rvm_image;

typedef struct rvm_section {
    const uint8_t *bytes;
    size_t size;
} rvm_section;

typedef struct rvm_program {
    uint32_t num_functions, num_layouts, num_signatures, num_tensor_types, num_constants;
    uint32_t num_kernels, num_sources, num_entries, num_images;
    uint32_t num_late_constants; /* those without data */
    rvm_function *functions;
    rvm_layout *layouts;
    rvm_signature *signatures;
    rvm_tensor_type *tensor_types;
    rvm_constant *constants;
    rvm_kernel *kernels;
    rvm_source *sources;
    rvm_entry *entries;
    rvm_image *images;
    void **constant_objects; /* num_constants immortal tensors: made by rvm_program_prepare */
    const uint16_t *code_units; /* of all functions, as they run: see fuse.h */
    const char *manifest;    /* JSON text */
    uint32_t manifest_bytes;
    rvm_section sections[RVM_NUM_SECTIONS]; /* as stored, for hosts that disassemble */
    uint8_t cyclic;                         /* 1 if a value may hold a reference */
    struct rvm_native_code *native; /* compiled code of each function, or null; see native.h */
    struct rvm_native_code *profiled; /* instrumented code for measured runs, or null */
    uint64_t native_margin_bytes;
    int32_t compile_state;  /* see native_compile.c */
    char **compiler;        /* the words of a command, null, a note; or null */
    void *native_memory;    /* where a compiler in the background made the code */
    size_t native_bytes;
    struct rvm_program *next_to_compile;
    /* private to the loader */
    int32_t references, prepared;
    void *memory; /* private copy of the file, without the constants if those are mapped */
    size_t file_bytes;
    struct rvm_block *blocks;
    void *mapping;
    size_t mapping_bytes;
    struct rvm_code *code;
} rvm_program;

/* What went wrong: `code` is an error code of base/error_codes.py. */
typedef struct rvm_load_error {
    char code[32];
    char message[480];
} rvm_load_error;

enum { RVM_LOAD_VERIFY_CONSTANTS = 1 };

/* Load and verify; return owned, or NULL with *error filled. `rvm_load_bytes` copies the bytes. */
rvm_program *rvm_load_file(const char *path, uint32_t options, rvm_load_error *error);
rvm_program *rvm_load_bytes(const void *bytes, size_t size, uint32_t options,
                            rvm_load_error *error);
/* Return memory for a file of so many bytes, owned, or NULL with *error filled; it is for `rvm_load_memory`, which
 * consumes it and is else as `rvm_load_bytes`. */
uint8_t *rvm_file_memory(size_t size, rvm_load_error *error);
rvm_program *rvm_load_memory(uint8_t *memory, size_t size, uint32_t options, rvm_load_error *error);
void rvm_program_retain(rvm_program *program);
void rvm_program_release(rvm_program *program);

/* Map code into memory, give it its imports; return its address or NULL (out of memory or a bad
 * import). The mapping lives as long as the program. */
const void *rvm_program_map_code(rvm_program *program, const void *code, size_t code_bytes,
                                 const rvm_image_import *imports, uint32_t num_imports);
/* Map stored image `image` and set the phases it holds, or give the program the code of its functions if that is for
 * this runtime; 0, or -1 if memory is out. */
int32_t rvm_program_link_image(rvm_program *program, uint32_t image);
/* Set one phase; -1 where there is no such kernel or phase. */
int32_t rvm_program_set_phase(rvm_program *program, uint32_t kernel, uint32_t phase,
                              const void *address);
/* Number of the first kernel that has a phase without code, or -1. */
int64_t rvm_program_first_unlinked(const rvm_program *program);

/* Give a program the code of another with the same kernels, for as long as either lives; 0, or -1 where
 * it has code or the kernels differ. Nobody may map code for the two any more. */
int32_t rvm_program_share_code(rvm_program *program, rvm_program *other);
uint32_t rvm_program_num_late_constants(const rvm_program *program);
/* The name of the fused instruction that begins at a unit where an instruction begins, or NULL. */
const char *rvm_program_fused(const rvm_program *program, uint32_t function, uint32_t unit);

/* Write the addresses of imports into code; -1 where one is unknown or outside. */
int rvm_fill_imports(uint8_t *code, size_t bytes, const rvm_image_import *imports, uint32_t num_imports);
void rvm_program_unmap_code(rvm_program *program);
const uint8_t *rvm_program_section(const rvm_program *program, uint32_t section, size_t *size);
/* Whether this CPU has a feature, by LLVM's name of it; unknown names are not there. */
int rvm_host_has_feature(const char *name, size_t bytes);

uint64_t rvm_checksum(const void *bytes, size_t size);

/* Verify one function; 0, or -1 with *error filled. `work` counts over a program's functions. */
int rvm_verify_function(const rvm_program *program, const rvm_function *function, uint64_t *work,
                        rvm_load_error *error);

/* Value of a dim: 0 and *result, or a trap code (RVM_TRAP_SHAPE_MISMATCH for sizes that do not
 * broadcast or division by 0, RVM_TRAP_SIZE_OVERFLOW). Never reads outside vars[0, num_vars). */
int32_t rvm_dim_value_slow(const rvm_dim *dim, const int64_t *vars, int64_t *result);

/* Whether sizes in a dim do not broadcast, and the first two of them: those of the dim itself, or of one that it is
 * made of. */
typedef enum { RVM_CLASH_NONE, RVM_CLASH_INSIDE, RVM_CLASH_WHOLE } rvm_clash;
rvm_clash rvm_dim_clash(const rvm_dim *dim, const int64_t *vars, int64_t sizes[2]);

static inline int32_t rvm_dim_value(const rvm_dim *dim, const int64_t *vars, int64_t *result) {
    if (dim->kind == RVM_DIM_CONSTANT) {
        *result = dim->value;
        return 0;
    }
    if (dim->kind == RVM_DIM_VARIABLE) {
        *result = vars[dim->value];
        return 0;
    }
    return rvm_dim_value_slow(dim, vars, result);
}

/* The runtime's part of a program (size classes, constant objects), made by the loader's last step
 * and dropped before the program's memory: 0, or -1 if memory is out. */
int rvm_program_prepare(rvm_program *program);
void rvm_program_unprepare(rvm_program *program);

#endif
