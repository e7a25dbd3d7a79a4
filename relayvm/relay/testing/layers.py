"""Layers that make the variables of their own weights; types of these are inferred."""

from __future__ import annotations

from typing import Any

from relayvm.base.diagnostics import error
from relayvm.ir.expr import Call, Expr, Function, TupleGetItem, Var
from relayvm.ir.visit import free_vars
from relayvm.relay.expr import var
from relayvm.relay.op import nn


def network(body: Expr) -> Function:
    """Return the function over all free variables of a result, in the order of their use."""
    return Function(free_vars(body), body)


def _weight(given: Expr | None, name: str) -> Expr:
    return var(name) if given is None else given


def batch_norm_infer(
    data: Expr,
    gamma: Expr | None = None,
    beta: Expr | None = None,
    moving_mean: Expr | None = None,
    moving_var: Expr | None = None,
    **kwargs: Any,
) -> TupleGetItem:
    """Return the normalised data of a batch normalisation; `name` begins the names of weights."""
    name = kwargs.pop("name")
    weights = (
        _weight(gamma, f"{name}_gamma"),
        _weight(beta, f"{name}_beta"),
        _weight(moving_mean, f"{name}_moving_mean"),
        _weight(moving_var, f"{name}_moving_var"),
    )
    return nn.batch_norm(data, *weights, **kwargs)[0]


def conv1d(data: Expr, weight: Expr | None = None, **kwargs: Any) -> Call:
    """Return a `conv1d`; `name` begins the name of its weight."""
    return nn.conv1d(data, _weight(weight, kwargs.pop("name") + "_weight"), **kwargs)


def conv2d(data: Expr, weight: Expr | None = None, **kwargs: Any) -> Call:
    """Return a `conv2d`; `name` begins the name of its weight."""
    return nn.conv2d(data, _weight(weight, kwargs.pop("name") + "_weight"), **kwargs)


def conv3d(data: Expr, weight: Expr | None = None, **kwargs: Any) -> Call:
    """Return a `conv3d`; `name` begins the name of its weight."""
    return nn.conv3d(data, _weight(weight, kwargs.pop("name") + "_weight"), **kwargs)


def conv2d_transpose(data: Expr, weight: Expr | None = None, **kwargs: Any) -> Call:
    """Return a `conv2d_transpose`; `name` begins the name of its weight."""
    return nn.conv2d_transpose(data, _weight(weight, kwargs.pop("name") + "_weight"), **kwargs)


def dense_add_bias(
    data: Expr,
    weight: Expr | None = None,
    bias: Expr | None = None,
    units: int | None = None,
    **kwargs: Any,
) -> Call:
    """Return a `dense` with a bias; `name` begins the names of weight and bias."""
    name = kwargs.pop("name")
    weight, bias = _weight(weight, f"{name}_weight"), _weight(bias, f"{name}_bias")
    return nn.bias_add(nn.dense(data, weight, units, **kwargs), bias, axis=-1)


def conv_bias(data: Expr, **kwargs: Any) -> Call:
    """Return a `conv2d` with a bias; `name` begins the names of weight and bias."""
    bias: Var = var(kwargs["name"] + "_bias")
    return nn.bias_add(conv2d(data, **kwargs), bias)


def avg_pool2d_within(data: Expr, size: int, sides: tuple[int, int]) -> Call:
    """Return an `avg_pool2d` of windows of `size`, cut where images have smaller sides."""
    return nn.avg_pool2d(data, pool_size=tuple(min(size, side) for side in sides))


_LAYOUTS = {"NCHW": ("OIHW", "OIHW"), "NHWC": ("HWIO", "HWOI")}


def conv_kernel_layout(data_layout: str, is_depthwise: bool = False) -> str:
    """Return the layout of the filters that goes with a layout of the data."""
    if data_layout not in _LAYOUTS:
        raise error("bad-option", f"there is no data layout `{data_layout}`; known are NCHW, NHWC")
    return _LAYOUTS[data_layout][is_depthwise]
