"""Fast Fourier transforms of lines whose known length is a product of two: each line as a matrix,
along its columns and then along its rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from relayvm.base.dims import Dim, dim_mul
from relayvm.base.dtypes import FLOAT64, INT64, DType
from relayvm.kernels import compute as te
from relayvm.kernels.compute import ScalarExpr, Tensor
from relayvm.kernels.schedules.program import Memory, Writer
from relayvm.ops.axes import product
from relayvm.ops.butterflies import WRITTEN, Complex, butterfly, multiply, point
from relayvm.ops.reshaping import unflattened

# Vectors have a line of the cache, or half of one where a length has no room for more.
_WIDTHS = {4: (16, 8), 8: (8,)}
# Vectors of the table that one round makes.
_BLOCK = 64
# Operations for each element of a pass, at least.
_PASS_WORK = 8


@dataclass(frozen=True)
class Square:
    """A length as a matrix: `rows` times `columns`, of which so many are transformed together."""

    rows: int
    columns: int
    width: int

    @staticmethod
    def of(size: Dim, dtype: DType) -> Square | None:
        """Return the most even one of a length; None where there is none, or it is not known."""
        if not isinstance(size, int) or _factors(size) is None:
            return None
        for width in _WIDTHS[dtype.itemsize_bytes]:
            for side in range(math.isqrt(size), width - 1, -1):
                if size % side == 0 and size // side % width == 0:
                    return Square(size // side, side, width)
                if size % side == 0 and side % width == 0:
                    return Square(side, size // side, width)
        return None

    @property
    def size(self) -> int:
        return self.rows * self.columns

    @property
    def wide_columns(self) -> int:
        """How many columns there are in whole vectors."""
        return -(-self.columns // self.width) * self.width


def _factors(size: int) -> tuple[int, ...] | None:
    """Return the factors of passes, the same ones together; None where one is not written out."""
    found = []
    twos = (size & -size).bit_length() - 1 if size else 0
    if twos % 2:
        found.append(2 if twos == 1 else 8)
        twos -= found[0].bit_length() - 1
    found += [4] * (twos // 2)
    rest = size // math.prod(found)
    for factor in (f for f in WRITTEN if f % 2):
        while rest % factor == 0 and rest:
            found.append(factor)
            rest //= factor
    return tuple(found) if rest == 1 else None


def transformed_squares(
    re: Tensor, im: Tensor, square: Square, inverse: bool
) -> tuple[Tensor, ...]:
    """Return the discrete Fourier transform of each line along the last axis, its real and
    imaginary part; with `inverse` the inverse.

    "The six-step way" (Bailey, "FFTs in external or hierarchical memory", 1990) without its last
    transpose: of the matrix of a line, whose element [k, j] is number `k * columns + j`, some
    columns at a time are transformed in a room of their own and written as rows of the result;
    then some columns of that are multiplied with points of a circle, transformed, and written to
    where they were. A room is walked by passes of Stockham's kind, in vectors across the columns.
    """
    dtype, shape = re.dtype, re.shape
    lines = product(shape[:-1])
    groups = -(-square.columns // square.width), square.rows // square.width

    def build(w: Writer, *memory: Memory) -> None:
        table = _table(w, square, inverse, dtype)
        rounds = sum(groups)
        with w.phase(dim_mul(lines, rounds), rounds) as number:
            line = w.let(te.index(number // rounds, lines, "clip"))
            of_line = w.let(number - line * rounds)
            size = 2, max(square.rows, square.columns), square.width
            rooms = w.room(size, dtype), w.room(size, dtype)
            step = _Step(w, square, table, rooms, unflattened(line, shape[:-1]), inverse)
            step.write(of_line, groups[0], memory[:2], memory[2:])

    passes = sum(len(_factors(n) or ()) + 1 for n in (square.rows, square.columns))
    work = dim_mul(lines, square.size * passes * _PASS_WORK)
    return te.program([(shape, dtype)] * 2, [re, im], build, work, "fourier")


def _table(w: Writer, square: Square, inverse: bool, dtype: DType) -> tuple[Memory, Memory]:
    """Write cosines and sines of `base + i * step` parts of a turn in rows: for the numbers b of
    columns of the result that are transformed together, and for one more, `b * width` times the
    places j of their elements; then for each of these places, j times the numbers of lanes; and
    last for the passes over columns of the line.
    """
    width, by_row = square.width, square.wide_columns // square.width
    firsts = by_row * (square.rows // width + 1)
    seconds = firsts + square.columns
    count = seconds + square.rows // width
    size = te.const(float(square.size), FLOAT64)
    found = w.scratch((count * width,), dtype), w.scratch((count * width,), dtype)
    with w.phase(-(-count // _BLOCK)) as block:
        begin = w.let(block * _BLOCK)
        with w.loop(begin, te.scalar("minimum", begin + _BLOCK, count)) as number:
            of_result = w.let(number // by_row)
            step = te.select(number < seconds, number - firsts, square.columns)
            step = w.let(te.select(number < firsts, of_result * width, step))
            place = te.select(number < seconds, te.const(0, INT64), number - seconds)
            place = w.let(te.select(number < firsts, number - of_result * by_row, place) * width)
            with w.lanes(width) as j:
                by = te.cast(step, FLOAT64)
                turns = te.scalar("fma", te.cast(j, FLOAT64), by, te.cast(place, FLOAT64) * by)
                values = point(turns, size, inverse, dtype)
                for memory, value in zip(found, values):
                    memory[w.shifted(j, number * width)] = value
    return found


@dataclass(eq=False)
class _Step:
    """Writes one round of a line: the transforms of some columns of it, or of the result."""

    w: Writer
    square: Square
    table: tuple[Memory, Memory]
    rooms: tuple[Memory, Memory]
    line: tuple[ScalarExpr, ...]
    inverse: bool
    # Whether columns of the result are transformed, and how many elements they have.
    is_last: ScalarExpr = field(init=False)
    length: ScalarExpr = field(init=False)

    def write(
        self, number: ScalarExpr, first: int, given: Sequence[Memory], results: Sequence[Memory]
    ) -> None:
        """Write a round by its number: `first` of them are of columns of the line."""
        w, square = self.w, self.square
        self.is_last = w.let(number >= first)
        self.length = self._pick(square.rows, square.columns)
        last_begin = square.columns - square.width
        begin = w.let(te.index(number * square.width, last_begin + 1, "clip"))
        own = w.let(te.index(number - first, square.rows // square.width, "clip"))
        with w.when(te.scalar("logical_not", self.is_last)):
            self._load(begin, given)
        with w.otherwise():
            self._load_result(own, results)
        side = self._passes()
        with w.when(te.scalar("logical_not", self.is_last)):
            self._store_rows(begin, side, results)
        with w.otherwise():
            self._store(own, side, results)

    def _pick(self, first: int, last: int) -> ScalarExpr:
        """Return a number for columns of the line, another for columns of the result."""
        one, other = te.const(first, INT64), te.const(last, INT64)
        return one if first == last else self.w.let(te.select(self.is_last, other, one))

    def _load(self, begin: ScalarExpr, given: Sequence[Memory]) -> None:
        """Copy columns of the line to the room; lines that are not finite become NaN."""
        w, square = self.w, self.square
        with w.lanes(square.width) as j:
            lost = [w.cell(te.const(0.0, m.dtype)) for m in given]
            with w.loop(0, square.rows) as k:
                place = (*self.line, w.shifted(j, w.let(k * square.columns + begin)))
                for memory, room, cell in zip(given, self.rooms, lost):
                    value = memory[place]
                    cell.value = te.scalar("fma", value, te.const(0.0, room.dtype), cell.value)
                    room[0, k, j] = value
            for room in self.rooms:
                room[0, 0, j] = room[0, 0, j] + lost[0].value + lost[1].value

    def _load_result(self, group: ScalarExpr, results: Sequence[Memory]) -> None:
        """Copy columns of the result to the room, each element turned by its place in the line."""
        w, square = self.w, self.square
        width = square.width
        lanes = (square.rows // width + 1) * square.wide_columns
        with w.lanes(width) as j, w.loop(0, square.columns) as k:
            place = (*self.line, w.shifted(j, w.let(k * square.rows + group * width)))
            value = results[0][place], results[1][place]
            own = w.let(group * square.wide_columns + k)
            one = self.table[0][own], self.table[1][own]
            at = w.shifted(j, w.let(k * width + lanes))
            turn = multiply((self.table[0][at], self.table[1][at]), one)
            for room, part in zip(self.rooms, multiply(value, turn)):
                room[0, k, j] = part

    def _passes(self) -> ScalarExpr:
        """Write the passes over the room; return on which side of it their result is."""
        w = self.w
        stride, side = w.cell(te.const(1, INT64)), w.cell(te.const(0, INT64))
        counts = [_factors(n) or () for n in (self.square.rows, self.square.columns)]
        for factor in sorted({*counts[0], *counts[1]}):
            with w.loop(0, self._pick(*(c.count(factor) for c in counts))):
                self._pass(factor, stride.value, side.value)
                stride.value = stride.value * factor
                side.value = 1 - side.value
        return w.let(te.index(side.value, 2, "clip"))

    def _pass(self, factor: int, stride: ScalarExpr, side: ScalarExpr) -> None:
        w, square = self.w, self.square
        most = max(square.rows, square.columns)
        source = w.let(te.index(side, 2, "clip"))
        target = w.let(1 - source)
        apart = w.let(self.length // factor)
        circle = self._pick(
            (square.rows // square.width + 1) * square.wide_columns + square.columns * square.width,
            square.rows // square.width * square.wide_columns,
        )
        with w.loop(0, w.let(apart // stride)) as k:
            before = w.let(k * stride)
            turns = [self._turn(w.let(circle + before * r)) for r in range(1, factor)]
            with w.loop(0, stride) as i, w.lanes(square.width) as j:
                begin = w.let(before + i)
                values = []
                for t in range(factor):
                    at = w.let(te.index(begin + apart * t, most, "clip"))
                    values.append((self.rooms[0][source, at, j], self.rooms[1][source, at, j]))
                low = w.let(begin + before * (factor - 1))
                for r, value in enumerate(butterfly(values, self.inverse)):
                    found = multiply(value, turns[r - 1]) if r else value
                    at = w.let(te.index(low + stride * r, most, "clip"))
                    for room, part in zip(self.rooms, found):
                        room[target, at, j] = part

    def _turn(self, at: ScalarExpr) -> Complex:
        place = self.w.let(te.index(at, self.table[0].shape[0], "clip"))
        return self.table[0][place], self.table[1][place]

    def _store_rows(self, begin: ScalarExpr, side: ScalarExpr, results: Sequence[Memory]) -> None:
        """Copy what was columns of the line to rows of the result."""
        w, square = self.w, self.square
        width = square.width
        with w.loop(0, square.rows // width) as block, w.lanes(width) as j:
            for room, result in zip(self.rooms, results):
                rows = [room[side, w.let(block * width + r), j] for r in range(width)]
                for number, column in enumerate(w.turned(rows)):
                    at = w.let((begin + number) * square.rows + block * width)
                    place = (*self.line, w.shifted(j, at))
                    result[place] = column

    def _store(self, group: ScalarExpr, side: ScalarExpr, results: Sequence[Memory]) -> None:
        """Copy columns to their places in the result."""
        w, square = self.w, self.square
        scale = 1 / square.size if self.inverse else None
        with w.lanes(square.width) as j, w.loop(0, square.columns) as k:
            at = w.let(k * square.rows + group * square.width)
            place = (*self.line, w.shifted(j, at))
            for room, result in zip(self.rooms, results):
                value = room[side, k, j]
                result[place] = value if scale is None else value * scale
