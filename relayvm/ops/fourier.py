"""Fast Fourier transforms of lines of any length, several lines at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from relayvm.base.dims import Dim, dim_add, dim_floordiv, dim_min, dim_mul
from relayvm.base.dtypes import BOOL, FLOAT64, INT64, DType
from relayvm.kernels import compute as te
from relayvm.kernels.compute import ScalarExpr, Tensor
from relayvm.kernels.schedules.program import Cell, Memory, Writer

# So many lines are transformed together, in the lanes of vectors.
TOGETHER = 16
# More factors than any length has.
_FACTORS = 64
_BLOCK = 1024
# Lines of so many elements are transformed by rounds, each of which does such a part of a pass.
_LONG, _PART = 1 << 14, 1 << 12
# What is known of a transform between rounds: the rest, the stride, the side of the room, and
# whether the result is copied.
_STATE = 4
# Operations for each element of a pass, at least.
_PASS_WORK = 8

Complex = tuple[ScalarExpr, ScalarExpr]


def transformed(re: Tensor, im: Tensor, inverse: bool) -> tuple[Tensor, ...]:
    """Return the discrete Fourier transform of each column of two matrices [n, columns], its real
    and imaginary part; with `inverse` the inverse.

    Passes of Stockham's kind, one for each factor of n: 4, 2, then the odd primes. A pass takes
    n operations on vectors for each unit of its factor.
    """
    size, count = re.shape
    dtype, groups = re.dtype, dim_floordiv(dim_add(count, TOGETHER - 1), TOGETHER)
    blocks, rounds = _rounds(size)

    def build(w: Writer, *memory: Memory) -> None:
        given, results = memory[:2], memory[2:]
        waves = _waves(w, size, inverse, dtype)
        # LLVM unrolls passes whose number it can find out.
        length = w.scratch((1,), INT64)
        with w.phase():
            length[0] = te.dim(size)
        held = dim_mul(size, dim_min(count, TOGETHER))
        rooms = tuple(w.scratch((groups, 2, held), dtype) for _ in range(2))
        lost = w.scratch((groups, TOGETHER), dtype)
        state = w.scratch((groups, _STATE), INT64)
        with w.phase(dim_mul(groups, rounds), rounds) as number:
            group = w.let(te.index(number // te.dim(rounds), groups, "clip"))
            first = w.let(group * TOGETHER)
            lines = w.let(te.scalar("minimum", te.dim(count) - first, TOGETHER))
            turn = _Turn.of(w, w.let(number - group * te.dim(rounds)), rounds, blocks)
            passes = _Passes(w, size, group, lines, waves, rooms, lost, turn)
            with w.when(turn.begins):
                passes.copy_in(first, given)
            side, ends = passes.run(length[0], state)
            scale = w.let(te.cast(te.scalar("divide", 1.0, _float(size, FLOAT64)), dtype))
            with w.when(ends):
                passes.copy_out(first, results, side, scale if inverse else None)

    kinds = [(re.shape, dtype)] * 2
    work = dim_mul(dim_mul(count, size), (_passes(size) + 2) * _PASS_WORK)
    return te.program(kinds, [re, im], build, work, "fourier")


def _passes(size: Dim) -> int:
    """Return how many passes a transform has at most."""
    if not isinstance(size, int):
        return _FACTORS
    count, rest, factor = 0, size, 4
    while rest > 1:
        if rest % factor:
            factor = 2 if factor == 4 else factor + (1 if factor == 2 else 2)
            factor = rest if factor * factor > rest and factor > 4 else factor
            continue
        count, rest = count + 1, rest // factor
    return count


def _rounds(size: Dim) -> tuple[Dim, Dim]:
    """Return the blocks of a pass, and the rounds in which a group of lines is transformed: one for
    short lines; for others one for each block of a copy, of each pass and of the copy back.
    """
    blocks = dim_floordiv(dim_add(size, _PART - 1), _PART)
    whole = dim_mul(blocks, _passes(size) + 2)
    if isinstance(size, int):
        return (1, 1) if size < _LONG else (blocks, whole)
    is_long = dim_min(dim_floordiv(size, _LONG), 1)
    return (
        dim_add(dim_mul(dim_add(blocks, -1), is_long), 1),
        dim_add(dim_mul(dim_add(whole, -1), is_long), 1),
    )


@dataclass(frozen=True)
class _Turn:
    """What a round does: a block of the copy, of a pass, or of the copy back, until that is done;
    or all of them.
    """

    begins: ScalarExpr
    whole: ScalarExpr
    passes: ScalarExpr  # at most so many
    block: ScalarExpr
    blocks: Dim

    @staticmethod
    def of(w: Writer, number: ScalarExpr, rounds: Dim, blocks: Dim) -> _Turn:
        """Return what a round of a group does, by its number."""
        if rounds == 1:
            yes = te.const(True, BOOL)
            return _Turn(yes, yes, te.const(_FACTORS, INT64), te.const(0, INT64), 1)
        whole = w.let(te.dim(rounds).equal(1))
        begins = w.let(number < te.dim(blocks))
        one = te.select(begins, te.const(0, INT64), te.const(1, INT64))
        passes = w.let(te.select(whole, te.const(_FACTORS, INT64), one))
        return _Turn(begins, whole, passes, w.let(number % te.dim(blocks)), blocks)

    @property
    def is_last_block(self) -> ScalarExpr:
        """Whether the round does the last block of its pass."""
        return self.block >= te.dim(self.blocks) - 1

    def part(self, w: Writer, count: ScalarExpr) -> tuple[ScalarExpr, ScalarExpr]:
        """Return the part of so many steps that the round does."""
        if self.blocks == 1:
            return te.const(0, INT64), count
        share = w.let((count + (te.dim(self.blocks) - 1)) // te.dim(self.blocks))
        begin = w.let(te.scalar("maximum", self.block * share, 0))
        return begin, w.let(te.scalar("minimum", begin + share, count))


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
    turn: _Turn

    def copy_in(self, first: ScalarExpr, given: Sequence[Memory]) -> None:
        """Copy the lines to the first side of the room, and note which are not finite."""
        w = self.w

        part = self.turn.part(w, te.dim(self.size))

        def step(j: ScalarExpr) -> None:
            lost = w.cell(te.const(0.0, given[0].dtype))
            with w.when(part[0] > 0):
                lost.value = self.lost[self.group, j]
            with w.loop(*part) as k:
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
        part = self.turn.part(w, te.dim(self.size))

        def step(j: ScalarExpr) -> None:
            lost = w.let(self.lost[self.group, j])
            with w.loop(*part) as k:
                begin = w.let(k * self.lines)
                for room, result in zip(self.rooms, results):
                    value = room[self.group, side, w.shifted(j, begin)]
                    value = value if scale is None else value * scale
                    result[k, w.shifted(j, first)] = value + lost

        w.vectors(0, self.lines, step)

    def run(self, length: ScalarExpr, state: Memory) -> tuple[ScalarExpr, ScalarExpr]:
        """Write the passes of a round; return the side of the room on which the result lies, and
        whether the round copies it.
        """
        w, turn = self.w, self.turn
        firsts = length, self.lines, te.const(0, INT64), te.const(0, INT64)
        kept = [w.cell(first) for first in firsts]
        rest, stride, side, done = kept
        with w.when(te.scalar("logical_not", turn.begins)):
            for number, cell in enumerate(kept):
                cell.value = state[self.group, number]
        going = w.cell(rest.value > 1)
        over = te.scalar("logical_not", te.scalar("logical_or", going.value, turn.begins))
        over = te.scalar("logical_and", over, done.value.equal(0))
        ends = w.let(te.scalar("logical_or", turn.whole, over))
        with w.loop_while(0, turn.passes, going):
            n, s = rest.value, stride.value
            source = w.let(te.index(side.value, 2, "clip"))
            factor = w.cell(te.const(4, INT64))
            with w.when((n % 4).equal(0)):
                self._four(n, s, source)
            with w.otherwise():
                self._find(n, factor)
                self._any(n, s, source, factor.value)
            with w.when(turn.is_last_block):
                p = factor.value
                rest.value = n // p
                stride.value = s * p
                side.value = 1 - source
                going.value = n > p
        with w.when(te.scalar("logical_and", ends, turn.is_last_block)):
            done.value = te.const(1, INT64)
        for number, cell in enumerate(kept):
            state[self.group, number] = cell.value
        return w.let(te.index(side.value, 2, "clip")), ends

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
        begin, end = self.turn.part(w, w.let(quarter * s))
        with w.loop(begin // self._some(s), self._above(end, s)) as k:
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

            self._steps(s, begin - k * s, end - k * s, step)

    def _some(self, number: ScalarExpr) -> ScalarExpr:
        """Return a number that is above 0 so that it can divide."""
        return self.w.let(te.scalar("maximum", number, 1))

    def _above(self, end: ScalarExpr, step: ScalarExpr) -> ScalarExpr:
        """Return how many steps reach an end."""
        return self.w.let((end + (step - 1)) // self._some(step))

    def _steps(
        self, s: ScalarExpr, begin: ScalarExpr, end: ScalarExpr, step: Callable[[ScalarExpr], None]
    ) -> None:
        """Run a step for those of `s` places which the part of the round holds."""
        if self.turn.blocks == 1:
            self.w.vectors(0, s, step)
            return
        low = self.w.let(te.scalar("maximum", begin, 0))
        self.w.vectors(low, self.w.let(te.scalar("minimum", end, s)), step)

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
        whole = w.let(p * s)
        first, last = self.turn.part(w, w.let(part * whole))
        loop = w.loop(first // self._some(whole), self._above(last, whole))
        with loop as k, w.loop(*self._turns(k, p, s, (first, last))) as r:
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

            self._steps(s, first - end, last - end, step)

    def _turns(
        self, k: ScalarExpr, p: ScalarExpr, s: ScalarExpr, part: tuple[ScalarExpr, ScalarExpr]
    ) -> tuple[ScalarExpr, ScalarExpr]:
        """Return from which to which of `p` results of a transform the part of the round goes."""
        if self.turn.blocks == 1:
            return te.const(0, INT64), p
        w = self.w
        before = w.let(k * p * s)
        low = te.scalar("maximum", (part[0] - before) // self._some(s), 0)
        return w.let(low), w.let(te.scalar("minimum", self._above(part[1] - before, s), p))


def _add(a: Complex, b: Complex) -> Complex:
    return a[0] + b[0], a[1] + b[1]


def _subtract(a: Complex, b: Complex) -> Complex:
    return a[0] - b[0], a[1] - b[1]


def _multiply(a: Complex, b: Complex) -> Complex:
    return a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]
