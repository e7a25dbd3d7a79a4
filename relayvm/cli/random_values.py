"""Made-up arguments for `relayvm run --random`."""

from __future__ import annotations

from typing import Any

import numpy as np

from relayvm.base.diagnostics import error
from relayvm.vm.executable import Executable
from relayvm.vm.manifest import Constructor, DataType, ValueType

MAX_DEPTH = 6


class RandomValues:
    """Makes values of the types of an executable; a symbolic size is the same everywhere."""

    def __init__(self, executable: Executable, seed: int, size: int) -> None:
        self.executable = executable
        self.rng = np.random.default_rng(seed)
        self.size = size
        self.types = {row.name: row for row in executable.manifest.types}

    def value(self, name: str, type_: ValueType, depth: int = 0) -> Any:
        """Return a value for the parameter `name`; raises RelayError for functions and such."""
        if type_.kind == "tensor":
            return self._array(type_)
        if type_.kind == "tuple":
            return tuple(self.value(name, field, depth) for field in type_.fields)
        if type_.kind == "data" and depth <= MAX_DEPTH * 2:
            return self._data(name, self.types[type_.name], depth)
        message = f"`{name}` has type `{type_.text}`, for which --random makes up no values"
        raise error("bad-option", message)

    def _array(self, type_: ValueType) -> np.ndarray:
        shape = tuple(d if isinstance(d, int) else self.size for d in type_.dims)
        dtype = np.dtype(type_.dtype)
        if dtype.kind == "f":
            return self.rng.standard_normal(shape).astype(dtype)
        return self.rng.integers(0, 2 if dtype.kind == "b" else 10, shape).astype(dtype)

    def _data(self, name: str, row: DataType, depth: int) -> Any:
        """Build a constructor chosen by chance; deep down, one with the fewest data fields."""

        def nested(constructor: Constructor) -> int:
            return sum(field.kind == "data" for field in constructor.fields)

        choices = row.constructors
        if depth >= MAX_DEPTH:
            fewest = min(map(nested, choices))
            choices = tuple(c for c in choices if nested(c) == fewest)
        chosen = choices[self.rng.integers(len(choices))]
        fields = [self.value(name, field, depth + 1) for field in chosen.fields]
        return getattr(self.executable.adt(row.name), chosen.name)(*fields)
