/* Splits instructions into operands by the generated table. Values are not judged here. */
#include "decoder.h"

#include "generated/opcodes.h"
#include "loader.h"

_Static_assert(RVM_NUM_OPCODES == sizeof instruction_rows / sizeof *instruction_rows, "one table");

static int cut_short(const rvm_function *function, const rvm_decoded *decoded,
                     rvm_load_error *error) {
    return rvm_fail(error, "bad-executable",
                    "byte %llu: `%s` of function `%.100s` is cut short by the end of its code",
                    (unsigned long long)(function->code_offset + 2 * (uint64_t)decoded->unit),
                    decoded->row->name, function->name);
}

int rvm_decode(const rvm_function *function, uint32_t unit, rvm_decoded *decoded,
               rvm_load_error *error) {
    const uint16_t *code = function->code;
    const uint32_t end = function->num_units;
    decoded->opcode = code[unit];
    decoded->unit = unit;
    if (decoded->opcode >= RVM_NUM_OPCODES)
        return rvm_fail(error, "bad-executable",
                        "byte %llu: %u is no instruction (0 <= n < %d) in function `%.100s`",
                        (unsigned long long)(function->code_offset + 2 * (uint64_t)unit),
                        decoded->opcode, RVM_NUM_OPCODES, function->name);
    decoded->row = &instruction_rows[decoded->opcode];
    uint32_t at = unit + 1;
    for (uint32_t i = 0; i < decoded->row->num_operands; i++) {
        rvm_decoded_operand *operand = &decoded->operands[i];
        operand->kind = decoded->row->operands[i].kind;
        operand->name = decoded->row->operands[i].name;
        operand->unit = at;
        operand->count = 0;
        operand->value = 0;
        uint32_t units = kind_units[operand->kind];
        if (kind_group[operand->kind] == GROUP_LIST) {
            if (at == end) return cut_short(function, decoded, error);
            operand->count = code[at++];
            operand->unit = at;
            units = operand->count * (operand->kind == KIND_LABELS ? 2u : 1u);
        }
        if (units > end - at) return cut_short(function, decoded, error);
        if (kind_group[operand->kind] != GROUP_LIST)
            for (uint32_t u = 0; u < units; u++)
                operand->value |= (uint64_t)code[at + u] << (16 * u);
        at += units;
    }
    decoded->num_units = at - unit;
    return 0;
}
