"""Diagnostics as people read them."""

from __future__ import annotations

import pytest

from relayvm.base.diagnostics import (
    Diagnostic,
    DiagnosticSink,
    Note,
    RelayError,
    Trap,
    error,
    quantity,
)
from relayvm.base.source import Source, Span

TEXT = "def @main() {\n\tlet %x = 1;\n  %y\n}\n"
SOURCE = Source("small.relay", TEXT)


def span_of(piece: str) -> Span:
    begin = TEXT.index(piece)
    return Span(SOURCE, begin, begin + len(piece))


def test_carets_stand_under_the_span() -> None:
    text = Diagnostic("syntax", "`%y` is odd", span_of("%y"), label="here").render()
    assert text == (
        "error[syntax]: `%y` is odd\n"
        "  --> small.relay:3:3\n"
        "   |\n"
        " 3 |   %y\n"
        "   |   ^^ here\n"
        "help: `relayvm explain syntax`"
    )


def test_a_tab_counts_as_one_column() -> None:
    line = Diagnostic("syntax", "m", span_of("%x")).render().splitlines()
    assert line[3].index("%x") == line[4].index("^^")


def test_notes_and_help_follow() -> None:
    text = Diagnostic(
        "syntax", "m", notes=(Note("the value", span_of("1")),), help="remove it"
    ).render()
    assert text.splitlines()[1] == "note: the value"
    assert text.endswith("help: remove it")


def test_a_span_over_lines_is_underlined_on_its_first() -> None:
    text = Diagnostic("syntax", "m", Span(SOURCE, 0, len(TEXT))).render()
    assert "^" * len("def @main() {") in text
    assert len(text.splitlines()) == 6


def test_a_long_line_is_cut_around_the_carets() -> None:
    source = Source("long", "a" * 5000 + "!" + "b" * 5000)
    lines = Diagnostic("syntax", "m", Span(source, 5000, 5001)).render().splitlines()
    assert max(map(len, lines)) < 250
    assert lines[3][lines[4].index("^")] == "!"


def test_the_sink_sorts_and_removes_doubles() -> None:
    sink = DiagnosticSink()
    for piece in ("%y", "%x", "%x"):
        sink.add(Diagnostic("syntax", f"bad {piece}", span_of(piece)))
    with pytest.raises(RelayError) as caught:
        sink.raise_if_any()
    assert [d.message for d in caught.value.diagnostics] == ["bad %x", "bad %y"]
    assert caught.value.code == "syntax"


def test_an_empty_sink_raises_nothing() -> None:
    DiagnosticSink().raise_if_any()


def test_a_trap_shows_its_stack() -> None:
    trap = Trap(Diagnostic("match-failed", "no clause fits"), ("@f at a:1", "@main at a:9"))
    assert str(trap).endswith("  at @f at a:1\n  at @main at a:9")


def test_error_makes_one_diagnostic() -> None:
    mistake = error("syntax", "m", span_of("1"))
    assert mistake.span is not None and str(mistake.span) == "small.relay:2:11"


def test_positions_at_line_ends() -> None:
    assert SOURCE.line_column(len(TEXT)) == (5, 1)
    assert SOURCE.line(5) == ""
    assert SOURCE.line_column(TEXT.index("\n")) == (1, 14)


def test_a_quantity_has_the_noun_in_its_number() -> None:
    assert quantity(1, "byte") == "1 byte"
    assert quantity(0, "axis", "axes") == "0 axes"
    assert quantity(12345, "byte") == "12,345 bytes"
