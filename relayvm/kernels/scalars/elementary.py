"""Exponential, logarithm and the functions made of them, as branch-free scalar programs in float32
and float64.

Each is computed in the type of its operands, but powers of float32 in float64. Trigonometry is in
its own file.
"""

from __future__ import annotations

from dataclasses import dataclass

from relayvm.base.dtypes import FLOAT32, FLOAT64, INT32, INT64, DType
from relayvm.kernels.scalars import polynomials as poly
from relayvm.kernels.scalars.value import Number, Value, evaluate_polynomial, fma, select

LOG2_E = 1.4426950408889634
LN_2 = 0.6931471805599453
INFINITY = float("inf")
NAN = float("nan")


@dataclass(frozen=True)
class Format:
    """What programs need to know of a float type; adding `round_magic` rounds to an integer."""

    integer: DType
    mantissa_bits: int
    bias: int
    round_magic: float
    exp_low: float
    exp_high: float
    sinh_high: float
    large: float
    exp_coefficients: tuple[float, ...]
    ln2: tuple[float, float]
    log10_2: tuple[float, float]
    smallest_normal: float
    sqrt_half_bits: int


FORMATS = {
    FLOAT32: Format(
        INT32,
        23,
        127,
        1.5 * 2.0**23,
        -104.0,
        89.0,
        89.5,
        2.0**60,
        poly.EXP_F32,
        (poly.LN2_HIGH_F32, poly.LN2_LOW_F32),
        (poly.LOG10_2_HIGH_F32, poly.LOG10_2_LOW_F32),
        2.0**-126,
        0x3F3504F3,
    ),
    FLOAT64: Format(
        INT64,
        52,
        1023,
        1.5 * 2.0**52,
        -746.0,
        710.0,
        710.6,
        2.0**500,
        poly.EXP_F64,
        (poly.LN2_HIGH_F64, poly.LN2_LOW_F64),
        (poly.LOG10_2_HIGH_F64, poly.LOG10_2_LOW_F64),
        2.0**-1022,
        0x3FE6A09E667F3BCD,
    ),
}


def _clamp(x: Value, low: float, high: float) -> Value:
    """Return `x` held between the limits; NaN stays."""
    return select(x > high, x.like(high), select(x < low, x.like(low), x))


def _scale(x: Value, n: Value) -> Value:
    """Return x * 2**n for an n whose power is a normal number."""
    form = FORMATS[x.dtype]
    return x * ((n + form.bias) << form.mantissa_bits).bitcast(x.dtype)


def _exp_parts(x: Value, low: Number = 0.0) -> tuple[Value, Value, Value]:
    """Return (r, tail, n) with exp(x + low) = (1 + r + tail) * 2**n, for x that is in range."""
    form = FORMATS[x.dtype]
    shifted = fma(x, LOG2_E, form.round_magic)
    whole = shifted - form.round_magic
    n = shifted.bitcast(form.integer) - x.like(form.round_magic).bitcast(form.integer)
    exact = fma(whole, -form.ln2[0], x)
    if x.dtype is FLOAT32:
        r = fma(whole, -form.ln2[1], exact)
        return r, evaluate_polynomial(r, form.exp_coefficients) * (r * r), n
    correction = fma(whole, -form.ln2[1], low)
    r = exact + correction
    lost = (exact - r) + correction
    return r, fma(evaluate_polynomial(r, form.exp_coefficients), r * r, lost), n


def _exp_factor(x: Value, low: Number = 0.0) -> tuple[Value, Value]:
    """Return (factor, n) with exp(x + low) = factor * 2**n, for x that is in range."""
    r, tail, n = _exp_parts(x, low)
    if x.dtype is FLOAT32:
        return (r + tail) + 1.0, n
    rounded = r + 1.0
    return rounded + (((1.0 - rounded) + r) + tail), n


def exp(x: Value, low: Number = 0.0) -> Value:
    """Return exp(x), or exp(x + low) for a small correction in float64."""
    form = FORMATS[x.dtype]
    factor, n = _exp_factor(_clamp(x, form.exp_low, form.exp_high), low)
    half = n >> 1
    return _scale(_scale(factor, half), n - half)


def exp_minus_one(x: Value) -> Value:
    """Return exp(x) - 1 without cancellation, for x where exp(x) is a normal number."""
    form = FORMATS[x.dtype]
    r, tail, n = _exp_parts(x)
    power = ((n + form.bias) << form.mantissa_bits).bitcast(x.dtype)
    return fma(r + tail, power, power - 1.0)


def tanh(x: Value) -> Value:
    """Return tanh through exp(-2|x|) - 1."""
    size = x.apply("absolute")
    limit = 10.0 if x.dtype is FLOAT32 else 20.0
    size = select(size > limit, size.like(limit), size)
    e = exp_minus_one(size * -2.0)
    return (-(e / (e + 2.0))).apply("copy_sign", x)


def sigmoid(x: Value) -> Value:
    """Return 1 / (1 + exp(-x)), through exp(-|x|) so that small results keep their digits."""
    e = exp(-x.apply("absolute"))
    return select(x < 0.0, e, 1.0) / (e + 1.0)


def sinh(x: Value) -> Value:
    """Return the hyperbolic sine."""
    form = FORMATS[x.dtype]
    size = x.apply("absolute")
    r, tail, n = _exp_parts(_clamp(size, 0.0, form.sinh_high))
    # (exp(size) - 1) / 4, which stays finite up to where the result does not.
    power = ((n + (form.bias - 2)) << form.mantissa_bits).bitcast(x.dtype)
    quarter = fma(r + tail, power, power - 0.25)
    result = (quarter + quarter * 0.25 / (quarter + 0.25)) * 2.0
    # A quarter of a denormal would lose bits.
    tiny = size < 2.0 ** -(form.mantissa_bits // 2 + 2)
    return select(tiny, size, result).apply("copy_sign", x)


def cosh(x: Value) -> Value:
    """Return the hyperbolic cosine."""
    form = FORMATS[x.dtype]
    factor, n = _exp_factor(_clamp(x.apply("absolute"), 0.0, form.sinh_high))
    # exp(size) / 4, for the same reason.
    quarter = _scale(factor, n - 2)
    return (quarter + 0.0625 / quarter) * 2.0


def _log_reduce(x: Value) -> tuple[Value, Value]:
    """Return (k, f) with x = 2**k * (1 + f), 1 + f around 1, for positive finite x."""
    form = FORMATS[x.dtype]
    small = x < form.smallest_normal
    lift = form.mantissa_bits + 1
    bits = select(small, x * 2.0**lift, x).bitcast(form.integer) - form.sqrt_half_bits
    k = bits >> form.mantissa_bits
    mantissa = (bits - (k << form.mantissa_bits)) + form.sqrt_half_bits
    k = select(small, k - lift, k)
    return k.convert(x.dtype), mantissa.bitcast(x.dtype) - 1.0


def _log_specials(x: Value, result: Value) -> Value:
    result = select(x.equals(INFINITY), x, result)
    result = select(x.equals(0.0), x.like(-INFINITY), result)
    return select(x >= 0.0, result, x.like(NAN))


def _log_rest(f: Value) -> Value:
    """Return log(1 + f) - f."""
    if f.dtype is FLOAT32:
        square = f * f
        return fma(square * f, evaluate_polynomial(f, poly.LOG_F32), square * -0.5)
    # With s = f/(2+f): log(1+f) = 2s + s*R = f - (f*f/2 - s*(f*f/2 + R)).
    s = f / (f + 2.0)
    z = s * s
    half = f * f * 0.5
    return fma(s, fma(z, evaluate_polynomial(z, poly.LOG_F64), half), -half)


def log(x: Value) -> Value:
    """Return the natural logarithm."""
    k, f = _log_reduce(x)
    high, low = FORMATS[x.dtype].ln2
    return _log_specials(x, fma(k, high, f + fma(k, low, _log_rest(f))))


def log2(x: Value) -> Value:
    """Return the logarithm to base 2, exact for powers of two."""
    k, f = _log_reduce(x)
    return _log_specials(x, fma(f + _log_rest(f), LOG2_E, k))


def log10(x: Value) -> Value:
    """Return the logarithm to base 10."""
    k, f = _log_reduce(x)
    high, low = FORMATS[x.dtype].log10_2
    rest = fma(k, low, (f + _log_rest(f)) * 0.4342944819032518)
    return _log_specials(x, fma(k, high, rest))


def log_plus_one(x: Value) -> Value:
    """Return log(1 + x), x above -1."""
    total = x + 1.0
    # What the sum lost, relative to it; from the larger operand so that the difference is exact.
    lost = select(x > 1.0, (x - total) + 1.0, x - (total - 1.0))
    k, f = _log_reduce(total)
    high, low = FORMATS[x.dtype].ln2
    correction = lost / total
    result = fma(k, high, f + (fma(k, low, _log_rest(f)) + correction))
    result = _log_specials(total, result)
    tiny = 2.0 ** -(FORMATS[x.dtype].mantissa_bits + 2)
    return select(x.apply("absolute") < tiny, x, result)


def asinh(x: Value) -> Value:
    """Return the inverse hyperbolic sine."""
    size = x.apply("absolute")
    square = size * size
    inner = size + square / ((square + 1.0).apply("sqrt") + 1.0)
    return _log_plus_one_or_twice(size, inner).apply("copy_sign", x)


def acosh(x: Value) -> Value:
    """Return the inverse hyperbolic cosine."""
    t = x - 1.0
    result = _log_plus_one_or_twice(x, t + fma(t, t, t * 2.0).apply("sqrt"))
    return select(x < 1.0, x.like(NAN), result)


def _log_plus_one_or_twice(x: Value, inner: Value) -> Value:
    """Return log(1 + inner), or log(2 * x) for x whose square is too large."""
    large = x > FORMATS[x.dtype].large
    result = log_plus_one(select(large, x, inner))
    return result + select(large, x.like(LN_2), 0.0)


def atanh(x: Value) -> Value:
    """Return the inverse hyperbolic tangent."""
    size = x.apply("absolute")
    result = (log_plus_one(size * 2.0 / (1.0 - size)) * 0.5).apply("copy_sign", x)
    return select(size > 1.0, x.like(NAN), result)


def rsqrt(x: Value) -> Value:
    """Return 1 / sqrt(x)."""
    return 1.0 / x.apply("sqrt")


def erf(x: Value) -> Value:
    """Return the error function: a polynomial up to 1, then 1 - exp(log(erfc))."""
    size = x.apply("absolute")
    z = size * size
    near: tuple[float, ...]
    far: tuple[float, ...]
    if x.dtype is FLOAT32:
        near, far, middle, half_width, limit = poly.ERF_F32, poly.LOG_ERFC_F32, 2.5, 1.5, 4.0
    else:
        near, far, middle, half_width, limit = poly.ERF_F64, poly.LOG_ERFC_F64, 3.5, 2.5, 6.0
    inner = fma(size, evaluate_polynomial(z, near), size)
    u = (_clamp(size, 1.0, limit) - middle) * (1.0 / half_width)
    # From 1 on, where errors of erfc weigh most, so that they grow with the distance.
    logarithm = fma(u + 1.0, evaluate_polynomial(u, far), poly.LOG_ERFC_1)
    factor, n = _exp_factor(logarithm)
    outer = 1.0 - _scale(factor, n)
    return select(size <= 1.0, inner, outer).apply("copy_sign", x)


# ---- power ----


def _extended_log(x: Value) -> tuple[Value, Value]:
    """Return log(x) of positive finite float64 as an unevaluated sum, good to about 2**-66."""
    k, f = _log_reduce(x)
    divisor = f + 2.0
    divisor_low = f - (divisor - 2.0)
    s = f / divisor
    s_low = (fma(-s, divisor, f) - s * divisor_low) / divisor
    z = s * s
    z_low = fma(s, s, -z) + s * s_low * 2.0
    tail = z * evaluate_polynomial(z, poly.LOG_EXTENDED)
    p = tail + poly.TWO_THIRDS_HIGH
    p_low = ((poly.TWO_THIRDS_HIGH - p) + tail) + poly.TWO_THIRDS_LOW
    # w = z * p, then log(1+f) = s * (2 + w).
    w = z * p
    w_low = fma(z, p, -w) + (z * p_low + z_low * p)
    t = w + 2.0
    t_low = ((2.0 - t) + w) + w_low
    m = s * t
    m_low = fma(s, t, -m) + (s * t_low + s_low * t)
    high, low = FORMATS[FLOAT64].ln2
    base = k * high
    total = base + m
    rest = total - base
    error = (base - (total - rest)) + (m - rest)
    return total, error + fma(k, low, m_low)


def power(x: Value, y: Value) -> Value:
    """Return x**y with the special values of C's `pow`."""
    size = x.apply("absolute")
    result = _power_float32(size, y) if x.dtype is FLOAT32 else _power_float64(size, y)
    result = _power_of_specials(size, y, result)
    whole = y.apply("floor").equals(y)
    odd = whole & (y * 0.5).apply("floor").differs(y * 0.5)
    negative = x.bitcast(FORMATS[x.dtype].integer) < 0
    result = select(negative & odd, -result, result)
    invalid = (x < 0.0) & (x > -INFINITY) & ~whole & (y.apply("absolute") < INFINITY)
    result = select(invalid, x.like(NAN), result)
    result = select(x.differs(x) | y.differs(y), x + y, result)
    return select(x.equals(1.0) | y.equals(0.0), x.like(1.0), result)


def _power_float64(size: Value, y: Value) -> Value:
    """Return size**y of positive finite operands."""
    high, low = _extended_log(size)
    product = y * high
    product_low = fma(y, high, -product) + y * low
    # A clamped product must not keep a correction computed from the unclamped one.
    inside = product.apply("absolute") < 800.0
    return exp(product, select(inside, product_low, 0.0))


def _power_float32(size: Value, y: Value) -> Value:
    """Return size**y of positive finite operands through float64, whose spare bits suffice."""
    form = FORMATS[FLOAT64]
    bits = size.convert(FLOAT64).bitcast(INT64) - form.sqrt_half_bits
    k = bits >> form.mantissa_bits
    mantissa = (bits - (k << form.mantissa_bits)) + form.sqrt_half_bits
    f = mantissa.bitcast(FLOAT64) - 1.0
    s = f / (f + 2.0)
    z = s * s
    logarithm = fma(z * s, evaluate_polynomial(z, poly.LOG_POWER), s * 2.0)
    logarithm = fma(k.convert(FLOAT64), LN_2, logarithm)
    # Held where float32 has overflowed or vanished for long, and float64 has not.
    product = _clamp(y.convert(FLOAT64) * logarithm, -200.0, 200.0)
    shifted = fma(product, LOG2_E, form.round_magic)
    n = shifted.bitcast(INT64) - product.like(form.round_magic).bitcast(INT64)
    r = fma(shifted - form.round_magic, -LN_2, product)
    factor = fma(r * r, evaluate_polynomial(r, poly.EXP_POWER), r) + 1.0
    return _scale(factor, n).convert(FLOAT32)


def _power_of_specials(size: Value, y: Value, result: Value) -> Value:
    """Return |x|**y where |x| is 0 or infinite or y is infinite, else `result`."""
    zero, infinite = size.like(0.0), size.like(INFINITY)
    result = select(size.equals(0.0), select(y < 0.0, infinite, zero), result)
    result = select(size.equals(INFINITY), select(y < 0.0, zero, infinite), result)
    grows = (size > 1.0).equals(y > 0.0)
    at_infinity = select(size.equals(1.0), size, select(grows, infinite, zero))
    return select(y.apply("absolute").equals(INFINITY), at_infinity, result)
