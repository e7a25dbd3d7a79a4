"""Golden files of Python text: a program, then its functions as Python."""

from __future__ import annotations

from pathlib import Path

import pytest

from relayvm.base.source import Source
from relayvm.compiler.to_python import to_python
from relayvm.ir.prelude import parse_program
from relayvm.ops import OPS

FILES = sorted((Path(__file__).parent / "python").glob("*.relay"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_functions_give_the_text_in_the_file(path, golden):
    source = golden.case_input(path)
    text = to_python(parse_program(Source(path.name, source), OPS))
    golden.check_case(path, text[text.index("\n# ") + 1 :])
