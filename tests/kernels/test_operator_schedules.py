"""The schedule of every operator, over known and unknown dims, has its naive nest's bits."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from relayvm.base.dtypes import FLOAT32
from relayvm.base.target import Target
from relayvm.kernels import compute as te
from relayvm.kernels.interpret import interpret
from relayvm.kernels.lower import Computation, dim_names, in_place_pairs, lower
from relayvm.kernels.parser import parse_nest
from relayvm.kernels.printer import print_nest
from relayvm.kernels.schedule import schedule
from relayvm.kernels.verify import verify_nest
from relayvm.ops import OPS
from relayvm.ops.reshaping import reindexed

sys.path.insert(0, str(Path(__file__).parents[1] / "ops"))
import operator_cases as cases
import operator_kernels as kernels

TARGETS = (Target(cpu="skylake-avx512"), Target(cpu="generic"))


def run_both(outputs, inputs, arrays, sizes, strided):
    """Run both nests; where sizes are known the rounds of the scheduled one are held against races,
    which takes long.
    """
    computation = Computation("test", tuple(inputs), tuple(outputs), tuple(sizes), strided)
    names = dim_names(tuple(sizes))
    dims = {names[v]: size for v, size in sizes.items()}
    plain = lower(computation)
    naive = interpret(plain, arrays, dims)
    nest = schedule(computation, TARGETS[len(print_nest(plain)) % 2])
    verify_nest(nest)
    count = len(inputs)
    shared = {f"out{o - count}": f"in{i}" for o, i in in_place_pairs(computation)}
    results = interpret(nest, arrays, dims, slices=1 if sizes else None, in_place=shared)
    for a, b in zip(results, naive, strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        if a.tobytes() != b.tobytes():  # only which NaN it is may differ
            np.testing.assert_array_equal(a, b)
    return naive


@pytest.mark.slow
@pytest.mark.parametrize("symbolic", [False, True], ids=["static", "unknown"])
def test_every_operator_keeps_its_bits_when_scheduled(symbolic, monkeypatch, caplog):
    monkeypatch.setattr(kernels, "run", run_both)
    for name, op in OPS.items():
        for case in cases.CASES[name]:
            if symbolic and name == "squeeze" and "axis" not in case.attrs:
                continue
            dtypes = next(cases.dtypes_of(op, case))
            rng = np.random.default_rng(len(name))
            values = cases.values_of(case, dtypes, rng, special=op.fusion.value != "contraction")
            types = cases.types_of(case, dtypes)
            kernels.compute_result(op, types, values, case.attrs, symbolic, case.known)
            unscheduled = [r for r in caplog.records if "is not scheduled" in r.getMessage()]
            assert not unscheduled, (name, case)


@pytest.mark.parametrize("target", TARGETS, ids=["wide", "narrow"])
def test_products_of_bytes_keep_their_bits_where_zero_points_may_be_one_or_many(
    target, monkeypatch, caplog
):
    monkeypatch.setattr(sys.modules[__name__], "TARGETS", (target, target))
    monkeypatch.setattr(kernels, "run", run_both)
    for case in cases.CASES["qnn.dense"]:
        dtypes = next(cases.dtypes_of(OPS["qnn.dense"], case))
        values = cases.values_of(case, dtypes, np.random.default_rng(3), special=False)
        types = cases.types_of(case, dtypes)
        kernels.compute_result(OPS["qnn.dense"], types, values, case.attrs, True, case.known)
        assert not caplog.records, case


def test_places_that_come_back_to_themselves_run_as_one_axis() -> None:
    x = te.placeholder("x", (2, 3, 4), FLOAT32)
    same = reindexed(x, (2, 3, 4), "same")
    text = print_nest(schedule(Computation("same", (x,), (same,)), TARGETS[0]))
    assert "axis" not in text
    assert parse_nest(text).phases
