"""Convolutions: the windows of a block of pixels are copied, and all channels read the copy.

The copy has a row for each element of a window and a column for each pixel, zero where windows
reach into the padding. Its rows lie in the order in which partials use them: every 16th follows.
Pixels run in lanes, as columns do in `columns.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from relayvm.base.dtypes import BOOL
from relayvm.kernels import loops as n
from relayvm.kernels.index import simplify as s
from relayvm.kernels.schedules.boxes import reads_apart
from relayvm.kernels.schedules.contraction import NotAContraction, finish, no_reduction
from relayvm.kernels.schedules.depthwise import depthwise_phase
from relayvm.kernels.schedules.emit import (
    CannotPlace,
    CannotVectorise,
    Context,
    Emitter,
    flat_index,
)
from relayvm.kernels.schedules.grid import Ranges, Side, grid_phase, tile_loops
from relayvm.kernels.schedules.plan import Stage
from relayvm.kernels.schedules.windows import Windows, weight_phase, windows_of

# Pixels of a block: enough that weights are read seldom, few enough that the copy stays in cache.
MAX_PIXELS = 256
MIN_PIXELS = 64
# Channels that pay for a copy of their own, where blocks of pixels are too few for all workers.
CHANNELS = 64
MANY_BLOCKS = 16
# Elements of a window that are copied in one round of a loop.
MAX_UNROLLED = 8
# Sums that are no longer spend their time in folding partials, more of which then run at once.
SHORT = 192
LINE = n.const(n.LANES)


def convolution_phases(context: Context, stage: Stage, registers: int) -> list[n.Phase]:
    """Return the phases of a stage that is a convolution; none where it has no such form."""
    windows = windows_of(context, stage)
    if windows is None:
        return []
    try:
        before = [] if windows.is_plain else [weight_phase(context, windows)]
        phase = depthwise_phase(context, windows)
    except (CannotVectorise, NotAContraction):
        return []
    for together in (True, False):
        if phase is not None:
            break
        schedule = _Convolution(context, windows, registers, together)
        try:
            phase = schedule.phase()
        except (CannotVectorise, NotAContraction):
            continue
        context.private.append(schedule.patches)
    if phase is None:
        return []
    if before:
        context.scratch.append(windows.weight)
    return [*before, phase]


@dataclass(frozen=True)
class _Block:
    """The pixels of one block: `lines` rows of them from `line` on, and columns from `column` on.

    `place` is an index of the stage with the first of them; `count` is how many there are.
    """

    place: tuple[n.Expr, ...]
    lines: int
    count: n.Expr


class _Convolution:
    """One convolution, and how it is cut into blocks and tiles."""

    def __init__(self, context: Context, windows: Windows, registers: int, together: bool) -> None:
        self.context, self.windows, self.registers = context, windows, registers
        self.words = max(1, windows.rule.dtype.bits // 32)
        self.lines, self.columns = self._pixels(together)
        self.pitch = _up((self.lines - 1) * self.columns + _up(self.columns))
        length = windows.length
        quotient = s.floordiv(s.add(length, n.const(n.LANES - 1)), LINE)
        shape = (LINE, quotient, n.const(self.pitch))
        self.patches = n.Buffer(context.names.fresh("win"), windows.rule.dtype, shape, "private")

    # -- Blocks -----------------------------------------------------------------------------------

    def _pixels(self, together: bool) -> tuple[int, int]:
        """Return how many rows of pixels a block has, and how many columns."""
        w = self.windows
        width, length = _known(w.extents[w.column]), _known(w.length) or 512
        room = self.context.cache_bytes // 2 // (4 * self.words * max(length, 1))
        most = max(MIN_PIXELS, min(MAX_PIXELS, room // n.LANES * n.LANES))
        if width is None or width > most:
            return 1, MIN_PIXELS
        height = _known(w.extents[w.line]) if w.line is not None else 1
        if not together or height is None:
            return 1, max(width, 1)
        lines = (r for r in range(1, height + 1) if height % r == 0 and r * width <= most)
        return max(lines, default=1), max(width, 1)

    def phase(self) -> n.Phase:
        """Return the phase: blocks of pixels, of each some or all channels."""
        w, emitter = self.windows, Emitter(self.context, no_reduction)
        emitter.masks_steps = True
        sides = [Side(k, w.extents[k], 1) for k in w.outer]
        sides.append(Side(-1, w.groups, 1))
        if w.line is not None:
            sides.append(Side(w.line, w.extents[w.line], self.lines))
        sides.append(Side(w.column, w.extents[w.column], self.columns))
        total: n.Expr = n.const(1)
        for side in sides:
            total = s.mul(total, side.count)
        few = not isinstance(total, n.Const) or int(total.value) < MANY_BLOCKS
        sides.append(Side(w.row, w.group, CHANNELS if few else None))
        return grid_phase(self.context, emitter, sides, lambda at: self._block(emitter, at))

    def _block(self, emitter: Emitter, ranges: Ranges) -> None:
        w = self.windows
        first = s.mul(ranges[-1][0], w.group)
        place: list[n.Expr] = [n.const(0) for _ in w.extents]
        for k in (*w.outer, *((w.line,) if w.line is not None else ()), w.column):
            place[k] = ranges[k][0]
        place[w.row] = first
        low, high = ranges[w.column]
        count = s.mul(s.sub(high, low), n.const(self.lines))
        block = _Block(tuple(place), self.lines, count)
        self._copy(emitter, block)
        begin, end = (s.add(first, edge) for edge in ranges[w.row])
        tile_loops(emitter, begin, end, self._heights, partial(self._rows, block))

    # -- Windows ----------------------------------------------------------------------------------

    def _copy(self, emitter: Emitter, block: _Block) -> None:
        """Emit the copy of the windows of a block, a vector of pixels at a time."""
        width = _up(self.columns)
        if self.pitch > (self.lines - 1) * self.columns + width:
            self._clear(emitter)
        names = self.context.names
        line, x = names.var("i"), names.var("i")
        with emitter.block() as rows:
            emitter.prover.add_range(line, n.const(0), n.const(self.lines))
            with emitter.block() as vectors:
                emitter.prover.add_range(x, n.const(0), n.const(width), n.LANES)
                self._vector(emitter, block, line, x)
            rows.append(n.For(x, n.const(0), n.const(width), n.LANES, tuple(vectors)))
        emitter.statements.append(n.For(line, n.const(0), n.const(self.lines), 1, tuple(rows)))

    def _clear(self, emitter: Emitter) -> None:
        """Emit zeros for the last columns, which rows of pixels may leave out."""
        names, last = self.context.names, n.const(self.pitch - n.LANES)
        zeros = n.broadcast(n.const(0, self.patches.dtype), n.LANES)
        part, k = names.var("l"), names.var("k")
        store = n.Store(self.patches, (part, k, last), zeros)
        inner = n.For(k, n.const(0), self.patches.shape[1], 1, (store,))
        emitter.statements.append(n.For(part, n.const(0), LINE, 1, (inner,)))

    def _vector(self, emitter: Emitter, block: _Block, line: n.Expr, x: n.Expr) -> None:
        """Emit the elements of all windows of 16 pixels: channels in the innermost loop."""
        w = self.windows
        place = list(block.place)
        if w.line is not None:
            place[w.line] = s.add(place[w.line], line)
        start = s.add(place[w.column], x)
        place[w.column] = n.Ramp(start, n.const(1), n.LANES)
        rest = s.sub(w.extents[w.column], start)
        outer, emitter.mask = emitter.mask, n.Mask(rest, n.LANES)
        target = s.add(s.mul(line, n.const(self.columns)), x)
        self._elements(emitter, tuple(place), target, {}, self._loops())
        emitter.mask = outer

    def _loops(self) -> tuple[int, ...]:
        """Return the axes of the reduced box from the outermost loop inwards."""
        sizes = self.windows.sizes
        last = len(sizes) - 1
        known = _known(sizes[last])
        if last == 0 or known is None or known > MAX_UNROLLED:
            return (*range(1, last + 1), 0)
        return (*range(1, last), 0, last)

    def _elements(
        self,
        emitter: Emitter,
        place: tuple[n.Expr, ...],
        target: n.Expr,
        at: dict[int, n.Expr],
        axes: tuple[int, ...],
    ) -> None:
        w = self.windows
        if not axes:
            self._element(emitter, place, target, tuple(at[k] for k in range(len(w.sizes))))
            return
        axis, *rest = axes
        size = w.sizes[axis]
        if axis == len(w.sizes) - 1 > 0 and not rest:
            for k in range(_known(size) or 0):
                self._elements(emitter, place, target, {**at, axis: n.const(k)}, ())
            return
        var = self.context.names.var("k")
        with emitter.block() as body:
            emitter.prover.add_range(var, n.const(0), size)
            self._elements(emitter, place, target, {**at, axis: var}, tuple(rest))
        emitter.statements.append(n.For(var, n.const(0), size, 1, tuple(body)))

    def _element(
        self,
        emitter: Emitter,
        place: tuple[n.Expr, ...],
        target: n.Expr,
        at: tuple[n.Expr, ...],
    ) -> None:
        w = self.windows
        value = emitter.value(w.data, w.inside(w.record(self.context, place), at))
        value = n.broadcast(value, n.LANES)
        k: n.Expr = n.const(0)
        for index, size in zip(at, w.sizes):
            k = s.add(s.mul(k, size), index)
        where = (s.floormod(k, LINE), s.floordiv(k, LINE), target)
        emitter.statements.append(n.Store(self.patches, where, value))

    # -- Tiles ------------------------------------------------------------------------------------

    @property
    def _heights(self) -> tuple[int, ...]:
        """How many channels a tile may have, the most first."""
        if self.registers < n.LANES:
            return (2, 1)
        return (4, 2, 1) if self.words == 1 else (2, 1)

    def _widths(self) -> tuple[int, ...]:
        """How many pixels a tile may have, the most first."""
        most = 4 if self.registers >= n.LANES else 2
        length = _known(self.windows.length)
        if length is not None and length <= SHORT:
            most = 1
        return tuple(w * n.LANES for w in (4, 2, 1) if w <= most)

    def _rows(self, block: _Block, emitter: Emitter, row: n.Expr, rows: int) -> None:
        """Emit some channels of all pixels of a block."""

        def tile(emitter: Emitter, column: n.Expr, pixels: int) -> None:
            self._tile(emitter, block, row, rows, column, pixels // n.LANES)

        count = block.count
        if isinstance(count, n.Const):
            count = n.const(_up(int(count.value)))
        last = tile_loops(emitter, n.const(0), count, self._widths(), tile)
        if last == count:
            return
        condition = s.compare("less", last, block.count)
        with emitter.block() as body:
            emitter.prover.add_condition(condition)
            rest = s.sub(block.count, last)
            emitter.mask = n.Mask(rest, n.LANES)
            tile(emitter, last, n.LANES)
        if condition == n.const(True, BOOL):
            emitter.statements += body
        else:
            emitter.statements.append(n.If(condition, tuple(body)))

    def _tile(
        self,
        emitter: Emitter,
        block: _Block,
        row: n.Expr,
        rows: int,
        column: n.Expr,
        vectors: int,
    ) -> None:
        cells = rows * vectors
        parts = 1
        while 2 * parts * cells * self.words <= self.registers and parts < n.LANES:
            parts *= 2
        dtype, names = self.windows.rule.dtype, self.context.names
        turns = n.LANES // parts
        sums = n.Tile(names.fresh("part"), dtype, n.LANES, turns * cells)
        turn = names.var("l")
        emitter.statements.append(n.Declare(sums))
        with emitter.block() as body:
            emitter.prover.add_range(turn, n.const(0), n.const(turns))
            held = self._turn(emitter, block, turn, parts, (row, rows), (column, vectors))
            for cell in range(cells):
                values = [n.TileLoad(held, n.const(p * cells + cell)) for p in range(parts)]
                place = s.add(s.mul(turn, n.const(cells)), n.const(cell))
                body.append(n.TileStore(sums, place, self._folded(emitter, values)))
        emitter.statements.append(n.For(turn, n.const(0), n.const(turns), 1, tuple(body)))
        self._finish_all(emitter, block, sums, (row, rows), (column, vectors))

    def _finish_all(
        self,
        emitter: Emitter,
        block: _Block,
        sums: n.Tile,
        rows: tuple[n.Expr, int],
        columns: tuple[n.Expr, int],
    ) -> None:
        """Emit what becomes of all results of a tile, in loops: there are many to a product."""
        names, cells = self.context.names, rows[1] * columns[1]
        r, v = names.var("i"), names.var("i")
        with emitter.block() as body:
            emitter.prover.add_range(r, n.const(0), n.const(rows[1]))
            with emitter.block() as inner:
                emitter.prover.add_range(v, n.const(0), n.const(columns[1]))
                cell = s.add(s.mul(r, n.const(columns[1])), v)
                places = (s.add(n.const(t), cell) for t in range(0, sums.size, cells))
                value = self._folded(emitter, [n.TileLoad(sums, place) for place in places])
                at = s.add(columns[0], s.mul(v, LINE))
                if (_known(block.count) or 0) % n.LANES:
                    emitter.mask = n.Mask(s.sub(block.count, at), n.LANES)
                self._finish(emitter, block, s.add(rows[0], r), at, value)
            body.append(n.For(v, n.const(0), n.const(columns[1]), 1, tuple(inner)))
        emitter.statements.append(n.For(r, n.const(0), n.const(rows[1]), 1, tuple(body)))

    def _folded(self, emitter: Emitter, values: Sequence[n.Expr]) -> n.Expr:
        """Return partials folded in halves."""
        values = [emitter.bind(v) for v in values]
        while len(values) > 1:
            half = len(values) // 2
            pairs = zip(values[:half], values[half:])
            values = [emitter.bind(n.call(self.windows.rule.op, a, b)) for a, b in pairs]
        return values[0]

    def _turn(
        self,
        emitter: Emitter,
        block: _Block,
        turn: n.Expr,
        parts: int,
        tall: tuple[n.Expr, int],
        wide: tuple[n.Expr, int],
    ) -> n.Tile:
        """Emit the sums of some partials of a tile, those that are folded together."""
        (row, rows), (column, vectors) = tall, wide
        names, rule, cells = self.context.names, self.windows.rule, rows * vectors
        held = n.Tile(names.fresh("acc"), rule.dtype, n.LANES, parts * cells)
        lane = names.var("l")
        clear = n.TileStore(held, lane, n.broadcast(rule.identity, n.LANES))
        emitter.statements.append(n.Declare(held))
        emitter.statements.append(
            n.For(lane, n.const(0), n.const(parts * cells), 1, (clear,), "unroll")
        )
        length = self.windows.length
        whole = s.floordiv(length, LINE)

        def step(number: int, q: n.Expr) -> None:
            p = s.add(turn, n.const(number * (n.LANES // parts)))
            k = s.add(s.mul(q, LINE), p)
            data = [
                emitter.bind(
                    n.Load(self.patches, (p, q, s.add(column, n.const(v * n.LANES))), n.LANES)
                )
                for v in range(vectors)
            ]
            for r in range(rows):
                at = self._row(block, s.add(row, n.const(r)))
                weight = emitter.bind(self.windows.coefficient(at, k), "x")
                for v in range(vectors):
                    place = n.const(number * cells + r * vectors + v)
                    old = n.TileLoad(held, place)
                    new = self.windows.advanced(data[v], n.broadcast(weight, n.LANES), old)
                    emitter.statements.append(n.TileStore(held, place, new))

        if whole != n.const(0):
            q = names.var("k")
            with emitter.block() as body:
                emitter.prover.add_range(q, n.const(0), whole)
                for number in range(parts):
                    step(number, q)
            emitter.statements.append(n.For(q, n.const(0), whole, 1, tuple(body)))
        rest = s.floormod(length, LINE)
        for number in range(parts):
            p = s.add(turn, n.const(number * (n.LANES // parts)))
            condition = s.compare("less", p, rest)
            if rest == n.const(0):
                continue
            with emitter.block() as body:
                emitter.prover.add_condition(condition)
                step(number, whole)
            emitter.statements.append(n.If(condition, tuple(body)))
        return held

    def _row(self, block: _Block, row: n.Expr) -> tuple[n.Expr, ...]:
        """Return the first place of a block with another channel."""
        axis = self.windows.row
        return (*block.place[:axis], row, *block.place[axis + 1 :])

    def _finish(
        self, emitter: Emitter, block: _Block, row: n.Expr, column: n.Expr, value: n.Expr
    ) -> None:
        """Emit what becomes of one vector of results, and store it."""
        w = self.windows
        place = list(block.place)
        place[w.row] = row
        start = s.add(place[w.column], column)
        if block.lines == 1:
            place[w.column] = n.Ramp(start, n.const(1), n.LANES)
            finish(emitter, w.stage, tuple(place), [value], emitter.mask)
            return
        assert w.line is not None
        inner = slice(w.line + 1, None)
        if any(
            emitter.context.buffers[t].shape[inner] != w.extents[inner] for t in w.stage.tensors
        ):
            raise CannotPlace("lines that do not follow each other")
        emitter.flat_begin = tuple(place), column
        flat = flat_index(n.Buffer("", w.rule.dtype, w.extents, "output"), tuple(place))
        position = n.Ramp(s.add(flat, column), n.const(1), n.LANES)
        extents = w.extents[w.line], w.extents[w.column]
        place[w.line], place[w.column] = emitter.stand_ins(position, extents)
        indices = tuple(place)
        emitter.flat = (indices, position)
        with emitter.block() as body:
            finish(emitter, w.stage, indices, [value], emitter.mask)
        emitter.flat = emitter.flat_begin = None
        if reads_apart(tuple(body)):
            raise CannotVectorise("a place of its own for each pixel")
        emitter.statements += body


def _known(extent: n.Expr) -> int | None:
    return int(extent.value) if isinstance(extent, n.Const) else None


def _up(count: int) -> int:
    """Return the next multiple of a vector."""
    return -(-count // n.LANES) * n.LANES
