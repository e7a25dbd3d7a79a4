"""Reductions over a box that memory does not hold as one run: its last axes in lanes.

Lanes follow the place in a run. Where the length of runs is no multiple of 16, the partials are
turned by what is left after each of them, so that every element comes to the partial that it has.
"""

from __future__ import annotations

from relayvm.base.dtypes import INT32
from relayvm.kernels import compute as c
from relayvm.kernels import loops as n
from relayvm.kernels.schedules.boxes import (
    AxisValues,
    box_loops,
    lane_loop,
    product,
    reduced_axes,
    run_frame,
)
from relayvm.kernels.schedules.emit import CannotVectorise, Emitter, Frame
from relayvm.kernels.schedules.reduction import TOGETHER, Rule, combined, rule_of

MIN_RUN = 8


def box_row(emitter: Emitter, reduction: c.Reduce, frame: Frame, split: int) -> n.Expr:
    """Reduce one box; the axes from number `split` on (of more than one element) are its runs."""
    axes = reduced_axes(reduction.axes)
    outer, inner = axes[:split], axes[split:]
    run = product(tuple(emitter.context.dim(a.extent) for a in inner))
    count = product(tuple(emitter.context.dim(a.extent) for a in outer))
    if not inner or not isinstance(run, n.Const) or int(run.value) < MIN_RUN:
        raise CannotVectorise("runs that are short or of unknown length")
    rest = int(run.value) % n.LANES
    if rest and not isinstance(count, n.Const):
        raise CannotVectorise("an unknown number of runs")
    rule = rule_of(reduction)
    acc = _Lanes(emitter, rule, not _is_few(run, count))

    def one_run(places: AxisValues, _flat: n.Expr) -> None:
        here = dict(frame)
        here.update({a: place for a, place in places.items() if a is not None})
        here.update({a: n.const(0) for a in reduction.axes if a.extent == 1})

        def step(k: n.Expr, mask: n.Expr | None) -> None:
            lanes = run_frame(emitter, inner, here, k, n.LANES)
            acc.take(combined(emitter, rule, reduction.body, lanes, acc.held), mask)
            emitter.run = None

        lane_loop(emitter, run, step)
        acc.turn(rest)

    box_loops(emitter, outer, one_run)
    turned = rest * int(count.value) % n.LANES if isinstance(count, n.Const) else 0
    return emitter.bind(n.cast(acc.folded(-turned), reduction.dtype))


def _is_few(run: n.Const, count: n.Expr) -> bool:
    """Return whether a partial has no more elements than come together."""
    most = TOGETHER * n.LANES
    return isinstance(count, n.Const) and int(run.value) * int(count.value) <= most


class _Lanes:
    """The partials in lanes; where elements come together first also these, and how many of them
    each lane has, which differs by one where partials turn.
    """

    def __init__(self, emitter: Emitter, rule: Rule, is_long: bool) -> None:
        self.emitter, self.rule = emitter, rule
        self._acc = self._tile("acc", rule.identity)
        self._some = self._numbers = self._acc
        if rule.together > 1 and is_long:
            self._some = self._tile("some", rule.identity)
            self._numbers = self._tile("number", n.const(0, INT32))

    def _tile(self, prefix: str, value: n.Const) -> n.Tile:
        tile = n.Tile(self.emitter.context.names.fresh(prefix), value.dtype, n.LANES, 1)
        empty = n.TileStore(tile, n.const(0), n.broadcast(value, n.LANES))
        self.emitter.statements += [n.Declare(tile), empty]
        return tile

    @property
    def held(self) -> n.Expr:
        """What the next element of each lane is combined with."""
        return n.TileLoad(self._some, n.const(0))

    def take(self, value: n.Expr, mask: n.Expr | None) -> None:
        """Emit what keeps `held` after one more element, in lanes of a mask."""
        emitter, zero = self.emitter, n.const(0)
        value = emitter.bind(value if mask is None else n.select(mask, value, self.held))
        if self._some is self._acc:
            emitter.statements.append(n.TileStore(self._acc, zero, value))
            return
        acc, number = n.TileLoad(self._acc, zero), n.TileLoad(self._numbers, zero)
        last = n.broadcast(n.const(self.rule.together - 1, INT32), n.LANES)
        full = n.call("equal", number, last)
        full = emitter.bind(full if mask is None else n.call("logical_and", full, mask))
        one = n.broadcast(n.const(1, INT32), n.LANES)
        next_ = n.call("add", number, one)
        next_ = next_ if mask is None else n.select(mask, next_, number)
        none = n.broadcast(n.const(0, INT32), n.LANES)
        empty = n.broadcast(self.rule.identity, n.LANES)
        emitter.statements += [
            n.TileStore(self._acc, zero, n.select(full, n.call(self.rule.op, value, acc), acc)),
            n.TileStore(self._some, zero, n.select(full, empty, value)),
            n.TileStore(self._numbers, zero, n.select(full, none, next_)),
        ]

    def turn(self, by: int) -> None:
        """Emit what turns all lanes."""
        if by:
            for tile in dict.fromkeys((self._acc, self._some, self._numbers)):
                turned = _turned(n.TileLoad(tile, n.const(0)), by)
                self.emitter.statements.append(n.TileStore(tile, n.const(0), turned))

    def folded(self, turned: int) -> n.Expr:
        """Return the result of all lanes, turned back."""
        held: n.Expr = n.TileLoad(self._acc, n.const(0))
        if self._some is not self._acc:
            held = self.emitter.bind(n.call(self.rule.op, self.held, held))
        return n.tree(self.rule.op, _turned(held, turned) if turned else held)


def _turned(vector: n.Expr, by: int) -> n.Expr:
    return n.shuffle(vector, vector, [(k + by) % n.LANES for k in range(n.LANES)])
