"""Entries as the library's module `calls` calls them in the usual case: what it must know of each.

The usual case: all arguments are there, as arrays of exactly the declared dtype, numpy's or another
library's, as plain numbers that fit, or as values that are no tensors. All else is left to the
general function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from relayvm.base.dtypes import BY_NAME
from relayvm.vm.arrays import host_dtype, linear_dim
from relayvm.vm.calling.record import Record
from relayvm.vm.library import calls, ffi
from relayvm.vm.manifest import ValueType

WORD, OTHER = "word", "other"
COPIED = "copied"  # an array that lies in the record during a call
LENT = "lent"  # an array of the caller's
NUMBERS = {WORD: 0, COPIED: 1, LENT: 1, OTHER: 2}
CONSTANT, ANY = -1, -2

Place = tuple[int, int, Any, tuple[tuple[int, int, int], ...], Any]


def entry_of(
    record: Record,
    names: tuple[str, ...],
    params: Sequence[tuple[str, ValueType, Callable[[Any], int]]],
    results: Sequence[tuple[str, ValueType]],
    general: Callable[[tuple[Any, ...], dict[str, Any], Any], Any],
    finish: Callable[..., Any],
) -> Any:
    """Return an entry for values of these kinds and types, which uses the buffers of a record.

    `general(args, named, out)` runs the entry in every case; `finish(record, code, outs, values)`
    ends calls that were begun and have no usual end.
    """
    symbols: dict[str, int] = {}
    given = tuple([_place(kind, type_, convert, symbols) for kind, type_, convert in params])
    taken = tuple([_place(kind, type_, None, symbols) for kind, type_ in results])
    address = int(ffi.cast("uintptr_t", record.call))
    return calls.Entry(
        address, record, len(symbols), names, given, taken, general, finish, np.from_dlpack
    )


def _place(kind: str, type_: ValueType, convert: Any, symbols: dict[str, int]) -> Place:
    if kind == OTHER:
        return NUMBERS[kind], 0, None, (), convert
    dtype = BY_NAME[type_.dtype]
    host = dtype.numpy if convert else host_dtype(dtype)
    dims = tuple([_dim(dim, symbols) for dim in type_.dims])
    return NUMBERS[kind], dtype.code, host, dims, None


def _dim(dim: int | str | None, symbols: dict[str, int]) -> tuple[int, int, int]:
    """Return a size as `(symbol, factor, rest)`."""
    if dim is None:
        return ANY, 1, 0
    if isinstance(dim, int):
        return CONSTANT, 1, dim
    name, factor, rest = linear_dim(dim)
    return symbols.setdefault(name, len(symbols)), factor, rest
