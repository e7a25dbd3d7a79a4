"""Sizes that a rule says are equal are one size in the kernel; the rule still says so at a run."""

from __future__ import annotations

import numpy as np
import pytest

import relayvm
from relayvm.base.diagnostics import Trap
from relayvm.kernels.parser import parse_nest


def nest_of(text: str) -> str:
    (kernel,) = relayvm.compile(relayvm.parse(text)).program().kernels
    return kernel.nest


DENSE = """def @main(%x: Tensor[(?, ?), float32], %w: Tensor[(?, ?), float32]) {
  nn.dense(%x, %w)
}"""


def test_products_of_unknown_sizes_ask_for_no_bound_in_their_loops() -> None:
    nest = parse_nest(nest_of(DENSE))
    x, w, _ = nest.operands
    assert x.shape[1] == w.shape[1]
    assert "greater_equal(ramp" not in nest_of(DENSE)


def test_a_size_that_a_rule_knows_is_known_in_the_kernel() -> None:
    text = """def @main(%x: Tensor[(?, 3), float32], %w: Tensor[(?, ?), float32]) {
      nn.dense(%x, %w)
    }"""
    nest = parse_nest(nest_of(text))
    assert nest.operands[0].shape[1] == nest.operands[1].shape[1]


def test_the_trap_names_what_differs_as_the_rule_does() -> None:
    machine = relayvm.VirtualMachine(relayvm.compile(relayvm.parse(DENSE)))
    x, w = np.ones((2, 3), np.float32), np.ones((4, 3), np.float32)
    np.testing.assert_array_equal(machine.run(x, w), x @ w.T)
    with pytest.raises(Trap, match="last axis of `data` and axis 1 of `weight`: 3 and 5"):
        machine.run(x, np.ones((4, 5), np.float32))


def test_sizes_that_broadcast_stay_apart() -> None:
    text = """def @main(%x: Tensor[(?), float32], %y: Tensor[(?), float32]) { add(%x, %y) }"""
    machine = relayvm.VirtualMachine(relayvm.compile(relayvm.parse(text)))
    three, one = np.arange(3, dtype=np.float32), np.ones(1, np.float32)
    np.testing.assert_array_equal(machine.run(three, one), three + 1)
    np.testing.assert_array_equal(machine.run(one, three), three + 1)
