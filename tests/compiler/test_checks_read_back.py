"""What a kernel checks of a size against a number is the same when it is read back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import relayvm
from relayvm.vm.assembly import assemble
from relayvm.vm.file.codec import encode

TEXT = """def @main(%x: Tensor[(40), float32], %m: Tensor[(?), float32]) { tanh(%x) * %m }"""


def read_back(tmp_path: Path) -> relayvm.Executable:
    """Return the program from its text: without code, so that kernels are made from the nests."""
    text = relayvm.compile(relayvm.parse(TEXT)).disassemble(data=True)
    assert "check broadcast(40, d0) == 40" in text
    program = assemble(text)
    (tmp_path / "read.rvm").write_bytes(encode(program))
    exe = relayvm.load(tmp_path / "read.rvm")
    assert exe.disassemble(data=True).endswith(text[text.index('kernel k0 "') :])
    return exe


def test_sizes_fit_and_clash_as_before(tmp_path: Path) -> None:
    x = np.linspace(-1, 1, 40, dtype=np.float32)
    for exe in (relayvm.compile(relayvm.parse(TEXT)), read_back(tmp_path)):
        vm = relayvm.VirtualMachine(exe)
        for size in (40, 1):
            m = np.arange(size, dtype=np.float32)
            np.testing.assert_allclose(vm.run(x, m), np.tanh(x) * m, rtol=1e-6)
        for size in (5, 0):
            with pytest.raises(relayvm.RelayError, match=f"do not broadcast .*40 and {size}"):
                vm.run(x, np.ones(size, np.float32))
