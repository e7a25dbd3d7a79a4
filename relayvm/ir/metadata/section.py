"""The section `#[metadata]`: what stands in it is read here, and ours is written here.

A row of `relay.Constant` holds its elements in base64, or names a tensor in a file beside the text.
"""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from relayvm.base.diagnostics import quantity
from relayvm.base.dtypes import BY_NAME, dtype_of
from relayvm.ir.metadata.graph import DAMAGE, Graph, MetaObject, described
from relayvm.ir.metadata.tensor_file import DamageError, little_endian, native, read_tensors

CONSTANTS = "relay.Constant"


@dataclass(slots=True)
class Metadata:
    """What a section holds. `problem` says why it could not be read."""

    constants: list[np.ndarray] = field(default_factory=list)
    graph: Graph | None = None
    problem: str = ""

    def count(self, key: str) -> int:
        """Return how many objects of a type stand in the section."""
        if key == CONSTANTS:
            return len(self.constants)
        return self.graph.count(key) if self.graph else 0

    def object(self, key: str, index: int) -> MetaObject:
        """Return an object that is no constant; raises ValueError where there is none."""
        if self.graph is None or key == CONSTANTS:
            raise DamageError("it is no object")
        return self.graph.object(key, index)


class Section:
    """The constants that a text being printed has no literals for.

    With `file`, they are meant for a file of that name beside the text, and only named in it.
    """

    def __init__(self, file: str = "") -> None:
        self.file = file
        self.constants: list[np.ndarray] = []
        self._numbers: dict[int, int] = {}

    def number(self, data: np.ndarray) -> int:
        """Return the number under which an array stands in the section, adding it if it is new."""
        number = self._numbers.setdefault(id(data), len(self.constants))
        if number == len(self.constants):
            self.constants.append(data)
        return number

    def tensors(self) -> dict[str, np.ndarray]:
        """Return the arrays under the names that they have in the file."""
        return {_tensor_name(i): data for i, data in enumerate(self.constants)}

    def parts(self) -> list[str]:
        """Return the section, from `#[metadata]` on, as texts to be joined: they may be long."""
        file = f'  "file": {json.dumps(self.file)},\n' if self.file else ""
        parts = [f'#[metadata]\n{{\n{file}  "{CONSTANTS}": [']
        for i, data in enumerate(self.constants):
            parts.append(",\n    " if i else "\n    ")
            parts.append(f'{{"dtype": "{dtype_of(data.dtype)}", "shape": {list(data.shape)}, ')
            if self.file:
                parts.append(f'"tensor": "{_tensor_name(i)}"}}')
            else:  # Base64 needs no escapes, so it does not go through `json`.
                coded = binascii.b2a_base64(little_endian(data), newline=False)
                parts += ['"data": "', coded.decode("ascii"), '"}']
        return [*parts, "\n  ]\n}\n"]


def _tensor_name(number: int) -> str:
    return f"constant_{number}"


def read_metadata(text: str, folder: Path | None = None) -> Metadata:
    """Return what stands after `#[metadata]`; files that it names lie in `folder`."""
    metadata = Metadata()
    if not text.strip():
        return metadata
    try:
        document = json.loads(text)
        if "b64ndarrays" in document:
            metadata.graph = Graph(document)
            metadata.constants = metadata.graph.constants()
        else:
            tensors = _file(document, folder)
            metadata.constants = [_constant(row, tensors) for row in document[CONSTANTS]]
    except OSError as reason:
        metadata.problem = f"`{document['file']}` cannot be read: {reason.strerror}"
    except DAMAGE as reason:
        metadata.problem = described(reason)
    return metadata


def _file(document: dict[str, Any], folder: Path | None) -> dict[str, np.ndarray]:
    name = document.get("file")
    if name is None:
        return {}
    # A text from elsewhere must not reach for files outside of its own folder.
    if not isinstance(name, str) or name in ("", ".", "..") or set("/\\:\0") & set(name):
        raise DamageError(f"{str(name)[:60]!r} is not the name of a file beside the text")
    if folder is None:
        raise DamageError(f"the constants are in `{name[:60]}`, so the text must be read by path")
    return read_tensors(folder / name)


def _constant(row: dict[str, object], tensors: dict[str, np.ndarray]) -> np.ndarray:
    name = str(row["dtype"])
    if name not in BY_NAME:
        raise DamageError(f"there is no element type `{name[:40]}`")
    dtype = BY_NAME[name]
    shape = row["shape"]
    if not isinstance(shape, list) or not all(type(d) is int and 0 <= d < 1 << 46 for d in shape):
        raise DamageError(f"{str(shape)[:60]} is not a shape")
    if "tensor" in row:
        data = tensors[str(row["tensor"])]
        if data.dtype != dtype.numpy or data.shape != tuple(shape):
            raise DamageError(f"tensor `{str(row['tensor'])[:40]}` is not {dtype} of shape {shape}")
        return data
    content = base64.b64decode(str(row["data"]), validate=True)
    expected = prod(shape) * dtype.itemsize_bytes
    if len(content) != expected:
        dims = ", ".join(map(str, shape))
        takes = quantity(expected, "byte")
        raise DamageError(
            f"`Tensor[({dims}), {dtype}]` takes {takes}, and its data has {len(content):,}"
        )
    return native(np.frombuffer(content, dtype.numpy.newbyteorder("<")).reshape(shape), dtype)
