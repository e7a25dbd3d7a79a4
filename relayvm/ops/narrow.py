"""Meanings of operators on bfloat16, which numpy has not: those on float32, rounded once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from relayvm.base.dtypes import BFLOAT16, FLOAT32, dtype_of
from relayvm.base.narrow.arrays import is_bfloat16
from relayvm.base.narrow.bfloat16 import rounded, widened
from relayvm.ir.types import TensorType, TupleType, Type

F = TypeVar("F", bound=Callable[..., Any])
Step = Callable[[Any], Any]


def takes_bfloat16(meaning: F) -> F:
    """Mark a meaning that reads and makes arrays of bfloat16 itself."""
    meaning.takes_bfloat16 = True  # type: ignore[attr-defined]
    return meaning


def steps_of(dtype: np.dtype[Any]) -> tuple[Step, Step, Step]:
    """Return how a meaning of many steps computes in a dtype: what makes arrays that numpy computes
    with, what rounds one step, and what makes the result.
    """
    if dtype_of(dtype) is not BFLOAT16:
        return _same, _same, _same
    return widened, lambda value: widened(rounded(value)), rounded


def _same(value: Any) -> Any:
    return value


def touches_bfloat16(args: Sequence[Any], attrs: Mapping[str, Any]) -> bool:
    """Tell whether bfloat16 is among the operands or attributes of a call."""
    return any(map(_is_narrow, args)) or any(v is BFLOAT16 for v in attrs.values())


def apply_in_float32(
    meaning: Callable[..., Any],
    result_type: Callable[[Sequence[Type], Mapping[str, Any]], Type] | None,
    args: Sequence[Any],
    attrs: Mapping[str, Any],
) -> Any:
    """Return the results of a meaning on operands widened to float32; those of bfloat16 are
    rounded. Without `result_type` they are no arrays.
    """
    if getattr(meaning, "takes_bfloat16", False):
        return meaning(*args, **attrs)
    wide = {name: FLOAT32 if v is BFLOAT16 else v for name, v in attrs.items()}
    result = meaning(*map(_widened, args), **wide)
    if result_type is None:
        return result
    return _narrowed(result, result_type([_type_of(a) for a in args], attrs))


def _is_narrow(value: Any) -> bool:
    if isinstance(value, tuple):
        return any(map(_is_narrow, value))
    return isinstance(value, (np.ndarray, np.generic)) and is_bfloat16(value)


def _widened(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_widened, value))
    return widened(np.asarray(value)) if _is_narrow(value) else value


def _type_of(value: Any) -> Type:
    if isinstance(value, tuple):
        return TupleType(tuple(map(_type_of, value)))
    array = np.asarray(value)
    return TensorType(array.shape, dtype_of(array.dtype))


def _narrowed(value: Any, type_: Type) -> Any:
    if isinstance(type_, TupleType):
        return tuple(_narrowed(v, t) for v, t in zip(value, type_.fields))
    assert isinstance(type_, TensorType)
    return rounded(value) if type_.dtype is BFLOAT16 else value
