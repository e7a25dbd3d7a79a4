"""Typed calls and constants that take the place of others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from relayvm.base.dims import DimExpr
from relayvm.base.dtypes import DType, dtype_of
from relayvm.base.source import Span
from relayvm.ir.expr import Attrs, AttrValue, Call, Constant, Expr, Tuple, TupleGetItem
from relayvm.ir.types import TensorType, TupleType, Type
from relayvm.ops import OPS
from relayvm.ops.operator import Operator


def call(name: str, args: Sequence[Expr], span: Span | None = None, **attrs: AttrValue) -> Call:
    """Return a call of an operator with its type; raises ShapeError where it has none."""
    return typed_call(OPS[name], args, Attrs(attrs), span)


def typed_call(op: Operator, args: Sequence[Expr], attrs: Attrs, span: Span | None) -> Call:
    """Return a call with its type; operands have theirs."""
    kind = op.call_type([type_of(arg) for arg in args], attrs, args)
    return Call(op, tuple(args), attrs, span=span, checked_type=kind)


def folded(node: Call) -> Expr:
    """Return what a call on constants gives, as a constant no larger than they are; else the call.

    Rules that gather constants meet them again at the next call of a chain.
    """
    assert isinstance(node.op, Operator)
    kind = node.checked_type
    if not node.args or not all(isinstance(arg, Constant) for arg in node.args):
        return node
    if not isinstance(kind, TensorType) or not is_static(kind) or node.op.has_effect:
        return node
    size = math.prod(d for d in kind.shape if isinstance(d, int))
    arrays = [arg.data for arg in node.args if isinstance(arg, Constant)]
    if size > max(data.size for data in arrays):
        return node
    data = node.op.evaluate(arrays, node.attrs)
    assert isinstance(data, np.ndarray)
    return Constant(data, span=node.span, checked_type=kind)


def constant(value: Any, dtype: DType) -> Constant:
    """Return a typed constant."""
    data = dtype.array(value)
    return Constant(data, checked_type=TensorType(data.shape, dtype))


def tuple_of(fields: Sequence[Expr], span: Span | None = None) -> Tuple:
    """Return a typed tuple."""
    kind = TupleType(tuple(type_of(f) for f in fields))
    return Tuple(tuple(fields), span=span, checked_type=kind)


def field(whole: Expr, index: int, span: Span | None = None) -> TupleGetItem:
    """Return a typed projection."""
    kind = type_of(whole)
    assert isinstance(kind, TupleType)
    return TupleGetItem(whole, index, span=span, checked_type=kind.fields[index])


def cast(expr: Expr, dtype: DType, span: Span | None = None) -> Expr:
    """Return a tensor in another dtype; itself if it has that one."""
    return expr if tensor(expr).dtype is dtype else call("cast", (expr,), span, dtype=dtype)


def type_of(expr: Expr) -> Type:
    """Return the type of a typed expression."""
    kind = expr.checked_type
    if kind is None and isinstance(expr, Constant):
        return TensorType(expr.data.shape, dtype_of(expr.data.dtype))
    assert kind is not None, "rewriting needs types"
    return kind


def tensor(expr: Expr) -> TensorType:
    """Return the type of a tensor."""
    kind = type_of(expr)
    assert isinstance(kind, TensorType)
    return kind


def is_static(kind: Type | None) -> bool:
    """Return True for a tensor of known sizes."""
    return isinstance(kind, TensorType) and all(isinstance(d, int) for d in kind.shape)


def is_determined(kind: Type | None) -> bool:
    """Return True for a tensor without `?`: equal types then mean equal sizes."""
    return isinstance(kind, TensorType) and all(isinstance(d, (int, DimExpr)) for d in kind.shape)


def attrs_of(node: Call) -> dict[str, Any]:
    """Return all attributes of an operator call, defaults filled in."""
    assert isinstance(node.op, Operator)
    return node.op.complete_attrs(node.attrs)


def is_call(expr: Expr, *names: str) -> bool:
    """Return True for a call of one of these operators."""
    return isinstance(expr, Call) and isinstance(expr.op, Operator) and expr.op.name in names
