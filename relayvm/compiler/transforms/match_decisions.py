"""Which constructor to look at next: the clauses of a match as a graph of decisions.

Method: Maranget, "Compiling Pattern Matching to Good Decision Trees" (ML 2008), with equal
questions asked once. Where even shared decisions grow beyond a multiple of the patterns, clauses
are tried one after another (Augustsson, "Compiling Pattern Matching", FPCA 1985), which is linear.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from relayvm.base.trampoline import Recursive, trampoline
from relayvm.ir.adt import definition_of, field_types
from relayvm.ir.expr import (
    Constructor,
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    PatternWildcard,
    Var,
)
from relayvm.ir.module import Module
from relayvm.ir.types import TupleType, Type

WILDCARD = PatternWildcard()
# Beyond so many decisions for each piece of the patterns, clauses are tried one after another.
_MOST_FOR_EACH = 2
_ALWAYS_ALLOWED = 64
_LONGEST_NAME = 64


@dataclass(eq=False, slots=True)
class Place:
    """A part of the matched value: the same in all branches that reach it."""

    name: str
    type: Type
    parts: dict[Constructor | None, tuple[Place, ...]] = field(default_factory=dict)


@dataclass(eq=False, slots=True)
class Decision:
    """A node of the graph; `uses` counts the places from which it is reached."""

    uses: int = field(default=0, kw_only=True)


@dataclass(eq=False, slots=True)
class Leaf(Decision):
    """The clause of this number is taken; its variables stand for these places."""

    clause: int
    names: dict[Var, Place] = field(default_factory=dict)


@dataclass(eq=False, slots=True)
class Untuple(Decision):
    """A tuple is taken apart."""

    place: Place
    parts: tuple[Place, ...]
    then: Decision


@dataclass(eq=False, slots=True)
class Switch(Decision):
    """A constructor is looked at; where no case is given for it, the match fails."""

    place: Place
    cases: list[tuple[Constructor, tuple[Place, ...], Decision]]
    complete: bool


@dataclass(frozen=True, slots=True, eq=False)
class _Row:
    """What places must look like for a clause to be taken."""

    tests: dict[Place, Pattern]
    leaf: Leaf

    @property
    def key(self) -> tuple[int, ...]:
        tests = (id(part) for item in self.tests.items() for part in item)
        return (id(self.leaf), *tests)


def decide(module: Module, root: Place, patterns: Sequence[Pattern]) -> Decision:
    """Return the decisions that find the first pattern which the value at `root` fits.

    Their number is polynomial in the size of the patterns.
    """
    graph = _Graph(module, sum(_size(p) for p in patterns))
    rows = []
    for clause, pattern in enumerate(patterns):
        row = _Row({}, Leaf(clause))
        graph.put(row, root, pattern)
        rows.append(row)
    first = trampoline(graph.build(rows, None))
    if first is None:
        first = Switch(root, [], False)
    first.uses += 1
    return first


class _Graph:
    def __init__(self, module: Module, pieces: int) -> None:
        self.module = module
        self.left = _ALWAYS_ALLOWED + _MOST_FOR_EACH * pieces
        self.known: dict[tuple[object, ...], Decision | None] = {}

    def build(self, rows: Sequence[_Row], otherwise: Decision | None) -> Recursive[Decision | None]:
        """Return the decisions between `rows`, and `otherwise` where none fits."""
        if not rows:
            return otherwise
        if not rows[0].tests:
            return rows[0].leaf
        rows = _until_sure(rows)
        if not rows[-1].tests:
            otherwise = None
        key = (id(otherwise), *(row.key for row in rows))
        if key in self.known:
            return self.known[key]
        self.left -= 1
        if self.left < 0 and len(rows) > 1:
            # The rest is reached from each place where the first row fails, and is built once.
            otherwise = yield self.build(rows[1:], otherwise)
            rows = rows[:1]
        place = _best_place(rows)
        if isinstance(rows[0].tests[place], PatternTuple):
            decision: Decision = yield self.untuple(rows, place, otherwise)
        else:
            decision = yield self.switch(rows, place, otherwise)
        self.known[key] = decision
        return decision

    def untuple(
        self, rows: Sequence[_Row], place: Place, otherwise: Decision | None
    ) -> Recursive[Decision]:
        parts = self.parts(place, None)
        new = [self.row(row, place, parts) for row in rows]
        then = yield self.build(new, otherwise)
        assert then is not None, "a row of the tuple's own is among them"
        then.uses += 1
        return Untuple(place, parts, then)

    def switch(
        self, rows: Sequence[_Row], place: Place, otherwise: Decision | None
    ) -> Recursive[Decision]:
        definition, _ = definition_of(self.module, place.type)
        cases: list[tuple[Constructor, tuple[Place, ...], Decision]] = []
        for constructor, fitting in zip(
            definition.constructors, _by_constructor(rows, place, len(definition.constructors))
        ):
            if not fitting and otherwise is None:
                continue
            parts = self.parts(place, constructor)
            new = [self.row(row, place, parts) for row in fitting]
            then = yield self.build(new, otherwise)
            if then is None:
                continue
            then.uses += 1
            cases.append((constructor, parts, then))
        return Switch(place, cases, len(cases) == len(definition.constructors))

    def row(self, row: _Row, place: Place, parts: Sequence[Place]) -> _Row:
        """Return what is left to test in a row once `place` is known to have these parts."""
        pattern = row.tests.get(place)
        if pattern is None:
            return row
        assert isinstance(pattern, (PatternConstructor, PatternTuple))
        new = _Row({}, row.leaf)
        for other, test in row.tests.items():
            if other is not place:
                new.tests[other] = test
                continue
            for part, inner in zip(parts, pattern.patterns):
                self.put(new, part, inner)
        return new

    def put(self, row: _Row, place: Place, pattern: Pattern) -> None:
        if isinstance(pattern, PatternVar):
            row.leaf.names[pattern.var] = place
        elif not isinstance(pattern, PatternWildcard):
            row.tests[place] = pattern

    def parts(self, place: Place, constructor: Constructor | None) -> tuple[Place, ...]:
        found = place.parts.get(constructor)
        if found is None:
            if constructor is None:
                assert isinstance(place.type, TupleType)
                types = place.type.fields
            else:
                types = field_types(self.module, place.type, constructor)
            found = tuple(Place(_part_name(place, i), t) for i, t in enumerate(types))
            place.parts[constructor] = found
        return found


def _until_sure(rows: Sequence[_Row]) -> Sequence[_Row]:
    """Return the rows up to the first that fits whatever comes."""
    for index, row in enumerate(rows):
        if not row.tests:
            return rows[: index + 1]
    return rows


def _best_place(rows: Sequence[_Row]) -> Place:
    """Return the place of the first row that the longest run of rows looks at, first among equals.

    What all rows look at is never looked at twice.
    """
    best: Place | None = None
    longest = 0
    for place in rows[0].tests:
        run = next((i for i, row in enumerate(rows) if place not in row.tests), len(rows))
        if run > longest:
            best, longest = place, run
    assert best is not None
    return best


def _by_constructor(rows: Sequence[_Row], place: Place, count: int) -> list[list[_Row]]:
    """Return for each constructor the rows whose pattern at this place may fit it."""
    fitting: list[list[_Row]] = [[] for _ in range(count)]
    for row in rows:
        pattern = row.tests.get(place)
        if isinstance(pattern, PatternConstructor):
            fitting[pattern.constructor.index].append(row)
        else:
            for chosen in fitting:
                chosen.append(row)
    return fitting


def _part_name(place: Place, index: int) -> str:
    # Names that grew with the depth would take more space than the program.
    return f"{place.name}_{index}" if len(place.name) < _LONGEST_NAME else place.name


def _size(pattern: Pattern) -> int:
    size = 0
    pending = [pattern]
    while pending:
        current = pending.pop()
        size += 1
        if isinstance(current, (PatternConstructor, PatternTuple)):
            pending.extend(current.patterns)
    return size
