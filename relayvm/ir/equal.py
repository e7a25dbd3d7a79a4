"""Structural equality and hash: alpha-equivalence, bits of constants, and what is shared with what.

Both read one thing: the sequence of tokens that a walk yields, in which binders are numbered as
they are met and a node met again is named by its number. Equal programs have equal sequences.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import Any, Union

from relayvm.base.diagnostics import Diagnostic, Note, RelayError
from relayvm.base.dims import DimVar
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
from relayvm.ir.module import Module, TypeData
from relayvm.ir.printer import is_atom, non_default_attrs, print_expr, print_module, print_type
from relayvm.ir.shared_types import Key, TypeTable, attr_keys, attr_value_keys, constant_keys
from relayvm.ir.types import (
    Type,
    TypeParam,
)
from relayvm.ir.visit import LEAVES, children, pattern_walk

# Anything of a program: also a list of items, an attribute value, and what has a `module`.
Item = Union[Expr, Type, Module, TypeData, Pattern, Any]
Batch = list[Hashable]
Batches = Iterator[Batch]
BATCH = 500


def structural_equal(lhs: Item, rhs: Item, map_free_vars: bool = False) -> bool:
    """Tell whether two programs are the same but for the names of what they bind.

    Constants are equal by their bits; a shared node differs from two copies; attributes that equal
    their default may be absent. Free variables are equal only to themselves, unless `map_free_vars`
    lets them correspond one to one. Functions of the library that no pass has changed are equal by
    their names, whatever types inference has added in them; a definition of the program's own that
    reads like one of the library is another.
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


def _plain_library(module: Module) -> frozenset[str]:
    """Return the functions that are what the library says, though inference may have added types:
    their names are all that the text of the program has of them.
    """
    if module.altered or "entries" in module.attrs:
        return frozenset()
    return module.library


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
        self.types = TypeTable(self._use, self._new_type)

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
                self._attrs(item.items())
            case _:
                self.tokens += attr_value_keys(item, self._use)

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
        plain = _plain_library(module)
        for name in sorted(module.functions.keys() - unused):
            if name in plain:
                self.put(("library", name))
                continue
            self.put(("def", name))
            yield from self._expr(module.functions[name])
        self._attrs(module.attrs.items())

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
                self.tokens += constant_keys(leaf)

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
                self._attrs(node.attrs.items())
            case Call():
                self._attrs(non_default_attrs(node.op, node.attrs))
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

    def _attrs(self, attrs: Iterable[tuple[str, AttrValue]]) -> None:
        self.tokens += attr_keys(attrs, self._use)

    # --- types ---------------------------------------------------------------------------

    def _type(self, type_: Type) -> None:
        self.put(("type", self.types.name(type_)))

    def _new_type(self, number: int, key: Key, _item: Type, _free: tuple[Hashable, ...]) -> None:
        self.put(("number", number, key))
