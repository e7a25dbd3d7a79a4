"""Runs every golden file: line one is the `opt` command, then a module, then what the passes make
of it.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from relayvm.base.source import Source
from relayvm.compiler.passes import PASSES, run_passes
from relayvm.compiler.steps import split_steps
from relayvm.ir.equal import structural_equal
from relayvm.ir.prelude import parse_program
from relayvm.ir.printer import print_module
from relayvm.ops import OPS

FOLDER = Path(__file__).parent
FILES = sorted(FOLDER.glob("*/*.rly"))
COMMAND = re.compile(r"// opt --passes=([\w,=+.\[\]]+)( --library)?\n")


def case_id(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


@pytest.mark.parametrize("path", FILES, ids=case_id)
def test_passes_give_the_text_in_the_file(path, golden):
    source = golden.case_input(path)
    command = COMMAND.match(source)
    assert command is not None, f"{path}: line one must be `// opt --passes=...`"
    module = parse_program(Source(path.name, source), OPS)
    result = run_passes(module, split_steps(command.group(1)), verify=True)
    golden.check_case(path, print_module(result, library=bool(command.group(2))))


@pytest.mark.parametrize("path", FILES, ids=case_id)
def test_the_result_parses_back_to_itself(path):
    text = path.read_text(encoding="utf-8").split("// ----\n")[1]
    module = parse_program(Source(path.name, text), OPS)
    again = print_module(module)
    assert structural_equal(parse_program(Source(path.name, again), OPS), module)


def test_every_pass_has_at_least_four_files_and_one_that_runs_by_name_six():
    counts = {name: len(list((FOLDER / name).glob("*.rly"))) for name in PASSES}
    least = {name: 4 if row.in_pipeline else 6 for name, row in PASSES.items()}
    assert {name: n for name, n in counts.items() if n < least[name]} == {}
