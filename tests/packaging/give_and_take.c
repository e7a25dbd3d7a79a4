/* Hands what one entry of a file returns to another: give_and_take FILE GIVER TAKER ... Each giver gets the vector (0, 1)
 * and, where it has a second parameter, the number 5. For each pair a line is printed: `taken`, or why not. */
#include <relayvm.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static rvm_executable *exe;
static rvm_error error;

static void stop(const char *doing) {
    fprintf(stderr, "%s: %s: %s\n", doing, error.code, error.message);
    exit(1);
}

/* The only result, or a tuple of all as the type says; NULL if it is refused. */
static rvm_value *whole(rvm_value **results, size_t count, const rvm_type *type) {
    return count == 1 ? rvm_value_again(results[0])
                      : rvm_tuple_make(exe, type, (const rvm_value *const *)results, count, &error);
}

static rvm_value *give(rvm_vm *vm, const char *name, const rvm_type *wanted) {
    const rvm_entry_description *entry = rvm_executable_find_entry(exe, name);
    const float elements[] = {0, 1};
    const int64_t two = 2;
    const int32_t five = 5;
    rvm_value *vector = rvm_tensor_lend(exe, RVM_FLOAT32, 1, &two, elements, &error);
    rvm_value *number = rvm_tensor_lend(exe, RVM_INT32, 0, NULL, &five, &error);
    const rvm_value *arguments[] = {vector, number};
    rvm_value *results[4];
    if (!entry || rvm_vm_run(vm, name, arguments, entry->num_parameters, results, entry->num_results, &error)) {
        stop(name);
    }
    if (strcmp(name, "fun_fun") == 0) { /* what its function returns */
        rvm_value *function = results[0];
        if (rvm_vm_call(vm, function, NULL, 0, &results[0], 1, &error)) {
            stop("the function");
        }
        rvm_value_free(function);
    }
    rvm_value *given = whole(results, entry->num_results, wanted);
    for (size_t i = 0; i < entry->num_results; i++) {
        rvm_value_free(results[i]);
    }
    rvm_value_free(vector);
    rvm_value_free(number);
    return given;
}

int main(int count, char **words) {
    exe = count > 1 ? rvm_executable_load_file(words[1], RVM_ALLOW_NATIVE, &error) : NULL;
    rvm_vm *vm = exe ? rvm_vm_new(exe, NULL, &error) : NULL;
    if (!vm) {
        stop("loading");
    }
    for (int i = 2; i + 1 < count; i += 2) {
        const rvm_entry_description *taker = rvm_executable_find_entry(exe, words[i + 1]);
        rvm_value *given = taker ? give(vm, words[i], taker->parameters[0]) : NULL, *result = NULL;
        const rvm_value *argument = given;
        if (given && rvm_vm_run(vm, words[i + 1], &argument, 1, &result, 1, &error) == 0) {
            puts("taken");
        } else {
            printf("%s: %s\n", error.code, error.message);
        }
        rvm_value_free(result);
        rvm_value_free(given);
    }
    rvm_vm_free(vm);
    rvm_executable_free(exe);
    return 0;
}
