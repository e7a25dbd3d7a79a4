/* Loads each executable of a file of many and runs every function of those that are accepted, within limits, on
 * values of every kind. Prints one line for each; anything wrong is for the sanitizers to find.
 * The file: for each executable, its size as 4 bytes, then its bytes. With a second argument, `interpreter`, `native`
 * or `switched`, each is followed by its compiled code: margin (8 bytes), size (4) and bytes of the image, and for
 * each function the offsets of its code and of what enters it (4 each). Then a line says all that came of the runs, in
 * a checksum. Where it is `switched`, runs begin interpreted and go on compiled after a few steps. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "machine.h"
#include "value.h"

enum { MAX_PARAMS = 64, MAX_MEMORY = 32 << 20, MAX_STEPS = 2000, MAX_DEPTH = 500, ROUNDS = 3, MAX_SWITCH = 9 };

static uint64_t state;

static uint64_t random_below(uint64_t n) {
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (state >> 33) % n;
}

static uint64_t random_word(void) {
    static const uint64_t words[] = {0, 1, 2, 3, 5, 64, UINT64_MAX, UINT64_C(1) << 63, UINT64_C(0x3f800000)};
    return words[random_below(sizeof words / sizeof *words)];
}

static uint64_t random_tensor(void) {
    static const uint64_t data[64];
    int64_t dims[3];
    const uint32_t rank = (uint32_t)random_below(4);
    for (uint32_t i = 0; i < rank; i++) dims[i] = (int64_t)random_below(5);
    static const uint8_t dtypes[] = {RVM_DTYPE_FLOAT32, RVM_DTYPE_INT64, RVM_DTYPE_BOOL};
    return rvm_value_new_tensor(dtypes[random_below(3)], rank, dims, data);
}

static uint64_t random_object(const rvm_program *program, int depth) {
    if (program->num_layouts == 0 || depth > 3 || random_below(4) == 0) return random_tensor();
    const uint32_t number = (uint32_t)random_below(program->num_layouts);
    const rvm_layout *layout = &program->layouts[number];
    uint64_t fields[8];
    if (layout->num_fields > 8) return random_tensor();
    for (uint32_t i = 0; i < layout->num_fields; i++)
        fields[i] = layout->field_class[i] == RVM_CLASS_WORD ? random_word()
                                                             : random_object(program, depth + 1);
    if (layout->kind == RVM_LAYOUT_REF) return rvm_value_new_reference(program, number, fields[0]);
    if (layout->kind == RVM_LAYOUT_ARRAY) return rvm_value_new_array(program, number, fields, 1);
    return rvm_value_new_cell(program, number, fields);
}

/* --- kernels: one that reads and writes all that its signature promises it ---------------------- */

enum { KERNELS = 8 };
static const rvm_program *running;
static volatile uint8_t sink;

static void read_input(const rvm_operand *operand, const uint8_t *data, const int64_t *sizes, const int64_t *strides) {
    const int64_t bytes = rvm_dtype_bytes[operand->dtype];
    int64_t last = 0;
    for (uint32_t i = 0; i < operand->rank; i++) {
        if (sizes[i] == 0) return;
        last += (sizes[i] - 1) * strides[i];
    }
    sink = data[0];
    sink = data[(last + 1) * bytes - 1];
}

static void touch(const rvm_kernel *kernel, uint32_t i, void *data, const int64_t *dims, const int64_t **strides) {
    const rvm_operand *operand = &kernel->operands[i];
    int64_t sizes[RVM_MAX_RANK], dense[RVM_MAX_RANK], count = 1;
    for (uint32_t axis = operand->rank; axis-- > 0;) {
        if (rvm_dim_value(&kernel->dims[operand->dims + axis], dims, &sizes[axis]) || sizes[axis] < 0) abort();
        dense[axis] = count;
        count *= sizes[axis];
    }
    if (operand->direction == RVM_DIRECTION_OUTPUT && count > 0)
        memset(data, 0, (size_t)count * (operand->access == RVM_ACCESS_SCALAR ? 8 : rvm_dtype_bytes[operand->dtype]));
    else if (operand->access == RVM_ACCESS_STRIDED)
        read_input(operand, data, sizes, *strides);
    else
        read_input(operand, data, sizes, dense);
    if (operand->access == RVM_ACCESS_STRIDED) *strides += operand->rank;
}

static int32_t work(uint32_t number, void *const *args, const int64_t *dims, void *scratch) {
    const rvm_kernel *kernel = &running->kernels[number];
    const int64_t *strides = dims + kernel->num_vars;
    int64_t bytes;
    for (uint32_t i = 0; i < kernel->num_operands; i++) touch(kernel, i, args[i], dims, &strides);
    if (rvm_dim_value(&kernel->scratch, dims, &bytes) == 0 && bytes > 0) memset(scratch, 0, (size_t)bytes);
    if (rvm_dim_value(&kernel->private_bytes, dims, &bytes) == 0 && bytes > 0)
        memset(args[kernel->num_operands], 0, (size_t)bytes);
    return 0;
}

#define PHASE(k)                                                                                     \
    static int32_t phase_##k(void *const *a, const int64_t *d, int64_t b, int64_t e, void *scratch, \
                             int64_t *values) {                                                     \
        (void)values;                                                                               \
        return b < e ? work(k, a, d, scratch) : 0;                                                  \
    }
PHASE(0) PHASE(1) PHASE(2) PHASE(3) PHASE(4) PHASE(5) PHASE(6) PHASE(7)
static const rvm_phase phases[KERNELS] = {phase_0, phase_1, phase_2, phase_3, phase_4, phase_5, phase_6, phase_7};

static void link_kernels(rvm_program *program) {
    running = program;
    for (uint32_t k = 0; k < program->num_kernels; k++)
        for (uint32_t p = 0; p < program->kernels[k].num_phases; p++)
            program->kernels[k].phases[p] = k < KERNELS ? phases[k] : rvm_kernel_empty;
}

/* --- what came of a run --------------------------------------------------------------------------- */

static uint64_t digest;

static void note(uint64_t word) {
    digest = (digest ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    digest ^= digest >> 29;
}

static void note_trap(const rvm_machine *machine) {
    const rvm_trap_record *trap = rvm_machine_trap(machine);
    for (const char *c = trap->message; *c; c++) note((uint8_t)*c);
    note(trap->num_frames);
    note(trap->skipped);
    for (uint32_t i = 0; i < trap->num_frames; i++) {
        note(trap->frames[i].function);
        note(trap->frames[i].unit);
    }
    for (uint32_t i = 0; i < trap->num_registers; i++) {
        note(trap->registers[i].slot);
        note(trap->registers[i].kind ? trap->registers[i].layout : trap->registers[i].word);
    }
}

static void note_outcome(const rvm_machine *machine, const rvm_function *function, int32_t trap,
                         const uint64_t *results) {
    note((uint64_t)trap);
    if (trap != 0) note_trap(machine);
    for (uint32_t i = 0; trap == 0 && i < function->num_results; i++) {
        const rvm_object *object = (const void *)(uintptr_t)results[i];
        note(function->result_class[i] == RVM_CLASS_WORD ? results[i] : (uint64_t)object->kind << 16 | object->layout);
    }
}

static int32_t run(rvm_machine *machine, const rvm_function *function) {
    uint64_t args[MAX_PARAMS], results[MAX_PARAMS];
    for (uint32_t i = 0; i < function->num_params; i++)
        args[i] = function->param_class[i] == RVM_CLASS_WORD ? random_word()
                                                             : random_object(machine->program, 0);
    const int32_t trap = machine_run(machine, function->index, args, results);
    note_outcome(machine, function, trap, results);
    for (uint32_t i = 0; i < function->num_params; i++)
        if (function->param_class[i] == RVM_CLASS_BORROWED) rvm_value_release(args[i]);
    for (uint32_t i = 0; trap == 0 && i < function->num_results; i++)
        if (function->result_class[i] == RVM_CLASS_OWNED) rvm_value_release(results[i]);
    machine_settle(machine);
    return trap;
}

static void run_all(rvm_program *program, const char *engine) {
    uint32_t runs = 0, traps = 0;
    link_kernels(program);
    rvm_machine *machine = rvm_machine_new(program, MAX_MEMORY, MAX_STEPS, MAX_DEPTH);
    if (program->num_late_constants != 0) {
        if (machine != NULL) abort();
        printf("accepted 0 0: 0 objects are left\n");
        return;
    }
    if (machine == NULL) {
        printf("accepted 0 0: no memory for a machine\n");
        return;
    }
    const int is_told = engine[0] != 0, is_switched = strcmp(engine, "switched") == 0;
    if ((is_switched || strcmp(engine, "native") == 0) && !rvm_machine_set_native(machine)) abort();
    rvm_machine_interpret_first(machine, 0);
    digest = 1;
    for (uint32_t f = 0; f < program->num_functions; f++) {
        const rvm_function *function = &program->functions[f];
        if (function->num_params > MAX_PARAMS || function->num_results > MAX_PARAMS) continue;
        for (int round = 0; round < ROUNDS; round++, runs++) {
            if (is_switched) rvm_machine_interpret_first(machine, 1 + runs % MAX_SWITCH);
            if (run(machine, function) != 0) traps++;
        }
    }
    rvm_stats stats;
    rvm_machine_stats(machine, &stats);
    if (is_told)
        printf("%u %u steps %llu digest %016llx: ", runs, traps, (unsigned long long)stats.steps,
               (unsigned long long)digest);
    printf("accepted %u %u: %lld objects are left\n", runs, traps, (long long)stats.live_objects);
    rvm_machine_free(machine);
}

/* Gives a program the compiled code that follows it in the file. */
static void link_native(rvm_program *program, FILE *file) {
    uint64_t margin;
    uint32_t size;
    rvm_image_function *functions = malloc((program->num_functions + 1) * sizeof *functions);
    if (functions == NULL || fread(&margin, sizeof margin, 1, file) != 1 || fread(&size, sizeof size, 1, file) != 1) exit(2);
    uint8_t *image = malloc(size + 1u);
    if (image == NULL || fread(image, 1, size, file) != size ||
        fread(functions, sizeof *functions, program->num_functions, file) != program->num_functions)
        exit(2);
    const void *base = rvm_program_map_code(program, image, size, NULL, 0);
    if (base == NULL || rvm_program_set_native(program, base, functions, margin) != 0) exit(2);
    free(image);
    free(functions);
}

static int next_size(FILE *file, uint32_t *size) { return fread(size, sizeof *size, 1, file) == 1; }

int main(int count, char **arguments) {
    const char *engine = count == 3 ? arguments[2] : "";
    FILE *file = count >= 2 ? fopen(arguments[1], "rb") : NULL;
    if (file == NULL) return 2;
    uint32_t size;
    for (uint64_t number = 0; next_size(file, &size); number++) {
        uint8_t *bytes = malloc(size + 1u);
        if (bytes == NULL || fread(bytes, 1, size, file) != size) return 2;
        state = number;
        rvm_load_error error = {"", ""};
        rvm_program *program = rvm_load_bytes(bytes, size, number % 2, &error);
        free(bytes);
        if (program == NULL) {
            printf("rejected %s: %s\n", error.code, error.message);
        } else {
            if (engine[0] != 0) link_native(program, file);
            run_all(program, engine);
            rvm_program_release(program);
        }
        fflush(stdout);
    }
    fclose(file);
    return 0;
}
