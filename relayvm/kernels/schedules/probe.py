"""A probe of a stage: what one element of it reads and asks, found by emitting it once."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from weakref import WeakKeyDictionary

from relayvm.kernels import loops as n
from relayvm.kernels.compute import Reduce, Scalar
from relayvm.kernels.index import simplify as s
from relayvm.kernels.schedules.emit import Context, Emitter, is_index
from relayvm.kernels.schedules.plan import Stage, body_of, nodes
from relayvm.kernels.schedules.reduction import MOST_WRITTEN, serial


@dataclass(frozen=True)
class Probe:
    """The values of a stage's tensors at the element `axes`, and the conditions on indices."""

    axes: tuple[n.Var, ...]
    extents: tuple[n.Expr, ...]
    statements: tuple[n.Stmt, ...]
    values: tuple[n.Expr, ...]
    conditions: tuple[n.Expr, ...]


_probes: WeakKeyDictionary[Stage, Probe] = WeakKeyDictionary()


def probe(context: Context, stage: Stage) -> Probe:
    """Return the probe of a stage of the kernel that `context` describes."""
    if stage not in _probes:
        _probes[stage] = _emitted(context, stage)
    return _probes[stage]


def _emitted(context: Context, stage: Stage) -> Probe:
    trial = replace(context, names=context.names.copy())
    emitter = Emitter(trial, serial)
    axes = tuple(trial.names.var("i") for _ in stage.shape)
    extents = tuple(context.dim(d) for d in stage.shape)
    for axis, extent in zip(axes, extents):
        emitter.prover.add_range(axis, n.const(0), extent)
    values = []
    for tensor in stage.tensors:
        value = emitter.bind(emitter.tensor(tensor, axes))
        emitter.known(tensor, axes, value)
        values.append(value)
    return Probe(axes, extents, tuple(emitter.statements), tuple(values), tuple(emitter.conditions))


def inner_axis(context: Context, stage: Stage, lanes_axis: int) -> int | None:
    """Return the axis that a transposing stage should run along inside the loop over vectors.

    Vectors that are gathered across memory take neighbours of what the one before took, so that
    every line of the cache is fetched once.
    """
    found = probe(context, stage)
    if any(not isinstance(stmt, n.Let) for stmt in found.statements):
        return None
    values = [stmt.value for stmt in found.statements if isinstance(stmt, n.Let)]
    loads = [load for value in (*values, *found.values) for load in _loads(value)]
    lane = found.axes[lanes_axis]
    for load in loads:
        if not load.indices or lane not in _variables(load.indices[:-1]):
            continue
        along = _variables(load.indices[-1:])
        numbers = [k for k, a in enumerate(found.axes) if a in along and k != lanes_axis]
        if len(numbers) == 1 and lane not in along and found.extents[numbers[0]] != n.const(1):
            return numbers[0]
    return None


def slides(context: Context, stage: Stage) -> bool:
    """Return whether a stage reduces short windows of one operand that slide along its last axis.

    Such windows would leave lanes idle where they run in them.
    """
    reductions = [m for t in stage.tensors for m in nodes(body_of(t).body) if isinstance(m, Reduce)]
    if len(stage.tensors) != 1 or len(reductions) != 1:
        return False
    body = reductions[0].body
    if isinstance(body, Scalar) and body.name == "multiply":
        return False  # A sum of products shares its factors between places.
    taken: list[int] = [a.extent for a in reductions[0].axes if isinstance(a.extent, int)]
    if len(taken) != len(reductions[0].axes) or not 1 < math.prod(taken) <= MOST_WRITTEN:
        return False
    found = probe(context, stage)
    lanes = max((k for k, e in enumerate(found.extents) if e != n.const(1)), default=None)
    if lanes is None:
        return False
    lane = found.axes[lanes]
    loads = [
        load for value in _values(found.statements) for load in _loads(value) if _uses(load, {lane})
    ]
    return bool(loads) and all(_moves_on(load, lane) for load in loads)


def _moves_on(load: n.Load, lane: n.Var) -> bool:
    """Return whether the next place along an axis reads the next element, or the one behind it."""
    *others, last = load.indices
    terms = s.polynomial(last) if last.lanes == 1 else {}
    return not any(_uses(index, {lane}) for index in others) and terms.get((lane,)) in (1, 2)


def _values(statements: tuple[n.Stmt, ...]) -> Iterator[n.Expr]:
    """Yield what statements compute, those in loops and branches too."""
    for stmt in statements:
        match stmt:
            case n.Let() | n.TileStore():
                yield stmt.value
            case n.For():
                yield from _values(stmt.body)
            case n.If():
                yield from _values((*stmt.then, *stmt.otherwise))


def row_steps(context: Context, stage: Stage, axis: int) -> list[n.Expr]:
    """Return how many bytes apart the rows are that a stage reads along an axis."""
    found = probe(context, stage)
    values = [stmt.value for stmt in found.statements if isinstance(stmt, n.Let)]
    steps: dict[n.Expr, None] = {}
    for load in (load for value in (*values, *found.values) for load in _loads(value)):
        for k, index in enumerate(load.indices[:-1]):
            if found.axes[axis] in _variables((index,)):
                step: n.Expr = n.const(load.dtype.itemsize_bytes)
                for size in load.buffer.shape[k + 1 :]:
                    step = s.mul(step, size)
                steps[step] = None
    return list(steps)


def clipped_extents(context: Context, stage: Stage, axis: int) -> list[n.Expr]:
    """Return the unknown extents to which the index on an axis is clipped, as `?` broadcasts to it.

    Where they are the axis's own extent, or 1, nothing needs to be clipped.
    """
    found = probe(context, stage)
    values = [stmt.value for stmt in found.statements if isinstance(stmt, n.Let)]
    extents = [
        value.extent
        for value in values
        if isinstance(value, n.Index) and value.mode == "clip" and value.value == found.axes[axis]
    ]
    return list(dict.fromkeys(extents))


def _loads(expr: n.Expr) -> Iterator[n.Load]:
    if isinstance(expr, n.Load):
        yield expr
    for child in n.children(expr):
        yield from _loads(child)


def _variables(indices: tuple[n.Expr, ...]) -> set[n.Expr]:
    """Return the atoms that indices add up."""
    return {a for i in indices if i.lanes == 1 for m in s.polynomial(i) for a in m}


def widest_item_bytes(context: Context, stage: Stage) -> int:
    """Return the size of the widest dtype of what a stage reads, computes and writes for each
    place of its last axis.
    """
    found = probe(context, stage)
    axis = max((k for k, e in enumerate(found.extents) if e != n.const(1)), default=None)
    sizes = [t.dtype.itemsize_bytes for t in stage.tensors]
    varying: set[n.Expr] = set() if axis is None else {found.axes[axis]}
    for stmt in found.statements:
        if isinstance(stmt, n.Let) and _uses(stmt.value, varying):
            varying.add(stmt.var)
            sizes += _item_bytes(stmt.value, varying)
    return max(sizes + [size for value in found.values for size in _item_bytes(value, varying)])


def narrowest_read_bytes(context: Context, stage: Stage) -> int:
    """Return the size of the narrowest dtype of the tensors that a stage reads."""
    found = probe(context, stage)
    values = [stmt.value for stmt in found.statements if isinstance(stmt, n.Let)]
    loads = [load for value in (*values, *found.values) for load in _loads(value)]
    return min(load.dtype.itemsize_bytes for load in loads if load.indices)


def _item_bytes(expr: n.Expr, varying: set[n.Expr]) -> list[int]:
    """Return the sizes of the dtypes in an expression of what is data and varies."""
    if is_index(expr) or not _uses(expr, varying):
        return []
    inside = () if isinstance(expr, (n.Load, n.Gather)) else n.children(expr)
    sizes = [size for child in inside for size in _item_bytes(child, varying)]
    return [expr.dtype.itemsize_bytes, *sizes]


def _uses(expr: n.Expr, variables: set[n.Expr]) -> bool:
    return expr in variables or any(_uses(child, variables) for child in n.children(expr))
