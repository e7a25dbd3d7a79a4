"""Types of expressions that are being built."""

from __future__ import annotations

from typing import Any

from relayvm.ir.expr import Expr, Function, GlobalVar
from relayvm.relay import transform
from relayvm.relay.module import IRModule


def infer_type(node: Expr, mod: Any = None) -> Expr:
    """Return an expression with types; `mod` holds the functions and data types that it uses."""
    module = IRModule.from_expr(node)
    if mod is not None:
        module.update(mod)
        module["main"] = IRModule.from_expr(node)["main"]
    typed: Function = transform.InferType()(module)["main"]
    return typed if isinstance(node, (Function, GlobalVar)) else typed.body
