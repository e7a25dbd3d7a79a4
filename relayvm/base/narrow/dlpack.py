"""Tensors of bfloat16 that go to and come from other libraries by DLPack, which numpy refuses."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from relayvm.base.narrow.bfloat16 import Array, array_dtype

_CPU, _BFLOAT, _BITS = 1, 4, 16


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


def bfloat16_of(value: Any) -> Array | None:
    """Return a copy of a tensor of bfloat16 in the memory of the CPU, None for any other."""
    capsule = value.__dlpack__()
    tensor = _Tensor.from_address(_pointer(capsule, b"dltensor"))
    if (tensor.device_type, tensor.code, tensor.bits, tensor.lanes) != (_CPU, _BFLOAT, _BITS, 1):
        return None
    shape = tuple(tensor.shape[0 : tensor.ndim])
    if 0 in shape:
        return np.empty(shape, array_dtype())
    steps = _strides(shape) if not tensor.strides else tuple(tensor.strides[0 : tensor.ndim])
    below = sum((size - 1) * step for size, step in zip(shape, steps) if step < 0)
    above = sum((size - 1) * step for size, step in zip(shape, steps) if step > 0)
    start = tensor.data + tensor.byte_offset + 2 * below
    flat = np.ctypeslib.as_array((ctypes.c_uint16 * (above - below + 1)).from_address(start))
    view = np.lib.stride_tricks.as_strided(flat[-below:], shape, [2 * step for step in steps])
    # The capsule, which was not consumed, releases the tensor when this function ends.
    return np.asarray(view.copy().view(array_dtype()))


def capsule_of(array: Array) -> Any:
    """Return a capsule that lends the elements of an array of bfloat16.

    It is that of numpy for integers of the same memory, with another type of elements.
    """
    capsule = array.view(np.ndarray).view(np.uint16).__dlpack__()
    _Tensor.from_address(_pointer(capsule, b"dltensor")).code = _BFLOAT
    return capsule


def _strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    steps = [1]
    for size in reversed(shape[1:]):
        steps.insert(0, steps[0] * size)
    return tuple(steps[-len(shape) :]) if shape else ()
