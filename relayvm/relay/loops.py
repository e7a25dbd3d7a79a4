"""Loops from Python: a recursive function over the variables of the loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from relayvm.ir.expr import Call, Expr, Function, If, Let, Tuple, Var
from relayvm.relay.node import as_expr, as_exprs


def while_loop(
    cond: Callable[..., Expr], loop_vars: Sequence[Any], loop_bodies: Callable[..., Any]
) -> Let:
    """Return a function, as a let: called with the first values of the variables it returns, as a
    tuple, those at which `cond(*variables)` is false; `loop_bodies(*variables)` gives the next
    ones.

    `loop_vars` are variables, or expressions of the types that the variables have.
    """
    variables = tuple(_variable(value, index) for index, value in enumerate(loop_vars))
    loop = Var("while_loop")
    condition = as_expr(cond(*variables), "the condition of a loop")
    again = Call(loop, as_exprs(loop_bodies(*variables), "the bodies of a loop"))
    function = Function(variables, If(condition, again, Tuple(variables)))
    return Let(loop, function, loop)


def _variable(value: Any, index: int) -> Var:
    if isinstance(value, Var):
        return Var(value.name, value.type_annotation)
    return Var(f"arg{index}", as_expr(value, "the variables of a loop").checked_type)
