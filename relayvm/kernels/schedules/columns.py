"""Contractions that read along memory with their columns: `w[k, n]`, or sums over leading axes.

The columns run in lanes, so the 16 partials of a result are lanes of 16 vectors, and are folded
without shuffles. Nothing is packed.
"""

from __future__ import annotations

from dataclasses import replace

from relayvm.kernels import loops as n
from relayvm.kernels.index import simplify as s
from relayvm.kernels.schedules.contraction import (
    COLUMN_BLOCK,
    NotAContraction,
    Place,
    Probe,
    Record,
    Tiling,
    discover,
    finish,
    no_reduction,
    reduced_axes,
    seen_memory,
    words_of,
)
from relayvm.kernels.schedules.elementwise import is_small
from relayvm.kernels.schedules.emit import CannotVectorise, Context, Emitter
from relayvm.kernels.schedules.grid import tile_loops
from relayvm.kernels.schedules.partials import Partials, after
from relayvm.kernels.schedules.plan import Stage
from relayvm.kernels.schedules.reduction import rule_of

MAX_VECTORS = 4
# Short sums, and rows that lie close together, are faster with fewer columns and more partials.
SHORT = 256
# So few rows take their time to read memory, which goes in order and through more columns.
STREAM_ROWS = 2
STREAM_COLUMNS = 128
# Rows of memory that are no longer are read in turns: nearly all of a line goes to one tile.
NARROW_COLUMNS = 64


def has_no_order(context: Context, stage: Stage, registers: int) -> bool:
    """Return whether a stage reduces columns that share nothing, in any order."""
    extents = tuple(context.dim(d) for d in stage.shape)
    try:
        return ColumnTiling(context, stage, extents, registers).has_no_order
    except (NotAContraction, CannotVectorise):
        return False


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
            after(emitter, record, k, n.Var("va", rule_of(record.reduction).dtype, n.LANES))
        return Probe(
            tuple(self._length(r) for r in records),
            *seen_memory(emitter.statements, axes),
            words_of(records),
            all(rule_of(r.reduction).has_no_order for r in records),
        )

    def _length(self, record: Record) -> n.Expr:
        axes = reduced_axes(record.reduction)
        if len(axes) > 1:
            raise NotAContraction
        return self.context.dim(axes[0].extent) if axes else n.const(1)

    @property
    def heights(self) -> tuple[int, ...]:
        """How many rows a tile may have: with few registers many, for each has one operand."""
        if self._shares_nothing:
            return (1,)
        return (6, 2, 1) if self.tile == 6 else tuple(h for h in super().heights if h <= 4)

    @property
    def has_no_order(self) -> bool:
        """Return whether columns may be walked down alone: nothing is shared, nor in an order."""
        return self._shares_nothing and self.probe.has_no_order

    @property
    def _shares_nothing(self) -> bool:
        """Return whether every result reads memory of its own, as those of plain sums do."""
        needed = {self.column_axis, self.row_axis} - {None}
        return all(needed <= load for load in self.probe.loads)

    @property
    def _is_short(self) -> bool:
        sizes = (*self.probe.lengths, self.extents[self.column_axis or 0])
        return any(isinstance(e, n.Const) and int(e.value) < SHORT for e in sizes)

    def _streams(self, rows: int) -> bool:
        if self._shares_nothing:
            columns = self.extents[self.column_axis or 0]
            return not isinstance(columns, n.Const) or int(columns.value) > NARROW_COLUMNS
        most = 1 if self.few_rows is None else STREAM_ROWS
        return rows <= most and not self._is_short

    def _column_block(self) -> int:
        rows = 1 if self._shares_nothing else self.few_rows
        if rows is not None and self._streams(rows):
            return STREAM_COLUMNS
        return super()._column_block()

    def widths(self, rows: int) -> tuple[int, ...]:
        """How many columns a tile of so many rows may have, the most first: whole vectors."""
        if self._shares_nothing:
            most = STREAM_COLUMNS if self._streams(rows) else NARROW_COLUMNS
            room = min(most // len(self.probe.lengths), self.most_places * n.LANES)
            return tuple(w for w in (128, 64, 16) if w <= room) or (n.LANES,)
        if self._streams(rows):
            block = STREAM_COLUMNS if self.few_rows is not None else COLUMN_BLOCK
            most = block // n.LANES // len(self.probe.lengths)
            return (n.LANES * most, n.LANES) if most > 1 else (n.LANES,)
        most = MAX_VECTORS // 2 if self._is_short and rows > 2 else MAX_VECTORS
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
            emitter.mask = n.Mask(s.sub(end, last), n.LANES)
            tile(emitter, last, n.LANES)
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
            ahead = self._ahead(emitter, at, rows, columns) if rows > 1 else ()
            partials = Partials(emitter, length, records, self.tile, ahead)
            together = partials.in_order() if self._streams(rows) else partials.by_turns()
            for cell, results in enumerate(together):
                values[cell].update(zip(numbers, results))
        for place, results_of in zip(places.values(), values):
            ordered = [results_of[k] for k in range(len(self.probe.lengths))]
            finish(emitter, self.stage, place, ordered, emitter.mask)
