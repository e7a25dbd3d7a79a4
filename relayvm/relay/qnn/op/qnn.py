"""Operators on quantized tensors, by TVM's names."""

from __future__ import annotations

from typing import Any

from relayvm.ir.expr import Call, Expr
from relayvm.relay.op.make import as_expr, call, spread, tuple_of
from relayvm.relay.op.make import padding as full_padding
from relayvm.relay.qnn.op.config import current_requantize_config

Sizes = Any


def requantize(
    data: Expr,
    input_scale: Expr,
    input_zero_point: Expr,
    output_scale: Expr,
    output_zero_point: Expr,
    axis: int = -1,
    rounding: str = "None",
    compute_dtype: str = "None",
    out_dtype: str = "int8",
) -> Call:
    """Return quantized values with another scale and zero point.

    `rounding` and `compute_dtype` that say `None` are those of `requantize_config`, where one is
    open.
    """
    config = current_requantize_config()
    return call(
        "qnn.requantize",
        data,
        *_all(input_scale, input_zero_point, output_scale, output_zero_point),
        axis=axis,
        rounding=config.rounding if rounding == "None" and config.given("rounding") else rounding,
        compute_dtype=config.compute_dtype
        if compute_dtype == "None" and config.given("compute_dtype")
        else compute_dtype,
        out_dtype=out_dtype,
    )


def _all(*values: Any) -> list[Expr]:
    return [as_expr(v) for v in values]


def quantize(
    data: Expr,
    output_scale: Expr,
    output_zero_point: Expr,
    axis: int = -1,
    out_dtype: str = "int8",
) -> Call:
    """Return floats as integers: divided by the scale, rounded, and moved by the zero point."""
    return call(
        "qnn.quantize", data, *_all(output_scale, output_zero_point), axis=axis, out_dtype=out_dtype
    )


def dequantize(
    data: Expr,
    input_scale: Expr,
    input_zero_point: Expr,
    axis: int = -1,
    out_dtype: str = "float32",
) -> Call:
    """Return quantized values as floats."""
    return call(
        "qnn.dequantize", data, *_all(input_scale, input_zero_point), axis=axis, out_dtype=out_dtype
    )


DTYPE_CODES = {"disable": 0, "uint8": 1, "int8": 2, "int32": 3}


def simulated_quantize(
    data: Expr,
    output_scale: Expr,
    output_zero_point: Expr,
    axis: int = -1,
    out_dtype: Any = "int8",
) -> Call:
    """Return what `quantize` does, in floats; `out_dtype` may be an expression of a code."""
    code = as_expr(DTYPE_CODES[out_dtype] if isinstance(out_dtype, str) else out_dtype)
    scales = _all(output_scale, output_zero_point)
    return call("qnn.simulated_quantize", data, code, *scales, axis=axis)


def simulated_dequantize(
    data: Expr,
    input_scale: Expr,
    input_zero_point: Expr,
    axis: int = -1,
    in_dtype: Any = "int8",
) -> Call:
    """Return what `dequantize` does, from floats; `in_dtype` may be an expression of a code."""
    code = as_expr(DTYPE_CODES[in_dtype] if isinstance(in_dtype, str) else in_dtype)
    scales = _all(input_scale, input_zero_point)
    return call("qnn.simulated_dequantize", data, code, *scales, axis=axis)


def concatenate(
    data: Any,
    input_scales: Any,
    input_zero_points: Any,
    output_scale: Expr,
    output_zero_point: Expr,
    axis: int,
) -> Call:
    """Return quantized tensors joined along an axis, each brought to one scale and zero point."""
    return call(
        "qnn.concatenate",
        tuple_of(data, "qnn.concatenate"),
        tuple_of(input_scales, "qnn.concatenate"),
        tuple_of(input_zero_points, "qnn.concatenate"),
        *_all(output_scale, output_zero_point),
        axis=axis,
    )


def conv2d(
    data: Expr,
    kernel: Expr,
    input_zero_point: Expr,
    kernel_zero_point: Expr,
    input_scale: Expr,
    kernel_scale: Expr,
    kernel_size: Sizes,
    channels: int | None,
    strides: Sizes = (1, 1),
    padding: Sizes = (0, 0),
    dilation: Sizes = (1, 1),
    groups: int = 1,
    data_layout: str = "NCHW",
    kernel_layout: str = "OIHW",
    out_layout: str = "",
    out_dtype: str = "int32",
) -> Call:
    """Return the convolution of quantized tensors, in integers of scale `input * kernel`."""
    return call(
        "qnn.conv2d",
        data,
        kernel,
        *_all(input_zero_point, kernel_zero_point, input_scale, kernel_scale),
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


def conv2d_transpose(
    data: Expr,
    weight: Expr,
    input_zero_point: Expr,
    kernel_zero_point: Expr,
    input_scale: Expr,
    kernel_scale: Expr,
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
    out_dtype: str = "int32",
) -> Call:
    """Return the transposed convolution of quantized tensors."""
    return call(
        "qnn.conv2d_transpose",
        data,
        weight,
        *_all(input_zero_point, kernel_zero_point, input_scale, kernel_scale),
        strides=spread(strides, 2),
        padding=full_padding(padding, 2),
        dilation=spread(dilation, 2),
        groups=groups,
        channels=channels,
        kernel_size=spread(kernel_size, 2),
        data_layout=data_layout,
        kernel_layout=kernel_layout,
        out_layout=out_layout,
        output_padding=spread(output_padding, 2),
        out_dtype=out_dtype,
    )


def dense(
    data: Expr,
    weight: Expr,
    input_zero_point: Expr,
    kernel_zero_point: Expr,
    input_scale: Expr,
    kernel_scale: Expr,
    units: int | None,
    out_dtype: str = "int32",
) -> Call:
    """Return the product of a quantized tensor with the transpose of a quantized weight."""
    scales = _all(input_zero_point, kernel_zero_point, input_scale, kernel_scale)
    return call("qnn.dense", data, weight, *scales, units=units, out_dtype=out_dtype)


def contrib_dense_pack(
    data: Expr,
    weight: Expr,
    input_zero_point: Expr,
    kernel_zero_point: Expr,
    input_scale: Expr,
    kernel_scale: Expr,
    kernel_layout: str = "NC",
    units: int | None = None,
    out_dtype: str = "int32",
) -> Call:
    """Return `dense` of a quantized weight stored in tiles."""
    return call(
        "qnn.contrib_dense_pack",
        data,
        weight,
        *_all(input_zero_point, kernel_zero_point, input_scale, kernel_scale),
        units=units,
        out_dtype=out_dtype,
        weight_layout=kernel_layout,
    )


def batch_matmul(
    x: Expr,
    y: Expr,
    x_zero_point: Expr,
    y_zero_point: Expr,
    x_scale: Expr,
    y_scale: Expr,
    out_dtype: str = "int32",
) -> Call:
    """Return the products of two batches of quantized matrices, the second ones transposed."""
    scales = _all(x_zero_point, y_zero_point, x_scale, y_scale)
    return call("qnn.batch_matmul", x, y, *scales, out_dtype=out_dtype, transpose_b=True)


def leaky_relu(
    x: Expr,
    alpha: float,
    input_scale: Expr,
    input_zero_point: Expr,
    output_scale: Expr,
    output_zero_point: Expr,
) -> Call:
    """Return quantized elements, times `alpha` where they are negative."""
    scales = _all(input_scale, input_zero_point, output_scale, output_zero_point)
    return call("qnn.leaky_relu", x, *scales, alpha=alpha)


def softmax(
    x: Expr,
    scale: Expr,
    zero_point: Expr,
    output_scale: Expr,
    output_zero_point: Expr,
    axis: int = -1,
) -> Call:
    """Return the softmax of a quantized tensor."""
    scales = _all(scale, zero_point, output_scale, output_zero_point)
    return call("qnn.softmax", x, *scales, axis=axis)


def avg_pool2d(
    data: Expr,
    input_scale: Expr,
    input_zero_point: Expr,
    output_scale: Expr,
    output_zero_point: Expr,
    pool_size: Sizes,
    strides: Sizes,
    padding: Sizes,
    dilation: Sizes,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    layout: str = "NHWC",
    out_layout: str = "",
) -> Call:
    """Return the mean of each window of a quantized tensor."""
    return call(
        "qnn.avg_pool2d",
        data,
        *_all(input_scale, input_zero_point, output_scale, output_zero_point),
        pool_size=spread(pool_size, 2),
        strides=spread(strides, 2),
        padding=full_padding(padding, 2),
        dilation=spread(dilation, 2),
        ceil_mode=ceil_mode,
        count_include_pad=count_include_pad,
        layout=layout,
        out_layout=out_layout,
    )
