"""Natural numbers as data, for tests: the values and expressions of `nat.rly`."""

from __future__ import annotations

from typing import Any

from relayvm.base.diagnostics import error
from relayvm.ir.expr import Call, Constructor, Expr
from relayvm.relay.module import tag_of
from relayvm.relay.prelude import Prelude
from relayvm.relay.values import ConstructorValue


def get_type(prelude: Prelude, name: str) -> tuple[Any, ...]:
    """Return a data type of the prelude's module, followed by its constructors."""
    result: tuple[Any, ...] = prelude.mod.get_type(name)
    return result


def count(prelude: Prelude, n: Any) -> int:
    """Return the number that a value of type `nat` stands for."""
    if not isinstance(n, ConstructorValue):
        message = f"`count` takes a value of type `nat`, not a `{type(n).__name__}`"
        raise error("bad-option", message)
    number = 0
    while n.fields:
        number, n = number + 1, n.fields[0]
    return number


def _parts(prelude: Prelude, n: int) -> tuple[Any, ...]:
    if n < 0:
        raise error("bad-option", f"no value of type `nat` stands for {n}: it is negative")
    return get_type(prelude, "nat")


def make_nat_value(prelude: Prelude, n: int) -> ConstructorValue:
    """Return the value of type `nat` that stands for a number."""
    _, zero, succ = _parts(prelude, n)
    value = ConstructorValue(tag_of(zero), [], zero)
    for _ in range(n):
        value = ConstructorValue(tag_of(succ), [value], succ)
    return value


def make_nat_expr(prelude: Prelude, n: int) -> Expr:
    """Return the expression of type `nat` that stands for a number."""
    _, zero, succ = _parts(prelude, n)
    assert isinstance(zero, Constructor) and isinstance(succ, Constructor)
    expr: Expr = Call(zero, ())
    for _ in range(n):
        expr = Call(succ, (expr,))
    return expr
