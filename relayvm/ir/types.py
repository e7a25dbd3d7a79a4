"""Types of Relay. Equality is structural; type variables are equal only if they are the same
object.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from typing import Union

from relayvm.base.dims import Dim, DimExpr, DimVar, dim_variables, symbol
from relayvm.base.dtypes import BY_NAME, FLOAT32, DType
from relayvm.base.source import Span


class Kind(Enum):
    """The kind of a type: what it may stand for."""

    TYPE = "Type"
    SHAPE_VAR = "ShapeVar"
    BASE_TYPE = "BaseType"
    CONSTRAINT = "Constraint"
    ADT_HANDLE = "AdtHandle"
    TYPE_DATA = "TypeData"


class _Hashed:
    """Has a place for the hash of a type: it is no field, so copies and pickles find their own."""

    __slots__ = ("_hash",)
    _hash: int


@dataclass(frozen=True, slots=True, eq=False)
class Type(_Hashed):
    """Base of all types. `span` takes no part in equality."""

    span: Span | None = field(default=None, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class _Compound(Type):
    """A type made of types: however deep these are, comparing takes no recursion."""

    def __eq__(self, other: object) -> bool:
        return self is other or (type(self) is type(other) and _equal(self, other))

    def __hash__(self) -> int:
        if not hasattr(self, "_hash"):
            _find_hash(self)
        return self._hash

    def __repr__(self) -> str:
        parts: list[str] = []
        size = 0
        waiting: list[object] = [self]
        while waiting and size <= MOST_SHOWN:
            item = waiting.pop()
            if isinstance(item, (_Compound, tuple)):
                waiting.extend(reversed(_shown(item)))
            else:
                parts.append(item if isinstance(item, _Text) else repr(item))
                size += len(parts[-1])
        return "".join(parts) + ("..." if waiting else "")

    def inside(self) -> tuple[object, ...]:
        """Return what decides on equality, types and all else."""
        return tuple(getattr(self, f.name) for f in fields(self) if f.compare)


# Types that share their parts may be longer than any memory where all is shown.
MOST_SHOWN = 10_000


class _Text(str):
    """A finished text among the fields of a type, which may be texts themselves."""

    __slots__ = ()


def _shown(item: _Compound | tuple[object, ...]) -> list[object]:
    """Return the texts and values of which the whole consists that is shown of a type."""
    if isinstance(item, tuple):
        found = [part for value in item for part in (_Text(", "), value)][1:]
        return [_Text("("), *found, _Text(",)" if len(item) == 1 else ")")]
    found = []
    for row in fields(item):
        if row.repr:
            found += [_Text(f"{', ' if found else ''}{row.name}="), getattr(item, row.name)]
    return [_Text(f"{type(item).__name__}("), *found, _Text(")")]


def _find_hash(root: _Compound) -> None:
    """Keep the hashes of a type and all inside it, the inner ones first."""
    waiting = [root]
    while waiting:
        item = waiting[-1]
        missing = [p for p in _compounds(item) if not hasattr(p, "_hash")]
        if missing:
            waiting.extend(missing)
            continue
        waiting.pop()
        object.__setattr__(item, "_hash", hash((type(item), *item.inside())))


def _compounds(item: _Compound) -> Iterator[_Compound]:
    for part in item.inside():
        for type_ in part if isinstance(part, tuple) else (part,):
            if isinstance(type_, _Compound):
                yield type_


def _equal(a: object, b: object) -> bool:
    waiting = [(a, b)]
    seen: set[tuple[int, int]] = set()
    while waiting:
        a, b = waiting.pop()
        if a is b or (id(a), id(b)) in seen:
            continue
        if isinstance(a, tuple) and isinstance(b, tuple):
            if len(a) != len(b):
                return False
            waiting.extend(zip(a, b))
        elif isinstance(a, _Compound) and type(a) is type(b):
            if getattr(a, "_hash", None) != getattr(b, "_hash", None) and _have_hashes(a, b):
                return False
            seen.add((id(a), id(b)))
            waiting.append((a.inside(), b.inside()))
        elif a != b:
            return False
    return True


def _have_hashes(a: Type, b: Type) -> bool:
    return hasattr(a, "_hash") and hasattr(b, "_hash")


@dataclass(frozen=True, slots=True)
class TensorType(Type):
    """A tensor with dims from the outermost axis inward; rank 0 is a scalar."""

    shape: tuple[Dim, ...]
    dtype: DType

    @property
    def rank(self) -> int:
        return len(self.shape)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TupleType(_Compound):
    """The type of tuples; no fields is the unit type `()`."""

    fields: tuple[Type, ...]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FuncType(_Compound):
    """The type of functions. A `DimVar` among the type parameters is one of kind ShapeVar; each
    use solves the constraints for its type arguments.
    """

    arg_types: tuple[Type, ...]
    ret_type: Type
    type_params: tuple[TypeParam, ...] = ()
    type_constraints: tuple[TypeRelation, ...] = ()


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TypeRelation(_Compound):
    """A constraint on type parameters, `add(A, B, C)`: the last of `args` is the type of what the
    operator `name` gives for operands of the others. `attrs` are attributes of the operator.
    """

    name: str
    args: tuple[Type, ...]
    attrs: Mapping[str, object] | None = None

    @property
    def num_inputs(self) -> int:
        """The number of operands."""
        return len(self.args) - 1


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RefType(_Compound):
    """The type of references to a value."""

    value: Type


@dataclass(frozen=True, slots=True, eq=False)
class TypeVar(Type):
    """A type parameter."""

    name: str
    kind: Kind = Kind.TYPE


@dataclass(frozen=True, slots=True)
class GlobalTypeVar(Type):
    """The name of a data type in a module."""

    name: str


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TypeCall(_Compound):
    """A data type applied to arguments: `List[A]`. An argument for a ShapeVar parameter is a
    `ShapeArg`.
    """

    func: GlobalTypeVar
    args: tuple[Type, ...]


@dataclass(frozen=True, slots=True)
class ShapeArg(Type):
    """A dim in the place of a type argument."""

    dim: Dim


@dataclass(frozen=True, slots=True, eq=False)
class IncompleteType(Type):
    """A type still to be inferred; written `_`."""

    kind: Kind = Kind.TYPE


TypeParam = Union[TypeVar, DimVar]

UNIT = TupleType(())

# Names that mean something in the place of a type, so that no type can have them.
RESERVED_NAMES = {
    "Tensor": "`Tensor[(2, 3), float32]` is one of tensors",
    "_": "it stands for a type to be inferred",
    **dict.fromkeys(BY_NAME, "it is an element type"),
}

POISON: Type = TypeVar("<error>")
"""The type of what has an error that is already reported; fits everything."""

_POISON_SIZE = DimVar("_")

POISON_DIM: Dim = symbol(_POISON_SIZE)
"""A dim that has an error which is reported, in a type that is known but for it."""

POISON_DTYPE: DType = replace(FLOAT32, name="_")
"""The same for an element type."""


def is_poisoned(dim: Dim) -> bool:
    """Return True for a dim of which something is wrong: it fits every other."""
    return isinstance(dim, DimExpr) and _POISON_SIZE in dim_variables(dim)


def scalar_type(dtype: DType) -> TensorType:
    """Return the rank-0 tensor type."""
    return TensorType((), dtype)
