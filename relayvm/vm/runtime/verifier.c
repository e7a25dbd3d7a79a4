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

/* Facts copied or met for one program: bounds time and memory on hostile files. */
#define MAX_WORK (UINT64_C(1) << 29)
#define MAX_WAITING_FACTS (UINT64_C(1) << 25)

/* What is known where control comes to a later place. */
typedef struct waiting_state {
    struct waiting_state *next; /* of those not in use */
    rvm_fact facts[];
} waiting_state;

typedef struct pass {
    rvm_verifier v;
    rvm_fact *facts;         /* here; without meaning while unreachable */
    waiting_state **waiting; /* for each unit, what comes to it */
    uint8_t *targets;        /* for each unit, whether an instruction jumps to it */
    waiting_state *unused;
    uint64_t num_waiting;
    uint64_t filling; /* number of the last filling of an owned register */
    uint64_t *work;
    int reachable;
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

/* Whether a borrowed register with this fact may be used where `facts` hold. */
static int is_valid(const rvm_fact *facts, rvm_fact borrowed) {
    if (borrowed == ROOT_KEPT) return 1;
    if (borrowed == 0) return 0;
    const uint32_t root = root_of(borrowed);
    return facts[root] != 0 && borrowed_fact(root, facts[root]) == borrowed;
}

static uint32_t first_borrowed(const rvm_function *function) {
    return (uint32_t)function->words + function->owned;
}

/* The fact of a register that borrows what `slot` holds. */
static rvm_fact borrow_from(const pass *p, uint32_t slot) {
    if (slot >= first_borrowed(p->v.function)) return p->facts[slot];
    return borrowed_fact(slot, p->facts[slot]);
}

static void enter(pass *p) {
    const rvm_function *function = p->v.function;
    memset(p->facts, 0, function->slots * sizeof *p->facts);
    for (uint32_t i = 0; i < function->num_params; i++) {
        const uint32_t slot = function->param_slot[i];
        const uint8_t class = function->param_class[i];
        p->facts[slot] = class == RVM_CLASS_WORD ? 1
                         : class == RVM_CLASS_OWNED ? ++p->filling
                                                    : ROOT_KEPT;
    }
    p->reachable = 1;
}

/* --- effects of an instruction --------------------------------------------------------------------- */

static int consume(pass *p) {
    for (uint32_t i = 0; i < p->v.num_actions; i++) {
        const rvm_action *action = &p->v.actions[i];
        if (action->act != ACT_CONSUME) continue;
        if (p->facts[action->slot] == 0) return refuse_register(p, action, "is empty");
        p->facts[action->slot] = 0;
    }
    return 0;
}

static int look(pass *p) {
    const uint32_t borrowed = first_borrowed(p->v.function);
    for (uint32_t i = 0; i < p->v.num_actions; i++) {
        const rvm_action *action = &p->v.actions[i];
        const rvm_fact fact = p->facts[action->slot];
        if (action->act == ACT_READ && fact == 0)
            return refuse_register(p, action, "is read before it is written");
        if (action->act != ACT_LEND && action->act != ACT_LEND_KEPT) continue;
        if (action->slot < borrowed) {
            if (fact == 0) return refuse_register(p, action, "is lent but empty");
            if (action->act == ACT_LEND_KEPT)
                return refuse_register(p, action, "is lent to a tail call but dies with its frame");
            continue;
        }
        if (!is_valid(p->facts, fact))
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
        rvm_fact *fact = &p->facts[action->slot];
        if (action->act == ACT_WRITE) *fact = 1;
        if (action->act == ACT_BORROW) *fact = fact_of_borrowed_result(p);
        if (action->act != ACT_FILL) continue;
        if (*fact != 0) return refuse_register(p, action, "is written but full");
        *fact = ++p->filling;
    }
    return 0;
}

static int check_leaves_nothing(pass *p) {
    const rvm_function *function = p->v.function;
    for (uint32_t slot = function->words; slot < first_borrowed(function); slot++)
        if (p->facts[slot] != 0)
            return verifier_refuse(&p->v, "leaves the function while %s is full",
                                   verifier_slot(function, slot).text);
    return 0;
}

/* --- joins ----------------------------------------------------------------------------------------- */

static int count_work(pass *p) {
    *p->work += p->v.function->slots + 1u;
    if (*p->work <= MAX_WORK) return 0;
    return verifier_refuse(&p->v, "is in a program with too many jumps over too many registers");
}

/* Make `facts` what holds both there and in `other`. Borrowed registers first, while the numbers of
 * fillings are those of each side; a root that both sides filled apart gets a new number. */
static int meet(pass *p, rvm_fact *facts, const rvm_fact *other) {
    const rvm_function *function = p->v.function;
    const uint32_t owned = function->words, borrowed = first_borrowed(function);
    for (uint32_t slot = 0; slot < owned; slot++) facts[slot] &= other[slot];
    for (uint32_t slot = borrowed; slot < function->slots; slot++) {
        if (facts[slot] == ROOT_KEPT && other[slot] == ROOT_KEPT) continue;
        const int agree = facts[slot] != ROOT_KEPT && other[slot] != ROOT_KEPT &&
                          is_valid(facts, facts[slot]) && is_valid(other, other[slot]) &&
                          root_of(facts[slot]) == root_of(other[slot]);
        facts[slot] = agree ? borrowed_fact(root_of(facts[slot]), 0) + 1 : 0;
    }
    for (uint32_t slot = owned; slot < borrowed; slot++) {
        if ((facts[slot] == 0) != (other[slot] == 0))
            return verifier_refuse(&p->v, "is where paths meet that disagree whether %s is full",
                                   verifier_slot(function, slot).text);
        if (facts[slot] != other[slot]) facts[slot] = ++p->filling;
    }
    for (uint32_t slot = borrowed; slot < function->slots; slot++)
        if (facts[slot] != 0 && facts[slot] != ROOT_KEPT)
            facts[slot] = borrowed_fact(root_of(facts[slot]), facts[root_of(facts[slot])]);
    return 0;
}

static waiting_state *new_state(pass *p) {
    waiting_state *state = p->unused;
    if (state != NULL) {
        p->unused = state->next;
        return state;
    }
    const uint64_t slots = p->v.function->slots;
    if (++p->num_waiting * (slots + 1) > MAX_WAITING_FACTS) {
        verifier_refuse(&p->v, "is in a program with too many jumps over too many registers");
        return NULL;
    }
    state = malloc(sizeof *state + slots * sizeof(rvm_fact));
    if (state == NULL)
        rvm_fail(p->v.error, "out-of-memory", "there is no memory for the executable");
    return state;
}

static int go_to(pass *p, uint64_t target) {
    const rvm_function *function = p->v.function;
    const uint32_t next = p->v.decoded.unit + p->v.decoded.num_units;
    if (target < next || target >= function->num_units)
        return verifier_refuse(&p->v, "jumps to unit %llu, which is not among %u..%u",
                               (unsigned long long)target, next, function->num_units - 1);
    p->targets[target] = 1;
    if (!p->reachable) return 0;
    if (count_work(p)) return -1;
    waiting_state *state = p->waiting[target];
    if (state != NULL) return meet(p, state->facts, p->facts);
    state = new_state(p);
    if (state == NULL) return -1;
    memcpy(state->facts, p->facts, function->slots * sizeof(rvm_fact));
    p->waiting[target] = state;
    return 0;
}

/* Take what the jumps to this place know. */
static int arrive(pass *p, uint32_t unit) {
    waiting_state *state = p->waiting[unit];
    if (state == NULL) return 0;
    if (count_work(p)) return -1;
    if (p->reachable) {
        if (meet(p, p->facts, state->facts)) return -1;
    } else {
        memcpy(p->facts, state->facts, p->v.function->slots * sizeof(rvm_fact));
        p->reachable = 1;
    }
    p->waiting[unit] = NULL;
    state->next = p->unused;
    p->unused = state;
    return 0;
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
    if (p->reachable) {
        if (consume(p) || look(p) || write(p)) return -1;
        if (leaves_function(decoded->opcode) && check_leaves_nothing(p)) return -1;
    }
    if (follow_labels(p)) return -1;
    if (decoded->row->ends) p->reachable = 0;
    return 0;
}

static int run(pass *p) {
    const rvm_function *function = p->v.function;
    if (rvm_decode(function, 0, &p->v.decoded, p->v.error) || count_work(p)) return -1;
    enter(p);
    for (uint32_t unit = 0; unit < function->num_units; unit += p->v.decoded.num_units) {
        if (rvm_decode(function, unit, &p->v.decoded, p->v.error)) return -1;
        if (arrive(p, unit) || step(p)) return -1;
    }
    return p->reachable ? verifier_refuse(&p->v, "is the end of the code, but control goes on") : 0;
}

/* After a whole pass nothing waits. */
static void drop(pass *p, int failed) {
    const int search = failed && p->waiting != NULL;
    for (uint32_t unit = 0; search && unit < p->v.function->num_units; unit++)
        free(p->waiting[unit]);
    while (p->unused != NULL) {
        waiting_state *next = p->unused->next;
        free(p->unused);
        p->unused = next;
    }
    free(p->waiting);
    free(p->targets);
    free(p->facts);
    free(p->v.actions);
}

int rvm_verify_function(const rvm_program *program, const rvm_function *function, uint64_t *work,
                        rvm_load_error *error) {
    pass p = {.v = {.program = program, .function = function, .error = error}, .work = work};
    p.facts = calloc(function->slots + 1u, sizeof *p.facts);
    p.waiting = calloc(function->num_units, sizeof *p.waiting);
    p.targets = calloc(function->num_units, 1);
    const int failed = p.facts == NULL || p.waiting == NULL || p.targets == NULL
                           ? rvm_fail(error, "out-of-memory", "there is no memory to verify")
                           : run(&p);
    drop(&p, failed);
    return failed;
}
