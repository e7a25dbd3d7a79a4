"""The metadata that Apache TVM writes: a graph of numbered nodes in JSON, with arrays as dumps.

A node has a `type_key` and, by kind, `attrs` (texts: numbers, names, or the numbers of other
nodes), `data` (numbers of nodes), `keys` or `repr_str`. Node 0 is null; the root is a map from type
keys to arrays of nodes. Which texts are numbers of nodes only the reader's schema can tell.
"""

from __future__ import annotations

import base64
import binascii
import json
import struct
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any, TypeVar

import numpy as np

from relayvm.base.diagnostics import quantity
from relayvm.base.dims import ANY, AnyDim
from relayvm.base.dtypes import BOOL, DTYPES
from relayvm.ir.metadata.tensor_file import DamageError

T = TypeVar("T")

_ARRAY_MAGIC = 0xDD5E40F096B4A13F
_MAX_DEPTH = 64
_MAX_NODES = 100_000
_DIM_OPS = {"tir.Add": "+", "tir.Sub": "-", "tir.Mul": "*", "tir.FloorDiv": "//"}
_DIM_OPS |= {"tir.FloorMod": "%", "tir.Min": "min", "tir.Max": "max"}

# Integers that TVM keeps in nodes of their own though they always have a value: by field, or by the
# type and field where other types have a plain one of that name.
_BOXED = {"batch_dims", "index_rank", "repeats", "exclusive", "k", "max_output_size"}
_BOXED_AXIS = {"Gather", "Repeat", "Reverse", "ScatterElements", "Scanop", "Stack", "Take"}


# What can go wrong with a document whose parts have other kinds than they should.
DAMAGE = (
    ValueError,
    KeyError,
    TypeError,
    IndexError,
    AttributeError,
    RecursionError,
    OverflowError,
    struct.error,
)


def described(reason: Exception) -> str:
    """Return what is wrong with a document as part of a message, without words of Python's."""
    if isinstance(reason, DamageError):
        return str(reason)[:200]
    if isinstance(reason, KeyError):
        return f"no {reason.args[0] if reason.args else 'such entry'}"
    if isinstance(reason, json.JSONDecodeError):
        return f"it is no JSON from line {reason.lineno}, column {reason.colno} on"
    if isinstance(reason, binascii.Error):
        return "a text is no base64"
    if isinstance(reason, RecursionError):
        return "it nests too deep"
    return "a part of it is of another kind than it should be"


@dataclass(frozen=True, slots=True)
class Named:
    """A variable of a dim, by name."""

    name: str


@dataclass(frozen=True, slots=True)
class Computed:
    """A dim computed from two others."""

    op: str
    a: Any
    b: Any


@dataclass(frozen=True, slots=True)
class MetaObject:
    """A node with the graph that it stands in. What cannot be read raises ValueError."""

    graph: Graph
    number: int

    def value(self) -> Any:
        """Return the node as a value of an attribute: number, text, tuple, dict, array or dim."""
        return _checked(lambda: self.graph.whole_value(self.number))

    def fields(self) -> dict[str, str]:
        """Return the fields of a record, as texts."""
        return _checked(lambda: dict(self.graph.node(self.number).get("attrs", {})))

    def field(self, name: str, kind: str) -> Any:
        """Return a field of a record as a value of a kind such as `int | None`."""
        key = str(self.graph.node(self.number).get("type_key", ""))
        return _checked(lambda: self.graph.field(key, name, self.fields()[name], kind))


def _checked(read: Callable[[], T]) -> T:
    try:
        return read()
    except DAMAGE as reason:
        raise DamageError(described(reason)) from None


class Graph:
    """The nodes of one section."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.nodes: list[Any] = document["nodes"]
        self.arrays: list[str] = document["b64ndarrays"]
        root = self.node(document["root"])
        lists = zip(root.get("keys", ()), root.get("data", ()))
        self.lists: dict[str, list[Any]] = {k: list(self.node(n).get("data", ())) for k, n in lists}
        self._nodes_left = _MAX_NODES

    def node(self, number: Any) -> dict[str, Any]:
        if type(number) is not int or not 0 <= number < len(self.nodes):
            raise DamageError(f"there is no node {str(number)[:40]}")
        node = self.nodes[number]
        if not isinstance(node, dict):
            raise DamageError(f"node {number} is no object")
        return node

    def count(self, key: str) -> int:
        return len(self.lists.get(key, ()))

    def object(self, key: str, index: int) -> MetaObject:
        return MetaObject(self, self.lists[key][index])

    def constants(self) -> list[np.ndarray]:
        """Return the constants."""
        key = "relay.Constant"
        objects = [self.object(key, i) for i in range(self.count(key))]
        return [self._array(item.fields()["data"]) for item in objects]

    def _array(self, number: str) -> np.ndarray:
        return dumped_array(base64.b64decode(self.arrays[int(number)]))

    def whole_value(self, number: int) -> Any:
        """Return a node as a value; other nodes than those of attributes are refused."""
        self._nodes_left = _MAX_NODES
        return self.value(number, 0)

    def value(self, number: int, depth: int) -> Any:
        """Return a node inside of another as a value."""
        if number == 0:
            return None
        # Nodes may share parts, or contain themselves.
        self._nodes_left -= 1
        if depth > _MAX_DEPTH or self._nodes_left < 0:
            raise DamageError("the nodes of a value are too many or too deep")
        node = self.node(number)
        key = str(node.get("type_key", ""))
        attrs = node.get("attrs", {})
        if key in ("runtime.String", "ffi.String", "tir.StringImm"):
            return str(node.get("repr_str", attrs.get("value", "")))
        if key in ("Array", "ffi.Array"):
            return tuple(self.value(n, depth + 1) for n in node.get("data", ()))
        if key in ("Map", "ffi.Map") and "keys" in node:
            values = (self.value(n, depth + 1) for n in node.get("data", ()))
            return dict(zip(map(str, node["keys"]), values))
        if key in ("Map", "ffi.Map", "DictAttrs"):
            inner = int(attrs.get("__dict__", 0))
            return self.value(inner, depth + 1) or {}
        if key in ("IntImm", "FloatImm") or key.startswith("runtime.Box"):
            return _number(key, attrs, node.get("repr_str", ""))
        if key == "relay.Constant":
            return self._array(attrs["data"])
        return self._dim(key, attrs, depth)

    def _dim(self, key: str, attrs: dict[str, str], depth: int) -> Any:
        if key == "tir.Any":
            return ANY
        if key in ("tir.Var", "tir.SizeVar"):
            return Named(str(self.value(int(attrs["name"]), depth + 1)))
        if key in _DIM_OPS:
            a, b = (self.value(int(attrs[side]), depth + 1) for side in ("a", "b"))
            return Computed(_DIM_OPS[key], a, b)
        if key == "tir.Cast":
            return self.value(int(attrs["value"]), depth + 1)
        raise DamageError(f"there is no reader for `{key[:60]}`")

    def field(self, type_key: str, name: str, text: str, kind: str) -> Any:
        """Return the value that a field's text stands for, where the schema says `kind`."""
        base = kind.removesuffix(" | None")
        if base == "bool" and not self._is_boxed(type_key, name, kind):
            return text not in ("0", "false")
        if base == "float" and kind == base:
            return float(text)
        if base == "int" and not self._is_boxed(type_key, name, kind):
            return int(text)
        number = int(text) if text.isdigit() else -1
        if base in ("str", "DType") or base.startswith("Literal"):
            is_node = 0 < number < len(self.nodes) and self._is_text(number)
            return self.whole_value(number) if is_node else text if text != "0" else None
        return None if text == "null" else self.whole_value(number)

    def _is_text(self, number: int) -> bool:
        return self.node(number).get("type_key") in ("runtime.String", "ffi.String")

    def _is_boxed(self, type_key: str, name: str, kind: str) -> bool:
        short = type_key.rpartition(".")[2].removesuffix("Attrs")
        return "None" in kind or name in _BOXED or (name == "axis" and short in _BOXED_AXIS)


def _number(key: str, attrs: dict[str, str], shown: str) -> int | float | bool:
    if key == "FloatImm" or key == "runtime.BoxFloat":
        return float(attrs.get("value", shown))
    value = int(attrs.get("value", shown))
    is_bool = key == "runtime.BoxBool" or attrs.get("dtype") in ("bool", "uint1")
    return bool(value) if is_bool else value


def dumped_array(content: bytes) -> np.ndarray:
    """Return an array from its dump: magic, device, rank, element type, dims, elements."""
    magic, _, _, _, rank, code, bits, lanes = struct.unpack_from("<QQiiiBBH", content)
    if magic != _ARRAY_MAGIC or lanes != 1 or not 0 <= rank <= 64:
        raise DamageError("an array has another format")
    known = [d for d in DTYPES if (d.dlpack, d.bits) == (code, bits)]
    dtype = known[0] if known else BOOL
    if not known and (code, bits) not in ((1, 1), (6, 8)):
        raise DamageError(f"an array has element type code {code} with {quantity(bits, 'bit')}")
    header = struct.calcsize("<QQiiiBBH")
    shape = struct.unpack_from(f"<{rank}q", content, header)
    (size,) = struct.unpack_from("<q", content, header + 8 * rank)
    start = header + 8 * rank + 8
    if any(d < 0 for d in shape) or not 0 <= size <= len(content) - start:
        raise DamageError("an array is cut short")
    if size != prod(shape) * dtype.itemsize_bytes:
        given = quantity(size, "byte")
        raise DamageError(f"an array of {dtype} with dims {list(shape)[:16]} has {given}")
    data = np.frombuffer(content[start : start + size], dtype.numpy.newbyteorder("<"))
    return data.reshape(shape).astype(dtype.numpy)


def is_dim(value: Any) -> bool:
    """Tell whether a value can stand for a dim."""
    return type(value) is int or isinstance(value, (AnyDim, Named, Computed))
