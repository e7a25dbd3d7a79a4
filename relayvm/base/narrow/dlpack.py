"""Tensors that go to and come from other libraries by DLPack, of elements that numpy refuses."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from relayvm.base.narrow.arrays import Array, as_bytes, narrow_name
from relayvm.base.narrow.host import SIZES, array_dtype

_CPU = 1
# Codes of element types by name. Elements of less than a byte are packed there, so they are none.
_CODES = {
    "bfloat16": 4,
    "float8_e4m3fn": 10,
    "float8_e4m3fnuz": 11,
    "float8_e5m2": 12,
    "float8_e5m2fnuz": 13,
}
_NAMES = {(code, 8 * SIZES[name]): name for name, code in _CODES.items()}


class _Tensor(ctypes.Structure):
    """The head of a `DLManagedTensor`: its `DLTensor`."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype = ctypes.c_void_p
_pointer.argtypes = (ctypes.py_object, ctypes.c_char_p)


def narrow_of(value: Any) -> Array | None:
    """Return a copy of a tensor in the memory of the CPU whose elements numpy has not, None for any
    other.
    """
    capsule = value.__dlpack__()
    tensor = _Tensor.from_address(_pointer(capsule, b"dltensor"))
    name = _NAMES.get((tensor.code, tensor.bits))
    if name is None or (tensor.device_type, tensor.lanes) != (_CPU, 1):
        return None
    shape = tuple(tensor.shape[0 : tensor.ndim])
    if 0 in shape:
        return np.empty(shape, array_dtype(name))
    size = SIZES[name]
    steps = _strides(shape) if not tensor.strides else tuple(tensor.strides[0 : tensor.ndim])
    below = sum((n - 1) * step for n, step in zip(shape, steps) if step < 0)
    above = sum((n - 1) * step for n, step in zip(shape, steps) if step > 0)
    start = tensor.data + tensor.byte_offset + size * below
    element = ctypes.c_uint16 if size == 2 else ctypes.c_uint8
    flat = np.ctypeslib.as_array((element * (above - below + 1)).from_address(start))
    view = np.lib.stride_tricks.as_strided(flat[-below:], shape, [size * step for step in steps])
    # The capsule, which was not consumed, releases the tensor when this function ends.
    return np.asarray(view.copy().view(array_dtype(name)))


def capsule_of(array: Array) -> Any:
    """Return a capsule that lends the elements of an array that numpy has not.

    It is that of numpy for integers of the same memory, with another type of elements. Raises
    BufferError for elements of less than a byte, which others pack.
    """
    name = narrow_name(array) or ""
    if name not in _CODES:
        raise BufferError(f"elements of {name} are not lent")
    capsule = as_bytes(array.view(np.ndarray)).__dlpack__()
    _Tensor.from_address(_pointer(capsule, b"dltensor")).code = _CODES[name]
    return capsule


def _strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    steps = [1]
    for size in reversed(shape[1:]):
        steps.insert(0, steps[0] * size)
    return tuple(steps[-len(shape) :]) if shape else ()
