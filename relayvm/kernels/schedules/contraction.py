"""Contractions and row reductions: tiles of results, each with its partials in one vector.

A tile of `rows` x `columns` results shares its loads: for a dense layer one vector of each row of
both operands feeds rows * columns fused multiply-adds. Weights are read once for all rows of a
tile. At the end the partials of a row of the tile are folded together to one vector, and the
epilogue runs on it before anything is stored.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from relayvm.base.dtypes import INT64
from relayvm.kernels import compute as c
from relayvm.kernels import loops as n
from relayvm.kernels.index import simplify as s
from relayvm.kernels.schedules.elementwise import blocks, emit_stage, last_axis
from relayvm.kernels.schedules.emit import CannotVectorise, Context, Emitter, Frame, Reduction, Run
from relayvm.kernels.schedules.plan import Stage
from relayvm.kernels.schedules.reduction import Rule, combined, lane_loop, rule_of

COLUMN_BLOCK = 64
FEW_ROWS = 8

TileBody = Callable[[Emitter, n.Expr, int], None]


@dataclass(frozen=True)
class Record:
    """One reduction of a stage at one place: its node and what its axes stand for."""

    reduction: c.Reduce
    frame: Frame


class NotAContraction(Exception):
    """The stage needs another schedule."""


def contraction_phase(context: Context, stage: Stage, registers: int) -> n.Phase | None:
    """Return the tiled phase of a stage whose reductions read memory along their axis, or None."""
    extents = tuple(context.dim(d) for d in stage.shape)
    try:
        tiling = Tiling(context, stage, extents, registers)
        tiling.check()
        return tiling.phase()
    except (NotAContraction, CannotVectorise):
        return None


def discover(context: Context, stage: Stage, indices: tuple[n.Expr, ...]) -> list[Record]:
    """Return the reductions that a stage needs at one place, in a fixed order."""
    records: list[Record] = []

    def note(emitter: Emitter, reduction: Reduction, frame: Frame) -> n.Expr:
        if not isinstance(reduction, c.Reduce):
            raise NotAContraction
        records.append(Record(reduction, frame))
        return n.Var(f"vr{len(records)}", reduction.dtype, 1)

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
        outer = [k for k, e in enumerate(extents) if e != n.const(1) and k != self.column_axis]
        self.row_axis = outer[-1] if outer else None
        self.outer = outer[:-1]
        zeros = tuple(n.const(0) for _ in extents)
        self.records = len(discover(context, stage, zeros))
        # Registers: the partials, the vectors of one operand, and one of the other.
        budget = max(1, registers // max(1, self.records))
        self.tile = 1
        while self.tile * 2 <= budget and self.tile < 16:
            self.tile *= 2

    def check(self) -> None:
        """Raise NotAContraction unless the reductions run along memory, all of one length."""
        probe = tuple(n.Var(f"p{k}") for k in range(len(self.extents)))
        records = discover(self.context, self.stage, probe)
        if not records:
            raise NotAContraction
        lengths = {product(_extents(self.context, r.reduction)) for r in records}
        if len(lengths) != 1:
            raise NotAContraction
        self.length = lengths.pop()
        trial = replace(self.context, names=self.context.names.copy())
        emitter = Emitter(trial, _no_reduction)
        for variable, extent in zip(probe, self.extents):
            emitter.prover.add_range(variable, n.const(0), extent)
        k = n.Var("pk")
        full = s.mul(s.floordiv(self.length, n.const(n.LANES)), n.const(n.LANES))
        emitter.prover.add_range(k, n.const(0), full, n.LANES)
        for record in records:
            rule = rule_of(record.reduction)
            acc = n.Var("va", rule.dtype, n.LANES)
            frame = _inside(emitter, record, k)
            value = combined(emitter, rule, record.reduction.body, frame, acc)
            emitter.bind(value)
        if any(isinstance(t, n.Let) and is_unfit(t.value) for t in emitter.statements):
            raise NotAContraction

    @property
    def few_rows(self) -> int | None:
        """How many rows there are, where they are so few that columns are shared out instead."""
        rows = self.extents[self.row_axis] if self.row_axis is not None else n.const(1)
        if self.outer or not isinstance(rows, n.Const) or int(rows.value) > FEW_ROWS:
            return None
        return int(rows.value)

    def phase(self) -> n.Phase:
        """Return the phase: over blocks of columns where rows are few, else over blocks of rows."""
        emitter = Emitter(self.context, _no_reduction)
        if self.column_axis is None:
            return self._single(emitter)
        rows = self.few_rows
        return self._by_rows(emitter) if rows is None else self._by_columns(emitter, rows)

    def whole(self, emitter: Emitter) -> None:
        """Emit all results in the emitter's block."""
        if self.column_axis is None:
            self._results(emitter, {}, 1, 1)
            return
        rows = self.few_rows
        if rows is not None:
            self._columns_of_rows(emitter, {}, rows, n.const(0), self.extents[self.column_axis])
            return
        axis = self.outer[0] if self.outer else self.row_axis
        assert axis is not None
        self.rows(emitter, axis, n.const(0), self.extents[axis])

    def rows(self, emitter: Emitter, axis: int, begin: n.Expr, end: n.Expr) -> None:
        """Emit the results whose index on the first axis of more than one element is in a range."""
        if axis == self.column_axis:
            self._columns(emitter, {}, 1, begin, end)
        elif axis == self.row_axis:
            tile_loops(emitter, begin, end, self._height, self._row_tile({}))
        else:
            self._outer_loops(emitter, self.outer, {}, begin, end)

    def _outer_loops(
        self,
        emitter: Emitter,
        axes: list[int],
        at: dict[int, n.Expr],
        begin: n.Expr,
        end: n.Expr,
    ) -> None:
        assert self.row_axis is not None
        if not axes:
            tile_loops(emitter, begin, end, self._height, self._row_tile(at))
            return
        var = self.context.names.var("i")
        following = axes[1] if len(axes) > 1 else self.row_axis
        with emitter.block() as body:
            emitter.prover.add_range(var, begin, end)
            here = {**at, axes[0]: var}
            self._outer_loops(emitter, axes[1:], here, n.const(0), self.extents[following])
        emitter.statements.append(n.For(var, begin, end, 1, tuple(body)))

    @property
    def _height(self) -> int:
        return 4 if self.tile >= 16 else 2 if self.tile >= 4 else 1

    def _row_tile(self, at: dict[int, n.Expr]) -> TileBody:
        columns = self.extents[self.column_axis or 0]

        def row_tile(emitter: Emitter, row: n.Expr, count: int) -> None:
            here: dict[int, n.Expr] = {**at, self.row_axis or 0: row}
            self._columns(emitter, here, count, n.const(0), columns)

        return row_tile

    def _single(self, emitter: Emitter) -> n.Phase:
        var = self.context.names.var("b")
        with emitter.block() as body:
            emitter.prover.add_range(var, n.const(0), n.const(1))
            self._results(emitter, {}, 1, 1)
        return n.Phase(var, n.const(1), tuple(body))

    def _by_columns(self, emitter: Emitter, rows: int) -> n.Phase:
        assert self.column_axis is not None
        total = self.extents[self.column_axis]
        names = self.context.names
        var = names.var("b")
        size = n.const(COLUMN_BLOCK)
        count = s.floordiv(s.add(total, n.const(COLUMN_BLOCK - 1)), size)
        with emitter.block() as body:
            emitter.prover.add_range(var, n.const(0), count)
            begin = s.mul(var, size)
            end = total
            if count != n.const(1):
                end = emitter.bind(s.minimum(s.add(begin, size), total), "e")
            self._columns_of_rows(emitter, {}, rows, begin, end)
        return n.Phase(var, count, tuple(body))

    def _columns_of_rows(
        self, emitter: Emitter, at: dict[int, n.Expr], rows: int, begin: n.Expr, end: n.Expr
    ) -> None:
        """All rows (a literal number) and a range of columns; rows of one tile share loads."""
        done = 0
        for height in _parts(rows, min(self.tile, 8)):
            here = dict(at)
            if self.row_axis is not None:
                here[self.row_axis] = n.const(done)
            self._columns(emitter, here, height, begin, end)
            done += height

    def _by_rows(self, emitter: Emitter) -> n.Phase:
        axis = self.outer[0] if self.outer else self.row_axis
        assert axis is not None
        size = 1 if self.outer else self._height * 4

        def run(begin: n.Expr, end: n.Expr) -> None:
            self.rows(emitter, axis, begin, end)

        return blocks(self.context, emitter, self.extents[axis], run, size)

    def _columns(
        self, emitter: Emitter, at: dict[int, n.Expr], rows: int, begin: n.Expr, end: n.Expr
    ) -> None:
        width = max(1, self.tile // rows)

        def column_tile(emitter: Emitter, column: n.Expr, count: int) -> None:
            here = {**at, self.column_axis or 0: column}
            self._results(emitter, here, rows, count)

        tile_loops(emitter, begin, end, width, column_tile)

    def _indices(self, at: dict[int, n.Expr], row: int, column: n.Expr) -> tuple[n.Expr, ...]:
        indices = [at.get(k, n.const(0)) for k in range(len(self.extents))]
        if self.row_axis is not None:
            indices[self.row_axis] = s.add(indices[self.row_axis], n.const(row))
        if self.column_axis is not None:
            indices[self.column_axis] = s.add(indices[self.column_axis], column)
        return tuple(indices)

    def _results(self, emitter: Emitter, at: dict[int, n.Expr], rows: int, columns: int) -> None:
        """Emit one tile: clear the partials, run along the reduced axis, fold, and finish."""
        names = self.context.names
        cells = [(r, q) for r in range(rows) for q in range(columns)]
        found = {
            cell: discover(self.context, self.stage, self._indices(at, cell[0], n.const(cell[1])))
            for cell in cells
        }
        rules = [rule_of(record.reduction) for record in found[cells[0]]]
        tiles = [n.Tile(names.fresh("acc"), r.dtype, n.LANES, len(cells)) for r in rules]
        for rule, tile in zip(rules, tiles):
            lane = names.var("l")
            clear = n.TileStore(tile, lane, n.broadcast(rule.identity, n.LANES))
            emitter.statements.append(n.Declare(tile))
            emitter.statements.append(
                n.For(lane, n.const(0), n.const(len(cells)), 1, (clear,), "unroll")
            )

        def step(k: n.Expr, mask: n.Expr | None) -> None:
            shared, emitter.share_loads = emitter.share_loads, True
            for number, cell in enumerate(cells):
                for record, rule, tile in zip(found[cell], rules, tiles):
                    held = n.TileLoad(tile, n.const(number))
                    body = record.reduction.body
                    frame = _inside(emitter, record, k)
                    value = combined(emitter, rule, body, frame, held)
                    if mask is not None:
                        value = n.select(mask, value, held)
                    emitter.statements.append(n.TileStore(tile, n.const(number), value))
            emitter.share_loads, emitter.run = shared, None

        lane_loop(emitter, self.length, step)
        for row in range(rows):
            self._finish(emitter, at, row, columns, rules, tiles, found[(row, 0)])

    def _finish(
        self,
        emitter: Emitter,
        at: dict[int, n.Expr],
        row: int,
        columns: int,
        rules: list[Rule],
        tiles: list[n.Tile],
        records: list[Record],
    ) -> None:
        results = []
        for rule, tile, record in zip(rules, tiles, records):
            parts = [n.TileLoad(tile, n.const(row * columns + q)) for q in range(columns)]
            folded = n.cast(n.tree(rule.op, *parts), record.reduction.dtype)
            results.append(emitter.bind(folded))
        position = iter(results)

        def take(emitter: Emitter, reduction: Reduction, frame: Frame) -> n.Expr:
            return next(position)

        outer, emitter.reducer = emitter.reducer, take
        zero = n.const(0)
        column = zero if columns == 1 else n.Ramp(zero, n.const(1), columns)
        emit_stage(emitter, self.stage, self._indices(at, row, column), None)
        emitter.reducer = outer


def _no_reduction(emitter: Emitter, reduction: Reduction, frame: Frame) -> n.Expr:
    raise NotAContraction


def _axes(reduction: c.Reduce) -> tuple[c.IndexVar, ...]:
    return tuple(a for a in reduction.axes if a.extent != 1)


def _extents(context: Context, reduction: c.Reduce) -> tuple[n.Expr, ...]:
    return tuple(context.dim(a.extent) for a in _axes(reduction))


def product(extents: tuple[n.Expr, ...]) -> n.Expr:
    """Return the number of elements of a box."""
    total: n.Expr = n.const(1)
    for extent in extents:
        total = s.mul(total, extent)
    return total


def _stand_in(number: int) -> n.Expr:
    return n.Broadcast(n.Var(f"axis{number}"), n.LANES, INT64)


def _inside(emitter: Emitter, record: Record, k: n.Expr) -> Frame:
    """Return the frame at position `k` of the reduced box, whose axes run in lanes as one."""
    axes = _axes(record.reduction)
    frame = dict(record.frame)
    frame.update({a: n.const(0) for a in record.reduction.axes})
    position = n.Ramp(k, n.const(1), n.LANES)
    emitter.run = None
    if len(axes) == 1:
        frame[axes[0]] = position
    elif axes:
        stand_ins = tuple(_stand_in(number) for number in range(len(axes)))
        frame.update(zip(axes, stand_ins))
        extents = _extents(emitter.context, record.reduction)
        emitter.run = Run(stand_ins, extents, position)
    return frame


def is_unfit(expr: n.Expr) -> bool:
    """Return whether a value reads memory element by element, or uses a stand-in of an axis."""
    if isinstance(expr, n.Gather) or (isinstance(expr, n.Var) and expr.name.startswith("axis")):
        return True
    return any(map(is_unfit, n.children(expr)))


def _parts(count: int, largest: int) -> list[int]:
    """Return the powers of two, falling from `largest`, that a number of rows is made of."""
    parts = []
    while count:
        while largest > count:
            largest //= 2
        parts.append(largest)
        count -= largest
    return parts


def tile_loops(emitter: Emitter, begin: n.Expr, end: n.Expr, width: int, body: TileBody) -> None:
    """Emit a loop over whole tiles, then the rest in tiles of half the width, and so on to 1."""
    while width:
        room = s.floordiv(s.sub(end, begin), n.const(width))
        last = s.add(begin, s.mul(room, n.const(width)))
        if last != begin:
            last = emitter.bind(last, "e")
            var = emitter.context.names.var("i")
            with emitter.block() as inner:
                emitter.prover.add_range(var, begin, last, width)
                body(emitter, var, width)
            emitter.statements.append(n.For(var, begin, last, width, tuple(inner)))
        begin = last
        width //= 2
