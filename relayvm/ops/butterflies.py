"""Small Fourier transforms of values at hand, and the points of a circle that larger ones need."""

from __future__ import annotations

import math
from collections.abc import Sequence

from relayvm.base.dtypes import FLOAT64, DType
from relayvm.kernels import compute as te
from relayvm.kernels.compute import ScalarExpr

Complex = tuple[ScalarExpr, ScalarExpr]

# Transforms of so many values are written out; of others there are loops.
WRITTEN = (8, 4, 2, 3, 5, 7, 11, 13)
# Terms of the series of a sine and a cosine up to an eighth of a turn, below half a unit in the
# last place.
_TERMS = 9


def add(a: Complex, b: Complex) -> Complex:
    """Return the sum of two complex numbers."""
    return a[0] + b[0], a[1] + b[1]


def subtract(a: Complex, b: Complex) -> Complex:
    """Return the difference of two complex numbers."""
    return a[0] - b[0], a[1] - b[1]


def multiply(a: Complex, b: Complex) -> Complex:
    """Return the product of two complex numbers."""
    re = te.scalar("fma", a[0], b[0], te.scalar("negative", a[1] * b[1]))
    return re, te.scalar("fma", a[0], b[1], a[1] * b[0])


def butterfly(values: Sequence[Complex], inverse: bool) -> list[Complex]:
    """Return the transform of as many values as `WRITTEN` has, not divided by their number."""
    found = _forward(values)
    return [found[0], *reversed(found[1:])] if inverse else found


def _forward(values: Sequence[Complex]) -> list[Complex]:
    match len(values):
        case 2:
            return [add(*values), subtract(*values)]
        case 4:
            return _four(values)
        case 8:
            return _eight(values)
        case _:
            return _odd(values)


def _turned(a: Complex, b: Complex) -> tuple[Complex, Complex]:
    """Return `a - i b` and `a + i b`."""
    return (a[0] + b[1], a[1] - b[0]), (a[0] - b[1], a[1] + b[0])


def _four(values: Sequence[Complex]) -> list[Complex]:
    a, b, c, d = values
    even, odd = add(a, c), add(b, d)
    first, third = _turned(subtract(a, c), subtract(b, d))
    return [add(even, odd), first, subtract(even, odd), third]


def _eight(values: Sequence[Complex]) -> list[Complex]:
    even, odd = _four(values[::2]), _four(values[1::2])
    root = math.sqrt(0.5)
    (b, c), (f, g) = odd[1], odd[3]
    first = (b + c) * root, (c - b) * root
    third = (g - f) * root, (f + g) * -root
    second, sixth = _turned(even[2], odd[2])
    return [
        *(add(even[0], odd[0]), add(even[1], first), second, add(even[3], third)),
        *(subtract(even[0], odd[0]), subtract(even[1], first), sixth, subtract(even[3], third)),
    ]


def _odd(values: Sequence[Complex]) -> list[Complex]:
    """Pair what is as far from the first on both sides: their sum meets cosines alone."""
    size, half = len(values), len(values) // 2
    pairs = [(values[t], values[size - t]) for t in range(1, half + 1)]
    sums, rests = [add(*p) for p in pairs], [subtract(*p) for p in pairs]
    total = values[0]
    for other in sums:
        total = add(total, other)
    found = [total] * size
    for k in range(1, half + 1):
        angles = [2 * math.pi * (k * t % size) / size for t in range(1, half + 1)]
        parts = [_weighted(sums, list(map(math.cos, angles)), values[0])]
        parts.append(_weighted(rests, list(map(math.sin, angles)), None))
        found[k], found[size - k] = _turned(parts[0], parts[1])
    return found


def _weighted(
    values: Sequence[Complex], weights: Sequence[float], first: Complex | None
) -> Complex:
    total = first
    for value, weight in zip(values, weights):
        if total is None:
            total = value[0] * weight, value[1] * weight
        else:
            by = te.const(weight, value[0].dtype)
            re, im = (te.scalar("fma", v, by, t) for v, t in zip(value, total))
            total = re, im
    assert total is not None
    return total


def point(turns: ScalarExpr, parts: ScalarExpr, inverse: bool, dtype: DType) -> Complex:
    """Return cosine and sine of `turns` parts of a full turn, that goes backwards unless `inverse`;
    both are whole numbers in float64, `turns` from 0 to `parts`.

    Sine and cosine of what is left to the next quarter of a turn, by their series. Good to one
    unit in the last place.
    """
    quarter = te.scalar("round", te.scalar("divide", turns * 4.0, parts))
    left = te.scalar("fma", quarter, te.scalar("negative", parts), turns * 4.0)
    angle = te.scalar("divide", left * (math.pi / 2), parts)
    square = angle * angle
    sine, cosine = te.const(0.0, FLOAT64), te.const(0.0, FLOAT64)
    for k in reversed(range(_TERMS)):
        sign = -1 if k % 2 else 1
        even = te.const(sign / math.factorial(2 * k), FLOAT64)
        odd = te.const(sign / math.factorial(2 * k + 1), FLOAT64)
        is_last = k == _TERMS - 1
        cosine = even if is_last else te.scalar("fma", cosine, square, even)
        sine = odd if is_last else te.scalar("fma", sine, square, odd)
    sine = sine * angle
    first, second, third = (quarter.equal(float(k)) for k in (1, 2, 3))
    is_odd = te.scalar("logical_or", first, third)
    cos, sin = te.select(is_odd, sine, cosine), te.select(is_odd, cosine, sine)
    cos = te.select(te.scalar("logical_or", first, second), te.scalar("negative", cos), cos)
    is_low = te.scalar("logical_or", second, third)
    is_low = is_low if inverse else te.scalar("logical_not", is_low)
    sin = te.select(is_low, te.scalar("negative", sin), sin)
    return te.cast(cos, dtype), te.cast(sin, dtype)
