"""Every place in lexer and parser that reports an error is reached by a program of this folder."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

import relayvm
from relayvm.base.diagnostics import DiagnosticSink, RelayError
from relayvm.base.source import Source
from relayvm.compiler.program_text import parse_every_error
from relayvm.ops import OPS
from tests.errors.test_errors import CASES

FOLDER = Path(relayvm.__file__).parent / "ir"
# The library is merged once a text could be read.
OTHERS = {"library.py"}
FILES = [FOLDER / "lexer.py", *sorted((FOLDER / "parser").glob("*.py"))]
REPORTS = {"report", "fail", "abort", "Diagnostic"}
# Reached only with a table of operators that lacks the one that an operator sign means.
UNREACHED = "there is no operator `{name}`"


def places() -> dict[str, range]:
    """Return the lines of every call that reports an error, by file and first line."""
    found = {}
    for path in (path for path in FILES if path.name not in OTHERS):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                name = getattr(node.func, "attr", getattr(node.func, "id", ""))
                if name in REPORTS and UNREACHED not in ast.unparse(node):
                    lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
                    found[f"{path.name}:{node.lineno}"] = lines
    return found


def test_every_syntax_error_has_an_example(monkeypatch):
    hit: set[tuple[str, int]] = set()
    add = DiagnosticSink.add

    def recorded(self, diagnostic):
        frame = sys._getframe(1)
        while frame is not None:
            hit.add((Path(frame.f_code.co_filename).name, frame.f_lineno))
            frame = frame.f_back
        add(self, diagnostic)

    monkeypatch.setattr(DiagnosticSink, "add", recorded)
    for path in CASES:
        if path.parent.name in ("syntax", "both"):
            text = path.read_text(encoding="utf-8").split("// ----\n")[0]
            with pytest.raises(RelayError):
                parse_every_error(Source(path.name, text), OPS)
    missing = []
    for place, lines in places().items():
        name = place.split(":")[0]
        if not any((name, line) in hit for line in lines):
            missing.append(place)
    assert not missing
