"""Arguments by tags: which constructor of a data type an ADT of a Python program means."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from relayvm.base.diagnostics import count, error
from relayvm.ir.adt import definition_of, field_types
from relayvm.ir.expr import Constructor
from relayvm.ir.module import Module
from relayvm.ir.printer import print_type
from relayvm.ir.types import GlobalTypeVar, TupleType, Type, TypeCall
from relayvm.relay.module import tag_of
from relayvm.relay.values import ADT, ConstructorValue, from_parts

_Typed = tuple[Any, Type | None]


def with_constructors(value: Any, kind: Type | None, module: Module) -> Any:
    """Return a value of type `kind` where each ADT of a data type is a ConstructorValue.

    Values of any depth need no recursion. Raises RelayError `wrong-argument` where an ADT has a
    tag, or a number of fields, that its data type has not.
    """

    def parts_of(item: _Typed) -> Sequence[_Typed] | None:
        given, expected = item
        if not isinstance(given, (ADT, list, tuple)) or getattr(given, "native", None) is not None:
            return None
        return list(zip(given, _part_types(given, expected, module), strict=True))

    def build(item: _Typed, parts: tuple[Any, ...] | None) -> Any:
        given, expected = item
        if parts is None:
            return given
        constructor = _constructor_of(given, expected, module)
        return parts if constructor is None else ConstructorValue(given.tag, parts, constructor)

    return from_parts((value, kind), parts_of, build)


def _part_types(given: Any, kind: Type | None, module: Module) -> Sequence[Type | None]:
    if isinstance(kind, TupleType) and len(kind.fields) == len(given):
        return kind.fields
    constructor = _constructor_of(given, kind, module)
    if constructor is None or kind is None:
        return (None,) * len(given)
    types = field_types(module, kind, constructor)
    if len(types) != len(given):
        takes = f"`{constructor.name}` takes {count(len(types), 'field')}, {len(given)} given"
        raise error("wrong-argument", f"an ADT of `{print_type(kind)}`: {takes}")
    return types


def _constructor_of(given: Any, kind: Type | None, module: Module) -> Constructor | None:
    """Return the constructor that an ADT means where `kind` is expected; None for a tuple."""
    if isinstance(given, ConstructorValue):
        return given.constructor
    if not isinstance(given, ADT) or not isinstance(kind, (TypeCall, GlobalTypeVar)):
        return None
    definition, _ = definition_of(module, kind)
    for constructor in definition.constructors:
        if tag_of(constructor) == given.tag:
            return constructor
    known = ", ".join(f"`{c.name}` has {tag_of(c)}" for c in definition.constructors)
    message = f"no constructor of `{print_type(kind)}` has the tag {given.tag}"
    raise error("wrong-argument", message, help=known)
