"""Convolutions over one, two and three axes of space, transposed ones, and their gradients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from relayvm.base.diagnostics import quantity
from relayvm.base.dims import Dim, dim_add, dim_floordiv, dim_mod, dim_mul, dim_sub
from relayvm.base.dtypes import DType, dtype_of
from relayvm.base.shapes import ShapeError, require_equal
from relayvm.ir.types import TensorType, Type
from relayvm.kernels.compute import Tensor
from relayvm.ops import bilinear
from relayvm.ops.axes import product, require_least, require_rank, sizes_of
from relayvm.ops.bilinear import Plan
from relayvm.ops.layouts import SPATIAL, data_layout, kernel_layout
from relayvm.ops.numeric import Array
from relayvm.ops.operator import Fusion, Operator, operator
from relayvm.ops.schema import Dims, Ints, Numeric, like, number_dtype
from relayvm.ops.windows import per_axis, read_window, require_natural

Attributes = Mapping[str, Any]
Types = tuple["Type | None", ...]

# One axis has a number for each side, as in the original.
NO_PADDING: dict[int, Ints] = {1: (0, 0), 2: (0, 0), 3: (0, 0, 0)}


def plan_of(name: str, spatial: int, attrs: Attributes) -> Plan:
    """Return the convolution that attributes describe; raises ShapeError `bad-attribute`."""
    groups = attrs["groups"]
    require_least(name, "groups", groups)
    data = data_layout(attrs["data_layout"], spatial, f"`data_layout` of `{name}`")
    given = attrs["out_layout"]
    return Plan(
        read_window(name, spatial, attrs["strides"], attrs["padding"], attrs["dilation"]),
        groups,
        data,
        kernel_layout(attrs["kernel_layout"], spatial, f"`kernel_layout` of `{name}`"),
        data_layout(given, spatial, f"`out_layout` of `{name}`") if given else data,
    )


def _canonical(name: str, plan: Plan, data: TensorType, weight: TensorType) -> tuple[Dims, Dims]:
    """Return the shapes of data and weight with canonical axes, their channels checked."""
    rank = len(plan.data.places)
    require_rank(data, rank, rank, f"`data` of `{name}`")
    require_rank(weight, rank, rank, f"`weight` of `{name}`")
    return plan.data.canonical(data.shape), plan.weight.canonical(weight.shape)


def require_channels(name: str, groups: int, inputs: Dim, w: Dims) -> None:
    """Check what a weight [o, c / groups, ...] says about channels."""
    what = f"channels of `data` of `{name}` and those of `weight` in all groups"
    require_equal(inputs, dim_mul(w[1], groups), what)
    what = f"output channels of `weight` of `{name}` modulo `groups`, and 0,"
    require_equal(dim_mod(w[0], groups), 0, what)


def require_entries(name: str, taps: Dims, spatial: int) -> None:
    """Raise ShapeError unless `kernel_size` has one entry for each axis of space."""
    if len(taps) != spatial:
        wanted = quantity(spatial, "entry", "entries")
        message = f"`kernel_size` of `{name}` must have {wanted}, got {list(taps)}"
        raise ShapeError(message, "bad-attribute")


def require_taps(name: str, w: Dims, attrs: Attributes) -> Dims:
    """Return the taps of a weight, which `kernel_size` may know better."""
    given = attrs["kernel_size"]
    if given is None:
        return w[2:]
    require_entries(name, given, len(w) - 2)
    return tuple(
        require_equal(k, size, f"taps of `weight` of `{name}` and `kernel_size`")
        for k, size in zip(w[2:], given)
    )


def _dtype(attrs: Attributes, data: TensorType | Tensor | Array) -> DType:
    return attrs["out_dtype"] or dtype_of(data.dtype)


def result_sizes(name: str, plan: Plan, x: Dims, taps: Dims) -> Dims:
    """Return the sizes of space of the convolution of data of shape `x`."""
    what = f"the result of `{name}`"
    return tuple(
        plan.window.result(axis, size, k, what) for axis, (size, k) in enumerate(zip(x[2:], taps))
    )


_NAMES = ("strides", "padding", "dilation", "groups", "data_layout", "kernel_layout", "out_layout")


def _chosen(values: Attributes, *more: str) -> dict[str, Any]:
    return {name: values[name] for name in (*_NAMES, *more)}


# -- Convolution ----------------------------------------------------------------------------------


def _convolution(spatial: int, example: str) -> Operator:
    name, letters = f"nn.conv{spatial}d", SPATIAL[spatial]

    def rule(
        data: Numeric,
        weight: Numeric,
        *,
        strides: Ints = (1,) * spatial,
        padding: Ints = NO_PADDING[spatial],
        dilation: Ints = (1,) * spatial,
        groups: int = 1,
        channels: Dim | None = None,
        kernel_size: Dims | None = None,
        data_layout: str = f"NC{letters}",
        kernel_layout: str = f"OI{letters}",
        out_layout: str = "",
        out_dtype: DType | None = None,
    ) -> TensorType:
        attrs = _chosen(locals(), "kernel_size", "out_dtype")
        plan = plan_of(name, spatial, attrs)
        x, w = _canonical(name, plan, data, weight)
        require_channels(name, groups, x[1], w)
        out = w[0]
        if channels is not None:
            out = require_equal(out, channels, f"output channels of `{name}` and `channels`")
        sizes = result_sizes(name, plan, x, require_taps(name, w, attrs))
        dtype = number_dtype(name, out_dtype, data.dtype)
        return TensorType(plan.result.arranged((x[0], out, *sizes)), dtype)

    row = operator(name, fusion=Fusion.CONTRACTION, doc=f"{_CONV.format(n=spatial)}{example}")(rule)
    _add_convolution_facets(row, spatial)
    return row


def _add_convolution_facets(row: Operator, spatial: int) -> None:
    name, rule, every = row.name, row.rule, (*range(spatial + 2),)

    @row.infer_operands
    @like(rule)
    def _(data: TensorType | None, weight: TensorType | None, **attrs: Any) -> Types:
        channels, taps, groups = attrs["channels"], attrs["kernel_size"], attrs["groups"]
        if data is None or channels is None or taps is None:
            return data, weight
        require_rank(data, spatial + 2, spatial + 2, f"`data` of `{name}`")
        require_entries(name, taps, spatial)
        plan = plan_of(name, spatial, attrs)
        inputs = plan.data.canonical(data.shape)[1]
        shape = (channels, dim_floordiv(inputs, groups), *taps)
        return data, TensorType(plan.weight.arranged(shape), data.dtype)

    @row.numpy
    @like(rule)
    def _(data: Array, weight: Array, **attrs: Any) -> Array:
        plan, dtype = plan_of(name, spatial, attrs), _dtype(attrs, data)
        x, w = data.transpose(plan.data.places), weight.transpose(plan.weight.places)
        sizes = sizes_of(result_sizes(name, plan, x.shape, w.shape[2:]))
        result = bilinear.result_array(x, w, plan, sizes, dtype)
        return np.asarray(result.transpose(plan.result.arranged(every)))

    @row.compute
    @like(rule)
    def _(data: Tensor, weight: Tensor, **attrs: Any) -> Tensor:
        plan, dtype = plan_of(name, spatial, attrs), _dtype(attrs, data)
        x, w = plan.data.canonical(data.shape), plan.weight.canonical(weight.shape)
        sizes = result_sizes(name, plan, x, w[2:])
        return bilinear.result_tensor(data, weight, plan, sizes, dtype)

    @row.reduction_size
    @like(rule)
    def _(data: TensorType, weight: TensorType, **attrs: Any) -> Dim:
        return product(plan_of(name, spatial, attrs).weight.canonical(weight.shape)[1:])


_CONV = """Convolution over {n} axes of space: sums of products of `weight` and windows of `data`.

`data` is [n, c, space], `weight` [o, c / groups, taps] in the given layouts, the result
[n, o, space] in `out_layout`, or that of the data. A result of a group sees the channels of the
group only. `padding` has one number, one an axis, or those before and then those after each axis.

"""

# -- Transposed convolution -----------------------------------------------------------------------


def swapped(attrs: Attributes) -> dict[str, Any]:
    """Return attributes of the convolution whose gradient of data a transposed one is: from the
    result to the data, so that their layouts and the channels of the weight change places.
    """
    result = attrs["out_layout"] or attrs["data_layout"]
    turned = attrs["kernel_layout"].translate(str.maketrans("IO", "OI"))
    return {
        **attrs,
        "data_layout": result,
        "out_layout": attrs["data_layout"],
        "kernel_layout": turned,
    }


def _transposed_sizes(name: str, plan: Plan, x: Dims, taps: Dims, output_padding: Ints) -> Dims:
    """Return `(size - 1) * stride + span - padding + output_padding` for each axis."""
    more = per_axis(name, "output_padding", output_padding, len(taps), 0)
    window, sizes = plan.window, []
    for axis, (size, k) in enumerate(zip(x[2:], taps)):
        if more[axis] >= max(window.strides[axis], window.dilation[axis]):
            message = f"`output_padding` of `{name}` must be below the stride or the dilation"
            raise ShapeError(f"{message}, got {list(output_padding)}", "bad-attribute")
        fixed = more[axis] - window.before[axis] - window.after[axis]
        whole = dim_add(dim_mul(dim_sub(size, 1), window.strides[axis]), window.span(axis, k))
        what = f"axis {axis} of space of the result of `{name}`"
        sizes.append(require_natural(dim_add(whole, fixed), what))
    return tuple(sizes)


def _transposed(spatial: int, example: str) -> Operator:
    name, letters = f"nn.conv{spatial}d_transpose", SPATIAL[spatial]

    def rule(
        data: Numeric,
        weight: Numeric,
        *,
        channels: Dim | None = None,
        kernel_size: Dims | None = None,
        strides: Ints = (1,) * spatial,
        output_padding: Ints = (0,) * spatial,
        padding: Ints = (0,) * spatial,
        dilation: Ints = (1,) * spatial,
        groups: int = 1,
        data_layout: str = f"NC{letters}",
        kernel_layout: str = f"IO{letters}",
        out_layout: str = "",
        out_dtype: DType | None = None,
    ) -> TensorType:
        attrs = _chosen(locals(), "kernel_size", "out_dtype")
        plan = plan_of(name, spatial, swapped(attrs))
        require_rank(data, spatial + 2, spatial + 2, f"`data` of `{name}`")
        require_rank(weight, spatial + 2, spatial + 2, f"`weight` of `{name}`")
        x, w = plan.result.canonical(data.shape), plan.weight.canonical(weight.shape)
        what = f"channels of `data` of `{name}`"
        require_equal(x[1], w[0], f"{what} and input channels of `weight`")
        require_equal(dim_mod(x[1], groups), 0, f"{what} modulo `groups`, and 0,")
        out = dim_mul(w[1], groups)
        if channels is not None:
            out = require_equal(out, channels, f"output channels of `{name}` and `channels`")
        taps = require_taps(name, w, attrs)
        sizes = _transposed_sizes(name, plan, x, taps, output_padding)
        dtype = number_dtype(name, out_dtype, data.dtype)
        return TensorType(plan.data.arranged((x[0], out, *sizes)), dtype)

    doc = f"{_TRANSPOSED.format(n=spatial)}{example}"
    row = operator(name, fusion=Fusion.CONTRACTION, doc=doc)(rule)
    _add_transposed_facets(row, spatial)
    return row


def _add_transposed_facets(row: Operator, spatial: int) -> None:
    name, rule, every = row.name, row.rule, (*range(spatial + 2),)

    @row.infer_operands
    @like(rule)
    def _(data: TensorType | None, weight: TensorType | None, **attrs: Any) -> Types:
        channels, taps, groups = attrs["channels"], attrs["kernel_size"], attrs["groups"]
        if data is None or channels is None or taps is None:
            return data, weight
        require_rank(data, spatial + 2, spatial + 2, f"`data` of `{name}`")
        require_entries(name, taps, spatial)
        plan = plan_of(name, spatial, swapped(attrs))
        inputs = plan.result.canonical(data.shape)[1]
        shape = (inputs, dim_floordiv(channels, groups), *taps)
        return data, TensorType(plan.weight.arranged(shape), data.dtype)

    @row.numpy
    @like(rule)
    def _(data: Array, weight: Array, **attrs: Any) -> Array:
        plan, dtype = plan_of(name, spatial, swapped(attrs)), _dtype(attrs, data)
        x, w = data.transpose(plan.result.places), weight.transpose(plan.weight.places)
        dims = _transposed_sizes(name, plan, x.shape, w.shape[2:], attrs["output_padding"])
        result = bilinear.data_gradient_array(x, w, plan, sizes_of(dims), dtype)
        return np.asarray(result.transpose(plan.data.arranged(every)))

    @row.compute
    @like(rule)
    def _(data: Tensor, weight: Tensor, **attrs: Any) -> Tensor:
        plan, dtype = plan_of(name, spatial, swapped(attrs)), _dtype(attrs, data)
        x, w = plan.result.canonical(data.shape), plan.weight.canonical(weight.shape)
        sizes = _transposed_sizes(name, plan, x, w[2:], attrs["output_padding"])
        shape = (x[0], dim_mul(w[1], plan.groups), *sizes)
        return bilinear.data_gradient_tensor(data, weight, plan, shape, dtype)

    @row.reduction_size
    @like(rule)
    def _(data: TensorType, weight: TensorType, **attrs: Any) -> Dim:
        w = plan_of(name, spatial, swapped(attrs)).weight.canonical(weight.shape)
        return product((dim_floordiv(w[0], attrs["groups"]), *w[2:]))


_TRANSPOSED = """Transposed convolution over {n} axes of space: each element of `data` adds its \
multiple of `weight` to a window of the result.

`data` is [n, c, space], `weight` [c, o / groups, taps] in the given layouts, where I stands for c.
The size of an axis of the result is `(size - 1) * stride + (taps - 1) * dilation + 1` less the
padding at both ends, plus `output_padding` at the end.

"""

# -- Rows -----------------------------------------------------------------------------------------

_EXAMPLES = {
    1: (
        ">>> %x = float32 [[[1, 2, 3]]]\n>>> %w = float32 [[[1, 10]]]\n",
        "[[[21, 32]]]",
        "[[[1, 12, 23, 30]]]",
    ),
    2: (
        ">>> %x = float32 [[[[1, 2, 3]]]]\n>>> %w = float32 [[[[1, 10]]]]\n",
        "[[[[21, 32]]]]",
        "[[[[1, 12, 23, 30]]]]",
    ),
    3: (
        ">>> %x = float32 [[[[[1, 2, 3]]]]]\n>>> %w = float32 [[[[[1, 10]]]]]\n",
        "[[[[[21, 32]]]]]",
        "[[[[[1, 12, 23, 30]]]]]",
    ),
}

CONVOLUTIONS = tuple(
    _convolution(n, f"{given}>>> nn.conv{n}d(%x, %w)\n{result}")
    for n, (given, result, _) in _EXAMPLES.items()
)
TRANSPOSED = tuple(
    _transposed(n, f"{given}>>> nn.conv{n}d_transpose(%x, %w)\n{result}")
    for n, (given, _, result) in _EXAMPLES.items()
)
OPERATORS = (*CONVOLUTIONS, *TRANSPOSED)
