"""Sine, cosine, tangent and their inverses as scalar programs in float32 and float64."""

from __future__ import annotations

from relayvm.base.dtypes import FLOAT32, INT32, INT64
from relayvm.kernels.scalars import polynomials as poly
from relayvm.kernels.scalars.reduction import reduce
from relayvm.kernels.scalars.value import Value, evaluate_polynomial, fma, select


def _sine(r: Value, low: Value) -> Value:
    z = r * r
    if r.dtype is FLOAT32:
        return r + fma(z * r, evaluate_polynomial(z, poly.SIN_F32), low)
    return r + fma(z * r, evaluate_polynomial(z, poly.SIN_F64), fma(z * -0.5, low, low))


def _cosine(r: Value, low: Value) -> Value:
    z = r * r
    if r.dtype is FLOAT32:
        outer = fma(z, evaluate_polynomial(z, poly.COS_F32), -0.5)
        return fma(z, outer, -(r * low)) + 1.0
    half = z * 0.5
    base = 1.0 - half
    tail = fma(z * z, evaluate_polynomial(z, poly.COS_F64), -(r * low))
    return base + (((1.0 - base) - half) + tail)


def _with_sign(x: Value, sign: Value) -> Value:
    """Return `x`, its sign flipped where the first bit of `sign` is set; the other bits are 0."""
    return (x.bitcast(sign.dtype) ^ sign).bitcast(x.dtype)


def _sign_if(quadrant: Value, bit: int) -> Value:
    """Return the bit of `quadrant` as the sign bit."""
    top = quadrant.dtype.bits - 1
    return (quadrant << (top - bit)) & (-1 << top)


def _sign_of(x: Value) -> Value:
    integer = INT32 if x.dtype is FLOAT32 else INT64
    return x.bitcast(integer) & (-1 << (integer.bits - 1))


def sin(x: Value) -> Value:
    """Return the sine; -0 stays."""
    r, low, quadrant = reduce(x.apply("absolute"))
    result = select((quadrant & 1).differs(0), _cosine(r, low), _sine(r, low))
    return _with_sign(result, _sign_if(quadrant, 1) ^ _sign_of(x))


def cos(x: Value) -> Value:
    """Return the cosine."""
    r, low, quadrant = reduce(x.apply("absolute"))
    result = select((quadrant & 1).differs(0), _sine(r, low), _cosine(r, low))
    return _with_sign(result, _sign_if(quadrant + 1, 1))


def tan(x: Value) -> Value:
    """Return the tangent; -0 stays."""
    r, low, quadrant = reduce(x.apply("absolute"))
    sine, cosine = _sine(r, low), _cosine(r, low)
    odd = (quadrant & 1).differs(0)
    result = select(odd, cosine, sine) / select(odd, sine, cosine)
    return _with_sign(result, _sign_if(quadrant, 0) ^ _sign_of(x))


def _half_pi(x: Value) -> tuple[float, float]:
    return (poly.PI_2_F32 if x.dtype is FLOAT32 else poly.PI_2_F64)[:2]


def atan(x: Value) -> Value:
    """Return the inverse tangent."""
    size = x.apply("absolute")
    large, middle = size > 2.414213562373095, size > 0.41421356237309503
    top = select(large, size.like(-1.0), select(middle, size - 1.0, size))
    bottom = select(large, size, select(middle, size + 1.0, 1.0))
    t = top / bottom
    high, low = (
        select(large, size.like(part), select(middle, size.like(part / 2), 0.0))
        for part in _half_pi(x)
    )
    z = t * t
    coefficients = poly.ATAN_F32 if x.dtype is FLOAT32 else poly.ATAN_F64
    result = high + (t + fma(z * t, evaluate_polynomial(z, coefficients), low))
    return result.apply("copy_sign", x)


def _asin_reduced(size: Value) -> tuple[Value, Value]:
    """Return (outer, a) with a = asin(size) for size up to 1/2, else asin(sqrt((1 - size) / 2))."""
    outer = size > 0.5
    z = select(outer, (1.0 - size) * 0.5, size * size)
    root = select(outer, z.apply("sqrt"), size)
    coefficients = poly.ASIN_F32 if size.dtype is FLOAT32 else poly.ASIN_F64
    return outer, fma(z * root, evaluate_polynomial(z, coefficients), root)


def asin(x: Value) -> Value:
    """Return the inverse sine; NaN outside [-1, 1]."""
    outer, a = _asin_reduced(x.apply("absolute"))
    high, low = _half_pi(x)
    return select(outer, high - fma(a, 2.0, -low), a).apply("copy_sign", x)


def acos(x: Value) -> Value:
    """Return the inverse cosine; NaN outside [-1, 1]."""
    outer, a = _asin_reduced(x.apply("absolute"))
    high, low = _half_pi(x)
    double = a * 2.0
    far = select(x < 0.0, 2 * high - (double - 2 * low), double)
    near = high - (a.apply("copy_sign", x) - low)
    return select(outer, far, near)
