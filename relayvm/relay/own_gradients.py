"""Gradients that programs register for operators, in the place of those of the table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from relayvm.ir.expr import Attrs, Call, Expr, Function
from relayvm.ir.module import Module
from relayvm.ir.visit import rewrite
from relayvm.ops.operator import GradientCall, Operator
from relayvm.relay.node import as_expr
from relayvm.relay.op_registry import set_by_programs

KEY = "FPrimalGradient"


class OwnGradients:
    """Puts operators with the program's gradients into what is to be derived, and the rows back."""

    def __init__(self) -> None:
        self._own: dict[Operator, Operator] = {
            op: _with_gradient(op, function) for op, function in set_by_programs(KEY).items()
        }
        self._rows: dict[Operator, Operator] = {own: op for op, own in self._own.items()}

    def into(self, expr: Expr, module: Module) -> tuple[Any, Module]:
        """Return an expression and a module whose calls are derived as the program says."""
        return _exchanged(expr, self._own), _in_module(module, self._own)

    def out_of(self, expr: Expr, module: Module) -> tuple[Any, Module]:
        """Return an expression and a module with the operators that they had."""
        return _exchanged(expr, self._rows), _in_module(module, self._rows)


def _with_gradient(op: Operator, function: Callable[..., Any]) -> Operator:
    def gradient(call: GradientCall, g: Expr) -> list[Expr]:
        orig = Call(op, call.args, Attrs(call.attrs), checked_type=call.output_type)
        return [as_expr(part, f"the gradient of `{op.name}`") for part in function(orig, g)]

    return replace(op, facets={**op.facets, "gradient": gradient}, no_gradient="")


def _in_module(module: Module, operators: Mapping[Operator, Operator]) -> Module:
    if not operators:
        return module
    functions = {name: _exchanged(f, operators) for name, f in module.functions.items()}
    return module.with_functions(functions)


def _exchanged(expr: Expr, operators: Mapping[Operator, Operator]) -> Any:
    if not operators:
        return expr

    def step(node: Expr) -> Expr:
        if isinstance(node, Call) and isinstance(node.op, Operator) and node.op in operators:
            return replace(node, op=operators[node.op])
        return node

    result = rewrite(expr, step)
    assert isinstance(result, Function) or not isinstance(expr, Function)
    return result
