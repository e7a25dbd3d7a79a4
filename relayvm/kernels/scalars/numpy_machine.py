"""Scalar programs evaluated on numpy arrays, with the bits that generated code gives.

numpy has no fused multiply-add; `fma32` and `fma64` round once by computing the error of each step
exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from relayvm.base.dtypes import FLOAT32, FLOAT64, DType
from relayvm.kernels.scalars.value import Value

Array = np.ndarray[Any, Any]


def _two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """Return the rounded sum and its exact error (Knuth's TwoSum)."""
    total = a + b
    rest = total - a
    return total, (a - (total - rest)) + (b - rest)


def _sum_to_odd(a: Array, b: Array) -> Array:
    """Return a + b in float64, rounded to odd: an inexact sum gets an odd last bit.

    A value rounded to odd with two spare bits can be rounded again without a second error
    (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008).
    """
    total, error = _two_sum(a, b)
    total = np.asarray(total, np.float64)
    bits = total.view(np.int64)
    inexact = (error != 0) & np.isfinite(total) & np.isfinite(error) & ((bits & 1) == 0)
    toward = np.where((error > 0) == (total > 0), 1, -1)
    return np.where(inexact, bits + toward, bits).view(np.float64)


def fma32(a: Array, b: Array, c: Array) -> Array:
    """Return a*b + c of float32 arrays, rounded once: the product is exact in float64."""
    product = np.asarray(a, np.float64) * np.asarray(b, np.float64)
    return _sum_to_odd(product, np.asarray(c, np.float64)).astype(np.float32)


def _two_product(a: Array, b: Array) -> tuple[Array, Array]:
    """Return the rounded product and its exact error (Dekker's, with Veltkamp's splitting)."""

    def halves(x: Array) -> tuple[Array, Array]:
        scaled = x * 134217729.0
        high = scaled - (scaled - x)
        return high, x - high

    product = a * b
    (ah, al), (bh, bl) = halves(a), halves(b)
    return product, al * bl - (((product - ah * bh) - al * bh) - ah * bl)


def _exact_fma(a: float, b: float, c: float) -> float:
    """Return a*b + c of finite floats through rational numbers, for extreme sizes."""
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return a * b + c
    try:
        return float(exact)
    except OverflowError:
        return float("inf") if exact > 0 else float("-inf")


def fma64(a: Array, b: Array, c: Array) -> Array:
    """Return a*b + c of float64 arrays, rounded once."""
    a, b, c = np.broadcast_arrays(*(np.asarray(v, np.float64) for v in (a, b, c)))
    plain = np.asarray(a * b + c)
    sizes = [np.abs(v) for v in (a, b, c)]
    # Inside these bounds neither the splitting nor an error term over- or underflows.
    safe = (sizes[0] < 1e140) & (sizes[1] < 1e140) & (sizes[2] < 1e280)
    product_size = np.abs(a * b)
    safe &= (product_size > 1e-200) & ((sizes[2] > 1e-200) | (sizes[2] == 0))
    high, low = _two_product(a, b)
    inner, inner_error = _two_sum(c, low)
    outer, outer_error = _two_sum(high, inner)
    result = np.where(safe, outer + _sum_to_odd(inner_error, outer_error), plain)
    # A finite product that overflows alone must not meet an infinity of the other sign.
    result = np.where(np.isinf(c) & np.isfinite(a) & np.isfinite(b), c, result)
    hard = ~safe & np.isfinite(a) & np.isfinite(b) & np.isfinite(c) & (a != 0) & (b != 0)
    if hard.any():
        result[hard] = [_exact_fma(*v) for v in zip(*(x[hard].tolist() for x in (a, b, c)))]
    return result


def _quotient(a: Array, b: Array) -> Array:
    floor = a // b
    return np.asarray(floor + (((floor * b) != a) & ((a < 0) != (b < 0))))


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.true_divide,
    "negative": np.negative,
    "absolute": np.abs,
    "copy_sign": np.copysign,
    "sqrt": np.sqrt,
    "round_even": np.rint,
    "floor": np.floor,
    "ceil": np.ceil,
    "truncate": np.trunc,
    "bit_and": np.bitwise_and,
    "bit_or": np.bitwise_or,
    "bit_xor": np.bitwise_xor,
    "shift_left": np.left_shift,
    "shift_right": np.right_shift,
    "equal": np.equal,
    "not_equal": np.not_equal,
    "less": np.less,
    "less_equal": np.less_equal,
}


class NumpyMachine:
    """The machine whose values are numpy arrays of any, mutually broadcastable, shapes."""

    def constant(self, value: float, dtype: DType) -> Any:
        if dtype.is_integer:
            value = int(value) & ((1 << dtype.bits) - 1)
            unsigned = np.array(value, f"uint{dtype.bits}")
            return unsigned.view(dtype.numpy)
        return dtype.array(value)

    def apply(self, name: str, dtype: DType, operands: Sequence[Any]) -> Any:
        if name == "fma":
            assert dtype in (FLOAT32, FLOAT64)
            return (fma32 if dtype is FLOAT32 else fma64)(*operands)
        if name == "quotient":
            return _quotient(*operands).astype(dtype.numpy)
        return _FUNCTIONS[name](*operands)

    def choose(self, condition: Any, a: Any, b: Any, dtype: DType) -> Any:
        return np.where(condition, a, b)

    def bitcast(self, raw: Any, source: DType, target: DType) -> Any:
        return np.ascontiguousarray(raw, source.numpy).view(target.numpy).reshape(np.shape(raw))

    def convert(self, raw: Any, source: DType, target: DType) -> Any:
        return np.asarray(raw).astype(target.numpy)

    def repeat(
        self,
        condition: Callable[[Sequence[Any]], Any],
        body: Callable[[Sequence[Any]], Sequence[Any]],
        state: Sequence[Any],
        dtypes: Sequence[DType],
    ) -> Sequence[Any]:
        while np.any(condition(state)):
            state = body(state)
        return state

    def when_any(
        self,
        condition: Any,
        program: Callable[[], Sequence[Any]],
        otherwise: Sequence[Any],
        dtypes: Sequence[DType],
    ) -> Sequence[Any]:
        return program() if np.any(condition) else otherwise


NUMPY = NumpyMachine()


def run_program(
    program: Callable[..., Value], operands: Sequence[Array], dtypes: Sequence[DType]
) -> Array:
    """Return what a scalar program computes on arrays, broadcast against each other."""
    with np.errstate(all="ignore"):
        values = [Value(NUMPY, np.asarray(a, d.numpy), d) for a, d in zip(operands, dtypes)]
        result = program(*values)
    return np.asarray(result.raw, result.dtype.numpy)
