"""Stages that read across memory: blocks of rows are loaded along memory and turned in registers.

`out[.., i, j] = x[j, .., i]` in blocks of as many places of j as a vector has lanes: from that many
rows of x 16 bytes each are loaded, several rows side by side in a vector, or a line of the cache
each where lines do not stay there, and shuffled to vectors along j, which are stored. Blocks at
the end of an axis overlap the ones before, so that none is masked; a place is then computed twice,
to the same bits. Where the result may lie in the memory of an operand, the second time would read
what the first one wrote: there no blocks overlap, and single elements are left.
"""

from __future__ import annotations

from collections.abc import Callable

from relayvm.base.abi import Access
from relayvm.base.dtypes import UINT8
from relayvm.kernels import compute as c
from relayvm.kernels import loops as n
from relayvm.kernels.index import simplify as s
from relayvm.kernels.schedules.borders import borders
from relayvm.kernels.schedules.elementwise import emit_stage, last_axis, vector_rows
from relayvm.kernels.schedules.emit import CannotVectorise, Context, Emitter, mentions
from relayvm.kernels.schedules.grid import Place, Ranges, Side, grid_phase
from relayvm.kernels.schedules.plan import Stage, identity_only, inlined_nodes, same_shape
from relayvm.kernels.schedules.probe import (
    inner_axis,
    narrowest_read_bytes,
    row_steps,
    widest_item_bytes,
)
from relayvm.kernels.schedules.reduction import serial

# Inside of so many bytes of a vector CPUs zip lanes by one instruction.
LANE_BYTES = 16
LINE_BYTES = 64
# Rows that are a multiple of so many bytes apart share few sets of the first cache: their lines do
# not stay there, so each is loaded once and whole.
CROWDED_BYTES = 2048
# Places of the inner axis, and of that in lanes, in one round of the phase; of whole lines more of
# a row, as the hardware fetches ahead along it.
CHUNK, LANES_CHUNK = 64, 1024
LINES_CHUNK, LINES_LANES_CHUNK = 512, 128
MIN_COLUMNS = 3


class Turned:
    """Vectors across the rows of memory, made by loading parts of rows and shuffling them.

    Stands in for gathers while one block is emitted: `rows` lanes begin at a place, `count` of them
    are used, and place number c of the inner axis is `inner + c`, of which a load takes `width` and
    `columns` are used.
    """

    def __init__(
        self, emitter: Emitter, inner: n.Expr, size: tuple[int, int], used: tuple[int, int]
    ) -> None:
        self.emitter, self.inner = emitter, inner
        self.rows, self.width = size
        self.count, self.columns = used
        self.known: dict[tuple[n.Buffer, tuple[n.Expr, ...]], list[n.Expr]] = {}
        self.place = 0

    def gather(self, buffer: n.Buffer, indices: tuple[n.Expr, ...]) -> n.Expr | None:
        """Return the elements of a gather, or None where it is not one across rows."""
        if buffer.access is not Access.DENSE or len(indices) != len(buffer.shape):
            return None
        *outer, last = (i.value if isinstance(i, n.Broadcast) else i for i in indices)
        first = s.sub(last, n.const(self.place)) if last.lanes == 1 else last
        at = s.sub(first, self.inner) if first.lanes == 1 else first
        wide = [i for i in outer if i.lanes > 1]
        if last.lanes > 1 or mentions(at, self.inner) or len(wide) != 1:
            return None
        if not all(isinstance(i, n.Ramp) for i in wide):
            return None
        if any(mentions(i, self.inner) for i in outer):
            return None
        if not self.emitter.prover.in_range(
            n.Ramp(first, n.const(1), self.columns), buffer.shape[-1], self.columns
        ):
            return None
        key = (buffer, (*outer, first))
        if key not in self.known:
            self.known[key] = self._turned(buffer, outer, first)
        return self.known[key][self.place]

    def _turned(self, buffer: n.Buffer, outer: list[n.Expr], first: n.Expr) -> list[n.Expr]:
        rows = []
        mask = n.Mask(n.const(self.columns), self.width) if self.columns < self.width else None
        for row in range(self.count):
            place = tuple(
                s.add(i.base, s.mul(i.stride, n.const(row))) if isinstance(i, n.Ramp) else i
                for i in outer
            )
            value: n.Expr = n.Load(buffer, (*place, first), self.width, mask)
            rows.append(self.emitter.bind(n.cast(value, UINT8) if buffer.dtype.is_bool else value))
        rows += [_zeros(rows[0])] * (self.rows - self.count)
        columns = turned(rows, buffer.dtype.itemsize_bytes, self.emitter.bind)
        if buffer.dtype.is_bool:
            columns = [self.emitter.bind(n.call("not_equal", c, _zeros(c))) for c in columns]
        return columns


def _zeros(vector: n.Expr) -> n.Expr:
    return n.broadcast(n.const(0, vector.dtype), vector.lanes)


def turned(rows: list[n.Expr], item_bytes: int, bind: Callable[[n.Expr], n.Expr]) -> list[n.Expr]:
    """Return the columns of rows, each of as many lanes as there are rows.

    Rows that are as far apart as a row has lanes lie side by side in a vector; of each such run the
    same is done. Stage u takes vectors two by two, v and v + u, and zips runs of u lanes: first
    inside 128 bits, where CPUs have an instruction for it, then across.
    """
    width = rows[0].lanes
    vectors, places = [], []
    for first in range(width):
        numbers = range(first, len(rows), width)
        vectors.append(_side_by_side([rows[r] for r in numbers], bind))
        places.append([(r, c) for r in numbers for c in range(width)])
    unit = 1
    while unit < width:
        lane = max(1, LANE_BYTES // item_bytes)
        low, high = _zips(len(rows), unit, lane if unit < lane < width else width)
        for v in (v for v in range(width) if not v & unit):
            a, b = vectors[v], vectors[v + unit]
            both = places[v] + places[v + unit]
            vectors[v], vectors[v + unit] = bind(n.shuffle(a, b, low)), bind(n.shuffle(a, b, high))
            places[v], places[v + unit] = [both[p] for p in low], [both[p] for p in high]
        unit *= 2
    found: dict[int, n.Expr] = {}
    for vector, held in zip(vectors, places):
        column = held[0][1]
        assert held == [(r, column) for r in range(len(rows))], "the network is no transpose"
        found[column] = vector
    return [found[c] for c in range(width)]


def _side_by_side(parts: list[n.Expr], bind: Callable[[n.Expr], n.Expr]) -> n.Expr:
    """Return the lanes of vectors one after another; their number is a power of two."""
    while len(parts) > 1:
        parts = [bind(n.shuffle(a, b, range(2 * a.lanes))) for a, b in zip(parts[::2], parts[1::2])]
    return parts[0]


def _zips(width: int, unit: int, segment: int) -> tuple[list[int], list[int]]:
    """Return the picks of both halves of two vectors whose runs of `unit` lanes take turns."""
    low, high = [], []
    for start in range(0, width, segment):
        runs = [list(range(start + k, start + k + unit)) for k in range(0, segment, unit)]
        turns = [run for k in runs for run in (k, [p + width for p in k])]
        half = len(turns) // 2
        low += [p for run in turns[:half] for p in run]
        high += [p for run in turns[half:] for p in run]
    return low, high


def transpose_phase(context: Context, stage: Stage) -> n.Phase | None:
    """Return the phase of a stage without reductions that reads across memory, or None."""
    extents = tuple(context.dim(d) for d in stage.shape)
    lanes = last_axis(extents)
    inner = inner_axis(context, stage, lanes) if lanes is not None else None
    if lanes is None or inner is None or borders(context, stage):
        return None
    size = extents[lanes]
    known = int(size.value) if isinstance(size, n.Const) else None
    widest = max(n.LANES, context.vector_bytes // widest_item_bytes(context, stage))
    while widest > n.LANES and known is not None and known < widest:
        widest //= 2
    blocks = Blocks(context, stage, (inner, lanes), widest)
    fits = blocks.fits
    if isinstance(fits, n.Const) and not fits.value:
        return None
    emitter = Emitter(context, serial)
    sides = [Side(k, extents[k], 1) for k in blocks.outer]
    sides += [Side(k, blocks.chunks(k), 1) for k in (inner, lanes)]
    try:
        return grid_phase(context, emitter, sides, lambda at: blocks.part(emitter, at))
    except CannotVectorise:
        return None


class Blocks:
    """A stage in blocks of `size` places of the axis in lanes, and `width` of the inner one."""

    def __init__(
        self,
        context: Context,
        stage: Stage,
        axes: tuple[int, int],
        size: int,
        lines: bool = True,
    ) -> None:
        self.context, self.stage = context, stage
        (self.inner, self.lanes), self.size = axes, size
        self.extents = tuple(context.dim(d) for d in stage.shape)
        item_bytes = narrowest_read_bytes(context, stage)
        self.width = min(n.LANES, max(2, LANE_BYTES // item_bytes))
        self.lines = lines and self._has_lines(LINE_BYTES // item_bytes)
        if self.lines:
            self.width = LINE_BYTES // item_bytes
        inner_size, size_in_lanes = (self.extents[k] for k in axes)
        # Of short rows, what a vector has beside them is not used.
        self.columns = self.width
        if isinstance(inner_size, n.Const) and MIN_COLUMNS <= int(inner_size.value) < self.width:
            self.columns = int(inner_size.value)
            self.width = 1 << (self.columns - 1).bit_length()
        self.rows = size
        if isinstance(size_in_lanes, n.Const) and MIN_COLUMNS <= int(size_in_lanes.value) < size:
            self.rows = int(size_in_lanes.value)
        self.outer = [k for k, e in enumerate(self.extents) if e != n.const(1) and k not in axes]
        self.may_overlap = not _may_be_in_place(stage)

    def _has_lines(self, width: int) -> bool:
        """Return whether of each row a line of the cache is loaded, `width` elements."""
        room = self.extents[self.inner]
        if self.context.vector_bytes < LINE_BYTES or width > self.size:
            return False
        if isinstance(room, n.Const) and int(room.value) < width:
            return False
        apart = n.const(CROWDED_BYTES)
        steps = row_steps(self.context, self.stage, self.lanes)
        return any(s.floormod(step, apart) == n.const(0) for step in steps)

    @property
    def fits(self) -> n.Expr:
        """Whether both axes have room for a block."""
        return s.both(
            s.compare("less_equal", n.const(self.columns), self.extents[self.inner]),
            s.compare("less_equal", n.const(self.rows), self.extents[self.lanes]),
        )

    def chunks(self, axis: int) -> n.Expr:
        """Return how many parts an axis has, the last of which may be longer."""
        size = n.const(self._chunk_size(axis))
        return s.maximum(s.floordiv(self.extents[axis], size), n.const(1))

    def _chunk_size(self, axis: int) -> int:
        if axis == self.inner:
            return LINES_CHUNK if self.lines else CHUNK
        return LINES_LANES_CHUNK if self.lines else LANES_CHUNK

    def _chunk(self, emitter: Emitter, axis: int, number: n.Expr) -> tuple[n.Expr, n.Expr]:
        """Return where one part of an axis begins and ends."""
        size = n.const(self._chunk_size(axis))
        extent, count = self.extents[axis], self.chunks(axis)
        if count == n.const(1):
            return n.const(0), extent
        begin = emitter.bind(s.mul(number, size), "e")
        is_last = s.compare("equal", number, s.sub(count, n.const(1)))
        after = s.minimum(s.add(begin, size), extent)
        return begin, emitter.bind(s.choose(is_last, extent, after), "e")

    def part(self, emitter: Emitter, ranges: Ranges) -> None:
        """Emit one part of both axes at a place of the outer ones."""
        at = {k: ranges[k][0] for k in self.outer}
        both = (self.inner, self.lanes)
        edges = {k: self._chunk(emitter, k, ranges[k][0]) for k in both}
        self._bodies(emitter, at, edges)

    def _bodies(self, emitter: Emitter, at: Place, edges: Ranges) -> None:
        """Emit one part, as blocks where they fit, else as smaller ones or single elements."""
        fits = self.fits
        if isinstance(fits, n.Const):
            self._rows(emitter, at, edges)
            return
        with emitter.block() as fast:
            emitter.prover.add_condition(fits)
            self._rows(emitter, at, edges)
        with emitter.block() as small:
            if self.lines or self.size > n.LANES:
                size = self.size if self.lines else n.LANES
                axes = (self.inner, self.lanes)
                smaller = Blocks(self.context, self.stage, axes, size, lines=False)
                smaller._bodies(emitter, at, edges)
            else:
                self._elements(emitter, at, edges)
        emitter.statements.append(n.If(fits, tuple(fast), tuple(small)))

    def _elements(self, emitter: Emitter, at: Place, edges: Ranges) -> None:
        inside = {}
        for k, pair in edges.items():
            low, high = (s.minimum(edge, self.extents[k]) for edge in pair)
            inside[k] = (emitter.bind(low, "e"), emitter.bind(high, "e"))
        vector_rows(emitter, self.stage, inside, at, vectors=False)

    def _rows(self, emitter: Emitter, at: Place, edges: Ranges) -> None:
        inner, lanes = (self._blocks_of(emitter, k, edges[k]) for k in (self.inner, self.lanes))

        def row(j: n.Expr) -> None:
            def block(i: n.Expr) -> None:
                self._block(emitter, at, i, j)

            self._steps(emitter, self.inner, inner, self.columns, block)

        self._steps(emitter, self.lanes, lanes, self.rows, row)
        rest = {self.inner: (inner[1], edges[self.inner][1]), self.lanes: edges[self.lanes]}
        self._rest(emitter, at, rest)
        rest = {self.inner: inner, self.lanes: (lanes[1], edges[self.lanes][1])}
        self._rest(emitter, at, rest)

    def _blocks_of(
        self, emitter: Emitter, axis: int, edges: tuple[n.Expr, n.Expr]
    ) -> tuple[n.Expr, n.Expr]:
        """Return from where to where blocks begin: to the end, unless they must not overlap."""
        begin, end = edges
        step = n.const(self.columns if axis == self.inner else self.rows)
        if self.may_overlap:
            return edges
        whole = s.mul(s.floordiv(s.sub(end, begin), step), step)
        return begin, emitter.bind(s.add(begin, whole), "e")

    def _rest(self, emitter: Emitter, at: Place, edges: Ranges) -> None:
        """Emit elements that blocks leave, if they do."""
        if not any(begin == end for begin, end in edges.values()):
            self._elements(emitter, at, edges)

    def _steps(
        self,
        emitter: Emitter,
        axis: int,
        edges: tuple[n.Expr, n.Expr],
        step: int,
        body: Callable[[n.Expr], None],
    ) -> None:
        """Emit blocks along an axis; the last of them ends where the axis does."""
        last = s.sub(self.extents[axis], n.const(step))
        var = emitter.context.names.var("k")
        with emitter.block() as inside:
            emitter.prover.add_range(var, *edges)
            body(emitter.bind(s.minimum(var, last), "e"))
        emitter.statements.append(n.For(var, *edges, step, tuple(inside)))

    def _block(self, emitter: Emitter, at: Place, i: n.Expr, j: n.Expr) -> None:
        size, used = (self.size, self.width), (self.rows, self.columns)
        view = Turned(emitter, i, size, used)
        outer, emitter.turned = emitter.turned, view
        if self.rows < self.size:
            emitter.mask = n.Mask(n.const(self.rows), self.size)
        for column in range(self.columns):
            view.place = column
            here = {**at, self.inner: s.add(i, n.const(column))}
            here[self.lanes] = n.Ramp(j, n.const(1), self.size)
            indices = tuple(here.get(k, n.const(0)) for k in range(len(self.extents)))
            emit_stage(emitter, self.stage, indices, emitter.mask)
        emitter.turned, emitter.mask = outer, None


def _may_be_in_place(stage: Stage) -> bool:
    """Return whether a tensor of the stage may be written over an operand that it reads."""
    kept: frozenset[c.Tensor] = frozenset()
    for tensor in stage.tensors:
        loads = [m for m in inlined_nodes(tensor, kept) if isinstance(m, c.TensorLoad)]
        for source in {m.tensor for m in loads if isinstance(m.tensor.op, c.Placeholder)}:
            same = source.dtype == tensor.dtype and same_shape(source.shape, tensor.shape)
            if same and identity_only(tensor, source, set()):
                return True
    return False
