"""Casts as scalar programs: float to integer saturates and sends NaN to 0, others round once."""

from __future__ import annotations

from relayvm.base.dtypes import (
    BFLOAT16,
    BOOL,
    BY_NAME,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT32,
    INT64,
    UINT16,
    UINT32,
    UINT64,
    DType,
)
from relayvm.kernels.scalars import stored
from relayvm.kernels.scalars.value import Value, select


def cast(x: Value, dtype: DType) -> Value:
    """Return `x` as a value of `dtype`."""
    source = x.dtype
    if source is dtype:
        return x
    if source.is_stored:
        return cast(stored.widen(x), dtype)
    if dtype.is_stored:
        return _to_stored(x, dtype)
    if dtype is BOOL:
        return widen(x).differs(0)
    if dtype is FLOAT16:
        return _to_float16(widen(x) if source is BFLOAT16 else x)
    if dtype is BFLOAT16:
        return _to_bfloat16(x)
    if source.is_float and dtype.is_float:
        return widen(x).convert(dtype)
    if source.is_float:
        return _float_to_integer(widen(x), dtype)
    return x.convert(dtype)


def widen(x: Value) -> Value:
    """Return float16 and bfloat16 as float32, in which they are computed with, and what is stored
    in the dtype that computes it; other values as they are.
    """
    if x.dtype.is_stored:
        return stored.widen(x)
    if x.dtype is BFLOAT16:
        return (x.bitcast(UINT16).convert(UINT32) << 16).bitcast(FLOAT32)
    return x.convert(FLOAT32) if x.dtype is FLOAT16 else x


def _to_stored(x: Value, dtype: DType) -> Value:
    wide = BY_NAME[dtype.wide]
    if not wide.is_float:
        source = widen(x)
        byte = _float_to_integer(source, dtype) if source.dtype.is_float else source.convert(wide)
        return stored.narrowed_whole(byte, dtype)
    return stored.narrowed_float(_odd_single(x), dtype)


def _odd_single(x: Value) -> Value:
    """Return a number as float32, rounded to odd where it is inexact, so that rounding it again is
    rounding it once.
    """
    source = x.dtype
    if source in (INT64, UINT64):
        x = _folded(x)
    if source in (FLOAT16, BFLOAT16):
        return widen(x)
    if source.is_bool or (not source.is_float and source.bits <= 16):
        return x.convert(FLOAT32)
    if source is FLOAT32:
        return x
    return _odd_float32(x if source is FLOAT64 else x.convert(FLOAT64))


def _to_float16(x: Value) -> Value:
    if x.dtype is FLOAT32:
        return x.convert(FLOAT16)
    if not x.dtype.is_float:
        # Integers up to 2**24 are exact in float32, larger ones are infinite in float16: no double
        # rounding.
        return x.convert(FLOAT32).convert(FLOAT16)
    return _odd_float32(x).convert(FLOAT16)


def _odd_float32(x: Value) -> Value:
    """Return float64 rounded to odd in float32, which keeps a second rounding from erring where
    the first fell on a tie.
    """
    single = x.convert(FLOAT32)
    back = single.convert(FLOAT64)
    bits = single.bitcast(INT32)
    above = back.apply("absolute") > x.apply("absolute")
    odd = (bits - above.convert(INT32)) | 1
    return select(back.equals(x), bits, odd).bitcast(FLOAT32)


def _to_bfloat16(x: Value) -> Value:
    x = _odd_single(x)
    bits = x.bitcast(UINT32)
    up = bits + (((bits >> 16) & 1) + 0x7FFF)
    nan = bits | 0x400000
    return (select(x.differs(x), nan, up) >> 16).convert(UINT16).bitcast(BFLOAT16)


def _folded(x: Value) -> Value:
    """Return an integer of 64 bits as one that float64 holds, on the same side of every tie.

    Those are multiples of 2**12 above 2**53, where the low 12 bits become one.
    """
    low = x & 0xFFF
    some = select(low.equals(0), x.like(0), 0x800)
    whole = (x - low) | some
    far = x > (1 << 53)
    if x.dtype is INT64:
        far = far | (x < -(1 << 53))
    return select(far, whole, x)


def _float_to_integer(x: Value, dtype: DType) -> Value:
    low, high = int(dtype.min), int(dtype.max)
    target = BY_NAME[dtype.wide] if dtype.is_stored else dtype
    # `high + 1` is a power of two, exact in any float; where `low - 1` rounds to `low`, that value
    # saturates to itself.
    inside = (x > float(low - 1)) & (x < float(high + 1))
    whole = select(inside, x, 0.0).convert(target)
    clipped = select(x >= float(high + 1), whole.like(high), whole)
    return select(x <= float(low - 1), whole.like(low), clipped)
