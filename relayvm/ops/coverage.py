"""What operators do with sizes that are not known, with empty tensors and with rank 0, as their
rules tell for the operands of the documented example.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from relayvm.base.dims import ANY, Dim
from relayvm.base.dtypes import BY_NAME, DTYPES, FLOATS, INTEGERS, NUMERIC, DType, dtype_of
from relayvm.base.shapes import ShapeError
from relayvm.ir.expr import Attrs, Call, Constant, Expr, Function, Op, Tuple, TupleGetItem, Var
from relayvm.ir.parser import parse_expr
from relayvm.ir.types import TensorType, TupleType, Type
from relayvm.ops.operator import Operator
from relayvm.ops.tracing import tensors_of, trace_shape

YES = "yes"


@dataclass(frozen=True, slots=True)
class Example:
    """The example of a docstring: operands by name, the expression, and the result."""

    operands: Mapping[str, np.ndarray]
    expression: str
    result: object


def read_example(op: Operator) -> Example:
    """Return the example in the docstring of an operator."""
    lines = [line.strip() for line in op.doc.splitlines()]
    prompts = [i for i, line in enumerate(lines) if line.startswith(">>> ")]
    operands: dict[str, np.ndarray] = {}
    for i in prompts[:-1]:
        name, _, value = lines[i].removeprefix(">>> ").partition(" = ")
        dtype, _, elements = value.partition(" ")
        operands[name.removeprefix("%")] = BY_NAME[dtype].array(_literal(elements))
    expression = lines[prompts[-1]].removeprefix(">>> ")
    return Example(operands, expression, _literal(" ".join(lines[prompts[-1] + 1 :])))


def _literal(text: str) -> object:
    return eval(text, {"__builtins__": {}}, {"nan": np.nan, "inf": np.inf})


@dataclass(frozen=True, slots=True)
class Coverage:
    """The cells of one operator: `yes`, what takes the place of a yes, or why not."""

    dtypes: str
    dynamic: str
    empty: str
    rank_0: str


@dataclass(frozen=True, slots=True)
class Variant:
    """Operand types and attributes of a legal call, or the reason why there is none."""

    types: tuple[Type, ...] = ()
    attrs: Attrs = field(default_factory=Attrs)
    reason: str = ""


def coverage(op: Operator, table: Mapping[str, Op]) -> Coverage:
    """Return the cells of an operator of a table."""
    types, attrs = _example_types(op, table)
    empty, rank_0 = empty_call(op, table), rank_0_call(op, table)
    return Coverage(
        _dtypes(op), _dynamic(op, types, attrs), empty.reason or YES, rank_0.reason or YES
    )


def example_values(op: Operator, table: Mapping[str, Op]) -> tuple[Any, ...]:
    """Return the operands of the example of an operator of a table."""
    return _example_call(op, table)[0]


def _example_call(op: Operator, table: Mapping[str, Op]) -> tuple[tuple[Any, ...], Attrs]:
    example = read_example(op)
    params = ", ".join(f"%{name}: _" for name in example.operands)
    function = parse_expr(f"fn ({params}) {{ {example.expression} }}", table)
    assert isinstance(function, Function)
    body = function.body
    while isinstance(body, TupleGetItem):
        body = body.tuple_value
    assert isinstance(body, Call), op.name

    def value_of(expr: Expr) -> Any:
        match expr:
            case Var(name):
                return example.operands[name]
            case Constant(data):
                return data
            case Tuple(fields):
                return tuple(map(value_of, fields))
            case _:
                raise AssertionError(f"the example of `{op.name}` is one call of operands")

    return tuple(map(value_of, body.args)), body.attrs


def _example_types(op: Operator, table: Mapping[str, Op]) -> tuple[tuple[Type, ...], Attrs]:
    values, attrs = _example_call(op, table)
    return tuple(map(_type_of, values)), attrs


def _type_of(value: Any) -> Type:
    if isinstance(value, tuple):
        return TupleType(tuple(map(_type_of, value)))
    return TensorType(value.shape, dtype_of(value.dtype))


def _dtypes(op: Operator) -> str:
    groups = [_group(o.constraint.dtypes) for o in op.constrained_operands]
    kinds = [
        "the same" if o.constraint.same_as_previous and i else group
        for i, (o, group) in enumerate(zip(op.constrained_operands, groups))
    ]
    if not kinds:
        return "any, by `dtype`" if any(a.name == "dtype" for a in op.attributes) else "of its own"
    return kinds[0] if len(set(kinds)) == 1 else "; ".join(kinds)


_GROUPS: tuple[tuple[str, tuple[DType, ...]], ...] = (
    ("any", DTYPES),
    ("numbers", NUMERIC),
    ("floats", FLOATS),
    ("integers", INTEGERS),
    ("integers, bool", (*INTEGERS, BY_NAME["bool"])),
)


def _group(dtypes: Sequence[DType]) -> str:
    for name, members in _GROUPS:
        if set(members) == set(dtypes):
            return name
    return ", ".join(d.name for d in dtypes)


def _dynamic(op: Operator, types: Sequence[Type], attrs: Attrs) -> str:
    given = [_resized(t, lambda _: ANY) for t in types]
    try:
        trace_shape(op, given, attrs)
    except ShapeError as failure:
        return _with_some_known(op, types, given, attrs) or failure.message
    return "yes, sizes follow from values" if op.is_data_dependent else YES


def _with_some_known(
    op: Operator, types: Sequence[Type], unknown: Sequence[Type], attrs: Attrs
) -> str:
    """Return which operands' sizes must be known: one, or all vectors; "" if that is not enough."""
    every = range(len(types))
    vectors = [i for i in every if isinstance(t := types[i], TensorType) and t.rank == 1]
    for known in (*((i,) for i in every), vectors, [i for i in vectors if i]):
        try:
            given = [types[i] if i in known else unknown[i] for i in every]
            trace_shape(op, given, attrs)
        except ShapeError:
            continue
        names = ", ".join(f"`{op.operands[i].name}`" for i in known)
        return f"yes, where the size of {names} is known"
    return ""


def empty_call(op: Operator, table: Mapping[str, Op]) -> Variant:
    """Return the example with a size of 0."""
    types, attrs = _example_types(op, table)
    if not types:
        return Variant(reason="yes, by `shape`")
    tensors = [tensor for t in types for tensor in tensors_of(t)]
    sizes = dict.fromkeys(d for tensor in tensors for d in tensor.shape)
    if not sizes:
        return Variant(reason="operands have rank 0")
    by_size = [[_resized(t, _zero_of(size)) for t in types] for size in sizes]
    axes = range(max(tensor.rank for tensor in tensors))
    by_axis = [[_emptied(t, axis) for t in types] for axis in axes]
    return _first_accepted(op, attrs, [*by_axis, *by_size])


def _zero_of(size: Dim) -> Callable[[Dim], Dim]:
    return lambda d: 0 if d == size else d


def _emptied(given: Type, axis: int) -> Type:
    if isinstance(given, TupleType):
        return TupleType(tuple(_emptied(t, axis) for t in given.fields))
    assert isinstance(given, TensorType)
    shape = tuple(0 if i == axis else d for i, d in enumerate(given.shape))
    return TensorType(shape, given.dtype)


def rank_0_call(op: Operator, table: Mapping[str, Op]) -> Variant:
    """Return the example with a first operand, or all, of rank 0."""
    types, attrs = _example_types(op, table)
    if not types:
        return Variant(reason="yes, by `shape`")
    if all(tensor.rank == 0 for tensor in tensors_of(types[0])):
        return Variant(types, attrs)
    kept = {
        a.name: attrs[a.name]
        for a in op.attributes
        if a.name in attrs and (a.required or a.name not in ("axis", "axes"))
    }
    first = [_scalar(types[0]), *types[1:]]
    every = [_scalar(t) for t in types]
    return _first_accepted(op, Attrs(kept), [every, first])


def _first_accepted(op: Operator, attrs: Attrs, candidates: Sequence[Sequence[Type]]) -> Variant:
    """Return the first list of types that the rule takes, else what it says of the last."""
    reason = ""
    for types in candidates:
        try:
            op.result_type(types, attrs)
        except ShapeError as failure:
            reason = failure.message
        else:
            return Variant(tuple(types), attrs)
    return Variant(reason=reason)


def _resized(given: Type, size: Callable[[Dim], Dim]) -> Type:
    if isinstance(given, TupleType):
        return TupleType(tuple(_resized(t, size) for t in given.fields))
    assert isinstance(given, TensorType)
    return TensorType(tuple(size(d) for d in given.shape), given.dtype)


def _scalar(given: Type) -> Type:
    if isinstance(given, TupleType):
        return TupleType(tuple(map(_scalar, given.fields)))
    assert isinstance(given, TensorType)
    return TensorType((), given.dtype)
