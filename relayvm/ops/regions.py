"""Regions of images brought to one size, and space folded into channels."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from relayvm.base.dims import Dim, dim_add, dim_floordiv, dim_min, dim_mod, dim_mul
from relayvm.base.dtypes import BOOL, INT64, DType, dtype_of
from relayvm.base.shapes import ShapeError, bad_index, require_equal
from relayvm.ir.types import TensorType
from relayvm.kernels import compute as te
from relayvm.kernels.compute import ScalarExpr, Tensor
from relayvm.kernels.schedules.program import Memory, Writer
from relayvm.ops.axes import product, require_least, require_rank
from relayvm.ops.formulas import ARRAYS, SCALARS, Reading
from relayvm.ops.layouts import Layout, data_layout
from relayvm.ops.loads import wide
from relayvm.ops.numeric import Array
from relayvm.ops.operator import Fusion, operator
from relayvm.ops.reshaping import flattened, unflattened
from relayvm.ops.schema import Float, Ints, Numeric, SameDtype, like

_ALIGN, _POOL, _REORG = "vision.roi_align", "vision.roi_pool", "vision.yolo_reorg"
_MODES = ("avg", "max")
# So many samples a side at most where the size of a region says how many.
_MOST = 1024
# So many ranges of regions have room of their own, and may be sampled at once.
_RANGES = 16


def _region_type(name: str, data: TensorType, rois: TensorType, attrs: Any) -> TensorType:
    layout = region_layout(name, attrs["layout"])
    require_rank(data, 4, 4, f"`data` of `{name}`")
    require_rank(rois, 2, 2, f"`rois` of `{name}`")
    require_equal(rois.shape[1], 5, f"numbers of a region of `{name}` and 5, which")
    pooled = attrs["pooled_size"]
    if len(pooled) != 2 or min(pooled) < 1:
        message = f"`pooled_size` of `{name}` must be two numbers above 0, got {list(pooled)}"
        raise ShapeError(message, "bad-attribute")
    if not 0 < attrs["spatial_scale"] < math.inf:
        message = f"`spatial_scale` of `{name}` must be finite and above 0"
        message += f", got {attrs['spatial_scale']}"
        raise ShapeError(message, "bad-attribute")
    if attrs.get("sample_ratio", 0) > _MOST:
        message = f"`sample_ratio` of `{name}` must be at most {_MOST}"
        raise ShapeError(f"{message}, got {attrs['sample_ratio']}", "bad-attribute")
    channels = layout.canonical(data.shape)[1]
    return TensorType(layout.arranged((rois.shape[0], channels, *pooled)), data.dtype)


def region_layout(name: str, text: str) -> Layout:
    """Return the layout of images that an attribute names."""
    return data_layout(text, 2, f"`layout` of `{name}`")


def batch_array(rois: Array, batch: int) -> Array:
    """Return which image each region lies in."""
    found: Array = ARRAYS.cast(rois[:, 0], INT64)
    outside = found[(found < 0) | (found >= batch)]
    if outside.size:
        raise bad_index(int(outside[0]), batch)
    return found


# -- Sampled --------------------------------------------------------------------------------------


@operator(
    _ALIGN,
    fusion=Fusion.OPAQUE,
    ulp=8,
    value_traps=True,
)
def roi_align(
    data: Float,
    rois: SameDtype,
    *,
    pooled_size: Ints,
    spatial_scale: float,
    sample_ratio: int = -1,
    layout: str = "NCHW",
    mode: str = "avg",
) -> TensorType:
    """Regions of images brought to the size `pooled_size`, sampled between elements.

    A region of `rois` [n, 5] is (image, left, top, right, bottom), in units of which an element has
    `1 / spatial_scale`; it is at least one element wide and high. Each of its parts has
    `sample_ratio` samples a side, evenly spread, or without that one for each element (at most
    1024); `mode` takes their mean ("avg") or the greatest ("max"). A sample is interpolated from
    the four elements around it; more than one element outside the image it is 0. Gradients take
    regions as given, as those of torchvision do.

    >>> %x = float32 [[[[1, 2], [3, 4]]]]
    >>> %r = float32 [[0, 0, 0, 1, 1]]
    >>> vision.roi_align(%x, %r, pooled_size=[1, 1], spatial_scale=1f)
    [[[[2.5]]]]
    """
    if mode not in _MODES:
        message = f'`mode` of `{_ALIGN}` must be "avg" or "max", got "{mode}"'
        raise ShapeError(message, "bad-attribute")
    return _region_type(_ALIGN, data, rois, locals())


def span_of(r: Reading, low: Any, high: Any, parts: int, attrs: Any, dtype: DType) -> Any:
    """Return begin, length of a part, and samples in it (int64) of one side of a region."""
    scale = attrs["spatial_scale"]
    begin, end = (r.apply("multiply", v, scale) for v in (low, high))
    length = r.apply("maximum", r.apply("subtract", end, begin), 1.0)
    part = r.apply("divide", length, float(parts))
    if attrs["sample_ratio"] > 0:
        return begin, part, r.const(attrs["sample_ratio"], INT64)
    wanted = r.cast(r.apply("ceil", part), INT64)
    return begin, part, r.apply("minimum", r.apply("maximum", wanted, 1), _MOST)


def place_of(r: Reading, span: Any, number: Any, sample: Any, dtype: DType) -> Any:
    """Return where a sample of a part of one side lies."""
    begin, part, count = span
    inner = r.apply("add", r.cast(sample, dtype), 0.5)
    inner = r.apply("divide", r.apply("multiply", inner, part), r.cast(count, dtype))
    return r.apply("add", r.apply("add", begin, r.apply("multiply", number, part)), inner)


def between(r: Reading, place: Any, size: Dim, dtype: DType) -> Any:
    """Return the two elements around a place, how far it is behind the first, and whether it
    counts.
    """
    extent = r.cast(r.dim(size), dtype)
    counts = r.apply(
        "logical_and",
        r.apply("greater_equal", place, -1.0),
        r.apply("less_equal", place, extent),
    )
    held = r.apply("minimum", r.apply("maximum", place, 0.0), r.apply("subtract", extent, 1.0))
    low = r.apply("floor", held)
    first = r.cast(low, INT64)
    return first, r.apply("add", first, 1), r.apply("subtract", held, low), counts


def _mixed(r: Reading, corners: Any, f: Any, g: Any) -> Any:
    """Return what lies f below and g beside the first of four corners, given in reading order."""

    def mix(a: Any, b: Any, share: Any) -> Any:
        rest = r.apply("subtract", r.const(1.0, dtype_of(share.dtype)), share)
        return r.apply("add", r.apply("multiply", a, rest), r.apply("multiply", b, share))

    return mix(mix(corners[0], corners[1], g), mix(corners[2], corners[3], g), f)


@roi_align.numpy
@like(roi_align.rule)
def _(data: Array, rois: Array, **attrs: Any) -> Array:
    layout, kind = region_layout(_ALIGN, attrs["layout"]), wide(dtype_of(data.dtype))
    x = data.transpose(layout.places).astype(kind.numpy)
    height, width = x.shape[2:]
    pooled = attrs["pooled_size"]
    result = np.zeros((len(rois), x.shape[1], *pooled), kind.numpy)
    images = batch_array(rois, x.shape[0])
    for region, row in enumerate(rois.astype(kind.numpy)):
        corners = [np.array(v) for v in row[1:]]
        spans = [
            span_of(ARRAYS, corners[1 - k], corners[3 - k], pooled[k], attrs, kind) for k in (0, 1)
        ]
        for part in np.ndindex(*pooled):
            rows = [np.arange(int(span[2])) for span in spans]
            sides = []
            for k, size in enumerate((height, width)):
                number = np.array(float(part[k]), kind.numpy)
                at = place_of(ARRAYS, spans[k], number, rows[k], kind)
                sides.append(between(ARRAYS, at, size, kind))
            samples = sampled_array(x[images[region]], sides, (height, width))
            flat = samples.reshape(len(samples), -1)
            if attrs["mode"] == "max":
                value = flat.max(1, initial=-np.inf)
            else:
                total = np.add.accumulate(flat, 1)[:, -1]
                value = total / kind.numpy.type(flat.shape[1])
            result[region, :, part[0], part[1]] = value
    return np.asarray(result.astype(data.dtype).transpose(layout.arranged((0, 1, 2, 3))))


def sampled_array(x: Array, sides: Any, sizes: tuple[int, int]) -> Array:
    """Return [channels, rows, columns] what lies at the places of two sides."""
    (top, bottom, f, inside), (left, right, g, beside) = sides
    rows = [np.clip(v, 0, sizes[0] - 1) for v in (top, bottom)]
    columns = [np.clip(v, 0, sizes[1] - 1) for v in (left, right)]
    corners = [x[:, row[:, None], column[None, :]] for row in rows for column in columns]
    value = _mixed(ARRAYS, corners, f[:, None], g[None, :])
    return np.asarray(np.where(inside[:, None] & beside[None, :], value, x.dtype.type(0)))


@roi_align.compute
@like(roi_align.rule)
def _(data: Tensor, rois: Tensor, **attrs: Any) -> Tensor:
    layout, kind = region_layout(_ALIGN, attrs["layout"]), wide(data.dtype)
    batch, channels, height, width = layout.canonical(data.shape)
    pooled = attrs["pooled_size"]
    shape = (rois.shape[0], channels, *pooled)

    def build(w: Writer, x: Memory, rois: Memory, result: Memory) -> None:
        # A range of regions has room for the places of samples, which all channels share.
        ranges = dim_min(rois.shape[0], _RANGES)
        most = attrs["sample_ratio"] if attrs["sample_ratio"] > 0 else _MOST
        sides = [_Side(w, ranges, pooled[k] * most, s, kind) for k, s in enumerate((height, width))]
        with w.phase(ranges) as own:
            each = te.dim(dim_floordiv(dim_add(rois.shape[0], _RANGES - 1), _RANGES))
            begin = own if ranges == rois.shape[0] else w.let(own * each)
            end = begin + 1 if ranges == rois.shape[0] else begin + each
            end = te.scalar("minimum", end, te.dim(rois.shape[0]))
            with w.loop(begin, end) as region:
                image = w.let(te.index(te.cast(rois[region, te.dim(0)], INT64), batch))
                corners = [te.cast(rois[region, te.dim(k)], kind) for k in range(1, 5)]
                counts = []
                for k, side in enumerate(sides):
                    span = span_of(SCALARS, corners[1 - k], corners[3 - k], pooled[k], attrs, kind)
                    span = [w.let(v) for v in span]
                    side.fill(own, span, pooled[k], most)
                    counts.append(span[2])
                parts = w.loop(0, pooled[0]), w.loop(0, pooled[1])
                with w.loop(0, channels) as channel, parts[0] as row, parts[1] as column:
                    of = own, counts, (row, column), most
                    value = _sampled(w, x, layout, sides, (image, channel), of, attrs["mode"])
                    place = layout.arranged((region, channel, row, column))
                    result[place] = te.cast(value, data.dtype)

    kinds = [(layout.arranged(shape), data.dtype)]
    work = dim_mul(product(shape), 64)
    return te.program(kinds, [data, rois], build, work, "roi_align")[0]


class _Side:
    """The places of all samples of one side of a region: the two elements around each, how far it
    is behind the first, and whether it counts.
    """

    def __init__(self, w: Writer, ranges: Dim, samples: int, size: Dim, kind: DType) -> None:
        self.w, self.size, self.kind = w, size, kind
        self.first, self.second = (w.scratch((ranges, samples), INT64) for _ in range(2))
        self.share = w.scratch((ranges, samples), kind)
        self.counts = w.scratch((ranges, samples), BOOL)

    def fill(self, own: ScalarExpr, span: Any, parts: int, most: int) -> None:
        """Write the places of the samples of one region, `most` apart for each part."""
        w = self.w
        with w.loop(0, parts) as part, w.loop(0, _up_to(span[2], most)) as sample:
            number = te.cast(part, self.kind)
            place = w.let(place_of(SCALARS, span, number, sample, self.kind))
            first, second, share, counts = between(SCALARS, place, self.size, self.kind)
            at = w.let(part * most + sample)
            self.first[own, at] = te.index(first, self.size, "clip")
            self.second[own, at] = te.index(second, self.size, "clip")
            self.share[own, at] = share
            self.counts[own, at] = counts

    def at(self, own: ScalarExpr, part: ScalarExpr, most: int, sample: ScalarExpr) -> Any:
        """Return what `fill` wrote about a sample."""
        w, at = self.w, self.w.let(part * most + sample)
        elements = [
            w.let(te.index(m[own, at], self.size, "clip")) for m in (self.first, self.second)
        ]
        return (*elements, w.let(self.share[own, at]), w.let(self.counts[own, at]))


def _up_to(count: ScalarExpr, most: int) -> ScalarExpr:
    return te.scalar("minimum", count, most)


def _sampled(
    w: Writer, x: Memory, layout: Layout, sides: Any, index: Any, of: Any, mode: str
) -> ScalarExpr:
    """Return the mean or the greatest of the samples of one part of a region."""
    own, counts, parts, most = of
    kind = wide(x.dtype)
    total = w.cell(te.const(float("-inf") if mode == "max" else 0.0, kind))
    with w.loop(0, _up_to(counts[0], most)) as i:
        row = sides[0].at(own, parts[0], most, i)
        with w.loop(0, _up_to(counts[1], most)) as j:
            column = sides[1].at(own, parts[1], most, j)
            value = loaded(x, layout, index, (row, column), (sides[0].size, sides[1].size))
            total.value = te.scalar("maximum" if mode == "max" else "add", total.value, value)
    if mode == "max":
        return total.value
    return te.scalar("divide", total.value, te.cast(counts[0] * counts[1], kind))


def loaded(x: Memory, layout: Layout, index: Any, sides: Any, sizes: tuple[Dim, Dim]) -> Any:
    """Return what lies at a place of two sides, 0 where one does not count."""
    (top, bottom, f, inside), (left, right, g, beside) = sides
    rows = [te.index(v, sizes[0], "clip") for v in (top, bottom)]
    columns = [te.index(v, sizes[1], "clip") for v in (left, right)]
    kind = wide(x.dtype)
    corners = [
        te.cast(x[layout.arranged((*index, row, column))], kind)
        for row in rows
        for column in columns
    ]
    counts = te.scalar("logical_and", inside, beside)
    return te.select(counts, _mixed(SCALARS, corners, f, g), 0.0)


# -- Pooled ---------------------------------------------------------------------------------------


@operator(
    _POOL,
    fusion=Fusion.OPAQUE,
    value_traps=True,
)
def roi_pool(
    data: Float, rois: SameDtype, *, pooled_size: Ints, spatial_scale: float, layout: str = "NCHW"
) -> TensorType:
    """The greatest elements of the parts of regions of images, `pooled_size` parts of each region.

    A region of `rois` [n, 5] is (image, left, top, right, bottom), both ends inside, in units of
    which an element has `1 / spatial_scale`, rounded to elements. A part without elements is 0.

    >>> %x = float32 [[[[1, 2], [3, 4]]]]
    >>> %r = float32 [[0, 0, 0, 1, 1]]
    >>> vision.roi_pool(%x, %r, pooled_size=[1, 2], spatial_scale=1f)
    [[[[3, 4]]]]
    """
    return _region_type(_POOL, data, rois, locals())


def part_of(
    r: Reading, low: Any, high: Any, number: Any, parts: int, size: Dim, attrs: Any, dtype: DType
) -> tuple[Any, Any]:
    """Return the first element of a part of one side of a region, and the one behind it."""
    first, last = (
        r.apply("floor", r.apply("add", r.apply("multiply", v, attrs["spatial_scale"]), 0.5))
        for v in (low, high)
    )
    length = r.apply("maximum", r.apply("add", r.apply("subtract", last, first), 1.0), 1.0)
    part = r.apply("divide", length, float(parts))
    begin = r.apply("floor", r.apply("multiply", number, part))
    end = r.apply("ceil", r.apply("multiply", r.apply("add", number, 1.0), part))
    limit = r.dim(size)

    def held(place: Any) -> Any:
        whole = r.cast(r.apply("add", place, first), INT64)
        return r.apply("minimum", r.apply("maximum", whole, 0), limit)

    return held(begin), held(end)


@roi_pool.numpy
@like(roi_pool.rule)
def _(data: Array, rois: Array, **attrs: Any) -> Array:
    layout, kind = region_layout(_POOL, attrs["layout"]), wide(dtype_of(data.dtype))
    x = data.transpose(layout.places)
    pooled = attrs["pooled_size"]
    result = np.zeros((len(rois), x.shape[1], *pooled), data.dtype)
    images = batch_array(rois, x.shape[0])
    for region, row in enumerate(rois.astype(kind.numpy)):
        corners = [np.array(v) for v in row[1:]]
        for part in np.ndindex(*pooled):
            ends = []
            for k in (0, 1):
                number = np.array(float(part[k]), kind.numpy)
                sides = corners[1 - k], corners[3 - k]
                size = int(x.shape[2 + k])
                pair = part_of(ARRAYS, *sides, number, pooled[k], size, attrs, kind)
                ends.append(slice(*(int(v) for v in pair)))
            window = x[images[region], :, ends[0], ends[1]]
            if window.shape[1] and window.shape[2]:
                result[region, :, part[0], part[1]] = window.max((1, 2))
    return np.asarray(result.transpose(layout.arranged((0, 1, 2, 3))))


@roi_pool.compute
@like(roi_pool.rule)
def _(data: Tensor, rois: Tensor, **attrs: Any) -> Tensor:
    layout, kind = region_layout(_POOL, attrs["layout"]), wide(data.dtype)
    batch, channels, height, width = layout.canonical(data.shape)
    pooled = attrs["pooled_size"]
    shape = (rois.shape[0], channels, *pooled)

    def build(w: Writer, x: Memory, rois: Memory, result: Memory) -> None:
        with w.phase(product(shape)) as flat:
            region, channel, *part = unflattened(flat, shape)
            image = w.let(te.index(te.cast(rois[region, te.dim(0)], INT64), batch))
            sides = [te.cast(rois[region, te.dim(k)], kind) for k in range(1, 5)]
            ends = []
            for k, size in enumerate((height, width)):
                number, pair = te.cast(part[k], kind), (sides[1 - k], sides[3 - k])
                found = part_of(SCALARS, *pair, number, pooled[k], size, attrs, kind)
                ends.append([w.let(v) for v in found])
            most = w.cell(te.const(float("-inf"), data.dtype))
            with w.loop(ends[0][0], ends[0][1]) as i, w.loop(ends[1][0], ends[1][1]) as j:
                row, column = te.index(i, height, "clip"), te.index(j, width, "clip")
                value = x[layout.arranged((image, channel, row, column))]
                most.value = te.scalar("maximum", most.value, value)
            filled = te.scalar("logical_and", ends[0][0] < ends[0][1], ends[1][0] < ends[1][1])
            value = te.select(filled, most.value, 0.0)
            result[layout.arranged((region, channel, *part))] = value

    kinds = [(layout.arranged(shape), data.dtype)]
    work = dim_mul(product(shape), 64)
    return te.program(kinds, [data, rois], build, work, "roi_pool")[0]


# -- Space in channels ----------------------------------------------------------------------------


@operator(_REORG, fusion=Fusion.INJECTIVE)
def yolo_reorg(data: Numeric, *, stride: int = 1) -> TensorType:
    """Images [n, c, rows, columns] as [n, c * stride**2, rows / stride, columns / stride], in the
    order of the YOLO networks.

    Elements are read as [n, c / stride**2, rows * stride, columns * stride]; those whose row and
    column are (p, q) modulo `stride` come together, p before q before channels, and are read as the
    result.

    >>> %x = float32 [[[[1, 2]], [[3, 4]], [[5, 6]], [[7, 8]]]]
    >>> vision.yolo_reorg(%x, stride=1)
    [[[[1, 2]], [[3, 4]], [[5, 6]], [[7, 8]]]]
    """
    require_rank(data, 4, 4, f"`data` of `{_REORG}`")
    require_least(_REORG, "stride", stride)
    n, c, rows, columns = data.shape
    for what, size, by in (
        ("channels", c, stride * stride),
        ("rows", rows, stride),
        ("columns", columns, stride),
    ):
        require_equal(dim_mod(size, by), 0, f"{what} of `data` of `{_REORG}` modulo {by}, and 0,")
    halves = dim_floordiv(rows, stride), dim_floordiv(columns, stride)
    shape = (n, dim_mul(c, stride * stride), *halves)
    return TensorType(shape, data.dtype)


@yolo_reorg.numpy
def _(data: Array, *, stride: int) -> Array:
    n, c, rows, columns = data.shape
    part = c // (stride * stride)
    read = data.reshape(n, part, rows, stride, columns, stride).transpose(0, 3, 5, 1, 2, 4)
    shape = n, c * stride * stride, rows // stride, columns // stride
    return np.asarray(read.reshape(shape))


@yolo_reorg.compute
def _(data: Tensor, *, stride: int) -> Tensor:
    n, c, rows, columns = data.shape
    part = dim_floordiv(c, stride * stride)
    halves = dim_floordiv(rows, stride), dim_floordiv(columns, stride)
    shape = (n, dim_mul(c, stride * stride), *halves)
    apart = (stride, stride, part, rows, columns)
    together = (part, rows, stride, columns, stride)

    def element(image: ScalarExpr, *i: ScalarExpr) -> ScalarExpr:
        p, q, channel, y, x = unflattened(flattened(i, shape[1:]), apart)
        place = flattened((channel, y, p, x, q), together)
        return data[(image,) + unflattened(place, data.shape[1:])]

    return te.compute(shape, element, "yolo_reorg")


OPERATORS = (roi_align, roi_pool, yolo_reorg)
