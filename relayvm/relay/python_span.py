"""The line of the user's program that a node is built on, as its span."""

from __future__ import annotations

import linecache
import sys
from pathlib import Path

from relayvm.base.source import Source, Span

_PACKAGE = str(Path(__file__).parents[1])


class _SourceCache:
    """Sources of Python files, each read once."""

    def __init__(self) -> None:
        self._sources: dict[str, Source] = {}

    def get(self, path: str) -> Source:
        if path not in self._sources:
            self._sources[path] = Source(path, "".join(linecache.getlines(path)))
        return self._sources[path]


_cache = _SourceCache()


def here() -> Span | None:
    """Return the line of the innermost frame outside of this package; None where its text is not
    known.
    """
    frame = sys._getframe(1)
    while frame.f_code.co_filename.startswith(_PACKAGE):
        if frame.f_back is None:
            return None
        frame = frame.f_back
    source = _cache.get(frame.f_code.co_filename)
    number = frame.f_lineno
    if not source.text or number >= len(source.line_starts):
        return None
    begin = source.line_starts[number - 1]
    line = source.line(number)
    indent = len(line) - len(line.lstrip())
    return Span(source, begin + indent, begin + max(indent, len(line.rstrip())))
