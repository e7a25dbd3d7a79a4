"""Shape rules run over unknown sizes: each `?` gets a variable, result dims become a program."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from relayvm.base.dims import (
    AnyDim,
    Dim,
    DimExpr,
    DimTerm,
    DimVar,
    dim_broadcast,
    dim_substitute,
    is_broadcast_of,
    symbol,
)
from relayvm.base.shapes import Check, shape_context
from relayvm.ir.expr import AttrValue
from relayvm.ir.types import TensorType, TupleType, Type
from relayvm.ops.operator import Operator


@dataclass(frozen=True, slots=True)
class Trace:
    """One application of a rule without `?`.

    `operands` have a fresh variable for each `?`, listed in `fresh`. The dims of `result` are
    expressions over variables; those that depend on operand *values* are `value_dims`, in the order
    of what the facet `value_dims` computes. `checks` must hold before the result is computed.
    """

    operands: tuple[Type, ...]
    result: Type
    checks: tuple[Check, ...]
    fresh: tuple[DimVar, ...] = ()
    value_dims: tuple[DimVar, ...] = ()


def trace_shape(op: Operator, types: Sequence[Type], attrs: Mapping[str, AttrValue]) -> Trace:
    """Return what the rule of `op` says about operands of these types when every size has a name.

    A variable of an operand that may be broadcast stands in a check with `broadcast` set: such an
    operand must be passed strided. Raises ShapeError as the rule does.
    """
    fresh: list[DimVar] = []
    named = tuple(name_unknown_dims(t, fresh) for t in types)
    with shape_context() as context:
        result = op.result_type(named, attrs)
    value_dims: list[DimVar] = []
    if op.is_data_dependent:
        result = name_unknown_dims(result, value_dims)
    return Trace(named, result, tuple(context.checks), tuple(fresh), tuple(value_dims))


def name_unknown_dims(given: Type, fresh: list[DimVar]) -> Type:
    """Return the type with a fresh variable for each `?`, appended to `fresh`.

    Only tensors and tuples of them are looked into; the same object if there is no `?`.
    """
    if not has_unknown_dims(given):
        return given
    if isinstance(given, TupleType):
        return TupleType(tuple(name_unknown_dims(t, fresh) for t in given.fields))
    assert isinstance(given, TensorType)
    shape: list[Dim] = []
    for dim in given.shape:
        if isinstance(dim, AnyDim):
            fresh.append(DimVar(f"d{len(fresh)}"))
            dim = symbol(fresh[-1])
        shape.append(dim)
    return TensorType(tuple(shape), given.dtype)


def has_unknown_dims(given: Type) -> bool:
    """Return whether a tensor in `given`, through tuples, has a `?` among its dims."""
    return any(isinstance(dim, AnyDim) for t in tensors_of(given) for dim in t.shape)


def tensors_of(given: Type) -> Iterator[TensorType]:
    """Yield the tensors of a type, through tuples, from left to right."""
    waiting = [given]
    while waiting:
        part = waiting.pop()
        if isinstance(part, TensorType):
            yield part
        elif isinstance(part, TupleType):
            waiting.extend(reversed(part.fields))


def check_equation(check: Check) -> tuple[Dim, Dim]:
    """Return two dims whose equality, evaluated at run time, is the check.

    That of a broadcast is `broadcast(a, b) = dim_broadcast(a, b)`: evaluating the left side fails
    where the sizes do not fit, and gives another size where a known one is not the result. Where
    one is broadcast from the other, among more, its own evaluation fails.
    """
    if not check.broadcast:
        return check.a, check.b
    whole = dim_broadcast(check.a, check.b)
    for a, b in ((check.a, check.b), (check.b, check.a)):
        if not isinstance(a, int) and is_broadcast_of(a, b):
            return whole, whole
    return symbol(DimTerm("broadcast", check.a, check.b)), whole


def substitute_dims(value: AttrValue, sizes: Mapping[DimVar, Dim]) -> AttrValue:
    """Return an attribute value with the variables of dims in it replaced."""
    if isinstance(value, tuple):
        return tuple(substitute_dims(v, sizes) for v in value)
    return dim_substitute(value, sizes) if isinstance(value, DimExpr) else value
