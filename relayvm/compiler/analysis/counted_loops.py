"""Recursions that count, or walk along a list: what changes in which way from call to call, and
what stays the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from relayvm.base.dims import DimVar, symbol
from relayvm.base.dtypes import INT32, INT64
from relayvm.compiler.analysis.scopes import scope_bodies
from relayvm.compiler.transforms.blocks import Binding, split_block
from relayvm.ir.expr import (
    Call,
    Constant,
    Constructor,
    Expr,
    Function,
    GlobalVar,
    If,
    Let,
    Match,
    PatternConstructor,
    PatternVar,
    PatternWildcard,
    Var,
)
from relayvm.ir.types import ShapeArg, TensorType
from relayvm.ir.visit import children, post_order
from relayvm.ops.operator import Operator

# How a comparison reads with its operands, or with its result, the other way round.
_SWAPPED = {
    "less": "greater",
    "greater": "less",
    "less_equal": "greater_equal",
    "greater_equal": "less_equal",
}
_NEGATED = {
    "less": "greater_equal",
    "greater": "less_equal",
    "less_equal": "greater",
    "greater_equal": "less",
}


@dataclass(frozen=True, slots=True)
class Recursion:
    """A function in A-normal form one branch of which, number `again`, always ends in a call of the
    function itself and the others never do: `prefix; if (..) { body; self(..) } else { .. }`.

    `fixed` are the places of parameters that every such call passes on as they are.
    """

    function: Function
    prefix: tuple[Binding, ...]
    choice: If | Match
    again: int
    body: tuple[Binding, ...]
    tail: Expr
    calls: tuple[Call, ...]
    fixed: frozenset[int]


@dataclass(frozen=True, slots=True)
class Counter:
    """The parameter at `place` grows by one at each call, and another one follows while it is
    `limit` at most, or less than it.

    `limit` is an operand of the comparison; whether it stays the same is for others to tell.
    """

    place: int
    limit: Expr
    inclusive: bool


def find_recursion(function: Function, name: Var | GlobalVar) -> Recursion | None:
    """Return the form of a function that is called `name` in its own body, or None if it has
    another one.
    """
    prefix, choice = split_block(function.body)
    if not isinstance(choice, (If, Match)):
        return None
    found = [(k, b, c) for k, b in enumerate(scope_bodies(choice)) if (c := _ends(b, name))]
    if len(found) != 1:
        return None
    again, branch, calls = found[0]
    if _mentions(function, name) != len(calls) or not _same_sizes(function, calls):
        return None
    body, tail = split_block(branch)
    fixed = frozenset(
        place
        for place, param in enumerate(function.params)
        if all(call.args[place] is param for call in calls)
    )
    return Recursion(function, tuple(prefix), choice, again, tuple(body), tail, tuple(calls), fixed)


@dataclass(frozen=True, slots=True)
class Walk:
    """The parameter at `place` is of a data type, and a step reads the fields of a constructor, of
    which `rest` is the next argument.

    `others` are the constructors for which the recursion ends.
    """

    place: int
    constructor: Constructor
    fields: tuple[Var | None, ...]
    rest: Var
    others: tuple[Constructor, ...]


def find_walk(loop: Recursion) -> Walk | None:
    """Return what list a recursion walks along, or None if there is none."""
    choice, params = loop.choice, loop.function.params
    if not isinstance(choice, Match) or choice.data not in params:
        return None
    assert isinstance(choice.data, Var)
    place = params.index(choice.data)
    patterns = [clause.lhs for clause in choice.clauses]
    flat = [p for p in patterns if isinstance(p, PatternConstructor) and is_flat(p)]
    names = {p.constructor.name for p in flat}
    if len(names) < len(patterns):
        return None
    chosen = flat.pop(loop.again)
    fields = tuple(p.var if isinstance(p, PatternVar) else None for p in chosen.patterns)
    rest = loop.calls[0].args[place]
    if rest not in fields or not isinstance(rest, Var):
        return None
    if any(call.args[place] is not rest for call in loop.calls):
        return None
    others = tuple(p.constructor for p in flat)
    return Walk(place, chosen.constructor, fields, rest, others)


def is_flat(pattern: PatternConstructor) -> bool:
    """Return True for a pattern that fits every value of its constructor."""
    return all(isinstance(p, (PatternVar, PatternWildcard)) for p in pattern.patterns)


def find_counter(loop: Recursion) -> Counter | None:
    """Return what a recursion counts by, or None if that is nothing."""
    values = {b.var: b.value for b in loop.prefix}
    if not isinstance(loop.choice, If) or not isinstance(loop.choice.cond, Var):
        return None
    test = values.get(loop.choice.cond)
    if not isinstance(test, Call) or not isinstance(test.op, Operator) or len(test.args) != 2:
        return None
    for swapped in (False, True):
        name = test.op.name
        counter, limit = reversed(test.args) if swapped else test.args
        if name not in _SWAPPED:
            return None
        name = _SWAPPED[name] if swapped else name
        name = _NEGATED[name] if loop.again else name
        place = _counting_place(loop, counter) if name in ("less", "less_equal") else None
        if place is not None:
            return Counter(place, limit, name == "less_equal")
    return None


def _ends(branch: Expr, name: Var | GlobalVar) -> list[Call] | None:
    """Return the calls of `name` that a branch ends in; None if it may end in another way."""
    calls: list[Call] = []
    pending = [branch]
    while pending:
        _, tail = split_block(pending.pop())
        if isinstance(tail, If):
            pending += [tail.true_branch, tail.false_branch]
        elif isinstance(tail, Match):
            pending += [clause.rhs for clause in tail.clauses]
        elif isinstance(tail, Call) and is_name(tail.op, name):
            calls.append(tail)
        else:
            return None
    return calls


def is_name(expr: Expr, name: Var | GlobalVar) -> bool:
    """Return True for a mention of a function by its name."""
    if isinstance(name, GlobalVar):
        return isinstance(expr, GlobalVar) and expr.name == name.name
    return expr is name


def _mentions(function: Function, name: Var | GlobalVar) -> int:
    return sum(is_name(part, name) for node in post_order(function) for part in children(node))


def _same_sizes(function: Function, calls: Sequence[Call]) -> bool:
    """Return True if all calls are for the sizes that the function itself was called for."""
    own = tuple(ShapeArg(symbol(p)) if isinstance(p, DimVar) else p for p in function.type_params)
    return all(call.type_args == own for call in calls)


def _counting_place(loop: Recursion, counter: Expr) -> int | None:
    """Return the place of a parameter to which all calls add one."""
    params = loop.function.params
    if not isinstance(counter, Var) or counter not in params:
        return None
    place, kind = params.index(counter), counter.checked_type
    if not isinstance(kind, TensorType) or kind.shape or kind.dtype not in (INT32, INT64):
        return None
    bound: dict[Var, Expr] = {}
    for node in post_order(loop.function):
        if isinstance(node, Let):
            bound[node.var] = node.value
    steps = [call.args[place] for call in loop.calls]
    values = [bound.get(s) if isinstance(s, Var) else None for s in steps]
    return place if all(_is_next(v, counter) for v in values) else None


def _is_next(value: Expr | None, param: Var) -> bool:
    if not isinstance(value, Call) or not isinstance(value.op, Operator):
        return False
    if value.op.name != "add" or len(value.args) != 2:
        return False
    a, b = value.args
    one = b if a is param else a
    both = a is param or b is param
    return both and isinstance(one, Constant) and one.data.shape == () and int(one.data) == 1
