"""Types of what entries take and give, as the program declares them, with the layouts of values.

Passes join data types that differ in sizes only; the host is told the sizes that were declared.
"""

from __future__ import annotations

from typing import Protocol

from relayvm.base.diagnostics import error
from relayvm.base.trampoline import trampoline
from relayvm.compiler.entries import MOST_NESTED, nests_too_deep
from relayvm.compiler.host.growing_types import endless_part, growing_types
from relayvm.compiler.host.types import HostTypes
from relayvm.ir.module import Module
from relayvm.ir.types import FuncType, Type
from relayvm.ir.visit import TypeWords
from relayvm.vm import manifest

# The description for the host has each part of a type in each of its places.
_MOST_HOST_WORDS = 1 << 17


class LayoutTable(Protocol):
    """Numbers of the layouts and signatures of a lowered module."""

    module: Module

    def layout_of(self, kind: Type) -> int:
        """Return the layout of values of a type; of the first constructor, for a data type."""

    def signature(self, kind: FuncType) -> int:
        """Return the number of the calling protocol of functions of a type."""


class EntryTypes(HostTypes):
    """The types of entries: those of the module that the program declares, each with the layout of
    the type that the lowered module has in its place.
    """

    def __init__(self, declared: Module, layouts: LayoutTable) -> None:
        super().__init__(declared, layouts.module)
        self._layouts = layouts
        self._words = TypeWords()
        self._growing = growing_types(declared)

    def value_type(self, kind: Type, own: Type) -> manifest.ValueType:
        """Return the description of a type for the host; data types are added to `data_types`."""
        if nests_too_deep(kind):
            message = f"the host cannot hold values whose types nest deeper than {MOST_NESTED}"
            raise error("too-deep", message, kind.span)
        if self._words(kind) > _MOST_HOST_WORDS:
            message = f"the host cannot hold a value whose type has over {_MOST_HOST_WORDS:,} words"
            raise error("too-large-type", message, kind.span)
        self._check_end(kind)
        return trampoline(self.described(kind, own))

    def _check_end(self, kind: Type) -> None:
        """Raise RelayError `polymorphic-entry` for a type that could not be described in full."""
        endless = endless_part(self.module, self._growing, kind)
        if endless is not None:
            name = self.names.text(endless, 40).partition("[")[0]
            message = f"the host cannot hold `{name}`: it has itself inside at ever other types"
            help = "let the entries neither take nor return it"
            raise error("polymorphic-entry", message, kind.span, help=help)

    def layout_of(self, own: Type) -> int:
        return self._layouts.layout_of(own)

    def signature_of(self, own: FuncType) -> int:
        return self._layouts.signature(own)
