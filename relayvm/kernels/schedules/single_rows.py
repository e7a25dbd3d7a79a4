"""Stages whose results are found one by one, each from rows of memory in lanes."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from relayvm.kernels import compute as c
from relayvm.kernels import loops as n
from relayvm.kernels.schedules.arg_reduction import arg_row, arg_rows
from relayvm.kernels.schedules.box_reduction import box_row
from relayvm.kernels.schedules.boxes import product, reads_apart, reduced_axes
from relayvm.kernels.schedules.elementwise import BLOCK, MASKED_BYTES, blocks, vector_rows
from relayvm.kernels.schedules.emit import CannotVectorise, Context, Emitter, Frame, Reduction
from relayvm.kernels.schedules.plan import Stage, inlined_nodes
from relayvm.kernels.schedules.reduction import serial

# So many rows of which each has vectors of its own, for targets with many registers.
ROWS = 8


def position_phase(context: Context, stage: Stage) -> n.Phase | None:
    """Return the phase of a stage that looks for positions along rows of memory, or None."""
    if not any(isinstance(r, c.ArgReduce) for r in _reductions(context, stage)):
        return None
    count = ROWS if context.vector_bytes >= MASKED_BYTES else ROWS // 2
    trial = replace(context, names=context.names.copy())
    try:
        phase = _phase(trial, stage, 0, rows=count)
    except CannotVectorise:
        phase = None
    if phase is not None:
        context.names.counts.update(trial.names.counts)
        return phase
    return _phase(context, stage, 0)


def box_phase(context: Context, stage: Stage) -> n.Phase | None:
    """Return the phase of a stage that reduces boxes of several axes, or None."""
    most = max((len(reduced_axes(r.axes)) for r in _reductions(context, stage)), default=0)
    for split in range(1, most):
        try:
            phase = _phase(context, stage, split)
        except CannotVectorise:
            continue
        if phase is not None:
            return phase
    return None


def _phase(context: Context, stage: Stage, split: int, rows: int = 1) -> n.Phase | None:
    """Return the phase of a stage whose results are found one by one, or `rows` at a time."""
    extents = tuple(context.dim(d) for d in stage.shape)
    axis = next((k for k, e in enumerate(extents) if e != n.const(1)), None)
    emitter = Emitter(context, partial(_reduced, split=split))
    emitter.widths = (rows, 1)

    def run(begin: n.Expr, end: n.Expr) -> None:
        edges = {} if axis is None else {axis: (begin, end)}
        vector_rows(emitter, stage, edges, vectors=rows > 1)

    count = n.const(1) if axis is None else extents[axis]
    phase = blocks(context, emitter, count, run, _rows_of(context, stage))
    return None if reads_apart(phase.body) else phase


def _reduced(emitter: Emitter, reduction: Reduction, frame: Frame, split: int) -> n.Expr:
    if isinstance(reduction, c.ArgReduce):
        is_one = all(place.lanes == 1 for place in frame.values())
        return (arg_row if is_one else arg_rows)(emitter, reduction, frame)
    if not split:
        return serial(emitter, reduction, frame)
    return box_row(emitter, reduction, frame, split)


def _rows_of(context: Context, stage: Stage) -> int:
    """Return how many results on the first axis are work enough for a round of a phase."""
    boxes = [r.axes for r in _reductions(context, stage)]
    work = [product(tuple(context.dim(a.extent) for a in box)) for box in boxes]
    work += [context.dim(d) for d in stage.shape[1:]]
    total = product(tuple(work))
    return max(1, BLOCK // int(total.value)) if isinstance(total, n.Const) and total.value else 1


def _reductions(context: Context, stage: Stage) -> list[c.Reduce | c.ArgReduce]:
    kept = context.buffers.keys()
    nodes = (m for t in stage.tensors for m in inlined_nodes(t, kept))
    return [m for m in nodes if isinstance(m, (c.Reduce, c.ArgReduce))]
