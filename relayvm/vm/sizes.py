"""Whether values that a program gave have the sizes that another type declares.

Types that differ in sizes only have one layout, so layouts do not tell. What the type of a value
leaves open is compared in the value: by the library, and in Python where an error is to name the
place. Nothing here recurses along a value or a type.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import numpy as np

from relayvm.base.diagnostics import error
from relayvm.base.dtypes import BY_NAME
from relayvm.vm.arrays import check_sizes, wrong
from relayvm.vm.library import ffi, lib
from relayvm.vm.manifest import DataType, ValueType

_FIT, _DIFFER, _TENSOR, _CELL, _ARRAY, _REFERENCE = range(6)
_LONGEST_NAME = 200


class _Flow(Enum):
    """How values of one type come to be values of another."""

    COMPARED = "compared"  # they are at hand
    RESULT = "result"  # results of a function that was given
    PARAMETER = "parameter"  # arguments of it: the type declared comes first


@dataclass(slots=True)
class _Pair:
    """Two types, of which values of the first become values of the second.

    `rows` are the pairs inside, by constructor where it is a data type. `fits` is false where some
    values of the first are none of the second.
    """

    first: ValueType
    second: ValueType
    flow: _Flow
    rows: list[list[int]] = field(default_factory=list)
    fits: bool = True


@dataclass(frozen=True, slots=True)
class _Unseen:
    """Stands in an error for a value that was not read."""

    type: ValueType
    sizes: Mapping[str, int]


class Pairs:
    """A type that values have and one that is declared, with the pairs of types inside them."""

    def __init__(
        self,
        data_type: Callable[[str], DataType],
        given: ValueType,
        declared: ValueType,
        sizes: Mapping[str, int] | None = None,
        most: int | None = None,
    ) -> None:
        """`sizes` are those that the type given has names for. `most` is the number of pairs that
        are looked at, where data types have no end.
        """
        self._data_type = data_type
        self._sizes = sizes or {}
        self._numbers: dict[object, int] = {}
        self.pairs: list[_Pair] = []
        self._numbered(given, declared, _Flow.COMPARED)
        for number, pair in enumerate(self.pairs):  # which grow
            if number == most:
                break
            self._open(pair)
        self._spread()
        self.fits = self.pairs[0].fits
        self._rows: Any = None
        self._starts: dict[int, int] = {}  # in the rows, by the number of a pair

    def _numbered(self, first: ValueType, second: ValueType, flow: _Flow) -> int:
        is_data = first.kind == second.kind == "data"
        # Data types are known by their names, others are kept alive by the pair.
        key = (first.name, second.name, flow) if is_data else (id(first), id(second), flow)
        number = self._numbers.setdefault(key, len(self.pairs))
        if number == len(self.pairs):
            self.pairs.append(_Pair(first, second, flow))
        return number

    def _open(self, pair: _Pair) -> None:
        """Number what is inside of a pair, and find out whether it fits as far as that tells."""
        first, second, flow = pair.first, pair.second, pair.flow
        if first is second or "any" in (first.kind, second.kind):
            return
        if first.kind != second.kind or len(first.fields) != len(second.fields):
            pair.fits = False
        elif first.kind == "tensor":
            pair.fits = self._fits_tensor(first, second, flow)
        elif first.kind == "data":
            self._open_data(pair)
        elif first.kind == "function":
            back, on = _FLOWS[flow]
            inside = list(zip(first.fields, second.fields))
            row = [self._numbered(b, a, back) for a, b in inside[:-1]]
            pair.rows = [[*row, self._numbered(*inside[-1], on)]]
        else:
            pair.rows = [[self._numbered(a, b, flow) for a, b in zip(first.fields, second.fields)]]

    def _open_data(self, pair: _Pair) -> None:
        if pair.first.name == pair.second.name:
            return
        given = self._data_type(pair.first.name).constructors
        declared = self._data_type(pair.second.name).constructors
        sizes = [len(c.fields) for c in given]
        pair.fits = sizes == [len(c.fields) for c in declared]
        if pair.fits:
            pair.rows = [
                [self._numbered(*both, pair.flow) for both in zip(a.fields, b.fields)]
                for a, b in zip(given, declared)
            ]

    def _fits_tensor(self, first: ValueType, second: ValueType, flow: _Flow) -> bool:
        """Tell whether all tensors of the first type are of the second.

        Sizes that have names and are not known agree with any: those that are declared, and those
        of a function that was given.
        """
        if not _is_comparable(first, second):
            return False
        if flow is _Flow.COMPARED:
            return all(not isinstance(b, int) or a == b for a, b in zip(first.dims, second.dims))
        back = flow is _Flow.PARAMETER
        dims = [self._number_of(dim) for dim in (second if back else first).dims]
        pairs = zip(first.dims, dims) if back else zip(dims, second.dims)
        return all(a == b or not isinstance(b, int) or isinstance(a, str) for a, b in pairs)

    def _number_of(self, dim: int | str | None) -> int | str | None:
        """Return the number that a size is where its names have the numbers that are known; itself
        where that is none.
        """
        if not isinstance(dim, str):
            return dim
        known = self._sizes.get(dim)
        number = number_of(dim, self._sizes) if known is None else known
        return dim if number is None else number

    def _spread(self) -> None:
        """A pair does not fit where one inside of it does not."""
        around: list[list[int]] = [[] for _ in self.pairs]
        for number, pair in enumerate(self.pairs):
            for row in pair.rows:
                for inside in row:
                    around[inside].append(number)
        waiting = [number for number, pair in enumerate(self.pairs) if not pair.fits]
        while waiting:
            for number in around[waiting.pop()]:
                if self.pairs[number].fits:
                    self.pairs[number].fits = False
                    waiting.append(number)

    def _numbers_of_rows(self) -> list[int]:
        """Return the pairs as the library reads them, and keep where each starts."""
        numbers, starts, texts = [0], self._starts, [_FIT]
        links: list[tuple[int, int]] = []
        for number in numbers:  # which grows
            starts[number] = len(texts)
            row, inside = self._row(number, len(texts))
            links.extend((len(texts) + at, pair) for at, pair in inside)
            texts.extend(row)
            for _, pair in inside:
                if pair not in starts and not self.pairs[pair].fits:
                    starts[pair] = 0
                    numbers.append(pair)
        for at, pair in links:
            texts[at] = starts.get(pair, 0)
        return texts

    def _row(self, number: int, start: int) -> tuple[list[int], list[tuple[int, int]]]:
        """Return a row, and where in it the starts of which pairs are to be written."""
        pair = self.pairs[number]
        kind, declared = pair.first.kind, pair.second
        if kind == "tensor" and _is_comparable(pair.first, declared):
            dims = [d if isinstance(d, int) else -1 for d in declared.dims]
            return [_TENSOR, len(dims), *dims], []
        if kind == "function" or not pair.rows:
            return [_DIFFER], []
        if kind in ("array", "ref"):
            return [_ARRAY if kind == "array" else _REFERENCE, 0], [(1, pair.rows[0][0])]
        row = [_CELL, declared.layout, len(pair.rows), *[0] * len(pair.rows)]
        links: list[tuple[int, int]] = []
        for place, inside in enumerate(pair.rows):
            row[3 + place] = start + len(row)
            row.append(len(inside))
            links.extend((len(row) + i, part) for i, part in enumerate(inside))
            row.extend([0] * len(inside))
        return row, links

    # --- values -----------------------------------------------------------------------------------

    def accept(self, item: int) -> bool:
        """Tell whether a value has the sizes that are declared."""
        if self.fits:
            return True
        return self._has_sizes(item, 0, ffi.NULL)

    def _has_sizes(self, item: int, number: int, misfit: Any) -> bool:
        if self._rows is None:
            self._rows = ffi.new("int64_t[]", self._numbers_of_rows())
        answer = lib.rvm_value_has_sizes(item, self._rows, self._starts[number], misfit)
        if answer < 0:
            raise error("out-of-memory", "there is no memory to compare sizes")
        return bool(answer)

    def refuse(self, value: Any, where: str) -> None:
        """Raise RelayError `wrong-argument` for the first part of a value that is not accepted.

        The library tells which part it is in, so that the parts of the others are not looked at.
        """
        root = (value, where)
        waiting = [(value, 0, where)]
        while waiting:
            value, number, where = waiting.pop()
            pair = self.pairs[number]
            if pair.fits:
                continue
            if pair.first.kind == "tensor":
                check_sizes(value, pair.second, where, {})
                continue
            if pair.first.kind == "function" or not pair.rows:
                raise wrong(where, pair.second, value)
            if address := getattr(value, "address", 0):
                misfit = self._misfit(address, number)
                if misfit is None:
                    continue
                if len(where) > _LONGEST_NAME:
                    self._refuse_misfit(misfit, where, getattr(value, "sizes", {}))
                waiting.clear()
            waiting.extend(reversed(self._inside(value, pair, where)))
        # A reference in it may have another value now.
        raise wrong(root[1], self.pairs[0].second, root[0])

    def _misfit(self, item: int, number: int) -> Any:
        """Return what the library tells of the first part of a value that does not fit, or None."""
        misfit = ffi.new("rvm_misfit *")
        return None if self._has_sizes(item, number, misfit) else misfit

    def _refuse_misfit(self, misfit: Any, where: str, sizes: Mapping[str, int]) -> None:
        number = next(n for n, start in self._starts.items() if start == misfit.row)
        pair = self.pairs[number]
        given: Any = _Unseen(pair.first, sizes)
        if pair.first.kind == "tensor":
            one = np.zeros((), BY_NAME[pair.first.dtype].numpy)
            given = np.broadcast_to(one, tuple(misfit.dims[0 : misfit.rank]))
        raise wrong(where, pair.second, given)

    def _inside(self, value: Any, pair: _Pair, where: str) -> list[tuple[Any, int, str]]:
        name = "field {} of {}"
        row, values = pair.rows[0], value
        if pair.first.kind == "ref":
            name, values = "the content of {1}", value.contents()
        elif pair.first.kind == "array":
            name, row = "item {} of {}", row * len(value)
        elif pair.first.kind == "data":
            name = f"field {{}} of `{value.constructor}` in {{}}"
            row, values = pair.rows[value.tag], value.fields
        is_long = len(where) > _LONGEST_NAME
        return [
            (part, inside, where if is_long else name.format(i, where))
            for i, (part, inside) in enumerate(zip(values, row))
        ]


# Of the parameters, and of the result, of functions that are compared.
_FLOWS = {
    _Flow.COMPARED: (_Flow.PARAMETER, _Flow.RESULT),
    _Flow.RESULT: (_Flow.PARAMETER, _Flow.RESULT),
    _Flow.PARAMETER: (_Flow.RESULT, _Flow.PARAMETER),
}


def _broadcast(a: int, b: int) -> int:
    if a != b and 1 not in (a, b):
        raise ValueError(f"sizes {a} and {b} do not broadcast")
    return b if a == 1 else a


# By the names of Python's syntax trees, and of functions as `number_of` writes them.
_OPERATORS: dict[str, Callable[[int, int], int]] = {
    "Add": operator.add,
    "Sub": operator.sub,
    "Mult": operator.mul,
    "FloorDiv": operator.floordiv,
    "Mod": operator.mod,
    "_min": min,
    "_max": max,
    "_broadcast": _broadcast,
}


def number_of(dim: str, sizes: Mapping[str, int]) -> int | None:
    """Return the number that the text of a dim stands for, or None: a name in it has no number in
    `sizes`, or it is an error for those numbers.
    """
    try:
        # A dim is also Python once no name in it is a keyword.
        root = ast.parse(re.sub(r"[A-Za-z_]\w*", r"_\g<0>", dim), mode="eval").body
        numbers: dict[ast.AST, int] = {}
        for node in reversed(list(ast.walk(root))):  # what is inside comes first
            match node:
                case ast.Constant(value=int(number)):
                    numbers[node] = number
                case ast.Name(id=name) if name[1:] in sizes:
                    numbers[node] = sizes[name[1:]]
                case ast.UnaryOp(op=ast.USub(), operand=inside):
                    numbers[node] = -numbers[inside]
                case ast.BinOp(left=a, op=op, right=b):
                    numbers[node] = _OPERATORS[type(op).__name__](numbers[a], numbers[b])
                case ast.Call(func=ast.Name(id=name), args=[a, b]):
                    numbers[node] = _OPERATORS[name](numbers[a], numbers[b])
        return numbers[root]
    except (KeyError, ValueError, ZeroDivisionError, SyntaxError, RecursionError, MemoryError):
        return None


def _is_comparable(first: ValueType, second: ValueType) -> bool:
    return first.dtype == second.dtype and len(first.dims) == len(second.dims)


def names_in_functions(data_type: Callable[[str], DataType], root: ValueType) -> bool:
    """Tell whether in values of a type there are functions whose types have names for sizes."""
    waiting = [(root, False)]
    seen: set[tuple[object, bool]] = set()
    while waiting:
        type_, in_function = waiting.pop()
        in_function = in_function or type_.kind == "function"
        key = type_.name or id(type_), in_function
        if key in seen:
            continue
        seen.add(key)
        if in_function and any(isinstance(dim, str) for dim in type_.dims):
            return True
        parts = list(type_.fields)
        if type_.kind == "data":
            parts = [part for c in data_type(type_.name).constructors for part in c.fields]
        waiting.extend((part, in_function) for part in parts)
    return False
