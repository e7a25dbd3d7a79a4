/* Splits an instruction into its operands, within the bounds of the code. */
#ifndef RVM_DECODER_H
#define RVM_DECODER_H

#include "program.h"

#include "generated/operands.inc"

typedef struct rvm_decoded_operand {
    uint8_t kind, name;
    uint32_t unit;  /* where it stands; of a list, where its first item stands */
    uint32_t count; /* items of a list */
    uint64_t value; /* register, index, label or immediate */
} rvm_decoded_operand;

typedef struct rvm_decoded {
    const instruction_row *row;
    uint16_t opcode;
    uint32_t unit, num_units;
    rvm_decoded_operand operands[MAX_INSTRUCTION_OPERANDS];
} rvm_decoded;

/* Decode the instruction at `unit`, which is less than the function's units; 0, or -1 with *error
 * filled where the opcode is unknown or the code ends too early. */
int rvm_decode(const rvm_function *function, uint32_t unit, rvm_decoded *decoded,
               rvm_load_error *error);

static inline uint32_t rvm_read_label(const uint16_t *unit) {
    return (uint32_t)unit[0] | (uint32_t)unit[1] << 16;
}

#endif
