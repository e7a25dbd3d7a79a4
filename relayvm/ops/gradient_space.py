"""Gradients of pads, dilation, and of operators that move elements between space and batch."""

from __future__ import annotations

from relayvm.ir.expr import Expr, Tuple, TupleGetItem
from relayvm.ops.axes import require_axis
from relayvm.ops.creation import zeros_like
from relayvm.ops.dynamic_upsampling import DYNAMIC_UPSAMPLING
from relayvm.ops.gradient_elementwise import Gradients
from relayvm.ops.gradient_expressions import in_dtype_of
from relayvm.ops.movement import concatenate, split_like
from relayvm.ops.operator import GradientCall, Operator
from relayvm.ops.padding import dilate, mirror_pad, pad, pad_grad
from relayvm.ops.reshaping import reshape_like
from relayvm.ops.rows import subtract, sum_
from relayvm.ops.schema import Pairs
from relayvm.ops.slicing import strided_slice
from relayvm.ops.space import (
    batch_flatten,
    batch_to_space_nd,
    depth_to_space,
    fifo_buffer,
    space_to_batch_nd,
    space_to_depth,
)
from relayvm.ops.upsampling import UPSAMPLING

_TO_THE_END = 2**31 - 1


def _inside(g: Expr, widths: Pairs) -> Expr:
    """Return `g` without the pads."""
    begin = tuple(before for before, _ in widths)
    end = tuple(-after if after else _TO_THE_END for _, after in widths)
    return strided_slice(g, begin=begin, end=end) if widths else g


@pad.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    if call.pad_mode != "constant":
        return pad_grad(g, call.data, pad_width=call.pad_width, pad_mode=call.pad_mode), None
    inner = _inside(g, call.pad_width)
    return inner, in_dtype_of(call, "pad_value", subtract(sum_(g), sum_(inner)))


@mirror_pad.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    return (pad_grad(g, call.data, pad_width=call.pad_width, pad_mode=call.mode.lower()),)


@pad_grad.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    if call.pad_mode == "edge":
        padded: Expr = pad(g, sum_(g), pad_width=call.pad_width, pad_mode="edge")
    else:
        padded = mirror_pad(g, mode=call.pad_mode.upper(), pad_width=call.pad_width)
    return padded, None


@dilate.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    rank = len(call.strides)
    if not rank:
        return (g,)
    begin, end = (0,) * rank, (_TO_THE_END,) * rank
    return (strided_slice(g, begin=begin, end=end, strides=call.strides),)


@batch_flatten.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    return (reshape_like(g, call.data),)


@depth_to_space.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    return (space_to_depth(g, **call.attrs),)


@space_to_depth.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    return (depth_to_space(g, **call.attrs),)


@space_to_batch_nd.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    return (batch_to_space_nd(g, block_shape=call.block_shape, crops=call.paddings),)


@batch_to_space_nd.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    return (space_to_batch_nd(g, block_shape=call.block_shape, paddings=call.crops),)


@fifo_buffer.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    # The result is the end of `buffer` and `data` in a row: what was cut at the front has none.
    axis = require_axis(call.axis, call.type_of("data").rank)
    whole = concatenate(Tuple((zeros_like(call.data), g)), axis=axis)
    parts = split_like(whole, Tuple((call.buffer, call.data)), axis=axis)
    return TupleGetItem(parts, 1), TupleGetItem(parts, 0)


def _add_upsampling(forward: Operator, backward: Operator) -> None:
    @forward.gradient
    def _(call: GradientCall, g: Expr) -> Gradients:
        return (backward(g, call.data, **call.attrs),)

    @backward.gradient
    def _(call: GradientCall, g: Expr) -> Gradients:
        return forward(g, **call.attrs), None


for _forward, _backward in UPSAMPLING:
    _add_upsampling(_forward, _backward)


def _add_dynamic_upsampling(forward: Operator, backward: Operator) -> None:
    @forward.gradient
    def _(call: GradientCall, g: Expr) -> Gradients:
        return backward(g, *call.args, **call.attrs), *(None,) * (len(call.args) - 1)

    @backward.gradient
    def _(call: GradientCall, g: Expr) -> Gradients:
        return forward(g, *call.args[2:], **call.attrs), *(None,) * (len(call.args) - 1)


for _forward, _backward in DYNAMIC_UPSAMPLING:
    _add_dynamic_upsampling(_forward, _backward)
