/* Inside the verifier: what an instruction does with registers, and what is known of each. */
#ifndef RVM_VERIFIER_H
#define RVM_VERIFIER_H

#include "decoder.h"
#include "facts.h"
#include "loader.h"

/* LEND_KEPT: lent to a function that takes this frame's place, so its root must outlive the frame. */
enum { ACT_READ, ACT_WRITE, ACT_CONSUME, ACT_FILL, ACT_LEND, ACT_LEND_KEPT, ACT_BORROW };

typedef struct rvm_action {
    uint16_t slot;
    uint8_t act;
    uint8_t operand; /* number of the operand, for messages */
} rvm_action;

typedef struct rvm_verifier {
    const rvm_program *program;
    const rvm_function *function;
    rvm_load_error *error;
    rvm_decoded decoded;
    rvm_action *actions;
    uint32_t num_actions, max_actions;
} rvm_verifier;

/* Refuse the instruction at hand. */
int verifier_refuse(const rvm_verifier *verifier, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
const char *verifier_operand_name(const rvm_verifier *verifier, uint32_t operand);
/* `w3`, `o0`, `b1` in `text`, which is returned. */
typedef struct rvm_slot_text {
    char text[8];
} rvm_slot_text;
rvm_slot_text verifier_slot(const rvm_function *function, uint32_t slot);

/* Check ranges, banks, indices and lists of the decoded instruction, and list what it does with
 * registers in `actions`; 0 or -1. */
int verifier_check_operands(rvm_verifier *verifier);

#endif
