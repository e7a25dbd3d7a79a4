"""Boxes of detectors: priors at every place of a feature map, and boxes read off them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from relayvm.base.diagnostics import quantity
from relayvm.base.dims import Dim, dim_mul
from relayvm.base.dtypes import INT32, INT64, DType, dtype_of
from relayvm.base.shapes import ShapeError, require_equal
from relayvm.ir.types import TensorType, TupleType
from relayvm.kernels import compute as te
from relayvm.kernels.compute import ScalarExpr, Tensor
from relayvm.kernels.schedules.program import LONG_STEPS, Memory, Writer
from relayvm.ops.axes import product, require_rank
from relayvm.ops.formulas import ARRAYS, SCALARS, Reading
from relayvm.ops.loads import wide
from relayvm.ops.numeric import Array
from relayvm.ops.operator import Fusion, operator
from relayvm.ops.schema import Float, Floats, SameDtype, like
from relayvm.ops.suppression import NO_GRADIENT

_PRIOR = "vision.multibox_prior"
_TRANSFORM = "vision.multibox_transform_loc"


def require_numbers(name: str, attribute: str, values: Floats, count: int | None = None) -> None:
    """Raise ShapeError unless a list has finite numbers, `count` of them or at least one."""
    if not all(map(math.isfinite, values)):
        message = f"`{attribute}` of `{name}` must be finite numbers, got {list(values)}"
        raise ShapeError(message, "bad-attribute")
    if len(values) != count and (count is not None or not values):
        wanted = "at least one number" if count is None else quantity(count, "number")
        message = f"`{attribute}` of `{name}` must have {wanted}, got {len(values)}"
        raise ShapeError(message, "bad-attribute")


@operator(_PRIOR, fusion=Fusion.INJECTIVE, no_gradient="boxes follow from sizes alone")
def multibox_prior(
    data: Float,
    *,
    sizes: Floats = (1.0,),
    ratios: Floats = (1.0,),
    steps: Floats = (-1.0, -1.0),
    offsets: Floats = (0.5, 0.5),
    clip: bool = False,
) -> TensorType:
    """The prior boxes (left, top, right, bottom) of all places of `data` [n, c, rows, columns]:
    [1, rows * columns * k, 4] with one box for each size, then one for each ratio but the first.

    Place (y, x) has its centre at `(y + offsets[0]) * steps[0]` and `(x + offsets[1]) * steps[1]`;
    a step not above 0 is one divided by the number of rows or columns. A size s gives a box s high
    and `s * rows / columns` wide; a ratio r of the first size divides the height and multiplies the
    width by its root. With `clip` boxes end at 0 and 1.

    >>> %x = float32 [[[[0, 0]]]]
    >>> vision.multibox_prior(%x, sizes=[1f])
    [[[0, 0, 0.5, 1], [0.5, 0, 1, 1]]]
    """
    require_rank(data, 4, 4, f"`data` of `{_PRIOR}`")
    for attribute, values, count in (
        ("sizes", sizes, None),
        ("ratios", ratios, None),
        ("steps", steps, 2),
        ("offsets", offsets, 2),
    ):
        require_numbers(_PRIOR, attribute, values, count)
    for attribute, numbers in (("sizes", sizes), ("ratios", ratios)):
        if min(numbers) <= 0:
            message = f"`{attribute}` of `{_PRIOR}` must be above 0, got {list(numbers)}"
            raise ShapeError(message, "bad-attribute")
    boxes = dim_mul(product(data.shape[2:]), len(sizes) + len(ratios) - 1)
    return TensorType((1, boxes, 4), data.dtype)


def _prior_sides(attrs: dict[str, Any]) -> list[tuple[float, float]]:
    """Return half the width, before rows / columns, and half the height of each box of a place."""
    first = attrs["sizes"][0]
    plain = [(size / 2, size / 2) for size in attrs["sizes"]]
    roots = [math.sqrt(ratio) for ratio in attrs["ratios"][1:]]
    return plain + [(first * root / 2, first / root / 2) for root in roots]


def _prior(
    r: Reading, places: tuple[Any, Any], k: Any, side: Any, sizes: tuple[Dim, Dim], attrs: Any
) -> Any:
    """Return number `side` of box k at a place; all are int64."""
    dtype: DType = attrs["kind"]
    rows, columns = (r.cast(r.dim(size), dtype) for size in sizes)
    halves = []
    for axis in (0, 1):
        half = r.const(0.0, dtype)
        for number, sides in enumerate(_prior_sides(attrs)):
            half = r.select(r.apply("equal", k, number), r.const(sides[axis], dtype), half)
        halves.append(half)
    halves[0] = r.apply("divide", r.apply("multiply", halves[0], rows), columns)
    centres = []
    for axis, size in ((1, columns), (0, rows)):
        step = attrs["steps"][axis]
        length = r.const(step, dtype) if step > 0 else r.apply("divide", r.const(1.0, dtype), size)
        middle = r.apply("add", r.cast(places[axis], dtype), attrs["offsets"][axis])
        centres.append(r.apply("multiply", middle, length))
    is_y = r.apply("equal", r.apply("floor_mod", side, 2), 1)
    centre, half = (r.select(is_y, pair[1], pair[0]) for pair in (centres, halves))
    first = r.apply("less", side, 2)
    low, high = r.apply("subtract", centre, half), r.apply("add", centre, half)
    result = r.select(first, low, high)
    if attrs["clip"]:
        result = r.apply("minimum", r.apply("maximum", result, 0.0), 1.0)
    return result


@multibox_prior.numpy
@like(multibox_prior.rule)
def _(data: Array, **attrs: Any) -> Array:
    rows, columns = data.shape[2:]
    count = len(attrs["sizes"]) + len(attrs["ratios"]) - 1
    attrs["kind"] = wide(dtype_of(data.dtype))
    grid = np.ix_(*(np.arange(n) for n in (rows, columns, count, 4)))
    whole = _prior(ARRAYS, (grid[0], grid[1]), grid[2], grid[3], (rows, columns), attrs)
    shaped = np.broadcast_to(whole, (rows, columns, count, 4)).reshape(1, -1, 4)
    return np.asarray(shaped.astype(data.dtype))


@multibox_prior.compute
@like(multibox_prior.rule)
def _(data: Tensor, **attrs: Any) -> Tensor:
    rows, columns = data.shape[2:]
    count = len(attrs["sizes"]) + len(attrs["ratios"]) - 1
    attrs["kind"] = wide(data.dtype)

    def element(_: ScalarExpr, box: ScalarExpr, side: ScalarExpr) -> ScalarExpr:
        place = box // te.dim(count)
        at = place // te.dim(columns), place % te.dim(columns)
        value = _prior(SCALARS, at, box % te.dim(count), side, (rows, columns), attrs)
        return te.cast(value, data.dtype)

    return te.compute((1, dim_mul(product((rows, columns)), count), 4), element, "prior")


# -- Boxes read off their priors ------------------------------------------------------------------


@operator(_TRANSFORM, fusion=Fusion.OPAQUE, no_gradient=NO_GRADIENT)
def multibox_transform_loc(
    cls_prob: Float,
    loc_pred: SameDtype,
    anchor: SameDtype,
    *,
    clip: bool = True,
    threshold: float = 0.01,
    variances: Floats = (0.1, 0.1, 0.2, 0.2),
    keep_background: bool = False,
) -> TupleType:
    """The detections of `cls_prob` [batch, classes, n], `loc_pred` [batch, 4 * n] and the priors
    `anchor` [1, n, 4]: rows (class, score, left, top, right, bottom) [batch, n, 6], -1 behind them,
    and how many they are [batch].

    A prior counts if the score of its best class is at least `threshold`. Class 0 is the background
    and the others are numbered from 0; with `keep_background` it is a class like the others. With
    the prior's centre (x, y), width w and height h, and p the prediction times the `variances`, the
    box has its centre at `(p0 * w + x, p1 * h + y)` and is `exp(p2) * w` wide, `exp(p3) * h` high;
    with `clip` it ends at 0 and 1.

    >>> %p = float32 [[[0.1, 0.9], [0.9, 0.1]]]
    >>> %l = float32 [[0, 0, 0, 0, 0, 0, 0, 0]]
    >>> %a = float32 [[[0, 0, 1, 0.5], [0, 0, 1, 1]]]
    >>> vision.multibox_transform_loc(%p, %l, %a, threshold=0.5f).0
    [[[0, 0.9, 0, 0, 1, 0.5], [-1, -1, -1, -1, -1, -1]]]
    """
    for operand, tensor, rank in (
        ("cls_prob", cls_prob, 3),
        ("loc_pred", loc_pred, 2),
        ("anchor", anchor, 3),
    ):
        require_rank(tensor, rank, rank, f"`{operand}` of `{_TRANSFORM}`")
    require_numbers(_TRANSFORM, "variances", variances, 4)
    batch, _, count = cls_prob.shape
    what = f"batches of `loc_pred` and `cls_prob` of `{_TRANSFORM}`"
    require_equal(loc_pred.shape[0], batch, what)
    what = f"predictions in `loc_pred` of `{_TRANSFORM}` and 4 for each prior"
    require_equal(loc_pred.shape[1], dim_mul(count, 4), what)
    for axis, (size, wanted) in enumerate(zip(anchor.shape, (1, count, 4))):
        what = f"axis {axis} of `anchor` of `{_TRANSFORM}` and what it must be"
        require_equal(size, wanted, what)
    return TupleType((TensorType((batch, count, 6), cls_prob.dtype), TensorType((batch,), INT32)))


def _moved(r: Reading, prior: Any, predicted: Any, attrs: Any) -> list[Any]:
    """Return left, top, right and bottom of the box of a prior and its prediction."""
    scaled = [r.apply("multiply", p, v) for p, v in zip(predicted, attrs["variances"])]
    centres, halves = [], []
    for k in (0, 1):
        low, high = prior[k], prior[k + 2]
        length = r.apply("subtract", high, low)
        middle = r.apply("multiply", r.apply("add", low, high), 0.5)
        centres.append(r.apply("add", r.apply("multiply", scaled[k], length), middle))
        grown = r.apply("multiply", r.apply("exp", scaled[k + 2]), length)
        halves.append(r.apply("multiply", grown, 0.5))
    sides = [r.apply("subtract", c, h) for c, h in zip(centres, halves)]
    sides += [r.apply("add", c, h) for c, h in zip(centres, halves)]
    if attrs["clip"]:
        sides = [r.apply("maximum", r.apply("minimum", s, 1.0), 0.0) for s in sides]
    return sides


@multibox_transform_loc.numpy
@like(multibox_transform_loc.rule)
def _(cls_prob: Array, loc_pred: Array, anchor: Array, **attrs: Any) -> tuple[Array, Array]:
    batch, classes, count = cls_prob.shape
    kind = wide(dtype_of(cls_prob.dtype)).numpy
    first = 0 if attrs["keep_background"] else 1
    result = np.full((batch, count, 6), -1, cls_prob.dtype)
    counts = np.zeros(batch, np.int32)
    scores, labels = np.full((batch, count), -1, kind), np.full((batch, count), -1)
    for label in range(first, classes):
        better = cls_prob[:, label] > scores
        scores = np.where(better, cls_prob[:, label], scores).astype(kind)
        labels = np.where(better, label - first, labels)
    predicted = loc_pred.reshape(batch, count, 4).astype(kind)
    priors = [anchor[0, :, k].astype(kind) for k in range(4)]
    for row in range(batch):
        sides = _moved(ARRAYS, priors, [predicted[row, :, k] for k in range(4)], attrs)
        good = (labels[row] >= 0) & (scores[row].astype(np.float64) >= attrs["threshold"])
        whole = np.stack([labels[row].astype(kind), scores[row], *sides], 1)[good]
        result[row, : len(whole)], counts[row] = whole, len(whole)
    return result, counts


@multibox_transform_loc.compute
@like(multibox_transform_loc.rule)
def _(cls_prob: Tensor, loc_pred: Tensor, anchor: Tensor, **attrs: Any) -> Any:
    batch, classes, count = cls_prob.shape
    dtype, kind = cls_prob.dtype, wide(cls_prob.dtype)
    first = 0 if attrs["keep_background"] else 1

    def build(w: Writer, x: Memory, predicted: Memory, priors: Memory, *results: Memory) -> None:
        boxes, counts = results
        cell = te.const(0, INT32), counts
        with w.walk_lines(batch, count, cell, block=LONG_STEPS) as (row, j, (found,)):
            for side in range(6):
                boxes[row, j, te.dim(side)] = -1.0
            score, label = w.cell(te.const(-1.0, kind)), w.cell(te.const(-1, INT64))
            with w.loop(first, classes) as k:
                value = w.let(te.cast(x[row, k, j], kind))
                with w.when(value > score.value):
                    score.value = value
                    label.value = k - first
            enough = te.cast(score.value, "float64") >= attrs["threshold"]
            with w.when(te.scalar("logical_and", label.value >= 0, enough)):
                moved = [te.cast(predicted[row, j * 4 + k], kind) for k in range(4)]
                prior = [te.cast(priors[te.dim(0), j, te.dim(k)], kind) for k in range(4)]
                sides = _moved(SCALARS, prior, moved, attrs)
                at = w.let(te.index(found.value, count, "clip"))
                numbers = (te.cast(label.value, kind), score.value, *sides)
                for side, number in enumerate(numbers):
                    boxes[row, at, te.dim(side)] = te.cast(number, dtype)
                found.value = found.value + 1

    kinds = [((batch, count, 6), dtype), ((batch,), INT32)]
    work = product(cls_prob.shape)
    return te.program(kinds, [cls_prob, loc_pred, anchor], build, work, "detections")


OPERATORS = (multibox_prior, multibox_transform_loc)
