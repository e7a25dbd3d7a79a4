"""What an executor makes of an entry for the types of its arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from relayvm.relay.backend.entry import Entry

Made = TypeVar("Made")

# Programs of one entry that are kept, each for other types.
MOST = 32


class PerTypes(Generic[Made]):
    """Makes something for an entry, closed over the types of its arguments where it is open; the
    last few are kept. `for_all` may make it for any types, or return None.
    """

    def __init__(
        self,
        entry: Entry,
        make: Callable[[Entry], Made],
        for_all: Callable[[Entry], Made | None] = lambda entry: None,
    ) -> None:
        self._entry = entry
        self._make = make
        self._for_all = for_all if entry.is_open else make
        self._one: Made | None = None
        self._tried = False
        self._made: dict[object, Made] = {}

    def get(self, args: tuple[Any, ...]) -> Made:
        """Return what is made for the types of arguments."""
        if not self._tried:
            self._one = self._for_all(self._entry)
            self._tried = True
        if self._one is not None:
            return self._one
        told = self._entry.told_by(args)
        made = self._made.pop(told, None)
        if made is None:
            made = self._make(self._entry.closed_over(told))
            while len(self._made) >= MOST:
                del self._made[next(iter(self._made))]
        self._made[told] = made
        return made
