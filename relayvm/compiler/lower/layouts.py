"""How values lie in registers, cells and files: classes of types, layouts, closure signatures.

Layouts depend on what lies in a field (a word of which dtype, or an object), never on dims: a
value of a type flows unchanged to where `?` is declared. With uniform layouts every field is an
object.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from relayvm.base.diagnostics import InternalError, error
from relayvm.base.dims import AnyDim, Dim, DimExpr
from relayvm.compiler.entries import MOST_NESTED, nests_too_deep
from relayvm.compiler.lower.linear import OBJECT, WORD
from relayvm.ir.adt import definition_of, field_types
from relayvm.ir.expr import Constructor, RefCreate
from relayvm.ir.intrinsics import array_item
from relayvm.ir.module import Module
from relayvm.ir.printer import print_type
from relayvm.ir.types import (
    FuncType,
    GlobalTypeVar,
    RefType,
    ShapeArg,
    TensorType,
    TupleType,
    Type,
    TypeCall,
    TypeVar,
)
from relayvm.ir.visit import post_order
from relayvm.vm import manifest
from relayvm.vm.program import ClosureSignature, Layout, LayoutKind

SPREAD_FIELDS = (0, 2, 3, 4)
_NAME = re.compile(r"[A-Za-z_]\w*")


def class_of(kind: Type) -> str:
    """Return the class of the register that holds a value of this type: rank-0 tensors are
    words.
    """
    return WORD if isinstance(kind, TensorType) and not kind.shape else OBJECT


def is_spread(kind: Type) -> bool:
    """Tell whether a value of this type travels as its fields: small tuples, but not of one field,
    which the host could not tell from the field alone.
    """
    return isinstance(kind, TupleType) and len(kind.fields) in SPREAD_FIELDS


class Layouts:
    """The layouts and signatures of one program, numbered as they are first asked for."""

    def __init__(self, module: Module, uniform: bool) -> None:
        self.module = module
        self.uniform = uniform
        self.layouts: list[Layout] = []
        self.signatures: list[ClosureSignature] = []
        self.data_types: dict[str, manifest.DataType] = {}
        self._numbers: dict[object, int] = {}
        instances = module.attrs.get("instances") or ()
        assert isinstance(instances, tuple)
        self._written: dict[str, str] = dict(instances)
        self._has_refs = any(
            isinstance(e, RefCreate) for f in module.functions.values() for e in post_order(f)
        )

    def field_class(self, kind: Type) -> str:
        """Return the class of a field of this type."""
        return OBJECT if self.uniform else class_of(kind)

    def results_of(self, kind: Type, *, closure: bool = False) -> str:
        """Return the classes of the registers in which a function returns a value of this type."""
        if closure and self.uniform:
            return OBJECT
        if is_spread(kind):
            assert isinstance(kind, TupleType)
            return "".join(class_of(f) for f in kind.fields)
        return class_of(kind)

    def tuple_of(self, fields: Sequence[Type]) -> int:
        """Return the layout of tuples with these fields."""
        key = ("tuple", self._content(fields))
        return self._layout(key, LayoutKind.TUPLE, "tuple", fields)

    def ref_to(self, kind: Type) -> int:
        """Return the layout of references to this type."""
        return self._layout(("ref", self._content((kind,))), LayoutKind.REF, "ref", (kind,))

    def array_of(self, item: Type) -> int:
        """Return the layout of arrays of this type."""
        return self._layout(("array", self._content((item,))), LayoutKind.ARRAY, "array", (item,))

    def data(self, kind: Type) -> int:
        """Return the layout of constructor 0 of a data type; the others follow in order."""
        definition, args = definition_of(self.module, kind)
        name = definition.header.name
        key = ("data", name, () if self.uniform else tuple(_erased(a) for a in args))
        if key not in self._numbers:
            self._numbers[key] = len(self.layouts)
            for constructor in definition.constructors:
                self._add(
                    LayoutKind.CONSTRUCTOR,
                    self._written.get(constructor.name, constructor.name),
                    self.fields_of(kind, constructor),
                    type=self.text(kind),
                    tag=constructor.index,
                    tags=len(definition.constructors),
                )
        return self._numbers[key]

    def constructor(self, kind: Type, constructor: Constructor) -> int:
        """Return the layout of one constructor of a data type."""
        return self.data(kind) + constructor.index

    def num_constructors(self, kind: Type) -> int:
        """Return how many constructors a data type has."""
        return len(definition_of(self.module, kind)[0].constructors)

    def fields_of(self, kind: Type, constructor: Constructor) -> tuple[Type, ...]:
        """Return the types of a constructor's fields in this instance of its data type."""
        return field_types(self.module, kind, constructor)

    def closure(self, function: str, captures: Sequence[Type], signature: int) -> int:
        """Return the layout of closures over a function; its `function` is settled by the
        caller.
        """
        key = ("closure", function)
        return self._layout(key, LayoutKind.CLOSURE, function, captures, signature=signature)

    def signature(self, kind: FuncType) -> int:
        """Return the number of the calling protocol of closures of this type."""
        params = "".join(self.field_class(a) for a in kind.arg_types)
        row = ClosureSignature(params, self.results_of(kind.ret_type, closure=True))
        key = ("signature", row)
        if key not in self._numbers:
            self._numbers[key] = len(self.signatures)
            self.signatures.append(row)
        return self._numbers[key]

    def _content(self, fields: Sequence[Type]) -> tuple[str, ...]:
        return tuple(self._dtype(f) or OBJECT for f in fields) + tuple(
            "cyclic" for f in fields if self._cyclic(f)
        )

    def _dtype(self, kind: Type) -> str:
        if self.field_class(kind) == OBJECT:
            return ""
        assert isinstance(kind, TensorType)
        return kind.dtype.name

    def _layout(
        self,
        key: object,
        kind: LayoutKind,
        name: str,
        fields: Sequence[Type],
        signature: int = -1,
    ) -> int:
        if key not in self._numbers:
            self._numbers[key] = len(self.layouts)
            self._add(kind, name, fields, signature=signature)
        return self._numbers[key]

    def _add(
        self,
        kind: LayoutKind,
        name: str,
        fields: Sequence[Type],
        *,
        type: str = "",
        tag: int = 0,
        tags: int = 0,
        signature: int = -1,
    ) -> None:
        self.layouts.append(
            Layout(
                kind,
                name,
                "".join(self.field_class(f) for f in fields),
                tuple(self._dtype(f) for f in fields),
                type=type,
                tag=tag,
                tags=tags,
                cyclic=kind is LayoutKind.REF or any(self._cyclic(f) for f in fields),
                signature=signature,
            )
        )

    def _cyclic(self, kind: Type) -> bool:
        """Tell whether a reference can be reached from a value of this type."""
        if not self._has_refs:
            return False
        if self.uniform:
            return True
        pending, seen = [kind], set()
        while pending:
            current = pending.pop()
            match current:
                case RefType() | FuncType() | TypeVar():
                    return True
                case TupleType():
                    pending.extend(current.fields)
                case TypeCall() | GlobalTypeVar():
                    definition, args = definition_of(self.module, current)
                    pending.extend(a for a in args if not isinstance(a, ShapeArg))
                    if definition.header.name not in seen:
                        seen.add(definition.header.name)
                        own = set(definition.type_params)
                        for constructor in definition.constructors:
                            pending.extend(f for f in constructor.inputs if f not in own)
                case _:
                    pass
        return False

    # -- What the host is told ---------------------------------------------------------------------

    def value_type(self, kind: Type) -> manifest.ValueType:
        """Return the description of a type for the host; data types are added to `data_types`."""
        if nests_too_deep(kind):
            message = f"the host cannot hold values whose types nest deeper than {MOST_NESTED}"
            raise error("too-deep", message, kind.span)
        text = self.text(kind)
        item = array_item(kind, self.module.types)
        if item is not None:
            held = self.value_type(item)
            return manifest.ValueType("array", text, layout=self.array_of(item), fields=(held,))
        match kind:
            case TensorType():
                dims = tuple(_host_dim(d) for d in kind.shape)
                return manifest.ValueType("tensor", text, dtype=kind.dtype.name, dims=dims)
            case TupleType():
                fields = tuple(self.value_type(f) for f in kind.fields)
                return manifest.ValueType(
                    "tuple", text, layout=self.tuple_of(kind.fields), fields=fields
                )
            case RefType():
                return manifest.ValueType(
                    "ref",
                    text,
                    layout=self.ref_to(kind.value),
                    fields=(self.value_type(kind.value),),
                )
            case FuncType():
                parts = tuple(self.value_type(t) for t in (*kind.arg_types, kind.ret_type))
                return manifest.ValueType(
                    "function", text, signature=self.signature(kind), fields=parts
                )
            case TypeCall() | GlobalTypeVar():
                self._add_data_type(kind, text)
                return manifest.ValueType("data", text, layout=self.data(kind), name=text)
            case TypeVar():
                message = f"`{text}` stands for no type: the host cannot hold polymorphic functions"
                raise error("polymorphic-entry", message, kind.span)
            case _:
                raise InternalError(f"`{text}` has no values that a host could hold")

    def text(self, kind: Type) -> str:
        """Return a type as the user writes it: instances of data types under their old names."""
        return _NAME.sub(lambda m: self._written.get(m[0], m[0]), print_type(kind))

    def _add_data_type(self, kind: Type, text: str) -> None:
        if text in self.data_types:
            return
        definition, _ = definition_of(self.module, kind)
        self.data_types[text] = manifest.DataType(text, ())
        constructors = tuple(
            manifest.Constructor(
                self._written.get(c.name, c.name),
                self.constructor(kind, c),
                tuple(self.value_type(f) for f in self.fields_of(kind, c)),
            )
            for c in definition.constructors
        )
        self.data_types[text] = manifest.DataType(text, constructors)


def _host_dim(dim: Dim) -> int | str | None:
    if isinstance(dim, AnyDim):
        return None
    return repr(dim) if isinstance(dim, DimExpr) else dim


def _erased(kind: Type) -> object:
    """Return what of a type decides layouts: everything but dims."""
    match kind:
        case TensorType():
            return (kind.dtype.name, "word" if not kind.shape else "tensor")
        case TupleType():
            return ("tuple", *(_erased(f) for f in kind.fields))
        case RefType():
            return ("ref", _erased(kind.value))
        case FuncType():
            return ("fn", *(_erased(t) for t in (*kind.arg_types, kind.ret_type)))
        case TypeCall():
            return (kind.func.name, *(_erased(a) for a in kind.args))
        case GlobalTypeVar():
            return kind.name
        case ShapeArg():
            return "shape"
        case _:
            return id(kind)
