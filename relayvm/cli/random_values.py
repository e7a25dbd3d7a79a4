"""Made-up arguments for `relayvm run --random`."""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np

from relayvm.base.diagnostics import RelayError, error
from relayvm.base.dtypes import BY_NAME
from relayvm.base.trampoline import Recursive, trampoline
from relayvm.vm.executable import Executable
from relayvm.vm.manifest import Constructor, DataType, ValueType

MAX_DEPTH = 6
# So many constructors and items make up an argument; then the smallest values follow.
MOST_MADE = 1_000
MOST_ITEMS = 3


class RandomValues:
    """Makes values of the types of an executable; a symbolic size is the same everywhere."""

    def __init__(self, executable: Executable, seed: int, size: int) -> None:
        self.executable = executable
        self.rng = np.random.default_rng(seed)
        self.size = size
        self.types = {row.name: row for row in executable.manifest.types}
        self.left = 0
        # How many constructors the smallest value of a data type nests; infinite where none ends.
        self.heights = dict.fromkeys(self.types, inf)
        changed = True
        while changed:
            found = {n: min(map(self._least, t.constructors)) for n, t in self.types.items()}
            changed = found != self.heights
            self.heights = found

    def value(self, name: str, type_: ValueType) -> Any:
        """Return a value for the parameter `name`; raises RelayError `bad-option` for functions,
        and for types of which no value ends.
        """
        if trampoline(self._height(type_)) == inf:
            raise self._refused(name, type_)
        self.left = MOST_MADE
        return trampoline(self._value(type_, 0))

    def _refused(self, name: str, type_: ValueType) -> RelayError:
        if type_.kind == "function":
            why = "a function, which cannot be given from the command line"
        elif self._holds_functions(type_):
            why = f"`{type_.text}` with functions, which cannot be given from the command line"
        else:
            why = f"`{type_.text}`, of which no value ends"
        return error("bad-option", f"`{name}` is {why}")

    def _holds_functions(self, type_: ValueType) -> bool:
        seen: set[str] = set()
        waiting = [type_]
        while waiting:
            current = waiting.pop()
            if current.kind == "function":
                return True
            waiting.extend(current.fields)
            if current.kind == "data" and current.name not in seen:
                seen.add(current.name)
                waiting.extend(f for c in self.types[current.name].constructors for f in c.fields)
        return False

    def _least(self, constructor: Constructor) -> float:
        """Return how many constructors the smallest value of this one nests."""
        return 1 + max((trampoline(self._height(f)) for f in constructor.fields), default=0)

    def _height(self, type_: ValueType) -> Recursive[float]:
        if type_.kind in ("tensor", "array"):
            return 0
        if type_.kind == "data":
            return self.heights[type_.name]
        if type_.kind == "function":
            return inf
        highest = 0.0
        for part in type_.fields:
            highest = max(highest, (yield self._height(part)))
        return highest

    def _value(self, type_: ValueType, depth: int) -> Recursive[Any]:
        if type_.kind == "tensor":
            return self._tensor(type_)
        if type_.kind == "data":
            value = yield self._data(self.types[type_.name], depth)
            return value
        if type_.kind == "array":
            items = yield self._items(type_.fields[0], depth)
            return items
        parts: list[Any] = []
        for part in type_.fields:
            parts.append((yield self._value(part, depth)))
        return parts[0] if type_.kind == "ref" else tuple(parts)

    def _tensor(self, type_: ValueType) -> np.ndarray:
        shape = tuple(d if isinstance(d, int) else self.size for d in type_.dims)
        dtype = BY_NAME[type_.dtype]
        if dtype.is_real:
            return dtype.array(self.rng.standard_normal(shape))
        return dtype.array(self.rng.integers(0, min(10, int(dtype.max) + 1), shape))

    def _items(self, type_: ValueType, depth: int) -> Recursive[list[Any]]:
        """Return the items of an array: none of what has no values, or deep down."""
        ends = (yield self._height(type_)) < inf
        most = MOST_ITEMS if ends and depth < MAX_DEPTH and self.left > 0 else 0
        items: list[Any] = []
        for _ in range(self.rng.integers(most + 1)):
            self.left -= 1
            items.append((yield self._value(type_, depth + 1)))
        return items

    def _data(self, row: DataType, depth: int) -> Recursive[Any]:
        """Build a constructor chosen by chance; deep down, one of the smallest values."""
        self.left -= 1
        choices = [c for c in row.constructors if self._least(c) < inf]
        if depth >= MAX_DEPTH or self.left <= 0:
            choices = [min(choices, key=self._least)]
        chosen = choices[self.rng.integers(len(choices))]
        fields: list[Any] = []
        for part in chosen.fields:
            fields.append((yield self._value(part, depth + 1)))
        return getattr(self.executable.adt(row.name), chosen.name)(*fields)
