"""Rules of a nest that its text cannot express: scopes, dtypes, widths, what may be written.

A nest that passes touches no memory but its operands, scratch, private memory and tiles.
"""

from __future__ import annotations

from relayvm.base.abi import Access
from relayvm.base.diagnostics import assert_never, error
from relayvm.base.dtypes import BOOL, FLOAT64, INT32, INT64, UINT64
from relayvm.kernels import loops as n
from relayvm.kernels.index.bounds import broadcast_extents, ensure_bounds, is_size, nest_broadcasts
from relayvm.kernels.index.prover import Prover
from relayvm.kernels.scalar_ops import SCALAR_OPS

MAX_TILE_BYTES = 1 << 16
MAX_STACK_BYTES = 1 << 18
MAX_UNROLL = 1 << 12
# What a trap may tell.
TOLD = (INT64, UINT64, FLOAT64)


def verify_nest(nest: n.Nest) -> None:
    """Raise RelayError `bad-nest` with the first rule that `nest` breaks."""
    _Verifier(nest).run()


class _Verifier:
    def __init__(self, nest: n.Nest) -> None:
        self.nest = nest
        self.buffers = {b.name: b for b in nest.buffers}
        self.variables: dict[str, n.Var] = {}
        self.tiles: dict[str, n.Tile] = {}
        self.names: set[str] = set()
        self.stack_bytes = 0
        self.copies = 1

    def require(self, holds: bool, message: str) -> None:
        """Raise the error unless the rule holds."""
        if not holds:
            raise error("bad-nest", f"nest `{self.nest.name}`: {message}")

    def run(self) -> None:
        """Check the whole nest."""
        count = len(self.nest.buffers)
        self.require(len(self.buffers) == count, "two buffers have one name")
        self.require(len(set(self.nest.dims)) == len(self.nest.dims), "two dims have one name")
        self.require(bool(self.nest.phases), "there is no phase")
        roles = [b.role for b in self.nest.operands]
        self.require(roles == sorted(roles), "inputs must come before outputs")
        for buffer in self.buffers.values():
            self._buffer(buffer)
        for size in self.nest.joined:
            self._size(size, "a joined size")
            self.require(bool(broadcast_extents([size])), "a joined size is no broadcast")
        broadcasts = nest_broadcasts(self.nest)
        for phase in self.nest.phases:
            self._size(phase.extent, f"the extent of phase `{phase.var.name}`")
            self._size(phase.chain, f"the chain of phase `{phase.var.name}`")
            self._define(phase.var)
            prover = Prover(broadcasts=broadcasts)
            prover.add_range(phase.var, n.const(0), phase.extent)
            self._block(phase.body, prover)
        proved = ensure_bounds(self.nest) == self.nest
        self.require(proved, "an access is neither proved to be in range nor checked")

    def _buffer(self, buffer: n.Buffer) -> None:
        self.require(buffer.role in n.ROLES, f"role `{buffer.role}`")
        strided = buffer.access is Access.STRIDED
        self.require(not strided or buffer.role == "input", "only inputs may be strided")
        scalar = buffer.access is Access.SCALAR
        self.require(not scalar or not buffer.shape, f"`{buffer.name}` is scalar and has axes")
        for extent in buffer.shape:
            self._size(extent, f"an extent of `{buffer.name}`")

    def _size(self, expr: n.Expr, what: str) -> None:
        self._expr(expr, Prover())
        self.require(is_size(expr), f"{what} must be made of dims and literals")
        self._index(expr, what)

    def _define(self, var: n.Var) -> None:
        self.require(var.name not in self.names, f"`{var.name}` is defined twice")
        self.require(var.name not in self.buffers, f"`{var.name}` is a buffer and a variable")
        self.names.add(var.name)
        self.variables[var.name] = var

    def _index(self, expr: n.Expr, what: str) -> None:
        self.require(expr.dtype == INT64 and expr.lanes == 1, f"{what} must be an int64 scalar")

    def _block(self, body: tuple[n.Stmt, ...], prover: Prover) -> None:
        variables, tiles = dict(self.variables), dict(self.tiles)
        for stmt in body:
            self._stmt(stmt, prover)
        self.variables, self.tiles = variables, tiles

    def _stmt(self, stmt: n.Stmt, prover: Prover) -> None:
        match stmt:
            case n.For():
                self._for(stmt, prover)
            case n.If(condition, then, otherwise):
                self._condition(condition, prover)
                yes, no = prover.child(), prover.child()
                yes.add_condition(condition)
                no.add_condition(condition, False)
                self._block(then, yes)
                self._block(otherwise, no)
            case n.Store(buffer, indices, value, mask):
                self._expr(value, prover)
                self.require(buffer.role != "input", f"input `{buffer.name}` is written")
                self.require(value.dtype == buffer.dtype, f"dtype of a store to `{buffer.name}`")
                self._access(buffer, indices, value.lanes, mask, prover)
            case n.TileStore(tile, index, value):
                self._expr(value, prover)
                self._tile(tile, index, prover)
                same = (value.dtype, value.lanes) == (tile.dtype, tile.lanes)
                self.require(same, f"a store to tile `{tile.name}` has another dtype or width")
            case n.Prefetch(buffer, indices):
                self._prefetch(buffer, indices, prover)
            case n.Let(var, value):
                self._expr(value, prover)
                same = (value.dtype, value.lanes) == (var.dtype, var.lanes)
                self.require(same, f"`{var.name}` has another dtype or width than its value")
                self._define(var)
                prover.add_value(var, value)
            case n.Declare(tile):
                self._declare(tile)
            case _:
                assert_never(stmt)

    def _prefetch(self, buffer: n.Buffer, indices: tuple[n.Expr, ...], prover: Prover) -> None:
        whole = len(indices) in (1, len(buffer.shape)) and buffer.access is Access.DENSE
        self.require(whole, f"`{buffer.name}` cannot be prefetched so")
        for index in indices:
            self._expr(index, prover)
            self._index(index, f"an index of `{buffer.name}`")

    def _for(self, stmt: n.For, prover: Prover) -> None:
        for edge in (stmt.begin, stmt.end):
            self._expr(edge, prover)
            self._index(edge, "the edge of a loop")
        self.require(stmt.step > 0, "the step of a loop must be positive")
        inner, copies = prover.child(), self.copies
        if stmt.kind == "unroll":
            fixed = isinstance(stmt.begin, n.Const) and isinstance(stmt.end, n.Const)
            self.require(fixed, f"unrolled loop `{stmt.var.name}` needs literal edges")
            assert isinstance(stmt.begin, n.Const) and isinstance(stmt.end, n.Const)
            self.copies *= max(1, int(stmt.end.value) - int(stmt.begin.value))
            self.require(self.copies <= MAX_UNROLL, "loops unroll to too many copies")
        else:
            self.require(stmt.kind == "serial", f"unknown kind of loop `{stmt.kind}`")
        self._define(stmt.var)
        inner.add_range(stmt.var, stmt.begin, stmt.end, stmt.step)
        if stmt.condition is not None:
            self.require(stmt.kind == "serial", "only a serial loop ends early")
            self._condition(stmt.condition, inner)
            inner.add_condition(stmt.condition)
        self._block(stmt.body, inner)
        self.copies = copies

    def _condition(self, condition: n.Expr, prover: Prover) -> None:
        self._expr(condition, prover)
        scalar = condition.dtype == BOOL and condition.lanes == 1
        self.require(scalar, "a condition must be a bool scalar")

    def _declare(self, tile: n.Tile) -> None:
        self.require(tile.name not in self.names, f"`{tile.name}` is defined twice")
        self.names.add(tile.name)
        size_bytes = tile.size * tile.lanes * tile.dtype.itemsize_bytes
        self.require(0 < size_bytes <= MAX_TILE_BYTES, f"tile `{tile.name}` is too large or empty")
        self.stack_bytes += size_bytes * self.copies
        self.require(self.stack_bytes <= MAX_STACK_BYTES, "tiles take too much stack")
        self.tiles[tile.name] = tile

    def _tile(self, tile: n.Tile, index: n.Expr, prover: Prover) -> None:
        self.require(self.tiles.get(tile.name) == tile, f"tile `{tile.name}` is not declared here")
        self._expr(index, prover)
        self._index(index, "the index of a tile")
        inside = prover.in_range(index, n.const(tile.size), 1)
        self.require(inside, f"an index of tile `{tile.name}` is not proved to be in range")

    def _access(
        self,
        buffer: n.Buffer,
        indices: tuple[n.Expr, ...],
        lanes: int,
        mask: n.Expr | None,
        prover: Prover,
    ) -> None:
        self.require(self.buffers.get(buffer.name) == buffer, f"unknown buffer `{buffer.name}`")
        flat = len(indices) == 1 and buffer.access is Access.DENSE
        self.require(flat or len(indices) == len(buffer.shape), f"rank of `{buffer.name}`")
        self.require(lanes == 1 or bool(indices), f"lanes of `{buffer.name}`, which has no axes")
        for index in indices:
            self._expr(index, prover)
            self._index(index, f"an index of `{buffer.name}`")
        self._mask(mask, lanes, prover)

    def _mask(self, mask: n.Expr | None, lanes: int, prover: Prover) -> None:
        if mask is not None:
            self._expr(mask, prover)
            same = mask.dtype == BOOL and mask.lanes == lanes
            self.require(same, "a mask must be bool with the lanes of its access")

    def _expr(self, expr: n.Expr, prover: Prover) -> None:
        match expr:
            case n.Var():
                self.require(self.variables.get(expr.name) == expr, f"`{expr.name}` is unknown")
                return
            case n.DimRef(name):
                self.require(name in self.nest.dims, f"unknown dim `{name}`")
                return
            case n.Load(buffer, indices, lanes, mask):
                self._access(buffer, indices, lanes, mask, prover)
                return
            case n.TileLoad(tile, index):
                self._tile(tile, index, prover)
                return
            case n.Apart(output, source):
                for buffer, role in ((output, "output"), (source, "input")):
                    known = self.buffers.get(buffer.name) == buffer and buffer.role == role
                    dense = buffer.access is Access.DENSE
                    self.require(known and dense, f"`{buffer.name}` is no dense {role}")
                return
            case _:
                pass
        for child in n.children(expr):
            self._expr(child, prover)
        self.require(self._fits(expr), f"operands of `{type(expr).__name__}` do not fit")

    def _fits(self, expr: n.Expr) -> bool:
        """Return whether the operands of a node have the dtypes and lanes it needs."""
        match expr:
            case n.Call(name, args, dtype, lanes):
                row = SCALAR_OPS.get(name)
                if row is None or len(args) != row.arity:
                    return False
                same = all((a.dtype, a.lanes) == (args[0].dtype, lanes) for a in args)
                known = args[0].dtype in row.dtypes
                return same and known and row.result(args[0].dtype) == dtype
            case n.Cast(value, _, lanes):
                return value.lanes == lanes
            case n.Select(condition, a, b, dtype, lanes):
                widths = {condition.lanes, a.lanes, b.lanes} == {lanes}
                return widths and condition.dtype == BOOL and a.dtype == b.dtype == dtype
            case n.Broadcast(value, _, dtype):
                return value.lanes == 1 and value.dtype == dtype
            case n.Gather(buffer, indices, lanes, mask):
                known = self.buffers.get(buffer.name) == buffer
                wide = all(i.lanes == lanes and i.dtype == INT64 for i in indices)
                masked = mask is None or (mask.dtype == BOOL and mask.lanes == lanes)
                return known and wide and masked and len(indices) == len(buffer.shape)
            case n.Tree(op, vectors, dtype, lanes):
                lengths = {v.lanes for v in vectors}
                whole = lengths <= {2, 4, 8, 16, 32, 64} and len(lengths) == 1
                powers = len(vectors) in (1, 2, 4, 8, 16, 32)
                same = all(v.dtype == dtype for v in vectors)
                return op in n.TREE_OPS and whole and powers and same and lanes == len(vectors)
            case n.Dot(acc, a, b, lanes):
                small = all(x.dtype.is_integer and x.dtype.bits in (8, 16) for x in (a, b))
                groups = a.lanes == b.lanes and a.lanes in (2 * lanes, 4 * lanes)
                return small and groups and acc.dtype == INT32 and acc.lanes == lanes
            case n.Shuffle(a, b, picks, dtype):
                known = all(0 <= pick < 2 * a.lanes for pick in picks)
                return known and a.lanes == b.lanes > 1 and a.dtype == b.dtype == dtype
            case n.Lane(vector, number, dtype):
                return 0 <= number < vector.lanes and vector.dtype == dtype
            case n.Index(value, extent, _, _, told):
                whole = all(c.lanes == 1 and c.dtype == INT64 for c in (value, extent))
                return whole and all(t.lanes == 1 and t.dtype in TOLD for t in told or ())
            case n.Ramp() | n.Mask():
                return all(c.lanes == 1 and c.dtype == INT64 for c in n.children(expr))
            case _:
                return True
