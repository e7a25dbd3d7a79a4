"""Deciding whether an expression has the shape of a pattern, and which part matches what."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from relayvm.base.diagnostics import RelayError
from relayvm.compiler.infer_types import type_of
from relayvm.compiler.patterns import nodes
from relayvm.compiler.patterns.graph import ExprGraph
from relayvm.compiler.patterns.nodes import (
    AltPattern,
    AttrPattern,
    CallPattern,
    ConstantPattern,
    DataTypePattern,
    DFPattern,
    DominatorPattern,
    ExprPattern,
    FunctionPattern,
    IfPattern,
    LetPattern,
    ShapePattern,
    TupleGetItemPattern,
    TuplePattern,
    TypePattern,
    VarPattern,
    WildcardPattern,
)
from relayvm.ir.equal import structural_equal
from relayvm.ir.expr import (
    Attrs,
    AttrValue,
    Call,
    Constant,
    Expr,
    Function,
    If,
    Let,
    Op,
    Tuple,
    TupleGetItem,
    Var,
)
from relayvm.ir.module import Module
from relayvm.ir.types import TensorType, Type
from relayvm.ops.operator import Fusion, Operator

# The numbers by which programs for Relay know the classes of fusion (`TOpPattern`).
FUSION_NUMBERS = {
    Fusion.ELEMENTWISE: 0,
    Fusion.BROADCAST: 1,
    Fusion.INJECTIVE: 2,
    Fusion.REDUCTION: 3,
    Fusion.CONTRACTION: 4,
    Fusion.OPAQUE: 8,
}


def match(pattern: DFPattern, expr: Expr, module: Module | None = None) -> bool:
    """Return True if `expr` matches; `module` holds what types of globals depend on."""
    return Matcher(ExprGraph(expr), module).match(pattern, expr)


class Matcher:
    """Matches patterns within one graph; `found` maps each pattern node to what it matched last.

    Where a pattern is matched along the ways of a dominator it may match several expressions.
    Choices are not taken back once made: the left alternative that matches is the one.
    """

    def __init__(self, graph: ExprGraph, module: Module | None = None) -> None:
        self.graph = graph
        self.module = module or Module()
        self.found: dict[DFPattern, list[Expr]] = {}
        self._trail: list[DFPattern] = []
        self._once = True
        self._types: dict[int, Type | None] = {}

    def match(self, pattern: DFPattern, expr: Expr) -> bool:
        """Return True if `expr`, a node of the graph, matches; `found` then tells how."""
        self.found.clear()
        self._trail.clear()
        self._once = True
        return self._visit(pattern, expr)

    def _visit(self, pattern: DFPattern, expr: Expr) -> bool:
        if self._once and pattern in self.found:
            return self.found[pattern][-1] is expr
        mark = len(self._trail)
        matched = _RULES[type(pattern)](self, pattern, expr)
        if matched:
            self.found.setdefault(pattern, []).append(expr)
            self._trail.append(pattern)
        else:
            self._undo(mark)
        return matched

    def _undo(self, mark: int) -> None:
        while len(self._trail) > mark:
            pattern = self._trail.pop()
            self.found[pattern].pop()
            if not self.found[pattern]:
                del self.found[pattern]

    def _all(self, patterns: Sequence[DFPattern], exprs: Sequence[Expr]) -> bool:
        """Match as many of each, from left to right; on failure nothing of it stays found."""
        mark = len(self._trail)
        if len(patterns) == len(exprs) and all(map(self._visit, patterns, exprs)):
            return True
        self._undo(mark)
        return False

    # -- One rule a kind ------------------------------------------------------------------------

    def _expr(self, pattern: ExprPattern, expr: Expr) -> bool:
        if isinstance(pattern.expr, Op):
            return pattern.expr is expr
        return structural_equal(pattern.expr, expr)

    def _var(self, pattern: VarPattern, expr: Expr) -> bool:
        return isinstance(expr, Var) and pattern.name in ("", expr.name)

    def _constant(self, pattern: ConstantPattern, expr: Expr) -> bool:
        return isinstance(expr, Constant)

    def _call(self, pattern: CallPattern, expr: Expr) -> bool:
        if not isinstance(expr, Call):
            return False
        if not self._visit(pattern.op, expr.op):
            return any(self._visit_anew(p, expr) for p in _associated(pattern, expr))
        if pattern.args is None or self._all(pattern.args, expr.args):
            return True
        if _op_name(pattern) in ("add", "multiply"):
            return self._all(pattern.args[::-1], expr.args)
        return False

    def _visit_anew(self, pattern: CallPattern, expr: Call) -> bool:
        """Match a pattern made for this place: it is found under no name of its own."""
        args = pattern.args or ()
        mark = len(self._trail)
        if self._visit(pattern.op, expr.op) and any(
            self._all(order, expr.args) for order in (args, args[::-1])
        ):
            return True
        self._undo(mark)
        return False

    def _function(self, pattern: FunctionPattern, expr: Expr) -> bool:
        if not isinstance(expr, Function):
            return False
        if pattern.params is not None and not self._all(pattern.params, expr.params):
            return False
        return self._visit(pattern.body, expr.body)

    def _if(self, pattern: IfPattern, expr: Expr) -> bool:
        return isinstance(expr, If) and self._all(
            (pattern.cond, pattern.true_branch, pattern.false_branch),
            (expr.cond, expr.true_branch, expr.false_branch),
        )

    def _let(self, pattern: LetPattern, expr: Expr) -> bool:
        return isinstance(expr, Let) and self._all(
            (pattern.var, pattern.value, pattern.body), (expr.var, expr.value, expr.body)
        )

    def _tuple(self, pattern: TuplePattern, expr: Expr) -> bool:
        if not isinstance(expr, Tuple):
            return False
        return pattern.fields is None or self._all(pattern.fields, expr.fields)

    def _item(self, pattern: TupleGetItemPattern, expr: Expr) -> bool:
        if not isinstance(expr, TupleGetItem) or pattern.index not in (None, expr.index):
            return False
        return self._visit(pattern.tuple_value, expr.tuple_value)

    def _alternative(self, pattern: AltPattern, expr: Expr) -> bool:
        return self._visit(pattern.left, expr) or self._visit(pattern.right, expr)

    def _wildcard(self, pattern: WildcardPattern, expr: Expr) -> bool:
        target = pattern.redirection.target
        return target is None or self._visit(target, expr)

    def _type(self, pattern: TypePattern, expr: Expr) -> bool:
        type_ = self.type_of(expr)
        same = type_ is not None and structural_equal(pattern.type, type_)
        return same and self._visit(pattern.pattern, expr)

    def _dtype(self, pattern: DataTypePattern, expr: Expr) -> bool:
        type_ = self.type_of(expr)
        same = isinstance(type_, TensorType) and type_.dtype is pattern.dtype
        return same and self._visit(pattern.pattern, expr)

    def _shape(self, pattern: ShapePattern, expr: Expr) -> bool:
        type_ = self.type_of(expr)
        same = isinstance(type_, TensorType) and type_.shape == pattern.shape
        return same and self._visit(pattern.pattern, expr)

    def _attrs(self, pattern: AttrPattern, expr: Expr) -> bool:
        if not self._visit(pattern.pattern, expr):
            return False
        known = _attributes(expr)
        wanted = Attrs(pattern.attrs)
        return all(name in known and known[name] == value for name, value in wanted.items())

    def _dominator(self, pattern: DominatorPattern, expr: Expr) -> bool:
        if not self._visit(pattern.child, expr):
            return False
        reached = self._ways_reach_parent(pattern, expr)
        self._once = True
        return reached and any(
            self._visit(pattern.parent, node) for node in self.graph.dominated_by(expr)
        )

    def _ways_reach_parent(self, pattern: DominatorPattern, child: Expr) -> bool:
        """Return True if every way back from `child` ends at the parent or matches the path."""
        seen = {id(child)}
        waiting = [child]
        while waiting:
            node = waiting.pop()
            callee = node.op if isinstance(node, Call) else None
            for below in self.graph.inputs(node):
                if below is callee or id(below) in seen:
                    continue
                seen.add(id(below))
                self._once = True
                if self._visit(pattern.parent, below):
                    continue
                self._once = False
                if not self._visit(pattern.path, below):
                    return False
                waiting.append(below)
        return True

    # -- Types ----------------------------------------------------------------------------------

    def type_of(self, expr: Expr) -> Type | None:
        """Return the type of an expression, inferred where it is not known; None if it has none."""
        if expr.checked_type is not None or isinstance(expr, Op):
            return expr.checked_type
        if isinstance(expr, Var) and expr.type_annotation is not None:
            return expr.type_annotation
        if id(expr) not in self._types:
            try:
                self._types[id(expr)] = type_of(expr, self.module)
            except RelayError:
                self._types[id(expr)] = None
        return self._types[id(expr)]


def _op_name(pattern: CallPattern) -> str:
    is_op = isinstance(pattern.op, ExprPattern) and isinstance(pattern.op.expr, Op)
    return pattern.op.expr.name if is_op else ""  # type: ignore[attr-defined]


def _is_call_of(expr: Expr, name: str) -> bool:
    return isinstance(expr, Call) and isinstance(expr.op, Op) and expr.op.name == name


def _associated(pattern: CallPattern, expr: Call) -> list[CallPattern]:
    """Return the pattern with products and quotients grouped as in `expr`: `(a * b) / c` is
    `a * (b / c)`.
    """
    name, args = _op_name(pattern), pattern.args
    if args is None or len(args) != 2:
        return []
    if name == "divide" and _is_call_of(expr, "multiply"):
        product = args[0]
        if not (isinstance(product, CallPattern) and _op_name(product) == "multiply"):
            return []
        if product.args is None or not any(_is_call_of(a, "divide") for a in expr.args):
            return []
        return [
            CallPattern(product.op, (product.args[1 - i], _quotient(pattern, product.args[i])))
            for i in range(2)
        ]
    if name == "multiply" and _is_call_of(expr, "divide"):
        for i, quotient in enumerate(args):
            if not (isinstance(quotient, CallPattern) and _op_name(quotient) == "divide"):
                continue
            if quotient.args is not None and any(_is_call_of(a, "multiply") for a in expr.args):
                product = CallPattern(pattern.op, (quotient.args[0], args[1 - i]))
                return [CallPattern(quotient.op, (product, quotient.args[1]))]
    return []


def _quotient(division: CallPattern, dividend: DFPattern) -> CallPattern:
    assert division.args is not None
    return CallPattern(division.op, (dividend, division.args[1]))


def _attributes(expr: Expr) -> Mapping[str, AttrValue]:
    if isinstance(expr, Call):
        if isinstance(expr.op, Operator):
            return Attrs(expr.op.complete_attrs(expr.attrs))
        return expr.attrs
    if isinstance(expr, Function):
        return expr.attrs
    if isinstance(expr, Operator):
        return {"TOpPattern": FUSION_NUMBERS[expr.fusion]}
    return {}


_RULES: dict[type, Callable[..., bool]] = {
    nodes.ExprPattern: Matcher._expr,
    nodes.VarPattern: Matcher._var,
    nodes.ConstantPattern: Matcher._constant,
    nodes.CallPattern: Matcher._call,
    nodes.FunctionPattern: Matcher._function,
    nodes.IfPattern: Matcher._if,
    nodes.LetPattern: Matcher._let,
    nodes.TuplePattern: Matcher._tuple,
    nodes.TupleGetItemPattern: Matcher._item,
    nodes.AltPattern: Matcher._alternative,
    nodes.WildcardPattern: Matcher._wildcard,
    nodes.TypePattern: Matcher._type,
    nodes.DataTypePattern: Matcher._dtype,
    nodes.ShapePattern: Matcher._shape,
    nodes.AttrPattern: Matcher._attrs,
    nodes.DominatorPattern: Matcher._dominator,
}
