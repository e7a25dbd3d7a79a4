"""Operators of two operands that are broadcast against each other."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from relayvm.base.dtypes import BOOL, DType
from relayvm.base.shapes import broadcast_shapes
from relayvm.ir.types import TensorType, Type
from relayvm.kernels import compute as te
from relayvm.kernels.compute import ScalarExpr, Tensor
from relayvm.ops import numeric
from relayvm.ops.loads import broadcast_compute, wide
from relayvm.ops.numeric import Array, Meaning, through_float32
from relayvm.ops.operator import Fusion, Operator, operator
from relayvm.ops.schema import AnyTensor, Bool, Integer, Numeric, SameDtype, Whole
from relayvm.ops.unary import BOOL_RESULT, scalar_ulp


def _trunc_divide(x: ScalarExpr, y: ScalarExpr) -> ScalarExpr:
    if not x.dtype.is_float:
        return te.scalar("divide", x, y)
    quotient = te.scalar("divide", te.cast(x, wide(x.dtype)), te.cast(y, wide(y.dtype)))
    return te.cast(te.scalar("trunc", quotient), x.dtype)


def _truncated_quotient(a: Array, b: Array) -> Array:
    quotient = numeric.divide(a, b)
    return np.trunc(quotient) if a.dtype.kind == "f" else np.asarray(quotient)


# What is no row of the scalar table.
_FORMULAS: dict[str, Callable[[ScalarExpr, ScalarExpr], ScalarExpr]] = {
    "trunc_divide": _trunc_divide,
    "trunc_mod": lambda x, y: te.scalar("mod", x, y),
}


def _row(
    name: str,
    rule: Callable[..., Type],
    meaning: Meaning,
    doc: str,
    *,
    no_gradient: str = "",
) -> Operator:
    ulp = 0 if name in _FORMULAS else scalar_ulp(name)
    row = operator(name, fusion=Fusion.BROADCAST, ulp=ulp, no_gradient=no_gradient, doc=doc)(rule)
    exact = through_float32(meaning)
    formula = _FORMULAS.get(name, lambda x, y: te.scalar(name, x, y))

    @row.numpy
    def _(lhs: Array, rhs: Array) -> Array:
        return np.asarray(exact(lhs, rhs))

    @row.compute
    def _(lhs: Tensor, rhs: Tensor) -> Tensor:
        return broadcast_compute((lhs, rhs), formula, name)

    return row


def _broadcast(lhs: TensorType, rhs: TensorType, dtype: DType) -> TensorType:
    return TensorType(broadcast_shapes(lhs.shape, rhs.shape), dtype)


def _numeric_pair(lhs: Numeric, rhs: SameDtype) -> TensorType:
    return _broadcast(lhs, rhs, lhs.dtype)


def _integer_pair(lhs: Integer, rhs: SameDtype) -> TensorType:
    return _broadcast(lhs, rhs, lhs.dtype)


def _whole_pair(lhs: Whole, rhs: SameDtype) -> TensorType:
    return _broadcast(lhs, rhs, lhs.dtype)


def _bool_pair(lhs: Bool, rhs: SameDtype) -> TensorType:
    return _broadcast(lhs, rhs, BOOL)


def _comparison(lhs: AnyTensor, rhs: SameDtype) -> TensorType:
    return _broadcast(lhs, rhs, BOOL)


def _pair_doc(text: str, name: str, a: str, b: str, result: str) -> str:
    return f"{text}\n\n>>> %x = {a}\n>>> %y = {b}\n>>> {name}(%x, %y)\n{result}"


_FLOATS = ("float32 [7, -7]", "float32 2")
_INTS = ("int32 [7, -7]", "int32 2")
_BOOLS = ("bool [True, False]", "bool True")

# Rows: name, rule, numpy meaning, why there is no gradient, text, example operands, example result.
_BINARY: tuple[tuple[str, Callable[..., Type], Meaning, str, str, tuple[str, str], str], ...] = (
    ("add", _numeric_pair, np.add, "", "Sum; integers wrap.", _FLOATS, "[9, -5]"),
    ("subtract", _numeric_pair, np.subtract, "", "Difference; integers wrap.", _FLOATS, "[5, -9]"),
    ("multiply", _numeric_pair, np.multiply, "", "Product; integers wrap.", _FLOATS, "[14, -14]"),
    (
        "divide",
        _numeric_pair,
        numeric.divide,
        "",
        "Quotient; of integers rounded toward zero, and 0 for a divisor of 0.",
        _INTS,
        "[3, -3]",
    ),
    (
        "floor_divide",
        _numeric_pair,
        numeric.floor_divide,
        "",
        "Quotient rounded down; of integers 0 for a divisor of 0.",
        _INTS,
        "[3, -4]",
    ),
    (
        "mod",
        _numeric_pair,
        numeric.mod,
        "",
        "Remainder with the sign of `lhs`; of integers 0 for a divisor of 0.",
        _INTS,
        "[1, -1]",
    ),
    (
        "floor_mod",
        _numeric_pair,
        numeric.floor_mod,
        "",
        "Remainder with the sign of `rhs`; of integers 0 for a divisor of 0.",
        _INTS,
        "[1, 1]",
    ),
    (
        "trunc_divide",
        _numeric_pair,
        _truncated_quotient,
        "",
        "Quotient rounded toward zero; of integers 0 for a divisor of 0.",
        _INTS,
        "[3, -3]",
    ),
    (
        "trunc_mod",
        _numeric_pair,
        numeric.mod,
        "",
        "Remainder with the sign of `lhs`; of integers 0 for a divisor of 0.",
        _INTS,
        "[1, -1]",
    ),
    (
        "power",
        _numeric_pair,
        numeric.power,
        "",
        "`lhs` to the power `rhs`; integers wrap, negative exponents round toward zero.",
        _FLOATS,
        "[49, 49]",
    ),
    (
        "maximum",
        _numeric_pair,
        np.maximum,
        "",
        "The greater; NaN if either is NaN.",
        _FLOATS,
        "[7, 2]",
    ),
    (
        "minimum",
        _numeric_pair,
        np.minimum,
        "",
        "The less; NaN if either is NaN.",
        _FLOATS,
        "[2, -7]",
    ),
    (
        "left_shift",
        _integer_pair,
        numeric.left_shift,
        "integers only",
        "`lhs << rhs`; 0 if `rhs` is negative or at least the number of bits.",
        _INTS,
        "[28, -28]",
    ),
    (
        "right_shift",
        _integer_pair,
        numeric.right_shift,
        "integers only",
        "`lhs >> rhs` keeping the sign; all bits go if `rhs` is negative or at least their number.",
        _INTS,
        "[1, -2]",
    ),
    ("bitwise_and", _whole_pair, np.bitwise_and, "integers only", "And of bits.", _INTS, "[2, 0]"),
    ("bitwise_or", _whole_pair, np.bitwise_or, "integers only", "Or of bits.", _INTS, "[7, -5]"),
    (
        "bitwise_xor",
        _whole_pair,
        np.bitwise_xor,
        "integers only",
        "Exclusive or of bits.",
        _INTS,
        "[5, -5]",
    ),
    ("equal", _comparison, np.equal, BOOL_RESULT, "True where equal.", _FLOATS, "[False, False]"),
    (
        "not_equal",
        _comparison,
        np.not_equal,
        BOOL_RESULT,
        "True where different.",
        _FLOATS,
        "[True, True]",
    ),
    (
        "less",
        _comparison,
        np.less,
        BOOL_RESULT,
        "True where `lhs < rhs`.",
        _FLOATS,
        "[False, True]",
    ),
    (
        "less_equal",
        _comparison,
        np.less_equal,
        BOOL_RESULT,
        "True where `lhs <= rhs`.",
        _FLOATS,
        "[False, True]",
    ),
    (
        "greater",
        _comparison,
        np.greater,
        BOOL_RESULT,
        "True where `lhs > rhs`.",
        _FLOATS,
        "[True, False]",
    ),
    (
        "greater_equal",
        _comparison,
        np.greater_equal,
        BOOL_RESULT,
        "True where `lhs >= rhs`.",
        _FLOATS,
        "[True, False]",
    ),
    (
        "logical_and",
        _bool_pair,
        np.logical_and,
        BOOL_RESULT,
        "True where both are.",
        _BOOLS,
        "[True, False]",
    ),
    (
        "logical_or",
        _bool_pair,
        np.logical_or,
        BOOL_RESULT,
        "True where either is.",
        _BOOLS,
        "[True, True]",
    ),
    (
        "logical_xor",
        _bool_pair,
        np.logical_xor,
        BOOL_RESULT,
        "True where one is and the other is not.",
        _BOOLS,
        "[False, True]",
    ),
)

BINARY = tuple(
    _row(name, rule, meaning, _pair_doc(text, name, *given, result), no_gradient=reason)
    for name, rule, meaning, reason, text, given, result in _BINARY
)

# The numpy meanings by operator; float16 goes through float32.
BINARY_MEANINGS: dict[str, Meaning] = {row[0]: row[2] for row in _BINARY}

OPERATORS = BINARY
