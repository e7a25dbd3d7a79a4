"""Constraints of expressions: each is visited once, operands first, and gets a type that may
contain holes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from relayvm.base.diagnostics import Note, quantity
from relayvm.base.dtypes import BOOL, dtype_of
from relayvm.base.source import Span
from relayvm.base.trampoline import Recursive
from relayvm.compiler.inference.calls import function_call
from relayvm.compiler.inference.context import Context, Deferred
from relayvm.compiler.inference.holes import Hole, Mode, Owner, Reason, new_hole
from relayvm.compiler.inference.match_coverage import cases_soon_found, pattern_text
from relayvm.compiler.inference.messages import type_text
from relayvm.compiler.inference.operators import operator_call, solve_constraint
from relayvm.compiler.inference.patterns import bind_pattern
from relayvm.compiler.inference.type_walk import prune
from relayvm.ir.expr import (
    Call,
    Constant,
    Constructor,
    Expr,
    Function,
    GlobalVar,
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
from relayvm.ir.intrinsics import Intrinsic
from relayvm.ir.types import (
    POISON,
    UNIT,
    FuncType,
    RefType,
    TensorType,
    TupleType,
    Type,
    TypeVar,
    scalar_type,
)
from relayvm.ir.visit import SomePart, children
from relayvm.ops.operator import Operator

MAX_SHOWN_CASES = 3


class Projection(Deferred):
    """A field of a tuple whose type is not known yet."""

    __slots__ = ("context", "expr", "tuple_type")

    def __init__(self, context: Context, expr: TupleGetItem, tuple_type: Hole, out: Hole) -> None:
        super().__init__(out, expr.span)
        self.context = context
        self.expr = expr
        self.tuple_type = tuple_type
        tuple_type.state.listeners.append(self)

    def run(self) -> None:
        """Connect the field once the tuple is known."""
        known = prune(self.tuple_type)
        if self.done or (isinstance(known, Hole) and not known.state.poisoned):
            return
        self.done = True
        field = project(self.context, self.expr, known)
        reason = Reason(self.span, "the field is {actual}, not {expected}", field, self.out)
        self.context.solver.flow(field, self.out, reason)


def project(context: Context, expr: TupleGetItem, type_: Type) -> Type:
    """Return the type of a field of a known type."""
    if type_ is POISON or isinstance(type_, Hole):
        return POISON
    if not isinstance(type_, TupleType):
        message = f"field {expr.index} is taken of a value of type `{type_text(type_)}`"
        context.reporter.report("type-mismatch", message, expr.span)
        return POISON
    if not 0 <= expr.index < len(type_.fields):
        message = f"a tuple of {quantity(len(type_.fields), 'field')} has no field {expr.index}"
        context.reporter.report("tuple-index", message, expr.span)
        return POISON
    return type_.fields[expr.index]


class Walk:
    """Visits expressions; recursive methods are generators for `trampoline`."""

    def __init__(self, context: Context) -> None:
        self.context = context
        context.constraint_solver = solve_constraint
        self._declared: dict[int, Type] = {}
        self._holds_function = SomePart(lambda part: isinstance(part, FuncType))
        self._constants: dict[tuple[np.dtype[Any], tuple[int, ...]], Type] = {}
        self._visitors: dict[type[Expr], Callable[[Any], Recursive[Type]]] = {
            Call: self._call,
            Function: self._function,
            Let: self._let,
            If: self._if,
            Match: self._match,
            Tuple: self._tuple,
            TupleGetItem: self._tuple_get_item,
            RefCreate: self._ref_create,
            RefRead: self._ref_read,
            RefWrite: self._ref_write,
        }

    def visit(self, user: Expr | None, place: int, expr: Expr) -> Recursive[Type]:
        """Return the type of the expression at a place of its user."""
        leaf = self._leaf(user, place, expr)
        if leaf is not None:
            return leaf
        type_: Type = yield self._visitors[type(expr)](expr)
        self.context.types[id(expr)] = type_
        return type_

    def _leaf(self, user: Expr | None, place: int, expr: Expr) -> Type | None:
        """Return the type of what has no operands or was visited before."""
        known = self.context.types.get(id(expr))
        if known is not None:
            return known
        match expr:
            case Var():
                type_ = self.context.var_type(expr)
                self.context.types[id(expr)] = type_
                return type_
            case Constant():
                type_ = self._constant_type(expr.data)
                self.context.types[id(expr)] = type_
                return type_
            case Call() if isinstance(expr.op, Operator) and all(map(self._is_visited, expr.args)):
                operands = [self.context.types[id(arg)] for arg in expr.args]
                type_ = operator_call(self.context, expr, operands)
                self.context.types[id(expr)] = type_
                return type_
            case GlobalVar() | Constructor():
                # A constructor is the same object everywhere: its place is its definition.
                own = expr.span if isinstance(expr, GlobalVar) else None
                span = own or (user.span if user else None) or expr.span
                scheme = self.context.value(self.context.scheme(expr), expr, span)
                self.context.slots[id(user), place] = scheme
                return scheme
            case Op():
                span = expr.span or (user.span if user else None)
                message = f"operator `{expr.name}` is used as a value"
                help = f"wrap it in a function: `fn (%x) {{ {expr.name}(%x) }}`"
                self.context.reporter.report("operator-value", message, span, help=help)
                return POISON
        return None

    def _is_visited(self, expr: Expr) -> bool:
        """Return True if the type of the expression is there, or could be had at once."""
        if id(expr) in self.context.types:
            return True
        return isinstance(expr, (Var, Constant)) and self._leaf(None, 0, expr) is not None

    def _constant_type(self, data: np.ndarray) -> Type:
        key = (data.dtype, data.shape)
        if key not in self._constants:
            self._constants[key] = self.context.shared(TensorType(data.shape, dtype_of(data.dtype)))
        return self._constants[key]

    # -- Functions and bindings -----------------------------------------------------------------

    def function(self, function: Function, name: str) -> Recursive[Type]:
        """Visit a global function; its signature stays open until `close` is called."""
        self.context.signature(function, name)
        type_: Type = yield self.visit(None, 0, function)
        return type_

    def _function(self, function: Function) -> Recursive[Type]:
        context = self.context
        signature = context.signature(function)
        context.has_local_params |= bool(function.type_params) and bool(context.inside)
        for param in function.params:
            context.types[id(param)] = context.var_type(param)
        if function.ret_type is not None:
            self._declare(function.body, prune(signature.ret_type))
        body = self._leaf(function, 0, function.body)
        if body is None:
            context.inside.add(id(signature))
            body = yield self.visit(function, 0, function.body)
            context.inside.discard(id(signature))
        message = "the body of the function is {actual}, but its result type is {expected}"
        notes = _declared("the result type", function.ret_type)
        reason = Reason(
            result_span(function.body) or function.span, message, body, signature.ret_type
        )
        reason.notes = notes
        context.solver.alias(signature.ret_type, body, reason)
        context.solver.queue.drain()
        return signature

    def _let(self, let: Let) -> Recursive[Type]:
        chain: list[Let] = []
        body: Expr = let
        while isinstance(body, Let) and id(body) not in self.context.types:
            yield self._binding(body)
            chain.append(body)
            body = body.body
        type_: Type = yield self.visit(chain[-1], 1, body)
        for binding in chain:
            self.context.types[id(binding)] = type_
        return type_

    def _binding(self, let: Let) -> Recursive[None]:
        context, var, value = self.context, let.var, let.value
        if isinstance(value, Function):
            signature = context.signature(value, f"`%{var.name}`")
            context.bind(var, signature)
            type_ = yield self.visit(let, 0, value)
            context.close(signature)
        else:
            if var.type_annotation is not None and id(value) not in context.types:
                self._declare(value, prune(context.var_type(var)))
            known = self._generic(let) or self._leaf(let, 0, value)
            type_ = known if known is not None else (yield self.visit(let, 0, value))
            context.bind(var, type_)
        declared = context.var_type(var)
        context.types[id(var)] = declared
        if var.type_annotation is not None:
            message = f"`%{var.name}` is declared as {{expected}}, but its value is {{actual}}"
            span = result_span(value) or let.span
            notes = _declared(f"`%{var.name}`", var.type_annotation)
            context.solver.flow(type_, declared, Reason(span, message, type_, declared, "", notes))

    def _declare(self, value: Expr, type_: Type) -> None:
        """Note what new references are declared to hold, or choices to be, if there are functions
        in it: of a let's value, a body or an argument, of the fields of a tuple, of what a new
        reference holds.

        What comes there may be more general than that; the reference or the choice may not.
        """
        if not isinstance(value, (RefCreate, If, Match, Let, Tuple)):
            return
        if not self._holds_function(self.context.solver.final(type_)):
            return
        # Places of several lets are never the same, so that each is looked at once.
        waiting: list[tuple[Expr, Type]] = [(value, type_)]
        while waiting:
            value, type_ = waiting.pop()
            type_ = prune(type_)
            while isinstance(value, Let):
                value = value.body
            if id(value) in self.context.types or id(value) in self._declared:
                continue
            if isinstance(value, (If, Match)):
                if isinstance(type_, FuncType) and type_.type_params:
                    self._declared[id(value)] = type_
                waiting.extend((side, type_) for side in children(value)[1:])
            elif isinstance(value, Tuple) and isinstance(type_, TupleType):
                waiting.extend(zip(value.fields, type_.fields))
            elif not isinstance(value, RefCreate) or not isinstance(type_, RefType):
                continue
            elif self._holds_function(self.context.solver.final(type_.value)):
                self._declared[id(value)] = type_.value
                waiting.append((value.value, type_.value))

    def _generic(self, let: Let) -> Type | None:
        """Return the type of a polymorphic global or constructor that gets a name, or None.

        Like a local function it keeps its parameters, so that each use has arguments of its own.
        """
        value = let.value
        if let.var.type_annotation is not None or not isinstance(value, (GlobalVar, Constructor)):
            return None
        scheme = self.context.scheme(value)
        if not isinstance(scheme, FuncType) or not scheme.type_params:
            return None
        if id(scheme) in self.context.open and not self.context.solver.rigid(scheme):
            return None
        self.context.slots[id(let), 0] = scheme
        return scheme

    def _call(self, call: Call) -> Recursive[Type]:
        context = self.context
        callee = call.op
        scheme: Type = POISON
        if isinstance(callee, (GlobalVar, Constructor, Intrinsic)):
            scheme = context.scheme(callee)
            if isinstance(callee, GlobalVar):
                context.slots[id(call), 0] = scheme
        elif not isinstance(callee, Op):
            scheme = yield self.visit(call, 0, callee)
            if isinstance(callee, Function):
                context.close(scheme)
        if isinstance(taken := prune(scheme), FuncType) and not taken.type_params:
            for arg, param in zip(call.args, taken.arg_types):
                self._declare(arg, param)
        args: list[Type] = []
        for place, arg in enumerate(call.args, 1):
            known = self._leaf(call, place, arg)
            args.append(known if known is not None else (yield self.visit(call, place, arg)))
        if isinstance(callee, Op) and not isinstance(callee, Intrinsic):
            return operator_call(context, call, args)
        return function_call(context, call, scheme, args)

    # -- Control --------------------------------------------------------------------------------

    def _if(self, expr: If) -> Recursive[Type]:
        cond = yield self.visit(expr, 0, expr.cond)
        wanted = scalar_type(BOOL)
        span = expr.span if isinstance(expr.cond, Var) else expr.cond.span or expr.span
        message = "the condition of `if` is {actual}, but must be {expected}"
        self.context.solver.flow(cond, wanted, Reason(span, message, cond, wanted, "bad-condition"))
        then = yield self.visit(expr, 1, expr.true_branch)
        other = yield self.visit(expr, 2, expr.false_branch)
        branches = [(expr.true_branch, then), (expr.false_branch, other)]
        return self._join(expr, branches, "the branches of `if`")

    def _match(self, expr: Match) -> Recursive[Type]:
        data = yield self.visit(expr, 0, expr.data)
        results: list[tuple[Expr, Type]] = []
        sound, rejected = True, set[int]()
        for place, clause in enumerate(expr.clauses, 1):
            sound &= bind_pattern(self.context, clause, data, rejected)
            results.append((clause.rhs, (yield self.visit(expr, place, clause.rhs))))
        if sound and expr.complete and not self._is_covered(expr):
            sound = False
        if not results:
            return POISON if not sound else new_hole(Owner("the type of the match", expr.span))
        return self._join(expr, results, "the clauses of `match`")

    def _is_covered(self, expr: Match) -> bool:
        missing = cases_soon_found(expr, self.context.module)
        if not missing:
            return True
        shown = ", ".join(f"`{pattern_text(p)}`" for p in missing[:MAX_SHOWN_CASES])
        more = " and more" if len(missing) > MAX_SHOWN_CASES else ""
        self.context.reporter.report(
            "incomplete-match",
            f"no clause of the match covers {shown}{more}",
            expr.span,
            help="add the clauses, or write `match?` if a miss may stop the run",
        )
        return False

    def _join(self, expr: Expr, branches: list[tuple[Expr, Type]], what: str) -> Type:
        """Return the least type that covers all; where dims disagree they become `?`."""
        solver = self.context.solver
        declared = self._declared.get(id(expr))
        if declared is not None:
            return self._join_declared(expr, branches, what, declared)
        first = prune(branches[0][1])
        if solver.rigid(first) and first is not POISON and not _has_instances(first):
            others = [prune(t) for _, t in branches[1:]]
            if all(
                solver.rigid(t) and solver.same_type(solver.final(first), solver.final(t))
                for t in others
            ):
                return first
        result = new_hole(Owner(f"the type of {what}", expr.span, derived=True))
        before: Type | None = None
        for branch, type_ in branches:
            message = f"{what} have different types: {{expected}} and {{actual}}"
            span = result_span(branch) or expr.span
            reason = Reason(span, message, type_, result if before is None else before)
            solver.flow(type_, result, reason)
            before = before or type_
        solver.queue.drain()
        return result

    def _join_declared(
        self, expr: Expr, branches: list[tuple[Expr, Type]], what: str, declared: Type
    ) -> Type:
        for branch, type_ in branches:
            message = f"{what} are {{actual}}, but must be {{expected}}"
            reason = Reason(result_span(branch) or expr.span, message, type_, declared)
            self.context.solver.flow(type_, declared, reason, Mode.STRICT)
        self.context.solver.queue.drain()
        return declared

    # -- Tuples and references ------------------------------------------------------------------

    def _tuple(self, expr: Tuple) -> Recursive[Type]:
        fields: list[Type] = []
        for place, field in enumerate(expr.fields):
            known = self._leaf(expr, place, field)
            fields.append(known if known is not None else (yield self.visit(expr, place, field)))
        return TupleType(tuple(fields)) if fields else UNIT

    def _tuple_get_item(self, expr: TupleGetItem) -> Recursive[Type]:
        type_ = prune((yield self.visit(expr, 0, expr.tuple_value)))
        if not isinstance(type_, Hole) or type_.state.poisoned:
            return project(self.context, expr, type_)
        out = new_hole(Owner("a field of a tuple", expr.span, derived=True))
        self.context.deferred.append(Projection(self.context, expr, type_, out))
        return out

    def _ref_create(self, expr: RefCreate) -> Recursive[Type]:
        value = prune((yield self.visit(expr, 0, expr.value)))
        declared = self._declared.get(id(expr))
        if declared is not None:
            message = "the reference is declared to hold {expected}, not {actual}"
            reason = Reason(expr.span, message, value, declared)
            self.context.solver.flow(value, declared, reason, Mode.STRICT)
            return RefType(declared)
        if isinstance(value, RefType) or (isinstance(value, TensorType) and not value.shape):
            return RefType(value)
        # The reference may be written to later, with dims that differ from the first ones.
        held = new_hole(Owner("the type of the reference", expr.span, derived=True))
        reason = Reason(expr.span, "the reference holds {expected}, not {actual}", value, held)
        self.context.solver.flow(value, held, reason)
        return RefType(held)

    def _ref_read(self, expr: RefRead) -> Recursive[Type]:
        ref = yield self.visit(expr, 0, expr.ref)
        return self._held(expr, ref, "read")

    def _ref_write(self, expr: RefWrite) -> Recursive[Type]:
        ref = yield self.visit(expr, 0, expr.ref)
        value = yield self.visit(expr, 1, expr.value)
        held = self._held(expr, ref, "written")
        message = "{actual} is written into a reference to {expected}"
        self.context.solver.flow(value, held, Reason(expr.span, message, value, held))
        return UNIT

    def _held(self, expr: Expr, ref: Type, verb: str) -> Type:
        ref = prune(ref)
        if isinstance(ref, RefType):
            return ref.value
        if ref is POISON:
            return POISON
        held = new_hole(Owner("the type of the reference", expr.span, derived=True))
        wanted = RefType(held)
        message = f"a value of type {{actual}} is {verb} as a reference"
        reason = Reason(expr.span, message, ref, wanted, "not-a-reference")
        self.context.solver.flow(ref, wanted, reason)
        return POISON if reason.reported else held


def _has_instances(type_: Type) -> bool:
    """Return True for polymorphic functions and tuples with such in them."""
    waiting, seen = [type_], set[int]()
    while waiting:
        part = prune(waiting.pop())
        if isinstance(part, FuncType) and part.type_params:
            return True
        if isinstance(part, TupleType) and id(part) not in seen:
            seen.add(id(part))
            waiting.extend(part.fields)
    return False


def result_span(expr: Expr) -> Span | None:
    """Return the place of the value that an expression ends in."""
    while isinstance(expr, Let):
        expr = expr.body
    return None if isinstance(expr, Var) else expr.span


def _declared(what: str, annotation: Type | None) -> tuple[Note, ...]:
    # The span of a type parameter is where it is introduced.
    if annotation is None or annotation.span is None or isinstance(annotation, TypeVar):
        return ()
    return (Note(f"{what} is declared here", annotation.span),)
