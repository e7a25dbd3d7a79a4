"""Contractions and row reductions: tiles of results, each with its partials in one vector.

A tile of `rows` x `columns` results shares its loads: for a dense layer one vector of each row of
both operands feeds rows * columns fused multiply-adds. Weights are read once for all rows of a
tile. At the end the partials of a row of the tile are folded together to one vector, and the
epilogue runs on it before anything is stored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from relayvm.base.dtypes import BOOL, DType
from relayvm.kernels import compute as c
from relayvm.kernels import loops as n
from relayvm.kernels.index import simplify as s
from relayvm.kernels.schedules.ahead import Ahead, with_fetches
from relayvm.kernels.schedules.boxes import is_apart, lane_loop, product, run_frame
from relayvm.kernels.schedules.elementwise import emit_stage, last_axis
from relayvm.kernels.schedules.emit import CannotVectorise, Context, Emitter, Frame, Reduction
from relayvm.kernels.schedules.grid import Ranges, Side, grid_phase, tile_loops
from relayvm.kernels.schedules.late import Sums, has_costly_epilogue, sums_of
from relayvm.kernels.schedules.plan import Stage
from relayvm.kernels.schedules.reduction import (
    TOGETHER,
    Rule,
    advanced,
    brought_together,
    combined,
    lane_rule,
    rule_of,
)

FEW_ROWS = 8
# Enough columns to share the loads of rows, few enough that small layers have several blocks.
COLUMN_BLOCK = 64
# One row reads so many streams of weights; more of them collide in the first cache.
MAX_COLUMNS = 8
# Rows too long for the first cache come from the second, which 6 rows of 4 columns ask for less.
# All but three of 32 registers hold partials then.
LONG = 512
TALL = 6
# The most operations of one step of a tile; one of a product of matrices has some 300.
MOST_OPERATIONS = 1600
# Of longer steps those that come together are not written one by one.
MOST_TOGETHER = 256
# Where more rows share the weights, the time to fetch them does not count.
MANY_ROWS = 64
# So many runs of one long row, which do not wait for each other.
RUNS = 4
TRUTH_WORDS = 8
# So many tiles of rows take turns to fetch the next block of columns.
TURNS = 2

Place = dict[int, n.Expr]


@dataclass(frozen=True)
class Record:
    """One reduction of a stage at one place: its node and what its axes stand for."""

    reduction: c.Reduce
    frame: Frame


class NotAContraction(Exception):
    """The stage needs another schedule."""


@dataclass(frozen=True)
class Probe:
    """What a stage reduces at one place: the lengths, and how memory is read on the way.

    `is_unfit` says that memory is read element by element; `loads` holds, for each load, the axes
    of the stage that its place depends on. `weight` counts the operations of one term, and `words`
    is how many words of 32 bits a partial has; `has_no_order` says that no order of the terms
    changes a bit.
    """

    lengths: tuple[n.Expr, ...]
    is_unfit: bool
    loads: tuple[frozenset[int], ...]
    weight: int
    words: int = 1
    has_no_order: bool = False

    def axes_with(self, axis: int | None) -> frozenset[int]:
        """Return the axes that stand in a load together with this one."""
        return frozenset(k for load in self.loads if axis in load for k in load)


def contraction_phase(context: Context, stage: Stage, registers: int) -> n.Phase | None:
    """Return the tiled phase of a stage whose reductions read memory along their axis, or None."""
    extents = tuple(context.dim(d) for d in stage.shape)
    try:
        tiling = Tiling(context, stage, extents, registers)
        tiling.check()
        tiling.is_late = has_costly_epilogue(stage, context.buffers.keys())
        return tiling.phase_in_some_form()
    except (NotAContraction, CannotVectorise):
        return None


def tiled_phase(
    kind: type[Tiling], context: Context, stage: Stage, registers: int
) -> n.Phase | None:
    """Return the phase of a stage by another kind of tiling than rows along the reduced axis, or
    None.
    """
    extents = tuple(context.dim(d) for d in stage.shape)
    try:
        tiling = kind(context, stage, extents, registers)
        tiling.check()
        return tiling.phase()
    except (NotAContraction, CannotVectorise):
        return None


def probe_stage(context: Context, stage: Stage, extents: tuple[n.Expr, ...]) -> Probe:
    """Return the probe of a stage whose reduced axes run in lanes."""
    axes = tuple(n.Var(f"p{k}") for k in range(len(extents)))
    records = discover(context, stage, axes)
    trial = replace(context, names=context.names.copy())
    emitter = Emitter(trial, no_reduction)
    emitter.decides = True
    for axis, extent in zip(axes, extents):
        emitter.prover.add_range(axis, n.const(0), extent)
    lengths = tuple(product(_extents(context, r.reduction)) for r in records)
    for number, (record, length) in enumerate(zip(records, lengths)):
        variable = n.Var(f"pk{number}")
        rule = lane_rule(record.reduction, context.dots)
        full = s.mul(s.floordiv(length, n.const(rule.width)), n.const(rule.width))
        if full == n.const(0):
            # Nothing is known of a loop that never runs, as all would be true in it.
            emitter.mask = n.Mask(length, rule.width)
        else:
            emitter.prover.add_range(variable, n.const(0), full, rule.width)
            emitter.mask = None
        k = n.const(0) if emitter.mask is not None else variable
        acc = n.Var("va", rule.dtype, rule.lanes)
        frame = inside(emitter, record, k, rule.width)
        value = combined(emitter, rule, record.reduction.body, frame, acc)
        emitter.bind(value)
    return Probe(lengths, *seen_memory(emitter.statements, axes), words_of(records))


def words_of(records: list[Record]) -> int:
    """Return how many words of 32 bits the partials of reductions have, at most; truth values have
    as many as leave them four of the registers for masks, of which there are few.
    """
    dtypes = [rule_of(r.reduction).dtype for r in records]
    return max((TRUTH_WORDS if d.is_bool else d.bits // 32 for d in dtypes), default=1) or 1


def seen_memory(
    statements: list[n.Stmt], axes: tuple[n.Var, ...]
) -> tuple[bool, tuple[frozenset[int], ...], int]:
    """Return whether statements are unfit, the axes in the place of each of their loads, and the
    number of their operations.
    """
    values = [stmt.value for stmt in statements if isinstance(stmt, n.Let)]
    loads, weight = [], 0
    stack = list(values)
    while stack:
        expr = stack.pop()
        weight += 1
        if isinstance(expr, (n.Load, n.Gather)):
            names = {v for index in expr.indices for v in _variables(index)}
            loads.append(frozenset(k for k, axis in enumerate(axes) if axis in names))
        stack += n.children(expr)
    return any(map(is_apart, values)), tuple(loads), weight


def _variables(expr: n.Expr) -> Iterator[n.Var]:
    if isinstance(expr, n.Var):
        yield expr
    for child in n.children(expr):
        yield from _variables(child)


def discover(context: Context, stage: Stage, indices: tuple[n.Expr, ...]) -> list[Record]:
    """Return the reductions that a stage needs at one place, in a fixed order."""
    records: list[Record] = []
    lanes = max((i.lanes for i in indices), default=1)

    def note(emitter: Emitter, reduction: Reduction, frame: Frame) -> n.Expr:
        if not isinstance(reduction, c.Reduce):
            raise NotAContraction
        records.append(Record(reduction, frame))
        return n.Var(f"vr{len(records)}", reduction.dtype, lanes)

    trial = replace(context, names=context.names.copy())
    emitter = Emitter(trial, note)
    emit_stage(emitter, stage, indices, None)
    return records


class Tiling:
    """One stage with its tile sizes; `phase` emits all of it, `rows` a part."""

    def __init__(
        self, context: Context, stage: Stage, extents: tuple[n.Expr, ...], registers: int
    ) -> None:
        self.context, self.stage, self.extents = context, stage, extents
        self.column_axis = last_axis(extents)
        self.base: dict[int, n.Expr] = {}
        # How many columns a block of the grid has, in a phase of the stage alone.
        self.block: int | None = None
        # Whether sums wait for the end of their block, and where those of this block do.
        self.is_late = False
        self.sums: Sums | None = None
        self.probe = self._probed()
        outer = [k for k, e in enumerate(extents) if e != n.const(1) and k != self.column_axis]
        own = self.probe.axes_with(self.column_axis)
        shared = [k for k in outer if k not in own]
        # Rows of one tile share what the columns read; where nothing is shared, any axis will do.
        self.row_axis = shared[-1] if shared else outer[-1] if outer else None
        self.outer = [k for k in outer if k != self.row_axis]
        # What the columns read is read again for these axes, so that its block stays in the cache.
        self.inner_outer = [k for k in self.outer if k not in own]
        together = max(Counter(self.probe.lengths).values(), default=1)
        # Registers: the partials, the vectors of one operand, and one of the other.
        held = registers // (together * self.probe.words)
        # There is a tile of each height and width: what would be much code in each is not repeated.
        self.most_places = max(1, MOST_OPERATIONS // max(1, self.probe.weight))
        self.tile = max(1, min(held, self.most_places))

    def _probed(self) -> Probe:
        return probe_stage(self.context, self.stage, self.extents)

    def check(self) -> None:
        """Raise NotAContraction unless the reductions run along memory."""
        if not self.probe.lengths or self.probe.is_unfit:
            raise NotAContraction

    # -- Which results ----------------------------------------------------------------------------

    @property
    def few_rows(self) -> int | None:
        """How many rows there are, where they are known to be so few that each has a place."""
        rows = self.extents[self.row_axis] if self.row_axis is not None else n.const(1)
        if not isinstance(rows, n.Const) or int(rows.value) > FEW_ROWS:
            return None
        return int(rows.value)

    def phase_in_some_form(self) -> n.Phase:
        """Return the phase; its epilogue is computed in the tiles if it has no vector form."""
        own = len(self.context.private)
        try:
            return self.phase()
        except CannotVectorise:
            if not self.is_late:
                raise
        del self.context.private[own:]
        self.is_late, self.sums = False, None
        return self.phase()

    def phase(self) -> n.Phase:
        """Return the phase: blocks of columns, of each all rows."""
        emitter = Emitter(self.context, no_reduction)
        if self.column_axis is None:
            return self._single(emitter)
        self.block = self._column_block()
        columns = Side(self.column_axis, self.extents[self.column_axis], self.block)
        sides = [Side(k, self.extents[k], 1) for k in self.outer if k not in self.inner_outer]
        sides.append(columns)
        sides += [Side(k, self.extents[k], 1) for k in self.inner_outer]
        if self.row_axis is not None:
            size = None if self.few_rows is not None else 4 * self.heights[0]
            sides.append(Side(self.row_axis, self.extents[self.row_axis], size))
        return grid_phase(self.context, emitter, sides, lambda at: self._box(emitter, at))

    def _column_block(self) -> int:
        """Return how many columns' weights take half of the cache at most, with those of the next
        block where these are fetched meanwhile.
        """
        length = max((self._known_length(e) for e in self.probe.lengths), default=1)
        column = max(1, length) * 4 * self.probe.words * len(self.probe.lengths)
        column *= 1 if self._has_many_rows else 2
        size = COLUMN_BLOCK
        while size > n.LANES and size * column > self.context.cache_bytes // 2:
            size //= 2
        return size

    @property
    def _has_many_rows(self) -> bool:
        rows = self.extents[self.row_axis] if self.row_axis is not None else n.const(1)
        return isinstance(rows, n.Const) and int(rows.value) > MANY_ROWS

    @staticmethod
    def _known_length(length: n.Expr) -> int:
        return int(length.value) if isinstance(length, n.Const) else 1

    def whole(self, emitter: Emitter) -> None:
        """Emit all results in the emitter's block."""
        if self.column_axis is None:
            self._results(emitter, {}, 1, 1)
            return
        self._box(emitter, {k: (n.const(0), e) for k, e in enumerate(self.extents)})

    def part(self, emitter: Emitter, at: Place, edges: Ranges, base: dict[int, n.Expr]) -> None:
        """Emit the results whose indices on some axes are in a range, and on others `at` a value.

        Where `base` has an axis, its range counts from there. Columns run in blocks, of each all
        rows, so that rows share what columns read.
        """
        self.base = base
        ranges: Ranges = {k: (n.const(0), e) for k, e in enumerate(self.extents)}
        ranges.update(edges)
        columns = self.column_axis
        if columns in at:
            self._results(emitter, at, 1, 1)
            return
        if columns in (None, *edges) or self.row_axis in (None, *at):
            self._box(emitter, ranges, False, at)
            return
        assert columns is not None
        size, total = n.const(COLUMN_BLOCK), self.extents[columns]
        count = s.floordiv(s.add(total, n.const(COLUMN_BLOCK - 1)), size)
        if count == n.const(1):
            self._box(emitter, ranges, False, at)
            return
        var = self.context.names.var("i")
        with emitter.block() as body:
            emitter.prover.add_range(var, n.const(0), count)
            first = emitter.bind(s.mul(var, size), "e")
            last = emitter.bind(s.minimum(s.add(first, size), total), "e")
            self._box(emitter, {**ranges, columns: (first, last)}, False, at)
        emitter.statements.append(n.For(var, n.const(0), count, 1, tuple(body)))

    def _box(
        self, emitter: Emitter, ranges: Ranges, aligned: bool = True, fixed: Place | None = None
    ) -> None:
        """Emit a box of results; where it is aligned, it is one block of a grid."""
        fixed = fixed or {}
        if self.is_late and self.sums is None:
            self.sums = self._sums(ranges)
            if self.sums is not None:
                self._box(emitter, ranges, aligned, fixed)
                self._finish_sums(emitter, ranges)
                self.sums = None
                return
        has_rows = self.row_axis is not None and self.row_axis not in fixed

        def rows(emitter: Emitter, at: Place) -> None:
            def columns(emitter: Emitter, row: n.Expr, count: int) -> None:
                here = {**at, self.row_axis or 0: row} if has_rows else at
                self._columns(emitter, here, count, ranges[self.column_axis or 0], aligned)

            if not has_rows:
                columns(emitter, n.const(0), 1)
                return
            assert self.row_axis is not None
            begin, end = ranges[self.row_axis]
            if self.few_rows is not None and aligned:
                done = 0
                for height in _parts(self.few_rows, self.heights):
                    columns(emitter, n.const(done), height)
                    done += height
                return
            total = self.extents[self.row_axis] if aligned else None
            tile_loops(emitter, begin, end, self.heights, columns, total)

        outer = [k for k in self.outer if k not in fixed]
        self._outer_loops(emitter, outer, fixed, ranges, rows)

    def _sums(self, ranges: Ranges) -> Sums | None:
        """Return where the sums of a block of the grid wait; None where tiles finish them."""
        columns = ranges[self.column_axis or 0]
        width = s.sub(columns[1], columns[0])
        most = self.block or 0
        if isinstance(width, n.Const):
            most = min(most, int(width.value))
        if most < n.LANES:
            return None
        rows: tuple[n.Expr, n.Expr] = (n.const(0), n.const(1))
        height = 1
        if self.row_axis is not None:
            rows, height = ranges[self.row_axis], self.few_rows or 4 * self.heights[0]
        dtypes = [record.reduction.dtype for record in self._trial_records()]
        return sums_of(self.context, dtypes, (height, most), rows, columns)

    def _trial_records(self) -> list[Record]:
        axes = tuple(n.Var(f"p{k}") for k in range(len(self.extents)))
        return discover(self.context, self.stage, axes)

    def _finish_sums(self, emitter: Emitter, ranges: Ranges) -> None:
        sums = self.sums
        assert sums is not None
        at = {k: ranges[k][0] for k in self.outer}

        def done(row: n.Expr, column: n.Expr, values: list[n.Expr], mask: n.Expr | None) -> None:
            place = {**at, self.column_axis or 0: column}
            if self.row_axis is not None:
                place[self.row_axis] = row
            indices = tuple(place.get(k, n.const(0)) for k in range(len(self.extents)))
            finish(emitter, self.stage, indices, values, mask)

        sums.finish(emitter, done)

    def _outer_loops(
        self,
        emitter: Emitter,
        axes: list[int],
        at: Place,
        ranges: Ranges,
        rows: Callable[[Emitter, Place], None],
    ) -> None:
        if not axes:
            rows(emitter, at)
            return
        begin, end = ranges[axes[0]]
        var = self.context.names.var("i")
        with emitter.block() as body:
            emitter.prover.add_range(var, begin, end)
            self._outer_loops(emitter, axes[1:], {**at, axes[0]: var}, ranges, rows)
        emitter.statements.append(n.For(var, begin, end, 1, tuple(body)))

    @property
    def heights(self) -> tuple[int, ...]:
        """How many rows a tile may have, the most first."""
        longest = max(map(self._known_length, self.probe.lengths), default=0)
        if self.tile == n.LANES and longest >= LONG:
            return (TALL, 4, 2, 1)
        return (4, 2, 1) if self.tile >= 4 and self.tile != 6 else (3, 2, 1)[-self.tile :]

    def widths(self, rows: int) -> tuple[int, ...]:
        """How many columns a tile of so many rows may have, the most first."""
        tall = rows == TALL and self.tile == n.LANES
        width = 4 if tall else min(MAX_COLUMNS, _power(max(1, self.tile // rows)))
        return _halved(width)

    def _single(self, emitter: Emitter) -> n.Phase:
        var = self.context.names.var("b")
        with emitter.block() as body:
            emitter.prover.add_range(var, n.const(0), n.const(1))
            self._results(emitter, {}, 1, 1)
        return n.Phase(var, n.const(1), tuple(body))

    def _columns(
        self,
        emitter: Emitter,
        at: Place,
        rows: int,
        columns: tuple[n.Expr, n.Expr],
        aligned: bool,
    ) -> None:
        def tile(emitter: Emitter, column: n.Expr, count: int) -> None:
            self._results(emitter, {**at, self.column_axis or 0: column}, rows, count)

        total = self.extents[self.column_axis or 0] if aligned else None
        tile_loops(emitter, *columns, self.widths(rows), tile, total)

    # -- One tile ---------------------------------------------------------------------------------

    def _indices(self, at: dict[int, n.Expr], row: int, column: n.Expr) -> tuple[n.Expr, ...]:
        indices = [at.get(k, n.const(0)) for k in range(len(self.extents))]
        if self.row_axis is not None:
            indices[self.row_axis] = s.add(indices[self.row_axis], n.const(row))
        if self.column_axis is not None:
            indices[self.column_axis] = s.add(indices[self.column_axis], column)
        for axis, begin in self.base.items():
            indices[axis] = s.add(begin, indices[axis])
        return tuple(indices)

    def _results(self, emitter: Emitter, at: Place, rows: int, columns: int) -> None:
        """Emit one tile: clear the partials, run along the reduced axis, fold, and finish.

        Reductions of one length run together; the partials of others need their registers.
        """
        cells = [(r, q) for r in range(rows) for q in range(columns)]
        found = {
            cell: discover(self.context, self.stage, self._indices(at, cell[0], n.const(cell[1])))
            for cell in cells
        }
        results: list[dict[int, n.Expr]] = [{} for _ in range(rows)]
        rules = [lane_rule(r.reduction, self.context.dots) for r in found[cells[0]]]
        kinds = [(length, rule.width) for length, rule in zip(self.probe.lengths, rules)]
        for kind in dict.fromkeys(kinds):
            numbers = [k for k, each in enumerate(kinds) if each == kind]
            records = {cell: [found[cell][k] for k in numbers] for cell in cells}
            ahead = self._ahead(emitter, at, rows, columns) if rows > 1 else ()
            tiles = self._reduced(emitter, kind[0], cells, records, ahead)
            for number, tile, record in zip(numbers, tiles, records[cells[0]]):
                dtype = record.reduction.dtype
                sums = self._folded(emitter, rules[number], tile, dtype, (rows, columns))
                for row, value in enumerate(sums):
                    results[row][number] = value
        zero = n.const(0)
        column = zero if columns == 1 else n.Ramp(zero, n.const(1), columns)
        for row in range(rows):
            values = [results[row][k] for k in range(len(self.probe.lengths))]
            if self.sums is None:
                finish(emitter, self.stage, self._indices(at, row, column), values, None)
                continue
            here = s.add(
                at.get(-1 if self.row_axis is None else self.row_axis, n.const(0)), n.const(row)
            )
            self.sums.put(emitter, here, at[self.column_axis or 0], values)

    @staticmethod
    def _folded(
        emitter: Emitter, rule: Rule, tile: n.Tile, dtype: DType, size: tuple[int, int]
    ) -> list[n.Expr]:
        """Return the results of each row of a tile from its partials.

        As many rows as there are lanes for are folded at once: twice as many results take a few
        shuffles more.
        """
        rows, columns = size
        found: list[n.Expr] = []
        for height in _parts(rows, _halved(_power(max(1, n.LANES // columns)))):
            first = len(found) * columns
            cells = range(first, first + height * columns)
            parts = [n.TileLoad(tile, n.const(cell)) for cell in cells]
            sums = emitter.bind(n.cast(n.tree(rule.op, *parts), dtype))
            found += [emitter.bind(_run_of(sums, columns * k, columns)) for k in range(height)]
        return found

    def _ahead(self, emitter: Emitter, at: Place, rows: int, columns: int) -> tuple[Ahead, ...]:
        """Return how to fetch what the next columns need.

        It pays where weights are known to come from afar, for the first rows that use them: tiles
        of the greatest height take turns to fetch the next block, lower ones fetch the next tile.
        """
        column, row = at.get(self.column_axis or 0), at.get(self.row_axis or 0, n.const(0))
        total = self.extents[self.row_axis] if self.row_axis is not None else n.const(1)
        if self._has_many_rows:
            return ()
        weights = sum(self._known_length(length) for length in self.probe.lengths)
        own = [self.extents[k] for k in self.outer if k not in self.inner_outer]
        count = product((self.extents[self.column_axis or 0], *own))
        size = 4 * weights * int(count.value) if isinstance(count, n.Const) else 0
        if not isinstance(column, n.Var) or size <= self.context.cache_bytes // 2:
            return ()
        first = s.compare("equal", row, n.const(0))
        if first == n.const(False, BOOL):
            return ()
        if self.block is None or rows < max(4, self.heights[0]) or columns % TURNS:
            return (Ahead(first, column, columns),)
        together = n.const(TURNS * rows)
        turn = emitter.bind(s.floordiv(row, n.const(rows)), "e")
        few = s.both(first, s.compare("less", total, together))
        turns = Ahead(s.compare("less", row, together), column, self.block, TURNS, turn)
        # Where no rows follow, the first ones fetch the rest, too.
        rest = [Ahead(few, column, self.block, TURNS, n.const(k)) for k in range(1, TURNS)]
        return (turns, *(rest if few != n.const(False, BOOL) else ()))

    def _reduced(
        self,
        emitter: Emitter,
        length: n.Expr,
        cells: list[tuple[int, int]],
        records: dict[tuple[int, int], list[Record]],
        ahead: tuple[Ahead, ...],
    ) -> list[n.Tile]:
        """Emit the loop over the reduced axis; return the tiles of partials, one a reduction."""
        rules = [lane_rule(r.reduction, self.context.dots) for r in records[cells[0]]]
        width = rules[0].width
        runs = self._runs(rules, length, len(cells))
        tiles = cleared(emitter, rules, len(cells) * runs)

        def step(
            k: n.Expr,
            mask: n.Expr | None,
            run: int = 0,
            held: list[n.Tile] | None = None,
            rounds: int = 1,
        ) -> None:
            first = len(emitter.statements)
            emitter.share_loads = emitter.decides = True
            for number, cell in enumerate(cells, run):
                for record, rule, tile in zip(records[cell], rules, held or tiles):
                    old = n.TileLoad(tile, n.const(number))
                    value = _after(emitter, record, rule, k, old, rounds)
                    if mask is not None and rule.group == 1:
                        value = n.select(mask, value, old)
                    emitter.statements.append(n.TileStore(tile, n.const(number), value))
            emitter.run = None
            if mask is None:
                emitter.statements[first:] = with_fetches(emitter.statements[first:], ahead)

        begin: n.Expr = n.const(0)
        if runs > 1:
            begin = _runs_of_one(emitter, length, (runs, width), step)
            for number in range(1, runs):
                for rule, tile in zip(rules, tiles):
                    both = (n.TileLoad(tile, n.const(k)) for k in (number, 0))
                    whole = n.TileStore(tile, n.const(0), n.call(rule.op, *both))
                    emitter.statements.append(whole)
        rest = tiles
        if any(rule.together > 1 for rule in rules) and not _is_below(length, TOGETHER * width):
            if len(cells) * self.probe.weight > MOST_TOGETHER:
                _long_together(emitter, length, rules, tiles, step)
                return tiles
            begin = _together(emitter, length, width, step)
            if begin not in (n.const(0), length):
                rest = some(emitter, rules, tiles)
        if begin != length:
            last = rest
            lane_loop(
                emitter, length, lambda k, mask: step(k, mask, 0, last), begin, width, whole=True
            )
        add(emitter, rules, rest, tiles)
        return tiles

    def _runs(self, rules: list[Rule], length: n.Expr, cells: int) -> int:
        """Return in how many runs the elements of the only result are combined side by side."""
        most = min(RUNS, _power(self.tile))
        if self.column_axis is not None or cells > 1 or not all(r.is_associative for r in rules):
            return 1
        return 1 if _is_below(length, 2 * most * rules[0].width) else most


def _is_below(length: n.Expr, size: int) -> bool:
    """Return whether a length is known to be below a size."""
    return isinstance(length, n.Const) and int(length.value) < size


def _after(
    emitter: Emitter, record: Record, rule: Rule, k: n.Expr, held: n.Expr, rounds: int
) -> n.Expr:
    """Return partials after some rounds of elements from position `k` on, or after one more."""
    body = record.reduction.body

    def one(number: int, acc: n.Expr | None) -> n.Expr:
        frame = inside(emitter, record, s.add(k, n.const(number * rule.width)), rule.width)
        return advanced(emitter, rule, body, frame, acc, rule.lanes)

    return one(0, held) if rounds == 1 else brought_together(rule, rounds, held, one)


def _together(
    emitter: Emitter,
    length: n.Expr,
    width: int,
    step: Callable[[n.Expr, n.Expr | None, int, None, int], None],
) -> n.Expr:
    """Emit a loop over as many vectors at a time as come together; return where it ends."""
    size = n.const(TOGETHER * width)
    end = s.mul(s.floordiv(length, size), size)
    if end == n.const(0):
        return end
    end = emitter.bind(end, "e") if end != length else end
    k = emitter.context.names.var("k")
    with emitter.block() as body:
        emitter.prover.add_range(k, n.const(0), end, TOGETHER * width)
        step(k, None, 0, None, TOGETHER)
    emitter.statements.append(n.For(k, n.const(0), end, TOGETHER * width, tuple(body)))
    return end


def _long_together(
    emitter: Emitter,
    length: n.Expr,
    rules: list[Rule],
    tiles: list[n.Tile],
    step: Callable[[n.Expr, n.Expr | None, int, list[n.Tile]], None],
) -> None:
    """Emit all of the reduced axis, with a loop over the vectors that come together: a long step
    is not written for each of them.
    """
    width = rules[0].width
    size = n.const(TOGETHER * width)
    number = emitter.context.names.var("k")
    count = s.floordiv(s.add(length, n.const(TOGETHER * width - 1)), size)
    with emitter.block() as body:
        emitter.prover.add_range(number, n.const(0), count)
        begin = emitter.bind(s.mul(number, size), "e")
        end = emitter.bind(s.minimum(s.add(begin, size), length), "e")
        parts = some(emitter, rules, tiles)
        lane_loop(emitter, end, lambda k, mask: step(k, mask, 0, parts), begin, width, whole=True)
        add(emitter, rules, parts, tiles)
    emitter.statements.append(n.For(number, n.const(0), count, 1, tuple(body)))


def some(emitter: Emitter, rules: list[Rule], tiles: list[n.Tile]) -> list[n.Tile]:
    """Return empty tiles for what comes together, and those that there are of other rules."""
    return [
        cleared(emitter, [rule], tile.size, "some")[0] if rule.together > 1 else tile
        for rule, tile in zip(rules, tiles)
    ]


def add(emitter: Emitter, rules: list[Rule], parts: list[n.Tile], tiles: list[n.Tile]) -> None:
    """Emit what brings to the partials the elements that came together, in tiles of their own."""
    for rule, part, tile in zip(rules, parts, tiles):
        if part is not tile:
            at = emitter.context.names.var("l")
            both = n.call(rule.op, n.TileLoad(part, at), n.TileLoad(tile, at))
            body = (n.TileStore(tile, at, both),)
            emitter.statements.append(n.For(at, n.const(0), n.const(tile.size), 1, body, "unroll"))


def _runs_of_one(
    emitter: Emitter,
    length: n.Expr,
    size: tuple[int, int],
    step: Callable[[n.Expr, n.Expr | None, int], None],
) -> n.Expr:
    """Emit a loop over some runs of whole vectors, each by itself; return where they end."""
    runs, width = size
    count = s.floordiv(length, n.const(runs * width))
    run = s.mul(count, n.const(width))
    k = emitter.context.names.var("k")
    with emitter.block() as body:
        emitter.prover.add_range(k, n.const(0), run, width)
        for number in range(runs):
            step(s.add(k, s.mul(run, n.const(number))), None, number)
    emitter.statements.append(n.For(k, n.const(0), run, width, tuple(body)))
    return s.mul(count, n.const(runs * width))


def cleared(emitter: Emitter, rules: list[Rule], size: int, prefix: str = "acc") -> list[n.Tile]:
    """Emit tiles of partials, one a reduction, that hold nothing yet."""
    names = emitter.context.names
    tiles = [n.Tile(names.fresh(prefix), rule.dtype, rule.lanes, size) for rule in rules]
    for rule, tile in zip(rules, tiles):
        lane = names.var("l")
        clear = n.TileStore(tile, lane, n.broadcast(rule.identity, rule.lanes))
        emitter.statements.append(n.Declare(tile))
        emitter.statements.append(n.For(lane, n.const(0), n.const(size), 1, (clear,), "unroll"))
    return tiles


def finish(
    emitter: Emitter,
    stage: Stage,
    indices: tuple[n.Expr, ...],
    values: list[n.Expr],
    mask: n.Expr | None,
) -> None:
    """Emit what a stage makes of its reductions, whose values are there, and store it."""
    position = iter(values)

    def take(emitter: Emitter, reduction: Reduction, frame: Frame) -> n.Expr:
        return next(position)

    outer, emitter.reducer = emitter.reducer, take
    emit_stage(emitter, stage, indices, mask)
    emitter.reducer = outer


def no_reduction(emitter: Emitter, reduction: Reduction, frame: Frame) -> n.Expr:
    """Refuse a reduction inside another."""
    raise NotAContraction


def reduced_axes(reduction: c.Reduce) -> tuple[c.IndexVar, ...]:
    """Return the axes of a reduction that may have more than one element."""
    return tuple(a for a in reduction.axes if a.extent != 1)


def _extents(context: Context, reduction: c.Reduce) -> tuple[n.Expr, ...]:
    return tuple(context.dim(a.extent) for a in reduced_axes(reduction))


def inside(emitter: Emitter, record: Record, k: n.Expr, lanes: int = n.LANES) -> Frame:
    """Return the frame at position `k` of the reduced box, whose axes run in lanes as one."""
    return run_frame(emitter, record.reduction.axes, record.frame, k, lanes)


def _run_of(vector: n.Expr, first: int, lanes: int) -> n.Expr:
    """Return some neighbouring lanes of a vector."""
    if lanes == vector.lanes:
        return vector
    if lanes == 1:
        return n.lane(vector, first)
    return n.shuffle(vector, vector, range(first, first + lanes))


def _halved(value: int) -> tuple[int, ...]:
    """Return a power of two and those below it, the greatest first."""
    return tuple(1 << k for k in reversed(range(value.bit_length())))


def _parts(count: int, sizes: tuple[int, ...]) -> list[int]:
    """Return the heights of the tiles that a known number of rows is made of."""
    parts = []
    for size in sizes:
        while count >= size:
            parts.append(size)
            count -= size
    return parts


def _power(value: int) -> int:
    """Return the greatest power of two that is not above a value."""
    return 1 << (value.bit_length() - 1)
