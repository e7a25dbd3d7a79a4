"""Rules written as Relay text: `left => right where conditions`.

Variables of the left side stand for any expression, the same one wherever a name occurs again.
Attributes that are strings name what stands there; those that are not written have their default.
A number stands for a constant of any dtype all of whose elements are that number; the sign of
zero counts. Operands of `add` and `multiply` may be swapped. On the right side a string names an
attribute of the left side or calls one of `ATTRIBUTE_VALUES`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

import numpy as np

from relayvm.base.narrow.arrays import readable
from relayvm.base.source import Source
from relayvm.compiler.rewriting.build import constant, folded, tensor, typed_call
from relayvm.compiler.rewriting.engine import CallRule, Site
from relayvm.compiler.rewriting.predicates import ATTRIBUTE_VALUES, CONDITIONS
from relayvm.ir.expr import (
    AttributeSchema,
    Attrs,
    Call,
    Constant,
    Expr,
    Function,
    Op,
    OperandSchema,
    Var,
)
from relayvm.ir.parser import parse_expr
from relayvm.ir.visit import post_order
from relayvm.ops import OPS
from relayvm.ops.operator import Operator

_SWAPPED = ("add", "multiply")
_SHAPED = ("zeros", "ones", "zeros_like", "ones_like")
_BLOCK = re.compile(
    r"rule (?P<name>\w+)(?P<rounds>, rounds)?\n\s*(?P<left>.*?)\s*=>\s*(?P<right>.*?)"
    r"(?:\s+where (?P<where>.*?))?\s*\Z",
    re.DOTALL,
)
_TERM = re.compile(r"(\w+)\(([^()]*)\)")


@dataclass(frozen=True, slots=True)
class Term:
    """`name(arguments)`: an argument is a variable `%x`, an attribute, a number, `result` or
    `numbers`: whether all constants that numbers stand for have rank 0."""

    name: str
    arguments: tuple[str, ...]


@dataclass(slots=True)
class Match:
    """What the variables and attributes of a rule stand for."""

    result: Expr
    variables: dict[str, Expr] = field(default_factory=dict)
    attributes: dict[str, Any] = field(default_factory=dict)
    numbers_are_scalars: bool = True

    def value(self, argument: str) -> Any:
        """Return what an argument of a term stands for."""
        if argument == "result":
            return self.result
        if argument == "numbers":
            return self.numbers_are_scalars
        if argument.startswith("%"):
            return self.variables[argument[1:]]
        if argument in self.attributes:
            return self.attributes[argument]
        return float(argument)

    def copy(self) -> Match:
        """Return one that can be extended on its own."""
        variables, attributes = dict(self.variables), dict(self.attributes)
        return Match(self.result, variables, attributes, self.numbers_are_scalars)


@dataclass(frozen=True, slots=True, eq=False)
class TextRule:
    """One rule of a file. `keeps_order` tells that the right side evaluates what the variables
    stand for as the left side does.
    """

    name: str
    rounds: bool
    left: Call
    right: Expr
    conditions: tuple[Term, ...]
    keeps_order: bool

    def apply(self, node: Call, site: Site) -> Expr | None:
        """Return the right side in the place of a call, or None if the rule does not fit."""
        for match in self.matches(node, site):
            if not all(_holds(term, match) for term in self.conditions):
                continue
            if not self.keeps_order and not all(map(site.is_pure, match.variables.values())):
                continue
            return _made(self.right, match)
        return None

    def matches(self, node: Call, site: Site) -> Iterator[Match]:
        """Yield the ways in which the left side fits a call."""
        yield from _fit(self.left, node, Match(node), site, is_root=True)

    def as_call_rule(self) -> CallRule:
        """Return the rule for the walk over a module."""
        assert isinstance(self.left.op, Op)
        return CallRule(self.name, self.left.op.name, self.apply, self.rounds)


def load_rules(file: str) -> tuple[TextRule, ...]:
    """Return the rules of a file of this package."""
    text = files("relayvm.compiler.rewriting").joinpath(file).read_text("utf-8")
    return parse_rules(text, file)


def parse_rules(text: str, name: str = "<rules>") -> tuple[TextRule, ...]:
    """Return the rules of a text: blocks between empty lines, comments after `//`."""
    plain = re.sub(r"//[^\n]*", "", text)
    blocks = [b.strip() for b in re.split(r"\n\s*\n", plain) if b.strip()]
    return tuple(_parse(block, name) for block in blocks)


def _parse(block: str, file: str) -> TextRule:
    found = _BLOCK.match(block)
    assert found is not None, f"{file}: no rule: {block}"
    left, right = (_side(found[side], file) for side in ("left", "right"))
    assert isinstance(left, Call)
    terms = tuple(_term(m[1], m[2]) for m in _TERM.finditer(found["where"] or ""))
    order = [_variables(side) for side in (left, right)]
    return TextRule(found["name"], bool(found["rounds"]), left, right, terms, order[0] == order[1])


def _side(text: str, file: str) -> Expr:
    names = sorted(set(re.findall(r"%([a-z]\w*)", text)))
    params = ", ".join(f"%{name}" for name in names)
    function = parse_expr(Source(file, f"fn ({params}) {{ {text} }}"), _FREE_OPERATORS)
    assert isinstance(function, Function)
    return function.body


def _term(name: str, arguments: str) -> Term:
    return Term(name, tuple(a.strip() for a in arguments.split(",") if a.strip()))


def _variables(side: Expr) -> list[str]:
    return [node.name for node in post_order(side) if isinstance(node, Var)]


def _free(op: Operator) -> Op:
    """Return an operator of the same name whose attributes may be anything."""
    operands = tuple(OperandSchema(o.name) for o in op.operands)
    attributes = tuple(AttributeSchema(a.name, "object", a.default) for a in op.attributes)
    return Op(op.name, operands, attributes)


_FREE_OPERATORS = {name: _free(op) for name, op in OPS.items()}


def _fit(
    side: Expr, node: Expr, match: Match, site: Site, is_root: bool = False
) -> Iterator[Match]:
    """Yield the matches that extend one; sides are as deep as they are written."""
    if isinstance(side, Var):
        known = match.variables.get(side.name)
        if known is None:
            match.variables[side.name] = node
            yield match
        elif known is node or _same_atom(known, node):
            yield match
        return
    node = node if is_root else site.definition(node)
    if isinstance(side, Constant):
        if isinstance(node, Constant) and _is_all(node.data, side.data):
            match.numbers_are_scalars &= node.data.ndim == 0
            yield match
        return
    assert isinstance(side, Call) and isinstance(side.op, Op)
    if not isinstance(node, Call) or node.op is not OPS[side.op.name]:
        return
    if side.op.name in _SHAPED:
        match.numbers_are_scalars = False
    if not _fit_attributes(side, node, match):
        return
    orders = [node.args]
    if side.op.name in _SWAPPED:
        orders.append(node.args[::-1])
    for order in orders:
        found = [match.copy()]
        for part, below in zip(side.args, order):
            found = [m for before in found for m in _fit(part, below, before.copy(), site)]
        yield from found


def _same_atom(a: Expr, b: Expr) -> bool:
    if not isinstance(a, Constant) or not isinstance(b, Constant):
        return False
    return a.data.dtype == b.data.dtype and np.array_equal(a.data, b.data)


def _is_all(data: np.ndarray, number: np.ndarray) -> bool:
    data, number = readable(data), readable(number)
    same_sign = np.signbit(data) == np.signbit(number) if data.dtype.kind == "f" else True
    return bool(np.all((data == number) & same_sign)) and data.size > 0


def _fit_attributes(side: Call, node: Call, match: Match) -> bool:
    assert isinstance(node.op, Operator)
    for name, value in node.op.complete_attrs(node.attrs).items():
        wanted = side.attrs.get(name, _default(node.op, name))
        if name in side.attrs and isinstance(wanted, str):
            if match.attributes.setdefault(wanted, value) != value:
                return False
        elif value != wanted:
            return False
    return True


def _default(op: Operator, name: str) -> Any:
    return next(row.default for row in op.attributes if row.name == name)


def _holds(term: Term, match: Match) -> bool:
    return CONDITIONS[term.name](*(match.value(a) for a in term.arguments))


def _made(side: Expr, found: Match) -> Expr:
    """Return the right side with types; raises ShapeError where it has none."""
    done: dict[int, Expr] = {}
    for node in post_order(side):
        match node:
            case Var():
                done[id(node)] = found.variables[node.name]
            case Constant():
                done[id(node)] = constant(node.data, tensor(found.result).dtype)
            case Call():
                assert isinstance(node.op, Op)
                op = OPS[node.op.name]
                args = [done[id(arg)] for arg in node.args]
                attrs = Attrs({n: _attribute(v, found) for n, v in node.attrs.items()})
                done[id(node)] = folded(typed_call(op, args, attrs, found.result.span))
    return done[id(side)]


def _attribute(value: Any, match: Match) -> Any:
    if not isinstance(value, str):
        return value
    found = _TERM.fullmatch(value)
    if found is None:
        return match.attributes[value]
    term = _term(found[1], found[2])
    return ATTRIBUTE_VALUES[term.name](*(match.value(a) for a in term.arguments))


__all__ = ["Match", "Term", "TextRule", "load_rules", "parse_rules"]
