"""Names of types and constructors as the program has them, where passes gave others."""

from __future__ import annotations

import re

from relayvm.ir.module import Module
from relayvm.ir.printer import print_type
from relayvm.ir.types import Type

# A name, perhaps with arguments that have none themselves; a comma between arguments; a place.
_NAME = re.compile(r"([A-Za-z_]\w*)(\[[^\[\]]*\])?")
_COMMA = re.compile(r",(?![^(]*\))")
_PLACE = re.compile(r"\b_(\d+)_\b")


class OldNames:
    """The names that the types and constructors of a module had before they were instances."""

    def __init__(self, module: Module) -> None:
        self.types = _old_names(module, "instances")
        self.constructors = _old_names(module, "constructors")

    def constructor(self, name: str) -> str:
        """Return the name that the program has for a constructor."""
        return self.constructors.get(name, name)

    def text(self, kind: Type, limit: int | None = None) -> str:
        """Return a type as the user writes it: instances of data types under their old names."""
        return self._written(print_type(kind, limit))

    def _written(self, text: str) -> str:
        """Return a text with the old names of types; `R[3]` may be `R[Tensor[(3), float32]]`."""

        def old_name(found: re.Match[str]) -> str:
            name, args = found[1], found[2] or ""
            old = self.types.get(name, name)
            if args and _PLACE.search(old):
                return _filled(old, args)
            return old + self._written(args)

        return _NAME.sub(old_name, text) if self.types else text


def _old_names(module: Module, attribute: str) -> dict[str, str]:
    """Return the names that types or constructors had before they were instances."""
    pairs = module.attrs.get(attribute) or ()
    assert isinstance(pairs, tuple)
    return dict(pairs)


def _filled(old: str, args: str) -> str:
    """Return the name of a type with sizes in the places of its parameters.

    `R[Tensor[(_0_), float32]]` and `[n*2]` -> `R[Tensor[(n*2), float32]]`
    """
    sizes = _COMMA.split(args[1:-1])
    return _PLACE.sub(lambda place: sizes[int(place[1])].strip(), old)
