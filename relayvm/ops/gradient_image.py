"""Gradients of operators on images and their regions."""

from __future__ import annotations

from relayvm.ir.expr import Expr
from relayvm.ops.elementwise import cast
from relayvm.ops.gradient_elementwise import Gradients
from relayvm.ops.movement import transpose
from relayvm.ops.operator import GradientCall, Operator
from relayvm.ops.regions import yolo_reorg
from relayvm.ops.reshaping import reshape, reshape_like
from relayvm.ops.resizing import RESIZES


@yolo_reorg.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    # The way back of the elements: [n, p, q, c, rows, columns] -> [n, c, rows, p, columns, q].
    apart = reshape_like(g, call.data)
    apart = reshape(apart, newshape=(0, -4, call.stride, -1, -2))
    apart = reshape(apart, newshape=(0, 0, -4, call.stride, -1, -2))
    return (reshape_like(transpose(apart, axes=(0, 3, 4, 1, 5, 2)), call.data),)


def _add_resize(forward: Operator, backward: Operator) -> None:
    @forward.gradient
    def _(call: GradientCall, g: Expr) -> Gradients:
        data = call.type_of("data")
        attrs = {**call.attrs, "out_dtype": None}
        return (backward(cast(g, dtype=data.dtype), call.data, **attrs),)

    @backward.gradient
    def _(call: GradientCall, g: Expr) -> Gradients:
        # Places outside the data have no gradient: what stands there must not be added.
        attrs = {**call.attrs, "extrapolation_value": 0.0, "out_dtype": None}
        return forward(g, **attrs), None


for _forward, _backward in RESIZES:
    _add_resize(_forward, _backward)
