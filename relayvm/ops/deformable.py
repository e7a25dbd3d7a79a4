"""Convolution whose windows sample the data at places that another tensor shifts."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from relayvm.base.dims import Dim, dim_floordiv, dim_mod, dim_mul
from relayvm.base.dtypes import DType, dtype_of
from relayvm.base.shapes import require_equal
from relayvm.ir.types import TensorType
from relayvm.kernels import compute as te
from relayvm.kernels.compute import ScalarExpr, Tensor
from relayvm.ops.axes import product, require_least, require_rank, sizes_of
from relayvm.ops.bilinear import Plan
from relayvm.ops.convolution import (
    plan_of,
    require_channels,
    require_entries,
    require_taps,
    result_sizes,
)
from relayvm.ops.loads import load_wide, wide
from relayvm.ops.numeric import Array
from relayvm.ops.operator import Fusion, operator
from relayvm.ops.schema import Dims, Float, Ints, SameDtype, like, number_dtype

_NAME = "nn.deformable_conv2d"


@operator(_NAME, fusion=Fusion.CONTRACTION, ulp=8)
def deformable_conv2d(
    data: Float,
    offset: SameDtype,
    weight: SameDtype,
    *,
    strides: Ints = (1, 1),
    padding: Ints = (0, 0),
    dilation: Ints = (1, 1),
    deformable_groups: int = 1,
    groups: int = 1,
    channels: Dim | None = None,
    kernel_size: Dims | None = None,
    data_layout: str = "NCHW",
    kernel_layout: str = "OIHW",
    out_layout: str = "",
    out_dtype: DType | None = None,
) -> TensorType:
    """`nn.conv2d` whose taps read `data` where `offset` shifts them to, between elements.

    `offset` is [n, 2 * taps * deformable_groups, rows, columns] in the layout of the data: for each
    group of channels and tap how far down and how far to the right. Between elements the four
    neighbours are interpolated, outside the data there is 0.

    >>> %x = float32 [[[[1, 2, 4]]]]
    >>> %o = float32 [[[[0, 0, 0]], [[0.5, 1, 0]]]]
    >>> %w = float32 [[[[1]]]]
    >>> nn.deformable_conv2d(%x, %o, %w)
    [[[[1.5, 4, 4]]]]
    """
    attrs = locals()
    plan = plan_of(_NAME, 2, attrs)
    for operand, tensor in (("data", data), ("offset", offset), ("weight", weight)):
        require_rank(tensor, 4, 4, f"`{operand}` of `{_NAME}`")
    x, o = plan.data.canonical(data.shape), plan.data.canonical(offset.shape)
    w = plan.weight.canonical(weight.shape)
    require_channels(_NAME, groups, x[1], w)
    require_least(_NAME, "deformable_groups", deformable_groups)
    what = f"channels of `data` of `{_NAME}` modulo `deformable_groups`, and 0,"
    require_equal(dim_mod(x[1], deformable_groups), 0, what)
    out = w[0]
    if channels is not None:
        out = require_equal(out, channels, f"output channels of `{_NAME}` and `channels`")
    taps = require_taps(_NAME, w, attrs)
    sizes = result_sizes(_NAME, plan, x, taps)
    wanted = (x[0], dim_mul(product(taps), 2 * deformable_groups), *sizes)
    for axis, (a, b) in enumerate(zip(o, wanted)):
        require_equal(a, b, f"axis {axis} of `offset` of `{_NAME}` and what the others need")
    dtype = number_dtype(_NAME, out_dtype, data.dtype)
    return TensorType(plan.result.arranged((x[0], out, *sizes)), dtype)


@deformable_conv2d.infer_operands
@like(deformable_conv2d.rule)
def _(data: Any, offset: Any, weight: Any, **attrs: Any) -> Any:
    channels, taps = attrs["channels"], attrs["kernel_size"]
    if data is None or channels is None or taps is None:
        return data, offset, weight
    require_rank(data, 4, 4, f"`data` of `{_NAME}`")
    require_entries(_NAME, taps, 2)
    plan = plan_of(_NAME, 2, attrs)
    x = plan.data.canonical(data.shape)
    shape = (channels, dim_floordiv(x[1], attrs["groups"]), *taps)
    kernel = TensorType(plan.weight.arranged(shape), data.dtype)
    sizes = result_sizes(_NAME, plan, x, taps)
    count = dim_mul(product(taps), 2 * attrs["deformable_groups"])
    moved = TensorType(plan.data.arranged((x[0], count, *sizes)), data.dtype)
    return data, moved, kernel


# -- numpy ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Corners:
    """The elements around a place, the shares of the second ones, and whether it is inside.

    Its parts are numbers of a loop, or arrays [n, rows, columns] of them.
    """

    rows: tuple[Any, Any]
    columns: tuple[Any, Any]
    down: Any
    across: Any
    inside: Any

    def value(self, at: Callable[[Any, Any], ScalarExpr]) -> ScalarExpr:
        """Return the value between elements that `at` reads, 0 outside."""
        (top, bottom), (left, beside) = self.rows, self.columns
        f, g = self.down, self.across
        above = at(top, left) * (1.0 - g) + at(top, beside) * g
        below = at(bottom, left) * (1.0 - g) + at(bottom, beside) * g
        return te.select(self.inside, above * (1.0 - f) + below * f, 0)


def array_corners(plan: Plan, shift: Array, tap: Sequence[int], extents: Sequence[int]) -> Corners:
    """Return what a tap reads in data of `extents`, shifted by [n, 2, rows, columns]."""
    window = plan.window
    steps = zip(shift.shape[2:], window.strides, window.before, tap, window.dilation)
    own = [(np.arange(size) * s - b + k * d).astype(shift.dtype) for size, s, b, k, d in steps]
    places = [own[0][:, None] + shift[:, 0], own[1][None, :] + shift[:, 1]]
    inside = np.logical_and.reduce([(p >= 0) & (p < n) for p, n in zip(places, extents)])
    elements, rests = [], []
    for place, extent in zip(places, extents):
        held = np.where(inside, place, shift.dtype.type(0))
        low = np.floor(held)
        first = low.astype(np.int64)
        elements.append((first, np.minimum(first + 1, extent - 1)))
        rests.append(held - low)
    return Corners(elements[0], elements[1], rests[0], rests[1], inside)


def _sampled(x: Array, at: Corners) -> Array:
    """Return [n, c, rows, columns] the values of `x` at places [n, rows, columns]."""
    f, g, inside = at.down[:, None], at.across[:, None], at.inside[:, None]
    batch = np.arange(x.shape[0])[:, None, None]
    one = x.dtype.type(1)

    def line(row: Array) -> Array:
        first, second = (np.moveaxis(x[batch, :, row, k], -1, 1) for k in at.columns)
        return np.asarray(first * (one - g) + second * g)

    above, below = map(line, at.rows)
    return np.asarray(np.where(inside, above * (one - f) + below * f, x.dtype.type(0)))


@deformable_conv2d.numpy
@like(deformable_conv2d.rule)
def _(data: Array, offset: Array, weight: Array, **attrs: Any) -> Array:
    plan, dtype = plan_of(_NAME, 2, attrs), attrs["out_dtype"] or dtype_of(data.dtype)
    total = wide(dtype_of(data.dtype)).numpy
    x = data.transpose(plan.data.places).astype(total)
    shifts = offset.transpose(plan.data.places).astype(total)
    w = weight.transpose(plan.weight.places).astype(total)
    n, c = x.shape[:2]
    o, inner, *taps = w.shape
    sizes = sizes_of(result_sizes(_NAME, plan, x.shape, tuple(taps)))
    moved, parts = attrs["deformable_groups"], plan.groups
    shifts = shifts.reshape(n, moved, taps[0] * taps[1], 2, *sizes)
    result = np.zeros((n, parts, o // parts, sizes[0] * sizes[1]), total)
    for tap in itertools.product(*(range(k) for k in taps)) if x.size else ():
        columns = []
        for group in range(moved):
            shift = shifts[:, group, tap[0] * taps[1] + tap[1]]
            at = array_corners(plan, shift, tap, x.shape[2:])
            own = slice(group * c // moved, (group + 1) * c // moved)
            columns.append(_sampled(x[:, own], at))
        patch = np.concatenate(columns, axis=1).reshape(n, parts, c // parts, -1)
        kernel = w[:, :, tap[0], tap[1]].reshape(parts, o // parts, inner)
        result += np.matmul(kernel, patch)
    shaped = result.reshape(n, o, *sizes).astype(dtype.numpy)
    return np.asarray(shaped.transpose(plan.result.arranged((0, 1, 2, 3))))


# -- Loops ----------------------------------------------------------------------------------------


def corners_of(down: ScalarExpr, right: ScalarExpr, extents: Dims) -> Corners:
    """Return the elements around a place of the data."""
    inside: ScalarExpr = te.scalar("logical_and", down >= 0.0, right >= 0.0)
    elements, rests = [], []
    for place, extent in zip((down, right), extents):
        below = place < te.cast(te.dim(extent), place.dtype)
        inside = te.scalar("logical_and", inside, below)
        low = te.scalar("floor", place)
        first = te.cast(low, "int64")
        around = (te.index(first, extent, "clip"), te.index(first + 1, extent, "clip"))
        elements.append(around)
        rests.append(place - low)
    return Corners(elements[0], elements[1], rests[0], rests[1], inside)


@deformable_conv2d.compute
@like(deformable_conv2d.rule)
def _(data: Tensor, offset: Tensor, weight: Tensor, **attrs: Any) -> Tensor:
    plan, dtype = plan_of(_NAME, 2, attrs), attrs["out_dtype"] or data.dtype
    x, w = plan.data.canonical(data.shape), plan.weight.canonical(weight.shape)
    sizes = result_sizes(_NAME, plan, x, w[2:])
    per_shift = dim_floordiv(x[1], attrs["deformable_groups"])
    per_group = dim_floordiv(w[0], plan.groups)
    total = wide(data.dtype)

    def element(*i: ScalarExpr) -> ScalarExpr:
        n, o, y, z = plan.result.canonical(i)

        def term(c: ScalarExpr, *tap: ScalarExpr) -> ScalarExpr:
            channel = c
            if plan.groups > 1:
                channel = (o // te.dim(per_group)) * te.dim(w[1]) + c
            shift: ScalarExpr = tap[0] * te.dim(w[3]) + tap[1]
            if attrs["deformable_groups"] > 1:
                shift = (channel // te.dim(per_shift)) * te.dim(product(w[2:])) + shift
            places = []
            for axis, result in enumerate((y, z)):
                moved = load_wide(offset, plan.data.arranged((n, shift * 2 + axis, y, z)))
                places.append(te.cast(plan.window.place(axis, result, tap[axis]), total) + moved)
            at = corners_of(places[0], places[1], x[2:])
            value = at.value(
                lambda row, column: load_wide(data, plan.data.arranged((n, channel, row, column)))
            )
            return value * load_wide(weight, plan.weight.arranged((o, c, *tap)))

        return te.cast(te.reduce("sum", w[1:], term), dtype)

    shape = plan.result.arranged((x[0], w[0], *sizes))
    return te.compute(shape, element, "deformable_conv2d")


@deformable_conv2d.reduction_size
@like(deformable_conv2d.rule)
def _(data: TensorType, offset: TensorType, weight: TensorType, **attrs: Any) -> Dim:
    return product(plan_of(_NAME, 2, attrs).weight.canonical(weight.shape)[1:])


OPERATORS = (deformable_conv2d,)
