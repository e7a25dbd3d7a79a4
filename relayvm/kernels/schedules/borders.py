"""Borders: where along its axes a stage takes other values, as a concatenation or a padding does.

Loops that end at the borders need no condition inside, and read only what they use.
"""

from __future__ import annotations

from collections.abc import Iterator

from relayvm.base.dtypes import INT64
from relayvm.kernels import compute as c
from relayvm.kernels import loops as n
from relayvm.kernels.index import simplify as s
from relayvm.kernels.index.prover import Prover
from relayvm.kernels.schedules.emit import Context
from relayvm.kernels.schedules.plan import Stage, inlined_nodes
from relayvm.kernels.schedules.probe import probe

# Bodies of a stage: of one axis with many borders, or of all axes together.
MAX_PARTS_OF_AXIS = 64
MAX_PARTS = 16
# The most elements of an edge beside vectors, and edges of an axis.
EDGE = 4
MOST_EDGES = 2
# What is added to the border where `i + rest` is compared with 0, by the sign of i.
_SHIFTS = {
    "less": (0, 1),
    "greater_equal": (0, 1),
    "less_equal": (1, 0),
    "greater": (1, 0),
}


def borders(context: Context, stage: Stage) -> dict[int, list[n.Expr]]:
    """Return the borders on each axis, rising and inside it; few enough to write each part out."""
    kept = context.buffers.keys()
    if not any(isinstance(m, c.Select) for t in stage.tensors for m in inlined_nodes(t, kept)):
        return {}
    this = probe(context, stage)
    found: dict[n.Var, list[n.Expr]] = {}
    for condition in this.conditions:
        for axis, point in _points(condition, this.axes):
            if point not in found.setdefault(axis, []):
                found[axis].append(point)
    return _chosen(this.axes, this.extents, found)


def _chosen(
    axes: tuple[n.Var, ...], extents: tuple[n.Expr, ...], found: dict[n.Var, list[n.Expr]]
) -> dict[int, list[n.Expr]]:
    last = max((k for k, e in enumerate(extents) if e != n.const(1)), default=0)
    result: dict[int, list[n.Expr]] = {}
    parts = 1
    for number, (axis, extent) in enumerate(zip(axes, extents)):
        points = _rising(found.get(axis, []), extent)
        limit = MAX_PARTS if parts > 1 else MAX_PARTS_OF_AXIS
        if not points or parts * (len(points) + 1) > limit:
            continue
        if number == last and _has_short_part(points, extent):
            continue
        parts *= len(points) + 1
        result[number] = points
    return result


def _rising(points: list[n.Expr], extent: n.Expr) -> list[n.Expr]:
    """Return the points that are known to be inside the axis, each after the one before."""
    literals = sorted((p for p in points if isinstance(p, n.Const)), key=lambda p: p.value)
    others = [p for p in points if not isinstance(p, n.Const)]
    prover = Prover()
    chain: list[n.Expr] = []
    for point in (*literals, *others):
        before = chain[-1] if chain else n.const(0)
        gaps = (s.sub(point, before), s.sub(extent, point))
        if point in (n.const(0), extent) or point in chain:
            continue
        if all(prover.at_least_zero(s.polynomial(gap)) for gap in gaps):
            chain.append(point)
    return chain


def _has_short_part(points: list[n.Expr], extent: n.Expr) -> bool:
    """Return whether a part is known to be shorter than a vector, but for edges of few elements
    around one that is not.
    """
    lengths = [s.sub(high, low) for low, high in zip([n.const(0), *points], [*points, extent])]
    short = [length for length in lengths if not is_long(length)]
    few = len(short) <= MOST_EDGES and all(map(is_edge, short))
    return bool(short) and (not few or len(short) == len(lengths))


def is_edge(length: n.Expr) -> bool:
    """Return whether a part of an axis is known to have so few elements that they are scalars."""
    return isinstance(length, n.Const) and int(length.value) <= EDGE


def is_long(length: n.Expr) -> bool:
    """Return whether a part of an axis is not known to be shorter than a vector."""
    return not isinstance(length, n.Const) or int(length.value) >= n.LANES


def _points(condition: n.Expr, axes: tuple[n.Var, ...]) -> Iterator[tuple[n.Var, n.Expr]]:
    match condition:
        case n.Call("logical_and" | "logical_or" | "logical_not", args):
            for arg in args:
                yield from _points(arg, axes)
        case n.Call(name, (a, b)) if a.dtype == INT64 and name in _SHIFTS:
            difference = dict(s.polynomial(s.sub(a, b)))
            used = [axis for axis in axes if (axis,) in difference]
            sign = difference.pop((used[0],)) if len(used) == 1 else 0
            plain = all(isinstance(x, n.DimRef) for monomial in difference for x in monomial)
            if abs(sign) == 1 and plain:
                shift = _SHIFTS[name][0 if sign > 0 else 1]
                point = s.poly_add({(): shift}, difference, -sign)
                yield used[0], s.from_polynomial(point)
        case _:
            pass
