"""The text of what TVM prints: modules, expressions, types and patterns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from relayvm.ir.expr import Expr
from relayvm.ir.module import Module
from relayvm.ir.printer import print_expr, print_module, print_type
from relayvm.ir.types import Type

Annotate = Callable[[Any], str]


def astext(obj: Any, show_meta_data: bool = True, annotate: Annotate | None = None) -> str:
    """Return an item as text; without `show_meta_data` constants that have no literal are only
    named. What `annotate` returns of an expression stands behind its text.
    """
    item = getattr(obj, "module", obj)
    if isinstance(item, Module):
        return print_module(item, metadata=show_meta_data, annotate=annotate)
    if isinstance(item, Expr):
        return print_expr(item, metadata=show_meta_data, annotate=annotate)
    if isinstance(item, Type):
        return print_type(item)
    return str(item)


def pretty_print(obj: Any) -> str:
    """Return an item as text, with all of its constants."""
    return astext(obj)
