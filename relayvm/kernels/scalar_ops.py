"""The table of scalar functions: operands, dtypes, meaning and error bound of each.

A row's `program` is its one definition: on numpy arrays it is the meaning, on a code generator's
machine it is the code, with the same bits (up to which NaN a NaN is).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from relayvm.base.dtypes import (
    BOOL,
    COMPUTED,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    FLOATS,
    INTEGERS,
    NUMERIC,
    WHOLE_BYTES,
    DType,
    dtype_of,
)
from relayvm.kernels.scalars import arithmetic, conversion, elementary, trigonometry
from relayvm.kernels.scalars.cost import count_operations
from relayvm.kernels.scalars.numpy_machine import run_program
from relayvm.kernels.scalars.value import Value, fma

Program = Callable[..., Value]
Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class ScalarOp:
    """One scalar function; all operands share one dtype.

    `predicate` rows give bool, others the operands' dtype. `ulp` bounds the error in float32 and
    float64, in units of the last place of the exact result; 0.5 is correctly rounded, 0 exact.
    float16 is computed in float32 and rounded once. A row with `to` reads the bits of its operand
    as that dtype.
    """

    name: str
    arity: int
    dtypes: tuple[DType, ...]
    doc: str
    definition: Program
    predicate: bool = False
    ulp: float = 0.0
    to: DType | None = None

    def result(self, dtype: DType) -> DType:
        """Return the dtype of the result for operands of `dtype`."""
        return self.to or (BOOL if self.predicate else dtype)

    def program(self, *operands: Value) -> Value:
        """Return the function of values on any machine."""
        dtype = operands[0].dtype
        assert dtype in self.dtypes, f"`{self.name}` has no meaning for {dtype}"
        assert len(operands) == self.arity, f"`{self.name}` takes {self.arity} operands"
        if self.to is not None:
            return self.definition(*operands)
        wide = [conversion.widen(x) for x in operands]
        result = self.definition(*wide)
        return result if result.dtype is BOOL else conversion.cast(result, dtype)

    def __call__(self, *arrays: Any) -> Array:
        """Return the function of numpy arrays of one dtype, broadcast against each other."""
        operands = [np.asarray(a) for a in arrays]
        return run_program(self.program, operands, [dtype_of(a.dtype) for a in operands])


@cache
def scalar_work(name: str, dtype: DType) -> int:
    """Return how many operations a scalar function of operands of `dtype` takes, about."""
    row = SCALAR_OPS[name]
    return count_operations(row.program, *(dtype,) * row.arity)


@cache
def cast_work(source: DType, target: DType) -> int:
    """Return how many operations a conversion takes, about."""
    return count_operations(lambda x: conversion.cast(x, target), source)


def cast_array(array: Any, dtype: DType) -> Array:
    """Return an array converted as kernels do: NaN to 0, saturated, ties to even."""
    array = np.asarray(array)
    return run_program(lambda x: conversion.cast(x, dtype), [array], [dtype_of(array.dtype)])


def _row(
    name: str,
    arity: int,
    dtypes: tuple[DType, ...],
    doc: str,
    definition: Program,
    **options: Any,
) -> ScalarOp:
    return ScalarOp(name, arity, dtypes, doc, definition, **options)


def _function(name: str, doc: str, definition: Program, ulp: float) -> ScalarOp:
    """Return the row of a function of one float."""
    return ScalarOp(name, 1, FLOATS, doc, definition, ulp=ulp)


def _compare(name: str, doc: str, definition: Program) -> ScalarOp:
    return ScalarOp(name, 2, COMPUTED, doc, definition, predicate=True)


def _power(x: Value, y: Value) -> Value:
    return elementary.power(x, y) if x.dtype.is_float else arithmetic.integer_power(x, y)


def _fma(a: Value, b: Value, c: Value) -> Value:
    return fma(a, b, c) if a.dtype.is_float else a * b + c


_WHOLE = (BOOL, *INTEGERS)

_ROWS = (
    _row("add", 2, COMPUTED, "sum; or of bools", arithmetic.add, ulp=0.5),
    _row("subtract", 2, COMPUTED, "difference; xor of bools", arithmetic.subtract, ulp=0.5),
    _row("multiply", 2, COMPUTED, "product; and of bools", arithmetic.multiply, ulp=0.5),
    _row("divide", 2, NUMERIC, "quotient, toward zero for integers", arithmetic.divide, ulp=0.5),
    _row("floor_divide", 2, NUMERIC, "quotient rounded down", arithmetic.floor_divide, ulp=2.0),
    _row("mod", 2, NUMERIC, "remainder with the sign of the dividend", arithmetic.mod),
    _row(
        "floor_mod",
        2,
        NUMERIC,
        "remainder with the sign of the divisor",
        arithmetic.floor_mod,
        ulp=0.5,
    ),
    _row("power", 2, NUMERIC, "first to the power of the second", _power, ulp=1.0),
    _row("maximum", 2, COMPUTED, "larger, NaN if either is", arithmetic.maximum),
    _row("minimum", 2, COMPUTED, "smaller, NaN if either is", arithmetic.minimum),
    _row("negative", 1, NUMERIC, "negation", lambda x: -x),
    _row("abs", 1, NUMERIC, "absolute value; the least integer stays", arithmetic.absolute),
    _row("sign", 1, NUMERIC, "-1, 0 or 1; NaN for NaN", arithmetic.sign),
    _function("exp", "exponential", elementary.exp, 1.1),
    _function("log", "natural logarithm", elementary.log, 1.0),
    _function("log2", "logarithm to base 2", elementary.log2, 2.0),
    _function("log10", "logarithm to base 10", elementary.log10, 2.0),
    _row("sqrt", 1, FLOATS, "square root", lambda x: x.apply("sqrt"), ulp=0.5),
    _function("rsqrt", "1 / square root", elementary.rsqrt, 1.5),
    _function("sin", "sine", trigonometry.sin, 1.25),
    _function("cos", "cosine", trigonometry.cos, 1.25),
    _function("tan", "tangent", trigonometry.tan, 3.0),
    _function("asin", "inverse sine", trigonometry.asin, 2.5),
    _function("acos", "inverse cosine", trigonometry.acos, 1.25),
    _function("atan", "inverse tangent", trigonometry.atan, 2.0),
    _function("sinh", "hyperbolic sine", elementary.sinh, 2.5),
    _function("cosh", "hyperbolic cosine", elementary.cosh, 1.75),
    _function("tanh", "hyperbolic tangent", elementary.tanh, 3.0),
    _function("asinh", "inverse hyperbolic sine", elementary.asinh, 2.0),
    _function("acosh", "inverse hyperbolic cosine", elementary.acosh, 2.5),
    _function("atanh", "inverse hyperbolic tangent", elementary.atanh, 2.25),
    _function("erf", "error function", elementary.erf, 2.25),
    _function("sigmoid", "1 / (1 + exp(-x))", elementary.sigmoid, 2.5),
    _row("floor", 1, FLOATS, "whole number not above", lambda x: x.apply("floor")),
    _row("ceil", 1, FLOATS, "whole number not below", lambda x: x.apply("ceil")),
    _row("round", 1, FLOATS, "nearest whole number, ties to even", lambda x: x.apply("round_even")),
    _row("trunc", 1, FLOATS, "whole number toward zero", lambda x: x.apply("truncate")),
    _row("isnan", 1, FLOATS, "whether NaN", arithmetic.is_nan, predicate=True),
    _row("isinf", 1, FLOATS, "whether infinite", arithmetic.is_inf, predicate=True),
    _row("isfinite", 1, FLOATS, "whether neither", arithmetic.is_finite, predicate=True),
    _compare("equal", "a = b", lambda a, b: a.equals(b)),
    _compare("not_equal", "not a = b", lambda a, b: a.differs(b)),
    _compare("less", "a < b", lambda a, b: a < b),
    _compare("less_equal", "a <= b", lambda a, b: a <= b),
    _compare("greater", "a > b", lambda a, b: a > b),
    _compare("greater_equal", "a >= b", lambda a, b: a >= b),
    _compare("logical_and", "both not 0", lambda a, b: arithmetic.truth(a) & arithmetic.truth(b)),
    _compare("logical_or", "either not 0", lambda a, b: arithmetic.truth(a) | arithmetic.truth(b)),
    _compare("logical_xor", "one not 0", lambda a, b: arithmetic.truth(a) ^ arithmetic.truth(b)),
    _row("logical_not", 1, COMPUTED, "whether 0", lambda x: ~arithmetic.truth(x), predicate=True),
    _row("bitwise_and", 2, _WHOLE, "bitwise and", lambda a, b: a & b),
    _row("bitwise_or", 2, _WHOLE, "bitwise or", lambda a, b: a | b),
    _row("bitwise_xor", 2, _WHOLE, "bitwise exclusive or", lambda a, b: a ^ b),
    _row("bitwise_not", 1, _WHOLE, "bitwise complement", lambda x: ~x),
    _row("left_shift", 2, INTEGERS, "a * 2**b, 0 where b is out of range", arithmetic.left_shift),
    _row(
        "right_shift",
        2,
        INTEGERS,
        "a / 2**b rounded down, as if b were large where out of range",
        arithmetic.right_shift,
    ),
    _row("fma", 3, NUMERIC, "a * b + c, rounded once", _fma, ulp=0.5),
)


def _bits_as(dtype: DType) -> ScalarOp:
    """Return the row that reads bits as another dtype of the same size."""
    sources = tuple(d for d in WHOLE_BYTES if d.bits == dtype.bits)
    doc = f"the bits read as {dtype}"
    return ScalarOp(f"bits_as_{dtype}", 1, sources, doc, lambda x: x.bitcast(dtype), to=dtype)


SCALAR_OPS: Mapping[str, ScalarOp] = {
    row.name: row for row in (*_ROWS, *(_bits_as(d) for d in WHOLE_BYTES))
}

__all__ = [
    "FLOAT16",
    "FLOAT32",
    "FLOAT64",
    "SCALAR_OPS",
    "ScalarOp",
    "cast_array",
    "cast_work",
    "scalar_work",
]
