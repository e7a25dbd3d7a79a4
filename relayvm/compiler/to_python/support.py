"""What a Python text of a program stands on: the text takes what it uses from here, as source.

Needs numpy alone; every definition here is self-contained but for those named in `NEEDS`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

NEEDS = {"repeat": ("Again",), "array_get": ("Trap",), "array_set": ("Trap",)}
NEEDS |= {"array_new": ("Trap",), "fail": ("Trap",), "check": ("Trap",)}


class Trap(Exception):
    """A run that stopped: a code and a message."""


class Data:
    """A value of a data type: a constructor is a class of its own."""

    __slots__ = ("fields",)
    type_name = name = ""
    tag = 0

    def __init__(self, *fields: Any) -> None:
        self.fields = fields

    def __repr__(self) -> str:
        count = len(self.fields)
        return f"<{self.name} of {self.type_name}, {count} field{'s' * (count != 1)}>"


class Ref:
    """A mutable cell."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


class Again:
    """What a step of `repeat` returns to be run again, with other arguments."""

    __slots__ = ("args",)

    def __init__(self, *args: Any) -> None:
        self.args = args


def repeat(step: Callable[..., Any], *args: Any) -> Any:
    """Call `step` until its result is no `Again`; closures made in one turn keep their values."""
    result = step(*args)
    while isinstance(result, Again):
        result = step(*result.args)
    return result


def fail(message: str) -> Any:
    """Stop the run at a match."""
    raise Trap("match-failed", message)


def check(value: Any, shape: tuple[int | None, ...], what: str) -> None:
    """Stop the run unless the sizes that are known are those of `value`."""
    for axis, (size, known) in enumerate(zip(value.shape, shape)):
        if known is not None and known != size:
            raise Trap("run-time-shape", f"axis {axis} of {what} is {size}, declared {known}")


def broadcast(a: int, b: int) -> int:
    """Return the size that two sizes are broadcast to."""
    return a if b == 1 else b


def to_integer(x: Any, dtype: Any) -> Any:
    """Return floats as integers: truncated and saturated, 0 for NaN."""
    wide, info = np.trunc(np.asarray(x, np.float64)), np.iinfo(dtype)
    above, below = wide >= float(int(info.max) + 1), wide < float(info.min)
    result = np.where(above | below | np.isnan(wide), 0, wide).astype(dtype)
    return np.where(above, dtype(info.max), np.where(below, dtype(info.min), result))


def array_new(capacity: Any) -> list[Any]:
    """Return an array without items."""
    if capacity < 0:
        raise Trap("size-overflow", f"an array cannot have room for {capacity} items")
    return []


def array_length(array: list[Any]) -> Any:
    """Return the number of items."""
    return np.int32(len(array))


def array_get(array: list[Any], index: Any) -> Any:
    """Return an item."""
    if not 0 <= index < len(array):
        items = f"{len(array)} item{'' if len(array) == 1 else 's'}"
        raise Trap("index-out-of-range", f"`array.get`: index {index} of an array of {items}")
    return array[int(index)]


def array_set(array: list[Any], index: Any, value: Any) -> list[Any]:
    """Return an array with another item."""
    if not 0 <= index < len(array):
        items = f"{len(array)} item{'' if len(array) == 1 else 's'}"
        raise Trap("index-out-of-range", f"`array.set`: index {index} of an array of {items}")
    return [*array[: int(index)], value, *array[int(index) + 1 :]]


def array_push(array: list[Any], value: Any) -> list[Any]:
    """Return an array with one more item."""
    return [*array, value]
