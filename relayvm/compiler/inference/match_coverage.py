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


def unmatched_cases(match: Match, module: Module, limit: int = 20) -> list[Pattern]:
    """Return patterns that together describe what no clause of `match` fits; empty if it is
    complete.

    At most `limit` are returned. A value that fits one of them fits no clause.
    """
    rows: list[Row] = [(clause.lhs,) for clause in match.clauses]
    found = trampoline(_uncovered(rows, 1, module.types, limit))
    return [row[0] for row in found]


def _uncovered(
    rows: Sequence[Row], width: int, types: Mapping[str, TypeData], limit: int
) -> Recursive[list[Row]]:
    """Return rows of `width` patterns that no row of the matrix covers."""
    if not rows:
        return [(WILDCARD,) * width]
    if width == 0:
        return []
    heads = [row[0] for row in rows if not _is_open(row[0])]
    if not heads:
        rest = yield _uncovered([row[1:] for row in rows], width - 1, types, limit)
        return [(WILDCARD, *row) for row in rest]
    if isinstance(heads[0], PatternTuple):
        arity = len(heads[0].patterns)
        inner = yield _uncovered(_tuple_rows(rows, arity), arity + width - 1, types, limit)
        return [(PatternTuple(row[:arity]), *row[arity:]) for row in inner]
    head = heads[0]
    assert isinstance(head, PatternConstructor)
    result: list[Row] = []
    default: list[Row] | None = None
    fitting = _by_constructor(rows)
    for constructor in types[head.constructor.belong_to.name].constructors:
        arity = len(constructor.inputs)
        if constructor.index in fitting:
            special = _constructor_rows(fitting[constructor.index], constructor)
            inner = yield _uncovered(special, arity + width - 1, types, limit)
            result += [_rebuilt(constructor, row, arity) for row in inner]
        else:
            if default is None:
                left = [row[1:] for row in rows if _is_open(row[0])]
                default = yield _uncovered(left, width - 1, types, limit)
            blank = (WILDCARD,) * arity
            result += [_rebuilt(constructor, (*blank, *row), arity) for row in default or ()]
        if len(result) >= limit:
            return result[:limit]
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
