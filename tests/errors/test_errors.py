"""Every wrong program under this folder gives exactly the diagnostics written behind it."""

from __future__ import annotations

from pathlib import Path

import pytest

from relayvm.base.diagnostics import RelayError
from relayvm.base.source import Source
from relayvm.compiler.infer_types import infer_types
from relayvm.compiler.program_text import parse_every_error
from relayvm.ops import OPS

FOLDER = Path(__file__).parent
CASES = sorted(FOLDER.glob("*/*.rly"))


def check(source: Source) -> None:
    """Parse a program and infer its types."""
    infer_types(parse_every_error(source, OPS))


@pytest.mark.parametrize("path", CASES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_program_gives_exactly_these_diagnostics(path, golden):
    text = golden.case_input(path)
    with pytest.raises(RelayError) as raised:
        check(Source(path.name, text))
    rendered = "\n\n".join(d.render() for d in raised.value.diagnostics)
    lines = [f"// {line}".rstrip() for line in rendered.splitlines()]
    golden.check_case(path, "\n".join(lines) + "\n")


def test_every_diagnostic_of_a_program_has_a_span():
    for path in CASES:
        with pytest.raises(RelayError) as raised:
            check(Source(path.name, path.read_text(encoding="utf-8").split("// ----")[0]))
        assert all(d.span is not None for d in raised.value.diagnostics), path.name
