"""Modules are copied and pickled whatever else was imported."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys

import numpy as np
import pytest

import relayvm
from relayvm.base.diagnostics import RelayError
from relayvm.ir.equal import structural_equal
from relayvm.ir.expr import Constant
from relayvm.ir.types import TensorType
from relayvm.ir.visit import post_order
from relayvm.ops.operator import Fusion, operator
from relayvm.ops.schema import Float

PROGRAM = """
import copy, pickle, relayvm
module = relayvm.parse("def @main(%x: int32) { (%x + 1, Cons(%x, Nil)) }")
for other in (copy.copy(module), copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
    assert str(other) == str(module) and other.library == module.library
"""


def test_a_process_that_knows_no_names_of_tvm_copies_and_pickles_modules():
    subprocess.run([sys.executable, "-c", PROGRAM], check=True)


def test_a_deep_copy_has_arrays_of_its_own():
    module = relayvm.parse("def @main() { 2f + 1f }")
    arrays = [
        [n.data for n in post_order(m["main"]) if isinstance(n, Constant)]
        for m in (module, copy.deepcopy(module))
    ]
    assert all(np.array_equal(a, b) and a is not b for a, b in zip(*arrays))


def test_a_deep_copy_keeps_the_rows_of_its_users_and_a_pickle_needs_them_in_the_table():
    @operator("steps_of_my_own", fusion=Fusion.ELEMENTWISE)
    def row(x: Float, *, scale: float = 1.0) -> TensorType:
        """`x` times `scale`."""
        return x

    text = "def @main(%x: Tensor[(2,), float32]) { steps_of_my_own(%x, scale=0.5f) + 1f }"
    module = relayvm.parse(text, operators=[row])
    other = copy.deepcopy(module)
    assert structural_equal(module, other)
    assert any(node is row for node in post_order(other["main"]))
    with pytest.raises(RelayError, match="steps_of_my_own"):
        pickle.loads(pickle.dumps(module))
