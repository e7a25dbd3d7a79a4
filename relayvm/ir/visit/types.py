"""Walking and rebuilding types, and the variables in them, without recursion."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import cast

from relayvm.base.dims import Dim, DimExpr, DimVar, dim_substitute, dim_variables, symbol
from relayvm.ir.expr import (
    Attrs,
    AttrValue,
    map_attr_value,
)
from relayvm.ir.types import (
    FuncType,
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


def type_children(type_: Type) -> tuple[Type, ...]:
    """Return the types that stand directly inside a type; type parameters are none."""
    match type_:
        case TupleType():
            return type_.fields
        case FuncType():
            return (*type_.arg_types, type_.ret_type, *type_.type_constraints)
        case RefType():
            return (type_.value,)
        case TypeCall() | TypeRelation():
            return type_.args
        case _:
            return ()


def with_type_children(type_: Type, new: tuple[Type, ...]) -> Type:
    """Return a type with others inside it, in the order of `type_children`; itself if they are the
    same objects.
    """
    if same_objects(new, type_children(type_)):
        return type_
    match type_:
        case TupleType():
            return replace(type_, fields=new)
        case FuncType():
            count = len(type_.arg_types)
            constraints = cast("tuple[TypeRelation, ...]", new[count + 1 :])
            return FuncType(
                new[:count], new[count], type_.type_params, constraints, span=type_.span
            )
        case RefType():
            return replace(type_, value=new[0])
        case TypeCall() | TypeRelation():
            return replace(type_, args=new)
    raise TypeError(f"{type(type_).__name__} has no types inside")


def type_walk(type_: Type, seen: set[int] | None = None) -> Iterator[Type]:
    """Yield a type and all inside it, outer ones first; an object that stands at several places is
    yielded once. `seen` are the ids of those that other walks, whose types still live, have seen.
    """
    seen = set() if seen is None else seen
    waiting = [type_]
    while waiting:
        item = waiting.pop()
        below = type_children(item)
        if below:
            if id(item) in seen:
                continue
            seen.add(id(item))
            waiting.extend(reversed(below))
        yield item


def rewrite_type(
    type_: Type,
    change: Callable[[Type], Type],
    scope: Callable[[FuncType], Type | None] | None = None,
) -> Type:
    """Return a type with `change` applied to each part once the parts inside it are rebuilt; where
    nothing changes the result is the same object. A polymorphic function type is taken as what
    `scope` makes of it, or stays as it is where that is None.
    """
    if not type_children(type_):
        return change(type_)
    done: dict[int, Type] = {}
    # What scopes are taken as lives until the end: ids of dead types would come again.
    taken: list[Type] = []
    waiting: list[tuple[Type, Type | None]] = [(type_, None)]
    while waiting:
        item, opened = waiting.pop()
        if id(item) in done:
            continue
        if opened is not None:
            new = tuple(done[id(part)] for part in type_children(opened))
            done[id(item)] = change(with_type_children(opened, new))
            continue
        if scope is not None and isinstance(item, FuncType) and item.type_params:
            opened = scope(item)
            if opened is None:
                done[id(item)] = item
                continue
            taken.append(opened)
        else:
            opened = item
        below = type_children(opened)
        if not below:
            done[id(item)] = change(item)
            continue
        waiting.append((item, opened))
        waiting.extend((part, None) for part in reversed(below) if id(part) not in done)
    return done[id(type_)]


def type_variables(type_: Type) -> Iterator[TypeParam]:
    """Yield the free type variables and dim variables of a type, possibly more than once."""
    bound: dict[TypeParam, int] = {}
    seen: set[int] = set()
    # A tuple ends the region of these type parameters.
    waiting: list[Type | tuple[TypeParam, ...]] = [type_]
    while waiting:
        item = waiting.pop()
        if isinstance(item, tuple):
            for param in item:
                bound[param] -= 1
            continue
        below = type_children(item)
        if not below:
            yield from (v for v in _leaf_variables(item) if not bound.get(v))
            continue
        if not bound:  # Elsewhere the same object may have other variables free.
            if id(item) in seen:
                continue
            seen.add(id(item))
        if isinstance(item, FuncType) and item.type_params:
            waiting.append(item.type_params)
            for param in item.type_params:
                bound[param] = bound.get(param, 0) + 1
        waiting.extend(reversed(below))


class TypeVariables:
    """Finds the free type and dim variables of types, each once. What it found is remembered for
    every part, so that types which grow from node to node cost no more each time.
    """

    def __init__(self) -> None:
        # The types are kept: ids of dead ones would come again.
        self._known: dict[int, tuple[Type, tuple[TypeParam, ...]]] = {}

    def __call__(self, type_: Type) -> tuple[TypeParam, ...]:
        """Return the free variables of a type."""
        waiting = [type_]
        while waiting:
            item = waiting[-1]
            below = type_children(item)
            missing = [part for part in below if id(part) not in self._known]
            if missing and id(item) not in self._known:
                waiting.extend(missing)
                continue
            waiting.pop()
            if id(item) not in self._known:
                self._known[id(item)] = (item, self._of(item, below))
        return self._known[id(type_)][1]

    def _of(self, item: Type, below: tuple[Type, ...]) -> tuple[TypeParam, ...]:
        found = (v for part in below for v in self._known[id(part)][1])
        every = dict.fromkeys(found if below else _leaf_variables(item))
        if isinstance(item, TypeRelation) and item.attrs:
            every.update(dict.fromkeys(attr_variables(Attrs(item.attrs))))
        for param in item.type_params if isinstance(item, FuncType) else ():
            every.pop(param, None)
        return tuple(every)


class TypeWords:
    """Counts the words of types as they would be written out, shared parts once for each place.
    Each part is looked at once, so counts far beyond what memory could hold cost nothing.
    """

    def __init__(self) -> None:
        # The types are kept: ids of dead ones would come again.
        self._known: dict[int, tuple[Type, int]] = {}

    def __call__(self, type_: Type) -> int:
        """Return the number of words."""
        waiting = [type_]
        while waiting:
            item = waiting[-1]
            if id(item) in self._known:
                waiting.pop()
                continue
            below = type_children(item)
            missing = [part for part in below if id(part) not in self._known]
            if missing:
                waiting.extend(missing)
                continue
            waiting.pop()
            own = 1 + (item.rank if isinstance(item, TensorType) else 0)
            self._known[id(item)] = (item, own + sum(self._known[id(p)][1] for p in below))
        return self._known[id(type_)][1]


class SomePart:
    """Tells of types whether they or parts of them are as `wanted` says. What it found is
    remembered for every part.
    """

    def __init__(self, wanted: Callable[[Type], bool]) -> None:
        self._wanted = wanted
        # The types are kept with the answers: ids of dead ones would come again.
        self._known: dict[int, tuple[Type, bool]] = {}

    def __call__(self, type_: Type) -> bool:
        """Return True if there is such a part."""
        waiting = [type_]
        while waiting:
            part = waiting.pop()
            if id(part) in self._known:
                continue
            below = type_children(part)
            missing = [p for p in below if id(p) not in self._known]
            if missing:
                waiting += [part, *missing]
                continue
            own = self._wanted(part) or any(self._known[id(p)][1] for p in below)
            self._known[id(part)] = part, own
        return self._known[id(type_)][1]


def _leaf_variables(type_: Type) -> Iterator[TypeParam]:
    match type_:
        case TypeVar():
            yield type_
        case TensorType():
            for dim in type_.shape:
                if not isinstance(dim, int):
                    yield from dim_variables(dim)
        case ShapeArg():
            yield from dim_variables(type_.dim)
        case _:
            pass


def attr_variables(value: AttrValue) -> Iterator[DimVar]:
    """Yield the dim variables of an attribute value."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, tuple):
            waiting.extend(reversed(item))
        elif isinstance(item, Attrs):
            waiting.extend(item.values())
        elif isinstance(item, DimExpr):
            yield from dim_variables(item)


def substitute_in_type(type_: Type, values: Mapping[TypeParam, Type | Dim]) -> Type:
    """Return a type with type variables replaced by types and dim variables by dims; itself if
    none occurs. Type parameters of polymorphic functions in it are others, even if the same object
    stands for both, and are no variables of what is put there: a function may be given to itself.
    """
    dims = cast("Mapping[DimVar, Dim]", values)
    variables = TypeVariables()

    def change(t: Type) -> Type:
        match t:
            case TypeVar():
                return cast(Type, values.get(t, t))
            case TensorType():
                shape = tuple(dim_substitute(d, dims) for d in t.shape)
                return t if same_objects(shape, t.shape) else replace(t, shape=shape)
            case ShapeArg():
                dim = dim_substitute(t.dim, dims)
                return t if dim is t.dim else replace(t, dim=dim)
            case _:
                return t

    def scope(t: FuncType) -> Type | None:
        replaced = [v for v in variables(t) if v in values]
        if not replaced:
            return None
        own = set(t.type_params)
        put = (v for p in replaced for v in variables_of(values[p], variables))
        clash = not own.isdisjoint(values) or not own.isdisjoint(put)
        return with_own_params(t) if clash else t

    return rewrite_type(type_, change, scope) if values else type_


def with_own_params(
    type_: FuncType,
    substitute: Callable[[Type, Mapping[TypeParam, Type | Dim]], Type] = substitute_in_type,
) -> FuncType:
    """Return a polymorphic function type with type parameters that stand nowhere else."""
    params, fresh = renewed_params(type_.type_params)
    inner = substitute(replace(type_, type_params=()), fresh)
    return replace(cast(FuncType, inner), type_params=params)


def variables_of(value: Type | Dim, variables: TypeVariables) -> Iterable[TypeParam]:
    """Return the free variables of what a type parameter stands for."""
    if isinstance(value, Type):
        return variables(value)
    return dim_variables(value) if isinstance(value, DimExpr) else ()


def same_objects(a: tuple[object, ...], b: tuple[object, ...]) -> bool:
    """Return True if two tuples hold the same objects."""
    return all(x is y for x, y in zip(a, b))


def substitute_in_attrs(attrs: Attrs, values: Mapping[TypeParam, Type | Dim]) -> Attrs:
    """Return attributes with dim variables replaced by dims; the same object if none occurs."""
    dims = cast("Mapping[DimVar, Dim]", values)

    def change(value: AttrValue) -> AttrValue:
        return dim_substitute(value, dims) if isinstance(value, DimExpr) else value

    result = {name: map_attr_value(value, change) for name, value in attrs.items()}
    return attrs if all(result[n] is v for n, v in attrs.items()) else Attrs(result)


def renewed_params(
    params: tuple[TypeParam, ...],
) -> tuple[tuple[TypeParam, ...], dict[TypeParam, Type | Dim]]:
    """Return fresh type parameters, and what the old ones stand for then."""
    types: dict[TypeParam, Type | Dim] = {}
    fresh: list[TypeParam] = []
    for old in params:
        if isinstance(old, DimVar):
            size = DimVar(old.name)
            fresh.append(size)
            types[old] = symbol(size)
        else:
            new = TypeVar(old.name, old.kind)
            fresh.append(new)
            types[old] = new
    return tuple(fresh), types


def substitute_in_constraints(
    constraints: tuple[TypeRelation, ...], values: Mapping[TypeParam, Type | Dim]
) -> tuple[TypeRelation, ...]:
    """Return constraints with type variables replaced by types and dim variables by dims."""
    return tuple(cast(TypeRelation, substitute_in_type(c, values)) for c in constraints)


def assumed(
    params: Iterable[TypeParam], around: Sequence[TypeRelation]
) -> tuple[tuple[TypeParam, ...], tuple[TypeRelation, ...]]:
    """Return what code that uses some type parameters takes when it is moved out of functions with
    the constraints `around`: type parameters and constraints. Where all operands of a constraint
    are known, what it gives may be the type of something inside.
    """
    known = dict.fromkeys(params)
    taken: dict[int, TypeRelation] = {}
    more = True
    while more:
        more = False
        for relation in around:
            operands = relation.args[: relation.num_inputs]
            needs = {v for arg in operands for v in type_variables(arg)}
            if id(relation) not in taken and needs <= known.keys():
                taken[id(relation)] = relation
                known.update(dict.fromkeys(type_variables(relation)))
                more = True
    return tuple(known), tuple(r for r in around if id(r) in taken)


def is_concrete(type_: Type | None) -> bool:
    """Return True for a type that is known, without type variables in it; sizes may be symbols."""
    return type_ is not None and not any(isinstance(p, TypeVar) for p in type_walk(type_))
