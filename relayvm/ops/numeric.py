"""Exact numpy meanings of scalar functions where numpy's own differ from the language's, and
float16 rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from relayvm.base.dtypes import BFLOAT16, DType, dtype_of
from relayvm.base.narrow.arrays import readable
from relayvm.base.narrow.bfloat16 import rounded, widened

Array = np.ndarray
Meaning = Callable[..., Any]


def through_float32(meaning: Meaning) -> Meaning:
    """Return `meaning` that computes float16 operands in float32 and rounds the result once.

    A result that is not a float (a comparison) is left as it is.
    """

    def once(*arrays: Array) -> Array:
        if not any(a.dtype == np.float16 for a in arrays):
            return np.asarray(meaning(*arrays))
        result = np.asarray(meaning(*(a.astype(np.float32) for a in arrays)))
        return result.astype(np.float16) if result.dtype == np.float32 else result

    return once


def divide(a: Array, b: Array) -> Array:
    """Return the quotient; of integers rounded toward zero, 0 where `b` is 0, wrapping at the least
    integer.
    """
    if a.dtype.kind == "f":
        return np.asarray(a / b)
    quotient = floor_divide(a, b)
    if a.dtype.kind == "u":
        return quotient
    inexact = (b != 0) & (quotient * b != a)
    return np.asarray((quotient + (inexact & ((a < 0) != (b < 0)))).astype(a.dtype))


def floor_divide(a: Array, b: Array) -> Array:
    """Return the quotient rounded down; of integers 0 where `b` is 0, wrapping at the least
    integer.
    """
    if a.dtype.kind == "f":
        return np.asarray(np.floor_divide(a, b))
    a, b = np.broadcast_arrays(a, b)
    if a.dtype.kind == "i":
        # numpy's result for the least integer divided by -1 depends on its version; negation wraps.
        minus_one = b == -1
        safe = np.where(minus_one | (b == 0), b.dtype.type(1), b)
        quotient = np.where(minus_one, np.negative(a), np.floor_divide(a, safe))
    else:
        quotient = np.floor_divide(a, np.where(b == 0, b.dtype.type(1), b))
    return np.asarray(np.where(b == 0, a.dtype.type(0), quotient).astype(a.dtype))


def mod(a: Array, b: Array) -> Array:
    """Return the remainder with the sign of `a` (C's); of integers 0 where `b` is 0."""
    if a.dtype.kind == "f":
        return np.asarray(np.fmod(a, b))
    return np.asarray(np.where(b == 0, a.dtype.type(0), a - divide(a, b) * b).astype(a.dtype))


def floor_mod(a: Array, b: Array) -> Array:
    """Return the remainder with the sign of `b`; of integers 0 where `b` is 0."""
    if a.dtype.kind == "f":
        return np.asarray(np.mod(a, b))
    return np.asarray(np.where(b == 0, a.dtype.type(0), a - floor_divide(a, b) * b).astype(a.dtype))


def power(a: Array, b: Array) -> Array:
    """Return `a` to the power `b`; of integers wrapping, and rounded toward zero for negative `b`
    (0 for base 0).
    """
    if a.dtype.kind == "f":
        return np.asarray(np.power(a, b))
    a, b = np.broadcast_arrays(a, b)
    result = np.ones(a.shape, a.dtype)
    factor, exponent = a.copy(), np.where(b < 0, 0, b).astype(np.uint64)
    while np.any(exponent):
        result = np.where(exponent & np.uint64(1), result * factor, result).astype(a.dtype)
        factor = (factor * factor).astype(a.dtype)
        exponent = exponent >> np.uint64(1)
    odd_sign = np.where(b & b.dtype.type(1), a, np.abs(a))
    reciprocal = np.where(np.abs(a) == 1, odd_sign, 0)
    return np.asarray(np.where(b < 0, reciprocal, result).astype(a.dtype))


def left_shift(a: Array, b: Array) -> Array:
    """Return `a << b`, 0 where `b` is negative or not less than the number of bits."""
    legal = (b >= 0) & (b < a.dtype.itemsize * 8)
    return np.asarray(
        np.where(legal, np.left_shift(a, np.where(legal, b, b.dtype.type(0))), 0).astype(a.dtype)
    )


def right_shift(a: Array, b: Array) -> Array:
    """Return `a >> b` keeping the sign; a `b` that is negative or too large shifts all bits out."""
    last = a.dtype.itemsize * 8 - 1
    legal = (b >= 0) & (b <= last)
    shifted = np.right_shift(a, np.where(legal, b, b.dtype.type(0)))
    return np.asarray(
        np.where(legal, shifted, np.where(a < 0, -1, 0).astype(a.dtype)).astype(a.dtype)
    )


def sigmoid(a: Array) -> Array:
    """Return `1 / (1 + exp(-a))`, without overflow for large negative `a`."""
    small = np.exp(-np.abs(a))
    return np.asarray(np.where(a >= 0, 1 / (1 + small), small / (1 + small)), dtype=a.dtype)


def rsqrt(a: Array) -> Array:
    """Return `1 / sqrt(a)`."""
    return np.asarray(a.dtype.type(1) / np.sqrt(a))


_erf = np.frompyfunc(math.erf, 1, 1)


def erf(a: Array) -> Array:
    """Return the error function, computed in float64."""
    return np.asarray(_erf(a.astype(np.float64))).astype(a.dtype)


def sign(a: Array) -> Array:
    """Return -1, 0 or 1; NaN stays NaN."""
    return np.asarray(np.sign(a))


def cast(a: Array, dtype: DType) -> Array:
    """Return `a` as `dtype`: floats to integers truncate and saturate, NaN gives 0; to bool means
    `!= 0`.
    """
    source = dtype_of(a.dtype)
    if dtype.is_stored:
        return a if source is dtype else dtype.array(a)
    if source.is_stored:
        return cast(readable(a), dtype)
    if dtype is BFLOAT16:
        return a if source is BFLOAT16 else rounded(a)
    if source is BFLOAT16:
        return cast(widened(a), dtype)
    if dtype.is_bool:
        return np.asarray(a != 0)
    if not (source.is_float and dtype.is_integer):
        return a.astype(dtype.numpy)
    wide = np.trunc(a.astype(np.float64))
    # The greatest integer may not be a float64: compare with the power of two above it, which is.
    limit = float(int(dtype.max) + 1)
    inside = (wide >= float(dtype.min)) & (wide < limit)
    result = np.where(inside, wide, 0).astype(dtype.numpy)
    result = np.where(wide >= limit, dtype.numpy.type(dtype.max), result)
    return np.where(wide < float(dtype.min), dtype.numpy.type(dtype.min), result).astype(
        dtype.numpy
    )


def sum_terms(a: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
    """Return the sum over `axes` in the dtype of `a`: integers wrap, float16 accumulates in
    float32.
    """
    wide = a.astype(np.float32) if a.dtype == np.float16 else a
    return np.asarray(np.sum(wide, axis=axes, keepdims=keepdims, dtype=wide.dtype)).astype(a.dtype)


def mean_of(a: Array, axes: tuple[int, ...]) -> Array:
    """Return the mean over `axes`, which stay with size 1; NaN where they have no elements."""
    count = a.dtype.type(np.prod([a.shape[k] for k in axes]))
    return np.asarray(np.sum(a, axis=axes, keepdims=True, dtype=a.dtype) / count)


def matmul(a: Array, b: Array, dtype: DType) -> Array:
    """Return the matrix product with elements of `dtype`: float16 accumulates in float32, integers
    wrap.
    """
    wide = np.dtype(np.float32) if dtype.name == "float16" else dtype.numpy
    return np.asarray(np.matmul(a.astype(wide), b.astype(wide))).astype(dtype.numpy)
