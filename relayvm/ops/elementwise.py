"""Operators that compute each element from the elements at the same place, with operands broadcast."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from relayvm.base.dtypes import BOOL, DType, dtype_of
from relayvm.base.shapes import broadcast_shapes
from relayvm.ir.types import TensorType, Type
from relayvm.kernels import compute as te
from relayvm.kernels.compute import Tensor
from relayvm.kernels.scalar_ops import SCALAR_OPS
from relayvm.ops import numeric
from relayvm.ops.loads import broadcast_compute
from relayvm.ops.numeric import Array, Meaning, through_float32
from relayvm.ops.operator import Fusion, Operator, operator
from relayvm.ops.schema import AnyTensor, Bool, Float, Integer, Numeric, SameDtype


def _ulp(name: str) -> float:
    """Return the bound of the scalar function, and 2 for numpy's own where neither is exact."""
    bound = SCALAR_OPS[name].ulp
    return bound + 2 if bound > 0.5 else bound


def _unary(
    name: str,
    rule: Callable[..., Type],
    meaning: Meaning,
    doc: str,
    *,
    no_gradient: str = "",
) -> Operator:
    row = operator(
        name, fusion=Fusion.ELEMENTWISE, ulp=_ulp(name), no_gradient=no_gradient, doc=doc
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


def _bool(data: Bool) -> TensorType:
    return TensorType(data.shape, data.dtype)


def _numeric_to_bool(data: Numeric) -> TensorType:
    return TensorType(data.shape, BOOL)


def _any(data: AnyTensor) -> TensorType:
    return TensorType(data.shape, data.dtype)


_ZERO_STEPS = "a step function: the gradient is zero wherever it exists"


def _doc(text: str, name: str, given: str, result: str) -> str:
    return f"{text}\n\n>>> %x = {given}\n>>> {name}(%x)\n{result}"


# Rows: name, rule, numpy meaning, what it returns, example operand, example result.
_UNARY: tuple[tuple[str, Callable[..., Type], Meaning, str, str, str], ...] = (
    ("abs", _numeric, np.abs, "Magnitude; the least integer stays itself.", "float32 [-2, 3]", "[2, 3]"),
    ("negative", _numeric, np.negative, "Negation; integers wrap.", "int32 [-2, 3]", "[2, -3]"),
    ("sign", _numeric, numeric.sign, "-1, 0 or 1 by the sign; NaN stays NaN.", "float32 [-2, 0, 3]", "[-1, 0, 1]"),
    ("ceil", _numeric, np.ceil, "Least integer not less; integers stay.", "float32 [-1.5, 1.5]", "[-1, 2]"),
    ("floor", _numeric, np.floor, "Greatest integer not above; integers stay.", "float32 [-1.5, 1.5]", "[-2, 1]"),
    ("round", _numeric, np.rint, "Nearest integer, halves to even; integers stay.", "float32 [0.5, 1.5]", "[0, 2]"),
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
    ("atanh", _float, np.arctanh, "Inverse hyperbolic tangent.", "float32 [0, 0.5]", "[0, 0.5493061]"),
    ("erf", _float, numeric.erf, "Error function.", "float32 [0, 1]", "[0, 0.8427008]"),
    ("sigmoid", _float, numeric.sigmoid, "`1 / (1 + exp(-x))`.", "float32 [0, 2]", "[0.5, 0.8807971]"),
)  # fmt: skip

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
    _unary(
        name,
        rule,
        _keep_integers(meaning) if name in _OF_INTEGERS else meaning,
        _doc(text, name, given, result),
    )
    for name, rule, meaning, text, given, result in _UNARY
)

_BOOL_RESULT = "the result is bool"

PREDICATES = tuple(
    _unary(name, rule, meaning, _doc(text, name, given, result), no_gradient=_BOOL_RESULT)
    for name, rule, meaning, text, given, result in (
        ("isnan", _numeric_to_bool, np.isnan, "True where an element is NaN.", "float32 [0, nan]", "[False, True]"),
        ("isinf", _numeric_to_bool, np.isinf, "True where an element is infinite.", "float32 [0, inf]", "[False, True]"),
        ("isfinite", _numeric_to_bool, np.isfinite, "True where an element is neither infinite nor NaN.", "float32 [0, inf]", "[True, False]"),
        ("logical_not", _bool, np.logical_not, "True where an element is False.", "bool [True, False]", "[False, True]"),
    )
)  # fmt: skip


def _binary(
    name: str,
    rule: Callable[..., Type],
    meaning: Meaning,
    doc: str,
    *,
    no_gradient: str = "",
) -> Operator:
    row = operator(name, fusion=Fusion.BROADCAST, ulp=_ulp(name), no_gradient=no_gradient, doc=doc)(
        rule
    )
    exact = through_float32(meaning)

    @row.numpy
    def _(lhs: Array, rhs: Array) -> Array:
        return np.asarray(exact(lhs, rhs))

    @row.compute
    def _(lhs: Tensor, rhs: Tensor) -> Tensor:
        return broadcast_compute((lhs, rhs), lambda x, y: te.scalar(name, x, y), name)

    return row


def _broadcast(lhs: TensorType, rhs: TensorType, dtype: DType) -> TensorType:
    return TensorType(broadcast_shapes(lhs.shape, rhs.shape), dtype)


def _numeric_pair(lhs: Numeric, rhs: SameDtype) -> TensorType:
    return _broadcast(lhs, rhs, lhs.dtype)


def _integer_pair(lhs: Integer, rhs: SameDtype) -> TensorType:
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
_BINARY: tuple[
    tuple[str, Callable[..., Type], Meaning, str, str, tuple[str, str], str], ...
] = (
    ("add", _numeric_pair, np.add, "", "Sum; integers wrap.", _FLOATS, "[9, -5]"),
    ("subtract", _numeric_pair, np.subtract, "", "Difference; integers wrap.", _FLOATS, "[5, -9]"),
    ("multiply", _numeric_pair, np.multiply, "", "Product; integers wrap.", _FLOATS, "[14, -14]"),
    ("divide", _numeric_pair, numeric.divide, "", "Quotient; of integers rounded toward zero, and 0 for a divisor of 0.", _INTS, "[3, -3]"),
    ("floor_divide", _numeric_pair, numeric.floor_divide, "", "Quotient rounded down; of integers 0 for a divisor of 0.", _INTS, "[3, -4]"),
    ("mod", _numeric_pair, numeric.mod, "", "Remainder with the sign of `lhs`; of integers 0 for a divisor of 0.", _INTS, "[1, -1]"),
    ("floor_mod", _numeric_pair, numeric.floor_mod, "", "Remainder with the sign of `rhs`; of integers 0 for a divisor of 0.", _INTS, "[1, 1]"),
    ("power", _numeric_pair, numeric.power, "", "`lhs` to the power `rhs`; integers wrap, negative exponents round toward zero.", _FLOATS, "[49, 49]"),
    ("maximum", _numeric_pair, np.maximum, "", "The greater; NaN if either is NaN.", _FLOATS, "[7, 2]"),
    ("minimum", _numeric_pair, np.minimum, "", "The less; NaN if either is NaN.", _FLOATS, "[2, -7]"),
    ("left_shift", _integer_pair, numeric.left_shift, "integers only", "`lhs << rhs`; 0 if `rhs` is negative or at least the number of bits.", _INTS, "[28, -28]"),
    ("right_shift", _integer_pair, numeric.right_shift, "integers only", "`lhs >> rhs` keeping the sign; all bits go if `rhs` is negative or at least their number.", _INTS, "[1, -2]"),
    ("equal", _comparison, np.equal, _BOOL_RESULT, "True where equal.", _FLOATS, "[False, False]"),
    ("not_equal", _comparison, np.not_equal, _BOOL_RESULT, "True where different.", _FLOATS, "[True, True]"),
    ("less", _comparison, np.less, _BOOL_RESULT, "True where `lhs < rhs`.", _FLOATS, "[False, True]"),
    ("less_equal", _comparison, np.less_equal, _BOOL_RESULT, "True where `lhs <= rhs`.", _FLOATS, "[False, True]"),
    ("greater", _comparison, np.greater, _BOOL_RESULT, "True where `lhs > rhs`.", _FLOATS, "[True, False]"),
    ("greater_equal", _comparison, np.greater_equal, _BOOL_RESULT, "True where `lhs >= rhs`.", _FLOATS, "[True, False]"),
    ("logical_and", _bool_pair, np.logical_and, _BOOL_RESULT, "True where both are.", _BOOLS, "[True, False]"),
    ("logical_or", _bool_pair, np.logical_or, _BOOL_RESULT, "True where either is.", _BOOLS, "[True, True]"),
    ("logical_xor", _bool_pair, np.logical_xor, _BOOL_RESULT, "True where one is and the other is not.", _BOOLS, "[False, True]"),
)  # fmt: skip

BINARY = tuple(
    _binary(name, rule, meaning, _pair_doc(text, name, *given, result), no_gradient=reason)
    for name, rule, meaning, reason, text, given, result in _BINARY
)


@operator("nn.relu", fusion=Fusion.ELEMENTWISE)
def relu(data: Numeric) -> TensorType:
    """The greater of each element and 0; NaN stays NaN.

    >>> %x = float32 [-1, 2]
    >>> nn.relu(%x)
    [0, 2]
    """
    return TensorType(data.shape, data.dtype)


@relu.numpy
def _(data: Array) -> Array:
    return np.asarray(np.maximum(data, data.dtype.type(0)))


@relu.compute
def _(data: Tensor) -> Tensor:
    return broadcast_compute((data,), lambda x: te.scalar("maximum", x, 0), "relu")


@operator("copy", fusion=Fusion.ELEMENTWISE)
def copy(data: AnyTensor) -> TensorType:
    """The same value.

    >>> %x = int32 [1, 2]
    >>> copy(%x)
    [1, 2]
    """
    return TensorType(data.shape, data.dtype)


@copy.numpy
def _(data: Array) -> Array:
    return data


@copy.compute
def _(data: Tensor) -> Tensor:
    return broadcast_compute((data,), lambda x: x, "copy")


@operator("cast", fusion=Fusion.ELEMENTWISE)
def cast(data: AnyTensor, *, dtype: DType) -> TensorType:
    """The elements as `dtype`: floats to integers truncate and saturate, NaN gives 0; to bool means `!= 0`.

    >>> %x = float32 [-1.5, 300, nan]
    >>> cast(%x, dtype="int8")
    [-1, 127, 0]
    """
    return TensorType(data.shape, dtype)


@cast.numpy
def _(data: Array, *, dtype: DType) -> Array:
    return numeric.cast(data, dtype)


@cast.compute
def _(data: Tensor, *, dtype: DType) -> Tensor:
    return broadcast_compute((data,), lambda x: te.cast(x, dtype), "cast")


@operator("clip", fusion=Fusion.ELEMENTWISE)
def clip(data: Numeric, *, a_min: float, a_max: float) -> TensorType:
    """Each element held between `a_min` and `a_max`, which for integers are truncated and saturated; NaN stays.

    >>> %x = float32 [-2, 0.5, 7]
    >>> clip(%x, a_min=0f, a_max=1f)
    [0, 0.5, 1]
    """
    return TensorType(data.shape, data.dtype)


@clip.numpy
def _(data: Array, *, a_min: float, a_max: float) -> Array:
    low, high = clip_bounds(a_min, a_max, dtype_of(data.dtype))
    return np.asarray(np.minimum(np.maximum(data, low), high))


@clip.compute
def _(data: Tensor, *, a_min: float, a_max: float) -> Tensor:
    low, high = (v.item() for v in clip_bounds(a_min, a_max, data.dtype))

    def held(x: te.ScalarExpr) -> te.ScalarExpr:
        return te.scalar("minimum", te.scalar("maximum", x, low), high)

    return broadcast_compute((data,), held, "clip")


def clip_bounds(a_min: float, a_max: float, dtype: DType) -> tuple[Array, Array]:
    """Return the bounds as rank-0 arrays of `dtype`."""
    return numeric.cast(np.array(a_min), dtype), numeric.cast(np.array(a_max), dtype)


@operator("where", fusion=Fusion.BROADCAST)
def where(condition: Bool, x: AnyTensor, y: SameDtype) -> TensorType:
    """Elements of `x` where `condition` is True, of `y` elsewhere; all three are broadcast.

    >>> %c = bool [True, False]
    >>> %x = float32 [1, 2]
    >>> %y = float32 0
    >>> where(%c, %x, %y)
    [1, 0]
    """
    shape = broadcast_shapes(x.shape, y.shape, "shapes of `x` and `y`")
    return TensorType(broadcast_shapes(condition.shape, shape), x.dtype)


@where.numpy
def _(condition: Array, x: Array, y: Array) -> Array:
    return np.where(condition, x, y)


@where.compute
def _(condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
    return broadcast_compute((condition, x, y), te.select, "where")


OPERATORS: tuple[Operator, ...] = (*UNARY, *PREDICATES, *BINARY, relu, copy, cast, clip, where)
