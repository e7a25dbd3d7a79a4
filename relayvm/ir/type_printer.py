"""Types, dims and attribute values to text, with the names that keep their parameters apart."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Union

import numpy as np

from relayvm.base.diagnostics import error
from relayvm.base.dims import AnyDim, Dim, DimExpr, DimTerm, DimVar
from relayvm.base.dtypes import DType
from relayvm.base.source import Span
from relayvm.ir.expr import Attrs, AttrValue, Constant, Function
from relayvm.ir.lexer import KEYWORDS, write_name
from relayvm.ir.literal import write_float, write_string
from relayvm.ir.shared_types import NOT_BOUND, Abbreviations, Bound
from relayvm.ir.types import (
    RESERVED_NAMES,
    FuncType,
    GlobalTypeVar,
    IncompleteType,
    RefType,
    ShapeArg,
    TensorType,
    TupleType,
    Type,
    TypeCall,
    TypeParam,
    TypeRelation,
    TypeVar,
)
from relayvm.ir.visit import TypeVariables, TypeWords, type_walk

_NAME = re.compile(r"[A-Za-z_](?:[A-Za-z0-9_]|/(?=[A-Za-z0-9_]))*|(?:/(?=[A-Za-z_])[A-Za-z0-9_]*)+")
# A name that was made by telling two apart.
_NUMBERED = re.compile(r"(.+)_([1-9][0-9]*)")
_RESERVED_TYPES = frozenset(
    {
        *RESERVED_NAMES,
        *KEYWORDS,
        "min",
        "max",
        "broadcast",
        "floordiv",
        "floormod",
    }
)


# A type of more words has names for parts even where it stands alone.
MOST_WORDS = 1 << 16
MOST_CHARACTERS = 1 << 18
# A text that is to be read again has types of no more words and signs than these.
MOST_PIECES = 1 << 20


def print_type(type_: Type, limit: int | None = None) -> str:
    """Return a type as text, which ends in `...` where it is longer than `limit`.

    A type that shares its parts and would be far too long has names for them in front: `type T =
    (int32, ...);`. What of it can have none ends in `...`.
    """
    if limit is not None or TypeWords()(type_) <= MOST_WORDS:
        return TypeNames().type(type_, limit)
    data = {part.name for part in type_walk(type_) if isinstance(part, GlobalTypeVar)}
    data |= {part.func.name for part in type_walk(type_) if isinstance(part, TypeCall)}
    short = Abbreviations()
    short.count((type_,))
    short.settle()
    names = top_names(short, reserved_names(data))
    types = TypeNames(reserved_names(data).union(names.values()))
    types.shorten(short, names)
    lines = [f"type {line};\n" for line in types.abbreviations(None, MOST_CHARACTERS)]
    return "".join([*lines, types.type(type_, MOST_CHARACTERS)])


# Parameters with the names that they had before a place gave them others.
Shadowed = list[tuple[TypeParam, str | None]]


@dataclass(slots=True)
class Names:
    """Gives each thing the name it asks for, or the next free one like it."""

    reserved: Collection[str] = frozenset()
    taken: set[str] = field(default_factory=set)
    given: dict[object, str] = field(default_factory=dict)
    next_number: dict[str, int] = field(default_factory=dict)

    def of(self, thing: object, wanted: str) -> str:
        """Return the name of `thing`, choosing it at the first call."""
        name = self.given.get(thing)
        if name is None:
            name = self.given[thing] = self._free(wanted)
        return name

    def enter(self, params: Sequence[TypeParam]) -> Shadowed:
        """Give names to parameters from here to where `leave` is called with the result.

        Each place that has parameters has them anew, whether or not other places share the objects:
        reading the text makes own ones for each.
        """
        before = [(param, self.given.pop(param, None)) for param in params]
        for param in params:
            self.given[param] = self._apart(param.name)
        return before

    def _apart(self, wanted: str) -> str:
        """Return the name of a parameter: a free one, which with `_1` behind it would be wanted by
        who wants this. So it does not matter which of several texts a parameter was read from.
        """
        numbered = _NUMBERED.fullmatch(wanted)
        base = numbered[1] if numbered else wanted
        if base in self.taken:
            number = self.next_number.get(base, 1)
            while not self._is_free(f"{base}_{number}"):
                number += 1
            self.next_number[base] = number + 1
            base = f"{base}_{number}"
        return self._free(base)

    def leave(self, before: Shadowed) -> None:
        """Forget the names that were given by `enter`, which others may take now."""
        for param, name in before:
            gone = self.given.pop(param)
            self.taken.discard(gone)
            if numbered := _NUMBERED.fullmatch(gone):
                self.next_number[numbered[1]] = int(numbered[2])
            if name is not None:
                self.given[param] = name

    def _free(self, wanted: str) -> str:
        if not _NAME.fullmatch(wanted):
            wanted = re.sub(r"[^A-Za-z0-9_]", "_", wanted)
            wanted = f"v{wanted}" if not wanted or wanted[0].isdigit() else wanted
        if self._is_free(wanted):
            self.taken.add(wanted)
            return wanted
        base = f"{wanted}_" if wanted[-1].isdigit() else wanted
        number = self.next_number.get(base, 1)
        while not self._is_free(f"{base}{number}"):
            number += 1
        self.next_number[base] = number + 1
        self.taken.add(f"{base}{number}")
        return f"{base}{number}"

    def _is_free(self, name: str) -> bool:
        return name not in self.taken and name not in self.reserved


def top_names(short: Abbreviations, reserved: Collection[str]) -> dict[int, str]:
    """Return the names of the types that get theirs at the top of a text."""
    names = Names(reserved)
    return {number: names.of(number, "T") for number, _ in short.at(None)}


def reserved_names(types: Iterable[str] = ()) -> frozenset[str]:
    """Return the names that no type parameter can have beside these data types."""
    return _RESERVED_TYPES.union(types)


@dataclass(frozen=True, slots=True)
class _End:
    """Where a function type with parameters ends, and what holds behind it again."""

    names: Shadowed
    bound: Bound
    level: int
    local: Mapping[int, str] | None


@dataclass(frozen=True, slots=True)
class _Whole:
    """A type where its name is said what it stands for."""

    type: Type


# What the text of a type is made of.
_Piece = Union[str, Type, _End, _Whole]


class TypeNames:
    """Prints types, dims and attribute values; names type parameters apart."""

    def __init__(
        self,
        reserved: Collection[str] = _RESERVED_TYPES,
        constant: Callable[[np.ndarray], str] | None = None,
    ) -> None:
        self.names = Names(reserved)
        self._constant = constant
        self._short: Abbreviations | None = None
        self._short_names: Mapping[int, str] = {}
        # The names that function types around give to types, by how deep they nest.
        self._local: dict[int, Mapping[int, str]] = {}
        self._bound: Bound = NOT_BOUND
        self.place: Span | None = None
        self._free = TypeVariables()

    def shorten(self, short: Abbreviations, names: Mapping[int, str]) -> None:
        """Write names in the place of these types from now on. `names` are those given at the top
        of the text.
        """
        self._short = short
        self._short_names = names

    def abbreviations(self, function: Function | None, limit: int | None = None) -> list[str]:
        """Return `T = (int32, int32)` for each type that gets its name at a function, or at the
        top of the text; types longer than `limit` end in `...`.
        """
        found = self._short.at(function) if self._short else []
        texts = [(number, self._joined([_Whole(type_)], limit)) for number, type_ in found]
        return [f"{self._name(number)} = {text}" for number, text in texts]

    def _name(self, number: int) -> str:
        """Return the name of a type that has one outside of function types."""
        name = self._short_names.get(number)
        return name or self.names.of(("abbreviation", number), "T")

    def _name_of(self, type_: Type) -> str | None:
        """Return the name of a type where it stands, if it has one."""
        number = self._short.of(type_, self._bound) if self._short else None
        if self._short is None or number is None:
            return None
        level = self._short.level(number)
        return self._name(number) if level is None else self._local[level].get(number)

    def type(self, type_: Type, limit: int | None = None) -> str:
        """Return a type as text, which ends in `...` where it is longer than `limit`."""
        if isinstance(type_, TensorType):
            return self._tensor(type_)
        return self._joined([type_], limit)

    def _joined(self, pieces: Sequence[_Piece], limit: int | None = None) -> str:
        parts: list[str] = []
        size, pieces_left = 0, MOST_PIECES
        # Types may nest deeply: what is still to be written waits here, the next last.
        waiting = [*reversed(pieces)]
        while waiting:
            item = waiting.pop()
            if isinstance(item, _End):
                self._leave(item)
                continue
            if not isinstance(item, (str, TensorType)):
                name = None if isinstance(item, _Whole) else self._name_of(item)
                type_ = item.type if isinstance(item, _Whole) else item
                below = self._pieces(type_) if name is None else [name]
                waiting.extend(reversed(below))
                pieces_left -= len(below)
                if limit is None and pieces_left < 0:
                    message = "the text of a type is too long, and parts of it can have no names"
                    raise error("too-large-type", message, type_.span or self.place)
                continue
            parts.append(item if isinstance(item, str) else self._tensor(item))
            size += len(parts[-1])
            if limit is not None and size > limit and waiting:
                for item in reversed(waiting):
                    if isinstance(item, _End):
                        self._leave(item)
                return "".join(parts)[:limit] + "..."
        return "".join(parts)

    def _leave(self, end: _End) -> None:
        self.names.leave(end.names)
        self._bound = end.bound
        if end.local is None:
            del self._local[end.level]
        else:
            self._local[end.level] = end.local

    def _tensor(self, type_: TensorType) -> str:
        if not type_.shape:
            return type_.dtype.name
        dims = ", ".join([self.dim(d, in_shape=True) for d in type_.shape])
        return f"Tensor[({dims}), {type_.dtype.name}]"

    def _pieces(self, type_: Type) -> list[_Piece]:
        """Return the texts and types of which the text of a type is made."""
        match type_:
            case TupleType():
                comma = ",)" if len(type_.fields) == 1 else ")"
                return ["(", *joined(type_.fields), comma]
            case FuncType():
                params, end = self._type_params(type_) if type_.type_params else ([], [])
                constraints = self._where(type_.type_constraints)
                result: list[_Piece] = [type_.ret_type]
                if constraints and isinstance(type_.ret_type, FuncType):
                    result = ["(", type_.ret_type, ")"]
                pieces = ["(", *joined(type_.arg_types), ") -> ", *result]
                return ["fn ", *params, *pieces, *constraints, *end]
            case TypeRelation():
                attrs = dict(type_.attrs or {})
                named = [f"{n}={self.attr_value(v, quoted=True)}" for n, v in attrs.items()]
                return [f"{type_.name}(", *joined([*type_.args, *named]), ")"]
            case RefType():
                return ["ref(", type_.value, ")"]
            case TypeVar():
                return [self.names.of(type_, type_.name)]
            case GlobalTypeVar():
                return [write_name(type_.name)]
            case TypeCall() if type_.args:
                return [f"{write_name(type_.func.name)}[", *joined(type_.args), "]"]
            case TypeCall():
                return [write_name(type_.func.name)]
            case ShapeArg():
                return [self.dim(type_.dim)]
            case IncompleteType():
                return ["_"]
        raise TypeError(f"{type(type_).__name__} is not a type")

    def _type_params(self, type_: FuncType) -> tuple[list[_Piece], list[_Piece]]:
        """Enter a function type, and return its parameters with the types that have a name among
        them, `[A, T = (A, A)]`, and what leaves it.
        """
        inner, level, found = NOT_BOUND, 0, list[tuple[int, Type]]()
        if self._short is not None:
            inner, level, found = self._short.inside(type_, self._bound)
        own = [TypeVar("T") for _ in found]
        before = self.names.enter((*type_.type_params, *own))
        end = _End(before, self._bound, level, self._local.get(level))
        self._bound = inner
        local = {row[0]: self.names.given[v] for row, v in zip(found, own)}
        self._local[level] = local
        params = self.params(type_.type_params, (*type_.arg_types, type_.ret_type))
        pieces: list[_Piece] = [params.removesuffix("]")]
        for number, part in found:
            pieces += [f", {local[number]} = ", _Whole(part)]
        return [*pieces, "]"], [end]

    @staticmethod
    def _where(constraints: Sequence[TypeRelation]) -> list[_Piece]:
        return [" where ", *joined(constraints)] if constraints else []

    def where(self, constraints: Sequence[TypeRelation]) -> str:
        """Return ` where add(A, B, C)`, or nothing without constraints."""
        shown = ", ".join(self.type(c) for c in constraints)
        return f" where {shown}" if shown else ""

    def params(
        self,
        params: Sequence[TypeParam],
        uses: Iterable[Type],
        function: Function | None = None,
        lines: bool = False,
    ) -> str:
        """Return `[A, n]` or nothing; a dim parameter whose use does not show its kind has it
        written. Types that get a name at `function` stand behind: `[A, T = (A, int32)]`, with
        `lines` each on its own.
        """
        if not params and function is None:
            return ""
        unseen = {p for p in params if isinstance(p, DimVar)}
        if unseen:
            unseen.difference_update(chain.from_iterable(map(self._free, uses)))
        parts = [self.names.of(p, p.name) + (": ShapeVar" if p in unseen else "") for p in params]
        short = self.abbreviations(function) if function is not None else []
        if short and lines:
            return "[\n  " + ",\n  ".join([*parts, *short]) + "\n]"
        return f"[{', '.join([*parts, *short])}]" if parts or short else ""

    def dim(self, dim: Dim, in_shape: bool = False) -> str:
        """Return a dim as text; `//` stands between its operands only in the shape of a tensor
        type.
        """
        if type(dim) is int:
            return str(dim)
        if not isinstance(dim, DimExpr):
            return repr(dim)
        text = ""
        for monomial, coefficient in dim.terms:
            alone = len(dim.terms) == 1 and len(monomial) == 1 and coefficient == 1
            factors = [
                self._atom(atom, in_shape, alone and monomial[0][1] == 1)
                for atom, power in monomial
                for _ in range(power)
            ]
            if abs(coefficient) != 1 or not factors:
                factors.append(str(abs(coefficient)))
            sign = "-" if coefficient < 0 else "+"
            body = "*".join(factors)
            if text:
                text += f" {sign} {body}"
            else:
                text = body if sign == "+" else f"-{body}"
        return text

    def _atom(self, atom: DimVar | DimTerm, in_shape: bool, alone: bool) -> str:
        if isinstance(atom, DimVar):
            return self.names.of(atom, atom.name)
        if atom.op == "//" and in_shape:
            a, b = self.dim(atom.a, True), self.dim(atom.b, True)
            text = f"{_wrapped(a)} // {_wrapped(b)}"
            return text if alone else f"({text})"
        name = {"//": "floordiv", "%": "floormod"}.get(atom.op, atom.op)
        return f"{name}({self.dim(atom.a, in_shape)}, {self.dim(atom.b, in_shape)})"

    def attr_value(self, value: AttrValue, quoted: bool = False) -> str:
        """Return the value of an attribute as text; `quoted` writes element types as strings, as
        operators do.
        """
        if type(value) is int:
            return str(value)
        if not isinstance(value, (tuple, Attrs)):
            return self._plain_value(value, quoted)
        parts: list[str] = []
        waiting: list[_Text | AttrValue] = [value]
        while waiting:
            item = waiting.pop()
            if isinstance(item, _Text):
                parts.append(item)
            elif isinstance(item, tuple):
                waiting.extend(reversed([_Text("["), *joined(item, _COMMA), _Text("]")]))
            elif isinstance(item, Attrs):
                pairs = [
                    (_Text(f"{write_string(k)}: "), v)
                    for k, v in sorted(item.items(), key=lambda row: row[0])
                ]
                pieces = [part for pair in pairs for part in (_COMMA, *pair)][1:]
                waiting.extend(reversed([_Text("{"), *pieces, _Text("}")]))
            else:
                parts.append(self._plain_value(item, quoted))
        return "".join(parts)

    def _plain_value(self, value: AttrValue, quoted: bool) -> str:
        match value:
            case None | bool() | int():
                return str(value)
            case float():
                return write_float(value)
            case str():
                return write_string(value)
            case DType():
                return f'"{value}"' if quoted else value.name
            case DimExpr() | AnyDim():
                return self.dim(value)
            case Constant():
                return self._constant(value.data) if self._constant else "meta"
        return write_string(str(value))


class _Text(str):
    """A finished text among the values of attributes, which may be texts themselves."""

    __slots__ = ()


_COMMA = _Text(", ")


def joined(items: Sequence[Any], comma: str = ", ") -> list[Any]:
    """Return the items with commas between them."""
    return [part for item in items for part in (comma, item)][1:]


def _wrapped(text: str) -> str:
    return text if re.fullmatch(r"\w+", text) else f"({text})"


def tuple_text(fields: list[str]) -> str:
    """Return a tuple of texts; one field has a comma behind it."""
    return f"({fields[0]},)" if len(fields) == 1 else f"({', '.join(fields)})"
