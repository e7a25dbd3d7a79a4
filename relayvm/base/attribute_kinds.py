"""Kinds of attributes, such as `int | None`: whether a value is of one, and in which form."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from relayvm.base.dims import AnyDim, DimExpr
from relayvm.base.dtypes import BY_NAME, DType


def fit_attribute(kind: str, value: Any) -> tuple[bool, Any]:
    """Return whether a value is of a kind such as `int | None`, and the value as that kind wants
    it.

    A kind with a word that is not known here takes every value.
    """
    if kind == "Ints" and type(value) is tuple and all(type(v) is int for v in value):
        return True, value
    for alternative in _split(kind, "|"):
        fits, fitted = _fit_one(alternative, value)
        if fits:
            return True, fitted
    return False, value


_KIND_TEXT = {
    "None": "None",
    "int": "an integer",
    "bool": "True or False",
    "float": "a number",
    "str": "a string",
    "DType": "a dtype",
    "Dim": "a dim",
    "Ints": "a list of integers",
    "Dims": "a list of dims",
    "Floats": "a list of numbers",
    "Pairs": "a list of pairs of integers",
}


def kind_text(kind: str) -> str:
    """Return a kind such as `Ints | None` in words: `a list of integers or None`."""
    return " or ".join(_KIND_TEXT.get(part, f"`{part}`") for part in _split(kind, "|"))


def given_text(value: Any) -> str:
    """Return in words what was given for an attribute: `the string "rows"`."""
    if value is None or isinstance(value, bool):
        return str(value)
    if isinstance(value, str):
        return f'the string "{_cut(value)}"'
    if isinstance(value, (tuple, list)):
        return f"the list {_cut(_list_text(value))}"
    if isinstance(value, dict):
        return "a dictionary"
    if isinstance(value, int):
        return f"the integer {_cut(str(value))}"
    if isinstance(value, float):
        return f"the number {value}"
    if isinstance(value, DType):
        return f"the dtype {value}"
    if isinstance(value, (DimExpr, AnyDim)):
        return f"the dim `{_cut(str(value))}`"
    return f"a `{type(value).__name__}`"


def _list_text(values: Sequence[Any]) -> str:
    """Return a list as it is written; lists inside it only as such."""
    shown = ["[...]" if isinstance(v, (tuple, list)) else _item_text(v) for v in values[:12]]
    return f"[{', '.join(shown + ['...'] * (len(values) > 12))}]"


def _item_text(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)


def _cut(text: str, limit: int = 60) -> str:
    return text if len(text) <= limit else text[:limit] + "..."


def _fit_one(kind: str, value: Any) -> tuple[bool, Any]:
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
        return isinstance(value, (str, DType)), str(value)
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


def _fit_sequence(inside: str, value: Any) -> tuple[bool, Any]:
    if not isinstance(value, tuple):
        return False, value
    kinds = _split(inside, ",") if inside else ("object", "...")
    if kinds[-1] == "...":
        kinds = kinds[:1] * len(value)
    if len(kinds) == 1 and len(value) != 1:
        kinds = kinds * len(value)
    if len(kinds) != len(value):
        return False, value
    fitted = [fit_attribute(k, v) for k, v in zip(kinds, value)]
    return all(fits for fits, _ in fitted), tuple(v for _, v in fitted)


@lru_cache(maxsize=4096)
def _split(text: str, separator: str) -> tuple[str, ...]:
    """Split at separators that are not inside brackets."""
    parts, depth, start = [], 0, 0
    for i, character in enumerate(text):
        depth += character in "[("
        depth -= character in "])"
        if character == separator and not depth:
            parts.append(text[start:i].strip())
            start = i + 1
    return (*parts, text[start:].strip())
