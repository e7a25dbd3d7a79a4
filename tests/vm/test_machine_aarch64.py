"""The runtime, cross-built for AArch64 and run under an emulator, does what it does here."""

import random
import shutil

import pytest

from relayvm.vm.codec import encode
from tests.fuzz.driver import build_driver, needs_gcc, run
from tests.fuzz.mutants import mutants, seeds
from tests.fuzz.random_programs import random_program

COMPILER = "aarch64-linux-gnu-gcc"
EMULATOR = shutil.which("qemu-aarch64") or shutil.which("qemu-aarch64-static")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.cross,
    needs_gcc,
    pytest.mark.skipif(
        EMULATOR is None or shutil.which(COMPILER) is None,
        reason="needs qemu-user and a cross compiler",
    ),
]


def test_programs_and_damaged_files_end_as_they_do_here(tmp_path):
    files = [encode(random_program(seed)) for seed in range(60)]
    files += seeds(random.Random(1)) + [m.data for m in mutants(150, 5)]
    there = build_driver(COMPILER, (), ("-static",))
    assert run(there, files, tmp_path, (EMULATOR,)) == run(build_driver(), files, tmp_path)
