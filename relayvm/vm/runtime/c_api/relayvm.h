/* RelayVM for programs in C and C++: loads, verifies and runs executables that `relayvm compile` or `Executable.save`
 * wrote. Link with -lrelayvm; nothing else is needed at run time, no Python and no compiler.
 *
 * Errors. Functions that can fail return NULL, or a number other than 0, and fill in `*error` if that is not NULL: a
 * code (those of `relayvm explain`) and a message. NULL where they need something, as what could not be loaded or made,
 * is `wrong-argument`. All else cannot fail, given what this header asks for.
 *
 * Ownership. What a function returns without `const` is the caller's and goes back with the `..._free` of its type,
 * which takes NULL as well. Arguments are borrowed. Values and machines keep their executable; descriptions (types,
 * entries, constructors) live as long as somebody holds the executable.
 *
 * Threads. An executable, and values once they are made, may be used by any number of threads at once. A machine runs
 * one call at a time: a second fails with `machine-busy`. Only `rvm_vm_interrupt` may be called while it runs. Many
 * machines may run at once; `num_threads` of them are shared by a pool of the process.
 *
 * Compatibility. Structs of descriptions may grow at their ends, enumerations may get more members: never make such a
 * struct yourself. Within a major version (or a minor one, while the major version is 0) nothing else changes. */
#ifndef RELAYVM_H
#define RELAYVM_H

#include <stddef.h>
#include <stdint.h>

#define RVM_VERSION_MAJOR 0
#define RVM_VERSION_MINOR 1
#define RVM_VERSION_PATCH 0

#if defined(__GNUC__)
#define RVM_API __attribute__((visibility("default")))
#else
#define RVM_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define RVM_MAX_RANK 8

typedef struct rvm_executable rvm_executable;
typedef struct rvm_vm rvm_vm;
typedef struct rvm_value rvm_value;
typedef struct rvm_type rvm_type;
typedef struct rvm_data_type rvm_data_type;
typedef struct rvm_constructor rvm_constructor;

typedef struct rvm_error {
    char code[32]; /* such as "wrong-argument" */
    char message[480];
} rvm_error;

typedef enum rvm_dtype {
    RVM_BOOL = 0, /* a byte, 0 or 1 */
    RVM_INT8 = 1,
    RVM_INT16 = 2,
    RVM_INT32 = 3,
    RVM_INT64 = 4,
    RVM_UINT8 = 5,
    RVM_UINT16 = 6,
    RVM_UINT32 = 7,
    RVM_UINT64 = 8,
    RVM_FLOAT16 = 9,
    RVM_FLOAT32 = 10,
    RVM_FLOAT64 = 11,
    RVM_BFLOAT16 = 12, /* the upper half of a float32 */
    RVM_INT4 = 13,     /* from here on: the low bits of a byte, the sign in those above an integer */
    RVM_UINT4 = 14,
    RVM_INT2 = 15,
    RVM_UINT2 = 16,
    RVM_FLOAT8_E4M3FN = 17,
    RVM_FLOAT8_E5M2 = 18,
    RVM_FLOAT8_E4M3FNUZ = 19,
    RVM_FLOAT8_E5M2FNUZ = 20,
    RVM_FLOAT4_E2M1FN = 21
} rvm_dtype;

typedef enum rvm_kind {
    RVM_KIND_OF_TENSOR = 0,
    RVM_KIND_OF_TUPLE = 1,
    RVM_KIND_OF_DATA = 2,
    RVM_KIND_OF_FUNCTION = 3,
    RVM_KIND_OF_REFERENCE = 4,
    RVM_KIND_OF_ARRAY = 5
} rvm_kind;

/* --- descriptions -------------------------------------------------------------------------------------------------*/

struct rvm_type {
    rvm_kind kind;
    const char *text; /* as in the program: "Tensor[(n, 4), float32]" */
    /* tensors */
    rvm_dtype dtype;
    uint32_t rank;
    int64_t dims[RVM_MAX_RANK];           /* -1 where it is no number */
    const char *dim_names[RVM_MAX_RANK];  /* then "n" or "n*2", or NULL for any size */
    /* fields of a tuple; parameters of a function, then its result; the content of a reference; items of an array */
    size_t num_fields;
    const rvm_type *const *fields;
    const rvm_data_type *data; /* of kind data */
    int32_t layout, signature; /* not for callers */
};

struct rvm_constructor {
    const char *name;
    const rvm_data_type *data_type;
    size_t num_fields;
    const rvm_type *const *fields;
    int32_t layout; /* not for callers */
};

/* One instance of a data type, such as List[int32]. */
struct rvm_data_type {
    const char *name;
    size_t num_constructors;
    const rvm_constructor *constructors;
};

typedef struct rvm_entry_description {
    const char *name;
    size_t num_parameters, num_results; /* a tuple gives as many results as it has fields */
    const char *const *parameter_names;
    const rvm_type *const *parameters;
    const char *const *result_names;
    const rvm_type *const *results;
    uint32_t function; /* not for callers */
} rvm_entry_description;

/* --- executables --------------------------------------------------------------------------------------------------*/

enum {
    RVM_ALLOW_NATIVE = 1,    /* run the native code in the file, which is not verified: for files that you trust */
    RVM_CHECK_CONSTANTS = 2  /* read all constants to compare their checksum */
};

/* Read, verify and describe an executable. Its bytecode is always verified. Without RVM_ALLOW_NATIVE one that has
 * kernels can be looked at, but not run. Memory is copied; a file is mapped and must not be changed meanwhile. Codes:
 * bad-executable (the message names the byte), executable-version, checksum-mismatch, native-not-allowed (the code is
 * for another CPU), out-of-memory. */
RVM_API rvm_executable *rvm_executable_load_file(const char *path, uint32_t options, rvm_error *error);
RVM_API rvm_executable *rvm_executable_load_memory(const void *bytes, size_t size, uint32_t options, rvm_error *error);
RVM_API void rvm_executable_free(rvm_executable *executable);

RVM_API size_t rvm_executable_num_entries(const rvm_executable *executable);
RVM_API const rvm_entry_description *rvm_executable_entry(const rvm_executable *executable, size_t index);
/* NULL if there is none of this name. */
RVM_API const rvm_entry_description *rvm_executable_find_entry(const rvm_executable *executable, const char *name);
RVM_API size_t rvm_executable_num_data_types(const rvm_executable *executable);
RVM_API const rvm_data_type *rvm_executable_data_type(const rvm_executable *executable, size_t index);
/* The constructor of a data type, both by name ("List[int32]", "Cons"); NULL if there is none. */
RVM_API const rvm_constructor *rvm_executable_find_constructor(const rvm_executable *executable, const char *data_type,
                                                               const char *constructor);

/* The version of the library, as the macros above have that of the header. */
RVM_API void rvm_library_version(int *major, int *minor, int *patch);
RVM_API size_t rvm_dtype_size(rvm_dtype dtype);

/* --- values -------------------------------------------------------------------------------------------------------*/

/* A tensor of its own, with a copy of the elements, which lie in order (last axis fastest). Codes: wrong-argument,
 * out-of-memory. */
RVM_API rvm_value *rvm_tensor_copy(rvm_executable *executable, rvm_dtype dtype, uint32_t rank, const int64_t *dims,
                                   const void *elements, rvm_error *error);
/* The same over the caller's elements, which must stay as they are until the value is freed. They are never written.
 * As an argument they are not copied; as a field of another value they are. */
RVM_API rvm_value *rvm_tensor_lend(rvm_executable *executable, rvm_dtype dtype, uint32_t rank, const int64_t *dims,
                                   const void *elements, rvm_error *error);
/* Values made of others, whose types must be those of the fields. Codes: wrong-argument, out-of-memory. */
RVM_API rvm_value *rvm_data_make(rvm_executable *executable, const rvm_constructor *constructor,
                                 const rvm_value *const *fields, size_t num_fields, rvm_error *error);
RVM_API rvm_value *rvm_tuple_make(rvm_executable *executable, const rvm_type *type, const rvm_value *const *fields,
                                  size_t num_fields, rvm_error *error);
RVM_API rvm_value *rvm_array_make(rvm_executable *executable, const rvm_type *type, const rvm_value *const *items,
                                  size_t num_items, rvm_error *error);
RVM_API rvm_value *rvm_reference_make(rvm_executable *executable, const rvm_type *type, const rvm_value *content,
                                      rvm_error *error);
/* Another handle of the same value; NULL if memory is out. */
RVM_API rvm_value *rvm_value_again(const rvm_value *value);
RVM_API void rvm_value_free(rvm_value *value);

RVM_API rvm_kind rvm_value_kind(const rvm_value *value);

typedef struct rvm_tensor_view {
    rvm_dtype dtype;
    uint32_t rank;
    int64_t dims[RVM_MAX_RANK];
    size_t num_elements, num_bytes;
    const void *elements; /* as long as the value is held */
} rvm_tensor_view;

/* Of a tensor. */
RVM_API rvm_tensor_view rvm_value_tensor(const rvm_value *value);
/* Of a value of a data type; NULL for others. */
RVM_API const rvm_constructor *rvm_value_constructor(const rvm_value *value);
/* Fields of a tuple or a value of a data type, items of an array; 0 for others. */
RVM_API size_t rvm_value_num_fields(const rvm_value *value);
/* One of these. Codes: wrong-argument, out-of-memory. */
RVM_API rvm_value *rvm_value_field(const rvm_value *value, size_t index, rvm_error *error);
/* The content of a reference. Codes: wrong-argument, empty-reference, out-of-memory. */
RVM_API rvm_value *rvm_reference_read(const rvm_value *reference, rvm_error *error);
RVM_API int rvm_reference_write(const rvm_value *reference, const rvm_value *content, rvm_error *error);

/* --- machines -----------------------------------------------------------------------------------------------------*/

typedef struct rvm_vm_options {
    uint64_t max_memory;  /* bytes; 0: four fifths of the memory */
    uint64_t max_steps;   /* function entries, kernels by their work; 0: no limit */
    uint64_t max_depth;   /* nested calls; 0: two millions */
    uint32_t num_threads; /* that long kernels may use; 0: the cores of the process */
} rvm_vm_options;

/* Options may be NULL. Codes: not-ready (kernels have no code here), late-constants, bad-option, out-of-memory. */
RVM_API rvm_vm *rvm_vm_new(rvm_executable *executable, const rvm_vm_options *options, rvm_error *error);
RVM_API void rvm_vm_free(rvm_vm *vm);

/* Runs an entry; 0, or another number with `*error` filled in. `results` gets as many values as the entry has results;
 * there are none if it fails. Codes: unknown-entry, wrong-argument, machine-busy: nothing has run; or that of a trap
 * (`rvm_vm_trap`). The machine stays usable in every case. */
RVM_API int rvm_vm_run(rvm_vm *vm, const char *entry, const rvm_value *const *arguments, size_t num_arguments,
                       rvm_value **results, size_t num_results, rvm_error *error);
/* The same for a function value of the machine's executable. */
RVM_API int rvm_vm_call(rvm_vm *vm, const rvm_value *function, const rvm_value *const *arguments, size_t num_arguments,
                        rvm_value **results, size_t num_results, rvm_error *error);
/* The last trap as text: reason, line of the source, call stack. Empty if there was none; valid until the next call. */
RVM_API const char *rvm_vm_trap(rvm_vm *vm);
/* Ends the call that runs now with the trap `interrupted`. From any thread, or a signal handler. */
RVM_API void rvm_vm_interrupt(rvm_vm *vm);
/* Gives memory that is kept for later calls back to the system. */
RVM_API void rvm_vm_trim(rvm_vm *vm);

#ifdef __cplusplus
}
#endif
#endif
