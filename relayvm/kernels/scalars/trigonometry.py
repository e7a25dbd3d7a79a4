"""Sine, cosine, tangent and their inverses as branch-free float64 programs; narrower floats go
through them.

The argument is reduced by pi/2 in four parts, exact for sizes up to 2**20 or so; far beyond that
digits are lost.
"""

from __future__ import annotations

from relayvm.base.dtypes import INT64
from relayvm.kernels.scalars import polynomials as poly
from relayvm.kernels.scalars.value import Value, evaluate_polynomial, fma, select

ROUND_MAGIC = 1.5 * 2.0**52
INFINITY = float("inf")


def _reduce(x: Value) -> tuple[Value, Value, Value]:
    """Return (r, low, quadrant) with x = quadrant * pi/2 + r + low, |r| up to pi/4."""
    shifted = fma(x, 0.6366197723675814, ROUND_MAGIC)
    whole = shifted - ROUND_MAGIC
    quadrant = shifted.bitcast(INT64) - x.like(ROUND_MAGIC).bitcast(INT64)
    a, b, c, d = poly.PI_2_PARTS
    first = fma(whole, -a, x)
    second = fma(whole, -b, first)
    r = fma(whole, -c, second)
    # whole * c as it was subtracted, so that what rounding lost can be added to the tail.
    low = fma(whole, -d, fma(whole, -c, second - r))
    # Far outside the exact range nothing is right; hold r so that results stay in their interval.
    low = select(x.apply("absolute") < 2.0**32, low, 0.0)
    return select(r > 0.8, r.like(0.8), select(r < -0.8, r.like(-0.8), r)), low, quadrant


def _sine_and_cosine(r: Value, low: Value) -> tuple[Value, Value]:
    z = r * r
    sine = r + fma(z * r, evaluate_polynomial(z, poly.SIN_F64), fma(z * -0.5, low, low))
    half = z * 0.5
    base = 1.0 - half
    tail = fma(z * z, evaluate_polynomial(z, poly.COS_F64), -(r * low))
    return sine, base + (((1.0 - base) - half) + tail)


def _finite(x: Value, result: Value) -> Value:
    return select(x.apply("absolute") < INFINITY, result, x.like(float("nan")))


def sin(x: Value) -> Value:
    """Return the sine; -0 stays."""
    r, low, quadrant = _reduce(x)
    sine, cosine = _sine_and_cosine(r, low)
    result = select((quadrant & 1).differs(0), cosine, sine)
    result = select((quadrant & 2).differs(0), -result, result)
    return select(x.equals(0.0), x, _finite(x, result))


def cos(x: Value) -> Value:
    """Return the cosine."""
    r, low, quadrant = _reduce(x)
    sine, cosine = _sine_and_cosine(r, low)
    result = select((quadrant & 1).differs(0), sine, cosine)
    return _finite(x, select(((quadrant + 1) & 2).differs(0), -result, result))


def tan(x: Value) -> Value:
    """Return the tangent; -0 stays."""
    r, low, quadrant = _reduce(x)
    sine, cosine = _sine_and_cosine(r, low)
    odd = (quadrant & 1).differs(0)
    result = select(odd, cosine, sine) / select(odd, -sine, cosine)
    return select(x.equals(0.0), x, _finite(x, result))


def atan(x: Value) -> Value:
    """Return the inverse tangent."""
    size = x.apply("absolute")
    large, middle = size > 2.414213562373095, size > 0.41421356237309503
    top = select(large, size.like(-1.0), select(middle, size - 1.0, size))
    bottom = select(large, size, select(middle, size + 1.0, 1.0))
    t = top / bottom
    zero = size.like(0.0)
    base = select(
        large, size.like(poly.PI_2_HIGH), select(middle, size.like(poly.PI_2_HIGH / 2), zero)
    )
    low = select(
        large, size.like(poly.PI_2_LOW), select(middle, size.like(poly.PI_2_LOW / 2), zero)
    )
    z = t * t
    result = base + (t + fma(z * t, evaluate_polynomial(z, poly.ATAN_F64), low))
    return result.apply("copy_sign", x)


def _asin_reduced(size: Value) -> tuple[Value, Value]:
    """Return (outer, a) with a = asin(size) for size up to 1/2, else asin(sqrt((1 - size) / 2))."""
    outer = size > 0.5
    z = select(outer, (1.0 - size) * 0.5, size * size)
    root = select(outer, z.apply("sqrt"), size)
    return outer, fma(z * root, evaluate_polynomial(z, poly.ASIN_F64), root)


def asin(x: Value) -> Value:
    """Return the inverse sine; NaN outside [-1, 1]."""
    outer, a = _asin_reduced(x.apply("absolute"))
    far = poly.PI_2_HIGH - fma(a, 2.0, -poly.PI_2_LOW)
    return select(outer, far, a).apply("copy_sign", x)


def acos(x: Value) -> Value:
    """Return the inverse cosine; NaN outside [-1, 1]."""
    outer, a = _asin_reduced(x.apply("absolute"))
    double = a * 2.0
    far = select(x < 0.0, 2 * poly.PI_2_HIGH - (double - 2 * poly.PI_2_LOW), double)
    near = poly.PI_2_HIGH - (a.apply("copy_sign", x) - poly.PI_2_LOW)
    return select(outer, far, near)
