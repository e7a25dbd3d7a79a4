/* Makes the code that runs of the code that was loaded and verified; see fuse.h. */
#include "fuse.h"

#include <string.h>

#include "decoder.h"

/* What must hold for a row: the unit has the value `what`; the units `unit` and `what` are equal; item `what / 4` of the
 * list that the callee, signature or layout at `unit` classifies has the class `what % 4`; the tail call at `unit` is of
 * this function, and if `what` is 1 its arguments stand where they must. */
enum { FUSED_UNIT, FUSED_SAME, FUSED_PARAMETER, FUSED_ARGUMENT, FUSED_FIELD, FUSED_REPEATS };

typedef struct fused_test {
    uint8_t kind, unit;
    uint16_t what;
} fused_test;

typedef struct fused_row {
    uint16_t opcode, num_tests, tests;
} fused_row;

#include "generated/fused_rows.inc"

static int repeats(const rvm_function *function, const uint16_t *call, uint32_t units, int in_place) {
    if (units < 3 || call[1] != function->index) return 0;
    for (uint32_t i = 0; in_place && i < function->num_params; i++)
        if (call[3 + i] != function->param_slot[i]) return 0;
    return 1;
}

/* The code there has `units` more. A unit that is asked for by its value is looked at before what follows from it. */
static int holds(const rvm_program *program, const rvm_function *function, const uint16_t *code, uint32_t units,
                 const fused_test *test) {
    if (test->unit >= units) return 0;
    const uint16_t value = code[test->unit];
    const unsigned item = test->what / 4u, class = test->what % 4u;
    switch (test->kind) {
        case FUSED_UNIT: return value == test->what;
        case FUSED_SAME: return value == code[test->what];
        case FUSED_PARAMETER: return program->functions[value].param_class[item] == class;
        case FUSED_ARGUMENT: return program->signatures[value].param_class[item] == class;
        case FUSED_FIELD: return program->layouts[value].field_class[item] == class;
        default: return repeats(function, code + test->unit, units - test->unit, test->what);
    }
}

static int fits(const rvm_program *program, const rvm_function *function, const uint16_t *code, uint32_t units,
                const fused_row *row) {
    for (uint32_t i = 0; i < row->num_tests; i++)
        if (!holds(program, function, code, units, &fused_tests[row->tests + i])) return 0;
    return 1;
}

static uint16_t opcode_for(const rvm_program *program, const rvm_function *function, uint32_t unit) {
    const uint16_t *code = function->code + unit;
    for (uint32_t i = fused_begin[*code]; i < fused_begin[*code + 1]; i++)
        if (fits(program, function, code, function->num_units - unit, &fused_rows[i])) return fused_rows[i].opcode;
    return *code;
}

static void count_from_instruction(const rvm_decoded *decoded, uint16_t *copy) {
    for (uint32_t i = 0; i < decoded->row->num_operands; i++) {
        const rvm_decoded_operand *operand = &decoded->operands[i];
        const uint32_t labels = operand->kind == KIND_LABEL ? 1 : operand->kind == KIND_LABELS ? operand->count : 0;
        for (uint32_t k = 0; k < labels; k++) {
            uint16_t *label = copy + operand->unit + 2 * (size_t)k;
            const uint32_t distance = rvm_read_label(label) - decoded->unit;
            label[0] = (uint16_t)(distance & 0xffff);
            label[1] = (uint16_t)(distance >> 16);
        }
    }
}

static int fuse_function(rvm_reader *reader, const rvm_function *function, uint16_t *copy) {
    rvm_decoded decoded;
    for (uint32_t unit = 0; unit < function->num_units; unit += decoded.num_units) {
        if (rvm_decode(function, unit, &decoded, reader->error)) return -1;
        count_from_instruction(&decoded, copy);
        copy[unit] = opcode_for(reader->program, function, unit);
    }
    return 0;
}

int reader_fuse(rvm_reader *reader) {
    rvm_program *program = reader->program;
    const uint16_t *code = (const uint16_t *)(const void *)reader->section[RVM_SECTION_CODE];
    const uint32_t count = reader->count[RVM_SECTION_CODE];
    uint16_t *copy = reader_allocate(reader, count, sizeof *copy);
    if (copy == NULL) return -1;
    if (count != 0) memcpy(copy, code, count * sizeof *copy);
    for (uint32_t f = 0; f < program->num_functions; f++) {
        rvm_function *function = &program->functions[f];
        uint16_t *place = copy + (function->code - code);
        if (fuse_function(reader, function, place)) return -1;
        function->code = place;
    }
    program->code_units = copy;
    return 0;
}

const char *rvm_program_fused(const rvm_program *program, uint32_t function, uint32_t unit) {
    const rvm_function *row = function < program->num_functions ? &program->functions[function] : NULL;
    const uint16_t opcode = row != NULL && unit < row->num_units ? row->code[unit] : 0;
    return opcode < RVM_NUM_OPCODES ? NULL : fused_names[opcode - RVM_NUM_OPCODES];
}
