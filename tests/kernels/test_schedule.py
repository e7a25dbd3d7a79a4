"""Schedules keep the bits of the naive nest, on any shape, target and slicing."""

from __future__ import annotations

import zlib

import numpy as np
import pytest

from relayvm.base.dtypes import FLOAT32
from relayvm.base.target import Target
from relayvm.kernels import compute as c
from relayvm.kernels import schedule as scheduling
from relayvm.kernels.interpret import interpret
from relayvm.kernels.lower import Computation, in_place_pairs, lower
from relayvm.kernels.parser import parse_nest
from relayvm.kernels.printer import print_nest
from relayvm.kernels.schedule import schedule
from relayvm.kernels.verify import verify_nest

from .computations import FAMILIES, Random

TARGETS = (Target(cpu="skylake-avx512"), Target(cpu="generic"))
SHAPES_PER_FAMILY = 18


def shared(computation: Computation) -> dict[str, str]:
    """Return the buffers of outputs that may lie in the memory of an input, with that of it."""
    count = len(computation.inputs)
    return {f"out{o - count}": f"in{i}" for o, i in in_place_pairs(computation)}


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.__name__)
def test_scheduled_nests_give_the_bits_of_naive_ones(family):
    for number in range(SHAPES_PER_FAMILY):
        case = family(Random(zlib.crc32(f"{family.__name__} {number}".encode())))
        naive = interpret(lower(case.computation), case.arrays, case.dims)
        nest = schedule(case.computation, TARGETS[number % 2])
        verify_nest(nest)
        slices = (1, 2, None)[number % 3]  # None: rounds must not race
        results = interpret(nest, case.arrays, case.dims, slices, shared(case.computation))
        for a, b in zip(naive, results, strict=True):
            assert (a.dtype, a.shape) == (b.dtype, b.shape)
            assert a.tobytes() == b.tobytes(), f"{number}: {case.dims}\n{print_nest(nest)}"
        for a, b in zip(results, case.expected or ()):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)
        text = print_nest(nest)
        assert parse_nest(text) == nest
        if family.__name__ == "strided_read":
            continue  # Some of its indices are literals, which may be outside.
        # Only a loaded index needs a check: all other accesses are proved.
        if family.__name__ != "gather":  # Those that are clipped stay inside by what they are.
            assert ("index(" in text) == (family.__name__ in ("take", "clipped"))
        assert family.__name__.startswith("pad") or "broadcast(0, 16)), less" not in text


def test_a_fault_of_a_recipe_costs_speed_not_the_program(monkeypatch, caplog):
    def fault(*_):
        raise KeyError("axis")

    monkeypatch.setattr(scheduling, "_stage_phases", fault)
    x = c.placeholder("x", (40,), FLOAT32)
    computation = Computation("twice", (x,), (c.compute((40,), lambda i: x[i] * 2.0),))
    assert schedule(computation) == lower(computation)
    assert "twice is not scheduled: KeyError" in caplog.text


@pytest.mark.parametrize(
    ("rounds", "race"),
    [
        ("out0[i] = in0[i]", None),
        ("out0[0] = in0[i]", "round 6 of a phase and round 7 meet in `out0`"),
        ("tmp0[i] = in0[i]\n    let v = tmp0[(7 - i)]\n    out0[i] = v", "meet in `tmp0`"),
        ("let v = tmp0[floor_divide(i, 2)]\n    tmp0[i] = v", "meet in `tmp0`"),
        ("let v = in0[(7 - i)]\n    out0[i] = v", "meet in `out0`"),
    ],
)
def test_rounds_of_a_phase_that_race_are_found(rounds, race):
    text = f"""
nest @rounds {{
  input in0: float32[8]
  output out0: float32[8]
  scratch tmp0: float32[8]
  phase i < 8 {{
    {rounds}
  }}
}}
"""
    nest, arrays = parse_nest(text), [np.ones(8, np.float32)]
    if race is None:
        interpret(nest, arrays, {}, None)
        return
    with pytest.raises(AssertionError, match=race):
        interpret(nest, arrays, {}, None, {"out0": "in0"})
