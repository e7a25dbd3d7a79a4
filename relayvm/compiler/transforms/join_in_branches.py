"""Tensors joined from what branches give: each branch makes the whole, with its part in place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace

from relayvm.compiler.analysis.scopes import is_atomic, is_primitive
from relayvm.compiler.analysis.traps import is_inert, may_trap
from relayvm.compiler.lower.words import is_view, kernel_operator
from relayvm.compiler.transforms.blocks import (
    Binding,
    named,
    rebuild_block,
    rewrite_blocks,
    split_block,
)
from relayvm.compiler.transforms.copies import Copier, TypeMap
from relayvm.compiler.transforms.fusion_rows import is_cheap_view
from relayvm.ir.expr import Call, Expr, Function, If, Let, Match, Tuple, TupleGetItem, Var
from relayvm.ir.module import Module
from relayvm.ir.visit import children, post_order, with_children
from relayvm.ops import OPS
from relayvm.ops.operator import Fusion, Operator

_JOINS = (OPS["concatenate"], OPS["stack"])
_GOES_ON = (Fusion.ELEMENTWISE, Fusion.BROADCAST)
# Operator calls that all branches together may get: the join and what moves with it, for each.
MOST_COPIES = 12


def join_in_branches(module: Module) -> Module:
    """Move `concatenate` and `stack` into the branches of which they join a result, so that the
    kernels there write their part of the whole, and nothing is copied.

    ```
    let %a = exp(%x);
    let %b = if (%c) { tanh(%x) } else { %y };
    concatenate((%a, %b))
    ```
    ->
    ```
    if (%c) { let %a1 = exp(%x); let %b1 = tanh(%x); concatenate((%a1, %b1)) }
    else { let %a2 = exp(%x); concatenate((%a2, %y)) }
    ```
    Elementwise operators on the whole move along, and so does what only the join reads, if it makes
    no difference when it is evaluated; so may branches in which nothing else happens. A join stays
    where other kernels read it, which can read its parts where they are. It moves where a branch
    ends in a kernel and the branches together get no more than twelve operator calls. Requires
    TYPED and ANF.
    """
    functions = {}
    for name, function in module.functions.items():
        functions[name] = function if is_primitive(function) else _in_function(function)
    return module.with_functions(functions)


def _in_function(function: Function) -> Function:
    nodes = list(post_order(function))
    joins = any(_is_join(node) for node in nodes)
    if not joins or not any(isinstance(node, (If, Match)) for node in nodes):
        return function
    mover = _Mover(Counter(_variables(function)))
    result = rewrite_blocks(function, mover.block, skip=is_primitive, outer_first=True)
    assert isinstance(result, Function)
    return result if mover.moved else function


def _is_join(expr: Expr) -> bool:
    return isinstance(expr, Call) and expr.op in _JOINS


def _variables(expr: Expr) -> Iterator[Var]:
    """Yield each variable as often as it is read."""
    waiting = [expr]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Var):
            yield node
        elif not is_primitive(node):
            waiting.extend(children(node))


class _Mover:
    """Moves the joins of one function, of which it knows how often each variable is read."""

    def __init__(self, reads: Counter[Var]) -> None:
        self.reads = reads
        self.moved = False

    def block(self, bindings: list[Binding], tail: Expr) -> Expr:
        """Return a block whose joins stand in branches; those may move on from there."""
        if kernel_operator(tail) is not None:
            var = named("v", tail)
            self.reads[var] += 1
            bindings, tail = [*bindings, Binding(var, tail, tail.span)], var
        behind = 1
        while behind <= len(bindings):
            index = len(bindings) - behind
            if _is_join(bindings[index].value):
                last = self.last_operator(bindings, index)
                if last is not None:
                    bindings = self.with_joined_moved(bindings, last)
            behind += 1
        return rebuild_block(bindings, tail)

    def last_operator(self, bindings: list[Binding], join: int) -> int | None:
        """Return the last of the operators that read a join or each other, and whose kernel it may
        be a part of; None where there are others beside them.
        """
        last = at = join
        while True:
            var = bindings[at].var
            readers = [
                i
                for i in range(at + 1, len(bindings))
                if _is_plain(bindings[i].value) and var in children(bindings[i].value)
            ]
            if not readers:
                return last
            at = readers[0]
            value = bindings[at].value
            if self.reads[var] > 1 or _operators_of(value) is None:
                return None
            if isinstance(value, Call):
                assert isinstance(value.op, Operator)
                if value.op.fusion not in _GOES_ON and not _is_join(value):
                    return None
                last = at

    def with_joined_moved(self, bindings: list[Binding], join: int) -> list[Binding]:
        """Return a block with a join, or what is made of it, in the branches of a part; itself if
        no part is a branch. What stands behind it keeps its distance from the end.
        """
        place = {b.var: i for i, b in enumerate(bindings[:join])}
        _, branches = self.feeders(bindings, place, join, 0, None)
        for part in sorted(branches, reverse=True):
            arms = _arms(bindings[part].value)
            most = MOST_COPIES // len(arms)
            feeders, _ = self.feeders(bindings, place, join, most, part)
            moved = {*feeders, part}
            between = (bindings[i] for i in range(part + 1, join) if i not in moved)
            if (
                most
                and self.only_read_in(bindings, part, (*feeders, join))
                and all(_has_own_type(bindings[i]) for i in (*moved, join))
                and all(arm.checked_type == bindings[part].value.checked_type for arm in arms)
                and any(self.ends_in_kernel(arm) for arm in arms)
                and all(_operators_of(b.value) is not None or is_inert(b.value) for b in between)
            ):
                return self.moved_into(bindings, join, part, sorted(feeders))
        return bindings

    def feeders(
        self,
        bindings: list[Binding],
        place: Mapping[Var, int],
        join: int,
        most: int,
        part: int | None,
    ) -> tuple[set[int], set[int]]:
        """Return the bindings that only the join reads, at last, and the branches that it reads
        through operators: `most` bounds the operators, its own among them; those of `part` stay.
        Without a part no branch counts as an operator, and nothing is bounded.
        """
        seen: Counter[Var] = Counter()
        found: set[int] = set()
        branches: set[int] = set()
        operators = 1
        waiting = [join]
        while waiting:
            for var in _variables(bindings[waiting.pop()].value):
                seen[var] += 1
                index = place.get(var)
                if index is None or index == part or seen[var] < self.reads[var]:
                    continue
                value = bindings[index].value
                if isinstance(value, (If, Match)):
                    branches.add(index)
                    if part is None:
                        continue
                more = _operators_of(value)
                if more is not None and (part is None or operators + more <= most):
                    operators += more
                    found.add(index)
                    waiting.append(index)
        return found, branches

    def only_read_in(self, bindings: list[Binding], part: int, readers: tuple[int, ...]) -> bool:
        """Return whether nobody else reads a part: too many operators may stand in between."""
        var = bindings[part].var
        found = sum(v is var for i in readers for v in _variables(bindings[i].value))
        return found == self.reads[var]

    def ends_in_kernel(self, arm: Expr) -> bool:
        """Return whether a branch, or one in it, gives what a kernel makes for nobody else."""
        waiting = [arm]
        while waiting:
            bindings, tail = split_block(waiting.pop())
            values = {b.var: b.value for b in bindings}
            while isinstance(tail, Var) and tail in values and self.reads[tail] == 1:
                tail = values[tail]
                if isinstance(tail, Call) and is_view(tail) and is_cheap_view(tail):
                    tail = tail.args[0]
            if kernel_operator(tail) is not None:
                return True
            if isinstance(tail, (If, Match)):
                waiting.extend(_arms(tail))
        return False

    def moved_into(
        self, bindings: list[Binding], join: int, part: int, feeders: list[int]
    ) -> list[Binding]:
        self.moved = True
        whole, branch = bindings[join], bindings[part]
        moved = rebuild_block([bindings[i] for i in (*feeders, join)], whole.var)
        self.reads.subtract(_variables(moved))
        arms = []
        for arm in _arms(branch.value):
            own, last = split_block(arm)
            if isinstance(last, Var):
                self.reads[last] -= 1
            elif not is_atomic(last):
                own.append(Binding(named("v", last), last, last.span))
                last = own[-1].var
            copied = Copier(TypeMap(), {id(branch.var): last}).copy(moved)
            self.reads.update(_variables(copied))
            inner, tail = split_block(copied)
            arms.append(rebuild_block([*own, *inner], tail))
        value = _with_arms(branch.value, arms)
        left = [b for i, b in enumerate(bindings[:join]) if i != part and i not in set(feeders)]
        return [*left, replace(whole, value=value), *bindings[join + 1 :]]


def _has_own_type(binding: Binding) -> bool:
    """Return whether a variable promises nothing that its value does not."""
    return binding.var.checked_type == binding.value.checked_type


def _is_plain(value: Expr) -> bool:
    """Return whether a value may be a part of a kernel, or lead to one."""
    if isinstance(value, Call):
        return isinstance(value.op, Operator)
    return isinstance(value, (Tuple, TupleGetItem))


def _arms(branch: Expr) -> tuple[Expr, ...]:
    return children(branch)[1:]


def _with_arms(branch: Expr, arms: list[Expr]) -> Expr:
    new = with_children(branch, (children(branch)[0], *arms))
    return replace(new, checked_type=arms[0].checked_type)


def _operators_of(value: Expr) -> int | None:
    """Return how many kernels' operators a value has; None where it makes a difference when it is
    evaluated, or where it is more than operators, tuples and branches.
    """
    count = 0
    waiting = [value]
    while waiting:
        node = waiting.pop()
        if is_atomic(node):
            continue
        if isinstance(node, Call):
            if not isinstance(node.op, Operator) or node.op.has_effect or may_trap(node):
                return None
            count += kernel_operator(node) is not None
            waiting.extend(node.args)
        elif isinstance(node, (Tuple, TupleGetItem, If, Let)):
            waiting.extend(children(node))
        else:
            return None
    return count
