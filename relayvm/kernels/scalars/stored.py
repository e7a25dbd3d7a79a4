"""Casts from and to what is stored in a byte, as scalar programs: exact, or rounded once.

The bits are those of `base/narrow/stored.py`.
"""

from __future__ import annotations

from relayvm.base.dtypes import FLOAT32, INT8, UINT8, UINT32, DType
from relayvm.base.narrow.stored import FORMATS, WHOLE, Format, Whole
from relayvm.kernels.scalars.value import Value, select

_MANTISSA, _BIAS = 23, 127  # of float32
_SIGN, _INFINITY, _NAN = 0x80000000, 0x7F800000, 0x7FC00000


def widen(x: Value) -> Value:
    """Return a value in the dtype that computes it."""
    if x.dtype.name in WHOLE:
        return _widen_whole(x, WHOLE[x.dtype.name])
    return _widen_float(x, FORMATS[x.dtype.name])


def _widen_whole(x: Value, whole: Whole) -> Value:
    spare = 8 - whole.bits
    return (x.bitcast(INT8 if whole.is_signed else UINT8) << spare) >> spare


def _widen_float(x: Value, format: Format) -> Value:
    """Return a float32 whose mantissa and exponent are put in their places; the power of two
    between the biases makes it right, also where it is subnormal.
    """
    bits = x.bitcast(UINT8).convert(UINT32)
    magnitude = bits & ((1 << format.magnitude_bits) - 1)
    moved = magnitude << (_MANTISSA - format.mantissa)
    number = (moved.bitcast(FLOAT32) * 2.0 ** (_BIAS - format.bias)).bitcast(UINT32)
    special = moved.like(_NAN)
    if format.has_infinity:
        quiet = select(magnitude.equals(format.first_special), moved.like(_INFINITY), special)
        special = moved | quiet
    sign = (bits >> format.magnitude_bits) & 1
    if format.one_zero:
        number = select(bits.equals(0x80), special, number)
    else:
        number = select(magnitude < format.first_special, number, special)
    return (number | (sign << 31)).bitcast(FLOAT32)


def narrowed_whole(x: Value, dtype: DType) -> Value:
    """Return an integer of a byte as one of which the low bits stay."""
    whole = WHOLE[dtype.name]
    spare = 8 - whole.bits
    byte = x.bitcast(INT8 if whole.is_signed else UINT8)
    return ((byte << spare) >> spare).bitcast(dtype)


def narrowed_float(x: Value, dtype: DType) -> Value:
    """Return the float nearest to a float32, ties to even."""
    format = FORMATS[dtype.name]
    bits = x.bitcast(UINT32)
    size = bits & (_SIGN - 1)
    drop = _MANTISSA - format.mantissa
    up = size + ((size >> drop) & 1) + ((1 << (drop - 1)) - 1)
    normal = (up >> drop) - ((_BIAS - format.bias) << format.mantissa)
    # A sum with a power of two whose last place is that of the subnormal numbers rounds to them.
    place = 1 - format.bias - format.mantissa + _MANTISSA
    anchor = size.like((place + _BIAS) << _MANTISSA)
    sum_ = size.bitcast(FLOAT32) + anchor.bitcast(FLOAT32)
    subnormal = sum_.bitcast(UINT32) - anchor
    least = (1 - format.bias + _BIAS) << _MANTISSA
    code = select(size < least, subnormal, normal)
    too_large = (size >= least) & (code >= format.first_special)
    code = select(too_large | (size >= _INFINITY), code.like(format.overflow), code)
    code = select(size > _INFINITY, code.like(format.nan & 0x7F), code)
    sign = (bits >> 31) << format.magnitude_bits
    if format.one_zero:
        special = too_large | (size >= _INFINITY)
        code = select(special, code.like(format.nan), select(code.equals(0), code, code | sign))
    elif format.nan >> format.magnitude_bits:
        code = select(size > _INFINITY, code.like(format.nan), code | sign)
    else:
        code = code | sign
    return code.convert(UINT8).bitcast(dtype)
