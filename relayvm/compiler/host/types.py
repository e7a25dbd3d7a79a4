"""Types of values as the host is told them: the rows of a manifest.

Which layouts the values have, a subclass says.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace

from relayvm.base.diagnostics import InternalError, error
from relayvm.base.dims import AnyDim, Dim, DimExpr
from relayvm.base.trampoline import Recursive
from relayvm.compiler.host.names import OldNames
from relayvm.ir.adt import definition_of, field_types
from relayvm.ir.intrinsics import array_item
from relayvm.ir.module import Module
from relayvm.ir.types import (
    FuncType,
    GlobalTypeVar,
    RefType,
    TensorType,
    TupleType,
    Type,
    TypeCall,
    TypeVar,
)
from relayvm.vm import manifest

# Types inside so many others have short texts, and so have data types with longer ones.
_NAMED_IN_FULL = 32
_SHORT_TEXT = 40
LONGEST_NAME = 1000


class HostTypes(ABC):
    """The types of one program, each described once, with the data types that they name.

    A type is described beside its `own` one: what stands for it where values have their layouts.
    Texts and sizes are those of the type itself.
    """

    def __init__(self, module: Module, own_module: Module) -> None:
        self.module = module
        self.own_module = own_module
        self.names = OldNames(module)
        self.data_types: dict[str, manifest.DataType] = {}
        self._value_types: dict[tuple[Type, int | None], manifest.ValueType] = {}
        self._short_names: dict[Type, str] = {}

    @abstractmethod
    def layout_of(self, own: Type) -> int:
        """Return the layout of values of a type; of the first constructor, for a data type."""

    @abstractmethod
    def signature_of(self, own: FuncType) -> int:
        """Return the number of the calling protocol of functions of a type."""

    def described(self, kind: Type, own: Type, depth: int = 0) -> Recursive[manifest.ValueType]:
        """Return the description of a type; data types are added to `data_types`."""
        # Texts of all types inside, each with all inside it, would be quadratic in the depth.
        limit = None if depth <= _NAMED_IN_FULL else _SHORT_TEXT
        key = (kind, limit)
        if key in self._value_types:
            return self._value_types[key]
        item = array_item(kind, self.module.types)
        if item is not None:
            own_item = array_item(own, self.own_module.types)
            parts, own_parts = [item], [] if own_item is None else [own_item]
        else:
            parts, own_parts = list(host_parts(kind)), list(host_parts(own))
        fields = yield self._all(parts, own_parts, depth + 1)
        if item is not None:
            text = self.names.text(kind, limit)
            row = manifest.ValueType("array", text, layout=self.layout_of(own))
        elif isinstance(kind, (TypeCall, GlobalTypeVar)):
            row = yield self.data_row(kind, own)
        else:
            row = self.plain_row(kind, own, self.names.text(kind, limit))
        self._value_types[key] = row = replace(row, fields=fields)
        return row

    def _all(
        self, kinds: Sequence[Type], owns: Sequence[Type], depth: int
    ) -> Recursive[tuple[manifest.ValueType, ...]]:
        if len(kinds) != len(owns):
            raise InternalError("a type and the one that stands for it have other parts")
        rows: list[manifest.ValueType] = []
        for kind, own in zip(kinds, owns):
            rows.append((yield self.described(kind, own, depth)))
        return tuple(rows)

    def plain_row(self, kind: Type, own: Type, text: str) -> manifest.ValueType:
        """Return the description of a type of the language's own, without its fields."""
        match kind:
            case TensorType():
                dims = tuple(_host_dim(d) for d in kind.shape)
                return manifest.ValueType("tensor", text, dtype=kind.dtype.name, dims=dims)
            case TupleType():
                return manifest.ValueType("tuple", text, layout=self.layout_of(own))
            case RefType():
                return manifest.ValueType("ref", text, layout=self.layout_of(own))
            case FuncType():
                assert isinstance(own, FuncType)
                return manifest.ValueType("function", text, signature=self.signature_of(own))
            case TypeVar():
                message = f"`{text}` stands for no type: the host cannot hold polymorphic functions"
                raise error("polymorphic-entry", message, kind.span)
            case _:
                raise InternalError(f"`{text}` has no values that a host could hold")

    def data_row(self, kind: Type, own: Type) -> Recursive[manifest.ValueType]:
        """Return the description of a data type, with its constructors in `data_types`."""
        text = self.data_name(kind)
        if text not in self.data_types:
            self.data_types[text] = manifest.DataType(text, ())
            self.data_types[text] = yield self.with_constructors(kind, own, text)
        return manifest.ValueType("data", text, layout=self.layout_of(own), name=text)

    def data_name(self, kind: Type) -> str:
        """Return the name of a data type: its text, or the first part of one that is too long and
        a number that tells it apart.
        """
        text = self.names.text(kind, LONGEST_NAME)
        if len(text) <= LONGEST_NAME:
            return text
        number = len(self._short_names) + 1
        return self._short_names.setdefault(kind, f"{text[:_SHORT_TEXT]}... ({number})")

    def with_constructors(self, kind: Type, own: Type, name: str) -> Recursive[manifest.DataType]:
        """Return the description of the constructors of a data type."""
        definition, _ = definition_of(self.module, kind)
        own_definition, _ = definition_of(self.own_module, own)
        constructors: list[manifest.Constructor] = []
        for constructor, lowered in zip(definition.constructors, own_definition.constructors):
            types = field_types(self.module, kind, constructor)
            own_types = field_types(self.own_module, own, lowered)
            fields = yield self._all(types, own_types, 0)
            number = self.layout_of(own) + constructor.index
            written = self.names.constructor(constructor.name)
            constructors.append(manifest.Constructor(written, number, fields))
        return manifest.DataType(name, tuple(constructors))


def host_parts(kind: Type) -> tuple[Type, ...]:
    """Return the types of the values inside a value, as the host sees them."""
    match kind:
        case TupleType():
            return kind.fields
        case RefType():
            return (kind.value,)
        case FuncType():
            return (*kind.arg_types, kind.ret_type)
        case _:
            return ()


def _host_dim(dim: Dim) -> int | str | None:
    if isinstance(dim, AnyDim):
        return None
    return repr(dim) if isinstance(dim, DimExpr) else dim
