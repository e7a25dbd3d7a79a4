"""Tuples of tensors as flat lists, by TVM's names."""

from __future__ import annotations

from collections.abc import Sequence

from relayvm.ir.expr import Expr, Tuple, TupleGetItem
from relayvm.ir.types import TensorType, TupleType, Type
from relayvm.relay.lazy import absent


def flatten_tuple_type(ty: Type) -> list[TensorType]:
    """Return the tensor types of a type of nested tuples, from the left."""
    pending, found = [ty], []
    while pending:
        item = pending.pop()
        if isinstance(item, TupleType):
            pending += reversed(item.fields)
        elif isinstance(item, TensorType):
            found.append(item)
    return found


def from_tuple_type(ty: Type, expr: Expr) -> list[Expr]:
    """Return the tensors of an expression of nested tuples, from the left."""
    pending: list[tuple[Type, Expr]] = [(ty, expr)]
    found: list[Expr] = []
    while pending:
        kind, value = pending.pop()
        if isinstance(kind, TupleType):
            fields = [(f, TupleGetItem(value, i)) for i, f in enumerate(kind.fields)]
            pending += reversed(fields)
        else:
            found.append(value)
    return found


def to_tuple_type(ty: Type, exprs: Sequence[Expr]) -> Expr:
    """Return nested tuples of a type from their tensors, from the left."""
    rest = iter(exprs)

    def build(kind: Type) -> Expr:
        if isinstance(kind, TupleType):
            return Tuple(tuple(build(f) for f in kind.fields))
        return next(rest)

    return build(ty)


__getattr__ = absent("relayvm.relay.op.memory")
