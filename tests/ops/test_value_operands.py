"""Of a data-dependent operator, only operands that its row names are read to find the shape."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from operator_cases import CASES, dtypes_of, types_of, values_of

from relayvm.kernels.compute import Placeholder, Program, TensorLoad, placeholder
from relayvm.ops import OPS

DEPENDENT = sorted(n for n, row in OPS.items() if row.is_data_dependent)
# Here every operand decides on the shape; each row says why.
ALL_OPERANDS = {
    "arange": "the length follows from start, end and step",
    "argwhere": "the only operand: the number of elements that are not zero",
    "dyn.ones": "the only operand is the shape",
    "dyn.zeros": "the only operand is the shape",
    "unique": "the only operand: the number of different elements",
}


def operands_read(result: Any) -> set[str]:
    """Return the names of the inputs of which elements are loaded on the way to `result`."""
    read: set[str] = set()
    seen: set[int] = set()
    pending = [result]
    while pending:
        node = pending.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        loads = [node.tensor] if isinstance(node, TensorLoad) else []
        loads += list(node.inputs) if isinstance(node, Program) else []
        read |= {t.name for t in loads if isinstance(t.op, Placeholder)}
        pending += parts(node)
    return read


def parts(node: Any) -> Iterator[Any]:
    if isinstance(node, (list, tuple)):
        yield from node
    elif dataclasses.is_dataclass(node):
        yield from (getattr(node, f.name) for f in dataclasses.fields(node))


@pytest.mark.parametrize("name", DEPENDENT)
def test_a_row_flags_some_operands_or_there_is_a_reason_for_all(name: str) -> None:
    row = OPS[name]
    names = {operand.name for operand in row.operands}
    if name in ALL_OPERANDS:
        assert not row.value_operands
    else:
        assert set() < set(row.value_operands) < names


@pytest.mark.parametrize("name", DEPENDENT)
def test_only_flagged_operands_are_read_to_find_the_shape(name: str) -> None:
    row = OPS[name]
    flagged = set(row.value_operands) or {operand.name for operand in row.operands}
    read: set[str] = set()
    for case in CASES[name]:
        for dtypes in dtypes_of(row, case):
            tensors = [
                placeholder(operand.name, shape, dtype)
                for operand, shape, dtype in zip(row.operands, case.shapes, dtypes)
            ]
            read |= operands_read(row.lower_dims(tensors, case.attrs))
    assert read == flagged


@pytest.mark.parametrize("name", sorted(set(DEPENDENT) - set(ALL_OPERANDS)))
def test_constants_in_the_flagged_operands_alone_give_the_shape(name: str) -> None:
    row = OPS[name]
    rng = np.random.default_rng(0)
    for case in CASES[name]:
        for dtypes in dtypes_of(row, case):
            values = values_of(case, dtypes, rng, special=False)
            partly = [
                value if operand.name in row.value_operands else kind
                for operand, value, kind in zip(row.operands, values, types_of(case, dtypes))
            ]
            assert row.value_type(partly, case.attrs) == row.value_type(values, case.attrs)
