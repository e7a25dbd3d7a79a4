"""TVM's names for functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from relayvm.base.source import Span
from relayvm.ir import expr as ir
from relayvm.ir.types import Type, TypeParam
from relayvm.relay.expr import AttrMap, Function
from relayvm.relay.node import as_attrs

__all__ = ["Function", "FunctionWithFields"]


def FunctionWithFields(
    function: ir.Function,
    params: Sequence[ir.Var] | None = None,
    body: ir.Expr | None = None,
    ret_type: Type | None = None,
    ty_params: Sequence[TypeParam] | None = None,
    attrs: AttrMap | None = None,
    virtual_device: Any = None,
    span: Span | None = None,
) -> ir.Function:
    """Return a function with other fields, without its type; itself if none is given."""
    given: dict[str, Any] = {
        "params": None if params is None else tuple(params),
        "body": body,
        "ret_type": ret_type,
        "type_params": None if ty_params is None else tuple(ty_params),
        "attrs": None if attrs is None else as_attrs(attrs),
        "span": span,
    }
    changes = {name: value for name, value in given.items() if value is not None}
    if all(getattr(function, name) is value for name, value in changes.items()):
        return function
    return replace(function, checked_type=None, **changes)
