"""Arrays of the dtypes that numpy has not: their elements as numbers, and numbers as them."""

from __future__ import annotations

from typing import Any

import numpy as np

from relayvm.base.narrow import bfloat16, stored
from relayvm.base.narrow.host import BFLOAT16, SIZES, array_dtype, name_of

Array = np.ndarray[Any, Any]


def narrow_name(array: Any) -> str | None:
    """Return the name of the dtype of an array if numpy has it not."""
    dtype = array.dtype
    # ml_dtypes registers some of them as floats.
    if dtype.kind not in "Vf" or dtype.isbuiltin == 1:
        return None
    name = name_of(dtype)
    return name if name in SIZES else None


def is_bfloat16(array: Any) -> bool:
    """Tell whether an array holds elements of bfloat16."""
    return narrow_name(array) == BFLOAT16


def as_bytes(array: Array) -> Array:
    """Return the same elements as an array with the buffer protocol, which others lack."""
    name = narrow_name(array)
    if name is None:
        return array
    return np.asarray(array.view(np.uint16 if SIZES[name] == 2 else np.uint8))


def readable(array: Array) -> Array:
    """Return an array whose values numpy can read: what it has not is widened, exactly."""
    name = narrow_name(array)
    if name is None:
        return array
    if name == BFLOAT16:
        return bfloat16.widened(array)
    return stored.widened(np.asarray(array).view(np.uint8), name)


def rounded(array: Array, name: str) -> Array:
    """Return numbers as an array of a dtype that numpy has not, rounded once, ties to even."""
    if name == BFLOAT16:
        return bfloat16.rounded(array)
    return np.asarray(stored.rounded(array, name).view(array_dtype(name)))
