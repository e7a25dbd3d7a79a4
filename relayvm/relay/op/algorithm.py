"""Operators that sort and search."""

from __future__ import annotations

from typing import Any

from relayvm.ir.expr import Call, Expr
from relayvm.relay.expr import TupleWrapper
from relayvm.relay.op.make import as_expr, call, folded, is_dynamic


def sort(data: Expr, axis: int = -1, is_ascend: Any = 1) -> Call:
    """Return the elements in order along an axis."""
    return call("sort", data, axis=axis, is_ascend=bool(is_ascend))


def argsort(data: Expr, axis: int = -1, is_ascend: Any = 1, dtype: str = "int32") -> Call:
    """Return the indices that put the elements in order along an axis."""
    return call("argsort", data, axis=axis, is_ascend=bool(is_ascend), dtype=dtype)


def topk(
    data: Expr,
    k: Any = 1,
    axis: int = -1,
    ret_type: str = "both",
    is_ascend: bool = False,
    dtype: str = "int32",
) -> Call | TupleWrapper:
    """Return the first `k` elements in order, their indices, or both; `k` may be an expression."""
    count = folded(k)
    attrs = {"axis": axis, "ret_type": ret_type, "is_ascend": bool(is_ascend), "dtype": dtype}
    if is_dynamic(count):
        result = call("dyn.topk", data, as_expr(count), **attrs)
    else:
        result = call("topk", data, k=count, **attrs)
    return TupleWrapper(result, 2) if ret_type == "both" else result


def searchsorted(
    sorted_sequence: Expr, values: Expr, right: bool = False, dtype: str = "int32"
) -> Call:
    """Return for each value the place in a sorted sequence before which it belongs."""
    return call("searchsorted", sorted_sequence, values, right=right, dtype=dtype)
