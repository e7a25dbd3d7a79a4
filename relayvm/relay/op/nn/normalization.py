"""Activations, normalizations and losses."""

from __future__ import annotations

from typing import Any

from relayvm.ir.expr import Call, Expr, TupleGetItem
from relayvm.relay.expr import TupleWrapper
from relayvm.relay.op.make import call, wrapped


def relu(data: Expr) -> Call:
    """Return the elements, 0 where they are negative."""
    return call("nn.relu", data)


def leaky_relu(data: Expr, alpha: float = 0.01) -> Call:
    """Return the elements, times `alpha` where they are negative."""
    return call("nn.leaky_relu", data, alpha=alpha)


def prelu(data: Expr, alpha: Expr, axis: int = 1) -> Call:
    """Return the elements, times the channel's slope where they are negative."""
    return call("nn.prelu", data, alpha, axis=axis)


def softmax(data: Expr, axis: int = -1) -> Call:
    """Return exponentials along an axis, divided by their sum."""
    return call("nn.softmax", data, axis=axis)


def fast_softmax(data: Expr, axis: int = -1) -> Call:
    """Return an approximation of `softmax`."""
    return call("nn.fast_softmax", data, axis=axis)


def log_softmax(data: Expr, axis: int = -1) -> Call:
    """Return the logarithm of `softmax`."""
    return call("nn.log_softmax", data, axis=axis)


def lrn(
    data: Expr,
    size: int = 5,
    axis: int = 1,
    bias: float = 2,
    alpha: float = 0.00001,
    beta: float = 0.75,
) -> Call:
    """Return the elements divided by a power of the sum of squares around them along an axis."""
    return call("nn.lrn", data, size=size, axis=axis, bias=bias, alpha=alpha, beta=beta)


def l2_normalize(data: Expr, eps: float, axis: Any = None) -> Call:
    """Return the elements divided by the root of their sum of squares along axes."""
    return call("nn.l2_normalize", data, eps=eps, axis=axis)


def dropout(data: Expr, rate: float = 0.5) -> TupleGetItem:
    """Return the elements; when training, some of them 0 and the others scaled."""
    return TupleGetItem(dropout_raw(data, rate), 0)


def dropout_raw(data: Expr, rate: float = 0.5) -> Call:
    """Return the result of `dropout` and the mask of what it kept."""
    return call("nn.dropout", data, rate=rate)


def batch_norm(
    data: Expr,
    gamma: Expr,
    beta: Expr,
    moving_mean: Expr,
    moving_var: Expr,
    axis: int = 1,
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
) -> TupleWrapper:
    """Return each channel brought to mean 0 and variance 1, scaled and shifted; and the means and
    variances.
    """
    return wrapped(
        3,
        "nn.batch_norm",
        data,
        gamma,
        beta,
        moving_mean,
        moving_var,
        axis=axis,
        epsilon=epsilon,
        center=center,
        scale=scale,
    )


def instance_norm(
    data: Expr,
    gamma: Expr,
    beta: Expr,
    axis: int = 1,
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
) -> Call:
    """Return each channel of each item brought to mean 0 and variance 1, scaled and shifted."""
    return call(
        "nn.instance_norm",
        data,
        gamma,
        beta,
        axis=axis,
        epsilon=epsilon,
        center=center,
        scale=scale,
    )


def layer_norm(
    data: Expr,
    gamma: Expr,
    beta: Expr,
    axis: int = -1,
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
) -> Call:
    """Return the elements along an axis brought to mean 0 and variance 1, scaled and shifted."""
    return call(
        "nn.layer_norm", data, gamma, beta, axis=axis, epsilon=epsilon, center=center, scale=scale
    )


def group_norm(
    data: Expr,
    gamma: Expr,
    beta: Expr,
    num_groups: int,
    axis: int = 1,
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
) -> Call:
    """Return each group of channels of each item brought to mean 0 and variance 1, scaled and
    shifted.
    """
    return call(
        "nn.group_norm",
        data,
        gamma,
        beta,
        num_groups=num_groups,
        axis=axis,
        epsilon=epsilon,
        center=center,
        scale=scale,
    )


def cross_entropy(predictions: Expr, targets: Expr) -> Call:
    """Return the cross entropy of probabilities and targets."""
    return call("nn.cross_entropy", predictions, targets)


def cross_entropy_with_logits(predictions: Expr, targets: Expr) -> Call:
    """Return the cross entropy of logarithms of probabilities and targets."""
    return call("nn.cross_entropy_with_logits", predictions, targets)


def nll_loss(
    predictions: Expr,
    targets: Expr,
    weights: Expr,
    reduction: str = "mean",
    ignore_index: int = -100,
) -> Call:
    """Return the negative weighted predictions of the targets, reduced."""
    return call(
        "nn.nll_loss", predictions, targets, weights, reduction=reduction, ignore_index=ignore_index
    )
