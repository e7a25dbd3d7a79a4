"""Grouping of operator calls into kernels: each group becomes a call of a function with
`Primitive=1`.

Works on A-normal form, block by block (a block is one chain of lets). Word instructions and views
stay outside.
"""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections.abc import Container
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heappush

from relayvm.base.dims import DimVar, dim_variables
from relayvm.compiler.analysis.readers import Readers, find_readers
from relayvm.compiler.analysis.scopes import is_primitive
from relayvm.compiler.analysis.traps import may_trap
from relayvm.compiler.infer_types import needs_check
from relayvm.compiler.lower.words import is_view, word_instruction
from relayvm.compiler.transforms.blocks import Binding, rebuild_block, rewrite_blocks
from relayvm.compiler.transforms.narrow import chunks_of_results, narrow_operands
from relayvm.compiler.transforms.primitive_group import GroupBuilder, type_of
from relayvm.ir.expr import (
    Call,
    Constructor,
    Expr,
    Function,
    If,
    Match,
    Op,
    RefWrite,
    Tuple,
    TupleGetItem,
    Var,
)
from relayvm.ir.module import Module
from relayvm.ir.types import TupleType
from relayvm.ir.visit import attr_variables, free_vars, post_order
from relayvm.ops.operator import Fusion, Operator
from relayvm.ops.tracing import tensors_of

MAX_GROUP = 56
# What one kernel has at most of operands and of tensors (each may be a phase of its own): the
# limits of the executable format, less what lowering may add.
MAX_OPERANDS = 240
MAX_TENSORS = 60
# Sizes that are known at run time only, in one kernel: proofs about many of them take long.
MAX_SIZES = 48
# How many bindings are looked at before two groups are left apart: it bounds the work per pair.
MAX_SEARCH = 1024
ANCHORS = (Fusion.REDUCTION, Fusion.CONTRACTION)


def fuse(module: Module) -> Module:
    """Return the module with operator calls grouped into primitive functions.

    Requires TYPED and ANF, ensures FUSED. A group has at most one reduction or contraction; what
    it reads may be computed in it if nobody else reads it, what follows elementwise is its
    epilogue; it may have several outputs.

    `let %a = add(%x, 1f); let %b = exp(%a); %b`
    -> `let %b = fn (%p: ..., Primitive=1) { let %a = add(%p, 1f); exp(%a) }(%x); %b`
    """
    writes = any(
        isinstance(node, RefWrite) for f in module.functions.values() for node in post_order(f)
    )
    functions = {}
    for name, function in module.functions.items():
        functions[name] = function if is_primitive(function) else _fuse_function(function, writes)
    return module.with_functions(functions)


def _fuse_function(function: Function, writes: bool) -> Function:
    result = rewrite_blocks(
        function, _Fuser(find_readers(function), writes).block, skip=is_primitive
    )
    assert isinstance(result, Function)
    return result


@dataclass(frozen=True, slots=True)
class _Needs:
    """What a binding brings into its kernel at most: operands, tensors as results, sizes."""

    operands: int = 0
    results: int = 0
    sizes: int = 0


def _needs(value: Expr) -> _Needs:
    kinds = [t for operand in _operands(value) for t in tensors_of(type_of(operand))]
    results = sum(1 for _ in tensors_of(type_of(value))) if isinstance(value, Call) else 0
    unknown = sum(not isinstance(d, int) for t in kinds for d in t.shape)
    return _Needs(len(kinds), results, unknown + len(_symbols(value)))


def _operands(value: Expr) -> tuple[Expr, ...]:
    match value:
        case Call():
            return value.args
        case Tuple():
            return value.fields
        case TupleGetItem():
            return (value.tuple_value,)
    return ()


def _symbols(value: Expr) -> set[DimVar]:
    """Return the sizes that a binding names in its types and attributes."""
    found = {
        v
        for e in (value, *_operands(value))
        for t in tensors_of(type_of(e))
        for d in t.shape
        if not isinstance(d, int)
        for v in dim_variables(d)
    }
    if isinstance(value, Call) and value.attrs:
        found.update(v for a in value.attrs.values() for v in attr_variables(a))
    return found


@dataclass(slots=True)
class _Node:
    """One binding of a block: what it reads and who reads it, by index in order.

    `fixed_user` is the first user that is in no kernel and so stays in its place.
    """

    binding: Binding
    inputs: list[int]
    operator: Operator | None = None
    glue: bool = False
    users: list[int] = field(default_factory=list)
    fixed_user: int = sys.maxsize
    needs: _Needs = field(default_factory=_Needs)
    escapes: bool = False
    barrier: int = sys.maxsize  # the next binding behind which this one must not be delayed

    @property
    def fusible(self) -> bool:
        return self.operator is not None or self.glue

    @property
    def anchor(self) -> bool:
        return self.operator is not None and self.operator.fusion in ANCHORS


class _Fuser:
    """Groups the bindings of each block of one function."""

    def __init__(self, readers: Readers, writes: bool) -> None:
        self.readers = readers
        self.writes = writes

    def block(self, bindings: list[Binding], tail: Expr) -> Expr:
        """Return the block with its operator calls grouped."""
        escaping: Container[Expr] = self.readers.escaping
        if _kernel_operator(tail) is not None:
            kind = tail.checked_type
            named = Var("v", kind, span=tail.span, checked_type=kind)
            self.readers.reads[named] = dict.fromkeys(free_vars(tail))
            bindings, tail = [*bindings, Binding(named, tail, tail.span)], named
            escaping = (named,)
        bindings = self.compared(self.narrowed(bindings))
        nodes = self.analyse(bindings, escaping)
        if self.writes:
            _mark_barriers(nodes)
        if not any(node.operator for node in nodes):
            return rebuild_block(bindings, tail)
        groups = _Groups(nodes)
        for index in range(len(nodes)):
            if nodes[index].fusible:
                groups.join_producers(index)
        return _emit(nodes, groups, tail)

    def narrowed(self, bindings: list[Binding]) -> list[Binding]:
        result = narrow_operands(bindings)
        if result is not bindings:
            for binding in result:
                if binding.value.__class__ in (Call, Tuple, TupleGetItem):
                    self.readers.reads[binding.var] = dict.fromkeys(free_vars(binding.value))
        return result

    def compared(self, bindings: list[Binding]) -> list[Binding]:
        """Let variables whose types promise more than their values' stand outside of kernels, where
        the promise is compared.
        """
        result: list[Binding] = []
        for binding in bindings:
            var, value = binding.var, binding.value
            given, wanted = value.checked_type, var.checked_type
            fusible = _kernel_operator(value) is not None or isinstance(value, TupleGetItem)
            if fusible and given and wanted and needs_check(given, wanted):
                plain = Var(var.name, given, span=var.span, checked_type=given)
                self.readers.reads[plain] = self.readers.reads.get(var, {})
                self.readers.reads[var] = {plain: None}
                result.append(Binding(plain, value, binding.span))
                binding = replace(binding, value=plain)
            result.append(binding)
        return result

    def analyse(self, bindings: list[Binding], escaping: Container[Expr]) -> list[_Node]:
        place = {binding.var: index for index, binding in enumerate(bindings)}
        nodes: list[_Node] = []
        for index, binding in enumerate(bindings):
            read = self.readers.reads.get(binding.var, ())
            inputs = [place[v] for v in read if v in place]
            node = _Node(binding, inputs, _kernel_operator(binding.value))
            node.escapes = binding.var in escaping
            nodes.append(node)
            for i in inputs:
                nodes[i].users.append(index)
        _mark_glue(nodes, place)
        for node in nodes:
            if node.fusible:
                node.needs = _needs(node.binding.value)
            node.fixed_user = next((u for u in node.users if not nodes[u].fusible), sys.maxsize)
        return nodes


def _kernel_operator(value: Expr) -> Operator | None:
    if not isinstance(value, Call) or not isinstance(value.op, Operator):
        return None
    if value.op.has_effect or word_instruction(value) is not None or is_view(value):
        return None
    if value.op.name == "shape_of" or "value_dims" in value.op.facets:
        return None
    return value.op


def _mark_barriers(nodes: list[_Node]) -> None:
    """What may trap stays in front of what may write to a reference: the write would be seen."""
    barrier = sys.maxsize
    for index in range(len(nodes) - 1, -1, -1):
        value = nodes[index].binding.value
        if nodes[index].operator is not None:
            assert isinstance(value, Call)
            nodes[index].barrier = barrier if may_trap(value) else sys.maxsize
        elif _may_write(value):
            barrier = index


def _may_write(value: Expr) -> bool:
    if isinstance(value, Call):
        return not isinstance(value.op, (Op, Constructor)) and not is_primitive(value.op)
    return isinstance(value, (RefWrite, If, Match))


def _mark_glue(nodes: list[_Node], place: dict[Var, int]) -> None:
    """Tuples that only feed operators, and projections of operator results, take no code of their
    own.
    """
    for node in nodes:
        value = node.binding.value
        if isinstance(value, Tuple):
            fed = node.users and all(nodes[u].operator for u in node.users)
            node.glue = bool(fed) and not node.escapes and bool(value.fields)
        elif isinstance(value, TupleGetItem) and isinstance(value.tuple_value, Var):
            source = place.get(value.tuple_value)
            node.glue = source is not None and nodes[source].operator is not None


@dataclass(slots=True, eq=False)
class _Group:
    """A kernel to be: its members in order, and what a merge asks of them, added up.

    `open` are the members that something outside reads; `stays` is the first binding that must not
    come before one of them.
    """

    members: list[int]
    open: list[int]
    operators: int
    needs: _Needs
    anchored: bool
    escapes: bool
    stays: int

    @property
    def last(self) -> int:
        return self.members[-1]


class _Groups:
    """A partition of the fusible nodes."""

    def __init__(self, nodes: list[_Node]) -> None:
        self.nodes = nodes
        self.of = [_alone(index, node) for index, node in enumerate(nodes)]

    def join_producers(self, index: int) -> None:
        """Merge the newest node with the groups of what it reads, anchored ones first, where that
        is legal.
        """
        producers = {self.of[i].last for i in self.nodes[index].inputs if self.nodes[i].fusible}
        for last in sorted(producers, key=lambda i: (not self.of[i].anchored, i)):
            producer, own = self.of[last], self.of[index]
            if producer is not own and self._wanted(producer, own) and self._legal(producer, own):
                self._merge(producer, own)

    def _wanted(self, producer: _Group, consumer: _Group) -> bool:
        if producer.operators + consumer.operators > MAX_GROUP:
            return False
        if not self._fits(producer, consumer) or (producer.anchored and consumer.anchored):
            return False
        if consumer.anchored:
            return not producer.escapes and all(
                self.of[u] is producer or self.of[u] is consumer
                for m in producer.open
                for u in self.nodes[m].users
            )
        return True

    def _fits(self, a: _Group, b: _Group) -> bool:
        """Tell whether a kernel can have what two groups need, counted with ease."""
        tensors = a.needs.results + b.needs.results
        if tensors > MAX_TENSORS:
            return False
        sizes = a.needs.sizes + b.needs.sizes
        operands = tensors + sizes + a.needs.operands + b.needs.operands
        few = operands <= MAX_OPERANDS and sizes <= MAX_SIZES
        return few or self._fits_exactly(a.members + b.members)

    def _fits_exactly(self, members: list[int]) -> bool:
        inside = {self.nodes[m].binding.var for m in members}
        outer = {
            operand
            for m in members
            for operand in _operands(self.nodes[m].binding.value)
            if operand not in inside
        }
        kinds = [t for operand in outer for t in tensors_of(type_of(operand))]
        results = sum(self.nodes[m].needs.results for m in members)
        symbols = {v for m in members for v in _symbols(self.nodes[m].binding.value)}
        sizes = len(symbols) + sum(not isinstance(d, int) for t in kinds for d in t.shape)
        return sizes <= MAX_SIZES and len(kinds) + results + len(symbols) <= MAX_OPERANDS

    def _legal(self, a: _Group, b: _Group) -> bool:
        """A merged group runs as one at the place of its last member: nothing it feeds may come
        before that.

        So no path may leave the group and come back, nor reach a binding before the last member
        that stays in place. Nor may what can trap come behind a write.
        """
        last = max(a.last, b.last)
        if a.stays < last or b.stays < last:
            return False
        pending = [u for u in self._users(a, last) + self._users(b, last) if self.of[u] is not a]
        pending = [self.of[u].last for u in pending if self.of[u] is not b]
        seen: set[int] = set()
        while pending:
            group = self.of[pending.pop()]
            if group is a or group is b or len(seen) + len(pending) > MAX_SEARCH:
                return False
            if group.last in seen:
                continue
            seen.add(group.last)
            if group.stays < last:
                return False
            pending.extend(self._users(group, last))
        return True

    def _users(self, group: _Group, last: int) -> list[int]:
        """Return the users that may lead back to what has been grouped: up to `last`, ascending."""
        result: list[int] = []
        for member in group.open:
            users = self.nodes[member].users
            result += users[: min(bisect_right(users, last), MAX_SEARCH + 1)]
        return [u for u in result if self.of[u] is not group]

    def _merge(self, a: _Group, b: _Group) -> None:
        small, large = (a, b) if len(a.members) < len(b.members) else (b, a)
        large.members = sorted(large.members + small.members)
        for member in small.members:
            self.of[member] = large
        large.operators += small.operators
        large.needs = _Needs(*(x + y for x, y in zip(_counts(a.needs), _counts(b.needs))))
        large.anchored |= small.anchored
        large.escapes |= small.escapes
        large.stays = min(large.stays, small.stays)
        both = large.open + small.open
        large.open = [m for m in both if any(self.of[u] is not large for u in self.nodes[m].users)]


def _alone(index: int, node: _Node) -> _Group:
    stays = min(node.fixed_user, node.barrier)
    users = [index] if node.users else []
    operators = int(node.operator is not None)
    return _Group([index], users, operators, node.needs, node.anchor, node.escapes, stays)


def _counts(needs: _Needs) -> tuple[int, int, int]:
    return needs.operands, needs.results, needs.sizes


def _emit(nodes: list[_Node], groups: _Groups, tail: Expr) -> Expr:
    bindings: list[Binding] = []
    for index in _order(nodes, groups):
        members = groups.of[index].members
        if any(nodes[m].operator for m in members):
            bindings.extend(_emit_group(nodes, members))
        else:
            bindings.append(nodes[index].binding)
    return rebuild_block(bindings, tail)


def _order(nodes: list[_Node], groups: _Groups) -> list[int]:
    """Return the groups, each after what it reads, otherwise in the order of their last members.

    Bindings that stay in place keep their order: `_legal` lets none of them wait for a later group.
    """
    waiting: dict[int, int] = {}
    readers: dict[int, list[int]] = {}
    lasts = [index for index, group in enumerate(groups.of) if group.last == index]
    for group in lasts:
        members = groups.of[group].members
        needed = {groups.of[i].last for m in members for i in nodes[m].inputs} - {group}
        waiting[group] = len(needed)
        for other in needed:
            readers.setdefault(other, []).append(group)
    ready = [group for group, count in waiting.items() if not count]
    heapify(ready)
    order: list[int] = []
    while ready:
        group = heappop(ready)
        order.append(group)
        for reader in readers.get(group, ()):
            waiting[reader] -= 1
            if not waiting[reader]:
                heappush(ready, reader)
    assert len(order) == len(lasts), "groups wait for each other"
    return order


def _emit_group(nodes: list[_Node], members: list[int]) -> list[Binding]:
    inside = set(members)
    outputs = [m for m in members if nodes[m].escapes or not inside.issuperset(nodes[m].users)]
    if not outputs:
        return []  # Nobody reads it; operators have no effects.
    if len(members) == 1 and nodes[members[0]].needs.results > MAX_TENSORS:
        return _emit_wide(nodes[members[0]].binding)
    builder = GroupBuilder()
    for m in members:
        builder.add(nodes[m].binding)
    return builder.finish([nodes[m].binding.var for m in outputs])


def _emit_wide(binding: Binding) -> list[Binding]:
    """Return several kernels for an operator with more results than one may have."""
    kind, span = type_of(binding.value), binding.span
    assert isinstance(kind, TupleType)
    result: list[Binding] = []
    items: list[Var] = []
    for value, first, chunk in chunks_of_results(binding.value):
        builder = GroupBuilder()
        own = type_of(value)
        whole = Var(binding.var.name, own, span=span, checked_type=own)
        builder.add(Binding(whole, value, span))
        for place, index in enumerate(chunk, first):
            field_type = kind.fields[index]
            item = Var(f"{whole.name}_{index}", field_type, span=span, checked_type=field_type)
            get = TupleGetItem(whole, place, span=span, checked_type=field_type)
            builder.add(Binding(item, get, span))
            items.append(item)
        result += builder.finish(items[chunk.start : chunk.stop])
    whole_value = Tuple(tuple(items), span=span, checked_type=kind)
    return [*result, Binding(binding.var, whole_value, span)]
