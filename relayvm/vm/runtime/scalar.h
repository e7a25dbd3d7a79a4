/* Arithmetic on register words, exactly as the language defines it for every dtype: integers wrap, no operation traps,
 * float16 and bfloat16 are computed in float32 and rounded once. A word holds the value's own bits: integers extended
 * by their signedness, floats in their low bytes. */
#ifndef RVM_SCALAR_H
#define RVM_SCALAR_H

#include <math.h>
#include <stdint.h>
#include <string.h>

typedef int8_t scalar_i8;
typedef int16_t scalar_i16;
typedef int32_t scalar_i32;
typedef int64_t scalar_i64;
typedef uint8_t scalar_u8;
typedef uint16_t scalar_u16;
typedef uint32_t scalar_u32;
typedef uint64_t scalar_u64;
typedef uint64_t scalar_b1;
typedef float scalar_f16; /* as it is computed */
typedef float scalar_bf16;
typedef float scalar_f32;
typedef double scalar_f64;

static inline float half_to_float(uint16_t half) {
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
    uint32_t exponent = (half >> 10) & 31u;
    uint32_t mantissa = half & 1023u;
    if (exponent == 0) {
        float magnitude = (float)mantissa * 0x1p-24f;
        return sign ? -magnitude : magnitude;
    }
    uint32_t bits = exponent == 31 ? 0x7f800000u : (exponent + 112u) << 23;
    bits |= sign | mantissa << 13;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Rounds to nearest, ties to even. */
static inline uint16_t double_to_half(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint64_t sign = bits >> 48 & 0x8000u;
    uint64_t mantissa = bits & 0xfffffffffffffu;
    uint64_t exponent = bits >> 52 & 0x7ffu;
    if (exponent == 0x7ff) {
        return (uint16_t)(sign | (mantissa ? 0x7e00u : 0x7c00u));
    }
    if (exponent >= 1023 + 16) {
        return (uint16_t)(sign | 0x7c00u);
    }
    uint64_t shift = 42, half;
    if (exponent < 1023 - 14) { /* below the normal range: count units of 2^-24 */
        shift += 1023 - 14 - exponent;
        if (shift > 54) {
            return (uint16_t)sign;
        }
        mantissa |= (uint64_t)1 << 52;
        half = mantissa >> shift;
    } else {
        half = (exponent - 1008) << 10 | mantissa >> shift;
    }
    uint64_t rest = mantissa & (((uint64_t)1 << shift) - 1);
    uint64_t middle = (uint64_t)1 << (shift - 1);
    half += rest > middle || (rest == middle && (half & 1));
    return (uint16_t)(sign | half);
}

static inline float bfloat_to_float(uint16_t bfloat) {
    uint32_t bits = (uint32_t)bfloat << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Rounds to nearest, ties to even. */
static inline uint16_t float_to_bfloat(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if ((bits & 0x7fffffffu) > 0x7f800000u) {
        return (uint16_t)((bits >> 16 & 0x8000u) | 0x7fc0u);
    }
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

/* Rounds once: what float32 does not hold gets an odd last bit there, on the same side of every tie. */
static inline uint16_t double_to_bfloat(double value) {
    float single = (float)value;
    if (value == value && (double)single != value) {
        uint32_t bits;
        memcpy(&bits, &single, sizeof bits);
        bits = (bits - (fabs((double)single) > fabs(value))) | 1u;
        memcpy(&single, &bits, sizeof bits);
    }
    return float_to_bfloat(single);
}

/* Of magnitudes above 2^53 the low 12 bits become one, which float64 holds: ties are multiples of 2^12 there. */
static inline uint64_t odd_magnitude(uint64_t magnitude) {
    return magnitude >> 53 ? (magnitude & ~(uint64_t)0xfff) | (magnitude & 0xfff ? 0x800u : 0u) : magnitude;
}

static inline uint16_t signed_to_bfloat(int64_t value) {
    uint64_t magnitude = odd_magnitude(value < 0 ? (uint64_t)0 - (uint64_t)value : (uint64_t)value);
    return double_to_bfloat(value < 0 ? -(double)magnitude : (double)magnitude);
}

static inline uint16_t unsigned_to_bfloat(uint64_t value) {
    return double_to_bfloat((double)odd_magnitude(value));
}

/* get: the value of a word; put: the word of a value. */
#define SCALAR_INTEGER_WORDS(T, wide)                                                             \
    static inline scalar_##T get_##T(uint64_t word) { return (scalar_##T)word; }                  \
    static inline uint64_t put_##T(scalar_##T value) { return (uint64_t)(wide)value; }
SCALAR_INTEGER_WORDS(i8, int64_t)
SCALAR_INTEGER_WORDS(i16, int64_t)
SCALAR_INTEGER_WORDS(i32, int64_t)
SCALAR_INTEGER_WORDS(i64, int64_t)
SCALAR_INTEGER_WORDS(u8, uint64_t)
SCALAR_INTEGER_WORDS(u16, uint64_t)
SCALAR_INTEGER_WORDS(u32, uint64_t)
SCALAR_INTEGER_WORDS(u64, uint64_t)
#undef SCALAR_INTEGER_WORDS

static inline uint64_t get_b1(uint64_t word) {
    return word != 0;
}

static inline uint64_t put_b1(uint64_t value) {
    return value != 0;
}

static inline float get_f32(uint64_t word) {
    uint32_t bits = (uint32_t)word;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint64_t put_f32(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline double get_f64(uint64_t word) {
    double value;
    memcpy(&value, &word, sizeof value);
    return value;
}

static inline uint64_t put_f64(double value) {
    uint64_t word;
    memcpy(&word, &value, sizeof word);
    return word;
}

static inline float get_f16(uint64_t word) {
    return half_to_float((uint16_t)word);
}

static inline uint64_t put_f16(float value) {
    return double_to_half((double)value);
}

static inline float get_bf16(uint64_t word) {
    return bfloat_to_float((uint16_t)word);
}

static inline uint64_t put_bf16(float value) {
    return float_to_bfloat(value);
}

#define SCALAR_SIGNED(T, U)                                                                       \
    static inline T divide_##T(T a, T b) {                                                        \
        return b == 0 ? (T)0 : b == -1 ? (T)((U)0 - (U)a) : (T)(a / b);                           \
    }                                                                                             \
    static inline T mod_##T(T a, T b) { return b == 0 || b == -1 ? (T)0 : (T)(a % b); }           \
    static inline T floor_mod_##T(T a, T b) {                                                     \
        T rest = mod_##T(a, b);                                                                   \
        return rest != 0 && (rest < 0) != (b < 0) ? (T)(rest + b) : rest;                         \
    }                                                                                             \
    static inline T floor_divide_##T(T a, T b) {                                                  \
        T quotient = divide_##T(a, b);                                                            \
        T rest = mod_##T(a, b);                                                                   \
        return rest != 0 && (rest < 0) != (b < 0) ? (T)(quotient - 1) : quotient;                 \
    }                                                                                             \
    static inline T abs_##T(T a) { return a < 0 ? (T)((U)0 - (U)a) : a; }                         \
    static inline T right_shift_##T(T a, T b) {                                                   \
        return b < 0 || b >= (T)(8 * sizeof(T)) ? (T)(a < 0 ? -1 : 0) : (T)(a >> b);              \
    }                                                                                             \
    static inline T left_shift_##T(T a, T b) {                                                    \
        return b < 0 || b >= (T)(8 * sizeof(T)) ? (T)0 : (T)((uint64_t)a << b);                   \
    }
SCALAR_SIGNED(int8_t, uint64_t)
SCALAR_SIGNED(int16_t, uint64_t)
SCALAR_SIGNED(int32_t, uint64_t)
SCALAR_SIGNED(int64_t, uint64_t)
#undef SCALAR_SIGNED

#define SCALAR_UNSIGNED(T)                                                                        \
    static inline T divide_##T(T a, T b) { return b == 0 ? (T)0 : (T)(a / b); }                   \
    static inline T mod_##T(T a, T b) { return b == 0 ? (T)0 : (T)(a % b); }                      \
    static inline T floor_mod_##T(T a, T b) { return mod_##T(a, b); }                             \
    static inline T floor_divide_##T(T a, T b) { return divide_##T(a, b); }                       \
    static inline T abs_##T(T a) { return a; }                                                    \
    static inline T right_shift_##T(T a, T b) {                                                   \
        return b >= (T)(8 * sizeof(T)) ? (T)0 : (T)(a >> b);                                      \
    }                                                                                             \
    static inline T left_shift_##T(T a, T b) {                                                    \
        return b >= (T)(8 * sizeof(T)) ? (T)0 : (T)((uint64_t)a << b);                            \
    }
SCALAR_UNSIGNED(uint8_t)
SCALAR_UNSIGNED(uint16_t)
SCALAR_UNSIGNED(uint32_t)
SCALAR_UNSIGNED(uint64_t)
#undef SCALAR_UNSIGNED

/* As numpy divides floats with a rest: the rest is exact, the quotient is its companion. */
#define SCALAR_FLOAT(T, s)                                                                        \
    static inline T divmod_##T(T a, T b, T *rest) {                                               \
        T mod = fmod##s(a, b);                                                                    \
        if (b == 0) {                                                                             \
            *rest = mod;                                                                          \
            return a / b;                                                                         \
        }                                                                                         \
        T quotient = (a - mod) / b;                                                               \
        if (mod != 0) {                                                                           \
            if ((b < 0) != (mod < 0)) {                                                           \
                mod += b;                                                                         \
                quotient -= 1;                                                                    \
            }                                                                                     \
        } else {                                                                                  \
            mod = copysign##s(0, b);                                                              \
        }                                                                                         \
        *rest = mod;                                                                              \
        if (quotient == 0) {                                                                      \
            return copysign##s(0, a / b);                                                         \
        }                                                                                         \
        T floored = floor##s(quotient);                                                           \
        return quotient - floored > (T)0.5 ? floored + 1 : floored;                               \
    }                                                                                             \
    static inline T divide_##T(T a, T b) { return a / b; }                                        \
    static inline T mod_##T(T a, T b) { return fmod##s(a, b); }                                   \
    static inline T floor_divide_##T(T a, T b) {                                                  \
        T rest;                                                                                   \
        return divmod_##T(a, b, &rest);                                                           \
    }                                                                                             \
    static inline T floor_mod_##T(T a, T b) {                                                     \
        T rest;                                                                                   \
        divmod_##T(a, b, &rest);                                                                  \
        return rest;                                                                              \
    }                                                                                             \
    static inline T abs_##T(T a) { return fabs##s(a); }                                           \
    static inline T negative_##T(T a) { return -a; }                                              \
    static inline T maximum_##T(T a, T b) { return a >= b || a != a ? a : b; }                    \
    static inline T minimum_##T(T a, T b) { return a <= b || a != a ? a : b; }
SCALAR_FLOAT(float, f)
SCALAR_FLOAT(double, )
#undef SCALAR_FLOAT

/* Truncates; NaN is 0, what is out of range is the nearest value. */
#define SCALAR_FROM_FLOAT(T, low, past)                                                           \
    static inline scalar_##T float_to_##T(double value) {                                         \
        double whole = trunc(value);                                                              \
        if (!(whole == whole)) {                                                                  \
            return 0;                                                                             \
        }                                                                                         \
        if (whole < (low)) {                                                                      \
            return (low) < 0 ? (scalar_##T)((uint64_t)1 << (8 * sizeof(scalar_##T) - 1)) : (scalar_##T)0; \
        }                                                                                         \
        if (whole >= (past)) {                                                                    \
            return (low) < 0 ? (scalar_##T)(((uint64_t)1 << (8 * sizeof(scalar_##T) - 1)) - 1)    \
                             : (scalar_##T)UINT64_MAX;                                            \
        }                                                                                         \
        return (scalar_##T)whole;                                                                 \
    }
SCALAR_FROM_FLOAT(i8, -0x1p7, 0x1p7)
SCALAR_FROM_FLOAT(i16, -0x1p15, 0x1p15)
SCALAR_FROM_FLOAT(i32, -0x1p31, 0x1p31)
SCALAR_FROM_FLOAT(i64, -0x1p63, 0x1p63)
SCALAR_FROM_FLOAT(u8, 0.0, 0x1p8)
SCALAR_FROM_FLOAT(u16, 0.0, 0x1p16)
SCALAR_FROM_FLOAT(u32, 0.0, 0x1p32)
SCALAR_FROM_FLOAT(u64, 0.0, 0x1p64)
#undef SCALAR_FROM_FLOAT

#endif
