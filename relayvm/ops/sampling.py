"""Images sampled at places that other tensors give: grids, and boxes cut out."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from relayvm.base.dims import Dim, dim_max, dim_sub
from relayvm.base.dtypes import INT64, DType, dtype_of, number_of
from relayvm.base.shapes import ShapeError, bad_index, require_equal
from relayvm.ir.types import TensorType
from relayvm.kernels import compute as te
from relayvm.kernels.compute import ScalarExpr, Tensor
from relayvm.ops import numeric
from relayvm.ops.axes import require_known, require_rank, sizes_of
from relayvm.ops.dynamic import all_of
from relayvm.ops.formulas import ARRAYS, SCALARS, Reading
from relayvm.ops.layouts import SPATIAL, Layout, data_layout
from relayvm.ops.numeric import Array
from relayvm.ops.operator import Fusion, operator
from relayvm.ops.resampling import Axis, Way, cubic_curves, cubic_slopes, cubic_weights, total_of
from relayvm.ops.resizing import resized_array
from relayvm.ops.schema import Dims, Float, Integer, Numeric, like, number_dtype

_AFFINE, _GRID, _CROP = "image.affine_grid", "image.grid_sample", "image.crop_and_resize"
_METHODS = ("bilinear", "nearest", "bicubic")
_PADDINGS = ("zeros", "border", "reflection")
# As in the frameworks that grids come from.
_ALPHA = -0.75


# -- Grids from affine maps -----------------------------------------------------------------------


@operator(_AFFINE, fusion=Fusion.INJECTIVE, ulp=4)
def affine_grid(data: Float, *, target_shape: Dims) -> TensorType:
    """The places [n, 2, rows, columns] to which affine maps `data` [n, 2, 3] take the points of a
    regular grid of `target_shape`, in the form that `image.grid_sample` takes.

    Points are (x, y, 1) with x and y from -1 at the first to 1 at the last place of an axis. Over
    volumes maps are [n, 3, 4].

    >>> %m = float32 [[[1, 0, 0.5], [0, 2, 0]]]
    >>> image.affine_grid(%m, target_shape=[2, 2])
    [[[[-0.5, 1.5], [-0.5, 1.5]], [[-2, -2], [2, 2]]]]
    """
    shape = require_known(target_shape, f"`target_shape` of `{_AFFINE}`")
    if len(shape) not in (2, 3):
        message = f"`target_shape` of `{_AFFINE}` must have 2 or 3 entries, got {len(shape)}"
        raise ShapeError(message, "bad-attribute")
    require_rank(data, 3, 3, f"`data` of `{_AFFINE}`")
    for axis, wanted in ((1, len(shape)), (2, len(shape) + 1)):
        what = f"axis {axis} of `data` of `{_AFFINE}` and what it must be"
        require_equal(data.shape[axis], wanted, what)
    return TensorType((data.shape[0], len(shape), *shape), data.dtype)


def _point(r: Reading, place: Any, size: Dim, dtype: DType) -> Any:
    gaps = r.dim(dim_max(dim_sub(size, 1), 1))
    whole = r.apply("subtract", r.apply("multiply", place, 2), r.dim(dim_sub(size, 1)))
    return r.apply("divide", r.cast(whole, dtype), r.cast(gaps, dtype))


@affine_grid.numpy
def _(data: Array, *, target_shape: Dims) -> Array:
    sizes = sizes_of(target_shape)
    total = total_of(dtype_of(data.dtype))
    maps = data.astype(total.numpy).reshape(*data.shape, *(1,) * len(sizes))
    points = np.ix_(*(_point(ARRAYS, np.arange(n), n, total) for n in sizes))
    result = None
    for k, point in enumerate(reversed(points)):
        part = maps[:, :, k] * point
        result = part if result is None else result + part
    return np.asarray((result + maps[:, :, len(sizes)]).astype(data.dtype))


@affine_grid.compute
def _(data: Tensor, *, target_shape: Dims) -> Tensor:
    total, count = total_of(data.dtype), len(target_shape)

    def element(n: ScalarExpr, d: ScalarExpr, *place: ScalarExpr) -> ScalarExpr:
        maps = [te.cast(data[n, d, te.dim(k)], total) for k in range(count + 1)]
        result: ScalarExpr | None = None
        for k, axis in enumerate(reversed(range(count))):
            part = maps[k] * _point(SCALARS, place[axis], target_shape[axis], total)
            result = part if result is None else result + part
        assert result is not None
        return te.cast(result + maps[count], data.dtype)

    return te.compute((data.shape[0], count, *target_shape), element, "affine_grid")


# -- Values at the places of a grid ---------------------------------------------------------------


@operator(_GRID, fusion=Fusion.INJECTIVE, ulp=8)
def grid_sample(
    data: Float,
    grid: Float,
    *,
    method: str = "bilinear",
    layout: str = "NCHW",
    padding_mode: str = "zeros",
    align_corners: bool = True,
) -> TensorType:
    """Images sampled at the places `grid` [n, 2, rows, columns], each (x, y) from -1 to 1; volumes
    at [n, 3, depth, rows, columns], each (x, y, z).

    With `align_corners` -1 and 1 are the centres of the first and last element, else their outer
    edges. `method` takes the nearest element ("nearest", of halves the even one) or weighs two
    ("bilinear") or four ("bicubic", images only) of each axis. Outside the data there are 0
    ("zeros"), the nearest element ("border"), or the data mirrored ("reflection").

    >>> %x = float32 [[[[1, 3]]]]
    >>> %g = float32 [[[[0, 1]], [[0, 0]]]]
    >>> image.grid_sample(%x, %g)
    [[[[2, 3]]]]
    """
    for attribute, given, legal in (
        ("method", method, _METHODS),
        ("padding_mode", padding_mode, _PADDINGS),
    ):
        if given not in legal:
            listed = ", ".join(f'"{m}"' for m in legal)
            message = f'`{attribute}` of `{_GRID}` must be one of {listed}, got "{given}"'
            raise ShapeError(message, "bad-attribute")
    require_rank(data, 4, 5, f"`data` of `{_GRID}`")
    spatial = data.rank - 2
    if layout != f"NC{SPATIAL[spatial]}":
        message = f'`layout` of `{_GRID}` must be "NC{SPATIAL[spatial]}" for rank {data.rank}'
        raise ShapeError(f'{message}, got "{layout}"', "bad-attribute")
    if method == "bicubic" and spatial == 3:
        raise ShapeError(f'`method` of `{_GRID}` is "bicubic" for images only', "bad-attribute")
    require_rank(grid, data.rank, data.rank, f"`grid` of `{_GRID}`")
    require_equal(grid.shape[0], data.shape[0], f"batches of `grid` and `data` of `{_GRID}`")
    require_equal(grid.shape[1], spatial, f"coordinates of `grid` of `{_GRID}` and axes of space")
    return TensorType((*data.shape[:2], *grid.shape[2:]), data.dtype)


class GridAxis:
    """One axis of space of the data, and how places on it are read."""

    def __init__(self, r: Reading, size: Dim, dtype: DType, attrs: Any) -> None:
        self.r, self.size, self.dtype, self.attrs = r, size, dtype, attrs
        self.extent = r.cast(r.dim(size), dtype)
        self.last = r.apply("subtract", self.extent, 1.0)

    def _element(self, x: Any) -> Any:
        """Return the place among elements of a coordinate from -1 to 1."""
        r, moved = self.r, self.r.apply("add", x, 1.0)
        if self.attrs["align_corners"]:
            return r.apply("multiply", r.apply("multiply", moved, self.last), 0.5)
        scaled = r.apply("multiply", r.apply("multiply", moved, self.extent), 0.5)
        return r.apply("subtract", scaled, 0.5)

    def _held(self, x: Any) -> Any:
        r = self.r
        return r.apply("minimum", r.apply("maximum", x, 0.0), self.last)

    def _mirrored(self, x: Any) -> Any:
        r, aligned = self.r, self.attrs["align_corners"]
        start = 0.0 if aligned else -0.5
        length = r.apply("maximum", self.last if aligned else self.extent, 1.0)
        far = r.apply("abs", r.apply("subtract", x, start))
        times = r.apply("trunc", r.apply("divide", far, length))
        rest = r.apply("subtract", far, r.apply("multiply", times, length))
        odd = r.apply("equal", r.apply("mod", times, 2.0), 1.0)
        turned = r.select(odd, r.apply("subtract", length, rest), rest)
        end = r.apply("add", length, start)
        low, high = r.apply("greater_equal", x, start), r.apply("less_equal", x, end)
        inside = r.apply("logical_and", low, high)
        return r.select(inside, x, r.apply("add", turned, start))

    def _moved(self, x: Any) -> Any:
        """Return a place moved into the data as the padding says."""
        padding = self.attrs["padding_mode"]
        if padding == "zeros":
            return x
        return self._held(self._mirrored(x) if padding == "reflection" else x)

    def taps(self, x: Any) -> tuple[list[Any], list[Any]]:
        """Return the elements that a coordinate is made of (int64), and their weights."""
        r, place = self.r, self._element(x)
        if self.attrs["method"] == "bicubic":
            base = r.apply("floor", place)
            weights = cubic_weights(r, r.apply("subtract", place, base), _ALPHA)
            places = [self._moved(r.apply("add", base, k - 1.0)) for k in range(4)]
            return [r.cast(p, INT64) for p in places], weights
        place = self._moved(place)
        if self.attrs["method"] == "nearest":
            return [r.cast(r.apply("round", place), INT64)], []
        base = r.apply("floor", place)
        f = r.apply("subtract", place, base)
        first = r.cast(base, INT64)
        rest = r.apply("add", r.apply("multiply", f, -1.0), 1.0)
        return [first, r.apply("add", first, 1)], [rest, f]

    # -- Derivatives ----------------------------------------------------------------------------

    def _move_slope(self, x: Any) -> Any:
        """Return how a place moved into the data changes with the place before."""
        r, padding = self.r, self.attrs["padding_mode"]
        one = r.const(1.0, self.dtype)
        if padding == "zeros":
            return one
        moved, slope = x, one
        if padding == "reflection":
            moved = self._mirrored(x)
            further = self._mirrored(r.apply("add", x, 2.0**-10))
            rises = r.apply("greater_equal", further, moved)
            slope = r.select(rises, one, r.const(-1.0, self.dtype))
        low, high = r.apply("greater_equal", moved, 0.0), r.apply("less_equal", moved, self.last)
        return r.select(r.apply("logical_and", low, high), slope, r.const(0.0, self.dtype))

    def slopes(self, x: Any) -> list[Any]:
        """Return how the weights of a coordinate change with it; none for the nearest element."""
        r, method = self.r, self.attrs["method"]
        if method == "nearest":
            return []
        place, scale = self._element(x), self._scale()
        if method == "bilinear":
            up = r.apply("multiply", scale, self._move_slope(place))
            return [r.apply("multiply", up, -1.0), up]
        f = r.apply("subtract", place, r.apply("floor", place))
        return [r.apply("multiply", slope, scale) for slope in cubic_slopes(r, f, _ALPHA)]

    def curves(self, x: Any) -> list[Any]:
        """Return how the slopes of a coordinate change with it; none where they do not."""
        r = self.r
        if self.attrs["method"] != "bicubic":
            return []
        place, scale = self._element(x), self._scale()
        f = r.apply("subtract", place, r.apply("floor", place))
        square = r.apply("multiply", scale, scale)
        return [r.apply("multiply", curve, square) for curve in cubic_curves(r, f, _ALPHA)]

    def _scale(self) -> Any:
        """Return how many elements a step of 1 of a coordinate is."""
        length = self.last if self.attrs["align_corners"] else self.extent
        return self.r.apply("multiply", length, 0.5)


def product_of(weights: Sequence[Any]) -> Any:
    """Return the product of weights, None of none."""
    result = None
    for weight in weights:
        result = weight if result is None else result * weight
    return result


@grid_sample.numpy
@like(grid_sample.rule)
def _(data: Array, grid: Array, **attrs: Any) -> Array:
    total = total_of(dtype_of(data.dtype))
    x, places = data.astype(total.numpy), grid.astype(total.numpy)
    sizes = data.shape[2:]
    taps = [
        GridAxis(ARRAYS, n, total, attrs).taps(places[:, len(sizes) - 1 - k])
        for k, n in enumerate(sizes)
    ]
    batch = np.arange(len(data)).reshape(-1, *(1,) * len(sizes))
    result = np.zeros((*data.shape[:2], *grid.shape[2:]), total.numpy)
    for choice in itertools.product(*(range(len(elements)) for elements, _ in taps)):
        at = [elements[k] for k, (elements, _) in zip(choice, taps)]
        inside = np.logical_and.reduce([(v >= 0) & (v < n) for v, n in zip(at, sizes)])
        held = tuple(np.clip(v, 0, max(n - 1, 0)) for v, n in zip(at, sizes))
        value = (
            np.zeros_like(result)
            if 0 in sizes
            else np.moveaxis(x[(batch, slice(None)) + held], -1, 1)
        )
        value = np.where(inside[:, None], value, total.numpy.type(0))
        weight = product_of([weights[k] for k, (_, weights) in zip(choice, taps) if weights])
        result = result + (value if weight is None else value * weight[:, None])
    return np.asarray(result.astype(data.dtype))


@grid_sample.compute
@like(grid_sample.rule)
def _(data: Tensor, grid: Tensor, **attrs: Any) -> Tensor:
    total, sizes = total_of(data.dtype), data.shape[2:]

    def element(n: ScalarExpr, c: ScalarExpr, *place: ScalarExpr) -> ScalarExpr:
        taps = []
        for k, size in enumerate(sizes):
            given = te.cast(grid[(n, te.dim(len(sizes) - 1 - k)) + place], total)
            taps.append(GridAxis(SCALARS, size, total, attrs).taps(given))
        result: ScalarExpr = te.const(0.0, total)
        for choice in itertools.product(*(range(len(elements)) for elements, _ in taps)):
            at = [elements[k] for k, (elements, _) in zip(choice, taps)]
            inside = all_of(*(te.in_range(v, size) for v, size in zip(at, sizes)))
            held = tuple(te.index(v, size, "clip") for v, size in zip(at, sizes))
            value = te.select(inside, te.cast(data[(n, c) + held], total), 0.0)
            weight = product_of([weights[k] for k, (_, weights) in zip(choice, taps) if weights])
            result = result + (value if weight is None else value * weight)
        return te.cast(result, data.dtype)

    return te.compute((*data.shape[:2], *grid.shape[2:]), element, "grid_sample")


# -- Boxes cut out of images ----------------------------------------------------------------------


def crop_layout(text: str) -> Layout:
    """Return the layout of images that boxes are cut out of."""
    return data_layout(text, 2, f"`layout` of `{_CROP}`")


def crop_way(attrs: Any) -> Way:
    """Return how boxes are resampled; raises ShapeError `bad-attribute`."""
    methods = {"bilinear": "linear", "nearest_neighbor": "nearest_neighbor"}
    if attrs["method"] not in methods:
        message = f'`method` of `{_CROP}` must be "bilinear" or "nearest_neighbor"'
        raise ShapeError(f'{message}, got "{attrs["method"]}"', "bad-attribute")
    if not math.isfinite(attrs["extrapolation_value"]):
        message = f"`extrapolation_value` of `{_CROP}` must be finite"
        raise ShapeError(f"{message}, got {attrs['extrapolation_value']}", "bad-attribute")
    outside = attrs["extrapolation_value"]
    return Way(methods[attrs["method"]], "tf_crop_and_resize", "round", 0.0, False, outside)


@operator(
    _CROP,
    fusion=Fusion.INJECTIVE,
    ulp=8,
    value_traps=True,
)
def crop_and_resize(
    data: Numeric,
    boxes: Float,
    box_indices: Integer,
    *,
    crop_size: Dims,
    layout: str = "NCHW",
    method: str = "bilinear",
    extrapolation_value: float = 0.0,
    out_dtype: DType | None = None,
) -> TensorType:
    """Boxes cut out of images, each resampled to the `crop_size` (rows, columns).

    A box of `boxes` [n, 4] is (top, left, bottom, right) from 0 at the first to 1 at the last
    element, of the image `box_indices` [n]; `method` is "bilinear" or "nearest_neighbor". Outside
    the image there is `extrapolation_value`. Gradients take boxes as given.

    >>> %x = float32 [[[[1, 2, 4]]]]
    >>> %b = float32 [[0, 0, 0, 0.5]]
    >>> %i = int32 [0]
    >>> image.crop_and_resize(%x, %b, %i, crop_size=[1, 3])
    [[[[1, 1.5, 2]]]]
    """
    attrs = locals()
    require_rank(data, 4, 4, f"`data` of `{_CROP}`")
    require_rank(boxes, 2, 2, f"`boxes` of `{_CROP}`")
    require_rank(box_indices, 1, 1, f"`box_indices` of `{_CROP}`")
    require_equal(boxes.shape[1], 4, f"numbers of a box of `{_CROP}` and 4, which")
    count = require_equal(boxes.shape[0], box_indices.shape[0], f"boxes and indices of `{_CROP}`")
    size = require_known(crop_size, f"`crop_size` of `{_CROP}`")
    if len(size) != 2:
        message = f"`crop_size` of `{_CROP}` must have 2 entries, got {len(size)}"
        raise ShapeError(message, "bad-attribute")
    crop_way(attrs)
    places = crop_layout(layout)
    shape = places.arranged((count, places.canonical(data.shape)[1], *size))
    return TensorType(shape, number_dtype(_CROP, out_dtype, data.dtype))


def require_images(box_indices: Array, batch: int) -> None:
    """Raise IndexError where a box lies in no image."""
    for image in box_indices:
        if not 0 <= image < batch:
            raise bad_index(int(image), batch)


@crop_and_resize.numpy
@like(crop_and_resize.rule)
def _(data: Array, boxes: Array, box_indices: Array, **attrs: Any) -> Array:
    layout, way = crop_layout(attrs["layout"]), crop_way(attrs)
    dtype = attrs["out_dtype"] or dtype_of(data.dtype)
    total = total_of(dtype_of(data.dtype))
    x, size = data.transpose(layout.places), sizes_of(attrs["crop_size"])
    require_images(box_indices, len(x))
    result = np.zeros((len(boxes), x.shape[1], *size), dtype.numpy)
    for row, (box, image) in enumerate(zip(boxes, box_indices)):
        ends = [ARRAYS.cast(v.reshape(()), total) for v in np.array(box).reshape(4, 1)]
        axes = [Axis(x.shape[2 + k], size[k], way, ends[k], ends[k + 2]) for k in (0, 1)]
        result[row] = resized_array(x[int(image)][None], axes, (2, 3), dtype)[0]
    return np.asarray(result.transpose(layout.arranged((0, 1, 2, 3))))


@crop_and_resize.compute
@like(crop_and_resize.rule)
def _(data: Tensor, boxes: Tensor, box_indices: Tensor, **attrs: Any) -> Tensor:
    layout, way, size = crop_layout(attrs["layout"]), crop_way(attrs), attrs["crop_size"]
    dtype, total = attrs["out_dtype"] or data.dtype, total_of(data.dtype)
    batch, channels, *extents = layout.canonical(data.shape)
    outside = number_of(numeric.cast(np.array(attrs["extrapolation_value"]), dtype))

    def element(*i: ScalarExpr) -> ScalarExpr:
        n, c, *place = layout.canonical(i)
        image = te.index(box_indices[n], batch)
        ends = [te.cast(boxes[n, te.dim(k)], total) for k in range(4)]
        taps = [
            Axis(extents[k], size[k], way, ends[k], ends[k + 2]).taps(SCALARS, place[k], total)
            for k in (0, 1)
        ]
        summed: ScalarExpr | None = None
        for choice in itertools.product(*(range(len(t.elements)) for t in taps)):
            held = [
                te.index(t.elements[k], extent, "clip")
                for k, t, extent in zip(choice, taps, extents)
            ]
            value = data[layout.arranged((image, c, *held))]
            weight = product_of([t.weights[k] for k, t in zip(choice, taps) if t.weights])
            part = value if weight is None else te.cast(value, total) * weight
            summed = part if summed is None else summed + part
        assert summed is not None
        # The condition looks at the image: a box that lies wholly outside must have one, too.
        inside = all_of(te.scalar("greater_equal", image, 0), *(t.inside for t in taps))
        return te.select(inside, te.cast(summed, dtype), outside)

    shape = layout.arranged((boxes.shape[0], channels, *size))
    return te.compute(shape, element, "crop_and_resize")


OPERATORS = (affine_grid, crop_and_resize, grid_sample)
