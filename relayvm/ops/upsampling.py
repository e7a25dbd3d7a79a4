"""Upsampling: each axis of space multiplied by a number, elements repeated or interpolated.

Coordinates are exact fractions, so no rounding moves an element to its neighbour.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from relayvm.base.dims import Dim, dim_add, dim_floordiv, dim_max, dim_mul, dim_sub, dims_equal
from relayvm.base.dtypes import FLOAT32, DType, dtype_of
from relayvm.base.shapes import ShapeError, require_equal
from relayvm.ir.types import TensorType
from relayvm.kernels import compute as te
from relayvm.kernels.compute import ScalarExpr, Tensor
from relayvm.ops import numeric
from relayvm.ops.axes import product, require_rank, sizes_of
from relayvm.ops.layouts import SPATIAL, data_layout
from relayvm.ops.loads import wide
from relayvm.ops.numeric import Array
from relayvm.ops.operator import Fusion, Operator, operator
from relayvm.ops.schema import AnyTensor, Float, Numeric, like
from relayvm.ops.windows import both

MODES = ("asymmetric", "align_corners", "half_pixel")
_CUBIC_ALPHA = -0.5
# How many elements are weighed for one, and where the first is from the one before the coordinate.
_TAPS = {"nearest": (1, 0), "linear": (2, 0), "cubic": (4, -1)}


@dataclass(frozen=True, slots=True)
class Sampling:
    """One axis: `result` elements taken of `size`, at coordinates of `mode`, by `method`."""

    size: Dim
    result: Dim
    mode: str
    method: str

    def fraction(self, place: Any, dim: Callable[[Dim], Any]) -> tuple[Any, Any]:
        """Return the coordinate of a place in the result as numerator and denominator."""
        if self.mode == "align_corners":
            return place * dim(dim_sub(self.size, 1)), dim(self._gaps(self.result))
        if self.mode == "half_pixel":
            whole = (place * 2 + 1) * dim(self.size) - dim(self.result)
            return whole, dim(dim_mul(self.result, 2))
        return place * dim(self.size), dim(self.result)

    @staticmethod
    def _gaps(size: Dim) -> Dim:
        return dim_max(dim_sub(size, 1), 1)

    def first(self, place: Any, dim: Callable[[Dim], Any]) -> tuple[Any, Any, Any]:
        """Return the first element weighed, which may be outside, and the distance of the
        coordinate behind the one before it, as numerator and denominator.
        """
        up, down = self.fraction(place, dim)
        if self.method == "nearest":
            if self.mode == "align_corners":
                return (up * 2 + down) // (down * 2), up, down
            return up // down, up, down
        return up // down + _TAPS[self.method][1], up % down, down

    @property
    def taps(self) -> int:
        """How many elements are weighed."""
        return _TAPS[self.method][0]

    def weights(self, f: Any) -> list[Any]:
        """Return the weights of the elements for a coordinate `f` behind the one before it."""
        if self.method == "linear":
            return [1.0 - f, f]
        a = _CUBIC_ALPHA

        def near(d: Any) -> Any:
            return ((a + 2.0) * d - (a + 3.0)) * d * d + 1.0

        def far(d: Any) -> Any:
            return ((a * d - 5.0 * a) * d + 8.0 * a) * d - 4.0 * a

        return [far(f + 1.0), near(f), near(1.0 - f), far(2.0 - f)]

    def window(self) -> tuple[int, Dim, Dim, Dim]:
        """Return r, a, b and n so that the results that may weigh element p are among the n from
        `(p - r) * a // b - 1` on.
        """
        reach = 1 if self.taps < 4 else 2
        a, b = self.result, dim_max(self.size, 1)
        if self.mode == "align_corners":
            a, b = self._gaps(self.result), self._gaps(self.size)
        # Half a step more than `2 * reach`: centres of elements are not their numbers.
        count = dim_add(dim_floordiv(dim_mul(a, 4 * reach + 1), dim_mul(b, 2)), 4)
        return reach, a, b, count


Samplings = Sequence[Sampling]


def _total(dtype: DType) -> DType:
    return wide(dtype) if dtype.is_float else FLOAT32


# -- numpy ----------------------------------------------------------------------------------------


def _rows(axis: Sampling, dtype: Any) -> tuple[list[Array], list[Any]]:
    """Return for each tap the elements that the places of the result weigh, and the weights."""
    size, result = sizes_of((axis.size, axis.result))
    start, up, down = axis.first(np.arange(result), lambda d: sizes_of((d,))[0])
    places = [np.clip(start + k, 0, max(size - 1, 0)) for k in range(axis.taps)]
    if axis.method == "nearest":
        return places, [None]
    return places, axis.weights(up.astype(dtype) / np.dtype(dtype).type(down))


def _taps(axes: Samplings, at: Sequence[int], rank: int, dtype: Any) -> Any:
    """Yield index and weight, broadcast over all axes, for each combination of taps."""
    rows = [_rows(axis, dtype) for axis in axes]
    for taps in itertools.product(*(range(axis.taps) for axis in axes)):
        weight: Any = None
        places = []
        for k, (choice, weights), a in zip(taps, rows, at):
            shape = [-1 if axis == a else 1 for axis in range(rank)]
            places.append(choice[k])
            if weights[k] is not None:
                factor = weights[k].reshape(shape)
                weight = factor if weight is None else weight * factor
        yield places, weight


def sampled_array(data: Array, axes: Samplings, at: Sequence[int]) -> Array:
    """Return `data` sampled along axes."""
    dtype = dtype_of(data.dtype)
    if axes[0].method == "nearest":
        result = data
        for axis, a in zip(axes, at):
            result = np.take(result, _rows(axis, np.float64)[0][0], axis=a)
        return result
    total = _total(dtype).numpy
    x = data.astype(total)
    summed: Any = None
    for places, weight in _taps(axes, at, data.ndim, total):
        part = x
        for choice, a in zip(places, at):
            part = np.take(part, choice, axis=a)
        part = part * weight
        summed = part if summed is None else summed + part
    return numeric.cast(summed, dtype)


def upsampling_gradient_array(
    grad: Array, data: Array, axes: Samplings, at: Sequence[int]
) -> Array:
    """Return the sums of a gradient times the weights of elements."""
    total = _total(dtype_of(grad.dtype)).numpy
    g = grad.astype(total)
    result = np.zeros(data.shape, total)
    for places, weight in _taps(axes, at, data.ndim, total):
        grid = [np.arange(n) for n in grad.shape]
        for choice, a in zip(places, at):
            grid[a] = choice
        np.add.at(result, np.ix_(*grid), g if weight is None else g * weight)
    return result.astype(grad.dtype)


# -- Loops ----------------------------------------------------------------------------------------


def _weighed(axis: Sampling, place: ScalarExpr, dtype: DType) -> tuple[list[ScalarExpr], list[Any]]:
    start, up, down = axis.first(place, te.dim)
    places = [te.index(start + k if k else start, axis.size, "clip") for k in range(axis.taps)]
    if axis.method == "nearest":
        return places, [None]
    return places, axis.weights(te.scalar("divide", te.cast(up, dtype), te.cast(down, dtype)))


def sampled_tensor(data: Tensor, axes: Samplings, at: Sequence[int]) -> Tensor:
    """Return the loop-level sampling."""
    dtype, total = data.dtype, _total(data.dtype)
    sizes = dict(zip(at, (axis.result for axis in axes)))

    def element(*i: ScalarExpr) -> ScalarExpr:
        rows = [_weighed(axis, i[a], total) for axis, a in zip(axes, at)]
        summed: ScalarExpr | None = None
        for taps in itertools.product(*(range(axis.taps) for axis in axes)):
            index, weight = list(i), None
            for k, (places, weights), a in zip(taps, rows, at):
                index[a] = places[k]
                if weights[k] is not None:
                    weight = weights[k] if weight is None else weight * weights[k]
            value = data[tuple(index)]
            if weight is None:
                return value
            part = te.cast(value, total) * weight
            summed = part if summed is None else summed + part
        assert summed is not None
        return te.cast(summed, dtype)

    shape = tuple(sizes.get(k, d) for k, d in enumerate(data.shape))
    return te.compute(shape, element, "upsampling")


def upsampling_gradient_tensor(
    grad: Tensor, data: Tensor, axes: Samplings, at: Sequence[int]
) -> Tensor:
    """Return the loop-level form of the same."""
    total = _total(grad.dtype)
    windows = [axis.window() for axis in axes]

    def share(
        axis: Sampling, source: ScalarExpr, element: ScalarExpr
    ) -> tuple[ScalarExpr, ScalarExpr]:
        """Return whether one place of the result takes one element, and with which weight."""
        places, weights = _weighed(axis, source, total)
        hit: ScalarExpr | None = None
        for place in places:
            same = place.equal(element)
            hit = same if hit is None else te.scalar("logical_or", hit, same)
        assert hit is not None
        parts = [
            te.select(place.equal(element), te.const(1, total) if w is None else w, 0)
            for place, w in zip(places, weights)
        ]
        summed = parts[0]
        for part in parts[1:]:
            summed = summed + part
        return hit, summed

    def element(*i: ScalarExpr) -> ScalarExpr:
        def term(*r: ScalarExpr) -> ScalarExpr:
            index, weight, inside = list(i), None, None
            for axis, a, (reach, up, down, _), number in zip(axes, at, windows, r):
                source = ((i[a] - reach) * te.dim(up)) // te.dim(down) - 1 + number
                hit, factor = share(axis, source, i[a])
                inside = both(both(inside, te.in_range(source, axis.result)), hit)
                index[a] = source
                weight = factor if weight is None else weight * factor
            assert inside is not None and weight is not None
            return te.select(inside, te.cast(grad[tuple(index)], total) * weight, 0)

        extents = tuple(window[-1] for window in windows)
        return te.cast(te.reduce("sum", extents, term), grad.dtype)

    return te.compute(data.shape, element, "upsampling_grad")


# -- Rows -----------------------------------------------------------------------------------------


def scaled(size: Dim, scale: float, what: str) -> Dim:
    """Return `round(size * scale)`, halves up. Raises ShapeError `bad-attribute`."""
    if not 0 < scale < 1e6:
        raise ShapeError(f"{what} must be above 0 and below 1e6, got {scale}", "bad-attribute")
    exact = Fraction(scale).limit_denominator(1 << 16)
    up, down = exact.numerator, exact.denominator
    if down == 1:
        return dim_mul(size, up)
    return dim_floordiv(dim_add(dim_mul(size, 2 * up), down), 2 * down)


def _samplings(
    name: str, data: TensorType | Tensor | Array, attrs: Any
) -> tuple[tuple[Sampling, ...], tuple[int, ...]]:
    """Return how each axis of space is sampled by the scales that attributes give."""
    scales = [attrs[f"scale_{letter}"] for letter in "dhw" if f"scale_{letter}" in attrs]
    spatial = len(scales)
    at = space_of(name, data, attrs, spatial)
    sizes = [
        scaled(data.shape[a], scale, f"`scale_{SPATIAL[spatial][k].lower()}` of `{name}`")
        for k, (a, scale) in enumerate(zip(at, scales))
    ]
    return samplings_to(name, data, attrs, sizes)


def space_of(
    name: str, data: TensorType | Tensor | Array, attrs: Any, spatial: int
) -> tuple[int, ...]:
    """Return where the axes of space are; raises ShapeError for data of another rank."""
    at = data_layout(attrs["layout"], spatial, f"`layout` of `{name}`").places[2:]
    if len(data.shape) != spatial + 2:
        message = f"`data` of `{name}` must have rank {spatial + 2}, got {len(data.shape)}"
        raise ShapeError(message)
    return at


def samplings_to(
    name: str,
    data: TensorType | Tensor | Array,
    attrs: Any,
    sizes: Sequence[Dim],
    every_axis: bool = False,
) -> tuple[tuple[Sampling, ...], tuple[int, ...]]:
    """Return how each axis of space is sampled to get these sizes, and where the axes are.

    Axes that keep their size are left out, unless `every_axis` asks for them.
    """
    spatial = len(sizes)
    at = space_of(name, data, attrs, spatial)
    methods = {"nearest_neighbor": "nearest", "bilinear": "linear", "bicubic": "cubic"}
    if spatial == 3:
        methods = {"nearest_neighbor": "nearest", "trilinear": "linear"}
    if attrs["method"] not in methods:
        listed = ", ".join(f'"{m}"' for m in methods)
        message = f'`method` of `{name}` must be one of {listed}, got "{attrs["method"]}"'
        raise ShapeError(message, "bad-attribute")
    mode = attrs.get("coordinate_transformation_mode")
    if mode is None:
        mode = "align_corners" if attrs["align_corners"] else "asymmetric"
    if mode not in MODES:
        listed = ", ".join(f'"{m}"' for m in MODES)
        message = f"`coordinate_transformation_mode` of `{name}` must be one of {listed}"
        raise ShapeError(f'{message}, got "{mode}"', "bad-attribute")
    method = methods[attrs["method"]]
    axes = [(Sampling(data.shape[a], r, mode, method), a) for a, r in zip(at, sizes)]
    changed = [row for row in axes if dims_equal(row[0].size, row[0].result) is not True]
    kept = axes if every_axis else changed or axes[-1:]
    return tuple(axis for axis, _ in kept), tuple(a for _, a in kept)


def _result(data: TensorType, axes: Samplings, at: Sequence[int]) -> TensorType:
    sizes = dict(zip(at, (axis.result for axis in axes)))
    return TensorType(tuple(sizes.get(k, d) for k, d in enumerate(data.shape)), data.dtype)


def _require_result(
    name: str, grad: TensorType, result: TensorType, data: TensorType
) -> TensorType:
    require_rank(grad, data.rank, data.rank, f"`grad` of `{name}`")
    for axis, (a, b) in enumerate(zip(grad.shape, result.shape)):
        require_equal(a, b, f"axis {axis} of `grad` of `{name}` and of the upsampled `data`")
    return TensorType(data.shape, grad.dtype)


@operator("nn.upsampling", fusion=Fusion.INJECTIVE, ulp=4)
def upsampling(
    data: Numeric,
    *,
    scale_h: float = 1.0,
    scale_w: float = 1.0,
    layout: str = "NCHW",
    method: str = "nearest_neighbor",
    align_corners: bool = False,
) -> TensorType:
    """Images `scale_h` times as high and `scale_w` times as wide, sizes rounded.

    `method` is "nearest_neighbor" (the element before), "bilinear" or "bicubic". With
    `align_corners` the corners stay where they are, else element 0 does.

    >>> %x = float32 [[[[1, 3]]]]
    >>> nn.upsampling(%x, scale_h=1f, scale_w=2f, method="bilinear")
    [[[[1, 2, 3, 3]]]]
    """
    axes, at = _samplings("nn.upsampling", data, locals())
    return _result(data, axes, at)


@operator("nn.upsampling3d", fusion=Fusion.INJECTIVE, ulp=4)
def upsampling3d(
    data: Numeric,
    *,
    scale_d: float = 1.0,
    scale_h: float = 1.0,
    scale_w: float = 1.0,
    layout: str = "NCDHW",
    method: str = "nearest_neighbor",
    coordinate_transformation_mode: str = "half_pixel",
) -> TensorType:
    """Volumes multiplied in depth, height and width, sizes rounded.

    `method` is "nearest_neighbor" or "trilinear"; `coordinate_transformation_mode` is
    "half_pixel", "align_corners" or "asymmetric".

    >>> %x = float32 [[[[[1, 3]]]]]
    >>> nn.upsampling3d(%x, scale_w=2f, method="trilinear")
    [[[[[1, 1.5, 2.5, 3]]]]]
    """
    axes, at = _samplings("nn.upsampling3d", data, locals())
    return _result(data, axes, at)


@operator("nn.upsampling_grad", fusion=Fusion.CONTRACTION, ulp=4)
def upsampling_grad(
    grad: Float,
    data: AnyTensor,
    *,
    scale_h: float = 1.0,
    scale_w: float = 1.0,
    layout: str = "NCHW",
    method: str = "nearest_neighbor",
    align_corners: bool = False,
) -> TensorType:
    """For each element of `data` the sum of `grad` times its weights in `nn.upsampling`.

    >>> %g = float32 [[[[1, 10, 100, 1000]]]]
    >>> %x = float32 [[[[0, 0]]]]
    >>> nn.upsampling_grad(%g, %x, scale_w=2f)
    [[[[11, 1100]]]]
    """
    axes, at = _samplings("nn.upsampling_grad", data, locals())
    return _require_result("nn.upsampling_grad", grad, _result(data, axes, at), data)


@operator("nn.upsampling3d_grad", fusion=Fusion.CONTRACTION, ulp=4)
def upsampling3d_grad(
    grad: Float,
    data: AnyTensor,
    *,
    scale_d: float = 1.0,
    scale_h: float = 1.0,
    scale_w: float = 1.0,
    layout: str = "NCDHW",
    method: str = "nearest_neighbor",
    coordinate_transformation_mode: str = "half_pixel",
) -> TensorType:
    """For each element of `data` the sum of `grad` times its weights in `nn.upsampling3d`.

    >>> %g = float32 [[[[[1, 10, 100, 1000]]]]]
    >>> %x = float32 [[[[[0, 0]]]]]
    >>> nn.upsampling3d_grad(%g, %x, scale_w=2f, coordinate_transformation_mode="asymmetric")
    [[[[[11, 1100]]]]]
    """
    axes, at = _samplings("nn.upsampling3d_grad", data, locals())
    return _require_result("nn.upsampling3d_grad", grad, _result(data, axes, at), data)


def _add_forward(row: Operator) -> None:
    @row.numpy
    @like(row.rule)
    def _(data: Array, **attrs: Any) -> Array:
        return sampled_array(data, *_samplings(row.name, data, attrs))

    @row.compute
    @like(row.rule)
    def _(data: Tensor, **attrs: Any) -> Tensor:
        return sampled_tensor(data, *_samplings(row.name, data, attrs))


def _add_backward(row: Operator) -> None:
    @row.numpy
    @like(row.rule)
    def _(grad: Array, data: Array, **attrs: Any) -> Array:
        return upsampling_gradient_array(grad, data, *_samplings(row.name, data, attrs))

    @row.compute
    @like(row.rule)
    def _(grad: Tensor, data: Tensor, **attrs: Any) -> Tensor:
        return upsampling_gradient_tensor(grad, data, *_samplings(row.name, data, attrs))

    @row.reduction_size
    @like(row.rule)
    def _(grad: TensorType, data: TensorType, **attrs: Any) -> Dim:
        return product(axis.window()[-1] for axis in _samplings(row.name, data, attrs)[0])


UPSAMPLING = ((upsampling, upsampling_grad), (upsampling3d, upsampling3d_grad))
for _forward, _backward in UPSAMPLING:
    _add_forward(_forward)
    _add_backward(_backward)
OPERATORS = tuple(row for pair in UPSAMPLING for row in pair)
