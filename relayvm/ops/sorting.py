"""Sorts: stable, with NaN behind all numbers where the order ascends, before them where not."""

from __future__ import annotations

from typing import Any

import numpy as np

from relayvm.base.dims import Dim, dim_add, dim_floordiv, dim_min, dim_mul
from relayvm.base.dtypes import BOOL, INT32, INT64, INTEGERS, NUMERIC, DType, dtype_of
from relayvm.base.shapes import ShapeError, require_equal
from relayvm.ir.types import TensorType, TupleType
from relayvm.kernels import compute as te
from relayvm.kernels.compute import ScalarExpr, Tensor
from relayvm.kernels.schedules.program import Memory, Writer
from relayvm.ops.axes import product, require_axis, require_rank
from relayvm.ops.bisection import LEVELS, first_place, search_levels
from relayvm.ops.lines import from_lines, lines_of
from relayvm.ops.numeric import Array
from relayvm.ops.operator import Fusion, operator
from relayvm.ops.reshaping import unflattened
from relayvm.ops.schema import AnyTensor, SameDtype, like

SEARCHED = 1 << 10  # values that one round of a search looks for
# So many elements are found faster in one walk than by a sort.
FEW = 32
# Lines of so many elements are sorted faster by insertion.
SHORT = 48
# A line is sorted by digits of so many bits, the least first.
DIGIT_BITS = 8
DIGITS = 1 << DIGIT_BITS
# So many ranges of lines have counters of their own, and may be sorted at once.
RANGES = 64
# A line of so many elements is sorted by parts, between which a run can be ended.
LONG = 1 << 18


def comes_before(a: ScalarExpr, b: ScalarExpr, ascending: bool) -> ScalarExpr:
    """Return whether `a` stands before `b` and not beside it."""
    if not ascending:
        a, b = b, a
    less = a < b
    if not a.dtype.is_float:
        return less
    only_b = te.scalar(
        "logical_and", te.scalar("logical_not", te.scalar("isnan", a)), te.scalar("isnan", b)
    )
    return te.scalar("logical_or", less, only_b)


def sort_key(value: ScalarExpr, ascending: bool) -> ScalarExpr:
    """Return an unsigned integer of the same width that is less where `value` comes before.

    Values that stand beside each other have one key: both zeros, and all NaN.
    """
    dtype = value.dtype
    whole = dtype_of(f"uint{max(8, dtype.bits)}")
    key = te.cast(value, whole) if dtype.is_bool else te.scalar(f"bits_as_{whole}", value)
    sign = te.const(1 << (whole.bits - 1), whole)
    if dtype.is_float:
        # Numbers with a sign are ordered by their bits turned round.
        turned = te.scalar("bitwise_not", key)
        negative = te.scalar("greater_equal", key, sign)
        key = te.select(negative, turned, te.scalar("bitwise_or", key, sign))
        key = te.select(value.equal(0.0), sign, key)
        key = te.select(
            te.scalar("isnan", value), te.scalar("bitwise_not", te.const(0, whole)), key
        )
    elif dtype.kind == "int":
        key = te.scalar("bitwise_xor", key, sign)
    return key if ascending else te.scalar("bitwise_not", key)


class LineSort:
    """Writes phases that sort lines, stably: `keys`, and `places` with them where there are some.

    Memory comes in pairs, the second of each to work in; all are indexed by line and place. Short
    lines are sorted by insertion, others by the digits of `sort_key`, two of them a turn so that
    elements are back in the first memory.
    """

    def __init__(
        self,
        w: Writer,
        lines: tuple[Dim, Dim],
        ascending: bool,
        keys: tuple[Memory, Memory],
        places: tuple[Memory, Memory] | None = None,
    ) -> None:
        self.w, self.ascending = w, ascending
        self.count, self.size = lines
        self.keys, self.places = keys, places
        self.digits = max(2, keys[0].dtype.bits // DIGIT_BITS)

    def write(self) -> None:
        """Sort the lines that lie in the first of each pair."""
        if not isinstance(self.size, int):
            self._sort_lines()
            self._sort_long_lines(dim_mul(self.count, dim_min(dim_floordiv(self.size, LONG), 1)))
        elif self.size < LONG:
            self._sort_lines()
        else:
            self._sort_long_lines(self.count)

    def _counters(self, count: Dim) -> Memory:
        return self.w.scratch((count, self.digits, DIGITS), INT64)

    def _sort_lines(self) -> None:
        """Sort what lines are not long, each in one go; a range of them has counters."""
        w, count = self.w, self.count
        each = dim_floordiv(dim_add(count, RANGES - 1), RANGES)
        counts = self._counters(dim_min(count, RANGES))
        with w.phase(count, chain=each) as line:
            own = w.let(te.index(line // te.scalar("maximum", te.dim(each), 1), RANGES, "clip"))
            if isinstance(self.size, int):
                self._sort_line(line, counts, own, self.size <= SHORT)
                return
            size = w.let(te.dim(self.size))
            with w.when(size <= SHORT):
                self._sort_line(line, counts, own, True)
            with w.otherwise(), w.when(size < LONG):
                self._sort_line(line, counts, own, False)

    def _sort_line(self, line: ScalarExpr, counts: Memory, own: ScalarExpr, is_short: bool) -> None:
        if is_short:
            self._insert(line)
            return
        w, whole = self.w, (te.const(0, INT64), te.dim(self.size))
        self._clear(counts, own)
        self._count(line, whole, counts, own)
        for digit in range(0, self.digits, 2):
            with w.when(self._differ(line, counts, own, digit)):
                for here in (digit, digit + 1):
                    self._begin(counts, own, here)
                    self._place(line, whole, counts, own, here)

    def _sort_long_lines(self, count: Dim) -> None:
        """Sort lines by parts: all digits are counted at once, then each moves all elements."""
        w, lines = self.w, (count, self.size)
        counts = self._counters(count)
        differ = w.scratch((count, self.digits), BOOL)
        with w.parts(*lines, in_order=True) as (line, begin, end):
            with w.when(begin.equal(0)):
                self._clear(counts, line)
            self._count(line, (begin, end), counts, line)
        for digit in range(self.digits):
            turn = digit - digit % 2
            with w.parts(*lines, in_order=True) as (line, begin, end):
                with w.when(begin.equal(0)):
                    if digit == turn:
                        differ[line, turn] = self._differ(line, counts, line, turn)
                    self._begin(counts, line, digit)
                with w.when(differ[line, turn]):
                    self._place(line, (begin, end), counts, line, digit)

    def _insert(self, line: ScalarExpr) -> None:
        w, keys, places = self.w, self.keys[0], self.places
        with w.loop(0, self.size) as i:
            key = keys[line, i]
            place = places[0][line, i] if places else None
            hole = w.cell(i)
            last = te.scalar("maximum", i - 1, 0)
            first = comes_before(key, keys[line, last], self.ascending)
            going = w.cell(te.scalar("logical_and", i > 0, first))
            with w.loop_while(0, i, going):
                at = w.let(te.index(hole.value - 1, self.size))
                keys[line, at + 1] = keys[line, at]
                if places:
                    places[0][line, at + 1] = places[0][line, at]
                hole.value = at
                further = keys[line, te.scalar("maximum", at - 1, 0)]
                going.value = te.scalar(
                    "logical_and", at > 0, comes_before(key, further, self.ascending)
                )
            end = w.let(te.index(hole.value, self.size))
            keys[line, end] = key
            if places:
                assert place is not None
                places[0][line, end] = place

    def _clear(self, counts: Memory, own: ScalarExpr) -> None:
        for digit in range(self.digits):
            with self.w.loop(0, DIGITS) as k:
                counts[own, digit, k] = 0

    def _count(
        self, line: ScalarExpr, part: tuple[ScalarExpr, ScalarExpr], counts: Memory, own: ScalarExpr
    ) -> None:
        """Count how often each digit stands in a part of a line."""
        w = self.w
        with w.loop(*part) as i:
            key = w.let(sort_key(self.keys[0][line, i], self.ascending))
            for digit in range(self.digits):
                here = w.let(self._digit(key, digit))
                counts[own, digit, here] = counts[own, digit, here] + 1

    def _digit(self, key: ScalarExpr, digit: int) -> ScalarExpr:
        bits = key.dtype.bits
        if digit * DIGIT_BITS >= bits:
            return te.const(0, INT64)
        part = te.scalar("right_shift", key, te.const(digit * DIGIT_BITS, key.dtype))
        if bits > DIGIT_BITS:
            part = te.scalar("bitwise_and", part, te.const(DIGITS - 1, key.dtype))
        return te.index(te.cast(part, INT64), DIGITS, "clip")

    def _differ(self, line: ScalarExpr, counts: Memory, own: ScalarExpr, digit: int) -> ScalarExpr:
        """Return whether elements differ from the first one in the two digits of a turn."""
        w, differ = self.w, te.const(False, BOOL)
        first = w.let(sort_key(self.keys[0][line, te.const(0, INT64)], self.ascending))
        for here in (digit, digit + 1):
            number = counts[own, here, w.let(self._digit(first, here))]
            differ = te.scalar("logical_or", differ, te.scalar("less", number, te.dim(self.size)))
        return differ

    def _begin(self, counts: Memory, own: ScalarExpr, digit: int) -> None:
        """Turn numbers of elements into where those of a digit begin."""
        w = self.w
        before = w.cell(te.const(0, INT64))
        with w.loop(0, DIGITS) as k:
            number = w.let(counts[own, digit, k])
            counts[own, digit, k] = before.value
            before.value = before.value + number

    def _place(
        self,
        line: ScalarExpr,
        part: tuple[ScalarExpr, ScalarExpr],
        counts: Memory,
        own: ScalarExpr,
        digit: int,
    ) -> None:
        """Move a part of a line from one memory of each pair to the other, in order of a digit."""
        w, source, target = self.w, digit % 2, 1 - digit % 2
        with w.loop(*part) as i:
            element = w.let(self.keys[source][line, i])
            here = w.let(self._digit(sort_key(element, self.ascending), digit))
            at = w.let(te.index(counts[own, digit, here], self.size, "clip"))
            counts[own, digit, here] = at + 1
            self.keys[target][line, at] = element
            if self.places:
                self.places[target][line, at] = self.places[source][line, i]


def sorted_lines(data: Tensor, axis: int, ascending: bool, with_places: bool) -> tuple[Tensor, ...]:
    """Return the lines of a tensor sorted, and where each element stood (int64)."""
    lines = lines_of(data, axis)
    count, size = lines.shape
    kinds = [(lines.shape, data.dtype)] + [(lines.shape, INT64)] * with_places

    def build(w: Writer, given: Memory, *results: Memory) -> None:
        pairs = [(m, w.scratch((count, size), m.dtype)) for m in results]
        with w.parts(count, size) as (line, begin, end), w.loop(begin, end) as i:
            results[0][line, i] = given[line, i]
            if with_places:
                results[1][line, i] = i
        held = pairs[1] if with_places else None
        LineSort(w, (count, size), ascending, pairs[0], held).write()

    work = dim_mul(dim_mul(count, size), LEVELS)
    return te.program(kinds, [lines], build, work, "sorted")


def _first_lines(data: Tensor, axis: int, ascending: bool, kept: int) -> tuple[Tensor, ...]:
    """Return what comes first in the sorted lines of a tensor, and where it stood, in one walk.

    What was found so far is held in order; few elements come before the last of it.
    """
    lines = lines_of(data, axis)
    count, size = lines.shape

    def build(w: Writer, given: Memory, values: Memory, places: Memory) -> None:
        with w.walk_lines(count, size) as (line, i, _):
            value = given[line, i]
            held = w.let(te.scalar("minimum", i, kept))
            last = w.let(te.index(held - 1, kept, "clip"))
            better = comes_before(value, values[line, last], ascending)
            with w.when(te.scalar("logical_or", held < kept, better)):
                hole = w.cell(te.scalar("minimum", held, kept - 1))
                going = w.cell(te.const(True, BOOL))
                with w.loop_while(0, kept, going):
                    at = w.let(te.index(hole.value, kept))
                    before = w.let(te.index(at - 1, kept, "clip"))
                    other, where = values[line, before], places[line, before]
                    smaller = comes_before(value, other, ascending)
                    moves = w.let(te.scalar("logical_and", at > 0, smaller))
                    values[line, at] = te.select(moves, other, value)
                    places[line, at] = te.select(moves, where, i)
                    hole.value = before
                    going.value = moves

    kinds = [((count, kept), data.dtype), ((count, kept), INT64)]
    work = dim_mul(dim_mul(count, size), max(1, kept))
    return te.program(kinds, [lines], build, work, "first")


def sorted_places(data: Array, axis: int, ascending: bool) -> Array:
    """Return where the elements of an array in order stand along an axis: `argsort`."""
    if ascending:
        return np.argsort(data, axis=axis, kind="stable")
    # Stable where it descends: from the back, and turned round.
    back = np.argsort(np.flip(data, axis), axis=axis, kind="stable")
    return np.flip(data.shape[axis] - 1 - back, axis)


@operator("sort", fusion=Fusion.OPAQUE, ignored=("dtype",))
def sort(data: AnyTensor, *, axis: int = -1, is_ascend: bool = True) -> TensorType:
    """The elements along `axis` in ascending (or descending) order, NaN as the greatest.

    >>> %x = float32 [3, 1, 2]
    >>> sort(%x)
    [1, 2, 3]
    """
    require_axis(axis, data.rank)
    return TensorType(data.shape, data.dtype)


@sort.numpy
def _(data: Array, *, axis: int, is_ascend: bool) -> Array:
    return np.take_along_axis(data, sorted_places(data, axis, is_ascend), axis)


@sort.compute
def _(data: Tensor, *, axis: int, is_ascend: bool) -> Tensor:
    place = require_axis(axis, data.rank)
    (lines,) = sorted_lines(data, place, is_ascend, with_places=False)
    return from_lines(lines, data.shape, place, "sort")


@operator("argsort", fusion=Fusion.OPAQUE, no_gradient="places are integers")
def argsort(
    data: AnyTensor, *, axis: int = -1, is_ascend: bool = True, dtype: DType | None = None
) -> TensorType:
    """The places along `axis` of the elements in the order of `sort`, as int32 by default.

    Equal elements keep their order.

    >>> %x = float32 [3, 1, 2]
    >>> argsort(%x)
    [1, 2, 0]
    """
    require_axis(axis, data.rank)
    return TensorType(data.shape, _place_dtype(dtype, "argsort"))


def _place_dtype(dtype: DType | None, name: str) -> DType:
    if dtype is not None and dtype not in NUMERIC:
        raise ShapeError(f"`dtype` of `{name}` must be a number, got {dtype}", "dtype-mismatch")
    return dtype or INT32


@argsort.numpy
def _(data: Array, *, axis: int, is_ascend: bool, dtype: DType | None) -> Array:
    return sorted_places(data, axis, is_ascend).astype((dtype or INT32).numpy)


@argsort.compute
def _(data: Tensor, *, axis: int, is_ascend: bool, dtype: DType | None) -> Tensor:
    place = require_axis(axis, data.rank)
    _, lines = sorted_lines(data, place, is_ascend, with_places=True)
    result = from_lines(lines, data.shape, place, "argsort")
    return te.compute(data.shape, lambda *i: te.cast(result[i], dtype or INT32), "argsort")


@operator("topk", fusion=Fusion.OPAQUE)
def topk(
    data: AnyTensor,
    *,
    k: int = 1,
    axis: int = -1,
    ret_type: str = "both",
    is_ascend: bool = False,
    dtype: DType = INT32,
) -> TensorType | TupleType:
    """The `k` greatest elements along `axis`, or least with `is_ascend`, in order, and their
    places; all where `k` is below 1.

    `ret_type` is `both`, `values` or `indices`. Equal elements keep their order, NaN is the
    greatest.

    >>> %x = float32 [3, 1, 2]
    >>> topk(%x, k=2).0
    [3, 2]
    """
    place = require_axis(axis, data.rank)
    return topk_type(data, kept_of(data.shape[place], k), place, ret_type, dtype)


def kept_of(extent: Dim, k: int) -> Dim:
    """Return how many elements `topk` keeps of an axis."""
    if k < 1:
        return extent
    require_equal(dim_min(extent, k), k, "the axis of `topk`, cut to `k`, and `k`")
    return k


def topk_type(
    data: TensorType, kept: Dim, axis: int, ret_type: str, dtype: DType
) -> TensorType | TupleType:
    """Return the type of what `topk` gives."""
    if ret_type not in ("both", "values", "indices"):
        legal = '"both", "values" and "indices"'
        message = f'`ret_type` of `topk` is "{ret_type}", legal are {legal}'
        raise ShapeError(message, "bad-attribute")
    _place_dtype(dtype, "topk")
    shape = (*data.shape[:axis], kept, *data.shape[axis + 1 :])
    both = TensorType(shape, data.dtype), TensorType(shape, dtype)
    return TupleType(both) if ret_type == "both" else both[ret_type == "indices"]


@topk.numpy
@like(topk.rule)
def _(data: Array, **attrs: Any) -> Any:
    kept = attrs["k"] if attrs["k"] > 0 else data.shape[attrs["axis"]]
    return topk_arrays(data, kept, attrs)


def topk_arrays(data: Array, kept: int, attrs: dict[str, Any]) -> Any:
    """Return the meaning of `topk`."""
    axis = attrs["axis"]
    places = sorted_places(data, axis, attrs["is_ascend"])
    places = np.take(places, np.arange(kept), axis)
    both = np.take_along_axis(data, places, axis), places.astype(attrs["dtype"].numpy)
    return both if attrs["ret_type"] == "both" else both[attrs["ret_type"] == "indices"]


@topk.compute
@like(topk.rule)
def _(data: Tensor, **attrs: Any) -> Any:
    place = require_axis(attrs["axis"], data.rank)
    return topk_tensors(data, kept_of(data.shape[place], attrs["k"]), attrs)


def topk_tensors(data: Tensor, kept: Dim, attrs: dict[str, Any]) -> Any:
    """Return the definition of `topk`."""
    place = require_axis(attrs["axis"], data.rank)
    shape = (*data.shape[:place], kept, *data.shape[place + 1 :])
    if isinstance(kept, int) and kept <= FEW:
        values, places = _first_lines(data, place, attrs["is_ascend"], kept)
    else:
        values, places = sorted_lines(data, place, attrs["is_ascend"], with_places=True)
    positions = from_lines(places, shape, place, "positions")
    indices = te.compute(shape, lambda *i: te.cast(positions[i], attrs["dtype"]), "indices")
    both = from_lines(values, shape, place, "values"), indices
    return both if attrs["ret_type"] == "both" else both[attrs["ret_type"] == "indices"]


@operator("searchsorted", fusion=Fusion.OPAQUE, no_gradient="places are integers")
def searchsorted(
    sorted_sequence: AnyTensor, values: SameDtype, *, right: bool = False, dtype: DType = INT32
) -> TensorType:
    """Where in an ascending row each of `values` would keep the order: before its equals, or with
    `right` behind them.

    Rows run along the last axis; the other axes of both operands are the same, unless
    `sorted_sequence` has rank 1.

    >>> %s = float32 [1, 3, 5]
    >>> %x = float32 [3, 4]
    >>> searchsorted(%s, %x)
    [1, 2]
    """
    require_rank(sorted_sequence, 1, 99, "`sorted_sequence` of `searchsorted`")
    if sorted_sequence.rank > 1:
        require_rank(values, sorted_sequence.rank, sorted_sequence.rank, "`values`")
        for axis, (a, b) in enumerate(zip(sorted_sequence.shape[:-1], values.shape)):
            require_equal(a, b, f"axis {axis} of the operands of `searchsorted`")
    if dtype not in INTEGERS:
        message = f"`dtype` of `searchsorted` must be an integer, got {dtype}"
        raise ShapeError(message, "dtype-mismatch")
    return TensorType(values.shape, dtype)


@searchsorted.numpy
def _(sorted_sequence: Array, values: Array, *, right: bool, dtype: DType) -> Array:
    size = sorted_sequence.shape[-1]
    low, high = np.zeros(values.shape, np.int64), np.full(values.shape, size)
    padded = sorted_sequence if size else np.zeros((*sorted_sequence.shape[:-1], 1))
    while np.any(low < high):
        middle = (low + high) // 2
        at = np.minimum(middle, max(size - 1, 0))
        found = padded[at] if padded.ndim == 1 else np.take_along_axis(padded, at, -1)
        behind = ~_array_before(values, found) if right else _array_before(found, values)
        behind &= low < high
        low, high = np.where(behind, middle + 1, low), np.where(behind, high, middle)
        high = np.maximum(low, high)
    return low.astype(dtype.numpy)


def _array_before(a: Array, b: Array) -> Array:
    less = np.asarray(np.less(a, b))
    return np.asarray(less | (~np.isnan(a) & np.isnan(b))) if a.dtype.kind == "f" else less


@searchsorted.compute
def _(sorted_sequence: Tensor, values: Tensor, *, right: bool, dtype: DType) -> Tensor:
    size, is_one = sorted_sequence.shape[-1], sorted_sequence.rank == 1

    def build(w: Writer, ordered: Memory, values: Memory, result: Memory) -> None:
        levels = search_levels(w, size)

        def search(steps: ScalarExpr, index: tuple[ScalarExpr, ...]) -> None:
            value = values[index]

            def is_before(at: ScalarExpr) -> ScalarExpr:
                found = ordered[(at,) if is_one else (*index[:-1], at)]
                return _is_behind(found, value, right)

            result[index] = te.cast(first_place(w, size, steps, is_before), dtype)

        if not values.shape:
            with w.phase():
                search(levels(), ())
            return
        *outer, last = values.shape
        with w.parts(product(outer), last, SEARCHED) as (line, begin, end):
            steps, place = levels(), tuple(unflattened(line, outer))
            w.vectors(begin, end, lambda j: search(steps, (*place, j)))

    kinds = [(values.shape, dtype)]
    work = dim_mul(product(values.shape), LEVELS)
    return te.program(kinds, [sorted_sequence, values], build, work, "searchsorted")[0]


def _is_behind(found: ScalarExpr, value: ScalarExpr, right: bool) -> ScalarExpr:
    if right:
        return te.scalar("logical_not", comes_before(value, found, True))
    return comes_before(found, value, True)


OPERATORS = (argsort, searchsorted, sort, topk)
