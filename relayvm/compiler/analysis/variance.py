"""Which parameters of data types may be given by a type that is more than what is declared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from relayvm.ir.module import TypeData
from relayvm.ir.types import FuncType, GlobalTypeVar, RefType, Type, TypeCall, TypeParam
from relayvm.ir.visit import TypeVariables, type_children


class Variance:
    """Knows of each data type of a module which parameters are only read.

    A value of `List[A]` gives values of A and takes none. One of `Box[A]`, of a constructor with
    the field `ref(A)` or `fn (A) -> int32`, takes them, too: whoever knows it by another type could
    put in what others do not expect.
    """

    def __init__(self, types: Mapping[str, TypeData]) -> None:
        self._types = types
        self._taken: dict[str, frozenset[TypeParam]] = {}
        self._variables = TypeVariables()

    def is_read_only(self, name: str, number: int) -> bool:
        """Return True if the parameter of this number only stands for what values give."""
        data = self._types.get(name)
        if data is None or number >= len(data.type_params):
            return True
        if not self._taken:
            self._find()
        return data.type_params[number] not in self._taken[name]

    def _find(self) -> None:
        self._taken = {name: frozenset() for name in self._types}
        changes = True
        while changes:
            changes = False
            for name, data in self._types.items():
                fields = (f for c in data.constructors for f in c.inputs)
                found = frozenset(p for field in fields for p in self._of(field))
                if found - self._taken[name]:
                    self._taken[name] |= found
                    changes = True

    def _of(self, field: Type) -> Iterator[TypeParam]:
        """Yield the parameters that a field takes values of."""
        stack: list[tuple[Type, bool]] = [(field, False)]
        seen: set[tuple[int, bool]] = set()
        while stack:
            part, is_taken = stack.pop()
            if (id(part), is_taken) in seen:
                continue
            seen.add((id(part), is_taken))
            if is_taken:
                yield from self._variables(part)
                continue
            if isinstance(part, FuncType):
                stack.append((part.ret_type, False))
                stack.extend((arg, True) for arg in part.arg_types)
            elif isinstance(part, TypeCall) and isinstance(part.func, GlobalTypeVar):
                for number, arg in enumerate(part.args):
                    stack.append((arg, not self.is_read_only(part.func.name, number)))
            else:
                taken = isinstance(part, RefType)
                stack.extend((inner, taken) for inner in type_children(part))
