"""What inference works on: holes for types and dims, why one type must fit another, and the queue
of tasks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum

from relayvm.base.diagnostics import Note
from relayvm.base.dims import (
    ANY,
    AnyDim,
    Dim,
    DimExpr,
    DimVar,
    dim_substitute,
    dim_variables,
    symbol,
)
from relayvm.base.source import Span
from relayvm.ir.types import IncompleteType, Type

# A type with sizes is taken apart where it flows into one to be found, each shared part in each
# place: so many times may parts be taken apart again in one flow.
MOST_PARTS = 1 << 12


class Mode(Enum):
    """How a type may differ from the one it flows into.

    CHECKED: a run-time check covers what only a run can tell. STRICT: the place is inside a data
    type or function, where no check can be put, so dims must be known to fit. EQUAL: inside a
    reference, where nothing may differ.
    """

    CHECKED = 0
    STRICT = 1
    EQUAL = 2


@dataclass(slots=True, eq=False)
class Reason:
    """Why one type flows into another, for the message if it does not fit.

    `message` has the places `{actual}` and `{expected}`; `code` is chosen by the mismatch where it
    is empty.
    """

    span: Span | None
    message: str
    actual: Type
    expected: Type
    code: str = ""
    notes: tuple[Note, ...] = ()
    reported: bool = False


class Task:
    """Work that is repeated whenever something it read has changed."""

    __slots__ = ("queued",)

    def __init__(self) -> None:
        self.queued = False

    def run(self) -> None:
        """Do the work with what is known now."""
        raise AssertionError("a task defines its work")


class Queue:
    """Tasks to be run, each at most once at a time, in order of arrival."""

    def __init__(self) -> None:
        self._tasks: deque[Task] = deque()

    def put(self, task: Task) -> None:
        if not task.queued:
            task.queued = True
            self._tasks.append(task)

    def drain(self) -> None:
        """Run tasks until none is left."""
        while self._tasks:
            task = self._tasks.popleft()
            task.queued = False
            task.run()


@dataclass(frozen=True, slots=True)
class Owner:
    """What a hole stands for, to name it where it stays empty: "the type of `%x`", and the place.

    A derived one is empty only because another is, so it is not worth a message of its own.
    """

    what: str
    span: Span | None
    derived: bool = False


# A place where a polymorphic function met a type to be found: what that is the type of, and its
# number among the places of the same description.
Choice = tuple[Owner, int]

Renaming = Mapping[DimVar, Dim]


@dataclass(slots=True, eq=False)
class Pending:
    """A flow between two empty holes, waiting for either to be bound."""

    other: Type
    reason: Reason
    mode: Mode
    renaming: Renaming | None


@dataclass(slots=True, eq=False)
class HoleState:
    """What is known of a hole. `above` are flows out of it, `below` flows into it; `group` is its
    union-find parent.

    Holes of one group have types of one skeleton (equal up to dims). A `produced` one waits for
    the result of an operator. `choices`, kept by the representative, are the places that made of a
    polymorphic function the instance that the hole, or a type that it is a part of, was bound to.
    """

    owner: Owner
    bound: Type | None = None
    above: list[Pending] = field(default_factory=list)
    below: list[Pending] = field(default_factory=list)
    listeners: list[Task] = field(default_factory=list)
    group: HoleState | None = None
    poisoned: bool = False
    produced: bool = False
    choices: frozenset[Choice] = frozenset()

    def representative(self) -> HoleState:
        """Return the state that stands for the group."""
        root = self
        while root.group is not None:
            root = root.group
        state = self
        while state.group is not None:
            following = state.group
            state.group = root
            state = following
        return root

    def join_group(self, other: HoleState) -> None:
        """Make one group of two."""
        a, b = self.representative(), other.representative()
        if a is not b:
            a.group = b
            b.choices |= a.choices


@dataclass(frozen=True, slots=True, eq=False)
class Hole(IncompleteType):
    """A type to be found."""

    state: HoleState = field(kw_only=True)


def new_hole(
    owner: Owner, produced: bool = False, choices: frozenset[Choice] = frozenset()
) -> Hole:
    """Return an empty hole."""
    return Hole(state=HoleState(owner, produced=produced, choices=choices))


class DimHole(DimVar):
    """A dim to be found. Its value only rises: None (nothing known), a dim, `?`.

    A joining hole takes the least dim that covers all that flows in. A solving one (`solves`)
    stands for a ShapeVar of a called function: it is the first known solution of what flows into
    the parameters that mention it. Something flows into a `fed` one, so that its uses do not decide
    it.
    """

    __slots__ = ("fed", "flows", "listeners", "solves", "value")

    def __init__(self, name: str, solves: bool = False) -> None:
        super().__init__(name)
        self.value: Dim | None = None
        self.listeners: list[Task] = []
        self.solves = solves
        self.fed = False
        self.flows: list[Task] = []


def dim_holes(dim: Dim) -> Iterator[DimHole]:
    """Yield the holes in a dim."""
    if isinstance(dim, DimExpr):
        for variable in dim_variables(dim):
            if isinstance(variable, DimHole):
                yield variable


def has_dim_hole(dim: Dim) -> bool:
    """Return True if a part of `dim` is to be found."""
    if not isinstance(dim, DimExpr):
        return False
    return hole_of(dim) is not None or any(True for _ in dim_holes(dim))


def hole_of(dim: Dim) -> DimHole | None:
    """Return the hole that `dim` is, or None if it is anything else."""
    variable = dim.variable if isinstance(dim, DimExpr) else None
    return variable if isinstance(variable, DimHole) else None


def known_dim(dim: Dim) -> Dim | None:
    """Return the dim with the values that its holes have now; None if one has none."""
    if not isinstance(dim, DimExpr):
        return dim
    whole = hole_of(dim)
    if whole is not None:
        return whole.value
    values: dict[DimVar, Dim] = {}
    for hole in dim_holes(dim):
        if hole.value is None:
            return None
        values[hole] = hole.value
    return replace_dims(dim, values) if values else dim


def replace_dims(dim: Dim, values: Renaming) -> Dim:
    """Return `dim` with variables replaced; `?` where that divides by 0."""
    try:
        return dim_substitute(dim, values)
    except ZeroDivisionError:
        return ANY


def fresh_dim(fed: bool = False) -> DimExpr:
    """Return a dim that is a new hole; `fed` if it gets its value from an operator."""
    hole = DimHole("_")
    hole.fed = fed
    return symbol(hole)


def is_any(dim: Dim | None) -> bool:
    """Return True for `?`."""
    return isinstance(dim, AnyDim)
