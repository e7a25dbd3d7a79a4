"""The part of the parser that reads attribute values and fits them to the schema of an operator."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np

from relayvm.base.attribute_kinds import fit_attribute, given_text, kind_text
from relayvm.base.dims import AnyDim, DimExpr
from relayvm.base.dtypes import BY_NAME
from relayvm.base.source import Span
from relayvm.base.trampoline import Recursive, trampoline
from relayvm.ir.expr import NO_ATTRS, Attrs, AttrValue, Constant, Op
from relayvm.ir.literal import NAMED_FLOAT, LiteralError, read_string
from relayvm.ir.metadata.graph import MetaObject, is_dim
from relayvm.ir.metadata.section import CONSTANTS
from relayvm.ir.parser.dim_reader import DimReader
from relayvm.ir.parser.type_parser import TypeParser

Written = dict[str, "tuple[AttrValue, Span, Span]"]

# Far below where comparing nested tuples would exhaust the stack of C.
MAX_ATTRIBUTE_DEPTH = 20_000

_FLOAT = re.compile(r"[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?(f(16|32|64)?|bf16)?")
_INTEGER = re.compile(r"([0-9]+)(i(8|16|32|64)|u(8|16|32|64))?")
_CLOSING = {"[": "]", "(": ")", "{": "}"}


class AttributeParser(TypeParser):
    """Reads `name=value` and checks it."""

    def attribute(self, values: Written) -> None:
        """Read one `name=value` into `values`: the value with the spans of name and value."""
        name_span = self.span()
        name = self.advance()
        self.expect("=")
        begin = self.begin()
        is_nested = self.kinds[self.index] in _CLOSING
        value = trampoline(self._nested(0)) if is_nested else self._plain_value()
        if name == "virtual_device" and value is None:
            return  # Texts of TVM carry devices in their metadata; they mean nothing here.
        if name in values:
            self.report("duplicate-name", f"attribute `{name}` is given twice", name_span)
        values[name] = (value, name_span, self.span_from(begin))

    def _nested(self, depth: int) -> Recursive[Any]:
        """Read a list, a tuple, a dictionary, or a value in parentheses."""
        opened, kind = self.index, self.kind
        if depth > MAX_ATTRIBUTE_DEPTH:
            self.abort("too-deep", f"attributes nest at most {MAX_ATTRIBUTE_DEPTH} deep")
        closing = _CLOSING[kind]
        self.advance()
        values: list[AttrValue] = []
        entries: dict[str, AttrValue] = {}
        comma = False
        while self.kind != closing:
            key = self._key(entries) if kind == "{" else ""
            is_nested = self.kinds[self.index] in _CLOSING
            value = (yield self._nested(depth + 1)) if is_nested else self._plain_value()
            if kind == "{":
                entries[key] = value
            else:
                values.append(value)
            comma = self.accept(",")
            if not comma:
                break
        self.expect(closing, ",", opened=opened)
        if kind == "{":
            return Attrs(entries)
        if kind == "(" and len(values) == 1 and not comma:
            value = values[0]
            if type(value) is int or isinstance(value, (DimExpr, AnyDim)):
                return DimReader(self, opened).rest_of_sum(value)
            return value
        return tuple(values)

    def _key(self, entries: dict[str, AttrValue]) -> str:
        if self.kind != "string":
            self.fail("a string", help='a dictionary is written `{"name": value}`')
        span = self.span()
        key = self._string()
        if key in entries:
            self.report("duplicate-name", f"key `{key[:40]}` is given twice", span)
        self.expect(":")
        return key

    def _string(self) -> str:
        span = self.span()
        try:
            return read_string(self.advance())
        except LiteralError as reason:
            self.report("bad-literal", str(reason), span)
            return ""

    def _plain_value(self) -> AttrValue:
        """Read a value that is not in brackets."""
        kind, text = self.kinds[self.index], self.texts[self.index]
        if kind == "number":
            after = self.kinds[self.index + 1]
            if after in (",", ")", "]") and text.isdigit() and len(text) < 19:
                self.index += 1
                return int(text)
        elif kind in ("True", "False"):
            self.advance()
            return kind == "True"
        elif kind == "string":
            return self._string()
        elif kind == "ident" and text in ("None", "nullptr"):
            self.advance()
            return None
        elif kind == "ident" and text == "meta" and self.next_kind() == "[":
            return self._meta_value()
        return self._number_value()

    def _meta_value(self) -> AttrValue:
        """Read `meta[Map][0]`: what a node of the metadata section stands for."""
        key, index, span = self.meta_reference()
        if index is None:
            return None
        if key == CONSTANTS:
            return Constant(self.metadata.constants[index], span=span)
        try:
            value = self.metadata.object(key, index).value()
        except ValueError as reason:
            self.report("bad-metadata", f"`meta[{key}][{index}]` cannot be read: {reason}", span)
            return None
        return self._from_metadata(value)

    def _from_metadata(self, value: Any) -> AttrValue:
        """Return a value of the metadata section as one of an attribute; its depth is bounded."""
        if isinstance(value, np.ndarray):
            return Constant(value)
        if isinstance(value, tuple):
            return tuple(self._from_metadata(v) for v in value)
        if isinstance(value, dict):
            return Attrs({name: self._from_metadata(v) for name, v in value.items()})
        return self.dim_from_metadata(value) if is_dim(value) else value

    def _number_value(self) -> AttrValue:
        """Read a float, a named element type, or a dim that may be negative or symbolic."""
        at = self.index
        while self.kinds[at] == "-":
            at += 1
        kind, text = self.kinds[at], self.texts[at]
        sign = -1 if (at - self.index) % 2 else 1
        if kind == "ident" and text in NAMED_FLOAT:
            self.index = at + 1
            return sign * NAMED_FLOAT[text][0]
        if kind == "ident" and text in BY_NAME and at == self.index and text not in self.type_scope:
            self.advance()
            return BY_NAME[text]
        if kind == "number" and not _INTEGER.fullmatch(text):
            if not _FLOAT.fullmatch(text) or len(text) > 400:
                self.report("bad-literal", f"`{text[:40]}` is not a number", self.span(at))
            self.index = at + 1
            found = _FLOAT.match(text)
            return sign * float((found.group()[:400] if found else "0").split("f")[0])
        if kind == "number" and self.kinds[at + 1] in (",", ")", "]", "}"):
            self.index = at + 1
            found = _INTEGER.fullmatch(text)
            if found is None or len(text) > 40:
                message = f"{text[:30]}... does not fit into int64"
                self.report("bad-literal", message, self.span(at))
                return 0
            return sign * int(found.group(1))
        if kind not in ("number", "ident", "(", "?"):
            self.index = at
            self.fail("an attribute value")
        return DimReader(self, self.index).sum(0)

    def plain_attrs(self, values: Written) -> Attrs:
        """Return the attributes of a call of something that is no operator."""
        if "attrs_type_key" not in values:
            name, (value, span, _) = next(iter(values.items()))
            message = f"a call of a function has no attribute `{name}`"
            if isinstance(value, MetaField):
                message = "a call of a function has attributes of type `DictAttrs` only"
            self.report("unknown-attribute", message, span)
        return Attrs({n: v for n, (v, _, _) in values.items() if n != "attrs_type_key"})

    # --- fitting to a schema -------------------------------------------------------------

    def call_attrs(self, op: Op, values: Written, call: Span, spoilt: Collection[str]) -> Attrs:
        """Return the attributes of a call of `op`; reports unknown, missing and unfitting ones; one
        that is only misspelt is not missing. The values of `spoilt` ones could not be read.
        """
        rows = {row.name: row for row in op.attributes}
        result: dict[str, AttrValue] = {}
        meant: set[str] = set()
        for name, (value, name_span, value_span) in values.items():
            if name in op.ignored:
                continue
            if name not in rows:
                if isinstance(value, MetaField):
                    continue
                known = ", ".join(f"`{row}`" for row in rows) or "none"
                near = self.nearest(name, rows)
                meant.add(near)
                self.report(
                    "unknown-attribute",
                    f"operator `{op.name}` has no attribute `{name}`; it has {known}",
                    name_span,
                    help=f"did you mean `{near}`?" if near else "",
                )
                continue
            if name in spoilt:
                continue
            if isinstance(value, MetaField):
                value = self._meta_field(value, rows[name].kind, value_span)
            fits, fitted = fit_attribute(rows[name].kind, value)
            if not fits:
                self.report(
                    "bad-attribute",
                    f"attribute `{name}` of `{op.name}` must be {kind_text(rows[name].kind)}, "
                    f"got {given_text(value)}",
                    value_span,
                )
                continue
            result[name] = fitted
        for row in op.attributes:
            if row.required and row.name not in values and row.name not in meant:
                self.report(
                    "missing-attribute",
                    f"operator `{op.name}` needs attribute `{row.name}`: {kind_text(row.kind)}",
                    call,
                )
        ordered = {name: result[name] for name in rows if name in result}
        return Attrs(ordered) if ordered else NO_ATTRS

    def meta_attributes(self) -> Written | None:
        """Read `meta[relay.attrs.Conv2DAttrs][0]` in the place of the attributes of a call; None if
        the section does not tell them.
        """
        key, index, span = self.meta_reference()
        if index is None:
            return None
        try:
            record = self.metadata.object(key, index)
            whole = record.value() if key == "DictAttrs" else None
            fields = record.fields()
        except ValueError as reason:
            self.report("bad-metadata", f"`meta[{key}][{index}]` cannot be read: {reason}", span)
            return None
        if isinstance(whole, dict):
            whole = {**whole, "attrs_type_key": key}
            return {n: (self._from_metadata(v), span, span) for n, v in whole.items()}
        return {name: (MetaField(record, name), span, span) for name in fields}

    def _meta_field(self, field: MetaField, kind: str, span: Span) -> AttrValue:
        try:
            return self._from_metadata(field.record.field(field.name, kind))
        except ValueError as reason:
            message = f"attribute `{field.name}` of the metadata cannot be read: {reason}"
            self.report("bad-metadata", message[:200], span)
            return None


@dataclass(frozen=True, slots=True)
class MetaField:
    """A field of a record in the metadata section, whose value depends on what the schema says."""

    record: MetaObject
    name: str
