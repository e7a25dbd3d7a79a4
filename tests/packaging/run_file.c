/* Runs a saved executable as a host in C does: loads and verifies the file, links its native code, calls an entry.
 * run_file FILE ENTRY VALUES: the file VALUES tells how the arguments are made, on a stack:
 *   t DTYPE RANK BYTES, dims (8 bytes each), elements    pushes a tensor
 *   c LAYOUT                                             replaces the fields of a cell by the cell
 * Numbers are 4 bytes each. Writes the elements of each result to standard output. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "machine.h"
#include "value.h"

enum { MAX_STACK = 256 };
static uint64_t stack[MAX_STACK];
static uint32_t top;

static void fail(const char *what, const char *why) {
    fprintf(stderr, "%s: %s\n", what, why);
    exit(1);
}

static uint32_t number(FILE *file) {
    uint32_t value;
    if (fread(&value, sizeof value, 1, file) != 1) fail("VALUES", "ends too early");
    return value;
}

static void push(uint64_t value) {
    if (value == 0) fail("value", "no memory");
    if (top == MAX_STACK) fail("VALUES", "too many");
    stack[top++] = value;
}

static void push_tensor(FILE *file) {
    const uint8_t dtype = (uint8_t)number(file);
    const uint32_t rank = number(file), bytes = number(file);
    int64_t dims[RVM_MAX_RANK];
    void *data = aligned_alloc(64, (bytes + 64) / 64 * 64);
    if (data == NULL || fread(dims, sizeof *dims, rank, file) != rank || fread(data, 1, bytes, file) != bytes)
        fail("VALUES", "ends too early");
    push(rvm_value_new_tensor(dtype, rank, dims, data));
    free(data);
}

static void push_cell(FILE *file, const rvm_program *program) {
    const uint32_t layout = number(file);
    if (layout >= program->num_layouts || program->layouts[layout].num_fields > top) fail("VALUES", "no such cell");
    top -= program->layouts[layout].num_fields;
    push(rvm_value_new_cell(program, layout, stack + top));
}

static void link_images(rvm_program *program) {
    for (uint32_t i = 0; i < program->num_images; i++) {
        for (const char *name = program->images[i].features; *name != 0;) {
            const size_t bytes = strcspn(name, ",");
            if (!rvm_host_has_feature(name, bytes)) fail("feature", name);
            name += bytes + (name[bytes] == ',');
        }
        if (rvm_program_link_image(program, i) != 0) fail("image", "no memory");
    }
    if (rvm_program_first_unlinked(program) >= 0) fail("kernel", "no code");
}

static const rvm_function *find(const rvm_program *program, const char *name) {
    for (uint32_t i = 0; i < program->num_entries; i++)
        if (strcmp(program->entries[i].name, name) == 0) return &program->functions[program->entries[i].function];
    fail("entry", name);
    return NULL;
}

static void write_result(uint8_t class, uint64_t value) {
    if (class == RVM_CLASS_WORD) {
        fwrite(&value, sizeof value, 1, stdout);
        return;
    }
    rvm_value_info info;
    rvm_value_inspect(value, &info);
    fwrite(info.data, rvm_dtype_bytes[info.dtype], (size_t)info.elements, stdout);
    rvm_value_release(value);
}

int main(int count, char **arguments) {
    if (count != 4) fail("usage", "run_file FILE ENTRY VALUES");
    rvm_load_error error;
    rvm_program *program = rvm_load_file(arguments[1], RVM_LOAD_VERIFY_CONSTANTS, &error);
    if (program == NULL) fail(error.code, error.message);
    link_images(program);
    FILE *file = fopen(arguments[3], "rb");
    if (file == NULL) fail("VALUES", "cannot be read");
    for (int kind; (kind = fgetc(file)) != EOF;) {
        if (kind == 't') push_tensor(file);
        else push_cell(file, program);
    }
    fclose(file);
    const rvm_function *function = find(program, arguments[2]);
    if (function->num_params != top) fail("VALUES", "other than the parameters");
    rvm_machine *machine = rvm_machine_new(program, UINT64_C(1) << 30, UINT64_C(1) << 40, 100000);
    rvm_machine_follow_native(machine, 0);
    uint64_t results[RVM_MAX_RANK * 8];
    if (machine == NULL || function->num_results > sizeof results / sizeof *results) fail("machine", "no memory");
    uint64_t args[MAX_STACK];
    memcpy(args, stack, sizeof args);
    const int32_t trap = machine_run(machine, function->index, args, results);
    fprintf(stderr, rvm_machine_is_native(machine) ? "compiled" : "interpreted");
    if (trap != 0) fail("trap", rvm_machine_trap(machine)->message);
    for (uint32_t i = 0; i < function->num_params; i++)
        if (function->param_class[i] == RVM_CLASS_BORROWED) rvm_value_release(args[i]);
    for (uint32_t i = 0; i < function->num_results; i++) write_result(function->result_class[i], results[i]);
    machine_settle(machine);
    rvm_stats stats;
    rvm_machine_stats(machine, &stats);
    if (stats.live_objects != 0) fail("machine", "objects are left");
    rvm_machine_free(machine);
    rvm_program_release(program);
    return 0;
}
