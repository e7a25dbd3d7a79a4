"""How values lie in registers, cells and files: classes of types, layouts, closure signatures.

Layouts depend on what lies in a field (a word of which dtype, or an object), never on dims: a
value of a type flows unchanged to where `?` is declared. With uniform layouts every field is an
object.
"""

from __future__ import annotations

from collections.abc import Sequence

from relayvm.compiler.host.names import OldNames
from relayvm.compiler.host.types import host_parts
from relayvm.compiler.lower.linear import OBJECT, WORD
from relayvm.ir.adt import definition_of, field_types
from relayvm.ir.expr import Constructor, RefCreate
from relayvm.ir.intrinsics import array_item
from relayvm.ir.module import Module
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
from relayvm.vm.program import ClosureSignature, Layout, LayoutKind

SPREAD_FIELDS = (0, 2, 3, 4)


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
        self.names = OldNames(module)
        self.uniform = uniform
        self.layouts: list[Layout] = []
        self.signatures: list[ClosureSignature] = []
        self._numbers: dict[object, int] = {}
        self._known_cyclic: dict[Type, bool] = {}
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
                    self.names.constructor(constructor.name),
                    self.fields_of(kind, constructor),
                    type=self.names.text(kind),
                    tag=constructor.index,
                    tags=len(definition.constructors),
                )
        return self._numbers[key]

    def fields_of(self, kind: Type, constructor: Constructor) -> tuple[Type, ...]:
        """Return the types of a constructor's fields in this instance of its data type."""
        return field_types(self.module, kind, constructor)

    def constructor(self, kind: Type, constructor: Constructor) -> int:
        """Return the layout of one constructor of a data type."""
        return self.data(kind) + constructor.index

    def num_constructors(self, kind: Type) -> int:
        """Return how many constructors a data type has."""
        return len(definition_of(self.module, kind)[0].constructors)

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
        if kind not in self._known_cyclic:
            self._known_cyclic[kind] = self._reaches_reference(kind)
        return self._known_cyclic[kind]

    def _reaches_reference(self, kind: Type) -> bool:
        pending, seen = [kind], set()
        while pending:
            current = pending.pop()
            known = self._known_cyclic.get(current)
            if known:
                return True
            match current:
                case _ if known is False:
                    pass
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

    def layout_of(self, kind: Type) -> int:
        """Return the layout of values of a type; of the first constructor, for a data type."""
        item = array_item(kind, self.module.types)
        if item is not None:
            return self.array_of(item)
        match kind:
            case TupleType():
                return self.tuple_of(kind.fields)
            case RefType():
                return self.ref_to(kind.value)
            case _:
                return self.data(kind)


def _erased(kind: Type) -> tuple[object, ...]:
    """Return what of a type decides layouts, everything but dims, as one flat tuple: outer types
    first, each with the number of those inside.
    """
    parts: list[object] = []
    waiting = [kind]
    while waiting:
        current = waiting.pop()
        inside: tuple[Type, ...] = ()
        match current:
            case TensorType():
                parts += [current.dtype.name, "tensor" if current.shape else "word"]
            case TupleType() | RefType() | FuncType():
                inside = host_parts(current)
                parts += [type(current).__name__, len(inside)]
            case TypeCall():
                inside = current.args
                parts += [current.func.name, len(inside)]
            case GlobalTypeVar():
                parts.append(current.name)
            case ShapeArg():
                parts.append("shape")
            case _:
                parts.append(id(current))
        waiting.extend(reversed(inside))
    return tuple(parts)
