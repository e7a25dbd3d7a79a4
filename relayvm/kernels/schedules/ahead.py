"""Prefetches: what the next tile reads is fetched while this one is computed.

Weights that do not fit in a core's own cache come from further away. The hardware fetches the next
lines of a row by itself, but each tile starts new rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from relayvm.base.abi import Access
from relayvm.kernels import loops as n
from relayvm.kernels.index import simplify as s
from relayvm.kernels.index.prover import variables_in

LINE_BYTES = 64


@dataclass(frozen=True)
class Ahead:
    """What is fetched ahead: where `var` moves on by `step`, if a condition holds.

    Of places that lie side by side only one of `shares` is fetched, the one that has number
    `share`.
    """

    condition: n.Expr
    var: n.Expr
    step: int
    shares: int = 1
    share: n.Expr = field(default_factory=lambda: n.const(0))

    def fetches(self, statements: list[n.Stmt]) -> tuple[n.Prefetch, ...]:
        """Return prefetches for the vectors that statements load at a place that moves."""
        places = _places(statements, self.var, self.step)
        found: dict[n.Prefetch, None] = {}
        for run in _runs(places):
            size, rest = divmod(len(run), self.shares)
            share = s.mul(self.share, n.const(size)) if not rest else n.const(0)
            size = size if not rest else len(run)
            for place in run[:size]:
                found.update(dict.fromkeys(place.lines(share)))
        return tuple(found)


def with_fetches(statements: list[n.Stmt], ahead: tuple[Ahead, ...]) -> list[n.Stmt]:
    """Return the statements of a step with what they fetch ahead before their first load.

    A branch further down would end the loads' block: the code generator moves sums behind it, and
    until then all that was loaded takes registers, of which the partials leave few.
    """
    fetches = [(each.condition, each.fetches(statements)) for each in ahead]
    indices = [i for _, prefetches in fetches for each in prefetches for i in each.indices]
    needed = {variable for index in indices for variable in variables_in(index)}
    begin = 0
    for number, stmt in enumerate(statements):
        if isinstance(stmt, n.Let) and stmt.var in needed:
            begin = number + 1
    branches = [n.If(condition, prefetches) for condition, prefetches in fetches if prefetches]
    return [*statements[:begin], *branches, *statements[begin:]]


@dataclass(frozen=True)
class _Place:
    """Where a vector is loaded: `axis` is the one along which it moves, `offset` its constant."""

    load: n.Load
    indices: tuple[n.Expr, ...]
    axis: int
    offset: int

    @property
    def line(self) -> tuple[object, ...]:
        """What places have in common that lie side by side."""
        rest = s.sub(self.indices[self.axis], n.const(self.offset))
        return (self.load.buffer, *self.indices[: self.axis], rest, *self.indices[self.axis + 1 :])

    def lines(self, share: n.Expr) -> list[n.Prefetch]:
        """Return prefetches of all lines of a vector, moved on by a share."""
        indices = list(self.indices)
        indices[self.axis] = s.add(indices[self.axis], share)
        item = self.load.dtype.itemsize_bytes
        return [
            n.Prefetch(
                self.load.buffer, (*indices[:-1], s.add(indices[-1], n.const(offset // item)))
            )
            for offset in range(0, max(self.load.lanes * item, 1), LINE_BYTES)
        ]


def _places(statements: list[n.Stmt], var: n.Expr, step: int) -> list[_Place]:
    found: dict[_Place, None] = {}
    for stmt in statements:
        if not isinstance(stmt, n.Let) or not isinstance(stmt.value, n.Load):
            continue
        load = stmt.value
        if load.lanes == 1 or load.buffer.access is not Access.DENSE:
            continue
        moved = tuple(_moved(index, var, step) for index in load.indices)
        for axis, (new, old) in enumerate(zip(moved, load.indices)):
            if new != old:
                found[_Place(load, moved, axis, s.polynomial(new).get((), 0))] = None
                break
    return list(found)


def _runs(places: list[_Place]) -> list[list[_Place]]:
    """Return places in groups of those that lie side by side, in order."""
    lines: dict[tuple[object, ...], list[_Place]] = {}
    for place in places:
        lines.setdefault(place.line, []).append(place)
    runs: list[list[_Place]] = []
    for line in lines.values():
        line.sort(key=lambda place: place.offset)
        for number, place in enumerate(line):
            if number and place.offset == line[number - 1].offset + 1:
                runs[-1].append(place)
            else:
                runs.append([place])
    return runs


def _moved(index: n.Expr, var: n.Expr, step: int) -> n.Expr:
    """Return an index for `var + step` where it is linear in `var`."""
    factor = s.polynomial(index).get((var,), 0)
    return s.add(index, n.const(factor * step)) if factor else index
