"""The gradients of regions brought to one size, by the images: they are spread over the elements
that were sampled, or given to the greatest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from relayvm.base.dims import Dim, dim_mul
from relayvm.base.dtypes import INT64, DType, dtype_of
from relayvm.base.shapes import require_equal
from relayvm.ir.types import TensorType
from relayvm.kernels import compute as te
from relayvm.kernels.compute import ScalarExpr, Tensor
from relayvm.kernels.schedules.program import LONG_STEPS, Memory, Writer
from relayvm.ops.axes import product, require_rank
from relayvm.ops.formulas import ARRAYS, SCALARS, Reading
from relayvm.ops.layouts import Layout
from relayvm.ops.loads import wide
from relayvm.ops.numeric import Array
from relayvm.ops.operator import Fusion, Operator, operator
from relayvm.ops.regions import (
    batch_array,
    between,
    loaded,
    part_of,
    place_of,
    region_layout,
    roi_align,
    roi_pool,
    sampled_array,
    span_of,
)
from relayvm.ops.reshaping import unflattened
from relayvm.ops.schema import Float, Ints, SameDtype, like

_ALIGN, _POOL = "vision.roi_align_grad", "vision.roi_pool_grad"


def _type(
    name: str, forward: Operator, grad: TensorType, data: TensorType, rois: TensorType, attrs: Any
) -> TensorType:
    result = forward.result_type([data, rois], attrs)
    assert isinstance(result, TensorType)
    require_rank(grad, 4, 4, f"`grad` of `{name}`")
    for axis, (a, b) in enumerate(zip(grad.shape, result.shape)):
        require_equal(a, b, f"axis {axis} of `grad` of `{name}` and of what `{forward.name}` gives")
    return TensorType(data.shape, grad.dtype)


# -- Sampled --------------------------------------------------------------------------------------


@operator(_ALIGN, fusion=Fusion.OPAQUE, ulp=16, value_traps=True)
def roi_align_grad(
    grad: Float,
    data: SameDtype,
    rois: SameDtype,
    *,
    pooled_size: Ints,
    spatial_scale: float,
    sample_ratio: int = -1,
    layout: str = "NCHW",
    mode: str = "avg",
) -> TensorType:
    """For each element of `data` the sum of `grad` times its weights in `vision.roi_align`: in the
    samples of each part, or with the mode "max" in the first of the greatest.

    >>> %g = float32 [[[[8]]]]
    >>> %x = float32 [[[[1, 2], [3, 4]]]]
    >>> %r = float32 [[0, 0, 0, 1, 1]]
    >>> vision.roi_align_grad(%g, %x, %r, pooled_size=[1, 1], spatial_scale=1f)
    [[[[2, 2], [2, 2]]]]
    """
    attrs = {"pooled_size": pooled_size, "spatial_scale": spatial_scale, "mode": mode}
    given = {**attrs, "sample_ratio": sample_ratio, "layout": layout}
    return _type(_ALIGN, roi_align, grad, data, rois, given)


def _corners(r: Reading, sides: Any) -> list[tuple[Any, Any, Any]]:
    """Return (row, column, weight) of the four elements around a place."""
    (top, bottom, f, _), (left, right, g, _) = sides

    def rest(share: Any) -> Any:
        return r.apply("subtract", r.const(1.0, dtype_of(share.dtype)), share)

    return [
        (row, column, r.apply("multiply", down, across))
        for row, down in ((top, rest(f)), (bottom, f))
        for column, across in ((left, rest(g)), (right, g))
    ]


@roi_align_grad.numpy
@like(roi_align_grad.rule)
def _(grad: Array, data: Array, rois: Array, **attrs: Any) -> Array:
    layout = region_layout(_ALIGN, attrs["layout"])
    kind = wide(dtype_of(data.dtype))
    x, g = (a.transpose(layout.places).astype(kind.numpy) for a in (data, grad))
    sizes = x.shape[2:]
    result = np.zeros_like(x)
    images = batch_array(rois, x.shape[0])
    for region, row in enumerate(rois.astype(kind.numpy)):
        ends = [np.array(v) for v in row[1:]]
        image = images[region]
        for part in np.ndindex(*attrs["pooled_size"]):
            sides = array_sides(ends, part, sizes, attrs, kind)
            slope = g[region, :, part[0], part[1]][:, None, None]
            share = _shares(sampled_array(x[image], sides, sizes), slope, attrs["mode"])
            (_, _, f, inside), (_, _, across, beside) = sides
            share = np.where(inside[:, None] & beside[None, :], share, kind.numpy.type(0))
            spread = [
                (sides[0][k], sides[1][j], _weight(f, k)[:, None] * _weight(across, j)[None, :])
                for k in (0, 1)
                for j in (0, 1)
            ]
            for rows, columns, weight in spread:
                at = [np.clip(v, 0, n - 1) for v, n in zip((rows, columns), sizes)]
                lines = np.arange(x.shape[1])[:, None, None]
                np.add.at(result[image], (lines, at[0][:, None], at[1]), share * weight)
    return np.asarray(result.transpose(layout.arranged((0, 1, 2, 3))).astype(grad.dtype))


def _weight(share: Array, which: int) -> Array:
    return share if which else np.asarray(share.dtype.type(1) - share)


def array_sides(ends: Any, part: Any, sizes: Any, attrs: Any, kind: DType) -> list[Any]:
    """Return the places of the samples of a part of a region along both sides."""
    sides = []
    for k in (0, 1):
        span = span_of(ARRAYS, ends[1 - k], ends[3 - k], attrs["pooled_size"][k], attrs, kind)
        number = np.array(float(part[k]), kind.numpy)
        at = place_of(ARRAYS, span, number, np.arange(int(span[2])), kind)
        sides.append(between(ARRAYS, at, sizes[k], kind))
    return sides


def _shares(samples: Array, slope: Array, mode: str) -> Array:
    """Return [channels, rows, columns] how much of a slope each sample gets."""
    if mode == "avg":
        return np.broadcast_to(slope / slope.dtype.type(samples[0].size), samples.shape)
    flat = samples.reshape(len(samples), -1)
    first = np.arange(flat.shape[1]) == first_of_greatest(flat)[:, None]
    return np.asarray(np.where(first.reshape(samples.shape), slope, slope.dtype.type(0)))


def first_of_greatest(rows: Array) -> Array:
    """Return the column of the greatest number of each row, 0 where there is none."""
    return np.asarray(np.where(np.isnan(rows), -np.inf, rows).argmax(1))


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a region in a channel: its place in `grad`, its number along each side, its image
    and the ends of the region.
    """

    place: tuple[ScalarExpr, ...]
    numbers: tuple[ScalarExpr, ...]
    image: ScalarExpr
    channel: ScalarExpr
    ends: tuple[ScalarExpr, ...]


class Samples:
    """The samples of one part of a region, `counts` of them along each side."""

    def __init__(
        self, w: Writer, part: Part, layout: Layout, sizes: tuple[Dim, Dim], attrs: Any, kind: DType
    ) -> None:
        self.w, self.part, self.layout, self.sizes, self.kind = w, part, layout, sizes, kind
        self._spans = []
        for k, parts in enumerate(attrs["pooled_size"]):
            span = span_of(SCALARS, part.ends[1 - k], part.ends[3 - k], parts, attrs, kind)
            self._spans.append([w.let(v) for v in span])
        self._numbers = [w.let(te.cast(n, kind)) for n in part.numbers]
        self.counts = self._spans[0][2], self._spans[1][2]

    def sides(self, i: ScalarExpr, j: ScalarExpr) -> list[Any]:
        """Return where a sample lies along both sides."""
        found = []
        for k, sample in enumerate((i, j)):
            at = place_of(SCALARS, self._spans[k], self._numbers[k], sample, self.kind)
            found.append(between(SCALARS, self.w.let(at), self.sizes[k], self.kind))
        return found

    def value(self, x: Memory, i: ScalarExpr, j: ScalarExpr) -> Any:
        """Return what an image has at a sample."""
        place = self.part.image, self.part.channel
        return loaded(x, self.layout, place, self.sides(i, j), self.sizes)

    def first_of_greatest(self, x: Memory) -> tuple[ScalarExpr, ScalarExpr]:
        """Return which sample of an image is the first of the greatest, the first where none is."""
        w, (rows, columns) = self.w, self.counts
        most = w.cell(te.const(float("-inf"), self.kind))
        best = w.cell(te.const(0, INT64))
        with w.loop(0, rows) as i, w.loop(0, columns) as j:
            value = w.let(self.value(x, i, j))
            better = w.let(te.scalar("greater", value, most.value))
            best.value = te.select(better, i * columns + j, best.value)
            most.value = te.select(better, value, most.value)
        at = w.let(best.value)
        return at // columns, at - at // columns * columns


def _by_parts(
    name: str,
    operands: tuple[Tensor, Tensor, Tensor],
    attrs: Any,
    steps: int,
    add: Callable[[Writer, Memory, Memory, Memory, Part], None],
) -> Tensor:
    """Return what `add` puts in place of zeros, for one part of a region after the other; a part
    takes so many `steps`. Channels are independent of each other.
    """
    grad, data, rois = operands
    layout, kind = region_layout(name, attrs["layout"]), wide(data.dtype)
    batch, channels, *sizes = layout.canonical(data.shape)
    parts = (rois.shape[0], *attrs["pooled_size"])

    def build(w: Writer, g: Memory, x: Memory, rois: Memory, result: Memory) -> None:
        lines = w.parts(channels, product((batch, *sizes)))
        with lines as (channel, begin, end), w.loop(begin, end) as flat:
            image, *place = unflattened(flat, (batch, *sizes))
            result[layout.arranged((image, channel, *place))] = 0.0
        with w.walk_lines(channels, product(parts), block=LONG_STEPS) as (channel, flat, _):
            region, *numbers = (w.let(v) for v in unflattened(flat, parts))
            image = w.let(te.index(te.cast(rois[region, te.dim(0)], INT64), batch))
            ends = tuple(te.cast(rois[region, te.dim(k)], kind) for k in range(1, 5))
            own = layout.arranged((region, channel, *numbers))
            add(w, g, x, result, Part(tuple(own), tuple(numbers), image, channel, ends))

    work, label = dim_mul(product(grad.shape), steps), name.rpartition(".")[2]
    (total,) = te.program([(data.shape, kind)], [grad, data, rois], build, work, label)
    return te.compute(data.shape, lambda *i: te.cast(total[i], grad.dtype), label)


@roi_align_grad.compute
@like(roi_align_grad.rule)
def _(grad: Tensor, data: Tensor, rois: Tensor, **attrs: Any) -> Tensor:
    layout, kind = region_layout(_ALIGN, attrs["layout"]), wide(data.dtype)
    _, _, *size = layout.canonical(data.shape)
    sizes = size[0], size[1]

    def add(w: Writer, g: Memory, x: Memory, result: Memory, part: Part) -> None:
        samples = Samples(w, part, layout, sizes, attrs, kind)
        slope = w.let(te.cast(g[part.place], kind))

        def spread(i: ScalarExpr, j: ScalarExpr, share: ScalarExpr) -> None:
            sides = samples.sides(i, j)
            counts = te.scalar("logical_and", sides[0][3], sides[1][3])
            given = w.let(te.select(counts, share, 0.0))
            for row, column, weight in _corners(SCALARS, sides):
                at = [te.index(v, n, "clip") for v, n in zip((row, column), sizes)]
                place = layout.arranged((part.image, part.channel, *(w.let(v) for v in at)))
                result[place] = result[place] + given * weight

        if attrs["mode"] == "max":
            spread(*samples.first_of_greatest(x), slope)
            return
        rows, columns = samples.counts
        share = w.let(te.scalar("divide", slope, te.cast(rows * columns, kind)))
        with w.loop(0, rows) as i, w.loop(0, columns) as j:
            spread(i, j, share)

    return _by_parts(_ALIGN, (grad, data, rois), attrs, 128, add)


@roi_align_grad.reduction_size
@like(roi_align_grad.rule)
def _(grad: TensorType, data: TensorType, rois: TensorType, **attrs: Any) -> Dim:
    return dim_mul(product(grad.shape), 16)


# -- Pooled ---------------------------------------------------------------------------------------


@operator(_POOL, fusion=Fusion.OPAQUE, ulp=4, value_traps=True)
def roi_pool_grad(
    grad: Float,
    data: SameDtype,
    rois: SameDtype,
    *,
    pooled_size: Ints,
    spatial_scale: float,
    layout: str = "NCHW",
) -> TensorType:
    """For each element of `data` the sum of `grad` of the parts of `vision.roi_pool` in which it is
    the first of the greatest.

    >>> %g = float32 [[[[5, 7]]]]
    >>> %x = float32 [[[[1, 2], [3, 4]]]]
    >>> %r = float32 [[0, 0, 0, 1, 1]]
    >>> vision.roi_pool_grad(%g, %x, %r, pooled_size=[1, 2], spatial_scale=1f)
    [[[[0, 0], [5, 7]]]]
    """
    attrs = {"pooled_size": pooled_size, "spatial_scale": spatial_scale, "layout": layout}
    return _type(_POOL, roi_pool, grad, data, rois, attrs)


@roi_pool_grad.numpy
@like(roi_pool_grad.rule)
def _(grad: Array, data: Array, rois: Array, **attrs: Any) -> Array:
    layout = region_layout(_POOL, attrs["layout"])
    kind = wide(dtype_of(data.dtype))
    x, g = (a.transpose(layout.places).astype(kind.numpy) for a in (data, grad))
    result = np.zeros_like(x)
    images = batch_array(rois, x.shape[0])
    for region, row in enumerate(rois.astype(kind.numpy)):
        ends = [np.array(v) for v in row[1:]]
        for part in np.ndindex(*attrs["pooled_size"]):
            window = array_window(ends, part, x.shape[2:], attrs, kind)
            inside = x[images[region], :, window[0], window[1]]
            if not (inside.shape[1] and inside.shape[2]):
                continue
            flat = first_of_greatest(inside.reshape(len(inside), -1))
            rows, columns = np.divmod(flat, inside.shape[2])
            place = (np.arange(len(inside)), rows + window[0].start, columns + window[1].start)
            result[images[region]][place] += g[region, :, part[0], part[1]]
    return np.asarray(result.transpose(layout.arranged((0, 1, 2, 3))).astype(grad.dtype))


def array_window(ends: Any, part: Any, sizes: Any, attrs: Any, kind: DType) -> Any:
    """Return the rows and the columns of a part of a region."""
    window = []
    for k in (0, 1):
        number, sides = np.array(float(part[k]), kind.numpy), (ends[1 - k], ends[3 - k])
        parts, size = attrs["pooled_size"][k], int(sizes[k])
        pair = part_of(ARRAYS, *sides, number, parts, size, attrs, kind)
        window.append(slice(*(int(v) for v in pair)))
    return window


def greatest_element(
    w: Writer, x: Memory, part: Part, layout: Layout, sizes: tuple[Dim, Dim], attrs: Any
) -> tuple[ScalarExpr, Any]:
    """Return whether a part has elements, and the place of the first of the greatest."""
    window, kind = [], wide(x.dtype)
    for k in (0, 1):
        number, sides = te.cast(part.numbers[k], kind), (part.ends[1 - k], part.ends[3 - k])
        parts = attrs["pooled_size"][k]
        found = part_of(SCALARS, *sides, number, parts, sizes[k], attrs, kind)
        window.append([w.let(v) for v in found])
    (top, bottom), (left, right) = window
    most = w.cell(te.const(float("-inf"), kind))
    best = [w.cell(begin) for begin, _ in window]
    with w.loop(top, bottom) as i, w.loop(left, right) as j:
        inner = [te.index(v, n, "clip") for v, n in zip((i, j), sizes)]
        value = w.let(te.cast(x[layout.arranged((part.image, part.channel, *inner))], kind))
        better = w.let(te.scalar("greater", value, most.value))
        for cell, v in zip(best, (i, j)):
            cell.value = te.select(better, v, cell.value)
        most.value = te.select(better, value, most.value)
    held = [te.index(cell.value, n, "clip") for cell, n in zip(best, sizes)]
    at = layout.arranged((part.image, part.channel, *(w.let(v) for v in held)))
    return te.scalar("logical_and", top < bottom, left < right), at


@roi_pool_grad.compute
@like(roi_pool_grad.rule)
def _(grad: Tensor, data: Tensor, rois: Tensor, **attrs: Any) -> Tensor:
    layout, kind = region_layout(_POOL, attrs["layout"]), wide(data.dtype)
    _, _, *size = layout.canonical(data.shape)
    sizes = size[0], size[1]

    def add(w: Writer, g: Memory, x: Memory, result: Memory, part: Part) -> None:
        filled, at = greatest_element(w, x, part, layout, sizes, attrs)
        slope = te.cast(g[part.place], kind)
        result[at] = result[at] + te.select(filled, slope, 0.0)

    return _by_parts(_POOL, (grad, data, rois), attrs, 64, add)


@roi_pool_grad.reduction_size
@like(roi_pool_grad.rule)
def _(grad: TensorType, data: TensorType, rois: TensorType, **attrs: Any) -> Dim:
    return product(grad.shape)


OPERATORS = (roi_align_grad, roi_pool_grad)
