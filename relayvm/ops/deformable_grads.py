"""The gradients of convolution at shifted places, by the data, the shifts and the weight."""

from __future__ import annotations

from typing import Any

import numpy as np

from relayvm.base.dims import Dim, dim_add, dim_floordiv, dim_mul
from relayvm.base.dtypes import DType, dtype_of
from relayvm.base.shapes import require_equal
from relayvm.ir.types import TensorType, TupleType
from relayvm.kernels import compute as te
from relayvm.kernels.compute import ScalarExpr, Tensor
from relayvm.kernels.schedules.program import LONG_STEPS, Memory, Writer
from relayvm.ops.axes import product, require_rank
from relayvm.ops.bilinear import Plan
from relayvm.ops.convolution import plan_of, result_sizes
from relayvm.ops.deformable import Corners, array_corners, corners_of, deformable_conv2d
from relayvm.ops.loads import load_wide, wide
from relayvm.ops.numeric import Array
from relayvm.ops.operator import Fusion, operator
from relayvm.ops.reshaping import unflattened
from relayvm.ops.schema import Dims, Float, Ints, SameDtype, like

_NAME = "nn.deformable_conv2d_grad"


@operator(
    _NAME,
    fusion=Fusion.OPAQUE,
    ulp=16,
)
def deformable_conv2d_grad(
    grad: Float,
    data: SameDtype,
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
) -> TupleType:
    """The gradients of `data`, `offset` and `weight` of the same `nn.deformable_conv2d`.

    At an element itself `offset` gets the slope towards the next one.

    >>> %g = float32 [[[[1, 10]]]]
    >>> %x = float32 [[[[1, 3]]]]
    >>> %o = float32 [[[[0, 0]], [[0.5, 0]]]]
    >>> %w = float32 [[[[2]]]]
    >>> nn.deformable_conv2d_grad(%g, %x, %o, %w).0
    [[[[1, 21]]]]
    """
    attrs = {k: v for k, v in locals().items() if k not in ("grad", "data", "offset", "weight")}
    result = deformable_conv2d.result_type([data, offset, weight], attrs)
    assert isinstance(result, TensorType)
    require_rank(grad, 4, 4, f"`grad` of `{_NAME}`")
    for axis, (a, b) in enumerate(zip(grad.shape, result.shape)):
        require_equal(a, b, f"axis {axis} of `grad` of `{_NAME}` and of the convolution")
    return TupleType((data, offset, weight))


# -- numpy ----------------------------------------------------------------------------------------


@deformable_conv2d_grad.numpy
@like(deformable_conv2d_grad.rule)
def _(grad: Array, data: Array, offset: Array, weight: Array, **attrs: Any) -> Any:
    plan, dtype = plan_of(_NAME, 2, attrs), dtype_of(data.dtype)
    total = wide(dtype).numpy
    x, moved = (a.transpose(plan.data.places).astype(total) for a in (data, offset))
    g = grad.transpose(plan.result.places).astype(total)
    w = weight.transpose(plan.weight.places).astype(total)
    (n, c), (o, inner, *taps), sizes = x.shape[:2], w.shape, g.shape[2:]
    shifts = moved.reshape(n, attrs["deformable_groups"], *taps, 2, *sizes)
    of_x, of_shifts, of_w = np.zeros_like(x), np.zeros_like(shifts), np.zeros_like(w)
    parts, per_shift = plan.groups, c // shifts.shape[1]
    g = g.reshape(n, parts, o // parts, *sizes)
    for tap in np.ndindex(*taps) if x.size else ():
        kernel = w[:, :, tap[0], tap[1]].reshape(parts, o // parts, inner)
        share = np.einsum("ngoyx,goi->ngiyx", g, kernel).reshape(n, c, *sizes)
        values = np.zeros((n, c, *sizes), total)
        for group in range(shifts.shape[1]):
            own = slice(group * per_shift, (group + 1) * per_shift)
            at = array_corners(plan, shifts[:, group, tap[0], tap[1]], tap, x.shape[2:])
            values[:, own] = _sampled(x[:, own], share[:, own], at, of_x[:, own])
            slopes = _slopes(x[:, own], at)
            for axis in (0, 1):
                change = np.sum(share[:, own] * slopes[axis], axis=1)
                of_shifts[:, group, tap[0], tap[1], axis] = change
        patch = values.reshape(n, parts, inner, *sizes)
        of_w[:, :, tap[0], tap[1]] = np.einsum("ngoyx,ngiyx->goi", g, patch).reshape(o, inner)
    back = plan.data.arranged((0, 1, 2, 3))
    return (
        np.asarray(of_x.astype(data.dtype).transpose(back)),
        np.asarray(of_shifts.reshape(moved.shape).astype(data.dtype).transpose(back)),
        np.asarray(of_w.astype(data.dtype).transpose(plan.weight.arranged((0, 1, 2, 3)))),
    )


def _read(x: Array, at: Any, rows: int, columns: int) -> Array:
    batch = np.arange(x.shape[0])[:, None, None]
    return np.moveaxis(x[batch, :, at.rows[rows], at.columns[columns]], -1, 1)


def _sampled(x: Array, share: Array, at: Any, result: Array) -> Array:
    """Return [n, c, rows, columns] what is read; add what it gives back to `result`, a view."""
    zero, one = x.dtype.type(0), x.dtype.type(1)
    inside, f, g = (a[:, None] for a in (at.inside, at.down, at.across))
    batch = np.arange(x.shape[0])[:, None, None, None]
    channel = np.arange(x.shape[1])[None, :, None, None]
    total = np.zeros_like(share)
    for i, down in enumerate((one - f, f)):
        for j, across in enumerate((one - g, g)):
            weight = down * across
            place = (batch, channel, at.rows[i][:, None], at.columns[j][:, None])
            np.add.at(result, place, np.where(inside, share * weight, zero))
            total += np.where(inside, _read(x, at, i, j) * weight, zero)
    return total


def _slopes(x: Array, at: Any) -> tuple[Array, Array]:
    """Return how what is read changes further down, and further to the right."""
    zero, one = x.dtype.type(0), x.dtype.type(1)
    inside, f, g = (a[:, None] for a in (at.inside, at.down, at.across))
    (a, b), (c, d) = [[_read(x, at, i, j) for j in (0, 1)] for i in (0, 1)]
    down = (c - a) * (one - g) + (d - b) * g
    across = (b - a) * (one - f) + (d - c) * f
    return np.where(inside, down, zero), np.where(inside, across, zero)


# -- Loops ----------------------------------------------------------------------------------------


class _Loops:
    """The sizes of a call, and places in its tensors."""

    def __init__(self, tensors: tuple[Tensor, ...], attrs: Any) -> None:
        self.grad, self.data, self.offset, self.weight = tensors
        self.plan: Plan = plan_of(_NAME, 2, attrs)
        self.x = self.plan.data.canonical(self.data.shape)
        self.w = self.plan.weight.canonical(self.weight.shape)
        self.sizes = result_sizes(_NAME, self.plan, self.x, self.w[2:])
        self.shifts: int = attrs["deformable_groups"]
        self.per_shift = dim_floordiv(self.x[1], self.shifts)
        self.per_group = dim_floordiv(self.w[0], self.plan.groups)
        self.total = wide(self.data.dtype)

    def corners(self, offset: Any, n: Any, group: Any, tap: Any, at: Any) -> Corners:
        """Return what a tap of a group of channels reads at a place of the result."""
        taps = self.w[2:]
        flat = (group * te.dim(taps[0]) + tap[0]) * te.dim(taps[1]) + tap[1]
        places = []
        for axis in (0, 1):
            index = self.plan.data.arranged((n, flat * 2 + axis, *at))
            place = te.cast(self.plan.window.place(axis, at[axis], tap[axis]), self.total)
            places.append(place + te.cast(offset[tuple(index)], self.total))
        return corners_of(places[0], places[1], self.x[2:])

    def shift_of(self, channel: ScalarExpr) -> ScalarExpr:
        return te.dim(0) if self.shifts == 1 else channel // te.dim(self.per_shift)

    def read(self, n: Any, c: Any, row: Any, column: Any) -> ScalarExpr:
        return load_wide(self.data, self.plan.data.arranged((n, c, row, column)))


def _shares(s: _Loops) -> Tensor:
    """Return [n, c, taps, rows, columns] the gradient of what each tap reads."""
    plan = s.plan

    def element(n: Any, c: Any, y: Any, z: Any, *at: Any) -> ScalarExpr:
        group = c // te.dim(s.w[1])
        inner = c - group * te.dim(s.w[1]) if plan.groups > 1 else c

        def term(k: ScalarExpr) -> ScalarExpr:
            o = group * te.dim(s.per_group) + k if plan.groups > 1 else k
            slope = load_wide(s.grad, plan.result.arranged((n, o, *at)))
            return slope * load_wide(s.weight, plan.weight.arranged((o, inner, y, z)))

        return te.reduce("sum", (s.per_group,), term)

    return te.compute((*s.x[:2], *s.w[2:], *s.sizes), element, "shares")


def _of_data(s: _Loops, share: Tensor) -> Tensor:
    lines, steps = s.x[:2], (*s.w[2:], *s.sizes)

    def build(w: Writer, share: Memory, offset: Memory, result: Memory) -> None:
        parts = w.parts(product(lines), product(s.x[2:]))
        with parts as (line, begin, end), w.loop(begin, end) as flat:
            place = (*unflattened(line, lines), *unflattened(flat, s.x[2:]))
            result[tuple(s.plan.data.arranged(place))] = 0.0
        with w.walk_lines(product(lines), product(steps), block=LONG_STEPS) as (line, flat, _):
            n, c = (w.let(v) for v in unflattened(line, lines))
            y, z, *at = (w.let(v) for v in unflattened(flat, steps))
            corners = s.corners(offset, n, s.shift_of(c), (y, z), at)
            given, inside = w.let(share[(n, c, y, z) + tuple(at)]), w.let(corners.inside)
            f, g = w.let(corners.down), w.let(corners.across)
            rows, columns = ([w.let(v) for v in k] for k in (corners.rows, corners.columns))
            for row, down in zip(rows, (1.0 - f, f)):
                for column, across in zip(columns, (1.0 - g, g)):
                    place = tuple(s.plan.data.arranged((n, c, row, column)))
                    part = te.select(inside, given * (down * across), 0.0)
                    result[place] = result[place] + part

    work = dim_add(product(s.x), dim_mul(product(share.shape), 16))
    kinds = [(s.data.shape, s.total)]
    return te.program(kinds, [share, s.offset], build, work, "deformable_data_grad")[0]


def _of_offset(s: _Loops, share: Tensor) -> Tensor:
    def element(*i: ScalarExpr) -> ScalarExpr:
        n, k, *at = s.plan.data.canonical(i)
        group, y, z, axis = unflattened(k, (s.shifts, *s.w[2:], 2))
        corners = s.corners(s.offset, n, group, (y, z), at)
        (top, bottom), (left, beside) = corners.rows, corners.columns
        f, g = corners.down, corners.across

        def term(r: ScalarExpr) -> ScalarExpr:
            channel = group * te.dim(s.per_shift) + r if s.shifts > 1 else r
            a, b = (s.read(n, channel, top, column) for column in (left, beside))
            c, d = (s.read(n, channel, bottom, column) for column in (left, beside))
            down = (c - a) * (1.0 - g) + (d - b) * g
            across = (b - a) * (1.0 - f) + (d - c) * f
            slope = te.select(axis.equal(0), down, across)
            return share[(n, channel, y, z) + tuple(at)] * te.select(corners.inside, slope, 0)

        return te.cast(te.reduce("sum", (s.per_shift,), term), s.data.dtype)

    return te.compute(s.offset.shape, element, "deformable_offset_grad")


def _of_weight(s: _Loops) -> Tensor:
    plan = s.plan

    def element(*i: ScalarExpr) -> ScalarExpr:
        o, inner, *tap = plan.weight.canonical(i)
        c = inner
        if plan.groups > 1:
            c = (o // te.dim(s.per_group)) * te.dim(s.w[1]) + inner

        def term(n: ScalarExpr, *at: ScalarExpr) -> ScalarExpr:
            corners = s.corners(s.offset, n, s.shift_of(c), tap, at)
            slope = load_wide(s.grad, plan.result.arranged((n, o, *at)))
            return slope * corners.value(lambda row, column: s.read(n, c, row, column))

        return te.cast(te.reduce("sum", (s.x[0], *s.sizes), term), s.data.dtype)

    return te.compute(s.weight.shape, element, "deformable_weight_grad")


@deformable_conv2d_grad.compute
@like(deformable_conv2d_grad.rule)
def _(grad: Tensor, data: Tensor, offset: Tensor, weight: Tensor, **attrs: Any) -> Any:
    sizes = _Loops((grad, data, offset, weight), attrs)
    share = _shares(sizes)
    summed = _of_data(sizes, share)
    of_data = te.compute(data.shape, lambda *i: te.cast(summed[i], data.dtype), "data_grad")
    return of_data, _of_offset(sizes, share), _of_weight(sizes)


@deformable_conv2d_grad.reduction_size
@like(deformable_conv2d_grad.rule)
def _(
    grad: TensorType, data: TensorType, offset: TensorType, weight: TensorType, **attrs: Any
) -> Dim:
    return dim_mul(product(grad.shape), product(weight.shape))


OPERATORS = (deformable_conv2d_grad,)
