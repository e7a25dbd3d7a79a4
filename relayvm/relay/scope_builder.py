"""Collecting lets and branches from Python statements."""

from __future__ import annotations

from typing import Any

from relayvm.ir import build
from relayvm.ir.expr import Expr, Var
from relayvm.ir.types import Type
from relayvm.relay.expr import var as make_var
from relayvm.relay.node import as_expr


class ScopeBuilder(build.ScopeBuilder):
    """Collects statements; `get` is the expression that they make.

    ```python
    scope = relay.ScopeBuilder()
    with scope.if_scope(cond):
        scope.ret(scope.let("t", x + y))
    with scope.else_scope():
        scope.ret(x)
    scope.get()
    ```
    """

    def let(self, var: Any, value: Any) -> Var:
        """Bind a value and return its variable: one given, or a new one of a name, or of a pair of
        name and type.
        """
        if isinstance(var, (tuple, list)):
            if len(var) > 2:
                raise ValueError("Expect var to be Tuple[str, relay.Type]")
            var = make_var(*var)
        return super().let(var, as_expr(value, "a let"))

    def ret(self, value: Any) -> None:
        """Set the result of the scope that is open."""
        super().ret(as_expr(value, "the result of a scope"))

    def type_of(self, expr: Expr) -> Type | None:
        """Return the type of an expression as far as it is known before inference."""
        if isinstance(expr, Var) and expr.type_annotation is not None:
            return expr.type_annotation
        return expr.checked_type

    def get(self) -> Expr:
        """Return the whole expression."""
        return self.result()
