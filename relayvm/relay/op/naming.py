"""Functions of operators that all look the same: one or two operands and no attributes."""

from __future__ import annotations

from typing import Any, Protocol

from relayvm.ir.expr import Call
from relayvm.relay.op.make import call


class Unary(Protocol):
    """A function that builds a call with one operand."""

    def __call__(self, data: Any) -> Call: ...


class Binary(Protocol):
    """A function that builds a call with two operands, which broadcast."""

    def __call__(self, lhs: Any, rhs: Any) -> Call: ...


def unary(name: str, what: str) -> Unary:
    """Return the function of an operator with one operand, which returns `what`."""

    def build(data: Any) -> Call:
        return call(name, data)

    _name(build, name, what)
    return build


def binary(name: str, what: str) -> Binary:
    """Return the function of an operator with two operands, which returns `what`."""

    def build(lhs: Any, rhs: Any) -> Call:
        return call(name, lhs, rhs)

    _name(build, name, what)
    return build


def _name(build: Any, name: str, what: str) -> None:
    build.__name__ = build.__qualname__ = name.rsplit(".", maxsplit=1)[-1]
    build.__doc__ = f"Return {what}."
