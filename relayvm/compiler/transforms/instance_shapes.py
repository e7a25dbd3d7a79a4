"""Which instances of a data type are one definition: those that differ in sizes only, where values
of one may be values of the other.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from relayvm.base.dims import ANY, Dim, DimVar, symbol
from relayvm.base.shapes import join_dims
from relayvm.compiler.transforms.instances import (
    Args,
    ClosedTypes,
    ErasedTypes,
    type_args_only,
    type_params_only,
)
from relayvm.compiler.transforms.strict_places import Size, StrictPlaces, with_sizes
from relayvm.ir.module import Module
from relayvm.ir.types import ShapeArg, TypeCall


@dataclass(frozen=True, slots=True, eq=False)
class Shapes:
    """The instances of a data type that are one definition: its arguments, with `?` where these
    differ in size, and which sizes of them are parameters of the definition.
    """

    name: str
    args: Args
    params: dict[int, DimVar]


class DataShapes:
    """The definitions that the instances of data types of a module are.

    Sizes of fields can be compared where a field is read, and join to `?`: `List[Tensor[(5)]]` and
    `List[Tensor[(7)]]` are `List`. In `type R[A] { R(ref(A)) }` they cannot. `R[Tensor[(5)]]` and
    `R[Tensor[(7)]]` are two definitions; where there is an `R[Tensor[(?)]]`, or a size is a
    parameter of a function, all may be `R[n]` with the field `ref(Tensor[(n)])`.
    """

    def __init__(self, module: Module, data: Iterable[tuple[str, Args]]) -> None:
        self.module = module
        self.places = StrictPlaces(module.types)
        self.erase = ErasedTypes()
        self.stands_for: dict[DimVar, Dim] = {}
        self.close = ClosedTypes(stands_for=self.stands_for)
        self.shapes: list[Shapes] = []
        self.are_widened = False
        self._known: dict[tuple[str, Args], Shapes] = {}
        alike: dict[tuple[str, Args], list[Args]] = {}
        for name, args in data:
            key = name, tuple(self.erase(a) for a in args)
            alike.setdefault(key, []).append(args)
        for (name, _), members in alike.items():
            self._divide(name, members)

    def of(self, call: TypeCall) -> tuple[Shapes, tuple[ShapeArg, ...]]:
        """Return the definition of an applied data type, and the arguments for its sizes."""
        args = type_args_only(call.args)
        found = self._known[self._key(call.func.name, tuple(self.close(a) for a in args))]
        if not found.params:
            return found, ()
        sizes = self._sizes(call.func.name, args)
        return found, tuple(ShapeArg(sizes[i].dim) for i in found.params)

    def field_args(self, shapes: Shapes) -> Args:
        """Return the arguments for the fields of a definition, which name its parameters."""
        named: dict[int, Dim] = {i: symbol(v) for i, v in shapes.params.items()}
        return self._with(shapes.name, shapes.args, named)

    def described_args(self, shapes: Shapes) -> Args:
        """Return the arguments of a definition, with `_0_` for the first of its parameters."""
        named: dict[int, Dim] = {i: symbol(DimVar(f"_{k}_")) for k, i in enumerate(shapes.params)}
        return self._with(shapes.name, shapes.args, named)

    def _divide(self, name: str, members: list[Args]) -> None:
        """Note the definitions of instances that differ in sizes only."""
        rows = [self._sizes(name, args) for args in members]
        strict = [i for i, size in enumerate(rows[0]) if size.is_strict] if rows else []
        for group in _groups(rows, strict):
            self._join(name, [members[k] for k in group], [rows[k] for k in group])

    def _join(self, name: str, members: list[Args], rows: list[list[Size]]) -> None:
        taken = {p.name for p in self.module.types[name].type_params}
        params: dict[int, DimVar] = {}
        joined: dict[int, Dim] = {}
        for i, size in enumerate(rows[0]):
            dims = [row[i].dim for row in rows]
            dim = dims[0]
            for other in dims[1:]:
                dim = join_dims(dim, other)
            joined[i] = dim
            if dim is not ANY:
                continue
            if size.is_strict:
                own = _unused("n", taken)
                params[i] = DimVar(own)
                self.stands_for[params[i]] = size.dim
            elif any(d is not ANY for d in dims):
                self.are_widened = True
        made = Shapes(name, self._with(name, members[0], joined), params)
        self.shapes.append(made)
        for args in members:
            self._known[self._key(name, args)] = made

    def _key(self, name: str, args: Args) -> tuple[str, Args]:
        """Return arguments without the sizes in which the instances of a definition may differ."""
        sizes = self._sizes(name, args)
        open_sizes: dict[int, Dim] = {i: ANY for i, s in enumerate(sizes) if not s.is_strict}
        return name, self._with(name, args, open_sizes) if open_sizes else args

    def _with(self, name: str, args: Args, dims: dict[int, Dim]) -> Args:
        every = [dims.get(i, s.dim) for i, s in enumerate(self._sizes(name, args))]
        new = iter(every)
        return tuple(with_sizes(a, new) for a in args)

    def _sizes(self, name: str, args: Args) -> list[Size]:
        return self.places.sizes(args, type_params_only(self.module.types[name].type_params), name)


def _unused(stem: str, taken: set[str]) -> str:
    name, number = stem, 1
    while name in taken:
        name, number = f"{stem}{number}", number + 1
    taken.add(name)
    return name


def _groups(rows: list[list[Size]], strict: list[int]) -> list[list[int]]:
    """Return which rows have values in common: where one is `?`, or all is the same, in the sizes
    that cannot be compared. In time linear in the rows where no size is `?`.
    """
    parent = list(range(len(rows)))

    def root(k: int) -> int:
        while parent[k] != k:
            parent[k] = parent[parent[k]]
            k = parent[k]
        return k

    exact: dict[tuple[object, ...], int] = {}
    open_rows: list[int] = []
    for k, row in enumerate(rows):
        dims = tuple(row[i].dim for i in strict)
        if dims in exact:
            parent[root(k)] = root(exact[dims])
            continue
        exact[dims] = k
        if any(d is ANY for d in dims):
            open_rows.append(k)
    for k in open_rows:
        for other in exact.values():
            pairs = ((rows[k][i].dim, rows[other][i].dim) for i in strict)
            if all(a is ANY or b is ANY or a == b for a, b in pairs):
                parent[root(other)] = root(k)
    groups: dict[int, list[int]] = {}
    for k in range(len(rows)):
        groups.setdefault(root(k), []).append(k)
    return list(groups.values())
