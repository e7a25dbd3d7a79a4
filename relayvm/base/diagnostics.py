"""Errors: the table of codes, diagnostics with carets, and the three kinds that are never mixed.

`RelayError` is the user's mistake, `InternalError` is ours, `Trap` happens at run time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NoReturn

from relayvm.base.error_codes import ERROR_CODES
from relayvm.base.source import Span

# What is shown of one source line, of a message (or label, help, name of a source), of a line of
# the call stack, of a diagnostic's notes, and of all diagnostics of one error.
MAX_LINE_CHARACTERS = 160
MAX_MESSAGE_CHARACTERS = 2_000
MAX_FRAME_CHARACTERS = 400
MAX_NOTES = 8
MAX_TEXT_CHARACTERS = 50_000


@dataclass(frozen=True, slots=True)
class Note:
    """A second place that belongs to a diagnostic: a message and, where there is one, its span."""

    message: str
    span: Span | None = None
    label: str = ""

    def __post_init__(self) -> None:
        _clip_fields(self, "message", "label")


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One error: its code in the table, what is wrong, where, and what else is needed to see why.

    `label` stands beside the carets. `help` is one way out; the line that names `relayvm explain`
    is added where there is none. Texts are cut where they are longer than anybody reads.
    """

    code: str
    message: str
    span: Span | None = None
    label: str = ""
    notes: tuple[Note, ...] = ()
    help: str = ""

    def __post_init__(self) -> None:
        if self.code not in ERROR_CODES:
            raise InternalError(f"diagnostic code `{self.code}` is not in the table")
        _clip_fields(self, "message", "label", "help")

    def render(self) -> str:
        """Return the diagnostic as text, with source lines and carets, without a final newline."""
        parts = [f"error[{self.code}]: {self.message}"]
        parts += _render_place(self.span, self.label)
        for note in self.notes[:MAX_NOTES]:
            parts.append(f"note: {note.message}")
            parts += _render_place(note.span, note.label)
        if len(self.notes) > MAX_NOTES:
            parts.append(f"note: {len(self.notes) - MAX_NOTES} more notes are not shown")
        parts.append(f"help: {self.help or f'`relayvm explain {self.code}`'}")
        return "\n".join(parts)

    def __str__(self) -> str:
        return self.render()


def clipped(text: str, limit: int = MAX_MESSAGE_CHARACTERS) -> str:
    """Return a text, or its beginning and end where it has more than `limit` characters."""
    if len(text) <= limit:
        return text
    end = limit // 4
    return f"{text[: limit - end - 5]} ... {text[-end:]}"


def _clip_fields(item: Note | Diagnostic, *names: str) -> None:
    for name in names:
        text = getattr(item, name)
        if len(text) > MAX_MESSAGE_CHARACTERS:
            object.__setattr__(item, name, clipped(text))


def _render_place(span: Span | None, label: str) -> list[str]:
    if span is None:
        return []
    line, column = span.source.line_column(span.begin)
    gutter = " " * len(str(line))
    text = span.source.line(line).expandtabs(1)
    available = max(1, len(text) - column + 1)
    width = max(1, min(span.end - span.begin, available))
    shift = 0
    if len(text) > MAX_LINE_CHARACTERS:
        shift = max(0, column - 1 - MAX_LINE_CHARACTERS // 4)
        text = text[shift : shift + MAX_LINE_CHARACTERS]
        width = min(width, MAX_LINE_CHARACTERS - (column - 1 - shift))
    carets = " " * (column - 1 - shift) + "^" * max(1, width)
    return [
        f" {gutter}--> {clipped(span.source.name)}:{line}:{column}",
        f" {gutter} |",
        f" {line} | {text}".rstrip(),
        f" {gutter} | {carets}{' ' + label if label else ''}",
    ]


class RelayError(RuntimeError):
    """A mistake in what the user gave: a program, a file, an argument or an option.

    Holds one or more diagnostics; `code` and `span` are those of the first.
    """

    def __init__(self, diagnostics: Diagnostic | Iterable[Diagnostic]):
        if isinstance(diagnostics, Diagnostic):
            diagnostics = (diagnostics,)
        self.diagnostics: tuple[Diagnostic, ...] = tuple(diagnostics)
        assert self.diagnostics, "a RelayError needs a diagnostic"
        super().__init__(_joined(self.diagnostics))

    @property
    def code(self) -> str:
        """The code of the first diagnostic, a row of the error table."""
        return self.diagnostics[0].code

    @property
    def span(self) -> Span | None:
        """The place of the first diagnostic, where it has one."""
        return self.diagnostics[0].span

    @property
    def message(self) -> str:
        """What the first diagnostic says is wrong."""
        return self.diagnostics[0].message


def _joined(diagnostics: tuple[Diagnostic, ...]) -> str:
    """Return the texts of diagnostics; where they are too long, without the last ones."""
    shown: list[str] = []
    size = 0
    for diagnostic in diagnostics:
        text = diagnostic.render()
        size += len(text)
        if shown and size > MAX_TEXT_CHARACTERS:
            shown.append(f"... and {len(diagnostics) - len(shown)} more")
            break
        shown.append(text)
    return "\n\n".join(shown)


class Trap(RelayError):
    """A failure of a running program: reason, source line and call stack, innermost frame first.

    The machine that raised it stays usable. In a row of calls, `index` is the number of the call
    and `results` are those of the calls before.
    """

    def __init__(self, diagnostic: Diagnostic, stack: tuple[str, ...] = ()):
        super().__init__(diagnostic)
        self.stack = stack
        self.index: int | None = None
        self.results: tuple[Any, ...] = ()

    def __str__(self) -> str:
        frames = "".join(f"\n  at {clipped(frame, MAX_FRAME_CHARACTERS)}" for frame in self.stack)
        return self.diagnostics[0].render() + frames


class InternalError(Exception):
    """A fault of RelayVM itself: names the pass, and where the module was written for a report."""


def error(
    code: str,
    message: str,
    span: Span | None = None,
    *,
    label: str = "",
    notes: Iterable[Note] = (),
    help: str = "",
) -> RelayError:
    """Return a `RelayError` with one diagnostic, to be raised by the caller."""
    return RelayError(Diagnostic(code, message, span, label, tuple(notes), help))


@dataclass(slots=True)
class DiagnosticSink:
    """Collects independent errors of a program; `raise_if_any` reports all in source order."""

    limit: int = 100
    diagnostics: list[Diagnostic] = field(default_factory=list)

    def add(self, diagnostic: Diagnostic) -> None:
        """Keep `diagnostic` unless the same one is already there."""
        if len(self.diagnostics) < self.limit and diagnostic not in self.diagnostics:
            self.diagnostics.append(diagnostic)

    def raise_if_any(self) -> None:
        if self.diagnostics:
            raise RelayError(sorted(self.diagnostics, key=source_order))


def source_order(diagnostic: Diagnostic) -> tuple[str, int]:
    """Return what sorts diagnostics by their places in the texts."""
    span = diagnostic.span
    return (span.source.name, span.begin) if span else ("", -1)


def assert_never(value: NoReturn) -> NoReturn:
    """Close a `match` over node classes: reached only if a class was forgotten."""
    raise InternalError(f"unexpected {type(value).__name__}: {value!r}")


def quantity(number: int, noun: str, plural: str = "") -> str:
    """Return `1 argument`, `2 arguments`, `1,000 arguments`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
