"""What of a counted loop can be computed for many steps before they run, and the code that does."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from relayvm.base.dims import ANY
from relayvm.base.shapes import shape_context
from relayvm.compiler.analysis.counted_loops import Counter, Recursion
from relayvm.compiler.analysis.traps import may_miss, may_trap
from relayvm.compiler.rewriting.build import call, constant, is_call, tensor, tuple_of, type_of
from relayvm.compiler.transforms.blocks import Binding, rebuild_block
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
    If,
    Tuple,
    TupleGetItem,
    Var,
)
from relayvm.ir.intrinsics import INTRINSICS, Intrinsic, item_of_call
from relayvm.ir.types import FuncType, TensorType, Type
from relayvm.ir.visit import LEAVES, children, with_children
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


class Rows:
    """The values of a counted loop that are known before its steps run, and how they are computed.

    `emitted` are the bindings that compute them, in order, from the first step `first` on to one
    before `end`. `lengths` bound the steps beside the limit of the loop.
    """

    def __init__(self, loop: Recursion, counter: Counter, end: Var) -> None:
        self.counter = loop.function.params[counter.place]
        self.end = end
        self.emitted: list[Binding] = []
        self.lengths: list[Expr] = []
        self.values: dict[Var, Value] = {}
        bound = {b.var: b.value for b in loop.prefix}
        self._limit = bound.get(counter.limit) if isinstance(counter.limit, Var) else None
        self._made: dict[Var, Expr] = {}
        self._own = set(loop.function.params)
        self._own.update(b.var for b in (*loop.prefix, *loop.body))
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
        if value is not None and binding.var.checked_type == binding.value.checked_type:
            self.values[binding.var] = value
        self._calm = self._calm and (is_plain(binding.value) or isinstance(binding.value, Function))

    def _value(self, value: Expr, name: Var | None) -> Value | None:
        """Return what a bound value is before the loop; `name` is its name where that is bound
        before the steps anyway.
        """
        operands = value.args if isinstance(value, Call) else children(value)
        known = [self._operand(o) for o in operands]
        if isinstance(value, Call) and isinstance(value.op, Intrinsic):
            return self._item(value, known, name)
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
        if expr is self.counter and expr not in self.values:
            self.values[expr] = Value(self._places(), True)
        if expr in self.values or expr in self._own:
            return self.values.get(expr)
        return Value(expr, False)  # It is captured.

    def _places(self) -> Expr:
        one = constant(1, tensor(self.counter).dtype)
        return self._emit(call("arange", (self.counter, self.end, one)))

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

    # -- Items of arrays ------------------------------------------------------------------------

    def _item(self, value: Call, known: Sequence[Value | None], name: Var | None) -> Value | None:
        """Return the items of an array that all steps share, each step its own one.

        An item that is missing ends the run at the step that asks for it, which is then the first.
        """
        if known[0] is None or known[0].varies:
            return None
        array = known[0].expr
        if value.op is INTRINSICS["array.length"]:
            return Value(name or self._emit(_with_operands(value, [array])), False)
        if value.op is not INTRINSICS["array.get"] or value.args[1] is not self.counter:
            return None
        if not self._calm:
            return None
        kind = item_of_call(value)
        shape = static_shape(kind)
        if shape is None or 0 in shape or kind != value.checked_type:
            return None
        if not self._is_length(array):
            length = Call(
                INTRINSICS["array.length"],
                (array,),
                type_args=value.type_args,
                span=value.span,
                checked_type=type_of(value.args[1]),
            )
            self.lengths.append(length)
        gather, function = _gatherer(value, array)
        self.emitted.append(Binding(gather, function, value.span))
        ends = (self.counter, self.end)
        collected = Call(gather, ends, span=value.span, checked_type=function.ret_type)
        return Value(self._emit(collected), True)

    def _is_length(self, array: Expr) -> bool:
        """Return True if the loop ends where an array does."""
        limit = self._limit
        return (
            isinstance(limit, Call)
            and limit.op is INTRINSICS["array.length"]
            and limit.args[0] is array
        )


def _gatherer(get: Call, array: Expr) -> tuple[Var, Function]:
    """Return a function that puts the items of an array from one place to another into one tensor,
    halves first: each item is copied once for each halving.
    """
    span, place = get.span, tensor(get.args[1])
    item_type = tensor(get)
    whole: Type = TensorType((ANY, *item_type.shape), item_type.dtype)
    function_type = FuncType((place, place), whole)
    own = Var("gather", span=span, checked_type=function_type)
    low, high = (Var(n, place, span=span, checked_type=place) for n in ("low", "high"))
    one, two = constant(1, place.dtype), constant(2, place.dtype)
    block = Block()
    after = block.bind(call("add", (low, one), span))
    several = block.bind(call("less", (after, high), span))
    inner = Block()
    size = inner.bind(call("subtract", (high, low), span))
    half = inner.bind(call("floor_divide", (size, two), span))
    middle = inner.bind(call("add", (low, half), span))
    lower = inner.bind(Call(own, (low, middle), span=span, checked_type=whole))
    upper = inner.bind(Call(own, (middle, high), span=span, checked_type=whole))
    pair = inner.bind(tuple_of((lower, upper)))
    both = inner.ending(call("concatenate", (pair,), span, axis=0))
    single = Block()
    item = single.bind(
        Call(get.op, (array, low), get.attrs, get.type_args, span=span, checked_type=item_type)
    )
    shape = static_shape(item_type)
    assert shape is not None
    alone = single.ending(call("reshape", (item,), span, newshape=(1, *shape)))
    choice = If(several, both, alone, span=span, checked_type=whole)
    function = Function(
        (low, high), block.ending(choice), whole, span=span, checked_type=function_type
    )
    return own, function


class Block:
    """Bindings in A-normal form, one behind the other."""

    def __init__(self) -> None:
        self.bindings: list[Binding] = []

    def bind(self, value: Expr) -> Var:
        """Return a new name for a value."""
        var = named("v", value)
        self.bindings.append(Binding(var, value, value.span))
        return var

    def ending(self, tail: Expr) -> Expr:
        """Return the bindings around their last expression."""
        return rebuild_block(self.bindings, tail)


def named(name: str, value: Expr) -> Var:
    """Return a new variable of the type of a value."""
    return Var(name, span=value.span, checked_type=type_of(value))


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
