"""Blocks of A-normal form: a chain of lets with its tail, taken apart and put together again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from relayvm.base.source import Span
from relayvm.base.trampoline import Recursive, trampoline
from relayvm.ir.expr import Call, Clause, Expr, Function, If, Let, Match, Var


@dataclass(frozen=True, slots=True)
class Binding:
    """One `let var = value;` of a block."""

    var: Var
    value: Expr
    span: Span | None = None


class Block:
    """Bindings that are written one behind the other, each of an operand in A-normal form."""

    def __init__(self) -> None:
        self.bindings: list[Binding] = []

    def bind(self, value: Expr, name: str = "v") -> Var:
        """Return a new name for a typed value."""
        var = named(name, value)
        self.bindings.append(Binding(var, value, value.span))
        return var

    def ending(self, tail: Expr) -> Expr:
        """Return the bindings around their last expression."""
        return rebuild_block(self.bindings, tail)


def named(name: str, value: Expr) -> Var:
    """Return a new variable of the type of a value."""
    assert value.checked_type is not None
    return Var(name, span=value.span, checked_type=value.checked_type)


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
    expr: Expr,
    rewrite: BlockRewrite,
    *,
    skip: Callable[[Expr], bool] = lambda _: False,
    outer_first: bool = False,
) -> Expr:
    """Apply `rewrite` to every block inside `expr`, innermost first, or outermost first, as the
    rewritten blocks have them; functions for which `skip` holds stay.
    """
    return trampoline(_rewritten(expr, _Rewrite(rewrite, skip, outer_first)))


@dataclass(frozen=True, slots=True)
class _Rewrite:
    block: BlockRewrite
    skip: Callable[[Expr], bool]
    outer_first: bool


def _rewritten(expr: Expr, rewrite: _Rewrite) -> Recursive[Expr]:
    if isinstance(expr, Function):
        if rewrite.skip(expr):
            return expr
        body = yield _rewritten(expr.body, rewrite)
        return replace(expr, body=body)
    bindings, tail = split_block(expr)
    if rewrite.outer_first:
        bindings, tail = split_block(rewrite.block(bindings, tail))
    for index, binding in enumerate(bindings):
        if _has_blocks(binding.value):
            value = yield _inside(binding.value, rewrite)
            bindings[index] = replace(binding, value=value)
    if _has_blocks(tail):
        tail = yield _inside(tail, rewrite)
    if rewrite.outer_first:
        return rebuild_block(bindings, tail)
    return rewrite.block(bindings, tail)


def _has_blocks(expr: Expr) -> bool:
    if isinstance(expr, Call):
        return isinstance(expr.op, Function)
    return isinstance(expr, (Function, If, Match))


def _inside(expr: Expr, rewrite: _Rewrite) -> Recursive[Expr]:
    match expr:
        case Function():
            result: Expr = yield _rewritten(expr, rewrite)
            return result
        case If():
            yes = yield _rewritten(expr.true_branch, rewrite)
            no = yield _rewritten(expr.false_branch, rewrite)
            return replace(expr, true_branch=yes, false_branch=no)
        case Match():
            clauses = []
            for clause in expr.clauses:
                rhs = yield _rewritten(clause.rhs, rewrite)
                clauses.append(Clause(clause.lhs, rhs, span=clause.span))
            return replace(expr, clauses=tuple(clauses))
        case Call(op=Function()):
            op = yield _rewritten(expr.op, rewrite)
            return replace(expr, op=op)
        case _:
            return expr
