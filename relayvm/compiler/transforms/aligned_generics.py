"""Local polymorphic functions get the type parameters of the types that their names declare."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import cast

from relayvm.base.dims import Dim, DimVar, symbol
from relayvm.compiler.transforms.copies import Copier, TypeMap
from relayvm.compiler.transforms.instances import match_types
from relayvm.compiler.transforms.lift_generics import type_args
from relayvm.ir.expr import Call, Constructor, Expr, Function, GlobalVar, Let, Var
from relayvm.ir.module import Module
from relayvm.ir.types import (
    UNIT,
    FuncType,
    ShapeArg,
    Type,
    TypeCall,
    TypeParam,
    TypeRelation,
    TypeVar,
)
from relayvm.ir.visit import post_order, rebuild, substitute_in_type


def with_aligned_params(function: Function, module: Module) -> Function:
    """Let each polymorphic function that a let names have the type parameters of the type that the
    name declares.

    `let %s: fn [A, B](A, B) -> A = fn [Q, P](%a: P, %b: Q) { %a }`
    -> `let %s: fn [A, B](A, B) -> A = fn [P, Q](%a: P, %b: Q) { %a }`: the type arguments of calls
    of `%s` are those of its declared type, which may have them in another order, or fewer. Globals
    and constructors get a function around them. The same object where nothing is to be done.
    Requires TYPED.
    """
    moved = {id(n) for n in post_order(function.body) if isinstance(n, Let) and _differs(n, module)}
    if not moved:
        return function

    def step(before: Expr, after: Expr) -> Expr:
        if id(before) not in moved:
            return after
        assert isinstance(before, Let) and isinstance(after, Let)
        declared, own = _declared(before), _own_type(before.value, module)
        assert declared is not None and own is not None
        return replace(after, value=_aligned(after.value, own, declared))

    result = rebuild(function, step)
    assert isinstance(result, Function)
    return replace(result, checked_type=function.checked_type)


def _declared(let: Let) -> FuncType | None:
    for kind in (let.var.checked_type, let.var.type_annotation):
        if isinstance(kind, FuncType) and kind.type_params:
            return kind
    return None


def _own_type(value: Expr, module: Module) -> FuncType | None:
    """Return the type that a function has by itself; None for other expressions."""
    kind: Type | None = None
    match value:
        case Function():
            kind = value.checked_type
        case GlobalVar():
            kind = module.functions[value.name].checked_type
        case Constructor():
            params = module.types[value.belong_to.name].type_params
            kind = FuncType(value.inputs, TypeCall(value.belong_to, type_args(params)), params)
    return kind if isinstance(kind, FuncType) and kind.type_params else None


def _differs(let: Let, module: Module) -> bool:
    declared = _declared(let)
    if declared is None:
        return False
    own = _own_type(let.value, module)
    if own is None or own is declared:
        return False
    if len(declared.type_params) != len(own.type_params):
        return True
    found = _matched(own, declared)
    pairs = zip(own.type_params, declared.type_params)
    return any(found.get(p, _image(q)) != _image(q) for p, q in pairs)


def _image(param: TypeParam) -> Type | Dim:
    return param if isinstance(param, TypeVar) else symbol(param)


def _aligned(value: Expr, own: FuncType, declared: FuncType) -> Function:
    """Return a function with the parameters of a type that it has at some instance."""
    fresh: dict[TypeParam, Type | Dim] = {}
    params: list[TypeParam] = []
    for param in declared.type_params:
        new = DimVar(param.name) if isinstance(param, DimVar) else TypeVar(param.name, param.kind)
        params.append(new)
        fresh[param] = _image(new)
    constraints = cast(
        "tuple[TypeRelation, ...]",
        tuple(substitute_in_type(c, fresh) for c in declared.type_constraints),
    )
    bare = substitute_in_type(FuncType(declared.arg_types, declared.ret_type), fresh)
    assert isinstance(bare, FuncType)
    found = _matched(own, bare)
    plain = _instance(value, own, found) if isinstance(value, Function) else _call(value, own, bare)
    kind = replace(bare, type_params=tuple(params), type_constraints=constraints)
    return replace(
        plain, type_params=tuple(params), type_constraints=constraints, checked_type=kind
    )


def _instance(value: Function, own: FuncType, found: Mapping[TypeParam, Type | Dim]) -> Function:
    """Return a copy of a function for what its type parameters stand for."""
    types = TypeMap()
    types.bind(own.type_params, _args(own, found))
    bare = FuncType(own.arg_types, own.ret_type)
    plain = replace(value, type_params=(), type_constraints=(), checked_type=bare)
    copy = Copier(types).copy(plain)
    assert isinstance(copy, Function)
    return copy


def _call(value: Expr, own: FuncType, kind: FuncType) -> Function:
    """Return a function of a type that calls a more general one."""
    span = value.span
    params = tuple(Var(f"x{i}", t, span=span, checked_type=t) for i, t in enumerate(kind.arg_types))
    given = _args(own, _matched(own, kind))
    callee = replace(value, checked_type=None)
    body = Call(callee, params, type_args=given, span=span, checked_type=kind.ret_type)
    return Function(params, body, kind.ret_type, span=span, checked_type=kind)


def _args(own: FuncType, found: Mapping[TypeParam, Type | Dim]) -> tuple[Type, ...]:
    """Return the type arguments of an instance; those that its type does not tell are any."""
    args: list[Type] = []
    for param in own.type_params:
        image = found.get(param, 1 if isinstance(param, DimVar) else UNIT)
        args.append(image if isinstance(image, Type) else ShapeArg(image))
    return tuple(args)


def _matched(generic: FuncType, actual: FuncType) -> Mapping[TypeParam, Type | Dim]:
    """Return what the type parameters of a polymorphic type, sizes too, stand for in another."""
    found: dict[TypeParam, Type | Dim] = {}
    match_types(generic, actual, generic.type_params, found)
    return found
