"""Parameters as bytes, in the format of TVM's parameter files: both systems read what the other
wrote.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from relayvm.base.diagnostics import RelayError, error, quantity
from relayvm.base.dtypes import DTYPES, DType, dtype_of
from relayvm.relay.ndarray import NDArray, as_ndarray
from relayvm.relay.node import as_dtype

LIST_MAGIC = 0xF7E58D4F05049CB7
ARRAY_MAGIC = 0xDD5E40F096B4A13F
_CPU = 1
_HEADER = struct.Struct("<QQ")
_COUNT = struct.Struct("<Q")
_ARRAY = struct.Struct("<QQiiiBBH")
_UNSIGNED = 1


def save_param_dict(params: Mapping[str, Any]) -> bytearray:
    """Return arrays by name as bytes."""
    result = bytearray(_HEADER.pack(LIST_MAGIC, 0))
    result += _COUNT.pack(len(params))
    for name in params:
        encoded = name.encode()
        result += _COUNT.pack(len(encoded)) + encoded
    result += _COUNT.pack(len(params))
    for value in params.values():
        result += _array_bytes(np.asarray(value))
    return result


def _array_bytes(array: np.ndarray) -> bytes:
    dtype = as_dtype(array.dtype)
    code = _UNSIGNED if dtype.is_bool else dtype.dlpack
    data = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()
    head = _ARRAY.pack(ARRAY_MAGIC, 0, _CPU, 0, array.ndim, code, dtype.bits, 1)
    shape = struct.pack(f"<{array.ndim}q", *array.shape)
    return head + shape + struct.pack("<q", len(data)) + data


def load_param_dict(param_bytes: bytes | bytearray | str) -> dict[str, NDArray]:
    """Return the arrays that bytes hold, by name; raises RelayError `bad-parameters`."""
    if isinstance(param_bytes, str):
        param_bytes = param_bytes.encode()
    return _Reader(bytes(param_bytes)).arrays()


def save_param_dict_to_file(params: Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    """Write arrays by name to a file."""
    Path(path).write_bytes(save_param_dict(params))


def load_param_dict_from_file(path: str | os.PathLike[str]) -> dict[str, NDArray]:
    """Return the arrays that a file holds, by name."""
    try:
        data = Path(path).read_bytes()
    except OSError as reason:
        raise error("unreadable-file", f"`{path}` cannot be read: {reason.strerror}") from None
    return load_param_dict(data)


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.place = 0

    def arrays(self) -> dict[str, NDArray]:
        if self.unpack(_HEADER)[0] != LIST_MAGIC:
            raise self.fault("these bytes are no parameters: they begin otherwise")
        (count,) = self.unpack(_COUNT)
        names = []
        for _ in range(count):
            (length,) = self.unpack(_COUNT)
            try:
                names.append(self.take(length).decode())
            except UnicodeDecodeError:
                raise self.fault("a name is not UTF-8 text") from None
        if self.unpack(_COUNT)[0] != count:
            raise self.fault("there are not as many arrays as names")
        arrays = {name: self.array() for name in names}
        if self.place != len(self.data):
            raise self.fault("bytes are left over behind the last array")
        return arrays

    def array(self) -> NDArray:
        magic, _, _, _, rank, code, bits, lanes = self.unpack(_ARRAY)
        if magic != ARRAY_MAGIC:
            raise self.fault("an array begins otherwise")
        dtype = _dtype(code, bits, lanes)
        if dtype is None:
            size = f"{quantity(bits, 'bit')} and {quantity(lanes, 'lane')}"
            raise self.fault(f"there is no dtype of code {code}, {size}")
        if rank < 0:
            raise self.fault(f"a rank is {rank}")
        shape = self.unpack(struct.Struct(f"<{rank}q"))
        (length,) = self.unpack(struct.Struct("<q"))
        count = 1
        for dim in shape:
            count *= dim
        if min(shape, default=0) < 0 or count * dtype.itemsize_bytes != length:
            taken = quantity(length, "byte")
            raise self.fault(f"an array of shape {shape} and {dtype} takes {taken}")
        data = np.frombuffer(self.take(length), dtype.numpy.newbyteorder("<"))
        return as_ndarray(data.astype(dtype.numpy).reshape(shape))

    def unpack(self, layout: struct.Struct) -> tuple[Any, ...]:
        return layout.unpack(self.take(layout.size))

    def take(self, length: int) -> bytes:
        end = self.place + length
        if length < 0 or end > len(self.data):
            rest = quantity(len(self.data) - self.place, "byte")
            raise self.fault(f"{quantity(length, 'byte')} should come here, and the rest is {rest}")
        taken = self.data[self.place : end]
        self.place = end
        return taken

    def fault(self, message: str) -> RelayError:
        return error("bad-parameters", f"byte {self.place}: {message}")


def _dtype(code: int, bits: int, lanes: int) -> DType | None:
    if lanes != 1:
        return None
    if (code, bits) == (_UNSIGNED, 1):
        return dtype_of("bool")
    for row in DTYPES:
        if row.dlpack == code and (row.bits == bits or (row.is_bool and bits == 8)):
            return row
    return None
