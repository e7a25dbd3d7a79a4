"""Positions of extremes: one element at a time, or many lanes that each keep what they met.

The answer is a position, so that the order of comparisons does not matter: the extreme that is
first (or last) in row-major order of the reduced box; NaN is the extreme where there is one.
"""

from __future__ import annotations

from relayvm.base.dtypes import INT32, INT64, DType
from relayvm.kernels import compute as c
from relayvm.kernels import loops as n
from relayvm.kernels.schedules.boxes import (
    AxisValues,
    box_loops,
    identity,
    lane_loop,
    product,
    run_frame,
)
from relayvm.kernels.schedules.emit import Emitter, Frame

# Four vectors of float32, whose comparisons do not wait for each other.
MOST_LANES = 64


def arg_serial(emitter: Emitter, reduction: c.ArgReduce, frame: Frame, lanes: int = 1) -> n.Expr:
    """Find positions with loops over the box; each of the lanes is another result."""
    extremes = _Extremes(emitter, reduction, lanes, _length(emitter, reduction))

    def step(inner: AxisValues, flat: n.Expr) -> None:
        values = dict(frame)
        values.update({a: e for a, e in inner.items() if a is not None})
        extremes.meet(values, n.cast(flat, extremes.dtype), None)

    box_loops(emitter, reduction.axes, step)
    return emitter.bind(n.cast(extremes.where, reduction.dtype))


def arg_row(emitter: Emitter, reduction: c.ArgReduce, frame: Frame) -> n.Expr:
    """Find one position with the reduced box, which lies in a row of memory, in lanes."""
    length = _length(emitter, reduction)
    lanes = MOST_LANES // 2 if reduction.body.dtype.bits > 32 else MOST_LANES
    while isinstance(length, n.Const) and lanes > n.LANES and int(length.value) < lanes:
        lanes //= 2
    extremes = _Extremes(emitter, reduction, lanes, length)

    def step(k: n.Expr, mask: n.Expr | None) -> None:
        inner = run_frame(emitter, reduction.axes, frame, k, lanes)
        extremes.meet(inner, n.cast(k, extremes.dtype), mask)
        emitter.run = None

    lane_loop(emitter, length, step, lanes=lanes)
    return emitter.bind(n.cast(extremes.folded(length), reduction.dtype))


def _length(emitter: Emitter, reduction: c.ArgReduce) -> n.Expr:
    return product(tuple(emitter.context.dim(axis.extent) for axis in reduction.axes))


class _Extremes:
    """Tiles of the extremes that lanes have met, and where they were."""

    def __init__(
        self, emitter: Emitter, reduction: c.ArgReduce, lanes: int, length: n.Expr
    ) -> None:
        self.emitter, self.reduction, self.lanes = emitter, reduction, lanes
        self.dtype: DType = INT64
        if isinstance(length, n.Const) and int(length.value) < INT32.max:
            self.dtype = INT32
        names, value = emitter.context.names, reduction.body.dtype
        self._best = n.Tile(names.fresh("best"), value, lanes, 1)
        self._where = n.Tile(names.fresh("where"), self.dtype, lanes, 1)
        least = identity("max" if reduction.kind == "argmax" else "min", value)
        zero = n.const(0, self.dtype)
        emitter.statements += [
            n.Declare(self._best),
            n.Declare(self._where),
            n.TileStore(self._best, n.const(0), n.broadcast(least, lanes)),
            n.TileStore(self._where, n.const(0), n.broadcast(zero, lanes)),
        ]

    @property
    def best(self) -> n.Expr:
        """The extremes so far."""
        return n.TileLoad(self._best, n.const(0))

    @property
    def where(self) -> n.Expr:
        """Where they are; of lanes that lie in a row, where their vector begins."""
        return n.TileLoad(self._where, n.const(0))

    def meet(self, frame: Frame, position: n.Expr, mask: n.Expr | None) -> None:
        """Emit the comparison with one more element in every lane."""
        emitter = self.emitter
        value = emitter.bind(n.broadcast(emitter.value(self.reduction.body, frame), self.lanes))
        held = emitter.bind(self.best)
        better = self.better(value, held)
        if mask is not None:
            better = n.call("logical_and", better, mask)
        better = emitter.bind(better)
        emitter.statements += [
            n.TileStore(self._best, n.const(0), n.select(better, value, held)),
            n.TileStore(self._where, n.const(0), n.select(better, position, self.where)),
        ]

    def better(self, value: n.Expr, held: n.Expr) -> n.Expr:
        """Return whether a later value takes the place of one that is held."""
        is_max = self.reduction.kind == "argmax"
        if self.reduction.select_last_index:
            better = n.call("greater_equal" if is_max else "less_equal", value, held)
            if not value.dtype.is_float:
                return better
            return n.call("logical_or", better, n.call("isnan", value))
        if not value.dtype.is_float:
            return n.call("greater" if is_max else "less", value, held)
        # The comparison fails where one of them is NaN.
        worse = n.call("less_equal" if is_max else "greater_equal", value, held)
        known = n.call("logical_not", n.call("isnan", held))
        return n.call("logical_and", n.call("logical_not", worse), known)

    def folded(self, length: n.Expr) -> n.Expr:
        """Return the position of the extreme of all lanes: the first or last that holds it."""
        emitter, lanes, is_last = self.emitter, self.lanes, self.reduction.select_last_index
        ramp = n.cast(n.Ramp(n.const(0), n.const(1), lanes), self.dtype)
        where = emitter.bind(n.call("add", self.where, ramp))
        is_short = not isinstance(length, n.Const) or int(length.value) < lanes
        if is_short and is_last:
            # Lanes without an element must not be the last.
            where = emitter.bind(n.select(n.Mask(length, lanes), where, n.const(-1, self.dtype)))
        best = emitter.bind(self.best)
        fold = "maximum" if self.reduction.kind == "argmax" else "minimum"
        extreme = emitter.bind(n.tree(fold, best))
        holds = n.call("equal", best, n.broadcast(extreme, lanes))
        if best.dtype.is_float:
            # The extreme is NaN then.
            holds = n.call("logical_or", holds, n.call("isnan", best))
        nowhere = n.const(-1 if is_last else self.dtype.max, self.dtype)
        where = emitter.bind(n.select(emitter.bind(holds), where, n.broadcast(nowhere, lanes)))
        place = n.tree("maximum" if is_last else "minimum", where)
        return n.call("maximum", emitter.bind(place), n.const(0, self.dtype))
