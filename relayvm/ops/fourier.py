"""Fast Fourier transforms of lines of any length, several lines at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from relayvm.base.dims import Dim, dim_add, dim_floordiv, dim_mul
from relayvm.base.dtypes import FLOAT64, INT64, DType
from relayvm.kernels import compute as te
from relayvm.kernels.compute import ScalarExpr, Tensor
from relayvm.kernels.schedules.program import Cell, Memory, Writer

# So many lines are transformed together, in the lanes of vectors.
TOGETHER = 16
# More factors than any length has.
_FACTORS = 64
_BLOCK = 1024

Complex = tuple[ScalarExpr, ScalarExpr]


def transformed(re: Tensor, im: Tensor, inverse: bool) -> tuple[Tensor, ...]:
    """Return the discrete Fourier transform of each column of two matrices [n, columns], its real
    and imaginary part; with `inverse` the inverse.

    Passes of Stockham's kind, one for each factor of n: 4, 2, then the odd primes. A pass takes
    n operations on vectors for each unit of its factor.
    """
    size, count = re.shape
    dtype, groups = re.dtype, dim_floordiv(dim_add(count, TOGETHER - 1), TOGETHER)

    def build(w: Writer, *memory: Memory) -> None:
        given, results = memory[:2], memory[2:]
        waves = _waves(w, size, inverse, dtype)
        # LLVM unrolls passes whose number it can find out.
        length = w.scratch((1,), INT64)
        with w.phase():
            length[0] = te.dim(size)
        held = dim_mul(size, TOGETHER)
        rooms = tuple(w.scratch((groups, 2, held), dtype) for _ in range(2))
        lost = w.scratch((groups, TOGETHER), dtype)
        with w.phase(groups) as group:
            first = w.let(group * TOGETHER)
            lines = w.let(te.scalar("minimum", te.dim(count) - first, TOGETHER))
            passes = _Passes(w, size, group, lines, waves, rooms, lost)
            passes.copy_in(first, given)
            side = passes.run(length[0])
            scale = w.let(te.cast(te.scalar("divide", 1.0, _float(size, FLOAT64)), dtype))
            passes.copy_out(first, results, side, scale if inverse else None)

    kinds = [(re.shape, dtype)] * 2
    return te.program(kinds, [re, im], build, dim_mul(dim_mul(count, size), _FACTORS), "fourier")


def _waves(w: Writer, size: Dim, inverse: bool, dtype: DType) -> tuple[Memory, Memory]:
    """Write cosines and sines of all parts of a turn."""
    waves = w.scratch((size,), dtype), w.scratch((size,), dtype)
    blocks = dim_floordiv(dim_add(size, _BLOCK - 1), _BLOCK)
    with w.phase(blocks) as block:

        def step(k: ScalarExpr) -> None:
            angle = te.scalar("divide", te.cast(k, FLOAT64) * (2 * math.pi), _float(size, FLOAT64))
            sine = te.scalar("sin", angle)
            waves[0][k] = te.cast(te.scalar("cos", angle), dtype)
            waves[1][k] = te.cast(sine if inverse else te.scalar("negative", sine), dtype)

        begin = w.let(block * _BLOCK)
        w.vectors(begin, te.scalar("minimum", begin + _BLOCK, te.dim(size)), step)
    return waves


def _float(size: Dim, dtype: DType) -> ScalarExpr:
    return te.cast(te.dim(size), dtype)


@dataclass(eq=False)
class _Passes:
    """Writes the passes over one group of lines.

    Before a pass there are `stride / lines` transforms of `rest` elements each, interleaved:
    element k of them lies `k * stride` behind the first.
    """

    w: Writer
    size: Dim
    group: ScalarExpr
    lines: ScalarExpr
    waves: tuple[Memory, ...]
    rooms: tuple[Memory, ...]
    lost: Memory

    def copy_in(self, first: ScalarExpr, given: Sequence[Memory]) -> None:
        """Copy the lines to the first side of the room, and note which are not finite."""
        w = self.w

        def step(j: ScalarExpr) -> None:
            lost = w.cell(te.const(0.0, given[0].dtype))
            with w.loop(0, self.size) as k:
                begin = w.let(k * self.lines)
                for source, room in zip(given, self.rooms):
                    value = w.let(source[k, w.shifted(j, first)])
                    room[self.group, 0, w.shifted(j, begin)] = value
                    lost.value = lost.value + value * 0.0
            self.lost[self.group, j] = lost.value

        w.vectors(0, self.lines, step)

    def copy_out(
        self,
        first: ScalarExpr,
        results: Sequence[Memory],
        side: ScalarExpr,
        scale: ScalarExpr | None,
    ) -> None:
        """Copy the lines from a side of the room, times a number."""
        w = self.w

        def step(j: ScalarExpr) -> None:
            lost = w.let(self.lost[self.group, j])
            with w.loop(0, self.size) as k:
                begin = w.let(k * self.lines)
                for room, result in zip(self.rooms, results):
                    value = room[self.group, side, w.shifted(j, begin)]
                    value = value if scale is None else value * scale
                    result[k, w.shifted(j, first)] = value + lost

        w.vectors(0, self.lines, step)

    def run(self, length: ScalarExpr) -> ScalarExpr:
        """Write all passes; return the side of the room on which the result lies."""
        w = self.w
        rest, stride = w.cell(length), w.cell(self.lines)
        side = w.cell(te.const(0, INT64))
        going = w.cell(length > 1)
        with w.loop_while(0, _FACTORS, going):
            n, s = rest.value, stride.value
            source = w.let(te.index(side.value, 2, "clip"))
            factor = w.cell(te.const(4, INT64))
            with w.when((n % 4).equal(0)):
                self._four(n, s, source)
            with w.otherwise():
                self._find(n, factor)
                self._any(n, s, source, factor.value)
            p = factor.value
            rest.value = n // p
            stride.value = s * p
            side.value = 1 - source
            going.value = n > p
        return w.let(te.index(side.value, 2, "clip"))

    def _find(self, n: ScalarExpr, factor: Cell) -> None:
        """Set the least factor of a number."""
        w = self.w
        factor.value = te.const(2, INT64)
        going = w.cell(te.scalar("not_equal", n % 2, 0))
        with w.loop_while(0, te.dim(self.size), going):
            tried = w.let(factor.value + te.select(factor.value.equal(2), te.const(1, INT64), 2))
            over = tried * tried > n
            factor.value = te.select(over, n, tried)
            divides = (n % te.scalar("maximum", tried, 1)).equal(0)
            going.value = te.scalar("logical_not", te.scalar("logical_or", over, divides))

    def _wave(self, turns: ScalarExpr, scale: ScalarExpr) -> Complex:
        at = self.w.let(te.index(turns * scale, self.size, "clip"))
        return self.waves[0][at], self.waves[1][at]

    def _read(self, source: ScalarExpr, j: ScalarExpr, begin: ScalarExpr) -> Complex:
        at = self.w.shifted(j, begin)
        re, im = self.rooms
        return re[self.group, source, at], im[self.group, source, at]

    def _write(self, side: ScalarExpr, j: ScalarExpr, begin: ScalarExpr, value: Complex) -> None:
        at = self.w.shifted(j, begin)
        for room, part in zip(self.rooms, value):
            room[self.group, side, at] = part

    def _four(self, n: ScalarExpr, s: ScalarExpr, source: ScalarExpr) -> None:
        w, quarter = self.w, self.w.let(n // 4)
        scale = w.let(te.dim(self.size) // te.scalar("maximum", n, 1))
        target = w.let(1 - source)
        with w.loop(0, quarter) as k:
            turns = [self._wave(k * r, scale) for r in (1, 2, 3)]
            starts = [w.let((k + quarter * t) * s) for t in range(4)]
            ends = [w.let((k * 4 + r) * s) for r in range(4)]

            def step(j: ScalarExpr) -> None:
                a, b, c, d = (self._read(source, j, begin) for begin in starts)
                even, odd = _add(a, c), _add(b, d)
                low, high = _subtract(a, c), self._quarter_turn(_subtract(b, d))
                self._write(target, j, ends[0], _add(even, odd))
                found = (_add(low, high), _subtract(even, odd), _subtract(low, high))
                for value, turn, end in zip(found, turns, ends[1:]):
                    self._write(target, j, end, _multiply(value, turn))

            w.vectors(0, s, step)

    def _quarter_turn(self, value: Complex) -> Complex:
        """Return the product with the wave of a quarter: -i, or i for the inverse."""
        at = te.index(te.dim(self.size) // 4, self.size, "clip")
        sign = self.w.let(self.waves[1][self.w.let(at)])
        return te.scalar("negative", value[1]) * sign, value[0] * sign

    def _any(self, n: ScalarExpr, s: ScalarExpr, source: ScalarExpr, p: ScalarExpr) -> None:
        w = self.w
        part = w.let(n // te.scalar("maximum", p, 1))
        scale = w.let(te.dim(self.size) // te.scalar("maximum", n, 1))
        unit = w.let(part * scale)
        target = w.let(1 - source)
        with w.loop(0, part) as k, w.loop(0, p) as r:
            turn = self._wave(k * r, scale)
            begin, end = w.let(k * s), w.let((k * p + r) * s)

            def step(j: ScalarExpr) -> None:
                value = self._read(source, j, begin)
                re, im = w.cell(value[0]), w.cell(value[1])
                with w.loop(1, p) as t:
                    other = self._read(source, j, w.let((k + part * t) * s))
                    product = _multiply(other, self._wave((t * r) % p, unit))
                    re.value, im.value = re.value + product[0], im.value + product[1]
                self._write(target, j, end, _multiply((re.value, im.value), turn))

            w.vectors(0, s, step)


def _add(a: Complex, b: Complex) -> Complex:
    return a[0] + b[0], a[1] + b[1]


def _subtract(a: Complex, b: Complex) -> Complex:
    return a[0] - b[0], a[1] - b[1]


def _multiply(a: Complex, b: Complex) -> Complex:
    return a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]
