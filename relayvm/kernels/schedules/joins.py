"""Outputs that are joined from parts, as `concatenate` and `stack` make them: each part is computed
by loops of its own, which write it where it belongs, so that nothing is copied.

The parts are scheduled as outputs of their own; behind that, their memory becomes a part of the
output's. Reductions have no other way into a join: they have no form for one element.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from relayvm.base.dims import Dim, dim_sub, dims_equal
from relayvm.kernels import compute as c
from relayvm.kernels import loops as n
from relayvm.kernels.index import simplify as s
from relayvm.kernels.schedules.emit import CannotPlace
from relayvm.kernels.schedules.plan import (
    body_of,
    nodes,
    topological,
    users_first,
    with_operands,
)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a part begins: in which output (by number), on which axis, at which index."""

    output: int
    axis: int
    begin: Dim


def split_outputs(
    outputs: tuple[c.Tensor, ...],
) -> tuple[tuple[c.Tensor, ...], tuple[Place, ...]]:
    """Return the outputs with each join replaced by its parts, and where those lie.

    A join that another output reads stays whole.
    """
    tensors: list[c.Tensor] = []
    places: list[Place] = []
    readers = _readers(outputs)
    for number, output in enumerate(outputs):
        join = _find_join(output) if output not in readers else None
        if join is None:
            tensors.append(output)
            places.append(Place(number, 0, 0))
            continue
        for begin, end, leaf in join.leaves:
            part = _Part(join, begin, end, leaf).of(output)
            if part in tensors or part in outputs or readers.get(part, 0) > 1:
                # It has memory of its own.
                part = c.compute(part.shape, lambda *i, t=part: t[i], f"{part.name}_copy")
            tensors.append(part)
            places.append(Place(number, join.axis, begin))
    return tuple(tensors), tuple(places)


@dataclass(frozen=True)
class _Join:
    """A tensor made of leaves: expressions for one element on ranges of an axis, in order.

    `chain` are the tensors that read it at their own index, from an output down to itself.
    """

    tensor: c.Tensor
    axis: int
    leaves: tuple[tuple[Dim, Dim, c.ScalarExpr], ...]
    chain: frozenset[c.Tensor]


def _find_join(output: c.Tensor) -> _Join | None:
    """Return the join that an output is, or reads at its own index alone, through other tensors."""
    chain: list[c.Tensor] = []
    current: c.Tensor | None = output
    while current is not None and isinstance(current.op, c.Compute):
        chain.append(current)
        found = _leaves_of(current)
        if found is not None:
            return _Join(current, *found, frozenset(chain))
        sources = {
            m.tensor: _is_plain(m, current.op.axes)
            for m in nodes(current.op.body)
            if isinstance(m, c.TensorLoad) and isinstance(m.tensor.op, c.Compute)
        }
        below = [t for t, plain in sources.items() if plain and _same(t, current)]
        current = below[0] if len(below) == 1 else None
    return None


def _is_plain(load: c.TensorLoad, axes: tuple[c.IndexVar, ...]) -> bool:
    """Return whether a tensor is read at the index at which another is computed."""
    return len(load.indices) == len(axes) and all(
        index is axis or (axis.extent == 1 and _is_dim(index, 0))
        for index, axis in zip(load.indices, axes)
    )


def _same(a: c.Tensor, b: c.Tensor) -> bool:
    return len(a.shape) == len(b.shape) and all(
        dims_equal(x, y) is True for x, y in zip(a.shape, b.shape)
    )


def _leaves_of(
    tensor: c.Tensor,
) -> tuple[int, tuple[tuple[Dim, Dim, c.ScalarExpr], ...]] | None:
    """Return the axis and the leaves of a tensor whose body selects by one index alone."""
    body = body_of(tensor)
    border = _border(body.body)
    if border is None or border[0] not in body.axes:
        return None
    axis = body.axes.index(border[0])
    leaves: list[tuple[Dim, Dim, c.ScalarExpr]] = []
    waiting: list[tuple[Dim, Dim, c.ScalarExpr]] = [(0, tensor.shape[axis], body.body)]
    while waiting:
        begin, end, expr = waiting.pop()
        inner = _border(expr)
        if inner is None or inner[0] is not border[0]:
            leaves.append((begin, end, expr))
            continue
        assert isinstance(expr, c.Select)
        waiting += [(inner[1], end, expr.b), (begin, inner[1], expr.a)]
    return axis, tuple(leaves)


def _border(expr: c.ScalarExpr) -> tuple[c.IndexVar, Dim] | None:
    """Return the axis and the size in `select(axis < size, ...)`."""
    match expr:
        case c.Select(_, c.Scalar(_, "less", (c.IndexVar() as axis, c.DimValue(_, size)))):
            return axis, size
        case c.Select(_, c.Scalar(_, "less", (c.IndexVar() as axis, c.Const(_, int(size))))):
            return axis, size
        case _:
            return None


def _readers(outputs: tuple[c.Tensor, ...]) -> dict[c.Tensor, int]:
    """Return how many tensors and programs read each tensor."""
    counts: dict[c.Tensor, int] = {}
    for tensor in topological(outputs):
        if isinstance(tensor.op, c.ProgramOutput):
            below = set(tensor.op.source.inputs)
        elif isinstance(tensor.op, c.Compute):
            below = {m.tensor for m in nodes(tensor.op.body) if isinstance(m, c.TensorLoad)}
        else:
            below = set()
        for source in below:
            counts[source] = counts.get(source, 0) + 1
    return counts


class _Part:
    """Rebuilds the tensors of a chain for one leaf: `axis` runs over its range alone."""

    def __init__(self, join: _Join, begin: Dim, end: Dim, leaf: c.ScalarExpr) -> None:
        self.join = join
        self.begin = begin
        self.extent = dim_sub(end, begin)
        self.leaf = leaf

    def of(self, output: c.Tensor) -> c.Tensor:
        """Return the part of a tensor of the chain, those it reads first."""
        made: dict[c.Tensor, c.Tensor] = {}
        order = [output]
        while order[-1] is not self.join.tensor:
            loads = (m for m in nodes(body_of(order[-1]).body) if isinstance(m, c.TensorLoad))
            order.append(next(m.tensor for m in loads if m.tensor in self.join.chain))
        for tensor in reversed(order):
            made[tensor] = self._restricted(tensor, made)
        return made[output]

    def _restricted(self, tensor: c.Tensor, made: Mapping[c.Tensor, c.Tensor]) -> c.Tensor:
        body = body_of(tensor)
        axis = self.join.axis
        old = body.axes[axis]
        own = c.IndexVar(old.dtype, f"{old.name}p", self.extent)
        axes = (*body.axes[:axis], own, *body.axes[axis + 1 :])
        expr = self.leaf if tensor is self.join.tensor else body.body
        shape = (*tensor.shape[:axis], self.extent, *tensor.shape[axis + 1 :])
        value = _Shift(old, own, self.begin, body.axes, axes, made).expr(expr)
        direct = _whole(value, axes, shape)
        if direct is not None:
            return direct
        return c.Tensor(f"{tensor.name}_part", shape, tensor.dtype, c.Compute(axes, value))


def _whole(
    value: c.ScalarExpr, axes: tuple[c.IndexVar, ...], shape: tuple[Dim, ...]
) -> c.Tensor | None:
    """Return the computed tensor that a part is as it is."""
    if not isinstance(value, c.TensorLoad) or isinstance(value.tensor.op, c.Placeholder):
        return None
    same = len(shape) == value.tensor.rank and all(
        dims_equal(a, b) is True for a, b in zip(shape, value.tensor.shape)
    )
    return value.tensor if same and _is_plain(value, axes) else None


@dataclass(frozen=True)
class _Shift:
    """Replaces an index by one that counts from the beginning of a part."""

    old: c.IndexVar
    own: c.IndexVar
    begin: Dim
    old_axes: tuple[c.IndexVar, ...]
    axes: tuple[c.IndexVar, ...]
    made: Mapping[c.Tensor, c.Tensor]

    def expr(self, root: c.ScalarExpr) -> c.ScalarExpr:
        """Return the expression; shared parts stay shared."""
        done: dict[int, c.ScalarExpr] = {}
        for node in reversed(list(users_first(root))):
            done[id(node)] = self._node(node, done)
        return done[id(root)]

    def _node(self, node: c.ScalarExpr, done: Mapping[int, c.ScalarExpr]) -> c.ScalarExpr:
        def at(expr: c.ScalarExpr) -> c.ScalarExpr:
            return done[id(expr)]

        match node:
            case c.IndexVar() if node is self.old:
                return self.own if self.begin == 0 else self.own + c.dim(self.begin)
            case c.Scalar(_, "subtract", (first, second)) if first is self.old and (
                _is_dim(second, self.begin)
            ):
                return self.own
            case c.TensorLoad(_, tensor) if tensor in self.made and _is_plain(node, self.old_axes):
                return c.TensorLoad(node.dtype, self.made[tensor], self.axes)
            case _:
                return with_operands(node, at)


def _is_dim(expr: c.ScalarExpr, dim: Dim) -> bool:
    if isinstance(expr, c.Const):
        return expr.value == dim
    return isinstance(expr, c.DimValue) and dims_equal(expr.dim, dim) is True


def place_parts(
    phases: list[n.Phase], parts: Mapping[str, tuple[n.Buffer, int, n.Expr]]
) -> list[n.Phase]:
    """Return phases that reach parts, by the names of their buffers, where they lie in others.

    `parts` gives the other buffer, the axis and where on it the part begins. Raises CannotPlace.
    """
    placing = Placing(parts)
    return [replace(phase, body=placing.block(phase.body)) for phase in phases]


class Placing:
    """Rewrites statements that reach some buffers, by name, as parts of others."""

    def __init__(self, parts: Mapping[str, tuple[n.Buffer, int, n.Expr]]) -> None:
        self.parts = parts

    def block(self, body: tuple[n.Stmt, ...]) -> tuple[n.Stmt, ...]:
        """Return the statements with all their parts."""
        return tuple(self._stmt(stmt) for stmt in body)

    def _stmt(self, stmt: n.Stmt) -> n.Stmt:
        match stmt:
            case n.For():
                condition = None if stmt.condition is None else self._expr(stmt.condition)
                begin, end = self._expr(stmt.begin), self._expr(stmt.end)
                body = self.block(stmt.body)
                return replace(stmt, begin=begin, end=end, body=body, condition=condition)
            case n.If():
                then, otherwise = self.block(stmt.then), self.block(stmt.otherwise)
                return n.If(self._expr(stmt.condition), then, otherwise)
            case n.Let():
                return n.Let(stmt.var, self._expr(stmt.value))
            case n.TileStore():
                return n.TileStore(stmt.tile, self._expr(stmt.index), self._expr(stmt.value))
            case n.Store():
                mask = None if stmt.mask is None else self._expr(stmt.mask)
                buffer, indices = self._place(stmt.buffer, stmt.indices)
                return n.Store(buffer, indices, self._expr(stmt.value), mask)
            case n.Prefetch():
                return n.Prefetch(*self._place(stmt.buffer, stmt.indices))
            case _:
                return stmt

    def _expr(self, expr: n.Expr) -> n.Expr:
        expr = n.map_operands(expr, self._expr)
        if isinstance(expr, (n.Load, n.Gather)) and expr.buffer.name in self.parts:
            buffer, indices = self.moved(expr.buffer, expr.indices)
            return replace(expr, buffer=buffer, indices=indices)
        if isinstance(expr, n.Apart) and expr.output.name in self.parts:
            # An input that a part could lie in has the part's shape, so the whole never does.
            return replace(expr, output=self.parts[expr.output.name][0])
        return expr

    def _place(
        self, buffer: n.Buffer, indices: tuple[n.Expr, ...]
    ) -> tuple[n.Buffer, tuple[n.Expr, ...]]:
        indices = tuple(self._expr(i) for i in indices)
        return self.moved(buffer, indices) if buffer.name in self.parts else (buffer, indices)

    def moved(
        self, buffer: n.Buffer, indices: tuple[n.Expr, ...]
    ) -> tuple[n.Buffer, tuple[n.Expr, ...]]:
        """Return the other buffer, and where in it an element of a part is."""
        whole, axis, begin = self.parts[buffer.name]
        if begin == n.const(0) and whole.shape == buffer.shape:
            return whole, indices
        if len(indices) != len(whole.shape):  # a flat index
            if buffer.shape != whole.shape and any(e != n.const(1) for e in whole.shape[:axis]):
                raise CannotPlace(buffer.name)
            for extent in whole.shape[axis + 1 :]:
                begin = s.mul(begin, extent)
            axis = 0
        here = indices[axis]
        shift = n.broadcast(begin, here.lanes) if here.lanes > 1 else begin
        return whole, (*indices[:axis], s.add(here, shift), *indices[axis + 1 :])
