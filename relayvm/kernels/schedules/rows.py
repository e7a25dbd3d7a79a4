"""Stages that run together: a block of rows through all of them, or small stages at once.

A softmax reads its rows from memory once: maximum, exponentials, sum and quotient of a few rows
stay in the cache. What such a group computes for itself alone has memory for one block only.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass

from relayvm.base.dims import Dim, dim_add, dim_mul
from relayvm.kernels import compute as c
from relayvm.kernels import loops as n
from relayvm.kernels.index import simplify as s
from relayvm.kernels.lower import Skeleton
from relayvm.kernels.schedules.boxes import product
from relayvm.kernels.schedules.columns import ColumnTiling
from relayvm.kernels.schedules.contraction import FEW_ROWS, NotAContraction, Tiling
from relayvm.kernels.schedules.elementwise import blocks, reduced_in_lanes, vector_rows
from relayvm.kernels.schedules.emit import CannotVectorise, Context, Emitter
from relayvm.kernels.schedules.grid import Ranges, Side, grid_phase
from relayvm.kernels.schedules.packs import PackedTiling
from relayvm.kernels.schedules.plan import (
    Stage,
    identity_only,
    inlined_nodes,
    inlines_reduction,
    nodes,
    reads,
)
from relayvm.kernels.schedules.reduction import serial
from relayvm.kernels.schedules.shared_axes import (
    Place,
    Places,
    Shared,
    axes_of,
    own_axes,
    shared_with,
)
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
    """Stages that one phase may run, and the axes that they share: at these they read each other
    only at their own index.
    """

    stages: list[Stage]
    shared: Shared

    @property
    def tensors(self) -> list[c.Tensor]:
        """What the stages compute."""
        return [t for stage in self.stages for t in stage.tensors]


@dataclass(frozen=True)
class Part:
    """Which elements of a stage one block has: `at` one index of some axes, in a range of others.

    Of an axis that is only partly shared the range starts at 0, which stands for `base`.
    """

    at: dict[int, n.Expr]
    edges: Ranges
    base: dict[int, n.Expr]


@dataclass(frozen=True)
class Blocks:
    """How a group is cut: shared axes of which a block has one index each, and one of which it has
    `size`, if any can be cut so.
    """

    shared: Shared
    fixed: tuple[int, ...]
    axis: int | None
    size: int


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
        alone = Group([stage], own_axes(context, stage))
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
        small = all(_is_small(context, each) for each in group.stages)
        if small or not group.shared.extents:
            return blocks(
                context, emitter, n.const(1), lambda _, __: _whole(emitter, group.stages, registers)
            )
        cut = _blocks_of(context, group)
        extents = cut.shared.extents
        sides = [Side(k, extents[k], 1) for k in cut.fixed]
        if cut.axis is not None:
            sides.append(Side(cut.axis, extents[cut.axis], cut.size))

        def run(ranges: Ranges) -> None:
            for stage, places in zip(group.stages, cut.shared.places):
                part = _part(cut, places, ranges)
                begins = {k: edge[0] for k, edge in part.edges.items()}
                for tensor in stage.tensors:
                    buffer = context.buffers[tensor]
                    if buffer.role == "private":
                        context.windows[buffer.name] = {**begins, **part.at, **part.base}
                _rows(emitter, stage, part, registers)

        with _private_memory(parts, group, cut):
            return grid_phase(context, emitter, sides, run)
    except (CannotVectorise, NotAContraction):
        return None


def _part(cut: Blocks, places: Places, ranges: Ranges) -> Part:
    part = Part({}, {}, {})
    for k, place in places.items():
        if place.shared == (cut.axis,) and place.rest is None:
            part.edges[k] = ranges[place.shared[0]]
            continue
        index: n.Expr = n.const(0)
        for axis in place.shared:
            index = s.add(s.mul(index, cut.shared.extents[axis]), ranges[axis][0])
        if place.rest is None:
            part.at[k] = index
        else:
            part.base[k] = s.mul(index, place.rest)
            part.edges[k] = (n.const(0), place.rest)
    return part


def _blocks_of(context: Context, group: Group) -> Blocks:
    """Cut a group along the axes that it shares, but for those that all stages have in vectors.

    Where these are the only ones, a block has some vectors.
    """
    shared = group.shared
    last = _last_shared(context, group)
    if not last.issuperset(shared.extents):
        shared = shared.without(last)
    *fixed, axis = shared.extents
    size = _block_size(context, group, shared, axis, set(shared.extents) <= last)
    alone = Place((axis,))
    if any(axis in p.shared and p != alone for places in shared.places for p in places.values()):
        return Blocks(shared, (*fixed, axis), None, 1)
    return Blocks(shared, tuple(fixed), axis, size)


def _last_shared(context: Context, group: Group) -> set[int]:
    """Return the shared axes that are the last of all stages."""
    last = set(group.shared.extents)
    for stage, places in zip(group.stages, group.shared.places):
        place = places.get(max(axes_of(context, stage), default=-1))
        last &= set(place.shared if place is not None else ())
    return last


def _block_size(context: Context, group: Group, shared: Shared, axis: int, in_vectors: bool) -> int:
    """Return how many rows make a block: a power of two, so that tiles are whole."""
    sizes = []
    for stage, places in zip(group.stages, shared.places):
        extents: list[n.Expr] = [context.dim(d) for d in stage.shape]
        for k, place in places.items():
            extents[k] = n.const(1) if place.rest is None else place.rest
        extents.append(_reads_of_one(context, stage))
        sizes.append(product(tuple(extents)))
    known = [int(e.value) for e in sizes if isinstance(e, n.Const)]
    longest = max(known) if len(known) == len(sizes) else None
    if in_vectors:
        rows, most = COLUMNS, PRODUCT_ELEMENTS
        if all(_reads_rows(context, stage) for stage in group.stages):
            rows, most = FEW_ROWS, BLOCK_ELEMENTS
        while longest is not None and rows < 1024 and 2 * rows * longest <= most:
            rows *= 2
        return rows
    has_product = any(_is_product(context, stage) for stage in group.stages)
    if longest is None:
        return UNKNOWN_PRODUCT_ROWS if has_product else UNKNOWN_ROWS
    rows, most = 64, PRODUCT_ELEMENTS if has_product else BLOCK_ELEMENTS
    while rows > 4 and rows * longest > most:
        rows //= 2
    extent = shared.extents[axis]
    few = int(extent.value) // MIN_BLOCKS if isinstance(extent, n.Const) else rows
    while rows > 1 and (rows * longest > MAX_ELEMENTS or (rows > few and rows * longest > most)):
        rows //= 2
    return rows


def _reads_of_one(context: Context, stage: Stage) -> n.Expr:
    """Return how much a result reads that others do not: products share what they read."""
    if _is_product(context, stage):
        return n.const(1)
    volumes = [product(tuple(context.dim(a.extent) for a in r.axes)) for r in _all(context, stage)]
    known = [int(v.value) for v in volumes if isinstance(v, n.Const)]
    return n.const(max(1, sum(known)))


def _reads_rows(context: Context, stage: Stage) -> bool:
    """Return whether a stage reduces along rows of memory, of known length, alone."""
    found = _all(context, stage)
    return bool(found) and not _is_product(context, stage) and all(map(_is_row, found))


def _is_row(reduction: c.Reduce | c.ArgReduce) -> bool:
    if not all(isinstance(a.extent, int) for a in reduction.axes):
        return False
    loads = [m for m in nodes(reduction.body) if isinstance(m, c.TensorLoad) and m.indices]
    return any(m.indices[-1] in reduction.axes for m in loads)


def _all(context: Context, stage: Stage) -> list[c.Reduce | c.ArgReduce]:
    kept = context.buffers.keys()
    found = (m for t in stage.tensors for m in inlined_nodes(t, kept))
    return [m for m in found if isinstance(m, (c.Reduce, c.ArgReduce))]


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
def _private_memory(parts: Skeleton, group: Group, cut: Blocks) -> Iterator[None]:
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
        number = next(k for k, stage in enumerate(group.stages) if tensor in stage.tensors)
        shape = _shape_of_block(cut, cut.shared.places[number], old.shape)
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


def _shape_of_block(cut: Blocks, places: Places, whole: tuple[n.Expr, ...]) -> tuple[n.Expr, ...]:
    shape = list(whole)
    for k, place in places.items():
        if place.rest is not None:
            shape[k] = place.rest
        elif place.shared != (cut.axis,):
            shape[k] = n.const(1)
        else:
            shape[k] = _at_most(cut.size, shape[k])
    return tuple(shape)


def _at_most(size: int, extent: n.Expr) -> n.Expr:
    return extent if isinstance(extent, n.Const) and int(extent.value) <= size else n.const(size)


def _whole(emitter: Emitter, stages: list[Stage], registers: int) -> None:
    for stage in stages:
        extents = tuple(emitter.context.dim(d) for d in stage.shape)
        axis = next(iter(axes_of(emitter.context, stage)), None)
        if _reduces(emitter.context, stage):
            tiling = _tiling(emitter.context, stage, registers, (PackedTiling, Tiling))
            if tiling is None:
                raise NotAContraction
            tiling.whole(emitter)
        elif axis is None:
            raise CannotVectorise("one element")
        else:
            emitter.reducer = serial
            vector_rows(emitter, stage, {axis: (n.const(0), extents[axis])})


def _rows(emitter: Emitter, stage: Stage, part: Part, registers: int) -> None:
    context = emitter.context
    if not _reduces(context, stage):
        _elements(emitter, stage, part)
        return
    tiling = _tiling(context, stage, registers, (PackedTiling, Tiling, ColumnTiling))
    if tiling is not None:
        tiling.part(emitter, part.at, part.edges, part.base)
        return
    emitter.reducer = reduced_in_lanes
    vector_rows(emitter, stage, part.edges, part.at, part.base)


def _tiling(
    context: Context, stage: Stage, registers: int, kinds: tuple[type[Tiling], ...]
) -> Tiling | None:
    """Return the first kind of tiling that a stage can have, or None."""
    extents = tuple(context.dim(d) for d in stage.shape)
    for kind in kinds:
        try:
            tiling = kind(context, stage, extents, registers)
            tiling.check()
        except (NotAContraction, CannotVectorise):
            continue
        return tiling
    return None


def _elements(emitter: Emitter, stage: Stage, part: Part) -> None:
    """Emit rows of a stage without reductions, in scalars where they have no vector form."""
    emitter.reducer = serial
    for vectors in (True, False):
        with emitter.block() as body:
            try:
                vector_rows(emitter, stage, part.edges, part.at, part.base, vectors)
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


def _joined(context: Context, group: Group, stage: Stage) -> Group | None:
    """Return the group with one more stage, or None where they cannot run together."""
    stages = [*group.stages, stage]
    kept = context.buffers.keys()
    for each in (group.stages[-1], stage):
        if each.program is not None or has_long_weights(each, kept):
            return None
    shared = shared_with(context, group.stages, group.shared, stage)
    joined = Group(stages, shared)
    if all(_is_small(context, each) for each in stages):
        return joined
    if not shared.extents or any(_shares_columns(context, each) for each in stages):
        return None
    if any(_is_product(context, each) for each in stages):
        # Larger blocks would leave the cache, and be too few for all workers.
        before, after = (_blocks_of(context, g).shared for g in (group, joined))
        is_cut_less = after.volume(tuple(after.extents)) != before.volume(tuple(before.extents))
        return None if is_cut_less and len(after.extents) <= len(before.extents) else joined
    return joined


def _is_independent(context: Context, stage: Stage, group: Group) -> bool:
    """Return whether a stage needs nothing that a group computes."""
    kept = context.buffers.keys()
    return not any(reads(t, other, kept) for t in stage.tensors for other in group.tensors)


def _shares_columns(context: Context, stage: Stage) -> bool:
    """Return whether the stage has so few rows that its columns are the parallel axis."""
    axes = axes_of(context, stage)
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
