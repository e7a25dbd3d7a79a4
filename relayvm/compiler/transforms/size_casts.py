"""Values are made anew where their types differ in sizes that cannot be compared."""

from __future__ import annotations

from collections.abc import Iterator

from relayvm.base.diagnostics import error
from relayvm.base.source import Span
from relayvm.base.trampoline import Recursive, trampoline
from relayvm.compiler.transforms.data_casts import DataCasts
from relayvm.compiler.transforms.to_anf import function_to_anf
from relayvm.ir.expr import Expr, Function, Let, Tuple, TupleGetItem, Var
from relayvm.ir.module import Module
from relayvm.ir.printer import print_type
from relayvm.ir.types import RefType, TensorType, TupleType, Type, TypeCall

_MOST_PARTS = 65_536


class SizeCasts:
    """Gives values of a type for those of another that differs in sizes, as a run tells them.

    Tensors are compared. Arrays and data are copied, with the sizes of their items compared: what
    they hold cannot change, so that nobody can tell the copy.
    """

    def __init__(self, module: Module, names: set[str]) -> None:
        self._place: Span | None = None
        self._parts = 0
        self.data = DataCasts(module, names, self.cast)

    def run(self, expr: Expr, actual: Type, wanted: Type, place: Span | None = None) -> Expr:
        """Return a value of the type that is wanted; raises RelayError where it may change, at a
        place if the value has none, and `too-large-type` for tuples of too many parts.
        """
        self._place = place
        self._parts = 0
        result: Expr = trampoline(self.cast(expr, actual, wanted))
        self._place = None
        return result

    def finished(self) -> Iterator[tuple[str, Function]]:
        """Yield the functions that make values anew, by name."""
        for name, function in self.data.finished():
            yield name, function_to_anf(function)

    def cast(self, expr: Expr, actual: Type, wanted: Type) -> Recursive[Expr]:
        """Return a value of the type that is wanted."""
        if actual is wanted:
            return expr
        span = expr.span
        if isinstance(expr, Var) and isinstance(actual, TupleType):
            made: Expr = yield self._cast_fields(expr, actual, wanted)
            return made
        if not isinstance(actual, TupleType) and actual == wanted:
            return expr
        if isinstance(wanted, TensorType):
            known = Var("v", wanted, span=span, checked_type=wanted)
            return Let(known, expr, known, span=span, checked_type=wanted)
        if not isinstance(expr, Var):
            name = Var("v", actual, span=span, checked_type=actual)
            inner: Expr = yield self.cast(name, actual, wanted)
            if inner is name:
                return expr
            return Let(name, expr, inner, span=span, checked_type=wanted)
        if isinstance(actual, TypeCall) and isinstance(wanted, TypeCall):
            return self.data.call(expr, actual, wanted)
        message = (
            f"a function is called as one of those of other sizes, with a `{print_type(wanted)}` "
            "whose size cannot be compared"
        )
        raise error(
            "polymorphic-entry",
            message,
            span or self._place,
            help="pass what the reference holds in its place",
        )

    def _cast_fields(self, value: Var, actual: TupleType, wanted: Type) -> Recursive[Expr]:
        """Return a tuple of the fields as they are wanted; `value` where all of them are so."""
        assert isinstance(wanted, TupleType)
        span = value.span
        self._parts += len(actual.fields)
        if self._parts > _MOST_PARTS:
            message = (
                f"a value with more than {_MOST_PARTS:,} parts goes where parts of it have other "
                "sizes"
            )
            raise error("too-large-type", message, span or self._place)
        fields: list[Expr] = []
        changed = False
        for place, (own, kind) in enumerate(zip(actual.fields, wanted.fields)):
            field = TupleGetItem(value, place, span=span, checked_type=own)
            fields.append((yield self.cast(field, own, kind)))
            changed = changed or fields[-1] is not field
        return Tuple(tuple(fields), span=span, checked_type=wanted) if changed else value


def is_strict(actual: Type, wanted: Type) -> bool:
    """Return True for types that differ in sizes inside of data or references."""
    waiting = [(actual, wanted)]
    seen: set[tuple[int, int]] = set()
    while waiting:
        one, other = waiting.pop()
        if one is other or (id(one), id(other)) in seen:
            continue
        seen.add((id(one), id(other)))
        if isinstance(one, TupleType) and isinstance(other, TupleType):
            waiting.extend(zip(one.fields, other.fields))
        elif isinstance(one, (TypeCall, RefType)) and one != other:
            return True
    return False
