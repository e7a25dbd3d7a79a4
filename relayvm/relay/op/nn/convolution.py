"""Convolutions and transposed convolutions."""

from __future__ import annotations

from typing import Any

from relayvm.ir.expr import Call, Expr
from relayvm.relay.op.make import call, spread
from relayvm.relay.op.make import padding as full_padding

Sizes = Any


def _window(
    name: str,
    axes: int,
    operands: tuple[Expr, ...],
    strides: Sizes,
    padding: Sizes,
    dilation: Sizes,
    kernel_size: Sizes,
    **rest: Any,
) -> Call:
    """Build the call of an operator that moves a window over `axes` axes."""
    return call(
        name,
        *operands,
        strides=spread(strides, axes),
        padding=full_padding(padding, axes),
        dilation=spread(dilation, axes),
        kernel_size=spread(kernel_size, axes),
        **rest,
    )


def conv1d(
    data: Expr,
    weight: Expr,
    strides: Sizes = 1,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    groups: int = 1,
    channels: int | None = None,
    kernel_size: Sizes = None,
    data_layout: str = "NCW",
    kernel_layout: str = "OIW",
    out_layout: str = "",
    out_dtype: str = "",
) -> Call:
    """Return the convolution of `data` over its one spatial axis with the filters `weight`."""
    return _window(
        "nn.conv1d",
        1,
        (data, weight),
        strides,
        padding,
        dilation,
        kernel_size,
        groups=groups,
        channels=channels,
        data_layout=data_layout,
        kernel_layout=kernel_layout,
        out_layout=out_layout,
        out_dtype=out_dtype,
    )


def conv2d(
    data: Expr,
    weight: Expr,
    strides: Sizes = (1, 1),
    padding: Sizes = (0, 0),
    dilation: Sizes = (1, 1),
    groups: int = 1,
    channels: int | None = None,
    kernel_size: Sizes = None,
    data_layout: str = "NCHW",
    kernel_layout: str = "OIHW",
    out_layout: str = "",
    out_dtype: str = "",
) -> Call:
    """Return the convolution of `data` over its two spatial axes with the filters `weight`."""
    return _window(
        "nn.conv2d",
        2,
        (data, weight),
        strides,
        padding,
        dilation,
        kernel_size,
        groups=groups,
        channels=channels,
        data_layout=data_layout,
        kernel_layout=kernel_layout,
        out_layout=out_layout,
        out_dtype=out_dtype,
    )


def conv3d(
    data: Expr,
    weight: Expr,
    strides: Sizes = (1, 1, 1),
    padding: Sizes = (0, 0, 0),
    dilation: Sizes = (1, 1, 1),
    groups: int = 1,
    channels: int | None = None,
    kernel_size: Sizes = None,
    data_layout: str = "NCDHW",
    kernel_layout: str = "OIDHW",
    out_layout: str = "",
    out_dtype: str = "",
) -> Call:
    """Return the convolution of `data` over its three spatial axes with the filters `weight`."""
    return _window(
        "nn.conv3d",
        3,
        (data, weight),
        strides,
        padding,
        dilation,
        kernel_size,
        groups=groups,
        channels=channels,
        data_layout=data_layout,
        kernel_layout=kernel_layout,
        out_layout=out_layout,
        out_dtype=out_dtype,
    )


def conv1d_transpose(
    data: Expr,
    weight: Expr,
    strides: Sizes = (1,),
    padding: Sizes = (0,),
    dilation: Sizes = (1,),
    groups: int = 1,
    channels: int | None = None,
    kernel_size: Sizes = None,
    data_layout: str = "NCW",
    kernel_layout: str = "IOW",
    out_layout: str = "",
    output_padding: Sizes = (0,),
    out_dtype: str = "",
) -> Call:
    """Return the transposed convolution of `data` over its one spatial axis."""
    return _window(
        "nn.conv1d_transpose",
        1,
        (data, weight),
        strides,
        padding,
        dilation,
        kernel_size,
        groups=groups,
        channels=channels,
        data_layout=data_layout,
        kernel_layout=kernel_layout,
        out_layout=out_layout,
        output_padding=spread(output_padding, 1),
        out_dtype=out_dtype,
    )


def conv2d_transpose(
    data: Expr,
    weight: Expr,
    strides: Sizes = (1, 1),
    padding: Sizes = (0, 0),
    dilation: Sizes = (1, 1),
    groups: int = 1,
    channels: int | None = None,
    kernel_size: Sizes = None,
    data_layout: str = "NCHW",
    kernel_layout: str = "IOHW",
    out_layout: str = "",
    output_padding: Sizes = (0, 0),
    out_dtype: str = "",
) -> Call:
    """Return the transposed convolution of `data` over its two spatial axes."""
    return _window(
        "nn.conv2d_transpose",
        2,
        (data, weight),
        strides,
        padding,
        dilation,
        kernel_size,
        groups=groups,
        channels=channels,
        data_layout=data_layout,
        kernel_layout=kernel_layout,
        out_layout=out_layout,
        output_padding=spread(output_padding, 2),
        out_dtype=out_dtype,
    )


def conv3d_transpose(
    data: Expr,
    weight: Expr,
    strides: Sizes = (1, 1, 1),
    padding: Sizes = (0, 0, 0),
    dilation: Sizes = (1, 1, 1),
    groups: int = 1,
    channels: int | None = None,
    kernel_size: Sizes = None,
    data_layout: str = "NCDHW",
    kernel_layout: str = "IODHW",
    out_layout: str = "",
    output_padding: Sizes = (0, 0, 0),
    out_dtype: str = "",
) -> Call:
    """Return the transposed convolution of `data` over its three spatial axes."""
    return _window(
        "nn.conv3d_transpose",
        3,
        (data, weight),
        strides,
        padding,
        dilation,
        kernel_size,
        groups=groups,
        channels=channels,
        data_layout=data_layout,
        kernel_layout=kernel_layout,
        out_layout=out_layout,
        output_padding=spread(output_padding, 3),
        out_dtype=out_dtype,
    )


def conv2d_backward_weight(
    grad: Expr,
    data: Expr,
    strides: Sizes = (1, 1),
    padding: Sizes = (0, 0),
    dilation: Sizes = (1, 1),
    groups: int = 1,
    channels: int | None = None,
    kernel_size: Sizes = None,
    grad_layout: str = "NCHW",
    data_layout: str = "NCHW",
    kernel_layout: str = "OIHW",
    out_dtype: str = "",
) -> Call:
    """Return the gradient of a convolution with respect to its filters."""
    return _window(
        "nn.conv2d_backward_weight",
        2,
        (grad, data),
        strides,
        padding,
        dilation,
        kernel_size,
        groups=groups,
        channels=channels,
        data_layout=grad_layout,
        kernel_layout=data_layout,
        out_layout=kernel_layout,
        out_dtype=out_dtype,
    )


def deformable_conv2d(
    data: Expr,
    offset: Expr,
    weight: Expr,
    strides: Sizes = (1, 1),
    padding: Sizes = (0, 0),
    dilation: Sizes = (1, 1),
    deformable_groups: int = 1,
    groups: int = 1,
    channels: int | None = None,
    kernel_size: Sizes = None,
    data_layout: str = "NCHW",
    kernel_layout: str = "OIHW",
    out_layout: str = "",
    out_dtype: str = "",
) -> Call:
    """Return the convolution whose window is bent by an offset for each of its places."""
    return _window(
        "nn.deformable_conv2d",
        2,
        (data, offset, weight),
        strides,
        padding,
        dilation,
        kernel_size,
        deformable_groups=deformable_groups,
        groups=groups,
        channels=channels,
        data_layout=data_layout,
        kernel_layout=kernel_layout,
        out_layout=out_layout,
        out_dtype=out_dtype,
    )


def bitserial_conv2d(
    data: Expr,
    weight: Expr,
    strides: Sizes = (1, 1),
    padding: Sizes = (0, 0),
    channels: int | None = None,
    kernel_size: Sizes = (3, 3),
    activation_bits: int = 1,
    weight_bits: int = 1,
    data_layout: str = "NCHW",
    kernel_layout: str = "OIHW",
    pack_dtype: str = "uint32",
    out_dtype: str = "int16",
    unipolar: bool = True,
) -> Call:
    """Return the convolution of the lowest bits of `data` with those of a weight, packed or not."""
    return call(
        "nn.bitserial_conv2d",
        data,
        weight,
        strides=spread(strides, 2),
        padding=full_padding(padding, 2),
        channels=channels,
        kernel_size=kernel_size,
        activation_bits=activation_bits,
        weight_bits=weight_bits,
        data_layout=data_layout,
        kernel_layout=kernel_layout,
        pack_dtype=pack_dtype,
        out_dtype=out_dtype,
        unipolar=unipolar,
    )


def correlation(
    data1: Expr,
    data2: Expr,
    kernel_size: int,
    max_displacement: int,
    stride1: int,
    stride2: int,
    padding: Sizes,
    is_multiply: bool,
    layout: str,
) -> Call:
    """Return how well patches of one image fit those around the same place of another."""
    return call(
        "nn.correlation",
        data1,
        data2,
        kernel_size=kernel_size,
        max_displacement=max_displacement,
        stride1=stride1,
        stride2=stride2,
        padding=full_padding(padding, 2),
        is_multiply=is_multiply,
        layout=layout,
    )
