"""Types of values as the host is told them: the rows of a manifest.

Which layouts the values have, a subclass says.
"""

from __future__ import annotations

import re
from dataclasses import replace

from relayvm.base.diagnostics import InternalError, error
from relayvm.base.dims import AnyDim, Dim, DimExpr
from relayvm.base.trampoline import Recursive
from relayvm.ir.adt import definition_of, field_types
from relayvm.ir.expr import Constructor
from relayvm.ir.intrinsics import array_item
from relayvm.ir.module import Module
from relayvm.ir.printer import print_type
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

# Types inside so many others have short texts.
_NAMED_IN_FULL = 32
_SHORT_TEXT = 40
# A name, perhaps with arguments that have none themselves; a comma between arguments; a place.
_NAME = re.compile(r"([A-Za-z_]\w*)(\[[^\[\]]*\])?")
_COMMA = re.compile(r",(?![^(]*\))")
_PLACE = re.compile(r"\b_(\d+)_\b")


class HostTypes:
    """The types of one program, each described once, with the data types that they name."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.data_types: dict[str, manifest.DataType] = {}
        self._value_types: dict[tuple[Type, int | None], manifest.ValueType] = {}
        self.types = _old_names(module, "instances")
        self.constructors = _old_names(module, "constructors")

    def layout_of(self, kind: Type) -> int:
        """Return the layout of values of a type; of the first constructor, for a data type."""
        return -1

    def signature_of(self, kind: FuncType) -> int:
        """Return the number of the calling protocol of functions of a type."""
        return -1

    def fields_of(self, kind: Type, constructor: Constructor) -> tuple[Type, ...]:
        """Return the types of a constructor's fields in this instance of its data type."""
        return field_types(self.module, kind, constructor)

    def described(self, kind: Type, depth: int = 0) -> Recursive[manifest.ValueType]:
        """Return the description of a type; data types are added to `data_types`."""
        # Texts of all types inside, each with all inside it, would be quadratic in the depth.
        limit = None if depth <= _NAMED_IN_FULL else _SHORT_TEXT
        key = (kind, limit)
        if key in self._value_types:
            return self._value_types[key]
        item = array_item(kind, self.module.types)
        fields: list[manifest.ValueType] = []
        for part in (item,) if item is not None else host_parts(kind):
            fields.append((yield self.described(part, depth + 1)))
        if item is not None:
            row = manifest.ValueType("array", self.text(kind, limit), layout=self.layout_of(kind))
        elif isinstance(kind, (TypeCall, GlobalTypeVar)):
            row = yield self.data_row(kind)
        else:
            row = self.plain_row(kind, self.text(kind, limit))
        self._value_types[key] = row = replace(row, fields=tuple(fields))
        return row

    def plain_row(self, kind: Type, text: str) -> manifest.ValueType:
        """Return the description of a type of the language's own, without its fields."""
        match kind:
            case TensorType():
                dims = tuple(_host_dim(d) for d in kind.shape)
                return manifest.ValueType("tensor", text, dtype=kind.dtype.name, dims=dims)
            case TupleType():
                return manifest.ValueType("tuple", text, layout=self.layout_of(kind))
            case RefType():
                return manifest.ValueType("ref", text, layout=self.layout_of(kind))
            case FuncType():
                return manifest.ValueType("function", text, signature=self.signature_of(kind))
            case TypeVar():
                message = f"`{text}` stands for no type: the host cannot hold polymorphic functions"
                raise error("polymorphic-entry", message, kind.span)
            case _:
                raise InternalError(f"`{text}` has no values that a host could hold")

    def text(self, kind: Type, limit: int | None = None) -> str:
        """Return a type as the user writes it: instances of data types under their old names."""
        return self._written(print_type(kind, limit))

    def _written(self, text: str) -> str:
        """Return a text with the old names of types; `R[3]` may be `R[Tensor[(3), float32]]`."""

        def old_name(found: re.Match[str]) -> str:
            name, args = found[1], found[2] or ""
            old = self.types.get(name, name)
            if args and _PLACE.search(old):
                return _filled(old, args)
            return old + self._written(args)

        return _NAME.sub(old_name, text)

    def data_row(self, kind: Type) -> Recursive[manifest.ValueType]:
        """Return the description of a data type, with its constructors in `data_types`."""
        text = self.text(kind)
        if text not in self.data_types:
            self.data_types[text] = manifest.DataType(text, ())
            self.data_types[text] = yield self.with_constructors(kind, text)
        return manifest.ValueType("data", text, layout=self.layout_of(kind), name=text)

    def with_constructors(self, kind: Type, name: str) -> Recursive[manifest.DataType]:
        """Return the description of the constructors of a data type."""
        definition, _ = definition_of(self.module, kind)
        constructors: list[manifest.Constructor] = []
        for constructor in definition.constructors:
            fields: list[manifest.ValueType] = []
            for field in self.fields_of(kind, constructor):
                fields.append((yield self.described(field)))
            number = self.layout_of(kind) + constructor.index
            written = self.constructors.get(constructor.name, constructor.name)
            constructors.append(manifest.Constructor(written, number, tuple(fields)))
        return manifest.DataType(name, tuple(constructors))


def _old_names(module: Module, attribute: str) -> dict[str, str]:
    """Return the names that types or constructors had before they were instances."""
    pairs = module.attrs.get(attribute) or ()
    assert isinstance(pairs, tuple)
    return dict(pairs)


def _filled(old: str, args: str) -> str:
    """Return the name of a type with sizes in the places of its parameters.

    `R[Tensor[(_0_), float32]]` and `[n*2]` -> `R[Tensor[(n*2), float32]]`
    """
    sizes = _COMMA.split(args[1:-1])
    return _PLACE.sub(lambda place: sizes[int(place[1])].strip(), old)


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
