"""Data types that hold themselves at other types or sizes, ever again: they have no last part."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from relayvm.base.dims import Dim, DimExpr, DimVar, symbol
from relayvm.ir.adt import definition_of, field_types
from relayvm.ir.module import Module
from relayvm.ir.types import GlobalTypeVar, ShapeArg, Type, TypeCall, TypeParam
from relayvm.ir.visit import free_type_vars, type_walk

# A data type that comes again at another size so often, one inside the other, never ends.
_MOST_LEVELS = 64
# No array is larger, and no size that a program means has more terms.
_MOST_ITEMS = 1 << 63
_MOST_TERMS = 64

# A type parameter, by the name of its data type and its place there.
_Place = tuple[str, int]


def growing_types(module: Module) -> dict[str, bool]:
    """Return the data types with a parameter that comes again changed, with whether it does so
    without end whatever it is: always for types, not for sizes, as `n // 2` and `? + 1` may come
    to rest.

    `type Nest[A] { Stop, Nest(A, Nest[(A, A)]) }` -> `{"Nest": True}`
    """
    after: dict[_Place, set[_Place]] = {}
    changed: list[tuple[_Place, _Place, bool]] = []
    for source, target, param, arg in _uses(module):
        after.setdefault(source, set()).add(target)
        if not _is_param(arg, param):
            changed.append((source, target, not isinstance(param, DimVar)))
    growing: dict[str, bool] = {}
    for source, target, endless in changed:
        if source in _reached(target, after):
            growing[source[0]] = endless or growing.get(source[0], False)
    return growing


def endless_part(module: Module, growing: Mapping[str, bool], type_: Type) -> Type | None:
    """Return a data type in a type, or in the fields of what is in it, whose parts have no end.
    `growing` are the growing types of the module.
    """
    seen: set[Type] = set()
    # What stands inside of other types that were walked is not walked again; all of them live.
    walked: set[int] = set()
    outers: list[Type] = []
    waiting = [(type_, 0)]
    # The last found comes first: what never ends shows after as many steps as it may have levels.
    while waiting and growing:
        outer, level = waiting.pop()
        outers.append(outer)
        for part in type_walk(outer, walked):
            if not isinstance(part, (TypeCall, GlobalTypeVar)) or part in seen:
                continue
            seen.add(part)
            definition, args = definition_of(module, part)
            grows = definition.header.name in growing
            if grows and (growing[definition.header.name] or level == _MOST_LEVELS):
                return part
            if any(isinstance(arg, ShapeArg) and _is_vast(arg.dim) for arg in args):
                return part
            inner = level + grows
            for constructor in definition.constructors:
                waiting.extend((f, inner) for f in field_types(module, part, constructor))
    return None


def _uses(module: Module) -> Iterator[tuple[_Place, _Place, TypeParam, Type]]:
    """Yield where arguments of data types in fields use parameters: the parameter and the place it
    comes to, the parameter itself, and the argument.
    """
    for name, data in module.types.items():
        own = {param: (name, i) for i, param in enumerate(data.type_params)}
        if not own:
            continue
        seen: set[int] = set()
        for constructor in data.constructors:
            for field in constructor.inputs:
                for part in type_walk(field, seen):
                    if not isinstance(part, TypeCall):
                        continue
                    for i, arg in enumerate(part.args):
                        for param in free_type_vars(arg):
                            if param in own:
                                yield own[param], (part.func.name, i), param, arg


def _is_param(arg: Type, param: TypeParam) -> bool:
    if isinstance(param, DimVar):
        return isinstance(arg, ShapeArg) and arg.dim == symbol(param)
    return arg is param or arg == param


def _reached(start: _Place, after: dict[_Place, set[_Place]]) -> set[_Place]:
    seen = {start}
    waiting = [start]
    while waiting:
        new = after.get(waiting.pop(), set()) - seen
        seen |= new
        waiting.extend(new)
    return seen


def _is_vast(dim: Dim) -> bool:
    if isinstance(dim, DimExpr):
        return len(dim.terms) > _MOST_TERMS
    return isinstance(dim, int) and abs(dim) > _MOST_ITEMS
