"""Gradients of reductions, softmax and layer norm."""

from __future__ import annotations

from relayvm.ir.expr import Expr
from relayvm.ops import rows
from relayvm.ops.axes import reduced_axes, require_axis
from relayvm.ops.broadcasting import collapse_sum_like
from relayvm.ops.elementwise import cast, where
from relayvm.ops.gradient_elementwise import Gradients
from relayvm.ops.gradient_expressions import (
    count_of,
    number,
    same_shape,
    spread,
    spread_like,
    times,
)
from relayvm.ops.normalization import bias_add, layer_norm, log_softmax, softmax
from relayvm.ops.operator import GradientCall
from relayvm.ops.reduction import variance
from relayvm.ops.reshaping import expand_dims
from relayvm.ops.rows import ROWS, add, divide, equal, exp, mean, multiply, negative, subtract, sum_


def _axes(call: GradientCall) -> tuple[int, ...]:
    return reduced_axes(call.axis, call.exclude, call.type_of("data").rank)


def _count(call: GradientCall) -> Expr:
    data = call.type_of("data")
    return count_of(call.data, data.shape, _axes(call), data.dtype)


@ROWS["sum"].gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    return (spread_like(g, _axes(call), call.keepdims, call.data),)


@ROWS["mean"].gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    return (spread_like(divide(g, _count(call)), _axes(call), call.keepdims, call.data),)


def _extreme(call: GradientCall, g: Expr) -> Gradients:
    """Share the gradient of a greatest or least element equally among all that are equal to it."""
    axes, data = _axes(call), call.type_of("data")
    hits = cast(equal(call.data, spread(call.output, axes, call.keepdims)), dtype=data.dtype)
    number_of_hits = sum_(hits, axis=axes, keepdims=True)
    return (multiply(hits, divide(spread(g, axes, call.keepdims), number_of_hits)),)


ROWS["max"].gradient(_extreme)
ROWS["min"].gradient(_extreme)


@ROWS["prod"].gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    """The product of the others: by division where no factor is 0, else only at a single 0."""
    axes, dtype = _axes(call), call.type_of("data").dtype
    zero, one = number(0, dtype), number(1, dtype)
    is_zero = equal(call.data, zero)
    factors = where(is_zero, one, call.data)
    product = ROWS["prod"](factors, axis=axes, keepdims=True)
    zeros = sum_(cast(is_zero, dtype=dtype), axis=axes, keepdims=True)
    beside_none = where(equal(zeros, zero), divide(product, factors), zero)
    others = where(is_zero, where(equal(zeros, one), product, zero), beside_none)
    return (multiply(others, spread(g, axes, call.keepdims)),)


@variance.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    # d/dx sum (x - m)^2 / n = 2 (x - m) / n, and the negative for m
    axes, dtype = _axes(call), call.type_of("data").dtype
    count = _count(call)
    if call.unbiased:
        count = subtract(count, number(1, dtype))
    slope = divide(times(subtract(call.data, call.mean), number(2, dtype)), count)
    of_data = multiply(slope, spread(g, axes, call.keepdims))
    of_mean = negative(of_data)
    if not same_shape(call.type_of("data").shape, call.type_of("mean").shape):
        of_mean = collapse_sum_like(of_mean, call.mean)
    return of_data, of_mean


@softmax.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    # y (g - sum g y)
    weighted = sum_(multiply(g, call.output), axis=(call.axis,), keepdims=True)
    return (multiply(call.output, subtract(g, weighted)),)


@log_softmax.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    # g - exp(y) sum g
    total = sum_(g, axis=(call.axis,), keepdims=True)
    return (subtract(g, multiply(exp(call.output), total)),)


@bias_add.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    return g, sum_(g, axis=(call.axis,), exclude=True)


@layer_norm.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    # With z = (x - m) / s: dx = (h - mean h - z mean(h z)) / s where h = g gamma
    data = call.type_of("data")
    place = require_axis(call.axis, data.rank)
    axis = (place,)
    distance = subtract(call.data, mean(call.data, axis=axis, keepdims=True))
    square = mean(multiply(distance, distance), axis=axis, keepdims=True)
    deviation = rows.sqrt(add(square, number(call.epsilon, data.dtype)))
    z = divide(distance, deviation)
    h = g
    if call.scale:
        behind = data.rank - 1 - place
        h = multiply(g, expand_dims(call.gamma, axis=1, num_newaxis=behind))
    centered = subtract(h, mean(h, axis=axis, keepdims=True))
    along = multiply(z, mean(multiply(h, z), axis=axis, keepdims=True))
    return (
        divide(subtract(centered, along), deviation),
        sum_(multiply(g, z), axis=axis, exclude=True) if call.scale else None,
        sum_(g, axis=axis, exclude=True) if call.center else None,
    )
