"""Files of named arrays in the safetensors format: the constants of a program beside its text.

Layout: the length of the header as 8 bytes, a JSON header with dtype, shape and byte range of each
array, then the elements, little-endian and row-major (https://huggingface.co/docs/safetensors).
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from relayvm.base.diagnostics import quantity
from relayvm.base.dtypes import BFLOAT16, BY_NAME, COMPUTED, STORED, DType, dtype_of

_KINDS = {"bool": "BOOL", "int": "I", "uint": "U", "float": "F"}
_NAMES = {d: _KINDS[d.kind] + ("" if d.is_bool else str(d.bits)) for d in COMPUTED}
# The format has no names for some, of which each element takes a byte.
_OWN_NAMES = {f"{d.name.upper()}_BYTES": d for d in STORED}
_NAMES |= {
    BFLOAT16: "BF16",
    **{dtype: name for name, dtype in _OWN_NAMES.items()},
    BY_NAME["float8_e4m3fn"]: "F8_E4M3",
    BY_NAME["float8_e5m2"]: "F8_E5M2",
    BY_NAME["float8_e4m3fnuz"]: "F8_E4M3FNUZ",
    BY_NAME["float8_e5m2fnuz"]: "F8_E5M2FNUZ",
}
_DTYPES = {**_OWN_NAMES, **{name: dtype for dtype, name in _NAMES.items()}}


def little_endian(data: np.ndarray) -> bytes:
    """Return the elements in row-major order as little-endian bytes."""
    return data.astype(data.dtype.newbyteorder("<"), copy=False).tobytes()


def native(data: np.ndarray, dtype: DType) -> np.ndarray:
    """Return what was read as an array that programs may hold: aligned, in native order, read-only,
    every bool 0 or 1. Copies only where it must.
    """
    if dtype.is_bool:
        return np.not_equal(data.view(np.uint8), 0)
    whole = np.require(data.astype(dtype.numpy, copy=False), requirements="A")
    whole.flags.writeable = False
    return whole


def write_tensors(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays to a file, which takes the place of an old one only once it is whole.

    Wide elements come first, so that all are aligned.
    """
    order = sorted(arrays, key=lambda name: -arrays[name].dtype.itemsize)
    header: dict[str, Any] = {}
    end = 0
    for name in order:
        data = arrays[name]
        begin, end = end, end + data.nbytes
        dtype = _NAMES[dtype_of(data.dtype)]
        header[name] = {"dtype": dtype, "shape": list(data.shape), "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            file.write(len(text).to_bytes(8, "little") + text)
            for name in order:
                file.write(little_endian(arrays[name]))
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


class DamageError(ValueError):
    """What is wrong with a document or a file, in words of ours."""


def read_tensors(path: Path) -> dict[str, np.ndarray]:
    """Return the arrays of a file, read-only; raises OSError, or ValueError where it is damaged."""
    content = path.read_bytes()
    size = int.from_bytes(content[:8], "little")
    if len(content) < 8 or size > len(content) - 8:
        raise DamageError(f"`{path.name}` is cut short")
    try:
        header = json.loads(content[8 : 8 + size])
    except (ValueError, RecursionError):
        header = None
    if not isinstance(header, dict):
        raise DamageError(f"`{path.name}` has no header in JSON")
    header.pop("__metadata__", None)
    return {name: _array(name, row, content, 8 + size) for name, row in header.items()}


def _array(name: str, row: Any, content: bytes, start: int) -> np.ndarray:
    try:
        dtype: DType = _DTYPES[row["dtype"]]
        shape = tuple(row["shape"])
        begin, end = row["data_offsets"]
        sizes = [*shape, begin, end]
    except (KeyError, TypeError, ValueError):
        sizes = [-1]
    if not all(type(s) is int and 0 <= s < 1 << 46 for s in sizes):
        raise DamageError(f"tensor `{name[:40]}` has a header that cannot be read")
    expected = prod(shape) * dtype.itemsize_bytes
    if end - begin != expected or start + end > len(content):
        given = quantity(end - begin, "byte")
        raise DamageError(f"tensor `{name[:40]}` has {given}, not {expected:,}")
    little = dtype.numpy.newbyteorder("<")
    data = np.frombuffer(content, little, prod(shape), start + begin).reshape(shape)
    return native(data, dtype)
