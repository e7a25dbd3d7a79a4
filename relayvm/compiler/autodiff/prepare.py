"""The form of a program that differentiation reads: typed, with every operand an atom."""

from __future__ import annotations

from relayvm.base.diagnostics import error
from relayvm.compiler.passes import run_passes
from relayvm.compiler.transforms.function_instances import instantiate_functions
from relayvm.compiler.transforms.instances import NotClosed
from relayvm.ir.expr import Function
from relayvm.ir.module import Module
from relayvm.ir.visit import free_vars, global_vars, post_order


def prepared(function: Function, module: Module) -> tuple[str, Module]:
    """Return the module in A-normal form with the function in it, under the name returned.

    Functions with constraints on their types, which those of gradients do not fulfil, are there as
    the instances that are used. Raises RelayError `no-gradient` for a function with free variables
    or type parameters of kind Type, and what type inference raises.
    """
    free = free_vars(function)
    if free:
        names = ", ".join(f"`%{v.name}`" for v in free)
        raise error("no-gradient", f"the function uses {names} from outside", function.span)
    name = "differentiated"
    while name in module.functions:
        name += "_"
    whole = module.with_functions({**module.functions, name: function})
    typed = run_passes(whole, ["infer_types"])
    used = _reached(name, typed)
    if any(_has_constraints(f) for f in used.values()):
        try:
            typed = instantiate_functions(typed.with_functions(used))
        except NotClosed as reason:
            message = "a function whose types have constraints is used at types that are not known"
            raise error("no-gradient", f"{message}: {reason}", function.span) from None
    return name, run_passes(typed, ["to_anf"])


def _reached(name: str, module: Module) -> dict[str, Function]:
    found: dict[str, Function] = {}
    waiting = [name]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = module[name]
            waiting.extend(global_vars(found[name]))
    return {name: f for name, f in module.functions.items() if name in found}


def _has_constraints(function: Function) -> bool:
    inside = (node for node in post_order(function) if isinstance(node, Function))
    return any(node.type_constraints for node in inside)
