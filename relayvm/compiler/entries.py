"""Which functions of a module the host may call, and parameters that are given at compile time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import count

import numpy as np

from relayvm.base.diagnostics import error
from relayvm.base.dims import dims_equal
from relayvm.compiler.transforms.rebuild import rebuild
from relayvm.ir.expr import Call, Constant, Expr, Function, GlobalVar, Var
from relayvm.ir.module import Module
from relayvm.ir.printer import print_type
from relayvm.ir.types import TensorType, TypeVar
from relayvm.ir.visit import global_vars


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

    An entry that is also called inside the program stays as it is under another name, and what the
    host calls passes the constants on to it.

    Raises RelayError `unknown-parameter`, and `wrong-argument` where an array is not of the type
    that the parameter declares.
    """
    if not params:
        return module
    function = module[entry]
    by_name = {p.name: p for p in function.params}
    for name, value in params.items():
        if name not in by_name:
            known = ", ".join(f"`%{p}`" for p in by_name) or "none"
            message = f"`@{entry}` has no parameter `%{name}`; it has {known}"
            raise error("unknown-parameter", message, function.span)
        _check_array(by_name[name], value, entry)
    constants: dict[int, Expr] = {
        id(by_name[name]): Constant(np.ascontiguousarray(value).reshape(np.shape(value)))
        for name, value in params.items()
    }
    if any(entry in global_vars(f.body) for f in module.functions.values()):
        return _bind_recursive(module, entry, constants)
    bound = bind_vars(function, constants)
    return module.with_functions({**module.functions, entry: bound})


def _check_array(param: Var, value: np.ndarray, entry: str) -> None:
    declared = param.type_annotation
    if not isinstance(declared, TensorType):
        return
    fits = value.dtype == declared.dtype.numpy and value.ndim == declared.rank
    fits = fits and all(
        dims_equal(have, want) is not False for have, want in zip(value.shape, declared.shape)
    )
    if not fits:
        shape = ", ".join(map(str, value.shape))
        given = f"Tensor[({shape}), {value.dtype}]" if value.shape else str(value.dtype)
        message = f"`%{param.name}` of `@{entry}` is `{print_type(declared)}`, not `{given}`"
        cast = f"cast it with `.astype('{declared.dtype}')`"
        way = cast if value.dtype != declared.dtype.numpy else ""
        raise error("wrong-argument", message, param.span, help=way)


def _bind_recursive(module: Module, entry: str, constants: Mapping[int, Expr]) -> Module:
    """`@main` that calls itself -> `@main_0` that does, and `@main` that calls `@main_0`."""
    inner = next(n for n in (f"{entry}_{i}" for i in count()) if n not in module.functions)

    def renamed(_before: Expr, after: Expr) -> Expr:
        if isinstance(after, GlobalVar) and after.name == entry:
            return GlobalVar(inner, span=after.span)
        return after

    functions: dict[str, Function] = {}
    for name, function in module.functions.items():
        body = rebuild(function.body, renamed)
        same = body is function.body
        functions[inner if name == entry else name] = (
            function if same else replace(function, body=body, checked_type=None)
        )
    old = functions[inner]
    params = tuple(
        Var(p.name, p.type_annotation, span=p.span) for p in old.params if id(p) not in constants
    )
    given = iter(params)
    args = tuple(constants.get(id(p)) or next(given) for p in old.params)
    call = Call(GlobalVar(inner, span=old.span), args, span=old.span)
    functions[entry] = replace(old, params=params, body=call, checked_type=None)
    return module.with_functions(functions)


def bind_vars(function: Function, values: Mapping[int, Expr]) -> Function:
    """Return `function` without the parameters whose `id` is a key; their uses are the values."""

    def put(_before: Expr, after: Expr) -> Expr:
        return values.get(id(after), after) if isinstance(after, Var) else after

    body = rebuild(function.body, put)
    params = tuple(p for p in function.params if id(p) not in values)
    return replace(function, params=params, body=body, checked_type=None)
