"""Elementwise stages: vectors along the last axis or all axes taken as one.

A vector has 16 elements, and more of small dtypes, of which a register holds more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Union

from relayvm.base.abi import Access
from relayvm.base.dtypes import BOOL, FLOAT32, INT32, INT64, NARROW
from relayvm.kernels import loops as n
from relayvm.kernels.compute import ArgReduce, Reduce
from relayvm.kernels.index import simplify as s
from relayvm.kernels.schedules.borders import borders, is_edge
from relayvm.kernels.schedules.boxes import PlaceStep, place_loops, product, reads_apart
from relayvm.kernels.schedules.emit import (
    CannotPlace,
    CannotVectorise,
    Context,
    Emitter,
    Frame,
    Reducer,
    Reduction,
    flat_index,
)
from relayvm.kernels.schedules.plan import Stage, inlined_nodes
from relayvm.kernels.schedules.probe import (
    Probe,
    clipped_extents,
    inner_axis,
    probe,
    widest_item_bytes,
)
from relayvm.kernels.schedules.reduction import rule_of, serial

BLOCK = 2048
MIN_VECTOR = 5
# Targets with such registers mask any vector in one instruction.
MASKED_BYTES = 64
# Columns of positions, or of what has no order, keep so little that it stays in registers for as
# many columns as there is room for: of each row a long run is read.
WIDE_COLUMNS = 64
# Stages of fewer elements are not worth a second thread.
SHARED_WORK = 1 << 18

Ranges = dict[int, tuple[n.Expr, n.Expr]]


def elementwise_phase(context: Context, stage: Stage) -> n.Phase | None:
    """Return the phase of a stage without reductions, or None where it has no vector form."""
    widths = _widths(context, stage)
    if widths != (n.LANES,):
        trial = replace(context, names=context.names.copy())
        phase = _phase_of_widths(trial, stage, widths)
        if phase is not None and not reads_apart(phase.body):
            context.names.counts.update(trial.names.counts)
            return phase
    return _phase_of_widths(context, stage, (n.LANES,))


def _widths(context: Context, stage: Stage) -> tuple[int, ...]:
    """Return how many elements a vector may have, the most first.

    Where masks are cheap only the last vector has one; else the last few elements are left to
    vectors of 16.
    """
    lanes = max(n.LANES, context.vector_bytes // widest_item_bytes(context, stage))
    if lanes == n.LANES or context.vector_bytes >= MASKED_BYTES:
        return (lanes,)
    return (lanes, n.LANES)


def _phase_of_widths(context: Context, stage: Stage, widths: tuple[int, ...]) -> n.Phase | None:
    if _is_flat(context, stage):
        try:
            return _flat_phase(context, stage, widths)
        except CannotVectorise:
            return None
    return vector_phase(context, stage, serial, widths)


def column_phase(context: Context, stage: Stage, has_order: bool = True) -> n.Phase | None:
    """Return the phase of a stage with reductions whose other axes run in lanes."""
    kept = context.buffers.keys()
    found = [m for t in stage.tensors for m in inlined_nodes(t, kept)]
    if has_order and not any(isinstance(m, ArgReduce) for m in found):
        return vector_phase(context, stage, reduced_in_lanes)
    reductions = [m for m in found if isinstance(m, (Reduce, ArgReduce))]
    volumes = [product(tuple(context.dim(a.extent) for a in m.axes)) for m in reductions]
    longest = max(int(v.value) if isinstance(v, n.Const) else BLOCK for v in volumes)
    extents = tuple(context.dim(d) for d in stage.shape)
    columns = extents[last_axis(extents) or 0] if extents else n.const(1)
    known = int(columns.value) if isinstance(columns, n.Const) else None
    widest = _wide_columns(context, reductions, known, longest)
    # Rows are read once for what is left, where masks are cheap.
    least = WIDE_COLUMNS if context.vector_bytes >= MASKED_BYTES else n.LANES
    while known is not None and least > n.LANES and known % WIDE_COLUMNS <= least // 2:
        least //= 2
    widths = tuple(w for w in (1024, 256, WIDE_COLUMNS) if least < w < widest)
    widths = tuple(dict.fromkeys((widest, *widths, least)))
    size = max(BLOCK // max(longest, 1) // widest, 1) * widest
    return vector_phase(context, stage, reduced_in_lanes, widths, size)


def _wide_columns(
    context: Context, reductions: list[Union[Reduce, ArgReduce]], known: int | None, longest: int
) -> int:
    """Return how many columns are walked down together: their partials take half the registers."""
    held = sum(_held_bytes(context, m) for m in dict.fromkeys(reductions))
    vectors = 16 if context.vector_bytes >= MASKED_BYTES else 8
    room = max(vectors * context.vector_bytes // held, WIDE_COLUMNS)
    widest = 1 << room.bit_length() - 1
    if known is None:
        return widest
    parts = 2 if known * longest >= SHARED_WORK else 1
    while widest > WIDE_COLUMNS and known < widest * parts:
        widest //= 2
    return widest


def _held_bytes(context: Context, reduction: Union[Reduce, ArgReduce]) -> int:
    """Return how many bytes a column keeps: of positions the extreme too."""
    if isinstance(reduction, Reduce):
        return rule_of(reduction).dtype.itemsize_bytes
    dtype = reduction.body.dtype
    value = FLOAT32.itemsize_bytes if dtype in NARROW else dtype.itemsize_bytes
    length = product(tuple(context.dim(a.extent) for a in reduction.axes))
    if not isinstance(length, n.Const):
        return value + INT64.itemsize_bytes
    # Positions have as many bytes where that is enough.
    return value + (value if int(length.value) <= 1 << 8 * min(value, 2) else INT32.itemsize_bytes)


def reduced_in_lanes(emitter: Emitter, reduction: Reduction, frame: Frame) -> n.Expr:
    """Reduce with loops, in as many lanes as the place has."""
    lanes = max((place.lanes for place in frame.values()), default=1)
    return serial(emitter, reduction, frame, lanes)


def vector_phase(
    context: Context,
    stage: Stage,
    reducer: Reducer,
    widths: tuple[int, ...] = (n.LANES,),
    size: int | None = None,
) -> n.Phase | None:
    """Return loops with the last axis (of more than one element) in lanes, or None.

    Where it is the only one, its blocks have `size` places.
    """
    extents = tuple(context.dim(d) for d in stage.shape)
    axis = next((k for k, e in enumerate(extents) if e != n.const(1)), None)
    if axis is None:
        return None
    emitter = Emitter(context, reducer)
    emitter.widths = widths
    lanes_axis = last_axis(extents)
    clipped = clipped_extents(context, stage, lanes_axis) if lanes_axis is not None else []

    def run(begin: n.Expr, end: n.Expr) -> None:
        if clipped:
            _versions(emitter, stage, axis, begin, end, clipped)
        else:
            vector_rows(emitter, stage, {axis: (begin, end)})

    try:
        rows = _block_size(context, stage, axis)
        rows = size if size is not None and rows == BLOCK else rows
        return blocks(context, emitter, extents[axis], run, rows)
    except CannotVectorise:
        return None


def _versions(
    emitter: Emitter,
    stage: Stage,
    axis: int,
    begin: n.Expr,
    end: n.Expr,
    clipped: list[n.Expr],
) -> None:
    """Emit loops over vectors for extents that are all whole, or all 1, and scalar ones."""
    extents = tuple(emitter.context.dim(d) for d in stage.shape)
    whole: n.Expr = n.const(True, BOOL)
    ones: n.Expr = n.const(True, BOOL)
    for extent in clipped:
        whole = s.both(whole, s.compare("equal", extent, extents[last_axis(extents) or 0]))
        ones = s.both(ones, s.compare("less_equal", extent, n.const(1)))
    bodies = []
    for condition in (whole, ones, None):
        with emitter.block() as body:
            if condition is not None:
                emitter.prover.add_condition(condition)
            if condition is None:
                emitter.reducer = serial
            edges = {axis: (begin, end)}
            _Rows(emitter, stage, edges, vectors=condition is not None).emit()
        bodies.append(tuple(body))
    emitter.statements.append(n.If(whole, bodies[0], (n.If(ones, bodies[1], bodies[2]),)))


def _block_size(context: Context, stage: Stage, axis: int) -> int:
    extents = tuple(context.dim(d) for d in stage.shape)
    lanes_axis = last_axis(extents)
    if lanes_axis == axis or lanes_axis is None:
        return BLOCK
    # As many rows as one line of the cache holds of a transposed operand's.
    return n.LANES if inner_axis(context, stage, lanes_axis) == axis else 1


def vector_rows(
    emitter: Emitter,
    stage: Stage,
    edges: Ranges,
    at: dict[int, n.Expr] | None = None,
    base: dict[int, n.Expr] | None = None,
    vectors: bool = True,
) -> None:
    """Emit the elements whose indices on some axes are in a range, and on others `at` a value.

    Where `base` has an axis, its range counts from there. Without `vectors` elements are scalars.
    Raises CannotVectorise where the last axis cannot run in lanes.
    """
    _Rows(emitter, stage, edges, at, base, vectors).emit()


class _Rows:
    """The loops of `vector_rows`: split at borders, vectors along the last axis."""

    def __init__(
        self,
        emitter: Emitter,
        stage: Stage,
        edges: Ranges,
        at: dict[int, n.Expr] | None = None,
        base: dict[int, n.Expr] | None = None,
        vectors: bool = True,
    ) -> None:
        self.emitter, self.stage = emitter, stage
        self.at, self.base = at or {}, base or {}
        self.extents = tuple(emitter.context.dim(d) for d in stage.shape)
        lanes_axis = last_axis(self.extents)
        short = lanes_axis in (None, *self.at) or is_small(self.extents[lanes_axis or 0])
        if vectors and short:
            raise CannotVectorise("an axis that is too short")
        self.lanes_axis = lanes_axis if vectors else None
        zero: n.Expr = n.const(0)
        self.edges = {k: (zero, e) for k, e in enumerate(self.extents) if e != n.const(1)}
        self.edges.update(edges)
        self.edges = {k: edge for k, edge in self.edges.items() if k not in self.at}
        points = borders(emitter.context, stage)
        self.points = {k: p for k, p in points.items() if k not in self.base and k not in self.at}
        inner = inner_axis(emitter.context, stage, lanes_axis) if lanes_axis is not None else None
        self.order = [k for k in sorted(self.edges) if k != inner]
        if inner in self.edges:
            self.order.append(inner)

    def emit(self) -> None:
        """Emit all loops."""
        outer, self.emitter.decides = self.emitter.decides, bool(self.points)
        with self.emitter.hoisting():
            self._nested(dict(self.at), self.order)
        self.emitter.decides = outer

    def _nested(self, at: dict[int, n.Expr], rest: list[int]) -> None:
        if not rest:
            indices = tuple(at.get(d, n.const(0)) for d in range(len(self.extents)))
            for axis, begin in self.base.items():
                moved = s.add(begin, indices[axis])
                indices = (*indices[:axis], moved, *indices[axis + 1 :])
            emit_stage(self.emitter, self.stage, indices, self.emitter.mask)
            return
        axis = rest[0]
        points = self.points.get(axis, [])
        whole = self.edges[axis] == (n.const(0), self.extents[axis])
        for low, high in _parts(self.emitter, *self.edges[axis], points, whole):
            if axis != self.lanes_axis or (points and whole and is_edge(s.sub(high, low))):
                self._loop(at, rest, low, high)
            elif whole or not points:
                place_loops(self.emitter, high, self._step(at, rest), low)
            else:
                _lanes_if_any(self.emitter, low, high, self._step(at, rest))

    def _step(self, at: dict[int, n.Expr], rest: list[int]) -> PlaceStep:
        return lambda place: self._nested({**at, rest[0]: place}, rest[1:])

    def _loop(self, at: dict[int, n.Expr], rest: list[int], low: n.Expr, high: n.Expr) -> None:
        var = self.emitter.context.names.var("i")
        with self.emitter.block() as body:
            self.emitter.prover.add_range(var, low, high)
            self._nested({**at, rest[0]: var}, rest[1:])
        known = isinstance(low, n.Const) and is_edge(s.sub(high, low))
        kind = "unroll" if known else "serial"
        self.emitter.statements.append(n.For(var, low, high, 1, tuple(body), kind))


def _parts(
    emitter: Emitter, low: n.Expr, high: n.Expr, points: list[n.Expr], whole: bool
) -> Iterator[tuple[n.Expr, n.Expr]]:
    """Yield the ranges between points; some may be empty where it is not the whole axis."""
    if whole:
        yield from zip([low, *points], [*points, high])
        return
    for before, after in zip([None, *points], [*points, None]):
        start = low if before is None else emitter.bind(s.maximum(low, before), "e")
        stop = high if after is None else emitter.bind(s.minimum(high, after), "e")
        yield start, stop


def _lanes_if_any(emitter: Emitter, low: n.Expr, high: n.Expr, step: PlaceStep) -> None:
    condition = s.compare("less", low, high)
    with emitter.block() as body:
        emitter.prover.add_condition(condition)
        place_loops(emitter, high, step, low)
    emitter.statements.append(n.If(condition, tuple(body)))


def last_axis(extents: tuple[n.Expr, ...]) -> int | None:
    """Return the last axis that may have more than one element."""
    return max((k for k, e in enumerate(extents) if e != n.const(1)), default=None)


def is_small(extent: n.Expr) -> bool:
    """Return whether an extent is too short for vectors."""
    return isinstance(extent, n.Const) and int(extent.value) < MIN_VECTOR


def emit_stage(
    emitter: Emitter, stage: Stage, indices: tuple[n.Expr, ...], mask: n.Expr | None
) -> None:
    """Emit all tensors of a stage at one place; a later one takes the earlier from its register."""
    for tensor in stage.tensors:
        value = emitter.tensor(tensor, indices)
        lanes = max((i.lanes for i in indices), default=1)
        value = emitter.bind(n.broadcast(value, lanes))
        buffer = emitter.context.buffers[tensor]
        emitter.statements.append(store(buffer, indices, value, mask, emitter))
        emitter.known(tensor, indices, value)


def store(
    buffer: n.Buffer,
    indices: tuple[n.Expr, ...],
    value: n.Expr,
    mask: n.Expr | None,
    emitter: Emitter,
) -> n.Store:
    """Return the store of a value whose lanes run along the last axis of more than one element."""
    if emitter.flat is not None and indices == emitter.flat[0]:
        indices = (_flat_place(buffer, emitter),)
    indices = emitter.context.place(buffer, indices)
    if value.lanes == 1:
        return n.Store(buffer, indices, value, mask)
    if not isinstance(indices[-1], n.Ramp):
        indices = (flat_index(buffer, indices),)
    last = indices[-1]
    assert isinstance(last, n.Ramp), last
    if last.stride != n.const(1):
        raise CannotPlace(buffer.name)
    return n.Store(buffer, (*indices[:-1], last.base), value, mask)


def _flat_place(buffer: n.Buffer, emitter: Emitter) -> n.Expr:
    assert emitter.flat is not None
    if emitter.flat_begin is None:
        return emitter.flat[1]
    first, offset = emitter.flat_begin
    return n.Ramp(s.add(flat_index(buffer, first), offset), n.const(1), emitter.flat[1].lanes)


def blocks(
    context: Context,
    emitter: Emitter,
    total: n.Expr,
    run: Callable[[n.Expr, n.Expr], None],
    size: int = BLOCK,
) -> n.Phase:
    """Return a phase over blocks of an axis; one block where that is known to be enough."""
    var = context.names.var("b")
    if isinstance(total, n.Const) and int(total.value) <= size:
        with emitter.block() as body:
            emitter.prover.add_range(var, n.const(0), n.const(1))
            run(n.const(0), total)
        return n.Phase(var, n.const(1), tuple(body))
    if size == 1:
        with emitter.block() as body:
            emitter.prover.add_range(var, n.const(0), total)
            run(var, s.add(var, n.const(1)))
        return n.Phase(var, total, tuple(body))
    count = s.floordiv(s.add(total, n.const(size - 1)), n.const(size))
    with emitter.block() as body:
        emitter.prover.add_range(var, n.const(0), count)
        begin = s.mul(var, n.const(size))
        end = emitter.bind(s.minimum(s.add(begin, n.const(size)), total), "e")
        run(begin, end)
    return n.Phase(var, count, tuple(body))


# Whole tensors as one axis ------------------------------------------------------------------------


def _is_flat(context: Context, stage: Stage) -> bool:
    """Return whether every access of the stage is at its own index, or at no axis at all."""
    if len([d for d in stage.shape if d != 1]) < 2:
        return False
    found = probe(context, stage)
    if any(context.buffers[t].shape != found.extents for t in stage.tensors):
        return False  # a part of other memory
    return all(_flat_statement(stmt, found) for stmt in found.statements) and all(
        _flat_expr(value, found.axes, found.extents) for value in found.values
    )


def _flat_statement(stmt: n.Stmt, found: Probe) -> bool:
    return isinstance(stmt, n.Let) and _flat_expr(stmt.value, found.axes, found.extents)


def _flat_expr(expr: n.Expr, axes: tuple[n.Expr, ...], extents: tuple[n.Expr, ...]) -> bool:
    if isinstance(expr, n.Load) and expr.mask is None and expr.indices == axes:
        return expr.buffer.shape == extents and expr.buffer.access is Access.DENSE
    if isinstance(expr, n.Var):
        return expr not in axes
    return all(_flat_expr(e, axes, extents) for e in n.children(expr))


def _flat_phase(context: Context, stage: Stage, widths: tuple[int, ...]) -> n.Phase:
    emitter = Emitter(context, serial)
    emitter.widths = widths
    extents = tuple(context.dim(d) for d in stage.shape)
    total: n.Expr = n.const(1)
    for extent in extents:
        total = s.mul(total, extent)

    def run(begin: n.Expr, end: n.Expr) -> None:
        def step(place: n.Expr) -> None:
            assert isinstance(place, n.Ramp)
            axes = emitter.stand_ins(place, extents)
            emitter.flat = (axes, place)
            emit_stage(emitter, stage, axes, emitter.mask)

        place_loops(emitter, end, step, begin)

    return blocks(context, emitter, total, run)
