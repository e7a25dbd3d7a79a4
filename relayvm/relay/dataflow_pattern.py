"""`relay.dataflow_pattern`: TVM's names for the patterns of `compiler/patterns`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from relayvm.base.diagnostics import error
from relayvm.compiler import patterns
from relayvm.compiler.patterns import DFPattern, Rule
from relayvm.compiler.patterns import nodes as df
from relayvm.ir.expr import AttrValue, Expr
from relayvm.ir.types import Type
from relayvm.relay.module import IRModule, unwrap
from relayvm.relay.node import NodeClass, as_attrs, as_dtype, as_expr, as_shape, as_type
from relayvm.relay.op.op import get

__all__ = [
    "AltPattern",
    "AttrPattern",
    "CallPattern",
    "ConstantPattern",
    "DFPattern",
    "DFPatternCallback",
    "DataTypePattern",
    "DominatorPattern",
    "ExprPattern",
    "FunctionPattern",
    "IfPattern",
    "LetPattern",
    "ShapePattern",
    "TupleGetItemPattern",
    "TuplePattern",
    "TypePattern",
    "VarPattern",
    "WildcardPattern",
    "dominates",
    "has_attr",
    "has_dtype",
    "has_shape",
    "has_type",
    "is_constant",
    "is_expr",
    "is_if",
    "is_let",
    "is_op",
    "is_tuple",
    "is_tuple_get_item",
    "is_var",
    "match",
    "partition",
    "rewrite",
    "wildcard",
]


class ExprPattern(metaclass=NodeClass):
    """Matches what is structurally equal to an expression."""

    nodes = (df.ExprPattern,)

    @staticmethod
    def make(expr: Expr) -> df.ExprPattern:
        """Return a new pattern."""
        return df.ExprPattern(as_expr(expr))


class VarPattern(metaclass=NodeClass):
    """Matches a variable, of this name unless it is empty."""

    nodes = (df.VarPattern,)

    @staticmethod
    def make(name_hint: str = "") -> df.VarPattern:
        """Return a new pattern."""
        return df.VarPattern(name_hint)


class ConstantPattern(metaclass=NodeClass):
    """Matches a constant."""

    nodes = (df.ConstantPattern,)

    @staticmethod
    def make() -> df.ConstantPattern:
        """Return a new pattern."""
        return df.ConstantPattern()


class CallPattern(metaclass=NodeClass):
    """Matches a call; `args` None means any."""

    nodes = (df.CallPattern,)

    @staticmethod
    def make(op: DFPattern, args: Sequence[DFPattern] | None) -> df.CallPattern:
        """Return a new pattern."""
        return df.CallPattern(op, df.patterns_of(args))


class FunctionPattern(metaclass=NodeClass):
    """Matches a function; `params` None means any."""

    nodes = (df.FunctionPattern,)

    @staticmethod
    def make(params: Sequence[DFPattern] | None, body: DFPattern) -> df.FunctionPattern:
        """Return a new pattern."""
        return df.FunctionPattern(df.patterns_of(params), body)


class IfPattern(metaclass=NodeClass):
    """Matches a choice."""

    nodes = (df.IfPattern,)

    @staticmethod
    def make(cond: DFPattern, true_branch: DFPattern, false_branch: DFPattern) -> df.IfPattern:
        """Return a new pattern."""
        return df.IfPattern(cond, true_branch, false_branch)


class LetPattern(metaclass=NodeClass):
    """Matches a let."""

    nodes = (df.LetPattern,)

    @staticmethod
    def make(var: DFPattern, value: DFPattern, body: DFPattern) -> df.LetPattern:
        """Return a new pattern."""
        return df.LetPattern(var, value, body)


class TuplePattern(metaclass=NodeClass):
    """Matches a tuple; `fields` None means any."""

    nodes = (df.TuplePattern,)

    @staticmethod
    def make(fields: Sequence[DFPattern] | None) -> df.TuplePattern:
        """Return a new pattern."""
        return df.TuplePattern(df.patterns_of(fields))


class TupleGetItemPattern(metaclass=NodeClass):
    """Matches a projection; `index` None means any."""

    nodes = (df.TupleGetItemPattern,)

    @staticmethod
    def make(tuple_value: DFPattern, index: int | None = None) -> df.TupleGetItemPattern:
        """Return a new pattern."""
        return df.TupleGetItemPattern(tuple_value, index)


class AltPattern(metaclass=NodeClass):
    """Matches what one of two patterns matches, the left one first."""

    nodes = (df.AltPattern,)

    @staticmethod
    def make(left: DFPattern, right: DFPattern) -> df.AltPattern:
        """Return a new pattern."""
        return df.AltPattern(left, right)


class WildcardPattern(metaclass=NodeClass):
    """Matches anything; `redirect_to` makes it stand for another pattern."""

    nodes = (df.WildcardPattern,)

    @staticmethod
    def make() -> df.WildcardPattern:
        """Return a new pattern."""
        return df.WildcardPattern()


class TypePattern(metaclass=NodeClass):
    """Matches what a pattern does if it has a type."""

    nodes = (df.TypePattern,)

    @staticmethod
    def make(pattern: DFPattern, ttype: Type) -> df.TypePattern:
        """Return a new pattern."""
        return df.TypePattern(pattern, as_type(ttype))


class DataTypePattern(metaclass=NodeClass):
    """Matches what a pattern does if it is a tensor of a dtype."""

    nodes = (df.DataTypePattern,)

    @staticmethod
    def make(pattern: DFPattern, dtype: str) -> df.DataTypePattern:
        """Return a new pattern."""
        return df.DataTypePattern(pattern, as_dtype(dtype))


class ShapePattern(metaclass=NodeClass):
    """Matches what a pattern does if it is a tensor of a shape."""

    nodes = (df.ShapePattern,)

    @staticmethod
    def make(pattern: DFPattern, shape: Sequence[Any]) -> df.ShapePattern:
        """Return a new pattern."""
        return df.ShapePattern(pattern, as_shape(shape))


class AttrPattern(metaclass=NodeClass):
    """Matches what a pattern does if it has attributes."""

    nodes = (df.AttrPattern,)

    @staticmethod
    def make(pattern: DFPattern, attrs: Mapping[str, AttrValue]) -> df.AttrPattern:
        """Return a new pattern."""
        return df.AttrPattern(pattern, as_attrs(attrs))


class DominatorPattern(metaclass=NodeClass):
    """Matches `child` if every way back from it leads through `path` to one `parent`."""

    nodes = (df.DominatorPattern,)

    @staticmethod
    def make(parent: DFPattern, path: DFPattern, child: DFPattern) -> df.DominatorPattern:
        """Return a new pattern."""
        return df.DominatorPattern(parent, path, child)


# --- short forms -----------------------------------------------------------------------------


def is_var(name: str = "") -> DFPattern:
    """Return the pattern of a variable."""
    return df.VarPattern(name)


def is_constant() -> DFPattern:
    """Return the pattern of a constant."""
    return df.ConstantPattern()


def is_expr(expr: Expr) -> DFPattern:
    """Return the pattern of an expression equal to this one."""
    return df.ExprPattern(as_expr(expr))


def is_op(op_name: str) -> DFPattern:
    """Return the pattern of an operator; calling it makes that of a call."""
    return df.ExprPattern(get(op_name))


def is_tuple(fields: Sequence[DFPattern] | None) -> DFPattern:
    """Return the pattern of a tuple."""
    return df.TuplePattern(df.patterns_of(fields))


def is_tuple_get_item(tuple_value: DFPattern, index: int | None = None) -> DFPattern:
    """Return the pattern of a projection."""
    return df.TupleGetItemPattern(tuple_value, index)


def is_if(cond: DFPattern, true_branch: DFPattern, false_branch: DFPattern) -> DFPattern:
    """Return the pattern of a choice."""
    return df.IfPattern(cond, true_branch, false_branch)


def is_let(var: DFPattern, value: DFPattern, body: DFPattern) -> DFPattern:
    """Return the pattern of a let."""
    return df.LetPattern(var, value, body)


def wildcard() -> DFPattern:
    """Return the pattern of anything."""
    return df.WildcardPattern()


def has_type(ttype: Type, pattern: DFPattern | None = None) -> DFPattern:
    """Return the pattern of what has a type."""
    return df.TypePattern(pattern or wildcard(), as_type(ttype))


def has_dtype(dtype: str, pattern: DFPattern | None = None) -> DFPattern:
    """Return the pattern of tensors of a dtype."""
    return df.DataTypePattern(pattern or wildcard(), as_dtype(dtype))


def has_shape(shape: Sequence[Any], pattern: DFPattern | None = None) -> DFPattern:
    """Return the pattern of tensors of a shape."""
    return df.ShapePattern(pattern or wildcard(), as_shape(shape))


def has_attr(attrs: Mapping[str, AttrValue], pattern: DFPattern | None = None) -> DFPattern:
    """Return the pattern of what has attributes."""
    return df.AttrPattern(pattern or wildcard(), as_attrs(attrs))


def dominates(parent: DFPattern, path: DFPattern, child: DFPattern) -> DFPattern:
    """Return the pattern of a child that a parent reaches through a path only."""
    return df.DominatorPattern(parent, path, child)


# --- uses ------------------------------------------------------------------------------------


def match(pattern: DFPattern, expr: Expr) -> bool:
    """Return True if an expression matches a pattern."""
    return patterns.match(pattern, as_expr(expr))


class DFPatternCallback:
    """What to do with matches: a subclass sets `pattern` and overrides `callback`.

    `require_type` infers types before each round, `rewrite_once` ends after the first.
    """

    def __init__(self, require_type: bool = False, rewrite_once: bool = False) -> None:
        self.pattern: DFPattern | None = None
        self.require_type = require_type
        self.rewrite_once = rewrite_once

    def rewrite(self, expr: Expr) -> Expr:
        """Return the expression with all matches rewritten."""
        return rewrite(self, expr)

    def callback(self, pre: Expr, post: Expr, node_map: dict[DFPattern, list[Expr]]) -> Expr:
        """Return what takes the place of a match: `pre` as it was, `post` with rewritten parts."""
        raise error("wrong-argument", f"`{type(self).__name__}` has no method `callback`")

    def _rule(self) -> Rule:
        if self.pattern is None:
            raise error("wrong-argument", f"`{type(self).__name__}` has set no `pattern`")

        def replace(pre: Expr, post: Expr, found: Any) -> Expr:
            node_map = {pattern: list(exprs) for pattern, exprs in found.items()}
            return as_expr(self.callback(pre, post, node_map), "the result of a callback")

        return Rule(self.pattern, replace, self.require_type, self.rewrite_once)


def rewrite(
    callbacks: DFPatternCallback | Sequence[DFPatternCallback],
    expr: Expr,
    mod: IRModule | None = None,
) -> Expr:
    """Return an expression rewritten by callbacks, in turn, until none changes it."""
    given = [callbacks] if isinstance(callbacks, DFPatternCallback) else list(callbacks)
    module = None if mod is None else unwrap(mod)
    return patterns.rewrite([c._rule() for c in given], as_expr(expr), module)


def partition(
    pattern: DFPattern,
    expr: Expr,
    attrs: Mapping[str, AttrValue] | None = None,
    check: Callable[[Expr], bool] = lambda _: True,
) -> Expr:
    """Return an expression with matches cut out into functions marked `PartitionedFromPattern`."""
    return patterns.partition(pattern, as_expr(expr), as_attrs(attrs), check)


def _partition(
    self: DFPattern,
    expr: Expr,
    attrs: Mapping[str, AttrValue] | None = None,
    check: Callable[[Expr], bool] = lambda _: True,
) -> Expr:
    return partition(self, expr, attrs, check)


def _dominates(self: DFPattern, parent: DFPattern, path: DFPattern | None = None) -> DFPattern:
    return dominates(parent, path or wildcard(), self)


# TVM's methods of patterns, beside the operators that the patterns below have themselves.
METHODS: dict[str, Any] = {
    "match": match,
    "partition": _partition,
    "dominates": _dominates,
    "has_attr": lambda self, attrs: has_attr(attrs, self),
    "has_type": lambda self, ttype: has_type(ttype, self),
    "has_dtype": lambda self, dtype: has_dtype(dtype, self),
    "has_shape": lambda self, shape: has_shape(shape, self),
}
for _method, _function in METHODS.items():
    setattr(DFPattern, _method, _function)
