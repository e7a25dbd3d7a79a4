"""What gradients of convolutions are made of: the maps back to the data and to the weight."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from relayvm.base.dims import Dim, dim_floordiv
from relayvm.base.dtypes import DType, dtype_of
from relayvm.base.shapes import ShapeError, require_equal
from relayvm.ir.types import TensorType
from relayvm.kernels.compute import Tensor
from relayvm.ops import bilinear
from relayvm.ops.axes import product, require_rank, sizes_of
from relayvm.ops.bilinear import Plan
from relayvm.ops.convolution import NO_PADDING, plan_of, require_channels, result_sizes
from relayvm.ops.layouts import SPATIAL
from relayvm.ops.numeric import Array
from relayvm.ops.operator import Fusion, Operator, operator
from relayvm.ops.schema import AnyTensor, Dims, Float, Ints, Numeric, like, number_dtype


def _checked(
    name: str, plan: Plan, grad: TensorType, data: TensorType, weight: TensorType
) -> tuple[Dims, Dims, Dims]:
    """Return the canonical shapes of result, data and weight of one convolution, checked."""
    rank = len(plan.data.places)
    for operand, tensor in (("grad", grad), ("data", data), ("weight", weight)):
        require_rank(tensor, rank, rank, f"`{operand}` of `{name}`")
    g, x = plan.result.canonical(grad.shape), plan.data.canonical(data.shape)
    w = plan.weight.canonical(weight.shape)
    require_channels(name, plan.groups, x[1], w)
    require_equal(g[0], x[0], f"batches of `grad` and `data` of `{name}`")
    require_equal(g[1], w[0], f"channels of `grad` and output channels of `weight` of `{name}`")
    for size, wanted in zip(g[2:], result_sizes(name, plan, x, w[2:])):
        require_equal(size, wanted, f"sizes of `grad` of `{name}` and of the convolution")
    return g, x, w


def _data_grad(spatial: int, example: str) -> Operator:
    name, letters = f"nn.conv{spatial}d_data_grad", SPATIAL[spatial]
    every = (*range(spatial + 2),)

    def rule(
        grad: Float,
        weight: Float,
        data: AnyTensor,
        *,
        strides: Ints = (1,) * spatial,
        padding: Ints = NO_PADDING[spatial],
        dilation: Ints = (1,) * spatial,
        groups: int = 1,
        data_layout: str = f"NC{letters}",
        kernel_layout: str = f"OI{letters}",
        out_layout: str = "",
    ) -> TensorType:
        _checked(name, plan_of(name, spatial, locals()), grad, data, weight)
        return TensorType(data.shape, grad.dtype)

    doc = (
        f"Sums, for each element of `data`, of what it adds to the result of `nn.conv{spatial}d`"
        f" with `weight`, times `grad`.\n\nThe gradient of the data; its values are not read.\n\n"
    )
    row = operator(name, fusion=Fusion.CONTRACTION, doc=f"{doc}{example}")(rule)

    @row.numpy
    @like(rule)
    def _(grad: Array, weight: Array, data: Array, **attrs: Any) -> Array:
        plan, dtype = plan_of(name, spatial, attrs), dtype_of(grad.dtype)
        g, w = grad.transpose(plan.result.places), weight.transpose(plan.weight.places)
        sizes = plan.data.canonical(data.shape)[2:]
        result = bilinear.data_gradient_array(g, w, plan, sizes, dtype)
        return np.asarray(result.transpose(plan.data.arranged(every)))

    @row.compute
    @like(rule)
    def _(grad: Tensor, weight: Tensor, data: Tensor, **attrs: Any) -> Tensor:
        plan = plan_of(name, spatial, attrs)
        shape = plan.data.canonical(data.shape)
        return bilinear.data_gradient_tensor(grad, weight, plan, shape, grad.dtype)

    @row.reduction_size
    @like(rule)
    def _(grad: TensorType, weight: TensorType, data: TensorType, **attrs: Any) -> Dim:
        w = plan_of(name, spatial, attrs).weight.canonical(weight.shape)
        return product((dim_floordiv(w[0], attrs["groups"]), *w[2:]))

    return row


def _weight_grad(spatial: int, example: str) -> Operator:
    name, letters = f"nn.conv{spatial}d_weight_grad", SPATIAL[spatial]
    every = (*range(spatial + 2),)

    def rule(
        grad: Float,
        data: Float,
        weight: AnyTensor,
        *,
        strides: Ints = (1,) * spatial,
        padding: Ints = NO_PADDING[spatial],
        dilation: Ints = (1,) * spatial,
        groups: int = 1,
        data_layout: str = f"NC{letters}",
        kernel_layout: str = f"OI{letters}",
        out_layout: str = "",
    ) -> TensorType:
        _checked(name, plan_of(name, spatial, locals()), grad, data, weight)
        return TensorType(weight.shape, grad.dtype)

    doc = (
        f"Sums, for each element of `weight`, of the elements of `data` that it is multiplied with"
        f" in `nn.conv{spatial}d`, times `grad`.\n\n"
        f"The gradient of the weight; its values are not read.\n\n"
    )
    row = operator(name, fusion=Fusion.CONTRACTION, doc=f"{doc}{example}")(rule)

    @row.numpy
    @like(rule)
    def _(grad: Array, data: Array, weight: Array, **attrs: Any) -> Array:
        plan, dtype = plan_of(name, spatial, attrs), dtype_of(grad.dtype)
        g, x = grad.transpose(plan.result.places), data.transpose(plan.data.places)
        taps = plan.weight.canonical(weight.shape)[2:]
        result = bilinear.weight_gradient_array(g, x, plan, taps, dtype)
        return np.asarray(result.transpose(plan.weight.arranged(every)))

    @row.compute
    @like(rule)
    def _(grad: Tensor, data: Tensor, weight: Tensor, **attrs: Any) -> Tensor:
        plan = plan_of(name, spatial, attrs)
        shape = plan.weight.canonical(weight.shape)
        return bilinear.weight_gradient_tensor(grad, data, plan, shape, grad.dtype)

    @row.reduction_size
    @like(rule)
    def _(grad: TensorType, data: TensorType, weight: TensorType, **attrs: Any) -> Dim:
        g = plan_of(name, spatial, attrs).result.canonical(grad.shape)
        return product((g[0], *g[2:]))

    return row


# -- The original's form --------------------------------------------------------------------------


def backward_attributes(attrs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes of the convolution whose weight is wanted.

    In the original the roles of the layouts turn with the operands: `data_layout` is that of
    `grad`, `kernel_layout` that of `data` (O for n and I for c), `out_layout` that of the weight.
    """
    data = attrs["kernel_layout"].translate(str.maketrans("OI", "NC"))
    return {
        **attrs,
        "data_layout": data,
        "kernel_layout": attrs["out_layout"] or "OIHW",
        "out_layout": attrs["data_layout"],
    }


def _backward_plan(attrs: Mapping[str, Any]) -> Plan:
    return plan_of("nn.conv2d_backward_weight", 2, backward_attributes(attrs))


def _weight_shape(plan: Plan, grad: Dims, data: Dims, attrs: Mapping[str, Any]) -> Dims:
    taps = attrs["kernel_size"]
    if taps is None or len(taps) != 2:
        message = "`nn.conv2d_backward_weight` needs `kernel_size` with two entries"
        raise ShapeError(message, "bad-attribute")
    g, x = plan.result.canonical(grad), plan.data.canonical(data)
    return (g[1], dim_floordiv(x[1], plan.groups), *taps)


@operator("nn.conv2d_backward_weight", fusion=Fusion.CONTRACTION)
def conv2d_backward_weight(
    grad: Numeric,
    data: Numeric,
    *,
    strides: Ints = (1, 1),
    padding: Ints = (0, 0),
    dilation: Ints = (1, 1),
    groups: int = 1,
    channels: Dim | None = None,
    kernel_size: Dims | None = None,
    data_layout: str = "NCHW",
    kernel_layout: str = "OIHW",
    out_layout: str = "",
    out_dtype: DType | None = None,
) -> TensorType:
    """The gradient of the weight of `nn.conv2d`, whose taps are `kernel_size`.

    `data_layout` is that of `grad`, `kernel_layout` that of `data`, where O and I may stand for N
    and C, and `out_layout` that of the result, OIHW if it is empty.

    >>> %g = float32 [[[[1, 10]]]]
    >>> %x = float32 [[[[1, 2, 3]]]]
    >>> nn.conv2d_backward_weight(%g, %x, kernel_size=(1, 2))
    [[[[21, 32]]]]
    """
    attrs = locals()
    plan = _backward_plan(attrs)
    for operand, tensor in (("grad", grad), ("data", data)):
        require_rank(tensor, 4, 4, f"`{operand}` of `nn.conv2d_backward_weight`")
    shape = _weight_shape(plan, grad.shape, data.shape, attrs)
    if channels is not None:
        what = "channels of `grad` of `nn.conv2d_backward_weight` and `channels`"
        shape = (require_equal(shape[0], channels, what), *shape[1:])
    dtype = number_dtype("nn.conv2d_backward_weight", out_dtype, grad.dtype)
    weight = TensorType(plan.weight.arranged(shape), dtype)
    _checked("nn.conv2d_backward_weight", plan, grad, data, weight)
    return weight


@conv2d_backward_weight.numpy
@like(conv2d_backward_weight.rule)
def _(grad: Array, data: Array, **attrs: Any) -> Array:
    plan = _backward_plan(attrs)
    shape = sizes_of(_weight_shape(plan, grad.shape, data.shape, attrs))
    g, x = grad.transpose(plan.result.places), data.transpose(plan.data.places)
    dtype = attrs["out_dtype"] or dtype_of(grad.dtype)
    result = bilinear.weight_gradient_array(g, x, plan, shape[2:], dtype)
    return np.asarray(result.transpose(plan.weight.arranged((0, 1, 2, 3))))


@conv2d_backward_weight.compute
@like(conv2d_backward_weight.rule)
def _(grad: Tensor, data: Tensor, **attrs: Any) -> Tensor:
    plan = _backward_plan(attrs)
    shape = _weight_shape(plan, grad.shape, data.shape, attrs)
    dtype = attrs["out_dtype"] or grad.dtype
    return bilinear.weight_gradient_tensor(grad, data, plan, shape, dtype)


@conv2d_backward_weight.reduction_size
@like(conv2d_backward_weight.rule)
def _(grad: TensorType, data: TensorType, **attrs: Any) -> Dim:
    g = _backward_plan(attrs).result.canonical(grad.shape)
    return product((g[0], *g[2:]))


def _nested(spatial: int, row: str) -> str:
    """Return a row of numbers in the brackets of batch, channels and space."""
    return "[" * (spatial + 1) + row + "]" * (spatial + 1)


def _given(spatial: int, **rows: str) -> str:
    return "".join(f">>> %{k} = float32 {_nested(spatial, v)}\n" for k, v in rows.items())


DATA_GRADS = tuple(
    _data_grad(
        n,
        _given(n, g="[1, 1]", w="[1, 10]", x="[0, 0, 0]")
        + f">>> nn.conv{n}d_data_grad(%g, %w, %x)\n{_nested(n, '[1, 11, 10]')}",
    )
    for n in (1, 2, 3)
)
WEIGHT_GRADS = tuple(
    _weight_grad(
        n,
        _given(n, g="[1, 10]", x="[1, 2, 3]", w="[0, 0]")
        + f">>> nn.conv{n}d_weight_grad(%g, %x, %w)\n{_nested(n, '[21, 32]')}",
    )
    for n in (1, 2, 3)
)
OPERATORS = (*DATA_GRADS, *WEIGHT_GRADS, conv2d_backward_weight)
