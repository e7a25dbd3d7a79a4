"""Values of the evaluator: tensors are arrays of numpy, tuples are tuples, arrays are lists; the
others stand here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from relayvm.base.diagnostics import quantity
from relayvm.base.trampoline import Recursive, trampoline


@dataclass(frozen=True, slots=True, eq=False)
class DataValue:
    """A value of a data type."""

    constructor: str
    type_name: str
    tag: int
    fields: tuple[Any, ...]

    def __repr__(self) -> str:
        return f"<{self.constructor} of {self.type_name}, {quantity(len(self.fields), 'field')}>"


@dataclass(slots=True, eq=False)
class Reference:
    """A mutable cell."""

    value: Any


def to_value(value: Any) -> Any:
    """Return a host value as the evaluator holds it where no type tells how: numbers become
    tensors, lists tuples, and what has a constructor and fields a value of a data type.
    """
    return trampoline(_to_value(value))


def _to_value(value: Any) -> Recursive[Any]:
    if isinstance(value, (bool, int, float, np.generic)):
        return _tensor(value)
    is_sequence = isinstance(value, (list, tuple))
    if not is_sequence and (isinstance(value, DataValue) or not hasattr(value, "type_name")):
        return value
    parts = []
    for part in value if is_sequence else value.fields:
        parts.append((yield _to_value(part)))
    if is_sequence:
        return tuple(parts)
    name = value.type_name.partition("[")[0]
    return DataValue(value.constructor, name, value.tag, tuple(parts))


def _tensor(value: Any) -> Any:
    array = np.asarray(value)
    if isinstance(value, np.generic):
        return array
    narrow = {"int64": np.int32, "float64": np.float32}
    return array.astype(narrow.get(array.dtype.name, array.dtype))
