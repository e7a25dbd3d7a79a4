"""Emission of linear code for one function: registers, cells, scopes, checks. What every selector
needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Union

from relayvm.base.diagnostics import InternalError
from relayvm.base.dims import AnyDim, Dim
from relayvm.base.dtypes import DType
from relayvm.base.narrow.arrays import as_bytes
from relayvm.base.source import Span
from relayvm.base.trampoline import Recursive, trampoline
from relayvm.compiler.lower.dims import DimCode
from relayvm.compiler.lower.layouts import class_of
from relayvm.compiler.lower.linear import (
    OBJECT,
    WORD,
    Block,
    Def,
    Operand,
    Reg,
    Step,
    Take,
    Use,
)
from relayvm.compiler.lower.unit import Unit
from relayvm.ir.expr import Constant, Expr, Function, Var
from relayvm.ir.types import UNIT, TensorType, TupleType, Type


@dataclass(slots=True)
class Bundle:
    """A tuple that lies field by field in registers; it becomes a cell only where it must."""

    fields: list[Value]
    type: TupleType


Value = Union[Reg, Bundle]


class Code:
    """The code of one function while it grows."""

    def __init__(self, unit: Unit, *, closure: bool) -> None:
        self.unit = unit
        self.layouts = unit.layouts
        self.closure = closure
        self.block = Block()
        self.values: dict[Expr, Value] = {}
        self.results: Type = UNIT
        self.span: Span | None = None
        self.dims = DimCode(self)

    def emit(self, name: str, *operands: Operand, span: Span | None, callee: str = "") -> None:
        """Append one instruction."""
        self.block.add(Step(name, operands, span, callee))

    def word(self, value: int, span: Span | None) -> Reg:
        """Return a word register that holds these bits."""
        reg = Reg(WORD)
        self.emit("word", Def(reg), value & ((1 << 64) - 1), span=span)
        return reg

    def field(
        self, cell: Reg, layout: int, index: int, kind: str, type: Type, span: Span | None
    ) -> Reg:
        """Return a register that holds a field of a cell: the word, or the object borrowed from
        it.
        """
        if kind == WORD:
            reg = Reg(WORD, type=type)
            self.emit("field_word", Def(reg), Use(cell), layout, index, span=span)
            return reg
        # A root is never a field itself: owners are found in one step however deep the cell lies.
        root = cell.root if cell.borrowed and cell.root is not None else cell
        reg = Reg(OBJECT, type=type, borrowed=True, root=root)
        self.emit("field_borrow", Def(reg), Use(cell), layout, index, span=span)
        return reg

    def local(self, reg: Reg, type: Type, span: Span | None) -> Reg:
        """Return a value as code holds it: a rank-0 tensor that comes as an object is unboxed."""
        if reg.kind == WORD or class_of(type) == OBJECT:
            return reg
        word = Reg(WORD, reg.name, type)
        self.emit("unbox_word", Def(word), Use(reg), dtype_of_type(type).code, span=span)
        return word

    def as_class(self, value: Value, kind: str, span: Span | None) -> Reg:
        """Return a value in a register of the given class, boxing a word where an object is
        wanted.
        """
        return self._boxed(self.whole(value, span), kind, span)

    def _boxed(self, reg: Reg, kind: str, span: Span | None) -> Reg:
        if reg.kind == kind:
            return reg
        assert reg.kind == WORD and reg.type is not None, "only words are boxed"
        box = Reg(OBJECT, reg.name, reg.type)
        self.emit("box_word", Def(box), Use(reg), dtype_of_type(reg.type).code, span=span)
        return box

    def whole(self, value: Value, span: Span | None) -> Reg:
        """Return a value in one register: a bundle becomes a cell, one that recurs in it only
        once.
        """
        return value if isinstance(value, Reg) else trampoline(self._whole(value, {}, span))

    def _whole(self, value: Bundle, made: dict[int, Reg], span: Span | None) -> Recursive[Reg]:
        if not value.fields:
            return self._cell(self.layouts.tuple_of(()), (), UNIT, span)
        fields: list[Reg] = []
        for field, type in zip(value.fields, value.type.fields):
            if isinstance(field, Bundle):
                if id(field) not in made:
                    made[id(field)] = yield self._whole(field, made, span)
                field = made[id(field)]
            fields.append(self._boxed(field, self.layouts.field_class(type), span))
        return self._cell(self.layouts.tuple_of(value.type.fields), fields, value.type, span)

    def _cell(self, layout: int, fields: Sequence[Reg], type: Type, span: Span | None) -> Reg:
        reg = Reg(OBJECT, type=type)
        given = tuple(Use(f) if f.kind == WORD else Take(f) for f in fields)
        self.emit("cell_new", Def(reg), layout, given, span=span)
        return reg

    def bind(self, var: Expr, value: Value) -> None:
        """Make a value visible under a variable. Each has one binder: scopes need no record."""
        if isinstance(value, Reg) and isinstance(var, Var) and not value.name:
            value.name = var.name
        self.values[var] = value

    def lookup(self, var: Expr) -> Value:
        """Return the value of a variable."""
        if var not in self.values:
            raise InternalError(f"{var!r} is used where it is not bound")
        return self.values[var]

    def spread(self, value: Value, kind: TupleType, span: Span | None) -> list[Value]:
        """Return the fields of a tuple value."""
        if isinstance(value, Bundle):
            return value.fields
        return [self.item(value, kind, i, span) for i in range(len(kind.fields))]

    def item(self, value: Value, kind: TupleType, index: int, span: Span | None) -> Value:
        """Return one field of a tuple value."""
        if isinstance(value, Bundle):
            return value.fields[index]
        return self._project(value, kind, index, span)

    def _project(self, cell: Reg, kind: TupleType, index: int, span: Span | None) -> Reg:
        field_type = kind.fields[index]
        layout = self.layouts.tuple_of(kind.fields)
        slot = self.layouts.field_class(field_type)
        return self.local(self.field(cell, layout, index, slot, field_type, span), field_type, span)

    # -- Checks that types left to the run
    # -----------------------------------------------------------

    def needs_check(self, given: Type, wanted: Type) -> bool:
        """Tell whether a value of type `given` must be looked at before it counts as `wanted`."""
        waiting = [(given, wanted)]
        while waiting:
            given, wanted = waiting.pop()
            if given is wanted:
                continue
            if isinstance(given, TensorType) and isinstance(wanted, TensorType):
                if any(differs(g, w) for g, w in zip(given.shape, wanted.shape)):
                    return True
            elif isinstance(given, TupleType) and isinstance(wanted, TupleType):
                waiting.extend(zip(given.fields, wanted.fields))
        return False

    def check(self, value: Value, given: Type, wanted: Type, span: Span | None) -> None:
        """Emit what must hold for a value of type `given` to be used as `wanted`; others trap."""
        if not self.needs_check(given, wanted):
            return
        waiting = [(value, given, wanted)]
        while waiting:
            value, given, wanted = waiting.pop()
            if isinstance(wanted, TupleType) and self.needs_check(given, wanted):
                assert isinstance(given, TupleType)
                parts = self.spread(value, given, span)
                waiting.extend(reversed(list(zip(parts, given.fields, wanted.fields))))
            elif isinstance(wanted, TensorType) and self.needs_check(given, wanted):
                self._check_tensor(self.whole(value, span), given, wanted, span)

    def _check_tensor(self, reg: Reg, given: Type, wanted: Type, span: Span | None) -> None:
        for axis, (g, w) in enumerate(zip(tensor_type(given).shape, tensor_type(wanted).shape)):
            if differs(g, w) and self.dims.known(w):
                size = self.dims.word(w, span)
                self.emit("check_dim", Use(reg), axis, Use(size), span=span)


def type_of(expr: Expr) -> Type:
    """Return the type that inference gave an expression."""
    kind = expr.checked_type
    if kind is None and isinstance(expr, Var):
        kind = expr.type_annotation
    if kind is None:
        raise InternalError(f"{expr!r} has no type")
    return kind


def return_type_of(function: Function) -> Type:
    """Return the type of what a function returns."""
    return function.ret_type if function.ret_type is not None else type_of(function.body)


def tensor_type(kind: Type) -> TensorType:
    """Return a type that must be a tensor's."""
    assert isinstance(kind, TensorType), kind
    return kind


def dtype_of_type(kind: Type) -> DType:
    """Return the dtype of a tensor type."""
    return tensor_type(kind).dtype


def bits_of(expr: Constant) -> int:
    """Return the value's own bits, integers extended to 64 bits by their signedness."""
    dtype = dtype_of_type(type_of(expr))
    if dtype.is_float or dtype.is_stored:
        return int.from_bytes(as_bytes(expr.data).tobytes(), "little")
    return int(expr.data)


def differs(given: Dim, wanted: Dim) -> bool:
    """Tell whether a dim must be compared at run time to count as the wanted one."""
    return not isinstance(wanted, AnyDim) and (isinstance(given, AnyDim) or given != wanted)


def registers_of(value: Value) -> list[Reg]:
    """Return the registers in which a value lies."""
    found: list[Reg] = []
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Reg):
            found.append(part)
        else:
            waiting.extend(reversed(part.fields))
    return found
