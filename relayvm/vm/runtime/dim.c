/* Values of dims: postfix programs over a kernel's dim variables, with checked arithmetic. */
#include "generated/format.h"
#include "program.h"

static int32_t floor_divide(int64_t a, int64_t b, int64_t *quotient, int64_t *remainder) {
    if (b == 0) return RVM_TRAP_SHAPE_MISMATCH;
    if (b == -1) {
        *remainder = 0;
        return __builtin_sub_overflow((int64_t)0, a, quotient) ? RVM_TRAP_SIZE_OVERFLOW : 0;
    }
    *quotient = a / b;
    *remainder = a % b;
    if (*remainder != 0 && ((*remainder < 0) != (b < 0))) {
        *quotient -= 1;
        *remainder += b;
    }
    return 0;
}

static int32_t apply(int64_t op, int64_t a, int64_t b, int64_t *result) {
    int64_t other;
    switch (op) {
        case RVM_DIM_OP_ADD:
            return __builtin_add_overflow(a, b, result) ? RVM_TRAP_SIZE_OVERFLOW : 0;
        case RVM_DIM_OP_MUL:
            return __builtin_mul_overflow(a, b, result) ? RVM_TRAP_SIZE_OVERFLOW : 0;
        case RVM_DIM_OP_FLOORDIV: return floor_divide(a, b, result, &other);
        case RVM_DIM_OP_MOD: return floor_divide(a, b, &other, result);
        case RVM_DIM_OP_MIN: *result = a < b ? a : b; return 0;
        case RVM_DIM_OP_MAX: *result = a > b ? a : b; return 0;
        default: break;
    }
    /* broadcast: the loader admits no other operation */
    if (a != b && a != 1 && b != 1) return RVM_TRAP_SHAPE_MISMATCH;
    *result = a == 1 ? b : a;
    return 0;
}

/* Where an operation traps, says where it stands and what its operands were. */
static int32_t run(const rvm_dim *dim, const int64_t *vars, int64_t *result, uint32_t *place, int64_t *sizes) {
    int64_t stack[RVM_MAX_DIM_STACK];
    uint32_t depth = 0;
    for (uint32_t i = 0; i < dim->length; i++) {
        const int64_t op = dim->code[i];
        if (op == RVM_DIM_OP_CONSTANT) {
            stack[depth++] = dim->code[++i];
        } else if (op == RVM_DIM_OP_VARIABLE) {
            stack[depth++] = vars[dim->code[++i]];
        } else {
            const int64_t a = stack[depth - 2], b = stack[depth - 1];
            const int32_t trap = apply(op, a, b, &stack[depth - 2]);
            if (trap) {
                *place = i;
                sizes[0] = a;
                sizes[1] = b;
                return trap;
            }
            depth--;
        }
    }
    *result = stack[0];
    return 0;
}

int32_t rvm_dim_value_slow(const rvm_dim *dim, const int64_t *vars, int64_t *result) {
    uint32_t place;
    int64_t sizes[2];
    return dim->kind == RVM_DIM_PROGRAM ? run(dim, vars, result, &place, sizes) : rvm_dim_value(dim, vars, result);
}

rvm_clash rvm_dim_clash(const rvm_dim *dim, const int64_t *vars, int64_t sizes[2]) {
    uint32_t place;
    int64_t result;
    if (dim->kind != RVM_DIM_PROGRAM || run(dim, vars, &result, &place, sizes) != RVM_TRAP_SHAPE_MISMATCH ||
        dim->code[place] != RVM_DIM_OP_BROADCAST) {
        return RVM_CLASH_NONE;
    }
    return place + 1 == dim->length ? RVM_CLASH_WHOLE : RVM_CLASH_INSIDE;
}
