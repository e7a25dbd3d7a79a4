"""One walk over a module that lets rules replace operator calls, operands first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from relayvm.base.shapes import ShapeError
from relayvm.compiler.analysis.purity import Purity
from relayvm.compiler.analysis.scopes import is_atomic
from relayvm.ir.expr import Call, Expr, Function, Let, Var
from relayvm.ir.module import Module
from relayvm.ir.visit import built, children, post_order, with_parts
from relayvm.ops.operator import Operator

# A replacement may be replaced in turn; rules that undo each other end here.
TURN_LIMIT = 64
# How deep below a replacement other rules are tried.
MADE_DEPTH = 3


class Site:
    """What rules may ask of the function that they rewrite."""

    def __init__(self, root: Expr, purity: Purity) -> None:
        self._purity = purity
        self._uses: dict[int, int] = defaultdict(int)
        self._values: dict[int, Expr] = {}
        self._before: dict[int, Expr] = {}
        self.done: dict[int, Expr] = {}
        self.order = list(post_order(root))
        for node in self.order:
            for below in children(node):
                self._uses[id(below)] += 1
            if isinstance(node, Let):
                self._values[id(node.var)] = node.value

    def definition(self, expr: Expr) -> Expr:
        """Return the operator call that a let gives a variable, if its operands are atoms; else the
        expression itself.
        """
        after: Expr | None = expr
        while isinstance(after, Var):
            value = self._values.get(id(after))
            after = None if value is None else self.done.get(id(value))
        if isinstance(after, Call) and all(map(is_atomic, after.args)):
            return after if isinstance(after.op, Operator) else expr
        return expr

    def uses(self, expr: Expr) -> int:
        """Return how often an expression is used as an operand, or its variable if it is one."""
        return self._uses[id(self._before.get(id(expr), expr))]

    def is_pure(self, expr: Expr) -> bool:
        """Return True if evaluating a rewritten expression has no effect."""
        pending = [expr]
        while pending:
            node = pending.pop()
            before = self._before.get(id(node))
            if before is not None:
                if not self._purity.is_pure(before):
                    return False
            elif isinstance(node, Call) and not isinstance(node.op, Operator):
                return False
            else:
                pending.extend(children(node))
        return True

    def knows(self, expr: Expr) -> bool:
        """Return True for a node that stood in the program or took the place of one."""
        return id(expr) in self._before

    def put(self, before: Expr, after: Expr) -> None:
        """Note what takes the place of a node."""
        self.done[id(before)] = after
        self._before.setdefault(id(after), before)


Apply = Callable[[Call, Site], "Expr | None"]


@dataclass(frozen=True, slots=True, eq=False)
class CallRule:
    """`apply(call, site)` gives what takes the place of a call of operator `op`, or None.

    The operands of the call are rewritten already. What does not have the type of the call is not
    taken, nor where building it raises ShapeError. `rounds`: floats may differ in their last bits.
    """

    name: str
    op: str
    apply: Apply
    rounds: bool = False


def rewrite_calls(module: Module, rules: Sequence[CallRule]) -> Module:
    """Return the module with the rules applied, operands first, until none fits; linear.

    Types and spans are kept; where no rule fits the module is the same object.
    """
    by_op: dict[str, list[CallRule]] = defaultdict(list)
    for rule in rules:
        by_op[rule.op].append(rule)
    purity = Purity(module)
    functions = {}
    for name, function in module.functions.items():
        functions[name] = _rewrite(function, by_op, purity)
    return module.with_functions(functions)


def _rewrite(root: Function, rules: Mapping[str, Sequence[CallRule]], purity: Purity) -> Function:
    site = Site(root, purity)
    for node in site.order:
        site.put(node, _settled(with_parts(node, site.done), rules, site))
    result = site.done[id(root)]
    assert isinstance(result, Function)
    return result


def _settled(
    node: Expr, rules: Mapping[str, Sequence[CallRule]], site: Site, depth: int = MADE_DEPTH
) -> Expr:
    """Return what a node becomes once no rule fits it, nor what rules put below it."""
    for _ in range(TURN_LIMIT):
        new = _replaced(node, rules, site)
        if new is None:
            break
        node = new
        if depth and isinstance(node, Call) and not site.knows(node):
            parts = [
                arg if site.knows(arg) else _settled(arg, rules, site, depth - 1)
                for arg in node.args
            ]
            if any(a is not b for a, b in zip(parts, node.args)):
                node = built(node, (node.op, *parts))
    return node


def _replaced(node: Expr, rules: Mapping[str, Sequence[CallRule]], site: Site) -> Expr | None:
    if not isinstance(node, Call) or not isinstance(node.op, Operator):
        return None
    for rule in rules.get(node.op.name, ()):
        try:
            new = rule.apply(node, site)
        except ShapeError:
            continue
        if new is not None and new is not node and new.checked_type == node.checked_type:
            return new
    return None
