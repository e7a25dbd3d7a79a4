"""The part of the parser that reads attribute values and fits them to the schema of an operator."""

from __future__ import annotations

import re

from relayvm.base.dims import AnyDim, DimExpr
from relayvm.base.dtypes import BY_NAME, DType
from relayvm.base.source import Span
from relayvm.ir.expr import NO_ATTRS, Attrs, AttrValue, Op
from relayvm.ir.lexer import SyntaxAbort
from relayvm.ir.literal import NAMED_FLOAT, LiteralError, read_string
from relayvm.ir.parser.dim_reader import DimReader
from relayvm.ir.parser.type_parser import TypeParser, suggestion

MAX_ATTRIBUTE_DEPTH = 32

Written = dict[str, "tuple[AttrValue, Span, Span]"]

_FLOAT = re.compile(r"[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?(f(16|32|64)?)?")
_INTEGER = re.compile(r"([0-9]+)(i(8|16|32|64)|u(8|16|32|64))?")


class AttributeParser(TypeParser):
    """Reads `name=value` and checks it."""

    def attribute(self, values: Written) -> None:
        """Read one `name=value` into `values`: the value with the spans of name and value."""
        name_span = self.span()
        name = self.advance()
        self.expect("=")
        begin = self.begin()
        if name == "virtual_device" and self.text == "meta":
            # Texts of TVM carry devices in their metadata; they mean nothing here.
            for kind in ("ident", "[", "ident", "]", "[", "number", "]"):
                self.expect(kind)
            return
        value = self._attribute_value(0)
        if name in values:
            self.report("duplicate-name", f"attribute `{name}` is given twice", name_span)
        values[name] = (value, name_span, self.span_from(begin))

    def _attribute_value(self, depth: int) -> AttrValue:
        if depth > MAX_ATTRIBUTE_DEPTH:
            self.report(
                "too-deep", f"attributes nest at most {MAX_ATTRIBUTE_DEPTH} deep", self.span()
            )
            raise SyntaxAbort
        kind, text = self.kind, self.text
        if kind in ("True", "False"):
            self.advance()
            return kind == "True"
        if kind == "string":
            return self._string()
        if kind == "ident" and text in ("None", "nullptr"):
            self.advance()
            return None
        if kind == "[":
            return self._values("[", "]", depth)
        if kind == "(" and self._is_tuple():
            return self._values("(", ")", depth)
        if kind == "ident" and self.text == "meta" and self.kinds[self.index + 1] == "[":
            self._skip_metadata()
            return None
        return self._number_value()

    def _skip_metadata(self) -> None:
        """Skip `meta[relay.Constant][0]`: only attributes that are ignored hold expressions."""
        self.advance()
        for _ in range(2):
            self.expect("[")
            while self.kind not in ("]", "eof"):
                self.advance()
            self.expect("]")

    def _is_tuple(self) -> bool:
        """Tell a tuple from a dim in parentheses: a comma at its own depth, or nothing inside."""
        depth, i = 0, self.index
        while i < len(self.kinds):
            kind = self.kinds[i]
            depth += kind in ("(", "[")
            depth -= kind in (")", "]")
            if depth == 0:
                return i == self.index + 1
            if kind in (",", "string", "[") and depth <= 1 + (kind == "["):
                return True
            if kind in ("{", "}", ";", "eof") or i - self.index > 256:
                return True
            i += 1
        return True

    def _string(self) -> str:
        span = self.span()
        try:
            return read_string(self.advance())
        except LiteralError as reason:
            self.report("bad-literal", str(reason), span)
            raise SyntaxAbort from None

    def _values(self, opening: str, closing: str, depth: int) -> tuple[AttrValue, ...]:
        opened = self.index
        self.expect(opening)
        values: list[AttrValue] = []
        while self.kind != closing:
            values.append(self._attribute_value(depth + 1))
            if not self.accept(","):
                break
        self.expect(closing, ",", opened=opened)
        return tuple(values)

    def _number_value(self) -> AttrValue:
        """Read a float, a named element type, or a dim that may be negative or symbolic."""
        signs = 0
        while self.kinds[self.index + signs] == "-":
            signs += 1
        kind, text = self.kinds[self.index + signs], self.texts[self.index + signs]
        sign = -1 if signs % 2 else 1
        if kind == "ident" and text in NAMED_FLOAT:
            self.index += signs + 1
            return sign * NAMED_FLOAT[text][0]
        if kind == "ident" and text in BY_NAME and not signs and text not in self.type_scope:
            self.advance()
            return text
        if kind == "number" and not _INTEGER.fullmatch(text):
            if not _FLOAT.fullmatch(text) or len(text) > 400:
                self.report("bad-literal", f"`{text[:40]}` is not a number", self.span())
            self.index += signs + 1
            found = _FLOAT.match(text)
            return sign * float((found.group() if found else "0").split("f")[0])
        if kind == "number" and self.kinds[self.index + signs + 1] in (",", ")", "]"):
            span = self.span(self.index + signs)
            self.index += signs + 1
            found = _INTEGER.fullmatch(text)
            if found is None or len(text) > 40:
                self.report("bad-literal", f"{text[:30]}... does not fit into int64", span)
                return 0
            return sign * int(found.group(1))
        if kind not in ("number", "ident", "(", "?"):
            self.fail("an attribute value")
        return DimReader(self, self.index).sum(0)

    # --- fitting to a schema -------------------------------------------------------------

    def call_attrs(self, op: Op, values: Written, call: Span) -> Attrs:
        """Return the attributes of a call of `op`; reports unknown, missing and unfitting ones."""
        rows = {row.name: row for row in op.attributes}
        result: dict[str, AttrValue] = {}
        for name, (value, name_span, value_span) in values.items():
            if name in op.ignored:
                continue
            if name not in rows:
                known = ", ".join(f"`{row}`" for row in rows) or "none"
                self.report(
                    "unknown-attribute",
                    f"operator `{op.name}` has no attribute `{name}`; it has {known}",
                    name_span,
                    help=suggestion(name, rows),
                )
                continue
            fits, fitted = fit_attribute(rows[name].kind, value)
            if not fits:
                self.report(
                    "bad-attribute",
                    f"attribute `{name}` of `{op.name}` is of kind `{rows[name].kind}`, "
                    f"not {_describe(value)}",
                    value_span,
                )
                continue
            result[name] = fitted
        for row in op.attributes:
            if row.required and row.name not in values:
                self.report(
                    "missing-attribute",
                    f"operator `{op.name}` needs attribute `{row.name}: {row.kind}`",
                    call,
                )
        ordered = {name: result[name] for name in rows if name in result}
        return Attrs(ordered) if ordered else NO_ATTRS


def fit_attribute(kind: str, value: AttrValue) -> tuple[bool, AttrValue]:
    """Return whether a value is of a kind such as `int | None`, and the value as that kind wants
    it.

    A kind with a word that is not known here takes every value.
    """
    for alternative in _split(kind, "|"):
        fits, fitted = _fit_one(alternative, value)
        if fits:
            return True, fitted
    return False, value


def _fit_one(kind: str, value: AttrValue) -> tuple[bool, AttrValue]:
    name, _, inside = kind.partition("[")
    if name == "None":
        return value is None or value in ("", "void"), None
    if name == "bool":
        whole = type(value) is int and value in (0, 1)
        return isinstance(value, bool) or whole, bool(value) if whole else value
    if name == "int":
        return type(value) is int, value
    if name == "float":
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return True, float(value)
        return False, value
    if name == "str":
        return isinstance(value, str), value
    if name == "DType":
        if isinstance(value, DType):
            return True, value
        row = BY_NAME.get(value) if isinstance(value, str) else None
        return row is not None, row
    if name in ("Dim", "DimExpr"):
        return type(value) is int or isinstance(value, (DimExpr, AnyDim)), value
    if name == "Literal":
        words = [word.strip(" '\"") for word in inside.rstrip("]").split(",")]
        return isinstance(value, str) and value in words, value
    if name in ("Ints", "Dims"):
        inner = "int" if name == "Ints" else "Dim"
        return _fit_sequence(f"{inner}, ...", value if isinstance(value, tuple) else (value,))
    if name in ("tuple", "list", "Sequence"):
        return _fit_sequence(inside[:-1], value)
    return True, value


def _fit_sequence(inside: str, value: AttrValue) -> tuple[bool, AttrValue]:
    if not isinstance(value, tuple):
        return False, value
    kinds = _split(inside, ",") if inside else ["object", "..."]
    if kinds[-1] == "...":
        kinds = kinds[:1] * len(value)
    if len(kinds) == 1 and len(value) != 1:
        kinds = kinds * len(value)
    if len(kinds) != len(value):
        return False, value
    fitted = [fit_attribute(k, v) for k, v in zip(kinds, value)]
    return all(fits for fits, _ in fitted), tuple(v for _, v in fitted)


def _split(text: str, separator: str) -> list[str]:
    """Split at separators that are not inside brackets."""
    parts, depth, start = [], 0, 0
    for i, character in enumerate(text):
        depth += character in "[("
        depth -= character in "])"
        if character == separator and not depth:
            parts.append(text[start:i].strip())
            start = i + 1
    return [*parts, text[start:].strip()]


def _describe(value: AttrValue) -> str:
    if isinstance(value, tuple):
        return f"a tuple of {len(value)}"
    if isinstance(value, (DimExpr, AnyDim)):
        return f"the dim `{value}`"
    return f"`{value}`"
