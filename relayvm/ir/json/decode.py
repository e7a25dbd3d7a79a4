"""JSON text to programs: every field is checked against its class, for a text may hold anything."""

from __future__ import annotations

import base64
import binascii
import json
import types as python
from collections.abc import Mapping
from math import prod
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np

from relayvm.base.diagnostics import RelayError, error, quantity
from relayvm.base.dims import ANY, DimVar
from relayvm.base.dtypes import BY_NAME
from relayvm.base.source import Source, Span
from relayvm.ir.expr import Attrs, Constant, Op
from relayvm.ir.intrinsics import INTRINSICS
from relayvm.ir.json import schema
from relayvm.ir.module import Module
from relayvm.ir.types import Kind
from relayvm.ir.verify import verify_module


def load_json(json_str: str, operators: Mapping[str, Op]) -> Any:
    """Return what `save_json` wrote; a module is verified.

    Raises RelayError `bad-json` for a text that describes no program, `unknown-operator` for an
    operator that is neither among `operators` nor an intrinsic.
    """
    try:
        document = json.loads(json_str)
    except (ValueError, TypeError, RecursionError) as reason:
        raise error("bad-json", f"the text is not JSON: {reason}") from None
    if not isinstance(document, dict) or document.get("format") != schema.FORMAT:
        raise error("bad-json", f"the text has no `format` of `{schema.FORMAT}`")
    version = document.get("version")
    if version != schema.VERSION:
        message = f"the text has version {version!r}, known is {schema.VERSION}"
        raise error("unsupported-version", message)
    nodes = document.get("nodes")
    if not isinstance(nodes, list):
        raise error("bad-json", "the text has no list of nodes")
    decoder = _Decoder(operators)
    for number, fields in enumerate(nodes):
        decoder.nodes.append(decoder.node(number, fields))
    result = decoder.value("the root", document.get("root"))
    if isinstance(result, Module):
        verify_module(result)
    return result


class _Decoder:
    def __init__(self, operators: Mapping[str, Op]) -> None:
        self.operators = operators
        self.nodes: list[Any] = []

    def node(self, number: int, fields: Any) -> Any:
        """Return the node that an object describes, all of whose parts come before it."""
        where = f"node {number}"
        if not isinstance(fields, dict):
            raise _fault(where, "is no object")
        kind = str(fields.get("class"))
        rest = {name: value for name, value in fields.items() if name != "class"}
        read = getattr(self, f"_{kind.lower()}", None) if kind in _SPECIAL else None
        try:
            if read is not None:
                return read(where, rest)
            if kind in schema.CLASSES:
                return self.plain(where, schema.CLASSES[kind], rest)
        except (KeyError, TypeError, ValueError) as reason:
            raise _fault(where, f"is no {kind}: {reason}") from None
        raise _fault(where, f"is of class `{kind}`, which is unknown")

    def plain(self, where: str, kind: type, fields: dict[str, Any]) -> Any:
        values = {name: self.value(where, value) for name, value in fields.items()}
        hints = _hints(kind)
        for name, value in values.items():
            if name not in hints:
                raise _fault(where, f"has a field `{name}`, which `{kind.__name__}` has not")
            if _is_set(hints[name]):
                values[name] = value = frozenset(value)
            if not _fits(value, hints[name]):
                raise _fault(where, f"has a wrong value in the field `{name}`")
        return kind(**values)

    def value(self, where: str, value: Any) -> Any:
        if value is None or isinstance(value, (bool, int, str)):
            return value
        if isinstance(value, list):
            return tuple(self.value(where, part) for part in value)
        if isinstance(value, dict) and len(value) == 1:
            (key, inner), *_ = value.items()
            return self.tagged(where, key, inner)
        raise _fault(where, f"holds `{value!r:.40}`, which is no value")

    def tagged(self, where: str, key: str, inner: Any) -> Any:
        if key == schema.NODE and type(inner) is int and 0 <= inner < len(self.nodes):
            return self.nodes[inner]
        if key == schema.FLOAT and isinstance(inner, str):
            try:
                return float.fromhex(inner)
            except (ValueError, OverflowError):
                raise _fault(where, f"holds `{inner:.40}`, which is no float") from None
        if key == schema.DTYPE and isinstance(inner, str) and inner in BY_NAME:
            return BY_NAME[inner]
        if key == schema.KIND and inner in [kind.value for kind in Kind]:
            return Kind(inner)
        if key == schema.MAP and isinstance(inner, dict):
            return {name: self.value(where, part) for name, part in inner.items()}
        raise _fault(where, f"holds `{{{key}: {inner!r:.40}}}`, which is no value")

    # --- nodes that are written in a way of their own ------------------------------------

    def _constant(self, where: str, fields: dict[str, Any]) -> Constant:
        dtype = BY_NAME[fields.pop("dtype")]
        shape = tuple(fields.pop("shape"))
        if not all(type(dim) is int and dim >= 0 for dim in shape):
            raise _fault(where, f"has the shape {shape}")
        try:
            data = base64.b64decode(fields.pop("data"), validate=True)
        except binascii.Error:
            raise _fault(where, "holds data that are not base64") from None
        if len(data) != prod(shape) * dtype.itemsize_bytes:
            raise _fault(where, f"holds {quantity(len(data), 'byte')} for shape {shape} of {dtype}")
        array = np.frombuffer(data, dtype.numpy.newbyteorder("<")).astype(dtype.numpy)
        array = array.reshape(shape)
        array.flags.writeable = False
        common = {name: self.value(where, value) for name, value in fields.items()}
        hints = _hints(Constant)
        if not all(name in hints and _fits(value, hints[name]) for name, value in common.items()):
            raise _fault(where, "has a wrong span or type")
        return Constant(array, **common)

    def _op(self, where: str, fields: dict[str, Any]) -> Op:
        name = _text(fields["name"])
        found = self.operators.get(name) or INTRINSICS.get(name)
        if found is None:
            help = "hand it in: `tvm.ir.load_json(text, operators=[...])`"
            raise error("unknown-operator", f"there is no operator `{name}`", help=help)
        return found

    def _dimvar(self, where: str, fields: dict[str, Any]) -> DimVar:
        return DimVar(_text(fields["name"]))

    def _anydim(self, where: str, fields: dict[str, Any]) -> Any:
        return ANY

    def _attrs(self, where: str, fields: dict[str, Any]) -> Attrs:
        values = fields["values"]
        if not isinstance(values, dict):
            raise _fault(where, "has no mapping of values")
        return Attrs({name: self.value(where, value) for name, value in values.items()})

    def _source(self, where: str, fields: dict[str, Any]) -> Source:
        return Source(_text(fields["name"]), _text(fields["text"]))

    def _span(self, where: str, fields: dict[str, Any]) -> Span:
        source, (begin, end) = self.value(where, fields["source"]), fields["range"]
        if not isinstance(source, Source) or not 0 <= begin <= end <= len(source.text):
            raise _fault(where, "is no range of a source")
        return Span(source, begin, end)


_SPECIAL = frozenset(
    {
        schema.CONSTANT,
        schema.OPERATOR,
        schema.DIM_VAR,
        schema.ANY_DIM,
        schema.ATTRS,
        schema.SOURCE,
        schema.SPAN,
    }
)


def _fault(where: str, message: str) -> RelayError:
    return error("bad-json", f"{where} {message}")


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"`{value!r:.40}` is no text")
    return value


class _HintCache:
    """The types of the fields of each class, resolved once."""

    def __init__(self) -> None:
        self.hints: dict[type, dict[str, Any]] = {}


_cache = _HintCache()


def _hints(kind: type) -> dict[str, Any]:
    if kind not in _cache.hints:
        _cache.hints[kind] = get_type_hints(kind)
    return _cache.hints[kind]


def _is_set(hint: Any) -> bool:
    return get_origin(hint) is frozenset


def _fits(value: Any, hint: Any) -> bool:
    """Tell whether a value is what a field is declared to hold."""
    origin, args = get_origin(hint), get_args(hint)
    if hint is Any:
        return True
    if origin in (Union, python.UnionType):
        return any(_fits(value, arg) for arg in args)
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        if len(args) == 2 and args[1] is Ellipsis:
            return all(_fits(part, args[0]) for part in value)
        return len(args) == len(value) and all(_fits(p, a) for p, a in zip(value, args))
    if origin is frozenset:
        return all(_fits(part, args[0]) for part in value)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return isinstance(value, Mapping) and all(
            _fits(k, args[0]) and _fits(v, args[1]) for k, v in value.items()
        )
    if hint is type(None):
        return value is None
    if hint is int:
        return type(value) is int
    return isinstance(value, hint)
