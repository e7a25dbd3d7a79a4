"""How loops go from step to step, by a counter or along a list, and how many steps at once their
values are collected.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from relayvm.base.dims import ANY
from relayvm.base.dtypes import INT32
from relayvm.compiler.analysis.counted_loops import Counter, Recursion, Walk, is_flat
from relayvm.compiler.rewriting.build import call, constant, field, tensor, tuple_of, type_of
from relayvm.compiler.transforms.blocks import Binding, Block
from relayvm.compiler.transforms.rows_of_calls import static_shape
from relayvm.ir.expr import (
    Call,
    Clause,
    Constructor,
    Expr,
    Function,
    If,
    Match,
    PatternConstructor,
    PatternVar,
    PatternWildcard,
    Var,
)
from relayvm.ir.intrinsics import INTRINSICS
from relayvm.ir.module import TypeData
from relayvm.ir.types import FuncType, TensorType, TupleType, Type
from relayvm.ir.visit import fresh_binders

Fresh = Mapping[Var, Var]


class Steps(Protocol):
    """What tells a loop by a counter and one along a list apart.

    `end` is the variable that says where a block ends, `more` what the loop over a block takes
    beside the parameters of the loop, each with its first value.
    """

    end: Var
    more: Sequence[tuple[Var, Expr]]

    def of(self, var: Var) -> Sequence[Binding] | None:
        """Return what computes a variable of the loop for all steps of a block."""

    def items(
        self, get: Call, array: Expr, opened: Match | None = None
    ) -> Sequence[Binding] | None:
        """Return what computes the items of an array for all steps of a block, or what a match with
        one clause takes out of them.
        """

    def bind_end(self, block: Block, steps: int) -> None:
        """Bind `end` for a block of so many steps or fewer."""

    def place(self, fresh: Fresh) -> Expr:
        """Return which row is that of a step."""

    def next(self, block: Block) -> list[Expr]:
        """Return the next values of `more`."""

    def choice(self, fresh: Fresh, on: Expr, out: Expr) -> Expr:
        """Return `on` for a step of the block, and else `out`, which is a call."""


class CountedSteps:
    """Steps by a counter."""

    more: Sequence[tuple[Var, Expr]] = ()

    def __init__(self, loop: Recursion, counter: Counter, types: Mapping[str, TypeData]) -> None:
        self.loop, self.types = loop, types
        self.start = loop.function.params[counter.place]
        self.limit = counter.limit
        self.inclusive = counter.inclusive
        self.span = loop.choice.span
        self.kind = tensor(self.start)
        self.end = Var("end", span=self.span, checked_type=self.kind)
        self._lengths: list[Expr] = []
        self._counts: list[tuple[Function, Var]] = []

    def of(self, var: Var) -> Sequence[Binding] | None:
        """Return the counter in all steps."""
        if var is not self.start:
            return None
        block = Block()
        one = constant(1, self.kind.dtype)
        block.bind(call("arange", (self.start, self.end, one), self.span), "places")
        return block.bindings

    def items(
        self, get: Call, array: Expr, opened: Match | None = None
    ) -> Sequence[Binding] | None:
        """Return the items at the places of the counter; a block ends where the array does, or
        before an item that is of another constructor than the match knows.
        """
        kind = type_of(opened or get)
        if get.args[1] is not self.start or not _is_row(kind):
            return None
        if opened is not None:
            others = self._others(opened)
            if others is None:
                return None
            self._counts.append(_count_array(get, array, opened, others))
        if not self._is_whole(array):
            op = INTRINSICS["array.length"]
            number = type_of(self.start)
            length = Call(op, (array,), type_args=get.type_args, span=get.span, checked_type=number)
            self._lengths.append(length)
        function, name = _gather_array(get, array, opened)
        block = Block()
        block.bindings.append(Binding(name, function, get.span))
        kind = function.ret_type or kind
        collected = Call(name, (self.start, self.end), span=get.span, checked_type=kind)
        block.bind(collected, "items")
        return block.bindings

    def _others(self, opened: Match) -> list[Constructor] | None:
        """Return the constructors for which a match has no clause."""
        lhs = opened.clauses[0].lhs
        if not isinstance(lhs, PatternConstructor) or not is_flat(lhs):
            return None
        data = self.types.get(lhs.constructor.belong_to.name)
        if data is None:
            return None
        return [c for c in data.constructors if c.name != lhs.constructor.name]

    def _is_whole(self, array: Expr) -> bool:
        """Return True if the loop ends where an array does, and takes no step beyond."""
        if self.inclusive:
            return False
        for binding in self.loop.prefix:
            if binding.var is self.limit and isinstance(binding.value, Call):
                counted = binding.value.op is INTRINSICS["array.length"]
                return counted and binding.value.args[0] is array
        return False

    def bind_end(self, block: Block, steps: int) -> None:
        """Bind the end; no sum on the way is above the greatest number."""
        dtype, limit = self.kind.dtype, self.limit
        most = int(np.iinfo(dtype.numpy).max)
        steps = min(steps, most // 2)

        def bound(name: str, a: Expr, b: Expr | int) -> Var:
            other = constant(b, dtype) if isinstance(b, int) else b
            return block.bind(call(name, (a, other), self.span))

        stop = bound("add", bound("minimum", self.start, most - steps), steps)
        if self.inclusive:
            limit = bound("add", bound("minimum", limit, most - 1), 1)
        for length in self._lengths:
            stop = bound("minimum", stop, block.bind(length))
        last: Expr = call("minimum", (limit, stop), self.span)
        for function, name in self._counts:
            args = (self.start, block.bind(last))
            block.bindings.append(Binding(name, function, self.span))
            last = Call(name, args, span=self.span, checked_type=self.kind)
        if self._lengths or self._counts:
            # The step for which there is no item runs, to end the run as it does.
            last = call("maximum", (block.bind(last), bound("add", self.start, 1)), self.span)
        block.bindings.append(Binding(self.end, last, self.span))

    def place(self, fresh: Fresh) -> Expr:
        """Return how far the counter is behind the first step of the block."""
        return call("subtract", (fresh[self.start], self.start), self.span)

    def next(self, block: Block) -> list[Expr]:
        """Return nothing: the loop counts by itself."""
        return []

    def choice(self, fresh: Fresh, on: Expr, out: Expr) -> Expr:
        """Return a test of the counter."""
        return _while_less(fresh[self.start], self.end, on, out)


class ListSteps:
    """Steps along a list."""

    def __init__(self, loop: Recursion, walk: Walk) -> None:
        assert isinstance(loop.choice, Match)
        self.loop, self.walk = loop, walk
        self.list = loop.function.params[walk.place]
        self.clause = loop.choice.clauses[loop.again]
        self.span = loop.choice.span
        number = TensorType((), INT32)
        self.end = Var("end", span=self.span, checked_type=number)
        self.number = Var("k", number, span=self.span, checked_type=number)
        self.more: Sequence[tuple[Var, Expr]] = ((self.number, constant(0, INT32)),)

    def of(self, var: Var) -> Sequence[Binding] | None:
        """Return the items of the list that a variable of its pattern is."""
        if var not in self.walk.fields or var is self.walk.rest or not _is_row(type_of(var)):
            return None
        function, name = self._gather(var)
        block = Block()
        block.bindings.append(Binding(name, function, var.span))
        kind = function.ret_type
        assert isinstance(kind, TupleType)
        both = block.bind(Call(name, (self.list, self.end), span=self.span, checked_type=kind))
        block.bind(field(both, 0, self.span), "items")
        return block.bindings

    def items(
        self, get: Call, array: Expr, opened: Match | None = None
    ) -> Sequence[Binding] | None:
        """Return nothing: no step says its place."""
        return None

    def bind_end(self, block: Block, steps: int) -> None:
        """Count the items, at most so many."""
        span, kind, number = self.span, type_of(self.list), type_of(self.end)
        count_type = FuncType((kind, number), number)
        name = Var("count", span=span, checked_type=count_type)
        items = Var("items", kind, span=span, checked_type=kind)
        found = Var("found", number, span=span, checked_type=number)
        after = Block()
        rest = _fresh(self.walk.rest)
        one = after.bind(call("add", (found, constant(1, INT32)), span))
        again = Call(name, (rest, one), span=span, checked_type=number)
        most = constant(min(steps, int(np.iinfo(np.int32).max)), INT32)
        more = _while_less(found, most, after.ending(again), found)
        body = self._match(items, {self.walk.rest: rest}, more, found)
        function = Function((items, found), body, number, span=span, checked_type=count_type)
        block.bindings.append(Binding(name, function, span))
        counted = Call(name, (self.list, constant(0, INT32)), span=span, checked_type=number)
        block.bindings.append(Binding(self.end, counted, span))

    def place(self, fresh: Fresh) -> Expr:
        """Return how many steps of the block came before."""
        return self.number

    def next(self, block: Block) -> list[Expr]:
        """Count the steps of the block."""
        return [block.bind(call("add", (self.number, constant(1, INT32)), self.span))]

    def choice(self, fresh: Fresh, on: Expr, out: Expr) -> Expr:
        """Return the match of the loop, with a test of how many steps there were."""
        more = _while_less(self.number, self.end, on, out)
        names = {v: v for v in self.walk.fields if v is not None}
        return self._match(fresh[self.list], names, more, out)

    def _match(
        self, data: Var, names: Mapping[Var, Var], on: Expr, out: Expr, complete: bool = True
    ) -> Match:
        patterns = tuple(
            PatternVar(names[v]) if v is not None and v in names else PatternWildcard()
            for v in self.walk.fields
        )
        clauses = [Clause(PatternConstructor(self.walk.constructor, patterns), on)]
        if complete:
            for other in self.walk.others:
                clauses.append(Clause(_any_of(other), _again(out)))
        assert isinstance(self.loop.choice, Match)
        complete = complete and self.loop.choice.complete
        kind = on.checked_type
        return Match(data, tuple(clauses), complete, span=self.span, checked_type=kind)

    def _gather(self, var: Var) -> tuple[Function, Var]:
        """Return a function that puts the first items of a list into one tensor, halves first, and
        gives the rest of the list.
        """
        span, kind, number = self.span, type_of(self.list), type_of(self.end)
        item = tensor(var)
        whole = TensorType((ANY, *item.shape), item.dtype)
        result = TupleType((whole, kind))
        function_type = FuncType((kind, number), result)
        name = Var("gather", span=span, checked_type=function_type)
        items = Var("items", kind, span=span, checked_type=kind)
        count = Var("count", number, span=span, checked_type=number)

        several = Block()
        half = several.bind(call("floor_divide", (count, constant(2, INT32)), span))
        first = several.bind(Call(name, (items, half), span=span, checked_type=result))
        behind = several.bind(field(first, 1, span))
        left = several.bind(call("subtract", (count, half), span))
        second = several.bind(Call(name, (behind, left), span=span, checked_type=result))
        parts = [several.bind(field(f, 0, span)) for f in (first, second)]
        joined = several.bind(_joined(several, parts))
        rest = several.bind(field(second, 1, span))

        single = Block()
        own = {v: _fresh(v) for v in (var, self.walk.rest)}
        row = single.bind(_as_row(own[var]))
        alone = _pair(row, own[self.walk.rest], result)
        one = self._match(items, own, single.ending(alone), alone, complete=False)
        more = several.ending(_pair(joined, rest, result))
        body = _while_less(constant(1, INT32), count, more, one)
        function = Function((items, count), body, result, span=span, checked_type=function_type)
        return function, name


def _gather_array(get: Call, array: Expr, opened: Match | None) -> tuple[Function, Var]:
    """Return a function that puts the items of an array from one place to another, or what a match
    takes out of them, into one tensor, halves first: an item is copied once for each halving.
    """
    span, place, item = get.span, tensor(get.args[1]), tensor(opened or get)
    whole: Type = TensorType((ANY, *item.shape), item.dtype)
    function_type = FuncType((place, place), whole)
    name = Var("gather", span=span, checked_type=function_type)
    low, high = (Var(n, place, span=span, checked_type=place) for n in ("low", "high"))

    several = Block()
    size = several.bind(call("subtract", (high, low), span))
    half = several.bind(call("floor_divide", (size, constant(2, place.dtype)), span))
    middle = several.bind(call("add", (low, half), span))
    ends = ((low, middle), (middle, high))
    parts = [several.bind(Call(name, e, span=span, checked_type=whole)) for e in ends]
    joined = several.ending(_joined(several, parts))

    single = Block()
    got = single.bind(replace(get, args=(array, low)))
    if opened is not None:
        copy = fresh_binders(opened)
        assert isinstance(copy, Match)
        got = single.bind(replace(copy, data=got))
    alone = single.ending(_as_row(got))

    head = Block()
    after = head.bind(call("add", (low, constant(1, place.dtype)), span))
    body = head.ending(_while_less(after, high, joined, alone, whole))
    function = Function((low, high), body, whole, span=span, checked_type=function_type)
    return function, name


def _count_array(
    get: Call, array: Expr, opened: Match, others: Sequence[Constructor]
) -> tuple[Function, Var]:
    """Return a function that gives the first place, from one on and before another, of an item for
    which a match has no clause; the other place if there is none.
    """
    span, place = get.span, tensor(get.args[1])
    function_type = FuncType((place, place), place)
    name = Var("count", span=span, checked_type=function_type)
    low, high = (Var(n, place, span=span, checked_type=place) for n in ("low", "high"))
    on = Block()
    item = on.bind(replace(get, args=(array, low)))
    lhs = opened.clauses[0].lhs
    assert isinstance(lhs, PatternConstructor)
    after = Block()
    following = after.bind(call("add", (low, constant(1, place.dtype)), span))
    again = after.ending(Call(name, (following, high), span=span, checked_type=place))
    clauses = [Clause(_any_of(lhs.constructor), again)]
    clauses += [Clause(_any_of(other), low) for other in others]
    known = Match(item, tuple(clauses), span=span, checked_type=place)
    body = _while_less(low, high, on.ending(known), high)
    return Function((low, high), body, place, span=span, checked_type=function_type), name


def _is_row(kind: Type) -> bool:
    shape = static_shape(kind)
    return shape is not None and 0 not in shape


def _as_row(item: Var) -> Expr:
    shape = static_shape(type_of(item))
    assert shape is not None
    return call("reshape", (item,), item.span, newshape=(1, *shape))


def _joined(block: Block, parts: Sequence[Expr]) -> Expr:
    return call("concatenate", (block.bind(tuple_of(parts)),), parts[0].span, axis=0)


def _pair(rows: Expr, rest: Expr, kind: TupleType) -> Expr:
    return replace(tuple_of((rows, rest)), checked_type=kind)


def _while_less(a: Expr, b: Expr, on: Expr, out: Expr, kind: Type | None = None) -> Expr:
    block = Block()
    test = block.bind(call("less", (a, b), out.span))
    kind = kind or on.checked_type
    return block.ending(If(test, on, out, span=out.span, checked_type=kind))


def _any_of(constructor: Constructor) -> PatternConstructor:
    return PatternConstructor(constructor, tuple(PatternWildcard() for _ in constructor.inputs))


def _fresh(var: Var) -> Var:
    return Var(var.name, var.type_annotation, span=var.span, checked_type=var.checked_type)


def _again(out: Expr) -> Expr:
    """Return a call or variable once more: no node stands in two places."""
    if not isinstance(out, Call):
        return out
    return Call(
        out.op, out.args, out.attrs, out.type_args, span=out.span, checked_type=out.checked_type
    )
