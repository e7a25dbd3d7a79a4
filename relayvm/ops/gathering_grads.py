"""Gradients of reading and writing single elements, as operators of their own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from relayvm.base.dims import Dim, dim_add, dim_mul
from relayvm.base.shapes import broadcast_shapes, require_equal
from relayvm.ir.types import TensorType, TupleType
from relayvm.kernels import compute as te
from relayvm.kernels.compute import ScalarExpr, Tensor
from relayvm.kernels.schedules.program import Memory, Writer
from relayvm.ops.axes import product, require_axis, require_rank
from relayvm.ops.gathering import (
    REDUCTIONS,
    adv_index,
    counted,
    gather_nd,
    scatter_elements,
    scatter_into,
    scatter_nd,
    scattered_array,
    scattered_axes,
)
from relayvm.ops.lines import other_dims
from relayvm.ops.loads import Index
from relayvm.ops.narrow import steps_of, takes_bfloat16
from relayvm.ops.numeric import Array
from relayvm.ops.operator import Fusion, operator
from relayvm.ops.reshaping import unflattened
from relayvm.ops.schema import AnyTensor, Dims, Float, Integer, SameDtype, Tensors, like


def _require_result(grad: TensorType, result: object, name: str) -> None:
    assert isinstance(result, TensorType)
    require_rank(grad, result.rank, result.rank, f"`grad` of `{name}`")
    for k, (a, b) in enumerate(zip(grad.shape, result.shape)):
        require_equal(a, b, f"axis {k} of `grad` of `{name}` and of the result")


@operator("gather_nd_grad", fusion=Fusion.OPAQUE, value_traps=True)
def gather_nd_grad(
    grad: Float,
    data: AnyTensor,
    indices: Integer,
    *,
    batch_dims: int = 0,
    index_rank: int | None = None,
) -> TensorType:
    """Sums of `grad` in the shape of `data`, each element added where `gather_nd` reads it.

    >>> %g = float32 [1, 2, 3]
    >>> %x = float32 [0, 0]
    >>> %i = int32 [[1, 0, 1]]
    >>> gather_nd_grad(%g, %x, %i)
    [2, 4]
    """
    attrs = {"batch_dims": batch_dims, "index_rank": index_rank}
    _require_result(grad, gather_nd.rule(data, indices, **attrs), "gather_nd_grad")
    return TensorType(data.shape, grad.dtype)


def _summed_array(grad: Array, shape: tuple[int, ...], places: Array) -> Array:
    result = np.zeros(int(np.prod(shape)), grad.dtype)
    scatter_into(result, (places.reshape(-1),), grad.reshape(-1), "add")
    return result.reshape(shape)


def _positions(shape: tuple[int, ...]) -> Array:
    return np.arange(int(np.prod(shape))).reshape(shape)


@gather_nd_grad.numpy
@takes_bfloat16
@like(gather_nd_grad.rule)
def _(grad: Array, data: Array, indices: Array, **attrs: Any) -> Array:
    places = gather_nd.facets["numpy"](_positions(data.shape), indices, **attrs)
    return _summed_array(grad, data.shape, places)


@gather_nd_grad.compute
@like(gather_nd_grad.rule)
def _(grad: Tensor, data: Tensor, indices: Tensor, **attrs: Any) -> Tensor:
    batch = attrs["batch_dims"]
    walked = indices.shape[1:]
    count = data.rank - (grad.rank - len(walked)) - batch
    rest = data.shape[batch + count :]

    def build(w: Writer, grad: Memory, indices: Memory, result: Memory) -> None:
        _clear(w, result)
        with w.walk_lines(product(rest), product(walked)) as (flat, column, _):
            inner, outer = unflattened(flat, rest), unflattened(column, walked)
            chosen = (indices[(te.dim(k),) + outer] for k in range(count))
            at = tuple(w.let(counted(v, data.shape[batch + k])) for k, v in enumerate(chosen))
            target = outer[:batch] + at + inner
            addend = grad[outer + inner]
            result[target] = result[target] + addend

    work = dim_add(product(data.shape), dim_mul(product(grad.shape), 4))
    return te.program([(data.shape, grad.dtype)], [grad, indices], build, work)[0]


def _clear(w: Writer, result: Memory) -> None:
    with w.phase(product(result.shape)) as flat:
        result[unflattened(flat, result.shape)] = 0


@operator("adv_index_grad", fusion=Fusion.OPAQUE, value_traps=True)
def adv_index_grad(grad: Float, inputs: Tensors) -> TensorType:
    """Sums of `grad` in the shape of the first of `inputs`, each element added where `adv_index`
    reads it.

    >>> %g = float32 [1, 2, 3]
    >>> %x = float32 [0, 0]
    >>> %i = int32 [1, 0, 1]
    >>> adv_index_grad(%g, (%x, %i))
    [2, 4]
    """
    _require_result(grad, adv_index.rule(inputs), "adv_index_grad")
    first = inputs.fields[0]
    assert isinstance(first, TensorType)
    return TensorType(first.shape, grad.dtype)


@adv_index_grad.numpy
@takes_bfloat16
def _(grad: Array, inputs: tuple[Array, ...]) -> Array:
    data, *indices = inputs
    places = adv_index.facets["numpy"]((_positions(data.shape), *indices))
    return _summed_array(grad, data.shape, places)


@adv_index_grad.compute
def _(grad: Tensor, inputs: tuple[Tensor, ...]) -> Tensor:
    data, *indices = inputs
    shape: Dims = ()
    for tensor in indices:
        shape = broadcast_shapes(shape, tensor.shape)
    rest = data.shape[len(indices) :]

    def build(w: Writer, grad: Memory, *memory: Memory) -> None:
        *chosen, result = memory
        _clear(w, result)
        with w.walk_lines(product(rest), product(shape)) as (flat, place, _):
            inner, outer = unflattened(flat, rest), unflattened(place, shape)
            values = [m[_broadcast_place(outer, m.shape)] for m in chosen]
            at = tuple(w.let(counted(v, data.shape[k])) for k, v in enumerate(values))
            addend = grad[outer + inner]
            result[at + inner] = result[at + inner] + addend

    work = dim_add(product(data.shape), dim_mul(product(grad.shape), 4))
    return te.program([(data.shape, grad.dtype)], [grad, *indices], build, work)[0]


def _broadcast_place(index: Index, shape: Dims) -> Index:
    """Return the place in a tensor of a shape that is broadcast to where `index` counts."""
    skipped = len(index) - len(shape)
    return tuple(te.index(index[skipped + k], extent, "clip") for k, extent in enumerate(shape))


# -- Scatters -----------------------------------------------------------------------------------
#
# The updates of one element are undone from the last to the first: what the element held before
# each is kept on the way there.

Numbers = tuple[Any, Any]


def _undone(reduction: str, g: Any, b: Any, u: Any, choose: Callable[..., Any]) -> Numbers:
    """Return the gradients of what an element held before, `b`, and of the update `u`."""
    zero = g.dtype.type(0) if isinstance(g, np.generic) else te.const(0.0, g.dtype)
    if reduction == "update":
        return zero, g
    if reduction in ("min", "max"):
        wins = u < b if reduction == "min" else u > b
        return choose(wins, zero, g), choose(wins, g, zero)
    if reduction == "mean":
        half = g / g.dtype.type(2) if isinstance(g, np.generic) else te.scalar("divide", g, 2)
        return half, half
    return (g * u, g * b) if reduction == "mul" else (g, g)


_COMBINED: dict[str, Callable[[Any, Any], Any]] = {
    "update": lambda a, b: b,
    "add": lambda a, b: a + b,
    "mul": lambda a, b: a * b,
    "mean": lambda a, b: a + b,  # and halved
    "min": np.minimum,
    "max": np.maximum,
}


def _undone_arrays(
    grad: Array, data: Array, places: Array, updates: Array, reduction: str
) -> tuple[Array, Array]:
    """Return both gradients; `places` holds for each update its row-major place in `data`."""
    numbers, step, whole = steps_of(grad.dtype)
    held, slopes = numbers(data).reshape(-1).copy(), numbers(grad).reshape(-1).copy()
    values, slope_of = numbers(updates).reshape(-1), np.empty(updates.size, slopes.dtype)
    before = np.empty(updates.size, held.dtype)
    combine = _COMBINED[reduction]
    order = places.reshape(-1)
    for k, at in enumerate(order):
        before[k] = held[at]
        held[at] = step(combine(held[at], values[k]))
        if reduction == "mean":
            held[at] = step(held[at] / held.dtype.type(2))
    for k in reversed(range(len(order))):
        g, b, u = slopes[order[k]], before[k], values[k]
        both = _undone(reduction, g, b, u, lambda c, x, y: x if c else y)
        slopes[order[k]], slope_of[k] = map(step, both)
    return whole(slopes.reshape(data.shape)), whole(slope_of.reshape(updates.shape))


Places = Callable[[Writer, Memory, ScalarExpr, ScalarExpr], tuple[Index, Index]]


@dataclass(frozen=True, slots=True)
class Walk:
    """How loops go over the updates of a scatter: lines that share no element of the data, rounds
    one after the other, and for each an update's index in the data and its own.
    """

    lines: Dim
    rounds: Dim
    places: Places

    def back(
        self, w: Writer, indices: Memory, line: ScalarExpr, round: ScalarExpr
    ) -> tuple[Index, Index]:
        """Return the places of a round counted from the last one."""
        last = te.adopt(self.rounds, round.dtype) - 1
        return self.places(w, indices, line, last - round)


def _undone_tensors(
    tensors: tuple[Tensor, Tensor, Tensor, Tensor],
    walk: Walk,
    reduction: str,
) -> tuple[Tensor, ...]:
    """Return both gradients."""
    grad, data, indices, updates = tensors
    combine = REDUCTIONS[reduction]

    def build(w: Writer, *memory: Memory) -> None:
        grad, data, indices, updates, slopes, slope_of = memory
        held = w.scratch(data.shape, data.dtype)
        before = w.scratch(updates.shape, updates.dtype)
        with w.phase(product(data.shape)) as flat:
            at = unflattened(flat, data.shape)
            held[at] = data[at]
            slopes[at] = grad[at]
        with w.walk_lines(walk.lines, walk.rounds) as (line, k, _):
            target, source = walk.places(w, indices, line, k)
            now, update = held[target], updates[source]
            before[source] = now
            held[target] = combine(now, update)
        with w.walk_lines(walk.lines, walk.rounds) as (line, k, _):
            target, source = walk.back(w, indices, line, k)
            values = slopes[target], before[source], updates[source]
            slopes[target], slope_of[source] = _undone(reduction, *values, te.select)

    kinds = [(data.shape, grad.dtype), (updates.shape, grad.dtype)]
    work = dim_add(product(data.shape), dim_mul(product(updates.shape), 8))
    return te.program(kinds, [grad, data, indices, updates], build, work, "scatter_grad")


@operator(
    "scatter_elements_grad",
    fusion=Fusion.OPAQUE,
    value_traps=True,
)
def scatter_elements_grad(
    grad: Float,
    data: SameDtype,
    indices: Integer,
    updates: Float,
    *,
    axis: int = 0,
    reduction: str = "update",
) -> TupleType:
    """The gradients of `data` and of `updates` of the same `scatter_elements`.

    >>> %g = float32 [1, 2]
    >>> %x = float32 [3, 4]
    >>> %i = int32 [0, 0]
    >>> %u = float32 [5, 6]
    >>> scatter_elements_grad(%g, %x, %i, %u, reduction="mul").1
    [18, 15]
    """
    result = scatter_elements.rule(data, indices, updates, axis=axis, reduction=reduction)
    _require_result(grad, result, "scatter_elements_grad")
    return TupleType((TensorType(data.shape, grad.dtype), TensorType(updates.shape, grad.dtype)))


@scatter_elements_grad.numpy
@takes_bfloat16
@like(scatter_elements_grad.rule)
def _(grad: Array, data: Array, indices: Array, updates: Array, **attrs: Any) -> Any:
    places = element_positions(data, indices, attrs["axis"])
    return _undone_arrays(grad, data, places, updates, attrs["reduction"])


def element_positions(data: Array, indices: Array, axis: int) -> Array:
    """Return for each update of `scatter_elements` its row-major place in `data`."""
    place = axis % data.ndim
    at: list[Any] = list(np.indices(indices.shape, sparse=True))
    at[place] = scattered_array(indices, data.shape[place], place)
    return np.asarray(_positions(data.shape)[tuple(np.broadcast_arrays(*at))])


@scatter_elements_grad.compute
@like(scatter_elements_grad.rule)
def _(grad: Tensor, data: Tensor, indices: Tensor, updates: Tensor, **attrs: Any) -> Any:
    walk = element_walk(data, indices, attrs["axis"])
    return _undone_tensors((grad, data, indices, updates), walk, attrs["reduction"])


def element_walk(data: Tensor, indices: Tensor, axis: int) -> Walk:
    """Return how loops go over the updates of `scatter_elements`."""
    place = require_axis(axis, data.rank)
    others = other_dims(indices.shape, place)

    def places(w: Writer, indices: Memory, line: ScalarExpr, k: ScalarExpr) -> tuple[Index, Index]:
        outer = unflattened(line, others)
        source = outer[:place] + (k,) + outer[place:]
        at = w.let(counted(indices[source], data.shape[place]))
        return outer[:place] + (at,) + outer[place:], source

    return Walk(product(others), indices.shape[place], places)


@operator("scatter_nd_grad", fusion=Fusion.OPAQUE, value_traps=True)
def scatter_nd_grad(
    grad: Float, data: SameDtype, indices: Integer, updates: Float, *, mode: str = "update"
) -> TupleType:
    """The gradients of `data` and of `updates` of the same `scatter_nd`.

    >>> %g = float32 [1, 2]
    >>> %x = float32 [3, 4]
    >>> %i = int32 [[0, 0]]
    >>> %u = float32 [5, 6]
    >>> scatter_nd_grad(%g, %x, %i, %u).1
    [0, 1]
    """
    result = scatter_nd.rule(data, indices, updates, mode=mode)
    _require_result(grad, result, "scatter_nd_grad")
    return TupleType((TensorType(data.shape, grad.dtype), TensorType(updates.shape, grad.dtype)))


@scatter_nd_grad.numpy
@takes_bfloat16
def _(grad: Array, data: Array, indices: Array, updates: Array, *, mode: str) -> Any:
    return _undone_arrays(grad, data, nd_positions(data, indices), updates, mode)


def nd_positions(data: Array, indices: Array) -> Array:
    """Return for each update of `scatter_nd` its row-major place in `data`."""
    attrs = {"batch_dims": 0, "index_rank": None}
    return np.asarray(gather_nd.facets["numpy"](_positions(data.shape), indices, **attrs))


@scatter_nd_grad.compute
def _(grad: Tensor, data: Tensor, indices: Tensor, updates: Tensor, *, mode: str) -> Any:
    walk = nd_walk(data, indices, updates)
    return _undone_tensors((grad, data, indices, updates), walk, mode)


def nd_walk(data: Tensor, indices: Tensor, updates: Tensor) -> Walk:
    """Return how loops go over the updates of `scatter_nd`."""
    count = scattered_axes(data, indices, updates)
    rest, walked = data.shape[count:], indices.shape[1:]

    def places(w: Writer, indices: Memory, line: ScalarExpr, k: ScalarExpr) -> tuple[Index, Index]:
        inner, outer = unflattened(line, rest), unflattened(k, walked)
        chosen = (indices[(te.dim(j),) + outer] for j in range(count))
        at = tuple(w.let(counted(v, data.shape[j])) for j, v in enumerate(chosen))
        return at + inner, outer + inner

    return Walk(product(rest), product(walked), places)


OPERATORS = (adv_index_grad, gather_nd_grad, scatter_elements_grad, scatter_nd_grad)
