"""A rule gives a type or a ShapeError for any operands and attributes, never another exception."""

from __future__ import annotations

import random
import zlib
from typing import Any

import pytest
from operator_cases import CASES, dtypes_of, types_of

from relayvm.base.dims import ANY, Dim, DimVar, symbol
from relayvm.base.dtypes import BOOL, DTYPES, FLOAT32, INT32, INT64
from relayvm.base.error_codes import ERROR_CODES
from relayvm.base.shapes import ShapeError, shape_context
from relayvm.ir.types import FuncType, RefType, TensorType, TupleType, Type
from relayvm.ops import OPS, trace_shape
from relayvm.ops.operator import Operator

N, M = symbol(DimVar("n")), symbol(DimVar("m"))
DIMS: list[Dim] = [0, 1, 2, 3, 3, 6, N, N, M, N * 2, N + M, ANY, ANY]
ROUNDS = 150


def some_tensor(rng: random.Random) -> TensorType:
    dtype = rng.choice([FLOAT32] * 6 + [INT32, INT64, BOOL])
    return TensorType(tuple(rng.choice(DIMS) for _ in range(rng.choice([0, 1, 2, 2, 3]))), dtype)


def some_type(rng: random.Random, tuple_wanted: bool, like: Type | None) -> Type:
    kind = rng.random()
    if kind < 0.04:
        return rng.choice([FuncType((), TupleType(())), RefType(TupleType(())), TupleType(())])
    if (kind < 0.9) == tuple_wanted:
        first = some_tensor(rng)
        return TupleType((first, *(rng.choice([first, some_tensor(rng)]) for _ in range(2))))
    return like if like is not None and kind < 0.5 else some_tensor(rng)


def some_ints(rng: random.Random) -> tuple[int, ...]:
    return tuple(
        rng.choice([-5, -4, -3, -2, -1, 0, 0, 1, 1, 2, 3, 9]) for _ in range(rng.randint(0, 3))
    )


def some_attribute(rng: random.Random, kind: str) -> Any:
    if kind.endswith(" | None") and rng.random() < 0.3:
        return None
    match kind.removesuffix(" | None"):
        case "int":
            return rng.choice([-3, -2, -1, 0, 0, 1, 2, 5])
        case "bool":
            return rng.choice([True, False])
        case "float":
            return rng.choice([-1.0, 0.0, 1e-5, float("inf"), float("nan")])
        case "str":
            return rng.choice(["clip", "wrap", "end", "size", "other"])
        case "DType":
            return rng.choice([d.name for d in DTYPES] + ["text"])
        case "Dim":
            return rng.choice(DIMS)
        case "Ints":
            return some_ints(rng)
        case "Dims":
            return tuple(rng.choice([*DIMS, -1, -2, -3, -4]) for _ in range(rng.randint(0, 4)))
        case _:
            return rng.choice([some_ints(rng), rng.choice([-1, 0, 1, 2, 3])])


def some_call(op: Operator, rng: random.Random) -> tuple[list[Type], dict[str, Any]]:
    if rng.random() < 0.3:
        return near_a_case(op, rng)
    types: list[Type] = []
    for operand in op.constrained_operands:
        types.append(some_type(rng, operand.constraint.is_tuple, types[-1] if types else None))
    attrs = {
        row.name: some_attribute(rng, row.kind)
        for row in op.attributes
        if rng.random() < (0.95 if row.required else 0.5)
    }
    return types, attrs


def near_a_case(op: Operator, rng: random.Random) -> tuple[list[Type], dict[str, Any]]:
    """Return a legal call, sometimes with one operand or attribute replaced."""
    case = rng.choice(CASES[op.name])
    types = list(types_of(case, next(dtypes_of(op, case))))
    attrs = dict(case.attrs)
    if types and rng.random() < 0.3:
        types[rng.randrange(len(types))] = some_type(rng, False, None)
    if op.attributes and rng.random() < 0.3:
        row = rng.choice(op.attributes)
        attrs[row.name] = some_attribute(rng, row.kind)
    return types, attrs


@pytest.mark.parametrize("name", sorted(OPS))
def test_a_rule_gives_a_type_or_a_shape_error(name: str) -> None:
    op, rng = OPS[name], random.Random(zlib.crc32(name.encode()))
    accepted = 0
    for _ in range(ROUNDS):
        types, attrs = some_call(op, rng)
        try:
            with shape_context():
                result = op.result_type(types, attrs)
            assert isinstance(result, (TensorType, TupleType))
            accepted += 1
        except ShapeError as error:
            assert error.code in ERROR_CODES
            assert error.message[0].islower() or error.message[0] == "`"
            assert not error.message.endswith(".")
            assert f"`{name}`" in error.message
    assert accepted, f"`{name}` accepted none of {ROUNDS}"


@pytest.mark.parametrize("name", sorted(OPS))
def test_a_traced_rule_gives_dims_without_unknowns_or_a_shape_error(name: str) -> None:
    op, rng = OPS[name], random.Random(zlib.crc32(name.encode()))
    for _ in range(ROUNDS):
        types, attrs = some_call(op, rng)
        try:
            trace = trace_shape(op, types, attrs)
        except ShapeError:
            continue
        parts = trace.result.fields if isinstance(trace.result, TupleType) else (trace.result,)
        for tensor in parts:
            assert isinstance(tensor, TensorType)
            assert ANY not in tensor.shape
