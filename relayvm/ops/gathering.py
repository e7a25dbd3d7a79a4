"""Operators that read or write single elements at places given by tensors of indices.

Negative indices count from the end; one that is outside traps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from relayvm.base.diagnostics import quantity
from relayvm.base.dims import Dim, dim_add, dim_floordiv, dim_min, dim_mul
from relayvm.base.dtypes import INT64, DType
from relayvm.base.narrow.arrays import is_bfloat16
from relayvm.base.narrow.bfloat16 import rounded, widened
from relayvm.base.shapes import ShapeError, bad_index, broadcast_shapes, require_equal
from relayvm.ir.types import TensorType
from relayvm.kernels import compute as te
from relayvm.kernels.compute import ScalarExpr, Tensor
from relayvm.kernels.schedules.program import WALKED, Memory, Writer, copy_work
from relayvm.ops import numeric
from relayvm.ops.axes import product, require_axis, require_rank
from relayvm.ops.lines import other_dims
from relayvm.ops.loads import load_broadcast
from relayvm.ops.narrow import takes_bfloat16
from relayvm.ops.numeric import Array
from relayvm.ops.operator import Fusion, operator
from relayvm.ops.reshaping import unflattened
from relayvm.ops.schema import (
    AnyTensor,
    Dims,
    Integer,
    Tensors,
    require_same_dtype,
)

# Elements of rows to which a scatter goes at once: of so many columns what it goes to stays in the
# second cache, and whole rows of so many are moved in lanes.
BESIDE, IN_LANES = 128, 512


def counted(value: ScalarExpr, extent: Dim) -> ScalarExpr:
    """Return a loaded integer as an index; a negative one counts from the end."""
    wide = te.cast(value, INT64)
    # What of uint64 does not fit int64 is beyond any axis.
    from_end = wide + te.dim(extent) if value.dtype.is_signed else te.const(INT64.max, INT64)
    return te.index(te.select(wide < 0, from_end, wide), extent, given=value)


def counted_array(indices: Array, extent: int) -> Array:
    """Return an array of indices, negative ones counted from the end; raises IndexError."""
    return counted_arrays([indices], [extent])[0]


def counted_arrays(indices: Sequence[Array], extents: Sequence[int]) -> list[Array]:
    """Do the same with arrays that are walked together: the first outside is told."""
    big = [a.astype(object if a.dtype == np.uint64 else np.int64) for a in indices]
    outside = [(a < -n) | (a >= n) for a, n in zip(big, extents)]
    if any(np.any(a) for a in outside):
        together = np.stack(np.broadcast_arrays(*outside), -1)
        *place, k = np.argwhere(together)[0]
        raise bad_index(int(np.broadcast_to(big[k], together.shape[:-1])[tuple(place)]), extents[k])
    wide = [np.asarray(a, np.int64) for a in big]
    return [np.asarray(np.where(a < 0, a + n, a)) for a, n in zip(wide, extents)]


def scattered_array(indices: Array, extent: int, axis: int) -> Array:
    """Return indices as loops meet them that go along an axis before they go on."""
    return np.moveaxis(counted_array(np.moveaxis(indices, axis, -1), extent), -1, axis)


def _walked_array(indices: Array, extent: int, axis: int) -> Array:
    """Return indices of `scatter_elements`; raises IndexError for the first that its loops meet."""
    if axis == indices.ndim - 1:
        return counted_array(indices, extent)
    moved = np.moveaxis(indices, axis, -2)
    *lines, last = moved.shape
    width = max(1, min(last, BESIDE))
    parts = -(-last // width)
    padded = np.pad(moved, [(0, 0)] * len(lines) + [(0, parts * width - last)])
    counted_array(np.moveaxis(padded.reshape(*lines, parts, width), -2, -3), extent)
    return counted_array(indices, extent)


def _require_within(indices: Dims, data: Dims, axis: int, name: str) -> None:
    for k, (a, b) in enumerate(zip(indices, data)):
        if k != axis:
            what = f"axis {k} of `indices` of `{name}`, at most that of `data`, and itself"
            require_equal(dim_min(a, b), a, what)


@operator("gather", fusion=Fusion.INJECTIVE, value_traps=True)
def gather(data: AnyTensor, indices: Integer, *, axis: int = 0) -> TensorType:
    """For each element of `indices` the element of `data` at the same place, but for `axis`, where
    the index says it.

    >>> %x = float32 [[1, 2], [3, 4]]
    >>> %i = int32 [[0, 0], [1, -2]]
    >>> gather(%x, %i, axis=1)
    [[1, 1], [4, 3]]
    """
    place = require_axis(axis, data.rank)
    require_rank(indices, data.rank, data.rank, "`indices` of `gather`")
    _require_within(indices.shape, data.shape, place, "gather")
    return TensorType(indices.shape, data.dtype)


def _fronts(data: Array, shape: Sequence[int], axis: int) -> Array:
    cuts = tuple(slice(None) if k == axis else slice(n) for k, n in enumerate(shape))
    return np.asarray(data[cuts])


@gather.numpy
def _(data: Array, indices: Array, *, axis: int) -> Array:
    place = axis % data.ndim
    legal = counted_array(indices, data.shape[place])
    return np.take_along_axis(_fronts(data, indices.shape, place), legal, place)


@gather.compute
def _(data: Tensor, indices: Tensor, *, axis: int) -> Tensor:
    place = require_axis(axis, data.rank)

    def element(*i: ScalarExpr) -> ScalarExpr:
        at = counted(indices[i], data.shape[place])
        return data[i[:place] + (at,) + i[place + 1 :]]

    return te.compute(indices.shape, element, "gather")


@operator("gather_nd", fusion=Fusion.INJECTIVE, value_traps=True)
def gather_nd(
    data: AnyTensor, indices: Integer, *, batch_dims: int = 0, index_rank: int | None = None
) -> TensorType:
    """For each column of `indices`, whose first axis counts axes of `data`, the part of `data`
    there.

    The first `batch_dims` axes of `data` and those of `indices` behind its first are walked
    together. `index_rank` is the size of the first axis of `indices` where it is unknown.

    >>> %x = float32 [[1, 2], [3, 4]]
    >>> %i = int32 [[0, 1], [1, 0]]
    >>> gather_nd(%x, %i)
    [2, 3]
    """
    count = _index_count(data, indices, batch_dims, index_rank)
    for k in range(batch_dims):
        what = f"axis {k} of `data` and axis {k + 1} of `indices` of `gather_nd`"
        require_equal(data.shape[k], indices.shape[k + 1], what)
    shape = (*indices.shape[1:], *data.shape[batch_dims + count :])
    return TensorType(shape, data.dtype)


def _index_count(
    data: TensorType | Tensor, indices: TensorType | Tensor, batch_dims: int, index_rank: int | None
) -> int:
    if not indices.shape:
        raise ShapeError("`indices` of `gather_nd` must have rank at least 1, got 0")
    count = indices.shape[0] if isinstance(indices.shape[0], int) else index_rank
    if count is None:
        raise ShapeError("`gather_nd` needs `index_rank`: axis 0 of `indices` is unknown")
    if count < 0 or not 0 <= batch_dims <= min(len(data.shape), len(indices.shape) - 1):
        raise ShapeError(
            f"`batch_dims` of `gather_nd` is {batch_dims} and `index_rank` {count}", "bad-attribute"
        )
    if batch_dims + count > len(data.shape):
        raise ShapeError(
            f"`indices` of `gather_nd` are of {quantity(count, 'axis', 'axes')} behind {batch_dims}"
            f" of a rank of {len(data.shape)}"
        )
    given = count if index_rank is None else index_rank
    require_equal(indices.shape[0], given, "axis 0 of `indices` and `index_rank` of `gather_nd`")
    return count


@gather_nd.numpy
def _(data: Array, indices: Array, *, batch_dims: int, index_rank: int | None) -> Array:
    batch = indices.shape[1 : 1 + batch_dims]
    walked = np.indices(batch).reshape(batch_dims, *batch, *(1,) * (indices.ndim - 1 - batch_dims))
    places = counted_arrays(list(indices), data.shape[batch_dims : batch_dims + len(indices)])
    if not batch_dims and not places:
        return np.broadcast_to(data, (*indices.shape[1:], *data.shape))
    whole = np.broadcast_arrays(*walked, *places, np.empty(indices.shape[1:]))[:-1]
    return np.asarray(data[tuple(whole)])


@gather_nd.compute
def _(data: Tensor, indices: Tensor, *, batch_dims: int, index_rank: int | None) -> Tensor:
    count = _index_count(data, indices, batch_dims, index_rank)
    shape = (*indices.shape[1:], *data.shape[batch_dims + count :])
    rank = indices.rank - 1

    def element(*i: ScalarExpr) -> ScalarExpr:
        def place(k: int) -> ScalarExpr:
            return counted(indices[(te.dim(k),) + i[:rank]], data.shape[batch_dims + k])

        return data[i[:batch_dims] + tuple(place(k) for k in range(count)) + i[rank:]]

    return te.compute(shape, element, "gather_nd")


@operator("adv_index", fusion=Fusion.INJECTIVE, value_traps=True)
def adv_index(inputs: Tensors) -> TensorType:
    """The first tensor of a tuple at the places that the others, broadcast, give for its first
    axes.

    >>> %x = float32 [[1, 2], [3, 4]]
    >>> %i = int64 [0, 1]
    >>> %j = int64 [-1]
    >>> adv_index((%x, %i, %j))
    [2, 4]
    """
    data, *indices = (t for t in inputs.fields if isinstance(t, TensorType))
    if not 1 <= len(indices) <= data.rank:
        given = quantity(len(indices), "index", "indices")
        raise ShapeError(f"`adv_index` of a rank of {data.rank} got {given}")
    shape: Dims = ()
    for k, tensor in enumerate(indices, 1):
        if not tensor.dtype.is_integer:
            message = f"field {k} of `adv_index` must be of integers, got {tensor.dtype}"
            raise ShapeError(message, "dtype-mismatch")
        shape = broadcast_shapes(shape, tensor.shape, "indices of `adv_index`")
    return TensorType((*shape, *data.shape[len(indices) :]), data.dtype)


@adv_index.numpy
def _(inputs: tuple[Array, ...]) -> Array:
    data, *indices = inputs
    return np.asarray(data[tuple(counted_arrays(indices, data.shape[: len(indices)]))])


@adv_index.compute
def _(inputs: tuple[Tensor, ...]) -> Tensor:
    data, *indices = inputs
    shape: Dims = ()
    for tensor in indices:
        shape = broadcast_shapes(shape, tensor.shape)
    rank, count = len(shape), len(indices)

    def element(*i: ScalarExpr) -> ScalarExpr:
        chosen = (load_broadcast(t, shape, i[:rank]) for t in indices)
        places = tuple(counted(v, data.shape[k]) for k, v in enumerate(chosen))
        return data[places + i[rank:]]

    return te.compute((*shape, *data.shape[count:]), element, "adv_index")


# -- Writing ------------------------------------------------------------------------------------


def _mean(a: ScalarExpr, b: ScalarExpr) -> ScalarExpr:
    return te.scalar("divide", te.scalar("add", a, b), 2)


REDUCTIONS: dict[str, Callable[[ScalarExpr, ScalarExpr], ScalarExpr]] = {
    "update": lambda a, b: b,
    "add": lambda a, b: te.scalar("add", a, b),
    "mul": lambda a, b: te.scalar("multiply", a, b),
    "mean": _mean,
    "min": lambda a, b: te.scalar("minimum", a, b),
    "max": lambda a, b: te.scalar("maximum", a, b),
}
_UFUNCS = {"add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum}


def require_reduction(name: str, reduction: str, dtype: DType) -> None:
    """Raise ShapeError unless the reduction is known and has a meaning for the dtype."""
    if reduction not in REDUCTIONS:
        legal = ", ".join(REDUCTIONS)
        message = f'the reduction of `{name}` is "{reduction}", legal are {legal}'
        raise ShapeError(message, "bad-attribute")
    if reduction == "mean" and dtype.is_bool:
        raise ShapeError(f"`{name}` has no mean of bools", "dtype-mismatch")


def _scatter_rounded(result: Array, at: tuple[Any, ...], updates: Array, reduction: str) -> None:
    """Do the same for bfloat16, which is rounded after each update."""
    whole = np.broadcast_arrays(*at, widened(updates))
    for *place, value in zip(*(a.reshape(-1) for a in whole)):
        spot = tuple(place)
        one, given = widened(np.array([result[spot]], result.dtype)), np.array([value], np.float32)
        if reduction == "mean":
            one, given = widened(rounded(one + given)), np.array([0.5], np.float32)
        ufunc = np.multiply if reduction == "mean" else _UFUNCS[reduction]
        result[spot] = rounded(ufunc(one, given))[0]


def scatter_into(result: Array, at: tuple[Any, ...], updates: Array, reduction: str) -> None:
    """Combine elements of an array with updates, one after another."""
    if reduction == "update":
        result[at] = updates
    elif is_bfloat16(result):
        _scatter_rounded(result, at, updates, reduction)
    elif reduction in _UFUNCS:
        _UFUNCS[reduction].at(result, at, updates)
    else:
        whole = np.broadcast_arrays(*at, updates)
        for *place, value in zip(*(a.reshape(-1) for a in whole)):
            total = np.asarray(np.add(result[tuple(place)], value, dtype=result.dtype))
            result[tuple(place)] = numeric.divide(total, np.asarray(2, result.dtype))


@operator("scatter_elements", fusion=Fusion.OPAQUE, value_traps=True)
def scatter_elements(
    data: AnyTensor,
    indices: Integer,
    updates: AnyTensor,
    *,
    axis: int = 0,
    reduction: str = "update",
) -> TensorType:
    """`data` with each of `updates` put, added, ... to the element at the same place, but for
    `axis`, where the index says it.

    `reduction` is `update`, `add`, `mul`, `min`, `max` or `mean` (half the sum of what is there
    and the update); updates of one element count in their order.

    >>> %x = float32 [1, 2, 3]
    >>> %i = int32 [0, -1, 0]
    >>> %u = float32 [10, 20, 30]
    >>> scatter_elements(%x, %i, %u, reduction="add")
    [41, 2, 23]
    """
    place = require_axis(axis, data.rank)
    require_reduction("scatter_elements", reduction, data.dtype)
    require_same_dtype(data.dtype, updates.dtype, "dtypes of `data` and `updates`")
    for name, tensor in (("indices", indices), ("updates", updates)):
        require_rank(tensor, data.rank, data.rank, f"`{name}` of `scatter_elements`")
    for k, (a, b) in enumerate(zip(indices.shape, updates.shape)):
        require_equal(a, b, f"axis {k} of `indices` and `updates` of `scatter_elements`")
    _require_within(indices.shape, data.shape, place, "scatter_elements")
    return TensorType(data.shape, data.dtype)


@scatter_elements.numpy
@takes_bfloat16
def _(data: Array, indices: Array, updates: Array, *, axis: int, reduction: str) -> Array:
    place = axis % data.ndim
    at: list[Any] = list(np.indices(indices.shape, sparse=True))
    at[place] = _walked_array(indices, data.shape[place], place)
    result = np.array(data)
    scatter_into(result, tuple(np.broadcast_arrays(*at)), updates, reduction)
    return result


@scatter_elements.compute
def _(data: Tensor, indices: Tensor, updates: Tensor, *, axis: int, reduction: str) -> Tensor:
    place = require_axis(axis, data.rank)
    others, combine = other_dims(indices.shape, place), REDUCTIONS[reduction]

    def build(w: Writer, data: Memory, indices: Memory, updates: Memory, result: Memory) -> None:
        def put(outer: tuple[ScalarExpr, ...], k: ScalarExpr) -> None:
            source = outer[:place] + (k,) + outer[place:]
            at = w.let(counted(indices[source], data.shape[place]))
            target = outer[:place] + (at,) + outer[place:]
            update = updates[source]
            result[target] = combine(result[target], update)

        w.copy(data, result)
        if place == data.rank - 1:
            with w.walk_lines(product(others), indices.shape[place]) as (line, k, _):
                put(unflattened(line, others), k)
            return
        size = indices.shape[place]
        with _walk_rows(w, others, size, BESIDE) as (outer, k, begin, end), w.loop(begin, end) as j:
            put((*outer, j), k)

    return _updated(data, indices, updates, build, product(indices.shape))


@contextmanager
def _walk_rows(
    w: Writer, others: Dims, size: Dim, most: int
) -> Iterator[tuple[tuple[ScalarExpr, ...], ScalarExpr, ScalarExpr, ScalarExpr]]:
    """Run the body for each i below `size`, in order, and for `most` places of the last of `others`
    at once, which lie side by side: with those of the other axes, i, and where they begin and end.
    """
    last = others[-1]
    parts = dim_floordiv(dim_add(last, most - 1), most)
    lines = (*others[:-1], parts)
    with w.walk_lines(product(lines), size, block=WALKED // most) as (line, i, _):
        *outer, part = unflattened(line, lines)
        begin = w.let(part * most)
        end = w.let(te.scalar("minimum", begin + most, te.dim(last)))
        yield tuple(outer), i, begin, end


def _updated(
    data: Tensor, indices: Tensor, updates: Tensor, build: Callable[..., None], count: Dim
) -> Tensor:
    """Return `data` with `count` elements changed by loops, in its memory where that is free."""
    work, inputs = dim_add(copy_work(data.shape), dim_mul(count, 4)), [data, indices, updates]
    return te.program([(data.shape, data.dtype)], inputs, build, work, in_place=((0, 0),))[0]


@operator("scatter_nd", fusion=Fusion.OPAQUE, value_traps=True)
def scatter_nd(
    data: AnyTensor, indices: Integer, updates: AnyTensor, *, mode: str = "update"
) -> TensorType:
    """`data` with each part of `updates` put, added, ... to the part of it that a column of
    `indices`, whose first axis counts axes of `data`, tells.

    `mode` is a reduction of `scatter_elements`; updates of one element count in their order.

    >>> %x = float32 [[1, 2], [3, 4]]
    >>> %i = int32 [[0, 1], [1, 0]]
    >>> %u = float32 [10, 20]
    >>> scatter_nd(%x, %i, %u, mode="add")
    [[1, 12], [23, 4]]
    """
    require_reduction("scatter_nd", mode, data.dtype)
    require_same_dtype(data.dtype, updates.dtype, "dtypes of `data` and `updates`")
    count = scattered_axes(data, indices, updates)
    wanted = (*indices.shape[1:], *data.shape[count:])
    for k, (a, b) in enumerate(zip(updates.shape, wanted)):
        require_equal(a, b, f"axis {k} of `updates` of `scatter_nd` and of what they are put to")
    return TensorType(data.shape, data.dtype)


def scattered_axes(
    data: TensorType | Tensor, indices: TensorType | Tensor, updates: TensorType | Tensor
) -> int:
    """Return how many axes of `data` the indices of `scatter_nd` count: the ranks tell."""
    ranks = [len(t.shape) for t in (data, indices, updates)]
    count = ranks[0] + ranks[1] - 1 - ranks[2]
    if not ranks[1] or not 0 <= count <= ranks[0]:
        raise ShapeError(
            f"ranks of the operands of `scatter_nd` do not fit: {ranks[0]}, {ranks[1]}, {ranks[2]}"
        )
    what = f"axis 0 of `indices` of `scatter_nd` and {count}, as the ranks of the operands tell,"
    require_equal(indices.shape[0], count, what)
    return count


@scatter_nd.numpy
@takes_bfloat16
def _(data: Array, indices: Array, updates: Array, *, mode: str) -> Array:
    count, result = len(indices), np.array(data)
    rest = data.shape[count:]
    places = [
        row.reshape((*row.shape, *(1,) * len(rest)))
        for row in counted_arrays(list(indices), data.shape[:count])
    ]
    inner = np.indices(rest, sparse=True) if rest else ()
    at = np.broadcast_arrays(*places, *inner, np.empty(updates.shape))[:-1]
    if not at:
        flat = result.reshape(1)
        scatter_into(flat, (np.zeros(updates.size, np.int64),), updates.reshape(-1), mode)
        return flat.reshape(())
    scatter_into(result, tuple(at), updates, mode)
    return result


@scatter_nd.compute
def _(data: Tensor, indices: Tensor, updates: Tensor, *, mode: str) -> Tensor:
    count = scattered_axes(data, indices, updates)
    rest, walked, combine = data.shape[count:], indices.shape[1:], REDUCTIONS[mode]

    def build(w: Writer, data: Memory, indices: Memory, updates: Memory, result: Memory) -> None:
        def targets(outer: tuple[ScalarExpr, ...]) -> tuple[ScalarExpr, ...]:
            chosen = (indices[(te.dim(k),) + outer] for k in range(count))
            return tuple(w.let(counted(v, data.shape[k])) for k, v in enumerate(chosen))

        def put(source: tuple[ScalarExpr, ...], target: tuple[ScalarExpr, ...]) -> None:
            result[target] = combine(result[target], updates[source])

        w.copy(data, result)
        if not rest:
            with w.walk(product(walked)) as (column, _):
                outer = unflattened(column, walked)
                put(outer, targets(outer))
            return
        with _walk_rows(w, rest, product(walked), IN_LANES) as (inner, column, begin, end):
            outer = unflattened(column, walked)
            source, target = outer + inner, targets(outer) + inner
            w.vectors(begin, end, lambda j: put((*source, j), (*target, j)))

    return _updated(data, indices, updates, build, product(updates.shape))


OPERATORS = (adv_index, gather, gather_nd, scatter_elements, scatter_nd)
