"""Structural equality and hash: alpha-equivalence, bits of constants, and what is shared with what.

Both read one thing: the sequence of tokens that a walk yields, in which binders are numbered as
they are met and a node met again is named by its number. Equal programs have equal sequences.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Union

from relayvm.base.diagnostics import Diagnostic, Note, RelayError
from relayvm.base.dims import AnyDim, Dim, DimExpr, DimTerm, DimVar
from relayvm.base.dtypes import DType, dtype_of
from relayvm.ir.expr import (
    Attrs,
    AttrValue,
    Call,
    Constant,
    Constructor,
    Expr,
    Function,
    GlobalVar,
    Let,
    Match,
    Op,
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    TupleGetItem,
    Var,
)
from relayvm.ir.metadata import little_endian
from relayvm.ir.module import Module, TypeData
from relayvm.ir.printer import is_atom, non_default_attrs, print_expr, print_module, print_type
from relayvm.ir.types import (
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
from relayvm.ir.visit import LEAVES, children, pattern_walk, type_children

# Anything of a program: also a list of items, an attribute value, and what has a `module`.
Item = Union[Expr, Type, Module, TypeData, Pattern, Any]
Batch = list[Hashable]
Batches = Iterator[Batch]
BATCH = 500


def structural_equal(lhs: Item, rhs: Item, map_free_vars: bool = False) -> bool:
    """Tell whether two programs are the same but for the names of what they bind.

    Constants are equal by their bits; a shared node differs from two copies; attributes that equal
    their default may be absent. Free variables are equal only to themselves, unless `map_free_vars`
    lets them correspond one to one.
    """
    if lhs is rhs:
        return True
    left, right = _Walk(map_free_vars).item(lhs), _Walk(map_free_vars).item(rhs)
    end = object()
    for batch in left:
        if next(right, end) != batch:
            return False
    return next(right, end) is end


def structural_hash(node: Item, map_free_vars: bool = False) -> int:
    """Return a 64-bit hash that equal items share, in every process if they have no free
    variables.
    """
    digest = hashlib.blake2b(digest_size=8)
    for batch in _Walk(map_free_vars).item(node):
        for token in batch:
            digest.update(token if isinstance(token, bytes) else repr(token).encode())
            digest.update(b"\0")
    return int.from_bytes(digest.digest(), "little")


class StructuralDifference(RelayError, ValueError):
    """Two items that should be the same are not."""


def assert_structural_equal(lhs: Item, rhs: Item, map_free_vars: bool = False) -> None:
    """Raise RelayError `not-equal`, which is a ValueError too, unless `structural_equal` holds.

    The error shows the first lines at which the texts of both differ.
    """
    if structural_equal(lhs, rhs, map_free_vars):
        return
    left, right = _text(lhs).splitlines(), _text(rhs).splitlines()
    notes = []
    for number, (a, b) in enumerate(zip_longest(left, right), start=1):
        if a != b:
            notes = [Note(f"line {number} of the first: {a}"), Note(f"of the second: {b}")]
            break
    else:
        notes = [Note("their texts are the same: they differ in what is shared, or in free names")]
    raise StructuralDifference(
        Diagnostic("not-equal", "the two are not structurally equal", notes=tuple(notes))
    )


def _text(item: Item) -> str:
    item = getattr(item, "module", item)
    if isinstance(item, Module):
        return print_module(item, library=True)
    if isinstance(item, Expr):
        return print_expr(item)
    return print_type(item) if isinstance(item, Type) else repr(item)


@dataclass(frozen=True, slots=True)
class _Outside:
    """The numbers, if any, that the parameters of a function type have outside of it: whether a
    function and its type name the same parameters is no difference.
    """

    numbers: tuple[tuple[object, int | None], ...]

    @classmethod
    def of(cls, params: tuple[TypeParam, ...], numbers: dict[object, int]) -> _Outside:
        return cls(tuple((param, numbers.get(param)) for param in params))

    def restore(self, numbers: dict[object, int]) -> None:
        for param, number in self.numbers:
            if number is None:
                numbers.pop(param, None)
            else:
                numbers[param] = number


class _Walk:
    """One walk: the numbers given to binders and to nodes met so far."""

    def __init__(self, map_free_vars: bool) -> None:
        self.map_free_vars = map_free_vars
        self.numbers: dict[object, int] = {}
        self.next_number = 0
        self.met: dict[int, int] = {}
        self.kept: list[Expr] = []
        self.tokens: Batch = []
        self.put = self.tokens.append

    def item(self, item: Item) -> Batches:
        """Yield the tokens of an item, some at a time: where two walks agree they are cut alike."""
        yield from self._parts(getattr(item, "module", item))
        yield self.taken()

    def taken(self) -> Batch:
        """Return the tokens since the last time."""
        tokens = self.tokens.copy()
        self.tokens.clear()
        return tokens

    def _parts(self, item: Item) -> Batches:
        match item:
            case Expr():
                yield from self._expr(item)
            case Type():
                self._type(item)
            case Module():
                yield from self._module(item)
            case TypeData():
                self._type_data(item)
            case Pattern():
                self._pattern(item)
            case list() | tuple():
                yield from self._items(item)
            case dict():
                yield from self._items([part for pair in sorted(item.items()) for part in pair])
            case Attrs():
                self._attrs(sorted(item.items(), key=_name))
            case _:
                self._attr_value(item)

    def _items(self, items: Sequence[Item]) -> Batches:
        self.put(("items", len(items)))
        for item in items:
            yield from self._parts(getattr(item, "module", item))

    @staticmethod
    def _unused(module: Module) -> frozenset[str]:
        from relayvm.ir.parser.library import unused_library

        return unused_library(module)

    def _module(self, module: Module) -> Batches:
        # Whoever uses a name of the library has it: whether it is there already is no difference.
        unused = self._unused(module) if module.library else frozenset()
        for name in sorted(module.types.keys() - unused):
            self.put(("type", name))
            self._type_data(module.types[name])
        for name in sorted(module.functions.keys() - unused):
            self.put(("def", name))
            yield from self._expr(module.functions[name])
        self._attrs(sorted(module.attrs.items(), key=_name))

    def _type_data(self, data: TypeData) -> None:
        self.put(("data", data.header.name, data.extern, len(data.constructors)))
        self._bind_types(data.type_params)
        for constructor in data.constructors:
            self.put((constructor.name, len(constructor.inputs)))
            for field in constructor.inputs:
                self._type(field)

    # --- variables -----------------------------------------------------------------------

    def _bind(self, variable: object) -> int:
        number = self.numbers.get(variable)
        return self._bind_anew(variable) if number is None else number

    def _bind_anew(self, variable: object) -> int:
        number = self.numbers[variable] = self.next_number
        self.next_number += 1
        return number

    def _use(self, variable: Hashable) -> Hashable:
        number = self.numbers.get(variable)
        if number is None and self.map_free_vars:
            number = self._bind(variable)
        return ("free", id(variable)) if number is None else number

    def _bind_types(self, params: tuple[TypeParam, ...]) -> None:
        # Anew: what a pass made of one definition may share the parameters of another.
        self.put(("params", *(isinstance(param, DimVar) for param in params)))
        for param in params:
            self._bind_anew(param)

    # --- expressions ---------------------------------------------------------------------

    def _expr(self, root: Expr) -> Batches:
        stack = [root]
        while stack:
            node = stack.pop()
            if isinstance(node, LEAVES):
                self._leaf(node)
                continue
            if not is_atom(node):
                number = self.met.get(id(node))
                if number is not None:
                    self.put(("again", number))
                    continue
                self.met[id(node)] = len(self.met)
                self.kept.append(node)
            below = children(node)
            self.put((type(node).__name__, len(below)))
            self._own(node)
            stack.extend(below[::-1])
            if len(self.tokens) > BATCH:
                yield self.taken()

    def _leaf(self, leaf: Expr) -> None:
        match leaf:
            case Var():
                self.put(("var", self._use(leaf)))
                if self.map_free_vars:
                    self._annotation(leaf.type_annotation)
            case GlobalVar():
                self.put(("global", leaf.name))
            case Op():
                self.put(("op", leaf.name))
            case Constructor():
                self.put(("constructor", leaf.belong_to.name, leaf.name))
            case Constant():
                self.put(("constant", str(dtype_of(leaf.data.dtype)), leaf.data.shape))
                self.put(little_endian(leaf.data))

    def _own(self, node: Expr) -> None:
        """Yield what the node holds besides its subexpressions."""
        match node:
            case Let():
                self._var(node.var)
            case Function():
                self._bind_types(node.type_params)
                self.put(len(node.params))
                for param in node.params:
                    self._var(param)
                self._annotation(node.ret_type)
                self.put(len(node.type_constraints))
                for constraint in node.type_constraints:
                    self._type(constraint)
                self._attrs(sorted(node.attrs.items(), key=_name))
            case Call():
                self._attrs(sorted(non_default_attrs(node.op, node.attrs), key=_name))
                self.put(len(node.type_args))
                for argument in node.type_args:
                    self._type(argument)
            case TupleGetItem():
                self.put(node.index)
            case Match():
                self.put(node.complete)
                for clause in node.clauses:
                    self._pattern(clause.lhs)
            case _:
                pass

    def _var(self, var: Var) -> None:
        self.put(("bind", self._bind(var)))
        self._annotation(var.type_annotation)

    def _annotation(self, type_: Type | None) -> None:
        if type_ is None:
            self.put(None)
        else:
            self._type(type_)

    def _pattern(self, pattern: Pattern) -> None:
        for item in pattern_walk(pattern):
            match item:
                case PatternVar():
                    self._var(item.var)
                case PatternConstructor():
                    constructor = item.constructor
                    self.put(("constructor", constructor.belong_to.name, constructor.name))
                case PatternTuple():
                    self.put(("tuple", len(item.patterns)))
                case _:
                    self.put("_")

    def _attrs(self, attrs: list[tuple[str, AttrValue]]) -> None:
        self.put(("attrs", len(attrs)))
        for name, value in attrs:
            self.put(name)
            self._attr_value(value)

    def _attr_value(self, value: AttrValue) -> None:
        waiting = [value]
        while waiting:
            item = waiting.pop()
            if isinstance(item, tuple):
                self.put(("tuple", len(item)))
                waiting.extend(reversed(item))
            elif isinstance(item, Attrs):
                rows = sorted(item.items(), key=_name)
                self.put(("attrs", *(name for name, _ in rows)))
                waiting.extend(value for _, value in reversed(rows))
            elif isinstance(item, (DimExpr, AnyDim)):
                self.put(self._dim(item))
            elif isinstance(item, DType):
                self.put(str(item))
            elif isinstance(item, Constant):
                self._leaf(item)
            else:
                # The text tells 1 from 1.0 and True, 0.0 from -0.0, and makes NaN equal to itself.
                self.put(f"{type(item).__name__} {item!r}")

    # --- types ---------------------------------------------------------------------------

    def _type(self, root: Type) -> None:
        waiting: list[Type | _Outside] = [root]
        while waiting:
            type_ = waiting.pop()
            if isinstance(type_, _Outside):
                type_.restore(self.numbers)
                continue
            match type_:
                case TensorType():
                    self.put(("tensor", type_.dtype.name, *map(self._dim, type_.shape)))
                case TupleType():
                    self.put(("tuple", len(type_.fields)))
                case FuncType():
                    self.put(("fn", len(type_.arg_types), len(type_.type_constraints)))
                    if type_.type_params:
                        waiting.append(_Outside.of(type_.type_params, self.numbers))
                        self._bind_types(type_.type_params)
                case TypeRelation():
                    self.put(("relation", type_.name, len(type_.args)))
                    self._attrs(sorted((type_.attrs or {}).items(), key=_name))
                case RefType():
                    self.put("ref")
                case TypeVar():
                    self.put(("type var", self._use(type_)))
                case GlobalTypeVar():
                    self.put(("type name", type_.name))
                case TypeCall():
                    self.put(("type call", type_.func.name, len(type_.args)))
                case ShapeArg():
                    self.put(("dim", self._dim(type_.dim)))
                case IncompleteType():
                    self.put("hole")
            waiting.extend(reversed(type_children(type_)))

    def _dim(self, dim: Dim) -> Hashable:
        """Return a dim with its variables as numbers, its terms in an order that no name
        decides.
        """
        if isinstance(dim, AnyDim):
            return "?"
        if not isinstance(dim, DimExpr):
            return dim
        terms = []
        for monomial, coefficient in dim.terms:
            atoms = [(self._atom(atom), power) for atom, power in monomial]
            terms.append((sorted(atoms, key=repr), coefficient))
        return repr(sorted(terms, key=repr))

    def _atom(self, atom: DimVar | DimTerm) -> Hashable:
        if isinstance(atom, DimVar):
            return self._use(atom)
        a, b = self._dim(atom.a), self._dim(atom.b)
        if atom.op in ("min", "max", "broadcast"):
            a, b = sorted((a, b), key=repr)
        return (atom.op, a, b)


def _name(row: tuple[str, AttrValue]) -> str:
    return row[0]
