"""Damaged executables are refused with the byte or section, or run within their limits.

The loader, verifier and machine run as a program of their own under ASan and UBSan.
"""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from relayvm.base.diagnostics import RelayError
from relayvm.vm.executable import load
from relayvm.vm.file.codec import encode
from relayvm.vm.isa import ISA
from tests.fuzz.driver import build_driver, needs_gcc, run
from tests.fuzz.mutants import damage_text, mutants, seeds
from tests.fuzz.random_programs import random_program
from tests.vm.samples import PROBES, build, program

COUNT = 1500
SEED = 20261129
REFUSED = re.compile(
    r"rejected (bad-executable: byte \d+: "
    r"|checksum-mismatch: the checksum of (section `\w+` \(byte \d+, |the header )"
    r"|executable-version: the executable has format version \d+, this RelayVM reads version \d+)"
)
ACCEPTED = re.compile(r"accepted (\d+) (\d+): 0 objects are left")

pytestmark = [pytest.mark.slow, needs_gcc]


@pytest.fixture(scope="module")
def driver() -> Path:
    return build_driver()


def test_good_executables_are_accepted_and_leave_nothing(driver, tmp_path):
    files = [encode(program(*PROBES.values(), stored=True)), *seeds(random.Random(0))]
    for line in run(driver, files, tmp_path):
        assert ACCEPTED.fullmatch(line), line


def test_damaged_executables_are_refused_with_a_place_or_run_in_their_limits(driver, tmp_path):
    made = list(mutants(COUNT, SEED))
    lines = run(driver, [m.data for m in made], tmp_path)
    assert len(lines) == len(made)
    accepted = runs = traps = 0
    for line in lines:
        match = ACCEPTED.fullmatch(line)
        if match is None:
            assert REFUSED.match(line), line
            continue
        accepted += 1
        runs += int(match[1])
        traps += int(match[2])
    assert accepted >= 0.1 * len(made)
    assert 0 < traps < runs
    for level in ("bytes", "tables", "text"):
        assert any(m.level == level and s[0] == "a" for m, s in zip(made, lines)), level


def test_python_reads_what_the_loader_accepts_and_refuses_the_rest():
    accepted = 0
    for mutant in mutants(300, SEED + 1):
        try:
            executable = load(mutant.data, native=False, builder=build)
        except RelayError as failure:
            assert failure.code in ("bad-executable", "checksum-mismatch", "executable-version")
            continue
        accepted += 1
        assert repr(executable).startswith("Executable(")
        try:
            executable.disassemble()
        except RelayError as failure:
            assert "the manifest cannot be read" in failure.message
    assert accepted >= 30


def test_damaged_text_is_refused_with_a_span_or_assembled():
    choice = random.Random(SEED)
    bases = seeds(choice)
    made = [damage_text(choice, choice.choice(bases)) for _ in range(100)]
    assert 0 < sum(data is None for data in made) < len(made)


def test_programs_that_respect_ownership_are_accepted_and_lose_nothing(driver, tmp_path):
    made = [random_program(seed) for seed in range(150)]
    runs = traps = 0
    for line in run(driver, [encode(p) for p in made], tmp_path):
        match = ACCEPTED.fullmatch(line)
        assert match is not None, line
        runs += int(match[1])
        traps += int(match[2])
    assert traps < runs / 2
    used = {i.name for p in made for f in p.functions for i in f.code}
    assert len(used) > 0.9 * len(ISA)
