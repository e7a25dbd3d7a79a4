"""Convolutions in other layouts and by other algorithms, and the weights that they take."""

from __future__ import annotations

from typing import Any

from relayvm.ir.expr import Call, Expr
from relayvm.relay.op.make import call, spread
from relayvm.relay.op.make import padding as full_padding

Sizes = Any


def contrib_conv2d_winograd_without_weight_transform(
    data: Expr,
    weight: Expr,
    tile_size: int,
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
    """Return `conv2d` by Winograd's algorithm, for weights transformed beforehand."""
    return call(
        "nn.contrib_conv2d_winograd_without_weight_transform",
        data,
        weight,
        tile_size=tile_size,
        strides=spread(strides, 2),
        padding=full_padding(padding, 2),
        dilation=spread(dilation, 2),
        groups=groups,
        channels=channels,
        kernel_size=spread(kernel_size, 2),
        data_layout=data_layout,
        kernel_layout=kernel_layout,
        out_layout=out_layout,
        out_dtype=out_dtype,
    )


def contrib_conv3d_winograd_without_weight_transform(
    data: Expr,
    weight: Expr,
    tile_size: int,
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
    """Return `conv3d` by Winograd's algorithm, for weights transformed beforehand."""
    return call(
        "nn.contrib_conv3d_winograd_without_weight_transform",
        data,
        weight,
        tile_size=tile_size,
        strides=spread(strides, 3),
        padding=full_padding(padding, 3),
        dilation=spread(dilation, 3),
        groups=groups,
        channels=channels,
        kernel_size=spread(kernel_size, 3),
        data_layout=data_layout,
        kernel_layout=kernel_layout,
        out_layout=out_layout,
        out_dtype=out_dtype,
    )


def contrib_conv2d_gemm_without_weight_transform(
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
    """Return `conv2d` by a matrix product, for weights transformed beforehand."""
    return call(
        "nn.contrib_conv2d_gemm_without_weight_transform",
        data,
        weight,
        strides=spread(strides, 2),
        padding=full_padding(padding, 2),
        dilation=spread(dilation, 2),
        groups=groups,
        channels=channels,
        kernel_size=spread(kernel_size, 2),
        data_layout=data_layout,
        kernel_layout=kernel_layout,
        out_layout=out_layout,
        out_dtype=out_dtype,
    )


def contrib_conv2d_nchwc(
    data: Expr,
    kernel: Expr,
    strides: Sizes = (1, 1),
    padding: Sizes = (0, 0),
    dilation: Sizes = (1, 1),
    groups: int = 1,
    channels: int | None = None,
    kernel_size: Sizes = None,
    data_layout: str = "NCHW8c",
    kernel_layout: str = "OIHW",
    out_layout: str = "",
    out_dtype: str = "",
) -> Call:
    """Return `conv2d` with channels in blocks."""
    return call(
        "nn.contrib_conv2d_NCHWc",
        data,
        kernel,
        strides=spread(strides, 2),
        padding=full_padding(padding, 2),
        dilation=spread(dilation, 2),
        groups=groups,
        channels=channels,
        kernel_size=spread(kernel_size, 2),
        data_layout=data_layout,
        kernel_layout=kernel_layout,
        out_layout=out_layout,
        out_dtype=out_dtype,
    )


def contrib_depthwise_conv2d_nchwc(
    data: Expr,
    kernel: Expr,
    strides: Sizes = (1, 1),
    padding: Sizes = (0, 0),
    dilation: Sizes = (1, 1),
    groups: int = 1,
    channels: int | None = None,
    kernel_size: Sizes = None,
    data_layout: str = "NCHW8c",
    kernel_layout: str = "OIHW",
    out_layout: str = "",
    out_dtype: str = "",
) -> Call:
    """Return `conv2d` of each channel by itself, channels in blocks."""
    return call(
        "nn.contrib_depthwise_conv2d_NCHWc",
        data,
        kernel,
        strides=spread(strides, 2),
        padding=full_padding(padding, 2),
        dilation=spread(dilation, 2),
        groups=groups,
        channels=channels,
        kernel_size=spread(kernel_size, 2),
        data_layout=data_layout,
        kernel_layout=kernel_layout,
        out_layout=out_layout,
        out_dtype=out_dtype,
    )


def contrib_conv2d_winograd_weight_transform(weight: Expr, tile_size: int) -> Call:
    """Return the weights of a `conv2d` as Winograd's algorithm takes them."""
    return call("nn.contrib_conv2d_winograd_weight_transform", weight, tile_size=tile_size)


def contrib_conv3d_winograd_weight_transform(weight: Expr, tile_size: int) -> Call:
    """Return the weights of a `conv3d` as Winograd's algorithm takes them."""
    return call("nn.contrib_conv3d_winograd_weight_transform", weight, tile_size=tile_size)


def contrib_conv2d_winograd_nnpack_weight_transform(
    weight: Expr, convolution_algorithm: int, out_dtype: str = ""
) -> Call:
    """Return the weights of a `conv2d` as NNPACK's Winograd algorithm takes them."""
    return call(
        "nn.contrib_conv2d_winograd_nnpack_weight_transform",
        weight,
        convolution_algorithm=convolution_algorithm,
        out_dtype=out_dtype,
    )


def contrib_conv2d_gemm_weight_transform(weights: Expr, tile_N: int, tile_K: int) -> Call:
    """Return the weights of a `conv2d` in the tiles of a matrix product."""
    return call("nn.contrib_conv2d_gemm_weight_transform", weights, tile_N=tile_N, tile_K=tile_K)


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
    """Return the convolution of tensors of few bits, computed bit by bit."""
    return call(
        "nn.bitserial_conv2d",
        data,
        weight,
        strides=spread(strides, 2),
        padding=full_padding(padding, 2),
        kernel_size=spread(kernel_size, 2),
        channels=channels,
        activation_bits=activation_bits,
        weight_bits=weight_bits,
        data_layout=data_layout,
        kernel_layout=kernel_layout,
        pack_dtype=pack_dtype,
        out_dtype=out_dtype,
        unipolar=unipolar,
    )
