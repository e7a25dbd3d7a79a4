"""Padding, dilation, upsampling and the exchange of channels, space and batch."""

from __future__ import annotations

from typing import Any

import numpy as np

from relayvm.ir.expr import Call, Constant, Expr
from relayvm.relay.op.make import as_expr, call, folded, is_dynamic


def batch_flatten(data: Expr) -> Call:
    """Return a matrix: the first axis, and all others as one."""
    return call("nn.batch_flatten", data)


def upsampling(
    data: Expr,
    scale_h: Any = 1,
    scale_w: Any = 1,
    layout: str = "NCHW",
    method: str = "nearest_neighbor",
    align_corners: bool = False,
) -> Call:
    """Return images scaled by factors, which may be expressions."""
    scales = {"scale_h": folded(scale_h), "scale_w": folded(scale_w)}
    rest = {"layout": layout, "method": method, "align_corners": align_corners}
    return _upsampled("nn.upsampling", data, scales, rest)


def upsampling3d(
    data: Expr,
    scale_d: Any = 1,
    scale_h: Any = 1,
    scale_w: Any = 1,
    layout: str = "NCDHW",
    method: str = "nearest_neighbor",
    coordinate_transformation_mode: str = "half_pixel",
) -> Call:
    """Return volumes scaled by factors, which may be expressions."""
    scales = {"scale_d": folded(scale_d), "scale_h": folded(scale_h), "scale_w": folded(scale_w)}
    rest = {
        "layout": layout,
        "method": method,
        "coordinate_transformation_mode": coordinate_transformation_mode,
    }
    return _upsampled("nn.upsampling3d", data, scales, rest)


def _upsampled(name: str, data: Expr, scales: dict[str, Any], rest: dict[str, Any]) -> Call:
    if is_dynamic(*scales.values()):
        factors = [s if is_dynamic(s) else as_expr(s, "float64") for s in scales.values()]
        return call(f"dyn.{name}", data, *factors, **rest)
    return call(name, data, **scales, **rest)


def pad(data: Expr, pad_width: Any, pad_value: Any = 0, pad_mode: str = "constant") -> Call:
    """Return the tensor with elements added before and behind each axis.

    `pad_width` is a pair for each axis, or an expression. A number as `pad_value` has the element
    type of the tensor where that is known.
    """
    if isinstance(pad_width, Constant):
        pad_width = np.asarray(pad_width.data).tolist()
    value = as_expr(pad_value)
    if is_dynamic(pad_width):
        return call("dyn.nn.pad", data, as_expr(pad_width), value, pad_mode=pad_mode)
    return call("nn.pad", data, value, pad_width=pad_width, pad_mode=pad_mode)


def mirror_pad(data: Expr, pad_width: Any, mode: str = "SYMMETRIC") -> Call:
    """Return the tensor continued on both sides of each axis by its mirror image."""
    return call("nn.mirror_pad", data, mode=mode, pad_width=pad_width)


def dilate(data: Expr, strides: Any, dilation_value: float = 0.0) -> Call:
    """Return the tensor with `strides - 1` equal elements put between neighbours of each axis."""
    return call("nn.dilate", data, strides=strides, dilation_value=dilation_value)


def fifo_buffer(data: Expr, buffer: Expr, axis: int) -> Call:
    """Return a buffer with `data` behind its end along an axis, as long as before."""
    return call("nn.fifo_buffer", data, buffer, axis=axis)


def depth_to_space(data: Expr, block_size: int, layout: str = "NCHW", mode: str = "DCR") -> Call:
    """Return images in which channels have become blocks."""
    return call("nn.depth_to_space", data, block_size=block_size, layout=layout, mode=mode)


def space_to_depth(data: Expr, block_size: int, layout: str = "NCHW") -> Call:
    """Return images in which blocks have become channels."""
    return call("nn.space_to_depth", data, block_size=block_size, layout=layout)


def space_to_batch_nd(data: Expr, block_shape: Any, paddings: Any, pad_value: float = 0) -> Call:
    """Return a batch in which the places of each block have become items."""
    return call(
        "nn.space_to_batch_nd",
        data,
        block_shape=block_shape,
        paddings=paddings,
        pad_value=pad_value,
    )


def batch_to_space_nd(data: Expr, block_shape: Any, crops: Any) -> Call:
    """Return a batch in which items have become the places of blocks, cropped."""
    return call("nn.batch_to_space_nd", data, block_shape=block_shape, crops=crops)
