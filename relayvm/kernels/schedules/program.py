"""Programs: loops that an operator writes itself, and the writer through which it does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count

from relayvm.base.abi import Access
from relayvm.base.dims import Dim, DimVar, dim_add, dim_floordiv, dim_min, dim_mul
from relayvm.base.dtypes import BOOL, INT64, DType
from relayvm.kernels import compute as c
from relayvm.kernels import loops as n
from relayvm.kernels.index import simplify as s
from relayvm.kernels.printer import print_nest
from relayvm.kernels.schedules.boxes import lane_loop
from relayvm.kernels.schedules.elementwise import store
from relayvm.kernels.schedules.emit import CannotPlace, Context, Emitter, Frame, Names
from relayvm.kernels.schedules.reduction import serial
from relayvm.kernels.schedules.transpose import turned

BLOCK = 1 << 14  # elements that one round of a copy moves
WALKED = 1 << 16  # steps of a walk that one round of its phase does
LONG_STEPS = 1 << 12  # the same where each has some hundred operations


def program_phases(context: Context, program: c.Program, scratch: list[n.Buffer]) -> list[n.Phase]:
    """Return the phases of a program; buffers that it asks for are added to `scratch`."""
    if all(0 in tensor.shape for tensor in program.outputs):
        # It has nothing to write: what it reads is not looked at.
        return [n.Phase(context.names.var("i"), n.const(0), (), n.const(1))]
    writer = Writer(context, scratch)
    tensors = (*program.inputs, *program.outputs)
    program.build(writer, *(Memory(writer, context.buffers[t], t.shape) for t in tensors))
    return writer.phases


def program_text(program: c.Program, dims: Mapping[DimVar, str]) -> str:
    """Return the loops of a program as text, alike for programs that do the same."""
    context = Context(Names(), dims, {})
    buffers = []
    for role, tensors in (("input", program.inputs), ("output", program.outputs)):
        for number, tensor in enumerate(tensors):
            shape = tuple(context.dim(d) for d in tensor.shape)
            buffers.append(n.Buffer(f"{role}{number}", tensor.dtype, shape, role))
            context.buffers[tensor] = buffers[-1]
    scratch: list[n.Buffer] = []
    phases = program_phases(context, program, scratch)
    names, private = tuple(dims.values()), tuple(context.private)
    whole = n.Nest("program", names, tuple(buffers), tuple(scratch), tuple(phases), private)
    return print_nest(whole)


@dataclass(frozen=True, eq=False)
class Memory:
    """A tensor in memory: `m[i, j]` reads an element now, `m[i, j] = value` writes one.

    One index on a tensor of another rank counts in row-major order. An index that is not proved to
    be inside is checked and traps.
    """

    writer: Writer
    buffer: n.Buffer
    shape: tuple[Dim, ...]

    @property
    def dtype(self) -> DType:
        return self.buffer.dtype

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def has_gaps(self) -> bool:
        """Whether other elements lie between its rows: it is a part of a larger tensor."""
        return self.buffer.shape != tuple(map(self.writer.context.dim, self.shape))

    def __getitem__(self, indices: c.Operand | tuple[c.Operand, ...]) -> c.ScalarExpr:
        return self.writer.read(self.buffer, self._counted(indices))

    def __setitem__(self, indices: c.Operand | tuple[c.Operand, ...], value: c.Operand) -> None:
        self.writer.write(self.buffer, self._counted(indices), value)

    def _counted(
        self, indices: c.Operand | tuple[c.Operand, ...]
    ) -> c.Operand | tuple[c.Operand, ...]:
        count = len(indices) if isinstance(indices, tuple) else 1
        if count == self.rank:
            return indices
        if self.has_gaps:
            raise CannotPlace(self.buffer.name)
        if self.buffer.access is Access.STRIDED:
            return self._apart(indices)
        return indices

    def _apart(self, flat: c.Operand | tuple[c.Operand, ...]) -> c.Operand | tuple[c.Operand, ...]:
        """Return the index on each axis of a row-major place: rows may lie anywhere."""
        (rest,) = flat if isinstance(flat, tuple) else (flat,)
        found: list[c.Operand] = []
        for extent in self.shape[:0:-1]:
            found.append(c.scalar("floor_mod", rest, c.dim(extent)))
            rest = c.scalar("floor_divide", rest, c.dim(extent))
        return (rest, *reversed(found))


@dataclass(eq=False)
class Cell:
    """A scalar that changes: `cell.value` reads it now, `cell.value = x` sets it."""

    writer: Writer
    tile: n.Tile

    @property
    def value(self) -> c.ScalarExpr:
        """What the cell holds at this point of the program."""
        return self.writer.bind(n.TileLoad(self.tile, n.const(0)))

    @value.setter
    def value(self, value: c.Operand) -> None:
        self.writer.set(self.tile, value)


@dataclass(eq=False)
class Kept:
    """What cells hold from one part of a line to the next, for each line of `others`."""

    writer: Writer
    others: tuple[Dim, ...]
    size: Dim
    block: int
    dtype: DType
    memory: Memory | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        if isinstance(self.size, int) and self.size <= self.block:
            return
        several: Dim = 1
        if not isinstance(self.size, int):
            several = dim_min(dim_floordiv(self.size, self.block), 1)
        self.memory = self.writer.scratch((several, *self.others), self.dtype)

    def cell(
        self, first: c.ScalarExpr, line: tuple[c.ScalarExpr, ...], begin: c.ScalarExpr
    ) -> Cell:
        """Return a cell for the part that begins there, the first of a line with `first`."""
        cell = self.writer.cell(first)
        if self.memory is not None:
            with self.writer.when(begin > 0):
                place = (c.const(0, INT64), *line)
                cell.value = self.memory[place]
        return cell

    def keep(
        self,
        cell: Cell,
        line: tuple[c.ScalarExpr, ...],
        begin: c.ScalarExpr,
        end: c.ScalarExpr,
    ) -> None:
        """Keep what a cell holds where a whole part ends; one that is empty may follow."""
        if self.memory is not None:
            with self.writer.when(end - begin >= self.block):
                place = (c.const(0, INT64), *line)
                self.memory[place] = cell.value


class Writer:
    """Writes the loops of a program: what is called first runs first.

    Expressions are those of `kernels/compute.py` over what `loop`, `let`, cells and memory give.
    """

    def __init__(self, context: Context, scratch: list[n.Buffer]) -> None:
        self.context = context
        self.phases: list[n.Phase] = []
        self._scratch = scratch
        self._frame: Frame = {}
        self._now: Emitter | None = None
        self._lanes = 1

    @property
    def _emitter(self) -> Emitter:
        assert self._now is not None, "statements stand in a phase"
        return self._now

    # -- Structure ------------------------------------------------------------------------------

    @contextmanager
    def phase(self, extent: Dim = 1, chain: Dim = 1) -> Iterator[c.ScalarExpr]:
        """Run the body for i below `extent`, in parallel; a phase ends before the next begins.

        Each round must write elements of its own: their indices follow from i. But each `chain` of
        rounds, so many one after the other, runs in order and on one thread, and may share what it
        writes. Between rounds a run can be ended.
        """
        assert self._now is None, "phases do not nest"
        emitter = self._now = Emitter(self.context, serial)
        var, end = self.context.names.var("i"), self.context.dim(extent)
        emitter.prover.add_range(var, n.const(0), end)
        with emitter.block() as body:
            yield self._named(var)
        self._now = None
        rounds = self.context.dim(chain)
        own = end in (n.const(1), rounds) or _writes_own(var, body)
        assert own, "a parallel phase writes what is shared"
        self.phases.append(n.Phase(var, end, tuple(body), rounds))

    @contextmanager
    def parts(
        self, count: Dim, size: Dim, block: int = WALKED, in_order: bool = False
    ) -> Iterator[tuple[c.ScalarExpr, c.ScalarExpr, c.ScalarExpr]]:
        """Run the body for each part of `count` lines of `size` elements, in a phase of its own:
        with the line, and where in it the part begins and ends.

        Parts of a line run at once, or `in_order` where what they write may meet. Each line has
        one, which is empty if the line is.
        """
        if isinstance(size, int):
            parts: Dim = max(1, -(-size // block))
        else:
            parts = dim_add(dim_floordiv(size, block), 1)
        with self.phase(dim_mul(count, parts), parts if in_order else 1) as number:
            if parts == 1:
                yield number, c.const(0, INT64), c.dim(size)
                return
            line, part = c.const(0, INT64), number
            if count != 1:
                line = self.let(c.index(number // c.dim(parts), count, "clip"))
                part = c.scalar("maximum", number - line * c.dim(parts), 0)
            begin = self.let(part * block)
            yield line, begin, self.let(c.scalar("minimum", begin + block, c.dim(size)))

    @contextmanager
    def walk_lines(
        self,
        count: Dim,
        size: Dim,
        *cells: tuple[c.ScalarExpr, Memory | None],
        block: int = WALKED,
    ) -> Iterator[tuple[c.ScalarExpr, c.ScalarExpr, list[Cell]]]:
        """Run the body for each line below `count`, in parallel, and i below `size`, in order, in a
        phase of its own; cells keep what they hold from one i to the next.

        Each is given as what it holds at first, and a memory with an element for each line for what
        it holds at last, where that is needed. Between blocks of a line a run can be ended.
        """
        with self.parts(count, size, block, in_order=True) as (line, begin, end):
            held = []
            for first, _ in cells:
                kept = Kept(self, (count,), size, block, first.dtype)
                held.append((kept.cell(first, (line,), begin), kept))
            with self.loop(begin, end) as i:
                yield line, i, [cell for cell, _ in held]
            for (cell, kept), (_, last) in zip(held, cells):
                kept.keep(cell, (line,), begin, end)
                if last is not None:
                    last[line] = cell.value

    @contextmanager
    def walk(
        self, size: Dim, *cells: tuple[c.ScalarExpr, Memory | None], block: int = WALKED
    ) -> Iterator[tuple[c.ScalarExpr, list[Cell]]]:
        """Run the body for each i below `size`, in order, as `walk_lines` does for one line."""
        with self.walk_lines(1, size, *cells, block=block) as (_, i, held):
            yield i, held

    @contextmanager
    def loop(self, begin: c.Operand, end: c.Operand, step: int = 1) -> Iterator[c.ScalarExpr]:
        """Run the body for `begin`, `begin + step`, ... below `end`; both may be values."""
        with self._for(begin, end, step, None) as var:
            yield var

    def vectors(
        self,
        begin: c.Operand,
        end: c.Operand,
        body: Callable[[c.ScalarExpr], None],
        lanes: int = n.LANES,
    ) -> None:
        """Run `body(j)` for every j from `begin` below `end`, many at once: a cell made inside has
        a value for each of them.

        `j` must be the last index of what is read and written with it. The body is called for
        whole vectors, and again for what is left.
        """

        def step(k: n.Expr, mask: n.Expr | None) -> None:
            outer, self._lanes = self._lanes, lanes
            body(self._named(n.Ramp(k, n.const(1), lanes)))
            self._lanes = outer

        assert self._lanes == 1, "vectors do not nest"
        lane_loop(self._emitter, self._index(end), step, self._index(begin), lanes)

    @contextmanager
    def lanes(self, count: int) -> Iterator[c.ScalarExpr]:
        """Run the body once, for j = 0, 1, ... below `count` at once, as `vectors` does for each of
        its vectors: where all that lies behind a place is whole vectors.
        """
        assert self._lanes == 1, "vectors do not nest"
        self._lanes = count
        yield self._named(n.Ramp(n.const(0), n.const(1), count))
        self._lanes = 1

    def turned(self, rows: Sequence[c.ScalarExpr]) -> list[c.ScalarExpr]:
        """Return the columns of a square: as many vectors as each has lanes."""
        emitter = self._emitter
        columns = turned([self._value(r) for r in rows], rows[0].dtype.itemsize_bytes, emitter.bind)
        return [self._named(column) for column in columns]

    def shifted(self, j: c.ScalarExpr, by: c.ScalarExpr) -> c.ScalarExpr:
        """Return `j + by` for what `vectors` gives: a last index like `j` itself."""
        lanes = self._value(j)
        if not isinstance(lanes, n.Ramp):
            return j + by
        return self._named(n.Ramp(s.add(lanes.base, self._index(by)), lanes.stride, lanes.lanes))

    @contextmanager
    def loop_while(
        self, begin: c.Operand, end: c.Operand, condition: Cell
    ) -> Iterator[c.ScalarExpr]:
        """Run the body as `loop` does, and end early where a bool cell does not hold."""
        assert condition.tile.dtype == BOOL, "a condition is a bool"
        with self._for(begin, end, 1, n.TileLoad(condition.tile, n.const(0))) as var:
            yield var

    @contextmanager
    def _for(
        self, begin: c.Operand, end: c.Operand, step: int, condition: n.Expr | None
    ) -> Iterator[c.ScalarExpr]:
        low, high = self._index(begin), self._index(end)
        emitter, var = self._emitter, self.context.names.var("k")
        with emitter.block() as body:
            emitter.prover.add_range(var, low, high, step)
            yield self._named(var)
        loop = n.For(var, low, high, step, tuple(body), "serial", condition)
        emitter.statements.append(loop)

    @contextmanager
    def when(self, condition: c.ScalarExpr) -> Iterator[None]:
        """Run the body where the condition holds."""
        emitter, test = self._emitter, self._value(condition)
        with emitter.block() as body:
            emitter.prover.add_condition(test)
            yield
        emitter.statements.append(n.If(test, tuple(body)))

    @contextmanager
    def otherwise(self) -> Iterator[None]:
        """Run the body where the condition of the `when` just before did not hold."""
        emitter = self._emitter
        before = emitter.statements[-1] if emitter.statements else None
        assert isinstance(before, n.If) and not before.otherwise, "`otherwise` follows a `when`"
        with emitter.block() as body:
            emitter.prover.add_condition(before.condition, False)
            yield
        emitter.statements[-1] = n.If(before.condition, before.then, tuple(body))

    def copy(self, source: Memory, target: Memory) -> None:
        """Give a tensor the elements of one of its shape, in a phase of its own; not where it lies
        in the memory of that, as `in_place` of the program allows.
        """
        dense = source.buffer.access is target.buffer.access is Access.DENSE
        dense = dense and not (source.has_gaps or target.has_gaps)
        blocks = dim_floordiv(dim_add(_product(source.shape), BLOCK - 1), BLOCK)
        extent = blocks if dense else next(iter(source.shape), 1)
        with self.phase(extent) as part:
            emitter = self._emitter
            with emitter.block() as body:
                if dense:
                    self._copy_block(source, target, part * BLOCK)
                else:
                    self._copy_rows(source, target, (part,))
            roles = target.buffer.role, source.buffer.role
            if dense and roles == ("output", "input"):
                body = [n.If(n.Apart(target.buffer, source.buffer), tuple(body))]
            emitter.statements.extend(body)

    def _copy_block(self, source: Memory, target: Memory, begin: c.ScalarExpr) -> None:
        end = c.scalar("minimum", begin + BLOCK, c.dim(_product(source.shape)))

        def step(flat: c.ScalarExpr) -> None:
            target[flat] = source[flat]

        self.vectors(begin, end, step)

    def _copy_rows(self, source: Memory, target: Memory, at: tuple[c.ScalarExpr, ...]) -> None:
        if len(at) >= source.rank:
            at = at[: source.rank]
            target[at] = source[at]
            return
        with self.loop(0, c.dim(source.shape[len(at)])) as k:
            self._copy_rows(source, target, (*at, k))

    # -- Values ---------------------------------------------------------------------------------

    def let(self, value: c.ScalarExpr) -> c.ScalarExpr:
        """Return the value computed here, once."""
        return self._named(self._emitter.bind(self._value(value)))

    def cell(self, value: c.ScalarExpr) -> Cell:
        """Return a scalar that can change, with what it holds at first."""
        names = self.context.names
        tile = n.Tile(names.fresh("cell"), value.dtype, self._lanes, 1)
        first = n.broadcast(self._value(value), self._lanes)
        self._emitter.statements += [n.Declare(tile), n.TileStore(tile, n.const(0), first)]
        return Cell(self, tile)

    def scratch(self, shape: tuple[Dim, ...], dtype: DType) -> Memory:
        """Return memory for the program alone; all phases and rounds see the same."""
        extents = tuple(self.context.dim(d) for d in shape)
        names = {buffer.name for buffer in self._scratch}
        number = next(k for k in count(len(names)) if f"tmp{k}" not in names)
        buffer = n.Buffer(f"tmp{number}", dtype, extents, "scratch")
        self._scratch.append(buffer)
        return Memory(self, buffer, shape)

    def room(self, shape: tuple[Dim, ...], dtype: DType) -> Memory:
        """Return memory of each round of a phase alone: what it reads there it has written."""
        extents = tuple(self.context.dim(d) for d in shape)
        buffer = n.Buffer(self.context.names.fresh("room"), dtype, extents, "private")
        self.context.private.append(buffer)
        return Memory(self, buffer, shape)

    # -- What memory and cells call ---------------------------------------------------------------

    def read(self, buffer: n.Buffer, indices: c.Operand | tuple[c.Operand, ...]) -> c.ScalarExpr:
        """Return an element as it is at this point."""
        return self.bind(self._emitter.load(buffer, self._place(indices)))

    def write(
        self,
        buffer: n.Buffer,
        indices: c.Operand | tuple[c.Operand, ...],
        value: c.Operand,
    ) -> None:
        """Set an element."""
        stored = self._typed(value, buffer.dtype)
        emitter, place = self._emitter, self._place(indices)
        lanes = max((i.lanes for i in place), default=1)
        written = store(buffer, place, n.broadcast(stored, lanes), emitter.mask, emitter)
        emitter.statements.append(written)
        emitter.forget_loads()

    def set(self, tile: n.Tile, value: c.Operand) -> None:
        """Set a cell."""
        stored = n.broadcast(self._typed(value, tile.dtype), tile.lanes)
        self._emitter.statements.append(n.TileStore(tile, n.const(0), stored))

    def bind(self, value: n.Expr) -> c.ScalarExpr:
        """Return a name for a value taken from memory: it may be another the next time."""
        return self._named(self._emitter.bind(value, "x"))

    def _named(self, value: n.Expr) -> c.ScalarExpr:
        name = value.name if isinstance(value, n.Var) else "value"
        bound = c.Bound(value.dtype, name)
        self._frame[bound] = value
        return bound

    def _value(self, value: c.ScalarExpr) -> n.Expr:
        return self._emitter.value(value, self._frame)

    def _typed(self, value: c.Operand, dtype: DType) -> n.Expr:
        adopted = c.adopt(value, dtype)
        assert adopted.dtype == dtype, f"{adopted.dtype} is stored as {dtype}"
        return self._value(adopted)

    def _index(self, value: c.Operand) -> n.Expr:
        return self._value(c.adopt(value, INT64))

    def _place(self, indices: c.Operand | tuple[c.Operand, ...]) -> tuple[n.Expr, ...]:
        whole = indices if isinstance(indices, tuple) else (indices,)
        return tuple(self._index(i) for i in whole)


def copy_work(shape: tuple[Dim, ...]) -> Dim:
    """Return what `Writer.copy` counts as in the work of a program: an operation a vector."""
    return dim_floordiv(dim_add(_product(shape), n.LANES - 1), n.LANES)


def _product(dims: tuple[Dim, ...]) -> Dim:
    result: Dim = 1
    for dim in dims:
        result = dim_mul(result, dim)
    return result


def _writes_own(var: n.Var, body: list[n.Stmt]) -> bool:
    """Return whether each store has an index that follows from a variable."""
    return _Ownership({var.name}).holds(tuple(body))


@dataclass(eq=False)
class _Ownership:
    """Follows which names and tiles depend on the variable of a phase."""

    own: set[str]

    def holds(self, body: tuple[n.Stmt, ...]) -> bool:
        """Return whether all stores in the statements go to places that depend on it."""
        return all(self._stmt(stmt) for stmt in body)

    def _stmt(self, stmt: n.Stmt) -> bool:
        match stmt:
            case n.For():
                if self._depends(stmt.begin) or self._depends(stmt.end):
                    self.own.add(stmt.var.name)
                return self.holds(stmt.body)
            case n.If():
                return self.holds(stmt.then) and self.holds(stmt.otherwise)
            case n.Let():
                if self._depends(stmt.value):
                    self.own.add(stmt.var.name)
            case n.TileStore():
                if self._depends(stmt.value):
                    self.own.add(stmt.tile.name)
            case n.Store():
                return stmt.buffer.role == "private" or any(map(self._depends, stmt.indices))
            case n.Declare():
                pass
        return True

    def _depends(self, expr: n.Expr) -> bool:
        if isinstance(expr, n.Var):
            return expr.name in self.own
        if isinstance(expr, n.TileLoad) and expr.tile.name in self.own:
            return True
        return any(map(self._depends, n.children(expr)))
