"""Random bytecode that respects ownership comes to the same end on both engines: results, traps
with their whole record, steps, nothing left, and so where a run goes from one to the other; here
under the sanitizers and plainly, and on AArch64.
"""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

import pytest

from relayvm.vm.file.codec import encode
from relayvm.vm.jit.compile import program_image
from relayvm.vm.jit.host import Host, this_host
from relayvm.vm.jit.module import margin_bytes
from relayvm.vm.program import Program
from tests.cross import AARCH64_COMPILER, AARCH64_EMULATOR, needs_aarch64
from tests.fuzz.driver import SANITIZE, build_driver, needs_gcc, run
from tests.fuzz.random_programs import random_program

# The driver is built as the torture build is, where every block comes from the system.
PLAIN = ("-URVM_STRESS",)
pytestmark = [pytest.mark.slow, needs_gcc]


def code_of(program: Program, host: Host, inline: bool) -> bytes:
    """Return compiled code as the driver reads it."""
    image = program_image(program, inline, host)
    assert not image.imports
    head = struct.pack("<QI", margin_bytes(program), len(image.code))
    pairs = zip(image.entries["functions"], image.entries["enter"])
    offsets = [offset for pair in pairs for offset in pair]
    return head + image.code + struct.pack(f"<{len(offsets)}I", *offsets)


def check(driver: Path, host: Host, folder: Path, seeds: range, emulator=(), inline=True) -> None:
    programs = [random_program(seed) for seed in seeds]
    files = [encode(program) for program in programs]
    codes = [code_of(program, host, inline) for program in programs]
    interpreted, native, switched = (
        run(driver, files, folder, emulator, codes, engine)
        for engine in ("interpreter", "native", "switched")
    )
    assert len(native) == len(files)
    assert all(line.endswith("0 objects are left") for line in native)
    assert any(" digest " in line for line in native)
    assert native == interpreted
    assert switched == interpreted


@pytest.mark.parametrize("inline", [True, False])
def test_under_the_sanitizers(inline, tmp_path):
    host = replace(this_host(), is_stress=True)
    check(build_driver(flags=SANITIZE), host, tmp_path, range(10), inline=inline)


def test_plainly(tmp_path):
    host = replace(this_host(), is_stress=False)
    check(build_driver(flags=PLAIN), host, tmp_path, range(100, 125))


@pytest.mark.cross
@needs_aarch64
def test_on_aarch64(tmp_path):
    host = replace(
        this_host(),
        triple="aarch64-unknown-linux-gnu",
        cpu="generic",
        features="+reserve-x18",
        stack_register="sp",
        has_half=True,
        is_stress=False,
    )
    driver = build_driver(AARCH64_COMPILER, PLAIN, ("-static",))
    check(driver, host, tmp_path, range(200, 210), (AARCH64_EMULATOR,))
