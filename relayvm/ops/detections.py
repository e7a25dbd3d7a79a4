"""Suppression of boxes of all classes at once, each class for itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from relayvm.base.diagnostics import quantity
from relayvm.base.dims import Dim, dim_mul, dim_sub
from relayvm.base.dtypes import BOOL, FLOAT32, INT32, INT64, dtype_of
from relayvm.base.shapes import ShapeError, require_equal
from relayvm.ir.types import TensorType, TupleType
from relayvm.kernels import compute as te
from relayvm.kernels.compute import ScalarExpr, Tensor
from relayvm.kernels.schedules.program import Cell, Memory, Writer
from relayvm.ops.axes import require_least, require_rank
from relayvm.ops.boxes import BOXES, ArrayChoice, Choice, Rule, ordered
from relayvm.ops.formulas import ARRAYS, SCALARS
from relayvm.ops.loads import wide
from relayvm.ops.numeric import Array
from relayvm.ops.operator import Fusion, operator
from relayvm.ops.schema import AnyTensor, Float, SameDtype, like
from relayvm.ops.sorting import sorted_lines, sorted_places
from relayvm.ops.suppression import NO_GRADIENT, require_scalar

_FORMATS = ("onnx", "tensorflow")
_SAME = Rule(inclusive=True)
_ABOVE = Rule(inclusive=False)


def _require_boxes(name: str, boxes: TensorType, scores: TensorType, axis: int) -> tuple[Dim, ...]:
    """Return batch, boxes and classes; `axis` of `scores` counts boxes."""
    require_rank(boxes, 3, 3, f"`boxes` of `{name}`")
    require_rank(scores, 3, 3, f"`scores` of `{name}`")
    require_equal(boxes.shape[2], 4, f"numbers of a box of `{name}` and 4, which")
    batch = require_equal(boxes.shape[0], scores.shape[0], f"batches of `{name}`")
    count = require_equal(boxes.shape[1], scores.shape[axis], f"boxes and their scores of `{name}`")
    return batch, count, scores.shape[3 - axis]


def chosen_array(boxes: Array, order: Array, limit: int, threshold: Array, rule: Rule) -> list[int]:
    """Return the boxes of one line that are chosen, best first; `limit` is how many at most."""
    kind = wide(dtype_of(boxes.dtype))
    choice = ArrayChoice(rule, threshold.astype(kind.numpy), kind)
    result: list[int] = []
    for k in order:
        if choice.count >= limit:
            break
        corners = np.array(ordered(ARRAYS, list(boxes[k].astype(kind.numpy))))
        if choice.is_clear(corners):
            choice.add(corners)
            result.append(int(k))
    return result


def _lines(scores: Tensor, by_class: bool) -> Tensor:
    """Return the scores of each class of each batch as a line."""
    batch, *rest = scores.shape
    classes, count = rest if by_class else rest[::-1]
    each = te.dim(classes)

    def element(line: Any, j: Any) -> Any:
        item, label = line // each, line % each
        return scores[(item, label, j) if by_class else (item, j, label)]

    return te.compute((dim_mul(batch, classes), count), element, "scores")


def chosen_tensors(
    boxes: Tensor,
    scores: Tensor,
    classes: Dim,
    rule: Rule,
    limits: tuple[Tensor, Tensor, Tensor],
    inclusive: bool,
    needs_threshold: bool,
) -> tuple[Tensor, Tensor]:
    """Return for each line of `scores` the boxes chosen (int64), and how many they are.

    `limits` are rank-0 tensors: how many at most where it is above 0 (int64), the overlap and the
    least score (in the wide dtype of the boxes, and float64).
    """
    lines, size = scores.shape
    values, order = sorted_lines(scores, 1, ascending=False, with_places=True)
    kind = wide(boxes.dtype)

    def build(w: Writer, *memory: Memory) -> None:
        boxes, values, order, most, overlap, least, chosen, counts = memory
        choice = Choice(w, rule, lines, size, kind)

        def offer(line: ScalarExpr, j: ScalarExpr, going: Cell, count: Cell) -> None:
            limit, threshold, bound = most[()], overlap[()], least[()]
            score = te.cast(values[line, j], "float64")
            enough = w.let(score >= bound if inclusive else score > bound)
            room = te.scalar("logical_or", limit <= 0, count.value < limit)
            if needs_threshold:
                room = te.scalar("logical_and", room, threshold > 0.0)
            going.value = te.scalar("logical_and", enough, room)
            with w.when(going.value):
                box = w.let(te.index(order[line, j], size, "clip"))
                item = w.let(line // te.dim(classes))
                numbers = [te.cast(boxes[item, box, te.dim(k)], kind) for k in range(4)]
                sides = [w.let(v) for v in ordered(SCALARS, numbers)]
                clear = choice.is_clear(line, count, sides, threshold)
                with w.when(clear):
                    chosen[line, te.index(count.value, size, "clip")] = box
                    choice.add(line, count, sides)

        with w.parts(lines, size) as (line, begin, end), w.loop(begin, end) as j:
            chosen[line, j] = 0
        cells = (te.const(True, BOOL), None), (te.const(0, INT64), counts)
        walk = w.walk_lines(lines, size, *cells, block=BOXES)
        with walk as (line, j, (going, count)), w.when(going.value):
            offer(line, j, going, count)

    inputs = [boxes, values, order, *limits]
    kinds = [((lines, size), INT64), ((lines,), INT64)]
    chosen, counts = te.program(kinds, inputs, build, dim_mul(lines, dim_mul(size, size)), "chosen")
    return chosen, counts


def _as(tensor: Tensor, dtype: Any) -> Tensor:
    return te.compute((), lambda: te.cast(tensor[()], dtype), "limit")


# -- Results of one length for all classes --------------------------------------------------------


@operator("vision.all_class_non_max_suppression", fusion=Fusion.OPAQUE, no_gradient=NO_GRADIENT)
def all_class_non_max_suppression(
    boxes: Float,
    scores: SameDtype,
    max_output_boxes_per_class: AnyTensor,
    iou_threshold: AnyTensor,
    score_threshold: AnyTensor,
    *,
    output_format: str = "onnx",
) -> TupleType:
    """The boxes [batch, n, 4] that are best by `scores` [batch, classes, n] in each class: with a
    score above `score_threshold`, no better one of the class overlapping them by `iou_threshold` or
    more, at most `max_output_boxes_per_class` (all if it is not above 0); none for an
    `iou_threshold` not above 0.

    "onnx" gives rows (batch, class, box) in the order of batches, classes and falling scores
    [batch * classes * n, 3] as int64, zeros behind them, and how many they are [1]. "tensorflow"
    gives for each batch rows (class, box) [batch, classes * n, 2], their scores, and how many.

    >>> %b = float32 [[[0, 0, 2, 2], [0, 0, 2, 2.5], [5, 5, 6, 6]]]
    >>> %s = float32 [[[0.5, 0.9, 0.4]]]
    >>> %m = int32 -1
    >>> %t = float32 0.5
    >>> %l = float32 0
    >>> vision.all_class_non_max_suppression(%b, %s, %m, %t, %l).0
    [[0, 0, 1], [0, 0, 2], [0, 0, 0]]
    """
    name = "vision.all_class_non_max_suppression"
    batch, count, classes = _require_boxes(name, boxes, scores, 2)
    require_scalar(name, "max_output_boxes_per_class", max_output_boxes_per_class, INT32)
    require_scalar(name, "iou_threshold", iou_threshold, FLOAT32)
    require_scalar(name, "score_threshold", score_threshold, FLOAT32)
    if output_format not in _FORMATS:
        message = f'`output_format` of `{name}` must be "onnx" or "tensorflow", got'
        raise ShapeError(f'{message} "{output_format}"', "bad-attribute")
    rows = dim_mul(classes, count)
    if output_format == "onnx":
        whole = TensorType((dim_mul(batch, rows), 3), INT64)
        return TupleType((whole, TensorType((1,), INT64)))
    indices, values = TensorType((batch, rows, 2), INT64), TensorType((batch, rows), scores.dtype)
    return TupleType((indices, values, TensorType((batch,), INT64)))


@all_class_non_max_suppression.numpy
def _(
    boxes: Array,
    scores: Array,
    max_output_boxes_per_class: Array,
    iou_threshold: Array,
    score_threshold: Array,
    *,
    output_format: str,
) -> Any:
    batch, classes, count = scores.shape
    limit = int(max_output_boxes_per_class)
    order = sorted_places(scores, 2, False)
    found: list[list[tuple[int, int]]] = [[] for _ in range(batch)]
    for item, label in np.ndindex(batch, classes) if iou_threshold > 0 else ():
        sequence = order[item, label]
        values = scores[item, label][sequence].astype(np.float64)
        # The first that is not good enough ends the line, as NaN does.
        good = np.logical_and.accumulate(values > score_threshold)
        most = limit if limit > 0 else count
        line = chosen_array(boxes[item], sequence[good], most, iou_threshold, _SAME)
        found[item] += [(label, k) for k in line]
    if output_format == "onnx":
        whole = np.zeros((batch * classes * count, 3), np.int64)
        rows = [(item, *row) for item, each in enumerate(found) for row in each]
        whole[: len(rows)] = np.array(rows, np.int64).reshape(-1, 3)
        return whole, np.array([len(rows)], np.int64)
    indices = np.zeros((batch, classes * count, 2), np.int64)
    best = np.zeros((batch, classes * count), scores.dtype)
    for item, each in enumerate(found):
        for place, (label, k) in enumerate(each):
            indices[item, place], best[item, place] = (label, k), scores[item, label, k]
    return indices, best, np.array([len(each) for each in found], np.int64)


@all_class_non_max_suppression.compute
@like(all_class_non_max_suppression.rule)
def _(boxes: Tensor, scores: Tensor, *limits: Tensor, **attrs: Any) -> Any:
    batch, classes, count = scores.shape
    kinds_of = (INT64, wide(boxes.dtype), "float64")
    most, overlap, least = (_as(tensor, kind) for tensor, kind in zip(limits, kinds_of))
    lines = _lines(scores, by_class=True)
    bounds = (most, overlap, least)
    chosen, counts = chosen_tensors(boxes, lines, classes, _SAME, bounds, False, True)
    onnx = attrs["output_format"] == "onnx"
    rows = dim_mul(classes, count)

    def build(w: Writer, scores: Memory, chosen: Memory, counts: Memory, *results: Memory) -> None:
        indices, ends = results[0], results[-1]
        with w.phase() as _:
            place = w.cell(te.const(0, INT64))
            with w.loop(0, batch) as item:
                if not onnx:
                    place.value = 0
                with w.loop(0, classes) as label:
                    line = w.let(item * te.dim(classes) + label)
                    with w.loop(0, counts[line]) as k:
                        box = chosen[line, w.let(te.index(k, count, "clip"))]
                        box = w.let(te.index(box, count, "clip"))
                        row = place.value
                        if onnx:
                            for at, value in enumerate((item, label, box)):
                                indices[row, te.dim(at)] = value
                        else:
                            for at, value in enumerate((label, box)):
                                indices[item, row, te.dim(at)] = value
                            results[1][item, row] = scores[item, label, box]
                        place.value = place.value + 1
                if not onnx:
                    ends[item] = place.value
                    _zeros(w, results, item, place.value, rows)
            if onnx:
                ends[te.dim(0)] = place.value
                with w.loop(place.value, te.dim(dim_mul(batch, rows))) as row:
                    for at in range(3):
                        indices[row, te.dim(at)] = 0

    total = dim_mul(batch, rows)
    kinds: list[tuple[tuple[Dim, ...], Any]] = [((total, 3), INT64), ((1,), INT64)]
    if not onnx:
        kinds = [((batch, rows, 2), INT64), ((batch, rows), scores.dtype), ((batch,), INT64)]
    return te.program(kinds, [scores, chosen, counts], build, total, "collected")


def _zeros(w: Writer, results: tuple[Memory, ...], item: Any, begin: Any, end: Dim) -> None:
    with w.loop(begin, te.dim(end)) as row:
        for at in range(2):
            results[0][item, row, te.dim(at)] = 0
        results[1][item, row] = 0.0


# -- The best detections of all classes -----------------------------------------------------------


_REGULAR = (
    """\
The `max_detections` best of boxes [batch, n, 4] by `scores` [batch, n, classes], each class
for itself: with a score of at least `score_threshold`, no better one of the class overlapping
them by more than `iou_threshold`, at most `max_detections_per_class`.

The last `num_classes` classes count, numbered from 0; those before are the background. The
result is (boxes, classes, scores, how many), with zeros behind the detections, of equal scores
the lower class first.

>>> %b = float32 [[[0, 0, 2, 2], [0, 0, 2, 2.5], [5, 5, 6, 6]]]
>>> %s = float32 [[[0, 0.5], [0, 0.9], [0, 0.4]]]
"""
    ">>> vision.regular_non_max_suppression(%b, %s, max_detections_per_class=2, max_detections=2, "
    "num_classes=1, iou_threshold=0.5f, score_threshold=0.1f).2\n[[0.9, 0.4]]"
)


@operator(
    "vision.regular_non_max_suppression",
    fusion=Fusion.OPAQUE,
    no_gradient=NO_GRADIENT,
    doc=_REGULAR,
)
def regular_non_max_suppression(
    boxes: Float,
    scores: SameDtype,
    *,
    max_detections_per_class: int,
    max_detections: int,
    num_classes: int,
    iou_threshold: float,
    score_threshold: float,
) -> TupleType:
    """The best detections of all classes."""
    name = "vision.regular_non_max_suppression"
    batch, _, classes = _require_boxes(name, boxes, scores, 1)
    for attribute, value in (
        ("max_detections_per_class", max_detections_per_class),
        ("max_detections", max_detections),
        ("num_classes", num_classes),
    ):
        require_least(name, attribute, value)
    require_least(name, "iou_threshold", iou_threshold, 0)
    if isinstance(classes, int) and classes < num_classes:
        there = quantity(classes, "class", "classes")
        message = f"`num_classes` of `{name}` is {num_classes}, of {there} in `scores`"
        raise ShapeError(message, "bad-attribute")
    dtype, shape = boxes.dtype, (batch, max_detections)
    three = TensorType((*shape, 4), dtype), TensorType(shape, dtype), TensorType(shape, dtype)
    return TupleType((*three, TensorType((batch,), dtype)))


@regular_non_max_suppression.numpy
@like(regular_non_max_suppression.rule)
def _(boxes: Array, scores: Array, **attrs: Any) -> Any:
    batch, _, classes = scores.shape
    most, first = attrs["max_detections"], classes - attrs["num_classes"]
    threshold = np.array(attrs["iou_threshold"])
    results = [np.zeros((batch, most, 4), boxes.dtype)]
    results += [np.zeros((batch, most), boxes.dtype) for _ in range(2)]
    counts = np.zeros(batch, boxes.dtype)
    for item in range(batch):
        found: list[tuple[int, int]] = []
        for label in range(first, classes):
            line = scores[item, :, label]
            order = sorted_places(line, 0, False)
            good = line[order].astype(np.float64) >= attrs["score_threshold"]
            order = order[np.logical_and.accumulate(good)]
            per_class = attrs["max_detections_per_class"]
            found += [
                (label, k) for k in chosen_array(boxes[item], order, per_class, threshold, _ABOVE)
            ]
        values = np.array([scores[item, k, label] for label, k in found], scores.dtype)
        best = sorted_places(values, 0, False)[:most]
        for place, each in enumerate(best):
            label, k = found[each]
            results[0][item, place] = boxes[item, k]
            results[1][item, place], results[2][item, place] = label - first, values[each]
        counts[item] = len(best)
    return (*results, counts)


@regular_non_max_suppression.compute
@like(regular_non_max_suppression.rule)
def _(boxes: Tensor, scores: Tensor, **attrs: Any) -> Any:
    batch, count, classes = scores.shape
    used, most = attrs["num_classes"], attrs["max_detections"]
    first = te.dim(dim_sub(classes, used))

    def real(b: Any, j: Any, c: Any) -> Any:
        return scores[b, j, te.index(first + c, classes)]

    lines = _lines(te.compute((batch, count, used), real, "classes"), by_class=False)
    limits = (
        te.compute((), lambda: te.const(attrs["max_detections_per_class"], INT64), "limit"),
        te.compute((), lambda: te.const(attrs["iou_threshold"], wide(boxes.dtype)), "limit"),
        te.compute((), lambda: te.const(attrs["score_threshold"], "float64"), "limit"),
    )
    chosen, counts = chosen_tensors(boxes, lines, used, _ABOVE, limits, True, False)
    dtype = boxes.dtype

    def build(w: Writer, *memory: Memory) -> None:
        boxes, lines, chosen, counts, *results, totals = memory
        heads = w.scratch((batch, used), INT64)
        numbers = w.scratch((batch,), INT64)
        with w.parts(batch, used) as (item, begin, end), w.loop(begin, end) as c:
            heads[item, c] = 0
        cell = te.const(0, INT64), numbers
        with w.walk_lines(batch, most, cell, block=BOXES) as (item, place, (total,)):
            # The chosen boxes of a class are in order: the best of their heads is next.
            best, label = w.cell(te.const(0, lines.dtype)), w.cell(te.const(-1, INT64))
            with w.loop(0, used) as c:
                line = w.let(item * used + c)
                head = heads[item, c]
                with w.when(head < counts[line]):
                    box = chosen[line, w.let(te.index(head, count, "clip"))]
                    score = lines[line, w.let(te.index(box, count, "clip"))]
                    none = label.value < 0
                    with w.when(te.scalar("logical_or", none, score > best.value)):
                        best.value = score
                        label.value = c
            found = w.let(label.value >= 0)
            _clear(results, item, place)
            with w.when(found):
                c = w.let(te.index(label.value, used, "clip"))
                line = w.let(item * used + c)
                head = heads[item, c]
                box = chosen[line, w.let(te.index(head, count, "clip"))]
                box = w.let(te.index(box, count, "clip"))
                for k in range(4):
                    results[0][item, place, te.dim(k)] = boxes[item, box, te.dim(k)]
                results[1][item, place] = te.cast(c, dtype)
                results[2][item, place] = best.value
                heads[item, c] = head + 1
                total.value = total.value + 1
        with w.phase(batch) as item:
            totals[item] = te.cast(numbers[item], dtype)

    shape = (batch, most)
    kinds = [((*shape, 4), dtype), (shape, dtype), (shape, dtype), ((batch,), dtype)]
    work = dim_mul(batch, most * used)
    return te.program(kinds, [boxes, lines, chosen, counts], build, work, "detections")


def _clear(results: Sequence[Memory], item: Any, place: Any) -> None:
    """Write zeros into the box, the class and the score of a place."""
    for result in results:
        if result.rank == 3:
            for k in range(4):
                result[item, place, te.dim(k)] = 0.0
        else:
            result[item, place] = 0.0


OPERATORS = (all_class_non_max_suppression, regular_non_max_suppression)
