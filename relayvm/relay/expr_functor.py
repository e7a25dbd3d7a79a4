"""Functors over expressions: one method a node, to be redefined by users.

They call themselves for the parts of a node, as in TVM; the outermost visit makes room for that, so
that expressions of any depth can be visited. Our own passes use `ir.visit`, which needs none.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from relayvm.base.diagnostics import Diagnostic, RelayError, error
from relayvm.ir import expr as ir
from relayvm.ir.expr import Expr
from relayvm.ir.types import Type
from relayvm.relay.deep import depth_of, with_room

_METHODS: dict[type, str] = {
    ir.Function: "visit_function",
    ir.Call: "visit_call",
    ir.Let: "visit_let",
    ir.Var: "visit_var",
    ir.GlobalVar: "visit_global_var",
    ir.If: "visit_if",
    ir.Tuple: "visit_tuple",
    ir.TupleGetItem: "visit_tuple_getitem",
    ir.Constant: "visit_constant",
    ir.RefCreate: "visit_ref_create",
    ir.RefRead: "visit_ref_read",
    ir.RefWrite: "visit_ref_write",
    ir.Constructor: "visit_constructor",
    ir.Match: "visit_match",
}


class MissingMethod(RelayError, NotImplementedError):
    """A functor meets a node that it has no method for."""


class ExprFunctor:
    """Calls the method for the class of a node, once a node: results are kept in `memo_map`."""

    def __init__(self) -> None:
        self.memo_map: dict[Expr, Any] = {}

    def visit(self, expr: Expr) -> Any:
        """Return what the method for this node gives."""
        if expr in self.memo_map:
            return self.memo_map[expr]
        if getattr(self, "_has_room", False) or not isinstance(expr, Expr):
            return self._visit(expr)
        self._has_room = True
        try:
            return with_room(depth_of(expr), lambda: self._visit(expr))
        finally:
            self._has_room = False

    def _visit(self, expr: Expr) -> Any:
        name = "visit_op" if isinstance(expr, ir.Op) else _METHODS.get(type(expr))
        if name is None:
            kind = type(expr).__name__
            raise error("bad-node", f"a functor visits expressions, not `{kind}`")
        method = getattr(self, name, None)
        if method is None:
            message = f"functor `{type(self).__name__}` has no method `{name}`"
            raise MissingMethod(Diagnostic("bad-node", message, expr.span))
        result = method(expr)
        self.memo_map[expr] = result
        return result

    def visit_type(self, typ: Type) -> Any:
        """Return a type as it is; for subclasses to call."""
        return typ


class ExprVisitor(ExprFunctor):
    """Visits every part of an expression, in order of evaluation; results are None."""

    def visit_tuple(self, tup: ir.Tuple) -> Any:
        """Visit the fields."""
        for field in tup.fields:
            self.visit(field)

    def visit_call(self, call: ir.Call) -> Any:
        """Visit what is called and the arguments."""
        self.visit(call.op)
        for arg in call.args:
            self.visit(arg)

    def visit_var(self, var: ir.Var) -> Any:
        """Do nothing."""

    def visit_let(self, let: ir.Let) -> Any:
        """Visit variable, value and body."""
        self.visit(let.var)
        self.visit(let.value)
        self.visit(let.body)

    def visit_function(self, fn: ir.Function) -> Any:
        """Visit parameters and body."""
        for param in fn.params:
            self.visit(param)
        self.visit(fn.body)

    def visit_if(self, i: ir.If) -> Any:
        """Visit condition and branches."""
        self.visit(i.cond)
        self.visit(i.true_branch)
        self.visit(i.false_branch)

    def visit_global_var(self, gv: ir.GlobalVar) -> Any:
        """Do nothing."""

    def visit_constructor(self, c: ir.Constructor) -> Any:
        """Do nothing."""

    def visit_op(self, op: ir.Op) -> Any:
        """Do nothing."""

    def visit_constant(self, const: ir.Constant) -> Any:
        """Do nothing."""

    def visit_ref_create(self, r: ir.RefCreate) -> Any:
        """Visit the value."""
        self.visit(r.value)

    def visit_ref_read(self, r: ir.RefRead) -> Any:
        """Visit the reference."""
        self.visit(r.ref)

    def visit_ref_write(self, r: ir.RefWrite) -> Any:
        """Visit reference and value."""
        self.visit(r.ref)
        self.visit(r.value)

    def visit_tuple_getitem(self, t: ir.TupleGetItem) -> Any:
        """Visit the tuple."""
        self.visit(t.tuple_value)

    def visit_match(self, m: ir.Match) -> Any:
        """Visit what is matched and the results of the clauses."""
        self.visit(m.data)
        for clause in m.clauses:
            self.visit(clause.rhs)


class ExprMutator(ExprFunctor):
    """Rebuilds an expression from what it makes of the parts.

    A node whose parts stay the same objects is returned as it is; one that is rebuilt keeps its
    span and loses its type.
    """

    def visit_function(self, fn: ir.Function) -> Any:
        """Rebuild a function; its parameters may become other variables."""
        params = tuple([self.visit(param) for param in fn.params])
        body = self.visit(fn.body)
        if body is fn.body and _same(params, fn.params):
            return fn
        return replace(fn, params=params, body=body, checked_type=None)

    def visit_let(self, let: ir.Let) -> Any:
        """Rebuild a let."""
        var, value, body = self.visit(let.var), self.visit(let.value), self.visit(let.body)
        if var is let.var and value is let.value and body is let.body:
            return let
        return ir.Let(var, value, body, span=let.span)

    def visit_call(self, call: ir.Call) -> Any:
        """Rebuild a call; type arguments stay where what is called does."""
        op = self.visit(call.op)
        args = tuple([self.visit(arg) for arg in call.args])
        if op is call.op and _same(args, call.args):
            return call
        type_args = call.type_args if op is call.op else ()
        return ir.Call(op, args, call.attrs, type_args, span=call.span)

    def visit_var(self, var: ir.Var) -> Any:
        """Return the variable."""
        return var

    def visit_global_id(self, global_var: ir.GlobalVar) -> Any:
        """Return the variable."""
        return global_var

    def visit_if(self, ite: ir.If) -> Any:
        """Rebuild a choice."""
        parts = (self.visit(ite.cond), self.visit(ite.true_branch), self.visit(ite.false_branch))
        if _same(parts, (ite.cond, ite.true_branch, ite.false_branch)):
            return ite
        return ir.If(*parts, span=ite.span)

    def visit_tuple(self, tup: ir.Tuple) -> Any:
        """Rebuild a tuple."""
        fields = tuple([self.visit(field) for field in tup.fields])
        return tup if _same(fields, tup.fields) else ir.Tuple(fields, span=tup.span)

    def visit_tuple_getitem(self, op: ir.TupleGetItem) -> Any:
        """Rebuild a projection."""
        value = self.visit(op.tuple_value)
        if value is op.tuple_value:
            return op
        return ir.TupleGetItem(value, op.index, span=op.span)

    def visit_global_var(self, gvar: ir.GlobalVar) -> Any:
        """Return the variable."""
        return gvar

    def visit_op(self, op: ir.Op) -> Any:
        """Return the operator."""
        return op

    def visit_constant(self, const: ir.Constant) -> Any:
        """Return the constant."""
        return const

    def visit_constructor(self, con: ir.Constructor) -> Any:
        """Return the constructor."""
        return con

    def visit_match(self, m: ir.Match) -> Any:
        """Rebuild a match; patterns stay."""
        data = self.visit(m.data)
        results = tuple([self.visit(clause.rhs) for clause in m.clauses])
        if data is m.data and _same(results, tuple(clause.rhs for clause in m.clauses)):
            return m
        clauses = tuple(
            ir.Clause(clause.lhs, rhs, span=clause.span) for clause, rhs in zip(m.clauses, results)
        )
        return ir.Match(data, clauses, m.complete, span=m.span)

    def visit_ref_create(self, r: ir.RefCreate) -> Any:
        """Rebuild the making of a reference."""
        value = self.visit(r.value)
        return r if value is r.value else ir.RefCreate(value, span=r.span)

    def visit_ref_write(self, r: ir.RefWrite) -> Any:
        """Rebuild a writing."""
        ref, value = self.visit(r.ref), self.visit(r.value)
        if ref is r.ref and value is r.value:
            return r
        return ir.RefWrite(ref, value, span=r.span)

    def visit_ref_read(self, r: ir.RefRead) -> Any:
        """Rebuild a reading."""
        ref = self.visit(r.ref)
        return r if ref is r.ref else ir.RefRead(ref, span=r.span)


def _same(new: tuple[Any, ...], old: tuple[Any, ...]) -> bool:
    return all(a is b for a, b in zip(new, old))
