"""Source texts and spans: where a piece of a program stands, and how carets show it."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, eq=False)
class Source:
    """One text with the name it is reported under (a path, `<string>`, or a Python file).

    A byte order mark, which some editors write first, is no part of it. `folder` is where files
    that the text names are looked for.
    """

    name: str
    text: str
    folder: Path | None = None
    line_starts: tuple[int, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise TypeError(f"the text of a program is a str, not a `{type(self.text).__name__}`")
        object.__setattr__(self, "text", self.text.removeprefix("\ufeff"))
        starts = [0]
        position = self.text.find("\n")
        while position >= 0:
            starts.append(position + 1)
            position = self.text.find("\n", position + 1)
        object.__setattr__(self, "line_starts", tuple(starts))

    def __repr__(self) -> str:
        return f"Source({self.name!r}, {len(self.text)} characters)"

    def line_column(self, offset: int) -> tuple[int, int]:
        """Return the 1-based line and column of a character offset."""
        line = bisect_right(self.line_starts, offset)
        return line, offset - self.line_starts[line - 1] + 1

    def line(self, number: int) -> str:
        """Return the text of 1-based line `number` without its line end."""
        start = self.line_starts[number - 1]
        end = self.line_starts[number] if number < len(self.line_starts) else len(self.text)
        return self.text[start:end].rstrip("\r\n")


@dataclass(frozen=True, slots=True)
class Span:
    """The half-open character range `[begin, end)` of a source."""

    source: Source
    begin: int
    end: int

    def __str__(self) -> str:
        line, column = self.source.line_column(self.begin)
        return f"{self.source.name}:{line}:{column}"

    def __repr__(self) -> str:
        return f"<{self}>"

    @property
    def line(self) -> int:
        """The 1-based line on which the range begins."""
        return self.source.line_column(self.begin)[0]

    def to(self, other: Span | None) -> Span:
        """Return the range from the start of `self` to the end of `other`."""
        if other is None or other.source is not self.source:
            return self
        return Span(self.source, min(self.begin, other.begin), max(self.end, other.end))
