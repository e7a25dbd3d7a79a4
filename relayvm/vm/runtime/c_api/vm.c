/* Machines of C programs: limits, calls with checked arguments, results as values, traps as text. */
#if defined(__linux__)
#include <sched.h>
#endif
#include <stdlib.h>
#include <unistd.h>

#include "library.h"

#define DEFAULT_MAX_DEPTH 2000000u
#define NO_LIMIT (UINT64_C(1) << 62)
#define MAX_THREADS 1024u

struct rvm_vm {
    rvm_executable *executable;
    rvm_machine *machine;
    char *text; /* of the last trap, once it was asked for */
};

/* --- making ------------------------------------------------------------------------------------- */

static uint32_t available_cores(void) {
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
#if defined(__linux__)
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) {
        cores = CPU_COUNT(&set);
    }
#endif
    return cores < 1 ? 1 : cores > (long)MAX_THREADS ? MAX_THREADS : (uint32_t)cores;
}

static uint64_t default_max_memory(void) {
    static const char *const limits[] = {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"};
    uint64_t bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    for (int i = 0; i < 2; i++) {
        FILE *file = fopen(limits[i], "r");
        unsigned long long limit;
        if (file && fscanf(file, "%llu", &limit) == 1 && limit < bytes) {
            bytes = limit;
        }
        if (file) {
            fclose(file);
        }
    }
    return bytes / 5 * 4;
}

static int check_ready(const rvm_program *program, const rvm_vm_options *options, rvm_error *error) {
    const int64_t unlinked = rvm_program_first_unlinked(program);
    if (program->num_late_constants) {
        return library_fail(error, "late-constants", "the executable lacks constants that are bound late");
    }
    if (unlinked >= 0) {
        return library_fail(error, "not-ready",
                            "kernel `%.200s` has no code for this machine; RVM_ALLOW_NATIVE lets that in the file run",
                            program->kernels[unlinked].name);
    }
    if (options && (options->num_threads > MAX_THREADS || options->max_memory > INT64_MAX ||
                    options->max_steps > INT64_MAX || options->max_depth > INT64_MAX)) {
        return library_fail(error, "bad-option", "an option of the machine is too large");
    }
    return 0;
}

rvm_vm *rvm_vm_new(rvm_executable *executable, const rvm_vm_options *options, rvm_error *error) {
    static const rvm_vm_options defaults;
    const rvm_vm_options *given = options ? options : &defaults;
    if (library_need(executable, "executable", error) || check_ready(executable->program, options, error)) {
        return NULL;
    }
    const uint32_t cores = available_cores();
    rvm_vm *vm = calloc(1, sizeof *vm);
    rvm_machine *machine = rvm_machine_new(executable->program,
                                           given->max_memory ? given->max_memory : default_max_memory(),
                                           given->max_steps ? given->max_steps : NO_LIMIT,
                                           given->max_depth ? given->max_depth : DEFAULT_MAX_DEPTH);
    if (!vm || !machine) {
        rvm_machine_free(machine);
        free(vm);
        library_out_of_memory(error);
        return NULL;
    }
    rvm_machine_follow_native(machine, 0);
    rvm_machine_set_threads(machine, given->num_threads ? given->num_threads : cores, cores);
    executable_retain(executable);
    vm->executable = executable;
    vm->machine = machine;
    return vm;
}

void rvm_vm_free(rvm_vm *vm) {
    if (vm) {
        rvm_machine_free(vm->machine);
        rvm_executable_free(vm->executable);
        free(vm->text);
        free(vm);
    }
}

void rvm_vm_interrupt(rvm_vm *vm) {
    rvm_machine_interrupt(vm->machine);
}

void rvm_vm_trim(rvm_vm *vm) {
    (void)rvm_machine_trim(vm->machine);
}

/* --- calls --------------------------------------------------------------------------------------- */

/* What is called: the types of an entry, or of a function value, which is then its first argument. */
typedef struct callee {
    const char *name;
    const char *const *names;
    const rvm_type *const *parameters, *const *results;
    size_t num_parameters, num_results;
    const rvm_function *code;
    const rvm_value *closure;
} callee;

typedef struct room {
    rvm_argument *args;
    uint64_t *results;
    rvm_value_info *infos;
    known_sizes *sizes;
} room;

static bool make_room(room *made, const rvm_function *code) {
    made->args = calloc((size_t)code->num_params + 1, sizeof *made->args);
    made->results = calloc((size_t)code->num_results + 1, sizeof *made->results);
    made->infos = calloc((size_t)code->num_results + 1, sizeof *made->infos);
    return made->args && made->results && made->infos;
}

static void free_room(room *made, const rvm_function *code) {
    for (uint32_t i = 0; made->args && i < code->num_params; i++) {
        if (made->args[i].kind == RVM_ARGUMENT_OBJECT && made->args[i].word) {
            rvm_value_release(made->args[i].word);
        }
    }
    free(made->args);
    free(made->results);
    free(made->infos);
    sizes_free(made->sizes);
}

/* Sizes that go by one name are the same in all arguments; what is more than a name the machine compares. */
static int check_names(const callee *called, const rvm_value *const *arguments, size_t last, rvm_error *error) {
    const rvm_type *type = called->parameters[last];
    const rvm_tensor_view view = rvm_value_tensor(arguments[last]);
    for (uint32_t axis = 0; type->kind == RVM_KIND_OF_TENSOR && axis < type->rank; axis++) {
        for (size_t i = 0; type->dim_names[axis] && i <= last; i++) {
            const rvm_type *other = called->parameters[i];
            for (uint32_t k = 0; other->kind == RVM_KIND_OF_TENSOR && k < other->rank; k++) {
                if (!other->dim_names[k] || strcmp(other->dim_names[k], type->dim_names[axis]) != 0) {
                    continue;
                }
                const int64_t size = rvm_value_tensor(arguments[i]).dims[k];
                if (size != view.dims[axis]) {
                    return library_fail(error, "wrong-argument",
                                        "size `%.60s` is %lld on axis %u of argument %zu and %lld on axis %u of argument %zu",
                                        type->dim_names[axis], (long long)size, k, i, (long long)view.dims[axis], axis,
                                        last);
                }
            }
        }
    }
    return 0;
}

static int set_argument(rvm_argument *slot, const rvm_value *value, bool is_word, rvm_error *error) {
    if (!is_word && !value->item) {
        const rvm_tensor_view *lent = &value->lent;
        slot->kind = RVM_ARGUMENT_ARRAY;
        slot->dtype = (uint8_t)lent->dtype;
        slot->rank = (uint8_t)lent->rank;
        slot->data = lent->elements;
        memcpy(slot->dims, lent->dims, sizeof slot->dims);
        return 0;
    }
    slot->kind = is_word ? RVM_ARGUMENT_WORD : RVM_ARGUMENT_OBJECT;
    return value_place(value, is_word, &slot->word) ? 0 : library_out_of_memory(error);
}

static int set_arguments(const rvm_vm *vm, const callee *called, const rvm_value *const *arguments, room *made,
                         rvm_error *error) {
    const size_t skip = called->closure ? 1 : 0;
    if (skip && set_argument(&made->args[0], called->closure, false, error)) {
        return -1;
    }
    for (size_t i = 0; i < called->num_parameters; i++) {
        char where[160];
        if (called->names) {
            snprintf(where, sizeof where, "`%.60s` of `%.60s`", called->names[i], called->name);
        } else {
            snprintf(where, sizeof where, "argument %zu of `%.60s`", i, called->name);
        }
        const bool is_word = called->code->param_class[i + skip] == RVM_CLASS_WORD;
        if (value_check(vm->executable, arguments[i], called->parameters[i], where, error) ||
            check_names(called, arguments, i, error) ||
            set_argument(&made->args[i + skip], arguments[i], is_word, error)) {
            return -1;
        }
    }
    return 0;
}

static const char *trap_code(int32_t trap) {
#define CODE(name, text) [RVM_TRAP_##name] = text,
    static const char *const codes[RVM_NUM_TRAPS] = {RVM_TRAP_CODES(CODE)};
#undef CODE
    return trap > 0 && trap < RVM_NUM_TRAPS && codes[trap] ? codes[trap] : "bad-value";
}

/* All or none. */
static int take_results(rvm_vm *vm, const callee *called, room *made, rvm_value **results, rvm_error *error) {
    bool whole = true;
    for (size_t i = 0; i < called->num_results; i++) {
        const bool is_word = called->code->result_class[i] == RVM_CLASS_WORD;
        results[i] = value_of_place(vm->executable, called->results[i], made->sizes, is_word, made->results[i], error);
        whole = whole && results[i];
    }
    for (size_t i = 0; !whole && i < called->num_results; i++) {
        rvm_value_free(results[i]);
        results[i] = NULL;
    }
    return whole ? 0 : -1;
}

static int run(rvm_vm *vm, const callee *called, const rvm_value *const *arguments, room *made, rvm_value **results,
               rvm_error *error) {
    if (!make_room(made, called->code)) {
        return library_out_of_memory(error);
    }
    if (set_arguments(vm, called, arguments, made, error)) {
        return -1;
    }
    const known_sizes *before = called->closure ? called->closure->sizes : NULL;
    if (!sizes_of_call(before, called->parameters, arguments, called->num_parameters, &made->sizes)) {
        return library_out_of_memory(error);
    }
    rvm_call call = {.machine = vm->machine, .args = made->args, .results = made->results, .infos = made->infos,
                     .function = called->code->index};
    const int32_t answer = rvm_machine_invoke(&call);
    if (answer == RVM_CALL_BUSY) {
        return library_fail(error, "machine-busy", "the machine is running already");
    }
    for (uint32_t i = 0; i < called->code->num_params; i++) {
        made->args[i].word = 0; /* taken */
    }
    if (answer > 0) {
        const rvm_trap_record *trap = rvm_machine_trap(vm->machine);
        return trap->kernel ? library_fail(error, trap_code(answer), "`%.120s`: %s", trap->kernel, trap->message)
                            : library_fail(error, trap_code(answer), "%s", trap->message);
    }
    return take_results(vm, called, made, results, error);
}

static int run_checked(rvm_vm *vm, const callee *called, const rvm_value *const *arguments, size_t num_arguments,
                       rvm_value **results, size_t num_results, rvm_error *error) {
    if (num_arguments != called->num_parameters || num_results != called->num_results) {
        return library_fail(error, "wrong-argument",
                            "`%.200s` has %zu parameters and %zu results; there are %zu arguments, room for %zu results",
                            called->name, called->num_parameters, called->num_results, num_arguments, num_results);
    }
    room made = {NULL, NULL, NULL, NULL};
    const int failed = run(vm, called, arguments, &made, results, error);
    free_room(&made, called->code);
    return failed;
}

/* No results yet, whatever goes wrong; `called` is what is called. */
static int begin_call(const rvm_vm *vm, const void *called, const char *what, const rvm_value *const *arguments,
                      size_t num_arguments, rvm_value **results, size_t num_results, rvm_error *error) {
    if (num_results && library_need(results, "results", error)) {
        return -1;
    }
    for (size_t i = 0; i < num_results; i++) {
        results[i] = NULL;
    }
    const bool refused = library_need(vm, "machine", error) || library_need(called, what, error) ||
                         (num_arguments && library_need(arguments, "arguments", error));
    return refused ? -1 : 0;
}

int rvm_vm_run(rvm_vm *vm, const char *entry, const rvm_value *const *arguments, size_t num_arguments,
               rvm_value **results, size_t num_results, rvm_error *error) {
    if (begin_call(vm, entry, "name of the entry", arguments, num_arguments, results, num_results, error)) {
        return -1;
    }
    const rvm_entry_description *found = rvm_executable_find_entry(vm->executable, entry);
    if (!found) {
        return library_fail(error, "unknown-entry", "there is no entry `%.200s`", entry);
    }
    const callee called = {.name = found->name, .names = found->parameter_names, .parameters = found->parameters,
                           .results = found->results, .num_parameters = found->num_parameters,
                           .num_results = found->num_results,
                           .code = &vm->executable->program->functions[found->function]};
    return run_checked(vm, &called, arguments, num_arguments, results, num_results, error);
}

/* The code of a closure agrees with its signature, which the loader has checked; the types are only the manifest's. */
static int describe_closure(const rvm_vm *vm, const rvm_value *function, callee *called, rvm_error *error) {
    const rvm_type *type = function->type;
    if (rvm_value_kind(function) != RVM_KIND_OF_FUNCTION || !type || type->kind != RVM_KIND_OF_FUNCTION) {
        return library_fail(error, "wrong-argument", "the value is no function");
    }
    if (value_check(vm->executable, function, type, "the function", error)) {
        return -1;
    }
    const rvm_program *program = vm->executable->program;
    const rvm_layout *shape = ((const rvm_cell *)(const void *)word_object(function->item))->shape;
    const rvm_type *const *result = &type->fields[type->num_fields - 1];
    *called = (callee){.name = type->text, .parameters = type->fields, .results = result,
                       .num_parameters = type->num_fields - 1, .num_results = 1,
                       .code = &program->functions[shape->function], .closure = function};
    const rvm_function *code = called->code;
    if (code->num_results != 1 && (*result)->kind == RVM_KIND_OF_TUPLE) {
        called->results = (*result)->fields;
        called->num_results = (*result)->num_fields;
    }
    bool agrees = code->num_params == called->num_parameters + 1 && code->num_results == called->num_results;
    for (size_t i = 0; agrees && i < called->num_parameters; i++) {
        const rvm_type *parameter = called->parameters[i];
        agrees = code->param_class[i + 1] != RVM_CLASS_WORD ||
                 (parameter->kind == RVM_KIND_OF_TENSOR && parameter->rank == 0);
    }
    for (size_t i = 0; agrees && i < called->num_results; i++) {
        const rvm_type *given = called->results[i];
        agrees = code->result_class[i] != RVM_CLASS_WORD || (given->kind == RVM_KIND_OF_TENSOR && given->rank == 0);
    }
    return agrees ? 0 : library_fail(error, "bad-executable", "the manifest and the code of a function disagree");
}

int rvm_vm_call(rvm_vm *vm, const rvm_value *function, const rvm_value *const *arguments, size_t num_arguments,
                rvm_value **results, size_t num_results, rvm_error *error) {
    callee called;
    if (begin_call(vm, function, "function", arguments, num_arguments, results, num_results, error) ||
        describe_closure(vm, function, &called, error)) {
        return -1;
    }
    return run_checked(vm, &called, arguments, num_arguments, results, num_results, error);
}

/* --- traps ---------------------------------------------------------------------------------------- */

static void write_place(FILE *to, const rvm_program *program, const rvm_trace_frame *frame) {
    rvm_place place;
    rvm_program_place(program, frame->function, frame->unit, &place);
    fprintf(to, "\n  at @%s", program->functions[frame->function].name);
    if (place.found) {
        fprintf(to, " (%s:%u:%u)", program->sources[place.source].name, place.line, place.column);
    }
}

/* The line of the source that trapped, with a mark below. */
static void write_line(FILE *to, const rvm_program *program, const rvm_trace_frame *frame) {
    rvm_place place;
    rvm_program_place(program, frame->function, frame->unit, &place);
    if (!place.found || !place.line) {
        return;
    }
    const rvm_source *source = &program->sources[place.source];
    const char *line = source->text;
    for (uint32_t i = 1; i < place.line && line; i++) {
        line = strchr(line, '\n');
        line = line ? line + 1 : NULL;
    }
    fprintf(to, "\n  --> %s:%u:%u", source->name, place.line, place.column);
    if (line && *line) {
        fprintf(to, "\n   | %.*s\n   | %*s^", (int)strcspn(line, "\n"), line,
                (int)(place.column && place.column < 1000 ? place.column - 1 : 0), "");
    }
}

static void write_trap(FILE *to, const rvm_program *program, const rvm_trap_record *trap) {
    fprintf(to, "error[%s]: ", trap_code(trap->code));
    if (trap->kernel) {
        fprintf(to, "`%s`: ", trap->kernel);
    }
    fputs(trap->message, to);
    if (trap->num_frames) {
        write_line(to, program, &trap->frames[0]);
    }
    for (uint32_t i = 0; i < trap->num_frames; i++) {
        if (i == trap->num_inner && trap->skipped) {
            fprintf(to, "\n  ... %llu more ...", (unsigned long long)trap->skipped);
        }
        write_place(to, program, &trap->frames[i]);
    }
}

const char *rvm_vm_trap(rvm_vm *vm) {
    const rvm_trap_record *trap = rvm_machine_trap(vm->machine);
    free(vm->text);
    vm->text = NULL;
    size_t size;
    FILE *to = trap->code ? open_memstream(&vm->text, &size) : NULL;
    if (to) {
        write_trap(to, vm->executable->program, trap);
        fclose(to);
    }
    return vm->text ? vm->text : "";
}
