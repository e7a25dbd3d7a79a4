"""Operators of explicit memory, and tuples of tensors as flat lists, by TVM's names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from relayvm.ir.expr import Call, Expr, Tuple, TupleGetItem
from relayvm.ir.types import TensorType, TupleType, Type
from relayvm.relay.op.make import call


def alloc_tensor(
    storage: Expr, offset: Expr, shape: Expr, dtype: str = "float32", assert_shape: Any = None
) -> Call:
    """Return a tensor in a storage."""
    return call(
        "memory.alloc_tensor", storage, offset, shape, dtype=dtype, assert_shape=assert_shape
    )


def alloc_storage(
    size: Expr, shape: Expr, alignment: Expr, virtual_device: Any, dtype_hint: str = "float32"
) -> Call:
    """Return new storage of a size in bytes."""
    return call(
        "memory.alloc_storage",
        size,
        shape,
        alignment,
        virtual_device=str(virtual_device),
        dtype=dtype_hint,
    )


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
