"""Groups of bindings that become kernels: what a merge asks for, and when it pays.

A kernel of several contractions runs them one after another, each over all its rows or all of them
over one block of rows, and keeps what stands between them in scratch memory. So it reads and writes
no more than separate kernels would; one call and what the blocks leave in the cache are won.
"""

from __future__ import annotations

import sys
from bisect import bisect_right
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

from relayvm.base.dims import Dim, DimVar, dim_variables, dims_equal
from relayvm.compiler.transforms.blocks import Binding
from relayvm.compiler.transforms.broaden import is_broadening
from relayvm.compiler.transforms.fusion_rows import (
    is_batched,
    is_layer,
    is_product,
    keeps_rows,
    rows_of,
    same_dims,
    trailing_axes,
    volume,
)
from relayvm.compiler.transforms.primitive_group import type_of
from relayvm.ir.expr import Call, Expr, Tuple, TupleGetItem
from relayvm.ir.types import TensorType
from relayvm.ir.visit import attr_variables
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
# Contractions and reductions in one kernel: each is a nest of loops to be compiled.
MAX_ANCHORS = 16
# Contractions of which one reads the other. More would be a whole network in one kernel, which no
# other kernel can share.
MAX_CHAIN = 2
# Elements of a matrix that stays in the cache while blocks of rows pass it (1 MiB of float32).
RESIDENT = 1 << 18
ANCHORS = (Fusion.REDUCTION, Fusion.CONTRACTION)


@dataclass(frozen=True, slots=True)
class Needs:
    """What a binding brings into its kernel at most: operands, tensors as results, sizes."""

    operands: int = 0
    results: int = 0
    sizes: int = 0

    def __add__(self, other: Needs) -> Needs:
        return Needs(
            self.operands + other.operands,
            self.results + other.results,
            self.sizes + other.sizes,
        )


def needs_of(value: Expr, view: bool) -> Needs:
    """Return what a binding brings into its kernel; a view brings no tensor of its own."""
    kinds = [t for operand in operands_of(value) for t in tensors_of(type_of(operand))]
    made = isinstance(value, Call) and not view
    results = sum(1 for _ in tensors_of(type_of(value))) if made else 0
    unknown = sum(not isinstance(d, int) for t in kinds for d in t.shape)
    return Needs(len(kinds), results, unknown + len(_symbols(value)))


def operands_of(value: Expr) -> tuple[Expr, ...]:
    """Return what a call, a tuple or a projection reads."""
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
        for e in (value, *operands_of(value))
        for t in tensors_of(type_of(e))
        for d in t.shape
        if not isinstance(d, int)
        for v in dim_variables(d)
    }
    if isinstance(value, Call) and value.attrs:
        found.update(v for a in value.attrs.values() for v in attr_variables(a))
    return found


@dataclass(slots=True)
class Node:
    """One binding of a block: what it reads and who reads it, by index in order.

    `glue` takes no code of its own: a tuple, a projection or a view of what kernels make.
    `fixed_user` is the first user that is in no kernel and so stays in its place.
    """

    binding: Binding
    inputs: list[int]
    operator: Operator | None = None
    glue: bool = False
    view: bool = False
    users: list[int] = field(default_factory=list)
    fixed_user: int = sys.maxsize
    needs: Needs = field(default_factory=Needs)
    escapes: bool = False
    barrier: int = sys.maxsize  # the next binding behind which this one must not be delayed

    @property
    def fusible(self) -> bool:
        return self.operator is not None or self.glue

    @property
    def anchor(self) -> bool:
        return self.operator is not None and self.operator.fusion in ANCHORS

    @property
    def call(self) -> Call:
        assert isinstance(self.binding.value, Call)
        return self.binding.value

    @property
    def product(self) -> bool:
        return self.anchor and is_product(self.binding.value)


@dataclass(slots=True, eq=False)
class Group:
    """A kernel to be: its members in order, and what a merge asks of them, added up.

    `open` are the members that something outside reads; `stays` is the first binding that must not
    come before one of them. `rows` are those of all contractions and reductions, None where they
    have none in common; `chain` counts the products of which one reads the other.
    """

    members: list[int]
    open: list[int]
    operators: int
    needs: Needs
    anchors: int
    rows: Dim | None
    chain: int
    escapes: bool
    stays: int

    @property
    def last(self) -> int:
        return self.members[-1]

    @property
    def anchored(self) -> bool:
        return self.anchors > 0


def _alone(index: int, node: Node) -> Group:
    rows = rows_of(node.call) if node.anchor else None
    return Group(
        members=[index],
        open=[index] if node.users else [],
        operators=int(node.operator is not None),
        needs=node.needs,
        anchors=int(node.anchor),
        rows=rows,
        chain=int(node.product),
        escapes=node.escapes,
        stays=min(node.fixed_user, node.barrier),
    )


class Groups:
    """A partition of the fusible nodes."""

    def __init__(self, nodes: list[Node]) -> None:
        self.nodes = nodes
        self.of = [_alone(index, node) for index, node in enumerate(nodes)]
        self.readers: dict[Expr, list[int]] = {}  # products by their first operand

    def join(self, index: int) -> None:
        """Merge the newest node with the groups of what it reads, and a product with those that
        read the same, where that is legal and pays.
        """
        self._join_producers(index)
        if not self.nodes[index].product:
            return
        siblings = self.readers.setdefault(self.nodes[index].call.args[0], [])
        near = siblings[-MAX_ANCHORS:]
        if self._join_siblings(index, near):
            for reader in (*near, index):
                self._join_producers(reader, plain=True)
        siblings.append(index)

    def _join_producers(self, index: int, plain: bool = False) -> None:
        """Merge with the producers, anchored ones first, or with those without anchor only."""
        if is_broadening(self.nodes[index].binding.value):
            return  # A way to read an operand, for a product that follows.
        inputs = [i for i in self.nodes[index].inputs if self.nodes[i].fusible]
        producers = {self.of[i].last for i in inputs}
        for last in sorted(producers, key=lambda i: (not self.of[i].anchored, i)):
            producer, own = self.of[last], self.of[index]
            if producer is own or (plain and producer.anchored):
                continue
            if self._wanted(index, producer, own) and self._legal(producer, own):
                self._merge(producer, own, self._chained(index, producer, own))

    def _join_siblings(self, index: int, siblings: list[int]) -> bool:
        """Merge a product with those that read the same rows: they pass the cache once for all."""
        node, merged = self.nodes[index], False
        for other in reversed(siblings):
            a, b = self.of[other], self.of[index]
            same = _same_kind(self.nodes[other].call, node.call)
            if a is b or not same or not _rows_agree(a.rows, b.rows):
                continue
            if self._has_room(a, b) and self._legal(a, b):
                self._merge(a, b, max(a.chain, b.chain))
                merged = True
        return merged

    def _wanted(self, index: int, producer: Group, consumer: Group) -> bool:
        if not producer.operators and self.nodes[producer.last].view:
            return False  # A view of what no kernel makes.
        if not self._has_room(producer, consumer):
            return False
        if producer.anchored and consumer.anchored:
            return self._share_rows(index, producer, consumer)
        if consumer.anchored:
            return self._is_private(producer, consumer) or self._feeds_rows(index, producer)
        return producer.anchored or not self._through_view(index, producer)

    def _has_room(self, a: Group, b: Group) -> bool:
        few = a.operators + b.operators <= MAX_GROUP and a.anchors + b.anchors <= MAX_ANCHORS
        return few and self._fits(a, b)

    def _is_private(self, producer: Group, consumer: Group) -> bool:
        """Tell whether a producer is read by the consumer alone, which then computes it itself."""
        return not producer.escapes and all(
            self.of[u] is producer or self.of[u] is consumer
            for m in producer.open
            for u in self.nodes[m].users
        )

    def _feeds_rows(self, index: int, producer: Group) -> bool:
        """Tell whether a reduction of rows reads what others read too: it is made on the way."""
        node = self.nodes[index]
        if node.product or not node.anchor or trailing_axes(node.call) is None:
            return False
        return not self._through_view(index, producer)

    def _through_view(self, index: int, producer: Group) -> bool:
        return any(self.nodes[i].view for i in self._inputs(index, producer))

    def _inputs(self, index: int, group: Group) -> list[int]:
        return [i for i in self.nodes[index].inputs if self.of[i] is group]

    def _share_rows(self, index: int, producer: Group, consumer: Group) -> bool:
        """Tell whether two groups with anchors compute row by row, each row from the same row."""
        node = self.nodes[index]
        if node.product and not self._may_chain(index, producer, consumer):
            return False
        rows = producer.rows
        if rows is None or consumer.rows is None or not self._carries(index, producer):
            return False
        if not node.anchor:
            return _rows_agree(rows, consumer.rows) and self._carries(index, consumer)
        if node.product or _rows_agree(rows, consumer.rows):
            return _rows_agree(rows, consumer.rows)
        # A reduction of several axes: its rows are blocks of the rows before.
        operand = node.call.args[0].checked_type
        return isinstance(operand, TensorType) and _rows_agree(rows, volume(operand.shape[:-1]))

    def _may_chain(self, index: int, producer: Group, consumer: Group) -> bool:
        """Tell whether a product may follow those of a group whose rows are its first operand.

        The rows of a product that takes a matrix for each of a batch need not leave the cache. The
        weights of a layer must stay there, or they would be read anew for each block of rows.
        """
        call = self.nodes[index].call
        if producer.chain + consumer.chain > MAX_CHAIN:
            return False
        first = call.args[0]
        inputs = self._inputs(index, producer)
        if any(self.nodes[i].binding.var is not first for i in inputs):
            return False
        if is_batched(call):
            return True
        weights = call.args[1].checked_type
        size = volume(weights.shape) if isinstance(weights, TensorType) else None
        return isinstance(size, int) and size <= RESIDENT

    def _chained(self, index: int, producer: Group, consumer: Group) -> int:
        if self.nodes[index].product and producer.anchored:
            return producer.chain + consumer.chain
        return max(producer.chain, consumer.chain)

    def _carries(self, index: int, group: Group) -> bool:
        """Tell whether a node reads each row of a group's anchors for the same row of its own.

        What stands beside the rows, as a mask that is made of an argument, may have any shape.
        """
        computed = self._computed(group)
        pending = [(index, i) for i in self._inputs(index, group) if i in computed]
        seen: set[int] = set()
        while pending:
            reader, source = pending.pop()
            node = self.nodes[reader]
            first = reader == index and node.product
            if not first and not keeps_rows(node.binding.value, self.nodes[source].binding.var):
                return False
            if source in seen or self.nodes[source].anchor:
                continue
            seen.add(source)
            pending += [(source, i) for i in self._inputs(source, group) if i in computed]
        return True

    def _computed(self, group: Group) -> set[int]:
        """Return the members of a group that are its anchors or read them, at any distance."""
        computed: set[int] = set()
        for member in group.members:
            node = self.nodes[member]
            if node.anchor or not computed.isdisjoint(node.inputs):
                computed.add(member)
        return computed

    def _fits(self, a: Group, b: Group) -> bool:
        """Tell whether a kernel can have what two groups need, counted with ease."""
        needs = a.needs + b.needs
        if needs.results > MAX_TENSORS:
            return False
        operands = needs.results + needs.sizes + needs.operands
        few = operands <= MAX_OPERANDS and needs.sizes <= MAX_SIZES
        return few or self._fits_exactly(a.members + b.members)

    def _fits_exactly(self, members: list[int]) -> bool:
        inside = {self.nodes[m].binding.var for m in members}
        outer = {
            operand
            for m in members
            for operand in operands_of(self.nodes[m].binding.value)
            if operand not in inside
        }
        kinds = [t for operand in outer for t in tensors_of(type_of(operand))]
        results = sum(self.nodes[m].needs.results for m in members)
        symbols = {v for m in members for v in _symbols(self.nodes[m].binding.value)}
        sizes = len(symbols) + sum(not isinstance(d, int) for t in kinds for d in t.shape)
        return sizes <= MAX_SIZES and len(kinds) + results + len(symbols) <= MAX_OPERANDS

    def _legal(self, a: Group, b: Group) -> bool:
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

    def _users(self, group: Group, last: int) -> list[int]:
        """Return the users that may lead back to what has been grouped: up to `last`, ascending."""
        result: list[int] = []
        for member in group.open:
            users = self.nodes[member].users
            result += users[: min(bisect_right(users, last), MAX_SEARCH + 1)]
        return [u for u in result if self.of[u] is not group]

    def _merge(self, a: Group, b: Group, chain: int) -> None:
        small, large = (a, b) if len(a.members) < len(b.members) else (b, a)
        large.rows = _merged_rows(a, b)
        large.members = sorted(large.members + small.members)
        for member in small.members:
            self.of[member] = large
        large.operators += small.operators
        large.needs = large.needs + small.needs
        large.anchors += small.anchors
        large.chain = chain
        large.escapes |= small.escapes
        large.stays = min(large.stays, small.stays)
        both = large.open + small.open
        large.open = [m for m in both if any(self.of[u] is not large for u in self.nodes[m].users)]


def _merged_rows(a: Group, b: Group) -> Dim | None:
    """Return the rows of both groups, of which `b` may have blocks of those of `a`."""
    anchored = [g.rows for g in (a, b) if g.anchored]
    if None in anchored or not anchored:
        return None
    first, last = anchored[0], anchored[-1]
    return first if last == 1 else last


def _rows_agree(a: Dim | None, b: Dim | None) -> bool:
    """Tell whether rows are as many; one row is the same for all."""
    if a is None or b is None:
        return False
    return a == 1 or b == 1 or dims_equal(a, b) is True


def _same_kind(a: Call, b: Call) -> bool:
    """Tell whether two products of the same rows have one dtype, and one size along the rows.

    How their weights lie is each one's own matter.
    """
    if a.op is not b.op and not (is_layer(a) and is_layer(b)):
        return False
    kinds = [tuple(x.checked_type for x in (call.args[1], call)) for call in (a, b)]
    tensors = [k for pair in kinds for k in pair if isinstance(k, TensorType)]
    if len(tensors) < 4:
        return False
    return (
        tensors[0].dtype == tensors[2].dtype
        and tensors[1].dtype == tensors[3].dtype
        and same_dims(tensors[1].shape[:-1], tensors[3].shape[:-1])
    )


def order_of(nodes: list[Node], groups: Groups) -> list[int]:
    """Return the groups by their last members, each after what it reads, otherwise in order.

    Bindings that stay in place keep their order: no legal merge lets them wait for a later group.
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
