"""Operators that read or write elements at places given by values."""

from __future__ import annotations

import numpy as np

from relayvm.base.dims import Dim, dim_add, dim_floordiv, dim_mul
from relayvm.base.shapes import ShapeError, bad_index, require_equal
from relayvm.ir.types import TensorType, Type
from relayvm.kernels import compute as te
from relayvm.kernels.compute import ScalarExpr, Tensor
from relayvm.kernels.schedules.program import LONG_STEPS, Memory, Writer
from relayvm.ops.axes import product, require_axis, require_rank
from relayvm.ops.loads import wide
from relayvm.ops.numeric import Array
from relayvm.ops.operator import Fusion, operator
from relayvm.ops.reshaping import unflattened
from relayvm.ops.schema import AnyTensor, Integer, Numeric

MODES = ("clip", "wrap", "fast")
# So many columns are added to together: a range of them is a part of its own for threads.
_COLUMNS = 512
_KERNEL_MODES = {"clip": "clip", "wrap": "wrap", "fast": "trap"}


def _may_miss(*types: Type, batch_dims: int, axis: int | None, mode: str) -> bool:
    """Return True if there may be no element where an operand of `take` points."""
    data = types[-2]
    assert isinstance(data, TensorType)
    empty = 0 in data.shape if axis is None else data.shape[axis] == 0
    return mode == "fast" or empty


@operator("take", fusion=Fusion.INJECTIVE, value_traps=_may_miss)
def take(
    data: AnyTensor,
    indices: Integer,
    *,
    batch_dims: int = 0,
    axis: int | None = None,
    mode: str = "clip",
) -> TensorType:
    """The elements, or slices along `axis`, of `data` at `indices`; without `axis` of the
    flattened `data`.

    `mode` says what an index outside means: `clip` the nearest legal one, `wrap` counting around,
    `fast` a trap (the original leaves it undefined). Negative indices count from the end only
    under `wrap`. The first `batch_dims` axes of both operands are walked together.

    >>> %x = float32 [[1, 2], [3, 4]]
    >>> %i = int32 [1, 0]
    >>> take(%x, %i, axis=0)
    [[3, 4], [1, 2]]
    """
    if mode not in MODES:
        raise ShapeError(
            f'`mode` of `take` is "{mode}", legal are {", ".join(MODES)}', "bad-attribute"
        )
    if axis is None:
        if batch_dims:
            raise ShapeError("`take` with `batch_dims` needs an `axis`", "bad-attribute")
        return TensorType(indices.shape, data.dtype)
    place = require_axis(axis, data.rank)
    batch = take_batch(batch_dims, place, indices.rank)
    shared = tuple(
        require_equal(data.shape[i], indices.shape[i], f"batch axis {i} of `data` and `indices`")
        for i in range(batch)
    )
    shape = (*shared, *data.shape[batch:place], *indices.shape[batch:], *data.shape[place + 1 :])
    return TensorType(shape, data.dtype)


def take_batch(batch_dims: int, place: int, rank: int) -> int:
    """Return the number of batch axes; negative counts are from the rank of `indices`."""
    batch = batch_dims + rank if batch_dims < 0 else batch_dims
    if not 0 <= batch <= min(place, rank):
        raise ShapeError(
            f"`batch_dims` of `take` is {batch_dims}, it must not exceed `axis` ({place})"
            f" nor the rank of `indices` ({rank})",
            "bad-attribute",
        )
    return batch


def _legal(indices: Array, extent: int, mode: str) -> Array:
    wide = indices.astype(np.int64)
    if extent == 0 and indices.size:
        raise bad_index(int(indices.flat[0]), extent)
    if mode == "wrap":
        return wide % max(extent, 1)
    if mode == "clip":
        return np.clip(wide, 0, max(extent - 1, 0))
    outside = indices[(wide < 0) | (wide >= extent)]
    if outside.size:
        raise bad_index(int(outside.flat[0]), extent)
    return wide


@take.numpy
def _(data: Array, indices: Array, *, batch_dims: int, axis: int | None, mode: str) -> Array:
    if axis is None:
        return np.asarray(data.reshape(-1)[_legal(indices, data.size, mode)])
    place = require_axis(axis, data.ndim)
    batch = take_batch(batch_dims, place, indices.ndim)
    legal = _legal(indices, data.shape[place], mode)
    if batch == 0:
        return np.asarray(np.take(data, legal, axis=place))
    shape = (*data.shape[:place], *indices.shape[batch:], *data.shape[place + 1 :])
    result = np.empty(shape, data.dtype)
    for b in np.ndindex(*indices.shape[:batch]):
        result[b] = np.take(data[b], legal[b], axis=place - batch)
    return result


@take.compute
def _(data: Tensor, indices: Tensor, *, batch_dims: int, axis: int | None, mode: str) -> Tensor:
    if axis is None:
        count = product(data.shape)

        def flat_element(*i: ScalarExpr) -> ScalarExpr:
            place = te.index(indices[i], count, _KERNEL_MODES[mode])
            return data[unflattened(place, data.shape)]

        return te.compute(indices.shape, flat_element, "take")
    place = require_axis(axis, data.rank)
    batch = take_batch(batch_dims, place, indices.rank)
    # Axes of the result: those of `data` before `axis`, then of `indices` behind the batch, then
    # the rest.
    behind = place + indices.rank - batch
    shape = (*data.shape[:place], *indices.shape[batch:], *data.shape[place + 1 :])

    def element(*i: ScalarExpr) -> ScalarExpr:
        chosen = indices[i[:batch] + i[place:behind]]
        at = te.index(chosen, data.shape[place], _KERNEL_MODES[mode])
        return data[i[:place] + (at,) + i[behind:]]

    return te.compute(shape, element, "take")


@operator("take_grad", fusion=Fusion.OPAQUE, value_traps=_may_miss)
def take_grad(
    grad: Numeric,
    data: AnyTensor,
    indices: Integer,
    *,
    batch_dims: int = 0,
    axis: int | None = None,
    mode: str = "clip",
) -> TensorType:
    """Sums of `grad` in the shape of `data`, each element added where the same `take` reads.

    >>> %g = float32 [5, 6, 7]
    >>> %x = float32 [1, 2]
    >>> %i = int32 [1, 0, 1]
    >>> take_grad(%g, %x, %i)
    [6, 12]
    """
    taken = take.rule(data, indices, batch_dims=batch_dims, axis=axis, mode=mode)
    assert isinstance(taken, TensorType)
    require_rank(grad, taken.rank, taken.rank, "`grad` of `take_grad`")
    for i, (a, b) in enumerate(zip(grad.shape, taken.shape)):
        require_equal(a, b, f"axis {i} of `grad` and of what `take` returns")
    return TensorType(data.shape, grad.dtype)


@take_grad.numpy
def _(
    grad: Array, data: Array, indices: Array, *, batch_dims: int, axis: int | None, mode: str
) -> Array:
    wide_dtype = np.float32 if grad.dtype == np.float16 else grad.dtype
    # Where each element of `grad` was read: `take` of the positions themselves.
    positions = np.arange(data.size, dtype=np.int64).reshape(data.shape)
    attrs = {"batch_dims": batch_dims, "axis": axis, "mode": mode}
    places = take.facets["numpy"](positions, indices, **attrs)
    result = np.zeros(data.size, wide_dtype)
    np.add.at(result, places.reshape(-1), grad.astype(wide_dtype).reshape(-1))
    return result.reshape(data.shape).astype(grad.dtype)


@take_grad.compute
def _(
    grad: Tensor, data: Tensor, indices: Tensor, *, batch_dims: int, axis: int | None, mode: str
) -> Tensor:
    place = 0 if axis is None else require_axis(axis, data.rank)
    batch = 0 if axis is None else take_batch(batch_dims, place, indices.rank)
    extent = product(data.shape) if axis is None else data.shape[place]
    # The axes: those of the batch, those before the axis, it, and those behind it.
    within = product(data.shape[batch:place])
    outer, taken = product(data.shape[:place]), product(indices.shape[batch:])
    inner: Dim = 1 if axis is None else product(data.shape[place + 1 :])
    blocks = dim_floordiv(dim_add(inner, _COLUMNS - 1), _COLUMNS)
    kind = wide(grad.dtype)

    def build(w: Writer, grad: Memory, indices: Memory, result: Memory) -> None:
        def at(row: ScalarExpr, j: ScalarExpr) -> ScalarExpr:
            return w.shifted(j, w.let(row * te.dim(inner)))

        with w.parts(1, product(data.shape)) as (_, begin, end):
            w.vectors(begin, end, lambda j: _put(result, j, te.const(0, kind)))
        with w.walk_lines(dim_mul(outer, blocks), taken, block=LONG_STEPS) as (part, k, _):
            row, block = (w.let(v) for v in unflattened(part, (outer, blocks)))
            group = row if within == 1 else row // te.dim(within)
            begin = w.let(block * _COLUMNS)
            end = w.let(te.scalar("minimum", begin + _COLUMNS, te.dim(inner)))
            chosen = indices[group * te.dim(taken) + k]
            target = w.let(te.index(chosen, extent, _KERNEL_MODES[mode]))
            to, source = w.let(row * te.dim(extent) + target), w.let(row * te.dim(taken) + k)

            def step(j: ScalarExpr) -> None:
                value = te.cast(grad[at(source, j)], kind)
                _put(result, at(to, j), result[at(to, j)] + value)

            w.vectors(begin, end, step)

    work = dim_mul(outer, dim_mul(inner, dim_add(extent, taken)))
    inputs = [_with_an_axis(grad), _with_an_axis(indices)]
    (total,) = te.program([(data.shape, kind)], inputs, build, work, "take_grad")
    return te.compute(data.shape, lambda *i: te.cast(total[i], grad.dtype), "take_grad")


def _with_an_axis(x: Tensor) -> Tensor:
    """Return a tensor whose elements can be counted: a scalar as one element of an axis."""
    return x if x.rank else te.compute((1,), lambda _: x[()], "one")


def _put(memory: Memory, at: ScalarExpr, value: ScalarExpr) -> None:
    memory[at] = value


@take_grad.reduction_size
def _(
    grad: TensorType,
    data: TensorType,
    indices: TensorType,
    *,
    batch_dims: int,
    axis: int | None,
    mode: str,
) -> Dim:
    return product(indices.shape)


OPERATORS = (take, take_grad)
