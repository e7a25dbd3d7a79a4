"""Stages whose last axis has few elements, as pairs of a stack: the axis before it runs in lanes.

The vectors of all places of the last axis are dealt in turn to as many vectors, which lie one
after another in memory.
"""

from __future__ import annotations

from relayvm.base.abi import Access
from relayvm.kernels import loops as n
from relayvm.kernels.index import simplify as s
from relayvm.kernels.schedules.boxes import place_loops, reads_apart
from relayvm.kernels.schedules.elementwise import BLOCK, MIN_VECTOR, blocks
from relayvm.kernels.schedules.emit import CannotVectorise, Context, Emitter, flat_index
from relayvm.kernels.schedules.plan import Stage
from relayvm.kernels.schedules.reduction import serial

# The mask of a vector behind the last row.
NOTHING = n.Mask(n.const(0), n.LANES)


def short_rows_phase(context: Context, stage: Stage) -> n.Phase | None:
    """Return the phase of a stage without reductions whose last axis is short, or None."""
    extents = tuple(context.dim(d) for d in stage.shape)
    axes = [k for k, e in enumerate(extents) if e != n.const(1)]
    if len(axes) < 2:
        return None
    *outer, lanes, last = axes
    few = extents[last]
    if not isinstance(few, n.Const) or not 1 < int(few.value) < MIN_VECTOR:
        return None
    rows = extents[lanes]
    if isinstance(rows, n.Const) and int(rows.value) < n.LANES // 2:
        return None
    buffers = [context.buffers[t] for t in stage.tensors]
    if any(b.access is not Access.DENSE or b.dtype.is_bool for b in buffers):
        return None
    if any(b.shape != extents for b in buffers):
        return None  # a part of other memory
    try:
        phase = _ShortRows(context, stage, (lanes, last), int(few.value)).phase(outer)
    except CannotVectorise:
        return None
    return None if reads_apart(phase.body) else phase


class _ShortRows:
    """The loops of a stage over rows of `few` elements, of which a vector has one place."""

    def __init__(self, context: Context, stage: Stage, axes: tuple[int, int], few: int) -> None:
        self.context, self.stage, self.few = context, stage, few
        self.lanes, self.last = axes
        self.extents = tuple(context.dim(d) for d in stage.shape)
        self.emitter = Emitter(context, serial)
        self.emitter.decides = True
        self.emitter.turned = _ShortReads(self.emitter, few)

    def phase(self, outer: list[int]) -> n.Phase:
        """Return the phase over blocks of the first axis."""
        first, size = (outer[0], 1) if outer else (self.lanes, BLOCK // self.few)

        def run(begin: n.Expr, end: n.Expr) -> None:
            self._loops({}, [*outer, self.lanes], begin, end)

        return blocks(self.context, self.emitter, self.extents[first], run, size)

    def _loops(self, at: dict[int, n.Expr], rest: list[int], begin: n.Expr, end: n.Expr) -> None:
        emitter, axis = self.emitter, rest[0]
        if axis == self.lanes:
            place_loops(emitter, end, lambda place: self._rows({**at, axis: place}), begin)
            return
        var = self.context.names.var("i")
        with emitter.block() as body:
            emitter.prover.add_range(var, begin, end)
            self._loops({**at, axis: var}, rest[1:], n.const(0), self.extents[rest[1]])
        emitter.statements.append(n.For(var, begin, end, 1, tuple(body)))

    def _rows(self, at: dict[int, n.Expr]) -> None:
        """Emit the rows of as many places as a vector has lanes."""
        emitter, place = self.emitter, at[self.lanes]
        assert isinstance(place, n.Ramp)
        values: list[list[n.Expr]] = [[] for _ in self.stage.tensors]
        for number in range(self.few):
            here = {**at, self.last: n.const(number)}
            indices = tuple(here.get(k, n.const(0)) for k in range(len(self.extents)))
            for tensor, own in zip(self.stage.tensors, values):
                value = emitter.tensor(tensor, indices)
                own.append(emitter.bind(n.broadcast(value, place.lanes)))
                emitter.known(tensor, indices, own[-1])
        first = {**at, self.lanes: place.base}
        start = tuple(first.get(k, n.const(0)) for k in range(len(self.extents)))
        for tensor, own in zip(self.stage.tensors, values):
            self._store(self.context.buffers[tensor], start, self._dealt(own))

    def _store(self, buffer: n.Buffer, start: tuple[n.Expr, ...], values: list[n.Expr]) -> None:
        for number, value in enumerate(values):
            begin = n.const(number * value.lanes)
            place = s.add(flat_index(buffer, start), begin)
            mask = _masked(self.emitter, self.few, number, value.lanes)
            if mask != NOTHING:
                self.emitter.statements.append(n.Store(buffer, (place,), value, mask))

    def _dealt(self, values: list[n.Expr]) -> list[n.Expr]:
        """Return vectors that hold lane 0 of all values, then lane 1 and so on."""
        lanes = values[0].lanes
        order = [(k % self.few, k // self.few) for k in range(lanes * self.few)]
        parts = [order[k : k + lanes] for k in range(0, len(order), lanes)]
        return [_picked(self.emitter, values, part) for part in parts]


class _ShortReads:
    """Elements of short rows, from whole vectors of memory: `few` lanes apart in them."""

    def __init__(self, emitter: Emitter, few: int) -> None:
        self.emitter, self.few = emitter, few

    def gather(self, buffer: n.Buffer, indices: tuple[n.Expr, ...]) -> n.Expr | None:
        """Return one place of neighbouring rows, or None where a gather is none of it."""
        if (
            buffer.access is not Access.DENSE
            or len(indices) != len(buffer.shape)
            or (len(indices) < 2 or buffer.shape[-1] != n.const(self.few))
        ):
            return None
        *outer, row, last = (i.value if isinstance(i, n.Broadcast) else i for i in indices)
        if not isinstance(row, n.Ramp) or row.stride != n.const(1):
            return None
        if any(i.lanes > 1 for i in outer) or not isinstance(last, n.Const):
            return None
        if not 0 <= last.value < self.few:
            return None
        start = flat_index(buffer, (*outer, row.base, n.const(0)))
        values: list[n.Expr] = []
        for number in range(self.few):
            mask = _masked(self.emitter, self.few, number, row.lanes)
            place = s.add(start, n.const(number * row.lanes))
            load = n.Load(buffer, (place,), row.lanes, mask)
            values.append(self.emitter.bind(load, "x") if mask != NOTHING else values[0])
        places = [divmod(k * self.few + int(last.value), row.lanes) for k in range(row.lanes)]
        return _picked(self.emitter, values, places)


def _masked(emitter: Emitter, few: int, number: int, lanes: int) -> n.Expr | None:
    """Return the mask of one of the vectors that hold rows, given that of the rows."""
    if emitter.mask is None:
        return None
    assert isinstance(emitter.mask, n.Mask)
    count = s.sub(s.mul(emitter.mask.count, n.const(few)), n.const(number * lanes))
    if isinstance(count, n.Const) and int(count.value) <= 0:
        return NOTHING
    return n.Mask(count, lanes)


def _picked(emitter: Emitter, values: list[n.Expr], places: list[tuple[int, int]]) -> n.Expr:
    """Return lanes of several vectors, each by the number of its vector and its own."""
    lanes = values[0].lanes
    used = sorted({of for of, _ in places})
    first, *others = used
    value, picks = values[first], [at for _, at in places]
    for number in others or [first]:
        mine = [lanes + at if of == number != first else p for (of, at), p in zip(places, picks)]
        value, picks = emitter.bind(n.shuffle(value, values[number], mine)), list(range(lanes))
    return value
