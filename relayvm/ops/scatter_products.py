"""The second gradients of scatters that multiply."""

from __future__ import annotations

from typing import Any

import numpy as np

from relayvm.base.dims import dim_add, dim_mul
from relayvm.base.shapes import require_equal
from relayvm.ir.types import TensorType, TupleType
from relayvm.kernels import compute as te
from relayvm.kernels.compute import Tensor
from relayvm.kernels.schedules.program import Memory, Writer
from relayvm.ops.axes import product, require_rank
from relayvm.ops.gathering import scatter_elements, scatter_nd
from relayvm.ops.gathering_grads import (
    Walk,
    element_positions,
    element_walk,
    nd_positions,
    nd_walk,
)
from relayvm.ops.narrow import steps_of, takes_bfloat16
from relayvm.ops.numeric import Array
from relayvm.ops.operator import Fusion, operator
from relayvm.ops.reshaping import unflattened
from relayvm.ops.schema import Float, Integer, SameDtype

_NO_GRADIENT = "derivatives of products beyond the second are not there"
_ELEMENTS = "scatter_elements_grad_grad"
_ND = "scatter_nd_grad_grad"


def _require_like(name: str, tensor: TensorType, what: str, like: TensorType, other: str) -> None:
    require_rank(tensor, like.rank, like.rank, f"`{what}` of `{name}`")
    for k, (a, b) in enumerate(zip(tensor.shape, like.shape)):
        require_equal(a, b, f"axis {k} of `{what}` and of `{other}` of `{name}`")


@operator(_ELEMENTS, fusion=Fusion.OPAQUE, value_traps=True, no_gradient=_NO_GRADIENT)
def scatter_elements_grad_grad(
    change: Float,
    moves: SameDtype,
    grad: SameDtype,
    data: SameDtype,
    indices: Integer,
    updates: Float,
    *,
    axis: int = 0,
) -> TupleType:
    """The gradients of `grad`, `data` and `updates` of a `scatter_elements_grad` that multiplies,
    where its results have the gradients `change` and `moves`, exact also where elements are 0.

    >>> %c = float32 [0, 0]
    >>> %m = float32 [1, 0]
    >>> %g = float32 [1, 1]
    >>> %x = float32 [3, 4]
    >>> %i = int32 [0, 0]
    >>> %u = float32 [5, 0]
    >>> scatter_elements_grad_grad(%c, %m, %g, %x, %i, %u).2
    [0, 3]
    """
    scatter_elements.result_type([data, indices, updates], {"axis": axis, "reduction": "mul"})
    _require_like(_ELEMENTS, change, "change", data, "data")
    _require_like(_ELEMENTS, grad, "grad", data, "data")
    _require_like(_ELEMENTS, moves, "moves", updates, "updates")
    return TupleType((grad, data, TensorType(updates.shape, grad.dtype)))


@operator(_ND, fusion=Fusion.OPAQUE, value_traps=True, no_gradient=_NO_GRADIENT)
def scatter_nd_grad_grad(
    change: Float,
    moves: SameDtype,
    grad: SameDtype,
    data: SameDtype,
    indices: Integer,
    updates: Float,
) -> TupleType:
    """The same for a `scatter_nd_grad` that multiplies.

    >>> %c = float32 [0, 0]
    >>> %m = float32 [1, 0]
    >>> %g = float32 [1, 1]
    >>> %x = float32 [3, 4]
    >>> %i = int32 [[0, 0]]
    >>> %u = float32 [5, 0]
    >>> scatter_nd_grad_grad(%c, %m, %g, %x, %i, %u).2
    [0, 3]
    """
    scatter_nd.result_type([data, indices, updates], {"mode": "mul"})
    _require_like(_ND, change, "change", data, "data")
    _require_like(_ND, grad, "grad", data, "data")
    _require_like(_ND, moves, "moves", updates, "updates")
    return TupleType((grad, data, TensorType(updates.shape, grad.dtype)))


# An element that is multiplied by u[1], u[2], ... holds p and changes by c,
#     c <- c * u + p * m,    p <- p * u,
# from the element and `change` on. The last c is the gradient of `grad`; those of the others go
# back over both recurrences.


def _arrays(
    change: Array, moves: Array, grad: Array, data: Array, places: Array, updates: Array
) -> tuple[Array, Array, Array]:
    """Return the three gradients; `places` holds for each update its row-major place in `data`."""
    numbers, step, whole = steps_of(grad.dtype)
    c, of_c, p = (numbers(a).reshape(-1).copy() for a in (change, grad, data))
    m, u = (numbers(a).reshape(-1) for a in (moves, updates))
    of_p, of_u = np.zeros_like(p), np.zeros_like(u)
    held, rates = np.zeros_like(u), np.zeros_like(u)

    def both(a: Any, b: Any, x: Any, y: Any) -> Any:
        return step(step(a * b) + step(x * y))

    order = places.reshape(-1)
    for k, at in enumerate(order):
        held[k], rates[k] = p[at], c[at]
        c[at] = both(c[at], u[k], p[at], m[k])
        p[at] = step(p[at] * u[k])
    for k in reversed(range(len(order))):
        at = order[k]
        of_u[k] = both(of_c[at], rates[k], of_p[at], held[k])
        of_p[at] = both(of_p[at], u[k], of_c[at], m[k])
        of_c[at] = step(of_c[at] * u[k])
    shapes = (data.shape, data.shape, updates.shape)
    of_grad, of_data, of_updates = (whole(a.reshape(s)) for a, s in zip((c, of_p, of_u), shapes))
    return of_grad, of_data, of_updates


def _tensors(tensors: tuple[Tensor, ...], walk: Walk) -> tuple[Tensor, ...]:
    """Return the three gradients; `tensors` are the operands in their order."""
    _, _, grad, data, _, updates = tensors

    def build(w: Writer, *memory: Memory) -> None:
        change, moves, grad, data, indices, updates, c, of_p, of_u = memory
        p, of_c = (w.scratch(data.shape, data.dtype) for _ in range(2))
        held, rates = (w.scratch(updates.shape, updates.dtype) for _ in range(2))
        with w.phase(product(data.shape)) as flat:
            at = unflattened(flat, data.shape)
            p[at] = data[at]
            c[at] = change[at]
            of_c[at] = grad[at]
            of_p[at] = 0
        with w.walk_lines(walk.lines, walk.rounds) as (line, k, _):
            at, source = walk.places(w, indices, line, k)
            now, rate, u = w.let(p[at]), w.let(c[at]), w.let(updates[source])
            held[source] = now
            rates[source] = rate
            c[at] = rate * u + now * moves[source]
            p[at] = now * u
        with w.walk_lines(walk.lines, walk.rounds) as (line, k, _):
            at, source = walk.back(w, indices, line, k)
            of_now, of_rate, u = w.let(of_p[at]), w.let(of_c[at]), w.let(updates[source])
            of_u[source] = of_rate * rates[source] + of_now * held[source]
            of_p[at] = of_now * u + of_rate * moves[source]
            of_c[at] = of_rate * u

    kinds = [(data.shape, grad.dtype)] * 2 + [(updates.shape, grad.dtype)]
    work = dim_add(product(data.shape), dim_mul(product(updates.shape), 16))
    return te.program(kinds, list(tensors), build, work, "scatter_grad_grad")


@scatter_elements_grad_grad.numpy
@takes_bfloat16
def _(
    change: Array,
    moves: Array,
    grad: Array,
    data: Array,
    indices: Array,
    updates: Array,
    *,
    axis: int,
) -> Any:
    places = element_positions(data, indices, axis)
    return _arrays(change, moves, grad, data, places, updates)


@scatter_elements_grad_grad.compute
def _(
    change: Tensor,
    moves: Tensor,
    grad: Tensor,
    data: Tensor,
    indices: Tensor,
    updates: Tensor,
    *,
    axis: int,
) -> Any:
    walk = element_walk(data, indices, axis)
    return _tensors((change, moves, grad, data, indices, updates), walk)


@scatter_nd_grad_grad.numpy
@takes_bfloat16
def _(change: Array, moves: Array, grad: Array, data: Array, indices: Array, updates: Array) -> Any:
    return _arrays(change, moves, grad, data, nd_positions(data, indices), updates)


@scatter_nd_grad_grad.compute
def _(
    change: Tensor, moves: Tensor, grad: Tensor, data: Tensor, indices: Tensor, updates: Tensor
) -> Any:
    walk = nd_walk(data, indices, updates)
    return _tensors((change, moves, grad, data, indices, updates), walk)


OPERATORS = (scatter_elements_grad_grad, scatter_nd_grad_grad)
