"""Which types have a name in a text, so that none is written at length twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable

from relayvm.ir.expr import Function
from relayvm.ir.scope import Scopes
from relayvm.ir.shared_types.table import HOLE, Bound, BoundName, Key, TypeTable
from relayvm.ir.types import FuncType, TensorType, Type, TypeParam, TypeRelation
from relayvm.ir.visit import type_children

# A type of more words than this is long: what is shorter is as well read in place.
LONG = 100


class Abbreviations:
    """The long types that a text would have more than once. Each gets its name at the innermost
    function or function type whose type parameters it mentions, else at the top of the text.

    They depend on the structure of the types alone, not on which objects are the same.
    """

    def __init__(self) -> None:
        self._table = TypeTable(lambda variable: variable, self._note)
        self._types: list[Type] = []
        self._sizes: list[int] = []
        self._counts: Counter[Hashable] = Counter()
        self._whole: list[bool] = []
        # The parameters of function types around it that a type mentions, by how deep these nest.
        self._levels: list[frozenset[int]] = []
        self._is_generic = False
        self._binders: dict[TypeParam, list[tuple[int, Function]]] = {}
        self._homes: dict[int | None, list[int]] = {}
        self._named: set[int] = set()
        self._judged: dict[int, tuple[Type, bool]] = {}

    def add(self, scopes: Scopes, written: Iterable[Type | None]) -> None:
        """Count the types that the text of one expression has."""
        self.count(written)
        for node in scopes.nodes:
            if isinstance(node, Function) and node.type_params:
                binder = (scopes.binding[id(node)][0].depth, node)
                for param in node.type_params:
                    self._binders.setdefault(param, []).append(binder)

    def count(self, written: Iterable[Type | None]) -> None:
        """Count types that a text has."""
        for type_ in written:
            if type_ is None or isinstance(type_, TensorType):
                continue
            if id(type_) not in self._judged:
                self._judged[id(type_)] = (type_, is_long(type_))
            if self._judged[id(type_)][1]:
                self._counts[self._table.name(type_)] += 1

    def _note(self, number: int, key: Key, type_: Type, free: tuple[Hashable, ...]) -> None:
        _, inside = key
        parts = [part for part in inside if isinstance(part, int)]
        self._counts.update(parts)
        words = len(inside) - len(parts) + 1 + sum(map(_rank, type_children(type_)))
        self._types.append(type_)
        self._sizes.append(min(LONG + 1, words + sum(self._sizes[part] for part in parts)))
        # Each place that is to be inferred is one of its own.
        self._whole.append(HOLE not in inside and all(self._whole[part] for part in parts))
        self._levels.append(frozenset(name[0] for name in free if isinstance(name, BoundName)))
        self._is_generic |= isinstance(type_, FuncType) and bool(type_.type_params)

    def settle(self) -> None:
        """Choose the types, when all are counted."""
        for number, type_ in enumerate(self._types):
            if self._sizes[number] <= LONG or self._counts[number] < 2:
                continue
            variables = self._table.free(type_)
            around = [self._binders[v] for v in variables if v in self._binders]
            is_clear = all(len(binders) == 1 for binders in around)
            # What mentions the parameters of a function type around it can stand only there.
            can_move = not self._levels[number] and self._whole[number] and is_clear
            if can_move and not isinstance(type_, TypeRelation):
                home = max((b[0] for b in around), key=lambda b: b[0], default=None)
                self._homes.setdefault(home and id(home[1]), []).append(number)
                self._named.add(number)

    def of(self, type_: Type, around: Bound) -> int | None:
        """Return the number of a type that may have a name inside of function types whose
        parameters are `around`: one of `at`, or of `inside` for that of its `level`.
        """
        if not (self._named or self._is_generic) or not type_children(type_):
            return None
        number = self._table.name(type_, around)
        if isinstance(number, int) and (number in self._named or self._levels[number]):
            return number
        return None

    def level(self, number: int) -> int | None:
        """Return which function type the type belongs to, by how deep that nests; None if none."""
        return max(self._levels[number], default=None)

    def at(self, function: Function | None) -> list[tuple[int, Type]]:
        """Return the types that get a name at a function, or at the top, with their numbers: inner
        ones first.
        """
        found = self._homes.get(None if function is None else id(function), ())
        return [(number, self._types[number]) for number in found]

    def inside(self, type_: FuncType, around: Bound) -> tuple[Bound, int, list[tuple[int, Type]]]:
        """Return what bounds the parts of a function type with parameters, how deep it nests, and
        the types that get a name among its parameters: what mentions these, is long, and stands
        in it twice; inner ones first.
        """
        inner = self._table.inside(type_, around)
        level = inner[type_.type_params[0]][0]
        found: dict[int, Type] = {}
        counts: Counter[int] = Counter()
        waiting = [(part, inner) for part in type_children(type_)]
        while waiting:
            part, names = waiting.pop()
            number = self._table.name(part, names)
            if not isinstance(number, int) or self._sizes[number] <= LONG:
                continue
            if level in self._levels[number]:
                counts[number] += 1
                if number not in found:
                    found[number] = part
                    below = self._table.inside(part, names)
                    waiting.extend([(p, below) for p in type_children(part)])
        chosen = [n for n in sorted(found) if counts[n] > 1 and self.level(n) == level]
        rows = [(n, found[n]) for n in chosen if self._whole[n]]
        return inner, level, [row for row in rows if not isinstance(row[1], TypeRelation)]


def is_long(type_: Type) -> bool:
    """Tell whether the text of a type has more words than `LONG`."""
    words = 0
    waiting = [type_]
    while waiting and words <= LONG:
        item = waiting.pop()
        words += 1 + _rank(item)
        waiting.extend(type_children(item))
    return words > LONG


def _rank(type_: Type) -> int:
    return type_.rank if isinstance(type_, TensorType) else 0
