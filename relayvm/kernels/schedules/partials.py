"""Partials of results whose columns run in lanes: a vector of each of the 16, for every 16 columns.

Either in turns over every 16th element of the reduced axis, which keep their partials in registers,
or in order with all of them in memory.
"""

from __future__ import annotations

from relayvm.kernels import loops as n
from relayvm.kernels.index import simplify as s
from relayvm.kernels.schedules.ahead import Ahead, with_fetches
from relayvm.kernels.schedules.contraction import Record, cleared, reduced_axes
from relayvm.kernels.schedules.emit import Emitter
from relayvm.kernels.schedules.reduction import Rule, combined, rule_of

# Rounds of 16 elements between a load and a store of each partial.
ROUNDS = 4


class Partials:
    """The 16 partials of each result of a tile: `records` holds the reductions of each."""

    def __init__(
        self,
        emitter: Emitter,
        length: n.Expr,
        records: list[list[Record]],
        registers: int,
        ahead: tuple[Ahead, ...] = (),
    ) -> None:
        self.emitter, self.length, self.records = emitter, length, records
        self.ahead = ahead
        self.rules = [rule_of(record.reduction) for record in records[0]]
        self.parts = 1
        while self.parts * 2 * len(records) <= registers and self.parts < n.LANES:
            self.parts *= 2
        self.turns = n.LANES // self.parts

    def by_turns(self) -> list[list[n.Expr]]:
        """Emit turns over the reduced axis, each with as many partials as there are registers.

        Returns the values of the reductions for each result of the tile.
        """
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
        return self._cast(folded)

    def in_order(self) -> list[list[n.Expr]]:
        """Emit the reduced axis in order, several rounds of 16 elements at a time.

        All partials stay in the first cache, and memory is read in long runs.
        """
        emitter, names, cells = self.emitter, self.emitter.context.names, len(self.records)
        self.parts, self.turns = 1, n.LANES
        sums = self._tiles("part", n.LANES * cells)
        place = names.var("l")
        clear = [
            n.TileStore(t, place, n.broadcast(r.identity, n.LANES))
            for t, r in zip(sums, self.rules)
        ]
        emitter.statements.append(
            n.For(place, n.const(0), n.const(n.LANES * cells), 1, tuple(clear))
        )
        begin: n.Expr = n.const(0)
        for rounds in (ROUNDS, 1):
            size = n.const(rounds * n.LANES)
            count = s.floordiv(s.sub(self.length, begin), size)
            end = s.add(begin, s.mul(count, size))
            if end != begin:
                end = emitter.bind(end, "e")
                k = names.var("k")
                with emitter.block() as body:
                    emitter.prover.add_range(k, begin, end, rounds * n.LANES)
                    self._round(sums, k, rounds, n.const(n.LANES))
                emitter.statements.append(n.For(k, begin, end, rounds * n.LANES, tuple(body)))
            begin = end
        if begin != self.length:
            rest = s.minimum(s.sub(self.length, begin), n.const(n.LANES))
            self._round(sums, begin, 1, emitter.bind(rest, "e"))
        return self._cast(self._folded_sums(sums))

    def _round(self, sums: list[n.Tile], k: n.Expr, rounds: int, count: n.Expr) -> None:
        """Emit a loop over partials, each of which takes one element of every round."""
        emitter, cells = self.emitter, len(self.records)
        partial = emitter.context.names.var("l")
        with emitter.block() as body:
            emitter.prover.add_range(partial, n.const(0), count)
            emitter.share_loads = True
            for cell, records in enumerate(self.records):
                place = s.add(s.mul(partial, n.const(cells)), n.const(cell))
                for record, tile in zip(records, sums):
                    held: n.Expr = n.TileLoad(tile, place)
                    for number in range(rounds):
                        at = s.add(k, s.add(partial, n.const(number * n.LANES)))
                        held = advanced(emitter, record, at, held)
                    emitter.statements.append(n.TileStore(tile, place, held))
        emitter.statements.append(n.For(partial, n.const(0), count, 1, tuple(body)))

    def _cast(self, folded: list[list[n.Expr]]) -> list[list[n.Expr]]:
        emitter = self.emitter
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
                body[:] = with_fetches(body, self.ahead)
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
                value = advanced(emitter, record, k, n.TileLoad(tile, number))
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


def advanced(emitter: Emitter, record: Record, k: n.Expr, held: n.Expr) -> n.Expr:
    """Return partials in lanes after element `k` of the reduced axis."""
    frame = dict(record.frame)
    frame.update({a: n.const(0) for a in record.reduction.axes})
    frame.update(dict.fromkeys(reduced_axes(record.reduction), k))
    rule = rule_of(record.reduction)
    return emitter.bind(combined(emitter, rule, record.reduction.body, frame, held))
