"""Eta expansion: constructors and globals that are used as values become functions that call
them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from relayvm.base.dims import symbol
from relayvm.compiler.transforms.generic_places import GenericTypes
from relayvm.compiler.transforms.instances import match_types, type_params_only
from relayvm.ir.expr import Call, Constructor, Expr, Function, GlobalVar, Let, Var
from relayvm.ir.module import Module
from relayvm.ir.types import FuncType, ShapeArg, Type, TypeCall, TypeVar
from relayvm.ir.visit import children, post_order, rebuild, with_children, with_own_params


def eta_expand(
    module: Module, expand_constructor: bool = True, expand_global_var: bool = False
) -> Module:
    """Wrap what is used as a value: `@map(Some, %l)` -> `@map(fn (%x) { Some(%x) }, %l)`.

    Called constructors and globals stay as they are. Requires TYPED.
    """
    kinds: tuple[type[Expr], ...] = ()
    kinds += (Constructor,) if expand_constructor else ()
    kinds += (GlobalVar,) if expand_global_var else ()
    functions = {name: expanded(f, kinds, module) for name, f in module.functions.items()}
    return module.with_functions(functions)


def wrap_bound_generics(module: Module) -> Module:
    """Let every polymorphic global or constructor that a let names be a function of its own, of
    which each use can have an instance.

    `let %c = Some; (%c(1), %c(2f))`
    -> `let %c = fn [A](%x: A) -> Option[A] { Some(%x) }; (%c(1), %c(2f))`. Requires TYPED.
    """
    changed: dict[str, Function] = {}
    for name, function in module.functions.items():
        if any(map(_names_generic, post_order(function))):
            new = rebuild(function, _with_wrapped_value)
            assert isinstance(new, Function)
            changed[name] = new
    return module.with_functions({**module.functions, **changed}) if changed else module


def _names_generic(node: Expr) -> bool:
    if not isinstance(node, Let) or not isinstance(node.value, (Constructor, GlobalVar)):
        return False
    return is_generic(node.value)


def is_generic(node: Expr) -> bool:
    """Return True for an expression whose type has parameters of its own."""
    kind = node.checked_type
    return isinstance(kind, FuncType) and bool(kind.type_params)


def _with_wrapped_value(_before: Expr, after: Expr) -> Expr:
    if isinstance(after, Let) and _names_generic(after):
        return replace(after, value=_wrapper(after.value, None))
    return after


def expanded(function: Function, kinds: tuple[type[Expr], ...], module: Module) -> Function:
    """Return a function with the values of these classes wrapped."""
    if not kinds:
        return function
    return expanded_where(function, lambda value: isinstance(value, kinds), module)


def expanded_where(
    function: Function, is_wrapped: Callable[[Expr], bool], module: Module
) -> Function:
    """Return a function with these values wrapped where they are not called."""
    done: dict[int, Expr] = {}
    wrapped: dict[int, Expr] = {}
    for node in post_order(function):
        parts = children(node)
        new: list[Expr] = []
        for place, part in enumerate(parts):
            called = isinstance(node, Call) and place == 0
            as_value = not called and is_wrapped(part)
            if as_value and id(part) not in wrapped:
                wrapped[id(part)] = _wrapper(part, module)
            new.append(wrapped[id(part)] if as_value else done[id(part)])
        done[id(node)] = with_children(node, tuple(new)) if parts else node
    result = done[id(function)]
    assert isinstance(result, Function)
    return result


def _wrapper(value: Expr, module: Module | None) -> Expr:
    kind = value.checked_type
    if not isinstance(kind, FuncType):
        return value
    own = with_own_params(kind)
    types = own.arg_types
    names = ["x"] if len(types) == 1 else [f"x{i}" for i in range(len(types))]
    params = tuple(Var(n, t, span=value.span, checked_type=t) for n, t in zip(names, types))
    result = own.ret_type
    given: tuple[Type, ...] = tuple(
        p if isinstance(p, TypeVar) else ShapeArg(symbol(p)) for p in own.type_params
    )
    callee = value
    if given and isinstance(value, (Constructor, GlobalVar)):
        callee = replace(value, checked_type=FuncType(types, result))
    elif module is not None:
        given = _args_of_instance(value, kind, module)
    body = Call(callee, params, type_args=given, span=value.span, checked_type=result)
    return Function(
        params,
        body,
        result,
        own.type_params,
        type_constraints=own.type_constraints,
        span=value.span,
        checked_type=own,
    )


def _args_of_instance(value: Expr, kind: FuncType, module: Module) -> tuple[Type, ...]:
    """Return the type arguments of a function that is one instance where polymorphic functions are
    among them: inference would not find these again.
    """
    if not GenericTypes()(kind):
        return ()
    if isinstance(value, Constructor):
        return kind.ret_type.args if isinstance(kind.ret_type, TypeCall) else ()
    scheme = module.functions[value.name].checked_type if isinstance(value, GlobalVar) else None
    if not isinstance(scheme, FuncType):
        return ()
    params = type_params_only(scheme.type_params)
    found: dict[TypeVar, Type] = {}
    match_types(scheme, kind, set(params), found)
    given = tuple(found[p] for p in params if p in found)
    return given if len(given) == len(scheme.type_params) else ()
