"""`tvm.te`: symbolic sizes."""

from __future__ import annotations

from typing import Any

from relayvm.base.dims import DimExpr, DimVar, symbol
from relayvm.relay.lazy import absent

__all__ = ["size_var", "var"]


def var(name: str = "tindex", dtype: str = "int32", span: Any = None) -> DimExpr:
    """Return a new symbolic size, which is never negative."""
    return symbol(DimVar(name))


def size_var(name: str = "size", dtype: str = "int32", span: Any = None) -> DimExpr:
    """Return a new symbolic size."""
    return symbol(DimVar(name))


__getattr__ = absent("relayvm.te")
