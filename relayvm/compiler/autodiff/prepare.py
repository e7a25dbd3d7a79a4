"""The form of a program that differentiation reads: typed, with every operand an atom."""

from __future__ import annotations

from relayvm.base.diagnostics import error
from relayvm.compiler.passes import run_passes
from relayvm.ir.expr import Function
from relayvm.ir.module import Module
from relayvm.ir.visit import free_vars


def prepared(function: Function, module: Module) -> tuple[str, Module]:
    """Return the module in A-normal form with the function in it, under the name returned.

    Raises RelayError `no-gradient` for a function with free variables or type parameters of kind
    Type, and what type inference raises.
    """
    free = free_vars(function)
    if free:
        names = ", ".join(f"`%{v.name}`" for v in free)
        raise error("no-gradient", f"the function uses {names} from outside", function.span)
    name = "differentiated"
    while name in module.functions:
        name += "_"
    whole = module.with_functions({**module.functions, name: function})
    return name, run_passes(whole, ["infer_types", "to_anf"])
