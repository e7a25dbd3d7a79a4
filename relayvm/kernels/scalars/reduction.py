"""Reduction of arguments by pi/2 for sine, cosine and tangent, for every finite size.

Usual arguments take three parts of pi/2 off (Cody and Waite). For larger ones the product with as
many bits of 2/pi as matter is made in integers (Payne and Hanek, "Radian reduction for
trigonometric functions", 1983); that part runs only where some lane needs it.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from relayvm.base.dtypes import FLOAT32, FLOAT64, INT32, INT64, UINT64, DType
from relayvm.kernels.scalars import polynomials as poly
from relayvm.kernels.scalars.value import Value, fma, select, where_any

TWO_OVER_PI = 0.6366197723675814
# The first bits of the fraction of 2/pi: enough for the largest float64.
_FRACTION_BITS = 1216
_FRACTION = int(
    "A2F9836E4E441529FC2757D1F534DDC0DB6295993C439041FE5163ABDEBBC561B7246E3A424DD2E0"
    "06492EEA09D1921CFE1DEB1CB129A73EE88235F52EBB4484E99C7026B45F7E413991D639835339F4"
    "9C845F8BBDF9283B1FF897FFDE05980FEF2F118B5A0A6D1F6D367ECF27CB09B74F463F669E5FEA2D"
    "7527BAC7EBE5F17B3D0739F78A5292EA6BFB5FB11F8D5D0856033046FC7B6BAB",
    16,
)
_WORD = (1 << 64) - 1
_HALF = (1 << 32) - 1


@dataclass(frozen=True, slots=True)
class _Format:
    """How one float type is reduced: from the power of two `limit` on in integers.

    `parts` sum to pi/2, each as long as the type allows: a whole number times the first is taken
    off exactly, because the rest is a multiple of the last bit of pi/2 and below 1. `words` of 64
    bits of 2/pi leave as many right bits as a result that is as close to 0 as can be needs.
    """

    integer: DType
    mantissa_bits: int
    exponent_bias: int
    limit: int
    round_magic: float
    parts: tuple[float, float, float]
    words: int


_FORMATS = {
    FLOAT32: _Format(
        INT32,
        23,
        127,
        17,
        1.5 * 2.0**23,
        poly.PI_2_F32,
        2,
    ),
    FLOAT64: _Format(
        INT64,
        52,
        1023,
        31,
        1.5 * 2.0**52,
        poly.PI_2_F64,
        3,
    ),
}


def reduce(size: Value) -> tuple[Value, Value, Value]:
    """Return (r, low, quadrant) with size = quadrant * pi/2 + r + low, |r| up to about pi/4.

    For `size` not below 0; only the last two bits of the integer `quadrant` mean something. NaN
    and infinity give NaN.
    """
    form = _FORMATS[size.dtype]
    shifted = fma(size, TWO_OVER_PI, form.round_magic)
    whole = shifted - form.round_magic
    a, b, c = form.parts
    first = fma(whole, -a, size)
    second = whole * b
    lost = fma(whole, b, -second)
    r = first - second
    # Exact, although `second` may be the larger: `first` is a multiple of its last bit.
    low = ((first - r) - second) - fma(whole, c, lost)
    quadrant = shifted.bitcast(form.integer)

    def large() -> list[Value]:
        parts = _large_float64(size) if size.dtype is FLOAT64 else _large_float32(size)
        finite = size < float("inf")
        return [select(finite, parts[0], float("nan")), *parts[1:]]

    r, low, quadrant = where_any(size >= 2.0**form.limit, large, r, low, quadrant)
    return r, low, quadrant


def _large_float64(size: Value) -> list[Value]:
    columns, rest, quadrant = _remainder(size)
    # Quarter turns in three parts that are exact; adding two of them keeps what rounding loses.
    below = (columns[3] << 32) | columns[2]
    high = (rest >> 24).convert(FLOAT64) * 2.0**-38
    middle = (((rest & 0xFFFFFF) << 24) | (below >> 40).convert(INT64)).convert(FLOAT64) * 2.0**-86
    tail = (below & ((1 << 40) - 1)).convert(INT64).convert(FLOAT64) * 2.0**-126
    turns = high + middle
    turns_low = ((high - turns) + middle) + tail
    a, b, _ = poly.PI_2_F64
    r = turns * a
    low = fma(turns, a, -r) + fma(turns, b, turns_low * a)
    return [r, low, quadrant.convert(INT64)]


def _large_float32(size: Value) -> list[Value]:
    _, rest, quadrant = _remainder(size)
    exact = rest.convert(FLOAT64) * (poly.PI_2_F64[0] * 2.0**-62)
    r = exact.convert(FLOAT32)
    low = (exact - r.convert(FLOAT64)).convert(FLOAT32)
    return [r, low, quadrant.convert(INT32)]


def _remainder(size: Value) -> tuple[list[Value], Value, Value]:
    """Return the product with 2/pi modulo 4, for a size that is finite and not below the limit.

    The product comes in columns of 32 bits, lowest first, with two bits before the point; then the
    first 64 of its bits less the nearest whole number, signed, and that number.
    """
    form = _FORMATS[size.dtype]
    bits = size.bitcast(form.integer).convert(UINT64)
    start = (bits >> form.mantissa_bits) - (form.exponent_bias + form.limit)
    mantissa = (bits & ((1 << form.mantissa_bits) - 1)) | (1 << form.mantissa_bits)
    words = _fraction_from(start, size.dtype)
    factors = [mantissa]
    if form.mantissa_bits > 32:
        factors = [mantissa & _HALF, mantissa >> 32]
    columns = _product(words, factors)
    top = (columns[-1] << 32) | columns[-2]
    quadrant = (top + (1 << 61)) >> 62
    return columns, (top - (quadrant << 62)).convert(INT64), quadrant


def _fraction_from(start: Value, dtype: DType) -> list[Value]:
    """Return the words of 2/pi, highest first, from a bit on.

    Bit 0 weighs 2 when multiplied with the last bit of a mantissa at the limit; those before it
    give multiples of 4.
    """
    form = _FORMATS[dtype]
    last = form.exponent_bias - form.limit
    table = _table(2 - (form.limit - form.mantissa_bits), last // 64 + form.words + 1)
    words = [start.like(word) for word in table]
    step = 1 << ((last // 64).bit_length() - 1)
    while step:
        far = (start & (step * 64)).differs(0)
        kept = form.words + step
        words = [select(far, words[k + step], words[k]) for k in range(kept)]
        step >>= 1
    shift = start & 63
    # In two shifts, because one by 64 has no meaning.
    return [(a << shift) | ((b >> 1) >> (63 - shift)) for a, b in itertools.pairwise(words)]


def _table(zeros: int, count: int) -> list[int]:
    """Return words of 64 bits that hold `zeros` zeros and then the fraction of 2/pi."""
    bits = 64 * count
    value = _FRACTION >> (_FRACTION_BITS - (bits - zeros))
    return [(value >> (bits - 64 * (k + 1))) & _WORD for k in range(count)]


def _product(words: list[Value], factors: list[Value]) -> list[Value]:
    """Return words times factors of 32 bits, lowest first, in columns of 32 bits, lowest first.

    As many columns as the words have; what is above is dropped.
    """
    halves = [half for word in reversed(words) for half in (word & _HALF, word >> 32)]
    columns = [halves[0].like(0)] * len(halves)
    for place, factor in enumerate(factors):
        carry = factor.like(0)
        for k, half in enumerate(halves[: len(halves) - place]):
            # At most (2**32 - 1)**2 + 2 * (2**32 - 1), which 64 bits hold.
            total = half * factor + columns[k + place] + carry
            columns[k + place], carry = total & _HALF, total >> 32
    return columns
