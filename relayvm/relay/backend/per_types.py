"""What an executor makes of an entry for the types of its arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from relayvm.relay.backend.entry import Entry

Made = TypeVar("Made")

# Programs of one entry that are kept, each for other types.
MOST = 32


class PerTypes(Generic[Made]):
    """Makes something for an entry and its first arguments, and again where others have types that
    tell the entry otherwise; the last few are kept.
    """

    def __init__(self, entry: Entry, make: Callable[[Entry, tuple[Any, ...]], Made]) -> None:
        self._entry = entry
        self._make = make
        self._made: dict[object, Made] = {}

    def get(self, args: tuple[Any, ...]) -> Made:
        """Return what is made for the types of arguments."""
        key = self._entry.told_by(args)
        made = self._made.pop(key, None)
        if made is None:
            made = self._make(self._entry, args)
            while len(self._made) >= MOST:
                del self._made[next(iter(self._made))]
        self._made[key] = made
        return made
