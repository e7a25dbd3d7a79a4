"""Replacing what matches a pattern, and cutting it out into functions of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from relayvm.base.diagnostics import error
from relayvm.compiler.infer_types import infer_expr
from relayvm.compiler.patterns.groups import PARTITIONED, Group, find_groups
from relayvm.compiler.patterns.nodes import DFPattern
from relayvm.ir.equal import structural_equal
from relayvm.ir.expr import (
    Attrs,
    AttrValue,
    Call,
    Expr,
    Function,
    If,
    Let,
    Match,
    Op,
    RefCreate,
    RefRead,
    RefWrite,
    Tuple,
    TupleGetItem,
    Var,
)
from relayvm.ir.module import Module
from relayvm.ir.visit import children, post_order, with_children
from relayvm.ir.visit import rewrite as rebuild

ROUND_LIMIT = 100

Found = Mapping[DFPattern, tuple[Expr, ...]]
Replace = Callable[[Expr, Expr, Found], Expr]


@dataclass(frozen=True, slots=True, eq=False)
class Rule:
    """What matches `pattern` becomes `replace(before, after, found)`.

    `before` is the match, `after` the same with what lies below it rewritten; `found` maps pattern
    nodes to rewritten expressions. `needs_types` asks for types before each round, `once` ends the
    rewriting after the first.
    """

    pattern: DFPattern
    replace: Replace
    needs_types: bool = False
    once: bool = False


def rewrite(rules: Sequence[Rule], expr: Expr, module: Module | None = None) -> Expr:
    """Return `expr` with the rules applied in turn until none changes anything.

    Matches nearest to the root come first; where nothing matches the result is the same object.
    Raises RelayError `endless-rewriting` if 100 rounds do not end it: rules that undo each other.
    """
    for _ in range(ROUND_LIMIT):
        before = expr
        for rule in rules:
            expr = _apply(rule, expr, module or Module())
        if expr is before or any(rule.once for rule in rules):
            return expr
        if structural_equal(before, expr):
            return before
    message = f"rules still change the program after {ROUND_LIMIT} rounds: some undo each other"
    raise error("endless-rewriting", message)


def _apply(rule: Rule, expr: Expr, module: Module) -> Expr:
    if rule.needs_types:
        expr = infer_expr(expr, module)
    groups = {id(g.root): g for g in find_groups(rule.pattern, expr, module)}
    if not groups:
        return expr
    done: dict[int, Expr] = {}
    for node in post_order(expr):
        after = with_children(node, tuple(done[id(child)] for child in children(node)))
        group = groups.get(id(node))
        done[id(node)] = after
        if group is not None:
            found = {
                pattern: tuple(done.get(id(e), e) for e in exprs)
                for pattern, exprs in group.found.items()
            }
            done[id(node)] = _replaced(rule, node, after, found)
    return done[id(expr)]


def _replaced(rule: Rule, before: Expr, after: Expr, found: Found) -> Expr:
    result = rule.replace(before, after, found)
    if not isinstance(result, Expr):
        message = f"a rule gave `{result!r:.60}` of class `{type(result).__name__}`, no expression"
        raise error("wrong-argument", message)
    return result


def partition(
    pattern: DFPattern,
    expr: Expr,
    attrs: Mapping[str, AttrValue] | None = None,
    check: Callable[[Expr], bool] = lambda _: True,
    module: Module | None = None,
) -> Expr:
    """Return `expr` with each match cut out into a function that is called in its place.

    `a(b(%x)) -> fn (%FunctionVar_0_0, PartitionedFromPattern="b_a_") {..}(%x)`: what the match
    uses from outside are the parameters. Only matches for which `check` is true are cut out.
    """
    groups = {id(g.root): g for g in find_groups(pattern, expr, module) if check(g.root)}
    numbers = {key: number for number, key in enumerate(groups)}
    done: dict[int, Expr] = {}
    for node in post_order(expr):
        after = with_children(node, tuple(done[id(child)] for child in children(node)))
        group = groups.get(id(node))
        done[id(node)] = after
        if group is not None:
            function = _function(group, numbers[id(node)], attrs or {})
            inputs = tuple(done.get(id(value), value) for value in group.inputs)
            done[id(node)] = Call(function, inputs, span=node.span, checked_type=node.checked_type)
    return done[id(expr)]


def _function(group: Group, number: int, attrs: Mapping[str, AttrValue]) -> Function:
    params = tuple(
        Var(f"FunctionVar_{number}_{i}", value.checked_type, checked_type=value.checked_type)
        for i, value in enumerate(group.inputs)
    )
    memo: dict[int, Expr] = {id(v): p for v, p in zip(group.inputs, params)}
    body = rebuild(group.root, lambda node: node, memo=memo)
    names = "".join(map(_name, group.inside))
    return Function(params, body, None, (), Attrs({**attrs, PARTITIONED: names}))


def _name(node: Expr) -> str:
    match node:
        case Call():
            return f"{node.op.name}_" if isinstance(node.op, Op) else "Call_"
        case TupleGetItem():
            return f"TupleGetItem{node.index}_"
        case Function():
            return "Function"  # As the original has it: a call of one is a `FunctionCall_`.
        case Tuple() | If() | Let() | Match() | RefCreate() | RefRead() | RefWrite():
            return f"{type(node).__name__}_"
        case _:
            return ""
