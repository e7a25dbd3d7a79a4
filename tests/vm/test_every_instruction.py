"""For each row of the table: it is accepted, and its bytes and text say the same."""

import pytest

from relayvm.vm.assembly import assemble, disassemble
from relayvm.vm.executable import load
from relayvm.vm.file.codec import decode, encode
from relayvm.vm.isa import BY_OPCODE, ISA
from tests.vm.samples import PROBES, build, program


@pytest.mark.parametrize("name", list(ISA))
def test_an_instruction_is_encoded_decoded_and_written_as_it_is(name):
    made = program(PROBES[name])
    again = decode(encode(made))
    assert again.functions[2] == PROBES[name]
    read = assemble(disassemble(made))
    assert read.functions == made.functions


def test_every_instruction_is_accepted_by_the_verifier():
    made = program(*PROBES.values())
    executable = load(encode(made), builder=build)
    assert executable.program().functions == made.functions
    assert {i.name for f in made.functions for i in f.code} >= {row.name for row in BY_OPCODE}
