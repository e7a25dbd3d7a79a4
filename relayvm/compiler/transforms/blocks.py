"""Blocks of A-normal form: a chain of lets with its tail, taken apart and put together again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from relayvm.base.source import Span
from relayvm.ir.expr import Call, Clause, Expr, Function, If, Let, Match, Var


@dataclass(frozen=True, slots=True)
class Binding:
    """One `let var = value;` of a block."""

    var: Var
    value: Expr
    span: Span | None = None


BlockRewrite = Callable[["list[Binding]", Expr], Expr]


def split_block(expr: Expr) -> tuple[list[Binding], Expr]:
    """Return the bindings of a chain of lets and its tail."""
    bindings: list[Binding] = []
    while isinstance(expr, Let):
        bindings.append(Binding(expr.var, expr.value, expr.span))
        expr = expr.body
    return bindings, expr


def rebuild_block(bindings: list[Binding], tail: Expr) -> Expr:
    """Return the chain of lets; the type of each is that of the tail."""
    result = tail
    for binding in reversed(bindings):
        result = Let(
            binding.var, binding.value, result, span=binding.span, checked_type=tail.checked_type
        )
    return result


def rewrite_blocks(
    expr: Expr, rewrite: BlockRewrite, *, skip: Callable[[Expr], bool] = lambda _: False
) -> Expr:
    """Apply `rewrite` to every block inside `expr`, innermost first; functions for which `skip`
    holds stay.

    Recursive in the nesting of branches and functions only, not along lets.
    """
    if isinstance(expr, Function):
        if skip(expr):
            return expr
        return replace(expr, body=rewrite_blocks(expr.body, rewrite, skip=skip))
    bindings, tail = split_block(expr)
    inner = [replace(b, value=_rewrite_inside(b.value, rewrite, skip)) for b in bindings]
    return rewrite(inner, _rewrite_inside(tail, rewrite, skip))


def _rewrite_inside(expr: Expr, rewrite: BlockRewrite, skip: Callable[[Expr], bool]) -> Expr:
    if isinstance(expr, Function):
        return rewrite_blocks(expr, rewrite, skip=skip)
    if isinstance(expr, If):
        return replace(
            expr,
            true_branch=rewrite_blocks(expr.true_branch, rewrite, skip=skip),
            false_branch=rewrite_blocks(expr.false_branch, rewrite, skip=skip),
        )
    if isinstance(expr, Match):
        clauses = tuple(
            Clause(c.lhs, rewrite_blocks(c.rhs, rewrite, skip=skip), span=c.span)
            for c in expr.clauses
        )
        return replace(expr, clauses=clauses)
    if isinstance(expr, Call) and isinstance(expr.op, Function):
        return replace(expr, op=rewrite_blocks(expr.op, rewrite, skip=skip))
    return expr
