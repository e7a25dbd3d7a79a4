"""Arithmetic, comparison and bit programs: everything exact, on every dtype it makes sense for.

Division by 0 of integers gives 0, overflow wraps, shifts by too much give what an endless shift
would.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from relayvm.base.dtypes import FLOAT64, INT32, INT64
from relayvm.kernels.scalars.value import Value, repeat, select, where_any


def add(a: Value, b: Value) -> Value:
    """Return the sum; of bools, or."""
    return a | b if a.dtype.is_bool else a + b


def subtract(a: Value, b: Value) -> Value:
    """Return the difference; of bools, exclusive or."""
    return a ^ b if a.dtype.is_bool else a - b


def multiply(a: Value, b: Value) -> Value:
    """Return the product; of bools, and."""
    return a & b if a.dtype.is_bool else a * b


def quotient_and_rest(a: Value, b: Value) -> tuple[Value, Value]:
    """Return the integer quotient rounded toward zero and the remainder with the sign of `a`."""
    zero = b.equals(0)
    safe = select(zero, b.like(1), b)
    if a.dtype.is_signed:
        # -1 never reaches the division: INT_MIN / -1 would trap.
        minus = b.equals(-1)
        quotient = a.apply("quotient", select(minus, b.like(1), safe))
        quotient = select(minus, -a, quotient)
    else:
        quotient = a.apply("quotient", safe)
    rest = select(zero, a.like(0), a - quotient * b)
    return select(zero, a.like(0), quotient), rest


def divide(a: Value, b: Value) -> Value:
    """Return the quotient, of integers rounded toward zero."""
    return a / b if a.dtype.is_float else quotient_and_rest(a, b)[0]


def mod(a: Value, b: Value) -> Value:
    """Return the remainder with the sign of `a` (C's `%` and `fmod`)."""
    return float_rest(a, b) if a.dtype.is_float else quotient_and_rest(a, b)[1]


def floor_mod(a: Value, b: Value) -> Value:
    """Return the remainder with the sign of `b`."""
    if not a.dtype.is_float:
        rest = quotient_and_rest(a, b)[1]
        if not a.dtype.is_signed:
            return rest
        return select(rest.differs(0) & ((rest ^ b) < 0), rest + b, rest)
    rest = float_rest(a, b)
    moved = select(_signs_differ(rest, b), rest + b, rest)
    return select(rest.equals(0), (rest * 0).apply("absolute").apply("copy_sign", b), moved)


def _signs_differ(rest: Value, b: Value) -> Value:
    return rest.differs(0) & ((rest < 0) ^ (b < 0))


def floor_divide(a: Value, b: Value) -> Value:
    """Return the quotient rounded down; of floats as numpy rounds it."""
    if not a.dtype.is_float:
        quotient, rest = quotient_and_rest(a, b)
        if not a.dtype.is_signed:
            return quotient
        return select(rest.differs(0) & ((rest ^ b) < 0), quotient - 1, quotient)
    rest = float_rest(a, b)
    near = (a - rest) / b
    near = select(_signs_differ(rest, b), near - 1, near)
    floor = near.apply("floor")
    floor = select((near - floor) > 0.5, floor + 1, floor)
    signed_zero = near.like(0.0).apply("copy_sign", a / b)
    return select(b.equals(0), a / b, select(near.equals(0), signed_zero, floor))


def _floor_divide_by(a: Value, divisor: int) -> Value:
    if not divisor & (divisor - 1):
        return a >> (divisor.bit_length() - 1)
    quotient = a.apply("quotient", divisor)
    return quotient + _sign_mask(a - quotient * divisor) if a.dtype.is_signed else quotient


def _floor_mod_by(a: Value, divisor: int) -> Value:
    if not divisor & (divisor - 1):
        return a & (divisor - 1)
    rest = a - a.apply("quotient", divisor) * divisor
    return rest + (_sign_mask(rest) & divisor) if a.dtype.is_signed else rest


def _sign_mask(a: Value) -> Value:
    """Return -1 where a signed integer is below 0, else 0."""
    return a >> (a.dtype.bits - 1)


# `floor_divide` and `floor_mod` of integers by a literal above 0, of which there are many in
# indices: the same results in fewer instructions.
DIVISIONS_BY_POSITIVE: Mapping[str, Callable[[Value, int], Value]] = {
    "floor_divide": _floor_divide_by,
    "floor_mod": _floor_mod_by,
}


def float_rest(a: Value, b: Value) -> Value:
    """Return the exact remainder of floats with the sign of `a`, computed in float64."""
    if a.dtype is not FLOAT64:
        size = float_rest(absolute(a).convert(FLOAT64), b.convert(FLOAT64)).convert(a.dtype)
        # Not `copy_sign`: LLVM 22 merges the roundings around it into one call that images lack.
        sign_bit = a.bitcast(INT32) & (-(1 << 31))
        return (size.bitcast(INT32) | sign_bit).bitcast(a.dtype)
    size, step = a.apply("absolute"), b.apply("absolute")
    q = (size / step).apply("truncate")
    # Exact while q has at most 52 bits.
    rest = _step_down(size, q, step)
    rest = select(size < step, size, rest)
    (rest,) = where_any(size >= step * 2.0**50, lambda: [_long_rest(size, step)], rest)
    rest = rest.apply("copy_sign", a)
    invalid = b.equals(0) | size.equals(float("inf")) | a.differs(a) | b.differs(b)
    return select(invalid, a.like(float("nan")), rest)


def _step_down(rest: Value, q: Value, step: Value) -> Value:
    """Return rest - q * step, where q may be 1 too large because a division rounded up."""
    rest = (-q).apply("fma", step, rest)
    return select(rest < 0, rest + step, rest)


def _long_rest(size: Value, step: Value) -> Value:
    """Return the remainder of positive float64 of which one may be far larger."""
    finite = (size < float("inf")) & (step > 0)

    def reducible(rest: Value) -> Value:
        return finite & (rest >= step)

    def reduce(rest: Value) -> list[Value]:
        # rest - q * step * 2**k is exact in one fma while q has at most 52 bits: k brings it there.
        gap = _exponent(rest) - _exponent(step) - 50
        k = select(gap > 0, gap, 0)
        half = k >> 1
        large = step * _power_of_two(half) * _power_of_two(k - half)
        q = (rest / large).apply("truncate")
        return [select(reducible(rest), _step_down(rest, q, large), rest)]

    (rest,) = repeat(reducible, reduce, size)
    return rest


def _exponent(x: Value) -> Value:
    """Return the biased exponent of a positive float64, below 1 for subnormal ones."""
    small = x < 2.0**-1022
    exponent = select(small, x * 2.0**54, x).bitcast(INT64) >> 52
    return select(small, exponent - 54, exponent)


def _power_of_two(k: Value) -> Value:
    return ((k + 1023) << 52).bitcast(FLOAT64)


def maximum(a: Value, b: Value) -> Value:
    """Return the larger, NaN if either is NaN, `b` where they are equal (as x86's `maxps` does)."""
    if a.dtype.is_bool:
        return a | b
    held = _unless_nan(a, b)
    return select(a > held, a, held)


def minimum(a: Value, b: Value) -> Value:
    """Return the smaller, NaN if either is NaN, `b` where they are equal."""
    if a.dtype.is_bool:
        return a & b
    held = _unless_nan(a, b)
    return select(a < held, a, held)


def _unless_nan(a: Value, b: Value) -> Value:
    """Return `a` where it is NaN, else `b`, so that no more than `maxps` waits for `b`."""
    return select(a.differs(a), a, b) if a.dtype.is_float else b


def absolute(x: Value) -> Value:
    """Return the absolute value; the least integer stays itself."""
    if x.dtype.is_float:
        return x.apply("absolute")
    return select(x < 0, -x, x) if x.dtype.is_signed else x


def sign(x: Value) -> Value:
    """Return -1, 0 or 1; NaN for NaN."""
    if not x.dtype.is_signed:
        return select(x.equals(0), x, 1)
    side = select(x > 0, x.like(1), select(x < 0, x.like(-1), x.like(0)))
    return select(x.differs(x), x, side) if x.dtype.is_float else side


def integer_power(x: Value, y: Value) -> Value:
    """Return x**y wrapped; for negative y the fraction truncated: 0 unless x is 1 or -1."""
    base_in, exponent_in = x, y

    def remaining(result: Value, base: Value, exponent: Value) -> Value:
        return exponent > 0

    def square(result: Value, base: Value, exponent: Value) -> list[Value]:
        odd = (exponent & 1).differs(0)
        more = exponent > 0
        return [
            select(more & odd, result * base, result),
            base * base,
            select(more, exponent >> 1, exponent),
        ]

    result, _, _ = repeat(remaining, square, x.like(1), base_in, exponent_in)
    if not x.dtype.is_signed:
        return result
    unit = select((y & 1).equals(0), x.like(1), x)
    below = select(x.equals(1) | x.equals(-1), unit, 0)
    return select(y < 0, below, result)


def left_shift(a: Value, b: Value) -> Value:
    """Return `a` shifted up, 0 where the amount is out of range."""
    inside, amount = _shift_amount(b)
    return select(inside, a << amount, 0)


def right_shift(a: Value, b: Value) -> Value:
    """Return `a` shifted down; all sign where the amount is out of range."""
    inside, amount = _shift_amount(b)
    if not a.dtype.is_signed:
        return select(inside, a >> amount, 0)
    return select(inside, a >> amount, a >> (a.dtype.bits - 1))


def _shift_amount(b: Value) -> tuple[Value, Value]:
    inside = b < b.dtype.bits
    if b.dtype.is_signed:
        inside = inside & (b >= 0)
    return inside, select(inside, b, 0)


def is_nan(x: Value) -> Value:
    """Return whether `x` is NaN."""
    return x.differs(x)


def is_inf(x: Value) -> Value:
    """Return whether `x` is infinite."""
    return x.apply("absolute").equals(float("inf"))


def is_finite(x: Value) -> Value:
    """Return whether `x` is neither infinite nor NaN."""
    return x.apply("absolute") < float("inf")


def truth(x: Value) -> Value:
    """Return whether `x` is not 0."""
    return x if x.dtype.is_bool else x.differs(0)
