"""Operators that repeat, reverse or cut along axes."""

from __future__ import annotations

from typing import Any

import numpy as np

from relayvm.base.abi import MAX_RANK
from relayvm.base.diagnostics import quantity
from relayvm.base.dims import (
    Dim,
    dim_add,
    dim_floordiv,
    dim_max,
    dim_min,
    dim_mod,
    dim_mul,
    dim_sub,
)
from relayvm.base.dtypes import INT64
from relayvm.base.shapes import ShapeError, require_equal
from relayvm.ir.types import TensorType, TupleType
from relayvm.kernels import compute as te
from relayvm.kernels.compute import ScalarExpr, Tensor
from relayvm.ops import numeric
from relayvm.ops.axes import product, require_axes, require_axis, require_least, require_rank
from relayvm.ops.loads import Index, load_wide
from relayvm.ops.numeric import Array
from relayvm.ops.operator import Fusion, operator
from relayvm.ops.reshaping import unflattened
from relayvm.ops.schema import (
    AnyTensor,
    Dims,
    Integer,
    Ints,
    Numeric,
    Tensors,
    like,
    require_same_dtype,
)


@operator("tile", fusion=Fusion.BROADCAST)
def tile(data: AnyTensor, *, reps: Ints) -> TensorType:
    """`data` repeated as a whole `reps[k]` times along axis k, counted from the last.

    Missing entries of `reps` are 1; missing axes of `data` have size 1.

    >>> %x = int32 [1, 2]
    >>> tile(%x, reps=[2, 2])
    [[1, 2, 1, 2], [1, 2, 1, 2]]
    """
    return TensorType(tuple(map(dim_mul, *tiling(data.shape, reps))), data.dtype)


def tiling(shape: Dims, reps: Dims) -> tuple[Dims, Dims]:
    """Return sizes and repetitions, each with ones put in front to the same length."""
    if any(isinstance(r, int) and r < 0 for r in reps):
        raise ShapeError(f"`reps` of `tile` must be at least 0, got {list(reps)}", "bad-attribute")
    rank = max(len(shape), len(reps))
    if rank > MAX_RANK:
        raise ShapeError(f"the result of `tile` has rank {rank}, above {MAX_RANK}", "rank-limit")
    return (1,) * (rank - len(shape)) + shape, (1,) * (rank - len(reps)) + reps


@tile.numpy
def _(data: Array, *, reps: Ints) -> Array:
    return np.tile(data, reps)


@tile.compute
def _(data: Tensor, *, reps: Ints) -> Tensor:
    return tiled(data, tuple(map(dim_mul, *tiling(data.shape, reps))))


def tiled(data: Tensor, shape: Dims) -> Tensor:
    """Return `data` repeated to a shape, which counts from the last axis."""
    skipped = len(shape) - data.rank

    def element(*i: ScalarExpr) -> ScalarExpr:
        places = (_inside(i[skipped + k], d, shape[skipped + k]) for k, d in enumerate(data.shape))
        return data[tuple(places)]

    return te.compute(shape, element, "tile")


def _inside(place: ScalarExpr, extent: Dim, whole: Dim) -> ScalarExpr:
    if extent == 1 or extent == whole:
        return place if extent == whole else te.const(0, INT64)
    return place % te.dim(extent)


@operator("tile_grad", fusion=Fusion.REDUCTION)
def tile_grad(grad: Numeric, data: AnyTensor) -> TensorType:
    """Sums of `grad` in the shape of `data`, each element added where `tile` reads it.

    >>> %g = float32 [1, 2, 3, 4]
    >>> %x = float32 [0, 0]
    >>> tile_grad(%g, %x)
    [4, 6]
    """
    require_rank(grad, data.rank, 99, "`grad` of `tile_grad`")
    skipped = grad.rank - data.rank
    for axis, extent in enumerate(data.shape):
        what = f"remainder of axis {skipped + axis} of `grad` by axis {axis} of `data` and 0"
        require_equal(dim_mod(grad.shape[skipped + axis], dim_max(extent, 1)), 0, what)
    return TensorType(data.shape, grad.dtype)


@tile_grad.numpy
def _(grad: Array, data: Array) -> Array:
    if not data.size or not grad.size:
        return np.zeros(data.shape, grad.dtype)
    skipped = grad.ndim - data.ndim
    parted = list(grad.shape[:skipped])
    for whole, size in zip(grad.shape[skipped:], data.shape):
        parted += [whole // size, size]
    copies = (*range(skipped), *range(skipped, len(parted), 2))
    return numeric.sum_terms(grad.reshape(parted), copies, keepdims=False)


@tile_grad.compute
def _(grad: Tensor, data: Tensor) -> Tensor:
    skipped = grad.rank - data.rank
    pairs = zip(grad.shape[skipped:], data.shape)
    copies = tuple(dim_floordiv(a, dim_max(b, 1)) for a, b in pairs)

    def element(*i: ScalarExpr) -> ScalarExpr:
        def term(*r: ScalarExpr) -> ScalarExpr:
            inner = (r[skipped + k] * d + i[k] for k, d in enumerate(data.shape))
            return load_wide(grad, (*r[:skipped], *inner))

        total = te.reduce("sum", (*grad.shape[:skipped], *copies), term)
        return te.cast(total, grad.dtype)

    return te.compute(data.shape, element, "tile_grad")


@tile_grad.reduction_size
def _(grad: TensorType, data: TensorType) -> Dim:
    return product(grad.shape)


@operator("repeat", fusion=Fusion.BROADCAST)
def repeat(data: AnyTensor, *, repeats: int, axis: int | None = None) -> TensorType:
    """Each element, or each slice along `axis`, `repeats` times in a row; without `axis` of the
    flattened `data`.

    >>> %x = int32 [1, 2]
    >>> repeat(%x, repeats=2, axis=0)
    [1, 1, 2, 2]
    """
    require_least("repeat", "repeats", repeats, 0)
    if axis is None:
        return TensorType((dim_mul(product(data.shape), repeats),), data.dtype)
    place = require_axis(axis, data.rank)
    shape = list(data.shape)
    shape[place] = dim_mul(shape[place], repeats)
    return TensorType(tuple(shape), data.dtype)


@repeat.numpy
def _(data: Array, *, repeats: int, axis: int | None) -> Array:
    return np.repeat(data, repeats, axis)


@repeat.compute
def _(data: Tensor, *, repeats: int, axis: int | None) -> Tensor:
    if axis is None:
        size = dim_mul(product(data.shape), repeats)
        return te.compute(
            (size,), lambda i: data[unflattened(i // te.dim(repeats), data.shape)], "repeat"
        )
    place = require_axis(axis, data.rank)
    shape = list(data.shape)
    shape[place] = dim_mul(shape[place], repeats)

    def element(*i: ScalarExpr) -> ScalarExpr:
        return data[i[:place] + (i[place] // te.dim(repeats),) + i[place + 1 :]]

    return te.compute(tuple(shape), element, "repeat")


@operator("reverse", fusion=Fusion.INJECTIVE)
def reverse(data: AnyTensor, *, axis: int = 0) -> TensorType:
    """`data` with the order along `axis` turned round.

    >>> %x = int32 [1, 2, 3]
    >>> reverse(%x, axis=0)
    [3, 2, 1]
    """
    require_axis(axis, data.rank)
    return TensorType(data.shape, data.dtype)


@reverse.numpy
def _(data: Array, *, axis: int) -> Array:
    return np.flip(data, axis)


@reverse.compute
def _(data: Tensor, *, axis: int) -> Tensor:
    place = require_axis(axis, data.rank)

    def element(*i: ScalarExpr) -> ScalarExpr:
        return data[i[:place] + (te.dim(data.shape[place]) - 1 - i[place],) + i[place + 1 :]]

    return te.compute(data.shape, element, "reverse")


@operator("reverse_sequence", fusion=Fusion.INJECTIVE)
def reverse_sequence(
    data: AnyTensor, seq_lengths: Integer, *, seq_axis: int = 1, batch_axis: int = 0
) -> TensorType:
    """The first `seq_lengths[b]` elements along `seq_axis` turned round, for each b of
    `batch_axis`; the rest stays.

    A length above the size of the axis is that size, one below 1 turns nothing round.

    >>> %x = int32 [[1, 2, 3], [4, 5, 6]]
    >>> %n = int32 [2, 3]
    >>> reverse_sequence(%x, %n)
    [[2, 1, 3], [6, 5, 4]]
    """
    places = require_axes((seq_axis, batch_axis), data.rank, "axes of `reverse_sequence`")
    require_rank(seq_lengths, 1, 1, "`seq_lengths` of `reverse_sequence`")
    what = f"axis {places[1]} of `data` and the length of `seq_lengths`"
    require_equal(data.shape[places[1]], seq_lengths.shape[0], what)
    return TensorType(data.shape, data.dtype)


@reverse_sequence.numpy
def _(data: Array, seq_lengths: Array, *, seq_axis: int, batch_axis: int) -> Array:
    result = np.array(data)
    source, target = (np.moveaxis(a, (batch_axis, seq_axis), (0, 1)) for a in (data, result))
    for b, length in enumerate(seq_lengths):
        end = min(int(length), source.shape[1])
        if end > 0:
            target[b, :end] = source[b, :end][::-1]
    return result


@reverse_sequence.compute
def _(data: Tensor, seq_lengths: Tensor, *, seq_axis: int, batch_axis: int) -> Tensor:
    along, batch = require_axes((seq_axis, batch_axis), data.rank)
    extent = data.shape[along]

    def element(*i: ScalarExpr) -> ScalarExpr:
        length = te.scalar("minimum", te.cast(seq_lengths[i[batch]], INT64), te.dim(extent))
        back = te.select(i[along] < length, length - 1 - i[along], i[along])
        return data[i[:along] + (te.index(back, extent, "clip"),) + i[along + 1 :]]

    return te.compute(data.shape, element, "reverse_sequence")


@operator("slice_like", fusion=Fusion.INJECTIVE)
def slice_like(data: AnyTensor, shape_like: AnyTensor, *, axes: Ints | None = None) -> TensorType:
    """The front of `data` as long along `axes`, by default all, as `shape_like` is.

    >>> %x = int32 [1, 2, 3]
    >>> %y = float32 [0, 0]
    >>> slice_like(%x, %y)
    [1, 2]
    """
    shape = list(data.shape)
    for axis in _sliced_axes(data.rank, shape_like.rank, axes):
        size = shape_like.shape[axis]
        what = f"the less of axis {axis} of both operands of `slice_like` and that of `shape_like`"
        require_equal(dim_min(shape[axis], size), size, what)
        shape[axis] = size
    return TensorType(tuple(shape), data.dtype)


def _sliced_axes(rank: int, like_rank: int, axes: Ints | None) -> Ints:
    if axes:
        places = require_axes(axes, rank, "`axes` of `slice_like`")
        require_axes(places, like_rank, "`axes` of `slice_like`")
        return places
    if rank != like_rank:
        raise ShapeError(f"ranks of the operands of `slice_like` differ: {rank} and {like_rank}")
    return tuple(range(rank))


@slice_like.numpy
def _(data: Array, shape_like: Array, *, axes: Ints | None) -> Array:
    cuts = [slice(None)] * data.ndim
    for axis in _sliced_axes(data.ndim, shape_like.ndim, axes):
        cuts[axis] = slice(shape_like.shape[axis])
    return np.asarray(data[tuple(cuts)])


@slice_like.compute
def _(data: Tensor, shape_like: Tensor, *, axes: Ints | None) -> Tensor:
    shape = list(data.shape)
    for axis in _sliced_axes(data.rank, shape_like.rank, axes):
        shape[axis] = shape_like.shape[axis]
    return te.compute(tuple(shape), lambda *i: data[i], "slice_like")


@operator("slice_like_grad", fusion=Fusion.INJECTIVE)
def slice_like_grad(grad: Numeric, data: AnyTensor) -> TensorType:
    """`grad` filled up with zeros behind to the shape of `data`: the gradient of `slice_like`.

    >>> %g = float32 [1, 2]
    >>> %x = float32 [0, 0, 0]
    >>> slice_like_grad(%g, %x)
    [1, 2, 0]
    """
    require_rank(grad, data.rank, data.rank, "`grad` of `slice_like_grad`")
    for axis, (a, b) in enumerate(zip(grad.shape, data.shape)):
        require_equal(
            dim_min(a, b), a, f"axis {axis} of `grad`, at most that of `data`, and itself"
        )
    return TensorType(data.shape, grad.dtype)


@slice_like_grad.numpy
def _(grad: Array, data: Array) -> Array:
    result = np.zeros(data.shape, grad.dtype)
    result[tuple(slice(size) for size in grad.shape)] = grad
    return result


@slice_like_grad.compute
def _(grad: Tensor, data: Tensor) -> Tensor:
    def element(*i: ScalarExpr) -> ScalarExpr:
        value: ScalarExpr = grad[i]
        for place, size, whole in zip(i, grad.shape, data.shape):
            if size != whole:
                value = te.select(place < te.dim(size), value, 0)
        return value

    return te.compute(data.shape, element, "slice_like_grad")


@operator("sliding_window", fusion=Fusion.INJECTIVE)
def sliding_window(data: AnyTensor, *, axis: int, window_shape: Ints, strides: Ints) -> TensorType:
    """All windows of `window_shape` over the axes from `axis` on, `strides` apart.

    Axes of the result: those before `axis`, one that counts windows for each axis, the window.

    >>> %x = int32 [1, 2, 3, 4, 5]
    >>> sliding_window(%x, axis=0, window_shape=[3], strides=[2])
    [[1, 2, 3], [3, 4, 5]]
    """
    place, counts = _windows(data.shape, axis, window_shape, strides)
    return TensorType((*data.shape[:place], *counts, *window_shape), data.dtype)


def _windows(shape: Dims, axis: int, window: Ints, strides: Ints) -> tuple[int, Dims]:
    place = require_axis(axis, len(shape), "`axis` of `sliding_window`")
    if not len(window) == len(strides) == len(shape) - place:
        needed = quantity(len(shape) - place, "entry", "entries")
        raise ShapeError(
            f"`window_shape` and `strides` of `sliding_window` need {needed},"
            f" got {len(window)} and {len(strides)}",
            "bad-attribute",
        )
    if min((*window, *strides)) < 1:
        message = "`window_shape` and `strides` of `sliding_window` must be at least 1"
        raise ShapeError(message, "bad-attribute")
    counts = (
        dim_max(dim_floordiv(dim_add(dim_sub(d, w), s), s), 0)
        for d, w, s in zip(shape[place:], window, strides)
    )
    return place, tuple(counts)


@sliding_window.numpy
def _(data: Array, *, axis: int, window_shape: Ints, strides: Ints) -> Array:
    place, counts = _windows(data.shape, axis, window_shape, strides)
    shape = (*data.shape[:place], *counts, *window_shape)
    if 0 in shape:
        return np.empty(shape, data.dtype)
    axes = tuple(range(place, data.ndim))
    views = np.lib.stride_tricks.sliding_window_view(data, window_shape, axes)
    steps = (slice(None),) * place + tuple(slice(None, None, s) for s in strides)
    return np.asarray(views[steps])


def _read_at(i: Index, place: int, strides: Ints) -> Index:
    count = len(strides)
    rest = (i[place + k] * s + i[place + count + k] for k, s in enumerate(strides))
    return (*i[:place], *rest)


@sliding_window.compute
def _(data: Tensor, *, axis: int, window_shape: Ints, strides: Ints) -> Tensor:
    place, counts = _windows(data.shape, axis, window_shape, strides)
    shape = (*data.shape[:place], *counts, *window_shape)
    return te.compute(shape, lambda *i: data[_read_at(i, place, strides)], "windows")


@operator("sliding_window_grad", fusion=Fusion.REDUCTION)
def sliding_window_grad(
    grad: Numeric, data: AnyTensor, *, axis: int, window_shape: Ints, strides: Ints
) -> TensorType:
    """Sums of `grad` in the shape of `data`, each element added where `sliding_window` reads it.

    >>> %g = float32 [[1, 2, 3], [4, 5, 6]]
    >>> %x = float32 [0, 0, 0, 0, 0]
    >>> sliding_window_grad(%g, %x, axis=0, window_shape=[3], strides=[2])
    [1, 2, 7, 5, 6]
    """
    place, counts = _windows(data.shape, axis, window_shape, strides)
    wanted = (*data.shape[:place], *counts, *window_shape)
    require_rank(grad, len(wanted), len(wanted), "`grad` of `sliding_window_grad`")
    for k, (a, b) in enumerate(zip(grad.shape, wanted)):
        require_equal(a, b, f"axis {k} of `grad` and of the windows")
    return TensorType(data.shape, grad.dtype)


@sliding_window_grad.numpy
def _(grad: Array, data: Array, *, axis: int, window_shape: Ints, strides: Ints) -> Array:
    wide = np.float32 if grad.dtype == np.float16 else grad.dtype
    positions = np.arange(data.size).reshape(data.shape)
    attrs: dict[str, Any] = {"axis": axis, "window_shape": window_shape, "strides": strides}
    places = sliding_window.facets["numpy"](positions, **attrs)
    result = np.zeros(data.size, wide)
    np.add.at(result, places.reshape(-1), grad.astype(wide).reshape(-1))
    return result.reshape(data.shape).astype(grad.dtype)


@sliding_window_grad.compute
def _(grad: Tensor, data: Tensor, *, axis: int, window_shape: Ints, strides: Ints) -> Tensor:
    place, counts = _windows(data.shape, axis, window_shape, strides)

    def element(*i: ScalarExpr) -> ScalarExpr:
        def term(*r: ScalarExpr) -> ScalarExpr:
            inside: ScalarExpr | None = None
            at = []
            for k, (stride, count) in enumerate(zip(strides, counts)):
                start = i[place + k] - r[k]
                window = start // te.dim(stride)
                on = (window * stride).equal(start)
                for test in (start >= 0, window < te.dim(count)):
                    on = te.scalar("logical_and", on, test)
                inside = on if inside is None else te.scalar("logical_and", inside, on)
                at.append(te.index(window, count, "clip"))
            assert inside is not None
            value = load_wide(grad, (*i[:place], *at, *r))
            return te.select(inside, value, 0)

        return te.cast(te.reduce("sum", window_shape, term), grad.dtype)

    return te.compute(data.shape, element, "windows_grad")


@sliding_window_grad.reduction_size
@like(sliding_window_grad.rule)
def _(grad: TensorType, data: TensorType, **attrs: Any) -> Dim:
    return product(attrs["window_shape"])


@operator("meshgrid", fusion=Fusion.INJECTIVE)
def meshgrid(data: Tensors, *, indexing: str = "ij") -> TupleType:
    """For each vector a tensor with one axis for each of them, along whose own axis it runs.

    With `indexing="xy"` the first two axes change places. A rank-0 tensor is a vector of one.

    >>> %x = int32 [1, 2]
    >>> %y = int32 [3, 4, 5]
    >>> meshgrid((%x, %y)).1
    [[3, 4, 5], [3, 4, 5]]
    """
    tensors = tuple(t for t in data.fields if isinstance(t, TensorType))
    for k, tensor in enumerate(tensors):
        require_rank(tensor, 0, 1, f"field {k} of `meshgrid`")
        require_same_dtype(tensors[0].dtype, tensor.dtype, f"dtypes of fields 0 and {k}")
    if len(tensors) > MAX_RANK:
        message = f"the result of `meshgrid` has rank {len(tensors)}, above {MAX_RANK}"
        raise ShapeError(message, "rank-limit")
    order = grid_axes(len(tensors), indexing)
    sizes = [t.shape[0] if t.rank else 1 for t in tensors]
    shape = tuple(sizes[k] for k in order)
    return TupleType(tuple(TensorType(shape, t.dtype) for t in tensors))


def grid_axes(count: int, indexing: str) -> Ints:
    """Return which operand of `meshgrid` runs along each axis of the results."""
    if indexing not in ("ij", "xy"):
        message = f'`indexing` of `meshgrid` is "{indexing}", legal are "ij" and "xy"'
        raise ShapeError(message, "bad-attribute")
    return (1, 0, *range(2, count)) if indexing == "xy" and count > 1 else tuple(range(count))


@meshgrid.numpy
def _(data: tuple[Array, ...], *, indexing: str) -> tuple[Array, ...]:
    grids: Any = np.meshgrid(*data, indexing="xy" if indexing == "xy" else "ij")
    return tuple(grids)


@meshgrid.compute
def _(data: tuple[Tensor, ...], *, indexing: str) -> tuple[Tensor, ...]:
    order = grid_axes(len(data), indexing)
    shape = tuple(data[k].shape[0] if data[k].rank else 1 for k in order)

    def grid(k: int) -> Tensor:
        along = order.index(k)
        return te.compute(shape, lambda *i: data[k][i[along] if data[k].rank else ()], "meshgrid")

    return tuple(grid(k) for k in range(len(data)))


OPERATORS = (
    meshgrid,
    repeat,
    reverse,
    reverse_sequence,
    slice_like,
    slice_like_grad,
    sliding_window,
    sliding_window_grad,
    tile,
    tile_grad,
)
