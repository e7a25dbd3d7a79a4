"""Bytecode of whole programs: registers, retains and releases as they come out of the compiler."""

from __future__ import annotations

from pathlib import Path

import pytest

import relayvm

FILES = sorted((Path(__file__).parent / "bytecode").glob("*.relay"))


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_programs_compile_to_the_bytecode_in_the_file(path, golden) -> None:
    module = relayvm.parse(golden.case_input(path), name=path.name)
    text = relayvm.compile(module).disassemble()
    golden.check_case(path, text[text.index("\nfunction ") + 1 :])
