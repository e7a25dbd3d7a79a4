"""`tvm.tir`: sizes, as Relay programs write them."""

from __future__ import annotations

from typing import Any as AnyValue

from relayvm.base.dims import Dim, DimExpr, DimVar, dim_floordiv, dim_max, dim_min, dim_mod, symbol
from relayvm.relay.lazy import absent
from relayvm.relay.node import NodeClass, as_dim
from relayvm.relay.ty import Any

__all__ = [
    "Any",
    "IntImm",
    "StringImm",
    "Var",
    "const",
    "floordiv",
    "floormod",
    "indexdiv",
    "indexmod",
    "max",
    "min",
]


class IntImm(metaclass=NodeClass):
    """A size that is a number: a plain integer."""

    nodes = (int,)

    @staticmethod
    def make(dtype: str, value: int, span: AnyValue = None) -> int:
        """Return the number."""
        return int(value)


class StringImm(metaclass=NodeClass):
    """A text."""

    nodes = (str,)

    @staticmethod
    def make(value: str, span: AnyValue = None) -> str:
        """Return the text."""
        return value


class Var(metaclass=NodeClass):
    """A size that has a name; equal only to itself."""

    nodes = (DimExpr, DimVar)

    @staticmethod
    def make(name: str, dtype: str = "int32", span: AnyValue = None) -> DimExpr:
        """Return a new symbolic size."""
        return symbol(DimVar(name))


def const(value: AnyValue, dtype: str = "int32", span: AnyValue = None) -> AnyValue:
    """Return a number of Python."""
    return float(value) if dtype.startswith("float") else int(value)


def indexdiv(a: Dim, b: Dim, span: AnyValue = None) -> Dim:
    """Return the quotient of sizes, rounded down."""
    return dim_floordiv(as_dim(a), as_dim(b))


def indexmod(a: Dim, b: Dim, span: AnyValue = None) -> Dim:
    """Return the remainder of sizes."""
    return dim_mod(as_dim(a), as_dim(b))


floordiv = indexdiv
floormod = indexmod


def min(a: Dim, b: Dim, span: AnyValue = None) -> Dim:
    """Return the smaller size."""
    return dim_min(as_dim(a), as_dim(b))


def max(a: Dim, b: Dim, span: AnyValue = None) -> Dim:
    """Return the greater size."""
    return dim_max(as_dim(a), as_dim(b))


__getattr__ = absent("relayvm.tir")
