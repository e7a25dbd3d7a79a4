"""Results of types 10,000 levels deep come back; over 20,000 levels they are refused."""

from __future__ import annotations

import numpy as np
import pytest

import relayvm
from relayvm.base.diagnostics import RelayError

NESTS = {
    "tuples": ("(", ",)"),
    "functions": ("fn (%a: int32) { ", " }"),
    "references": ("ref(", ")"),
}


def program(kind: str, depth: int) -> relayvm.Module:
    begin, end = NESTS[kind]
    return relayvm.parse("def @main(%x: int32) { " + begin * depth + "%x" + end * depth + " }")


@pytest.mark.slow
@pytest.mark.parametrize("kind", NESTS)
def test_a_result_of_10000_levels_comes_back(kind: str) -> None:
    result = relayvm.VirtualMachine(relayvm.compile(program(kind, 10_000))).run(np.int32(3))
    if kind == "tuples":
        for _ in range(10_000):
            (result,) = result
        assert result == 3


@pytest.mark.slow
def test_deeper_ones_are_refused() -> None:
    with pytest.raises(RelayError, match="nest deeper than 20000") as raised:
        relayvm.compile(program("tuples", 20_001))
    assert raised.value.code == "too-deep"
