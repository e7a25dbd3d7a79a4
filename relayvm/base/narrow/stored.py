"""Numbers of less than a byte, and floats of a byte, as they are stored: one byte each.

Nothing computes on them: floats are widened to float32 and integers to a byte, which is exact, and
results are rounded or wrapped. Spare upper bits of an integer repeat its sign, are written so, and
are not looked at.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Format:
    """How a float lies in the low bits of a byte: sign, exponent, mantissa.

    Magnitudes from `first_special` on are no finite numbers. What is beyond the greatest number,
    and infinity, becomes the magnitude `overflow`, NaN the magnitude `nan`. With `one_zero` the
    code of -0 is that of NaN, and there is no other.
    """

    exponent: int
    mantissa: int
    bias: int
    first_special: int
    overflow: int
    nan: int
    has_infinity: bool = False
    one_zero: bool = False

    @property
    def magnitude_bits(self) -> int:
        return self.exponent + self.mantissa


# The names are those of ml_dtypes. OCP 8-bit Floating Point Specification, and its Microscaling
# Formats Specification for four bits; `fnuz` have one zero and no infinity.
FORMATS: dict[str, Format] = {
    "float8_e4m3fn": Format(4, 3, 7, 0x7F, 0x7F, 0x7F),
    "float8_e5m2": Format(5, 2, 15, 0x7C, 0x7C, 0x7E, has_infinity=True),
    "float8_e4m3fnuz": Format(4, 3, 8, 0x80, 0x80, 0x80, one_zero=True),
    "float8_e5m2fnuz": Format(5, 2, 16, 0x80, 0x80, 0x80, one_zero=True),
    "float4_e2m1fn": Format(2, 1, 1, 0x08, 0x07, 0x08),
}


@dataclass(frozen=True, slots=True)
class Whole:
    """An integer in the low bits of a byte."""

    bits: int
    is_signed: bool

    @property
    def min(self) -> int:
        return -(1 << (self.bits - 1)) if self.is_signed else 0

    @property
    def max(self) -> int:
        return (1 << (self.bits - self.is_signed)) - 1


WHOLE: dict[str, Whole] = {
    "int4": Whole(4, True),
    "uint4": Whole(4, False),
    "int2": Whole(2, True),
    "uint2": Whole(2, False),
}


@cache
def magnitudes(format: Format) -> Array:
    """Return the finite numbers from 0 up as float64, by their codes, and one more as if there
    were no special codes.
    """
    codes = np.arange(format.first_special + 1)
    low = codes & ((1 << format.mantissa) - 1)
    exponents = codes >> format.mantissa
    scale = 1 << format.mantissa
    normal = np.ldexp((low + scale) / scale, exponents - format.bias)
    subnormal = np.ldexp(low / scale, 1 - format.bias)
    return np.where(exponents > 0, normal, subnormal)


def largest(format: Format) -> float:
    """Return the greatest finite number."""
    return float(magnitudes(format)[format.first_special - 1])


def smallest_normal(format: Format) -> float:
    """Return the least positive number whose mantissa is full."""
    return float(np.ldexp(1.0, 1 - format.bias))


@cache
def _values(format: Format) -> Array:
    """Return the numbers of all bytes as float32."""
    codes = np.arange(256)
    magnitude = codes & ((1 << format.magnitude_bits) - 1)
    finite = magnitudes(format)[np.minimum(magnitude, format.first_special - 1)]
    bits = finite.astype(np.float32).view(np.uint32)
    # What is no number keeps its mantissa where the format has many, and is quiet.
    quiet = np.where(magnitude == format.first_special, 0, 0x400000)
    special = magnitude << (23 - format.mantissa) | quiet if format.has_infinity else 0x400000
    bits = np.where(magnitude >= format.first_special, special | 0x7F800000, bits)
    sign = codes >> format.magnitude_bits & 1
    if format.one_zero:
        bits = np.where((sign == 1) & (magnitude == 0), 0x7FC00000, bits)
    return np.asarray((bits | sign << 31).astype(np.uint32).view(np.float32))


def widened_float(codes: Array, format: Format) -> Array:
    """Return the numbers of bytes as float32."""
    return np.asarray(_values(format)[codes])


def rounded_float(array: Array, format: Format) -> Array:
    """Return the bytes of the nearest numbers, ties to even."""
    wide = np.asarray(array, np.float64)
    size = np.abs(wide)
    table = magnitudes(format)
    between = (table[:-1] + table[1:]) / 2
    code = np.searchsorted(between, size)
    is_tie = (code < len(between)) & (size == between[np.minimum(code, len(between) - 1)])
    code = np.where(is_tie & (code % 2 == 1), code + 1, code)
    code = np.where(code >= format.first_special, format.overflow, code)
    sign = np.where(np.signbit(wide), 1 << format.magnitude_bits, 0)
    if format.one_zero:
        sign = np.where((code == 0) | (code == format.overflow), 0, sign)
    code = np.where(np.isnan(wide), format.nan, code | sign)
    keeps_sign = np.isnan(wide) & (not format.one_zero) & (format.nan < 1 << format.magnitude_bits)
    return np.where(keeps_sign, code | sign, code).astype(np.uint8)


def widened_whole(codes: Array, whole: Whole) -> Array:
    """Return the integers of bytes as int8 or uint8."""
    spare = np.uint8(8 - whole.bits)
    up = np.asarray(codes << spare).view(np.int8 if whole.is_signed else np.uint8)
    return np.asarray(up >> spare.astype(up.dtype))


def wrapped_whole(array: Array, whole: Whole) -> Array:
    """Return the bytes of integers, of which the low bits stay."""
    codes = np.asarray(array).astype(np.int64, copy=False).astype(np.uint8)
    return np.asarray(widened_whole(codes, whole).view(np.uint8))


def widened(codes: Array, name: str) -> Array:
    """Return the numbers of the bytes of a dtype."""
    if name in FORMATS:
        return widened_float(codes, FORMATS[name])
    return widened_whole(codes, WHOLE[name])


def rounded(array: Array, name: str) -> Array:
    """Return numbers as bytes of a dtype: floats to the nearest; to integers truncated and
    saturated, NaN as 0; integers wrapped.
    """
    array = np.asarray(array)
    if name in FORMATS:
        return rounded_float(array, FORMATS[name])
    whole = WHOLE[name]
    if array.dtype.kind == "f":
        inside = np.clip(np.nan_to_num(array.astype(np.float64), nan=0.0), whole.min, whole.max)
        array = np.trunc(inside).astype(np.int64)
    return wrapped_whole(array, whole)
