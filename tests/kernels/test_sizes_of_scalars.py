"""Proofs take every size to be at least 0; the machine refuses others before code runs."""

from __future__ import annotations

import pytest

from relayvm.base.diagnostics import Trap
from relayvm.kernels.build import build_native
from relayvm.vm.assembly import assemble
from relayvm.vm.executable import load
from relayvm.vm.file.codec import encode
from relayvm.vm.machine import VirtualMachine
from tests.vm.programs import INT, entry, manifest_line, tensor

# Writes 4 elements of n + 4, which is proved for every n of at least 0.
PROGRAM = """
kernel k0 "four" {
  var d0 "n" operand 0 axis -1
  input scalar int64 ()
  output dense int64 (d0 + 4)
  phase 4
  work 1
  | nest @four {
  |   dims $n
  |   input in0: int64[] scalar
  |   output out0: int64[($n + 4)]
  |   phase i0 < 4 {
  |     out0[i0] = i0
  |   }
  | }
}
function f0 "four" (w) -> (o) registers 1 1 0 {
    kernel k0, (w0), (o0)
    return (o0)
}
"""


@pytest.fixture
def machine():
    manifest = manifest_line([entry(0, "four", [("n", INT)], tensor(None, dtype="int64"))])
    return VirtualMachine(load(encode(assemble(manifest + PROGRAM)), builder=build_native))


def test_a_size_that_is_a_value_is_taken(machine):
    assert machine.invoke("four", 0).tolist() == [0, 1, 2, 3]


def test_a_size_below_zero_traps_even_where_no_dim_is_negative(machine):
    with pytest.raises(Trap) as caught:
        machine.invoke("four", -1)
    assert caught.value.code == "size-overflow"
