"""Gradients of pooling."""

from __future__ import annotations

from typing import Any

from relayvm.ir.expr import Expr
from relayvm.ops.gradient_elementwise import Gradients
from relayvm.ops.operator import GradientCall, Operator, gradient_call
from relayvm.ops.pooling import ADAPTIVE, GLOBAL, PICKING, WINDOWS
from relayvm.ops.pooling_axes import space_axes
from relayvm.ops.rows import ROWS


def _forward(row: Operator) -> Any:
    def gradient(call: GradientCall, g: Expr) -> Gradients:
        return (row(g, call.data, **call.attrs),)

    return gradient


def _backward(row: Operator) -> Any:
    # A mean is linear: the gradient of its gradient is the mean again.
    def gradient(call: GradientCall, g: Expr) -> Gradients:
        return row(g, **call.attrs), None

    return gradient


for (_, _kind), (_pool, _grad) in (*WINDOWS.items(), *ADAPTIVE.items()):
    _pool.gradient(_forward(_grad))
    if _kind == "avg":
        _grad.gradient(_backward(_pool))


def _of_maxima(pick: Operator) -> Any:
    def gradient(call: GradientCall, g: Expr) -> Gradients:
        return pick(g, call.data, **call.attrs), None

    return gradient


def _of_picking(grad: Operator) -> Any:
    def gradient(call: GradientCall, g: Expr) -> Gradients:
        return grad(g, call.data, **call.attrs), None

    return gradient


for (_axes, _size), _pick in PICKING.items():
    _grad = (WINDOWS if _size == "pool_size" else ADAPTIVE)[_axes, "max"][1]
    _grad.gradient(_of_maxima(_pick))
    _pick.gradient(_of_picking(_grad))


def _global(reduction: Operator) -> Any:
    def gradient(call: GradientCall, g: Expr) -> Gradients:
        axis = space_axes(call.layout, 2, call.type_of("data").rank, call.op.name)
        attrs = {"axis": axis, "keepdims": True}
        same = gradient_call(reduction, call.args, attrs, call.output, call.types)
        result: Gradients = reduction.facets["gradient"](same, g)
        return result

    return gradient


GLOBAL["max"].gradient(_global(ROWS["max"]))
GLOBAL["avg"].gradient(_global(ROWS["mean"]))
