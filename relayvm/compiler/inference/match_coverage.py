"""Which values no clause of a match covers, by the matrix method of Maranget's "Warnings for
pattern matching".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from relayvm.base.trampoline import Recursive, trampoline
from relayvm.ir.expr import (
    Constructor,
    Match,
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    PatternWildcard,
)
from relayvm.ir.module import Module, TypeData

Row = tuple[Pattern, ...]
WILDCARD = PatternWildcard()
# How many patterns are looked at before the question is left open. It is co-NP-hard; programs
# that people write need a few hundred.
MOST_LOOKED_AT = 400_000


def unmatched_cases(match: Match, module: Module, limit: int = 20) -> list[Pattern]:
    """Return patterns that together describe what no clause of `match` fits; empty if it is
    complete.

    At most `limit` are returned. A value that fits one of them fits no clause.
    """
    return Coverage(module.types, limit).uncovered(match)


def cases_soon_found(match: Match, module: Module, limit: int = 20) -> list[Pattern]:
    """Return what `unmatched_cases` does, but nothing if the answer is not found in good time."""
    try:
        return Coverage(module.types, limit, MOST_LOOKED_AT).uncovered(match)
    except _TooLongError:
        return []


class _TooLongError(Exception):
    """The question is left open."""


class Coverage:
    """Finds what clauses leave uncovered; questions that come again are answered once."""

    def __init__(
        self, types: Mapping[str, TypeData], limit: int, most_looked_at: int | None = None
    ) -> None:
        self.types = types
        self.limit = limit
        self.left = most_looked_at
        self.known: dict[tuple[tuple[int, ...], ...], list[Row]] = {}

    def uncovered(self, match: Match) -> list[Pattern]:
        rows: list[Row] = [(clause.lhs,) for clause in match.clauses]
        return [row[0] for row in trampoline(self.rows(rows, 1))]

    def rows(self, rows: Sequence[Row], width: int) -> Recursive[list[Row]]:
        """Return rows of `width` patterns that no row of the matrix covers."""
        if not rows:
            return [(WILDCARD,) * width]
        closed = [i for i in range(width) if not all(_is_open(row[i]) for row in rows)]
        if not closed or any(all(_is_open(row[i]) for i in closed) for row in rows):
            return []
        # The column that most rows look at comes first; what none looks at stays out.
        first = max(closed, key=lambda i: sum(not _is_open(row[i]) for row in rows))
        order = [first, *(i for i in closed if i != first)]
        inner: list[Row] = [tuple(row[i] for i in order) for row in rows]
        found = yield self.matrix(inner)
        result = []
        for row in found:
            full: list[Pattern] = [WILDCARD] * width
            for i, pattern in zip(order, row):
                full[i] = pattern
            result.append(tuple(full))
        return result

    def matrix(self, rows: Sequence[Row]) -> Recursive[list[Row]]:
        """Return what is uncovered; a constructor or a tuple is first in some row."""
        unique = {tuple(0 if _is_open(p) else id(p) for p in row): row for row in rows}
        key = tuple(unique)
        if key in self.known:
            return self.known[key]
        rows = list(unique.values())
        if self.left is not None:
            self.left -= len(rows) * len(rows[0])
            if self.left < 0:
                raise _TooLongError
        head = next(row[0] for row in rows if not _is_open(row[0]))
        if isinstance(head, PatternTuple):
            arity = len(head.patterns)
            inner = yield self.rows(_tuple_rows(rows, arity), arity + len(rows[0]) - 1)
            result = [(PatternTuple(row[:arity]), *row[arity:]) for row in inner]
        else:
            assert isinstance(head, PatternConstructor)
            result = yield self.constructors(rows, head.constructor.belong_to.name)
        self.known[key] = result
        return result

    def constructors(self, rows: Sequence[Row], name: str) -> Recursive[list[Row]]:
        width = len(rows[0])
        result: list[Row] = []
        default: list[Row] | None = None
        fitting = _by_constructor(rows)
        for constructor in self.types[name].constructors:
            arity = len(constructor.inputs)
            if constructor.index in fitting:
                special = _constructor_rows(fitting[constructor.index], constructor)
                inner = yield self.rows(special, arity + width - 1)
                result += [_rebuilt(constructor, row, arity) for row in inner]
            else:
                if default is None:
                    left = [row[1:] for row in rows if _is_open(row[0])]
                    default = yield self.rows(left, width - 1)
                blank = (WILDCARD,) * arity
                result += [_rebuilt(constructor, (*blank, *row), arity) for row in default or ()]
            if len(result) >= self.limit:
                return result[: self.limit]
        return result


def _is_open(pattern: Pattern) -> bool:
    return isinstance(pattern, (PatternWildcard, PatternVar))


def _by_constructor(rows: Sequence[Row]) -> dict[int, list[Row]]:
    """Return for each constructor that a row begins with the rows that may fit it, in order."""
    used = dict.fromkeys(
        row[0].constructor.index for row in rows if isinstance(row[0], PatternConstructor)
    )
    fitting: dict[int, list[Row]] = {index: [] for index in used}
    for row in rows:
        if isinstance(row[0], PatternConstructor):
            fitting[row[0].constructor.index].append(row)
        elif _is_open(row[0]):
            for chosen in fitting.values():
                chosen.append(row)
    return fitting


def _tuple_rows(rows: Sequence[Row], arity: int) -> list[Row]:
    result: list[Row] = []
    for row in rows:
        head = row[0]
        inner = head.patterns if isinstance(head, PatternTuple) else (WILDCARD,) * arity
        result.append((*inner, *row[1:]))
    return result


def _constructor_rows(rows: Sequence[Row], constructor: Constructor) -> list[Row]:
    result: list[Row] = []
    for row in rows:
        head = row[0]
        if _is_open(head):
            result.append((WILDCARD,) * len(constructor.inputs) + row[1:])
        elif isinstance(head, PatternConstructor) and head.constructor.index == constructor.index:
            result.append((*head.patterns, *row[1:]))
    return result


def _rebuilt(constructor: Constructor, row: Row, arity: int) -> Row:
    return (PatternConstructor(constructor, row[:arity]), *row[arity:])


def pattern_text(pattern: Pattern, limit: int = 200) -> str:
    """Return a pattern as Relay text, cut where it is very long."""
    parts: list[str] = []
    stack: list[Pattern | str] = [pattern]
    size = 0
    while stack and size < limit:
        item = stack.pop()
        if isinstance(item, str):
            parts.append(item)
            size += len(item)
        elif isinstance(item, PatternTuple):
            close = ",)" if len(item.patterns) == 1 else ")"
            stack.extend(reversed(["(", *_listed(item.patterns), close]))
        elif isinstance(item, PatternConstructor):
            inner = ["(", *_listed(item.patterns), ")"] if item.patterns else []
            stack.extend(reversed([item.constructor.name, *inner]))
        else:
            stack.append(f"%{item.var.name}" if isinstance(item, PatternVar) else "_")
    return "".join(parts) + ("..." if stack else "")


def _listed(patterns: Sequence[Pattern]) -> list[Pattern | str]:
    pieces: list[Pattern | str] = []
    for pattern in patterns:
        pieces += [", ", pattern] if pieces else [pattern]
    return pieces
