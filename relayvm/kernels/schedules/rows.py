"""Stages that run together: a block of rows through all of them, or small stages at once.

A softmax reads its rows from memory once: maximum, exponentials, sum and quotient of a few rows
stay in the cache. What such a group computes for itself alone has memory for one block only.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

from relayvm.base.dims import Dim, dim_add, dim_mul
from relayvm.kernels import compute as c
from relayvm.kernels import loops as n
from relayvm.kernels.lower import Skeleton
from relayvm.kernels.schedules.contraction import FEW_ROWS, NotAContraction, Tiling
from relayvm.kernels.schedules.elementwise import blocks, vector_rows
from relayvm.kernels.schedules.emit import CannotVectorise, Context, Emitter
from relayvm.kernels.schedules.grid import Ranges, Side, grid_phase
from relayvm.kernels.schedules.plan import (
    Stage,
    identity_only,
    inlined_nodes,
    inlines_reduction,
    nodes,
    reads,
)
from relayvm.kernels.schedules.reduction import serial
from relayvm.kernels.schedules.weights import has_long_weights

SMALL_WORK = 1 << 14
# Elements of the longest stage in one block: rows that stay in the first cache, or of a product,
# whose other operand is read again for each block, in half of the second one.
BLOCK_ELEMENTS = 4096
PRODUCT_ELEMENTS = 32768
MAX_ELEMENTS = 1 << 18
MIN_BLOCKS = 4
UNKNOWN_ROWS = 4
UNKNOWN_PRODUCT_ROWS = 16
COLUMNS = 64


@dataclass(eq=False)
class Group:
    """Stages that one phase may run; `shared` are the axes at which they read each other only at
    their own index, or None where all are small.
    """

    stages: list[Stage]
    shared: tuple[int, ...]

    @property
    def tensors(self) -> list[c.Tensor]:
        """What the stages compute."""
        return [t for stage in self.stages for t in stage.tensors]


def group_stages(context: Context, stages: list[Stage]) -> list[Group]:
    """Return the stages in an order that keeps what they need before them, those that may run
    together in one group.

    A stage that needs nothing of the last group goes before it, out of the way of stages that may
    still join it.
    """
    groups: list[Group] = []
    for stage in stages:
        joined = _joined(context, groups[-1], stage) if groups else None
        if joined is not None:
            groups[-1] = joined
            continue
        alone = Group([stage], _axes_of(context, stage))
        if groups and _is_independent(context, stage, groups[-1]):
            before = _joined(context, groups[-2], stage) if len(groups) > 1 else None
            if before is not None:
                groups[-2] = before
            else:
                groups.insert(len(groups) - 1, alone)
        else:
            groups.append(alone)
    return groups


def group_phase(parts: Skeleton, group: Group, registers: int) -> n.Phase | None:
    """Return one phase for a group of stages, or None where one of them has no form for it."""
    context = parts.context
    emitter = Emitter(context, serial)
    try:
        if not group.shared or all(_is_small(context, each) for each in group.stages):
            return blocks(
                context, emitter, n.const(1), lambda _, __: _whole(emitter, group.stages, registers)
            )
        *fixed, axis = _block_axes(context, group)
        extents = tuple(context.dim(d) for d in group.stages[0].shape)
        size = _block_size(context, group, axis)
        sides = [Side(k, extents[k], 1) for k in fixed] + [Side(axis, extents[axis], size)]

        def run(ranges: Ranges) -> None:
            at = {k: ranges[k][0] for k in fixed}
            for buffer in context.buffers.values():
                if buffer.role == "private":
                    context.windows[buffer.name] = {**at, axis: ranges[axis][0]}
            for stage in group.stages:
                _rows(emitter, stage, axis, at, ranges[axis], registers)

        with _private_memory(parts, group, fixed, axis, size):
            return grid_phase(context, emitter, sides, run)
    except (CannotVectorise, NotAContraction):
        return None


def _block_axes(context: Context, group: Group) -> tuple[int, ...]:
    """Return the axes of blocks: the shared ones, but not the last of the stages, in vectors.

    Where that is the only one, a block is some of its vectors.
    """
    last = max(k for stage in group.stages for k in _axes_of(context, stage))
    return tuple(k for k in group.shared if k != last) or group.shared


def _block_size(context: Context, group: Group, axis: int) -> int:
    """Return how many rows make a block: a power of two, so that tiles are whole."""
    fixed = _block_axes(context, group)
    sizes = []
    for stage in group.stages:
        inner = volume(tuple(d for k, d in enumerate(stage.shape) if k not in fixed))
        sizes.append(inner if isinstance(inner, int) else None)
    product = any(_is_product(context, stage) for stage in group.stages)
    longest = None if None in sizes else max(z for z in sizes if z is not None)
    if _vectors_only(context, group):
        rows = COLUMNS
        while longest is not None and rows < 1024 and 2 * rows * longest <= PRODUCT_ELEMENTS:
            rows *= 2
        return rows
    if longest is None:
        return UNKNOWN_PRODUCT_ROWS if product else UNKNOWN_ROWS
    rows, most = 64, PRODUCT_ELEMENTS if product else BLOCK_ELEMENTS
    while rows > 4 and rows * longest > most:
        rows //= 2
    extent = group.stages[0].shape[axis]
    few = extent // MIN_BLOCKS if isinstance(extent, int) else rows
    while rows > 1 and (rows * longest > MAX_ELEMENTS or (rows > few and rows * longest > most)):
        rows //= 2
    return rows


def _vectors_only(context: Context, group: Group) -> bool:
    last = max(k for stage in group.stages for k in _axes_of(context, stage))
    return group.shared == (last,)


def _private_tensors(parts: Skeleton, group: Group) -> list[c.Tensor]:
    """Return what only the group itself reads."""
    kept = parts.context.buffers.keys()
    inside = set(group.tensors)
    others = [t for t in kept if t not in inside]
    return [
        t
        for t in group.tensors
        if parts.context.buffers[t].role == "scratch"
        and not any(reads(other, t, kept) for other in others)
    ]


@contextmanager
def _private_memory(
    parts: Skeleton, group: Group, fixed: list[int], axis: int, size: int
) -> Iterator[None]:
    """Give what only the group reads memory for one block instead of scratch, unless the phase
    cannot be written.
    """
    context = parts.context
    tensors = _private_tensors(parts, group)
    before = dict(context.buffers)
    made: list[n.Buffer] = []
    for tensor in tensors:
        old = before[tensor]
        over = _overwritten(before.keys(), group, tensor, tensors)
        if over is not None:
            context.buffers[tensor] = context.buffers[over]
            continue
        shape = tuple(
            n.const(1) if k in fixed else _at_most(size, e) if k == axis else e
            for k, e in enumerate(old.shape)
        )
        made.append(n.Buffer(f"own{old.name.removeprefix('tmp')}", old.dtype, shape, "private"))
        context.buffers[tensor] = made[-1]
    try:
        yield
    except Exception:
        context.buffers.update(before)
        raise
    finally:
        context.windows.clear()
    parts.private += made
    gone = {before[t].name for t in tensors}
    parts.scratch[:] = [b for b in parts.scratch if b.name not in gone]


def _overwritten(
    kept: AbstractSet[c.Tensor], group: Group, tensor: c.Tensor, private: list[c.Tensor]
) -> c.Tensor | None:
    """Return a tensor in whose memory another may be: one that it is the last to read, element by
    element.
    """
    place = next(k for k, stage in enumerate(group.stages) if tensor in stage.tensors)
    if len(group.stages[place].tensors) > 1 or inlines_reduction(tensor, kept):
        return None
    later = [t for stage in group.stages[place + 1 :] for t in stage.tensors]
    for other in private:
        if other is tensor or (other.shape, other.dtype) != (tensor.shape, tensor.dtype):
            continue
        last = reads(tensor, other, kept) and identity_only(tensor, other, set(kept))
        if last and not any(reads(t, other, kept) for t in later):
            return other
    return None


def _at_most(size: int, extent: n.Expr) -> n.Expr:
    return extent if isinstance(extent, n.Const) and int(extent.value) <= size else n.const(size)


def _whole(emitter: Emitter, stages: list[Stage], registers: int) -> None:
    for stage in stages:
        extents = tuple(emitter.context.dim(d) for d in stage.shape)
        axis = next(iter(_axes_of(emitter.context, stage)), None)
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
    emitter: Emitter,
    stage: Stage,
    axis: int,
    at: dict[int, n.Expr],
    edges: tuple[n.Expr, n.Expr],
    registers: int,
) -> None:
    if not _reduces(emitter.context, stage):
        _elements(emitter, stage, axis, at, edges)
        return
    extents = tuple(emitter.context.dim(d) for d in stage.shape)
    try:
        tiling = Tiling(emitter.context, stage, extents, registers)
        tiling.check()
    except NotAContraction:
        emitter.reducer = partial(serial, lanes=n.LANES)
        vector_rows(emitter, stage, axis, *edges, at)
    else:
        tiling.part(emitter, at, axis, *edges)


def _elements(
    emitter: Emitter,
    stage: Stage,
    axis: int,
    at: dict[int, n.Expr],
    edges: tuple[n.Expr, n.Expr],
) -> None:
    """Emit rows of a stage without reductions, in scalars where they have no vector form."""
    emitter.reducer = serial
    for vectors in (True, False):
        with emitter.block() as body:
            try:
                vector_rows(emitter, stage, axis, *edges, at, vectors)
            except CannotVectorise:
                continue
        emitter.statements += body
        return
    raise CannotVectorise("no form in scalars")


def _reduces(context: Context, stage: Stage) -> bool:
    return any(inlines_reduction(t, context.buffers.keys()) for t in stage.tensors)


def _is_product(context: Context, stage: Stage) -> bool:
    """Return whether a stage sums products whose factors are those of different rows."""
    kept = context.buffers.keys()
    found = [m for t in stage.tensors for m in inlined_nodes(t, kept) if isinstance(m, c.Reduce)]
    for r in found:
        if r.kind == "sum" and isinstance(r.body, c.Scalar) and r.body.name == "multiply":
            a, b = ({id(m) for m in nodes(f) if isinstance(m, c.IndexVar)} for f in r.body.args)
            if a != b:
                return True
    return False


def _axes_of(context: Context, stage: Stage) -> tuple[int, ...]:
    """Return the axes of a stage that may have more than one element."""
    return tuple(k for k, d in enumerate(stage.shape) if context.dim(d) != n.const(1))


def _joined(context: Context, group: Group, stage: Stage) -> Group | None:
    """Return the group with one more stage, or None where they cannot run together."""
    stages = [*group.stages, stage]
    kept = context.buffers.keys()
    for each in (group.stages[-1], stage):
        if each.program is not None or has_long_weights(each, kept):
            return None
    shared = _shared_axes(context, group, stage)
    if all(_is_small(context, each) for each in stages):
        return Group(stages, shared)
    if not shared or any(_shares_columns(context, each) for each in stages):
        return None
    joined = Group(stages, shared)
    if any(_is_product(context, each) for each in stages):
        # Larger blocks would leave the cache, and be too few for all workers.
        lost = set(_block_axes(context, group)) - set(_block_axes(context, joined))
        return None if lost else joined
    return joined


def _shared_axes(context: Context, group: Group, stage: Stage) -> tuple[int, ...]:
    """Return the axes of a group that a stage shares, of the same extent, and reads no other
    place of.
    """
    first = tuple(context.dim(d) for d in group.stages[0].shape)
    here = tuple(context.dim(d) for d in stage.shape)
    shared = [k for k in group.shared if k < len(here) and first[k] == here[k]]
    for tensor in stage.tensors if shared else ():
        shared = [k for k in shared if k in _aligned_axes(context, tensor, group.tensors)]
    return tuple(shared)


def _is_independent(context: Context, stage: Stage, group: Group) -> bool:
    """Return whether a stage needs nothing that a group computes."""
    kept = context.buffers.keys()
    return not any(reads(t, other, kept) for t in stage.tensors for other in group.tensors)


def _shares_columns(context: Context, stage: Stage) -> bool:
    """Return whether the stage has so few rows that its columns are the parallel axis."""
    axes = _axes_of(context, stage)
    if not axes or not _is_product(context, stage) or _is_small(context, stage):
        return False
    rows = context.dim(stage.shape[axes[0]])
    return isinstance(rows, n.Const) and int(rows.value) <= FEW_ROWS and len(axes) <= 2


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


def _aligned_axes(context: Context, tensor: c.Tensor, others: list[c.Tensor]) -> set[int]:
    """Return the axes at which a tensor reads `others` at its own index only."""
    trial = replace(context, names=context.names.copy())
    emitter = Emitter(trial, serial)
    axes = tuple(trial.names.var("i") for _ in tensor.shape)
    for var, extent in zip(axes, tensor.shape):
        emitter.prover.add_range(var, n.const(0), trial.dim(extent))
    value = emitter.tensor(tensor, axes)
    buffers = {context.buffers[t].name for t in others}
    aligned = set(range(len(axes)))
    for load in _loads_of(value, tuple(emitter.statements)):
        if load.buffer.name in buffers:
            aligned &= {k for k, i in enumerate(load.indices[: len(axes)]) if i == axes[k]}
    return aligned


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
