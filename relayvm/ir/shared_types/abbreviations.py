"""Which types have a name in a text, so that none is written at length twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable

from relayvm.ir.expr import Function
from relayvm.ir.scope import Scopes
from relayvm.ir.shared_types.table import HOLE, BoundName, Key, TypeTable
from relayvm.ir.types import TensorType, Type, TypeParam, TypeRelation
from relayvm.ir.visit import type_children

# A type of more words than this is long: what is shorter is as well read in place.
LONG = 100


class Abbreviations:
    """The long types that a text would have more than once. Each gets its name at the innermost
    function whose type parameters it mentions, else at the top of the text.

    They depend on the structure of the types alone, not on which objects are the same.
    """

    def __init__(self) -> None:
        self._table = TypeTable(lambda variable: variable, self._note)
        self._types: list[Type] = []
        self._sizes: list[int] = []
        self._counts: Counter[Hashable] = Counter()
        self._whole: list[bool] = []
        self._closed: list[bool] = []
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
        # What mentions the parameters of a function type around it can stand only there.
        self._closed.append(not any(isinstance(name, BoundName) for name in free))

    def settle(self) -> None:
        """Choose the types, when all are counted."""
        for number, type_ in enumerate(self._types):
            if self._sizes[number] <= LONG or self._counts[number] < 2:
                continue
            variables = self._table.free(type_)
            around = [self._binders[v] for v in variables if v in self._binders]
            is_clear = all(len(binders) == 1 for binders in around)
            can_move = self._closed[number] and self._whole[number] and is_clear
            if can_move and not isinstance(type_, TypeRelation):
                home = max((b[0] for b in around), key=lambda b: b[0], default=None)
                self._homes.setdefault(home and id(home[1]), []).append(number)
                self._named.add(number)

    def of(self, type_: Type, bound: Collection[TypeParam]) -> int | None:
        """Return the number of a type that has a name here: where the type parameters `bound`
        belong to function types around it.
        """
        if not self._named or not type_children(type_):
            return None
        number = self._table.name(type_)
        if not isinstance(number, int) or number not in self._named:
            return None
        hidden = bool(bound) and any(v in bound for v in self._table.free(type_))
        return None if hidden else number

    def at(self, function: Function | None) -> list[tuple[int, Type]]:
        """Return the types that get a name at a function, or at the top, with their numbers: inner
        ones first.
        """
        found = self._homes.get(None if function is None else id(function), ())
        return [(number, self._types[number]) for number in found]


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
