"""Values of bfloat16, which numpy has not, from and to their bits.

Nothing computes on arrays of them: they are widened to float32, which is exact, and results are
rounded.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from relayvm.base.narrow.host import BFLOAT16, array_dtype

Array = np.ndarray[Any, Any]

MAX = float.fromhex("0x1.fep127")
TINY = 2.0**-126


def widened(array: Array) -> Array:
    """Return elements of bfloat16 as float32, bit by bit."""
    bits = np.ascontiguousarray(array).view(np.uint16).astype(np.uint32) << np.uint32(16)
    return np.asarray(np.asarray(bits).view(np.float32).reshape(array.shape))


def rounded(array: Array) -> Array:
    """Return numbers rounded once to bfloat16, ties to even; NaN stays NaN."""
    array = np.asarray(array)
    single = array if array.dtype == np.float32 else _odd(array)
    bits = np.ascontiguousarray(single).view(np.uint32)
    one, half = np.uint32(1), np.uint32(0x7FFF)
    high = (bits + half + ((bits >> np.uint32(16)) & one)) >> np.uint32(16)
    nan = (bits >> np.uint32(16)) | np.uint32(0x40)
    is_exact = (bits & np.uint32(0xFFFF)) == 0
    kept = np.where(is_exact, bits >> np.uint32(16), nan)
    is_nan = (bits & np.uint32(0x7FFFFFFF)) > np.uint32(0x7F800000)
    result = np.where(is_nan, kept, high).astype(np.uint16)
    return np.asarray(result.reshape(array.shape).view(array_dtype(BFLOAT16)))


def _odd(array: Array) -> Array:
    """Return numbers as float32, the last bit set where one is inexact, so that rounding again is
    rounding once.
    """
    if array.dtype.kind in "iu" and array.dtype.itemsize == 8:
        # No tie lies between multiples of 2**12 above 2**53, and below all are exact in float64.
        low = array & array.dtype.type(0xFFF)
        folded = (array - low) | np.where(low != 0, 0x800, 0).astype(array.dtype)
        far = (array > 1 << 53) | (array < -(1 << 53) if array.dtype.kind == "i" else False)
        array = np.where(far, folded, array)
    wide = array.astype(np.float64)
    with np.errstate(all="ignore"):
        single = wide.astype(np.float32)
        back = single.astype(np.float64)
        bits = np.ascontiguousarray(single).view(np.int32).reshape(array.shape)
        odd = (bits - (np.abs(back) > np.abs(wide))) | 1
        is_exact = (back == wide) | np.isnan(wide)
    return np.asarray(np.where(is_exact, bits, odd).astype(np.int32).view(np.float32))
