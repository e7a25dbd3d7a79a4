"""Operators that combine elements along axes, and the functions composed of them."""

from __future__ import annotations

from typing import Any

from relayvm.ir.expr import Call, Expr, Tuple
from relayvm.relay.op.make import call
from relayvm.relay.op.tensor import add, exp, log, sqrt, subtract
from relayvm.relay.op.transform import squeeze

Axes = Any


def argmax(
    data: Expr,
    axis: Axes = None,
    keepdims: bool = False,
    exclude: bool = False,
    select_last_index: bool = False,
) -> Call:
    """Return the index of the greatest element along axes."""
    return _index("argmax", data, axis, keepdims, exclude, select_last_index)


def argmin(
    data: Expr,
    axis: Axes = None,
    keepdims: bool = False,
    exclude: bool = False,
    select_last_index: bool = False,
) -> Call:
    """Return the index of the smallest element along axes."""
    return _index("argmin", data, axis, keepdims, exclude, select_last_index)


def _index(
    name: str, data: Expr, axis: Axes, keepdims: bool, exclude: bool, select_last_index: bool
) -> Call:
    return call(
        name,
        data,
        axis=axis,
        keepdims=keepdims,
        select_last_index=select_last_index,
        exclude=exclude,
    )


def sum(data: Expr, axis: Axes = None, keepdims: bool = False, exclude: bool = False) -> Call:
    """Return the sum of the elements along axes."""
    return call("sum", data, axis=axis, keepdims=keepdims, exclude=exclude)


def all(data: Expr, axis: Axes = None, keepdims: bool = False, exclude: bool = False) -> Call:
    """Return whether all elements along axes are true."""
    return call("all", data, axis=axis, keepdims=keepdims, exclude=exclude)


def any(data: Expr, axis: Axes = None, keepdims: bool = False, exclude: bool = False) -> Call:
    """Return whether one element along axes is true."""
    return call("any", data, axis=axis, keepdims=keepdims, exclude=exclude)


def max(data: Expr, axis: Axes = None, keepdims: bool = False, exclude: bool = False) -> Call:
    """Return the greatest element along axes."""
    return call("max", data, axis=axis, keepdims=keepdims, exclude=exclude)


def min(data: Expr, axis: Axes = None, keepdims: bool = False, exclude: bool = False) -> Call:
    """Return the smallest element along axes."""
    return call("min", data, axis=axis, keepdims=keepdims, exclude=exclude)


def prod(data: Expr, axis: Axes = None, keepdims: bool = False, exclude: bool = False) -> Call:
    """Return the product of the elements along axes."""
    return call("prod", data, axis=axis, keepdims=keepdims, exclude=exclude)


def mean(data: Expr, axis: Axes = None, keepdims: bool = False, exclude: bool = False) -> Call:
    """Return the mean of the elements along axes."""
    return call("mean", data, axis=axis, keepdims=keepdims, exclude=exclude)


def variance(
    data: Expr,
    axis: Axes = None,
    keepdims: bool = False,
    exclude: bool = False,
    unbiased: bool = False,
    with_mean: Expr | None = None,
) -> Call:
    """Return the variance of the elements along axes; `with_mean` is their mean, axes kept."""
    around = mean(data, axis, True, exclude) if with_mean is None else with_mean
    return call(
        "variance",
        data,
        around,
        axis=axis,
        keepdims=keepdims,
        exclude=exclude,
        unbiased=unbiased,
    )


def std(
    data: Expr,
    axis: Axes = None,
    keepdims: bool = False,
    exclude: bool = False,
    unbiased: bool = False,
) -> Call:
    """Return the standard deviation of the elements along axes, the root of their variance."""
    return sqrt(variance(data, axis, keepdims, exclude, unbiased))


def mean_variance(
    data: Expr,
    axis: Axes = None,
    keepdims: bool = False,
    exclude: bool = False,
    unbiased: bool = False,
) -> Tuple:
    """Return the mean and the variance of the elements along axes."""
    around = mean(data, axis, True, exclude)
    spread = variance(data, axis, keepdims, exclude, unbiased, around)
    return Tuple((_kept(around, data, axis, keepdims, exclude), spread))


def mean_std(
    data: Expr,
    axis: Axes = None,
    keepdims: bool = False,
    exclude: bool = False,
    unbiased: bool = False,
) -> Tuple:
    """Return the mean and the standard deviation of the elements along axes."""
    around = mean(data, axis, True, exclude)
    spread = sqrt(variance(data, axis, keepdims, exclude, unbiased, around))
    return Tuple((_kept(around, data, axis, keepdims, exclude), spread))


def _kept(around: Expr, data: Expr, axis: Axes, keepdims: bool, exclude: bool) -> Expr:
    """Return the mean without the axes that were kept for the variance."""
    if keepdims:
        return around
    return mean(data, axis, False, exclude) if exclude else squeeze(around, axis)


def logsumexp(data: Expr, axis: Axes = None, keepdims: bool = False) -> Call:
    """Return the logarithm of the sum of exponentials along axes, without overflow."""
    greatest = max(data, axis, True)
    total = sum(exp(subtract(data, greatest)), axis, True)
    result = add(greatest, log(total))
    return result if keepdims else squeeze(result, axis)
