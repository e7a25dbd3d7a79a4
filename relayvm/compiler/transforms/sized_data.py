"""Data types that hold functions of a size are definitions of their own for each size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from relayvm.base.dims import AnyDim, Dim, DimVar
from relayvm.compiler.analysis.variance import Use, Variance
from relayvm.compiler.transforms.copies import TypeMap
from relayvm.compiler.transforms.cps_types import data_with_functions
from relayvm.compiler.transforms.generics_as_data import fresh
from relayvm.compiler.transforms.instance_definitions import TypedCopier
from relayvm.ir.expr import Call, Constructor, Expr, Function
from relayvm.ir.module import Module, TypeData
from relayvm.ir.types import GlobalTypeVar, ShapeArg, Type, TypeCall
from relayvm.ir.visit import node_types, post_order, type_children

# The sizes of an instance; None for those that stay parameters.
Sizes = tuple[Dim | None, ...]
MOST_SIZES = 100


def known_size(arg: Type) -> Dim | None:
    """Return the size of a type argument, if it is no symbol of the function around."""
    if isinstance(arg, ShapeArg) and isinstance(arg.dim, (int, AnyDim)):
        return arg.dim
    return None


def sized_name(name: str, sizes: Sizes, taken: set[str]) -> str:
    """Return a name for an instance, as `f_8_any`, which is taken then."""
    words = ["any" if isinstance(s, AnyDim) else str(s) for s in sizes if s is not None]
    return fresh("_".join((name, *words)), taken)


def with_sized_data(module: Module) -> Module | None:
    """Give data types that hold functions a definition for each of their sizes.

    `type W[n] { W(fn (ref(Tensor[(n)])) -> float32) }` at 8 -> `type W_8 { .. }`. So it is for
    sizes of which values take and give something, so that no `W[?]` is a `W[8]`, if no function has
    a size of its own there. Returns None where a type has 100 definitions or more. Requires TYPED.
    """
    sized = _SizedData(module)
    return sized.run() if sized.places else module


class _WithoutEnd(Exception):
    """There is no end of definitions."""


class _SizedData(TypeMap):
    """Maps data types to their definitions, made as they are met."""

    def __init__(self, module: Module) -> None:
        super().__init__()
        self.module = module
        self.names = {*module.functions, *module.types}
        self.names |= {c.name for d in module.types.values() for c in d.constructors}
        self.places = _places(module)
        self.made: dict[tuple[str, Sizes], str] = {}
        self.waiting: list[tuple[TypeData, Sizes, str]] = []
        self.definitions: dict[str, TypeData] = {}

    def data(self, type_: GlobalTypeVar | TypeCall, args: tuple[Type, ...]) -> Type:
        """Return the definition for the sizes that a type has."""
        if not isinstance(type_, TypeCall) or type_.func.name not in self.places:
            return super().data(type_, args)
        places = self.places[type_.func.name]
        sizes = tuple(known_size(a) if i in places else None for i, a in enumerate(args))
        key = (type_.func.name, sizes)
        if key not in self.made:
            self.made[key] = sized_name(type_.func.name, sizes, self.names)
            self.waiting.append((self.module.types[type_.func.name], sizes, self.made[key]))
        left = tuple(a for a, size in zip(args, sizes) if size is None)
        return replace(type_, func=GlobalTypeVar(self.made[key]), args=left)

    def run(self) -> Module | None:
        for name, data in self.module.types.items():
            if name not in self.places:
                self._define(data, (None,) * len(data.type_params), name)
        copies: dict[str, Function] = {}
        try:
            for name, function in self.module.functions.items():
                copy = _Copier(self).copy(function)
                assert isinstance(copy, Function)
                copies[name] = copy
            self._finish()
        except _WithoutEnd:
            return None
        return replace(self.module, functions=copies, types=self.definitions)

    def definition(self, name: str) -> TypeData:
        """Return a definition."""
        if name not in self.definitions:
            self._finish()
        return self.definitions[name]

    def _finish(self) -> None:
        while self.waiting:
            if len(self.made) > MOST_SIZES * len(self.places):
                raise _WithoutEnd
            self._define(*self.waiting.pop())

    def _define(self, data: TypeData, sizes: Sizes, name: str) -> None:
        pairs = list(zip(data.type_params, sizes))
        known = {p: s for p, s in pairs if isinstance(p, DimVar) and s is not None}
        bound = TypeMap(dims=known)
        header = GlobalTypeVar(name)
        is_new = name != data.header.name
        suffix = name.removeprefix(data.header.name)
        constructors = tuple(
            replace(
                c,
                name=fresh(c.name + suffix, self.names) if is_new else c.name,
                inputs=tuple(self(bound(t)) for t in c.inputs),
                belong_to=header,
            )
            for c in data.constructors
        )
        params = tuple(p for p, size in pairs if size is None)
        self.definitions[name] = replace(
            data, header=header, type_params=params, constructors=constructors
        )


class _Copier(TypedCopier):
    def __init__(self, owner: _SizedData) -> None:
        super().__init__(owner)
        self.owner = owner

    def definition(self, name: str) -> TypeData:
        return self.owner.definition(name)

    def instance(self, type_: Type | None, constructor: Constructor) -> Constructor:
        assert isinstance(type_, TypeCall)
        return self.definition(type_.func.name).constructors[constructor.index]

    def type_args_left(self, old: Expr, call: Call) -> tuple[Type, ...]:
        made = call.checked_type
        if isinstance(call.op, Constructor) and isinstance(made, TypeCall):
            return made.args
        return call.type_args


def _places(module: Module) -> dict[str, frozenset[int]]:
    """Return the numbers of the parameters for which data types have definitions, by type."""
    variance = Variance(module.types)
    places: dict[str, frozenset[int]] = {}
    for name in data_with_functions(module):
        params = module.types[name].type_params
        sized = [i for i, p in enumerate(params) if isinstance(p, DimVar)]
        both = frozenset(i for i in sized if variance.use(name, i) is Use.BOTH)
        if both:
            places[name] = both
    functions = module.functions.values()
    types = [t for f in functions for n in post_order(f) for t in node_types(n)]
    waiting = [t for d in module.types.values() if d.header.name not in places for t in _fields(d)]
    waiting += types
    # What has a size of a function stays; so does what stands in its fields.
    seen: set[int] = set()
    kept: list[Type] = []
    while waiting:
        part = waiting.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        kept.append(part)
        waiting.extend(type_children(part))
        numbers = places.get(part.func.name, ()) if isinstance(part, TypeCall) else ()
        if isinstance(part, TypeCall) and any(known_size(part.args[i]) is None for i in numbers):
            del places[part.func.name]
            waiting.extend(_fields(module.types[part.func.name]))
    return places


def _fields(data: TypeData) -> Iterator[Type]:
    return (t for c in data.constructors for t in c.inputs)
