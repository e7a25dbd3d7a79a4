"""Images resampled to another size, and the gradients of that."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from relayvm.base.diagnostics import quantity
from relayvm.base.dims import Dim, dim_mul
from relayvm.base.dtypes import DType, dtype_of, number_of
from relayvm.base.shapes import ShapeError, bad_value, require_equal
from relayvm.ir.types import TensorType
from relayvm.kernels import compute as te
from relayvm.kernels.compute import ScalarExpr, Tensor
from relayvm.kernels.schedules.program import LONG_STEPS, Memory, Writer
from relayvm.ops import numeric
from relayvm.ops.axes import product, require_known, require_rank, sizes_of
from relayvm.ops.dynamic import (
    any_of,
    dims_if,
    entries,
    length_of,
    open_shape,
    size_rules,
    sizes_in,
)
from relayvm.ops.formulas import ARRAYS, SCALARS
from relayvm.ops.layouts import SPATIAL, Layout, data_layout
from relayvm.ops.numeric import Array
from relayvm.ops.operator import Fusion, Operator, operator
from relayvm.ops.resampling import Axis, Taps, read_region, read_way, total_of
from relayvm.ops.reshaping import unflattened
from relayvm.ops.schema import AnyTensor, Dims, Float, Floats, Integer, Numeric, like, number_dtype
from relayvm.ops.windows import both

_DYNAMIC, _BACK = "dyn.image.resize2d", "dyn.image.resize2d_grad"


# -- numpy ----------------------------------------------------------------------------------------


def _array_taps(axes: Sequence[Axis], dtype: DType) -> list[Taps]:
    return [axis.taps(ARRAYS, np.arange(*sizes_of((axis.result,))), dtype) for axis in axes]


def _along(value: Array, axis: int, rank: int) -> Array:
    """Return a vector, or one number, shaped to be broadcast along an axis."""
    vector: Array = np.atleast_1d(value)
    return vector.reshape([-1 if k == axis else 1 for k in range(rank)])


def _choices(taps: Sequence[Taps]) -> Any:
    return itertools.product(*(range(len(t.elements)) for t in taps))


def _clipped(axis: Axis, elements: Array) -> Array:
    (size, result) = sizes_of((axis.size, axis.result))
    whole = np.broadcast_to(elements, (result,))
    return np.asarray(np.clip(whole, 0, max(size - 1, 0)))


def _weight_array(taps: Sequence[Taps], choice: Any, at: Sequence[int], rank: int) -> Any:
    weight: Any = None
    for k, each, a in zip(choice, taps, at):
        if each.weights:
            factor = _along(each.weights[k], a, rank)
            weight = factor if weight is None else weight * factor
    return weight


def _inside_array(taps: Sequence[Taps], at: Sequence[int], rank: int) -> Any:
    inside: Any = None
    for each, a in zip(taps, at):
        if each.inside is not None:
            here = _along(each.inside, a, rank)
            inside = here if inside is None else inside & here
    return inside


def resized_array(data: Array, axes: Sequence[Axis], at: Sequence[int], dtype: DType) -> Array:
    """Return `data` with the axes `at` resized."""
    total = total_of(dtype_of(data.dtype))
    taps = _array_taps(axes, total)
    summed: Any = None
    for choice in _choices(taps):
        part = data
        for k, each, axis, a in zip(choice, taps, axes, at):
            part = np.take(part, _clipped(axis, each.elements[k]), axis=a)
        weight = _weight_array(taps, choice, at, data.ndim)
        if weight is None:
            summed = part
            continue
        part = part.astype(total.numpy) * weight
        summed = part if summed is None else summed + part
    result = numeric.cast(summed, dtype)
    inside = _inside_array(taps, at, data.ndim)
    if inside is None:
        return result
    outside = numeric.cast(np.array(axes[0].way.extrapolation), dtype)
    return np.where(inside, result, outside)


def resize_gradient_array(
    grad: Array, data: Array, axes: Sequence[Axis], at: Sequence[int]
) -> Array:
    """Return the sums of a gradient times the weights of elements of `data`."""
    total = total_of(dtype_of(grad.dtype))
    taps = _array_taps(axes, total)
    g = grad.astype(total.numpy)
    inside = _inside_array(taps, at, grad.ndim)
    if inside is not None:
        g = np.where(inside, g, total.numpy.type(0))
    result = np.zeros(data.shape, total.numpy)
    for choice in _choices(taps):
        grid = [np.arange(n) for n in grad.shape]
        for k, each, axis, a in zip(choice, taps, axes, at):
            grid[a] = _clipped(axis, each.elements[k])
        weight = _weight_array(taps, choice, at, grad.ndim)
        np.add.at(result, np.ix_(*grid), g if weight is None else g * weight)
    return result.astype(grad.dtype)


# -- Loops ----------------------------------------------------------------------------------------


def _inside_value(taps: Sequence[Taps]) -> ScalarExpr | None:
    inside: ScalarExpr | None = None
    for each in taps:
        if each.inside is not None:
            inside = both(inside, each.inside)
    return inside


def _weight_value(taps: Sequence[Taps], choice: Any) -> ScalarExpr | None:
    weight: ScalarExpr | None = None
    for k, each in zip(choice, taps):
        if each.weights:
            weight = each.weights[k] if weight is None else weight * each.weights[k]
    return weight


def resized_tensor(data: Tensor, axes: Sequence[Axis], at: Sequence[int], dtype: DType) -> Tensor:
    """Return `data` with the axes `at` resized."""
    total = total_of(data.dtype)
    results = dict(zip(at, (axis.result for axis in axes)))

    def element(*i: ScalarExpr) -> ScalarExpr:
        taps = [axis.taps(SCALARS, i[a], total) for axis, a in zip(axes, at)]
        summed: ScalarExpr | None = None
        for choice in _choices(taps):
            index = list(i)
            for k, each, axis, a in zip(choice, taps, axes, at):
                index[a] = te.index(each.elements[k], axis.size, "clip")
            value, weight = data[tuple(index)], _weight_value(taps, choice)
            part = value if weight is None else te.cast(value, total) * weight
            summed = part if summed is None else summed + part
        assert summed is not None
        inside, result = _inside_value(taps), te.cast(summed, dtype)
        if inside is None:
            return result
        outside = number_of(numeric.cast(np.array(axes[0].way.extrapolation), dtype))
        return te.select(inside, result, outside)

    shape = tuple(results.get(k, d) for k, d in enumerate(data.shape))
    return te.compute(shape, element, "resize")


Regional = Callable[[Memory], Sequence[Axis]]


def _gradient_tensor(
    grad: Tensor,
    data: Tensor,
    axes: Sequence[Axis],
    at: Sequence[int],
    roi: tuple[Tensor, Regional] | None = None,
) -> Tensor:
    """Return the gradient of the data; with a `roi` in a tensor the axes follow from it."""
    total = total_of(grad.dtype)
    outer = [k for k in range(grad.rank) if k not in at]
    lines = tuple(grad.shape[k] for k in outer)
    sizes = tuple(data.shape[a] for a in at)
    places = tuple(axis.result for axis in axes)

    def build(w: Writer, g: Memory, *more: Memory) -> None:
        *region, result = more

        def placed(line: Sequence[ScalarExpr], inner: Sequence[ScalarExpr]) -> tuple[Any, ...]:
            """Return the place in a tensor of one on a line."""
            whole: list[Any] = [None] * grad.rank
            for k, value in (*zip(outer, line), *zip(at, inner)):
                whole[k] = value
            return tuple(whole)

        parts = w.parts(product(lines), product(sizes))
        with parts as (line, begin, end), w.loop(begin, end) as flat:
            result[placed(unflattened(line, lines), unflattened(flat, sizes))] = 0.0
        with w.walk_lines(product(lines), product(places), block=LONG_STEPS) as (line, flat, _):
            own = tuple(w.let(v) for v in unflattened(line, lines))
            around = axes if roi is None else roi[1](region[0])
            inner = [w.let(v) for v in unflattened(flat, places)]
            taps = [axis.taps(SCALARS, i, total) for axis, i in zip(around, inner)]
            slope, inside = te.cast(g[placed(own, inner)], total), _inside_value(taps)
            slope = w.let(slope if inside is None else te.select(inside, slope, 0.0))
            for choice in _choices(taps):
                chosen = [
                    w.let(te.index(each.elements[k], axis.size, "clip"))
                    for k, each, axis in zip(choice, taps, axes)
                ]
                weight = _weight_value(taps, choice)
                part = slope if weight is None else slope * weight
                place = placed(own, chosen)
                result[place] = result[place] + part

    work = dim_mul(product(grad.shape), 4 ** len(at))
    inputs = [grad] if roi is None else [grad, roi[0]]
    (summed,) = te.program([(data.shape, total)], inputs, build, work, "resize_grad")
    return te.compute(data.shape, lambda *i: te.cast(summed[i], grad.dtype), "resize_grad")


# -- Rows -----------------------------------------------------------------------------------------

_TEXT = """\
{what} resampled to the `size` of {axes}.

`coordinate_transformation_mode` places element x of a result of n elements over m elements:
"half_pixel" at `(x + 1/2) * m / n - 1/2`, "pytorch_half_pixel" the same and at 0 where n is 1,
"tf_half_pixel_for_nn" at `(x + 1/2) * m / n`, "align_corners" at `x * (m - 1) / (n - 1)`,
"asymmetric" at `x * m / n`; "tf_crop_and_resize" spreads it over the `roi` (begins, then ends, as
parts of the size), with `extrapolation_value` outside the data. `method` takes the nearest element
("nearest_neighbor"), or weighs two ("linear") or four ("cubic", with `cubic_alpha`; those outside
do not count with `cubic_exclude`). `rounding_method` says which is nearest: "round" and
"round_prefer_ceil" round halves up, "round_prefer_floor" down, "floor" and "ceil" take that side;
"" is "round" for "align_corners", else "floor".
"""


def _geometry(
    name: str, spatial: int, shape: Sequence[Dim], attrs: Any
) -> tuple[list[Axis], tuple[int, ...]]:
    """Return the resized axes, and where they are."""
    layout = data_layout(attrs["layout"], spatial, f"`layout` of `{name}`")
    size = require_known(attrs["size"], f"`size` of `{name}`")
    if len(size) != spatial:
        wanted = quantity(spatial, "entry", "entries")
        message = f"`size` of `{name}` must have {wanted}, got {len(size)}"
        raise ShapeError(message, "bad-attribute")
    way, region = read_way(name, attrs), read_region(name, attrs["roi"], spatial)
    at = layout.places[2:]
    return [Axis(shape[a], n, way, *ends) for a, n, ends in zip(at, size, region)], at


def _sized(name: str, data: TensorType, axes: Sequence[Axis], at: Sequence[int]) -> Dims:
    """Return the shape of the result; places need elements."""
    for axis, a in zip(axes, at):
        if axis.size == 0 and axis.result != 0:
            raise ShapeError(f"axis {a} of `data` of `{name}` has no elements to resize")
    results = dict(zip(at, (axis.result for axis in axes)))
    return tuple(results.get(k, d) for k, d in enumerate(data.shape))


def _forward(spatial: int, what: str, axes_text: str, example: str) -> Operator:
    name, letters = f"image.resize{spatial}d", SPATIAL[spatial]

    def rule(
        data: Numeric,
        *,
        size: Dims,
        roi: Floats = (),
        layout: str = f"NC{letters}",
        method: str = "linear",
        coordinate_transformation_mode: str = "half_pixel",
        rounding_method: str = "round",
        cubic_alpha: float = -0.5,
        cubic_exclude: bool = False,
        extrapolation_value: float = 0.0,
        out_dtype: DType | None = None,
    ) -> TensorType:
        attrs = locals()
        require_rank(data, spatial + 2, spatial + 2, f"`data` of `{name}`")
        axes, at = _geometry(name, spatial, data.shape, attrs)
        shape = _sized(name, data, axes, at)
        return TensorType(shape, number_dtype(name, out_dtype, data.dtype))

    doc = _TEXT.format(what=what, axes=axes_text) + f"\n{example}"
    row = operator(name, fusion=Fusion.INJECTIVE, ulp=8, doc=doc)(rule)

    @row.numpy
    @like(rule)
    def _(data: Array, **attrs: Any) -> Array:
        axes, at = _geometry(name, spatial, data.shape, attrs)
        return resized_array(data, axes, at, attrs["out_dtype"] or dtype_of(data.dtype))

    @row.compute
    @like(rule)
    def _(data: Tensor, **attrs: Any) -> Tensor:
        axes, at = _geometry(name, spatial, data.shape, attrs)
        return resized_tensor(data, axes, at, attrs["out_dtype"] or data.dtype)

    return row


def _backward(spatial: int, example: str) -> Operator:
    name, letters = f"image.resize{spatial}d_grad", SPATIAL[spatial]

    def rule(
        grad: Float,
        data: AnyTensor,
        *,
        size: Dims,
        roi: Floats = (),
        layout: str = f"NC{letters}",
        method: str = "linear",
        coordinate_transformation_mode: str = "half_pixel",
        rounding_method: str = "round",
        cubic_alpha: float = -0.5,
        cubic_exclude: bool = False,
        extrapolation_value: float = 0.0,
        out_dtype: DType | None = None,
    ) -> TensorType:
        attrs = locals()
        for operand, tensor in (("grad", grad), ("data", data)):
            require_rank(tensor, spatial + 2, spatial + 2, f"`{operand}` of `{name}`")
        axes, at = _geometry(name, spatial, data.shape, attrs)
        for axis, (a, b) in enumerate(zip(grad.shape, _sized(name, data, axes, at))):
            require_equal(a, b, f"axis {axis} of `grad` of `{name}` and of the resized `data`")
        number_dtype(name, out_dtype, data.dtype)
        return TensorType(data.shape, grad.dtype)

    doc = (
        "For each element of `data` the sum of `grad` times its weights in "
        f"`image.resize{spatial}d`.\n\n{example}"
    )
    row = operator(name, fusion=Fusion.OPAQUE, ulp=8, doc=doc)(rule)

    @row.numpy
    @like(rule)
    def _(grad: Array, data: Array, **attrs: Any) -> Array:
        return resize_gradient_array(grad, data, *_geometry(name, spatial, data.shape, attrs))

    @row.compute
    @like(rule)
    def _(grad: Tensor, data: Tensor, **attrs: Any) -> Tensor:
        return _gradient_tensor(grad, data, *_geometry(name, spatial, data.shape, attrs))

    @row.reduction_size
    @like(rule)
    def _(grad: TensorType, data: TensorType, **attrs: Any) -> Dim:
        return dim_mul(product(attrs["size"]), 4**spatial)

    return row


def _nested(spatial: int, row: str) -> str:
    return "[" * (spatial + 1) + row + "]" * (spatial + 1)


def _pair(spatial: int, what: str, axes: str) -> tuple[Operator, Operator]:
    size = [*[1] * (spatial - 1), 4]
    example = (
        f">>> %x = float32 {_nested(spatial, '[1, 3]')}\n"
        f">>> image.resize{spatial}d(%x, size={size})\n{_nested(spatial, '[1, 1.5, 2.5, 3]')}"
    )
    back = (
        f">>> %g = float32 {_nested(spatial, '[1, 10, 100, 1000]')}\n"
        f">>> %x = float32 {_nested(spatial, '[0, 0]')}\n"
        f">>> image.resize{spatial}d_grad(%g, %x, size={size})\n"
        f"{_nested(spatial, '[33.5, 1077.5]')}"
    )
    return _forward(spatial, what, axes, example), _backward(spatial, back)


RESIZES = (
    _pair(1, "Signals", "their axis"),
    _pair(2, "Images", "their rows and columns"),
    _pair(3, "Volumes", "their depth, rows and columns"),
)


# -- With a size in a tensor ----------------------------------------------------------------------


@operator(
    _DYNAMIC,
    fusion=Fusion.OPAQUE,
    ulp=8,
    ignored=("size", "roi"),
    value_operands=("size",),
)
def dyn_resize2d(
    data: Numeric,
    size: Integer,
    roi: Float,
    *,
    layout: str = "NCHW",
    method: str = "linear",
    coordinate_transformation_mode: str = "half_pixel",
    rounding_method: str = "round",
    cubic_alpha: float = -0.5,
    cubic_exclude: bool = False,
    extrapolation_value: float = 0.0,
    out_dtype: DType | None = None,
) -> TensorType:
    """`image.resize2d` to the `size` [2] and with the `roi` [4] of tensors.

    >>> %x = float32 [[[[1, 3]]]]
    >>> %s = int32 [1, 4]
    >>> %r = float32 [0, 0, 1, 1]
    >>> dyn.image.resize2d(%x, %s, %r)
    [[[[1, 1.5, 2.5, 3]]]]
    """
    attrs = locals()
    require_rank(data, 4, 4, f"`data` of `{_DYNAMIC}`")
    for operand, tensor, length in (("size", size, 2), ("roi", roi, 4)):
        if length_of(tensor, f"`{operand}` of `{_DYNAMIC}`") != length:
            message = f"`{operand}` of `{_DYNAMIC}` must have {length} entries"
            raise ShapeError(f"{message}, got {tensor.shape[0]}")
    read_way(_DYNAMIC, attrs)
    sizes = open_shape(size, f"`size` of `{_DYNAMIC}`")
    shape = _layout(layout).arranged((*_layout(layout).canonical(data.shape)[:2], *sizes))
    return TensorType(shape, number_dtype(_DYNAMIC, out_dtype, data.dtype))


def _layout(text: str) -> Layout:
    return data_layout(text, 2, f"`layout` of `{_DYNAMIC}`")


def _dynamic_axes(
    shape: Sequence[Dim], sizes: Sequence[Dim], region: Sequence[Any], attrs: Any
) -> tuple[list[Axis], tuple[int, ...]]:
    at, way = _layout(attrs["layout"]).places[2:], read_way(_DYNAMIC, attrs)
    ends = zip(region[:2], region[2:])
    return [Axis(shape[a], n, way, *pair) for a, n, pair in zip(at, sizes, ends)], at


@dyn_resize2d.value_shape
@like(dyn_resize2d.rule)
def _(data: Any, size: Array, roi: Any, **attrs: Any) -> Dims:
    sizes = sizes_in(size)
    spatial = [data.shape[a] for a in _layout(attrs["layout"]).places[2:]]
    for old, new in zip(spatial, sizes):
        if old == 0 and new != 0:
            raise bad_value("empty", new)
    # In the order in which the sizes stand in the result.
    order = np.argsort(_layout(attrs["layout"]).places[2:])
    return tuple(sizes[k] for k in order)


@dyn_resize2d.numpy
@like(dyn_resize2d.rule)
def _(data: Array, size: Array, roi: Array, **attrs: Any) -> Array:
    sizes = sizes_in(size)
    total = total_of(dtype_of(data.dtype))
    region = [ARRAYS.cast(v, total) for v in roi.reshape(4, 1)]
    axes, at = _dynamic_axes(data.shape, sizes, [v.reshape(()) for v in region], attrs)
    return resized_array(data, axes, at, attrs["out_dtype"] or dtype_of(data.dtype))


@dyn_resize2d.value_dims
@like(dyn_resize2d.rule)
def _(data: Tensor, size: Tensor, roi: Tensor, **attrs: Any) -> tuple[Tensor, ...]:
    sizes, rules = entries(size), size_rules(size)
    places = _layout(attrs["layout"]).places[2:]
    for new, place in zip(sizes, places):
        some = te.scalar("not_equal", te.dim(data.shape[place]), 0)
        rules.append((any_of(some, new <= 0), te.told("empty", new)))
    return dims_if(rules, [sizes[int(k)] for k in np.argsort(places)])


def _dynamic_compute(dims: Dims, data: Tensor, size: Tensor, roi: Tensor, **attrs: Any) -> Tensor:
    total = total_of(data.dtype)
    places = _layout(attrs["layout"]).places[2:]
    order = {int(k): dims[position] for position, k in enumerate(np.argsort(places))}
    region = [te.cast(roi[te.dim(k)], total) for k in range(4)]
    axes, at = _dynamic_axes(data.shape, [order[0], order[1]], region, attrs)
    return resized_tensor(data, axes, at, attrs["out_dtype"] or data.dtype)


dyn_resize2d.compute(like(dyn_resize2d.rule)(_dynamic_compute))


@operator(_BACK, fusion=Fusion.OPAQUE, ulp=8, ignored=("size",))
def dyn_resize2d_grad(
    grad: Float,
    data: AnyTensor,
    roi: Float,
    *,
    layout: str = "NCHW",
    method: str = "linear",
    coordinate_transformation_mode: str = "half_pixel",
    rounding_method: str = "round",
    cubic_alpha: float = -0.5,
    cubic_exclude: bool = False,
    extrapolation_value: float = 0.0,
    out_dtype: DType | None = None,
) -> TensorType:
    """For each element of `data` the sum of `grad` times its weights in `dyn.image.resize2d`, whose
    sizes are those of `grad`.

    >>> %g = float32 [[[[1, 10, 100, 1000]]]]
    >>> %x = float32 [[[[0, 0]]]]
    >>> %r = float32 [0, 0, 1, 1]
    >>> dyn.image.resize2d_grad(%g, %x, %r)
    [[[[33.5, 1077.5]]]]
    """
    attrs = locals()
    for operand, tensor in (("grad", grad), ("data", data)):
        require_rank(tensor, 4, 4, f"`{operand}` of `{_BACK}`")
    if length_of(roi, f"`roi` of `{_BACK}`") != 4:
        raise ShapeError(f"`roi` of `{_BACK}` must have 4 entries, got {roi.shape[0]}")
    read_way(_BACK, attrs)
    number_dtype(_BACK, out_dtype, data.dtype)
    plan = _layout(layout)
    kept = zip(plan.canonical(grad.shape)[:2], plan.canonical(data.shape)[:2])
    for what, (a, b) in zip(("batches", "channels"), kept):
        require_equal(a, b, f"{what} of `grad` and `data` of `{_BACK}`")
    return TensorType(data.shape, grad.dtype)


@dyn_resize2d_grad.numpy
@like(dyn_resize2d_grad.rule)
def _(grad: Array, data: Array, roi: Array, **attrs: Any) -> Array:
    total = total_of(dtype_of(grad.dtype))
    region = [ARRAYS.cast(v, total).reshape(()) for v in roi.reshape(4, 1)]
    sizes = [grad.shape[a] for a in _layout(attrs["layout"]).places[2:]]
    return resize_gradient_array(grad, data, *_dynamic_axes(data.shape, sizes, region, attrs))


@dyn_resize2d_grad.compute
@like(dyn_resize2d_grad.rule)
def _(grad: Tensor, data: Tensor, roi: Tensor, **attrs: Any) -> Tensor:
    total = total_of(grad.dtype)
    sizes = [grad.shape[a] for a in _layout(attrs["layout"]).places[2:]]

    def regional(region: Memory) -> Sequence[Axis]:
        ends = [te.cast(region[te.dim(k)], total) for k in range(4)]
        return _dynamic_axes(data.shape, sizes, ends, attrs)[0]

    axes, at = _dynamic_axes(data.shape, sizes, [te.const(0.0, total)] * 4, attrs)
    return _gradient_tensor(grad, data, axes, at, (roi, regional))


@dyn_resize2d_grad.reduction_size
@like(dyn_resize2d_grad.rule)
def _(grad: TensorType, data: TensorType, roi: TensorType, **attrs: Any) -> Dim:
    places = _layout(attrs["layout"]).places[2:]
    return dim_mul(product(grad.shape[a] for a in places), 16)


OPERATORS = (*(row for pair in RESIZES for row in pair), dyn_resize2d, dyn_resize2d_grad)
