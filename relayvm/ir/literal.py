"""The text of numbers and strings, both ways and exact to the bit."""

from __future__ import annotations

import re
from math import isnan

import numpy as np

from relayvm.base.dtypes import (
    BFLOAT16,
    BOOL,
    BY_NAME,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT32,
    INT64,
    STORED,
    DType,
    dtype_of,
    number_of,
)

NAMED_FLOAT = {
    f"{name}f{bits}": (value, dtype)
    for name, value in (("inf", float("inf")), ("nan", float("nan")))
    for bits, dtype in (("", FLOAT32), ("16", FLOAT16), ("32", FLOAT32), ("64", FLOAT64))
} | {
    f"{name}{dtype.short}": (value, dtype)
    for dtype in (BFLOAT16, *(row for row in STORED if row.is_real))
    for name, value in (("inf", float("inf")), ("nan", float("nan")))
}

_NUMBER = re.compile(
    r"([0-9]+)(\.[0-9]+)?([eE][+-]?[0-9]+)?(f[0-9]e[0-9]m[0-9][a-z]*|f|i|u|bf)?([0-9]*)"
)
_FLOATS = {"f": FLOAT32, "f16": FLOAT16, "f32": FLOAT32, "f64": FLOAT64, "bf16": BFLOAT16}
_FLOATS |= {row.short: row for row in STORED if row.is_real}
# Below these sizes rounding cannot overflow, so numpy has nothing to warn of.
_SAFE = {FLOAT16: 6e4, FLOAT32: 3e38}
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
    if letter and letter not in ("i", "u"):
        row = _FLOATS.get(letter + width)
        if row is None:
            kind = letter.replace("f", "float", 1)
            raise LiteralError(f"there is no element type `{kind}{width}`")
        dtype = row
        value = float(whole + (fraction or "") + (exponent or ""))
        made = _float_array(-value if negative else value, dtype)
        if not np.isfinite(number_of(made)) or abs(value) > 2 * float(dtype.max):
            raise LiteralError(f"`{text[:40]}` does not fit into {dtype}; infinity is `inff`")
        return made
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
    return dtype.array(value)


def _short(value: int) -> str:
    text = str(value)
    return text if len(text) <= 40 else text[:37] + "..."


def _float_array(value: float, dtype: DType) -> np.ndarray:
    if abs(value) < _SAFE.get(dtype, float("inf")):
        return dtype.array(value)
    with np.errstate(all="ignore"):
        return dtype.array(value)


def write_number(data: np.ndarray) -> str | None:
    """Return the literal with exactly the bits of a rank-0 array, or None if there is none."""
    if data.ndim:
        return None
    dtype = dtype_of(data.dtype)
    if dtype is BOOL:
        return "True" if data else "False"
    if not dtype.is_real:
        value = int(number_of(data))
        # Upper bits of a byte that no literal gives may be set.
        is_exact = not dtype.is_stored or dtype.array(value).tobytes() == data.tobytes()
        return f"{value}{'' if dtype is INT32 else dtype.short}" if is_exact else None
    suffix = "f" if dtype is FLOAT32 else dtype.short
    value = number_of(data)
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
    elif dtype.is_narrow:
        tried = (f"{value:.{digits}g}" for digits in range(1, 18))
        text = next(t for t in tried if dtype.nearest(float(t)) == value).replace("e+", "e")
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
