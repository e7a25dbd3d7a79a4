"""Gradients of losses."""

from __future__ import annotations

import numpy as np

from relayvm.base.dtypes import INT64, DType
from relayvm.ir.expr import Constant, Expr
from relayvm.ops import rows
from relayvm.ops.creation import arange, shape_of
from relayvm.ops.elementwise import cast
from relayvm.ops.gradient_elementwise import Gradients
from relayvm.ops.gradient_expressions import count_of, number, times
from relayvm.ops.indexing import take
from relayvm.ops.losses import class_axis, cross_entropy, cross_entropy_with_logits, nll_loss
from relayvm.ops.operator import GradientCall
from relayvm.ops.reshaping import expand_dims, reshape, reshape_like
from relayvm.ops.rows import add, divide, equal, multiply, negative, sum_


def _batch(call: GradientCall, g: Expr) -> Expr:
    """Return minus the gradient of a mean over the batch, for each element of it."""
    x = call.type_of("x")
    return negative(divide(g, count_of(call.x, x.shape, (0,), x.dtype)))


@cross_entropy.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    each = _batch(call, g)
    return multiply(each, divide(call.y, call.x)), multiply(each, rows.log(call.x))


@cross_entropy_with_logits.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    each = _batch(call, g)
    return multiply(each, call.y), multiply(each, call.x)


def _is_class(call: GradientCall, at: int, dtype: DType) -> Expr:
    """Return 1 where a prediction is for the class that is the target, else 0."""
    predictions = call.type_of("predictions")
    classes = predictions.shape[at]
    if isinstance(classes, int):
        numbers: Expr = Constant(np.arange(classes))
    else:
        sizes = shape_of(call.predictions, dtype=INT64)
        stop = take(sizes, Constant(np.array(at)))
        numbers = arange(Constant(np.array(0)), stop, Constant(np.array(1)))
    numbers = reshape(numbers, newshape=(-1, *(1,) * (predictions.rank - at - 1)))
    targets = expand_dims(cast(call.targets, dtype=INT64), axis=at)
    hits = cast(equal(targets, numbers), dtype=dtype)
    # The size of `numbers` may be known at run time only, as that of the predictions.
    return reshape_like(hits, call.predictions)


@nll_loss.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    # Each loss is -p w, the mean their sum over the sum of w.
    predictions = call.type_of("predictions")
    dtype, at = predictions.dtype, class_axis(predictions.rank)
    ignored = number(call.ignore_index, call.type_of("targets").dtype)
    taken = cast(rows.ROWS["not_equal"](call.targets, ignored), dtype=dtype)
    factors = multiply(take(call.weights, call.targets, axis=0), taken)
    is_class = _is_class(call, at, dtype)
    picked = sum_(multiply(call.predictions, is_class), axis=(at,))
    of_weight = negative(picked)
    if call.reduction == "mean":
        of_weight = negative(add(picked, call.output))
        g = divide(g, sum_(factors))
    each = multiply(expand_dims(negative(multiply(g, factors)), axis=at), is_class)
    spread = multiply(expand_dims(times(of_weight, g, taken), axis=at), is_class)
    return each, None, sum_(spread, axis=(at,), exclude=True) if predictions.rank > 1 else spread
