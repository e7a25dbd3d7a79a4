"""Contractions of counted loops that are known before the steps run, computed for many at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from relayvm.compiler.analysis.counted_loops import (
    Recursion,
    find_counter,
    find_recursion,
    find_walk,
    is_name,
)
from relayvm.compiler.analysis.scopes import is_primitive
from relayvm.compiler.rewriting.build import call, type_of
from relayvm.compiler.transforms.blocks import Binding, Block, rebuild_block, rewrite_blocks
from relayvm.compiler.transforms.loop_rows import Rows, Value, is_plain, row_bytes
from relayvm.compiler.transforms.loop_steps import CountedSteps, ListSteps, Steps
from relayvm.ir.expr import (
    Call,
    Expr,
    Function,
    GlobalVar,
    If,
    Match,
    PatternConstructor,
    PatternWildcard,
    Var,
)
from relayvm.ir.module import Module, TypeData
from relayvm.ir.types import FuncType, Type
from relayvm.ir.visit import free_vars, rebuild, substitute

BLOCK_BYTES = 64 << 20


def hoist_loop_contractions(module: Module) -> Module:
    """Compute what a loop multiplies in every step by the same weight before the steps, as one
    product.

    ```
    def @f(%i: int64, %n: int64, %h: ..) {
      if (less(%i, %n)) {
        let %x = nn.dense(take(%xs, %i, axis=0), %w);
        @f(add(%i, 1i64), %n, tanh(add(%x, %h)))
      } else { %h }
    }
    ```
    -> the steps of a block in a loop inside of the loop over blocks:
    ```
    def @f(%i: int64, %n: int64, %h: ..) {
      if (less(%i, %n)) {
        let %end = minimum(%n, add(%i, 4096i64));
        let %rows = nn.dense(take(%xs, arange(%i, %end, 1i64), axis=0), %w);
        let %block = fn (%j: int64, %s: ..) {
          if (less(%j, %end)) {
            let %x = take(%rows, subtract(%j, %i), axis=0);
            %block(add(%j, 1i64), tanh(add(%x, %s)))
          } else { @f(%j, %n, %s) }
        };
        %block(%i, %h)
      } else { %h }
    }
    ```
    Loops are functions that call themselves last, with a counter one higher, as long as it is below
    a bound that stays. What moves follows from the counter, from values that stay, and from slices
    of these, cannot trap unless the first step does, and has a row for each step. It moves if a
    contraction in it has a weight of at least 64 KiB and fewer than 16 rows a step. All tensors of
    a block together take at most 64 MiB. Results keep their bits. Requires TYPED and ANF. Linear.
    """
    functions = {}
    for name, function in module.functions.items():
        functions[name] = (
            function if is_primitive(function) else _hoist(function, name, module.types)
        )
    return module.with_functions(functions)


def _hoist(function: Function, name: str, types: Mapping[str, TypeData]) -> Function:
    found = False

    def local_loops(bindings: list[Binding], tail: Expr) -> Expr:
        nonlocal found
        new = []
        for binding in bindings:
            value = binding.value
            if isinstance(value, Function) and not is_primitive(value):
                value = _in_blocks(value, binding.var, types)
                found = found or value is not binding.value
            new.append(binding if value is binding.value else replace(binding, value=value))
        return rebuild_block(new, tail)

    result = rewrite_blocks(function, local_loops, skip=is_primitive)
    if not found:
        result = function
    assert isinstance(result, Function)
    own = GlobalVar(name, span=result.span, checked_type=result.checked_type)
    return _in_blocks(result, own, types)


def _in_blocks(
    function: Function, name: Var | GlobalVar, types: Mapping[str, TypeData]
) -> Function:
    """Return a loop that goes block by block; other functions as they are."""
    loop = find_recursion(function, name)
    if loop is None or not all(is_plain(b.value) for b in loop.prefix):
        return function
    counter, walk = find_counter(loop), find_walk(loop)
    steps: Steps
    if counter is not None:
        steps = CountedSteps(loop, counter, types)
    elif walk is not None:
        steps = ListSteps(loop, walk)
    else:
        return function
    rows = Rows(loop, steps)
    if counter is not None and not rows.is_shared(counter.limit):
        return function
    ready = _ready(loop, rows)
    return _Blocks(loop, steps, name, rows, ready).function() if ready else function


def _ready(loop: Recursion, rows: Rows) -> dict[Var, Value]:
    """Return the variables whose values are worth having before the steps, and that these read."""
    read: set[Var] = set()
    for binding in (*loop.prefix, *loop.body):
        if binding.var not in rows.values:
            read.update(free_vars(binding.value))
    read.update(free_vars(loop.tail))
    bound = [b.var for b in (*loop.prefix, *loop.body)]
    return {
        v: rows.values[v] for v in bound if v in read and v in rows.values and rows.values[v].pays
    }


class _Blocks:
    """Writes one loop anew."""

    def __init__(
        self,
        loop: Recursion,
        steps: Steps,
        name: Var | GlobalVar,
        rows: Rows,
        ready: dict[Var, Value],
    ) -> None:
        self.loop = loop
        self.steps = steps
        self.name = name
        self.rows = rows
        self.ready = ready
        params = loop.function.params
        self.moving = [p for k, p in enumerate(params) if k not in loop.fixed]
        self.fresh = {p: replace(p) for p in self.moving}
        self.params = (*self.fresh.values(), *(var for var, _ in steps.more))
        self.result = loop.function.ret_type or type_of(loop.function.body)
        kind = FuncType(tuple(_declared(p) for p in self.params), self.result)
        self.block = Var("block", span=loop.function.span, checked_type=kind)

    def function(self) -> Function:
        """Return the loop over blocks."""
        loop = self.loop
        emitted = _needed(self.rows.emitted, [v.expr for v in self.ready.values()])
        size = sum(row_bytes(binding.var.checked_type) for binding in emitted)
        before = Block()
        self.steps.bind_end(before, max(1, BLOCK_BYTES // max(size, 1)))
        before.bindings += emitted
        before.bindings.append(Binding(self.block, self.over_steps(), loop.function.span))
        args = (*self.moving, *(first for _, first in self.steps.more))
        enter = Call(self.block, args, span=loop.choice.span, checked_type=self.result)
        choice = _with_branch(loop, before.ending(enter))
        return replace(loop.function, body=rebuild_block(list(loop.prefix), choice))

    def over_steps(self) -> Function:
        """Return the loop over the steps of one block."""
        loop = self.loop
        first = loop.calls[0]
        args = tuple(self.fresh.get(p, p) for p in loop.function.params)
        out = Call(
            self.name,
            args,
            type_args=first.type_args,
            span=loop.choice.span,
            checked_type=first.checked_type,
        )
        return Function(
            self.params,
            self.steps.choice(self.fresh, self.step(), out),
            self.result,
            span=loop.function.span,
            checked_type=self.block.checked_type,
        )

    def step(self) -> Expr:
        """Return what a step does, with rows in the place of what is known."""
        stays = {v for v, value in self.rows.values.items() if not value.varies}
        again = {b.var: replace(b.var) for b in self.loop.prefix if b.var not in stays}
        names: dict[Var, Expr] = {**self.fresh, **again}
        names.update((v, value.expr) for v, value in self.ready.items() if not value.varies)
        copied = [b for b in self.loop.prefix if b.var in again]
        lines: list[tuple[Binding, bool]] = []
        for binding in (*copied, *self.loop.body):
            known = self.ready.get(binding.var)
            if known is not None and not known.varies:
                continue
            var = again.get(binding.var, binding.var)
            optional = any(binding.var in s for s in (self.rows.values, self.rows.idle, again))
            if known is not None:
                lines += [(b, True) for b in self.row(replace(binding, var=var), known)]
            else:
                value = substitute(binding.value, names)
                lines.append((replace(binding, var=var, value=value), optional))
        following = Block()
        more = self.steps.next(following)
        lines += [(b, False) for b in following.bindings]
        tail = substitute(self.in_block(self.loop.tail, more), names)
        return rebuild_block(_live(lines, tail), tail)

    def row(self, binding: Binding, known: Value) -> list[Binding]:
        """Return the bindings that take the row of a step out of those of the block."""
        block, place = Block(), self.steps.place(self.fresh)
        if not isinstance(place, Var):
            place = block.bind(place, "place")
        row = call("take", (known.expr, place), binding.span, axis=0)
        return [*block.bindings, replace(binding, value=row)]

    def in_block(self, tail: Expr, more: Sequence[Expr]) -> Expr:
        """Return the end of a step with the loop over blocks left for the next step."""

        def step(_before: Expr, after: Expr) -> Expr:
            if not isinstance(after, Call) or not is_name(after.op, self.name):
                return after
            args = tuple(a for k, a in enumerate(after.args) if k not in self.loop.fixed)
            return replace(after, op=self.block, args=(*args, *more), type_args=())

        return rebuild(tail, step)


def _declared(param: Var) -> Type:
    kind = param.type_annotation or param.checked_type
    assert kind is not None
    return kind


def _with_branch(loop: Recursion, on: Expr) -> If | Match:
    """Return the choice of a loop with another branch for the next step."""
    choice = loop.choice
    if isinstance(choice, If):
        if loop.again:
            return replace(choice, false_branch=on)
        return replace(choice, true_branch=on)
    clauses = list(choice.clauses)
    lhs = clauses[loop.again].lhs
    assert isinstance(lhs, PatternConstructor)
    unnamed = tuple(PatternWildcard(span=p.span) for p in lhs.patterns)
    clauses[loop.again] = replace(clauses[loop.again], lhs=replace(lhs, patterns=unnamed), rhs=on)
    return replace(choice, clauses=tuple(clauses))


def _needed(bindings: Sequence[Binding], results: Sequence[Expr]) -> list[Binding]:
    """Return the bindings that lead to results."""
    read = {r for r in results if isinstance(r, Var)}
    kept: list[Binding] = []
    for binding in reversed(bindings):
        if binding.var in read:
            read.update(free_vars(binding.value))
            kept.append(binding)
    return kept[::-1]


def _live(lines: Sequence[tuple[Binding, bool]], tail: Expr) -> list[Binding]:
    """Return the bindings without those that are optional and read by nobody."""
    read = set(free_vars(tail))
    kept: list[Binding] = []
    for binding, optional in reversed(lines):
        if not optional or binding.var in read:
            read.update(free_vars(binding.value))
            kept.append(binding)
    return kept[::-1]
