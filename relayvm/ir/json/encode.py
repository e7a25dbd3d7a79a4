"""Programs to JSON text."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any

import numpy as np

from relayvm.base.diagnostics import error
from relayvm.base.dims import AnyDim, DimVar
from relayvm.base.dtypes import DType, dtype_of
from relayvm.base.source import Source, Span
from relayvm.ir.expr import Attrs, Constant, Op
from relayvm.ir.json import schema
from relayvm.ir.metadata import little_endian

_PLAIN = (type(None), bool, int, str)


def save_json(node: Any) -> str:
    """Return the JSON text of an expression, type, pattern or module, or of a list or dict of them.

    Types, spans and what is shared are kept; `load_json` gives them back. Raises RelayError
    `bad-json` for what is none of these.
    """
    encoder = _Encoder()
    root = encoder.root(getattr(node, "module", node))
    document = {
        "format": schema.FORMAT,
        "version": schema.VERSION,
        "root": root,
        "nodes": encoder.nodes,
    }
    return json.dumps(document, indent=None, separators=(",", ":"), ensure_ascii=False)


class _Encoder:
    def __init__(self) -> None:
        self.nodes: list[dict[str, Any]] = []
        self.numbers: dict[int, int] = {}
        self.kept: list[Any] = []

    def root(self, item: Any) -> Any:
        """Write what the item holds, parts first, and return the item as a value."""
        stack: list[tuple[Any, bool]] = [(item, False)]
        while stack:
            value, ready = stack.pop()
            if isinstance(value, _PLAIN) or id(value) in self.numbers:
                continue
            if ready:
                self.write(value)
                continue
            if _is_node(value):
                stack.append((value, True))
            stack.extend((part, False) for part in reversed(list(_parts(value))))
        return self.value(item)

    def write(self, node: Any) -> None:
        self.numbers[id(node)] = len(self.nodes)
        self.kept.append(node)
        self.nodes.append(self.fields(node))

    def fields(self, node: Any) -> dict[str, Any]:
        match node:
            case Constant():
                data = base64.b64encode(little_endian(node.data)).decode()
                return {
                    "class": schema.CONSTANT,
                    "dtype": str(dtype_of(node.data.dtype)),
                    "shape": list(node.data.shape),
                    "data": data,
                    **self.common(node),
                }
            case Op():
                return {"class": schema.OPERATOR, "name": node.name}
            case DimVar():
                return {"class": schema.DIM_VAR, "name": node.name}
            case AnyDim():
                return {"class": schema.ANY_DIM}
            case Attrs():
                values = {name: self.value(value) for name, value in node.items()}
                return {"class": schema.ATTRS, "values": values}
            case Source():
                return {"class": schema.SOURCE, "name": node.name, "text": node.text}
            case Span():
                source = self.value(node.source)
                return {"class": schema.SPAN, "source": source, "range": [node.begin, node.end]}
        kind = type(node)
        values = {name: getattr(node, name) for name in schema.FIELDS[kind]}
        written = {n: self.value(v) for n, v in values.items() if v is not None}
        return {"class": kind.__name__, **written}

    def common(self, node: Constant) -> dict[str, Any]:
        pairs = {"span": node.span, "checked_type": node.checked_type}
        return {name: self.value(value) for name, value in pairs.items() if value is not None}

    def value(self, value: Any) -> Any:
        if isinstance(value, Enum):
            return {schema.KIND: value.value}
        if isinstance(value, _PLAIN):
            return value
        if isinstance(value, float):
            return {schema.FLOAT: value.hex()}
        if isinstance(value, DType):
            return {schema.DTYPE: value.name}
        if isinstance(value, (list, tuple, frozenset)):
            ordered = sorted(value) if isinstance(value, frozenset) else value
            return [self.value(part) for part in ordered]
        if id(value) in self.numbers:
            return {schema.NODE: self.numbers[id(value)]}
        assert isinstance(value, Mapping)
        return {schema.MAP: {_key(name): self.value(part) for name, part in value.items()}}


def _key(name: Any) -> str:
    if not isinstance(name, str):
        raise error("bad-json", f"the keys of a dict are texts, not `{name!r}`")
    return name


def _is_node(value: Any) -> bool:
    special = (Constant, Op, DimVar, AnyDim, Attrs, Source, Span)
    return isinstance(value, special) or type(value) in schema.FIELDS


def _parts(value: Any) -> Iterator[Any]:
    """Yield what a value holds that may be, or hold, nodes."""
    match value:
        case Constant():
            yield from (value.span, value.checked_type)
        case Op() | DimVar() | AnyDim() | Source() | DType() | float() | Enum() | str():
            return
        case Span():
            yield value.source
        case list() | tuple() | frozenset():
            yield from value
        case Mapping():
            yield from value.values()
        case _ if type(value) in schema.FIELDS:
            for name in schema.FIELDS[type(value)]:
                yield getattr(value, name)
        case _ if not isinstance(value, _PLAIN):
            kind = "array" if isinstance(value, np.ndarray) else type(value).__name__
            raise error("bad-json", f"a `{kind}` is no part of a program and cannot be saved")
