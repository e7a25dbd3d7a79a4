"""Which functions of a module the host may call, and parameters that are given at compile time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from relayvm.base.diagnostics import error
from relayvm.compiler.transforms.rebuild import rebuild
from relayvm.ir.expr import Constant, Expr, Function, Var
from relayvm.ir.module import Module
from relayvm.ir.types import TypeVar


def entry_names(module: Module) -> tuple[str, ...]:
    """Return the names of the entries, in order of definition.

    They are what the module's attribute `entries` lists, else every function that the program
    itself defines and that has no type parameter of kind Type.
    """
    chosen = module.attrs.get("entries")
    if isinstance(chosen, tuple):
        return tuple(str(name) for name in chosen)
    return tuple(
        name
        for name, function in module.functions.items()
        if name not in module.library
        and not any(isinstance(p, TypeVar) for p in function.type_params)
    )


def bind_params(module: Module, params: Mapping[str, np.ndarray], entry: str = "main") -> Module:
    """Replace parameters of `entry` by constants; they disappear from its parameter list.

    Raises RelayError `unknown-parameter`.
    """
    if not params:
        return module
    function = module[entry]
    by_name = {p.name: p for p in function.params}
    for name in params:
        if name not in by_name:
            known = ", ".join(f"`%{p}`" for p in by_name) or "none"
            message = f"`@{entry}` has no parameter `%{name}`; it has {known}"
            raise error("unknown-parameter", message, function.span)
    constants = {
        id(by_name[name]): Constant(np.ascontiguousarray(value).reshape(np.shape(value)))
        for name, value in params.items()
    }
    bound = bind_vars(function, constants)
    return module.with_functions({**module.functions, entry: bound})


def bind_vars(function: Function, values: Mapping[int, Expr]) -> Function:
    """Return `function` without the parameters whose `id` is a key; their uses are the values."""

    def put(_before: Expr, after: Expr) -> Expr:
        return values.get(id(after), after) if isinstance(after, Var) else after

    body = rebuild(function.body, put)
    params = tuple(p for p in function.params if id(p) not in values)
    return replace(function, params=params, body=body, checked_type=None)
