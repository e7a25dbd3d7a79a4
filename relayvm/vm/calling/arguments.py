"""Setting the arguments of a call in its record, and checks of arrays that results go into."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from relayvm.base.diagnostics import error
from relayvm.base.dtypes import BY_NAME, DType
from relayvm.vm.arrays import Symbols, array_argument, check_sizes, taker_of, wrong
from relayvm.vm.calling.record import Record
from relayvm.vm.convert import to_word
from relayvm.vm.manifest import ValueType

SMALL_BYTES = 4096
ndarray = np.ndarray

Setter = Callable[[Record, Any, Symbols], None]


def static_shape(type_: ValueType) -> tuple[int, ...] | None:
    """Return the sizes of a tensor type if all are numbers."""
    sizes = tuple(d for d in type_.dims if isinstance(d, int))
    return sizes if len(sizes) == len(type_.dims) else None


def is_small(type_: ValueType) -> bool:
    """Tell whether arrays of a type are copied in less time than their address is found."""
    shape = static_shape(type_)
    if shape is None:
        return False
    return math.prod(shape) * BY_NAME[type_.dtype].itemsize_bytes <= SMALL_BYTES


def place_of(dtype: DType) -> str:
    """Return the C type of the place where plain numbers of a dtype are stored."""
    spelled = {"float32": "float *", "float64": "double *", "int64": "int64_t *"}
    return spelled.get(dtype.name, "uint64_t *")


def word_setter(type_: ValueType, where: str, slot: int) -> Setter:
    """Return the setter of a word parameter; plain Python numbers are stored in place."""
    dtype = BY_NAME[type_.dtype]
    low, high = dtype.min, dtype.max
    plain: type = float if dtype.is_float else int
    if dtype.name not in ("float32", "float64", "int64"):
        low, high = 1, 0  # nothing is plain
    numpy_dtype, scalar = dtype.numpy, dtype.numpy.type

    def set_word(record: Record, value: Any, symbols: Symbols) -> None:
        kind: Any = type(value)
        typed, word = record.typed[slot]
        if kind is scalar or (kind is ndarray and not value.ndim and value.dtype == numpy_dtype):
            value = value.item()
            kind = type(value)
        if kind is plain and low <= value <= high:
            word[0] = 0
            typed[0] = value
        else:
            word[0] = to_word(value, type_, where)

    return set_word


def array_setter(type_: ValueType, where: str, slot: int) -> Setter:
    """Return the setter of an array parameter."""
    dtype, shape = BY_NAME[type_.dtype].numpy, static_shape(type_)
    from_buffer = taker_of(BY_NAME[type_.dtype])

    def set_array(record: Record, value: Any, symbols: Symbols) -> None:
        row = record.slots[slot]
        if type(value) is ndarray and value.dtype is dtype:
            if value.shape != shape:
                check_sizes(value, type_, where, symbols)
            try:
                row.data = from_buffer(value)
            except ValueError:  # its elements do not lie in order
                value = array_argument(value, type_, where, symbols)
                row.data = from_buffer(value)
                record.kept.append(value)
        else:
            value = array_argument(value, type_, where, symbols)
            row.data = from_buffer(value)
            record.kept.append(value)
        if shape is None:
            for axis, size in enumerate(value.shape):
                row.dims[axis] = size

    return set_array


def small_setter(type_: ValueType, where: str, slot: int) -> Setter:
    """Return the setter of an array parameter that is copied into the record."""
    dtype, shape = BY_NAME[type_.dtype].numpy, static_shape(type_)

    def set_small(record: Record, value: Any, symbols: Symbols) -> None:
        if type(value) is not ndarray or value.dtype is not dtype or value.shape != shape:
            value = array_argument(value, type_, where, symbols)
        record.arrays[slot][...] = value

    return set_small


def check_out(array: Any, type_: ValueType, where: str) -> None:
    """Refuse an array that a result cannot go into; raises RelayError `wrong-argument`."""
    if type_.kind != "tensor":
        message = f"{where} is `{type_.text}`, which goes into no array"
        raise error("wrong-argument", message, help="give None for it")
    dtype = BY_NAME[type_.dtype].numpy
    if type(array) is not ndarray or array.dtype != dtype or array.ndim != len(type_.dims):
        raise wrong(where, type_, array, "results go into numpy arrays of exactly their type")
    for size, dim in zip(array.shape, type_.dims):
        if isinstance(dim, int) and size != dim:
            raise wrong(where, type_, array)
    if not array.flags.writeable:
        raise error("wrong-argument", f"{where} is read-only")
    if not array.flags.c_contiguous:
        raise error("wrong-argument", f"the elements of {where} do not lie in order")
