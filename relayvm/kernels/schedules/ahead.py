"""Prefetches: what the next tile reads is fetched while this one is computed.

Weights that do not fit in a core's own cache come from further away. The hardware fetches the next
lines of a row by itself, but each tile starts new rows.
"""

from __future__ import annotations

from dataclasses import dataclass

from relayvm.base.abi import Access
from relayvm.kernels import loops as n
from relayvm.kernels.index import simplify as s

LINE_BYTES = 64


@dataclass(frozen=True)
class Ahead:
    """What is fetched ahead: where `var` moves on by `step`, if a condition holds."""

    condition: n.Expr
    var: n.Expr
    step: int

    def fetch(self, statements: list[n.Stmt]) -> n.Stmt:
        """Return prefetches for the vectors that statements load at a place that moves."""
        return n.If(self.condition, tuple(_prefetches(statements, self.var, self.step)))


def _prefetches(statements: list[n.Stmt], var: n.Expr, step: int) -> list[n.Stmt]:
    found: dict[n.Prefetch, None] = {}
    for stmt in statements:
        if not isinstance(stmt, n.Let) or not isinstance(stmt.value, n.Load):
            continue
        load = stmt.value
        if load.lanes == 1 or load.buffer.access is not Access.DENSE:
            continue
        moved = tuple(_moved(index, var, step) for index in load.indices)
        if moved == load.indices:
            continue
        size = load.lanes * load.dtype.itemsize_bytes
        for offset in range(0, max(size, 1), LINE_BYTES):
            elements = n.const(offset // load.dtype.itemsize_bytes)
            found[n.Prefetch(load.buffer, (*moved[:-1], s.add(moved[-1], elements)))] = None
    return list(found)


def _moved(index: n.Expr, var: n.Expr, step: int) -> n.Expr:
    """Return an index for `var + step` where it is linear in `var`."""
    factor = s.polynomial(index).get((var,), 0)
    return s.add(index, n.const(factor * step)) if factor else index
