"""What a host needs to call an executable: entries, types of values, data types; and its JSON text.

The machine's safety rests on none of it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from relayvm.base.dtypes import BY_NAME


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
    data = {
        "devices": list(manifest.devices),
        "entries": [_entry_to_json(e) for e in manifest.entries],
        "types": [
            {
                "name": t.name,
                "constructors": [
                    {
                        "name": c.name,
                        "layout": c.layout,
                        "fields": [_type_to_json(f) for f in c.fields],
                    }
                    for c in t.constructors
                ],
            }
            for t in manifest.types
        ],
        "version": manifest.version,
    }
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _entry_to_json(entry: Entry) -> dict[str, Any]:
    return {
        "name": entry.name,
        "function": entry.function,
        "parameters": [[p.name, _type_to_json(p.type)] for p in entry.parameters],
        "result": _type_to_json(entry.result),
        "results": list(entry.results),
    }


def _type_to_json(value: ValueType) -> dict[str, Any]:
    data: dict[str, Any] = {"kind": value.kind, "text": value.text}
    if value.kind == "tensor":
        data |= {"dtype": value.dtype, "dims": list(value.dims)}
    if value.layout >= 0:
        data["layout"] = value.layout
    if value.signature >= 0:
        data["signature"] = value.signature
    if value.name:
        data["name"] = value.name
    if value.fields:
        data["fields"] = [_type_to_json(f) for f in value.fields]
    return data


def manifest_from_json(text: str) -> Manifest:
    """Return the manifest of a JSON text; raises ValueError, KeyError or TypeError where it is not
    one."""
    data = json.loads(text)
    return Manifest(
        tuple(_entry_from_json(e) for e in data["entries"]),
        tuple(
            DataType(
                str(t["name"]),
                tuple(
                    Constructor(
                        str(c["name"]), int(c["layout"]), tuple(map(_type_from_json, c["fields"]))
                    )
                    for c in t["constructors"]
                ),
            )
            for t in data["types"]
        ),
        tuple(str(d) for d in data["devices"]),
        str(data["version"]),
    )


def _entry_from_json(data: Any) -> Entry:
    return Entry(
        str(data["name"]),
        int(data["function"]),
        tuple(Parameter(str(name), _type_from_json(t)) for name, t in data["parameters"]),
        _type_from_json(data["result"]),
        tuple(str(name) for name in data["results"]),
    )


def _type_from_json(data: Any) -> ValueType:
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
        tuple(_type_from_json(f) for f in data.get("fields", ())),
    )
