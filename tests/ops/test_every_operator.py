"""Completeness of the operator table: every row has every facet, and the facets agree."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pytest
from operator_cases import CASES, Case, dtypes_of, types_of, values_of
from operator_compare import assert_same
from operator_kernels import compute_result

from relayvm.base.dims import ANY, Dim, DimVar, dim_value, symbol
from relayvm.base.dtypes import dtype_of
from relayvm.base.shapes import ShapeError
from relayvm.ir.types import TensorType, TupleType, Type
from relayvm.ops import OPS, trace_shape
from relayvm.ops.operator import Operator
from relayvm.ops.tracing import check_equation, tensors_of

NAMES = sorted(OPS)


def seeded(name: str, case: Case) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(f"{name} {case.shapes} {case.attrs}".encode()))


def type_of_value(value: Any) -> Type:
    if isinstance(value, tuple):
        return TupleType(tuple(type_of_value(v) for v in value))
    return TensorType(value.shape, dtype_of(value.dtype))


def with_unknown_dims(given: Type) -> Type:
    if isinstance(given, TupleType):
        return TupleType(tuple(with_unknown_dims(t) for t in given.fields))
    assert isinstance(given, TensorType)
    return TensorType((ANY,) * given.rank, given.dtype)


def test_every_operator_has_cases() -> None:
    assert set(CASES) == set(OPS)


@pytest.mark.parametrize("name", NAMES)
def test_a_row_is_complete(name: str) -> None:
    op = OPS[name]
    assert {"numpy", "compute"} <= set(op.facets)
    assert ("gradient" in op.facets) != bool(op.no_gradient)
    assert ("value_shape" in op.facets) == ("value_dims" in op.facets)
    assert op.doc.split("\n\n")[0].endswith(".")
    assert ">>> " in op.doc


@pytest.mark.parametrize("name", NAMES)
def test_the_rule_gives_the_type_of_what_numpy_returns(name: str) -> None:
    op = OPS[name]
    for case in CASES[name]:
        for dtypes in dtypes_of(op, case):
            values = values_of(case, dtypes, seeded(name, case), special=True)
            result = op.evaluate(values, case.attrs)
            if op.is_data_dependent:
                promised = op.value_type(values, case.attrs)
            else:
                promised = op.result_type(types_of(case, dtypes), case.attrs)
            assert type_of_value(result) == promised, (case, dtypes)


@pytest.mark.parametrize("name", NAMES)
def test_the_rule_over_unknown_dims_is_a_program_for_the_dims(name: str) -> None:
    op = OPS[name]
    for case in CASES[name]:
        dtypes = next(dtypes_of(op, case))
        types = types_of(case, dtypes)
        if name == "squeeze" and "axis" not in case.attrs:
            with pytest.raises(ShapeError, match="needs known sizes"):
                trace_shape(op, [with_unknown_dims(t) for t in types], case.attrs)
            continue
        free = [t for i, t in enumerate(types) if i not in case.known]
        given = [t if i in case.known else with_unknown_dims(t) for i, t in enumerate(types)]
        trace = trace_shape(op, given, case.attrs)
        sizes = [n for t in free for tensor in tensors_of(t) for n in tensor.shape]
        known = dict(zip(trace.fresh, sizes))
        assert len(known) == len(sizes)
        for check in trace.checks:
            left, right = check_equation(check)
            assert dim_value(left, known) == dim_value(right, known), (case, check)
        if op.is_data_dependent:
            left_open = [d for t in tensors_of(op.result_type(types, case.attrs)) for d in t.shape]
            assert len(trace.value_dims) == left_open.count(ANY)
            continue
        static = op.result_type(types, case.attrs)
        assert len(list(tensors_of(static))) == len(list(tensors_of(trace.result)))
        for a, b in zip(tensors_of(static), tensors_of(trace.result)):
            assert a.shape == tuple(dim_value(d, known) for d in b.shape), case
            assert a.dtype is b.dtype


def with_symbols(given: Type, symbols: dict[Dim, DimVar]) -> Type:
    """Return the type with a symbol for each size but 1, the same for equal sizes."""
    if isinstance(given, TupleType):
        return TupleType(tuple(with_symbols(t, symbols) for t in given.fields))
    assert isinstance(given, TensorType)
    shape = [d if d == 1 else symbol(symbols.setdefault(d, DimVar(f"n{d}"))) for d in given.shape]
    return TensorType(tuple(shape), given.dtype)


@pytest.mark.parametrize("name", NAMES)
def test_the_rule_over_symbols_is_the_rule_over_their_values(name: str) -> None:
    op = OPS[name]
    for case in CASES[name]:
        if (name == "squeeze" and "axis" not in case.attrs) or op.is_data_dependent:
            continue
        types = types_of(case, next(dtypes_of(op, case)))
        symbols: dict[Dim, DimVar] = {}
        given = [t if i in case.known else with_symbols(t, symbols) for i, t in enumerate(types)]
        symbolic = op.result_type(given, case.attrs)
        values = {variable: int(str(size)) for size, variable in symbols.items()}
        static = op.result_type(types, case.attrs)
        for a, b in zip(tensors_of(static), tensors_of(symbolic), strict=True):
            assert a.shape == tuple(dim_value(d, values) for d in b.shape), case


def _compared(op: Operator, case: Case, dtypes: Any, symbolic: bool) -> None:
    types = types_of(case, dtypes)
    values = values_of(
        case, dtypes, seeded(op.name, case), special=op.fusion.value != "contraction"
    )
    expected = op.evaluate(values, case.attrs)
    actual = compute_result(op, types, values, case.attrs, symbolic, case.known)
    assert_same(op, types, case.attrs, actual, expected, f"{op.name} {case} {dtypes}")


@pytest.mark.parametrize("name", NAMES)
def test_the_kernel_computes_what_numpy_does_for_all_dtypes(name: str) -> None:
    op = OPS[name]
    for case in CASES[name]:
        for dtypes in dtypes_of(op, case):
            _compared(op, case, dtypes, symbolic=False)


@pytest.mark.parametrize("name", NAMES)
def test_the_kernel_over_unknown_dims_computes_what_numpy_does(name: str) -> None:
    op = OPS[name]
    for case in CASES[name]:
        if name == "squeeze" and "axis" not in case.attrs:
            continue
        _compared(op, case, next(dtypes_of(op, case)), symbolic=True)
