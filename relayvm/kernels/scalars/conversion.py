"""Casts as scalar programs: float to integer saturates and sends NaN to 0, others round once."""

from __future__ import annotations

from relayvm.base.dtypes import BOOL, FLOAT16, FLOAT32, FLOAT64, INT32, DType
from relayvm.kernels.scalars.value import Value, select


def cast(x: Value, dtype: DType) -> Value:
    """Return `x` as a value of `dtype`."""
    source = x.dtype
    if source is dtype:
        return x
    if dtype is BOOL:
        return widen(x).differs(0)
    if dtype is FLOAT16:
        return _to_float16(x)
    if source.is_float and dtype.is_float:
        return _to_wider_or_single(x, dtype)
    if source.is_float:
        return _float_to_integer(widen(x), dtype)
    return x.convert(dtype)


def widen(x: Value) -> Value:
    """Return float16 as float32, in which it is computed with; other values as they are."""
    return x.convert(FLOAT32) if x.dtype is FLOAT16 else x


def _to_wider_or_single(x: Value, dtype: DType) -> Value:
    if x.dtype is FLOAT16 and dtype is FLOAT64:
        return x.convert(FLOAT32).convert(FLOAT64)
    return x.convert(dtype)


def _to_float16(x: Value) -> Value:
    if x.dtype is FLOAT32:
        return x.convert(FLOAT16)
    if not x.dtype.is_float:
        # Integers up to 2**24 are exact in float32, larger ones are infinite in float16: no double
        # rounding.
        return x.convert(FLOAT32).convert(FLOAT16)
    # Rounding to odd in float32 keeps the second rounding from erring where the first fell on a
    # tie.
    single = x.convert(FLOAT32)
    back = single.convert(FLOAT64)
    bits = single.bitcast(INT32)
    above = back.apply("absolute") > x.apply("absolute")
    odd = (bits - above.convert(INT32)) | 1
    return select(back.equals(x), bits, odd).bitcast(FLOAT32).convert(FLOAT16)


def _float_to_integer(x: Value, dtype: DType) -> Value:
    low, high = int(dtype.min), int(dtype.max)
    # `high + 1` is a power of two, exact in any float; where `low - 1` rounds to `low`, that value
    # saturates to itself.
    inside = (x > float(low - 1)) & (x < float(high + 1))
    whole = select(inside, x, 0.0).convert(dtype)
    clipped = select(x >= float(high + 1), whole.like(high), whole)
    return select(x <= float(low - 1), whole.like(low), clipped)
