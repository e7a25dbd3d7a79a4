"""The strided slice and its gradient."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from relayvm.base.diagnostics import quantity
from relayvm.base.dims import Dim, dim_add, dim_floordiv, dim_max, dim_min, dim_sub
from relayvm.base.shapes import ShapeError, require_equal
from relayvm.ir.types import TensorType
from relayvm.kernels import compute as te
from relayvm.kernels.compute import ScalarExpr, Tensor
from relayvm.ops.axes import require_axes
from relayvm.ops.numeric import Array
from relayvm.ops.operator import Fusion, operator
from relayvm.ops.schema import AnyTensor, Dims, Ints, Numeric

# Ends at or above this are written for "to the end", as the original does.
_TO_THE_END = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class _Range:
    """The places `begin + k * stride` for k below `size` along one axis."""

    begin: Dim
    stride: int
    size: Dim


@dataclass(frozen=True, slots=True)
class SliceSpec:
    """The attributes of a slice."""

    begin: Ints
    end: Ints
    strides: Ints
    slice_mode: str
    axes: Ints | None


def slice_ranges(shape: Dims, spec: SliceSpec) -> tuple[_Range, ...]:
    """Return what is taken along each axis; bounds outside an axis are moved to its ends, as in
    numpy.
    """
    if spec.slice_mode not in ("end", "size"):
        raise ShapeError(
            f'`slice_mode` is "{spec.slice_mode}", legal are "end" and "size"', "bad-attribute"
        )
    given = len(spec.begin)
    if len(spec.end) != given:
        raise ShapeError(
            "`begin` and `end` of `strided_slice` differ in length:"
            f" {given} and {quantity(len(spec.end), 'entry', 'entries')}",
            "bad-attribute",
        )
    axes = spec.axes if spec.axes is not None else tuple(range(given))
    if max(len(axes), given) > len(shape) or (spec.axes is not None and given > len(axes)):
        raise ShapeError(
            f"`begin` and `end` of `strided_slice` have {quantity(given, 'entry', 'entries')} for"
            f" {quantity(min(len(axes), len(shape)), 'axis', 'axes')}",
            "bad-attribute",
        )
    most = max(1, len(shape) if spec.axes is None else len(axes))
    if len(spec.strides) > most:
        strides = quantity(len(spec.strides), "entry", "entries")
        message = f"`strides` of `strided_slice` has {strides} for {quantity(most, 'axis', 'axes')}"
        raise ShapeError(message, "bad-attribute")
    ranges = [_Range(0, 1, dim) for dim in shape]
    for k, axis in enumerate(require_axes(axes, len(shape), "`axes` of `strided_slice`")):
        ranges[axis] = _axis_range(shape[axis], k, spec)
    return tuple(ranges)


def _axis_range(extent: Dim, k: int, spec: SliceSpec) -> _Range:
    # One stride serves all axes; of several, missing ones are 1.
    stride = spec.strides[0] if len(spec.strides) == 1 else 1
    if 1 < len(spec.strides) > k:
        stride = spec.strides[k]
    if stride == 0:
        raise ShapeError("a stride of `strided_slice` is 0", "bad-attribute")
    begin = spec.begin[k] if k < len(spec.begin) else None
    end = spec.end[k] if k < len(spec.end) else None
    if spec.slice_mode == "size":
        place, rest = _forward(extent, begin, None)
        size = rest if end is None or end < 0 else dim_min(end, rest)
        return _Range(place, 1, dim_max(size, 0))
    place, span = (_forward if stride > 0 else _backward)(extent, begin, end)
    step = abs(stride)
    size = dim_max(dim_floordiv(dim_add(span, step - 1), step), 0)
    # Nothing is taken from behind the end, which is no place to take it from.
    return _Range(0 if size == 0 else place, stride, size)


# Both give the first place and the distance from it to the end. A bound is moved to the end of the
# axis only where that changes the number of elements, so that symbolic sizes stay simple; and
# x - max(a, b) is written min(x - a, x - b).


def _forward(extent: Dim, begin: int | None, end: int | None) -> tuple[Dim, Dim]:
    if end is None or end >= _TO_THE_END:
        stop = extent
    else:
        stop = dim_min(end, extent) if end >= 0 else dim_add(extent, end)
    if begin is None or begin <= -_TO_THE_END:
        return 0, stop
    if begin >= 0:
        return begin, dim_sub(stop, begin)
    counted = dim_add(extent, begin)
    return dim_max(counted, 0), dim_min(dim_sub(stop, counted), stop)


def _backward(extent: Dim, begin: int | None, end: int | None) -> tuple[Dim, Dim]:
    if begin is None or begin >= _TO_THE_END:
        place = dim_sub(extent, 1)
    elif begin >= 0:
        place = dim_sub(dim_min(begin + 1, extent), 1)
    else:
        place = dim_add(extent, begin)
    if end is None or end <= -_TO_THE_END:
        return place, dim_add(place, 1)
    if end >= 0:
        return place, dim_sub(place, end)
    return place, dim_min(dim_sub(place, dim_add(extent, end)), dim_add(place, 1))


@operator("strided_slice", fusion=Fusion.INJECTIVE)
def strided_slice(
    data: AnyTensor,
    *,
    begin: Ints,
    end: Ints,
    strides: Ints = (1,),
    slice_mode: str = "end",
    axes: Ints | None = None,
) -> TensorType:
    """Elements `begin`, `begin + stride`, ... before `end` along the first axes, or along `axes`.

    Negative bounds count from the end; bounds outside are moved to the ends, as in Python. With
    `slice_mode="size"` `end` holds sizes, -1 meaning all that remains, and strides are 1.

    >>> %x = int32 [1, 2, 3, 4]
    >>> strided_slice(%x, begin=[1], end=[4], strides=[2])
    [2, 4]
    """
    ranges = slice_ranges(data.shape, SliceSpec(begin, end, strides, slice_mode, axes))
    return TensorType(tuple(r.size for r in ranges), data.dtype)


@strided_slice.numpy
def _(
    data: Array, *, begin: Ints, end: Ints, strides: Ints, slice_mode: str, axes: Ints | None
) -> Array:
    ranges = slice_ranges(data.shape, SliceSpec(begin, end, strides, slice_mode, axes))
    return np.asarray(data[tuple(_python_slice(r) for r in ranges)])


def _python_slice(r: _Range) -> slice:
    assert isinstance(r.begin, int) and isinstance(r.size, int)
    stop = r.begin + r.size * r.stride
    return slice(r.begin, None if stop < 0 else stop, r.stride) if r.size else slice(0, 0)


@strided_slice.compute
def _(
    data: Tensor, *, begin: Ints, end: Ints, strides: Ints, slice_mode: str, axes: Ints | None
) -> Tensor:
    ranges = slice_ranges(data.shape, SliceSpec(begin, end, strides, slice_mode, axes))

    def element(*i: ScalarExpr) -> ScalarExpr:
        return data[tuple(te.dim(r.begin) + v * r.stride for v, r in zip(i, ranges))]

    return te.compute(tuple(r.size for r in ranges), element, "strided_slice")


@operator("strided_slice_grad", fusion=Fusion.INJECTIVE)
def strided_slice_grad(
    grad: Numeric,
    data: AnyTensor,
    *,
    begin: Ints,
    end: Ints,
    strides: Ints = (1,),
    slice_mode: str = "end",
    axes: Ints | None = None,
) -> TensorType:
    """Zeros in the shape of `data`, with `grad` at the places that the same `strided_slice` takes.

    >>> %g = float32 [5, 6]
    >>> %x = float32 [1, 2, 3, 4]
    >>> strided_slice_grad(%g, %x, begin=[1], end=[4], strides=[2])
    [0, 5, 0, 6]
    """
    ranges = slice_ranges(data.shape, SliceSpec(begin, end, strides, slice_mode, axes))
    if grad.rank != data.rank:
        raise ShapeError(f"ranks of `grad` and `data` differ: {grad.rank} and {data.rank}")
    for axis, (r, size) in enumerate(zip(ranges, grad.shape)):
        require_equal(size, r.size, f"axis {axis} of `grad` and of the slice of `data`")
    return TensorType(data.shape, grad.dtype)


@strided_slice_grad.numpy
def _(
    grad: Array,
    data: Array,
    *,
    begin: Ints,
    end: Ints,
    strides: Ints,
    slice_mode: str,
    axes: Ints | None,
) -> Array:
    ranges = slice_ranges(data.shape, SliceSpec(begin, end, strides, slice_mode, axes))
    result = np.zeros(data.shape, grad.dtype)
    result[tuple(_python_slice(r) for r in ranges)] = grad
    return result


@strided_slice_grad.compute
def _(
    grad: Tensor,
    data: Tensor,
    *,
    begin: Ints,
    end: Ints,
    strides: Ints,
    slice_mode: str,
    axes: Ints | None,
) -> Tensor:
    ranges = slice_ranges(data.shape, SliceSpec(begin, end, strides, slice_mode, axes))

    def element(*i: ScalarExpr) -> ScalarExpr:
        taken: ScalarExpr | None = None
        places: list[ScalarExpr] = []
        for axis, (v, r) in enumerate(zip(i, ranges)):
            if r.stride == 1 and r.begin == 0 and r.size == data.shape[axis]:
                places.append(v)
                continue
            distance = v - te.dim(r.begin) if r.stride > 0 else te.dim(r.begin) - v
            place = distance // abs(r.stride)
            hit = te.in_range(place, r.size)
            if abs(r.stride) > 1:
                hit = te.scalar("logical_and", hit, (distance % abs(r.stride)).equal(0))
            places.append(te.index(place, r.size, "fill"))
            taken = hit if taken is None else te.scalar("logical_and", taken, hit)
        value = grad[tuple(places)]
        return value if taken is None else te.select(taken, value, 0)

    return te.compute(data.shape, element, "strided_slice_grad")


OPERATORS = (strided_slice, strided_slice_grad)
