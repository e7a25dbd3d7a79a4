"""Which functions of a module the host may call, and parameters that are given at compile time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from relayvm.base.diagnostics import error
from relayvm.compiler.rebuild import TypeMap, rebuild
from relayvm.ir.expr import Attrs, Call, Constant, Expr, Function, GlobalVar, Var
from relayvm.ir.module import Module
from relayvm.ir.parser import parse_type
from relayvm.ir.types import TupleType, TypeVar


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


def choose_entries(module: Module, wanted: Iterable[str] | None) -> tuple[Module, dict[str, str]]:
    """Return the module with its entries fixed, and the function behind each name for the host.

    `"length[int32]"` adds a function that calls `@length` with these type arguments.
    Raises RelayError `unknown-entry`.
    """
    if wanted is None:
        names = {name: name for name in entry_names(module)}
        return _with_entries(module, names), names
    names = {}
    for text in wanted:
        name, _, arguments = text.strip().lstrip("@").partition("[")
        function = module.functions.get(name)
        if function is None:
            known = ", ".join(n for n in module.functions if n not in module.library)
            raise error("unknown-entry", f"the module has no function `@{name}`; it has {known}")
        if arguments:
            own = _fresh_name(name, module)
            wrapper = _instance_wrapper(module, name, function, "(" + arguments[:-1] + ",)")
            module = module.with_functions({**module.functions, own: wrapper})
            names[text] = own
        elif type_variables := [p for p in function.type_params if isinstance(p, TypeVar)]:
            message = f"entry `{name}` needs types: `{name}[{', '.join(t.name for t in type_variables)}]`"
            raise error("unknown-entry", message, function.span)
        else:
            names[name] = name
    return _with_entries(module, names), names


def _with_entries(module: Module, names: Mapping[str, str]) -> Module:
    return replace(module, attrs=Attrs(module.attrs, entries=tuple(names.values())))


def _fresh_name(stem: str, module: Module) -> str:
    number = 1
    while f"{stem}_{number}" in module.functions:
        number += 1
    return f"{stem}_{number}"


def _instance_wrapper(module: Module, name: str, function: Function, text: str) -> Function:
    """Return `fn (params) { @name[types](params) }`."""
    parsed = parse_type(text, module=module)
    assert isinstance(parsed, TupleType)
    args = parsed.fields
    wanted = [p for p in function.type_params if isinstance(p, TypeVar)]
    if len(args) != len(wanted):
        message = f"`@{name}` takes {len(wanted)} types, got {len(args)}"
        raise error("unknown-entry", message, function.span)
    types = TypeMap(dict(zip(wanted, args)))
    params = tuple(
        replace(p, type_annotation=types.optional(p.type_annotation), checked_type=None)
        for p in function.params
    )
    shapes = tuple(p for p in function.type_params if not isinstance(p, TypeVar))
    body = Call(GlobalVar(name), params, span=function.span)
    return Function(params, body, types.optional(function.ret_type), shapes, span=function.span)


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
