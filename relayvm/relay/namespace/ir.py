"""What TVM keeps in `tvm.ir` and what is not of the language itself; set on the package `ir`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import relayvm.ir
from relayvm.base.diagnostics import error
from relayvm.ir import expr as ir
from relayvm.ir import json
from relayvm.ir.equal import assert_structural_equal
from relayvm.ir.expr import Attrs
from relayvm.ir.module import Module
from relayvm.ops import OPS
from relayvm.ops.custom import check_custom_operators
from relayvm.ops.operator import Operator
from relayvm.relay import adt, base, expr, op_registry, ty
from relayvm.relay.lazy import absent
from relayvm.relay.module import IRModule, wrap
from relayvm.relay.namespace import container, instrument, transform
from relayvm.relay.namespace.registry import get_global_func
from relayvm.relay.node import NodeClass, as_attrs


class Op(metaclass=NodeClass):
    """An operator."""

    nodes = (ir.Op,)

    @staticmethod
    def make(*_: Any, **__: Any) -> ir.Op:
        """Raise RuntimeError: operators are rows of the table."""
        raise RuntimeError("operators are found by `Op.get`, not made")

    @staticmethod
    def get(op_name: str) -> ir.Op:
        """Return an operator by its name; raises RelayError `unknown-operator`."""
        return op_registry.get(op_name)

    @staticmethod
    def list_op_names() -> list[str]:
        """Return the names of all operators."""
        return list(OPS)


def register_op_attr(op_name: str, attr_key: str, value: Any = None, level: int = 10) -> Any:
    """Give an operator an attribute that passes of users may read; without a value, a decorator.

    An attribute of a lower level than one that is there already is dropped.
    """
    op = Op.get(op_name)

    def register(given: Any) -> Any:
        op_registry.set_attr(op, attr_key, given, level)
        return given

    return register if value is None else register(value)


def make_node(type_key: str, **kwargs: Any) -> Any:
    """Return attributes: those of an operator's class, or of a dict."""
    if type_key != "DictAttrs" and not type_key.endswith("Attrs"):
        raise error("bad-node", f"`{type_key}` is not made by name: call its class in `relay`")
    return as_attrs(kwargs)


class EnvFunc:
    """A global function by name: one of the user's, or a relation of types."""

    def __init__(self, name: str) -> None:
        self.name = name

    @staticmethod
    def get(name: str) -> EnvFunc:
        """Return the function of a name."""
        return EnvFunc(name)

    @property
    def func(self) -> Any:
        """What `tvm.register_func` gave the name."""
        return get_global_func(self.name)

    def __call__(self, *args: Any) -> Any:
        """Call what `tvm.register_func` gave the name."""
        return self.func(*args)


def save_json(node: Any) -> str:
    """Return the JSON text of an expression, type, pattern or module."""
    return json.save_json(node)


def load_json(json_str: str, *, operators: Iterable[Operator] = ()) -> Any:
    """Return what `save_json` wrote; a module as an `IRModule`. `operators` are what it may call
    besides the table and what the program registered, as for `relayvm.parse`.
    """
    rows = {row.name: row for row in check_custom_operators(operators)}
    result = json.load_json(json_str, {**op_registry.all_operators(), **rows})
    return wrap(result) if isinstance(result, Module) else result


def install() -> None:
    """Set the names on the package of the language."""
    names: dict[str, Any] = {
        "IRModule": IRModule,
        "Op": Op,
        "EnvFunc": EnvFunc,
        "Array": container.Array,
        "Map": container.Map,
        "Attrs": Attrs,
        "DictAttrs": Attrs,
        "register_op_attr": register_op_attr,
        "make_node": make_node,
        "save_json": save_json,
        "load_json": load_json,
        "assert_structural_equal": assert_structural_equal,
        "instrument": instrument,
        "transform": transform,
        "Span": base.Span,
        "SourceName": base.SourceName,
        "BaseExpr": expr.Expr,
        "RelayExpr": expr.Expr,
        "BaseFunc": expr.Function,
        "GlobalVar": expr.GlobalVar,
        "Constructor": adt.Constructor,
        "TypeData": adt.TypeData,
        "RelayRefType": ty.RefType,
        **{
            name: getattr(ty, name)
            for name in [
                "FuncType",
                "GlobalTypeVar",
                "IncompleteType",
                "TensorType",
                "TupleType",
                "Type",
                "TypeCall",
                "TypeConstraint",
                "TypeKind",
                "TypeRelation",
                "TypeVar",
            ]
        },
    }
    for name, value in names.items():
        setattr(relayvm.ir, name, value)
    # What is left out says why.
    setattr(relayvm.ir, "__getattr__", absent("relayvm.ir"))  # noqa: B010


install()
