"""Polymorphic functions that meet a type to be found: the place takes one instance, or the function
with its type parameters.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from relayvm.base.dims import DimVar, dim_variables
from relayvm.compiler.inference.holes import Choice, DimHole, Hole, Owner, Reason
from relayvm.compiler.inference.type_walk import dim_holes_of, leaves, prune, type_holes
from relayvm.ir.types import FuncType, Type, TypeParam, TypeVar
from relayvm.ir.visit import type_children


@dataclass(frozen=True, slots=True)
class Meeting:
    """A function without type parameters where a polymorphic one is wanted: what it left open must
    be found without the parameters of that. `sources` are the places that made it, `places` those
    that want the polymorphic one.
    """

    sources: frozenset[Choice]
    places: frozenset[Choice]
    holes: tuple[Hole, ...]
    dims: tuple[DimHole, ...]
    params: tuple[TypeParam, ...]
    reason: Reason


class Choices:
    """The places of one inference that had a choice.

    Those in `kept` take the polymorphic type, all others an instance of it; those in `firm` will
    not take another. `disputed` are the others that had a part in an error, `refused` those in
    `kept` that met a function which is not polymorphic.
    """

    def __init__(self, kept: frozenset[Choice], firm: frozenset[Choice]) -> None:
        self.kept = kept
        self.firm = firm
        self.disputed: set[Choice] = set()
        self.refused: set[Choice] = set()
        self._seen: Counter[Owner] = Counter()
        self._meetings: list[Meeting] = []

    def place(self, owner: Owner) -> Choice:
        """Return the next place of a description."""
        self._seen[owner] += 1
        return owner, self._seen[owner]

    def origins(self, type_: Type) -> frozenset[Choice]:
        """Return the places that a type comes from, seen from outside."""
        found: frozenset[Choice] = frozenset()
        if not self._seen:
            return found
        inside: Type | None = type_
        while isinstance(inside, Hole):
            found |= inside.state.representative().choices
            inside = inside.state.bound
        return found

    def dispute(self, *types: Type) -> None:
        """Note that types do not fit."""
        for type_ in types:
            self.disputed |= self.origins(type_)

    def meet(self, given: Type, wanted: Type, reason: Reason) -> None:
        """Note that a function without type parameters goes where a polymorphic one is wanted."""
        source, target = prune(given), prune(wanted)
        assert isinstance(source, FuncType) and isinstance(target, FuncType)
        sources = self._all_origins(given)
        holes, dims = tuple(type_holes(source)), tuple(dim_holes_of(source))
        meeting = Meeting(sources, self.origins(wanted), holes, dims, target.type_params, reason)
        self._meetings.append(meeting)

    def _all_origins(self, type_: Type) -> frozenset[Choice]:
        """Return the places that a type or any part of it comes from."""
        found: frozenset[Choice] = frozenset()
        seen: set[int] = set()
        stack = [type_]
        while stack and self._seen:
            part = stack.pop()
            if id(part) in seen:
                continue
            seen.add(id(part))
            found |= self.origins(part)
            stack.extend(type_children(prune(part)))
        return found

    def check(self, mismatch: Callable[[Reason], None]) -> None:
        """Report the functions that are not polymorphic, where such are wanted."""
        for meeting in self._meetings:
            if _mentions(meeting):
                mismatch(meeting.reason)
            if not meeting.reason.reported:
                continue
            self.disputed |= meeting.sources
            if not (meeting.sources - self.kept - self.firm):
                self.refused |= meeting.places


def _mentions(meeting: Meeting) -> bool:
    params = set(meeting.params)
    if any(leaf in params for leaf in leaves(*meeting.holes) if isinstance(leaf, TypeVar)):
        return True
    if not any(isinstance(param, DimVar) for param in params):
        return False
    dims: Iterable[DimHole] = (*meeting.dims, *(d for h in meeting.holes for d in dim_holes_of(h)))
    known = (d.value for d in dims if d.value is not None)
    return any(not params.isdisjoint(dim_variables(d)) for d in known)
