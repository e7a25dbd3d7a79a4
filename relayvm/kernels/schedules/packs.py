"""Products of bytes whose weights lie in packs: four neighbours on the reduced axis of each of 16
columns, side by side.

One instruction adds the products of four bytes of a row, the same for all, to the sums of 16
columns, so that nothing is folded at the end. The order of integers does not matter.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from relayvm.base.abi import Access
from relayvm.base.dtypes import INT32
from relayvm.kernels import compute as c
from relayvm.kernels import loops as n
from relayvm.kernels.index import simplify as s
from relayvm.kernels.schedules.boxes import lane_loop
from relayvm.kernels.schedules.columns import ColumnTiling
from relayvm.kernels.schedules.contraction import (
    NotAContraction,
    Place,
    Probe,
    Record,
    cleared,
    discover,
    finish,
    no_reduction,
    reduced_axes,
    seen_memory,
)
from relayvm.kernels.schedules.emit import Emitter, Frame
from relayvm.kernels.schedules.grid import tile_loops
from relayvm.kernels.schedules.plan import nodes
from relayvm.kernels.schedules.reduction import lane_rule

GROUP = 4
PACK = GROUP * n.LANES
MOST_VECTORS = 4
HEIGHTS = (4, 3, 2, 1)

# What a step along the reduced axis has at hand.
Known = dict[tuple[object, ...], n.Expr]


@dataclass(frozen=True)
class Packed:
    """The factors of a product: any bytes, and those of packs, whose column is an expression."""

    bytes: c.ScalarExpr
    weight: c.TensorLoad
    column: c.ScalarExpr
    axis: c.IndexVar
    is_turned: bool


def packed(reduction: c.Reduce, dots: str) -> Packed | None:
    """Return the factors of a sum where one of them lies in packs, or None.

    `sum(cast(x[m, k]) * cast(w[n // 16, k // 4, n % 16, k % 4]))`
    """
    rule = lane_rule(reduction, dots)
    axes = reduced_axes(reduction)
    if rule.group != GROUP or rule.factors is None or len(axes) != 1:
        return None
    for a, b in (rule.factors, rule.factors[::-1]):
        column = _column_of(b, axes[0])
        if column is not None and isinstance(b, c.TensorLoad):
            return Packed(a, b, column, axes[0], b is rule.factors[0])
    return None


def _column_of(factor: c.ScalarExpr, axis: c.IndexVar) -> c.ScalarExpr | None:
    """Return the column of a load from packs along an axis, or None."""
    if not isinstance(factor, c.TensorLoad) or len(factor.indices) != 4:
        return None
    block, group, place, byte = factor.indices
    parts = [
        _parts_of(block, "floor_divide", n.LANES),
        _parts_of(group, "floor_divide", GROUP),
        _parts_of(place, "floor_mod", n.LANES),
        _parts_of(byte, "floor_mod", GROUP),
    ]
    column, k = parts[0], parts[1]
    same = column is not None and column is parts[2] and k is axis and parts[3] is axis
    return column if same else None


def _parts_of(expr: c.ScalarExpr, name: str, size: int) -> c.ScalarExpr | None:
    """Return `x` of `name(x, size)`."""
    if isinstance(expr, c.IndexOf):
        expr = expr.value
    if not isinstance(expr, c.Scalar) or expr.name != name:
        return None
    value, by = expr.args
    return value if isinstance(by, c.Const) and by.value == size else None


class PackedTiling(ColumnTiling):
    """The tiling of a stage whose weights lie in packs: rows by vectors of columns."""

    # What of the last vector of a tile there is, where that is not all.
    last_mask: n.Mask | None = None

    def _probed(self) -> Probe:
        axis = self.column_axis
        if axis is None or not self.context.dots:
            raise NotAContraction
        axes = tuple(n.Var(f"p{k}") for k in range(len(self.extents)))
        emitter = Emitter(replace(self.context, names=self.context.names.copy()), no_reduction)
        for variable, extent in zip(axes, self.extents):
            emitter.prover.add_range(variable, n.const(0), extent)
        full = s.mul(s.floordiv(self.extents[axis], n.const(n.LANES)), n.const(n.LANES))
        emitter.prover.add_range(axes[axis], n.const(0), full, n.LANES)
        ramp = n.Ramp(axes[axis], n.const(1), n.LANES)
        records = discover(self.context, self.stage, (*axes[:axis], ramp, *axes[axis + 1 :]))
        for number, record in enumerate(records):
            k = n.Var(f"pk{number}")
            length = s.floordiv(self._length(record), n.const(GROUP))
            emitter.prover.add_range(k, n.const(0), length)
            self._step(emitter, record, s.mul(k, n.const(GROUP)), n.Var("va", INT32, n.LANES), {})
        seen = seen_memory(emitter.statements, axes)
        return Probe(tuple(self._length(r) for r in records), *seen)

    @property
    def heights(self) -> tuple[int, ...]:
        """How many rows a tile may have, the most first."""
        return HEIGHTS

    def _column_block(self) -> int:
        few = self.few_rows
        return self.widths(few if few is not None and few in HEIGHTS else HEIGHTS[0])[0]

    def widths(self, rows: int) -> tuple[int, ...]:
        """How many columns a tile may have, the most first: whole packs."""
        most = max(1, min(MOST_VECTORS, self.tile // rows))
        return tuple(n.LANES << k for k in reversed(range(most.bit_length())))

    def _columns(
        self,
        emitter: Emitter,
        at: Place,
        rows: int,
        columns: tuple[n.Expr, n.Expr],
        aligned: bool,
    ) -> None:
        total = self.extents[self.column_axis or 0]
        if not aligned or not isinstance(total, n.Const):
            super()._columns(emitter, at, rows, columns, aligned)
            return
        axis, width = self.column_axis or 0, self.widths(rows)[0]
        width = min(width, self.block or width)

        def tile(emitter: Emitter, column: n.Expr, count: int) -> None:
            self._results(emitter, {**at, axis: column}, rows, count)

        last = tile_loops(emitter, *columns, (width,), tile)
        rest = int(total.value) % width
        if not rest or last == columns[1]:
            return
        with emitter.block() as body:
            # What is left is one tile, of which the last vector is masked.
            vectors = -(-rest // n.LANES)
            full = rest % n.LANES == 0
            outer = self.last_mask
            self.last_mask = None if full else n.Mask(n.const(rest % n.LANES), n.LANES)
            tile(emitter, n.const(int(total.value) - rest), vectors * n.LANES)
            self.last_mask = outer
        condition = s.compare("less", last, columns[1])
        if isinstance(condition, n.Const):
            emitter.statements += body
        else:
            emitter.statements.append(n.If(condition, tuple(body)))

    def _results(self, emitter: Emitter, at: Place, rows: int, columns: int) -> None:
        firsts = range(0, columns, n.LANES)
        places = [
            self._indices(at, row, n.Ramp(n.const(first), n.const(1), n.LANES))
            for row in range(rows)
            for first in firsts
        ]
        found = [discover(self.context, self.stage, place) for place in places]
        values: list[list[n.Expr]] = [[] for _ in places]
        for number, length in enumerate(self.probe.lengths):
            records = [each[number] for each in found]
            tile = self._summed(emitter, records, length)
            dtype = records[0].reduction.dtype
            for cell, own in enumerate(values):
                own.append(emitter.bind(n.cast(n.TileLoad(tile, n.const(cell)), dtype)))
        outer = emitter.mask
        for cell, (place, own) in enumerate(zip(places, values)):
            is_last = (cell + 1) % len(firsts) == 0
            emitter.mask = self.last_mask if is_last and self.last_mask is not None else outer
            finish(emitter, self.stage, place, own, emitter.mask)
        emitter.mask = outer

    def _summed(self, emitter: Emitter, records: list[Record], length: n.Expr) -> n.Tile:
        """Emit the loop over the reduced axis for the results of a tile; return their sums."""
        rule = lane_rule(records[0].reduction, self.context.dots)
        (tile,) = cleared(emitter, [rule], len(records))

        def step(k: n.Expr, mask: n.Expr | None) -> None:
            emitter.share_loads = True
            known: Known = {}
            for number, record in enumerate(records):
                held = n.TileLoad(tile, n.const(number))
                value = self._step(emitter, record, k, held, known)
                emitter.statements.append(n.TileStore(tile, n.const(number), value))

        outer, emitter.mask = emitter.mask, None
        lane_loop(emitter, length, step, lanes=GROUP)
        emitter.mask = outer
        return tile

    def _step(
        self, emitter: Emitter, record: Record, k: n.Expr, held: n.Expr, known: Known
    ) -> n.Expr:
        """Return the sums of 16 columns after four more elements of the reduced axis."""
        found = packed(record.reduction, self.context.dots)
        if found is None:
            raise NotAContraction
        frame = dict(record.frame)
        frame.update({a: n.const(0) for a in record.reduction.axes})
        frame[found.axis] = n.Ramp(k, n.const(1), GROUP)
        spread, weights = (
            _spread(emitter, found, frame, known),
            self._pack(emitter, found, frame, known),
        )
        a, b = (weights, spread) if found.is_turned else (spread, weights)
        return emitter.bind(n.Dot(held, a, b, n.LANES))

    def _pack(self, emitter: Emitter, found: Packed, frame: Frame, known: Known) -> n.Expr:
        """Return the pack of 16 columns at four elements of the reduced axis."""
        buffer = self.context.buffers.get(found.weight.tensor)
        column, ramp = emitter.value(found.column, frame), frame[found.axis]
        if buffer is None or buffer.access is not Access.DENSE or not isinstance(column, n.Ramp):
            raise NotAContraction
        whole = emitter.prover.divisor(s.polynomial(column.base)) % n.LANES == 0
        if buffer.name in self.context.windows or column.stride != n.const(1) or not whole:
            raise NotAContraction
        assert isinstance(ramp, n.Ramp)
        line = s.mul(column.base, s.mul(buffer.shape[1], n.const(GROUP)))
        place = s.add(line, s.mul(ramp.base, n.const(n.LANES)))
        key = (buffer.name, place)
        if key not in known:
            known[key] = emitter.bind(n.Load(buffer, (place,), PACK))
        return known[key]


def _spread(emitter: Emitter, found: Packed, frame: Frame, known: Known) -> n.Expr:
    """Return four bytes of a row, 16 times; those beyond the end are 0."""
    used = [m for m in nodes(found.bytes) if isinstance(m, c.IndexVar)]
    key = (id(found.bytes), *(frame.get(m) for m in used))
    if key not in known:
        row = n.broadcast(emitter.value(found.bytes, frame), GROUP)
        if emitter.mask is not None:
            row = n.select(emitter.mask, row, n.const(0, row.dtype))
        row = emitter.bind(row)
        known[key] = emitter.bind(n.shuffle(row, row, tuple(range(GROUP)) * n.LANES))
    return known[key]
