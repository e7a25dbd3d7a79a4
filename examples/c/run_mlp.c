/* Runs a compiled network on some rows: run_mlp FILE ROWS. Prints each result exactly, in hexadecimal. */
#include <relayvm.h>

#include <stdio.h>
#include <stdlib.h>

enum { COLUMNS = 4 };

static int failed(const char *what, const rvm_error *error) {
    fprintf(stderr, "%s: error[%s]: %s\n", what, error->code, error->message);
    return 1;
}

static void print_entry(const rvm_entry_description *entry) {
    printf("%s:", entry->name);
    for (size_t i = 0; i < entry->num_parameters; i++) {
        printf(" %s: %s", entry->parameter_names[i], entry->parameters[i]->text);
    }
    printf(" -> %s\n", entry->results[0]->text);
}

/* Numbers that every language computes alike: quarters from -1 to 1. */
static float *make_rows(size_t rows) {
    float *x = malloc((rows ? rows : 1) * COLUMNS * sizeof *x);
    for (size_t i = 0; x && i < rows * COLUMNS; i++) {
        x[i] = (float)((int)(i * 7 % 9) - 4) / 4;
    }
    return x;
}

static int run(rvm_executable *network, rvm_vm *vm, size_t rows) {
    rvm_error error = {"out-of-memory", "there is no memory for the rows"};
    float *x = make_rows(rows);
    const int64_t dims[] = {(int64_t)rows, COLUMNS};
    rvm_value *input = rvm_tensor_lend(network, RVM_FLOAT32, 2, dims, x, &error); /* no copy */
    rvm_value *output = NULL;
    const rvm_value *arguments[] = {input};
    int status = 1;
    if (!x || !input || rvm_vm_run(vm, "main", arguments, 1, &output, 1, &error) != 0) {
        status = failed("run", &error);
    } else {
        const rvm_tensor_view view = rvm_value_tensor(output);
        for (size_t i = 0; i < view.num_elements; i++) {
            printf("%a\n", ((const float *)view.elements)[i]);
        }
        status = 0;
    }
    rvm_value_free(output);
    rvm_value_free(input);
    free(x);
    return status;
}

int main(int count, char **words) {
    rvm_error error;
    if (count != 3) {
        fprintf(stderr, "usage: run_mlp FILE ROWS\n");
        return 2;
    }
    rvm_executable *network = rvm_executable_load_file(words[1], RVM_ALLOW_NATIVE | RVM_CHECK_CONSTANTS, &error);
    if (!network) {
        return failed(words[1], &error);
    }
    for (size_t i = 0; i < rvm_executable_num_entries(network); i++) {
        print_entry(rvm_executable_entry(network, i));
    }
    rvm_vm *vm = rvm_vm_new(network, NULL, &error);
    const int status = vm ? run(network, vm, strtoul(words[2], NULL, 10)) : failed("machine", &error);
    rvm_vm_free(vm);
    rvm_executable_free(network);
    return status;
}
