/* Values as the host sees them: made, taken apart and dropped from outside any machine. All of them are shared, so
 * any thread may hold one. A value is the address of an object; 0 means that memory ran out. */
#ifndef RVM_VALUE_H
#define RVM_VALUE_H

#include "machine.h"

typedef struct rvm_value_info {
    uint8_t kind, dtype, rank, layout_kind;
    uint16_t layout, tag;
    uint64_t num_fields; /* items of an array */
    int64_t elements;
    int64_t dims[RVM_MAX_RANK];
    void *data;
    const char *name, *type_name;
    const uint8_t *field_dtype; /* one row only for arrays and references */
} rvm_value_info;

void rvm_value_inspect(uint64_t value, rvm_value_info *info);
void rvm_value_retain(uint64_t value);
void rvm_value_release(uint64_t value);
/* A host's handle of a value also holds the program, which must outlive its layouts' last objects; both go here. */
void rvm_value_drop(uint64_t value, rvm_program *program);
/* Fields of a cell or items of an array, lent. */
void rvm_value_fields(uint64_t value, uint64_t *fields);
void rvm_value_copy_data(uint64_t value, void *to);
/* The content is owned by the caller; false if the reference is empty. */
bool rvm_value_read_reference(uint64_t value, uint64_t *content);
/* Consumes `content`. */
bool rvm_value_write_reference(uint64_t value, uint64_t content, rvm_program *program);

/* Copies the elements and drops the value. */
void rvm_value_take_data(uint64_t value, void *to);

/* Each returns owned, copies elements, and consumes the objects it is given, also where it fails. */
uint64_t rvm_value_new_tensor(uint8_t dtype, uint32_t rank, const int64_t *dims, const void *data);
uint64_t rvm_value_new_word(uint8_t dtype, uint64_t word);
uint64_t rvm_value_new_cell(const rvm_program *program, uint32_t layout, const uint64_t *fields);
uint64_t rvm_value_new_reference(const rvm_program *program, uint32_t layout, uint64_t content);
uint64_t rvm_value_new_array(const rvm_program *program, uint32_t layout, const uint64_t *items, uint64_t length);

/* One argument of a call: a word, an object whose reference passes to the call, or an array of the host's. */
enum { RVM_ARGUMENT_WORD = 0, RVM_ARGUMENT_OBJECT = 1, RVM_ARGUMENT_ARRAY = 2 };

typedef struct rvm_argument {
    uint8_t kind, dtype, rank;
    uint64_t word;
    const void *data;
    int64_t dims[RVM_MAX_RANK];
} rvm_argument;

/* Where a result goes that is a tensor of this type; null data: nowhere. */
typedef struct rvm_destination {
    void *data;
    int64_t dims[RVM_MAX_RANK];
    uint8_t dtype, rank;
} rvm_destination;

enum { RVM_CALL_BUSY = -1, RVM_CALL_MISFIT = -2 };

/* A call of a function with room for its arguments and results; it may be used again. */
typedef struct rvm_call {
    rvm_machine *machine;
    rvm_argument *args;
    uint64_t *results;
    rvm_value_info *infos;         /* of the results that are left as objects */
    rvm_destination *destinations; /* of the results; null: none has one */
    uint32_t function;
    rvm_profile *profile; /* where the call is measured; null: it is not */
} rvm_call;

/* As machine_run; the arguments must be of the function's classes. Elements of results that fit their destinations are
 * copied there, and the result is 0. RVM_CALL_BUSY if the machine is running: nothing was consumed. RVM_CALL_MISFIT if
 * it ran but not all destinations are filled; then these results are owned objects, too. Results are 0 where there are
 * none. */
int32_t rvm_machine_invoke(rvm_call *call);
/* The two halves of it, for hosts that take the results themselves: where the first returns 0 the machine goes on
 * running, and its results are its own until the second. In between, those taken are set to 0. */
int32_t call_begin(rvm_call *call);
int32_t call_end(rvm_call *call);
/* In between: makes all results the host's. It must come before one of several is written anywhere, since that may be
 * an argument which is another result, or part of one. A trap code leaves none, and the call is still to be ended. */
int32_t call_share(rvm_call *call);
/* Runs calls of one machine in order, up to the first that traps; `done` is their number without that one. Nobody else
 * runs on the machine in between. The answer is of the last that ran, MISFIT if any was. */
int32_t rvm_machine_invoke_many(rvm_call *calls, uint32_t count, uint32_t *done);
/* Copies the results that are left as tensors to their destinations, whose sizes the caller has made fit, and drops
 * them: into the pools of the machine, if that is not running. */
void rvm_machine_take(rvm_call *calls, uint32_t count);
uint64_t rvm_value_load_word(uint8_t dtype, const void *element);

/* value_graph.c: 1 if equal, 0 if not, -1 if memory ran out. NaN, references and functions equal only themselves. */
int rvm_value_equal(uint64_t a, uint64_t b);
/* A list of constructors `nil` (no fields) and `cons` (two, of which `item` is the item); consumes the items. */
uint64_t rvm_value_new_list(const rvm_program *program, uint32_t nil, uint32_t cons, uint32_t item,
                            const uint64_t *items, uint64_t count);

/* value_sizes.c: 1 if a value has the sizes that a type declares, 0 if not, -1 if memory ran out. Where it is 0, `misfit`
 * tells of the first part that has not, unless it is null. The type is rows of numbers, each named by where it starts:
 * FIT (all values do), DIFFER (none does), TENSOR (rank, sizes, -1 for any),
 * CELL (layout of the first constructor, their number, where the fields of each start: their number, a row for each),
 * ARRAY and REFERENCE (row of the items, or of the content). */
enum { RVM_SIZES_FIT, RVM_SIZES_DIFFER, RVM_SIZES_TENSOR, RVM_SIZES_CELL, RVM_SIZES_ARRAY, RVM_SIZES_REFERENCE };

typedef struct rvm_misfit {
    uint64_t row;
    uint32_t rank; /* of a tensor, with its sizes */
    int64_t dims[RVM_MAX_RANK];
} rvm_misfit;

int rvm_value_has_sizes(uint64_t value, const int64_t *rows, uint64_t root, rvm_misfit *misfit);

/* What the host needs to know of a program. */
typedef struct rvm_function_info {
    uint32_t num_params, num_results;
    const uint8_t *param_class, *result_class;
    const char *name;
} rvm_function_info;

typedef struct rvm_layout_info {
    uint8_t kind;
    uint16_t num_fields, constructor, num_constructors, function, signature;
    const uint8_t *field_class, *field_dtype;
    const char *name, *type_name;
} rvm_layout_info;

typedef struct rvm_place {
    uint32_t found, source, line, column;
} rvm_place;

uint32_t rvm_program_num_functions(const rvm_program *program);
uint32_t rvm_program_num_layouts(const rvm_program *program);
uint32_t rvm_program_num_kernels(const rvm_program *program);
bool rvm_program_function(const rvm_program *program, uint32_t function, rvm_function_info *info);
bool rvm_program_layout(const rvm_program *program, uint32_t layout, rvm_layout_info *info);
void rvm_program_place(const rvm_program *program, uint32_t function, uint32_t unit, rvm_place *place);
const char *rvm_program_source_name(const rvm_program *program, uint32_t source);
const char *rvm_program_source_text(const rvm_program *program, uint32_t source);
const char *rvm_program_kernel_name(const rvm_program *program, uint32_t kernel);

/* Gives a kernel its phases, as addresses; false if there is no such kernel or their number is wrong. */
bool rvm_kernel_bind(rvm_program *program, uint32_t kernel, const uint64_t *phases, uint32_t num_phases);
/* A phase that does nothing: what a program costs outside its kernels is measured with it. */
int32_t rvm_kernel_empty(void *const *args, const int64_t *dims, int64_t begin, int64_t end, void *scratch,
                         int64_t *values);
uint64_t rvm_kernel_empty_address(void);

#endif
