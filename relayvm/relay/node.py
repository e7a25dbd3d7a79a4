"""What TVM's names for nodes have in common: calling one makes an `ir` node, `isinstance` asks for
one.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from relayvm.base.diagnostics import error
from relayvm.base.dims import AnyDim, Dim, DimExpr, DimVar, symbol
from relayvm.base.dtypes import BY_NAME, NAMES, DType
from relayvm.base.narrow.host import name_of
from relayvm.ir.expr import NO_ATTRS, Attrs, AttrValue, Expr
from relayvm.ir.module import TypeData
from relayvm.ir.types import ShapeArg, TensorType, Type


class NodeClass(type):
    """The class of names such as `relay.Call`: no object is ever an instance but by `isinstance`.

    A class names its `nodes`, the classes of `ir` that it stands for, and has a static method
    `make` with the parameters of the original.
    """

    nodes: tuple[type, ...]

    def __init__(cls, name: str, bases: tuple[type, ...], members: dict[str, Any]) -> None:
        super().__init__(name, bases, members)
        if "make" in members:
            cls.__signature__ = inspect.signature(members["make"].__func__)

    def __call__(cls, *args: Any, **named: Any) -> Any:
        """Return a new node."""
        make = getattr(cls, "make", None)
        if make is None:
            raise TypeError(f"`{cls.__name__}` has no objects of its own, only its subclasses have")
        return make(*args, **named)

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, cls.nodes)

    def __subclasscheck__(cls, other: type) -> bool:
        if isinstance(other, NodeClass):
            return all(issubclass(node, cls.nodes) for node in other.nodes)
        return issubclass(other, cls.nodes)


def as_expr(value: object, place: str = "a node") -> Expr:
    """Return an expression as it is, or the tuple behind a wrapper of one.

    Raises RelayError `bad-node` for anything else; numbers are not converted, as in TVM.
    """
    value = getattr(value, "tuple_value", value) if _is_wrapper(value) else value
    if isinstance(value, Expr):
        return value
    hint = "wrap numbers and arrays in `relay.const`" if _is_number(value) else ""
    raise error("bad-node", f"{place} holds expressions, not {_shown(value)}", help=hint)


def _is_wrapper(value: object) -> bool:
    return type(value).__name__ == "TupleWrapper"


def _is_number(value: object) -> bool:
    return isinstance(value, (bool, int, float, np.ndarray, np.generic))


def _shown(value: object) -> str:
    return f"`{value!r:.60}` of class `{type(value).__name__}`"


def as_exprs(values: Iterable[object], place: str) -> tuple[Expr, ...]:
    """Return a tuple of expressions; one expression in the place of a list is an error."""
    if isinstance(values, Expr) or not isinstance(values, Iterable):
        raise error("bad-node", f"{place} holds a list of expressions, not {_shown(values)}")
    return tuple(as_expr(value, place) for value in values)


def as_type(value: object, place: str = "a type") -> Type:
    """Return a type as it is, a dtype's name as the type of its scalars, a shape variable as an
    argument.
    """
    if isinstance(value, Type):
        return value
    if isinstance(value, (DimVar, DimExpr)):
        return ShapeArg(as_dim(value))
    if isinstance(value, (str, DType)):
        return TensorType((), as_dtype(value))
    if isinstance(value, TypeData):
        return value.header
    raise error("bad-node", f"{place} holds types, not {_shown(value)}")


def as_types(values: Iterable[object] | None, place: str) -> tuple[Type, ...]:
    """Return a tuple of types; None is empty."""
    if isinstance(values, Type) or not (values is None or isinstance(values, Iterable)):
        raise error("bad-node", f"{place} holds a list of types, not {_shown(values)}")
    return tuple(as_type(value, place) for value in values or ())


def as_dim(value: object) -> Dim:
    """Return a dim: an integer of at least 0, a symbolic size, or `?`."""
    if isinstance(value, DimVar):
        return symbol(value)
    if isinstance(value, (DimExpr, AnyDim)):
        return value
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool) and value >= 0:
        return int(value)
    raise error("bad-dim", f"a dim is an integer of at least 0, a variable or `?`, not `{value!r}`")


def as_shape(values: object) -> tuple[Dim, ...]:
    """Return a shape; a single number is not one."""
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise error("bad-dim", f"a shape is a list of dims, not {_shown(values)}")
    return tuple(as_dim(value) for value in values)


def as_dtype(value: object) -> DType:
    """Return an element type by its name, as text or as numpy's, or that of a tensor type; raises
    RelayError `unknown-dtype`.
    """
    if isinstance(value, TensorType):
        value = value.dtype
    if isinstance(value, DType):
        return value
    try:
        name = value if isinstance(value, str) else name_of(np.dtype(value))  # type: ignore[call-overload]
    except (TypeError, ValueError):
        name = repr(value)
    if name not in BY_NAME:
        known = ", ".join(f"`{n}`" for n in NAMES)
        raise error("unknown-dtype", f"there is no dtype `{name}`; known are {known}")
    return BY_NAME[name]


def as_mapping(value: Mapping[Any, Any] | None, what: str) -> Mapping[Any, Any]:
    """Return a mapping, an empty one for None; `what` names it where it is none."""
    if value is None:
        return {}
    if not hasattr(value, "items"):
        raise error("bad-option", f"{what} is a mapping from names, not {_shown(value)}")
    return value


def as_attrs(value: Mapping[str, AttrValue] | None) -> Attrs:
    """Return attributes from a mapping, or none from None."""
    if not value:
        return NO_ATTRS
    if isinstance(value, Attrs):
        return value
    if not isinstance(value, Mapping):
        raise error("bad-node", f"attributes are a mapping from names, not {_shown(value)}")
    return Attrs({str(name): attr_value(item) for name, item in value.items()})


def attr_value(value: AttrValue) -> AttrValue:
    """Return the value of an attribute as the tables know it: numpy's numbers become Python's."""
    if isinstance(value, (np.generic, np.ndarray)):
        return attr_value(value.tolist())
    if isinstance(value, np.dtype):
        return as_dtype(value)
    if isinstance(value, DimVar):
        return symbol(value)
    if isinstance(value, (list, tuple)):
        return tuple(attr_value(item) for item in value)
    return value
