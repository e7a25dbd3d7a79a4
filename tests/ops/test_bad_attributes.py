"""Attributes that no call may have, and sizes out of all proportion, are refused by their names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from operator_case import Case
from operator_cases import CASES, dtypes_of, types_of, values_of

import relayvm
from relayvm.base.diagnostics import RelayError, Trap
from relayvm.base.dims import ANY
from relayvm.base.dtypes import BOOL, DTYPES, INT64
from relayvm.base.shapes import ShapeError, shape_context
from relayvm.ir.build import var
from relayvm.ir.expr import Attrs, Call, Function
from relayvm.ir.module import Module
from relayvm.ir.types import TensorType, TupleType, Type
from relayvm.ops import OPS
from relayvm.ops.operator import Operator

BIG = 2**62
NAMES = sorted(OPS)
_LISTS: list[Any] = [
    *((), (-100,), (-1,), (0,), (100,), (0, 0), (-1, -1), (100, 100), (1,) * 9, (BIG,)),
    *((BIG, BIG), (0,) * 4, (-1,) * 4, (-100,) * 4, (100,) * 6),
]
ODD: dict[str, list[Any]] = {
    "int": [-100, -5, -2, -1, 0, 1, 3, 100, 1000, 2**31, BIG, -BIG],
    "float": [-1.0, 0.0, np.nan, np.inf, -np.inf, 1e300],
    "str": ["", "no", "NCHWX"],
    "Dim": [-100, -1, 0, 100, BIG],
    "DType": ["bool", "int8", "int4", "float64", "uint64"],
    "Ints": _LISTS,
    "Dims": _LISTS,
    "Floats": [(), (np.nan,), (1.0,) * 9, (np.nan,) * 4, (np.inf,) * 4, (-1.0,) * 4],
    "Pairs": [(), ((-1, -1),), ((-100, 0),) * 4, ((100, 100),) * 9, ((BIG, BIG),) * 2],
    "int | Ints": [-100, -1, 0, 100, BIG, *_LISTS],
}
WRONG: dict[str, list[Any]] = {
    "int": ["text", 1.5, True, (1,), 2**63],
    "bool": ["text", 2, 1.5, ()],
    "float": ["text", True, (1.0,)],
    "str": [1, True, ()],
    "Dim": ["text", 1.5, True],
    "DType": ["text", 1.5, object],
    "Ints": ["text", 1.5, (1.5,), ("a",), {}, 2**63],
    "Dims": ["text", 1.5, (1.5,), ("a",), {}],
    "Floats": ["text", ("a",), {}],
    "Pairs": ["text", 1, (1,), ((1, 2, 3),), {}],
    "int | Ints": ["text", 1.5, (1.5,), {}],
}
# One number for all places has no axis.
WITHOUT_AXIS = ("axis", "lhs_axis", "rhs_axis")


def chosen(name: str) -> list[tuple[Case, list[Type]]]:
    """Return a few cases of an operator with the types of their operands."""
    op = OPS[name]
    return [(c, list(types_of(c, next(dtypes_of(op, c))))) for c in CASES[name][:3]]


def refusal(op: Operator, types: list[Type], attrs: dict[str, Any]) -> str:
    """Return how a call is refused, "" if it is not; each refusal names the operator."""
    try:
        with shape_context():
            op.result_type(types, attrs)
    except ShapeError as failure:
        assert f"`{op.name}`" in failure.message
        return failure.message
    return ""


@pytest.mark.parametrize("name", NAMES)
def test_values_of_another_kind_are_refused(name: str) -> None:
    op = OPS[name]
    for case, types in chosen(name):
        for row in op.attributes:
            kind = row.kind.removesuffix(" | None")
            values = WRONG[kind] + ([] if kind != row.kind else [None])
            for value in values:
                message = refusal(op, types, {**case.attrs, row.name: value})
                assert f"`{row.name}` of `{name}` must be" in message, (row.name, value, message)


@pytest.mark.parametrize("name", NAMES)
def test_odd_values_are_taken_or_refused_by_name(name: str) -> None:
    op = OPS[name]
    for case, types in chosen(name):
        for row in op.attributes:
            for value in ODD.get(row.kind.removesuffix(" | None"), ()):
                refusal(op, types, {**case.attrs, row.name: value})


@pytest.mark.parametrize("name", NAMES)
def test_axes_that_no_operand_has_are_refused(name: str) -> None:
    op = OPS[name]
    for case, types in chosen(name):
        for row in op.attributes:
            if "axis" not in row.name and "axes" not in row.name and "dims" not in row.name:
                continue
            if name.startswith("qnn.") and row.name in WITHOUT_AXIS:
                continue
            if row.name == "num_newaxis":
                continue
            for axis in (-100, 100):
                value = (axis,) if row.kind.startswith(("Ints", "Dims")) else axis
                assert refusal(op, types, {**case.attrs, row.name: value}), (row.name, axis)


def changed(types: list[Type], which: int) -> Iterator[list[Type]]:
    """Yield operand types one of which has another dtype or rank, or is of another class."""
    given = types[which]
    others: list[Type] = [TupleType(()), TupleType((TensorType((), BOOL),) * 2)]
    if isinstance(given, TensorType):
        others += [TensorType(given.shape, dtype) for dtype in DTYPES]
        others += [TensorType((2,) * rank, given.dtype) for rank in (0, 1, 2, 3, 4, 5, 8)]
        others += [TensorType((ANY,) * rank, given.dtype) for rank in (0, 1, 2, 4, 8)]
        others.append(TensorType((BIG,) * given.rank, given.dtype))
    for other in others:
        yield [*types[:which], other, *types[which + 1 :]]


@pytest.mark.parametrize("name", NAMES)
def test_other_operands_are_taken_or_refused_by_name(name: str) -> None:
    op = OPS[name]
    for case, types in chosen(name):
        for which in range(len(types)):
            for others in changed(types, which):
                refusal(op, others, dict(case.attrs))


# -- Numbers beyond all sizes, in programs of unknown sizes --------------------------------------


def unknown(given: Type) -> Type:
    if isinstance(given, TupleType):
        return TupleType(tuple(map(unknown, given.fields)))
    assert isinstance(given, TensorType)
    return TensorType((ANY,) * given.rank, given.dtype)


def great_calls(name: str) -> Iterator[tuple[Case, dict[str, Any]]]:
    """Yield calls with an attribute that is greater than any size, as far as the rule takes it."""
    op, case = OPS[name], CASES[name][0]
    types = list(types_of(case, next(dtypes_of(op, case))))
    for row in op.attributes:
        for value in ODD.get(row.kind.removesuffix(" | None"), ()):
            attrs = {**case.attrs, row.name: value}
            if str(BIG) in str(value) and not refusal(op, types, attrs):
                yield case, attrs
                break


GREAT = [(name, *call) for name in NAMES for call in great_calls(name)]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "case", "attrs"), GREAT)
def test_great_numbers_give_a_result_or_a_reason(name: str, case: Case, attrs: Any) -> None:
    op = OPS[name]
    dtypes = next(dtypes_of(op, case))
    kinds = [t if i in case.known else unknown(t) for i, t in enumerate(types_of(case, dtypes))]
    params = tuple(var(o.name, t) for o, t in zip(op.operands, kinds))
    function = Function(params, Call(op, params, Attrs(attrs)), None, ())
    values = values_of(case, dtypes, np.random.default_rng(1), special=False)
    try:
        relayvm.VirtualMachine(relayvm.compile(Module({"main": function}))).run(*values)
    except (RelayError, Trap) as failure:
        assert f"`{name}`" in str(failure) or failure.code in ("size-overflow", "out-of-memory")


def test_a_number_that_no_size_has_is_refused_where_sizes_are_not_known() -> None:
    text = f"def @main(%x: Tensor[(?, ?), float32]) {{ tile(%x, reps=[{INT64.max}, 9]) }}"
    with pytest.raises(RelayError, match="sizes of `tile` are computed with numbers above") as seen:
        relayvm.compile(relayvm.parse(text))
    assert seen.value.code == "size-overflow"


def test_work_beyond_all_numbers_is_an_estimate_like_others() -> None:
    text = f"def @main(%x: Tensor[(1, 2), float32]) {{ nn.lrn(%x, size={BIG - 1}, alpha=0f) }}"
    relayvm.compile(relayvm.parse(text))
