"""Operators defined by others: one form, read over arrays, tensors or expressions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from relayvm.base.dims import Dim
from relayvm.base.dtypes import DType, dtype_of
from relayvm.ir.expr import Constant, Tuple, TupleGetItem
from relayvm.ir.types import TensorType, TupleType, Type
from relayvm.kernels import compute as te
from relayvm.kernels.compute import Tensor
from relayvm.kernels.scalar_ops import SCALAR_OPS
from relayvm.ops import (
    activation,
    binary,
    convolution,
    elementwise,
    integers,
    linalg,
    movement,
    packed,
    pooling,
    reduction,
    reshaping,
    unary,
)
from relayvm.ops.narrow import takes_bfloat16
from relayvm.ops.operator import Operator, table_of
from relayvm.ops.schema import like

_CORE = table_of(
    activation.OPERATORS,
    binary.OPERATORS,
    convolution.OPERATORS,
    elementwise.OPERATORS,
    integers.OPERATORS,
    linalg.OPERATORS,
    movement.OPERATORS,
    packed.OPERATORS,
    pooling.OPERATORS,
    reduction.OPERATORS,
    reshaping.OPERATORS,
    unary.OPERATORS,
)


class Composer(Protocol):
    """How a form calls the operators that it is made of: `c("add", x, y)`."""

    def __call__(self, name: str, /, *args: Any, **attrs: Any) -> Any:
        """Return what an operator of this name gives; several operands may be one tuple."""

    def number(self, value: float, dtype: DType) -> Any:
        """Return a literal of rank 0."""

    def vector(self, values: range, dtype: DType) -> Any:
        """Return a literal of rank 1."""

    def field(self, value: Any, k: int) -> Any:
        """Return a field of a tuple."""

    def resized(self, vector: Any, size: Dim) -> Any:
        """Return a vector that a check has found to have this size."""


# From (composer, types of the operands, operands, attributes) to the result.
Form = Callable[[Composer, Sequence[Any], Sequence[Any], dict[str, Any]], Any]


class ArrayComposer:
    """Forms over numpy arrays: what they mean."""

    def __call__(self, name: str, /, *args: Any, **attrs: Any) -> Any:
        """Return what an operator means."""
        if name in SCALAR_OPS:
            return SCALAR_OPS[name](*args)
        return _CORE[name].evaluate(args, attrs)

    def number(self, value: float, dtype: DType) -> Any:
        """Return an array of rank 0."""
        return dtype.array(value)

    def vector(self, values: range, dtype: DType) -> Any:
        """Return an array of rank 1."""
        return dtype.array(values)

    def field(self, value: Any, k: int) -> Any:
        """Return a field of a tuple."""
        return value[k]

    def resized(self, vector: Any, size: Dim) -> Any:
        """Return the vector."""
        return vector


class TensorComposer:
    """Forms over tensors: how they are computed."""

    def __call__(self, name: str, /, *args: Any, **attrs: Any) -> Any:
        """Return how an operator is computed."""
        return _CORE[name].lower(args, attrs)

    def number(self, value: float, dtype: DType) -> Any:
        """Return a tensor of rank 0."""
        return te.compute((), lambda: te.const(value, dtype), "number")

    def vector(self, values: range, dtype: DType) -> Any:
        """Return a tensor of rank 1."""
        place = lambda i: te.cast(i * values.step + values.start, dtype)  # noqa: E731
        return te.compute((len(values),), place, "vector")

    def field(self, value: Any, k: int) -> Any:
        """Return a field of a tuple."""
        return value[k]

    def resized(self, vector: Tensor, size: Dim) -> Tensor:
        """Return the vector with this size in its shape."""
        if vector.shape[0] in (1, size):
            return vector
        place = lambda i: vector[te.index(i, vector.shape[0], "clip")]  # noqa: E731
        return te.compute((size,), place, "vector")


class ExprComposer:
    """Forms over expressions: what a call is replaced by."""

    def __call__(self, name: str, /, *args: Any, **attrs: Any) -> Any:
        """Return a call."""
        nodes = (Tuple(a) if isinstance(a, tuple) else a for a in args)
        return _CORE[name](*nodes, **attrs)

    def number(self, value: float, dtype: DType) -> Any:
        """Return a constant of rank 0."""
        return Constant(dtype.array(value))

    def vector(self, values: range, dtype: DType) -> Any:
        """Return a constant of rank 1."""
        return Constant(dtype.array(values))

    def field(self, value: Any, k: int) -> Any:
        """Return a field of a tuple."""
        return value.fields[k] if isinstance(value, Tuple) else TupleGetItem(value, k)

    def resized(self, vector: Any, size: Dim) -> Any:
        """Return the vector."""
        return vector


ARRAYS: Composer = ArrayComposer()
TENSORS: Composer = TensorComposer()
EXPRESSIONS: Composer = ExprComposer()

FORMS: dict[str, Form] = {}


def type_of_value(value: Any) -> Type:
    """Return the type of an array, a tensor or a tuple of them."""
    if isinstance(value, tuple):
        return TupleType(tuple(map(type_of_value, value)))
    return TensorType(tuple(value.shape), dtype_of(value.dtype))


def core_type(name: str, types: Sequence[Type], attrs: dict[str, Any]) -> Type:
    """Return the type of a call of an operator that forms are made of."""
    return _CORE[name].result_type(types, attrs)


def defined_by(row: Operator) -> Callable[[Form], Form]:
    """Give a row the meaning and the computation of a form, under which it can be replaced."""

    def decorate(form: Form) -> Form:
        @row.numpy
        @takes_bfloat16
        @like(row.rule)
        def _(*args: Any, **attrs: Any) -> Any:
            return form(ARRAYS, [type_of_value(a) for a in args], args, attrs)

        @row.compute
        @like(row.rule)
        def _(*args: Any, **attrs: Any) -> Any:
            return form(TENSORS, [type_of_value(a) for a in args], args, attrs)

        FORMS[row.name] = form
        return form

    return decorate
