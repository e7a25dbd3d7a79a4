"""Operators of one operand that compute each element from the element at the same place."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from relayvm.base.dtypes import BOOL
from relayvm.ir.types import TensorType, Type
from relayvm.kernels import compute as te
from relayvm.kernels.compute import Tensor
from relayvm.kernels.scalar_ops import SCALAR_OPS
from relayvm.ops import numeric
from relayvm.ops.loads import broadcast_compute
from relayvm.ops.numeric import Array, Meaning, through_float32
from relayvm.ops.operator import Fusion, Operator, operator
from relayvm.ops.schema import Bool, Float, Numeric, Whole


def scalar_ulp(name: str) -> float:
    """Return the bound of the scalar function, and 2 for numpy's own where neither is exact."""
    bound = SCALAR_OPS[name].ulp
    return bound + 2 if bound > 0.5 else bound


def _row(
    name: str,
    rule: Callable[..., Type],
    meaning: Meaning,
    doc: str,
    *,
    no_gradient: str = "",
) -> Operator:
    row = operator(
        name, fusion=Fusion.ELEMENTWISE, ulp=scalar_ulp(name), no_gradient=no_gradient, doc=doc
    )(rule)
    exact = through_float32(meaning)

    @row.numpy
    def _(data: Array) -> Array:
        return np.asarray(exact(data))

    @row.compute
    def _(data: Tensor) -> Tensor:
        if not data.dtype.is_float and name in _OF_INTEGERS:
            return broadcast_compute((data,), _OF_INTEGERS[name], name)
        return broadcast_compute((data,), lambda x: te.scalar(name, x), name)

    return row


def _numeric(data: Numeric) -> TensorType:
    return TensorType(data.shape, data.dtype)


def _float(data: Float) -> TensorType:
    return TensorType(data.shape, data.dtype)


def _whole(data: Whole) -> TensorType:
    return TensorType(data.shape, data.dtype)


def _bool(data: Bool) -> TensorType:
    return TensorType(data.shape, data.dtype)


def _numeric_to_bool(data: Numeric) -> TensorType:
    return TensorType(data.shape, BOOL)


_ZERO_STEPS = "a step function: the gradient is zero wherever it exists"


def _doc(text: str, name: str, given: str, result: str) -> str:
    return f"{text}\n\n>>> %x = {given}\n>>> {name}(%x)\n{result}"


# Rows: name, rule, numpy meaning, what it returns, example operand, example result.
_UNARY: tuple[tuple[str, Callable[..., Type], Meaning, str, str, str], ...] = (
    (
        "abs",
        _numeric,
        np.abs,
        "Magnitude; the least integer stays itself.",
        "float32 [-2, 3]",
        "[2, 3]",
    ),
    ("negative", _numeric, np.negative, "Negation; integers wrap.", "int32 [-2, 3]", "[2, -3]"),
    (
        "sign",
        _numeric,
        numeric.sign,
        "-1, 0 or 1 by the sign; NaN stays NaN.",
        "float32 [-2, 0, 3]",
        "[-1, 0, 1]",
    ),
    (
        "ceil",
        _numeric,
        np.ceil,
        "Least integer not less; integers stay.",
        "float32 [-1.5, 1.5]",
        "[-1, 2]",
    ),
    (
        "floor",
        _numeric,
        np.floor,
        "Greatest integer not above; integers stay.",
        "float32 [-1.5, 1.5]",
        "[-2, 1]",
    ),
    (
        "round",
        _numeric,
        np.rint,
        "Nearest integer, halves to even; integers stay.",
        "float32 [0.5, 1.5]",
        "[0, 2]",
    ),
    ("trunc", _numeric, np.trunc, "Integer part; integers stay.", "float32 [-1.5, 1.5]", "[-1, 1]"),
    ("exp", _float, np.exp, "e to the power of each element.", "float32 [0, 1]", "[1, 2.7182817]"),
    ("log", _float, np.log, "Natural logarithm.", "float32 [1, 2]", "[0, 0.6931472]"),
    ("log2", _float, np.log2, "Logarithm of base 2.", "float32 [1, 8]", "[0, 3]"),
    ("log10", _float, np.log10, "Logarithm of base 10.", "float32 [1, 1000]", "[0, 3]"),
    ("sqrt", _float, np.sqrt, "Square root, correctly rounded.", "float32 [4, 9]", "[2, 3]"),
    ("rsqrt", _float, numeric.rsqrt, "One over the square root.", "float32 [4, 16]", "[0.5, 0.25]"),
    ("sin", _float, np.sin, "Sine of radians.", "float32 [0, 1]", "[0, 0.84147098]"),
    ("cos", _float, np.cos, "Cosine of radians.", "float32 [0, 1]", "[1, 0.5403023]"),
    ("tan", _float, np.tan, "Tangent of radians.", "float32 [0, 1]", "[0, 1.5574077]"),
    ("asin", _float, np.arcsin, "Arcsine in radians.", "float32 [0, 1]", "[0, 1.5707964]"),
    ("acos", _float, np.arccos, "Arccosine in radians.", "float32 [0, 1]", "[1.5707964, 0]"),
    ("atan", _float, np.arctan, "Arctangent in radians.", "float32 [0, 1]", "[0, 0.7853982]"),
    ("sinh", _float, np.sinh, "Hyperbolic sine.", "float32 [0, 1]", "[0, 1.1752012]"),
    ("cosh", _float, np.cosh, "Hyperbolic cosine.", "float32 [0, 1]", "[1, 1.5430807]"),
    ("tanh", _float, np.tanh, "Hyperbolic tangent.", "float32 [0, 1]", "[0, 0.7615942]"),
    ("asinh", _float, np.arcsinh, "Inverse hyperbolic sine.", "float32 [0, 1]", "[0, 0.8813736]"),
    ("acosh", _float, np.arccosh, "Inverse hyperbolic cosine.", "float32 [1, 2]", "[0, 1.316958]"),
    (
        "atanh",
        _float,
        np.arctanh,
        "Inverse hyperbolic tangent.",
        "float32 [0, 0.5]",
        "[0, 0.5493061]",
    ),
    ("erf", _float, numeric.erf, "Error function.", "float32 [0, 1]", "[0, 0.8427008]"),
    (
        "sigmoid",
        _float,
        numeric.sigmoid,
        "`1 / (1 + exp(-x))`.",
        "float32 [0, 2]",
        "[0.5, 0.8807971]",
    ),
)

# What functions of floats are of integers.
_OF_INTEGERS: dict[str, Callable[[te.ScalarExpr], te.ScalarExpr]] = {
    "ceil": lambda x: x,
    "floor": lambda x: x,
    "round": lambda x: x,
    "trunc": lambda x: x,
    "isnan": lambda x: te.const(False, BOOL),
    "isinf": lambda x: te.const(False, BOOL),
    "isfinite": lambda x: te.const(True, BOOL),
}


def _keep_integers(meaning: Meaning) -> Meaning:
    return lambda data: meaning(data) if data.dtype.kind == "f" else data


UNARY = tuple(
    _row(
        name,
        rule,
        _keep_integers(meaning) if name in _OF_INTEGERS else meaning,
        _doc(text, name, given, result),
    )
    for name, rule, meaning, text, given, result in _UNARY
)

# The numpy meanings of floats, by operator; float16 goes through float32.
UNARY_MEANINGS: dict[str, Meaning] = {row[0]: row[2] for row in _UNARY}

BOOL_RESULT = "the result is bool"

PREDICATES = tuple(
    _row(name, rule, meaning, _doc(text, name, given, result), no_gradient=BOOL_RESULT)
    for name, rule, meaning, text, given, result in (
        (
            "isnan",
            _numeric_to_bool,
            np.isnan,
            "True where an element is NaN.",
            "float32 [0, nan]",
            "[False, True]",
        ),
        (
            "isinf",
            _numeric_to_bool,
            np.isinf,
            "True where an element is infinite.",
            "float32 [0, inf]",
            "[False, True]",
        ),
        (
            "isfinite",
            _numeric_to_bool,
            np.isfinite,
            "True where an element is neither infinite nor NaN.",
            "float32 [0, inf]",
            "[True, False]",
        ),
        (
            "logical_not",
            _bool,
            np.logical_not,
            "True where an element is False.",
            "bool [True, False]",
            "[False, True]",
        ),
    )
)

bitwise_not = _row(
    "bitwise_not",
    _whole,
    np.bitwise_not,
    _doc("Complement of bits.", "bitwise_not", "int32 [0, 5]", "[-1, -6]"),
    no_gradient="integers only",
)

OPERATORS = (*UNARY, *PREDICATES, bitwise_not)
