"""Numbers for types: one for each structure, whatever objects hold it.

What was found is kept for every object, so types that share their parts cost what they are in
memory, not what they would be if written out.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping

from relayvm.base.dims import AnyDim, Dim, DimExpr, DimTerm, DimVar
from relayvm.base.dtypes import DType, dtype_of
from relayvm.ir.expr import Attrs, AttrValue, Constant
from relayvm.ir.metadata import little_endian
from relayvm.ir.types import (
    FuncType,
    GlobalTypeVar,
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
from relayvm.ir.visit import TypeVariables, type_children

# What names a variable.
Use = Callable[[TypeParam], Hashable]

# What one type is: its own part, and for each type inside it its number, or its own part if that
# has none inside.
Key = tuple[Hashable, tuple[Hashable, ...]]

# What a type to be inferred is.
HOLE: Hashable = ("hole",)


class BoundName(tuple[int, int]):
    """A parameter of a function type by its place: how many such types it is inside of, and its
    number among the parameters.
    """

    __slots__ = ()


# The names of the parameters of the function types around a type.
Bound = Mapping[TypeParam, BoundName]
NOT_BOUND: Bound = {}


class TypeTable:
    """Gives equal types equal numbers, the inner ones first.

    `use` names the variables that are free in a type. `new` is told of each number when it is given
    out: with the key, the type, and the names of the variables that are free in it.
    """

    def __init__(
        self, use: Use, new: Callable[[int, Key, Type, tuple[Hashable, ...]], None]
    ) -> None:
        self._use = use
        self._new = new
        self._free = TypeVariables()  # It keeps the types: ids of dead ones would come again.
        self._numbers: dict[Key, int] = {}
        self._known: dict[Hashable, int] = {}

    def name(self, root: Type, around: Bound = NOT_BOUND) -> Hashable:
        """Return the number of a type, or what it is if it has no types inside."""
        if not type_children(root):
            return self._leaf(root, around)
        names: list[Hashable] = []
        # A type comes a second time, with its place, once the names of all inside it are there.
        waiting: list[tuple[Type, Bound, Hashable]] = [(root, around, 0)]
        while waiting:
            item, bound, place = waiting.pop()
            below = type_children(item)
            if not below:
                names.append(self._leaf(item, bound))
            elif place:
                inside = tuple(names[-len(below) :])
                del names[-len(below) :]
                names.append(self._number((self._own(item, bound), inside), item, place))
            else:
                free = self._free(item)
                place = (id(item), tuple([bound.get(v) or self._use(v) for v in free]))
                number = self._known.get(place)
                if number is not None:
                    names.append(number)
                    continue
                inner = _inside(item, bound, free)
                waiting.append((item, inner, place))
                waiting.extend([(part, inner, 0) for part in reversed(below)])
        return names[0]

    def free(self, type_: Type) -> tuple[TypeParam, ...]:
        """Return the free variables of a type."""
        return self._free(type_)

    def inside(self, type_: Type, around: Bound) -> Bound:
        """Return the names of bound variables inside of a type."""
        return _inside(type_, around, self._free(type_))

    def _number(self, key: Key, item: Type, place: Hashable) -> int:
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._numbers)
            self._new(number, key, item, place[1])  # type: ignore[index]
        self._known[place] = number
        return number

    def _leaf(self, type_: Type, bound: Bound) -> Hashable:
        use = self._naming(bound)
        match type_:
            case TensorType():
                dims = [d if type(d) is int else dim_key(d, use) for d in type_.shape]
                return ("tensor", type_.dtype.name, *dims)
            case TypeVar():
                return ("type var", use(type_))
            case GlobalTypeVar():
                return ("type name", type_.name)
            case ShapeArg():
                return ("dim", dim_key(type_.dim, use))
            case TupleType() | TypeCall() | TypeRelation():
                return self._own(type_, bound)
            case _:
                return HOLE

    def _own(self, type_: Type, bound: Bound) -> Hashable:
        match type_:
            case FuncType():
                kinds = tuple([isinstance(param, DimVar) for param in type_.type_params])
                return ("fn", len(type_.arg_types), len(type_.type_constraints), kinds)
            case TypeRelation():
                attrs = attr_keys((type_.attrs or {}).items(), self._naming(bound))
                return ("relation", type_.name, tuple(attrs))
            case RefType():
                return ("ref",)
            case TypeCall():
                return ("type call", type_.func.name)
            case _:
                return ("tuple",)

    def _naming(self, bound: Bound) -> Use:
        return (lambda v: bound.get(v) or self._use(v)) if bound else self._use


def _inside(item: Type, bound: Bound, free: tuple[TypeParam, ...]) -> Bound:
    """Return the names of bound variables inside of a type. Those that do not occur in it have no
    say: the same type has the same names inside wherever it stands.
    """
    if not isinstance(item, FuncType) or not item.type_params:
        return bound
    outer = {v: bound[v] for v in free if v in bound}
    level = max((name[0] + 1 for name in outer.values()), default=0)
    own = {param: BoundName((level, i)) for i, param in enumerate(item.type_params)}
    return {**outer, **own}


def dim_key(dim: Dim, use: Use) -> Hashable:
    """Return what a dim is, its variables named by `use`, its terms in an order that no name
    decides.
    """
    if isinstance(dim, AnyDim):
        return "?"
    if not isinstance(dim, DimExpr):
        return dim
    terms = []
    for monomial, coefficient in dim.terms:
        atoms = [(_atom(atom, use), power) for atom, power in monomial]
        terms.append((tuple(sorted(atoms, key=repr)), coefficient))
    # Not the text of it: two variables may have one name.
    return tuple(sorted(terms, key=repr))


def _atom(atom: DimVar | DimTerm, use: Use) -> Hashable:
    if isinstance(atom, DimVar):
        return use(atom)
    a, b = dim_key(atom.a, use), dim_key(atom.b, use)
    if atom.op in ("min", "max", "broadcast"):
        a, b = sorted((a, b), key=repr)
    return (atom.op, a, b)


def attr_keys(attrs: Iterable[tuple[str, AttrValue]], use: Use) -> list[Hashable]:
    """Return what attributes are, in the order of their names."""
    rows = sorted(attrs, key=lambda row: row[0])
    keys: list[Hashable] = [("attrs", len(rows))]
    for name, value in rows:
        keys.append(name)
        keys += attr_value_keys(value, use)
    return keys


def attr_value_keys(value: AttrValue, use: Use) -> list[Hashable]:
    """Return what the value of an attribute is."""
    keys: list[Hashable] = []
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, tuple):
            keys.append(("tuple", len(item)))
            waiting.extend(reversed(item))
        elif isinstance(item, Attrs):
            rows = sorted(item.items(), key=lambda row: row[0])
            keys.append(("attrs", *(name for name, _ in rows)))
            waiting.extend(value for _, value in reversed(rows))
        elif isinstance(item, (DimExpr, AnyDim)):
            keys.append(dim_key(item, use))
        elif isinstance(item, DType):
            keys.append(str(item))
        elif isinstance(item, Constant):
            keys += constant_keys(item)
        else:
            # The text tells 1 from 1.0 and True, 0.0 from -0.0, and makes NaN equal to itself.
            keys.append(f"{type(item).__name__} {item!r}")
    return keys


def constant_keys(constant: Constant) -> list[Hashable]:
    """Return what a constant is: its type and its bits."""
    data = constant.data
    return [("constant", str(dtype_of(data.dtype)), data.shape), little_endian(data)]
