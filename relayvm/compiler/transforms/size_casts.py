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


class SizeCasts:
    """Gives values of a type for those of another that differs in sizes, as a run tells them.

    Tensors are compared. Arrays and data are copied, with the sizes of their items compared: what
    they hold cannot change, so that nobody can tell the copy.
    """

    def __init__(self, module: Module, names: set[str]) -> None:
        self._place: Span | None = None
        self.data = DataCasts(module, names, self.cast)

    def run(self, expr: Expr, actual: Type, wanted: Type, place: Span | None = None) -> Expr:
        """Return a value of the type that is wanted; raises RelayError where it may change, at a
        place if the value has none.
        """
        self._place = place
        result: Expr = trampoline(self.cast(expr, actual, wanted))
        self._place = None
        return result

    def finished(self) -> Iterator[tuple[str, Function]]:
        """Yield the functions that make values anew, by name."""
        for name, function in self.data.finished():
            yield name, function_to_anf(function)

    def cast(self, expr: Expr, actual: Type, wanted: Type) -> Recursive[Expr]:
        """Return a value of the type that is wanted."""
        if actual == wanted:
            return expr
        span = expr.span
        if isinstance(wanted, TensorType):
            known = Var("v", wanted, span=span, checked_type=wanted)
            return Let(known, expr, known, span=span, checked_type=wanted)
        if not isinstance(expr, Var):
            name = Var("v", actual, span=span, checked_type=actual)
            inner: Expr = yield self.cast(name, actual, wanted)
            return Let(name, expr, inner, span=span, checked_type=wanted)
        if isinstance(actual, TupleType) and isinstance(wanted, TupleType):
            fields: list[Expr] = []
            for place, (own, kind) in enumerate(zip(actual.fields, wanted.fields)):
                field = TupleGetItem(expr, place, span=span, checked_type=own)
                fields.append((yield self.cast(field, own, kind)))
            return Tuple(tuple(fields), span=span, checked_type=wanted)
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
