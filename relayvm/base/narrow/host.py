"""Dtypes of numpy for elements that it has not: those of ml_dtypes, or opaque bytes.

Programs need the package only where such arrays come from or go to the caller.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from relayvm.base.narrow import stored

BFLOAT16 = "bfloat16"
# Names of dtypes, with the bytes of an element.
SIZES: dict[str, int] = {BFLOAT16: 2, **dict.fromkeys((*stored.FORMATS, *stored.WHOLE), 1)}


@cache
def array_dtype(name: str) -> np.dtype[Any]:
    """Return the dtype of ml_dtypes, or where it is not installed one of opaque bytes."""
    return host_dtype(name) or np.dtype([(name, f"V{SIZES[name]}")])


@cache
def host_dtype(name: str) -> np.dtype[Any] | None:
    """Return the dtype of arrays that callers have, None where ml_dtypes does not have it."""
    try:
        import ml_dtypes
    except ImportError:
        return None
    found = getattr(ml_dtypes, name, None)
    dtype: np.dtype[Any] | None = None if found is None else np.dtype(found)
    return dtype


def name_of(dtype: np.dtype[Any]) -> str:
    """Return numpy's name of a dtype; that of opaque bytes is the name of their numbers too."""
    names = dtype.names
    return names[0] if names and len(names) == 1 and names[0] in SIZES else str(dtype.name)
