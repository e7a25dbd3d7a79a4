"""One walk over a module that lets rules replace operator calls, operands first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from relayvm.base.dims import AnyDim, dims_equal
from relayvm.base.shapes import ShapeError
from relayvm.compiler.analysis.purity import Purity
from relayvm.compiler.rewriting.anchors import Anchors
from relayvm.compiler.rewriting.build import field as field_of
from relayvm.compiler.rewriting.build import tuple_of, typed_call
from relayvm.ir.expr import Call, Constant, Expr, Function, Let, Tuple, TupleGetItem, Var
from relayvm.ir.module import Module
from relayvm.ir.types import TensorType, TupleType, Type
from relayvm.ir.visit import built, children, is_concrete, post_order, with_parts
from relayvm.ops.operator import Operator

# A replacement may be replaced in turn; rules that undo each other end here.
TURN_LIMIT = 64
# How deep below a replacement other rules are tried.
MADE_DEPTH = 3


class Site:
    """What rules may ask of the function that they rewrite."""

    def __init__(self, root: Expr, purity: Purity) -> None:
        self._purity = purity
        self._anchors = Anchors(root)
        self._uses: dict[int, int] = defaultdict(int)
        self._values: dict[int, Expr] = {}
        self._before: dict[int, Expr] = {}
        self._found: dict[int, Expr | None] = {}
        self.done: dict[int, Expr] = {}
        self.order = list(post_order(root))
        for node in self.order:
            for below in children(node):
                self._uses[id(below)] += 1
            if isinstance(node, Let):
                self._values[id(node.var)] = node.value

    def definition(self, expr: Expr) -> Expr:
        """Return the constant or pure operator call that a let gives a variable; else the
        expression itself.

        What uses its operands shares them with the let. An operand that reads a reference must not:
        were the let dropped, it would be read later.
        """
        if not isinstance(expr, Var):
            return expr
        after = self._value_of(expr)
        if isinstance(after, Constant):
            return after
        if not isinstance(after, Call) or not isinstance(after.op, Operator):
            return expr
        return after if all(map(self.is_pure, after.args)) else expr

    def _value_of(self, var: Var) -> Expr | None:
        """Return what a let gives a variable, through variables that only rename others."""
        passed: list[int] = []
        after: Expr | None = var
        while isinstance(after, Var):
            key = id(self._before.get(id(after), after))
            if key in self._found:
                after = self._found[key]
                break
            passed.append(key)
            value = self._values.get(key)
            after = None if value is None else self.done.get(id(value))
        self._found.update(dict.fromkeys(passed, after))
        return after

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

    def is_anchored(self, expr: Expr) -> bool:
        """Return True if an expression follows from constants and parameters of the function: it
        may be evaluated anywhere in it.
        """
        return self._anchors.hold(expr)

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


def rewrite_calls(module: Module, rules: Sequence[CallRule], *, refines: bool = False) -> Module:
    """Return the module with the rules applied, operands first, until none fits; linear.

    Types and spans are kept; where no rule fits the module is the same object. With `refines` a
    replacement may know sizes that were `?`: what follows from them is known too, up to where
    control flow meets or an operator does not fit, and types must be inferred again.
    """
    by_op: dict[str, list[CallRule]] = defaultdict(list)
    for rule in rules:
        by_op[rule.op].append(rule)
    purity = Purity(module)
    functions = {}
    for name, function in module.functions.items():
        functions[name] = _Rewriter(function, by_op, purity, refines).rewrite(function)
    return module.with_functions(functions)


class _Rewriter:
    """The walk over one function."""

    def __init__(
        self, root: Function, rules: Mapping[str, Sequence[CallRule]], purity: Purity, refines: bool
    ) -> None:
        self.site = Site(root, purity)
        self.rules = rules
        self.refines = refines
        self.renewed: dict[int, Var] = {}

    def rewrite(self, root: Function) -> Function:
        """Return the function with the rules applied."""
        site = self.site
        bound: dict[int, list[Var]] = defaultdict(list)
        if self.refines:
            for node in site.order:
                if isinstance(node, Let):
                    bound[id(node.value)].append(node.var)
        for node in site.order:
            after: Expr = self.renewed.get(id(node), node)
            if after is node:
                after = with_parts(node, site.done)
                if self.refines and after is not node:
                    after = self.retyped(node, after)
                after = self.settled(after)
            site.put(node, after)
            for var in bound.get(id(node), ()):
                self.renew(var, after)
        result = site.done[id(root)]
        assert isinstance(result, Function)
        return result

    def settled(self, node: Expr, depth: int = MADE_DEPTH) -> Expr:
        """Return what a node becomes once no rule fits it, nor what rules put below it."""
        site = self.site
        for _ in range(TURN_LIMIT):
            new = self.replaced(node)
            if new is None:
                break
            node = new
            if depth and isinstance(node, Call) and not site.knows(node):
                parts = [a if site.knows(a) else self.settled(a, depth - 1) for a in node.args]
                if any(a is not b for a, b in zip(parts, node.args)):
                    node = built(node, (node.op, *parts))
        return node

    def replaced(self, node: Expr) -> Expr | None:
        if not isinstance(node, Call) or not isinstance(node.op, Operator):
            return None
        if not all(is_concrete(part.checked_type) for part in (*node.args, node)):
            return None  # No rule knows what is applied to values of a type parameter.
        for rule in self.rules.get(node.op.name, ()):
            try:
                new = rule.apply(node, self.site)
            except ShapeError:
                continue
            if new is None or new is node:
                continue
            if new.checked_type == node.checked_type or (self.refines and _refines(new, node)):
                return new
        return None

    # --- types that become more exact --------------------------------------------------------

    def retyped(self, old: Expr, node: Expr) -> Expr:
        """Return a node, which was another, with the type that follows from its operands."""
        match node:
            case Call() if isinstance(node.op, Operator):
                try:
                    new: Expr = typed_call(node.op, node.args, node.attrs, node.span)
                except ShapeError:
                    assert isinstance(old, Call)
                    return _as_it_was(old, node)
            case Tuple():
                new = tuple_of(node.fields, node.span)
            case TupleGetItem():
                new = field_of(node.tuple_value, node.index, node.span)
            case Let():
                var = self.renewed.get(id(node.var), node.var)
                kind = node.body.checked_type
                return Let(var, node.value, node.body, span=node.span, checked_type=kind)
            case _:
                return node
        return node if new.checked_type == node.checked_type else new

    def renew(self, var: Var, value: Expr) -> None:
        """Give the variable of a let the type that its value has got."""
        if value.checked_type != var.checked_type and _refines(value, var):
            kind = value.checked_type
            self.renewed[id(var)] = Var(var.name, kind, span=var.span, checked_type=kind)


def _as_it_was(old: Call, new: Call) -> Call:
    """Return a call whose operands have the types that they had: it does not take what is known of
    them now, which it tells where the run comes to it.
    """
    args = (_as_known(after, before.checked_type) for before, after in zip(old.args, new.args))
    return replace(new, args=tuple(args))


def _as_known(value: Expr, kind: Type | None) -> Expr:
    """Return a value under a name of a type that knows less; of a tuple, each of its fields."""
    if value.checked_type == kind:
        return value
    if isinstance(kind, TupleType):
        found = value.fields if isinstance(value, Tuple) else None
        fields = found or [field_of(value, i, value.span) for i in range(len(kind.fields))]
        return tuple_of([_as_known(f, part) for f, part in zip(fields, kind.fields)], value.span)
    var = Var("open", kind, span=value.span, checked_type=kind)
    return Let(var, value, var, span=value.span, checked_type=kind)


def _refines(new: Expr, old: Expr) -> bool:
    """Return True if a type is another one but for sizes that were not known."""
    pending = [(new.checked_type, old.checked_type)]
    while pending:
        a, b = pending.pop()
        if isinstance(a, TupleType) and isinstance(b, TupleType):
            if len(a.fields) != len(b.fields):
                return False
            pending.extend(zip(a.fields, b.fields))
        elif isinstance(a, TensorType) and isinstance(b, TensorType):
            if a.dtype is not b.dtype or a.rank != b.rank:
                return False
            if not all(
                isinstance(y, AnyDim) or dims_equal(x, y) is True for x, y in zip(a.shape, b.shape)
            ):
                return False
        elif a != b:
            return False
    return True
