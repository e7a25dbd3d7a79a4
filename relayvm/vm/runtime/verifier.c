/* Proves a function's use of registers in one forward pass. At each instruction it knows which
 * words are set, which owned registers are full, and which borrowed registers are kept alive by
 * what. Labels point forward only, so all that jump to a place come before it: what they know meets
 * there. An instruction first consumes, then looks at what it is lent and reads, then writes. */
#include "verifier.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "generated/opcodes.h"

/* Nodes of facts looked at or made for one program: bounds time and memory on hostile files. */
#define MAX_WORK (UINT64_C(1) << 25)
#define MAX_NODES (UINT64_C(1) << 21)

/* What is known at a place: a tree of facts, and how many owned registers are full. */
typedef struct state {
    rvm_fact_node *facts;
    uint32_t num_full;
    int is_reached;
} state;

typedef struct pass {
    rvm_verifier v;
    rvm_fact_pool pool;
    state here;
    state *waiting;   /* for each unit, what comes to it */
    uint8_t *targets; /* for each unit, whether an instruction jumps to it */
    uint64_t filling; /* number of the last filling of an owned register */
    uint64_t *work;
} pass;

/* --- messages ----------------------------------------------------------------------------------- */

int verifier_refuse(const rvm_verifier *v, const char *format, ...) {
    char text[300];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return rvm_fail(v->error, "bad-executable", "byte %llu: `%s` %s, in function `%.60s`",
                    (unsigned long long)(v->function->code_offset + 2 * (uint64_t)v->decoded.unit),
                    v->decoded.row->name, text, v->function->name);
}

const char *verifier_operand_name(const rvm_verifier *v, uint32_t operand) {
    return operand_names[v->decoded.operands[operand].name];
}

rvm_slot_text verifier_slot(const rvm_function *function, uint32_t slot) {
    rvm_slot_text result;
    const uint32_t words = function->words, owned = function->owned;
    const char bank = slot < words ? 'w' : slot < words + owned ? 'o' : 'b';
    const uint32_t first = bank == 'w' ? 0 : bank == 'o' ? words : words + owned;
    snprintf(result.text, sizeof result.text, "%c%u", bank, (slot - first) & 0xffffu);
    return result;
}

static int refuse_register(const pass *p, const rvm_action *action, const char *what) {
    return verifier_refuse(&p->v, "operand `%s` (%s) %s",
                           verifier_operand_name(&p->v, action->operand),
                           verifier_slot(p->v.function, action->slot).text, what);
}

/* --- facts ---------------------------------------------------------------------------------------- */

static rvm_fact borrowed_fact(uint32_t root, rvm_fact filling) {
    return (rvm_fact)root << 40 | filling;
}

static uint32_t root_of(rvm_fact borrowed) { return (uint32_t)(borrowed >> 40); }

static uint32_t first_borrowed(const rvm_function *function) {
    return (uint32_t)function->words + function->owned;
}

static int is_owned(const rvm_function *function, uint32_t slot) {
    return slot >= function->words && slot < first_borrowed(function);
}

static rvm_fact fact_of(const pass *p, const state *at, uint32_t slot) {
    return facts_get(&p->pool, at->facts, slot);
}

static int refuse_size(const pass *p) {
    if (p->pool.is_out_of_memory)
        return rvm_fail(p->v.error, "out-of-memory", "there is no memory for the executable");
    return verifier_refuse(&p->v, "is in a program with too many jumps over too many registers");
}

static int set_fact(pass *p, state *at, uint32_t slot, rvm_fact fact) {
    if (is_owned(p->v.function, slot)) {
        const int was_full = fact_of(p, at, slot) != 0;
        at->num_full += (uint32_t)(fact != 0) - (uint32_t)was_full;
    }
    return facts_set(&p->pool, &at->facts, slot, fact) ? refuse_size(p) : 0;
}

/* Whether a borrowed register with this fact may be used in this state. */
static int is_valid(const pass *p, const state *at, rvm_fact borrowed) {
    if (borrowed == ROOT_KEPT) return 1;
    if (borrowed == 0) return 0;
    const uint32_t root = root_of(borrowed);
    const rvm_fact filling = fact_of(p, at, root);
    return filling != 0 && borrowed_fact(root, filling) == borrowed;
}

/* The fact of a register that borrows what `slot` holds. */
static rvm_fact borrow_from(const pass *p, uint32_t slot) {
    const rvm_fact fact = fact_of(p, &p->here, slot);
    return slot >= first_borrowed(p->v.function) ? fact : borrowed_fact(slot, fact);
}

static int enter(pass *p) {
    const rvm_function *function = p->v.function;
    for (uint32_t i = 0; i < function->num_params; i++) {
        const uint8_t class = function->param_class[i];
        const rvm_fact fact = class == RVM_CLASS_WORD    ? 1
                              : class == RVM_CLASS_OWNED ? ++p->filling
                                                         : ROOT_KEPT;
        if (set_fact(p, &p->here, function->param_slot[i], fact)) return -1;
    }
    p->here.is_reached = 1;
    return 0;
}

/* --- effects of an instruction --------------------------------------------------------------------- */

static int consume(pass *p) {
    for (uint32_t i = 0; i < p->v.num_actions; i++) {
        const rvm_action *action = &p->v.actions[i];
        if (action->act != ACT_CONSUME) continue;
        if (fact_of(p, &p->here, action->slot) == 0) return refuse_register(p, action, "is empty");
        if (set_fact(p, &p->here, action->slot, 0)) return -1;
    }
    return 0;
}

static int look(pass *p) {
    const uint32_t borrowed = first_borrowed(p->v.function);
    for (uint32_t i = 0; i < p->v.num_actions; i++) {
        const rvm_action *action = &p->v.actions[i];
        const rvm_fact fact = fact_of(p, &p->here, action->slot);
        if (action->act == ACT_READ && fact == 0)
            return refuse_register(p, action, "is read before it is written");
        if (action->act != ACT_LEND && action->act != ACT_LEND_KEPT) continue;
        if (action->slot < borrowed) {
            if (fact == 0) return refuse_register(p, action, "is lent but empty");
            if (action->act == ACT_LEND_KEPT)
                return refuse_register(p, action, "is lent to a tail call but dies with its frame");
            continue;
        }
        if (!is_valid(p, &p->here, fact))
            return refuse_register(p, action, "is lent but nothing keeps its object alive");
        if (action->act == ACT_LEND_KEPT && fact != ROOT_KEPT)
            return refuse_register(p, action, "is lent to a tail call but dies with its frame");
    }
    return 0;
}

/* What a borrowed result is kept alive by: the constants, or what keeps the lent operand. */
static rvm_fact fact_of_borrowed_result(const pass *p) {
    for (uint32_t i = 0; i < p->v.num_actions; i++)
        if (p->v.actions[i].act == ACT_LEND) return borrow_from(p, p->v.actions[i].slot);
    return ROOT_KEPT;
}

static int write(pass *p) {
    for (uint32_t i = 0; i < p->v.num_actions; i++) {
        const rvm_action *action = &p->v.actions[i];
        rvm_fact fact = 1;
        if (action->act == ACT_BORROW) fact = fact_of_borrowed_result(p);
        if (action->act == ACT_FILL) {
            if (fact_of(p, &p->here, action->slot) != 0)
                return refuse_register(p, action, "is written but full");
            fact = ++p->filling;
        }
        const int writes =
            action->act == ACT_WRITE || action->act == ACT_BORROW || action->act == ACT_FILL;
        if (writes && set_fact(p, &p->here, action->slot, fact)) return -1;
    }
    return 0;
}

static int check_leaves_nothing(pass *p) {
    const rvm_function *function = p->v.function;
    if (p->here.num_full == 0) return 0;
    uint32_t slot = function->words;
    while (fact_of(p, &p->here, slot) == 0) slot++;
    return verifier_refuse(&p->v, "leaves the function while %s is full",
                           verifier_slot(function, slot).text);
}

/* --- joins ----------------------------------------------------------------------------------------- */

static int count_work(pass *p, uint64_t work) {
    *p->work += work;
    return *p->work <= MAX_WORK ? 0 : refuse_size(p);
}

/* What holds of a slot whose facts `a` in `at` and `b` in `other` differ. `met` knows already what
 * holds of the roots. */
static int meet_fact(pass *p, state *met, const state *at, const state *other, uint32_t slot) {
    const rvm_function *function = p->v.function;
    const rvm_fact a = fact_of(p, at, slot), b = fact_of(p, other, slot);
    if (slot < function->words) return set_fact(p, met, slot, a & b);
    if (slot < first_borrowed(function)) {
        if ((a == 0) != (b == 0))
            return verifier_refuse(&p->v, "is where paths meet that disagree whether %s is full",
                                   verifier_slot(function, slot).text);
        return set_fact(p, met, slot, ++p->filling);
    }
    const int agree = a != ROOT_KEPT && b != ROOT_KEPT && is_valid(p, at, a) &&
                      is_valid(p, other, b) && root_of(a) == root_of(b);
    const uint32_t root = root_of(a);
    return set_fact(p, met, slot, agree ? borrowed_fact(root, fact_of(p, met, root)) : 0);
}

/* Make `at` what holds both there and in `other`, which is given away. Slots are met in order: words,
 * owned, borrowed. A root that both sides filled apart gets a new number, and what borrows it on both
 * sides follows. Where both sides have the same fact it stays: a borrower that one side has lost its
 * root of is invalid behind the join too, for the root's number is another one there. */
static int meet(pass *p, state *at, state *other) {
    const uint64_t made = p->pool.made;
    uint64_t work = 1;
    int failed = 0;
    state met = {facts_copy(at->facts), at->num_full, 1};
    for (uint32_t slot = 0; !failed; slot++) {
        slot = facts_next_difference(&p->pool, at->facts, other->facts, slot, &work);
        if (slot >= p->v.function->slots) break;
        failed = meet_fact(p, &met, at, other, slot);
    }
    facts_drop(&p->pool, at->facts);
    facts_drop(&p->pool, other->facts);
    *at = met;
    *other = (state){0};
    return failed || count_work(p, work + p->pool.made - made) ? -1 : 0;
}

static int go_to(pass *p, uint64_t target) {
    const rvm_function *function = p->v.function;
    const uint32_t next = p->v.decoded.unit + p->v.decoded.num_units;
    if (target < next || target >= function->num_units)
        return verifier_refuse(&p->v, "jumps to unit %llu, which is not among %u..%u",
                               (unsigned long long)target, next, function->num_units - 1);
    p->targets[target] = 1;
    if (!p->here.is_reached) return 0;
    state copy = p->here;
    facts_copy(copy.facts);
    if (p->waiting[target].is_reached) return meet(p, &p->waiting[target], &copy);
    p->waiting[target] = copy;
    return 0;
}

/* Take what the jumps to this place know. */
static int arrive(pass *p, uint32_t unit) {
    state *waiting = &p->waiting[unit];
    if (!waiting->is_reached) return 0;
    if (p->here.is_reached) return meet(p, &p->here, waiting);
    p->here = *waiting;
    *waiting = (state){0};
    return 0;
}

/* Nothing is known behind an instruction that control does not leave at its end. */
static void leave(pass *p) {
    facts_drop(&p->pool, p->here.facts);
    p->here = (state){0};
}

/* --- the pass --------------------------------------------------------------------------------------- */

static int follow_labels(pass *p) {
    for (uint32_t i = 0; i < p->v.decoded.row->num_operands; i++) {
        const rvm_decoded_operand *operand = &p->v.decoded.operands[i];
        if (operand->kind == KIND_LABEL && go_to(p, operand->value)) return -1;
        if (operand->kind != KIND_LABELS) continue;
        const uint16_t *labels = p->v.function->code + operand->unit;
        for (uint32_t k = 0; k < operand->count; k++)
            if (go_to(p, rvm_read_label(labels + 2 * (size_t)k))) return -1;
    }
    return 0;
}

static int leaves_function(uint16_t opcode) {
    return opcode == RVM_OP_return || opcode == RVM_OP_tail_call ||
           opcode == RVM_OP_tail_call_closure;
}

static int step(pass *p) {
    const rvm_decoded *decoded = &p->v.decoded;
    if (verifier_check_operands(&p->v)) return -1;
    for (uint32_t u = 1; u < decoded->num_units; u++)
        if (p->targets[decoded->unit + u])
            return verifier_refuse(&p->v, "is jumped into at unit %u", decoded->unit + u);
    if (p->here.is_reached) {
        if (consume(p) || look(p) || write(p)) return -1;
        if (leaves_function(decoded->opcode) && check_leaves_nothing(p)) return -1;
    }
    if (follow_labels(p)) return -1;
    if (decoded->row->ends) leave(p);
    return 0;
}

static int run(pass *p) {
    const rvm_function *function = p->v.function;
    if (rvm_decode(function, 0, &p->v.decoded, p->v.error) || enter(p)) return -1;
    for (uint32_t unit = 0; unit < function->num_units; unit += p->v.decoded.num_units) {
        if (rvm_decode(function, unit, &p->v.decoded, p->v.error)) return -1;
        if (arrive(p, unit) || step(p)) return -1;
    }
    if (!p->here.is_reached) return 0;
    return verifier_refuse(&p->v, "is the end of the code, but control goes on");
}

int rvm_verify_function(const rvm_program *program, const rvm_function *function, uint64_t *work,
                        rvm_load_error *error) {
    pass p = {.v = {.program = program, .function = function, .error = error}, .work = work};
    facts_open(&p.pool, function->slots, MAX_NODES);
    p.waiting = calloc(function->num_units, sizeof *p.waiting);
    p.targets = calloc(function->num_units, 1);
    const int failed = p.waiting == NULL || p.targets == NULL
                           ? rvm_fail(error, "out-of-memory", "there is no memory to verify")
                           : run(&p);
    facts_close(&p.pool);
    free(p.waiting);
    free(p.targets);
    free(p.v.actions);
    return failed;
}
