"""Arrays that a caller passes: whether one is of a tensor type, and the dense array that is.

Does not touch the machine.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from relayvm.base.abi import MAX_RANK
from relayvm.base.diagnostics import RelayError, error, quantity
from relayvm.base.dtypes import BY_NAME, DType
from relayvm.base.narrow import host
from relayvm.base.narrow.arrays import as_bytes
from relayvm.base.narrow.dlpack import narrow_of
from relayvm.base.narrow.host import name_of
from relayvm.vm.library import ffi
from relayvm.vm.manifest import ValueType

Symbols = dict[str, tuple[int, str]]
_LINEAR = re.compile(
    r"(?P<name>[A-Za-z_]\w*)(?:\*(?P<factor>[1-9]\d*))?(?: (?P<sign>[+-]) (?P<rest>\d+))?"
)


def buffer_of(array: Any) -> Any:
    """Return the memory of an array as a pointer of C; raises ValueError unless its elements lie
    in order.
    """
    return ffi.from_buffer(as_bytes(array))


def taker_of(dtype: DType) -> Callable[[Any], Any]:
    """Return what gives the memory of arrays of one dtype."""
    return buffer_of if dtype.is_narrow else ffi.from_buffer


def host_dtype(dtype: DType) -> Any:
    """Return the dtype of arrays that callers give and get.

    Raises RelayError `wrong-argument` where it needs ml_dtypes, and that or a version of it which
    has the dtype is not installed.
    """
    if dtype.is_narrow and host.host_dtype(dtype.name) is None:
        message = f"arrays of `{dtype}` need the package ml_dtypes, which is not installed"
        help = "`pip install relayvm[bfloat16]`, or `cast` to float32 at the ends of the program"
        raise error("wrong-argument", message, help=help)
    return dtype.numpy


def describe(value: Any, depth: int = 3) -> str:
    """Return the type of a Python value in the spelling of the language, where it has one."""
    if isinstance(value, (np.ndarray, np.generic)):
        dims = ", ".join(map(str, value.shape))
        dtype = name_of(value.dtype)
        return f"`Tensor[({dims}), {dtype}]`" if value.ndim else f"`{dtype}`"
    if isinstance(value, (bool, int, float)):
        return f"the number {value!r}"
    if isinstance(value, tuple) and (tag := getattr(value, "tag", 0)):
        return f"an ADT of tag {tag} with {quantity(len(value), 'field')}"
    if isinstance(value, tuple) and len(value) <= 8 and depth:
        inside = ", ".join(describe(v, depth - 1).strip("`") for v in value)
        return f"`({inside}{',' * (len(value) == 1)})`"
    name = getattr(value, "type_name", None) or getattr(getattr(value, "type", None), "text", None)
    if isinstance(name, str):
        known = getattr(value, "sizes", {}).items()
        told = [f"`{n}` = {size}" for n, size in known if re.search(rf"\b{n}\b", name)]
        return f"`{name}`{' with ' * bool(told)}{', '.join(told)}"
    return f"a value of Python type {type(value).__name__}"


def wrong(where: str, type_: ValueType, value: Any, help: str = "") -> RelayError:
    """Return the error for a value that is not of the type of its place."""
    message = f"{where} is `{type_.text}`, but {describe(value)} was given"
    return error("wrong-argument", message, help=help)


def array_argument(value: Any, type_: ValueType, where: str, symbols: Symbols) -> Any:
    """Return `value` as a dense array in native byte order of exactly the declared type.

    Sizes given by name, also as `n*2`, must agree with those in `symbols`, which grows. Raises
    RelayError `wrong-argument`.
    """
    if type_.kind != "tensor":
        raise wrong(where, type_, value)
    dtype = BY_NAME[type_.dtype]
    host_dtype(dtype)
    array = _as_array(value, dtype, type_, where)
    if dtype.is_narrow and array.dtype == np.dtype(f"V{dtype.itemsize_bytes}"):
        array = array.view(dtype.numpy)  # numpy saves them without their names
    if array.dtype != dtype.numpy and array.dtype.newbyteorder("=") != dtype.numpy:
        raise wrong(where, type_, array, _cast_help(where, dtype))
    check_sizes(array, type_, where, symbols)
    return np.ascontiguousarray(array, dtype.numpy).reshape(array.shape)


def check_sizes(array: Any, type_: ValueType, where: str, symbols: Symbols) -> None:
    """Check the shape of an array; symbols are treated as `array_argument` does."""
    if array.ndim != len(type_.dims):
        raise wrong(where, type_, array)
    for axis, (size, dim) in enumerate(zip(array.shape, type_.dims)):
        if isinstance(dim, str):
            _check_named(dim, size, f"axis {axis} of {where}", symbols)
        elif dim is not None and dim != size:
            raise wrong(where, type_, array)


def _check_named(dim: str, size: int, place: str, symbols: Symbols) -> None:
    """Refuse a size that disagrees with another, or that no value of its symbol gives."""
    name, factor, rest = linear_dim(dim)
    value, remainder = divmod(size - rest, factor)
    if remainder or (value < 0 and name != dim):
        raise error("wrong-argument", f"{place} has size {size}, which `{dim}` never is")
    given = place if name == dim else f"{place} (`{dim}`)"
    known, other = symbols.setdefault(name, (value, given))
    if known != value:
        message = f"size `{name}` is {known} on {other} and {value} on {given}"
        raise error("wrong-argument", message)


@lru_cache(maxsize=1024)
def linear_dim(dim: str) -> tuple[str, int, int]:
    """Return `(n, 2, 1)` for `n*2 + 1`; a dim of another form stands for itself."""
    found = _LINEAR.fullmatch(dim)
    if found is None:
        return dim, 1, 0
    rest = int(found["rest"] or 0)
    return found["name"], int(found["factor"] or 1), -rest if found["sign"] == "-" else rest


def _cast_help(where: str, dtype: DType) -> str:
    name = where.strip("`").split("`")[0]
    target = name if name.isidentifier() else "array"
    package = "ml_dtypes" if dtype.is_narrow else "numpy"
    return f"cast it with `{target}.astype({package}.{dtype.name})`"


def _as_array(value: Any, dtype: DType, type_: ValueType, where: str) -> Any:
    if isinstance(value, np.ndarray):
        return value
    if isinstance(value, np.generic):
        return np.asarray(value)
    if isinstance(value, (bool, int, float)):
        return _number(value, dtype, type_, where)
    if isinstance(value, (list, tuple)):
        return _nested(value, dtype, type_, where)
    if hasattr(value, "__dlpack__"):
        try:
            found = narrow_of(value) if dtype.is_narrow else None
            return np.from_dlpack(value) if found is None else found
        except RelayError:  # One of ours, raised by what the value ran.
            raise
        except (RuntimeError, TypeError, BufferError, ValueError, AttributeError) as reason:
            raise error("wrong-argument", f"{where} cannot be read: {reason}") from None
    raise wrong(where, type_, value)


def _number(value: bool | int | float, dtype: DType, type_: ValueType, where: str) -> Any:
    if type_.dims or not _is_representable(value, dtype):
        raise wrong(where, type_, value)
    return dtype.array(value)


def _is_representable(value: Any, dtype: DType) -> bool:
    if isinstance(value, bool):
        return dtype.is_bool
    if isinstance(value, int):
        return not dtype.is_bool and dtype.min <= value <= dtype.max
    if not isinstance(value, float) or not dtype.is_real:
        return False
    return not math.isfinite(value) or abs(value) <= dtype.max


def _nested(value: Any, dtype: DType, type_: ValueType, where: str) -> Any:
    """Return nested lists of numbers as an array, if every number is representable."""
    try:
        array = np.array(value, dtype=object)
    except ValueError:
        raise wrong(where, type_, value) from None
    if array.ndim > MAX_RANK or not all(_is_representable(item, dtype) for item in array.flat):
        raise wrong(where, type_, value)
    return dtype.array(array)
