"""Bounds: every access of a nest is proved to be inside its buffer, or gets a check."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from relayvm.base.abi import Access
from relayvm.base.dtypes import INT64
from relayvm.kernels.index import simplify as s
from relayvm.kernels.index.prover import Prover, is_stable, reach
from relayvm.kernels.loops import (
    Buffer,
    Call,
    Const,
    Declare,
    DimRef,
    Expr,
    For,
    Gather,
    If,
    Index,
    Let,
    Load,
    Nest,
    Prefetch,
    Ramp,
    Select,
    Stmt,
    Store,
    TileStore,
    broadcast,
    call,
    children,
    const,
    map_operands,
)


def ensure_bounds(nest: Nest) -> Nest:
    """Return the nest with every access proved inside its buffer, or checked.

    A scalar index that is not proved becomes `index(i, extent, trap)`; a masked or vector access
    gets the check in its mask. What needs no check is left as it is. An axis of size 1 of a strided
    operand has stride 0: any index from 0 on is inside, and the check lets it pass.
    """
    phases = []
    broadcasts = nest_broadcasts(nest)
    for phase in nest.phases:
        prover = Prover(broadcasts=broadcasts)
        prover.add_range(phase.var, const(0), phase.extent)
        phases.append(replace(phase, body=_check_block(phase.body, prover)))
    return replace(nest, phases=tuple(phases))


def nest_broadcasts(nest: Nest) -> tuple[Select, ...]:
    """Return the sizes broadcast at run time to which an axis or a loop of the nest extends."""
    if not any(b.access is Access.STRIDED for b in nest.operands):
        return ()
    sizes = [*nest.joined, *(e for b in nest.buffers for e in b.shape)]
    for phase in nest.phases:
        sizes += (phase.extent, phase.chain)
        sizes += _sizes_in(phase.body)
    return broadcast_extents(sizes)


def _sizes_in(body: tuple[Stmt, ...]) -> Iterator[Expr]:
    """Yield the ends of loops and what indices are held below; a size may be bound by a `let`."""
    for stmt in body:
        match stmt:
            case For(_, begin, end):
                yield from (begin, end)
                yield from _sizes_in(stmt.body)
            case If():
                yield from _sizes_in(stmt.then)
                yield from _sizes_in(stmt.otherwise)
            case Let(_, Index(_, extent)):
                yield extent
            case Let(_, value) if value.dtype == INT64 and value.lanes == 1:
                yield value
            case _:
                pass


def broadcast_extents(sizes: Iterable[Expr]) -> tuple[Select, ...]:
    """Return the parts of sizes that are broadcast at run time: `select(a == 1, b, a)`."""
    found: dict[Select, None] = {}
    stack = list(sizes)
    while stack:
        size = stack.pop()
        match size:
            case Select(Call("equal", (a, Const(1))), _, b) if a == b and is_size(size):
                found[size] = None
        if isinstance(size, (Call, Select)):
            stack.extend(children(size))
    return tuple(found)


def is_size(expr: Expr) -> bool:
    """Return whether an expression is made of dims and literals alone."""
    if isinstance(expr, (Const, DimRef)):
        return True
    return isinstance(expr, (Call, Select)) and all(map(is_size, children(expr)))


def _check_block(body: tuple[Stmt, ...], prover: Prover) -> tuple[Stmt, ...]:
    result: list[Stmt] = []
    for stmt in body:
        match stmt:
            case For(var, begin, end, step):
                begin, end = _check_expr(begin, prover), _check_expr(end, prover)
                inner = prover.child()
                inner.add_range(var, begin, end, step)
                condition = stmt.condition
                if condition is not None:
                    condition = _check_expr(condition, inner)
                    inner.add_condition(condition)
                body = _check_block(stmt.body, inner)
                stmt = For(var, begin, end, step, body, stmt.kind, condition)
            case If(condition):
                condition = _check_expr(condition, prover)
                yes, no = prover.child(), prover.child()
                yes.add_condition(condition)
                no.add_condition(condition, False)
                stmt = If(condition, _check_block(stmt.then, yes), _check_block(stmt.otherwise, no))
            case Let(var, value):
                value = _check_expr(value, prover)
                stmt = Let(var, value)
                prover.add_value(var, value)
            case Store(buffer, indices, value, mask):
                value = _check_expr(value, prover)
                indices = tuple(_check_expr(i, prover) for i in indices)
                indices, mask = _checked(buffer, indices, value.lanes, mask, prover)
                stmt = Store(buffer, indices, value, mask)
            case TileStore(tile, index, value):
                stmt = TileStore(tile, index, _check_expr(value, prover))
            case Prefetch(buffer, indices):
                stmt = Prefetch(buffer, tuple(_check_expr(i, prover) for i in indices))
            case Declare():
                pass
        result.append(stmt)
    return tuple(result)


def _check_expr(expr: Expr, prover: Prover) -> Expr:
    if is_stable(expr):  # it has no loads
        return expr
    expr = map_operands(expr, lambda e: _check_expr(e, prover))
    if isinstance(expr, Load):
        indices, mask = _checked(expr.buffer, expr.indices, expr.lanes, expr.mask, prover)
        return replace(expr, indices=indices, mask=mask)
    if isinstance(expr, Gather):
        mask = expr.mask
        here = prover.masked(mask)
        strided = expr.buffer.access is Access.STRIDED
        for i, e in zip(expr.indices, extents_of(expr.buffer, len(expr.indices))):
            if not here.in_range(i, e, expr.lanes, strided=strided):
                mask = _and_range(mask, i, reach(e) if strided else e, expr.lanes)
        return replace(expr, mask=mask)
    return expr


def _checked(
    buffer: Buffer, indices: tuple[Expr, ...], lanes: int, mask: Expr | None, prover: Prover
) -> tuple[tuple[Expr, ...], Expr | None]:
    here = prover.masked(mask)
    strided = buffer.access is Access.STRIDED
    if len(indices) < len(buffer.shape) and _is_inside(here, indices[0], buffer.shape, lanes):
        return indices, mask
    checked = list(indices)
    for axis, extent in enumerate(extents_of(buffer, len(indices))):
        index = indices[axis]
        if lanes > 1 and axis == len(indices) - 1:
            ramp = Ramp(index, const(1), lanes)
            if not here.in_range(ramp, extent, lanes, strided=strided):
                mask = _and_range(mask, ramp, reach(extent) if strided else extent, lanes)
        elif not here.in_range(index, extent, 1, strided=strided):
            if mask is None and lanes == 1:
                checked[axis] = Index(index, reach(extent) if strided else extent, "trap")
            else:
                mask = _and_range(mask, index, reach(extent) if strided else extent, lanes)
    return tuple(checked), mask


def _is_inside(here: Prover, index: Expr, shape: tuple[Expr, ...], lanes: int) -> bool:
    """Return whether a flat index is proved to be inside axis by axis: `i * 768 + j` where j is
    below 768, and i inside the axes before.
    """
    rest: Expr = Ramp(index, const(1), lanes) if lanes > 1 else index
    for axis in range(len(shape) - 1, 0, -1):
        base = rest.base if isinstance(rest, Ramp) else rest
        quotient, low = s.divide_polynomial(base, shape[axis])
        if isinstance(rest, Ramp):
            low = Ramp(low, const(1), lanes)
        if not here.in_range(low, shape[axis], low.lanes):
            return False
        rest = s.from_polynomial(quotient)
        if here.in_range(rest, _product(shape[:axis]), 1):
            return True
    return False


def _and_range(mask: Expr | None, index: Expr, extent: Expr, lanes: int) -> Expr:
    low = call("greater_equal", broadcast(index, lanes), broadcast(const(0), lanes))
    high = call("less", broadcast(index, lanes), broadcast(extent, lanes))
    check = call("logical_and", low, high)
    return check if mask is None else call("logical_and", mask, check)


def extents_of(buffer: Buffer, count: int) -> tuple[Expr, ...]:
    """Return what `count` indices run over: the shape, or its product for a flat index."""
    if count == len(buffer.shape):
        return buffer.shape
    assert count == 1, f"{count} indices on {buffer.name}"
    return (_product(buffer.shape),)


def _product(extents: tuple[Expr, ...]) -> Expr:
    total: Expr = const(1)
    for extent in extents:
        total = s.mul(total, extent)
    return total
