"""Grids: phases over blocks of several axes at once, and loops over tiles inside a block.

The blocks are numbered with the last axis running fastest, so that a worker's share of a phase is
blocks that lie together, and what all of them read of the first axes stays in its cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from relayvm.base.dtypes import BOOL
from relayvm.kernels import loops as n
from relayvm.kernels.index import simplify as s
from relayvm.kernels.schedules.emit import Context, Emitter

TileBody = Callable[[Emitter, n.Expr, int], None]
Place = dict[int, n.Expr]
Ranges = dict[int, tuple[n.Expr, n.Expr]]


@dataclass(frozen=True)
class Side:
    """One axis of a grid, in blocks of `size`; all of it where that is None."""

    axis: int
    extent: n.Expr
    size: int | None

    @property
    def count(self) -> n.Expr:
        """How many blocks there are."""
        if self.size is None:
            return n.const(1)
        return s.floordiv(s.add(self.extent, n.const(self.size - 1)), n.const(self.size))

    @property
    def is_whole(self) -> bool:
        """Whether all blocks are known to be of one size."""
        return self.size is not None and s.floormod(self.extent, n.const(self.size)) == n.const(0)


def grid_phase(
    context: Context, emitter: Emitter, sides: list[Side], run: Callable[[Ranges], None]
) -> n.Phase:
    """Return a phase over the blocks of a grid; `run` emits one of them."""
    var = context.names.var("b")
    total: n.Expr = n.const(1)
    for side in sides:
        total = s.mul(total, side.count)
    with emitter.block() as body:
        emitter.prover.add_range(var, n.const(0), total)
        begins = _begins(emitter, sides, var)
        with _inside(emitter, begins, [] if isinstance(total, n.Const) else sides):
            run({side.axis: _range(emitter, side, begins[side.axis]) for side in sides})
    return n.Phase(var, total, tuple(body))


def _begins(emitter: Emitter, sides: list[Side], position: n.Expr) -> Place:
    """Return where on each axis the block begins that has a number."""
    begins: Place = {}
    outermost = next((side for side in sides if side.count != n.const(1)), None)
    for side in reversed(sides):
        if side.count == n.const(1):
            begins[side.axis] = n.const(0)
            continue
        number = position if side is outermost else s.floormod(position, side.count)
        position = s.floordiv(position, side.count)
        begins[side.axis] = emitter.bind(s.mul(number, n.const(side.size or 1)), "e")
    return begins


@contextmanager
def _inside(emitter: Emitter, begins: Place, sides: list[Side]) -> Iterator[None]:
    """Let the prover know that blocks begin inside their axes, which it does not see where a
    number was divided by an unknown count."""
    condition: n.Expr = n.const(True, BOOL)
    for side in sides:
        begin = begins[side.axis]
        if not isinstance(begin, n.Const) and side.size is not None:
            room = side.size if side.is_whole else 1
            last = s.sub(side.extent, n.const(room))
            condition = s.both(condition, s.compare("less_equal", begin, last))
    if isinstance(condition, n.Const):
        yield
        return
    with emitter.block() as body:
        emitter.prover.add_condition(condition)
        yield
    emitter.statements.append(n.If(condition, tuple(body)))


def _range(emitter: Emitter, side: Side, begin: n.Expr) -> tuple[n.Expr, n.Expr]:
    if isinstance(begin, n.Const) or side.size is None:
        return n.const(0), side.extent
    end = s.add(begin, n.const(side.size))
    if not side.is_whole:
        end = emitter.bind(s.minimum(end, side.extent), "e")
    return begin, end


def tile_loops(
    emitter: Emitter,
    begin: n.Expr,
    end: n.Expr,
    widths: tuple[int, ...],
    body: TileBody,
    total: n.Expr | None = None,
) -> n.Expr:
    """Emit a loop over tiles of the first width, then the rest in tiles of the others.

    With `total` the range is one of the blocks of an axis of that many elements, which are
    multiples of the first width but for the last. Returns where the tiles end: at `end` if the
    last width is 1.
    """
    for number, width in enumerate(widths):
        room = s.floordiv(s.sub(end, begin), n.const(width))
        last = s.add(begin, s.mul(room, n.const(width)))
        if last != begin:
            last = emitter.bind(last, "e")
            var = emitter.context.names.var("i")
            with emitter.block() as inner:
                emitter.prover.add_range(var, begin, last, width)
                body(emitter, var, width)
            emitter.statements.append(n.For(var, begin, last, width, tuple(inner)))
        if number == 0 and isinstance(total, n.Const) and not isinstance(last, n.Const):
            return _known_rest(emitter, last, end, int(total.value), widths, body)
        begin = last
    return begin


def _known_rest(
    emitter: Emitter,
    last: n.Expr,
    end: n.Expr,
    total: int,
    widths: tuple[int, ...],
    body: TileBody,
) -> n.Expr:
    """Emit the tiles of a rest that only the last block has, and whose place is known."""
    rest = total % widths[0]
    if not rest:
        return end
    begin: n.Expr = n.const(total - rest)
    with emitter.block() as inner:
        begin = tile_loops(emitter, begin, n.const(total), widths[1:], body)
    if inner:
        emitter.statements.append(n.If(s.compare("less", last, end), tuple(inner)))
    return begin
