"""Suppression of boxes that overlap better ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from relayvm.base.dims import Dim, dim_mul
from relayvm.base.dtypes import FLOAT32, INT32, INT64, dtype_of
from relayvm.base.shapes import ShapeError, require_equal
from relayvm.ir.types import TensorType, TupleType
from relayvm.kernels import compute as te
from relayvm.kernels.compute import ScalarExpr, Tensor
from relayvm.kernels.schedules.program import LONG_STEPS, Cell, Memory, Writer
from relayvm.ops.axes import product, require_rank
from relayvm.ops.boxes import BOXES, ArrayChoice, Choice, Rule, ordered
from relayvm.ops.formulas import ARRAYS, SCALARS
from relayvm.ops.loads import wide
from relayvm.ops.numeric import Array
from relayvm.ops.operator import Fusion, operator
from relayvm.ops.schema import AnyTensor, Float, like
from relayvm.ops.sorting import sorted_lines, sorted_places

NO_GRADIENT = "boxes are chosen, which has no derivative"


def require_scalar(name: str, operand: str, tensor: TensorType, dtype: Any) -> None:
    """Raise ShapeError unless an operand is one number of a dtype."""
    require_rank(tensor, 0, 0, f"`{operand}` of `{name}`")
    if tensor.dtype is not dtype:
        message = f"`{operand}` of `{name}` must be {dtype}, got {tensor.dtype}"
        raise ShapeError(message, "dtype-mismatch")


def _require_column(name: str, attribute: str, index: int, width: Dim, last: int = 0) -> None:
    """Check a place among the numbers of a box; `last` more numbers follow it."""
    if index < 0 or (isinstance(width, int) and index + last >= width):
        message = f"`{attribute}` of `{name}` is {index}, outside the {width} numbers of a box"
        raise ShapeError(message, "bad-attribute")


# -- Valid boxes first ----------------------------------------------------------------------------


@operator(
    "vision.get_valid_counts",
    fusion=Fusion.OPAQUE,
    no_gradient=NO_GRADIENT,
    ignored=("score_threshold",),
)
def get_valid_counts(
    data: Float, score_threshold: AnyTensor, *, id_index: int = 0, score_index: int = 1
) -> TupleType:
    """How many boxes of each row of `data` [batch, n, numbers] are valid, these boxes first and -1
    behind them, and where each stood.

    Valid is a box whose number `score_index` is above `score_threshold`, and whose number
    `id_index` is not negative where that is at least 0.

    >>> %x = float32 [[[0, 0.2, 7], [1, 0.9, 8]]]
    >>> %t = float32 0.5
    >>> vision.get_valid_counts(%x, %t).1
    [[[1, 0.9, 8], [-1, -1, -1]]]
    """
    name = "vision.get_valid_counts"
    require_rank(data, 3, 3, f"`data` of `{name}`")
    require_scalar(name, "score_threshold", score_threshold, FLOAT32)
    _require_column(name, "score_index", score_index, data.shape[2])
    if id_index >= 0:
        _require_column(name, "id_index", id_index, data.shape[2])
    batch, count = data.shape[:2]
    indices = TensorType((batch, count), INT32)
    return TupleType((TensorType((batch,), INT32), TensorType(data.shape, data.dtype), indices))


@get_valid_counts.numpy
def _(
    data: Array, score_threshold: Array, *, id_index: int, score_index: int
) -> tuple[Array, Array, Array]:
    valid = data[:, :, score_index].astype(np.float64) > score_threshold
    if id_index >= 0:
        valid &= data[:, :, id_index] >= 0
    boxes, places = np.full_like(data, -1), np.full(data.shape[:2], -1, np.int32)
    for row, chosen in enumerate(valid):
        found = np.flatnonzero(chosen)
        boxes[row, : len(found)], places[row, : len(found)] = data[row, found], found
    return valid.sum(1).astype(np.int32), boxes, places


@get_valid_counts.compute
def _(
    data: Tensor, score_threshold: Tensor, *, id_index: int, score_index: int
) -> tuple[Tensor, ...]:
    batch, size, width = data.shape

    def build(w: Writer, x: Memory, bound: Memory, counts: Memory, *results: Memory) -> None:
        boxes, places = results
        with w.walk_lines(batch, size, (te.const(0, INT32), counts), block=LONG_STEPS) as (
            row,
            j,
            cells,
        ):
            count = cells[0]
            places[row, j] = -1
            with w.loop(0, width) as k:
                boxes[row, j, k] = -1.0
            valid = te.cast(x[row, j, te.dim(score_index)], "float64") > te.cast(
                bound[()], "float64"
            )
            if id_index >= 0:
                known = x[row, j, te.dim(id_index)] >= 0.0
                valid = te.scalar("logical_and", valid, known)
            with w.when(valid):
                at = w.let(te.index(count.value, size, "clip"))
                with w.loop(0, width) as k:
                    boxes[row, at, k] = x[row, j, k]
                places[row, at] = te.cast(j, INT32)
                count.value = count.value + 1

    kinds = [((batch,), INT32), (data.shape, data.dtype), ((batch, size), INT32)]
    return te.program(kinds, [data, score_threshold], build, product(data.shape), "valid_counts")


# -- Suppression of one kind of boxes -------------------------------------------------------------


@operator("vision.non_max_suppression", fusion=Fusion.OPAQUE, no_gradient=NO_GRADIENT)
def non_max_suppression(
    data: Float,
    valid_count: AnyTensor,
    indices: AnyTensor,
    max_output_size: AnyTensor,
    iou_threshold: AnyTensor,
    *,
    force_suppress: bool = False,
    top_k: int = -1,
    coord_start: int = 2,
    score_index: int = 1,
    id_index: int = 0,
    return_indices: bool = True,
    invalid_to_bottom: bool = False,
) -> TensorType | TupleType:
    """The boxes of each row of `data` [batch, n, numbers] in descending order of their scores;
    those are replaced by -1 that a better one of the same class overlaps by `iou_threshold` or
    more.

    Only the first `valid_count` boxes of a row count, of these the `top_k` best (all for -1), and
    at most `max_output_size` are kept (all if it is negative). The class is number `id_index` of a
    box (-1 for one class); `force_suppress` looks over it. Boxes whose score is not above 0 stay
    and suppress nothing; a threshold not above 0 leaves all where they are. `invalid_to_bottom`
    moves the kept ones to the top. With `return_indices` the result is (what `indices` [batch, n]
    has for the kept boxes, -1 behind them; how many they are [batch, 1]).

    >>> %x = float32 [[[0, 0.5, 0, 0, 2, 2], [0, 0.9, 0, 0, 2, 2.5], [1, 0.4, 0, 0, 2, 2]]]
    >>> %v = int32 [3]
    >>> %i = int32 [[10, 11, 12]]
    >>> %m = int32 -1
    >>> %t = float32 0.5
    >>> vision.non_max_suppression(%x, %v, %i, %m, %t).0
    [[11, 12, -1]]
    """
    name = "vision.non_max_suppression"
    require_rank(data, 3, 3, f"`data` of `{name}`")
    batch, size, width = data.shape
    for operand, tensor, shape in (
        ("valid_count", valid_count, (batch,)),
        ("indices", indices, (batch, size)),
    ):
        require_rank(tensor, len(shape), len(shape), f"`{operand}` of `{name}`")
        if tensor.dtype is not INT32:
            message = f"`{operand}` of `{name}` must be int32, got {tensor.dtype}"
            raise ShapeError(message, "dtype-mismatch")
        for axis, (a, b) in enumerate(zip(tensor.shape, shape)):
            require_equal(a, b, f"axis {axis} of `{operand}` and `data` of `{name}`")
    require_scalar(name, "max_output_size", max_output_size, INT32)
    require_scalar(name, "iou_threshold", iou_threshold, FLOAT32)
    _require_column(name, "coord_start", coord_start, width, 3)
    _require_column(name, "score_index", score_index, width)
    if id_index >= 0:
        _require_column(name, "id_index", id_index, width)
    if not return_indices:
        return TensorType(data.shape, data.dtype)
    return TupleType((TensorType((batch, size), INT32), TensorType((batch, 1), INT32)))


_SAME = Rule(inclusive=True)


def _chosen_row(
    x: Array, order: Array, valid: int, limit: int, threshold: Array, attrs: dict[str, Any]
) -> tuple[list[int], set[int]]:
    """Return the boxes of one row in their new order, and the places there that are suppressed."""
    if not threshold > 0:
        return list(range(valid)), set()
    top = attrs["top_k"]
    kept = [int(k) for k in order[: min(top, valid) if top > 0 else valid]]
    kind = wide(dtype_of(x.dtype))
    choice = ArrayChoice(_SAME, threshold.astype(kind.numpy), kind)
    gone = set()
    for place, k in enumerate(kept):
        box, start = x[k].astype(kind.numpy), attrs["coord_start"]
        label = None if attrs["force_suppress"] or attrs["id_index"] < 0 else box[attrs["id_index"]]
        corners = np.array(ordered(ARRAYS, list(box[start : start + 4])))
        if choice.count == limit:
            gone.add(place)
        elif box[attrs["score_index"]] > 0:
            if choice.is_clear(corners, label):
                choice.add(corners, label)
            else:
                gone.add(place)
    return kept, gone


@non_max_suppression.numpy
@like(non_max_suppression.rule)
def _(
    data: Array,
    valid_count: Array,
    indices: Array,
    max_output_size: Array,
    iou_threshold: Array,
    **attrs: Any,
) -> Any:
    batch, size = data.shape[:2]
    valid = np.clip(valid_count, 0, size)
    scores = np.where(np.arange(size) < valid[:, None], data[:, :, attrs["score_index"]], -np.inf)
    order = sorted_places(scores.astype(data.dtype), 1, False)
    boxes = np.full_like(data, -1)
    places, counts = np.full((batch, size), -1, np.int32), np.zeros((batch, 1), np.int32)
    for row in range(batch):
        found, gone = _chosen_row(
            data[row], order[row], int(valid[row]), int(max_output_size), iou_threshold, attrs
        )
        left = [k for place, k in enumerate(found) if place not in gone]
        counts[row, 0], places[row, : len(left)] = len(left), indices[row, left]
        if attrs["invalid_to_bottom"]:
            boxes[row, : len(left)] = data[row, left]
            continue
        for place, k in enumerate(found):
            boxes[row, place] = -1 if place in gone else data[row, k]
    return (places, counts) if attrs["return_indices"] else boxes


class _Suppression:
    """Writes the loops of `vision.non_max_suppression`."""

    def __init__(self, w: Writer, memory: tuple[Memory, ...], attrs: dict[str, Any]) -> None:
        self.w, self.attrs = w, attrs
        self.x, self.order, self.valid_count, self.indices, *limits = memory[:6]
        self.most, self.threshold = limits
        self.boxes, self.places, self.counts = memory[6:]
        self.batch, self.size, self.width = self.x.shape
        self.kind = wide(self.x.dtype)
        labelled = not attrs["force_suppress"] and attrs["id_index"] >= 0
        self.choice = Choice(w, _SAME, self.batch, self.size, self.kind, labelled)

    def write(self) -> None:
        """Choose the boxes of all rows."""
        w = self.w
        self._clear()
        numbers = w.scratch((self.batch,), INT64)
        cells = (te.const(0, INT64), numbers), (te.const(0, INT64), None)
        with w.walk_lines(self.batch, self.size, *cells, block=BOXES) as (row, j, held):
            active = w.let(self.threshold[()] > 0.0)
            with w.when(j < self._used(row, active)):
                self._offer(row, j, active, *held)
        with w.phase(self.batch) as row:
            self.counts[row, te.dim(0)] = te.cast(numbers[row], INT32)

    def _clear(self) -> None:
        w = self.w
        parts = w.parts(self.batch, self.size, LONG_STEPS)
        with parts as (row, begin, end), w.loop(begin, end) as j:
            self.places[row, j] = -1
            with w.loop(0, self.width) as k:
                self.boxes[row, j, k] = -1.0

    def _used(self, row: ScalarExpr, active: ScalarExpr) -> ScalarExpr:
        """Return how many boxes of a row there are to choose from."""
        w, top = self.w, self.attrs["top_k"]
        valid = te.scalar("maximum", te.cast(self.valid_count[row], INT64), 0)
        valid = w.let(te.scalar("minimum", valid, te.dim(self.size)))
        if top <= 0:
            return valid
        return w.let(te.select(active, te.scalar("minimum", valid, top), valid))

    def _offer(
        self, row: ScalarExpr, j: ScalarExpr, active: ScalarExpr, chosen: Cell, count: Cell
    ) -> None:
        """Write the box at a place of the order, unless it is suppressed."""
        w, size = self.w, self.size
        here = w.let(te.index(j, size, "clip"))
        box = w.let(te.index(te.select(active, self.order[row, here], here), size, "clip"))
        kept = w.cell(te.const(True, "bool"))
        with w.when(active):
            kept.value = self._is_kept(row, box, count)
        with w.when(kept.value):
            top = w.let(te.index(chosen.value, size, "clip"))
            self.places[row, top] = self.indices[row, box]
            target = top if self.attrs["invalid_to_bottom"] else here
            with w.loop(0, self.width) as k:
                self.boxes[row, target, k] = self.x[row, box, k]
            chosen.value = chosen.value + 1

    def _number(self, row: ScalarExpr, box: ScalarExpr, index: int) -> ScalarExpr:
        return te.cast(self.x[row, box, te.dim(index)], self.kind)

    def _is_kept(self, row: ScalarExpr, box: ScalarExpr, count: Cell) -> ScalarExpr:
        """Return whether a box stays, and choose it if its score is above 0."""
        w, attrs = self.w, self.attrs
        limit, threshold = te.cast(self.most[()], INT64), te.cast(self.threshold[()], self.kind)
        start = attrs["coord_start"]
        corners = [self._number(row, box, start + k) for k in range(4)]
        sides = [w.let(v) for v in ordered(SCALARS, corners)]
        labelled = not attrs["force_suppress"] and attrs["id_index"] >= 0
        label = self._number(row, box, attrs["id_index"]) if labelled else None
        kept = w.cell(te.scalar("not_equal", count.value, limit))
        better = self._number(row, box, attrs["score_index"]) > 0.0
        with w.when(te.scalar("logical_and", kept.value, better)):
            clear = w.let(self.choice.is_clear(row, count, sides, threshold, label))
            kept.value = clear
            with w.when(clear):
                self.choice.add(row, count, sides, label)
        return kept.value


@non_max_suppression.compute
@like(non_max_suppression.rule)
def _(
    data: Tensor,
    valid_count: Tensor,
    indices: Tensor,
    max_output_size: Tensor,
    iou_threshold: Tensor,
    **attrs: Any,
) -> Any:
    batch, size, width = data.shape
    column = te.index(te.dim(attrs["score_index"]), width)

    def score(row: ScalarExpr, j: ScalarExpr) -> ScalarExpr:
        inside = j < te.cast(valid_count[row], INT64)
        return te.select(inside, data[row, j, column], te.const(float("-inf"), data.dtype))

    scores = te.compute((batch, size), score, "scores")
    _, order = sorted_lines(scores, 1, ascending=False, with_places=True)

    def build(w: Writer, *memory: Memory) -> None:
        _Suppression(w, memory, attrs).write()

    kinds = [(data.shape, data.dtype), ((batch, size), INT32), ((batch, 1), INT32)]
    inputs = [data, order, valid_count, indices, max_output_size, iou_threshold]
    work = dim_mul(batch, dim_mul(size, size))
    boxes, places, counts = te.program(kinds, inputs, build, work, "suppression")
    return (places, counts) if attrs["return_indices"] else boxes


OPERATORS = (get_valid_counts, non_max_suppression)
