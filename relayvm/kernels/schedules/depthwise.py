"""Convolutions of one channel each: every result reads windows of its own, straight from memory.

Pixels run in lanes. The elements of a window are written out, each a vector of pixels, so that
weights and partials stay in registers; vectors inside the image need no masks.
"""

from __future__ import annotations

from itertools import pairwise, product

from relayvm.kernels import loops as n
from relayvm.kernels.index import simplify as s
from relayvm.kernels.schedules.contraction import finish, no_reduction
from relayvm.kernels.schedules.emit import Context, Emitter
from relayvm.kernels.schedules.grid import Ranges, Side, grid_phase
from relayvm.kernels.schedules.windows import Windows

# Elements of a window that are written out.
MAX_TAPS = 64
# Rows of pixels in a block.
LINES = 32
LINE = n.const(n.LANES)


def depthwise_phase(context: Context, windows: Windows) -> n.Phase | None:
    """Return the phase of a convolution without sharing, or None where it has no such form."""
    sizes = [int(e.value) for e in windows.sizes if isinstance(e, n.Const)]
    if windows.group != n.const(1) or len(sizes) < len(windows.sizes):
        return None
    taps = list(product(*map(range, sizes)))
    if not 0 < len(taps) <= MAX_TAPS:
        return None
    emitter = Emitter(context, no_reduction)
    emitter.decides = emitter.masks_steps = True
    sides = [Side(k, windows.extents[k], 1) for k in (*windows.outer, windows.row)]
    if windows.line is not None:
        sides.append(Side(windows.line, windows.extents[windows.line], LINES))
    planes = _Planes(context, windows, taps)
    return grid_phase(context, emitter, sides, lambda at: planes.block(emitter, at))


class _Planes:
    """The results of one channel at a time."""

    def __init__(self, context: Context, windows: Windows, taps: list[tuple[int, ...]]) -> None:
        self.context, self.windows, self.taps = context, windows, taps
        self.weights: list[n.Expr] = []

    def block(self, emitter: Emitter, ranges: Ranges) -> None:
        """Emit some rows of pixels of one channel."""
        w = self.windows
        place: list[n.Expr] = [n.const(0) for _ in w.extents]
        for k in (*w.outer, w.row):
            place[k] = ranges[k][0]
        self.weights = [
            emitter.bind(n.broadcast(w.coefficient(tuple(place), n.const(k)), n.LANES))
            for k in range(len(self.taps))
        ]
        if w.line is None:
            self._pixels(emitter, place)
            return
        begin, end = ranges[w.line]
        var = self.context.names.var("i")
        with emitter.block() as body:
            emitter.prover.add_range(var, begin, end)
            place[w.line] = var
            self._pixels(emitter, place)
        emitter.statements.append(n.For(var, begin, end, 1, tuple(body)))

    def _pixels(self, emitter: Emitter, place: list[n.Expr]) -> None:
        """Emit one row of pixels: the first vector, those inside the image, and the others."""
        width = self.windows.extents[self.windows.column]
        if not isinstance(width, n.Const):
            self._vectors(emitter, place, n.const(0), width, width)
            return
        known = int(width.value)
        reach = self.windows.sizes[-1]
        margin = int(reach.value) if isinstance(reach, n.Const) else 1
        inside = max(0, known - margin) // n.LANES * n.LANES
        edges = [0, *((n.LANES, inside) if inside > n.LANES else ()), known]
        for low, high in pairwise(edges):
            self._vectors(emitter, place, n.const(low), n.const(high), width)

    def _vectors(
        self,
        emitter: Emitter,
        place: list[n.Expr],
        begin: n.Expr,
        end: n.Expr,
        width: n.Expr,
    ) -> None:
        """Emit the vectors that begin in a part of a row."""
        if s.sub(end, begin) == n.const(0):
            return
        var = self.context.names.var("i")
        with emitter.block() as body:
            emitter.prover.add_range(var, begin, end, n.LANES)
            rest = s.sub(width, var)
            last = s.sub(width, n.const(n.LANES))
            if not emitter.prover.at_least_zero(s.polynomial(s.sub(last, var))):
                emitter.mask = n.Mask(rest, n.LANES)
            ramp = n.Ramp(var, n.const(1), n.LANES)
            here = (*place[: self.windows.column], ramp, *place[self.windows.column + 1 :])
            finish(emitter, self.windows.stage, here, [self._sum(emitter, here)], emitter.mask)
        emitter.statements.append(n.For(var, begin, end, n.LANES, tuple(body)))

    def _sum(self, emitter: Emitter, place: tuple[n.Expr, ...]) -> n.Expr:
        """Return the sums of products of a vector of pixels."""
        w = self.windows
        record = w.record(self.context, place)
        zero = n.broadcast(w.rule.identity, n.LANES)
        parts: list[n.Expr | None] = [None] * n.LANES
        for k, tap in enumerate(self.taps):
            frame = w.inside(record, tuple(map(n.const, tap)))
            value = n.broadcast(emitter.value(w.data, frame), n.LANES)
            old = parts[k % n.LANES]
            new = w.advanced(value, self.weights[k], zero if old is None else old)
            parts[k % n.LANES] = emitter.bind(new)
        return self._folded(emitter, parts, zero)

    def _folded(self, emitter: Emitter, parts: list[n.Expr | None], zero: n.Expr) -> n.Expr:
        """Return the partials folded in halves; those that are missing are added once, at the end.

        Adding 0.0 changes nothing but -0.0. A sum with one addend that is not -0.0 is not -0.0, so
        it does not matter where along the way it is added.
        """
        is_whole = all(part is not None for part in parts)
        while len(parts) > 1:
            half = len(parts) // 2
            parts = [self._both(emitter, a, b) for a, b in zip(parts[:half], parts[half:])]
        (total,) = parts
        assert total is not None
        return total if is_whole else emitter.bind(n.call(self.windows.rule.op, total, zero))

    def _both(self, emitter: Emitter, a: n.Expr | None, b: n.Expr | None) -> n.Expr | None:
        if a is None or b is None:
            return b if a is None else a
        return emitter.bind(n.call(self.windows.rule.op, a, b))
