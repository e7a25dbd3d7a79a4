"""Partials of results whose columns run in lanes: a vector of each of the 16, for every 16 columns.

Either in turns over every 16th element of the reduced axis, which keep their partials in registers,
or in order with all of them in memory.
"""

from __future__ import annotations

from relayvm.kernels import loops as n
from relayvm.kernels.index import simplify as s
from relayvm.kernels.schedules.ahead import Ahead, with_fetches
from relayvm.kernels.schedules.contraction import Record, add, cleared, reduced_axes, some
from relayvm.kernels.schedules.emit import Emitter
from relayvm.kernels.schedules.reduction import (
    TOGETHER,
    Rule,
    advanced,
    brought_together,
    rule_of,
)


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
        sums = self._empty(self.rules, n.LANES * cells)
        begin: n.Expr = n.const(0)
        rest = sums
        for rounds in (TOGETHER, 1):
            size = n.const(rounds * n.LANES)
            count = s.floordiv(s.sub(self.length, begin), size)
            end = s.add(begin, s.mul(count, size))
            if end != begin:
                end = emitter.bind(end, "e")
                k = names.var("k")
                with emitter.block() as body:
                    emitter.prover.add_range(k, begin, end, rounds * n.LANES)
                    self._round(rest, k, rounds, n.const(n.LANES))
                emitter.statements.append(n.For(k, begin, end, rounds * n.LANES, tuple(body)))
            begin = end
            if rounds > 1 and begin not in (n.const(0), self.length):
                rest = self._some(sums)
        if begin != self.length:
            left = s.minimum(s.sub(self.length, begin), n.const(n.LANES))
            self._round(rest, begin, 1, emitter.bind(left, "e"))
        self._add(rest, sums)
        return self._cast(self._folded_sums(sums))

    def _empty(self, rules: list[Rule], size: int) -> list[n.Tile]:
        """Emit tiles of partials in memory that hold nothing yet."""
        tiles = self._tiles("part", size, rules)
        place = self.emitter.context.names.var("l")
        clear = [
            n.TileStore(t, place, n.broadcast(r.identity, n.LANES)) for t, r in zip(tiles, rules)
        ]
        loop = n.For(place, n.const(0), n.const(size), 1, tuple(clear))
        self.emitter.statements.append(loop)
        return tiles

    def _some(self, tiles: list[n.Tile]) -> list[n.Tile]:
        """Emit empty tiles for what comes together, with those that there are of other rules."""
        together = [rule for rule in self.rules if rule.together > 1]
        made = iter(self._empty(together, tiles[0].size) if together else ())
        return [next(made) if r.together > 1 else t for r, t in zip(self.rules, tiles)]

    def _add(self, some: list[n.Tile], tiles: list[n.Tile]) -> None:
        """Emit what brings to the partials the elements that came together."""
        place = self.emitter.context.names.var("l")
        body = [
            n.TileStore(tile, place, n.call(r.op, n.TileLoad(part, place), n.TileLoad(tile, place)))
            for part, tile, r in zip(some, tiles, self.rules)
            if part is not tile
        ]
        if body:
            loop = n.For(place, n.const(0), n.const(tiles[0].size), 1, tuple(body))
            self.emitter.statements.append(loop)

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
                    at = s.add(k, partial)
                    value = after(emitter, record, at, n.TileLoad(tile, place), rounds)
                    emitter.statements.append(n.TileStore(tile, place, value))
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

    def _tiles(self, prefix: str, size: int, rules: list[Rule] | None = None) -> list[n.Tile]:
        names = self.emitter.context.names
        rules = self.rules if rules is None else rules
        tiles = [n.Tile(names.fresh(prefix), r.dtype, n.LANES, size) for r in rules]
        self.emitter.statements += [n.Declare(tile) for tile in tiles]
        return tiles

    def _turn(self, turn: n.Expr, full: n.Expr) -> list[list[n.Expr]]:
        """Emit one turn: partials `turn`, `turn + turns` and so on; return them folded."""
        emitter, cells = self.emitter, len(self.records)
        tiles = cleared(emitter, self.rules, self.parts * cells)
        offsets = [s.add(turn, n.const(part * self.turns)) for part in range(self.parts)]
        begin: n.Expr = n.const(0)
        rest = tiles
        if any(rule.together > 1 for rule in self.rules):
            begin = self._turn_loop(tiles, offsets, begin, self.length, TOGETHER)
            if begin not in (n.const(0), self.length):
                rest = some(emitter, self.rules, tiles)
        begin = self._turn_loop(rest, offsets, begin, full, 1)
        for part, offset in enumerate(offsets if full != self.length else ()):
            position = s.add(full, offset)
            condition = s.compare("less", position, self.length)
            with emitter.block() as body:
                emitter.prover.add_condition(condition)
                self._step(rest, part, position, 1)
            if not isinstance(condition, n.Const):
                emitter.statements.append(n.If(condition, tuple(body)))
            elif condition.value:
                emitter.statements += body
        add(emitter, self.rules, rest, tiles)
        return [
            [
                folded(rule, [n.TileLoad(tile, n.const(p * cells + c)) for p in range(self.parts)])
                for rule, tile in zip(self.rules, tiles)
            ]
            for c in range(cells)
        ]

    def _turn_loop(
        self,
        tiles: list[n.Tile],
        offsets: list[n.Expr],
        begin: n.Expr,
        length: n.Expr,
        rounds: int,
    ) -> n.Expr:
        """Emit a loop over some rounds of 16 elements at a time; return where it ends."""
        emitter, size = self.emitter, rounds * n.LANES
        count = s.floordiv(s.sub(length, begin), n.const(size))
        end = s.add(begin, s.mul(count, n.const(size)))
        if end == begin:
            return begin
        end = emitter.bind(end, "e") if end not in (self.length, length) else end
        k = emitter.context.names.var("k")
        with emitter.block() as body:
            emitter.prover.add_range(k, begin, end, size)
            for part, offset in enumerate(offsets):
                self._step(tiles, part, s.add(k, offset), rounds)
            body[:] = with_fetches(body, self.ahead)
        emitter.statements.append(n.For(k, begin, end, size, tuple(body)))
        return end

    def _step(self, tiles: list[n.Tile], part: int, k: n.Expr, rounds: int) -> None:
        emitter = self.emitter
        shared, emitter.share_loads = emitter.share_loads, True
        for cell, records in enumerate(self.records):
            number = n.const(part * len(self.records) + cell)
            for record, tile in zip(records, tiles):
                value = after(emitter, record, k, n.TileLoad(tile, number), rounds)
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


def after(emitter: Emitter, record: Record, k: n.Expr, held: n.Expr, rounds: int = 1) -> n.Expr:
    """Return partials in lanes after element `k` of the reduced axis, and every 16th after it in
    so many rounds.
    """
    rule = rule_of(record.reduction)

    def one(number: int, acc: n.Expr | None) -> n.Expr:
        frame = dict(record.frame)
        frame.update({a: n.const(0) for a in record.reduction.axes})
        at = s.add(k, n.const(number * n.LANES))
        frame.update(dict.fromkeys(reduced_axes(record.reduction), at))
        value = advanced(emitter, rule, record.reduction.body, frame, acc, n.LANES)
        return emitter.bind(value)

    value = one(0, held) if rounds == 1 else brought_together(rule, rounds, held, one)
    return emitter.bind(value)
