"""Expression and pattern nodes of Relay.

Nodes are immutable and equal only to themselves: a node that is reachable twice is evaluated once.
Every node carries the span it came from and, after type inference, its type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Union

import numpy as np

from relayvm.base.source import Span
from relayvm.base.trampoline import Recursive, trampoline
from relayvm.ir.types import GlobalTypeVar, Type, TypeParam, TypeRelation

AttrValue = Union[None, bool, int, float, str, "tuple[AttrValue, ...]", Any]


class Attrs(Mapping[str, AttrValue]):
    """Immutable attributes of a call or function, compared by content; lists are stored as tuples.

    Values are None, bool, int, float, str, `DType`, a dim, a `Constant`, or nested tuples and
    `Attrs` of these; a dictionary becomes `Attrs`.
    """

    __slots__ = ("_values",)

    def __init__(
        self, values: Mapping[str, AttrValue] | None = None, /, **named: AttrValue
    ) -> None:
        merged = {**(values or {}), **named}
        self._values = {name: _frozen(value) for name, value in merged.items()}

    def __getitem__(self, name: str) -> AttrValue:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Attrs) and list(_flat(self)) == list(_flat(other))

    def __hash__(self) -> int:
        return hash(tuple(_flat(self)))

    def __repr__(self) -> str:
        return "{" + ", ".join(f"{k}={v!r}" for k, v in self._values.items()) + "}"


def _frozen(value: AttrValue) -> AttrValue:
    if isinstance(value, np.generic):
        return value.item()
    if not isinstance(value, (list, tuple, dict)):
        return value
    return map_attr_value(value, _frozen)


def map_attr_value(value: AttrValue, change: Callable[[AttrValue], AttrValue]) -> AttrValue:
    """Return a value with `change` applied to what is not nested in it; itself if nothing
    changes. Lists become tuples and dictionaries `Attrs`.
    """
    return trampoline(_mapped(value, change)) if isinstance(value, _NESTED) else change(value)


_NESTED = (tuple, list, Attrs, dict)


def _mapped(value: Any, change: Callable[[AttrValue], AttrValue]) -> Recursive[Any]:
    is_named = isinstance(value, (Attrs, dict))
    old = list(value.values()) if is_named else value
    new: list[AttrValue] = []
    for part in old:
        new.append((yield _mapped(part, change)) if isinstance(part, _NESTED) else change(part))
    if isinstance(value, (tuple, Attrs)) and all(a is b for a, b in zip(old, new)):
        return value
    return Attrs(dict(zip(value, new))) if is_named else tuple(new)


def _flat(value: AttrValue) -> Iterator[Any]:
    """Yield what tells a value from others, without nesting: it is compared and hashed by this."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, tuple):
            yield ("tuple", len(item))
            waiting.extend(item)
        elif isinstance(item, Attrs):
            rows = sorted(item.items(), key=lambda row: row[0])
            yield ("attrs", *(name for name, _ in rows))
            waiting.extend(v for _, v in rows)
        else:
            yield item


NO_ATTRS = Attrs()


class _Walked:
    """Room for the nodes below in the order of `visit.post_order`, once a function was walked. It
    is no field: nothing that looks at nodes sees it.
    """

    __slots__ = ("order",)
    order: tuple[Expr, ...]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Expr(_Walked):
    """Base of all expressions. `checked_type` is None until type inference has run."""

    span: Span | None = field(default=None, kw_only=True)
    checked_type: Type | None = field(default=None, kw_only=True)

    def __repr__(self) -> str:
        place = f" {self.span}" if self.span else ""
        return f"<{type(self).__name__}{place}>"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Var(Expr):
    """A local variable, bound by a function, a let or a pattern; the name is for people only."""

    name: str
    type_annotation: Type | None = None

    def __repr__(self) -> str:
        return f"%{self.name}"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class GlobalVar(Expr):
    """A use of a function of the module, found by name."""

    name: str

    def __repr__(self) -> str:
        return f"@{self.name}"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Constant(Expr):
    """A tensor known at compile time; its array is never written."""

    data: np.ndarray


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Tuple(Expr):
    """A tuple; `()` is the unit value."""

    fields: tuple[Expr, ...]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TupleGetItem(Expr):
    """Field `index` of a tuple: `t.0`."""

    tuple_value: Expr
    index: int


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Function(Expr):
    """A function; as an expression it is a closure over its free variables."""

    params: tuple[Var, ...]
    body: Expr
    ret_type: Type | None = None
    type_params: tuple[TypeParam, ...] = ()
    attrs: Attrs = NO_ATTRS
    type_constraints: tuple[TypeRelation, ...] = ()


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Call(Expr):
    """A call of an operator, constructor, global, or any expression that is a function."""

    op: Expr
    args: tuple[Expr, ...]
    attrs: Attrs = NO_ATTRS
    type_args: tuple[Type, ...] = ()


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Let(Expr):
    """`let var = value; body`. `var` is visible in `value` only if `value` is a Function."""

    var: Var
    value: Expr
    body: Expr


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class If(Expr):
    """A choice on a rank-0 bool; each branch is its own scope."""

    cond: Expr
    true_branch: Expr
    false_branch: Expr


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RefCreate(Expr):
    """A new reference to a value."""

    value: Expr


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RefRead(Expr):
    """The value that a reference holds now."""

    ref: Expr


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RefWrite(Expr):
    """Put a value into a reference; the result is `()`."""

    ref: Expr
    value: Expr


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Match(Expr):
    """Clauses tried in order. `complete` promises that one fits, which is checked; otherwise a
    miss traps.
    """

    data: Expr
    clauses: tuple[Clause, ...]
    complete: bool = True


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Constructor(Expr):
    """A constructor of a data type, with the types of its fields and its place in the
    definition.
    """

    name: str
    inputs: tuple[Type, ...]
    belong_to: GlobalTypeVar
    index: int

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class OperandSchema:
    """One positional operand of an operator."""

    name: str


@dataclass(frozen=True, slots=True)
class AttributeSchema:
    """One keyword attribute of an operator. `kind` is the Python annotation as text, such as `int
    | None`.
    """

    name: str
    kind: str
    default: AttrValue = None
    required: bool = False


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Op(Expr):
    """A primitive operator: a leaf. The rows of the operator table are instances of a subclass.

    `attributes` in schema order: the printer omits those that equal their default. `ignored` are
    attributes that old texts carry and that mean nothing here: the parser drops them.
    """

    name: str
    operands: tuple[OperandSchema, ...]
    attributes: tuple[AttributeSchema, ...] = ()
    ignored: tuple[str, ...] = field(default=(), kw_only=True)

    def __repr__(self) -> str:
        return self.name

    def __copy__(self) -> Op:
        """Return the operator itself: programs share operators, and so do copies of them."""
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Op:
        return self


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Pattern:
    """Base of all patterns."""

    span: Span | None = field(default=None, kw_only=True)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __str__(self) -> str:
        """Return the text of the pattern."""
        from relayvm.ir.printer import print_pattern

        return print_pattern(self)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PatternWildcard(Pattern):
    """`_`: fits everything."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PatternVar(Pattern):
    """Fits everything and binds it."""

    var: Var


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PatternConstructor(Pattern):
    """Fits values made by one constructor whose fields fit."""

    constructor: Constructor
    patterns: tuple[Pattern, ...] = ()


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PatternTuple(Pattern):
    """Fits tuples whose fields fit."""

    patterns: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Clause:
    """One case of a match: its own scope."""

    lhs: Pattern
    rhs: Expr
    span: Span | None = field(default=None, kw_only=True)
