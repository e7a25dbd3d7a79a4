"""Places in programs: spans over the names of sources."""

from __future__ import annotations

from relayvm.base import source
from relayvm.base.diagnostics import error
from relayvm.relay.lazy import absent
from relayvm.relay.node import NodeClass
from relayvm.relay.text import astext, pretty_print

__all__ = ["Id", "SourceName", "Span", "astext", "pretty_print"]


class SourceName(metaclass=NodeClass):
    """The name of a source, with whatever text of it is known."""

    nodes = (source.Source,)

    @staticmethod
    def make(name: str) -> source.Source:
        """Return a source of which only the name is known."""
        return source.Source(name, "")


class Span(metaclass=NodeClass):
    """A range of a source."""

    nodes = (source.Span,)

    @staticmethod
    def make(
        source_name: source.Source | str,
        line: int,
        end_line: int,
        column: int,
        end_column: int,
    ) -> source.Span:
        """Return a range by lines and columns, both from 1.

        Where the text of the source is not known, blank lines take its place.
        """
        if min(line, end_line, column, end_column) < 0:
            raise error("bad-node", "lines and columns of a span are not negative")
        if isinstance(source_name, str):
            source_name = source.Source(source_name, "")
        last, width = max(line, end_line, 1), max(column, end_column, 1)
        text = source_name
        if len(text.line_starts) < last or len(text.text) - text.line_starts[last - 1] < width - 1:
            text = source.Source(source_name.name, (" " * width + "\n") * last)
        begin = text.line_starts[max(line, 1) - 1] + max(column, 1) - 1
        end = text.line_starts[max(end_line, 1) - 1] + max(end_column, 1) - 1
        return source.Span(text, begin, max(begin, end))


class Id:
    """What tells a variable from others of the same name."""

    def __init__(self, name_hint: str) -> None:
        self.name_hint = name_hint


__getattr__ = absent("relayvm.relay.base")
