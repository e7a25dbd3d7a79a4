"""The form of an input of the completeness tests; files `cases_*.py` hold those of one family."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from relayvm.base.dtypes import BY_NAME
from relayvm.ir.types import TensorType
from relayvm.ops import OPS

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Case:
    """One legal call. A tuple operand has a list of shapes.

    `dtypes` fixes the dtype of operands by position, of a tuple one or one for each field;
    `values` fixes their elements, of a tuple as a list with None where they are free.
    `known` are operands whose sizes the rule must know.
    """

    shapes: tuple[Shape | list[Shape], ...]
    attrs: dict[str, Any] = field(default_factory=dict)
    dtypes: dict[int, Any] = field(default_factory=dict)
    values: dict[int, Any] = field(default_factory=dict)
    known: tuple[int, ...] = ()


def result_shape(name: str, shapes: tuple[Shape, ...], attrs: dict[str, Any]) -> Shape:
    """Return the shape of the result of a call with float32 operands."""
    result = OPS[name].result_type([TensorType(s, BY_NAME["float32"]) for s in shapes], attrs)
    assert isinstance(result, TensorType)
    return tuple(int(str(d)) for d in result.shape)
