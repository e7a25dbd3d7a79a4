"""Putting expressions in the place of free variables and parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from relayvm.base.diagnostics import error
from relayvm.ir.expr import Expr, Function, Var
from relayvm.ir.visit import bound_vars, free_vars, substitute
from relayvm.relay.expr import const
from relayvm.relay.node import as_mapping


def bind_variables(expr: Expr, binds: Mapping[Var | str, Any]) -> Expr:
    """Return `expr` with variables replaced; see `relay.bind`.

    Variables that are free in what is put in become parameters of a function, as in TVM. Raises
    RelayError `unknown-parameter` for a name that is no parameter.
    """
    values = _values(expr, binds)
    if not isinstance(expr, Function):
        _check_free(expr, values)
        return substitute(expr, values)
    _check_free(expr.body, values)
    body = substitute(expr.body, values)
    params = tuple(p for p in expr.params if p not in values)
    if body is expr.body and len(params) == len(expr.params):
        return expr
    made = replace(expr, params=params, body=body, checked_type=None)
    known = set(free_vars(expr))
    new = tuple(v for v in free_vars(made) if v not in known)
    return replace(made, params=(*params, *new)) if new else made


def _values(expr: Expr, binds: Mapping[Var | str, Any]) -> dict[Var, Expr]:
    names = {p.name: p for p in expr.params} if isinstance(expr, Function) else {}
    values: dict[Var, Expr] = {}
    for key, value in as_mapping(binds, "what is bound").items():
        variable = names.get(key) if isinstance(key, str) else key
        if not isinstance(variable, Var):
            known = ", ".join(f"`{name}`" for name in names) or "none"
            raise error("unknown-parameter", f"there is no parameter `{key}`; known are {known}")
        values[variable] = value if isinstance(value, Expr) else const(value)
    return values


def _check_free(expr: Expr, values: Mapping[Var, Expr]) -> None:
    for variable in bound_vars(expr):
        if variable in values:
            raise error("bad-node", f"`%{variable.name}` is bound inside and cannot be replaced")
