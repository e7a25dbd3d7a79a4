"""TVM's names for expressions: calling them takes its parameters and makes `ir` nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from relayvm.base.diagnostics import error
from relayvm.base.narrow.host import name_of
from relayvm.base.source import Span as IrSpan
from relayvm.ir import build
from relayvm.ir import expr as ir
from relayvm.ir.expr import AttrValue
from relayvm.ir.types import Type, TypeParam
from relayvm.relay.lazy import absent
from relayvm.relay.ndarray import NDArray
from relayvm.relay.node import NodeClass, as_attrs, as_dtype, as_expr, as_exprs, as_type, as_types
from relayvm.relay.python_span import here
from relayvm.relay.ty import TensorType

AttrMap = Mapping[str, AttrValue]


class Expr(metaclass=NodeClass):
    """Any expression."""

    nodes = (ir.Expr,)


RelayExpr = Expr
ExprWithOp = Expr


class Constant(metaclass=NodeClass):
    """A tensor known at compile time."""

    nodes = (ir.Constant,)

    @staticmethod
    def make(data: Any, span: IrSpan | None = None) -> ir.Constant:
        """Return the constant that holds an array as it is, without a change of its dtype."""
        array = np.asarray(data)
        return _constant(array, as_dtype(array.dtype).name, span)


class Tuple(metaclass=NodeClass):
    """A tuple."""

    nodes = (ir.Tuple,)

    @staticmethod
    def make(fields: Sequence[ir.Expr], span: IrSpan | None = None) -> ir.Tuple:
        """Return a tuple of expressions."""
        return ir.Tuple(as_exprs(fields, "a tuple"), span=span or here())


class Var(metaclass=NodeClass):
    """A local variable; equal only to itself."""

    nodes = (ir.Var,)

    @staticmethod
    def make(
        name_hint: str, type_annotation: Type | None = None, span: IrSpan | None = None
    ) -> ir.Var:
        """Return a new variable."""
        return ir.Var(_name(name_hint), _optional_type(type_annotation), span=span or here())


class GlobalVar(metaclass=NodeClass):
    """The name of a function of the module."""

    nodes = (ir.GlobalVar,)

    @staticmethod
    def make(name_hint: str, type_annot: Type | None = None) -> ir.GlobalVar:
        """Return a use of the function of this name, with its type where that is known."""
        name = _name(name_hint).removeprefix("@")
        return ir.GlobalVar(name, checked_type=_optional_type(type_annot))


class Function(metaclass=NodeClass):
    """A function; as an expression, a closure over its free variables."""

    nodes = (ir.Function,)

    @staticmethod
    def make(
        params: Sequence[ir.Var],
        body: ir.Expr,
        ret_type: Type | None = None,
        type_params: Sequence[TypeParam] | None = None,
        attrs: AttrMap | None = None,
        span: IrSpan | None = None,
    ) -> ir.Function:
        """Return a function."""
        variables = as_exprs(params, "the parameters of a function")
        for variable in variables:
            if not isinstance(variable, ir.Var):
                raise error("bad-node", f"a parameter is a variable, not `{variable!r}`")
        return ir.Function(
            tuple(v for v in variables if isinstance(v, ir.Var)),
            as_expr(body, "the body of a function"),
            _optional_type(ret_type),
            tuple(type_params or ()),
            as_attrs(attrs),
            span=span or here(),
        )


class Call(metaclass=NodeClass):
    """A call of an operator, constructor, global, or any expression that is a function."""

    nodes = (ir.Call,)

    @staticmethod
    def make(
        op: ir.Expr,
        args: Sequence[ir.Expr],
        attrs: AttrMap | None = None,
        type_args: Sequence[Type] | None = None,
        span: IrSpan | None = None,
    ) -> ir.Call:
        """Return a call."""
        return ir.Call(
            as_expr(op, "the place of what is called"),
            as_exprs(args, "a call"),
            as_attrs(attrs),
            as_types(type_args, "a list of type arguments"),
            span=span or here(),
        )


class Let(metaclass=NodeClass):
    """`let variable = value; body`."""

    nodes = (ir.Let,)

    @staticmethod
    def make(variable: ir.Var, value: ir.Expr, body: ir.Expr, span: IrSpan | None = None) -> ir.Let:
        """Return a let."""
        if not isinstance(variable, ir.Var):
            raise error("bad-node", f"a let binds a variable, not `{variable!r}`")
        return ir.Let(
            variable, as_expr(value, "a let"), as_expr(body, "a let"), span=span or here()
        )


class If(metaclass=NodeClass):
    """A choice on a rank-0 bool."""

    nodes = (ir.If,)

    @staticmethod
    def make(
        cond: ir.Expr, true_branch: ir.Expr, false_branch: ir.Expr, span: IrSpan | None = None
    ) -> ir.If:
        """Return a choice."""
        return ir.If(*as_exprs((cond, true_branch, false_branch), "an if"), span=span or here())


class TupleGetItem(metaclass=NodeClass):
    """A field of a tuple."""

    nodes = (ir.TupleGetItem,)

    @staticmethod
    def make(tuple_value: ir.Expr, index: int, span: IrSpan | None = None) -> ir.TupleGetItem:
        """Return the field at an index."""
        if not isinstance(index, (int, np.integer)) or isinstance(index, bool):
            raise error("bad-node", f"the index of a field is an integer, not `{index!r}`")
        return ir.TupleGetItem(
            as_expr(tuple_value, "a projection"), int(index), span=span or here()
        )


class RefCreate(metaclass=NodeClass):
    """A new reference."""

    nodes = (ir.RefCreate,)

    @staticmethod
    def make(value: ir.Expr, span: IrSpan | None = None) -> ir.RefCreate:
        """Return the making of a reference."""
        return ir.RefCreate(as_expr(value, "a reference"), span=span or here())


class RefRead(metaclass=NodeClass):
    """What a reference holds."""

    nodes = (ir.RefRead,)

    @staticmethod
    def make(ref: ir.Expr, span: IrSpan | None = None) -> ir.RefRead:
        """Return the reading of a reference."""
        return ir.RefRead(as_expr(ref, "a reading"), span=span or here())


class RefWrite(metaclass=NodeClass):
    """The writing of a reference; its value is `()`."""

    nodes = (ir.RefWrite,)

    @staticmethod
    def make(ref: ir.Expr, value: ir.Expr, span: IrSpan | None = None) -> ir.RefWrite:
        """Return the writing of a reference."""
        return ir.RefWrite(*as_exprs((ref, value), "a writing"), span=span or here())


class TupleWrapper:
    """A tuple of known size that Python can index and unpack: the result of operators with several
    results.
    """

    def __init__(self, tuple_value: ir.Expr, size: int) -> None:
        self.tuple_value = tuple_value
        self.size = size

    def astuple(self) -> ir.Expr:
        """Return the tuple itself."""
        return self.tuple_value

    def astext(self) -> str:
        """Return the text of the tuple."""
        from relayvm.relay.text import astext

        return astext(self.tuple_value)

    def __getitem__(self, index: int) -> ir.TupleGetItem:
        if index < 0:
            index += self.size
        if not 0 <= index < self.size:
            raise IndexError("Tuple index out of range")
        return ir.TupleGetItem(self.tuple_value, index)

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[ir.TupleGetItem]:
        return (ir.TupleGetItem(self.tuple_value, index) for index in range(self.size))

    def __repr__(self) -> str:
        return f"TupleWrapper({self.tuple_value!r}, {self.size})"

    def astype(self, _: object) -> ir.Expr:
        """Raise TypeError: each field is cast on its own."""
        raise TypeError("astype cannot be used on tuple")


def var(
    name_hint: str,
    type_annotation: Type | str | None = None,
    shape: Sequence[object] | None = None,
    dtype: str = "float32",
    span: IrSpan | None = None,
) -> ir.Var:
    """Return a new variable; a dtype in the place of a type is a scalar, `shape` with `dtype` a
    tensor.
    """
    if type_annotation is not None and shape is not None:
        raise ValueError("Can only specify either type_annotation or shape.")
    if shape is not None:
        type_annotation = TensorType.make(shape, dtype)
    return ir.Var(_name(name_hint), _optional_type(type_annotation), span=span or here())


def const(value: Any, dtype: str | None = None, span: IrSpan | None = None) -> ir.Constant:
    """Return a constant; without `dtype`, int64 becomes int32 and float64 float32, but for an
    `NDArray`, which stays what it is.
    """
    if isinstance(value, (ir.Expr, str)) or value is None:
        raise ValueError("value has to be scalar or NDArray")
    wanted = as_dtype(dtype).name if dtype else None
    if wanted is None and isinstance(value, NDArray):
        wanted = name_of(value.dtype)
    return _constant(value, wanted, span)


def _constant(value: Any, dtype: str | None, span: IrSpan | None) -> ir.Constant:
    made = build.const(value, dtype)
    return ir.Constant(made.data.view(NDArray), span=span or here())


def VarWithFields(
    variable: ir.Var,
    vid: Any = None,
    type_annotation: Type | None = None,
    virtual_device: Any = None,
    span: IrSpan | None = None,
) -> ir.Var:
    """Return a variable with other fields; itself if none is given."""
    name = getattr(vid, "name_hint", None) or variable.name
    wanted = type_annotation or variable.type_annotation
    if name == variable.name and wanted is variable.type_annotation and span is None:
        return variable
    return ir.Var(name, wanted, span=span or variable.span)


def bind(expr: ir.Expr, binds: Mapping[ir.Var | str, Any]) -> ir.Expr:
    """Return `expr` with free variables, or parameters of the function that it is, replaced.

    A function loses the parameters that are bound. Keys may be names of parameters.
    """
    from relayvm.relay.binding import bind_variables

    return bind_variables(expr, binds)


def _name(value: object) -> str:
    if not isinstance(value, str):
        raise error("bad-node", f"a name is text, not `{value!r}`")
    return value


def _optional_type(value: object) -> Type | None:
    return None if value is None else as_type(value, "an annotation")


__getattr__ = absent("relayvm.relay.expr")
