"""Late epilogues: what tiles make of sums by costly functions is computed when a block is done.

A tile has a few columns, and exponentials of 4 lanes take as long as those of 16. So the sums of
a block wait in the worker's own memory until whole vectors of columns can be finished.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from relayvm.base.dtypes import DType
from relayvm.kernels import compute as c
from relayvm.kernels import loops as n
from relayvm.kernels.index import simplify as s
from relayvm.kernels.schedules.boxes import lane_loop
from relayvm.kernels.schedules.elementwise import store
from relayvm.kernels.schedules.emit import Context, Emitter
from relayvm.kernels.schedules.plan import CHEAP, Stage, body_of, operands

Finish = Callable[[n.Expr, n.Expr, list[n.Expr], "n.Expr | None"], None]


def has_costly_epilogue(stage: Stage, kept: AbstractSet[c.Tensor]) -> bool:
    """Return whether a stage computes costly functions of what it reduces."""
    seen: set[int] = set()
    stack: list[c.ScalarExpr] = [body_of(tensor).body for tensor in stage.tensors]
    while stack:
        expr = stack.pop()
        if id(expr) in seen or isinstance(expr, (c.Reduce, c.ArgReduce)):
            continue
        seen.add(id(expr))
        if isinstance(expr, c.Scalar) and expr.name not in CHEAP and expr.dtype.kind == "float":
            return True
        if isinstance(expr, c.TensorLoad):
            if expr.tensor not in kept and isinstance(expr.tensor.op, c.Compute):
                stack.append(expr.tensor.op.body)
            continue
        stack += operands(expr)
    return False


@dataclass(frozen=True)
class Sums:
    """The sums of one block of rows and columns, of each reduction a buffer."""

    buffers: tuple[n.Buffer, ...]
    rows: tuple[n.Expr, n.Expr]
    columns: tuple[n.Expr, n.Expr]

    def put(self, emitter: Emitter, row: n.Expr, column: n.Expr, values: list[n.Expr]) -> None:
        """Emit stores of what a row of a tile has summed, from a column on."""
        lanes = values[0].lanes
        place = column if lanes == 1 else n.Ramp(column, n.const(1), lanes)
        for buffer, value in zip(self.buffers, values):
            indices = self._indices(row, place)
            emitter.statements.append(store(buffer, indices, value, None, emitter))

    def finish(self, emitter: Emitter, finish: Finish) -> None:
        """Emit loops over whole vectors of the block."""
        row = emitter.context.names.var("i")
        begin, end = self.rows
        with emitter.block() as body:
            emitter.prover.add_range(row, begin, end)

            def step(k: n.Expr, mask: n.Expr | None) -> None:
                ramp = n.Ramp(k, n.const(1), n.LANES)
                indices = self._indices(row, ramp)
                values = [emitter.bind(emitter.load(b, indices)) for b in self.buffers]
                finish(row, ramp, values, mask)

            lane_loop(emitter, self.columns[1], step, self.columns[0])
        emitter.statements.append(n.For(row, begin, end, 1, tuple(body)))

    def _indices(self, row: n.Expr, column: n.Expr) -> tuple[n.Expr, ...]:
        return s.sub(row, self.rows[0]), s.sub(column, self.columns[0])


def sums_of(
    context: Context,
    dtypes: Iterable[DType],
    size: tuple[int, int],
    rows: tuple[n.Expr, n.Expr],
    columns: tuple[n.Expr, n.Expr],
) -> Sums:
    """Return memory of a worker's own for the sums of a block of at most so many rows and
    columns.
    """
    shape = tuple(map(n.const, size))
    buffers = tuple(n.Buffer(context.names.fresh("sum"), d, shape, "private") for d in dtypes)
    context.private += buffers
    return Sums(buffers, rows, columns)
