"""Gradients of random numbers by the parameters of their distributions; keys have none."""

from __future__ import annotations

from relayvm.ir.expr import Expr, TupleGetItem
from relayvm.ir.types import TupleType
from relayvm.ops.gradient_elementwise import Gradients
from relayvm.ops.gradient_expressions import number
from relayvm.ops.operator import GradientCall
from relayvm.ops.random_numbers import normal, uniform
from relayvm.ops.rows import multiply, subtract, sum_


def _standard(call: GradientCall) -> Expr:
    """Return the same draw from the distribution with parameters 0 and 1."""
    zero, one = (number(v, call.out_dtype) for v in (0.0, 1.0))
    again = call.op(call.key, zero, one, out_shape=call.out_shape, out_dtype=call.out_dtype)
    return TupleGetItem(again, 1)


def _field(call: GradientCall, g: Expr) -> Expr:
    assert isinstance(call.output_type, TupleType)
    return TupleGetItem(g, 1)


@uniform.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    # y = u (high - low) + low
    slope = _field(call, g)
    of_high = multiply(slope, _standard(call))
    return None, sum_(subtract(slope, of_high)), sum_(of_high)


@normal.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    # y = z scale + mean
    slope = _field(call, g)
    return None, sum_(slope), sum_(multiply(slope, _standard(call)))
