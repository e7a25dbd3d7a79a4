"""What of a counted loop can be computed for many steps before they run, and the code that does."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from relayvm.base.dims import ANY
from relayvm.base.shapes import shape_context
from relayvm.compiler.analysis.counted_loops import Recursion
from relayvm.compiler.analysis.traps import may_miss, may_trap
from relayvm.compiler.rewriting.build import call, is_call, type_of
from relayvm.compiler.transforms.blocks import Binding, named
from relayvm.compiler.transforms.rows_of_calls import (
    Batch,
    batched,
    rows_of_product,
    static_shape,
)
from relayvm.ir.expr import (
    Call,
    Constant,
    Constructor,
    Expr,
    Function,
    Match,
    Tuple,
    TupleGetItem,
    Var,
)
from relayvm.ir.intrinsics import INTRINSICS, Intrinsic
from relayvm.ir.types import TensorType, Type
from relayvm.ir.visit import LEAVES, children, pattern_vars, with_children
from relayvm.ops.operator import Fusion, Operator

# A weight below this is read from the cache next to the core, where a step reads it for less than
# the extra calls of a loop of one step cost.
LEAST_WEIGHT_BYTES = 64 << 10
# With so many rows a contraction is bound by arithmetic: more rows at a time do not speed it up.
ENOUGH_ROWS = 16
# Operators that compute nothing which could fail, whatever the sizes of their operands are.
_TOTAL = frozenset({"transpose", "reshape", "expand_dims", "shape_of"})
_TOTAL_CLASSES = (Fusion.ELEMENTWISE, Fusion.BROADCAST, Fusion.CONTRACTION)


@dataclass(frozen=True, slots=True)
class Value:
    """What stands for a variable of the loop before it runs: a tensor with the steps as first axis,
    or the value that all steps share.

    `pays` tells that a contraction which is worth it was computed on the way.
    """

    expr: Expr
    varies: bool
    pays: bool = False


class Sources(Protocol):
    """Where the values come from that change from step to step."""

    def of(self, var: Var) -> Sequence[Binding] | None:
        """Return what computes a variable of the loop for all steps of a block."""

    def items(
        self, get: Call, array: Expr, opened: Match | None = None
    ) -> Sequence[Binding] | None:
        """Return what computes the items of an array for all steps of a block, or what a match with
        one clause takes out of them.
        """


class Rows:
    """The values of a counted loop that are known before its steps run, and how they are computed.

    `emitted` are the bindings that compute them, in order. `sources` give what changes from step to
    step for all steps: the place of a counter, an item of a list or of an array.
    """

    def __init__(self, loop: Recursion, sources: Sources) -> None:
        self.sources = sources
        self.emitted: list[Binding] = []
        self.values: dict[Var, Value] = {}
        # What a step needs no more once its rows are known, though it could trap by itself.
        self.idle: set[Var] = set()
        self._bound: dict[Var, Expr] = {}
        self._made: dict[Var, Expr] = {}
        self._own = set(loop.function.params)
        self._own.update(b.var for b in (*loop.prefix, *loop.body))
        if isinstance(loop.choice, Match):
            lhs = loop.choice.clauses[loop.again].lhs
            self._own.update(pattern_vars(lhs))
        for place in loop.fixed:
            param = loop.function.params[place]
            self.values[param] = Value(param, False)
        # Nothing that was bound so far could be noticed by anybody.
        self._calm = True
        for binding in loop.prefix:
            self._add(binding, in_scope=True)
        for binding in loop.body:
            self._add(binding, in_scope=False)

    def _add(self, binding: Binding, in_scope: bool) -> None:
        value = self._value(binding.value, binding.var if in_scope else None)
        self._bound[binding.var] = binding.value
        if value is not None and binding.var.checked_type == binding.value.checked_type:
            self.values[binding.var] = value
        self._calm = self._calm and _is_quiet(binding.value)

    def _value(self, value: Expr, name: Var | None) -> Value | None:
        """Return what a bound value is before the loop; `name` is its name where that is bound
        before the steps anyway.
        """
        if isinstance(value, Match):
            return self._opened(value)
        operands = value.args if isinstance(value, Call) else children(value)
        known = [self._operand(o) for o in operands]
        if isinstance(value, Call) and isinstance(value.op, Intrinsic):
            return self._of_array(value, known, name)
        if None in known or not isinstance(value, (Call, Tuple, TupleGetItem)):
            return None
        parts = [k for k in known if k is not None]
        if isinstance(value, Call) and not self._is_safe(value):
            return None
        if any(p.varies for p in parts):
            return self._batched(value, parts) if isinstance(value, Call) else None
        exprs = [p.expr for p in parts]
        pays = any(p.pays for p in parts) or is_worth_it(value, once=True)
        if name is not None:
            return Value(name, False)
        return Value(self._emit(_with_operands(value, exprs)), False, pays)

    def _operand(self, expr: Expr) -> Value | None:
        if isinstance(expr, Constant):
            return Value(expr, False)
        if not isinstance(expr, Var):
            return None
        if expr not in self.values and expr in self._own:
            lines = self.sources.of(expr)
            if lines is None:
                return None
            self.values[expr] = Value(self._emit_all(lines), True)
        return self.values.get(expr) or Value(expr, False)  # It may be captured.

    def _emit_all(self, lines: Sequence[Binding]) -> Expr:
        self.emitted += lines
        return lines[-1].var

    def _is_safe(self, value: Call) -> bool:
        """Return True if a call has a result in all steps if it has one in the first."""
        op = value.op
        if not isinstance(op, Operator) or op.has_effect or may_miss(value):
            return False
        if not may_trap(value):
            return True
        kinds = [type_of(a) for a in value.args]
        with shape_context() as context:
            op.result_type(kinds, value.attrs)
        if context.checks:
            return False
        if op.name == "take":
            # An axis without elements ends a run at the first step that takes of it.
            return self._calm
        return op.name in _TOTAL or op.fusion in _TOTAL_CLASSES

    def _batched(self, value: Call, parts: Sequence[Value]) -> Value | None:
        done = len(self.emitted)
        exprs, varies = [p.expr for p in parts], [p.varies for p in parts]
        result = batched(Batch(value, exprs, varies, self._emit))
        if result is None:
            del self.emitted[done:]
            return None
        return Value(result, True, any(p.pays for p in parts) or is_worth_it(value))

    def _emit(self, value: Expr) -> Expr:
        """Name a value that is computed before the steps."""
        source = value
        while is_call(source, "reshape") and isinstance(source, Call):
            inner = self._made.get(source.args[0]) if isinstance(source.args[0], Var) else None
            if inner is None or not is_call(inner, "reshape"):
                break
            assert isinstance(inner, Call)
            source = call("reshape", inner.args, source.span, **source.attrs)
        if is_call(source, "reshape") and isinstance(source, Call):
            same = static_shape(type_of(source), 1)
            if same is not None and same == static_shape(type_of(source.args[0]), 1):
                return source.args[0]
        var = named("rows", source)
        self._made[var] = source
        self.emitted.append(Binding(var, source, source.span))
        return var

    def shared(self, expr: Expr) -> Expr | None:
        """Return an operand of the loop's test if all steps share it."""
        value = self._operand(expr)
        return None if value is None or value.varies else expr

    def is_shared(self, expr: Expr) -> bool:
        """Return True for an operand of the loop's test that is the same in all steps."""
        value = self._operand(expr)
        return value is not None and not value.varies

    def _of_array(
        self, value: Call, known: Sequence[Value | None], name: Var | None
    ) -> Value | None:
        """Return what an operation on an array that all steps share gives: its length, or the items
        of which each step has its own.

        An item that is missing ends the run at the step that asks for it, which is then the first.
        """
        if known[0] is None or known[0].varies:
            return None
        array = known[0].expr
        if value.op is INTRINSICS["array.length"]:
            return Value(name or self._emit(_with_operands(value, [array])), False)
        if value.op is not INTRINSICS["array.get"] or not self._calm:
            return None
        lines = self.sources.items(value, array)
        return None if lines is None else Value(self._emit_all(lines), True)

    def _opened(self, value: Match) -> Value | None:
        """Return what a match takes out of items of an array."""
        get = self._bound.get(value.data) if isinstance(value.data, Var) else None
        if not self._calm or not _opens(value) or not isinstance(get, Call):
            return None
        if get.op is not INTRINSICS["array.get"]:
            return None
        array = self._operand(get.args[0])
        if array is None or array.varies:
            return None
        lines = self.sources.items(get, array.expr, value)
        if lines is None:
            return None
        assert isinstance(value.data, Var)
        self.idle.add(value.data)
        return Value(self._emit_all(lines), True)


def _is_quiet(value: Expr) -> bool:
    """Return True for a value of which nothing but a trap can be noticed, and that ends."""
    return is_plain(value) or isinstance(value, Function) or _opens(value)


def _opens(value: Expr) -> bool:
    """Return True for a match that gives a field of the one constructor that it knows."""
    if not isinstance(value, Match) or len(value.clauses) != 1:
        return False
    return value.clauses[0].rhs in tuple(pattern_vars(value.clauses[0].lhs))


def is_plain(value: Expr) -> bool:
    """Return True for a value that may be computed once more: nobody notices, unless it traps."""
    if isinstance(value, Call):
        quiet = not (isinstance(value.op, Operator) and value.op.has_effect)
        return quiet and isinstance(value.op, (Operator, Intrinsic, Constructor))
    return isinstance(value, (Tuple, TupleGetItem, *LEAVES))


def is_worth_it(value: Expr, once: bool = False) -> bool:
    """Return True for a contraction that gains by being computed for many steps at a time.

    That is one whose weight takes time to read, for few rows; or, computed `once` instead of in
    each step, for any number.
    """
    if not isinstance(value, Call) or not isinstance(value.op, Operator):
        return False
    if value.op.fusion is not Fusion.CONTRACTION:
        return False
    shared = value.args if once else value.args[1:]
    if sum(_least_bytes(type_of(a)) for a in shared) < LEAST_WEIGHT_BYTES:
        return False
    if once:
        return True
    rows = rows_of_product(value)
    return rows is not None and rows < ENOUGH_ROWS


def row_bytes(kind: Type | None) -> int:
    """Return what one step takes of a tensor of all steps; 0 for other values."""
    if not isinstance(kind, TensorType) or ANY not in kind.shape:
        return 0
    return _least_bytes(kind)


def _least_bytes(kind: Type) -> int:
    if not isinstance(kind, TensorType):
        return 0
    return math.prod(d for d in kind.shape if isinstance(d, int)) * kind.dtype.itemsize_bytes


def _with_operands(value: Expr, operands: Sequence[Expr]) -> Expr:
    if isinstance(value, Call):
        return replace(value, args=tuple(operands))
    return with_children(value, tuple(operands))
