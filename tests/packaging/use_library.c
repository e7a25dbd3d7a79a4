/* Uses every function of relayvm.h: use_library FILE. Exits with 1 at the first line that is not as it should be. */
#include <relayvm.h>

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHECK(condition)                                                                    \
    do {                                                                                    \
        if (!(condition)) {                                                                 \
            fprintf(stderr, "line %d: %s; last error: %s: %s\n", __LINE__, #condition, error.code, error.message); \
            exit(1);                                                                        \
        }                                                                                   \
    } while (0)
#define FAILS(call, wanted) CHECK((call) && strcmp(error.code, wanted) == 0)

static rvm_error error;
static rvm_executable *exe;

static rvm_value *number(int64_t value) {
    return rvm_tensor_copy(exe, RVM_INT64, 0, NULL, &value, &error);
}

static int64_t int_of(const rvm_value *value) {
    const rvm_tensor_view view = rvm_value_tensor(value);
    CHECK(view.dtype == RVM_INT64 && view.rank == 0 && view.num_elements == 1 && view.num_bytes == 8);
    int64_t result;
    memcpy(&result, view.elements, sizeof result);
    return result;
}

static rvm_value *run1(rvm_vm *vm, const char *entry, const rvm_value *argument) {
    rvm_value *result = NULL;
    CHECK(rvm_vm_run(vm, entry, &argument, 1, &result, 1, &error) == 0);
    return result;
}

static void test_descriptions(void) {
    int major, minor, patch;
    rvm_library_version(&major, &minor, &patch);
    CHECK(major == RVM_VERSION_MAJOR && minor == RVM_VERSION_MINOR && patch == RVM_VERSION_PATCH);
    CHECK(rvm_dtype_size(RVM_FLOAT16) == 2 && rvm_dtype_size((rvm_dtype)99) == 0);
    const rvm_entry_description *entry = rvm_executable_find_entry(exe, "main");
    CHECK(entry && entry->num_parameters == 2 && entry->num_results == 2);
    CHECK(strcmp(entry->parameter_names[1], "y") == 0);
    CHECK(strcmp(entry->parameters[0]->text, "Tensor[(n), float32]") == 0);
    CHECK(entry->parameters[0]->dims[0] == -1 && strcmp(entry->parameters[0]->dim_names[0], "n") == 0);
    CHECK(!rvm_executable_find_entry(exe, "none") && !rvm_executable_entry(exe, 1000));
    CHECK(rvm_executable_entry(exe, 0) && rvm_executable_num_entries(exe) == 12);
    const rvm_entry_description *stored = rvm_executable_find_entry(exe, "stored");
    CHECK(stored->parameters[0]->dtype == RVM_INT4 && stored->results[0]->dtype == RVM_FLOAT8_E5M2);
    CHECK(rvm_executable_find_constructor(exe, "List[int64]", "Cons")->num_fields == 2);
    CHECK(!rvm_executable_find_constructor(exe, "List[int64]", "Node"));
    CHECK(rvm_executable_num_data_types(exe) == 1 && !rvm_executable_data_type(exe, 1));
    CHECK(rvm_executable_data_type(exe, 0)->num_constructors == 2);
}

static void test_tensors(rvm_vm *vm) {
    const float x[] = {1, 2, 3}, y[] = {10, 20, 30};
    const int64_t three = 3, two = 2, none = 0, minus = -1;
    rvm_value *a = rvm_tensor_lend(exe, RVM_FLOAT32, 1, &three, x, &error);
    rvm_value *b = rvm_tensor_copy(exe, RVM_FLOAT32, 1, &three, y, &error);
    const rvm_value *arguments[] = {a, b};
    rvm_value *results[2];
    CHECK(rvm_vm_run(vm, "main", arguments, 2, results, 2, &error) == 0);
    const rvm_tensor_view sum = rvm_value_tensor(results[0]);
    CHECK(sum.rank == 1 && sum.dims[0] == 3 && ((const float *)sum.elements)[2] == 36);
    CHECK(rvm_value_tensor(results[1]).rank == 0 && *(const float *)rvm_value_tensor(results[1]).elements == 6);
    rvm_value_free(results[0]);
    rvm_value_free(results[1]);
    rvm_value *small = rvm_tensor_lend(exe, RVM_FLOAT32, 1, &two, x, &error);
    arguments[1] = small;
    FAILS(rvm_vm_run(vm, "main", arguments, 2, results, 2, &error), "wrong-argument");
    CHECK(strcmp(error.message, "size `n` is 3 on axis 0 of argument 0 and 2 on axis 0 of argument 1") == 0);
    CHECK(!results[0] && !results[1]);
    FAILS(rvm_vm_run(vm, "main", arguments, 1, results, 2, &error), "wrong-argument");
    FAILS(rvm_vm_run(vm, "other", arguments, 1, results, 2, &error), "unknown-entry");
    arguments[1] = NULL;
    FAILS(rvm_vm_run(vm, "main", arguments, 2, results, 2, &error), "wrong-argument");
    FAILS(!rvm_tensor_copy(exe, RVM_FLOAT32, 1, &minus, x, &error), "wrong-argument");
    FAILS(!rvm_tensor_copy(exe, RVM_FLOAT32, 9, &three, x, &error), "wrong-argument");
    FAILS(!rvm_tensor_copy(exe, (rvm_dtype)200, 1, &three, x, &error), "wrong-argument");
    FAILS(!rvm_tensor_copy(exe, RVM_FLOAT32, 1, &three, NULL, &error), "wrong-argument");
    CHECK(!rvm_tensor_copy(exe, RVM_FLOAT32, 1, &minus, x, NULL));
    rvm_value *empty = rvm_tensor_lend(exe, RVM_FLOAT32, 1, &none, NULL, &error);
    arguments[0] = arguments[1] = empty;
    CHECK(rvm_vm_run(vm, "main", arguments, 2, results, 2, &error) == 0);
    CHECK(rvm_value_tensor(results[0]).num_elements == 0);
    rvm_value_free(results[0]);
    rvm_value_free(results[1]);
    rvm_value_free(empty);
    rvm_value_free(small);
    rvm_value_free(a);
    rvm_value_free(b);
    rvm_value_free(NULL);
}

static void test_bfloat16(rvm_vm *vm) {
    const uint16_t x[] = {0x3f80, 0x4049}, k = 0x3fc0; /* 1 and 3.140625, times 1.5 */
    const int64_t two = 2;
    rvm_value *a = rvm_tensor_copy(exe, RVM_BFLOAT16, 1, &two, x, &error);
    rvm_value *b = rvm_tensor_copy(exe, RVM_BFLOAT16, 0, NULL, &k, &error);
    const rvm_value *arguments[] = {a, b};
    rvm_value *results[2];
    CHECK(rvm_vm_run(vm, "narrow", arguments, 2, results, 2, &error) == 0);
    const rvm_tensor_view product = rvm_value_tensor(results[0]);
    const uint16_t *bits = product.elements;
    CHECK(product.dtype == RVM_BFLOAT16 && product.num_bytes == 4 && rvm_dtype_size(RVM_BFLOAT16) == 2);
    CHECK(bits[0] == 0x3fc0 && bits[1] == 0x4097); /* 4.7109375 lies nearest to 4.71875 */
    const rvm_tensor_view square = rvm_value_tensor(results[1]);
    CHECK(square.dtype == RVM_BFLOAT16 && *(const uint16_t *)square.elements == 0x4010);
    rvm_value *wrong = rvm_tensor_copy(exe, RVM_FLOAT16, 0, NULL, &k, &error);
    arguments[1] = wrong;
    rvm_value_free(results[0]);
    rvm_value_free(results[1]);
    FAILS(rvm_vm_run(vm, "narrow", arguments, 2, results, 2, &error), "wrong-argument");
    rvm_value_free(wrong);
    rvm_value_free(a);
    rvm_value_free(b);
}

static rvm_value *make_list(int64_t count) {
    const rvm_constructor *cons = rvm_executable_find_constructor(exe, "List[int64]", "Cons");
    const rvm_constructor *nil = rvm_executable_find_constructor(exe, "List[int64]", "Nil");
    rvm_value *list = rvm_data_make(exe, nil, NULL, 0, &error);
    for (int64_t i = count; i > 0; i--) {
        rvm_value *head = number(i);
        const rvm_value *fields[] = {head, list};
        rvm_value *longer = rvm_data_make(exe, cons, fields, 2, &error);
        CHECK(longer);
        rvm_value_free(head);
        rvm_value_free(list);
        list = longer;
    }
    return list;
}

static void test_data(rvm_vm *vm) {
    rvm_value *list = make_list(100000); /* dropped without recursion */
    rvm_value *total = run1(vm, "total", list);
    CHECK(int_of(total) == 5000050000);
    CHECK(rvm_value_kind(list) == RVM_KIND_OF_DATA && rvm_value_num_fields(list) == 2);
    CHECK(strcmp(rvm_value_constructor(list)->name, "Cons") == 0 && !rvm_value_constructor(total));
    rvm_value *head = rvm_value_field(list, 0, &error), *tail = rvm_value_field(list, 1, &error);
    rvm_value *second = rvm_value_field(tail, 0, &error);
    CHECK(int_of(head) == 1 && int_of(second) == 2);
    FAILS(!rvm_value_field(list, 2, &error), "wrong-argument");
    FAILS(!rvm_value_field(head, 0, &error), "wrong-argument");
    const rvm_constructor *cons = rvm_value_constructor(list);
    const rvm_value *swapped[] = {tail, head};
    FAILS(!rvm_data_make(exe, cons, swapped, 2, &error), "wrong-argument");
    FAILS(!rvm_data_make(exe, cons, swapped, 1, &error), "wrong-argument");
    rvm_value *result;
    const rvm_value *wrong = head;
    FAILS(rvm_vm_run(vm, "total", &wrong, 1, &result, 1, &error), "wrong-argument");
    CHECK(strcmp(error.message, "`l` of `total` is `List[int64]`, but `Tensor[(), int64]` was given") == 0);
    rvm_value_free(list);
    rvm_value_free(total);
    rvm_value_free(head);
    rvm_value_free(tail);
    rvm_value_free(second);
}

static void test_functions(rvm_vm *vm) {
    rvm_value *five = number(5), *two = number(2), *result;
    rvm_value *function = run1(vm, "adder", five);
    CHECK(rvm_value_kind(function) == RVM_KIND_OF_FUNCTION && rvm_value_num_fields(function) == 0);
    const rvm_value *arguments[] = {function, two};
    CHECK(rvm_vm_call(vm, function, arguments + 1, 1, &result, 1, &error) == 0 && int_of(result) == 7);
    rvm_value_free(result);
    CHECK(rvm_vm_run(vm, "apply", arguments, 2, &result, 1, &error) == 0 && int_of(result) == 7);
    rvm_value_free(result);
    FAILS(rvm_vm_call(vm, five, arguments, 1, &result, 1, &error), "wrong-argument");
    FAILS(rvm_vm_call(vm, function, arguments, 1, &result, 1, &error), "wrong-argument");
    FAILS(rvm_vm_call(vm, function, arguments, 0, &result, 1, &error), "wrong-argument");
    rvm_value_free(function);
    rvm_value_free(five);
    rvm_value_free(two);
}

static void test_tuples_arrays_references(rvm_vm *vm) {
    rvm_value *one = number(1), *four = number(4), *nine = number(9);
    const rvm_type *pair_type = rvm_executable_find_entry(exe, "swap")->parameters[0];
    const rvm_value *fields[] = {one, four};
    rvm_value *pair = rvm_tuple_make(exe, pair_type, fields, 2, &error);
    rvm_value *results[2];
    const rvm_value *argument = pair;
    CHECK(pair && rvm_value_kind(pair) == RVM_KIND_OF_TUPLE);
    CHECK(rvm_vm_run(vm, "swap", &argument, 1, results, 2, &error) == 0);
    CHECK(int_of(results[0]) == 4 && int_of(results[1]) == 1);
    rvm_value_free(results[0]);
    rvm_value_free(results[1]);
    FAILS(!rvm_tuple_make(exe, pair_type->fields[0], fields, 2, &error), "wrong-argument");

    const rvm_type *array_type = rvm_executable_find_entry(exe, "extend")->parameters[0];
    const rvm_value *items[] = {one, four, nine};
    rvm_value *array = rvm_array_make(exe, array_type, items, 3, &error);
    CHECK(array && rvm_value_kind(array) == RVM_KIND_OF_ARRAY && rvm_value_num_fields(array) == 3);
    rvm_value *longer = run1(vm, "extend", array), *last = rvm_value_field(longer, 3, &error);
    CHECK(rvm_value_num_fields(longer) == 4 && rvm_value_num_fields(array) == 3 && int_of(last) == 3);

    const rvm_type *ref_type = rvm_executable_find_entry(exe, "count")->parameters[0];
    rvm_value *reference = rvm_reference_make(exe, ref_type, four, &error);
    CHECK(reference && rvm_value_kind(reference) == RVM_KIND_OF_REFERENCE);
    rvm_value_free(run1(vm, "count", reference));
    rvm_value *content = rvm_reference_read(reference, &error);
    CHECK(int_of(content) == 5);
    CHECK(rvm_reference_write(reference, nine, &error) == 0);
    rvm_value *again = rvm_reference_read(reference, &error);
    CHECK(int_of(again) == 9);
    FAILS(rvm_reference_write(reference, pair, &error), "wrong-argument");
    FAILS(!rvm_reference_read(pair, &error), "wrong-argument");
    rvm_value *all[] = {one, four, nine, pair, array, longer, last, reference, content, again};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        rvm_value_free(all[i]);
    }
}

static void *interrupt_soon(void *vm) {
    for (int i = 0; i < 200; i++) { /* it may not run yet */
        usleep(5000);
        rvm_vm_interrupt(vm);
    }
    return NULL;
}

static void test_traps_and_limits(void) {
    const rvm_vm_options few = {.max_steps = 1000, .max_depth = 50, .max_memory = 1 << 20, .num_threads = 1};
    rvm_vm *vm = rvm_vm_new(exe, &few, &error);
    CHECK(vm && strcmp(rvm_vm_trap(vm), "") == 0);
    rvm_value *many = number(1 << 30), *hundred = number(100), *result;
    const rvm_value *argument = many;
    FAILS(rvm_vm_run(vm, "spin", &argument, 1, &result, 1, &error), "out-of-steps");
    CHECK(strncmp(rvm_vm_trap(vm), "error[out-of-steps]: the limit of 1000 steps is reached\n  --> ", 62) == 0);
    CHECK(strstr(rvm_vm_trap(vm), "\n  at @spin (") && strstr(rvm_vm_trap(vm), "\n   | def @spin"));
    argument = hundred;
    FAILS(rvm_vm_run(vm, "deep", &argument, 1, &result, 1, &error), "out-of-depth");
    CHECK(!result && rvm_vm_run(vm, "spin", &argument, 1, &result, 1, &error) == 0 && int_of(result) == 7);
    rvm_value_free(result);
    rvm_vm_trim(vm);
    rvm_vm_free(vm);

    vm = rvm_vm_new(exe, NULL, &error);
    const int64_t sizes[] = {2, 1}, elements[] = {5, 7};
    rvm_value *two = rvm_tensor_copy(exe, RVM_INT64, 1, &sizes[0], elements, &error);
    rvm_value *place = rvm_tensor_copy(exe, RVM_INT64, 1, &sizes[1], &elements[1], &error);
    const rvm_value *arguments[] = {two, place};
    FAILS(rvm_vm_run(vm, "pick", arguments, 2, &result, 1, &error), "index-out-of-range");
    CHECK(strcmp(error.message, "`gather`: index 7 is outside an axis of 2") == 0);
    CHECK(strstr(rvm_vm_trap(vm), "error[index-out-of-range]: `gather`: index 7 is outside an axis of 2\n  --> "));
    rvm_value_free(two);
    rvm_value_free(place);
    rvm_vm_free(vm);

    rvm_vm *endless = rvm_vm_new(exe, NULL, &error);
    rvm_value *forever = number(INT64_C(1) << 62);
    pthread_t thread;
    argument = forever;
    CHECK(pthread_create(&thread, NULL, interrupt_soon, endless) == 0);
    FAILS(rvm_vm_run(endless, "spin", &argument, 1, &result, 1, &error), "interrupted");
    pthread_join(thread, NULL);
    rvm_vm_free(endless);
    const rvm_vm_options wrong = {.num_threads = 5000};
    FAILS(!rvm_vm_new(exe, &wrong, &error), "bad-option");
    rvm_value_free(many);
    rvm_value_free(hundred);
    rvm_value_free(forever);
}

static rvm_value *shared_list;

static void *total_often(void *unused) {
    (void)unused;
    rvm_vm *vm = rvm_vm_new(exe, NULL, NULL);
    const rvm_value *argument = shared_list;
    intptr_t wrong = vm == NULL;
    for (int i = 0; i < 200; i++) {
        rvm_value *result = NULL, *held = rvm_value_again(shared_list);
        wrong += rvm_vm_run(vm, "total", &argument, 1, &result, 1, NULL) != 0 || int_of(result) != 5050;
        rvm_value_free(result);
        rvm_value_free(held);
    }
    rvm_vm_free(vm);
    return (void *)wrong;
}

static void test_threads(void) {
    pthread_t threads[4];
    shared_list = make_list(100);
    for (int i = 0; i < 4; i++) {
        CHECK(pthread_create(&threads[i], NULL, total_often, NULL) == 0);
    }
    for (int i = 0; i < 4; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        CHECK(wrong == NULL);
    }
    rvm_value_free(shared_list);
}

#define REFUSES(call) FAILS(call, "wrong-argument")

static void test_null(rvm_vm *vm) {
    const float x[] = {1};
    const int64_t dims[] = {1};
    const rvm_value *none = NULL;
    rvm_value *result = (rvm_value *)&error;
    REFUSES(!rvm_executable_load_file(NULL, 0, &error));
    REFUSES(!rvm_executable_load_memory(NULL, 8, 0, &error));
    REFUSES(!rvm_vm_new(NULL, NULL, &error));
    REFUSES(!rvm_tensor_copy(NULL, RVM_FLOAT32, 1, dims, x, &error));
    REFUSES(!rvm_tensor_copy(exe, RVM_FLOAT32, 1, NULL, x, &error));
    REFUSES(!rvm_tensor_lend(NULL, RVM_FLOAT32, 1, dims, x, &error));
    REFUSES(!rvm_tensor_lend(exe, RVM_FLOAT32, 1, dims, NULL, &error));
    REFUSES(!rvm_data_make(exe, NULL, &none, 1, &error));
    const rvm_constructor *cons = rvm_executable_find_constructor(exe, "List[int64]", "Cons");
    REFUSES(!rvm_data_make(NULL, cons, &none, 1, &error));
    REFUSES(!rvm_data_make(exe, cons, NULL, 2, &error));
    REFUSES(!rvm_tuple_make(exe, NULL, &none, 1, &error));
    REFUSES(!rvm_array_make(exe, NULL, &none, 1, &error));
    const rvm_type *array = rvm_executable_find_entry(exe, "extend")->parameters[0];
    REFUSES(!rvm_array_make(NULL, array, &none, 1, &error));
    REFUSES(!rvm_array_make(exe, array, NULL, 1, &error));
    REFUSES(!rvm_reference_make(exe, NULL, NULL, &error));
    REFUSES(!rvm_reference_read(NULL, &error));
    REFUSES(rvm_reference_write(NULL, NULL, &error));
    REFUSES(!rvm_value_field(NULL, 0, &error));
    REFUSES(rvm_vm_run(NULL, "total", &none, 1, &result, 1, &error));
    CHECK(result == NULL);
    REFUSES(rvm_vm_run(vm, NULL, &none, 1, &result, 1, &error));
    REFUSES(rvm_vm_run(vm, "total", NULL, 1, &result, 1, &error));
    REFUSES(rvm_vm_run(vm, "total", &none, 1, &result, 1, &error));
    REFUSES(rvm_vm_run(vm, "total", &none, 1, NULL, 1, &error));
    REFUSES(rvm_vm_call(vm, NULL, NULL, 0, &result, 1, &error));
    CHECK(rvm_vm_run(vm, "none", NULL, 0, NULL, 0, NULL) != 0);
}

static void test_loading(const char *path) {
    FAILS(!rvm_executable_load_file("/no/such/file", 0, &error), "bad-executable");
    FAILS(!rvm_executable_load_memory("nonsense", 8, 0, &error), "bad-executable");
    FILE *file = fopen(path, "rb");
    CHECK(file && fseek(file, 0, SEEK_END) == 0);
    const size_t size = (size_t)ftell(file);
    rewind(file);
    char *bytes = malloc(size);
    CHECK(bytes && fread(bytes, 1, size, file) == size);
    fclose(file);
    rvm_executable *unlinked = rvm_executable_load_memory(bytes, size, 0, &error);
    CHECK(unlinked && rvm_executable_num_entries(unlinked) == 12);
    FAILS(!rvm_vm_new(unlinked, NULL, &error), "not-ready");
    rvm_executable_free(unlinked);
    rvm_executable *other = rvm_executable_load_memory(bytes, size, RVM_ALLOW_NATIVE | RVM_CHECK_CONSTANTS, &error);
    rvm_vm *vm = rvm_vm_new(other, NULL, &error);
    rvm_value *list = make_list(3), *result;
    const rvm_value *argument = list;
    FAILS(rvm_vm_run(vm, "total", &argument, 1, &result, 1, &error), "wrong-argument");
    CHECK(strcmp(error.message, "`l` of `total` is a value of another executable") == 0);
    const rvm_constructor *cons = rvm_executable_find_constructor(exe, "List[int64]", "Cons");
    FAILS(!rvm_data_make(other, cons, &argument, 1, &error), "wrong-argument");
    CHECK(strcmp(error.message, "the constructor `Cons` is of another executable") == 0);
    const rvm_type *array_type = rvm_executable_find_entry(exe, "extend")->parameters[0];
    FAILS(!rvm_array_make(other, array_type, NULL, 0, &error), "wrong-argument");
    CHECK(strcmp(error.message, "the type is of another executable") == 0);
    const rvm_type *ref_type = rvm_executable_find_entry(exe, "count")->parameters[0];
    FAILS(!rvm_reference_make(other, ref_type, list, &error), "wrong-argument");
    CHECK(strcmp(error.message, "the type is of another executable") == 0);
    rvm_executable_free(other); /* the machine has it, too */
    rvm_value_free(list);
    rvm_vm_free(vm);
    for (size_t i = 0; i < size; i += 1 + size / 300) { /* damaged files are refused, or are as good */
        bytes[i] ^= 0x10;
        rvm_executable_free(rvm_executable_load_memory(bytes, size, RVM_CHECK_CONSTANTS, NULL));
        bytes[i] ^= 0x10;
    }
    free(bytes);
}

int main(int count, char **words) {
    CHECK(count == 2);
    exe = rvm_executable_load_file(words[1], RVM_ALLOW_NATIVE, &error);
    CHECK(exe);
    rvm_vm *vm = rvm_vm_new(exe, NULL, &error);
    CHECK(vm);
    test_descriptions();
    test_tensors(vm);
    test_bfloat16(vm);
    test_data(vm);
    test_functions(vm);
    test_tuples_arrays_references(vm);
    test_null(vm);
    rvm_value *one = number(1), *kept = run1(vm, "adder", one);
    rvm_value_free(one);
    rvm_vm_free(vm);
    test_traps_and_limits();
    test_threads();
    test_loading(words[1]);
    rvm_executable_free(exe);
    CHECK(rvm_value_kind(kept) == RVM_KIND_OF_FUNCTION); /* values keep their executable */
    rvm_value_free(kept);
    rvm_value_free(NULL);
    puts("good");
    return 0;
}
