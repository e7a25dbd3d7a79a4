/* Bodies of the instructions on words. Each takes operand values and result pointers, in the order of its row. */
#ifndef RVM_BODIES_WORD_H
#define RVM_BODIES_WORD_H

#include "scalar.h"

#define BINARY(name, T, expression)                                                               \
    static inline void body_##name##_##T(uint64_t *dst, uint64_t word_a, uint64_t word_b) {       \
        scalar_##T a = get_##T(word_a), b = get_##T(word_b);                                      \
        *dst = put_##T(expression);                                                               \
    }
#define UNARY(name, T, expression)                                                                \
    static inline void body_##name##_##T(uint64_t *dst, uint64_t word_a) {                        \
        scalar_##T a = get_##T(word_a);                                                           \
        *dst = put_##T(expression);                                                               \
    }
#define COMPARE(name, T, operation)                                                               \
    static inline void body_##name##_##T(uint64_t *dst, uint64_t word_a, uint64_t word_b) {       \
        *dst = get_##T(word_a) operation get_##T(word_b);                                         \
    }
#define COMPARISONS(T)                                                                            \
    COMPARE(equal, T, ==)                                                                         \
    COMPARE(not_equal, T, !=)                                                                     \
    COMPARE(less, T, <)                                                                           \
    COMPARE(less_equal, T, <=)                                                                    \
    COMPARE(greater, T, >)                                                                        \
    COMPARE(greater_equal, T, >=)
#define BITWISE(T)                                                                                \
    BINARY(bitwise_and, T, (scalar_##T)(a & b))                                                   \
    BINARY(bitwise_or, T, (scalar_##T)(a | b))                                                    \
    BINARY(bitwise_xor, T, (scalar_##T)(a ^ b))

/* Wrapping is done in uint64_t, where it is defined, and cut to the dtype. */
#define INTEGER(T, C)                                                                             \
    BINARY(add, T, (C)((uint64_t)a + (uint64_t)b))                                                \
    BINARY(subtract, T, (C)((uint64_t)a - (uint64_t)b))                                           \
    BINARY(multiply, T, (C)((uint64_t)a * (uint64_t)b))                                           \
    BINARY(divide, T, divide_##C(a, b))                                                           \
    BINARY(floor_divide, T, floor_divide_##C(a, b))                                               \
    BINARY(mod, T, mod_##C(a, b))                                                                 \
    BINARY(floor_mod, T, floor_mod_##C(a, b))                                                     \
    BINARY(maximum, T, a > b ? a : b)                                                             \
    BINARY(minimum, T, a < b ? a : b)                                                             \
    UNARY(negative, T, (C)((uint64_t)0 - (uint64_t)a))                                            \
    UNARY(abs, T, abs_##C(a))                                                                     \
    BITWISE(T)                                                                                    \
    UNARY(bitwise_not, T, (C) ~a)                                                                 \
    BINARY(left_shift, T, left_shift_##C(a, b))                                                   \
    BINARY(right_shift, T, right_shift_##C(a, b))                                                 \
    COMPARISONS(T)
INTEGER(i8, int8_t)
INTEGER(i16, int16_t)
INTEGER(i32, int32_t)
INTEGER(i64, int64_t)
INTEGER(u8, uint8_t)
INTEGER(u16, uint16_t)
INTEGER(u32, uint32_t)
INTEGER(u64, uint64_t)

#define FLOAT(T, C)                                                                               \
    BINARY(add, T, a + b)                                                                         \
    BINARY(subtract, T, a - b)                                                                    \
    BINARY(multiply, T, a *b)                                                                     \
    BINARY(divide, T, divide_##C(a, b))                                                           \
    BINARY(floor_divide, T, floor_divide_##C(a, b))                                               \
    BINARY(mod, T, mod_##C(a, b))                                                                 \
    BINARY(floor_mod, T, floor_mod_##C(a, b))                                                     \
    BINARY(maximum, T, maximum_##C(a, b))                                                         \
    BINARY(minimum, T, minimum_##C(a, b))                                                         \
    UNARY(negative, T, negative_##C(a))                                                           \
    UNARY(abs, T, abs_##C(a))                                                                     \
    COMPARISONS(T)
FLOAT(f16, float)
FLOAT(bf16, float)
FLOAT(f32, float)
FLOAT(f64, double)

BITWISE(b1)
UNARY(bitwise_not, b1, !a)
COMPARISONS(b1)

static inline void body_logical_and(uint64_t *dst, uint64_t a, uint64_t b) {
    *dst = a && b;
}

static inline void body_logical_or(uint64_t *dst, uint64_t a, uint64_t b) {
    *dst = a || b;
}

static inline void body_logical_xor(uint64_t *dst, uint64_t a, uint64_t b) {
    *dst = !a != !b;
}

static inline void body_logical_not(uint64_t *dst, uint64_t a) {
    *dst = !a;
}

static inline void body_word(uint64_t *dst, uint64_t value) {
    *dst = value;
}

static inline void body_move(uint64_t *dst, uint64_t src) {
    *dst = src;
}

static inline void body_select(uint64_t *dst, uint64_t condition, uint64_t a, uint64_t b) {
    *dst = condition ? a : b;
}

#define CAST(from, to, expression)                                                                \
    static inline void body_cast_##from##_##to(uint64_t *dst, uint64_t word) {                    \
        scalar_##from a = get_##from(word);                                                       \
        *dst = expression;                                                                        \
    }
#define CAST_TO_INTEGERS(from, X)                                                                 \
    X(from, i8) X(from, i16) X(from, i32) X(from, i64) X(from, u8) X(from, u16) X(from, u32) X(from, u64)
#define EXACT(from, to) CAST(from, to, put_##to((scalar_##to)a))
#define SATURATING(from, to) CAST(from, to, put_##to(float_to_##to((double)a)))

/* Casts of an integer to each dtype but its own, which has no instruction. */
#define INTEGER_TO_REST(from)                                                                     \
    CAST(from, b1, a != 0)                                                                        \
    CAST(from, f16, double_to_half((double)a))                                                    \
    CAST(from, f32, put_f32((float)a))                                                            \
    CAST(from, f64, put_f64((double)a))
#define FLOAT_TO_REST(from)                                                                       \
    CAST(from, b1, a != 0)                                                                        \
    CAST_TO_INTEGERS(from, SATURATING)

EXACT(i8, i16) EXACT(i8, i32) EXACT(i8, i64) EXACT(i8, u8) EXACT(i8, u16) EXACT(i8, u32) EXACT(i8, u64)
EXACT(i16, i8) EXACT(i16, i32) EXACT(i16, i64) EXACT(i16, u8) EXACT(i16, u16) EXACT(i16, u32) EXACT(i16, u64)
EXACT(i32, i8) EXACT(i32, i16) EXACT(i32, i64) EXACT(i32, u8) EXACT(i32, u16) EXACT(i32, u32) EXACT(i32, u64)
EXACT(i64, i8) EXACT(i64, i16) EXACT(i64, i32) EXACT(i64, u8) EXACT(i64, u16) EXACT(i64, u32) EXACT(i64, u64)
EXACT(u8, i8) EXACT(u8, i16) EXACT(u8, i32) EXACT(u8, i64) EXACT(u8, u16) EXACT(u8, u32) EXACT(u8, u64)
EXACT(u16, i8) EXACT(u16, i16) EXACT(u16, i32) EXACT(u16, i64) EXACT(u16, u8) EXACT(u16, u32) EXACT(u16, u64)
EXACT(u32, i8) EXACT(u32, i16) EXACT(u32, i32) EXACT(u32, i64) EXACT(u32, u8) EXACT(u32, u16) EXACT(u32, u64)
EXACT(u64, i8) EXACT(u64, i16) EXACT(u64, i32) EXACT(u64, i64) EXACT(u64, u8) EXACT(u64, u16) EXACT(u64, u32)
CAST(i8, bf16, put_bf16((float)a))
CAST(i16, bf16, put_bf16((float)a))
CAST(i32, bf16, signed_to_bfloat(a))
CAST(i64, bf16, signed_to_bfloat(a))
CAST(u8, bf16, put_bf16((float)a))
CAST(u16, bf16, put_bf16((float)a))
CAST(u32, bf16, unsigned_to_bfloat(a))
CAST(u64, bf16, unsigned_to_bfloat(a))
INTEGER_TO_REST(i8) INTEGER_TO_REST(i16) INTEGER_TO_REST(i32) INTEGER_TO_REST(i64)
INTEGER_TO_REST(u8) INTEGER_TO_REST(u16) INTEGER_TO_REST(u32) INTEGER_TO_REST(u64)
CAST_TO_INTEGERS(b1, EXACT)
CAST(b1, f16, put_f16((float)a))
CAST(b1, bf16, put_bf16((float)a))
CAST(b1, f32, put_f32((float)a))
CAST(b1, f64, put_f64((double)a))
FLOAT_TO_REST(f16)
FLOAT_TO_REST(bf16)
FLOAT_TO_REST(f32)
FLOAT_TO_REST(f64)
CAST(f16, bf16, put_bf16(a))
CAST(f16, f32, put_f32(a))
CAST(f16, f64, put_f64((double)a))
CAST(bf16, f16, put_f16(a))
static inline void body_cast_bf16_f32(uint64_t *dst, uint64_t word) {
    *dst = (uint32_t)word << 16;
}
CAST(bf16, f64, put_f64((double)a))
CAST(f32, f16, put_f16(a))
CAST(f32, bf16, put_bf16(a))
CAST(f32, f64, put_f64((double)a))
CAST(f64, f16, double_to_half(a))
CAST(f64, bf16, double_to_bfloat(a))
CAST(f64, f32, put_f32((float)a))

#undef BINARY
#undef UNARY
#undef COMPARE
#undef COMPARISONS
#undef BITWISE
#undef INTEGER
#undef FLOAT
#undef CAST
#undef CAST_TO_INTEGERS
#undef EXACT
#undef SATURATING
#undef INTEGER_TO_REST
#undef FLOAT_TO_REST

#endif
