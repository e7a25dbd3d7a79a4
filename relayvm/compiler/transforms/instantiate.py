"""Instantiation: functions and data types without type parameters of kind Type."""

from __future__ import annotations

from dataclasses import replace

from relayvm.base.dims import Dim, symbol
from relayvm.base.settings import flag
from relayvm.compiler.transforms.aligned_generics import with_aligned_params
from relayvm.compiler.transforms.copies import Copier, TypeMap
from relayvm.compiler.transforms.generic_places import GenericTypes
from relayvm.compiler.transforms.generic_values import with_named_instances
from relayvm.compiler.transforms.instance_definitions import Instantiation, is_shape
from relayvm.compiler.transforms.instances import (
    MOST_INSTANCES,
    Args,
    Extent,
    Instances,
    NotClosed,
    WithoutEnd,
    function_args,
    monomorphic,
    shape_params_only,
    type_params_only,
)
from relayvm.compiler.transforms.to_anf import function_to_anf
from relayvm.ir.expr import (
    Attrs,
    Call,
    Constructor,
    Expr,
    Function,
    GlobalVar,
    Let,
    Var,
)
from relayvm.ir.intrinsics import is_array
from relayvm.ir.module import Module
from relayvm.ir.types import (
    FuncType,
    ShapeArg,
    Type,
    TypeParam,
    TypeVar,
)
from relayvm.ir.visit import binders, children, post_order, rebuild, substitute_in_type


def instantiate(module: Module) -> Module:
    """Give each use of a polymorphic function or data type an instance: `List[int32]` -> `List`.

    An only instance keeps its name; several get the types appended. Parameters of kind ShapeVar
    stay, and so does `Array`. If the instances do not close within 64 levels of nesting or 1,000 of
    one definition, the module is marked `uniform` and otherwise unchanged. The attribute
    `instances` lists the new names of data types and constructors with what they were. Requires
    TYPED.
    """
    if not _is_polymorphic(module):
        return module
    try:
        if flag("RELAYVM_UNIFORM"):
            raise NotClosed("uniform layouts are asked for")
        return _instantiated(module)
    except NotClosed:
        return replace(module, attrs=Attrs(module.attrs, uniform=1))


def _instantiated(module: Module) -> Module:
    local = module.with_functions(
        {name: without_local_params(f, module) for name, f in module.functions.items()}
    )
    return Instantiation(local, Instances(local)).module()


def needs_uniform(module: Module) -> bool:
    """Return True if `instantiate` left the module to uniform layouts."""
    return bool(module.attrs.get("uniform"))


def _is_polymorphic(module: Module) -> bool:
    for data in module.types.values():
        if type_params_only(data.type_params) and not is_array(data):
            return True
    return any(
        isinstance(node, Function) and bool(type_params_only(node.type_params))
        for function in module.functions.values()
        for node in post_order(function)
    )


# -- Local functions ----------------------------------------------------------------------------


def without_local_params(function: Function, module: Module) -> Function:
    """Copy each polymorphic local function for the types of its uses; raises NotClosed."""
    function = with_aligned_params(function, module)
    named = with_named_instances(function, module)
    takes_values = named is not function
    function = _without_other_names(named)
    while True:
        binding = _last_polymorphic_let(function)
        if binding is None:
            break
        function = _specialised(function, binding)
    for node in post_order(function.body):
        if isinstance(node, Function) and type_params_only(node.type_params):
            raise NotClosed("a polymorphic function is passed on as one")
    _check_types(function)
    return function_to_anf(function) if takes_values else function


def _check_types(function: Function) -> None:
    """Raise NotClosed if a value is left that is used at several types."""
    generic = GenericTypes()
    held = [var.checked_type for var in binders(function)]
    for node in post_order(function.body):
        held += [node.checked_type, *(var.checked_type for var in binders(node))]
        if any(map(generic, held)):
            raise NotClosed("a polymorphic function is passed on as one")
        held = []


def _without_other_names(function: Function) -> Function:
    """Call polymorphic globals and constructors by their names where a let gives them another, and
    without their general types, of which there is no instance; raises NotClosed for other uses.
    """
    named: dict[int, Expr] = {}
    for node in post_order(function.body):
        if isinstance(node, Let):
            value = named.get(id(node.value), node.value)
            if isinstance(value, (GlobalVar, Constructor)) and _is_general(node.var):
                named[id(node.var)] = value

    def step(before: Expr, after: Expr) -> Expr:
        if isinstance(before, Let) and id(before.var) in named:
            assert isinstance(after, Let)
            return after.body
        if isinstance(after, Call) and isinstance(before, Call):
            callee = named.get(id(before.op), before.op)
            if isinstance(callee, (GlobalVar, Constructor)) and _is_general(callee):
                return replace(after, op=replace(callee, checked_type=None))
        return after

    result = rebuild(function, step)
    assert isinstance(result, Function)
    for node in post_order(result.body):
        is_name = isinstance(node, (GlobalVar, Constructor))
        if id(node) in named or (is_name and _is_general(node)):
            raise NotClosed("a polymorphic function is passed on as one")
    return result


def _is_general(expr: Expr) -> bool:
    kind = expr.checked_type
    return isinstance(kind, FuncType) and bool(type_params_only(kind.type_params))


def _last_polymorphic_let(function: Function) -> Let | None:
    """Return a let of a polymorphic function that no other one uses or is around.

    Its uses are at types without parameters of local functions; those of the functions that it
    uses in its turn are, once it is copied for these types.
    """
    inner: set[int] = set()
    lets: list[Let] = []
    for node in post_order(function.body):
        value = node.value if isinstance(node, Let) else None
        if isinstance(value, Function) and type_params_only(value.type_params):
            assert isinstance(node, Let)
            lets.append(node)
            inner.update(id(n) for n in post_order(value) if isinstance(n, Let))
    # The lets of the body of a let come before it.
    return next((node for node in lets if id(node) not in inner), None)


def _specialised(function: Function, binding: Let) -> Function:
    value = binding.value
    assert isinstance(value, Function)
    params = type_params_only(value.type_params)
    own = tuple(params)
    versions: dict[Args, Var] = {}
    extent = Extent()

    def version(user: Expr, position: int) -> Var | None:
        """Return the variable of the version that a use needs; None for the recursive use."""
        use = user.var if isinstance(user, Let) else binding.var
        args = function_args(value, user, use, position == 0, TypeMap())
        if args == own:
            return None
        if args not in versions:
            if len(versions) >= MOST_INSTANCES:
                raise WithoutEnd(binding.var.name, user.span)
            extent.check(args, span=user.span)
            versions[args] = replace(binding.var)
        return versions[args]

    inside = {id(node) for node in post_order(value)}
    chosen: dict[tuple[int, int], Var] = {}
    for node in post_order(function.body):
        for position, part in enumerate(children(node)):
            if part is binding.var:
                if position != 0 or not isinstance(node, (Call, Let)):
                    raise NotClosed("a polymorphic function is passed on as one")
                var = version(node, position)
                if (var is None) != (id(node) in inside):
                    raise NotClosed("a type argument is not determined")
                if var is not None:
                    chosen[id(node), position] = var

    def step(before: Expr, after: Expr) -> Expr:
        if isinstance(after, Call) and (id(before), 0) in chosen:
            shapes = tuple(a for a in after.type_args if isinstance(a, ShapeArg))
            var = chosen[id(before), 0]
            after = replace(after, op=copies[id(var)][0], type_args=shapes)
        if isinstance(after, Let) and (id(before), 0) in chosen:
            after = replace(after, value=copies[id(chosen[id(before), 0])][0])
        if before is binding:
            assert isinstance(after, Let)
            body = after.body
            for var, copy in reversed(list(copies.values())):
                body = Let(var, copy, body, span=after.span, checked_type=after.checked_type)
            return body
        return after

    copies: dict[int, tuple[Var, Function]] = {}
    for args, var in versions.items():
        copies[id(var)] = _version(binding.var, value, TypeMap(dict(zip(params, args))))
    result = rebuild(function, step)
    assert isinstance(result, Function)
    return result


def _version(var: Var, value: Function, types: TypeMap) -> tuple[Var, Function]:
    """Return a copy of a local function for some types, and the variable that names it."""
    mono = replace(
        var,
        type_annotation=types.optional(monomorphic(_with_params_of(value, var.type_annotation))),
        checked_type=types.optional(monomorphic(_with_params_of(value, var.checked_type))),
    )

    def drop_args(_before: Expr, after: Expr) -> Expr:
        if isinstance(after, Call) and after.op is mono:
            return replace(after, type_args=tuple(a for a in after.type_args if is_shape(a)))
        return after

    plain = replace(
        value,
        type_params=shape_params_only(value.type_params),
        type_constraints=(),
        checked_type=monomorphic(value.checked_type),
    )
    copy = rebuild(Copier(types, {id(var): mono}).copy(plain), drop_args)
    assert isinstance(copy, Function)
    return mono, copy


def _with_params_of(value: Function, type_: Type | None) -> Type | None:
    """Return the type of a variable with the type parameters of the function that it is bound to;
    an annotation has its own.
    """
    if not isinstance(type_, FuncType):
        return type_
    params = dict(zip(type_.type_params, value.type_params))
    own: dict[TypeParam, Type | Dim] = {
        old: new if isinstance(new, TypeVar) else symbol(new) for old, new in params.items()
    }
    inner = substitute_in_type(replace(type_, type_params=()), own)
    assert isinstance(inner, FuncType)
    return replace(inner, type_params=value.type_params)
