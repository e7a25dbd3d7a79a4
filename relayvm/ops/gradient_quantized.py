"""Gradients of what makes floats of integers, by its floats."""

from __future__ import annotations

from relayvm.base.dtypes import FLOAT32
from relayvm.ir.expr import Expr
from relayvm.ops.broadcasting import collapse_sum_like
from relayvm.ops.creation import arange, ones_like
from relayvm.ops.elementwise import cast
from relayvm.ops.gradient_elementwise import Gradients
from relayvm.ops.operator import GradientCall
from relayvm.ops.quantized import dequantize
from relayvm.ops.rows import multiply, sum_
from relayvm.ops.scans import cumsum


@dequantize.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    # (data - zero point) * scale: integers have no gradient.
    scale, data = call.type_of("input_scale"), call.type_of("data")
    attrs = {"axis": call.axis, "out_dtype": FLOAT32}
    units = ones_like(call.input_scale)
    moved = dequantize(call.data, units, call.input_zero_point, **attrs)
    slopes = multiply(cast(g, dtype=FLOAT32), moved)
    if scale.rank == 0 or data.rank == 0:
        return None, collapse_sum_like(slopes, call.input_scale), None
    # One number for all places, or one for each: which, sizes may tell at run time only.
    sums = sum_(slopes, axis=(call.axis,), exclude=True)
    return None, collapse_sum_like(sums, call.input_scale), None


@arange.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    # start + number * step; how many there are changes by jumps.
    dtype = call.type_of("start").dtype
    if not dtype.is_float:
        return None, None, None
    slope = cast(g, dtype=dtype)
    numbers = cumsum(ones_like(slope), axis=0, exclusive=True)
    return sum_(slope), None, sum_(multiply(slope, numbers))
