"""The regions that a region proposal network gives."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from relayvm.base.dims import Dim, dim_min, dim_mul
from relayvm.base.dtypes import INT64, DType, dtype_of
from relayvm.base.shapes import ShapeError, require_equal
from relayvm.ir.types import TensorType
from relayvm.kernels import compute as te
from relayvm.kernels.compute import Tensor
from relayvm.kernels.schedules.program import Memory, Writer
from relayvm.ops.axes import product, require_least, require_rank
from relayvm.ops.boxes import BOXES, ArrayChoice, Choice, Rule
from relayvm.ops.formulas import ARRAYS, SCALARS, Reading
from relayvm.ops.loads import wide
from relayvm.ops.multibox import require_numbers
from relayvm.ops.numeric import Array
from relayvm.ops.operator import Fusion, operator
from relayvm.ops.reshaping import unflattened
from relayvm.ops.schema import Float, Floats, SameDtype, like
from relayvm.ops.sorting import sorted_lines, sorted_places
from relayvm.ops.suppression import NO_GRADIENT

_NAME = "vision.proposal"
_RULE = Rule(inclusive=False, edge=1.0)

_DOC = (
    """\
The best regions of images [batch * rpn_post_nms_top_n, 5] as rows (image, left, top, right,
bottom), from `cls_prob` [batch, 2 * k, rows, columns], whose second half are scores, and
`bbox_pred` [batch, 4 * k, rows, columns].

Each place has k = len(scales) * len(ratios) anchors around it, `feature_stride` apart, for each
ratio all scales. `im_info` [batch, 3] has (height, width, scale) of the images. Predictions move
and scale an anchor, or are added to its corners (`iou_loss`); the box is cut to the image. Places
outside it, and boxes with a side below `rpn_min_size * scale`, which grow by that, score -1. Of the
`rpn_pre_nms_top_n` best boxes (all if it is not above 0) those stay that no better one overlaps by
more than `threshold`; they are repeated where they are fewer than wanted.

"""
    ">>> %p = float32 [[[[0.1]], [[0.9]]]]\n"
    ">>> %b = float32 [[[[0]], [[0]], [[0]], [[0]]]]\n"
    ">>> %i = float32 [[8, 8, 1]]\n"
    ">>> vision.proposal(%p, %b, %i, scales=[1f], ratios=[1f], feature_stride=4, threshold=0.7f, "
    "rpn_pre_nms_top_n=6, rpn_post_nms_top_n=2, rpn_min_size=1, iou_loss=False)\n"
    "[[0, 0, 0, 3, 3], [0, 0, 0, 3, 3]]"
)


@operator(_NAME, fusion=Fusion.OPAQUE, no_gradient=NO_GRADIENT, doc=_DOC)
def proposal(
    cls_prob: Float,
    bbox_pred: SameDtype,
    im_info: SameDtype,
    *,
    scales: Floats = (4.0, 8.0, 16.0, 32.0),
    ratios: Floats = (0.5, 1.0, 2.0),
    feature_stride: int = 16,
    threshold: float = 0.7,
    rpn_pre_nms_top_n: int = 6000,
    rpn_post_nms_top_n: int = 300,
    rpn_min_size: int = 16,
    iou_loss: bool = False,
) -> TensorType:
    """The best regions of images."""
    for operand, tensor, rank in (
        ("cls_prob", cls_prob, 4),
        ("bbox_pred", bbox_pred, 4),
        ("im_info", im_info, 2),
    ):
        require_rank(tensor, rank, rank, f"`{operand}` of `{_NAME}`")
    for attribute, values in (("scales", scales), ("ratios", ratios)):
        require_numbers(_NAME, attribute, values)
        if min(values) <= 0:
            message = f"`{attribute}` of `{_NAME}` must be above 0, got {list(values)}"
            raise ShapeError(message, "bad-attribute")
    for attribute, value in (
        ("feature_stride", feature_stride),
        ("rpn_post_nms_top_n", rpn_post_nms_top_n),
    ):
        require_least(_NAME, attribute, value)
    require_least(_NAME, "threshold", threshold, 0)
    batch, _, rows, columns = cls_prob.shape
    anchors = len(scales) * len(ratios)
    for operand, tensor, shape in (
        ("cls_prob", cls_prob, (batch, 2 * anchors, rows, columns)),
        ("bbox_pred", bbox_pred, (batch, 4 * anchors, rows, columns)),
        ("im_info", im_info, (batch, 3)),
    ):
        for axis, (size, wanted) in enumerate(zip(tensor.shape, shape)):
            what = f"axis {axis} of `{operand}` of `{_NAME}` and what it must be"
            require_equal(size, wanted, what)
    return TensorType((dim_mul(batch, rpn_post_nms_top_n), 5), cls_prob.dtype)


def _anchor(ratio: float, scale: float, stride: int) -> tuple[float, float, float, float]:
    """Return the corners of an anchor at the first place."""
    middle, area = 0.5 * (stride - 1.0), float(stride * stride)
    across = math.floor(math.sqrt(math.floor(area / ratio)) + 0.5)
    width, height = across * scale, math.floor(across * ratio + 0.5) * scale
    half = 0.5 * (width - 1.0), 0.5 * (height - 1.0)
    return middle - half[0], middle - half[1], middle + half[0], middle + half[1]


def _anchors(attrs: dict[str, Any]) -> list[tuple[float, float, float, float]]:
    stride = attrs["feature_stride"]
    return [_anchor(ratio, scale, stride) for ratio in attrs["ratios"] for scale in attrs["scales"]]


def _regressed(r: Reading, corners: Any, moves: Any, iou_loss: bool) -> list[Any]:
    """Return the corners of a box that an anchor and four predictions give."""
    if iou_loss:
        return [r.apply("add", c, m) for c, m in zip(corners, moves)]
    low, high = [], []
    for k in (0, 1):
        side = r.apply("add", r.apply("subtract", corners[k + 2], corners[k]), 1.0)
        half = r.apply("multiply", r.apply("subtract", side, 1.0), 0.5)
        centre = r.apply("add", corners[k], half)
        moved = r.apply("add", r.apply("multiply", moves[k], side), centre)
        grown = r.apply("multiply", r.apply("exp", moves[k + 2]), side)
        reach = r.apply("multiply", r.apply("subtract", grown, 1.0), 0.5)
        low.append(r.apply("subtract", moved, reach))
        high.append(r.apply("add", moved, reach))
    return low + high


def _box(
    r: Reading, place: tuple[Any, Any], k: Any, moves: Any, score: Any, info: Any, attrs: Any
) -> list[Any]:
    """Return corners and score of the box of anchor k at a place (row, column), both int64."""
    dtype, stride = attrs["kind"], float(attrs["feature_stride"])
    corners = []
    for side in range(4):
        first = r.const(0.0, dtype)
        for number, anchor in enumerate(_anchors(attrs)):
            first = r.select(r.apply("equal", k, number), r.const(anchor[side], dtype), first)
        shift = r.apply("multiply", r.cast(place[1 - side % 2], dtype), stride)
        corners.append(r.apply("add", first, shift))
    box = _regressed(r, corners, moves, attrs["iou_loss"])
    height, width, scale = info
    limits = [r.apply("subtract", v, 1.0) for v in (width, height)]
    box = [
        r.apply("maximum", r.apply("minimum", v, limits[side % 2]), 0.0)
        for side, v in enumerate(box)
    ]
    least = r.apply("multiply", scale, float(attrs["rpn_min_size"]))
    sides = [r.apply("add", r.apply("subtract", box[k + 2], box[k]), 1.0) for k in (0, 1)]
    small = r.apply("logical_or", *(r.apply("less", side, least) for side in sides))
    half = r.apply("multiply", least, 0.5)
    grown = [r.apply("subtract" if side < 2 else "add", v, half) for side, v in enumerate(box)]
    outside = [
        r.apply("greater_equal", at, r.cast(r.apply("divide", size, stride), INT64))
        for at, size in zip(place, (height, width))
    ]
    bad = r.apply("logical_or", small, r.apply("logical_or", *outside))
    result = [r.select(small, g, v) for g, v in zip(grown, box)]
    return [*result, r.select(bad, r.const(-1.0, dtype), score)]


@proposal.numpy
@like(proposal.rule)
def _(cls_prob: Array, bbox_pred: Array, im_info: Array, **attrs: Any) -> Array:
    kind = attrs["kind"] = wide(dtype_of(cls_prob.dtype))
    batch, _, rows, columns = cls_prob.shape
    anchors = len(attrs["scales"]) * len(attrs["ratios"])
    most = attrs["rpn_post_nms_top_n"]
    result = np.zeros((batch, most, 5), kind.numpy)
    y, x, k = np.ix_(*(np.arange(n) for n in (rows, columns, anchors)))
    for item in range(batch):
        moves = bbox_pred[item].reshape(anchors, 4, rows, columns).astype(kind.numpy)
        score = cls_prob[item, anchors:].transpose(1, 2, 0).astype(kind.numpy)
        each = [moves[:, side].transpose(1, 2, 0) for side in range(4)]
        info = [np.array(v, kind.numpy) for v in im_info[item]]
        parts = _box(ARRAYS, (y, x), k, each, score, info, attrs)
        flat = [np.broadcast_to(p, score.shape).reshape(-1) for p in parts]
        boxes, scores = np.stack(flat[:4], 1), flat[4]
        order = sorted_places(scores, 0, False)
        if attrs["rpn_pre_nms_top_n"] > 0:
            order = order[: attrs["rpn_pre_nms_top_n"]]
        choice = ArrayChoice(_RULE, np.array(attrs["threshold"], kind.numpy), kind)
        for place in order:
            if choice.count < most and choice.is_clear(boxes[place]):
                choice.add(boxes[place])
        if choice.count:
            result[item, :, 0] = item
            result[item, :, 1:] = choice.boxes[np.arange(most) % choice.count]
    return np.asarray(result.reshape(-1, 5).astype(cls_prob.dtype))


def _numbers(
    cls_prob: Tensor, bbox_pred: Tensor, im_info: Tensor, attrs: dict[str, Any]
) -> tuple[Tensor, Tensor]:
    """Return corners [batch, boxes, 4] and scores [batch, boxes] of all boxes."""
    kind: DType = attrs["kind"]
    batch, _, rows, columns = cls_prob.shape
    anchors = len(attrs["scales"]) * len(attrs["ratios"])
    count = dim_mul(product((rows, columns)), anchors)

    def build(w: Writer, *memory: Memory) -> None:
        scores_in, deltas, infos, boxes, scores = memory
        with w.phase(dim_mul(batch, count)) as flat:
            item, box = (w.let(v) for v in unflattened(flat, (batch, count)))
            place, k = w.let(box // te.dim(anchors)), w.let(box % te.dim(anchors))
            y, x = w.let(place // te.dim(columns)), w.let(place % te.dim(columns))
            moves = [w.let(te.cast(deltas[item, k * 4 + side, y, x], kind)) for side in range(4)]
            score = te.cast(scores_in[item, k + anchors, y, x], kind)
            info = [w.let(te.cast(infos[item, te.dim(n)], kind)) for n in range(3)]
            *corners, best = _box(SCALARS, (y, x), k, moves, score, info, attrs)
            for side, corner in enumerate(corners):
                boxes[item, box, te.dim(side)] = corner
            scores[item, box] = best

    kinds = [((batch, count, 4), kind), ((batch, count), kind)]
    work = dim_mul(dim_mul(batch, count), 64)
    boxes, scores = te.program(kinds, [cls_prob, bbox_pred, im_info], build, work, "boxes")
    return boxes, scores


@proposal.compute
@like(proposal.rule)
def _(cls_prob: Tensor, bbox_pred: Tensor, im_info: Tensor, **attrs: Any) -> Tensor:
    kind = attrs["kind"] = wide(cls_prob.dtype)
    boxes, scores = _numbers(cls_prob, bbox_pred, im_info, attrs)
    batch, size = scores.shape
    _, order = sorted_lines(scores, 1, ascending=False, with_places=True)
    most, dtype = attrs["rpn_post_nms_top_n"], cls_prob.dtype
    used: Dim = size
    if attrs["rpn_pre_nms_top_n"] > 0:
        used = dim_min(size, attrs["rpn_pre_nms_top_n"])

    def build(w: Writer, boxes: Memory, order: Memory, result: Memory) -> None:
        choice = Choice(w, _RULE, batch, size, kind)
        numbers = w.scratch((batch,), INT64)
        cell = te.const(0, INT64), numbers
        with w.walk_lines(batch, used, cell, block=BOXES) as (item, j, (count,)):
            threshold = te.const(attrs["threshold"], kind)
            with w.when(count.value < most):
                box = w.let(te.index(order[item, w.let(te.index(j, size, "clip"))], size, "clip"))
                sides = [boxes[item, box, te.dim(k)] for k in range(4)]
                clear = choice.is_clear(item, count, sides, threshold)
                with w.when(clear):
                    choice.add(item, count, sides)
        with w.parts(batch, most) as (item, begin, end):
            found = w.let(numbers[item])
            with w.loop(begin, end) as place:
                row = w.let(item * most + place)
                with w.when(found > 0):
                    source = w.let(te.index(place % found, size, "clip"))
                    result[row, te.dim(0)] = te.cast(item, dtype)
                    for k in range(4):
                        number = choice.parts[k][item, source]
                        result[row, te.dim(k + 1)] = te.cast(number, dtype)
                with w.otherwise():
                    for k in range(5):
                        result[row, te.dim(k)] = 0.0

    kinds = [((dim_mul(batch, most), 5), dtype)]
    work = dim_mul(batch, dim_mul(size, size))
    return te.program(kinds, [boxes, order], build, work, "proposal")[0]


OPERATORS = (proposal,)
