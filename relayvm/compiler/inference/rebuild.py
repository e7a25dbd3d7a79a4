"""The typed module: every expression with its type, variables with annotations, calls with type
arguments.
"""

from __future__ import annotations

from dataclasses import replace
from operator import is_
from typing import TypeVar as GenericVar

from relayvm.base.dims import ANY, Dim, DimVar, dim_variables
from relayvm.base.trampoline import Recursive, trampoline
from relayvm.compiler.inference.context import Context
from relayvm.compiler.inference.holes import DimHole, known_dim, replace_dims
from relayvm.compiler.inference.type_walk import Memo, SameTypes, map_dims, rebuild
from relayvm.ir.expr import (
    Call,
    Clause,
    Constant,
    Constructor,
    Expr,
    Function,
    GlobalVar,
    Let,
    Match,
    Op,
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    Var,
)
from relayvm.ir.types import Type
from relayvm.ir.visit import children, with_children

E = GenericVar("E", bound=Expr)


class Rebuild:
    """Puts the found types into expressions; what already has them stays the same object."""

    def __init__(self, context: Context, keep_free_vars: bool = False) -> None:
        self.context = context
        self.keep_free_vars = keep_free_vars
        self._done: dict[int, Expr] = {}
        self._memo: Memo = {}
        self._final: dict[int, tuple[Type, Type]] = {}
        self._same_type = SameTypes()

    def expr(self, expr: Expr) -> Expr:
        """Return the typed expression."""
        result: Expr = trampoline(self._visit(None, 0, expr))
        return result

    def type_(self, type_: Type) -> Type:
        """Return a type without holes; a dim of which nothing is known is `?`."""
        known = self._final.get(id(type_))
        if known is not None:
            return known[1]
        result = rebuild(type_, lambda part: map_dims(part, _final_dim), self._memo)
        # The type itself is kept too, so that its id is not used again.
        self._final[id(type_)] = (type_, result)
        return result

    def _leaf(self, user: Expr | None, place: int, expr: Expr) -> Expr | None:
        """Return what has no operands, or was rebuilt before."""
        if isinstance(expr, (GlobalVar, Constructor)):
            slot = self.context.slots.get((id(user), place))
            return expr if slot is None else self._typed(expr, self.type_(slot))
        known = self._done.get(id(expr))
        if known is not None or not isinstance(expr, (Var, Op, Constant)):
            return known
        if isinstance(expr, Op):
            return expr
        if isinstance(expr, Var):
            return self._var(expr)
        result = self._typed(expr, self.type_(self.context.types[id(expr)]))
        self._done[id(expr)] = result
        return result

    def _visit(self, user: Expr | None, place: int, expr: Expr) -> Recursive[Expr]:
        leaf = self._leaf(user, place, expr)
        if leaf is not None:
            return leaf
        if isinstance(expr, Let):
            typed: Expr = yield self._let(expr)
            return typed
        result: Expr
        match expr:
            case Call():
                result = yield self._call(expr)
            case Function():
                result = yield self._function(expr)
            case Match():
                result = yield self._match(expr)
            case _:
                below = children(expr)
                result = with_children(expr, (yield self._all(expr, below, 0)))
        result = self._typed(result, self.type_(self.context.types[id(expr)]))
        self._done[id(expr)] = result
        return result

    def _all(self, user: Expr, exprs: tuple[Expr, ...], first: int) -> Recursive[tuple[Expr, ...]]:
        result: list[Expr] = []
        for place, expr in enumerate(exprs, first):
            leaf = self._leaf(user, place, expr)
            result.append(leaf if leaf is not None else (yield self._visit(user, place, expr)))
        return tuple(result)

    def _typed(self, expr: E, type_: Type) -> E:
        if expr.checked_type is not None and self._same_type(expr.checked_type, type_):
            return expr
        return replace(expr, checked_type=type_)

    def _var(self, var: Var) -> Var:
        known = self._done.get(id(var))
        if known is not None:
            assert isinstance(known, Var)
            return known
        type_ = self.type_(self.context.vars[id(var)])
        result, annotation = var, var.type_annotation
        free = id(var) not in self.context.bound
        if self._knows(var, type_):
            # A variable that declares its type stays the object that others may hold. What is
            # written into it says again what it declares, so nobody sees a change.
            if var.checked_type is None:
                object.__setattr__(var, "checked_type", annotation)
        elif not (free and self.keep_free_vars and annotation is not None):
            if annotation is None or not self.context.solver.rigid(annotation):
                annotation = type_
            checked = var.checked_type
            if checked is None or not self._same_type(checked, type_):
                checked = type_
            if checked is not var.checked_type or annotation is not var.type_annotation:
                result = Var(var.name, annotation, span=var.span, checked_type=checked)
        self._done[id(var)] = result
        return result

    def _knows(self, var: Var, type_: Type) -> bool:
        """Return whether a variable declares the type that is found, and knows no other."""
        annotation = var.type_annotation
        if annotation is None or not self.context.solver.rigid(annotation):
            return False
        checked = var.checked_type
        return self._same_type(annotation, type_) and (
            checked is None or self._same_type(checked, type_)
        )

    def _let(self, let: Let) -> Recursive[Expr]:
        chain: list[tuple[Let, Var, Expr]] = []
        body: Expr = let
        while isinstance(body, Let) and id(body) not in self._done:
            value = self._leaf(body, 0, body.value)
            if value is None:
                value = yield self._visit(body, 0, body.value)
            chain.append((body, self._var(body.var), value))
            body = body.body
        new: Expr = yield self._visit(chain[-1][0], 1, body)
        for old, var, value in reversed(chain):
            same = var is old.var and value is old.value and new is old.body
            type_ = self.type_(self.context.types[id(old)])
            if same:
                new = self._typed(old, type_)
            else:
                new = Let(var, value, new, span=old.span, checked_type=type_)
            self._done[id(old)] = new
        return new

    def _call(self, call: Call) -> Recursive[Expr]:
        op = self._leaf(call, 0, call.op)
        if op is None:
            op = yield self._visit(call, 0, call.op)
        args = yield self._all(call, call.args, 1)
        found = self.context.type_args.get(id(call), ())
        type_args = tuple(self.type_(t) for t in found)
        if len(type_args) == len(call.type_args) and all(
            self._same_type(a, b) for a, b in zip(type_args, call.type_args)
        ):
            type_args = call.type_args
        if op is call.op and _same(args, call.args) and type_args is call.type_args:
            return call
        type_ = self.type_(self.context.types[id(call)])
        return Call(op, args, call.attrs, type_args, span=call.span, checked_type=type_)

    def _function(self, function: Function) -> Recursive[Expr]:
        params = tuple(self._var(p) for p in function.params)
        body = yield self._visit(function, 0, function.body)
        ret_type = function.ret_type
        if ret_type is None or not self.context.solver.rigid(ret_type):
            ret_type = self.type_(self.context.signature(function).ret_type)
        same = _same(params, function.params) and body is function.body
        if same and ret_type is function.ret_type:
            return function
        return replace(function, params=params, body=body, ret_type=ret_type)

    def _match(self, match: Match) -> Recursive[Expr]:
        data = yield self._visit(match, 0, match.data)
        clauses: list[Clause] = []
        for place, clause in enumerate(match.clauses, 1):
            lhs = trampoline(self._pattern(clause.lhs))
            rhs = yield self._visit(match, place, clause.rhs)
            same = lhs is clause.lhs and rhs is clause.rhs
            clauses.append(clause if same else replace(clause, lhs=lhs, rhs=rhs))
        if data is match.data and all(a is b for a, b in zip(clauses, match.clauses)):
            return match
        return replace(match, data=data, clauses=tuple(clauses))

    def _pattern(self, pattern: Pattern) -> Recursive[Pattern]:
        if isinstance(pattern, PatternVar):
            var = self._var(pattern.var)
            return pattern if var is pattern.var else replace(pattern, var=var)
        if isinstance(pattern, (PatternConstructor, PatternTuple)):
            inner: list[Pattern] = []
            for part in pattern.patterns:
                inner.append((yield self._pattern(part)))
            if any(a is not b for a, b in zip(inner, pattern.patterns)):
                return replace(pattern, patterns=tuple(inner))
        return pattern


def _same(new: tuple[Expr, ...], old: tuple[Expr, ...]) -> bool:
    return all(map(is_, new, old))


def _final_dim(dim: Dim) -> Dim:
    known = known_dim(dim)
    if known is not None:
        return known
    unknown: dict[DimVar, Dim] = {
        h: ANY if h.value is None else h.value for h in dim_variables(dim) if isinstance(h, DimHole)
    }
    return replace_dims(dim, unknown)
