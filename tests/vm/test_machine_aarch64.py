"""The runtime, cross-built for AArch64 and run under an emulator, does what it does here."""

import random

import pytest

from relayvm.vm.file.codec import encode
from tests.cross import AARCH64_COMPILER, AARCH64_EMULATOR, needs_aarch64
from tests.fuzz.driver import build_driver, needs_gcc, run
from tests.fuzz.mutants import mutants, seeds
from tests.fuzz.random_programs import random_program

pytestmark = [pytest.mark.slow, pytest.mark.cross, needs_gcc, needs_aarch64]


def test_programs_and_damaged_files_end_as_they_do_here(tmp_path):
    files = [encode(random_program(seed)) for seed in range(60)]
    files += seeds(random.Random(1)) + [m.data for m in mutants(150, 5)]
    there = build_driver(AARCH64_COMPILER, (), ("-static",))
    assert run(there, files, tmp_path, (AARCH64_EMULATOR,)) == run(build_driver(), files, tmp_path)
