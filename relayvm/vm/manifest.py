"""What a host needs to call an executable: entries, types of values, data types; and its JSON text.

The machine's safety rests on none of it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from relayvm.base.dtypes import BY_NAME

_DEEPEST_JSON = 48


@dataclass(frozen=True, slots=True)
class ValueType:
    """The type of a value at an entry, as the host converts it.

    `kind` is `tensor` (`dtype`, `dims`: a size, a symbol's name, or None for `?`), `tuple`
    (`layout`, `fields`), `data` (`name` in the manifest's data types), `function` (`fields` are
    parameters, then the result; `signature`), `ref` or `array` (`layout`, one field). `text` is the
    user's spelling. A tensor of rank 0 is a word where its place is of class w.
    """

    kind: str
    text: str
    dtype: str = ""
    dims: tuple[int | str | None, ...] = ()
    layout: int = -1
    signature: int = -1
    name: str = ""
    fields: tuple[ValueType, ...] = ()


@dataclass(frozen=True, slots=True)
class Parameter:
    """A named value of an entry."""

    name: str
    type: ValueType


@dataclass(frozen=True, slots=True)
class Entry:
    """A function that the host may call, with its parameters and result.

    The function has one parameter for each of `parameters`, and one result, or as many results as
    the result tuple has fields. `results` names them (`output` by default).
    """

    name: str
    function: int
    parameters: tuple[Parameter, ...]
    result: ValueType
    results: tuple[str, ...] = ("output",)


@dataclass(frozen=True, slots=True)
class Constructor:
    """A constructor of a data type: its name, its layout number and the types of its fields."""

    name: str
    layout: int
    fields: tuple[ValueType, ...]


@dataclass(frozen=True, slots=True)
class DataType:
    """An instance of a data type, such as `List[int32]`, with its constructors in order of their
    tags."""

    name: str
    constructors: tuple[Constructor, ...]


def list_shape(constructors: Sequence[Sequence[bool]]) -> tuple[int, int, int] | None:
    """Return the numbers of the empty constructor, of the other one and of its item, if a list of
    Python can stand for a data type; None if not.

    Of each constructor is given which of its fields are of the data type itself, at the same type
    arguments. A list has one without fields, and one of an item and the rest, in any order.
    """
    if len(constructors) != 2:
        return None
    nil, cons = sorted(range(2), key=lambda i: len(constructors[i]))
    rest = [place for place, is_rest in enumerate(constructors[cons]) if is_rest]
    if constructors[nil] or len(constructors[cons]) != 2 or len(rest) != 1:
        return None
    return nil, cons, 1 - rest[0]


@dataclass(frozen=True, slots=True)
class Manifest:
    """The part of an executable that describes it to a host."""

    entries: tuple[Entry, ...] = ()
    types: tuple[DataType, ...] = ()
    devices: tuple[str, ...] = ("cpu",)
    version: str = ""

    def entry(self, name: str) -> Entry | None:
        """Return the entry of this name, or None."""
        return next((e for e in self.entries if e.name == name), None)


def manifest_to_json(manifest: Manifest) -> str:
    """Return the manifest as canonical JSON: sorted keys, defaults left out."""
    writer = _TypeWriter()
    data = {
        "devices": list(manifest.devices),
        "entries": [_entry_to_json(e, writer) for e in manifest.entries],
        "types": [
            {
                "name": t.name,
                "constructors": [
                    {
                        "name": c.name,
                        "layout": c.layout,
                        "fields": [writer.json(f) for f in c.fields],
                    }
                    for c in t.constructors
                ],
            }
            for t in manifest.types
        ],
        "version": manifest.version,
    }
    if writer.parts:
        data["parts"] = writer.parts
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _entry_to_json(entry: Entry, writer: _TypeWriter) -> dict[str, Any]:
    return {
        "name": entry.name,
        "function": entry.function,
        "parameters": [[p.name, writer.json(p.type)] for p in entry.parameters],
        "result": writer.json(entry.result),
        "results": list(entry.results),
    }


class _TypeWriter:
    """Writes types as JSON. What nests deeper than readers of JSON go is written apart: a type
    `{"part": n}` is row `n` of `parts`, which refer to rows before them only.
    """

    def __init__(self) -> None:
        self.parts: list[Any] = []
        self.written: dict[int, tuple[Any, int, ValueType]] = {}

    def json(self, root: ValueType) -> Any:
        """Return the JSON of a type; inner types are written first."""
        waiting = [root]
        while waiting:
            value = waiting[-1]
            missing = [f for f in value.fields if id(f) not in self.written]
            if missing:
                waiting.extend(missing)
                continue
            waiting.pop()
            if id(value) not in self.written:
                inside = [self.written[id(f)] for f in value.fields]
                depth = max((row[1] for row in inside), default=0) + 1
                data = _type_to_json(value, [row[0] for row in inside])
                if depth == _DEEPEST_JSON:
                    self.parts.append(data)
                    data, depth = {"part": len(self.parts) - 1}, 0
                self.written[id(value)] = data, depth, value
        return self.written[id(root)][0]


def _type_to_json(value: ValueType, fields: list[Any]) -> dict[str, Any]:
    data: dict[str, Any] = {"kind": value.kind, "text": value.text}
    if value.kind == "tensor":
        data |= {"dtype": value.dtype, "dims": list(value.dims)}
    if value.layout >= 0:
        data["layout"] = value.layout
    if value.signature >= 0:
        data["signature"] = value.signature
    if value.name:
        data["name"] = value.name
    if fields:
        data["fields"] = fields
    return data


def manifest_from_json(text: str) -> Manifest:
    """Return the manifest of a JSON text; raises ValueError, KeyError or TypeError where it is not
    one."""
    data = json.loads(text)
    parts: list[ValueType] = []
    for part in data.get("parts", ()):
        parts.append(_type_from_json(part, parts))

    def read(given: Any) -> ValueType:
        return _type_from_json(given, parts)

    return Manifest(
        tuple(_entry_from_json(e, read) for e in data["entries"]),
        tuple(
            DataType(
                str(t["name"]),
                tuple(
                    Constructor(str(c["name"]), int(c["layout"]), tuple(map(read, c["fields"])))
                    for c in t["constructors"]
                ),
            )
            for t in data["types"]
        ),
        tuple(str(d) for d in data["devices"]),
        str(data["version"]),
    )


def _entry_from_json(data: Any, read: Callable[[Any], ValueType]) -> Entry:
    return Entry(
        str(data["name"]),
        int(data["function"]),
        tuple(Parameter(str(name), read(t)) for name, t in data["parameters"]),
        read(data["result"]),
        tuple(str(name) for name in data["results"]),
    )


def _type_from_json(data: Any, parts: Sequence[ValueType]) -> ValueType:
    if "part" in data:
        number = int(data["part"])
        if not 0 <= number < len(parts):
            raise ValueError(f"there is no part {number}")
        return parts[number]
    dtype = str(data.get("dtype", ""))
    if data["kind"] == "tensor" and dtype not in BY_NAME:
        raise ValueError(f"there is no dtype `{dtype}`")
    if any(isinstance(d, (int, float)) and d < 0 for d in data.get("dims", ())):
        raise ValueError("a dim is negative")
    return ValueType(
        str(data["kind"]),
        str(data["text"]),
        dtype,
        tuple(d if d is None or isinstance(d, str) else int(d) for d in data.get("dims", ())),
        int(data.get("layout", -1)),
        int(data.get("signature", -1)),
        str(data.get("name", "")),
        tuple(_type_from_json(f, parts) for f in data.get("fields", ())),
    )
