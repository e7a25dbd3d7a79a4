"""Memory of a kernel that its loops write and never read: neither is kept."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from relayvm.kernels import loops as n


def without_unread(
    phases: list[n.Phase], own: Iterable[n.Buffer]
) -> tuple[list[n.Phase], frozenset[str]]:
    """Return phases without stores to own memory that none of them reads, and its names.

    A value that the same loop uses at once has been taken from its register.
    """
    names = frozenset(buffer.name for buffer in own)
    if not names:
        return phases, names
    read: set[str] = set()
    for phase in phases:
        _note_reads(phase.body, read)
    unread = names - read
    if not unread:
        return phases, unread
    return [replace(p, body=_without(p.body, unread)) for p in phases], unread


def _note_reads(body: tuple[n.Stmt, ...], read: set[str]) -> None:
    for stmt in body:
        match stmt:
            case n.For():
                _note_reads(stmt.body, read)
            case n.If():
                _note_reads(stmt.then, read)
                _note_reads(stmt.otherwise, read)
            case _:
                pass
        stack = list(_values(stmt))
        while stack:
            expr = stack.pop()
            if isinstance(expr, (n.Load, n.Gather)):
                read.add(expr.buffer.name)
            stack += n.children(expr)


def _values(stmt: n.Stmt) -> tuple[n.Expr, ...]:
    match stmt:
        case n.For():
            condition = () if stmt.condition is None else (stmt.condition,)
            return (stmt.begin, stmt.end, *condition)
        case n.If():
            return (stmt.condition,)
        case n.Store():
            mask = () if stmt.mask is None else (stmt.mask,)
            return (*stmt.indices, stmt.value, *mask)
        case n.TileStore():
            return (stmt.index, stmt.value)
        case n.Let():
            return (stmt.value,)
        case n.Prefetch():
            return stmt.indices
        case _:
            return ()


def _without(body: tuple[n.Stmt, ...], unread: frozenset[str]) -> tuple[n.Stmt, ...]:
    kept: list[n.Stmt] = []
    for stmt in body:
        match stmt:
            case n.For():
                kept.append(replace(stmt, body=_without(stmt.body, unread)))
            case n.If():
                then = _without(stmt.then, unread)
                kept.append(replace(stmt, then=then, otherwise=_without(stmt.otherwise, unread)))
            case n.Store(buffer) if buffer.name in unread:
                pass
            case _:
                kept.append(stmt)
    return tuple(kept)
