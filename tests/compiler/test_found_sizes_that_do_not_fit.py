"""A size that a pass finds, and that what reads it does not take, is told by the run that comes
there.
"""

from __future__ import annotations

import numpy as np
import pytest

import relayvm

# What reads `%v` of (?, ?), which is (3, 2), and `%w` of (5, 2).
READERS = [
    "add(%v, %w)",
    "split(%v, indices_or_sections=[7, 11], axis=0).2",
    "split(%v, indices_or_sections=2, axis=0).0",
    "nn.dense(transpose(%v), %w)",
    "concatenate((%v, transpose(%w)), axis=0)",
    "{ let %t = (%v, %w); stack(%t, axis=0) }",
    "reshape(%v, newshape=[4, 2])",
    "squeeze(%v, axis=[0])",
    "broadcast_to(%v, shape=[7, 2])",
    'topk(%v, k=9, axis=0, ret_type="values")',
    "split_like(%v, (%w, %w), axis=0).0",
    "slice_like(%v, %w, axes=[0])",
    "nn.bias_add(%v, sum(%w, axis=[1]), axis=0)",
    "nn.mirror_pad(%v, pad_width=[[7, 7], [0, 0]])",
    "tanh(add(exp(%v), %w))",
]
OPERANDS = "%x: Tensor[(3, 2), float32], %w: Tensor[(5, 2), float32]"


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("level", [0, 1, 3])
def test_the_run_tells_what_does_not_fit(reader: str, level: int) -> None:
    text = f"def @main({OPERANDS}) {{ let %v = dyn.reshape(%x, shape_of(%x)); {reader} }}"
    vm = relayvm.VirtualMachine(relayvm.compile(relayvm.parse(text), opt_level=level))
    with pytest.raises(relayvm.Trap) as caught:
        vm.run(np.ones((3, 2), np.float32), np.ones((5, 2), np.float32))
    assert caught.value.code == "run-time-shape"


@pytest.mark.parametrize("level", [0, 1, 3])
def test_a_branch_that_never_runs_may_hold_it(level: int) -> None:
    text = (
        f"def @main({OPERANDS}, %c: bool) "
        "{ if (%c) { add(dyn.reshape(%x, shape_of(%x)), %w) } else { %w } }"
    )
    vm = relayvm.VirtualMachine(relayvm.compile(relayvm.parse(text), opt_level=level))
    w = np.full((5, 2), 2, np.float32)
    assert np.asarray(vm.run(np.ones((3, 2), np.float32), w, False)).tolist() == w.tolist()
