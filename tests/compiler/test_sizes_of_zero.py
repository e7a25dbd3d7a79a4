"""A size by name in `newshape` that is 0 in a run is a size, not the code 0."""

from __future__ import annotations

import itertools

import numpy as np

import relayvm
from relayvm import relay
from relayvm.compiler.to_python import PythonProgram

TEXT = """
def @main[b, h, t](%x: Tensor[(b*h, t), float32], %y: Tensor[(b, h), float32]) {
  reshape(%x, newshape=[b, h, t])
}
"""


def test_machine_evaluator_and_python_agree() -> None:
    module = relayvm.parse(TEXT)
    machine = relayvm.VirtualMachine(relayvm.compile(module))
    evaluate = relay.create_executor("debug", module).evaluate()
    python = PythonProgram(module)
    for b, h, t in itertools.product((0, 1, 2), (0, 1, 3), (0, 4)):
        args = np.ones((b * h, t), np.float32), np.ones((b, h), np.float32)
        found = machine.run(*args), evaluate(*args), python.call("main", args)
        assert [np.asarray(value).shape for value in found] == [(b, h, t)] * 3
