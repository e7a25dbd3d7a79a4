"""Pooling, adaptive and global pooling, and their gradients."""

from __future__ import annotations

from typing import Any

from relayvm.ir.expr import Call, Expr
from relayvm.relay.op.make import call, spread
from relayvm.relay.op.make import padding as full_padding

Sizes = Any


def _pool(
    name: str,
    axes: int,
    data: Expr,
    pool_size: Sizes,
    strides: Sizes,
    dilation: Sizes,
    padding: Sizes,
    **rest: Any,
) -> Call:
    return call(
        name,
        data,
        pool_size=spread(pool_size, axes),
        strides=spread(strides, axes),
        dilation=spread(dilation, axes),
        padding=full_padding(padding, axes),
        **rest,
    )


def max_pool1d(
    data: Expr,
    pool_size: Sizes = (1,),
    strides: Sizes = (1,),
    dilation: Sizes = (1,),
    padding: Sizes = (0,),
    layout: str = "NCW",
    out_layout: str = "",
    ceil_mode: bool = False,
) -> Call:
    """Return the greatest element of each window over its one spatial axis."""
    return _pool(
        "nn.max_pool1d",
        1,
        data,
        pool_size,
        strides,
        dilation,
        padding,
        layout=layout,
        out_layout=out_layout,
        ceil_mode=ceil_mode,
    )


def max_pool2d(
    data: Expr,
    pool_size: Sizes = (1, 1),
    strides: Sizes = (1, 1),
    dilation: Sizes = (1, 1),
    padding: Sizes = (0, 0),
    layout: str = "NCHW",
    out_layout: str = "",
    ceil_mode: bool = False,
) -> Call:
    """Return the greatest element of each window over its two spatial axes."""
    return _pool(
        "nn.max_pool2d",
        2,
        data,
        pool_size,
        strides,
        dilation,
        padding,
        layout=layout,
        out_layout=out_layout,
        ceil_mode=ceil_mode,
    )


def max_pool3d(
    data: Expr,
    pool_size: Sizes = (1, 1, 1),
    strides: Sizes = (1, 1, 1),
    dilation: Sizes = (1, 1, 1),
    padding: Sizes = (0, 0, 0),
    layout: str = "NCDHW",
    out_layout: str = "",
    ceil_mode: bool = False,
) -> Call:
    """Return the greatest element of each window over its three spatial axes."""
    return _pool(
        "nn.max_pool3d",
        3,
        data,
        pool_size,
        strides,
        dilation,
        padding,
        layout=layout,
        out_layout=out_layout,
        ceil_mode=ceil_mode,
    )


def avg_pool1d(
    data: Expr,
    pool_size: Sizes = (1,),
    strides: Sizes = (1,),
    dilation: Sizes = (1,),
    padding: Sizes = (0,),
    layout: str = "NCW",
    out_layout: str = "",
    ceil_mode: bool = False,
    count_include_pad: bool = False,
) -> Call:
    """Return the mean of each window over its one spatial axis."""
    return _pool(
        "nn.avg_pool1d",
        1,
        data,
        pool_size,
        strides,
        dilation,
        padding,
        layout=layout,
        out_layout=out_layout,
        ceil_mode=ceil_mode,
        count_include_pad=count_include_pad,
    )


def avg_pool2d(
    data: Expr,
    pool_size: Sizes = (1, 1),
    strides: Sizes = (1, 1),
    dilation: Sizes = (1, 1),
    padding: Sizes = (0, 0),
    layout: str = "NCHW",
    out_layout: str = "",
    ceil_mode: bool = False,
    count_include_pad: bool = False,
) -> Call:
    """Return the mean of each window over its two spatial axes."""
    return _pool(
        "nn.avg_pool2d",
        2,
        data,
        pool_size,
        strides,
        dilation,
        padding,
        layout=layout,
        out_layout=out_layout,
        ceil_mode=ceil_mode,
        count_include_pad=count_include_pad,
    )


def avg_pool3d(
    data: Expr,
    pool_size: Sizes = (1, 1, 1),
    strides: Sizes = (1, 1, 1),
    dilation: Sizes = (1, 1, 1),
    padding: Sizes = (0, 0, 0),
    layout: str = "NCDHW",
    out_layout: str = "",
    ceil_mode: bool = False,
    count_include_pad: bool = False,
) -> Call:
    """Return the mean of each window over its three spatial axes."""
    return _pool(
        "nn.avg_pool3d",
        3,
        data,
        pool_size,
        strides,
        dilation,
        padding,
        layout=layout,
        out_layout=out_layout,
        ceil_mode=ceil_mode,
        count_include_pad=count_include_pad,
    )


def max_pool2d_grad(
    out_grad: Expr,
    data: Expr,
    pool_size: Sizes = (1, 1),
    strides: Sizes = (1, 1),
    padding: Sizes = (0, 0),
    layout: str = "NCHW",
    out_layout: str = "",
    ceil_mode: bool = False,
) -> Call:
    """Return the gradient of `max_pool2d` with respect to its data."""
    return call(
        "nn.max_pool2d_grad",
        out_grad,
        data,
        pool_size=spread(pool_size, 2),
        strides=spread(strides, 2),
        padding=full_padding(padding, 2),
        layout=layout,
        out_layout=out_layout,
        ceil_mode=ceil_mode,
    )


def avg_pool2d_grad(
    out_grad: Expr,
    data: Expr,
    pool_size: Sizes = (1, 1),
    strides: Sizes = (1, 1),
    padding: Sizes = (0, 0),
    layout: str = "NCHW",
    out_layout: str = "",
    ceil_mode: bool = False,
    count_include_pad: bool = False,
) -> Call:
    """Return the gradient of `avg_pool2d` with respect to its data."""
    return call(
        "nn.avg_pool2d_grad",
        out_grad,
        data,
        pool_size=spread(pool_size, 2),
        strides=spread(strides, 2),
        padding=full_padding(padding, 2),
        layout=layout,
        out_layout=out_layout,
        ceil_mode=ceil_mode,
        count_include_pad=count_include_pad,
    )


def global_max_pool2d(data: Expr, layout: str = "NCHW", out_layout: str = "") -> Call:
    """Return the greatest element of each channel."""
    return call("nn.global_max_pool2d", data, layout=layout, out_layout=out_layout)


def global_avg_pool2d(data: Expr, layout: str = "NCHW", out_layout: str = "") -> Call:
    """Return the mean of each channel."""
    return call("nn.global_avg_pool2d", data, layout=layout, out_layout=out_layout)


def _adaptive(name: str, data: Expr, output_size: Sizes, layout: str, out_layout: str) -> Call:
    """Build an adaptive pooling; one size of the result stands for all axes, none keeps them."""
    sizes = () if output_size is None else output_size
    axes = len(layout) - 2
    return call(name, data, output_size=spread(sizes, axes), layout=layout, out_layout=out_layout)


def adaptive_max_pool1d(
    data: Expr, output_size: Sizes = None, layout: str = "NCW", out_layout: str = ""
) -> Call:
    """Return the greatest element of windows so chosen that the result has a size."""
    return _adaptive("nn.adaptive_max_pool1d", data, output_size, layout, out_layout)


def adaptive_avg_pool1d(
    data: Expr, output_size: Sizes = None, layout: str = "NCW", out_layout: str = ""
) -> Call:
    """Return the mean of windows so chosen that the result has a size."""
    return _adaptive("nn.adaptive_avg_pool1d", data, output_size, layout, out_layout)


def adaptive_max_pool2d(
    data: Expr, output_size: Sizes = None, layout: str = "NCHW", out_layout: str = ""
) -> Call:
    """Return the greatest element of windows so chosen that the result has a size."""
    return _adaptive("nn.adaptive_max_pool2d", data, output_size, layout, out_layout)


def adaptive_avg_pool2d(
    data: Expr, output_size: Sizes = None, layout: str = "NCHW", out_layout: str = ""
) -> Call:
    """Return the mean of windows so chosen that the result has a size."""
    return _adaptive("nn.adaptive_avg_pool2d", data, output_size, layout, out_layout)


def adaptive_max_pool3d(
    data: Expr, output_size: Sizes = None, layout: str = "NCDHW", out_layout: str = ""
) -> Call:
    """Return the greatest element of windows so chosen that the result has a size."""
    return _adaptive("nn.adaptive_max_pool3d", data, output_size, layout, out_layout)


def adaptive_avg_pool3d(
    data: Expr, output_size: Sizes = None, layout: str = "NCDHW", out_layout: str = ""
) -> Call:
    """Return the mean of windows so chosen that the result has a size."""
    return _adaptive("nn.adaptive_avg_pool3d", data, output_size, layout, out_layout)


def global_max_pool1d(data: Expr, layout: str = "NCW", out_layout: str = "") -> Call:
    """Return the greatest element of each channel."""
    return adaptive_max_pool1d(data, 1, layout, out_layout)


def global_avg_pool1d(data: Expr, layout: str = "NCW", out_layout: str = "") -> Call:
    """Return the mean of each channel."""
    return adaptive_avg_pool1d(data, 1, layout, out_layout)


def global_max_pool3d(data: Expr, layout: str = "NCDHW", out_layout: str = "") -> Call:
    """Return the greatest element of each channel."""
    return adaptive_max_pool3d(data, 1, layout, out_layout)


def global_avg_pool3d(data: Expr, layout: str = "NCDHW", out_layout: str = "") -> Call:
    """Return the mean of each channel."""
    return adaptive_avg_pool3d(data, 1, layout, out_layout)
