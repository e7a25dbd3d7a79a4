"""The classes that stand in a JSON text, and how values that are no nodes are written there.

A node is an object `{"class": name, field: value, ...}` in a list; a value is null, a bool, an
integer, a text, a list for a tuple, or an object with one of the keys below.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum

from relayvm.base.dims import DimExpr, DimTerm
from relayvm.base.source import Span
from relayvm.ir import expr, module, types
from relayvm.ir.expr import Op

FORMAT = "relayvm-ir"
VERSION = 1

# Keys of values: a node by its number, a float by its exact hexadecimal text, a dtype, a mapping, a
# kind of types.
NODE, FLOAT, DTYPE, MAP, KIND = "node", "float", "dtype", "map", "kind_of_type"

# Nodes that are written in a way of their own.
CONSTANT, OPERATOR, DIM_VAR, ANY_DIM, ATTRS = "Constant", "Op", "DimVar", "AnyDim", "Attrs"
SPAN, SOURCE = "Span", "Source"


def _classes() -> Mapping[str, type]:
    """Return the classes whose objects are written field by field."""
    found: dict[str, type] = {}
    for home in (expr, module, types):
        for name, value in vars(home).items():
            plain = isinstance(value, type) and is_dataclass(value) and not issubclass(value, Enum)
            if plain and value.__module__ == home.__name__:
                found[name] = value
    for special in (Op, expr.Constant, expr.OperandSchema, expr.AttributeSchema):
        found.pop(special.__name__, None)
    return found | {c.__name__: c for c in (DimExpr, DimTerm)}


CLASSES: Mapping[str, type] = _classes()
FIELDS: Mapping[type, tuple[str, ...]] = {
    kind: tuple(f.name for f in fields(kind)) for kind in CLASSES.values()
}

__all__ = ["CLASSES", "FIELDS", "FORMAT", "VERSION", "Span"]
