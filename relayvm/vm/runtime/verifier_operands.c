/* What can be said of an instruction alone: its registers exist and are of the right bank, indices
 * are in their tables and fit each other, lists have one register for each thing they stand for. */
#include <stdlib.h>

#include "generated/opcodes.h"
#include "verifier.h"

static int refuse_index(const rvm_verifier *v, uint32_t operand, const char *what, uint64_t value,
                        uint64_t end) {
    return verifier_refuse(v, "operand `%s` (%s %llu) is out of range (0 <= n < %llu)",
                           verifier_operand_name(v, operand), what, (unsigned long long)value,
                           (unsigned long long)end);
}

/* --- registers ------------------------------------------------------------------------------ */

static int bank_of(const rvm_function *function, uint32_t slot) {
    if (slot < function->words) return RVM_CLASS_WORD;
    return slot < (uint32_t)function->words + function->owned ? RVM_CLASS_OWNED
                                                              : RVM_CLASS_BORROWED;
}

static int fits_bank(uint8_t act, int bank) {
    switch (act) {
        case ACT_READ:
        case ACT_WRITE: return bank == RVM_CLASS_WORD;
        case ACT_CONSUME:
        case ACT_FILL: return bank == RVM_CLASS_OWNED;
        case ACT_BORROW: return bank == RVM_CLASS_BORROWED;
        default: return bank != RVM_CLASS_WORD;
    }
}

static const char *bank_wanted(uint8_t act) {
    static const char *const wanted[] = {
        [ACT_READ] = "a word",     [ACT_WRITE] = "a word", [ACT_CONSUME] = "an owned",
        [ACT_FILL] = "an owned",   [ACT_LEND] = "an owned or borrowed",
        [ACT_LEND_KEPT] = "an owned or borrowed", [ACT_BORROW] = "a borrowed"};
    return wanted[act];
}

static int add_action(rvm_verifier *v, uint32_t operand, uint32_t slot, uint8_t act) {
    const rvm_function *function = v->function;
    if (slot >= function->slots) return refuse_index(v, operand, "register", slot, function->slots);
    if (!fits_bank(act, bank_of(function, slot)))
        return verifier_refuse(v, "operand `%s` (%s) must be %s register",
                               verifier_operand_name(v, operand),
                               verifier_slot(function, slot).text, bank_wanted(act));
    if (v->num_actions == v->max_actions) {
        const uint32_t room = v->max_actions * 2 + 64;
        rvm_action *actions = realloc(v->actions, room * sizeof *actions);
        if (actions == NULL)
            return rvm_fail(v->error, "out-of-memory", "there is no memory for the executable");
        v->actions = actions;
        v->max_actions = room;
    }
    v->actions[v->num_actions++] =
        (rvm_action){.slot = (uint16_t)slot, .act = act, .operand = (uint8_t)operand};
    return 0;
}

/* --- lists ------------------------------------------------------------------------------------ */

static int check_count(const rvm_verifier *v, uint32_t operand, uint32_t expected) {
    uint32_t given = v->decoded.operands[operand].count;
    if (given == expected) return 0;
    return verifier_refuse(v, "operand `%s` has %u item%s instead of %u",
                           verifier_operand_name(v, operand), given, given == 1 ? "" : "s", expected);
}

/* One register for each of `classes`, acting as `acts` says for the class. */
static int add_classes(rvm_verifier *v, uint32_t operand, const uint8_t *classes, uint32_t count,
                       const uint8_t acts[3]) {
    if (check_count(v, operand, count)) return -1;
    const uint16_t *items = v->function->code + v->decoded.operands[operand].unit;
    for (uint32_t i = 0; i < count; i++)
        if (add_action(v, operand, items[i], acts[classes[i]])) return -1;
    return 0;
}

static const uint8_t ACTS_IN[3] = {ACT_READ, ACT_CONSUME, ACT_LEND};
static const uint8_t ACTS_TAIL[3] = {ACT_READ, ACT_CONSUME, ACT_LEND_KEPT};
static const uint8_t ACTS_OUT[3] = {ACT_WRITE, ACT_FILL, ACT_FILL};

static int check_call_lists(rvm_verifier *v) {
    const rvm_decoded *d = &v->decoded;
    const int is_closure =
        d->opcode == RVM_OP_call_closure || d->opcode == RVM_OP_tail_call_closure;
    const int is_tail = d->opcode == RVM_OP_tail_call || d->opcode == RVM_OP_tail_call_closure;
    const uint32_t args = is_closure ? 2 : 1;
    const uint8_t *params, *results;
    uint32_t num_params, num_results;
    if (is_closure) {
        const rvm_signature *signature = &v->program->signatures[d->operands[1].value];
        params = signature->param_class;
        results = signature->result_class;
        num_params = signature->num_params;
        num_results = signature->num_results;
    } else {
        const rvm_function *callee = &v->program->functions[d->operands[0].value];
        params = callee->param_class;
        results = callee->result_class;
        num_params = callee->num_params;
        num_results = callee->num_results;
    }
    if (add_classes(v, args, params, num_params, is_tail ? ACTS_TAIL : ACTS_IN)) return -1;
    if (!is_tail) return add_classes(v, args + 1, results, num_results, ACTS_OUT);
    int same = num_results == v->function->num_results;
    for (uint32_t i = 0; same && i < num_results; i++)
        same = results[i] == v->function->result_class[i];
    return same ? 0 : verifier_refuse(v, "the callee's results are not those of this function");
}

static int check_kernel_lists(rvm_verifier *v) {
    const rvm_decoded *d = &v->decoded;
    const rvm_kernel *kernel = &v->program->kernels[d->operands[0].value];
    const int reuses = d->opcode == RVM_OP_kernel_reuse;
    const uint32_t inputs = reuses ? 2 : 1;
    const uint64_t given = reuses ? d->operands[1].value : 0;
    if (check_count(v, inputs, kernel->num_inputs) ||
        check_count(v, inputs + 1, kernel->num_outputs))
        return -1;
    if (kernel->num_inputs < 32 && given >> kernel->num_inputs != 0)
        return verifier_refuse(v, "operand `given` (%llu) names inputs beyond %u",
                               (unsigned long long)given, kernel->num_inputs);
    const uint16_t *items = v->function->code + d->operands[inputs].unit;
    for (uint32_t i = 0; i < kernel->num_inputs; i++) {
        const int is_given = i < 32 && (given >> i & 1) != 0;
        const int is_scalar = kernel->operands[i].access == RVM_ACCESS_SCALAR;
        if (is_given && is_scalar)
            return verifier_refuse(v, "operand `given` names input %u, which is a word", i);
        const uint8_t act = is_scalar ? ACT_READ : is_given ? ACT_CONSUME : ACT_LEND;
        if (add_action(v, inputs, items[i], act)) return -1;
    }
    items = v->function->code + d->operands[inputs + 1].unit;
    for (uint32_t i = 0; i < kernel->num_outputs; i++) {
        const rvm_operand *output = &kernel->operands[kernel->num_inputs + i];
        const uint8_t act = output->access == RVM_ACCESS_SCALAR ? ACT_WRITE : ACT_FILL;
        if (add_action(v, inputs + 1, items[i], act)) return -1;
    }
    return 0;
}

static int check_list(rvm_verifier *v, uint32_t i) {
    const rvm_decoded_operand *operand = &v->decoded.operands[i];
    const rvm_function *function = v->function;
    switch (operand->kind) {
        case KIND_WORDS:
            for (uint32_t k = 0; k < operand->count; k++)
                if (add_action(v, i, function->code[operand->unit + k], ACT_READ)) return -1;
            return 0;
        case KIND_FIELDS_IN:
        case KIND_FIELDS_OUT: {
            const rvm_layout *layout = &v->program->layouts[v->decoded.operands[i - 1].value];
            return add_classes(v, i, layout->field_class, layout->num_fields,
                               operand->kind == KIND_FIELDS_IN ? ACTS_IN : ACTS_OUT);
        }
        case KIND_ARGUMENTS: return check_call_lists(v); /* with the results */
        case KIND_KERNEL_INPUTS: return check_kernel_lists(v); /* with the outputs */
        case KIND_RETURNS:
            return add_classes(v, i, function->result_class, function->num_results, ACTS_IN);
        case KIND_LABELS: {
            const rvm_layout *layout = &v->program->layouts[v->decoded.operands[i - 1].value];
            return check_count(v, i, layout->num_constructors);
        }
        default: return 0;
    }
}

/* --- indices ---------------------------------------------------------------------------------- */

static int check_layout(const rvm_verifier *v, uint32_t i, const rvm_layout *layout) {
    static const char *const wanted[] = {
        [KIND_CELL] = "a tuple, constructor or closure",
        [KIND_DATA] = "the first constructor of a data type",
        [KIND_REF_WORD] = "a reference to a word",
        [KIND_REF_OBJECT] = "a reference to an object",
        [KIND_ARRAY] = "an array",
        [KIND_ARRAY_WORD] = "an array of words",
        [KIND_ARRAY_OBJECT] = "an array of objects"};
    const uint8_t kind = v->decoded.operands[i].kind;
    const int is_ref = layout->kind == RVM_LAYOUT_REF, is_array = layout->kind == RVM_LAYOUT_ARRAY;
    const int holds_objects = layout->num_object_fields != 0;
    int good = 0;
    switch (kind) {
        case KIND_CELL: good = !is_ref && !is_array; break;
        case KIND_DATA:
            good = layout->kind == RVM_LAYOUT_CONSTRUCTOR && layout->constructor == 0;
            break;
        case KIND_REF_WORD: good = is_ref && !holds_objects; break;
        case KIND_REF_OBJECT: good = is_ref && holds_objects; break;
        case KIND_ARRAY: good = is_array; break;
        case KIND_ARRAY_WORD: good = is_array && !holds_objects; break;
        default: good = is_array && holds_objects; break;
    }
    if (good) return 0;
    return verifier_refuse(v, "operand `%s`: layout %u `%.100s` is not %s",
                           verifier_operand_name(v, i), layout->number, layout->name,
                           wanted[kind]);
}

static int check_field(const rvm_verifier *v, uint32_t i) {
    const rvm_decoded_operand *operand = &v->decoded.operands[i];
    const rvm_layout *layout = &v->program->layouts[v->decoded.operands[i - 1].value];
    if (operand->value >= layout->num_fields)
        return refuse_index(v, i, "field", operand->value, layout->num_fields);
    const uint8_t class = operand->kind == KIND_FIELD_WORD ? RVM_CLASS_WORD : RVM_CLASS_OWNED;
    if (layout->field_class[operand->value] == class) return 0;
    return verifier_refuse(v, "operand `%s`: field %llu of layout %u `%.100s` is not %s",
                           verifier_operand_name(v, i), (unsigned long long)operand->value,
                           layout->number, layout->name,
                           class == RVM_CLASS_WORD ? "a word" : "an object");
}

static int check_below(const rvm_verifier *v, uint32_t i, const char *what, uint32_t end) {
    const uint64_t value = v->decoded.operands[i].value;
    return value < end ? 0 : refuse_index(v, i, what, value, end);
}

static int check_index(const rvm_verifier *v, uint32_t i) {
    const rvm_program *program = v->program;
    const uint64_t value = v->decoded.operands[i].value;
    switch (v->decoded.operands[i].kind) {
        case KIND_FUNCTION: return check_below(v, i, "function", program->num_functions);
        case KIND_KERNEL: return check_below(v, i, "kernel", program->num_kernels);
        case KIND_CONSTANT: return check_below(v, i, "constant", program->num_constants);
        case KIND_SIGNATURE: return check_below(v, i, "signature", program->num_signatures);
        case KIND_TENSOR_TYPE:
            return check_below(v, i, "tensor type", program->num_tensor_types);
        case KIND_DTYPE: return check_below(v, i, "dtype", RVM_NUM_DTYPES);
        case KIND_AXIS: return check_below(v, i, "axis", RVM_MAX_RANK);
        case KIND_TRAP_CODE:
            if (value == 0) return verifier_refuse(v, "operand `code` (0) is no trap code");
            return check_below(v, i, "trap code", RVM_NUM_TRAPS);
        case KIND_FIELD_WORD:
        case KIND_FIELD_OBJECT: return check_field(v, i);
        default:
            if (check_below(v, i, "layout", program->num_layouts)) return -1;
            return check_layout(v, i, &program->layouts[value]);
    }
}

static int check_register(rvm_verifier *v, uint32_t i) {
    static const uint8_t acts[] = {[KIND_W] = ACT_READ,       [KIND_W_OUT] = ACT_WRITE,
                                   [KIND_O_IN] = ACT_CONSUME, [KIND_O_OUT] = ACT_FILL,
                                   [KIND_OB] = ACT_LEND,      [KIND_B_OUT] = ACT_BORROW};
    const rvm_decoded_operand *operand = &v->decoded.operands[i];
    return add_action(v, i, (uint32_t)operand->value, acts[operand->kind]);
}

int verifier_check_operands(rvm_verifier *v) {
    v->num_actions = 0;
    for (uint32_t i = 0; i < v->decoded.row->num_operands; i++) {
        int failed = 0;
        switch (kind_group[v->decoded.operands[i].kind]) {
            case GROUP_REGISTER: failed = check_register(v, i); break;
            case GROUP_INDEX: failed = check_index(v, i); break;
            case GROUP_LIST: failed = check_list(v, i); break;
            default: break;
        }
        if (failed) return -1;
    }
    return 0;
}
