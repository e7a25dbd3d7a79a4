/* Fused instructions: what runs several instructions of verified code in one dispatch. */
#ifndef RVM_FUSE_H
#define RVM_FUSE_H

#include "generated/opcodes.h"
#include "loader.h"

/* Moves the verified code of all functions to a copy in which labels count from their instruction and fused opcodes
 * stand where rows fit; 0 or -1. */
int reader_fuse(rvm_reader *reader);

/* By the number of the fused opcode, the one that it took the place of. */
extern const uint16_t fused_first[RVM_NUM_FUSED];

/* The instruction that stands here in the file. */
static inline uint16_t plain_opcode(uint16_t opcode) {
    return opcode < RVM_NUM_OPCODES ? opcode : fused_first[opcode - RVM_NUM_OPCODES];
}

#endif
