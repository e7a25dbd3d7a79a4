"""Leading axes taken as one: rows of [b, t, k] are b * t rows where nothing tells them apart.

Of two axes each tensor either has both in front and is read at its reader's own place on them, or
has neither. The computation is then scheduled with one axis in their place, and its nest reaches
the operands by flat indices, as they are dense.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from relayvm.base.dims import dim_mul
from relayvm.kernels import compute as c
from relayvm.kernels import loops as n
from relayvm.kernels.index.bounds import ensure_bounds
from relayvm.kernels.lower import Computation, skeleton
from relayvm.kernels.schedules.emit import CannotPlace, flat_index
from relayvm.kernels.schedules.joins import Placing
from relayvm.kernels.schedules.plan import (
    body_of,
    has_reduction,
    nodes,
    operands,
    program_of,
    same_shape,
    topological,
    users_first,
    with_operands,
)

JOINED = 2


def joined(computation: Computation) -> Computation | None:
    """Return a computation with its first axes as one, as many as may be; None where none are."""
    found: Computation | None = None
    while True:
        more = _with_two_joined(found or computation)
        if more is None:
            return found
        found = more


def _with_two_joined(computation: Computation) -> Computation | None:
    order = topological(computation.outputs)
    if computation.strided or any(program_of(t) is not None for t in order):
        return None
    if not any(map(has_reduction, order)):
        return None  # what has one axis of all elements needs no rows
    outputs = [t for t in computation.outputs if isinstance(t.op, c.Compute)]
    if len(outputs) < len(computation.outputs) or not _have_rows(outputs):
        return None
    rows = _with_rows(order, outputs)
    if rows is None:
        return None
    joining = _Joining(rows)
    made = {t: joining.tensor(t) for t in order}
    inputs = tuple(made.get(t) or joining.tensor(t) for t in computation.inputs)
    return replace(computation, inputs=inputs, outputs=tuple(made[t] for t in outputs))


def restored(nest: n.Nest, computation: Computation) -> n.Nest | None:
    """Return the nest of joined rows as one of the computation, or None where an access cannot be
    proved any more.
    """
    whole = skeleton(computation, computation.outputs).operands
    joined_shapes = {b.name: b.shape for b in nest.operands}
    restoring = _Restoring({b.name: b for b in whole if b.shape != joined_shapes[b.name]})
    try:
        phases = tuple(replace(p, body=restoring.block(p.body)) for p in nest.phases)
    except CannotPlace:
        return None
    found = replace(nest, operands=whole, phases=phases)
    return found if ensure_bounds(found) == found else None


class _Restoring(Placing):
    """Reaches operands by flat indices."""

    def __init__(self, operands: dict[str, n.Buffer]) -> None:
        self.operands = operands
        super().__init__({name: (b, 0, n.const(0)) for name, b in operands.items()})

    def moved(
        self, buffer: n.Buffer, indices: tuple[n.Expr, ...]
    ) -> tuple[n.Buffer, tuple[n.Expr, ...]]:
        """Return the operand and the flat index of an element of its joined form."""
        if any(i.lanes > 1 for i in indices):
            raise CannotPlace(buffer.name)
        flat = indices if len(indices) == 1 else (flat_index(buffer, indices),)
        return self.operands[buffer.name], flat


def _have_rows(outputs: list[c.Tensor]) -> bool:
    first = outputs[0].shape[:JOINED]
    if any(extent == 1 for extent in first):
        return False
    return all(t.rank > JOINED and same_shape(t.shape[:JOINED], first) for t in outputs)


def _with_rows(order: list[c.Tensor], outputs: list[c.Tensor]) -> set[c.Tensor] | None:
    """Return the tensors that have the axes; None where one is read at other places on them."""
    rows, others = set(outputs), set[c.Tensor]()
    first = outputs[0].shape[:JOINED]
    for tensor in reversed(order):
        if not isinstance(tensor.op, c.Compute):
            continue
        body = body_of(tensor)
        loads = [m for m in nodes(body.body) if isinstance(m, c.TensorLoad)]
        if tensor not in rows:
            others.update(load.tensor for load in loads)
            continue
        axes = body.axes[:JOINED]
        for load in loads:
            rest = load.indices
            if load.indices[:JOINED] == axes and same_shape(load.tensor.shape[:JOINED], first):
                rows.add(load.tensor)
                rest = load.indices[JOINED:]
            else:
                others.add(load.tensor)
            if any(m in axes for index in rest for m in nodes(index)):
                return None
        if _uses_apart(body.body, axes):
            return None
    return None if rows & others else rows


def _uses_apart(root: c.ScalarExpr, axes: tuple[c.IndexVar, ...]) -> bool:
    """Return whether an axis stands elsewhere than as an index of a load."""
    users = [m for m in nodes(root) if not isinstance(m, c.TensorLoad)]
    used = {id(part) for m in users for part in operands(m)}
    return any(a is root or id(a) in used for a in axes)


@dataclass
class _Joining:
    """Makes each tensor anew, its first axes as one where it is among `rows`."""

    rows: set[c.Tensor]
    made: dict[c.Tensor, c.Tensor] = field(default_factory=dict)

    def tensor(self, old: c.Tensor) -> c.Tensor:
        """Return the new tensor; those that it reads are there."""
        if old not in self.made:
            self.made[old] = self._tensor(old)
        return self.made[old]

    def _tensor(self, old: c.Tensor) -> c.Tensor:
        if old not in self.rows:
            return old
        shape = (dim_mul(*old.shape[:JOINED]), *old.shape[JOINED:])
        if not isinstance(old.op, c.Compute):
            return replace(old, shape=shape)
        row = c.IndexVar(old.op.axes[0].dtype, old.op.axes[0].name, shape[0])
        axes = (row, *old.op.axes[JOINED:])
        return replace(old, shape=shape, op=c.Compute(axes, self._body(old.op, row)))

    def _body(self, op: c.Compute, row: c.IndexVar) -> c.ScalarExpr:
        done: dict[int, c.ScalarExpr] = {}
        for node in reversed(list(users_first(op.body))):
            new = with_operands(node, lambda part: done[id(part)])
            if isinstance(node, c.TensorLoad) and node.tensor in self.rows:
                indices = (row, *(done[id(i)] for i in node.indices[JOINED:]))
                new = c.TensorLoad(node.dtype, self.made[node.tensor], indices)
            done[id(node)] = new
        return done[id(op.body)]
