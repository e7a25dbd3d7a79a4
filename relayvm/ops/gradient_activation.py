"""Gradients of activations with parameters, dropout, and normalisation layers."""

from __future__ import annotations

from collections.abc import Sequence

from relayvm.base.dtypes import DType
from relayvm.ir.expr import Expr, TupleGetItem
from relayvm.ops import (
    gradient_reduction,  # noqa: F401  (that of softmax is copied)
    rows,
)
from relayvm.ops.activation import APPROXIMATED, dropout, leaky_relu, prelu
from relayvm.ops.axes import require_axis
from relayvm.ops.elementwise import where
from relayvm.ops.gradient_elementwise import Gradients
from relayvm.ops.gradient_expressions import number, times, where_or_zero
from relayvm.ops.normalization_layers import (
    batch_norm,
    group_norm,
    instance_norm,
    l2_normalize,
    length_axes,
    lrn,
)
from relayvm.ops.operator import GradientCall
from relayvm.ops.pooling import WINDOWS
from relayvm.ops.reshaping import expand_dims, reshape, reshape_like
from relayvm.ops.rows import add, divide, mean, multiply, negative, power, subtract, sum_

for _row, _source in APPROXIMATED:
    _row.gradient(_source.facets["gradient"])


def _along(vector: Expr, axis: int, rank: int) -> Expr:
    """Return a vector so that it is broadcast to a tensor of `rank` along `axis`."""
    behind = rank - 1 - axis
    return expand_dims(vector, axis=1, num_newaxis=behind) if behind else vector


@leaky_relu.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    dtype = call.type_of("data").dtype
    small = multiply(g, number(call.alpha, dtype))
    return (where(rows.greater(call.data, number(0, dtype)), g, small),)


@prelu.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    data = call.type_of("data")
    axis = require_axis(call.axis, data.rank)
    positive = rows.greater(call.data, number(0, data.dtype))
    of_data: Expr = where(positive, g, multiply(g, _along(call.alpha, axis, data.rank)))
    negative_part = where(positive, number(0, data.dtype), multiply(g, call.data))
    return of_data, sum_(negative_part, axis=(axis,), exclude=True)


@dropout.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    return (TupleGetItem(g, 0),)


def _power(x: Expr, exponent: float, dtype: DType) -> Expr:
    return power(x, number(exponent, dtype))


@batch_norm.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    # y = (x - m) f gamma + beta, where f = (v + epsilon)^-1/2
    data = call.type_of("data")
    rank, dtype = data.rank, data.dtype
    axis = require_axis(call.axis, rank)
    g0, of_mean, of_variance = (TupleGetItem(g, i) for i in range(3))
    deviation = rows.sqrt(add(call.moving_var, number(call.epsilon, dtype)))
    factor = divide(call.gamma, deviation) if call.scale else divide(number(1, dtype), deviation)
    distance = subtract(call.data, _along(call.moving_mean, axis, rank))
    total = sum_(g0, axis=(axis,), exclude=True)
    along = sum_(multiply(g0, distance), axis=(axis,), exclude=True)
    slope = divide(times(along, factor, number(-0.5, dtype)), multiply(deviation, deviation))
    return (
        multiply(g0, _along(factor, axis, rank)),
        divide(along, deviation) if call.scale else None,
        total if call.center else None,
        subtract(of_mean, multiply(total, factor)),
        add(of_variance, slope),
    )


def _standardised(
    x: Expr, g: Expr, axes: Sequence[int], epsilon: float, dtype: DType
) -> tuple[Expr, Expr]:
    """Return `(x - mean) / deviation` over `axes` and the gradient of x from that of it.

    With z = (x - m) / s: dx = (g - mean g - z mean(g z)) / s.
    """
    axis = tuple(axes)
    distance = subtract(x, mean(x, axis=axis, keepdims=True))
    square = mean(multiply(distance, distance), axis=axis, keepdims=True)
    deviation = rows.sqrt(add(square, number(epsilon, dtype)))
    z = divide(distance, deviation)
    centered = subtract(g, mean(g, axis=axis, keepdims=True))
    along = multiply(z, mean(multiply(g, z), axis=axis, keepdims=True))
    return z, divide(subtract(centered, along), deviation)


def _grouped(call: GradientCall, g: Expr, groups: int | None) -> Gradients:
    """Return gradients of a normalisation in groups of channels, None for one channel a group."""
    data = call.type_of("data")
    rank, dtype = data.rank, data.dtype
    axis = require_axis(call.axis, rank)
    h = multiply(g, _along(call.gamma, axis, rank)) if call.scale else g
    x = call.data
    axes = [k for k in range(1, rank) if k != axis]
    if groups is not None:
        split = (*(0,) * axis, -4, groups, -1, -2)
        x, h = reshape(x, newshape=split), reshape(h, newshape=split)
        axes = [k for k in range(1, rank + 1) if k != axis]
    z, of_data = _standardised(x, h, axes, call.epsilon, dtype)
    if groups is not None:
        z, of_data = reshape_like(z, call.data), reshape_like(of_data, call.data)
    return (
        of_data,
        sum_(multiply(g, z), axis=(axis,), exclude=True) if call.scale else None,
        sum_(g, axis=(axis,), exclude=True) if call.center else None,
    )


@instance_norm.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    return _grouped(call, g, None)


@group_norm.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    return _grouped(call, g, call.num_groups)


@l2_normalize.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    # With s = sqrt(max(sum x^2, eps)): dx = g / s - x sum(g x) / s^3 where the sum is the greater
    data = call.type_of("data")
    axes, x = length_axes(call.axis, data.rank), call.data
    eps = number(call.eps, data.dtype)
    total = sum_(multiply(x, x), axis=axes, keepdims=True)
    kept = rows.ROWS["maximum"](total, eps)
    length = rows.sqrt(kept)
    along: Expr = divide(sum_(multiply(g, x), axis=axes, keepdims=True), multiply(kept, length))
    along = where_or_zero(rows.greater(total, eps), along, data.dtype)
    return (subtract(divide(g, length), multiply(x, along)),)


def _window_sum(x: Expr, size: int, axis: int, rank: int, dtype: DType) -> Expr:
    """Return the sums of the `size` neighbours of each element along an axis."""
    layout = "".join("W" if k == axis else "N" for k in range(rank))
    pool, _ = WINDOWS[1, "avg"]
    half = size // 2
    means = pool(x, pool_size=(size,), padding=(half,), layout=layout, count_include_pad=True)
    return multiply(means, number(size, dtype))


@lrn.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    # With d = bias + alpha / size * S x^2: dx = g d^-b - 2 alpha b / size * x S(g x d^(-b - 1))
    data = call.type_of("data")
    rank, dtype = data.rank, data.dtype
    axis, x = require_axis(call.axis, rank), call.data
    squares = _window_sum(multiply(x, x), call.size, axis, rank, dtype)
    rate = call.alpha / call.size
    d = add(multiply(squares, number(rate, dtype)), number(call.bias, dtype))
    inner = times(g, x, _power(d, -call.beta - 1, dtype))
    shared = _window_sum(inner, call.size, axis, rank, dtype)
    slope = times(x, shared, number(2 * rate * call.beta, dtype))
    return (add(multiply(g, _power(d, -call.beta, dtype)), negative(slope)),)
