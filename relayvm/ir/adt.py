"""Instances of data types: the definition behind a type, and the fields of its constructors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from relayvm.base.diagnostics import InternalError
from relayvm.base.dims import Dim
from relayvm.ir.expr import Constructor, PatternConstructor, PatternTuple
from relayvm.ir.module import Module, TypeData
from relayvm.ir.types import GlobalTypeVar, ShapeArg, TupleType, Type, TypeCall, TypeParam
from relayvm.ir.visit import substitute_in_type


def definition_of(module: Module, kind: Type) -> tuple[TypeData, tuple[Type, ...]]:
    """Return the definition and the type arguments of a data type: `List[int32]` or `Tree`."""
    if isinstance(kind, TypeCall):
        return module.types[kind.func.name], kind.args
    if isinstance(kind, GlobalTypeVar):
        return module.types[kind.name], ()
    raise InternalError(f"{kind} is no data type")


def field_types(module: Module, kind: Type, constructor: Constructor) -> tuple[Type, ...]:
    """Return the types of a constructor's fields in this instance of its data type."""
    definition, args = definition_of(module, kind)
    if not definition.type_params:
        return constructor.inputs
    values: Mapping[TypeParam, Type | Dim] = {
        param: arg.dim if isinstance(arg, ShapeArg) else arg
        for param, arg in zip(definition.type_params, args)
    }
    return tuple(substitute_in_type(field, values) for field in constructor.inputs)


def pattern_types(
    module: Module | None, pattern: PatternConstructor | PatternTuple, kind: Type | None
) -> Sequence[Type | None]:
    """Return the types of what the parts of a pattern match in a value of a type; None where this
    is not known.
    """
    if isinstance(pattern, PatternTuple):
        if isinstance(kind, TupleType):
            return kind.fields
    elif module is not None and isinstance(kind, (TypeCall, GlobalTypeVar)):
        return field_types(module, kind, pattern.constructor)
    return (None,) * len(pattern.patterns)
