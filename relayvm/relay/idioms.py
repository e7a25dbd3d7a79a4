"""What TVM's programs expect of nodes, added to the classes of `ir`: field names, operators, calls,
texts.

This is the only place that adds to them; a row is a class, a name and what it answers. The language
below uses none of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from operator import attrgetter
from typing import Any

import numpy as np

from relayvm.base.dims import AnyDim, DimVar
from relayvm.base.dtypes import BY_NAME, DType
from relayvm.base.source import Span
from relayvm.ir import expr as ir
from relayvm.ir import types
from relayvm.ir.module import TypeData
from relayvm.ops import OPS
from relayvm.relay.expr import TupleWrapper
from relayvm.relay.module import tag_of
from relayvm.relay.node import as_dtype, as_exprs
from relayvm.relay.op_registry import OP_MEMBERS
from relayvm.relay.python_span import here
from relayvm.relay.text import astext
from relayvm.relay.ty import TypeCall, TypeKind

Method = Callable[..., Any]


def _alias(field: str) -> property:
    return property(attrgetter(field), doc=f"The field `{field}`.")


def _constant(value: Any) -> property:
    return property(lambda _: value)


# --- operators -------------------------------------------------------------------------------


def _operand(value: Any, like: ir.Expr) -> ir.Expr | None:
    """Return what stands beside `like` in an operator; a Python number takes its dtype.

    A float beside integers, and a number beside what has no type yet, becomes what `relay.const`
    makes of it. None for what is no operand.
    """
    if isinstance(value, TupleWrapper):
        value = value.tuple_value
    if isinstance(value, ir.Expr):
        return value
    if not isinstance(value, (bool, int, float, np.ndarray, np.generic)):
        return None
    from relayvm.relay.expr import const

    type_ = like.checked_type or getattr(like, "type_annotation", None)
    dtype = type_.dtype if isinstance(type_, types.TensorType) else None
    if isinstance(value, (np.ndarray, np.generic)) or dtype is None:
        return const(value)
    if isinstance(value, float) and not dtype.is_float:
        return const(value)
    return const(value, dtype.name)


def _binary(name: str, swapped: bool = False) -> Method:
    op = OPS[name]

    def method(self: ir.Expr, other: Any) -> Any:
        operand = _operand(other, self)
        if operand is None:
            return NotImplemented
        operands = (operand, self) if swapped else (self, operand)
        return ir.Call(op, operands, span=here())

    return method


def _negative(self: ir.Expr) -> ir.Expr:
    return ir.Call(OPS["negative"], (self,), span=here())


def _astype(self: ir.Expr, dtype: Any) -> ir.Expr:
    """Return the cast of a tensor to a dtype."""
    return ir.Call(OPS["cast"], (self,), ir.Attrs(dtype=as_dtype(dtype)), span=here())


def _call(self: ir.Expr, *args: Any) -> ir.Call:
    """Return the call of this expression."""
    return ir.Call(self, as_exprs(args, "a call"), span=here())


_OPERATORS: dict[str, Method] = {
    "__add__": _binary("add"),
    "__radd__": _binary("add", swapped=True),
    "__sub__": _binary("subtract"),
    "__rsub__": _binary("subtract", swapped=True),
    "__mul__": _binary("multiply"),
    "__rmul__": _binary("multiply", swapped=True),
    "__truediv__": _binary("divide"),
    "__rtruediv__": _binary("divide", swapped=True),
    "__lt__": _binary("less"),
    "__gt__": _binary("greater"),
    "__le__": _binary("less_equal"),
    "__ge__": _binary("greater_equal"),
    "__neg__": _negative,
}


# --- fields, texts and the rest --------------------------------------------------------------


def _same_as(self: object, other: object) -> bool:
    """Tell whether both are the same object."""
    return self is other


def _astext(self: Any, show_meta_data: bool = True, annotate: Any = None) -> str:
    """Return the text; what `annotate` returns of a node stands behind its text."""
    return astext(self, show_meta_data, annotate)


def _text(self: Any) -> str:
    return astext(self, show_meta_data=False)


def _tuple_item(self: ir.Tuple, index: int) -> ir.Expr:
    if not -len(self.fields) <= index < len(self.fields):
        raise IndexError("Tuple index out of range")
    return self.fields[index]


def _no_cast(self: ir.Tuple, dtype: Any) -> ir.Expr:
    """Raise TypeError: each field is cast on its own."""
    raise TypeError("astype cannot be used on tuple")


def _attribute(self: ir.Attrs, name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    try:
        return self[name]
    except KeyError:
        known = ", ".join(self) or "none"
        raise AttributeError(f"there is no attribute `{name}`; there are: {known}") from None


def _with_attr(self: ir.Function, attr_key_or_dict: Any, attr_value: Any = None) -> ir.Function:
    """Return the function with attributes set."""
    new = attr_key_or_dict
    if not isinstance(new, dict):
        new = {attr_key_or_dict: attr_value}
    return _with_attrs(self, ir.Attrs({**self.attrs, **new}))


def _without_attr(self: ir.Function, attr_key: str) -> ir.Function:
    """Return the function without an attribute."""
    return _with_attrs(self, ir.Attrs({k: v for k, v in self.attrs.items() if k != attr_key}))


def _with_attrs(self: ir.Function, attrs: ir.Attrs) -> ir.Function:
    return replace(self, attrs=attrs)


def _concrete_shape(self: types.TensorType) -> tuple[int, ...]:
    """The shape, all of whose dims must be integers."""
    for dim in self.shape:
        if not isinstance(dim, int):
            raise TypeError(f"the shape of {astext(self)} is not known: {dim!r}")
    return tuple(dim for dim in self.shape if isinstance(dim, int))


def _apply(self: types.GlobalTypeVar, *args: Any) -> types.Type:
    """Return the data type applied to arguments."""
    return TypeCall.make(self, args)


def _places(end: bool, column: bool) -> property:
    def place(self: Span) -> int:
        offset = self.end if end else self.begin
        return self.source.line_column(offset)[int(column)]

    return property(place)


class _Id:
    """What TVM keeps apart from a variable to tell it from others of the same name."""

    __slots__ = ("_var", "name_hint")

    def __init__(self, var: ir.Var) -> None:
        self.name_hint = var.name
        self._var = var

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Id) and self._var is other._var

    def __hash__(self) -> int:
        return hash(self._var)

    def same_as(self, other: object) -> bool:
        """Tell whether both are of one variable."""
        return self == other


def _of_name(method: str) -> Method:
    """Return a method of text that answers for the name of a dtype."""
    return lambda self, *args: getattr(self.name, method)(*args)


_NODE: dict[str, Any] = {"same_as": _same_as, "astext": _astext}

IDIOMS: tuple[tuple[type, dict[str, Any]], ...] = (
    (ir.Expr, {**_NODE, **_OPERATORS, "astype": _astype, "__array_ufunc__": None}),
    (ir.Pattern, _NODE),
    (ir.Clause, _NODE),
    (types.Type, {**_NODE, "__str__": _text}),
    (
        ir.Var,
        {
            "name_hint": _alias("name"),
            "vid": property(_Id),
            "__call__": _call,
        },
    ),
    (ir.Op, OP_MEMBERS),
    (ir.Constant, {"__str__": _text}),
    (ir.GlobalVar, {"name_hint": _alias("name"), "__call__": _call}),
    (
        ir.Constructor,
        {
            "name_hint": _alias("name"),
            "tag": property(tag_of),
            "__call__": _call,
        },
    ),
    (
        ir.Function,
        {
            "__call__": _call,
            "__str__": _text,
            "with_attr": _with_attr,
            "without_attr": _without_attr,
        },
    ),
    *(
        (node, {"__call__": _call, "__str__": _text})
        for node in (ir.Call, ir.Let, ir.If, ir.Match, ir.TupleGetItem, ir.RefRead)
    ),
    (
        ir.Tuple,
        {
            "__getitem__": _tuple_item,
            "__len__": lambda self: len(self.fields),
            "__bool__": lambda self: True,
            "__str__": _text,
            "astype": _no_cast,
        },
    ),
    (
        ir.Attrs,
        {
            "__getattr__": _attribute,
            "get_str": lambda self, key: str(self[key]),
            "get_int": lambda self, key: int(self[key]),
            "get_int_tuple": lambda self, key: tuple(int(v) for v in self[key]),
            "same_as": _same_as,
        },
    ),
    (types.TensorType, {"concrete_shape": property(_concrete_shape)}),
    (types.TypeRelation, {"func": _alias("name")}),
    (types.TypeVar, {"name_hint": _alias("name")}),
    (
        DimVar,
        {
            "name_hint": _alias("name"),
            "kind": _constant(TypeKind.ShapeVar),
            "same_as": _same_as,
        },
    ),
    (AnyDim, {"same_as": _same_as}),
    (
        types.GlobalTypeVar,
        {
            "name_hint": _alias("name"),
            "kind": _constant(TypeKind.AdtHandle),
            "__call__": _apply,
        },
    ),
    (TypeData, {"type_vars": _alias("type_params"), "same_as": _same_as}),
    (
        Span,
        {
            "source_name": property(lambda self: self.source),
            "end_line": _places(end=True, column=False),
            "column": _places(end=False, column=True),
            "end_column": _places(end=True, column=True),
        },
    ),
    (
        DType,
        {
            "dtype": _alias("numpy"),
            **{name: _of_name(name) for name in ("startswith", "endswith", "__contains__")},
        },
    ),
)


def install() -> None:
    """Add the idioms; what a class defines itself stays."""
    for node, members in IDIOMS:
        for name, member in members.items():
            if name not in vars(node):
                setattr(node, name, member)


assert BY_NAME
install()
