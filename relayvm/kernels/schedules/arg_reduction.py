"""Positions of extremes: one element at a time, or many lanes that each keep what they met.

The answer is a position, so that the order of comparisons does not matter: the extreme that is
first (or last) in row-major order of the reduced box; NaN is the extreme where there is one.
"""

from __future__ import annotations

from collections.abc import Callable

from relayvm.base.dtypes import (
    BOOL,
    FLOAT32,
    INT8,
    INT16,
    INT32,
    INT64,
    NARROW,
    UINT8,
    UINT16,
    DType,
)
from relayvm.kernels import compute as c
from relayvm.kernels import loops as n
from relayvm.kernels.index import simplify as s
from relayvm.kernels.schedules.boxes import (
    AxisValues,
    box_loops,
    identity,
    lane_loop,
    product,
    run_frame,
)
from relayvm.kernels.schedules.emit import CannotVectorise, Emitter, Frame

# Four vectors of float32, whose comparisons do not wait for each other.
MOST_LANES = 64
# A vector: several rows side by side have one each.
ROW_BYTES = 64
# Of a longer row first the extreme of each part is found, that part stays in the first cache.
PART_BYTES = 16384
# So many vectors of a part have numbers in 8 bits.
MOST_STEPS = 64
_INTEGERS = {8: INT8, 16: INT16, 32: INT32, 64: INT64}


def arg_serial(emitter: Emitter, reduction: c.ArgReduce, frame: Frame, lanes: int = 1) -> n.Expr:
    """Find positions with loops over the box; each of the lanes is another result."""
    extremes = _Extremes(emitter, reduction, lanes, 1, _column_dtype(emitter, reduction))

    def step(inner: AxisValues, flat: n.Expr) -> None:
        values = dict(frame)
        values.update({a: e for a, e in inner.items() if a is not None})
        extremes.meet([values], n.cast(flat, extremes.dtype), None)

    extremes.walk(lambda: box_loops(emitter, reduction.axes, step))
    return emitter.bind(n.cast(extremes.where(0), reduction.dtype))


def arg_row(emitter: Emitter, reduction: c.ArgReduce, frame: Frame) -> n.Expr:
    """Find the position in one row of memory, which is the reduced box, with it in lanes."""
    if is_short(emitter, reduction):
        return _Rows(emitter, reduction, [frame]).result()
    return _Parts(emitter, reduction, frame).result()


def arg_rows(emitter: Emitter, reduction: c.ArgReduce, frame: Frame) -> n.Expr:
    """Find the positions in several rows of memory, one for each lane of the frame."""
    lanes = max((place.lanes for place in frame.values()), default=1)
    if not is_short(emitter, reduction):
        raise CannotVectorise("rows that are long, or of unknown length")
    frames = [{axis: _lane(place, k) for axis, place in frame.items()} for k in range(lanes)]
    outer, emitter.mask = emitter.mask, None
    result = _Rows(emitter, reduction, frames).result()
    emitter.mask = outer
    return result


def is_short(emitter: Emitter, reduction: c.ArgReduce) -> bool:
    """Return whether a row is known to be no longer than a part."""
    length = _length(emitter, reduction)
    return isinstance(length, n.Const) and int(length.value) <= _part_size(reduction)


def _part_size(reduction: c.ArgReduce) -> int:
    return min(MOST_STEPS * MOST_LANES, PART_BYTES * 8 // _value_dtype(reduction).bits)


def _value_dtype(reduction: c.ArgReduce) -> DType:
    dtype = reduction.body.dtype
    if dtype in NARROW:
        return FLOAT32
    return UINT8 if dtype.is_bool else dtype


def _length(emitter: Emitter, reduction: c.ArgReduce) -> n.Expr:
    return product(tuple(emitter.context.dim(axis.extent) for axis in reduction.axes))


def _position_dtype(emitter: Emitter, reduction: c.ArgReduce) -> DType:
    length = _length(emitter, reduction)
    is_int32 = isinstance(length, n.Const) and int(length.value) < INT32.max
    return INT32 if is_int32 else INT64


def _column_dtype(emitter: Emitter, reduction: c.ArgReduce) -> DType:
    """Return what holds every position in as many vectors as values have, if there is such."""
    length = _length(emitter, reduction)
    bits = _value_dtype(reduction).bits
    for dtype in (UINT8, UINT16):
        if (
            bits <= dtype.bits
            and isinstance(length, n.Const)
            and int(length.value) <= dtype.max + 1
        ):
            return dtype
    return _position_dtype(emitter, reduction)


def _lane(place: n.Expr, lane: int) -> n.Expr:
    """Return one lane of an index."""
    match place:
        case _ if place.lanes == 1:
            return place
        case n.Ramp(base, stride):
            return s.add(base, s.mul(stride, n.const(lane)))
        case n.Broadcast(value):
            return value
        case n.Call(name, args) if name in s.SMART:
            return s.SMART[name](*(_lane(a, lane) for a in args))
        case _:
            raise CannotVectorise("rows whose places are loaded")


class _Extremes:
    """Tiles of the extremes that lanes have met, and where they were, for some rows.

    Lanes that never met anything hold the identity, at 0. Floats are compared as if there were no
    NaN, which does not wait for a second comparison, and again where there was one.
    """

    def __init__(
        self, emitter: Emitter, reduction: c.ArgReduce, lanes: int, rows: int, dtype: DType
    ) -> None:
        self.emitter, self.reduction, self.lanes, self.dtype = emitter, reduction, lanes, dtype
        self.rows = rows
        names, value = emitter.context.names, _value_dtype(reduction)
        self._best = n.Tile(names.fresh("best"), value, lanes, rows)
        self._where = n.Tile(names.fresh("where"), dtype, lanes, rows)
        emitter.statements += [n.Declare(self._best), n.Declare(self._where)]
        # Whether a lane has met NaN: of two vectors one comparison tells.
        self._odd: n.Tile | None = None
        if value.is_float and lanes * rows > n.LANES:
            self._odd = n.Tile(names.fresh("odd"), BOOL, lanes // 2 if rows == 1 else lanes, 1)
            emitter.statements.append(n.Declare(self._odd))

    def best(self, row: int) -> n.Expr:
        """The extremes so far."""
        return n.TileLoad(self._best, n.const(row))

    def where(self, row: int) -> n.Expr:
        """Where they are."""
        return n.TileLoad(self._where, n.const(row))

    def walk(self, loop: Callable[[], None]) -> None:
        """Emit a loop in which elements are met; again for NaN if need be."""
        emitter, odd = self.emitter, self._odd
        self._clear()
        if odd is None:
            loop()
            return
        none = n.broadcast(n.const(False, BOOL), odd.lanes)
        emitter.statements.append(n.TileStore(odd, n.const(0), none))
        loop()
        met = emitter.bind(n.tree("logical_or", emitter.bind(n.TileLoad(odd, n.const(0)))))
        with emitter.block() as again:
            self._odd = None
            self._clear()
            loop()
        emitter.statements.append(n.If(met, tuple(again)))

    def _clear(self) -> None:
        for row in map(n.const, range(self.rows)):
            self.emitter.statements += [
                n.TileStore(self._best, row, n.broadcast(least(self.reduction), self.lanes)),
                n.TileStore(self._where, row, n.broadcast(n.const(0, self.dtype), self.lanes)),
            ]

    def meet(self, frames: list[Frame], position: n.Expr, mask: n.Expr | None) -> None:
        """Emit the comparison with one more element in every lane of each row."""
        values = []
        for row, frame in enumerate(frames):
            values.append(element(self.emitter, self.reduction, frame, self.lanes))
            self.meet_value(row, values[-1], position, mask)
        self._look_at(values)

    def meet_value(self, row: int, value: n.Expr, position: n.Expr, mask: n.Expr | None) -> None:
        """Emit the comparison with a value."""
        emitter = self.emitter
        held = emitter.bind(self.best(row))
        better = is_better(self.reduction, value, held, self._odd is None)
        if mask is not None:
            better = n.call("logical_and", better, mask)
        better = emitter.bind(better)
        where = n.select(better, n.broadcast(position, self.lanes), self.where(row))
        emitter.statements += [
            n.TileStore(self._best, n.const(row), n.select(better, value, held)),
            n.TileStore(self._where, n.const(row), where),
        ]

    def _look_at(self, values: list[n.Expr]) -> None:
        """Emit what remembers whether one of the values is NaN."""
        emitter, odd = self.emitter, self._odd
        if odd is None:
            return
        if len(values) == 1:
            (whole,) = values
            halves = range(odd.lanes), range(odd.lanes, whole.lanes)
            values = [emitter.bind(n.shuffle(whole, whole, half)) for half in halves]
        tests = [n.call("isnan", value) for value in values]
        met: n.Expr = n.TileLoad(odd, n.const(0))
        for a, b in zip(tests[::2], tests[1::2]):
            met = n.call("logical_or", n.call("logical_or", a, b), met)
        emitter.statements.append(n.TileStore(odd, n.const(0), met))


def element(emitter: Emitter, reduction: c.ArgReduce, frame: Frame, lanes: int) -> n.Expr:
    """Return what is compared; truth values are bytes, of which lanes are whole vectors."""
    value = emitter.bind(n.broadcast(emitter.value(reduction.body, frame), lanes))
    return emitter.bind(n.cast(value, _value_dtype(reduction)))


def least(reduction: c.ArgReduce) -> n.Const:
    """Return what every value is at least as good as."""
    return identity("max" if reduction.kind == "argmax" else "min", _value_dtype(reduction))


def is_better(
    reduction: c.ArgReduce, value: n.Expr, held: n.Expr, may_be_nan: bool = True
) -> n.Expr:
    """Return whether a later value takes the place of one that is held."""
    is_max, may_be_nan = reduction.kind == "argmax", may_be_nan and value.dtype.is_float
    if reduction.select_last_index:
        better = n.call("greater_equal" if is_max else "less_equal", value, held)
        return n.call("logical_or", better, n.call("isnan", value)) if may_be_nan else better
    if not may_be_nan:
        return n.call("greater" if is_max else "less", value, held)
    # The comparison fails where one of them is NaN.
    worse = n.call("less_equal" if is_max else "greater_equal", value, held)
    known = n.call("logical_not", n.call("isnan", held))
    return n.call("logical_and", n.call("logical_not", worse), known)


def _holds(value: n.Expr, extreme: n.Expr) -> n.Expr:
    """Return which lanes have the extreme of all, given that NaN is it where there is one."""
    holds = n.call("equal", value, n.broadcast(extreme, value.lanes))
    return n.call("logical_or", holds, n.call("isnan", value)) if value.dtype.is_float else holds


class _Rows:
    """Positions in rows that are short, of each row a vector at a time: its number is kept."""

    def __init__(self, emitter: Emitter, reduction: c.ArgReduce, frames: list[Frame]) -> None:
        self.emitter, self.reduction, self.frames = emitter, reduction, frames
        self.lanes = ROW_BYTES * 8 // _value_dtype(reduction).bits
        if len(frames) == 1:
            self.lanes = max(self.lanes, MOST_LANES // (2 if self.lanes < n.LANES else 1))
        self.length = _known(_length(emitter, reduction))
        while self.lanes > n.LANES and self.length < self.lanes:
            self.lanes //= 2
        self.lanes = max(self.lanes, n.LANES)

    def result(self) -> n.Expr:
        """Emit the loop over vectors; return the positions, one lane each."""
        emitter, reduction, lanes = self.emitter, self.reduction, self.lanes
        dtype = _INTEGERS[_value_dtype(reduction).bits]
        extremes = _Extremes(emitter, reduction, lanes, len(self.frames), dtype)

        def step(k: n.Expr, mask: n.Expr | None) -> None:
            number = emitter.bind(n.cast(s.floordiv(k, n.const(lanes)), dtype))
            box = reduction.axes
            frames = [run_frame(emitter, box, frame, k, lanes) for frame in self.frames]
            extremes.meet(frames, number, mask)
            emitter.run = None

        extremes.walk(lambda: lane_loop(emitter, n.const(self.length), step, lanes=lanes))
        return emitter.bind(n.cast(self._folded(extremes), reduction.dtype))

    def _folded(self, extremes: _Extremes) -> n.Expr:
        """Return the position of the extreme of all lanes: the first or last that holds it."""
        emitter, lanes, is_last = self.emitter, self.lanes, self.reduction.select_last_index
        dtype = INT16 if extremes.dtype.bits < 16 else extremes.dtype
        held = [emitter.bind(extremes.best(row)) for row in range(len(self.frames))]
        fold = "maximum" if self.reduction.kind == "argmax" else "minimum"
        best = emitter.bind(n.tree(fold, *held))
        ramp = n.cast(n.Ramp(n.const(0), n.const(1), lanes), dtype)
        nowhere = n.broadcast(n.const(-1 if is_last else dtype.max, dtype), lanes)
        places = []
        for row, value in enumerate(held):
            number = n.cast(extremes.where(row), dtype)
            where = n.call("add", n.call("multiply", number, n.const(lanes, dtype)), ramp)
            one = best if len(held) == 1 else emitter.bind(n.lane(best, row))
            holds = emitter.bind(_holds(value, one))
            if self.length < lanes and is_last:
                # Lanes without an element must not be the last.
                holds = n.call("logical_and", holds, n.Mask(n.const(self.length), lanes))
            places.append(emitter.bind(n.select(holds, emitter.bind(where), nowhere)))
        place = emitter.bind(n.tree("maximum" if is_last else "minimum", *places))
        return n.call("maximum", place, n.broadcast(n.const(0, dtype), place.lanes))


class _Parts:
    """The position in one row that is long: which part has the extreme, then where it is there."""

    def __init__(self, emitter: Emitter, reduction: c.ArgReduce, frame: Frame) -> None:
        self.emitter, self.reduction, self.frame = emitter, reduction, frame
        self.length = _length(emitter, reduction)
        self.lanes = MOST_LANES if _value_dtype(reduction).bits <= 32 else MOST_LANES // 2
        self.size = n.const(_part_size(reduction))
        self.fold = "maximum" if reduction.kind == "argmax" else "minimum"

    def result(self) -> n.Expr:
        """Emit both loops over the parts; return the position."""
        emitter, reduction = self.emitter, self.reduction
        dtype = _position_dtype(emitter, reduction)
        found = _Extremes(emitter, reduction, 1, 1, dtype)
        best = n.Tile(emitter.context.names.fresh("part"), _value_dtype(reduction), self.lanes, 1)
        emitter.statements.append(n.Declare(best))

        def compare(part: n.Expr, begin: n.Expr, end: n.Expr) -> None:
            extreme = self._extreme(best, begin, end)
            found.meet_value(0, extreme, n.cast(part, dtype), None)

        found.walk(lambda: self._parts(compare))
        extreme, part = emitter.bind(found.best(0)), emitter.bind(found.where(0))
        small = _INTEGERS[_value_dtype(reduction).bits]
        is_last = reduction.select_last_index
        nowhere = n.const(-1 if is_last else small.max, small)
        numbers = n.Tile(emitter.context.names.fresh("number"), small, self.lanes, 1)
        fill = n.TileStore(numbers, n.const(0), n.broadcast(nowhere, self.lanes))
        emitter.statements += [n.Declare(numbers), fill]

        def look(number: n.Expr, begin: n.Expr, end: n.Expr) -> None:
            with emitter.block() as body:
                self._look(numbers, extreme, begin, end)
            here = n.call("equal", n.cast(number, dtype), part)
            emitter.statements.append(n.If(here, tuple(body)))

        self._parts(look)
        inside = self._place(emitter.bind(n.TileLoad(numbers, n.const(0))), nowhere, dtype)
        begin = n.call("multiply", part, n.const(int(self.size.value), dtype))
        return emitter.bind(n.cast(n.call("add", begin, inside), reduction.dtype))

    def _parts(self, body_of: Callable[[n.Expr, n.Expr, n.Expr], None]) -> None:
        """Emit a loop over parts around `body_of(number, begin, end)`."""
        emitter = self.emitter
        count = s.floordiv(s.add(self.length, n.const(int(self.size.value) - 1)), self.size)
        number = emitter.context.names.var("p")
        with emitter.block() as body:
            emitter.prover.add_range(number, n.const(0), count)
            begin = emitter.bind(s.mul(number, self.size), "e")
            end = emitter.bind(s.minimum(s.add(begin, self.size), self.length), "e")
            body_of(number, begin, end)
        emitter.statements.append(n.For(number, n.const(0), count, 1, tuple(body)))

    def _extreme(self, best: n.Tile, begin: n.Expr, end: n.Expr) -> n.Expr:
        """Emit the loop over one part; return its extreme."""
        emitter, zero = self.emitter, n.const(0)
        start = n.broadcast(least(self.reduction), self.lanes)
        emitter.statements.append(n.TileStore(best, zero, start))

        def step(k: n.Expr, mask: n.Expr | None) -> None:
            held = n.TileLoad(best, zero)
            value = n.call(self.fold, self._value(k), held)
            value = value if mask is None else n.select(mask, value, held)
            emitter.statements.append(n.TileStore(best, zero, value))

        lane_loop(emitter, end, step, begin, self.lanes)
        return emitter.bind(n.tree(self.fold, emitter.bind(n.TileLoad(best, zero))))

    def _look(self, numbers: n.Tile, extreme: n.Expr, begin: n.Expr, end: n.Expr) -> None:
        """Emit the loop over one part that keeps in which vector each lane has the extreme."""
        emitter, zero = self.emitter, n.const(0)
        fold = "maximum" if self.reduction.select_last_index else "minimum"

        def step(k: n.Expr, mask: n.Expr | None) -> None:
            number = s.floordiv(s.sub(k, begin), n.const(self.lanes))
            here = n.broadcast(emitter.bind(n.cast(number, numbers.dtype)), self.lanes)
            held = n.TileLoad(numbers, zero)
            holds = _holds(self._value(k), extreme)
            if mask is not None:
                holds = n.call("logical_and", holds, mask)
            value = n.select(emitter.bind(holds), n.call(fold, here, held), held)
            emitter.statements.append(n.TileStore(numbers, zero, value))

        lane_loop(emitter, end, step, begin, self.lanes)

    def _place(self, numbers: n.Expr, nowhere: n.Const, dtype: DType) -> n.Expr:
        """Return the first or last place of the extreme in its part, 0 where there is none."""
        emitter, is_last = self.emitter, self.reduction.select_last_index
        ramp = n.cast(n.Ramp(n.const(0), n.const(1), self.lanes), dtype)
        first = n.call("multiply", n.cast(numbers, dtype), n.const(self.lanes, dtype))
        where = emitter.bind(n.call("add", first, ramp))
        none = n.call("equal", numbers, n.broadcast(nowhere, self.lanes))
        least = n.const(0 if is_last else int(self.size.value), dtype)
        where = emitter.bind(n.select(none, n.broadcast(least, self.lanes), where))
        place = emitter.bind(n.tree("maximum" if is_last else "minimum", where))
        return n.select(
            n.call("less", place, n.const(int(self.size.value), dtype)), place, n.const(0, dtype)
        )

    def _value(self, k: n.Expr) -> n.Expr:
        inner = run_frame(self.emitter, self.reduction.axes, self.frame, k, self.lanes)
        value = element(self.emitter, self.reduction, inner, self.lanes)
        self.emitter.run = None
        return value


def _known(length: n.Expr) -> int:
    assert isinstance(length, n.Const)
    return int(length.value)
