"""Operators of neural networks that shift and scale: bias, softmax, layer norm."""

from __future__ import annotations

import numpy as np

from relayvm.base.dims import Dim
from relayvm.base.shapes import require_equal
from relayvm.ir.types import TensorType, Type
from relayvm.kernels import compute as te
from relayvm.kernels.compute import ScalarExpr, Tensor
from relayvm.ops.axes import require_axis, require_rank
from relayvm.ops.loads import Index, load_wide, wide
from relayvm.ops.numeric import Array, mean_of
from relayvm.ops.operator import Fusion, operator
from relayvm.ops.reduction import fold_tensor
from relayvm.ops.schema import Float, Numeric, SameDtype


def spread_along(vector: Array, axis: int, rank: int) -> Array:
    """Return a vector as a tensor of `rank` that lies along `axis`."""
    return vector.reshape([-1 if i == axis else 1 for i in range(rank)])


def widened(array: Array) -> Array:
    """Return an array in the dtype that sums are accumulated in."""
    return array.astype(np.float32) if array.dtype == np.float16 else array


@operator("nn.bias_add", fusion=Fusion.BROADCAST)
def bias_add(data: Numeric, bias: SameDtype, *, axis: int = 1) -> TensorType:
    """`data` plus the vector `bias` along `axis`.

    >>> %x = float32 [[1, 2], [3, 4]]
    >>> %b = float32 [10, 20]
    >>> nn.bias_add(%x, %b)
    [[11, 22], [13, 24]]
    """
    require_rank(bias, 1, 1, "`bias` of `nn.bias_add`")
    place = require_axis(axis, data.rank, "`axis` of `nn.bias_add`")
    size = require_equal(data.shape[place], bias.shape[0], f"axis {place} of `data` and `bias`")
    return TensorType((*data.shape[:place], size, *data.shape[place + 1 :]), data.dtype)


@bias_add.infer_operands
def _(data: TensorType | None, bias: TensorType | None, *, axis: int) -> tuple[Type | None, ...]:
    if data is None:
        return data, bias
    place = require_axis(axis, data.rank, "`axis` of `nn.bias_add`")
    return data, TensorType((data.shape[place],), data.dtype)


@bias_add.numpy
def _(data: Array, bias: Array, *, axis: int) -> Array:
    total = widened(data) + spread_along(widened(bias), require_axis(axis, data.ndim), data.ndim)
    return np.asarray(total.astype(data.dtype))


@bias_add.compute
def _(data: Tensor, bias: Tensor, *, axis: int) -> Tensor:
    place = require_axis(axis, data.rank)
    return te.compute(data.shape, lambda *i: data[i] + bias[i[place]], "bias_add")


@operator("nn.softmax", fusion=Fusion.REDUCTION, ulp=8)
def softmax(data: Float, *, axis: int = -1) -> TensorType:
    """`exp(x - m)` over its sum along `axis`, where m is the greatest element.

    >>> %x = float32 [0, 0]
    >>> nn.softmax(%x)
    [0.5, 0.5]
    """
    require_axis(axis, data.rank, "`axis` of `nn.softmax`")
    return TensorType(data.shape, data.dtype)


@softmax.numpy
def _(data: Array, *, axis: int) -> Array:
    x = widened(data)
    powers = np.exp(x - np.max(x, axis=axis, keepdims=True, initial=-np.inf))
    return np.asarray(powers / np.sum(powers, axis=axis, keepdims=True)).astype(data.dtype)


@softmax.compute
def _(data: Tensor, *, axis: int) -> Tensor:
    place = require_axis(axis, data.rank)
    _, powers, sums = _exponentials(data, place)
    return te.compute(
        data.shape,
        lambda *i: te.cast(te.scalar("divide", powers[i], sums[_at(i, place)]), data.dtype),
        "softmax",
    )


@softmax.reduction_size
def _(data: TensorType, *, axis: int) -> Dim:
    return data.shape[axis]


@operator("nn.log_softmax", fusion=Fusion.REDUCTION, ulp=8)
def log_softmax(data: Float, *, axis: int = -1) -> TensorType:
    """The logarithm of `nn.softmax`, without leaving the range.

    >>> %x = float32 [0, 0]
    >>> nn.log_softmax(%x)
    [-0.6931472, -0.6931472]
    """
    require_axis(axis, data.rank, "`axis` of `nn.log_softmax`")
    return TensorType(data.shape, data.dtype)


@log_softmax.numpy
def _(data: Array, *, axis: int) -> Array:
    x = widened(data)
    shifted = x - np.max(x, axis=axis, keepdims=True, initial=-np.inf)
    logarithm = np.log(np.sum(np.exp(shifted), axis=axis, keepdims=True))
    return np.asarray(shifted - logarithm).astype(data.dtype)


@log_softmax.compute
def _(data: Tensor, *, axis: int) -> Tensor:
    place = require_axis(axis, data.rank)
    greatest, _, sums = _exponentials(data, place)
    logarithms = te.compute(sums.shape, lambda *i: te.scalar("log", sums[i]), "logarithms")

    def element(*i: ScalarExpr) -> ScalarExpr:
        at = _at(i, place)
        return te.cast(load_wide(data, i) - load_wide(greatest, at) - logarithms[at], data.dtype)

    return te.compute(data.shape, element, "log_softmax")


@log_softmax.reduction_size
def _(data: TensorType, *, axis: int) -> Dim:
    return data.shape[axis]


def _at(index: Index, axis: int) -> Index:
    """Return an index into a tensor whose `axis` has size 1."""
    return tuple(te.dim(0) if k == axis else v for k, v in enumerate(index))


def _exponentials(data: Tensor, axis: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the maxima along `axis`, which stays with size 1, `exp(x - max)`, and the sums of
    those.
    """
    greatest = fold_tensor(data, (axis,), True, "max")
    powers = te.compute(
        data.shape,
        lambda *i: te.scalar("exp", load_wide(data, i) - load_wide(greatest, _at(i, axis))),
        "powers",
    )
    return greatest, powers, fold_tensor(powers, (axis,), True, "sum")


@operator("nn.layer_norm", fusion=Fusion.REDUCTION, ulp=8)
def layer_norm(
    data: Float,
    gamma: SameDtype,
    beta: SameDtype,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
) -> TensorType:
    """`(x - mean) / sqrt(variance + epsilon)` along `axis`, times `gamma` with `scale`, plus
    `beta` with `center`.

    >>> %x = float32 [[1, 3]]
    >>> %g = float32 [2, 2]
    >>> %b = float32 [1, 1]
    >>> nn.layer_norm(%x, %g, %b, epsilon=0f)
    [[-1, 3]]
    """
    place = require_axis(axis, data.rank, "`axis` of `nn.layer_norm`")
    for name, vector in (("gamma", gamma), ("beta", beta)):
        require_rank(vector, 1, 1, f"`{name}` of `nn.layer_norm`")
        require_equal(data.shape[place], vector.shape[0], f"axis {place} of `data` and `{name}`")
    return TensorType(data.shape, data.dtype)


@layer_norm.infer_operands
def _(
    data: TensorType | None,
    gamma: TensorType | None,
    beta: TensorType | None,
    *,
    axis: int,
    epsilon: float,
    center: bool,
    scale: bool,
) -> tuple[Type | None, ...]:
    if data is None:
        return data, gamma, beta
    place = require_axis(axis, data.rank, "`axis` of `nn.layer_norm`")
    vector = TensorType((data.shape[place],), data.dtype)
    return data, vector, vector


@layer_norm.numpy
def _(
    data: Array,
    gamma: Array,
    beta: Array,
    *,
    axis: int,
    epsilon: float,
    center: bool,
    scale: bool,
) -> Array:
    place = require_axis(axis, data.ndim)
    x = widened(data)
    distance = x - mean_of(x, (place,))
    variance = mean_of(distance * distance, (place,))
    result = distance / np.sqrt(variance + x.dtype.type(epsilon))
    if scale:
        result = result * spread_along(widened(gamma), place, data.ndim)
    if center:
        result = result + spread_along(widened(beta), place, data.ndim)
    return np.asarray(result.astype(data.dtype))


@layer_norm.compute
def _(
    data: Tensor,
    gamma: Tensor,
    beta: Tensor,
    *,
    axis: int,
    epsilon: float,
    center: bool,
    scale: bool,
) -> Tensor:
    place = require_axis(axis, data.rank)
    total = wide(data.dtype)
    x = te.compute(data.shape, lambda *i: load_wide(data, i), "wide")
    mean = fold_tensor(x, (place,), True, "mean")
    distance = te.compute(data.shape, lambda *i: x[i] - mean[_at(i, place)], "distance")
    square = te.compute(data.shape, lambda *i: distance[i] * distance[i], "square")
    variance = fold_tensor(square, (place,), True, "mean")
    # One quotient a row: a quotient of each element would take longer than all else.
    inverse = te.compute(
        variance.shape,
        lambda *i: te.scalar(
            "divide", te.const(1.0, total), te.scalar("sqrt", variance[i] + epsilon)
        ),
        "inverse",
    )

    def element(*i: ScalarExpr) -> ScalarExpr:
        result = distance[i] * inverse[_at(i, place)]
        if scale:
            result = result * te.cast(gamma[i[place]], total)
        if center:
            result = result + te.cast(beta[i[place]], total)
        return te.cast(result, data.dtype)

    return te.compute(data.shape, element, "layer_norm")


@layer_norm.reduction_size
def _(
    data: TensorType,
    gamma: TensorType,
    beta: TensorType,
    *,
    axis: int,
    epsilon: float,
    center: bool,
    scale: bool,
) -> Dim:
    return data.shape[axis]


OPERATORS = (bias_add, layer_norm, log_softmax, softmax)
