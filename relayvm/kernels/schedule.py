"""Schedules: which recipe each stage of a kernel gets; results have the naive nest's bits."""

from __future__ import annotations

import logging
from dataclasses import replace

from relayvm.base.target import Target
from relayvm.kernels import loops as n
from relayvm.kernels.compute import Tensor
from relayvm.kernels.lower import (
    Computation,
    Skeleton,
    distinct_outputs,
    finish,
    lower,
    naive_phase,
    skeleton,
)
from relayvm.kernels.schedules.columns import ColumnTiling, has_no_order
from relayvm.kernels.schedules.contraction import contraction_phase, tiled_phase
from relayvm.kernels.schedules.convolution import convolution_phases
from relayvm.kernels.schedules.elementwise import column_phase, elementwise_phase
from relayvm.kernels.schedules.emit import CannotPlace, Context
from relayvm.kernels.schedules.joined_rows import joined, restored
from relayvm.kernels.schedules.joins import Place, place_parts, split_outputs
from relayvm.kernels.schedules.machine import (
    cache_bytes,
    dot_kind,
    vector_bytes,
    vector_registers,
)
from relayvm.kernels.schedules.operand import stage_operands
from relayvm.kernels.schedules.packs import PackedTiling
from relayvm.kernels.schedules.plan import Stage, inlines_reduction
from relayvm.kernels.schedules.probe import slides
from relayvm.kernels.schedules.program import program_phases
from relayvm.kernels.schedules.rows import group_phase, group_stages
from relayvm.kernels.schedules.short_rows import short_rows_phase
from relayvm.kernels.schedules.single_rows import box_phase, position_phase
from relayvm.kernels.schedules.transpose import transpose_phase
from relayvm.kernels.schedules.unread import without_unread

_log = logging.getLogger("relayvm")


def schedule(computation: Computation, target: Target | None = None, opt_level: int = 3) -> n.Nest:
    """Return the nest of a computation for a target; level 0 is the naive one.

    A stage that has no vector form gets scalar loops, so every computation has a schedule.
    """
    if opt_level == 0:
        return lower(computation)
    try:
        return _scheduled(computation, target or Target())
    except Exception as reason:
        # A fault of a recipe costs speed, never the program: the naive nest has the same meaning.
        _log.warning("%s is not scheduled: %s: %s", computation.name, type(reason).__name__, reason)
        return lower(computation)


def _scheduled(computation: Computation, target: Target) -> n.Nest:
    rows = joined(computation)
    if rows is not None:
        nest = restored(_as_it_is(rows, target), computation)
        if nest is not None:
            return nest
    return _as_it_is(computation, target)


def _as_it_is(computation: Computation, target: Target) -> n.Nest:
    dots = dot_kind(target)
    outputs, copies = stage_operands(computation, distinct_outputs(computation), dots)
    parts = skeleton(computation, outputs, copies)
    tensors, places = split_outputs(outputs)
    if len(tensors) > len(outputs):
        split = skeleton(computation, tensors, copies)
        if len(split.scratch) < len(parts.scratch):
            try:
                return _placed(computation, parts, split, places, target)
            except CannotPlace:
                pass
    return finish(computation.name, parts, _phases(parts, target))


def _placed(
    computation: Computation,
    parts: Skeleton,
    split: Skeleton,
    places: tuple[Place, ...],
    target: Target,
) -> n.Nest:
    """Return the nest of what is computed in parts, each in its place. Raises CannotPlace."""
    count = len(computation.inputs)
    moved: dict[str, tuple[n.Buffer, int, n.Expr]] = {}
    for tensor, buffer, place in zip(split.outputs, split.operands[count:], places):
        whole = parts.operands[count + place.output]
        moved[buffer.name] = whole, place.axis, split.context.dim(place.begin)
        if any(extent != 1 for extent in tensor.shape[: place.axis]):
            # Offsets that loops come to compute must be those in the whole.
            split.context.buffers[tensor] = replace(buffer, shape=whole.shape)
    phases = place_parts(_phases(split, target), moved)
    split.operands = parts.operands
    return finish(computation.name, split, phases)


def _phases(parts: Skeleton, target: Target) -> list[n.Phase]:
    registers = vector_registers(target)
    parts.context.cache_bytes, parts.context.dots = cache_bytes(target), dot_kind(target)
    parts.context.vector_bytes = vector_bytes(target)
    kept = frozenset(parts.context.buffers)
    phases: list[n.Phase] = []
    for group in group_stages(parts.context, parts.stages):
        phase = group_phase(parts, group, registers) if len(group.stages) > 1 else None
        if phase is not None:
            phases.append(phase)
            continue
        for stage in group.stages:
            if stage.program is not None:
                phases += program_phases(parts.context, stage.program, parts.scratch)
                continue
            phases += _stage_phases(parts.context, stage, kept, registers)
    parts.private += parts.context.private
    parts.scratch += parts.context.scratch
    phases, unread = without_unread(phases, (*parts.scratch, *parts.private))
    parts.scratch = [b for b in parts.scratch if b.name not in unread]
    parts.private = [b for b in parts.private if b.name not in unread]
    return phases


def _stage_phases(
    context: Context, stage: Stage, kept: frozenset[Tensor], registers: int
) -> list[n.Phase]:
    phase: n.Phase | None
    if any(inlines_reduction(t, kept) for t in stage.tensors):
        phase = (
            position_phase(context, stage)
            or (column_phase(context, stage) if slides(context, stage) else None)
            or tiled_phase(PackedTiling, context, stage, registers)
            or contraction_phase(context, stage, registers)
        )
        if phase is None:
            phases = convolution_phases(context, stage, registers)
            if phases:
                return phases
            phase = (
                _unordered_columns(context, stage, registers)
                or tiled_phase(ColumnTiling, context, stage, registers)
                or box_phase(context, stage)
                or column_phase(context, stage)
            )
    else:
        phase = (
            transpose_phase(context, stage)
            or elementwise_phase(context, stage)
            or short_rows_phase(context, stage)
        )
    if phase is not None:
        return [phase]
    return [naive_phase(context, tensor) for tensor in stage.tensors]


def _unordered_columns(context: Context, stage: Stage, registers: int) -> n.Phase | None:
    if not has_no_order(context, stage, registers):
        return None
    return column_phase(context, stage, has_order=False)
