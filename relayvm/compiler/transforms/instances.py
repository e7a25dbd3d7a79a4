"""Which instances of functions and data types a module needs, and what each is called.

Sizes that depend on a run (`n`) are `?` in the arguments of an instance. Where sizes in a type of a
function cannot be compared, as in `ref(A)`, they are parameters of the instance instead.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cache
from typing import cast

from relayvm.base.dims import (
    ANY,
    Dim,
    DimExpr,
    DimVar,
    dim_substitute,
    dim_variables,
    symbol,
)
from relayvm.base.source import Span
from relayvm.compiler.transforms.copies import TypeMap
from relayvm.compiler.transforms.strict_places import StrictPlaces
from relayvm.ir.expr import Expr, Function, GlobalVar
from relayvm.ir.intrinsics import is_array
from relayvm.ir.module import Module
from relayvm.ir.types import (
    FuncType,
    RefType,
    ShapeArg,
    TensorType,
    TupleType,
    Type,
    TypeCall,
    TypeParam,
    TypeVar,
)
from relayvm.ir.visit import binders, children, free_type_vars, node_types, post_order

MOST_INSTANCES = 1000
DEEPEST_NESTING = 64
MOST_PARTS = 2000

Args = tuple[Type, ...]


@dataclass(frozen=True, slots=True)
class Limits:
    """How many instances of one definition there may be, and how large type arguments: how deep
    they nest, and how many parts they have, where shared ones count at each place.
    """

    instances: float = MOST_INSTANCES
    depth: float = DEEPEST_NESTING
    parts: float = MOST_PARTS


LIMITS = Limits()


class NotClosed(Exception):
    """The set of instances has no end within the limits, or cannot be told before running."""


class WithoutEnd(NotClosed):
    """The set of instances has no end within the limits; `span` is a place that needs one more."""

    def __init__(self, message: str, span: Span | None = None) -> None:
        super().__init__(message)
        self.span = span


class TooDeep(WithoutEnd):
    """A type argument nests too deep, whether or not there is an end."""


class TooLarge(WithoutEnd):
    """A type argument has too many parts, whether or not there is an end."""


class ClosedTypes(TypeMap):
    """Maps types to the arguments of instances: type variables bound, symbolic dims to `?`. Those
    that functions inside of a type bind stay, by names that depend on the type alone.
    """

    def __init__(
        self,
        types: Mapping[TypeVar, Type] | None = None,
        stands_for: Mapping[DimVar, Dim] | None = None,
    ) -> None:
        super().__init__(types)
        # What a size is where it is not `?`.
        self.stands_for = {} if stands_for is None else stands_for

    def dim(self, dim: Dim) -> Dim:
        """Return the dim if it is a number, else `?`."""
        if not isinstance(dim, DimExpr):
            return dim
        own = dim.variable
        if own is not None and own in self.stands_for:
            return self.stands_for[own]
        is_bound = all(v in self.dims for v in dim_variables(dim))
        return dim_substitute(dim, self.dims) if is_bound else ANY

    def _scope(self, type_: Type) -> Type | None:
        params = type_.type_params if isinstance(type_, FuncType) else ()
        sizes = [p for p in params if isinstance(p, DimVar)]
        if all(p in self.dims for p in sizes):
            return super()._scope(type_)
        inside = copy(self)
        inside._done = {}
        inside.dims = dict(self.dims)
        for param in sizes:
            inside.dims[param] = symbol(numbered_size(len(inside.dims)))
        return inside(type_)


@cache
def numbered_size(number: int) -> DimVar:
    """Return the variable that stands for a size in the arguments of instances."""
    return DimVar("n" if number == 0 else f"n{number}")


def type_params_only(params: tuple[TypeParam, ...]) -> tuple[TypeVar, ...]:
    """Return the parameters of kind Type."""
    return tuple(p for p in params if isinstance(p, TypeVar))


def shape_params_only(params: tuple[TypeParam, ...]) -> tuple[DimVar, ...]:
    """Return the parameters of kind ShapeVar."""
    return tuple(p for p in params if isinstance(p, DimVar))


def type_args_only(args: Args) -> Args:
    """Return the arguments for parameters of kind Type."""
    return tuple(a for a in args if not isinstance(a, ShapeArg))


class Extent:
    """Measures types: how deep they nest, and how many parts they have where shared ones count at
    each place. Each part is looked at once.
    """

    def __init__(self) -> None:
        # The types are kept: ids of dead ones would come again.
        self._known: dict[int, tuple[Type, int, int]] = {}

    def check(self, args: Args, limits: Limits = LIMITS, span: Span | None = None) -> None:
        """Raise TooLarge or TooDeep for type arguments beyond the limits."""
        extents = [self._of(arg) for arg in args]
        if sum(parts for _, parts in extents) > limits.parts:
            raise TooLarge("a type argument is too large", span)
        if any(depth > limits.depth for depth, _ in extents):
            raise TooDeep("a type argument nests too deep", span)

    def _of(self, type_: Type) -> tuple[int, int]:
        waiting = [type_]
        while waiting:
            part = waiting[-1]
            below = type_parts(part)
            missing = [p for p in below if id(p) not in self._known]
            if missing and id(part) not in self._known:
                waiting += missing
                continue
            waiting.pop()
            inner = [self._known[id(p)] for p in below]
            depth = 1 + max((row[1] for row in inner), default=0)
            self._known[id(part)] = (part, depth, 1 + sum(row[2] for row in inner))
        return self._known[id(type_)][1:]


@dataclass(slots=True)
class Instances:
    """The instances that the monomorphic functions of a module reach."""

    module: Module
    limits: Limits = LIMITS
    functions: dict[tuple[str, Args], None] = field(default_factory=dict)
    data: dict[tuple[str, Args], None] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    waiting: list[tuple[str, Args]] = field(default_factory=list)
    waiting_data: list[tuple[str, Args]] = field(default_factory=list)
    seen: dict[int, Type] = field(default_factory=dict)
    extent: Extent = field(default_factory=Extent)
    place: Span | None = None
    places: StrictPlaces = field(init=False)
    strict: dict[str, set[TypeVar]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.places = StrictPlaces(self.module.types)

    def closing(self, types: Mapping[TypeVar, Type]) -> TypeMap:
        """Return the map of types to the arguments of instances that they are."""
        close = ClosedTypes()
        return ClosedTypes({p: close(t) for p, t in types.items()})

    def function_use(
        self, name: str, user: Expr, use: Expr, is_callee: bool, types: Mapping[TypeVar, Type]
    ) -> tuple[Args, tuple[ShapeArg, ...]]:
        """Return the arguments of the instance that one use of a function needs, and those for the
        sizes that are its parameters; `types` are those of the instance around it. Raises
        NotClosed.
        """
        used = self.module.functions[name]
        if not type_params_only(used.type_params):
            return (), ()
        if not self.strict_params(name):
            return function_args(used, user, use, is_callee, self.closing(types)), ()
        args = function_args(used, user, use, is_callee, TypeMap(types))
        sizes = instance_sizes(args)
        named = TypeMap(dims={v: symbol(numbered_size(i)) for i, v in enumerate(sizes)})
        given = tuple(ShapeArg(symbol(v)) for v in sizes)
        return tuple(named(a) for a in args), given

    def strict_params(self, name: str) -> set[TypeVar]:
        """Return the type parameters of a function that stand in a type in it where sizes cannot
        be compared.
        """
        if name not in self.strict:
            function = self.module.functions[name]
            types = (t for node in post_order(function) for t in types_at(node))
            held = self.places.of_types(types)
            self.strict[name] = held.intersection(type_params_only(function.type_params))
        return self.strict[name]

    def collect(self) -> None:
        """Find all instances; raises NotClosed."""
        for name, data in self.module.types.items():
            if not type_params_only(data.type_params):
                self.need_data(name, ())
        for name, function in self.module.functions.items():
            if not type_params_only(function.type_params):
                self.need_function(name, ())
        while self.waiting or self.waiting_data:
            if self.waiting_data:
                self.visit_data(*self.waiting_data.pop())
            else:
                self.visit_function(*self.waiting.pop(0))

    def need_function(self, name: str, args: Args) -> None:
        """Note an instance of a function."""
        if (name, args) not in self.functions:
            self.count("@" + name, args)
            self.functions[name, args] = None
            self.waiting.append((name, args))

    def need_data(self, name: str, args: Args) -> None:
        """Note an instance of a data type."""
        if (name, args) not in self.data:
            self.count(name, args)
            self.data[name, args] = None
            self.waiting_data.append((name, args))

    def count(self, name: str, args: Args) -> None:
        self.counts[name] = self.counts.get(name, 0) + 1
        if self.counts[name] > self.limits.instances:
            raise WithoutEnd(name, self.place)
        self.extent.check(args, self.limits, self.place)

    def visit_data(self, name: str, args: Args) -> None:
        data = self.module.types[name]
        closed = self.closing(dict(zip(type_params_only(data.type_params), args)))
        self.place = data.span
        for constructor in data.constructors:
            for field_type in constructor.inputs:
                self.visit_type(closed(field_type))

    def visit_function(self, name: str, args: Args) -> None:
        """Note the instances that an instance of a function needs."""
        function = self.module.functions[name]
        closed = self.closing(dict(zip(type_params_only(function.type_params), args)))
        for node in post_order(function):
            self.place = node.span
            for type_ in types_at(node):
                # The type parameters of the function itself are those of the instance.
                if type_ is function.checked_type and isinstance(type_, FuncType):
                    type_ = replace(type_, type_params=shape_params_only(type_.type_params))
                self.visit_type(closed(type_))
        own = dict(zip(type_params_only(function.type_params), args))
        for node in post_order(function):
            if isinstance(node, GlobalVar):
                continue
            self.place = node.span
            for position, part in enumerate(children(node)):
                if isinstance(part, GlobalVar):
                    needed, _ = self.function_use(part.name, node, part, position == 0, own)
                    self.need_function(part.name, needed)

    def visit_type(self, type_: Type) -> None:
        """Note the data types in a closed type."""
        for call in data_types_in(type_, self.seen):
            if is_array(self.module.types.get(call.func.name)):
                continue  # What depends on the items of arrays is built in.
            self.need_data(call.func.name, type_args_only(call.args))


def instance_sizes(args: Args) -> tuple[DimVar, ...]:
    """Return the sizes in the arguments of an instance of a function that are its parameters."""
    found = (v for arg in args for v in free_type_vars(arg))
    return tuple(dict.fromkeys(v for v in found if isinstance(v, DimVar)))


def function_args(used: Function, user: Expr, use: Expr, is_callee: bool, closed: TypeMap) -> Args:
    """Return the arguments of the instance that one use of a function needs; raises NotClosed."""
    params = type_params_only(used.type_params)
    if not params:
        return ()
    found: dict[TypeVar, Type] = {}
    given = getattr(user, "type_args", ()) if is_callee else ()
    if len(given) == len(used.type_params):
        found = dict(zip(params, type_args_only(given)))
    else:
        generic, actual = used.checked_type, use.checked_type
        if not isinstance(generic, FuncType) or not isinstance(actual, FuncType):
            raise NotClosed("a polymorphic function has no type at its use")
        match_types(generic, actual, set(params), found)
    if any(p not in found for p in params):
        raise NotClosed("a type argument is not determined")
    return tuple(closed(found[p]) for p in params)


def match_types(
    generic: Type,
    actual: Type,
    params: Collection[TypeParam],
    found: dict[TypeVar, Type] | dict[TypeParam, Type | Dim],
) -> None:
    """Bind type parameters so that `generic` becomes `actual`; sizes too, if `params` has some.
    Functions inside may have the same objects as type parameters of their own.
    """
    bound = cast("dict[TypeParam, Type | Dim]", found)
    whole, known = generic, frozenset(params)
    waiting = [(generic, actual, known)]
    seen: set[tuple[int, int, frozenset[TypeParam]]] = set()
    while waiting:
        generic, actual, known = waiting.pop()
        key = id(generic), id(actual), known
        if key in seen:
            continue
        seen.add(key)
        if isinstance(generic, TypeVar):
            if generic in known:
                bound.setdefault(generic, actual)
            continue
        if type(generic) is not type(actual):
            continue
        if isinstance(generic, (TensorType, ShapeArg)):
            for own, other in zip(_sizes(generic), _sizes(actual)):
                variable = own.variable if isinstance(own, DimExpr) else None
                if variable is not None and variable in known:
                    bound.setdefault(variable, other)
            continue
        if isinstance(generic, FuncType) and generic is not whole:
            known = known.difference(generic.type_params)
        pairs = zip(type_parts(generic), type_parts(actual))
        waiting.extend(reversed([(mine, theirs, known) for mine, theirs in pairs]))


def _sizes(type_: Type) -> tuple[Dim, ...]:
    if isinstance(type_, TensorType):
        return type_.shape
    return (type_.dim,) if isinstance(type_, ShapeArg) else ()


def types_at(node: Expr) -> Iterator[Type]:
    """Yield the types that a node and its binders carry; those of generic callees are left out."""
    if node.checked_type is not None and not isinstance(node, GlobalVar):
        yield node.checked_type
    yield from node_types(node)
    for var in binders(node):
        if var.checked_type is not None:
            yield var.checked_type


def data_types_in(type_: Type, seen: dict[int, Type]) -> Iterator[TypeCall]:
    """Yield the applied data types in a type, inner ones first, but for those in parts seen in
    another type before; `seen` keeps these parts.
    """
    waiting = [(type_, False)]
    while waiting:
        part, ready = waiting.pop()
        if ready:
            if isinstance(part, TypeCall):
                yield part
        elif id(part) not in seen:
            seen[id(part)] = part
            waiting.append((part, True))
            waiting.extend((below, False) for below in reversed(type_parts(part)))


def type_parts(type_: Type) -> Args:
    """Return the types that a type is built of."""
    match type_:
        case TupleType():
            return type_.fields
        case FuncType():
            return (*type_.arg_types, type_.ret_type)
        case RefType():
            return (type_.value,)
        case TypeCall():
            return type_.args
    return ()


class ErasedTypes(TypeMap):
    """Maps types to their layout: every dim is `?`."""

    def dim(self, dim: Dim) -> Dim:
        """Return `?`."""
        return ANY


def mangled(type_: Type) -> str:
    """Return an identifier part that tells people which type this is; not always unique."""
    match type_:
        case TensorType():
            dims = "x".join(str(d) if isinstance(d, int) else "n" for d in type_.shape)
            return f"{type_.dtype}_{dims}" if type_.shape else str(type_.dtype)
        case TupleType():
            return "_".join(["tuple", *(mangled(f) for f in type_.fields)])
        case TypeCall():
            return "_".join([type_.func.name, *(mangled(a) for a in type_.args)])
        case FuncType():
            return "fn"
        case RefType():
            return f"ref_{mangled(type_.value)}"
        case ShapeArg():
            return str(type_.dim) if isinstance(type_.dim, int) else "n"
    return "any"


def monomorphic(type_: Type | None) -> Type | None:
    """Return the type of a function without its parameters of kind Type."""
    if isinstance(type_, FuncType):
        kept = tuple(p for p in type_.type_params if not isinstance(p, TypeVar))
        return replace(type_, type_params=kept, type_constraints=())
    return type_
