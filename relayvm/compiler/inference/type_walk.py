"""Walks over types that contain holes: pruning, substitution, resolving. Depth is bounded by memory
alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping

from relayvm.base.dims import Dim, DimVar, dim_variables, symbol
from relayvm.base.trampoline import Recursive, trampoline
from relayvm.compiler.inference.holes import (
    DimHole,
    Hole,
    Renaming,
    dim_holes,
    has_dim_hole,
    known_dim,
    replace_dims,
)
from relayvm.ir.types import (
    FuncType,
    GlobalTypeVar,
    IncompleteType,
    ShapeArg,
    TensorType,
    Type,
    TypeCall,
    TypeParam,
    TypeRelation,
    TypeVar,
)
from relayvm.ir.visit import TypeVariables, with_own_params
from relayvm.ir.visit import type_children as parts
from relayvm.ir.visit import with_type_children as with_parts

Memo = dict[int, tuple[Type, Type]]


def prune(type_: Type) -> Type:
    """Return what a chain of bound holes ends in."""
    while isinstance(type_, Hole) and type_.state.bound is not None:
        type_ = type_.state.bound
    return type_


def rebuild(
    type_: Type,
    leaf: Callable[[Type], Type],
    memo: Memo,
    scope: Callable[[Type], Type | None] = lambda part: part,
) -> Type:
    """Return the type, holes pruned, with `leaf` applied to all that has no parts. Shared parts are
    visited once, as what `scope` takes them for; those for which that is None stay.
    """
    type_ = prune(type_)
    if not parts(type_):
        return leaf(type_)
    return trampoline(_rebuild(type_, leaf, memo, scope))


def _rebuild(
    type_: Type, leaf: Callable[[Type], Type], memo: Memo, scope: Callable[[Type], Type | None]
) -> Recursive[Type]:
    known = memo.get(id(type_))
    if known is not None:
        return known[1]
    opened = scope(type_)
    if opened is None:
        return type_
    new: list[Type] = []
    for part in parts(opened):
        part = prune(part)
        new.append((yield _rebuild(part, leaf, memo, scope)) if parts(part) else leaf(part))
    result = with_parts(opened, tuple(new))
    if opened is not type_:
        memo[id(opened)] = (opened, result)
    # The type itself is kept too, so that its id is not used again.
    memo[id(type_)] = (type_, result)
    return result


def map_dims(type_: Type, change: Callable[[Dim], Dim]) -> Type:
    """Return a tensor type or dim argument with its dims changed; the same object if they are the
    same.
    """
    if isinstance(type_, TensorType):
        shape = tuple(change(dim) for dim in type_.shape)
        if all(a is b for a, b in zip(shape, type_.shape)):
            return type_
        return TensorType(shape, type_.dtype, span=type_.span)
    if isinstance(type_, ShapeArg):
        dim = change(type_.dim)
        return type_ if dim is type_.dim else ShapeArg(dim, span=type_.span)
    return type_


class Parameters(TypeVariables):
    """Finds the type parameters in types. What is to be found counts as one that all have: nothing
    is known of what it will hold.
    """

    def _of(self, item: Type, below: tuple[Type, ...]) -> tuple[TypeParam, ...]:
        found = super()._of(item, below)
        unknown = isinstance(item, IncompleteType) or any(isinstance(v, DimHole) for v in found)
        return (POISON_PARAMETER, *found) if unknown else found

    def has_none_of(self, type_: Type, params: Collection[TypeParam]) -> bool:
        """Return True if a type mentions none of the parameters and has nothing to be found."""
        found = self(type_)
        return POISON_PARAMETER not in found and not any(v in params for v in found)


POISON_PARAMETER = TypeVar("_")


def substitute(
    type_: Type, types: dict[TypeVar, Type], dims: Renaming, parameters: Parameters | None = None
) -> Type:
    """Return the type with type parameters replaced; dims that were inferred are taken as they are
    now. Whoever substitutes often gives the same `parameters`: parts that have none of those
    replaced are not looked at again.
    """
    replaced: set[TypeParam] = {*types, *dims}

    def change(dim: Dim) -> Dim:
        known = known_dim(dim)
        return replace_dims(dim if known is None else known, dims)

    def leaf(part: Type) -> Type:
        if isinstance(part, TypeVar):
            return types.get(part, part)
        return map_dims(part, change) if dims else part

    variables = parameters or Parameters()

    caught: set[TypeParam] = set()

    def renamed(inner: Type, new: Mapping[TypeParam, Type | Dim]) -> Type:
        own_types = {p: v for p, v in new.items() if isinstance(p, TypeVar) and isinstance(v, Type)}
        own_dims = {
            p: v for p, v in new.items() if isinstance(p, DimVar) and not isinstance(v, Type)
        }
        return substitute(inner, own_types, own_dims, variables)

    def scope(part: Type) -> Type | None:
        if variables.has_none_of(part, replaced):
            return None
        if not isinstance(part, FuncType) or not part.type_params:
            return part
        if not caught:
            # What is put there is not of the function inside.
            caught.update(replaced)
            for value in types.values():
                caught.update(variables(prune(value)))
            for dim in dims.values():
                caught.update(dim_variables(dim))
        return part if caught.isdisjoint(part.type_params) else with_own_params(part, renamed)

    return rebuild(type_, leaf, {}, scope)


def resolve(type_: Type, memo: Memo) -> Type:
    """Return the type with all that is known now in the place of holes; unknown ones stay."""

    def change(dim: Dim) -> Dim:
        if not has_dim_hole(dim):
            return dim
        known = known_dim(dim)
        return dim if known is None else known

    return rebuild(type_, lambda part: map_dims(part, change), memo)


def leaves(*types: Type) -> Iterator[Type]:
    """Yield the parts of types that have no parts, each shared part once."""
    seen: set[int] = set()
    stack = list(types)
    while stack:
        part = prune(stack.pop())
        if id(part) in seen:
            continue
        seen.add(id(part))
        inner = parts(part)
        if inner:
            stack.extend(reversed(inner))
        else:
            yield part


def type_holes(*types: Type) -> list[Hole]:
    """Return the empty holes of types."""
    return [leaf for leaf in leaves(*types) if isinstance(leaf, Hole)]


def dim_holes_of(type_: Type) -> list[DimHole]:
    """Return the dims of a type that are to be found, with or without a value."""
    found: list[DimHole] = []
    for leaf in leaves(type_):
        dims: tuple[Dim, ...] = ()
        if isinstance(leaf, TensorType):
            dims = leaf.shape
        elif isinstance(leaf, ShapeArg):
            dims = (leaf.dim,)
        for dim in dims:
            found.extend(dim_holes(dim))
    return found


class Sharing:
    """Makes equal parts of types one object, so that what is instantiated again and again costs
    what it is, not what it would be if written out. What stands at different places of a text stays
    apart.
    """

    def __init__(self) -> None:
        self._objects: dict[Hashable, Type] = {}
        # The types are kept with the answers: ids of dead ones would come again.
        self._known: dict[int, tuple[Type, Type]] = {}

    def __call__(self, type_: Type) -> Type:
        """Return the type, bound holes gone, with one object for all that is equal in it."""
        type_ = prune(type_)
        waiting = [type_]
        while waiting:
            part = waiting[-1]
            below = [prune(p) for p in parts(part)]
            missing = [p for p in below if id(p) not in self._known]
            if missing and id(part) not in self._known:
                waiting.extend(missing)
                continue
            waiting.pop()
            if id(part) not in self._known:
                self._known[id(part)] = (part, self._object(part, below))
        return self._known[id(type_)][1]

    def _object(self, part: Type, below: list[Type]) -> Type:
        inner = tuple(self._known[id(p)][1] for p in below)
        span = id(part.span)
        if isinstance(part, TensorType):
            return self._objects.setdefault((part, span), part)
        if isinstance(part, IncompleteType) or not inner:
            return part
        own: Hashable = None
        match part:
            case FuncType():
                own = (len(part.arg_types), len(part.type_constraints), part.type_params)
            case TypeCall():
                own = part.func
            case TypeRelation():
                own = (part.name, id(part.attrs))
            case _:
                pass
        key = (type(part), own, span, tuple(map(id, inner)))
        return self._objects.setdefault(key, with_parts(part, inner))


class Rigid:
    """Remembers which types are complete: no `_`, no empty holes, no dims to be found.

    Bound holes are final, so they may be there. A data type without arguments must be a `TypeCall`.
    """

    def __init__(self) -> None:
        self._known: dict[int, Type] = {}

    def __call__(self, type_: Type) -> bool:
        """Return True if nothing of the type is to be found."""
        if id(type_) in self._known:
            return True
        stack, seen = [type_], {}
        while stack:
            part = stack.pop()
            if id(part) in self._known or id(part) in seen:
                continue
            if isinstance(part, Hole):
                if part.state.bound is None:
                    return False
                stack.append(part.state.bound)
            elif isinstance(part, (IncompleteType, GlobalTypeVar)) or self._has_dim_hole(part):
                return False
            else:
                stack.extend(parts(part))
            seen[id(part)] = part
        self._known.update(seen)
        return True

    @staticmethod
    def _has_dim_hole(part: Type) -> bool:
        if isinstance(part, TensorType):
            return any(has_dim_hole(dim) for dim in part.shape)
        return isinstance(part, ShapeArg) and has_dim_hole(part.dim)


class Dimless:
    """Remembers which types have no sizes and nothing to be found in them, so that a hole which
    meets one can be that very type. Every part is looked at once, unless it may still change.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[Type, bool]] = {}

    def __call__(self, type_: Type) -> bool:
        """Return True if no value of another type may come where one of this type did."""
        if isinstance(type_, TensorType):
            return not type_.shape
        known = self._known.get(id(type_))
        if known is not None:
            return known[1]
        open_now: set[int] = set()
        waiting = [type_]
        while waiting:
            part = waiting[-1]
            below = _inside(part)
            missing = [p for p in below if id(p) not in self._known and id(p) not in open_now]
            if missing and id(part) not in self._known:
                waiting.extend(missing)
                continue
            waiting.pop()
            answer = self._answer(part, below)
            if answer is None:
                open_now.add(id(part))
            else:
                self._known[id(part)] = (part, answer)
        return id(type_) in self._known and self._known[id(type_)][1]

    def _answer(self, part: Type, below: tuple[Type, ...]) -> bool | None:
        """Return the answer for one part, those inside it being known; None if it may change."""
        if isinstance(part, (IncompleteType, GlobalTypeVar)) and not below:
            return None
        inner = [self._known[id(p)][1] if id(p) in self._known else None for p in below]
        if _has_dims(part) or False in inner:
            return False
        return None if None in inner else True


def _inside(part: Type) -> tuple[Type, ...]:
    """Return the parts of a type, or what a bound hole is."""
    if isinstance(part, Hole):
        return (part.state.bound,) if part.state.bound is not None else ()
    return parts(part)


class Places:
    """Counts the parts of complete types that have sizes, at each place where they stand."""

    def __init__(self, dimless: Dimless) -> None:
        self._dimless = dimless
        # The types are kept: ids of dead ones would come again.
        self._known: dict[int, tuple[Type, int]] = {}
        self._again: dict[int, int] = {}

    def again(self, type_: Type) -> int:
        """Return how many places are in parts that stand in more than one."""
        type_ = prune(type_)
        if id(type_) not in self._again:
            self._again[id(type_)] = self._count(type_) - self._written(type_)
        return self._again[id(type_)]

    def _count(self, type_: Type) -> int:
        waiting = [type_]
        while waiting:
            part = waiting[-1]
            below = self._below(part)
            missing = [p for p in below if id(p) not in self._known]
            if missing and id(part) not in self._known:
                waiting.extend(missing)
                continue
            waiting.pop()
            if id(part) not in self._known:
                own = 0 if self._dimless(part) else 1
                self._known[id(part)] = (part, own + sum(self._known[id(p)][1] for p in below))
        return self._known[id(type_)][1]

    def _written(self, type_: Type) -> int:
        seen: set[int] = set()
        waiting, found = [type_], 1
        while waiting:
            part = waiting.pop()
            if id(part) not in seen:
                seen.add(id(part))
                below = self._below(part)
                found += len(below)
                waiting.extend(below)
        return found

    def _below(self, part: Type) -> list[Type]:
        return [] if self._dimless(part) else [prune(p) for p in parts(part)]


def _has_dims(part: Type) -> bool:
    if isinstance(part, TensorType):
        return bool(part.shape)
    generic = isinstance(part, FuncType) and bool(part.type_params or part.type_constraints)
    return generic or isinstance(part, ShapeArg)


class SameTypes:
    """Compares types without holes; remembers pairs that are equal, so that growing types cost no
    more each time.
    """

    def __init__(self) -> None:
        self._equal: dict[tuple[int, int], tuple[Type, Type]] = {}

    def __call__(self, a: Type, b: Type) -> bool:
        """Return True if the types are equal."""
        if a is b:
            return True
        pairs: dict[tuple[int, int], tuple[Type, Type]] = {}
        stack = [(a, b)]
        while stack:
            a, b = stack.pop()
            key = (id(a), id(b))
            if a is b or key in self._equal or key in pairs:
                continue
            if not _same_head(a, b):
                return False
            inner = parts(a)
            if inner:
                pairs[key] = (a, b)
                renamed = _with_params_of(a, b)
                if renamed is None:
                    return False
                stack.extend(zip(inner, parts(renamed)))
        self._equal.update(pairs)
        return True


def _same_head(a: Type, b: Type) -> bool:
    """Return True if two types are equal but for their parts."""
    if type(a) is not type(b) or len(parts(a)) != len(parts(b)):
        return False
    if isinstance(a, TypeCall) and isinstance(b, TypeCall):
        return a.func == b.func
    if isinstance(a, TypeRelation) and isinstance(b, TypeRelation):
        return a.name == b.name and dict(a.attrs or {}) == dict(b.attrs or {})
    if isinstance(a, FuncType) and isinstance(b, FuncType):
        return list(map(_kind, a.type_params)) == list(map(_kind, b.type_params))
    return bool(parts(a)) or a == b


def _kind(param: TypeParam) -> object:
    return param.kind if isinstance(param, TypeVar) else DimVar


def _with_params_of(a: Type, b: Type) -> Type | None:
    """Return the second of two function types with the parameters of the first; None if it speaks
    of these already, which are no parameters of its own.
    """
    if not isinstance(a, FuncType) or not isinstance(b, FuncType):
        return b
    if all(x is y for x, y in zip(a.type_params, b.type_params)):
        return b
    if not set(a.type_params).isdisjoint(TypeVariables()(b)):
        return None
    types: dict[TypeVar, Type] = {}
    dims: dict[DimVar, Dim] = {}
    for own, other in zip(b.type_params, a.type_params):
        if isinstance(own, TypeVar) and isinstance(other, TypeVar):
            types[own] = other
        elif isinstance(own, DimVar) and isinstance(other, DimVar):
            dims[own] = symbol(other)
    return substitute(FuncType(b.arg_types, b.ret_type, (), b.type_constraints), types, dims)
