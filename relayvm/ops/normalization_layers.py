"""Normalisation by statistics of batches, instances and groups, by length, by neighbours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from relayvm.base.dims import Dim, dim_floordiv, dim_mod
from relayvm.base.shapes import ShapeError, require_equal
from relayvm.ir.types import TensorType, TupleType
from relayvm.kernels import compute as te
from relayvm.kernels.compute import ScalarExpr, Tensor
from relayvm.ops.axes import product, require_axes, require_axis, require_least, require_rank
from relayvm.ops.loads import Index, load_wide, wide
from relayvm.ops.normalization import spread_along, widened
from relayvm.ops.numeric import Array, mean_of
from relayvm.ops.operator import Fusion, Operator, operator
from relayvm.ops.reduction import fold_tensor
from relayvm.ops.schema import Float, Ints, SameDtype, like


def _require_vectors(name: str, size: Dim, **vectors: TensorType) -> Dim:
    """Check that operands have one element a channel; return the number of channels."""
    for operand, vector in vectors.items():
        require_rank(vector, 1, 1, f"`{operand}` of `{name}`")
        size = require_equal(
            size, vector.shape[0], f"channels of `data` of `{name}` and `{operand}`"
        )
    return size


def _vector_types(
    name: str, data: TensorType | None, axis: int, *vectors: TensorType | None
) -> Any:
    """Return operand types where each operand after the data has one element a channel."""
    if data is None:
        return (data, *vectors)
    place = require_axis(axis, data.rank, f"`axis` of `{name}`")
    vector = TensorType((data.shape[place],), data.dtype)
    return (data, *(vector for _ in vectors))


# -- Batches --------------------------------------------------------------------------------------


@operator("nn.batch_norm", fusion=Fusion.BROADCAST, ulp=2)
def batch_norm(
    data: Float,
    gamma: SameDtype,
    beta: SameDtype,
    moving_mean: SameDtype,
    moving_var: SameDtype,
    *,
    axis: int = 1,
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
) -> TupleType:
    """`data` normalised by `moving_mean` and `moving_var` along `axis`, and these two as they are.

    As in inference: `x * s + t` where `s` is `1 / sqrt(moving_var + epsilon)`, times `gamma` with
    `scale`, and `t` is `-moving_mean * s`, plus `beta` with `center`.

    >>> %x = float32 [[1, 3]]
    >>> %g = float32 [2, 2]
    >>> %b = float32 [1, 1]
    >>> %m = float32 [1, 1]
    >>> %v = float32 [4, 4]
    >>> nn.batch_norm(%x, %g, %b, %m, %v, epsilon=0f).0
    [[1, 3]]
    """
    place = require_axis(axis, data.rank, "`axis` of `nn.batch_norm`")
    size = _require_vectors(
        "nn.batch_norm",
        data.shape[place],
        gamma=gamma,
        beta=beta,
        moving_mean=moving_mean,
        moving_var=moving_var,
    )
    vector = TensorType((size,), data.dtype)
    shape = (*data.shape[:place], size, *data.shape[place + 1 :])
    return TupleType((TensorType(shape, data.dtype), vector, vector))


@batch_norm.infer_operands
@like(batch_norm.rule)
def _(data: Any, gamma: Any, beta: Any, moving_mean: Any, moving_var: Any, **attrs: Any) -> Any:
    return _vector_types("nn.batch_norm", data, attrs["axis"], gamma, beta, moving_mean, moving_var)


@batch_norm.numpy
@like(batch_norm.rule)
def _(
    data: Array, gamma: Array, beta: Array, moving_mean: Array, moving_var: Array, **attrs: Any
) -> tuple[Array, ...]:
    place = require_axis(attrs["axis"], data.ndim)
    x, mean, variance = widened(data), widened(moving_mean), widened(moving_var)
    one = x.dtype.type(1)
    factor = one / np.sqrt(variance + x.dtype.type(attrs["epsilon"]))
    if attrs["scale"]:
        factor = factor * widened(gamma)
    shift = -mean * factor
    if attrs["center"]:
        shift = shift + widened(beta)
    rank = data.ndim
    result = x * spread_along(factor, place, rank) + spread_along(shift, place, rank)
    return result.astype(data.dtype), moving_mean, moving_var


@batch_norm.compute
@like(batch_norm.rule)
def _(
    data: Tensor, gamma: Tensor, beta: Tensor, moving_mean: Tensor, moving_var: Tensor, **attrs: Any
) -> tuple[Tensor, ...]:
    place = require_axis(attrs["axis"], data.rank)

    def factor(*i: ScalarExpr) -> ScalarExpr:
        root = te.scalar("sqrt", load_wide(moving_var, i) + attrs["epsilon"])
        value = te.scalar("divide", te.const(1, root.dtype), root)
        return value * load_wide(gamma, i) if attrs["scale"] else value

    factors = te.compute(gamma.shape, factor, "factors")

    def shift(*i: ScalarExpr) -> ScalarExpr:
        value = -load_wide(moving_mean, i) * factors[i]
        return value + load_wide(beta, i) if attrs["center"] else value

    shifts = te.compute(gamma.shape, shift, "shifts")
    result = te.compute(
        data.shape,
        lambda *i: te.cast(load_wide(data, i) * factors[i[place]] + shifts[i[place]], data.dtype),
        "batch_norm",
    )
    return (
        result,
        te.compute(moving_mean.shape, lambda *i: moving_mean[i], "moving_mean"),
        te.compute(moving_var.shape, lambda *i: moving_var[i], "moving_var"),
    )


# -- Instances and groups -------------------------------------------------------------------------


def _grouped_array(
    data: Array, gamma: Array, beta: Array, axis: int, groups: int, attrs: Any
) -> Array:
    """Return `data` normalised over all axes but the first and, of `axis`, over each group."""
    x = widened(data)
    shape = (*x.shape[:axis], groups, x.shape[axis] // max(groups, 1), *x.shape[axis + 1 :])
    split = x.reshape(shape)
    axes = tuple(k for k in range(split.ndim) if k not in (0, axis))
    distance = split - mean_of(split, axes)
    variance = mean_of(distance * distance, axes)
    result = (distance / np.sqrt(variance + x.dtype.type(attrs["epsilon"]))).reshape(x.shape)
    if attrs["scale"]:
        result = result * spread_along(widened(gamma), axis, data.ndim)
    if attrs["center"]:
        result = result + spread_along(widened(beta), axis, data.ndim)
    return np.asarray(result.astype(data.dtype))


def _grouped_tensor(
    data: Tensor, gamma: Tensor, beta: Tensor, axis: int, groups: Dim, attrs: Any
) -> Tensor:
    total = wide(data.dtype)
    channels = data.shape[axis]
    each: Dim = 1 if groups == channels else dim_floordiv(channels, groups)
    others = [k for k in range(data.rank) if k not in (0, axis)]
    extents = (each, *(data.shape[k] for k in others))
    statistics = (data.shape[0], groups)

    def mean_of(load: Callable[[Index], ScalarExpr], name: str) -> Tensor:
        def element(n: ScalarExpr, group: ScalarExpr) -> ScalarExpr:
            def term(channel: ScalarExpr, *r: ScalarExpr) -> ScalarExpr:
                at = dict(zip(others, r))
                at[0] = n
                at[axis] = group if each == 1 else group * te.dim(each) + channel
                return load(tuple(at[k] for k in range(data.rank)))

            folded = te.reduce("sum", extents, term)
            return te.scalar("divide", folded, te.cast(te.dim(product(extents)), total))

        return te.compute(statistics, element, name)

    def group_of(i: Index) -> Index:
        return i[0], i[axis] if each == 1 else i[axis] // te.dim(each)

    mean = mean_of(lambda i: load_wide(data, i), "mean")

    def square(i: Index) -> ScalarExpr:
        distance = load_wide(data, i) - mean[group_of(i)]
        return distance * distance

    variance = mean_of(square, "variance")
    inverse = te.compute(
        statistics,
        lambda *i: te.scalar(
            "divide", te.const(1.0, total), te.scalar("sqrt", variance[i] + attrs["epsilon"])
        ),
        "inverse",
    )

    def element(*i: ScalarExpr) -> ScalarExpr:
        group = group_of(i)
        result = (load_wide(data, i) - mean[group]) * inverse[group]
        if attrs["scale"]:
            result = result * load_wide(gamma, (i[axis],))
        if attrs["center"]:
            result = result + load_wide(beta, (i[axis],))
        return te.cast(result, data.dtype)

    return te.compute(data.shape, element, "normalised")


@operator("nn.instance_norm", fusion=Fusion.REDUCTION, ulp=8)
def instance_norm(
    data: Float,
    gamma: SameDtype,
    beta: SameDtype,
    *,
    axis: int = 1,
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
) -> TensorType:
    """Each channel of each element of the batch to mean 0 and variance 1, times `gamma` with
    `scale`, plus `beta` with `center`.

    Means are over all axes but the first and `axis`.

    >>> %x = float32 [[[1, 3]]]
    >>> %g = float32 [2]
    >>> %b = float32 [1]
    >>> nn.instance_norm(%x, %g, %b, epsilon=0f)
    [[[-1, 3]]]
    """
    place = _channel_axis("nn.instance_norm", axis, data.rank)
    _require_vectors("nn.instance_norm", data.shape[place], gamma=gamma, beta=beta)
    return TensorType(data.shape, data.dtype)


def _channel_axis(name: str, axis: int, rank: int) -> int:
    """Return the axis of channels, which cannot be that of the batch."""
    place = require_axis(axis, rank, f"`axis` of `{name}`")
    if place == 0:
        raise ShapeError(f"`axis` of `{name}` must not be the axis of the batch, 0", "bad-axis")
    return place


@instance_norm.infer_operands
@like(instance_norm.rule)
def _(data: Any, gamma: Any, beta: Any, **attrs: Any) -> Any:
    return _vector_types("nn.instance_norm", data, attrs["axis"], gamma, beta)


@instance_norm.numpy
@like(instance_norm.rule)
def _(data: Array, gamma: Array, beta: Array, **attrs: Any) -> Array:
    place = require_axis(attrs["axis"], data.ndim)
    return _grouped_array(data, gamma, beta, place, data.shape[place], attrs)


@instance_norm.compute
@like(instance_norm.rule)
def _(data: Tensor, gamma: Tensor, beta: Tensor, **attrs: Any) -> Tensor:
    place = require_axis(attrs["axis"], data.rank)
    return _grouped_tensor(data, gamma, beta, place, data.shape[place], attrs)


@instance_norm.reduction_size
@like(instance_norm.rule)
def _(data: TensorType, gamma: TensorType, beta: TensorType, **attrs: Any) -> Dim:
    return product(data.shape[1:])


@operator("nn.group_norm", fusion=Fusion.REDUCTION, ulp=8)
def group_norm(
    data: Float,
    gamma: SameDtype,
    beta: SameDtype,
    *,
    num_groups: int = 0,
    axis: int = 1,
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
) -> TensorType:
    """As `nn.instance_norm`, with `num_groups` groups of neighbouring channels that share a mean
    and a variance.

    >>> %x = float32 [[1, 3, 5, 9]]
    >>> %g = float32 [1, 1, 1, 1]
    >>> %b = float32 [0, 0, 0, 0]
    >>> nn.group_norm(%x, %g, %b, num_groups=2, epsilon=0f)
    [[-1, 1, -1, 1]]
    """
    place = _channel_axis("nn.group_norm", axis, data.rank)
    require_least("nn.group_norm", "num_groups", num_groups)
    what = "channels of `nn.group_norm` modulo `num_groups`, and 0,"
    require_equal(dim_mod(data.shape[place], num_groups), 0, what)
    _require_vectors("nn.group_norm", data.shape[place], gamma=gamma, beta=beta)
    return TensorType(data.shape, data.dtype)


@group_norm.infer_operands
@like(group_norm.rule)
def _(data: Any, gamma: Any, beta: Any, **attrs: Any) -> Any:
    return _vector_types("nn.group_norm", data, attrs["axis"], gamma, beta)


@group_norm.numpy
@like(group_norm.rule)
def _(data: Array, gamma: Array, beta: Array, **attrs: Any) -> Array:
    place = require_axis(attrs["axis"], data.ndim)
    return _grouped_array(data, gamma, beta, place, attrs["num_groups"], attrs)


@group_norm.compute
@like(group_norm.rule)
def _(data: Tensor, gamma: Tensor, beta: Tensor, **attrs: Any) -> Tensor:
    place = require_axis(attrs["axis"], data.rank)
    return _grouped_tensor(data, gamma, beta, place, attrs["num_groups"], attrs)


@group_norm.reduction_size
@like(group_norm.rule)
def _(data: TensorType, gamma: TensorType, beta: TensorType, **attrs: Any) -> Dim:
    return product(data.shape[1:])


# -- Length ---------------------------------------------------------------------------------------


@operator("nn.l2_normalize", fusion=Fusion.REDUCTION, ulp=4)
def l2_normalize(data: Float, *, eps: float, axis: Ints | None = None) -> TensorType:
    """`data` over its length along `axis`, or all axes: over the root of the sum of squares, which
    is at least `eps`.

    >>> %x = float32 [[3, 4]]
    >>> nn.l2_normalize(%x, eps=0f, axis=[1])
    [[0.6, 0.8]]
    """
    length_axes(axis, data.rank)
    return TensorType(data.shape, data.dtype)


def length_axes(axis: Ints | None, rank: int) -> Ints:
    """Return the axes along which `nn.l2_normalize` takes the length."""
    if not axis:
        return tuple(range(rank))
    return tuple(sorted(require_axes(axis, rank, "`axis` of `nn.l2_normalize`")))


@l2_normalize.numpy
def _(data: Array, *, eps: float, axis: Ints | None) -> Array:
    x = widened(data)
    total = np.sum(x * x, axis=length_axes(axis, data.ndim), keepdims=True, dtype=x.dtype)
    return np.asarray((x / np.sqrt(np.maximum(total, x.dtype.type(eps)))).astype(data.dtype))


@l2_normalize.compute
def _(data: Tensor, *, eps: float, axis: Ints | None) -> Tensor:
    axes = length_axes(axis, data.rank)

    def square(*i: ScalarExpr) -> ScalarExpr:
        x = load_wide(data, i)
        return x * x

    sums = fold_tensor(te.compute(data.shape, square, "square"), axes, True, "sum")
    lengths = te.compute(
        sums.shape, lambda *i: te.scalar("sqrt", te.scalar("maximum", sums[i], eps)), "length"
    )

    def element(*i: ScalarExpr) -> ScalarExpr:
        at = tuple(te.dim(0) if k in axes else v for k, v in enumerate(i))
        return te.cast(te.scalar("divide", load_wide(data, i), lengths[at]), data.dtype)

    return te.compute(data.shape, element, "l2_normalize")


@l2_normalize.reduction_size
def _(data: TensorType, *, eps: float, axis: Ints | None) -> Dim:
    return product(data.shape[a] for a in length_axes(axis, data.rank))


# -- Neighbours -----------------------------------------------------------------------------------


@operator("nn.lrn", fusion=Fusion.REDUCTION, ulp=8)
def lrn(
    data: Float,
    *,
    size: int = 5,
    axis: int = 1,
    bias: float = 2.0,
    alpha: float = 1e-4,
    beta: float = 0.75,
) -> TensorType:
    """Each element over `(bias + alpha / size * s) ** beta`, where s is the sum of the squares of
    the `size` neighbours along `axis` in whose middle it is.

    >>> %x = float32 [[1, 2, 3]]
    >>> nn.lrn(%x, size=3, bias=0f, alpha=3f, beta=1f)
    [[0.2, 0.1428571, 0.2307692]]
    """
    require_axis(axis, data.rank, "`axis` of `nn.lrn`")
    if size < 1 or size % 2 == 0:
        raise ShapeError(f"`size` of `nn.lrn` must be odd, got {size}", "bad-attribute")
    return TensorType(data.shape, data.dtype)


@lrn.numpy
@like(lrn.rule)
def _(data: Array, **attrs: Any) -> Array:
    x = widened(data)
    place, size = require_axis(attrs["axis"], data.ndim), attrs["size"]
    half = size // 2
    widths = [(half, half) if k == place else (0, 0) for k in range(data.ndim)]
    squares = np.pad(x * x, widths)
    total = np.zeros_like(x)
    for k in range(size):
        total = total + np.take(squares, np.arange(k, k + data.shape[place]), axis=place)
    kind = x.dtype.type
    divisor = kind(attrs["bias"]) + total * kind(attrs["alpha"]) / kind(size)
    return np.asarray((x / np.power(divisor, kind(attrs["beta"]))).astype(data.dtype))


@lrn.compute
@like(lrn.rule)
def _(data: Tensor, **attrs: Any) -> Tensor:
    place, size = require_axis(attrs["axis"], data.rank), attrs["size"]
    extent = data.shape[place]

    def squares(*i: ScalarExpr) -> ScalarExpr:
        def term(k: ScalarExpr) -> ScalarExpr:
            at = i[place] + k - size // 2
            x = load_wide(data, (*i[:place], at, *i[place + 1 :]))
            return te.select(te.in_range(at, extent), x * x, 0)

        return te.reduce("sum", (size,), term)

    sums = te.compute(data.shape, squares, "squares")

    def element(*i: ScalarExpr) -> ScalarExpr:
        x = load_wide(data, i)
        share = te.scalar("divide", sums[i] * attrs["alpha"], te.const(size, x.dtype))
        divisor = te.scalar("power", share + attrs["bias"], te.const(attrs["beta"], x.dtype))
        return te.cast(te.scalar("divide", x, divisor), data.dtype)

    return te.compute(data.shape, element, "lrn")


@lrn.reduction_size
@like(lrn.rule)
def _(data: TensorType, **attrs: Any) -> Dim:
    size: int = attrs["size"]
    return size


OPERATORS: tuple[Operator, ...] = (
    batch_norm,
    group_norm,
    instance_norm,
    l2_normalize,
    lrn,
)
