"""Which functions of a module the host may call, and parameters that are given at compile time."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np

from relayvm.base.diagnostics import error
from relayvm.base.dims import Dim, DimVar, dim_substitute, dims_equal, told_size
from relayvm.base.dtypes import BY_NAME
from relayvm.base.narrow.arrays import readable
from relayvm.base.narrow.host import name_of
from relayvm.compiler.host.growing_types import endless_part, growing_types
from relayvm.ir.expr import Call, Constant, Expr, Function, GlobalVar, Var
from relayvm.ir.module import Module
from relayvm.ir.printer import print_type
from relayvm.ir.types import (
    UNIT,
    FuncType,
    IncompleteType,
    TensorType,
    Type,
    TypeParam,
    TypeVar,
)
from relayvm.ir.visit import global_vars, rebuild, substitute_types, type_children, type_walk

MOST_NESTED = 10_000


def entry_names(module: Module) -> tuple[str, ...]:
    """Return the names of the entries, in order of definition.

    They are what the module's attribute `entries` lists, else `main` and every function that the
    program itself defines, unless it has type parameters of kind Type or parameters that no host
    can hold, or takes or gives data without end. Of `main` its parameters must tell the types.
    """
    chosen = module.attrs.get("entries")
    if isinstance(chosen, tuple):
        return tuple(str(name) for name in chosen)
    growing = growing_types(module)
    return tuple(
        name
        for name, function in module.functions.items()
        if name not in module.library
        and (
            not told_type_params(function)
            if name == "main"
            else not any(isinstance(p, TypeVar) for p in function.type_params)
            and all(is_hostable(p.type_annotation) for p in function.params)
            and not (growing and _is_endless(module, growing, function))
        )
    )


def _is_endless(module: Module, growing: Mapping[str, bool], function: Function) -> bool:
    """Return True if a function takes or gives data whose types never end."""
    types = [*(p.type_annotation for p in function.params), function.ret_type]
    return any(t is not None and endless_part(module, growing, t) is not None for t in types)


def told_type_params(function: Function) -> tuple[TypeVar, ...]:
    """Return the type parameters of kind Type that arguments or constraints tell. Others may stand
    for any type: there are no values of them.
    """
    types = [p.type_annotation or p.checked_type for p in function.params]
    types.extend(function.type_constraints)
    inside = {t for type_ in types if type_ is not None for t in type_walk(type_)}
    return tuple(p for p in function.type_params if isinstance(p, TypeVar) and p in inside)


def without_untold(function: Function) -> Function:
    """Return a function without the type parameters that no argument tells: `()` is as good."""
    told = told_type_params(function)
    known: dict[TypeParam, Type | Dim] = {}
    for param in function.type_params:
        if isinstance(param, TypeVar) and param not in told:
            known[param] = UNIT
    if not known:
        return function
    left = tuple(p for p in function.type_params if p not in known)
    fixed = substitute_types(replace(function, type_params=left), known)
    assert isinstance(fixed, Function)
    return replace(fixed, checked_type=None)


def is_hostable(type_: Type | None) -> bool:
    """Return whether the host can hold values of a type: it does not nest too deep, and no function
    in it is polymorphic.
    """
    if type_ is None:
        return True
    polymorphic = any(isinstance(t, FuncType) and t.type_params for t in type_walk(type_))
    return not polymorphic and not nests_too_deep(type_)


def nests_too_deep(type_: Type) -> bool:
    """Return whether the types in a type nest deeper than a value of the host may."""
    level = [type_]
    for _ in range(MOST_NESTED + 1):  # the last has nothing inside
        # One object of each stands for all: types may share their parts.
        level = list({id(p): p for t in level for p in type_children(t)}.values())
        if not level:
            return False
    return True


def bind_params(module: Module, params: Mapping[str, Any], entry: str = "main") -> Module:
    """Replace parameters of `entry` by constants; they disappear from its parameter list.

    What is not an array becomes one of the declared dtype. A symbol that an array gives a size has
    that size in the other parameters too. An entry that is also called inside the program stays as
    it is under another name, and what the host calls passes the constants on to it.

    Raises RelayError `unknown-parameter`, and `wrong-argument` where a value is not of the type
    that the parameter declares.
    """
    if not isinstance(params, Mapping):
        message = f"`params` are arrays by name, not a `{type(params).__name__}`"
        raise error("bad-option", message)
    if not params:
        return module
    function = module[entry]
    by_name = {p.name: p for p in function.params}
    arrays: list[tuple[Var, np.ndarray]] = []
    for name, value in params.items():
        if name not in by_name:
            known = ", ".join(f"`%{p}`" for p in by_name) or "none"
            message = f"`@{entry}` has no parameter `%{name}`; it has {known}"
            raise error("unknown-parameter", message, function.span)
        arrays.append((by_name[name], _as_array(by_name[name], value, entry)))
    sizes = _told_sizes(arrays)
    constants: dict[int, Expr] = {}
    for param, array in arrays:
        _check_array(param, array, entry, sizes)
        constants[id(param)] = Constant(np.ascontiguousarray(array).reshape(array.shape))
    if any(entry in global_vars(f.body) for f in module.functions.values()):
        module = _bind_recursive(module, entry, constants)
    else:
        bound = bind_vars(function, constants)
        module = module.with_functions({**module.functions, entry: bound})
    return _with_sizes(module, entry, sizes)


def _as_array(param: Var, value: Any, entry: str) -> np.ndarray:
    declared = param.type_annotation
    if declared is not None and not isinstance(declared, (TensorType, IncompleteType)):
        message = (
            f"`%{param.name}` of `@{entry}` is `{print_type(declared)}`; "
            "only tensors can be given when the program is compiled"
        )
        raise error("wrong-argument", message, param.span)
    try:
        array = np.asarray(value)
    except (ValueError, TypeError) as reason:
        message = f"`%{param.name}` of `@{entry}` is no array: {reason}"
        raise error("wrong-argument", message, param.span) from None
    if isinstance(declared, TensorType) and not isinstance(value, (np.ndarray, np.generic)):
        with contextlib.suppress(ValueError, TypeError, OverflowError):
            with np.errstate(over="ignore"):
                plain = declared.dtype.array(value)
            plain_numbers = readable(plain)
            same = np.array_equal(plain_numbers, array) or declared.dtype.is_float
            if same and np.array_equal(np.isfinite(plain_numbers), np.isfinite(array)):
                return plain
    if name_of(array.dtype) not in BY_NAME:
        message = f"`%{param.name}` of `@{entry}` is a tensor, not a `{type(value).__name__}`"
        raise error("wrong-argument", message, param.span)
    return array


def _told_sizes(arrays: Sequence[tuple[Var, np.ndarray]]) -> dict[DimVar, int]:
    """Return the sizes that axes of arrays tell: those that stand alone, before the others."""
    alone: dict[DimVar, int] = {}
    solved: dict[DimVar, int] = {}
    for param, array in arrays:
        declared = param.type_annotation
        if not isinstance(declared, TensorType):
            continue
        for have, want in zip(array.shape, declared.shape):
            told = told_size(want, have)
            if told is not None:
                variable, size, is_alone = told
                (alone if is_alone else solved).setdefault(variable, size)
    return solved | alone


def _check_array(param: Var, value: np.ndarray, entry: str, sizes: Mapping[DimVar, int]) -> None:
    declared = param.type_annotation
    if not isinstance(declared, TensorType):
        return
    fits = value.dtype == declared.dtype.numpy and value.ndim == declared.rank
    for have, want in zip(value.shape, declared.shape):
        fits &= dims_equal(have, dim_substitute(want, sizes)) is not False
    if not fits:
        shape = ", ".join(map(str, value.shape))
        given = f"Tensor[({shape}), {value.dtype}]" if value.shape else str(value.dtype)
        message = f"`%{param.name}` of `@{entry}` is `{print_type(declared)}`, not `{given}`"
        cast = f"cast it with `.astype('{declared.dtype}')`"
        way = cast if value.dtype != declared.dtype.numpy else ""
        raise error("wrong-argument", message, param.span, help=way)


def _with_sizes(module: Module, entry: str, sizes: Mapping[DimVar, int]) -> Module:
    """Give symbols of an entry the sizes that its constants have."""
    function = module.functions[entry]
    if not sizes:
        return module
    types = tuple(p for p in function.type_params if p not in sizes)
    known: dict[TypeParam, Type | Dim] = {}
    for variable, size in sizes.items():
        known[variable] = size
    fixed = substitute_types(replace(function, type_params=types), known)
    assert isinstance(fixed, Function)
    return module.with_functions({**module.functions, entry: replace(fixed, checked_type=None)})


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
