"""`arange` gives every element that is due, at compile time, in the evaluator and at run time."""

from __future__ import annotations

import numpy as np
import pytest

import relayvm
from relayvm.base.diagnostics import RelayError, Trap
from relayvm.compiler.evaluate import Evaluator
from relayvm.compiler.infer_types import infer_types
from relayvm.ops import OPS

PROGRAM = """
def @main(%a: {d}, %b: {d}, %s: {d}) {{ arange(%a, %b, %s) }}
"""
MACHINES: dict[str, tuple[relayvm.Module, relayvm.VirtualMachine]] = {}


def machine(dtype: str) -> tuple[relayvm.Module, relayvm.VirtualMachine]:
    if dtype not in MACHINES:
        module = infer_types(relayvm.parse(PROGRAM.format(d=dtype)))
        MACHINES[dtype] = module, relayvm.VirtualMachine(relayvm.compile(module, opt_level=1))
    return MACHINES[dtype]


INTEGERS = [
    ("int64", -(2**63), 2**63 - 1, 2**62),
    ("int64", 2**63 - 1, -(2**63), -(2**62)),
    ("int64", 2**63 - 1, -(2**63), -(2**63)),
    ("int64", -(2**63), -(2**63) + 1, 2**63 - 1),
    ("int64", 5, 5, -1),
    ("int64", 5, 2, 1),
    ("uint64", 0, 2**64 - 1, 2**62),
    ("uint64", 0, 2**64 - 1, 2**63),
    ("uint64", 2**64 - 2, 2**64 - 1, 2**64 - 1),
    ("uint64", 7, 2, 1),
    ("int8", -128, 127, 100),
    ("int8", 127, -128, -128),
    ("uint8", 250, 255, 2),
    ("int32", 1, 9, 0),
]


@pytest.mark.parametrize(("dtype", "start", "end", "step"), INTEGERS)
def test_a_range_of_integers_is_that_of_python(dtype, start, end, step) -> None:
    expected = list(range(start, end, step)) if step else []
    args = [np.array(v, dtype) for v in (start, end, step)]
    module, vm = machine(dtype)
    for values in (
        OPS["arange"].evaluate(args, {}),
        Evaluator(module).call("main", args),
        vm.run(*args),
    ):
        assert values.dtype == dtype and values.tolist() == expected


FLOATS = [
    (0, 1, 0.25),
    (1, 0, 0.25),
    (1, 0, -0.25),
    (3, 3, 1),
    (0, 1, 0),
    (1, 0, 0),
    (0, 1e-30, 1e30),
    (0, -1e-30, 1e30),
    (0, -1e-30, -1e30),
]


@pytest.mark.parametrize(("start", "end", "step"), FLOATS)
def test_a_range_of_floats_is_that_of_numpy(start, end, step) -> None:
    args = [np.array(v, np.float32) for v in (start, end, step)]
    expected = np.arange(start, end, step, np.float32) if step else np.empty(0, np.float32)
    module, vm = machine("float32")
    for values in (
        OPS["arange"].evaluate(args, {}),
        Evaluator(module).call("main", args),
        vm.run(*args),
    ):
        assert values.tolist() == expected.tolist()


INFINITE = [
    (0, np.inf, 1),
    (0, np.nan, 1),
    (-np.inf, 0, 1),
    (np.nan, 0, 0),
    (0, 1, np.inf),
    (0, 1, np.nan),
    (0, 3e38, 1e-38),
]


@pytest.mark.parametrize(("start", "end", "step"), INFINITE)
def test_a_range_without_a_finite_length_traps(start, end, step) -> None:
    args = [np.array(v, np.float32) for v in (start, end, step)]
    module, vm = machine("float32")
    for run in (vm.run, lambda *a: Evaluator(module).call("main", list(a))):
        with pytest.raises(Trap) as caught:
            run(*args)
        assert caught.value.code == "bad-value"
        assert caught.value.span is not None
    assert vm.run(*(np.array(v, np.float32) for v in (0, 2, 1))).tolist() == [0, 1]


def test_a_constant_range_without_a_finite_length_is_an_error() -> None:
    with pytest.raises(RelayError) as caught:
        relayvm.compile(relayvm.parse("def @main() { arange(0f, inff, 1f) }"))
    assert caught.value.code == "bad-value" and not isinstance(caught.value, Trap)
    assert "`arange`: a distance of inf in steps of 1 has no finite number" in caught.value.message


@pytest.mark.parametrize("level", [0, 1, 3])
def test_a_range_that_is_found_to_be_infinite_traps_where_it_is_reached(level: int) -> None:
    text = """
    def @main(%c: bool) {
      let %step = 1f;
      if (%c) { arange(0f, %step / 0f, %step) } else { arange(0f, 2f, %step) }
    }"""
    vm = relayvm.VirtualMachine(relayvm.compile(relayvm.parse(text), opt_level=level))
    assert vm.run(False).tolist() == [0, 1]
    with pytest.raises(Trap) as caught:
        vm.run(True)
    assert caught.value.code == "bad-value"


def test_a_range_longer_than_memory_traps() -> None:
    _, vm = machine("uint64")
    with pytest.raises(Trap) as caught:
        vm.run(*(np.array(v, np.uint64) for v in (0, 2**64 - 1, 1)))
    assert caught.value.code == "size-overflow"
