"""Expressions that may be evaluated anywhere in a function: they follow from constants and its
parameters.
"""

from __future__ import annotations

from relayvm.ir.expr import Call, Constant, Expr, Function, Tuple, Var
from relayvm.ir.visit import children
from relayvm.ops.operator import Operator


class Anchors:
    """What may move to the front of a function; each node is looked at once."""

    def __init__(self, root: Expr) -> None:
        params = root.params if isinstance(root, Function) else ()
        self._known = {id(param): True for param in params}
        self._kept: list[Expr] = []

    def hold(self, expr: Expr) -> bool:
        """Return True if an expression is made of constants, parameters and operators alone."""
        stack = [(expr, False)]
        while stack:
            node, ready = stack.pop()
            if id(node) in self._known:
                continue
            below = node.args if isinstance(node, Call) else children(node)
            if ready:
                self._note(node, all(self._known[id(part)] for part in below))
            elif isinstance(node, Constant):
                self._note(node, True)
            elif not _may_hold(node):
                self._note(node, False)
            else:
                stack.append((node, True))
                stack.extend((part, False) for part in below)
        return self._known[id(expr)]

    def _note(self, node: Expr, holds: bool) -> None:
        self._known[id(node)] = holds
        self._kept.append(node)


def _may_hold(node: Expr) -> bool:
    if isinstance(node, Var):
        return False
    if isinstance(node, Call):
        return isinstance(node.op, Operator) and not node.op.has_effect
    return isinstance(node, Tuple)
