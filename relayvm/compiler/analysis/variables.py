"""Variables, type variables and dtypes of expressions, in the order in which they are met."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from relayvm.base.diagnostics import error
from relayvm.base.dtypes import DType, dtype_of
from relayvm.base.source import Span
from relayvm.ir.expr import Call, Constant, Constructor, Expr, Function, Let, Match, Var
from relayvm.ir.module import Module, TypeData
from relayvm.ir.scope import Scope, Scopes
from relayvm.ir.types import (
    FuncType,
    TensorType,
    Type,
    TypeParam,
)
from relayvm.ir.visit import (
    TypeVariables,
    attr_variables,
    binders,
    children,
    node_types,
    pattern_vars,
    post_order,
    type_children,
    type_variables,
    type_walk,
)


def pre_order(expr: Expr) -> Iterator[Expr]:
    """Yield every node once, before its subexpressions."""
    seen: set[int] = set()
    pending = [expr]
    while pending:
        node = pending.pop()
        if id(node) not in seen:
            seen.add(id(node))
            yield node
            pending.extend(reversed(children(node)))


def all_vars(expr: Expr) -> tuple[Var, ...]:
    """Return the variables that an expression binds or uses, each once."""
    found: dict[Var, None] = {}
    for node in pre_order(expr):
        found.update(dict.fromkeys(binders(node)))
        if isinstance(node, Var):
            found[node] = None
    return tuple(found)


def bound_vars(expr: Expr) -> tuple[Var, ...]:
    """Return the variables that an expression binds, outer ones first."""
    return tuple(dict.fromkeys(v for node in pre_order(expr) for v in binders(node)))


def free_vars(expr: Expr) -> tuple[Var, ...]:
    """Return the variables that an expression uses and does not bind."""
    bound = set(bound_vars(expr))
    return tuple(v for v in all_vars(expr) if v not in bound)


def _types(item: Expr | Type | TypeData) -> Iterator[Type]:
    if isinstance(item, Type):
        yield item
        return
    if isinstance(item, TypeData):
        for constructor in item.constructors:
            yield from constructor.inputs
        return
    for node in pre_order(item):
        for var in (*binders(node), *((node,) if isinstance(node, Var) else ())):
            if var.type_annotation is not None:
                yield var.type_annotation
        if isinstance(node, Function) and node.ret_type is not None:
            yield node.ret_type
        if isinstance(node, Call):
            yield from node.type_args
        if isinstance(node, Constructor):
            yield from node.inputs


def bound_type_vars(item: Expr | Type | TypeData) -> tuple[TypeParam, ...]:
    """Return the type parameters that an expression, type or definition introduces."""
    found: dict[TypeParam, None] = {}
    if isinstance(item, TypeData):
        found.update(dict.fromkeys(item.type_params))
    if isinstance(item, Expr):
        for node in pre_order(item):
            if isinstance(node, Function):
                found.update(dict.fromkeys(node.type_params))
    seen: set[int] = set()
    for type_ in _types(item):
        for part in type_walk(type_, seen):
            if isinstance(part, FuncType):
                found.update(dict.fromkeys(part.type_params))
    return tuple(found)


def all_type_vars(item: Expr | Type | TypeData) -> tuple[TypeParam, ...]:
    """Return the type parameters that occur or are introduced, each once."""
    found: dict[TypeParam, None] = {}
    seen: set[int] = set()
    for type_ in _types(item):
        for part in type_walk(type_, seen):
            if isinstance(part, FuncType):
                found.update(dict.fromkeys(part.type_params))
            elif not type_children(part):
                found.update(dict.fromkeys(type_variables(part)))
    if isinstance(item, Expr):
        for node in pre_order(item):
            if isinstance(node, Call):
                found.update(
                    dict.fromkeys(v for a in node.attrs.values() for v in attr_variables(a))
                )
    found.update(dict.fromkeys(bound_type_vars(item)))
    return tuple(found)


def free_type_vars(item: Expr | Type | TypeData) -> tuple[TypeParam, ...]:
    """Return the type parameters that occur and are not introduced inside."""
    bound = set(bound_type_vars(item))
    return tuple(v for v in all_type_vars(item) if v not in bound)


def all_dtypes(expr: Expr) -> set[DType]:
    """Return the dtypes of all tensors in an expression: of constants, annotations, and of every
    node once types are inferred.
    """
    types = list(_types(expr))
    found: set[DType] = set()
    for node in post_order(expr):
        if isinstance(node, Constant):
            found.add(dtype_of(node.data.dtype))
        if node.checked_type is not None:
            types.append(node.checked_type)
    seen: set[int] = set()
    parts = (part for type_ in types for part in type_walk(type_, seen))
    found.update(part.dtype for part in parts if isinstance(part, TensorType))
    return found


def is_well_formed(expr: Expr) -> bool:
    """Return True if each variable has one binder and is used in its scope, or is free."""
    scopes = Scopes(expr)
    regions: dict[Var, Scope] = {}
    for node in scopes.nodes:
        for var, region in _bound_here(node, scopes):
            if var in regions:
                return False
            regions[var] = region
    return all(
        node not in regions or regions[node].encloses(scopes.of[id(node)])
        for node in scopes.nodes
        if isinstance(node, Var)
    )


def check_variables(module: Module) -> None:
    """Raise RelayError if a function uses a variable where it is not bound, or binds one twice: no
    text does, programs built in Python may.
    """
    for name, function in module.functions.items():
        scopes = Scopes(function)
        regions: dict[Var, Scope] = {}
        for node in scopes.nodes:
            for var, region in _bound_here(node, scopes):
                if var in regions:
                    message = f"`%{var.name}` is bound more than once in `@{name}`"
                    way = "make a variable for each binder; equal names are no matter"
                    raise error("ill-formed", message, node.span, help=way)
                regions[var] = region
        for node in scopes.nodes:
            if not isinstance(node, Var):
                continue
            if node not in regions:
                message = f"`%{node.name}` is bound nowhere in `@{name}`"
                way = "make it a parameter, or give it a value with `let`"
                raise error("unknown-variable", message, node.span, help=way)
            if not regions[node].encloses(scopes.of[id(node)]):
                message = f"`%{node.name}` is used in `@{name}` outside of its scope"
                raise error("ill-formed", message, node.span)


def _bound_here(node: Expr, scopes: Scopes) -> Iterator[tuple[Var, Scope]]:
    match node:
        case Let():
            recursive = isinstance(node.value, Function)
            yield node.var, scopes.inner[id(node)] if recursive else scopes.binding[id(node)][0]
        case Function():
            yield from ((p, scopes.binding[id(node)][0]) for p in node.params)
        case Match():
            for clause, region in zip(node.clauses, scopes.binding[id(node)]):
                yield from ((v, region) for v in pattern_vars(clause.lhs))
        case _:
            pass


@dataclass(frozen=True, slots=True)
class Escape:
    """A type that mentions a parameter which nothing introduces where it stands: that of a
    variable, or one written in an expression.
    """

    param: TypeParam
    type: Type
    var: Var | None
    span: Span | None


def escapes(function: Function) -> Iterator[Escape]:
    """Yield the first place of each parameter that is outside of its function."""
    variables, seen = TypeVariables(), set[int]()
    scope, told = Counter[TypeParam](), set[TypeParam]()
    stack: list[tuple[Expr, bool]] = [(function, True)]
    while stack:
        node, enters = stack.pop()
        if not enters:
            assert isinstance(node, Function)
            scope.subtract(node.type_params)
            continue
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, Function):
            scope.update(node.type_params)
            stack.append((node, False))
        for var, type_ in _written(node):
            for param in variables(type_):
                if scope[param] <= 0 and param not in told:
                    told.add(param)
                    span = (var.span if var is not None else None) or node.span
                    yield Escape(param, type_, var, span)
        stack.extend((child, True) for child in reversed(children(node)))


def _written(node: Expr) -> Iterator[tuple[Var | None, Type]]:
    for var in binders(node):
        if var.type_annotation is not None:
            yield var, var.type_annotation
    yield from ((None, type_) for type_ in node_types(node))
