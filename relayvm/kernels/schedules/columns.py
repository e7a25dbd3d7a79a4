"""Contractions that read along memory with their columns: `w[k, n]`, or sums over leading axes.

The columns run in lanes, so the 16 partials of a result are lanes of 16 vectors, and are folded
without shuffles. A tile takes as many of them at a time as its registers hold: with 4 rows and 64
columns one, in 16 turns over every 16th k; with 1 row 4, in 4 turns. Nothing is packed.
"""

from __future__ import annotations

from dataclasses import replace

from relayvm.kernels import loops as n
from relayvm.kernels.index import simplify as s
from relayvm.kernels.schedules.contraction import (
    NotAContraction,
    Place,
    Probe,
    Record,
    Tiling,
    cleared,
    discover,
    finish,
    no_reduction,
    reduced_axes,
    seen_memory,
)
from relayvm.kernels.schedules.elementwise import is_small
from relayvm.kernels.schedules.emit import CannotVectorise, Context, Emitter
from relayvm.kernels.schedules.grid import tile_loops
from relayvm.kernels.schedules.plan import Stage
from relayvm.kernels.schedules.reduction import Rule, combined, rule_of

MAX_VECTORS = 4
# Short sums, and rows that lie close together, are faster with fewer columns and more partials.
SHORT = 256


def column_contraction_phase(context: Context, stage: Stage, registers: int) -> n.Phase | None:
    """Return the phase of a stage whose reductions read memory along its last axis, or None."""
    extents = tuple(context.dim(d) for d in stage.shape)
    try:
        tiling = ColumnTiling(context, stage, extents, registers)
        tiling.check()
        return tiling.phase()
    except (NotAContraction, CannotVectorise):
        return None


class ColumnTiling(Tiling):
    """The tiling of a stage with its columns in lanes."""

    def _probed(self) -> Probe:
        axis = self.column_axis
        if axis is None or is_small(self.extents[axis]):
            raise NotAContraction
        axes = tuple(n.Var(f"p{k}") for k in range(len(self.extents)))
        full = s.mul(s.floordiv(self.extents[axis], n.const(n.LANES)), n.const(n.LANES))
        trial = replace(self.context, names=self.context.names.copy())
        emitter = Emitter(trial, no_reduction)
        for variable, extent in zip(axes, self.extents):
            emitter.prover.add_range(variable, n.const(0), extent)
        emitter.prover.add_range(axes[axis], n.const(0), full, n.LANES)
        ramp = n.Ramp(axes[axis], n.const(1), n.LANES)
        places: tuple[n.Expr, ...] = (*axes[:axis], ramp, *axes[axis + 1 :])
        records = discover(self.context, self.stage, places)
        for number, record in enumerate(records):
            k = n.Var(f"pk{number}")
            emitter.prover.add_range(k, n.const(0), self._length(record))
            self._step(emitter, record, k, n.Var("va", rule_of(record.reduction).dtype, n.LANES))
        return Probe(
            tuple(self._length(r) for r in records), *seen_memory(emitter.statements, axes)
        )

    def _length(self, record: Record) -> n.Expr:
        axes = reduced_axes(record.reduction)
        if len(axes) > 1:
            raise NotAContraction
        return self.context.dim(axes[0].extent) if axes else n.const(1)

    def _step(self, emitter: Emitter, record: Record, k: n.Expr, held: n.Expr) -> n.Expr:
        """Return partials after element `k` of the reduced axis."""
        frame = dict(record.frame)
        frame.update({a: n.const(0) for a in record.reduction.axes})
        frame.update(dict.fromkeys(reduced_axes(record.reduction), k))
        value = combined(emitter, rule_of(record.reduction), record.reduction.body, frame, held)
        return emitter.bind(value)

    @property
    def heights(self) -> tuple[int, ...]:
        """How many rows a tile may have: with few registers many, for each has one operand."""
        return (6, 2, 1) if self.tile == 6 else super().heights

    @property
    def _few_heights(self) -> tuple[int, ...]:
        return self.heights

    def widths(self, rows: int) -> tuple[int, ...]:
        """How many columns a tile of so many rows may have, the most first: whole vectors."""
        short = any(
            isinstance(e, n.Const) and int(e.value) < SHORT
            for e in (*self.probe.lengths, self.extents[self.column_axis or 0])
        )
        most = MAX_VECTORS // 2 if short and rows > 2 else MAX_VECTORS
        return tuple(n.LANES * width for width in super().widths(rows) if width <= most)

    def _columns(
        self,
        emitter: Emitter,
        at: Place,
        rows: int,
        columns: tuple[n.Expr, n.Expr],
        aligned: bool,
    ) -> None:
        axis = self.column_axis or 0

        def tile(emitter: Emitter, column: n.Expr, count: int) -> None:
            self._results(emitter, {**at, axis: column}, rows, count)

        begin, end = columns
        last = tile_loops(emitter, begin, end, self.widths(rows), tile)
        if last == end:
            return
        with emitter.block() as body:
            condition = s.compare("less", last, end)
            emitter.prover.add_condition(condition)
            outer, emitter.mask = emitter.mask, n.Mask(s.sub(end, last), n.LANES)
            tile(emitter, last, n.LANES)
            emitter.mask = outer
        if isinstance(condition, n.Const):
            emitter.statements += body
        else:
            emitter.statements.append(n.If(condition, tuple(body)))

    def _results(self, emitter: Emitter, at: Place, rows: int, columns: int) -> None:
        places = {}
        for row in range(rows):
            for vector in range(columns // n.LANES):
                ramp = n.Ramp(n.const(n.LANES * vector), n.const(1), n.LANES)
                places[(row, vector)] = self._indices(at, row, ramp)
        found = {c: discover(self.context, self.stage, place) for c, place in places.items()}
        values: list[dict[int, n.Expr]] = [{} for _ in places]
        for length in dict.fromkeys(self.probe.lengths):
            numbers = [k for k, each in enumerate(self.probe.lengths) if each == length]
            records = [[found[cell][k] for k in numbers] for cell in places]
            for cell, results in enumerate(_Turns(self, emitter, length, records).results()):
                values[cell].update(zip(numbers, results))
        for place, results_of in zip(places.values(), values):
            ordered = [results_of[k] for k in range(len(self.probe.lengths))]
            finish(emitter, self.stage, place, ordered, emitter.mask)


class _Turns:
    """The reduced axis of one tile: in each turn some of the 16 partials of every result."""

    def __init__(
        self, tiling: ColumnTiling, emitter: Emitter, length: n.Expr, records: list[list[Record]]
    ) -> None:
        self.tiling, self.emitter, self.length, self.records = tiling, emitter, length, records
        self.rules = [rule_of(record.reduction) for record in records[0]]
        self.parts = 1
        while self.parts * 2 * len(records) <= tiling.tile and self.parts < n.LANES:
            self.parts *= 2
        self.turns = n.LANES // self.parts

    def results(self) -> list[list[n.Expr]]:
        """Emit all turns; return the values of the reductions for each result of the tile."""
        emitter, names, cells = self.emitter, self.emitter.context.names, len(self.records)
        whole = s.mul(s.floordiv(self.length, n.const(n.LANES)), n.const(n.LANES))
        full = emitter.bind(whole, "e") if whole != self.length else whole
        if self.turns == 1:
            folded = self._turn(n.const(0), full)
        else:
            sums = self._tiles("part", self.turns * cells)
            turn = names.var("l")
            with emitter.block() as body:
                emitter.prover.add_range(turn, n.const(0), n.const(self.turns))
                for cell, values in enumerate(self._turn(turn, full)):
                    place = s.add(s.mul(turn, n.const(cells)), n.const(cell))
                    body += [n.TileStore(tile, place, v) for tile, v in zip(sums, values)]
            emitter.statements.append(n.For(turn, n.const(0), n.const(self.turns), 1, tuple(body)))
            folded = self._folded_sums(sums)
        return [
            [
                emitter.bind(n.cast(value, record.reduction.dtype))
                for value, record in zip(values, records)
            ]
            for values, records in zip(folded, self.records)
        ]

    def _tiles(self, prefix: str, size: int) -> list[n.Tile]:
        names = self.emitter.context.names
        tiles = [n.Tile(names.fresh(prefix), r.dtype, n.LANES, size) for r in self.rules]
        self.emitter.statements += [n.Declare(tile) for tile in tiles]
        return tiles

    def _turn(self, turn: n.Expr, full: n.Expr) -> list[list[n.Expr]]:
        """Emit one turn: partials `turn`, `turn + turns` and so on; return them folded."""
        emitter, cells = self.emitter, len(self.records)
        tiles = cleared(emitter, self.rules, self.parts * cells)
        offsets = [s.add(turn, n.const(part * self.turns)) for part in range(self.parts)]
        if full != n.const(0):
            k = emitter.context.names.var("k")
            with emitter.block() as body:
                emitter.prover.add_range(k, n.const(0), full, n.LANES)
                for part, offset in enumerate(offsets):
                    self._step(tiles, part, s.add(k, offset))
            emitter.statements.append(n.For(k, n.const(0), full, n.LANES, tuple(body)))
        for part, offset in enumerate(offsets if full != self.length else ()):
            position = s.add(full, offset)
            condition = s.compare("less", position, self.length)
            with emitter.block() as body:
                emitter.prover.add_condition(condition)
                self._step(tiles, part, position)
            if not isinstance(condition, n.Const):
                emitter.statements.append(n.If(condition, tuple(body)))
            elif condition.value:
                emitter.statements += body
        return [
            [
                folded(rule, [n.TileLoad(tile, n.const(p * cells + c)) for p in range(self.parts)])
                for rule, tile in zip(self.rules, tiles)
            ]
            for c in range(cells)
        ]

    def _step(self, tiles: list[n.Tile], part: int, k: n.Expr) -> None:
        emitter = self.emitter
        shared, emitter.share_loads = emitter.share_loads, True
        for cell, records in enumerate(self.records):
            number = n.const(part * len(self.records) + cell)
            for record, tile in zip(records, tiles):
                value = self.tiling._step(emitter, record, k, n.TileLoad(tile, number))
                emitter.statements.append(n.TileStore(tile, number, value))
        emitter.share_loads = shared

    def _folded_sums(self, sums: list[n.Tile]) -> list[list[n.Expr]]:
        """Emit a loop over the results that folds what the turns left."""
        emitter, cells = self.emitter, len(self.records)
        done = self._tiles("sum", cells)
        cell = emitter.context.names.var("l")
        body = [
            n.TileStore(
                tile,
                cell,
                folded(
                    rule,
                    [
                        n.TileLoad(part, s.add(cell, n.const(turn * cells)))
                        for turn in range(self.turns)
                    ],
                ),
            )
            for rule, part, tile in zip(self.rules, sums, done)
        ]
        emitter.statements.append(n.For(cell, n.const(0), n.const(cells), 1, tuple(body)))
        return [[n.TileLoad(tile, n.const(c)) for tile in done] for c in range(cells)]


def folded(rule: Rule, values: list[n.Expr]) -> n.Expr:
    """Return values combined in halves, as the partials of every reduction are."""
    while len(values) > 1:
        half = len(values) // 2
        values = [n.call(rule.op, a, b) for a, b in zip(values[:half], values[half:])]
    return values[0]
