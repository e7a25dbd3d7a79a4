"""Which types of an expression have a name in its text, so that none is written at length twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable

from relayvm.ir.expr import Expr, Function
from relayvm.ir.scope import Scopes
from relayvm.ir.shared_types.table import BoundName, Key, TypeTable
from relayvm.ir.types import TensorType, Type, TypeParam, TypeRelation
from relayvm.ir.visit import type_children

# A type of more words than this is long: what is shorter is as well read in place.
LONG = 100


class Abbreviations:
    """The long types that would be written more than once, each with the node before whose text it
    gets its name: the innermost function whose type parameters it mentions, else the root.

    They depend on the structure of the types alone, not on which objects are the same.
    """

    def __init__(self, root: Expr, scopes: Scopes, written: Iterable[Type | None]) -> None:
        self._table = TypeTable(lambda variable: variable, self._note)
        self._types: list[Type] = []
        self._sizes: list[int] = []
        self._counts: Counter[Hashable] = Counter()
        self._closed: list[bool] = []
        self._homes: dict[int, list[int]] = {}
        self._named: set[int] = set()
        judged: dict[int, tuple[Type, bool]] = {}
        for type_ in written:
            if type_ is None or isinstance(type_, TensorType):
                continue
            if id(type_) not in judged:
                judged[id(type_)] = (type_, is_long(type_))
            if judged[id(type_)][1]:
                self._counts[self._table.name(type_)] += 1
        if self._types:
            self._settle(root, scopes)

    def _note(self, number: int, key: Key, type_: Type, free: tuple[Hashable, ...]) -> None:
        _, inside = key
        parts = [part for part in inside if isinstance(part, int)]
        self._counts.update(parts)
        words = len(inside) - len(parts) + 1 + sum(map(_rank, type_children(type_)))
        self._types.append(type_)
        self._sizes.append(min(LONG + 1, words + sum(self._sizes[part] for part in parts)))
        # What mentions the parameters of a function type around it can stand only there.
        self._closed.append(not any(isinstance(name, BoundName) for name in free))

    def _settle(self, root: Expr, scopes: Scopes) -> None:
        binders: dict[TypeParam, list[Function]] = {}
        for function in (node for node in scopes.nodes if isinstance(node, Function)):
            for param in function.type_params:
                binders.setdefault(param, []).append(function)
        for number, type_ in enumerate(self._types):
            if self._sizes[number] <= LONG or self._counts[number] < 2:
                continue
            around = [binders[v] for v in self._table.free(type_) if v in binders]
            is_clear = all(len(functions) < 2 for functions in around)
            if self._closed[number] and is_clear and not isinstance(type_, TypeRelation):
                homes = [functions[0] for functions in around]
                homes.sort(key=lambda f: scopes.binding[id(f)][0].depth)
                self._homes.setdefault(id(homes[-1] if homes else root), []).append(number)
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

    def at(self, node: Expr) -> list[tuple[int, Type]]:
        """Return the types that get a name at a node, with their numbers: inner ones first."""
        return [(number, self._types[number]) for number in self._homes.get(id(node), ())]


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
