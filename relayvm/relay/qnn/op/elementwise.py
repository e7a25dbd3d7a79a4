"""Operators on the elements of quantized tensors, by TVM's names."""

from __future__ import annotations

from typing import Any, Protocol

from relayvm.ir.expr import Call, Expr
from relayvm.relay.op.make import as_expr, call


class Unary(Protocol):
    """A function of one quantized tensor, its scale and zero point, and those of the result."""

    def __call__(
        self,
        x: Expr,
        scale: Expr,
        zero_point: Expr,
        output_scale: Expr,
        output_zero_point: Expr,
    ) -> Call: ...


class Binary(Protocol):
    """A function of two quantized tensors, their scales and zero points, and the result's."""

    def __call__(
        self,
        lhs: Expr,
        rhs: Expr,
        lhs_scale: Expr,
        lhs_zero_point: Expr,
        rhs_scale: Expr,
        rhs_zero_point: Expr,
        output_scale: Expr,
        output_zero_point: Expr,
        lhs_axis: int = -1,
        rhs_axis: int = -1,
    ) -> Call: ...


def _unary(name: str, what: str) -> Unary:
    def build(
        x: Expr,
        scale: Expr,
        zero_point: Expr,
        output_scale: Expr,
        output_zero_point: Expr,
    ) -> Call:
        scales = (scale, zero_point, output_scale, output_zero_point)
        return call(f"qnn.{name}", x, *(as_expr(s) for s in scales))

    _name(build, name, what)
    return build


def _binary(name: str, what: str) -> Binary:
    def build(
        lhs: Expr,
        rhs: Expr,
        lhs_scale: Expr,
        lhs_zero_point: Expr,
        rhs_scale: Expr,
        rhs_zero_point: Expr,
        output_scale: Expr,
        output_zero_point: Expr,
        lhs_axis: int = -1,
        rhs_axis: int = -1,
    ) -> Call:
        scales = (lhs_scale, lhs_zero_point, rhs_scale, rhs_zero_point)
        return call(
            f"qnn.{name}",
            lhs,
            rhs,
            *(as_expr(s) for s in (*scales, output_scale, output_zero_point)),
            lhs_axis=lhs_axis,
            rhs_axis=rhs_axis,
        )

    _name(build, name, what)
    return build


def _name(build: Any, name: str, what: str) -> None:
    build.__name__ = build.__qualname__ = name
    build.__doc__ = f"Return {what}, quantized."


tanh = _unary("tanh", "the hyperbolic tangent of each element")
exp = _unary("exp", "e to the power of each element")
sqrt = _unary("sqrt", "the square root of each element")
rsqrt = _unary("rsqrt", "1 divided by the square root of each element")
erf = _unary("erf", "the error function of each element")
abs = _unary("abs", "the absolute value of each element")
sigmoid = _unary("sigmoid", "the logistic function of each element")
hardswish = _unary("hardswish", "x * clip(x + 3, 0, 6) / 6 of each element")
log = _unary("log", "the natural logarithm of each element")
add = _binary("add", "the sum of two tensors")
subtract = _binary("subtract", "the difference of two tensors")
mul = _binary("mul", "the product of two tensors")
