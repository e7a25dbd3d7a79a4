/* Inside the C library: what its files share. The public side is relayvm.h. */
#ifndef RVM_LIBRARY_H
#define RVM_LIBRARY_H

#include "../machine.h"
#include "../value.h"
#include "json.h"
#include "relayvm.h"

#include <stdio.h>
#include <string.h>

struct rvm_executable {
    _Atomic int64_t references;
    rvm_program *program;
    rvm_arena arena; /* of all below */
    size_t num_entries, num_data_types;
    rvm_entry_description *entries;
    rvm_data_type *data_types;
    rvm_type *types_of_data; /* of values that are made as one of these, in this order */
};

/* What names of sizes stood for in the call that a value comes from: types of functions in it may have them. */
typedef struct known_sizes {
    _Atomic int64_t references;
    size_t count;
    struct {
        const char *name; /* of the manifest; also `n*2` */
        int64_t size;
    } rows[];
} known_sizes;

/* A tensor of the caller's (`lent`), or an object. */
struct rvm_value {
    _Atomic int64_t references;
    rvm_executable *executable;
    const rvm_type *type; /* NULL for tensors that the host made: they tell it themselves */
    known_sizes *sizes;   /* or NULL */
    uint64_t item;        /* an object with one count, or 0 */
    rvm_tensor_view lent;
};

/* Fill in the error, if there is one; return -1. */
int library_fail(rvm_error *error, const char *code, const char *format, ...) __attribute__((format(printf, 3, 4)));
int library_out_of_memory(rvm_error *error);
/* Refuses NULL where something must be; `what` names it. 0 or -1. */
int library_need(const void *given, const char *what, rvm_error *error);

extern const char *const library_dtype_names[RVM_NUM_DTYPES];

void executable_retain(rvm_executable *executable);

/* manifest.c: fills in entries and data types; 0 or -1. */
int manifest_read(rvm_executable *executable, rvm_error *error);

/* sizes.c */
known_sizes *sizes_retain(known_sizes *sizes);
void sizes_free(known_sizes *sizes);
/* Those of a call, after those of the function that is called, if any; NULL where there are none. False if memory is
 * out. */
bool sizes_of_call(const known_sizes *before, const rvm_type *const *parameters, const rvm_value *const *arguments,
                   size_t num_arguments, known_sizes **made);
/* The number that the text of a dim stands for. False if a name in it has none, or it is an error for their numbers. */
bool size_of_dim(const char *dim, const known_sizes *sizes, int64_t *number);

/* pairs.c: 1 if a value has the sizes that a type of the same layout declares, 0 if not, -1 if memory is out. */
int pairs_accept(const rvm_value *value, const rvm_type *declared, rvm_misfit *misfit);

/* values.c */
/* Refuses a value that is not of a type; `where` names its place. 0 or -1. */
int value_check(const rvm_executable *executable, const rvm_value *value, const rvm_type *type, const char *where,
                rvm_error *error);
/* The word, or an owned object, of a checked value in a place of a class. False if memory is out. */
bool value_place(const rvm_value *value, bool is_word, uint64_t *place);
/* The value of a word or of an object that is consumed; NULL if memory is out, then it is dropped. */
rvm_value *value_of_place(rvm_executable *executable, const rvm_type *type, known_sizes *sizes, bool is_word,
                          uint64_t place, rvm_error *error);
/* The layout of a type if the program has it so: of that kind and number of fields. Else NULL. */
const rvm_layout *layout_of(const rvm_executable *executable, int32_t number, uint8_t kind, size_t num_fields);

#endif
