"""The text of numbers and strings, both ways and exact to the bit, and the metadata section of
constants.
"""

from __future__ import annotations

import base64
import json
import re
import struct
from dataclasses import dataclass, field
from math import isnan
from typing import Any

import numpy as np

from relayvm.base.dtypes import (
    BOOL,
    BY_NAME,
    DTYPES,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT32,
    INT64,
    DType,
    dtype_of,
)

NAMED_FLOAT = {
    f"{name}f{bits}": (value, dtype)
    for name, value in (("inf", float("inf")), ("nan", float("nan")))
    for bits, dtype in (("", FLOAT32), ("16", FLOAT16), ("32", FLOAT32), ("64", FLOAT64))
}

_NUMBER = re.compile(r"([0-9]+)(\.[0-9]+)?([eE][+-]?[0-9]+)?([fiu]?)([0-9]*)")
_FLOATS = {"": FLOAT32, "16": FLOAT16, "32": FLOAT32, "64": FLOAT64}
# Below these sizes rounding cannot overflow, so numpy has nothing to warn of.
_SAFE = {FLOAT16: 6e4, FLOAT32: 3e38, FLOAT64: float("inf")}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\", "0": "\0"}
_ESCAPE = re.compile(r"\\(u\{[0-9a-fA-F]{1,6}\}|x[0-9a-fA-F]{2}|.)", re.DOTALL)
MAX_DIGITS = 400


class LiteralError(ValueError):
    """A literal that means nothing; its text is the message."""


def read_number(text: str, negative: bool) -> np.ndarray:
    """Return the rank-0 array that a literal of an expression means; raises LiteralError."""
    if text in ("True", "False"):
        return np.array(text == "True")
    if text in NAMED_FLOAT:
        value, dtype = NAMED_FLOAT[text]
        return _float_array(-value if negative and not isnan(value) else value, dtype)
    found = _NUMBER.fullmatch(text)
    if found is None or len(text) > MAX_DIGITS:
        raise LiteralError(f"`{text[:40]}` is not a number")
    whole, fraction, exponent, letter, width = found.groups()
    if letter == "f":
        if width not in _FLOATS:
            raise LiteralError(f"there is no element type `float{width}`")
        value = float(whole + (fraction or "") + (exponent or ""))
        return _float_array(-value if negative else value, _FLOATS[width])
    if fraction or exponent:
        raise LiteralError(f"a float literal ends in `f`: `{text[:40]}f`")
    return _integer(int(whole) * (-1 if negative else 1), letter, width)


def _integer(value: int, letter: str, width: str) -> np.ndarray:
    if not letter:
        dtype = INT32 if INT32.min <= value <= INT32.max else INT64
    else:
        name = f"{'u' if letter == 'u' else ''}int{width or '32'}"
        if name not in BY_NAME:
            raise LiteralError(f"there is no element type `{name}`")
        dtype = BY_NAME[name]
    if not dtype.min <= value <= dtype.max:
        raise LiteralError(f"{_short(value)} does not fit into {dtype}")
    return np.array(value, dtype.numpy)


def _short(value: int) -> str:
    text = str(value)
    return text if len(text) <= 40 else text[:37] + "..."


def _float_array(value: float, dtype: DType) -> np.ndarray:
    if abs(value) < _SAFE[dtype]:
        return np.array(value, dtype.numpy)
    with np.errstate(all="ignore"):
        return np.array(value, np.float64).astype(dtype.numpy)


def write_number(data: np.ndarray) -> str | None:
    """Return the literal with exactly the bits of a rank-0 array, or None if there is none."""
    if data.ndim:
        return None
    dtype = dtype_of(data.dtype)
    if dtype is BOOL:
        return "True" if data else "False"
    if not dtype.is_float:
        suffix = "" if dtype is INT32 else dtype.short
        return f"{int(data)}{suffix}"
    suffix = "f" if dtype is FLOAT32 else dtype.short
    value = float(data)
    if isnan(value):
        text = f"nan{suffix}"
    elif value in (float("inf"), float("-inf")):
        text = f"{'-' if value < 0 else ''}inf{suffix}"
    else:
        text = _shortest(data, value, dtype) + suffix
    again = read_number(text.lstrip("-"), text.startswith("-"))
    return text if again.tobytes() == data.tobytes() else None


def _shortest(data: np.ndarray, value: float, dtype: DType) -> str:
    """Return the fewest digits from which the same bits come back by way of a double."""
    if dtype is FLOAT64:
        text = repr(value).removesuffix(".0")
    elif value == 0 or 1e-5 <= abs(value) < 1e16:
        text = np.format_float_positional(dtype.numpy.type(value), trim="-")
    else:
        text = np.format_float_scientific(dtype.numpy.type(value), trim="-")
    return text if _float_array(float(text), dtype).tobytes() == data.tobytes() else repr(value)


def write_float(value: float) -> str:
    """Return the attribute literal of a Python float."""
    if isnan(value):
        return "nanf"
    if value in (float("inf"), float("-inf")):
        return "inff" if value > 0 else "-inff"
    text = repr(value)
    return (text[:-2] if text.endswith(".0") else text) + "f"


def read_string(text: str) -> str:
    """Return what a string literal in its quotes means; raises LiteralError at an unknown
    escape.
    """

    def replace(found: re.Match[str]) -> str:
        body = found.group(1)
        if body in _ESCAPES:
            return _ESCAPES[body]
        if len(body) > 1:
            code = int(body[1:].strip("{}"), 16)
            if code <= 0x10FFFF:
                return chr(code)
        raise LiteralError(
            f'`\\{body}` is not an escape; known are \\n \\t \\r \\0 \\\\ \\" \\x41 \\u{{1F600}}'
        )

    return _ESCAPE.sub(replace, text[1:-1])


def write_string(text: str) -> str:
    """Return a string as a literal of printable ASCII."""
    names = {value: "\\" + key for key, value in _ESCAPES.items()}
    return '"' + "".join(names.get(c) or _printable(c) for c in text) + '"'


def _printable(character: str) -> str:
    return character if " " <= character <= "~" else f"\\u{{{ord(character):x}}}"


@dataclass(slots=True)
class Metadata:
    """The constants of the metadata section. `problem` says why the section could not be read."""

    constants: list[np.ndarray] = field(default_factory=list)
    problem: str = ""
    _numbers: dict[int, int] = field(default_factory=dict)

    def number(self, data: np.ndarray) -> int:
        """Return the number under which an array stands in the section, adding it if it is new."""
        if id(data) not in self._numbers:
            self._numbers[id(data)] = len(self.constants)
            self.constants.append(data)
        return self._numbers[id(data)]

    def text(self) -> str:
        """Return the section, from `#[metadata]` on."""
        rows = [
            {
                "dtype": str(dtype_of(data.dtype)),
                "shape": list(data.shape),
                "data": base64.b64encode(little_endian(data)).decode(),
            }
            for data in self.constants
        ]
        lines = ",\n".join("    " + json.dumps(row) for row in rows)
        return f'#[metadata]\n{{\n  "relay.Constant": [\n{lines}\n  ]\n}}\n'


def little_endian(data: np.ndarray) -> bytes:
    """Return the elements in row-major order as little-endian bytes."""
    return data.astype(data.dtype.newbyteorder("<"), copy=False).tobytes()


def read_metadata(text: str) -> Metadata:
    """Return the constants of the text after `#[metadata]`."""
    metadata = Metadata()
    if not text.strip():
        return metadata
    try:
        document = json.loads(text)
        if "b64ndarrays" in document:
            metadata.constants = _graph_constants(document)
        else:
            metadata.constants = [_constant(row) for row in document["relay.Constant"]]
    except (
        ValueError,
        KeyError,
        TypeError,
        IndexError,
        AttributeError,
        RecursionError,
        OverflowError,
        struct.error,
    ) as reason:
        what = reason.args[0] if reason.args else type(reason).__name__
        metadata.problem = f"no {what}" if isinstance(reason, KeyError) else str(what)[:200]
    return metadata


def _constant(row: dict[str, object]) -> np.ndarray:
    name = str(row["dtype"])
    if name not in BY_NAME:
        raise ValueError(f"there is no element type `{name[:40]}`")
    dtype = BY_NAME[name]
    shape = row["shape"]
    if not isinstance(shape, list) or not all(type(d) is int and 0 <= d < 1 << 46 for d in shape):
        raise ValueError(f"{str(shape)[:60]} is not a shape")
    content = base64.b64decode(str(row["data"]), validate=True)
    data = np.frombuffer(content, dtype.numpy.newbyteorder("<")).reshape(shape)
    return data.astype(dtype.numpy)


_ARRAY_MAGIC = 0xDD5E40F096B4A13F


def _graph_constants(document: dict[str, Any]) -> list[np.ndarray]:
    """Return the constants of the section that Apache TVM writes: a graph of numbered nodes.

    The root is a map from keys to arrays of nodes; a constant names its array by number.
    """
    nodes = document["nodes"]
    root = nodes[document["root"]]
    place = root["keys"].index("relay.Constant")
    rows = [nodes[i] for i in nodes[root["data"][place]]["data"]]
    arrays = document["b64ndarrays"]
    return [_dumped_array(base64.b64decode(arrays[int(row["attrs"]["data"])])) for row in rows]


def _dumped_array(content: bytes) -> np.ndarray:
    """Return an array from its dump: magic, device, rank, element type, dims, elements."""
    magic, _, _, _, rank, code, bits, lanes = struct.unpack_from("<QQiiiBBH", content)
    if magic != _ARRAY_MAGIC or lanes != 1 or not 0 <= rank <= 64:
        raise ValueError("an array has another format")
    known = [d for d in DTYPES if (d.dlpack, d.bits) == (code, bits)]
    dtype = known[0] if known else BOOL
    if not known and (code, bits) not in ((1, 1), (6, 8)):
        raise ValueError(f"an array has element type code {code} with {bits} bits")
    header = struct.calcsize("<QQiiiBBH")
    shape = struct.unpack_from(f"<{rank}q", content, header)
    (size,) = struct.unpack_from("<q", content, header + 8 * rank)
    start = header + 8 * rank + 8
    if any(d < 0 for d in shape) or not 0 <= size <= len(content) - start:
        raise ValueError("an array is cut short")
    data = np.frombuffer(content[start : start + size], dtype.numpy.newbyteorder("<"))
    return data.reshape(shape).astype(dtype.numpy)
