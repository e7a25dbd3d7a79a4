"""Gradients of operators on images and their regions."""

from __future__ import annotations

from relayvm.ir.expr import Expr
from relayvm.ops.gradient_elementwise import Gradients
from relayvm.ops.movement import transpose
from relayvm.ops.operator import GradientCall
from relayvm.ops.regions import yolo_reorg
from relayvm.ops.reshaping import reshape, reshape_like


@yolo_reorg.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    # The way back of the elements: [n, p, q, c, rows, columns] -> [n, c, rows, p, columns, q].
    apart = reshape_like(g, call.data)
    apart = reshape(apart, newshape=(0, -4, call.stride, -1, -2))
    apart = reshape(apart, newshape=(0, 0, -4, call.stride, -1, -2))
    return (reshape_like(transpose(apart, axes=(0, 3, 4, 1, 5, 2)), call.data),)
