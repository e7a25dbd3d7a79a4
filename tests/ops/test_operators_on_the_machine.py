"""Operators through the whole compiler and the machine, at static and unknown shapes."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from operator_cases import CASES, Case, dtypes_of, types_of, values_of
from operator_compare import assert_same

import relayvm
from relayvm.base.dims import ANY
from relayvm.base.dtypes import FLOAT32, DType
from relayvm.compiler.infer_types import infer_types
from relayvm.ir.expr import Attrs, Call, Function, Var
from relayvm.ir.module import Module
from relayvm.ir.types import TensorType, TupleType, Type
from relayvm.ops import OPS, Fusion
from relayvm.ops.operator import Operator


def unknown(given: Type) -> Type:
    if isinstance(given, TupleType):
        return TupleType(tuple(unknown(t) for t in given.fields))
    assert isinstance(given, TensorType)
    return TensorType((ANY,) * given.rank, given.dtype)


def chosen(op: Operator, case: Case, first: bool) -> Iterator[tuple[DType, ...]]:
    """Yield float32, and for the first case all other dtypes."""
    rows = list(dtypes_of(op, case))
    preferred = [r for r in rows if r and r[0] is FLOAT32] or rows[:1]
    yield from rows if first else preferred[:1]


def _has_a_twin(name: str) -> bool:
    """Return whether an operator is that of two axes of space, over one or three."""
    return any(axes in name for axes in ("1d", "3d"))


def program(mode: str) -> tuple[Module, list[tuple[str, Operator, Case, tuple[DType, ...]]]]:
    """Return one module with a function for each call, and what each function is."""
    functions: dict[str, Function] = {}
    calls = []
    for name, cases in sorted(CASES.items()):
        op = OPS[name]
        for i, case in enumerate(cases):
            if name == "squeeze" and "axis" not in case.attrs and mode == "unknown":
                continue
            every_dtype = i == 0 and mode == "static" and not _has_a_twin(name)
            for k, dtypes in enumerate(chosen(op, case, every_dtype)):
                types = types_of(case, dtypes)
                if mode == "unknown":
                    types = tuple(t if i in case.known else unknown(t) for i, t in enumerate(types))
                params = tuple(Var(o.name, t) for o, t in zip(op.operands, types))
                entry = f"{name.replace('.', '_')}_{i}_{k}"
                functions[entry] = Function(params, Call(op, params, Attrs(case.attrs)))
                calls.append((entry, op, case, dtypes))
    return infer_types(Module(functions)), calls


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["static", "unknown"])
def test_the_machine_computes_what_numpy_does(mode: str) -> None:
    module, calls = program(mode)
    machine = relayvm.VirtualMachine(relayvm.compile(module))
    failures = []
    for entry, op, case, dtypes in calls:
        rng = np.random.default_rng(zlib.crc32(f"{entry}{case}".encode()))
        values: tuple[Any, ...] = values_of(
            case, dtypes, rng, special=op.fusion is not Fusion.CONTRACTION
        )
        expected = op.evaluate(values, case.attrs)
        try:
            actual = machine.invoke(entry, *values)
            assert_same(op, types_of(case, dtypes), case.attrs, actual, expected, entry)
        except (AssertionError, relayvm.RelayError) as failure:
            failures.append(f"{entry} {case} {dtypes}: {failure}")
    assert not failures, f"{len(failures)} of {len(calls)}:\n" + "\n".join(failures)
