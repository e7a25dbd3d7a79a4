"""Gradients of what makes floats of integers, by its floats."""

from __future__ import annotations

from relayvm.base.dtypes import FLOAT32, FLOAT64
from relayvm.ir.expr import Expr
from relayvm.ops.broadcasting import collapse_sum_like
from relayvm.ops.creation import arange, ones_like, zeros_like
from relayvm.ops.elementwise import cast, where
from relayvm.ops.gradient_elementwise import Gradients
from relayvm.ops.operator import GradientCall
from relayvm.ops.quantized import dequantize, simulated_dequantize
from relayvm.ops.rows import greater, multiply, sum_
from relayvm.ops.scans import cumsum


@dequantize.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    # (data - zero point) * scale: integers have no gradient.
    attrs = {"axis": call.axis, "out_dtype": FLOAT32}
    units = ones_like(call.input_scale)
    moved = dequantize(call.data, units, call.input_zero_point, **attrs)
    return None, _of_scale(call, multiply(cast(g, dtype=FLOAT32), moved)), None


def _of_scale(call: GradientCall, slopes: Expr) -> Expr:
    """Return the sums of what a scale multiplies, from those for each place of the data."""
    if call.type_of("input_scale").rank == 0 or call.type_of("data").rank == 0:
        return collapse_sum_like(slopes, call.input_scale)
    # One number for all places, or one for each: which, sizes may tell at run time only.
    sums = sum_(slopes, axis=(call.axis,), exclude=True)
    return collapse_sum_like(sums, call.input_scale)


@simulated_dequantize.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    # The same of floats, where the code of the dtype is above 0; else the data as they are.
    zero, attrs = call.input_zero_point, {"axis": call.axis}
    of_data = simulated_dequantize(g, call.in_dtype, call.input_scale, zeros_like(zero), **attrs)
    dtype = FLOAT64 if call.type_of("data").dtype is FLOAT64 else FLOAT32
    data, slope = cast(call.data, dtype=dtype), cast(g, dtype=dtype)
    moved = simulated_dequantize(data, call.in_dtype, ones_like(call.input_scale), zero, **attrs)
    is_on = greater(call.in_dtype, zeros_like(call.in_dtype))
    products = multiply(slope, where(is_on, moved, zeros_like(moved)))
    return of_data, None, cast(_of_scale(call, products), dtype=FLOAT32), None


@arange.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    # start + number * step; how many there are changes by jumps.
    dtype = call.type_of("start").dtype
    if not dtype.is_float:
        return None, None, None
    slope = cast(g, dtype=dtype)
    numbers = cumsum(ones_like(slope), axis=0, exclusive=True)
    return sum_(slope), None, sum_(multiply(slope, numbers))
