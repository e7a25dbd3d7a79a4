"""Parts of programs as programs of their own."""

from __future__ import annotations

from dataclasses import replace

from relayvm.base.diagnostics import error, quantity
from relayvm.compiler.analysis.scopes import is_primitive
from relayvm.ir.equal import structural_hash
from relayvm.ir.expr import Call, Function
from relayvm.ir.module import Module
from relayvm.ir.visit import free_type_vars, free_vars, post_order


def primitive_functions(module: Module) -> dict[int, Function]:
    """Return the primitive functions of a module by structural hash; equal ones are one."""
    found: dict[int, Function] = {}
    for root in module.functions.values():
        for node in post_order(root):
            if isinstance(node, Function) and is_primitive(node):
                found.setdefault(structural_hash(node), node)
    return found


def intermediate(module: Module, number: int, name: str = "main") -> Module:
    """Return the module whose `main` computes call `number` of a function, from 0 in order of
    evaluation.

    Raises RelayError `bad-option` where there is no such call.
    """
    function = module[name]
    calls = [node for node in post_order(function.body) if isinstance(node, Call)]
    if not 0 <= number < len(calls):
        message = f"`@{name}` has {quantity(len(calls), 'call')}, so none is number {number}"
        raise error("bad-option", message)
    body = calls[number]
    used = set(free_vars(body))
    params = tuple(p for p in function.params if p in used)
    params += tuple(v for v in free_vars(body) if v not in params)
    whole = replace(
        function, params=params, body=body, ret_type=None, type_params=(), checked_type=None
    )
    whole = replace(whole, type_params=tuple(free_type_vars(whole)))
    return module.with_functions({**module.functions, name: whole})
