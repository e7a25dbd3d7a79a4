"""Intrinsics: operations of the language that are typed like functions and are no operators.

They are those of `Array[A]`, the growable vector of the library: pure, and changed in place by the
machine where nothing else holds the array. An intrinsic is called by its name; it is not a value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from relayvm.base.diagnostics import InternalError
from relayvm.base.dtypes import INT32
from relayvm.ir.expr import Call, Op, OperandSchema
from relayvm.ir.module import TypeData
from relayvm.ir.types import (
    FuncType,
    GlobalTypeVar,
    Type,
    TypeCall,
    TypeVar,
    scalar_type,
)

ARRAY_NAME = "Array"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Intrinsic(Op):
    """An operation with a polymorphic function type, built into evaluator and machine."""

    type: FuncType = field(kw_only=True)

    def __reduce__(self) -> tuple[Callable[[str], Intrinsic], tuple[str]]:
        """Return how a copy or pickle finds the one object of this name."""
        return intrinsic, (self.name,)


def intrinsic(name: str) -> Intrinsic:
    """Return an intrinsic by its name."""
    return INTRINSICS[name]


def array_of(item: Type) -> TypeCall:
    """Return the type of arrays of these items."""
    return TypeCall(GlobalTypeVar(ARRAY_NAME), (item,))


def is_array(data: TypeData | None) -> bool:
    """Tell whether a data type is the built-in one: a program may give its name to another."""
    own = data is not None and data.header.name == ARRAY_NAME and data.extern
    return own and data is not None and len(data.type_params) == 1


def array_item(type_: Type | None, types: Mapping[str, TypeData]) -> Type | None:
    """Return the type of the items if this is a type of arrays, else None."""
    if not isinstance(type_, TypeCall) or type_.func.name != ARRAY_NAME:
        return None
    return type_.args[0] if is_array(types.get(ARRAY_NAME)) else None


def item_of_call(call: Call) -> Type:
    """Return the type of the items of the array that a typed call of an intrinsic works on."""
    reads = call.op in (INTRINSICS["array.length"], INTRINSICS["array.get"])
    type_ = (call.args[0] if reads else call).checked_type
    if isinstance(type_, TypeCall) and type_.func.name == ARRAY_NAME:
        return type_.args[0]
    raise InternalError(f"a call of `{call.op!r}` has no types")


def _intrinsic(name: str, operands: Mapping[str, Type], result: Type, param: TypeVar) -> Intrinsic:
    schema = tuple(OperandSchema(operand) for operand in operands)
    type_ = FuncType(tuple(operands.values()), result, (param,))
    return Intrinsic(f"array.{name}", schema, type=type_)


def _array_intrinsics() -> tuple[Intrinsic, ...]:
    item, index = TypeVar("A"), scalar_type(INT32)
    array = array_of(item)
    return (
        _intrinsic("new", {"capacity": index}, array, item),
        _intrinsic("length", {"array": array}, index, item),
        _intrinsic("get", {"array": array, "index": index}, item, item),
        _intrinsic("set", {"array": array, "index": index, "value": item}, array, item),
        _intrinsic("push", {"array": array, "value": item}, array, item),
    )


INTRINSICS: Mapping[str, Intrinsic] = MappingProxyType(
    {row.name: row for row in _array_intrinsics()}
)
