"""Which parameters of data types may be given by a type that is more than what is declared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum

from relayvm.ir.module import TypeData
from relayvm.ir.types import FuncType, GlobalTypeVar, RefType, Type, TypeCall, TypeParam
from relayvm.ir.visit import TypeVariables, type_children


class Use(Enum):
    """What values of a data type do with values of a parameter: give, take, or both of it."""

    GIVEN = 0
    TAKEN = 1
    BOTH = 2


_TURNED = {Use.GIVEN: Use.TAKEN, Use.TAKEN: Use.GIVEN, Use.BOTH: Use.BOTH}


class Variance:
    """Knows of each data type of a module what its values do with those of the parameters.

    A value of `List[A]` gives values of A and takes none. One of `Box[A]`, of a constructor with
    the field `ref(A)` or `fn (A) -> int32`, takes them, too: whoever knows it by another type could
    put in what others do not expect.
    """

    def __init__(self, types: Mapping[str, TypeData]) -> None:
        self._types = types
        self._found: dict[str, dict[TypeParam, Use]] = {}
        self._variables = TypeVariables()

    def is_read_only(self, name: str, number: int) -> bool:
        """Return True if the parameter of this number only stands for what values give."""
        return self.use(name, number) is Use.GIVEN

    def use(self, name: str, number: int) -> Use:
        """Return what values do with those of the parameter of this number; a parameter that
        stands nowhere is only given.
        """
        data = self._types.get(name)
        if data is None or number >= len(data.type_params):
            return Use.GIVEN
        if not self._found:
            self._find()
        return self._found[name].get(data.type_params[number], Use.GIVEN)

    def _find(self) -> None:
        self._found = {name: {} for name in self._types}
        changes = True
        while changes:
            changes = False
            for name, data in self._types.items():
                found = self._found[name]
                for field in (f for c in data.constructors for f in c.inputs):
                    for param, use in self._of(field):
                        known = found.get(param, use)
                        joined = use if known is use else Use.BOTH
                        if found.get(param) is not joined:
                            found[param] = joined
                            changes = True

    def _of(self, field: Type) -> Iterator[tuple[TypeParam, Use]]:
        """Yield the parameters in a field, with their uses as far as these are known."""
        stack: list[tuple[Type, Use]] = [(field, Use.GIVEN)]
        seen: set[tuple[int, Use]] = set()
        while stack:
            part, use = stack.pop()
            if (id(part), use) in seen:
                continue
            seen.add((id(part), use))
            if isinstance(part, FuncType):
                stack.append((part.ret_type, use))
                stack.extend((arg, _TURNED[use]) for arg in part.arg_types)
            elif isinstance(part, TypeCall) and isinstance(part.func, GlobalTypeVar):
                stack.extend(self._arguments(part, use))
            elif isinstance(part, RefType):
                stack.append((part.value, Use.BOTH))
            elif inner := type_children(part):
                stack.extend((below, use) for below in inner)
            else:
                yield from ((variable, use) for variable in self._variables(part))

    def _arguments(self, call: TypeCall, use: Use) -> Iterator[tuple[Type, Use]]:
        """Yield the arguments of a data type that have a use yet; a recursive one may have none."""
        data = self._types.get(call.func.name)
        for number, arg in enumerate(call.args):
            inner: Use | None = Use.GIVEN
            if data is not None and data.constructors and number < len(data.type_params):
                inner = self._found[call.func.name].get(data.type_params[number])
            if inner is Use.BOTH:
                yield arg, Use.BOTH
            elif inner is not None:
                yield arg, use if inner is Use.GIVEN else _TURNED[use]
