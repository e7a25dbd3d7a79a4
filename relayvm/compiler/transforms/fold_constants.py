"""Constant folding: what depends on constants alone is evaluated now, within a budget."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from relayvm.base.diagnostics import RelayError
from relayvm.compiler.analysis.purity import Purity
from relayvm.compiler.analysis.scopes import is_primitive
from relayvm.compiler.evaluate import Budget, BudgetExceeded, Evaluator
from relayvm.compiler.host.values import DataValue
from relayvm.compiler.transforms.declared_sizes import promises_more
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
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    RefCreate,
    Tuple,
    TupleGetItem,
    Var,
)
from relayvm.ir.module import Module
from relayvm.ir.types import TensorType, TupleType, Type
from relayvm.ir.visit import post_order, rebuild
from relayvm.kernels.scalar_ops import cast_array

CALL_OPERATIONS = 1_000_000
MODULE_OPERATIONS = 3_000_000
RESULT_BYTES = 16 << 20
LARGEST_GROWN_BYTES = 4096
LARGEST_DATA_FIELDS = 1000

# Operators that look at the type of their operand alone, where that says all.
SIZES = frozenset({"shape_of", "ndarray_size"})


def fold_constants(module: Module) -> Module:
    """Evaluate closed calls and decide known branches: `add(1f, 2f)` -> `3f`.

    Calls of operators, of functions of the module and of constructors fold where all arguments are
    constants. A call is left alone if it traps, takes more than a million element operations, or
    gives more than 16 MiB, a function or a reference. Operators that make much out of little
    (`zeros`) are left to run time. Sizes fold where types tell them. Linear, beside the evaluation.
    """
    folder = _Folder(module)
    functions: dict[str, Function] = {}
    for name, function in module.functions.items():
        functions[name] = function if is_primitive(function) else folder.fold(function)
    return module.with_functions(functions)


class _Folder:
    def __init__(self, module: Module) -> None:
        self.module = module
        self.evaluator = Evaluator(module)
        self.purity = Purity(module)
        self.left = MODULE_OPERATIONS
        self.has_refs = any(
            isinstance(node, RefCreate)
            for function in module.functions.values()
            for node in post_order(function)
        )
        self.values: dict[int, list[Var]] = {}
        self.known: dict[int, Expr] = {}

    def fold(self, function: Function) -> Function:
        self.values, self.known = {}, {}
        for node in post_order(function):
            if isinstance(node, Let):
                self.values.setdefault(id(node.value), []).append(node.var)
        result = rebuild(function, self.step)
        assert isinstance(result, Function)
        return result

    def step(self, before: Expr, after: Expr) -> Expr:
        new = self.simplify(after)
        for var in self.values.get(id(before), ()):
            if not _is_known(new) or promises_more(var, new):
                continue
            if not self.would_change_type(var.type_annotation, new):
                self.known[id(var)] = new
        return new

    def would_change_type(self, declared: Type | None, value: Expr) -> bool:
        """Return True if a narrower type could show through an invariant reference type."""
        if not self.has_refs or declared is None:
            return False
        return declared != value.checked_type

    def simplify(self, node: Expr) -> Expr:
        match node:
            case Var():
                known = self.known.get(id(node))
                return known if isinstance(known, Constant) else node
            case TupleGetItem():
                return self.project(node)
            case If():
                cond = node.cond
                if isinstance(cond, Constant):
                    return node.true_branch if bool(cond.data) else node.false_branch
            case Let():
                done = isinstance(self.known.get(id(node.var)), Constant)
                return node.body if done else node
            case Match():
                return self.choose(node)
            case Call(op=Op()):
                return self.call_operator(node)
            case Call(op=GlobalVar()):
                closed = all(_is_constant(self.resolve(a)) for a in node.args)
                return self.evaluate(node) if closed else node
        return node

    def resolve(self, node: Expr) -> Expr:
        """Return what is known of an operand: for a variable, the value it is bound to."""
        return self.known.get(id(node), node) if isinstance(node, Var) else node

    def project(self, node: TupleGetItem) -> Expr:
        value = self.resolve(node.tuple_value)
        if isinstance(value, Tuple):
            chosen = value.fields[node.index]
            others = (f for i, f in enumerate(value.fields) if i != node.index)
            if isinstance(node.tuple_value, Var):
                return chosen if isinstance(chosen, (Constant, Var)) else node
            if all(self.purity.is_pure(f) for f in others):
                return chosen
        return node

    def call_operator(self, node: Call) -> Expr:
        args = [self.resolve(a) for a in node.args]
        if isinstance(node.op, Op) and node.op.name in SIZES and self.purity.is_removable(args[0]):
            return _sizes(node, args[0].checked_type) or node
        if not args or not all(_is_constant(a) for a in args):
            return node
        return self.evaluate(node)

    def evaluate(self, node: Call) -> Expr:
        """Return the value of a closed call as an expression, or the call if there is none."""
        closed = Call(
            node.op,
            tuple(self.resolve(a) for a in node.args),
            node.attrs,
            node.type_args,
            span=node.span,
            checked_type=node.checked_type,
        )
        # What would be too large to keep is not computed in the first place.
        if isinstance(node.op, Op) and self.grows(closed, _type_bytes(node.checked_type)):
            return node
        budget = Budget(min(CALL_OPERATIONS, self.left), RESULT_BYTES)
        granted = budget.operations or 0
        self.evaluator.budget = budget
        try:
            value = self.evaluator.evaluate(closed)
        except (RelayError, BudgetExceeded):
            return node
        finally:
            self.left -= granted - max(0, budget.operations or 0)
        if isinstance(node.op, Op) and self.grows(closed, _bytes(value)):
            return node
        folded = _to_expr(value, node, self.module)
        if folded is None or (self.has_refs and not _same_dims(folded, node.checked_type)):
            return node
        return folded

    def grows(self, call: Call, size: int) -> bool:
        """Return True if keeping a result of so many bytes costs much more than the operands."""
        given = sum(_constant_bytes(a) for a in call.args)
        return size > LARGEST_GROWN_BYTES and size > 4 * given

    def choose(self, node: Match) -> Expr:
        """Return the right side of the clause that is known to fit, with its variables bound."""
        data = self.resolve(node.data)
        if data is node.data and not self.purity.is_pure(data):
            return node
        for clause in node.clauses:
            bindings: list[tuple[Var, Expr]] = []
            fits = self.fits(clause.lhs, data, bindings)
            if fits is None:
                return node
            if fits:
                body = clause.rhs
                for var, value in reversed(bindings):
                    body = Let(var, value, body, span=clause.span, checked_type=body.checked_type)
                return body
        return node

    def fits(self, pattern: Pattern, data: Expr, bindings: list[tuple[Var, Expr]]) -> bool | None:
        """Return whether `pattern` fits `data`; None if that is not known."""
        waiting = [(pattern, data)]
        while waiting:
            pattern, data = waiting.pop()
            match pattern:
                case PatternVar():
                    bindings.append((pattern.var, data))
                    continue
                case PatternTuple():
                    parts = data.fields if isinstance(data, Tuple) else None
                case PatternConstructor():
                    if not isinstance(data, Call) or not isinstance(data.op, Constructor):
                        return None
                    if data.op.index != pattern.constructor.index:
                        return False
                    parts = data.args
                case _:
                    continue
            if parts is None:
                return None
            below = [(p, self.resolve(d)) for p, d in zip(pattern.patterns, parts)]
            waiting.extend(reversed(below))
        return True


def _sizes(node: Call, operand: Type | None) -> Constant | None:
    """Return what `shape_of` or `ndarray_size` gives of an operand whose sizes are known."""
    assert isinstance(node.op, Op)
    if not isinstance(operand, TensorType) or not isinstance(node.checked_type, TensorType):
        return None
    dims = [d for d in operand.shape if isinstance(d, int)]
    if len(dims) < operand.rank:
        return None
    dtype = node.checked_type.dtype
    sizes = np.array(dims if node.op.name == "shape_of" else math.prod(dims), np.int64)
    return Constant(cast_array(sizes, dtype), span=node.span, checked_type=node.checked_type)


def _is_constant(expr: Expr) -> bool:
    """Return True for constants, and tuples and data built of constants."""
    pending = [expr]
    while pending:
        node = pending.pop()
        if isinstance(node, Tuple):
            pending.extend(node.fields)
        elif isinstance(node, Call) and isinstance(node.op, Constructor):
            pending.extend(node.args)
        elif not isinstance(node, Constant):
            return False
    return True


def _is_known(expr: Expr) -> bool:
    """Return True for constants and for tuples and data whose fields are atoms."""
    if isinstance(expr, Tuple):
        return all(isinstance(f, (Constant, Var)) for f in expr.fields)
    if isinstance(expr, Call) and isinstance(expr.op, Constructor):
        return all(isinstance(a, (Constant, Var)) for a in expr.args)
    return isinstance(expr, Constant)


def _bytes(value: Any) -> int:
    if isinstance(value, tuple):
        return sum(_bytes(v) for v in value)
    return value.nbytes if isinstance(value, np.ndarray) else 0


def _type_bytes(type_: Type | None) -> int:
    """Return the size of the values of a type, counting unknown sizes as nothing."""
    if isinstance(type_, TupleType):
        return sum(map(_type_bytes, type_.fields))
    if not isinstance(type_, TensorType) or not all(isinstance(d, int) for d in type_.shape):
        return 0
    return math.prod(d for d in type_.shape if isinstance(d, int)) * type_.dtype.itemsize_bytes


def _constant_bytes(expr: Expr) -> int:
    if isinstance(expr, Tuple):
        return sum(_constant_bytes(f) for f in expr.fields)
    return expr.data.nbytes if isinstance(expr, Constant) else 0


def _same_dims(folded: Expr, type_: Type | None) -> bool:
    if isinstance(folded, Constant) and isinstance(type_, TensorType):
        return type_.shape == folded.data.shape
    return not isinstance(folded, Tuple)


@dataclass(slots=True)
class _Pending:
    """A tuple or data value whose fields are being turned into expressions."""

    value: Any
    fields: tuple[Any, ...]
    done: list[Expr] = field(default_factory=list)


def _to_expr(value: Any, call: Call, module: Module) -> Expr | None:
    """Return an expression for a value; None if it holds a function or reference, or is too big."""
    stack = [_Pending(None, (value,))]
    count = 0
    while True:
        top = stack[-1]
        if len(top.done) < len(top.fields):
            part = top.fields[len(top.done)]
            count += 1
            if count > LARGEST_DATA_FIELDS:
                return None
            if isinstance(part, np.ndarray):
                type_ = call.checked_type if part is value else None
                top.done.append(Constant(part, span=call.span, checked_type=type_))
            elif isinstance(part, tuple):
                stack.append(_Pending(part, part))
            elif isinstance(part, DataValue):
                stack.append(_Pending(part, part.fields))
            else:
                return None
            continue
        stack.pop()
        if not stack:
            return top.done[0]
        if isinstance(top.value, tuple):
            stack[-1].done.append(Tuple(tuple(top.done), span=call.span))
        else:
            constructor = module.constructor(top.value.type_name, top.value.constructor)
            stack[-1].done.append(Call(constructor, tuple(top.done), span=call.span))
