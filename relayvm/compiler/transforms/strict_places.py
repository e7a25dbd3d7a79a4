"""Where sizes in types cannot be compared at run time: inside of functions, references and arrays,
and of data types with such fields. What differs there in size is of another type.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from relayvm.base.dims import ANY, Dim, dim_variables
from relayvm.base.shapes import join_dims
from relayvm.ir.intrinsics import is_array
from relayvm.ir.module import TypeData
from relayvm.ir.types import (
    FuncType,
    RefType,
    ShapeArg,
    TensorType,
    Type,
    TypeCall,
    TypeParam,
    TypeVar,
)
from relayvm.ir.visit import type_children, with_type_children


@dataclass(frozen=True, slots=True)
class Size:
    """One dim of a type; `is_strict` where nothing can be compared."""

    dim: Dim
    is_strict: bool


class StrictPlaces:
    """Knows the places of the data types of a module where sizes cannot be compared."""

    def __init__(self, types: Mapping[str, TypeData]) -> None:
        self._types = types
        self._params: dict[str, frozenset[TypeVar]] = {}

    def of_data(self, name: str) -> frozenset[TypeVar]:
        """Return the type parameters of a data type that stand at such places of its fields."""
        if not self._params:
            self._find()
        return self._params[name]

    def of_types(self, types: Iterable[Type]) -> set[TypeVar]:
        """Return the type variables that stand at such places of some types."""
        if not self._params:
            self._find()
        found: set[TypeVar] = set()
        seen: set[tuple[int, bool]] = set()
        kept: list[Type] = []
        for type_ in types:
            kept.append(type_)
            waiting = [(type_, False)]
            while waiting:
                part, is_strict = waiting.pop()
                if (id(part), is_strict) in seen:
                    continue
                seen.add((id(part), is_strict))
                if isinstance(part, TypeVar) and is_strict:
                    found.add(part)
                waiting.extend(self._below(part, is_strict))
        return found

    def sizes(self, args: Sequence[Type], params: Sequence[TypeVar], name: str) -> list[Size]:
        """Return the sizes in the type arguments of a data type, in an order that depends only on
        what the types are without them. Sizes that functions inside bind are left out.
        """
        strict = self.of_data(name)
        no_params: frozenset[TypeParam] = frozenset()
        found: list[Size] = []
        waiting = [(a, p in strict, no_params) for a, p in zip(args, params)]
        waiting.reverse()
        while waiting:
            part, is_strict, bound = waiting.pop()
            if isinstance(part, FuncType):
                bound = bound.union(part.type_params)
            for dim in _dims(part):
                if not _is_bound(dim, bound):
                    is_free = bound.isdisjoint(dim_variables(dim))
                    found.append(Size(dim if is_free else ANY, is_strict))
            below = [(inner, at, bound) for inner, at in self._below(part, is_strict)]
            waiting.extend(reversed(below))
        return found

    def _below(self, type_: Type, is_strict: bool) -> Iterator[tuple[Type, bool]]:
        """Yield what stands inside of a type, and whether at such a place."""
        if not isinstance(type_, TypeCall):
            inner = is_strict or isinstance(type_, (FuncType, RefType))
            yield from ((part, inner) for part in type_children(type_))
            return
        data = self._types.get(type_.func.name)
        params = () if data is None or is_array(data) else data.type_params
        for number, arg in enumerate(type_.args):
            param = params[number] if number < len(params) else None
            known = isinstance(param, TypeVar) and param not in self._params[type_.func.name]
            yield arg, is_strict or not known

    def _find(self) -> None:
        self._params = dict.fromkeys(self._types, frozenset[TypeVar]())
        changes = True
        while changes:
            changes = False
            for name, data in self._types.items():
                fields = [f for c in data.constructors for f in c.inputs]
                found = self.of_types(fields).intersection(data.type_params)
                if found - self._params[name]:
                    self._params[name] = frozenset(found)
                    changes = True


def joined_sizes(a: Type, b: Type) -> Type:
    """Return a type with `?` where two that differ in sizes only have others."""
    if a == b:
        return a
    waiting, rows = [(a, b)], list[Dim]()
    while waiting:
        one, other = waiting.pop()
        rows += map(join_dims, _dims(one), _dims(other))
        waiting.extend(reversed(list(zip(type_children(one), type_children(other)))))
    return with_sizes(a, iter(rows))


def with_sizes(type_: Type, sizes: Iterator[Dim]) -> Type:
    """Return a type with other sizes, in the order of `StrictPlaces.sizes`."""
    no_params: frozenset[TypeParam] = frozenset()
    made: list[Type] = []
    waiting: list[tuple[Type, int, frozenset[TypeParam]]] = [(type_, -1, no_params)]
    while waiting:
        part, count, bound = waiting.pop()
        if count >= 0:
            fields = tuple(made[len(made) - count :])
            made[len(made) - count :] = [with_type_children(part, fields)]
            continue
        if isinstance(part, FuncType):
            bound = bound.union(part.type_params)
        below = type_children(part)
        if below:
            waiting.append((part, len(below), bound))
            waiting.extend((inner, -1, bound) for inner in reversed(below))
            continue
        new = (d if _is_bound(d, bound) else next(sizes) for d in _dims(part))
        made.append(_with_dims(part, tuple(new)))
    return made[0]


def _is_bound(dim: Dim, bound: frozenset[TypeParam]) -> bool:
    """Return True for a size that only depends on those that functions inside of a type bind."""
    found = set(dim_variables(dim))
    return bool(found) and bound.issuperset(found)


def _dims(type_: Type) -> tuple[Dim, ...]:
    if isinstance(type_, TensorType):
        return type_.shape
    return (type_.dim,) if isinstance(type_, ShapeArg) else ()


def _with_dims(type_: Type, dims: tuple[Dim, ...]) -> Type:
    if isinstance(type_, TensorType):
        return replace(type_, shape=dims)
    return replace(type_, dim=dims[0]) if isinstance(type_, ShapeArg) else type_
