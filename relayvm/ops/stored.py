"""Operators that take and make the dtypes in which nothing computes: they move elements, or change
them to others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from relayvm.base.dtypes import BY_NAME, COMPUTED, DTYPES, DType, dtype_of
from relayvm.base.narrow.arrays import narrow_name, readable
from relayvm.ir.types import TensorType, TupleType, Type
from relayvm.ops.numeric import cast
from relayvm.ops.schema import ConstrainedOperand

# A meaning on the bytes of elements is that on the elements: they are only moved.
_MOVES = frozenset(
    {
        *("adv_index", "annotation.checkpoint", "annotation.stop_fusion", "broadcast_to"),
        *("broadcast_to_like", "concatenate", "contrib_reverse_reshape", "copy", "device_copy"),
        *("dyn.broadcast_to", "dyn.expand_dims", "dyn.full", "dyn.nn.pad", "dyn.reshape"),
        *("dyn.squeeze", "dyn.strided_slice", "dyn.tile", "expand_dims", "full", "full_like"),
        *("gather", "gather_nd", "layout_transform", "meshgrid", "ndarray_size"),
        *("nn.batch_flatten", "nn.batch_to_space_nd", "nn.depth_to_space", "nn.fifo_buffer"),
        *("nn.mirror_pad", "nn.pad", "nn.space_to_depth", "on_device", "repeat", "reshape"),
        *("reshape_like", "reverse", "reverse_sequence", "shape_of", "slice_like"),
        *("sliding_window", "split", "split_like", "squeeze", "stack", "strided_set"),
        *("strided_slice", "take", "tile", "transpose", "where", "zeros_like"),
    }
)
# What these make are numbers.
_MAKES = frozenset({"dyn.ones", "dyn.zeros", "ones", "ones_like", "zeros"})
# These read and make such arrays themselves.
_CONVERTS = frozenset({"cast", "cast_like", "qnn.dequantize", "qnn.quantize", "reinterpret"})
# The last operand of these becomes one of the dtype of the first.
_FILLS = frozenset({"dyn.nn.pad", "full_like", "nn.pad"})
STORING = _MOVES | _MAKES | _CONVERTS

ResultType = Callable[[Sequence[Type], Mapping[str, Any]], Type]


def with_stored_dtypes(operands: tuple[ConstrainedOperand, ...]) -> tuple[ConstrainedOperand, ...]:
    """Return operands of which those that may have any dtype may have one of storage, too."""
    return tuple(
        replace(o, constraint=replace(o.constraint, dtypes=DTYPES))
        if o.constraint.dtypes == COMPUTED
        else o
        for o in operands
    )


def touches_stored(args: Sequence[Any], attrs: Mapping[str, Any]) -> bool:
    """Tell whether a dtype of storage is among the operands or attributes of a call."""
    if any(isinstance(v, DType) and v.is_stored for v in attrs.values()):
        return True
    return any(_is_stored(a) for a in args)


def _is_stored(value: Any) -> bool:
    if isinstance(value, tuple):
        return any(map(_is_stored, value))
    if not isinstance(value, (np.ndarray, np.generic)):
        return False
    name = narrow_name(value)
    return name is not None and BY_NAME[name].is_stored


def apply_to_stored(
    name: str,
    meaning: Callable[..., Any],
    result_type: ResultType | None,
    args: Sequence[Any],
    attrs: Mapping[str, Any],
) -> Any:
    """Return the results of a meaning that knows numpy's dtypes only. Without `result_type` they
    are no arrays.
    """
    if name in _CONVERTS:
        return meaning(*args, **attrs)
    if name in _FILLS:
        args = (*args[:-1], cast(np.asarray(args[-1]), dtype_of(args[0].dtype)))
    dtypes = {v for v in attrs.values() if isinstance(v, DType)}
    moved = {dtype_of(np.asarray(a).dtype) for a in args if _is_stored(a) and _is_array(a)}
    as_bytes = name in _MOVES and dtypes <= (moved or dtypes) and not (dtypes and not moved)
    change = _bytes_of if as_bytes else _numbers_of
    plain = {k: _plain(v, as_bytes) for k, v in attrs.items()}
    result = meaning(*(change(a) if _is_stored(a) else a for a in args), **plain)
    if result_type is None:
        return result
    return _restored(result, result_type([_type_of(a) for a in args], attrs), as_bytes)


def _is_array(value: Any) -> bool:
    return not isinstance(value, tuple)


def _plain(value: Any, as_bytes: bool) -> Any:
    if not (isinstance(value, DType) and value.is_stored):
        return value
    return BY_NAME["uint8" if as_bytes else value.wide]


def _bytes_of(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_bytes_of, value))
    array = np.asarray(value)
    return array.view(np.uint8) if _is_stored(array) else array


def _numbers_of(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_numbers_of, value))
    return readable(np.asarray(value))


def _type_of(value: Any) -> Type:
    if isinstance(value, tuple):
        return TupleType(tuple(map(_type_of, value)))
    if isinstance(value, Type):
        return value
    array = np.asarray(value)
    return TensorType(array.shape, dtype_of(array.dtype))


def _restored(value: Any, type_: Type, as_bytes: bool) -> Any:
    if isinstance(type_, TupleType):
        return tuple(_restored(v, t, as_bytes) for v, t in zip(value, type_.fields))
    assert isinstance(type_, TensorType)
    if not type_.dtype.is_stored:
        return value
    if as_bytes:
        return np.ascontiguousarray(value).view(type_.dtype.numpy).reshape(np.shape(value))
    return type_.dtype.array(value)
