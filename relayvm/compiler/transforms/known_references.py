"""In which order references that partial evaluation knows get their code.

The code of a reference needs that of what it holds, and a reference may hold what leads back to it:
a function that reads the function itself from there. Such a ring is opened at one reference. It is
made with what it held first, which is older than itself and cannot lead back, and is written when
all others are made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from relayvm.compiler.transforms.known_values import (
    Closure,
    Data,
    Fields,
    Known,
    Reference,
    Value,
)
from relayvm.ir.visit import free_vars

Holds = Mapping[Reference, Value]


@dataclass(slots=True)
class CreationPlan:
    """References with what they are made with, and then with what they are written with."""

    creations: list[tuple[Reference, Value]] = field(default_factory=list)
    writes: list[tuple[Reference, Value]] = field(default_factory=list)
    # Some of them hold functions, whose code may use any reference.
    holds_functions: bool = False


def creation_plan(
    roots: Iterable[Reference],
    virtual: Holds,
    held: Holds,
    has_code: Callable[[Value], bool],
) -> CreationPlan:
    """Return how references, and all the virtual ones that they lead to, get their code.

    `held` tells what references hold, `has_code` is true of values that stand in scope already.
    """
    planner = _Planner(virtual, held, has_code)
    for root in roots:
        planner.visit(root)
    return planner.plan


class _Planner:
    def __init__(self, virtual: Holds, held: Holds, has_code: Callable[[Value], bool]) -> None:
        self.virtual, self.held, self.has_code = virtual, held, has_code
        self.plan = CreationPlan()
        self.made: set[Reference] = set()
        # The references on the path that is walked, the last one innermost.
        self.path: list[Reference] = []
        # What was walked: False while it is on the path.
        self.done: dict[Known, bool] = {}

    def visit(self, root: Known) -> None:
        """Plan what a value leads to, in depth: parts before wholes."""
        waiting: list[tuple[Known, bool]] = [(root, False)]
        while waiting:
            known, leaving = waiting.pop()
            if leaving:
                self.leave(known)
            elif known not in self.done:
                self.enter(known)
                waiting.append((known, True))
                waiting.extend((part, False) for part in reversed(list(self.parts(known))))
            elif not self.done[known]:
                self.make_first(self.path[-1])

    def enter(self, known: Known) -> None:
        self.done[known] = False
        if isinstance(known, Reference):
            self.path.append(known)
        self.plan.holds_functions |= isinstance(known, Closure)

    def leave(self, known: Known) -> None:
        self.done[known] = True
        if isinstance(known, Reference):
            self.path.pop()
            if known not in self.made:
                self.made.add(known)
                self.plan.creations.append((known, self.held[known]))

    def make_first(self, reference: Reference) -> None:
        """Open a ring: make the reference with what it held first, and what that needs likewise."""
        waiting = [(reference, False)]
        while waiting:
            key, ready = waiting.pop()
            if key in self.made:
                continue
            if not ready:
                waiting.append((key, True))
                waiting.extend((part, False) for part in self.references_in(key.first))
                continue
            self.made.add(key)
            self.plan.creations.append((key, key.first))
            if self.held[key] is not key.first:
                self.plan.writes.append((key, self.held[key]))

    def references_in(self, value: Value) -> list[Reference]:
        """Return the virtual references that the code of a value names."""
        found: dict[Known, None] = {}
        waiting = list(self.known_in((value,)))
        while waiting:
            known = waiting.pop()
            if known not in found:
                found[known] = None
                self.plan.holds_functions |= isinstance(known, Closure)
                if not isinstance(known, Reference):
                    waiting.extend(self.parts(known))
        return [known for known in found if isinstance(known, Reference)]

    def parts(self, known: Known) -> Iterator[Known]:
        match known:
            case Reference():
                return self.known_in((self.held[known],))
            case Fields() | Data():
                return self.known_in(known.fields)
            case Closure():
                names = free_vars(known.function)
                return self.known_in([known.env[v] for v in names if v is not known.own])
        return iter(())

    def known_in(self, values: Iterable[Value]) -> Iterator[Known]:
        """Yield what has no code yet, of values that may lead to references."""
        for value in values:
            known = value.known
            walked = isinstance(known, (Fields, Data, Closure)) or known in self.virtual
            if walked and known is not None and not self.has_code(value):
                yield known
