"""What the intrinsics of arrays mean: an array is a Python list that nobody changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from relayvm.base.diagnostics import quantity

MOST_ITEMS = 2**31 - 1


def _new(capacity: Any) -> list[Any]:
    if int(capacity) < 0:
        raise OverflowError(f"an array cannot have room for {int(capacity)} items")
    return []


def _length(array: list[Any]) -> Any:
    return np.asarray(len(array), np.int32)


def _place(array: list[Any], index: Any) -> int:
    place = int(index)
    if not 0 <= place < len(array):
        raise IndexError(f"index {place} of an array of {quantity(len(array), 'item')}")
    return place


def _get(array: list[Any], index: Any) -> Any:
    return array[_place(array, index)]


def _set(array: list[Any], index: Any, value: Any) -> list[Any]:
    place = _place(array, index)
    return [*array[:place], value, *array[place + 1 :]]


def _push(array: list[Any], value: Any) -> list[Any]:
    return [*array, value]


ARRAY_MEANINGS: Mapping[str, Callable[..., Any]] = {
    "array.new": _new,
    "array.length": _length,
    "array.get": _get,
    "array.set": _set,
    "array.push": _push,
}
