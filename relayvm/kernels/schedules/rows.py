"""Stages that run together: a block of rows through all of them, or small stages at once.

A softmax reads its rows from memory once: maximum, exponentials, sum and quotient of a few rows
stay in the cache.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from relayvm.base.dims import Dim, dim_add, dim_mul
from relayvm.kernels import compute as c
from relayvm.kernels import loops as n
from relayvm.kernels.schedules.contraction import FEW_ROWS, NotAContraction, Tiling
from relayvm.kernels.schedules.elementwise import blocks, vector_rows
from relayvm.kernels.schedules.emit import CannotVectorise, Context, Emitter
from relayvm.kernels.schedules.plan import Stage, inlined_nodes, inlines_reduction
from relayvm.kernels.schedules.reduction import serial

SMALL_WORK = 1 << 14
BLOCK_ELEMENTS = 4096
UNKNOWN_ROWS = 8


def group_stages(context: Context, stages: list[Stage]) -> list[list[Stage]]:
    """Return the stages in order, neighbours that may run together in one list."""
    groups: list[list[Stage]] = []
    for stage in stages:
        if groups and _joins(context, groups[-1], stage):
            groups[-1].append(stage)
        else:
            groups.append([stage])
    return groups


def group_phase(context: Context, group: list[Stage], registers: int) -> n.Phase | None:
    """Return one phase for a group of stages, or None where one of them has no form for it."""
    emitter = Emitter(context, serial)
    extents = tuple(context.dim(d) for d in group[0].shape)
    axis = _first_axis(extents)
    try:
        if axis is None or all(_is_small(context, each) for each in group):
            return blocks(
                context, emitter, n.const(1), lambda _, __: _whole(emitter, group, registers)
            )

        def run(begin: n.Expr, end: n.Expr) -> None:
            for stage in group:
                _rows(emitter, stage, axis, begin, end, registers)

        return blocks(context, emitter, extents[axis], run, _block_rows(group, axis))
    except (CannotVectorise, NotAContraction):
        return None


def _first_axis(extents: tuple[n.Expr, ...]) -> int | None:
    return next((k for k, e in enumerate(extents) if e != n.const(1)), None)


def _block_rows(group: list[Stage], axis: int) -> int:
    """Return how many rows make a block: a power of two, so that tiles are whole."""
    inner = 1
    for stage in group:
        size = volume(stage.shape[axis + 1 :])
        if not isinstance(size, int):
            return UNKNOWN_ROWS
        inner = max(inner, size)
    rows = 64
    while rows > 4 and rows * inner > BLOCK_ELEMENTS:
        rows //= 2
    return rows


def _whole(emitter: Emitter, group: list[Stage], registers: int) -> None:
    for stage in group:
        extents = tuple(emitter.context.dim(d) for d in stage.shape)
        axis = _first_axis(extents)
        if _reduces(emitter.context, stage):
            tiling = Tiling(emitter.context, stage, extents, registers)
            tiling.check()
            tiling.whole(emitter)
        elif axis is None:
            raise CannotVectorise("one element")
        else:
            emitter.reducer = serial
            vector_rows(emitter, stage, axis, n.const(0), extents[axis])


def _rows(
    emitter: Emitter, stage: Stage, axis: int, begin: n.Expr, end: n.Expr, registers: int
) -> None:
    if not _reduces(emitter.context, stage):
        emitter.reducer = serial
        vector_rows(emitter, stage, axis, begin, end)
        return
    extents = tuple(emitter.context.dim(d) for d in stage.shape)
    try:
        tiling = Tiling(emitter.context, stage, extents, registers)
        tiling.check()
    except NotAContraction:
        emitter.reducer = partial(serial, lanes=n.LANES)
        vector_rows(emitter, stage, axis, begin, end)
    else:
        tiling.rows(emitter, axis, begin, end)


def _reduces(context: Context, stage: Stage) -> bool:
    return any(inlines_reduction(t, context.buffers.keys()) for t in stage.tensors)


def _joins(context: Context, group: list[Stage], stage: Stage) -> bool:
    if any(each.program is not None for each in (group[-1], stage)):
        return False
    if all(_is_small(context, each) for each in (*group, stage)):
        return True
    first = tuple(context.dim(d) for d in group[0].shape)
    here = tuple(context.dim(d) for d in stage.shape)
    axis = _first_axis(first)
    if axis is None or _first_axis(here) != axis or first[axis] != here[axis]:
        return False
    if any(_shares_columns(context, each) for each in (*group, stage)):
        return False
    tensors = [t for each in group for t in each.tensors]
    return all(_is_aligned(context, t, tensors, axis) for t in stage.tensors)


def _shares_columns(context: Context, stage: Stage) -> bool:
    """Return whether the stage has so few rows that its columns are the parallel axis."""
    extents = tuple(context.dim(d) for d in stage.shape)
    axis = _first_axis(extents)
    known = axis is not None and isinstance(extents[axis], n.Const)
    return (
        _reduces(context, stage)
        and known
        and not _is_small(context, stage)
        and _rows_of(extents) <= FEW_ROWS
    )


def _rows_of(extents: tuple[n.Expr, ...]) -> int:
    rows = next((e for e in extents if e != n.const(1)), n.const(1))
    return int(rows.value) if isinstance(rows, n.Const) else 1 << 30


def _is_small(context: Context, stage: Stage) -> bool:
    """Return whether a stage is known to be too little work to be shared out."""
    total: Dim = 0
    for tensor in stage.tensors:
        work: Dim = 1
        for node in inlined_nodes(tensor, context.buffers.keys()):
            if isinstance(node, (c.Reduce, c.ArgReduce)):
                work = dim_add(work, volume(tuple(axis.extent for axis in node.axes)))
        total = dim_add(total, dim_mul(volume(tensor.shape), work))
    return isinstance(total, int) and total <= SMALL_WORK


def volume(shape: tuple[Dim, ...]) -> Dim:
    """Return the number of elements of a shape."""
    total: Dim = 1
    for extent in shape:
        total = dim_mul(total, extent)
    return total


def _is_aligned(context: Context, tensor: c.Tensor, others: list[c.Tensor], axis: int) -> bool:
    """Return whether a tensor reads `others` at its own index on an axis only."""
    trial = replace(context, names=context.names.copy())
    emitter = Emitter(trial, serial)
    axes = tuple(trial.names.var("i") for _ in tensor.shape)
    for var, extent in zip(axes, tensor.shape):
        emitter.prover.add_range(var, n.const(0), trial.dim(extent))
    value = emitter.tensor(tensor, axes)
    buffers = {context.buffers[t].name for t in others}
    for load in _loads_of(value, tuple(emitter.statements)):
        if load.buffer.name not in buffers:
            continue
        if len(load.indices) <= axis or load.indices[axis] != axes[axis]:
            return False
    return True


def _loads_of(value: n.Expr, body: tuple[n.Stmt, ...]) -> Iterator[n.Load | n.Gather]:
    yield from _loads(value)
    for stmt in body:
        match stmt:
            case n.For():
                yield from _loads_of(n.const(0), stmt.body)
            case n.If():
                yield from _loads_of(stmt.condition, (*stmt.then, *stmt.otherwise))
            case n.Let() | n.TileStore() | n.Store():
                yield from _loads(stmt.value)
            case _:
                pass


def _loads(expr: n.Expr) -> Iterator[n.Load | n.Gather]:
    if isinstance(expr, (n.Load, n.Gather)):
        yield expr
    for child in n.children(expr):
        yield from _loads(child)
