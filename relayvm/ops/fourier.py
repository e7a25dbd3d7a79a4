"""Fast Fourier transforms of lines of any length, several lines at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from relayvm.base.dims import Dim, dim_add, dim_floordiv, dim_min, dim_mul
from relayvm.base.dtypes import BOOL, FLOAT64, INT64, DType
from relayvm.kernels import compute as te
from relayvm.kernels.compute import ScalarExpr, Tensor
from relayvm.kernels.schedules.program import Cell, Memory, Writer
from relayvm.ops.butterflies import Complex, butterfly, multiply, point

# So many lines are transformed together, in the lanes of vectors.
TOGETHER = 16
# A length with a larger prime factor is transformed by a chirp.
_DIRECT = 40
# Passes by these factors are written out, for others there is a loop; fewer where any length must
# be ready, for LLVM takes as long for each.
_WRITTEN, _WRITTEN_FOR_ANY = (4, 2, 3, 5, 7), (4, 3, 5)
# More factors than any length has, and more than any power of two.
_FACTORS, _DOUBLINGS = 64, 40
_BLOCK = 1024
# Lines of so many elements are transformed by rounds, each of which does such a part of a stage.
_LONG, _PART = 1 << 14, 1 << 12
# Operations for each element of a pass, at least.
_PASS_WORK = 8

# The stages of a group of lines; those without a chirp have `LOAD`, `PASSES` and `STORE` alone.
_FILTER, _FILTER_PASSES, _KEEP, _LOAD, _PASSES, _MULTIPLY, _BACK, _STORE, _DONE = range(9)
# What is known of a group between rounds: the rest, the stride, the side of the room, the stage.
_STATE = 4


def transformed(re: Tensor, im: Tensor, inverse: bool) -> tuple[Tensor, ...]:
    """Return the discrete Fourier transform of each column of two matrices [n, columns], its real
    and imaginary part; with `inverse` the inverse.

    Passes of Stockham's kind, one for each factor of n: 4, 2, then the odd primes. A pass takes
    n operations on vectors for each unit of its factor. Where a prime factor is large, the
    transform is a convolution with a chirp (Bluestein, "A linear filtering approach to the
    computation of discrete Fourier transform", 1970), by transforms of a power of two from 2n - 1
    on.
    """
    size, count = re.shape
    dtype, groups = re.dtype, dim_floordiv(dim_add(count, TOGETHER - 1), TOGETHER)
    lengths = _Lengths.of(size)
    _, rounds = lengths.rounds()

    def build(w: Writer, *memory: Memory) -> None:
        given, results = memory[:2], memory[2:]
        length = lengths.write(w)
        waves = _waves(w, length, lengths.most, inverse, dtype)
        chirp = () if lengths.chirp is False else _chirp(w, size, inverse, dtype)
        held = dim_mul(lengths.most, dim_min(count, TOGETHER))
        rooms = tuple(w.scratch((groups, 2, held), dtype) for _ in range(2))
        kept = tuple(w.scratch((groups, lengths.most), dtype) for _ in chirp)
        lost = w.scratch((groups, TOGETHER), dtype)
        state = w.scratch((groups, _STATE), INT64)
        with w.phase(dim_mul(groups, rounds), rounds) as number:
            group = w.let(te.index(number // te.dim(rounds), groups, "clip"))
            first = w.let(group * TOGETHER)
            lines = w.let(te.scalar("minimum", te.dim(count) - first, TOGETHER))
            turn = _Turn.of(w, w.let(number - group * te.dim(rounds)), lengths)
            shape = _Shape(lengths, size, w.let(length[0]), w.let(length[1].equal(1)))
            memories = _Memories(waves, rooms, lost, chirp, kept)
            passes = _Passes(w, shape, group, lines, memories, turn, inverse)
            _Stages(passes, first, given, results, inverse).run(state)

    kinds = [(re.shape, dtype)] * 2
    work = dim_mul(dim_mul(count, lengths.most), lengths.stages * _PASS_WORK)
    return te.program(kinds, [re, im], build, work, "fourier")


@dataclass(frozen=True)
class _Lengths:
    """How lines of `size` elements are transformed: `chirp` is whether by one, None where that is
    not known yet; `most` how long transforms are at most; and `stages` how many passes and copies
    there are at most.
    """

    size: Dim
    chirp: bool | None
    most: Dim
    stages: int

    @staticmethod
    def of(size: Dim) -> _Lengths:
        if not isinstance(size, int):
            return _Lengths(size, None, dim_mul(size, 4), 3 * _DOUBLINGS + 5)
        factors, rest = 0, size
        for factor in (4, 2, *range(3, _DIRECT + 1)):
            while rest > 1 and rest % factor == 0:
                factors, rest = factors + 1, rest // factor
        if rest <= 1:
            return _Lengths(size, False, size, factors + 2)
        doublings = (2 * size - 2).bit_length()
        return _Lengths(size, True, 1 << doublings, 3 * ((doublings + 1) // 2) + 5)

    def written(self) -> tuple[tuple[int, ...], bool]:
        """Return by which factors the passes are written out, and whether there are others."""
        if not isinstance(self.most, int):
            return _WRITTEN_FOR_ANY, True
        rest, found = self.most, []
        for factor in _WRITTEN:
            while rest > 1 and rest % factor == 0:
                rest //= factor
                found.append(factor)
        return tuple(dict.fromkeys(found)), rest > 1

    def rounds(self) -> tuple[Dim, Dim]:
        """Return the blocks of a stage, and the rounds in which a group of lines is transformed:
        one for short lines; for others one for each block of each stage.
        """
        blocks = dim_floordiv(dim_add(self.most, _PART - 1), _PART)
        whole = dim_mul(blocks, self.stages)
        if isinstance(self.most, int):
            return (1, 1) if self.most < _LONG else (blocks, whole)
        is_long = dim_min(dim_floordiv(self.size, _LONG), 1)
        return (
            dim_add(dim_mul(dim_add(blocks, -1), is_long), 1),
            dim_add(dim_mul(dim_add(whole, -1), is_long), 1),
        )

    def write(self, w: Writer) -> Memory:
        """Write how long the transforms are, and 1 where they are of a chirp. It is in memory, for
        LLVM unrolls passes whose number it can find out.
        """
        found = w.scratch((2,), INT64)
        with w.phase():
            if self.chirp is not None:
                found[0], found[1] = te.dim(self.most), te.const(int(self.chirp), INT64)
            else:
                self._find(w, found)
        return found

    def _find(self, w: Writer, found: Memory) -> None:
        rest = w.cell(te.dim(self.size))
        with w.loop(2, _DIRECT + 1) as factor:
            divides = w.cell(
                te.scalar("logical_and", rest.value > 1, (rest.value % factor).equal(0))
            )
            with w.loop_while(0, _FACTORS, divides):
                rest.value = rest.value // te.scalar("maximum", factor, 1)
                divides.value = te.scalar(
                    "logical_and", rest.value > 1, (rest.value % factor).equal(0)
                )
        is_chirp = w.let(rest.value > 1)
        power = w.cell(te.const(1, INT64))
        wanted = w.let(te.dim(self.size) * 2 - 1)
        with w.loop(0, _DOUBLINGS):
            more = te.select(power.value < wanted, te.const(2, INT64), te.const(1, INT64))
            power.value = power.value * more
        found[0] = te.select(is_chirp, power.value, te.dim(self.size))
        found[1] = te.select(is_chirp, te.const(1, INT64), te.const(0, INT64))


@dataclass(frozen=True)
class _Turn:
    """What a round does: a block of the stage that a group has come to, or all stages."""

    begins: ScalarExpr
    steps: ScalarExpr  # at most so many
    block: ScalarExpr
    blocks: Dim

    @staticmethod
    def of(w: Writer, number: ScalarExpr, lengths: _Lengths) -> _Turn:
        """Return what a round of a group does, by its number."""
        most, (blocks, rounds) = te.const(lengths.stages, INT64), lengths.rounds()
        if rounds == 1:
            return _Turn(te.const(True, BOOL), most, te.const(0, INT64), 1)
        steps = w.let(te.select(te.dim(rounds).equal(1), most, te.const(1, INT64)))
        return _Turn(number.equal(0), steps, w.let(number % te.dim(blocks)), blocks)

    @property
    def is_last_block(self) -> ScalarExpr:
        """Whether the round does the last block of its stage."""
        return self.block >= te.dim(self.blocks) - 1

    def part(self, w: Writer, count: ScalarExpr) -> tuple[ScalarExpr, ScalarExpr]:
        """Return the part of so many steps that the round does."""
        if self.blocks == 1:
            return te.const(0, INT64), count
        share = w.let((count + (te.dim(self.blocks) - 1)) // te.dim(self.blocks))
        begin = w.let(te.scalar("maximum", self.block * share, 0))
        return begin, w.let(te.scalar("minimum", begin + share, count))


def _points(
    w: Writer,
    count: Dim,
    end: Callable[[], ScalarExpr],
    turns: Callable[[ScalarExpr], tuple[ScalarExpr, ScalarExpr]],
    inverse: bool,
    dtype: DType,
) -> tuple[Memory, Memory]:
    """Write cosines and sines of all numbers below an end, which is read there: of `turns` of each,
    so many parts of a full turn.
    """
    found = w.scratch((count,), dtype), w.scratch((count,), dtype)
    blocks = dim_floordiv(dim_add(count, _BLOCK - 1), _BLOCK)
    with w.phase(blocks) as block:
        last = w.let(end())

        def step(k: ScalarExpr) -> None:
            part, parts = turns(k)
            value = point(te.cast(part, FLOAT64), te.cast(parts, FLOAT64), inverse, dtype)
            for memory, coordinate in zip(found, value):
                memory[k] = coordinate

        begin = w.let(block * _BLOCK)
        most = te.scalar("minimum", begin + _BLOCK, te.dim(count))
        w.vectors(begin, te.scalar("minimum", most, last), step)
    return found


def _waves(
    w: Writer, length: Memory, most: Dim, inverse: bool, dtype: DType
) -> tuple[Memory, Memory]:
    """Write cosines and sines of all parts of a turn, that goes backwards unless `inverse`."""
    return _points(w, most, lambda: length[0], lambda k: (k, length[0]), inverse, dtype)


def _chirp(w: Writer, size: Dim, inverse: bool, dtype: DType) -> tuple[Memory, Memory]:
    """Write the chirp: k * k parts of half a turn that goes forwards unless `inverse`."""
    parts = te.scalar("maximum", te.dim(size) * 2, 1)
    turns = lambda k: (k * k % parts, parts)  # noqa: E731
    return _points(w, size, lambda: te.dim(size), turns, not inverse, dtype)


@dataclass(frozen=True)
class _Shape:
    """The length of the lines and that of the transforms, which may be of a chirp."""

    lengths: _Lengths
    size: Dim
    length: ScalarExpr
    is_chirp: ScalarExpr

    @property
    def most(self) -> Dim:
        return self.lengths.most


@dataclass(frozen=True)
class _Memories:
    """What groups share: `waves` and the `chirp`; and what each has of its own: two sides of a
    room for its lines, which of these are lost, and what is `kept` of the chirp's transform.
    """

    waves: tuple[Memory, ...]
    rooms: tuple[Memory, ...]
    lost: Memory
    chirp: tuple[Memory, ...]
    kept: tuple[Memory, ...]


@dataclass(eq=False)
class _Stages:
    """Writes the stages of one group of lines."""

    passes: _Passes
    first: ScalarExpr
    given: Sequence[Memory]
    results: Sequence[Memory]
    inverse: bool

    def run(self, state: Memory) -> None:
        """Write what a round does."""
        p = self.passes
        w, turn = p.w, p.turn
        start = te.select(p.shape.is_chirp, te.const(_FILTER, INT64), te.const(_LOAD, INT64))
        firsts = (te.const(1, INT64), te.const(1, INT64), te.const(0, INT64), start)
        kept = [w.cell(first) for first in firsts]
        rest, stride, side, stage = kept
        with w.when(te.scalar("logical_not", turn.begins)):
            for number, cell in enumerate(kept):
                cell.value = state[p.group, number]
        going = w.cell(stage.value < _DONE)
        with w.loop_while(0, turn.steps, going):
            now = w.let(stage.value)
            is_filter = now < _LOAD
            p.lines = w.let(te.select(is_filter, te.const(1, INT64), p.own_lines))
            p.side = w.let(te.index(side.value, 2, "clip"))
            factor = w.cell(te.const(1, INT64))
            is_pass = te.scalar("logical_or", now.equal(_FILTER_PASSES), now.equal(_PASSES))
            is_pass = w.let(te.scalar("logical_or", is_pass, now.equal(_BACK)))
            with w.when(is_pass):
                p.run(rest.value, stride.value, factor)
            with w.otherwise():
                self._other(now)
            with w.when(turn.is_last_block):
                self._advance(now, is_pass, factor, kept)
            going.value = stage.value < _DONE
        for number, cell in enumerate(kept):
            state[p.group, number] = cell.value

    def _advance(
        self, now: ScalarExpr, is_pass: ScalarExpr, factor: Cell, kept: Sequence[Cell]
    ) -> None:
        """Go on behind a pass, or to the next stage."""
        p, (rest, stride, side, stage) = self.passes, kept
        w = p.w
        with w.when(is_pass):
            by = factor.value
            rest.value = rest.value // te.scalar("maximum", by, 1)
            stride.value = stride.value * by
            side.value = 1 - p.side
        with w.otherwise():
            rest.value = p.shape.length
            stride.value = p.lines
            stage.value = now + 1
            with w.when(te.scalar("logical_or", now.equal(_KEEP), now.equal(_FILTER))):
                side.value = te.const(0, INT64)
        reached = w.let(stage.value)
        over = te.scalar("logical_or", reached.equal(_FILTER_PASSES), reached.equal(_PASSES))
        over = te.scalar("logical_or", over, reached.equal(_BACK))
        with w.when(te.scalar("logical_and", over, rest.value <= 1)):
            direct = te.scalar("logical_not", p.shape.is_chirp)
            stage.value = te.select(direct, te.const(_STORE, INT64), reached + 1)

    def _other(self, now: ScalarExpr) -> None:
        """Write the stages that are no passes."""
        w, chirp = self.passes.w, self.passes.memories.chirp
        with w.when(now.equal(_LOAD)):
            self._load()
        with w.when(now.equal(_STORE)):
            self._store()
        if not chirp:
            return
        with w.when(now.equal(_FILTER)):
            self._load_filter()
        with w.when(now.equal(_KEEP)):
            self._keep()
        with w.when(now.equal(_MULTIPLY)):
            self._multiply()

    def _load(self) -> None:
        """Copy the lines to the first side of the room, and note which are not finite."""
        p, size = self.passes, self.passes.shape.size
        w, room = p.w, p.memories.rooms
        part = p.turn.part(w, p.shape.length)

        def step(j: ScalarExpr) -> None:
            lost = w.cell(te.const(0.0, room[0].dtype))
            with w.when(part[0] > 0):
                lost.value = p.memories.lost[p.group, j]
            with w.loop(*part) as k:
                at = w.let(te.index(k, size, "clip"))
                value = [w.let(m[at, w.shifted(j, self.first)]) for m in self.given]
                for v in value:
                    lost.value = lost.value + v * 0.0
                p.write_at(te.const(0, INT64), j, w.let(k * p.lines), self._chirped(value, k, at))
            p.memories.lost[p.group, j] = lost.value

        w.vectors(0, p.lines, step)

    def _chirped(self, value: Sequence[ScalarExpr], k: ScalarExpr, at: ScalarExpr) -> Complex:
        """Return an element as it is transformed: turned back by the chirp, 0 behind the line."""
        p = self.passes
        turned = self._turned((value[0], value[1]), at)
        if not p.memories.chirp:
            return turned
        inside = k < te.dim(p.shape.size)
        zero = te.const(0.0, value[0].dtype)
        return te.select(inside, turned[0], zero), te.select(inside, turned[1], zero)

    def _turned(self, value: Complex, at: ScalarExpr) -> Complex:
        """Return a value turned back by the chirp, if there is one."""
        p = self.passes
        if not p.memories.chirp:
            return value
        cos, sin = (m[at] for m in p.memories.chirp)
        re, im = multiply(value, (cos, te.scalar("negative", sin)))
        is_chirp = p.shape.is_chirp
        return te.select(is_chirp, re, value[0]), te.select(is_chirp, im, value[1])

    def _load_filter(self) -> None:
        """Write the chirp to both ends of the room, as far as lines reach; 0 between."""
        p, size = self.passes, self.passes.shape.size
        w, length = p.w, p.shape.length
        with w.loop(*p.turn.part(w, length)) as k:
            place = w.let(te.scalar("minimum", k, length - k))
            at = w.let(te.index(place, size, "clip"))
            inside = w.let(place < te.dim(size))
            for memory, room in zip(p.memories.chirp, p.memories.rooms):
                zero = te.const(0.0, room.dtype)
                room[p.group, 0, k] = te.select(inside, memory[at], zero)

    def _keep(self) -> None:
        """Keep the transform of the chirp."""
        p = self.passes
        w, part = p.w, p.turn.part(p.w, p.shape.length)

        def step(k: ScalarExpr) -> None:
            for room, kept in zip(p.memories.rooms, p.memories.kept):
                kept[p.group, k] = room[p.group, p.side, k]

        w.vectors(*part, step)

    def _multiply(self) -> None:
        """Multiply by the transform of the chirp; the conjugate, for the way back."""
        p = self.passes
        w = p.w
        with w.loop(*p.turn.part(w, p.shape.length)) as k:
            at = w.let(te.index(k, p.shape.most, "clip"))
            by = tuple(w.let(m[p.group, at]) for m in p.memories.kept)
            begin = w.let(k * p.lines)

            def step(j: ScalarExpr) -> None:
                re, im = multiply(p.read_at(p.side, j, begin), (by[0], by[1]))
                p.write_at(p.side, j, begin, (re, te.scalar("negative", im)))

            w.vectors(0, p.lines, step)

    def _store(self) -> None:
        """Copy the lines from the room, times a number."""
        p, size = self.passes, self.passes.shape.size
        w, dtype = p.w, self.results[0].dtype
        part = p.turn.part(w, te.dim(size))
        scale = self._scale(dtype)

        def step(j: ScalarExpr) -> None:
            lost = w.let(p.memories.lost[p.group, j])
            with w.loop(*part) as k:
                re, im = p.read_at(p.side, j, w.let(k * p.lines))
                if p.memories.chirp:
                    is_chirp = p.shape.is_chirp
                    im = w.let(te.select(is_chirp, te.scalar("negative", im), im))
                value = self._turned((re, im), w.let(te.index(k, size, "clip")))
                for part_of, result in zip(value, self.results):
                    scaled = part_of if scale is None else part_of * scale
                    result[k, w.shifted(j, self.first)] = scaled + lost

        w.vectors(0, p.lines, step)

    def _scale(self, dtype: DType) -> ScalarExpr | None:
        """Return what the inverse and the way back from a chirp leave to multiply by."""
        p = self.passes
        one = te.const(1.0, FLOAT64)
        divisor = _float(p.shape.size, FLOAT64) if self.inverse else one
        if p.memories.chirp:
            length = te.cast(p.shape.length, FLOAT64)
            divisor = divisor * te.select(p.shape.is_chirp, length, one)
        elif not self.inverse:
            return None
        return p.w.let(te.cast(te.scalar("divide", 1.0, divisor), dtype))


def _float(size: Dim, dtype: DType) -> ScalarExpr:
    return te.cast(te.dim(size), dtype)


@dataclass(eq=False)
class _Passes:
    """Writes the passes over one group of lines, from one side of the room to the other.

    Before a pass there are `stride / lines` transforms of `rest` elements each, interleaved:
    element k of them lies `k * stride` behind the first.
    """

    w: Writer
    shape: _Shape
    group: ScalarExpr
    own_lines: ScalarExpr
    memories: _Memories
    turn: _Turn
    inverse: bool
    # Of the stage that is written.
    lines: ScalarExpr = field(init=False)
    side: ScalarExpr = field(init=False)

    def run(self, rest: ScalarExpr, stride: ScalarExpr, factor: Cell) -> None:
        """Write a pass, and set its factor."""
        self._choose(self.w.let(rest), self.w.let(stride), factor, *self.shape.lengths.written())

    def _choose(
        self, n: ScalarExpr, s: ScalarExpr, factor: Cell, factors: Sequence[int], has_others: bool
    ) -> None:
        """Write a pass by the first of some factors that divides n, or where there are others by
        one that is found.
        """
        if not factors:
            if has_others:
                self._find(n, factor)
                self._any(n, s, self.side, factor.value)
            return
        first, *others = factors
        if not others and not has_others:
            factor.value = te.const(first, INT64)
            self._written(first, n, s, self.side)
            return
        with self.w.when((n % first).equal(0)):
            factor.value = te.const(first, INT64)
            self._written(first, n, s, self.side)
        with self.w.otherwise():
            self._choose(n, s, factor, others, has_others)

    def _find(self, n: ScalarExpr, factor: Cell) -> None:
        """Set the least factor of a number."""
        w = self.w
        factor.value = te.const(2, INT64)
        going = w.cell(te.scalar("not_equal", n % 2, 0))
        with w.loop_while(0, _DIRECT, going):
            tried = w.let(factor.value + te.select(factor.value.equal(2), te.const(1, INT64), 2))
            over = tried * tried > n
            factor.value = te.select(over, n, tried)
            divides = (n % te.scalar("maximum", tried, 1)).equal(0)
            going.value = te.scalar("logical_not", te.scalar("logical_or", over, divides))

    def _wave(self, turns: ScalarExpr, scale: ScalarExpr) -> Complex:
        at = self.w.let(te.index(turns * scale, self.shape.most, "clip"))
        return self.memories.waves[0][at], self.memories.waves[1][at]

    def read_at(self, source: ScalarExpr, j: ScalarExpr, begin: ScalarExpr) -> Complex:
        at = self.w.shifted(j, begin)
        re, im = self.memories.rooms
        return re[self.group, source, at], im[self.group, source, at]

    def write_at(self, side: ScalarExpr, j: ScalarExpr, begin: ScalarExpr, value: Complex) -> None:
        at = self.w.shifted(j, begin)
        for room, part in zip(self.memories.rooms, value):
            room[self.group, side, at] = part

    def _written(self, p: int, n: ScalarExpr, s: ScalarExpr, source: ScalarExpr) -> None:
        """Write a pass whose transforms of p elements are written out."""
        w, part = self.w, self.w.let(n // p)
        scale = w.let(self.shape.length // te.scalar("maximum", n, 1))
        target = w.let(1 - source)
        begin, end = self.turn.part(w, w.let(part * s))
        with w.loop(begin // self._some(s), self._above(end, s)) as k:
            turns = [self._wave(k * r, scale) for r in range(1, p)]
            starts = [w.let((k + part * t) * s) for t in range(p)]
            ends = [w.let((k * p + r) * s) for r in range(p)]

            def step(j: ScalarExpr) -> None:
                found = butterfly([self.read_at(source, j, at) for at in starts], self.inverse)
                self.write_at(target, j, ends[0], found[0])
                for value, turn, at in zip(found[1:], turns, ends[1:]):
                    self.write_at(target, j, at, multiply(value, turn))

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

    def _any(self, n: ScalarExpr, s: ScalarExpr, source: ScalarExpr, p: ScalarExpr) -> None:
        w = self.w
        part = w.let(n // te.scalar("maximum", p, 1))
        scale = w.let(self.shape.length // te.scalar("maximum", n, 1))
        unit = w.let(part * scale)
        target = w.let(1 - source)
        whole = w.let(p * s)
        first, last = self.turn.part(w, w.let(part * whole))
        loop = w.loop(first // self._some(whole), self._above(last, whole))
        with loop as k, w.loop(*self._turns(k, p, s, (first, last))) as r:
            turn = self._wave(k * r, scale)
            begin, end = w.let(k * s), w.let((k * p + r) * s)

            def step(j: ScalarExpr) -> None:
                value = self.read_at(source, j, begin)
                re, im = w.cell(value[0]), w.cell(value[1])
                with w.loop(1, p) as t:
                    other = self.read_at(source, j, w.let((k + part * t) * s))
                    product = multiply(other, self._wave((t * r) % p, unit))
                    re.value, im.value = re.value + product[0], im.value + product[1]
                self.write_at(target, j, end, multiply((re.value, im.value), turn))

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
