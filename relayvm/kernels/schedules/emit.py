"""Emission: the value of a tensor expression at given indices, scalar or vector, as statements and
one expression.

Shared subexpressions are bound once by `Let`. How reductions are computed is the caller's choice
(`reducer`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol, Union

from relayvm.base.abi import Access
from relayvm.base.diagnostics import InternalError
from relayvm.base.dims import Dim, DimVar
from relayvm.base.dtypes import BOOL, INT64, DType
from relayvm.kernels import compute as c
from relayvm.kernels import loops as n
from relayvm.kernels.index import simplify as s
from relayvm.kernels.index.bounds import broadcast_extents, extents_of
from relayvm.kernels.index.prover import Prover
from relayvm.kernels.schedules.plan import body_of
from relayvm.kernels.schedules.strided import apart

Frame = dict[Union[c.IndexVar, c.Bound], n.Expr]
Reduction = Union[c.Reduce, c.ArgReduce]


@dataclass(frozen=True)
class Run:
    """Axes that run through memory as one: their stand-ins, extents, and the position in the run.

    A load whose last indices are the stand-ins takes the position; stand-ins must not be used
    otherwise, which the schedule that sets a run checks.
    """

    axes: tuple[n.Expr, ...]
    extents: tuple[n.Expr, ...]
    position: n.Ramp


class Turner(Protocol):
    """Makes vectors across the rows of memory without gathers."""

    def gather(self, buffer: n.Buffer, indices: tuple[n.Expr, ...]) -> n.Expr | None:
        """Return the elements of a gather, or None where there is no other way."""


class CannotVectorise(Exception):
    """A value has no vector form here; the schedule takes scalars instead."""


class CannotPlace(Exception):
    """A loop runs through a part of memory as if that had no gaps; the part is copied there."""


@dataclass
class Names:
    """Gives each variable, tile and scratch buffer of a nest a name of its own."""

    counts: dict[str, int] = field(default_factory=dict)

    def fresh(self, prefix: str) -> str:
        """Return `prefix` followed by the next number."""
        number = self.counts.get(prefix, 0)
        self.counts[prefix] = number + 1
        return f"{prefix}{number}"

    def copy(self) -> Names:
        """Return names that start from the same numbers, for emission that is thrown away."""
        return Names(dict(self.counts))

    def var(self, prefix: str, dtype: DType = INT64, lanes: int = 1) -> n.Var:
        """Return a new variable."""
        return n.Var(self.fresh(prefix), dtype, lanes)


@dataclass
class Context:
    """What emission needs to know of the whole kernel.

    `broadcasts` are the sizes to which its strided operands are broadcast at run time. `windows`
    holds, by the name of a buffer that is a part of its tensor, where on which axes it begins.
    `cache_bytes` is what a core's own cache holds, `vector_bytes` what a register does; `dots` is
    what the target has for sums of small integers, see `machine.dot_kind`. `private` is memory of
    each worker that phases came to need, `scratch` what all see.
    """

    names: Names
    dims: Mapping[DimVar, str]
    buffers: dict[c.Tensor, n.Buffer]
    broadcasts: tuple[n.Expr, ...] = ()
    windows: dict[str, dict[int, n.Expr]] = field(default_factory=dict)
    cache_bytes: int = 1 << 19
    dots: str = ""
    vector_bytes: int = n.LANES
    private: list[n.Buffer] = field(default_factory=list)
    scratch: list[n.Buffer] = field(default_factory=list)
    _exprs: dict[Dim, n.Expr] = field(default_factory=dict)

    def place(self, buffer: n.Buffer, indices: tuple[n.Expr, ...]) -> tuple[n.Expr, ...]:
        """Return where in a buffer the element of its tensor at `indices` is."""
        window = self.windows.get(buffer.name)
        if window is None:
            return indices
        return tuple(s.sub(i, window[k]) if k in window else i for k, i in enumerate(indices))

    def broadcast_along(self, tensors: Iterable[c.Tensor], joined: Iterable[n.Expr] = ()) -> None:
        """Know the sizes that the axes of tensors are broadcast to, and those that are joined."""
        dims = dict.fromkeys(d for t in tensors for d in t.shape)
        self.broadcasts = broadcast_extents((*joined, *(self.dim(d) for d in dims)))

    def dim(self, dim: Dim) -> n.Expr:
        """Return a dim as an index expression: each time the same one, which compares fast."""
        if dim not in self._exprs:
            self._exprs[dim] = s.dim_expr(dim, self.dims)
        return self._exprs[dim]


Reducer = Callable[["Emitter", Reduction, Frame], n.Expr]

# What of an emitter says how things are emitted, for a block and the blocks inside.
_SETTINGS = (
    "reducer",
    "mask",
    "guard",
    "share_loads",
    "decides",
    "masks_steps",
    "flat",
    "flat_begin",
    "run",
    "turned",
)


class Emitter:
    """Emits into one block; nested blocks are opened with `block`."""

    def __init__(self, context: Context, reducer: Reducer, prover: Prover | None = None) -> None:
        self.context = context
        self.reducer = reducer
        self.prover = prover or Prover(broadcasts=context.broadcasts)
        self.statements: list[n.Stmt] = []
        self.mask: n.Expr | None = None
        # How many places a loop over vectors may take at once, the most first.
        self.widths: tuple[int, ...] = (n.LANES,)
        self.guard: n.Expr | None = None
        self.share_loads = False
        # Conditions on indices that were met; where loops end at their borders, most are decided.
        self.conditions: list[n.Expr] = []
        self.decides = False
        # Whether elements a step apart that may be outside are loaded by masks, not by gathers.
        self.masks_steps = False
        self.flat: tuple[tuple[n.Expr, ...], n.Expr] | None = None
        # Where stores begin there, as indices, and how far behind: memory may be a part of another.
        self.flat_begin: tuple[tuple[n.Expr, ...], n.Expr] | None = None
        self.run: Run | None = None
        # What gives gathers across rows of memory instead, see `transpose.py`.
        self.turned: Turner | None = None
        # How deep the block is out of whose loops scalars may be taken; see `hoisting`.
        self._hoist_depth: int | None = None
        self._outer: list[tuple[list[n.Stmt], Prover]] = []
        self._depths: dict[n.Var, int] = {}
        self._memo: list[dict[tuple[object, ...], n.Expr]] = [{}]
        self._frames: dict[tuple[object, ...], Frame] = {}
        self._stand_ins: dict[tuple[object, ...], tuple[n.Var, ...]] = {}
        self._alive: list[object] = []

    @contextmanager
    def block(self) -> Iterator[list[n.Stmt]]:
        """Collect the statements of a nested block; what it binds and sets is forgotten at its end.

        So a form that fails inside leaves nothing to the form that is tried next.
        """
        outer, prover = self.statements, self.prover
        settings = [getattr(self, name) for name in _SETTINGS]
        inner: list[n.Stmt] = []
        self.statements, self.prover = inner, prover.child()
        self._outer.append((outer, prover))
        self._memo.append({})
        try:
            yield inner
        finally:
            self._memo.pop()
            self._outer.pop()
            self.statements, self.prover = outer, prover
            for name, value in zip(_SETTINGS, settings):
                setattr(self, name, value)

    def stand_ins(self, position: n.Ramp, extents: tuple[n.Expr, ...]) -> tuple[n.Expr, ...]:
        """Return what stands for the axes that run through memory as one, in lanes.

        They never reach the nest. Every position has its own: what was emitted at one, and is
        known by its indices, must not be taken for what is at another.
        """
        key = (position, extents)
        if key not in self._stand_ins:
            self._stand_ins[key] = tuple(self.context.names.var("axis") for _ in extents)
        variables = self._stand_ins[key]
        for variable, extent in zip(variables, extents):
            self.prover.add_range(variable, n.const(0), extent)
        return tuple(n.Broadcast(v, position.lanes, INT64) for v in variables)

    @contextmanager
    def hoisting(self) -> Iterator[None]:
        """Compute scalars that loops inside do not change before these loops.

        What the loops store must not be what such scalars read.
        """
        outer, self._hoist_depth = self._hoist_depth, len(self._outer)
        try:
            yield
        finally:
            self._hoist_depth = outer

    def known(self, tensor: c.Tensor, indices: tuple[n.Expr, ...], value: n.Expr) -> None:
        """Say that the element of a kept tensor is at hand, so that it is not loaded again."""
        self._memo[-1][(id(tensor), indices, self.guard)] = value

    def forget_loads(self) -> None:
        """Load again what was loaded before, for memory has changed."""
        for memo in self._memo:
            for key in [key for key in memo if key[0] == "load"]:
                del memo[key]

    def bind(self, value: n.Expr, prefix: str = "v") -> n.Expr:
        """Return a name for the value; leaves stay as they are."""
        if isinstance(value, (n.Const, n.Var, n.DimRef)):
            return value
        if isinstance(value, (n.Broadcast, n.Ramp, n.Mask)) and value.dtype in (INT64, BOOL):
            return value
        var = self.context.names.var(prefix, value.dtype, value.lanes)
        depth = len(self._outer)
        while self._may_hoist(value, depth - 1):
            depth -= 1
        self._depths[var] = depth
        statements = self.statements if depth == len(self._outer) else self._outer[depth][0]
        statements.append(n.Let(var, value))
        if value.dtype == INT64 and value.lanes == 1:
            self.prover.add_value(var, value)
        return var

    def _may_hoist(self, value: n.Expr, depth: int) -> bool:
        """Return whether a scalar is known, and in range, in the block that is so deep."""
        if self._hoist_depth is None or depth < self._hoist_depth or value.lanes > 1:
            return False
        prover = self._outer[depth][1]
        stack = [value]
        while stack:
            expr = stack.pop()
            match expr:
                case n.Var():
                    inside = self._depths.get(expr, depth + 1) <= depth
                    if not inside and expr not in prover.edges:
                        return False
                case n.Load(buffer, indices, _, None):
                    strided = buffer.access is Access.STRIDED
                    extents = extents_of(buffer, len(indices))
                    for i, e in zip(indices, extents):
                        if not prover.in_range(i, e, 1, strided=strided):
                            return False
                case n.Load() | n.Gather() | n.TileLoad() | n.Index():
                    return False
                case _:
                    pass
            stack.extend(n.children(expr))
        return True

    def tensor(self, tensor: c.Tensor, indices: tuple[n.Expr, ...]) -> n.Expr:
        """Return an element computed from the tensor's definition, not loaded."""
        return self.value(body_of(tensor).body, self._frame(tensor, indices))

    def value(self, expr: c.ScalarExpr, frame: Frame) -> n.Expr:
        """Return the value of an expression whose axes stand for the expressions in `frame`."""
        match expr:
            case c.Const():
                return n.const(expr.value, expr.dtype)
            case c.IndexVar() | c.Bound():
                return frame[expr]
            case c.DimValue():
                return self.context.dim(expr.dim)
            case _:
                pass
        key = (id(expr), id(frame), self.guard)
        found = self._find(key)
        if found is None:
            found = self._compound(expr, frame)
            self._memo[-1][key] = found
            self._alive.append((expr, frame))
        return found

    def _find(self, key: tuple[object, ...]) -> n.Expr | None:
        for memo in reversed(self._memo):
            if key in memo:
                return memo[key]
        return None

    def _compound(self, expr: c.ScalarExpr, frame: Frame) -> n.Expr:
        match expr:
            case c.Scalar():
                return self._scalar(expr, tuple(self.value(a, frame) for a in expr.args))
            case c.Cast():
                return self._bind_data(n.cast(self.value(expr.value, frame), expr.dtype))
            case c.Select():
                return self._select(expr, frame)
            case c.IndexOf():
                return self._index(expr, frame)
            case c.TensorLoad():
                return self._element(expr, frame)
            case c.Reduce() | c.ArgReduce():
                return self._reduction(expr, frame)
            case _:
                raise InternalError(f"unexpected {type(expr).__name__} in a tensor expression")

    def _scalar(self, expr: c.Scalar, args: tuple[n.Expr, ...]) -> n.Expr:
        if expr.name in s.SMART and args[0].dtype == INT64 and all(map(is_index, args)):
            if expr.name in ("floor_divide", "floor_mod"):
                return self._divided(expr.name, *args)
            return s.SMART[expr.name](*args)
        if expr.name == "logical_and":
            return s.both(*args)
        if expr.name == "logical_not" and expr.args[0].dtype == BOOL:
            return s.negate(args[0])
        return self._bind_data(n.call(expr.name, *args))

    def _divided(self, name: str, a: n.Expr, b: n.Expr) -> n.Expr:
        """Take `d * q + r` apart where the prover knows `0 <= r < d`, as reshapes need."""
        if a.lanes == 1 and b.lanes == 1:
            quotient, rest = s.divide_polynomial(a, b)
            if quotient and self.prover.in_range(rest, b, 1):
                return s.from_polynomial(quotient) if name == "floor_divide" else rest
            if self.prover.in_range(a, b, 1):
                return n.const(0) if name == "floor_divide" else a
        divisor = b.value if isinstance(b, n.Broadcast) else b
        if isinstance(a, n.Broadcast) and divisor.lanes == 1:
            return n.broadcast(self._divided(name, a.value, divisor), a.lanes)
        if isinstance(a, n.Ramp) and divisor.lanes == 1 and a.stride == n.const(1):
            times, first = self._first_lane(a, divisor)
            inner = n.Ramp(first, a.stride, a.lanes)
            if self.prover.in_range(inner, divisor, a.lanes):
                return inner if name == "floor_mod" else n.broadcast(times, a.lanes)
        return s.SMART[name](a, b)

    def _first_lane(self, ramp: n.Ramp, divisor: n.Expr) -> tuple[n.Expr, n.Expr]:
        """Return the quotient and the rest of the first lane."""
        base, lanes = s.polynomial(ramp.base), ramp.lanes
        whole = isinstance(divisor, n.Const) and int(divisor.value) % lanes == 0
        if whole and self.prover.divisor(base) % lanes == 0:
            # Vectors that begin at multiples of their width do not cross one of the divisor.
            return s.floordiv(ramp.base, divisor), s.floormod(ramp.base, divisor)
        quotient, rest = s.divide_polynomial(ramp.base, divisor)
        return s.from_polynomial(quotient), rest

    def _bind_data(self, value: n.Expr) -> n.Expr:
        return self.bind(value) if not is_index(value) else value

    def _select(self, expr: c.Select, frame: Frame) -> n.Expr:
        condition = self.value(expr.condition, frame)
        decided = condition.value if isinstance(condition, n.Broadcast) else condition
        if isinstance(decided, n.Const):
            return self.value(expr.a if decided.value else expr.b, frame)
        if is_index(condition):
            self.conditions.append(condition)
            known = self.prover.masked(self.mask).decide(condition) if self.decides else None
            if known is not None:
                return self.value(expr.a if known else expr.b, frame)
        a = self._guarded(expr.a, frame, condition)
        b = self._guarded(expr.b, frame, s.negate(condition))
        return self._bind_data(s.choose(condition, a, b))

    def _guarded(self, expr: c.ScalarExpr, frame: Frame, condition: n.Expr) -> n.Expr:
        outer = self.guard
        self.guard = condition if outer is None else s.both(outer, condition)
        try:
            return self.value(expr, frame)
        finally:
            self.guard = outer

    def _index(self, expr: c.IndexOf, frame: Frame) -> n.Expr:
        value, extent = self.value(expr.value, frame), self.context.dim(expr.extent)
        if expr.mode != "trap" and is_index(value):
            here = self.prover.masked(self.mask)
            if here.in_range(value, extent, value.lanes):
                return value
            one_at_most = s.poly_add({(): 1}, s.polynomial(extent), -1)
            if expr.mode == "clip" and value.lanes > 1 and here.always(one_at_most, 1):
                value = n.const(0)
        if value.lanes > 1:
            scalar = value.value if isinstance(value, n.Broadcast) else None
            if scalar is None:
                return self._nearest(value, extent, expr.mode)
            value = scalar
        if self.guard is not None:
            # Not evaluated in the program where the guard is false, so it must not trap there.
            if self.guard.lanes > 1:
                raise CannotVectorise("an index under a vector condition")
            value = s.choose(self.guard, value, n.const(0))
            extent = s.choose(self.guard, extent, n.const(1))
        if expr.told is None:
            return self.bind(n.Index(value, extent, expr.mode), "at")
        told = self._told(expr.told, frame)
        return self.bind(n.Index(value, extent, expr.mode, expr.told.reason, told), "at")

    def _nearest(self, value: n.Expr, extent: n.Expr, mode: str) -> n.Expr:
        """Return indices in lanes, each the nearest to a loaded value that is inside."""
        last = s.sub(extent, n.const(1))
        if mode not in ("clip", "fill") or not self.prover.always(s.polynomial(last), 1):
            raise CannotVectorise("an index loaded in every lane that may trap")
        low = n.call("maximum", value, n.const(0))
        return n.call("minimum", low, n.broadcast(last, value.lanes))

    def _told(self, told: c.Told, frame: Frame) -> tuple[n.Expr, n.Expr]:
        """Return what a trap tells, as scalars."""
        first, second = (self.value(v, frame) for v in (told.first, told.second))
        return _as_scalar(first), _as_scalar(second)

    def _element(self, expr: c.TensorLoad, frame: Frame) -> n.Expr:
        indices = tuple(self.value(i, frame) for i in expr.indices)
        key = (id(expr.tensor), indices, self.guard)
        found = self._find(key)
        if found is None:
            buffer = self.context.buffers.get(expr.tensor)
            if buffer is None:
                inner = self._frame(expr.tensor, indices)
                found = self.value(body_of(expr.tensor).body, inner)
            else:
                found = self.load(buffer, indices)
            self._memo[-1][key] = found
            self._alive.append(expr.tensor)
        return found

    def _frame(self, tensor: c.Tensor, indices: tuple[n.Expr, ...]) -> Frame:
        key = (id(tensor), indices)
        if key not in self._frames:
            self._frames[key] = dict(zip(body_of(tensor).axes, indices))
            self._alive.append(tensor)
        return self._frames[key]

    def _reduction(self, expr: Reduction, frame: Frame) -> n.Expr:
        return self.reducer(self, expr, frame)

    def load(self, buffer: n.Buffer, indices: tuple[n.Expr, ...]) -> n.Expr:
        """Return elements of a buffer, masked by the guard unless proved without it."""
        if self.flat is not None and indices == self.flat[0]:
            indices = (self.flat[1],)
        indices = self._along_run(buffer, self.context.place(buffer, indices))
        lanes = max((i.lanes for i in indices), default=1)
        guard = None if self._proved(buffer, indices) else self.guard
        plain = tuple(i.value if isinstance(i, n.Broadcast) else i for i in indices)
        plain = without_unit_axes(buffer, plain)
        contiguous = all(i.lanes == 1 for i in plain)
        if not contiguous and isinstance(plain[-1], n.Ramp) and plain[-1].stride == n.const(1):
            contiguous = all(i.lanes == 1 for i in plain[:-1])
        if contiguous:
            width = plain[-1].lanes if plain else 1
            if width == 1 and guard is not None and guard.lanes > 1:
                return self._gather(buffer, tuple(plain), guard, guard.lanes)
            if width > 1:
                last = plain[-1]
                assert isinstance(last, n.Ramp)
                mask = self._masked(guard, width)
                return self._shared(n.Load(buffer, (*plain[:-1], last.base), width, mask))
            return self._shared(n.Load(buffer, plain, 1, guard))
        return self._gather(buffer, indices, guard, lanes)

    def _along_run(self, buffer: n.Buffer, indices: tuple[n.Expr, ...]) -> tuple[n.Expr, ...]:
        run = self.run
        if run is None or buffer.access is not Access.DENSE:
            return indices
        count = len(run.axes)
        if len(indices) < count or indices[1 - count :] != run.axes[1:]:
            return indices
        if buffer.shape[1 - count :] != run.extents[1:]:
            return indices
        plain = tuple(i.value if isinstance(i, n.Broadcast) else i for i in indices)
        *outer, first = plain[: len(plain) - count + 1]
        stand_in = run.axes[0]
        assert isinstance(stand_in, n.Broadcast)
        first = s.sub(first, stand_in.value)
        if any(i.lanes > 1 for i in (*outer, first)) or mentions(first, stand_in.value):
            return indices
        # Some places in a row of the first axis, each with all of the others.
        if first != n.const(0) or buffer.shape[-count] != run.extents[0]:
            last = s.sub(s.add(first, run.extents[0]), n.const(1))
            if not self.prover.in_range(last, buffer.shape[-count], 1):
                return indices
        start = flat_index(buffer, (*outer, first, *(n.const(0) for _ in run.axes[1:])))
        return (s.add(start, run.position),)

    def _gather(
        self, buffer: n.Buffer, indices: tuple[n.Expr, ...], guard: n.Expr | None, lanes: int
    ) -> n.Expr:
        if self.turned is not None and guard is None:
            found = self.turned.gather(buffer, indices)
            if found is not None:
                return found
        if guard is None and self.mask is None:
            found = apart(self.prover, buffer, indices)
            if found is not None:
                return self.bind(found, "x")
        elif self.masks_steps:
            found = apart(self.prover, buffer, indices, may_mask=True)
            if found is not None:
                return self.bind(found, "x")
        wide = tuple(n.broadcast(i, lanes) for i in indices)
        return self._shared(n.Gather(buffer, wide, lanes, self._masked(guard, lanes)))

    def _masked(self, guard: n.Expr | None, lanes: int) -> n.Expr | None:
        if guard is None:
            return self.mask
        wide = n.broadcast(guard, lanes)
        return wide if self.mask is None else s.both(self.mask, wide)

    def _shared(self, load: n.Expr) -> n.Expr:
        if not self.share_loads and load.lanes == 1:
            return load
        key = ("load", load)
        found = self._find(key)
        if found is None:
            found = self.bind(load, "x")
            self._memo[-1][key] = found
        return found

    def _proved(self, buffer: n.Buffer, indices: tuple[n.Expr, ...]) -> bool:
        if self.guard is None:
            return True
        shape = buffer.shape
        if len(indices) != len(shape):
            return True
        strided = buffer.access is Access.STRIDED
        return all(
            self.prover.in_range(i, e, i.lanes, strided=strided) for i, e in zip(indices, shape)
        )


def _as_scalar(value: n.Expr) -> n.Expr:
    """Return what is the same in all lanes."""
    value = value.value if isinstance(value, n.Broadcast) else value
    if value.lanes > 1:
        raise CannotVectorise("a trap that tells a value of every lane")
    return value


def without_unit_axes(buffer: n.Buffer, indices: tuple[n.Expr, ...]) -> tuple[n.Expr, ...]:
    """Return a flat index where the axis that runs in lanes is followed by axes of size 1 only."""
    last = max((k for k, i in enumerate(indices) if i.lanes > 1), default=-1)
    rest = buffer.shape[last + 1 :]
    if last < 0 or not rest or buffer.access is not Access.DENSE or len(indices) == 1:
        return indices
    if any(extent != n.const(1) for extent in rest):
        return indices
    return (flat_index(buffer, indices),)


def flat_index(buffer: n.Buffer, indices: tuple[n.Expr, ...]) -> n.Expr:
    """Return the row-major offset of an element."""
    flat: n.Expr = n.const(0)
    for index, extent in zip(indices, buffer.shape):
        flat = s.add(s.mul(flat, extent), index)
    return flat


def mentions(expr: n.Expr, part: n.Expr) -> bool:
    """Return whether an expression is another or has it somewhere inside."""
    return expr == part or any(mentions(e, part) for e in n.children(expr))


def is_index(expr: n.Expr) -> bool:
    """Return whether an expression is made of dims, loop variables and literals alone."""
    match expr:
        case n.Const() | n.DimRef() | n.Mask():
            return expr.dtype is INT64 or expr.dtype is BOOL
        case n.Var():
            return expr.dtype is INT64 and expr.name[0] not in "vx"
        case n.Call():
            return (expr.dtype is INT64 or expr.dtype is BOOL) and all(map(is_index, expr.args))
        case n.Ramp():
            return is_index(expr.base) and is_index(expr.stride)
        case n.Broadcast():
            return is_index(expr.value)
        case n.Select():
            return all(map(is_index, (expr.condition, expr.a, expr.b)))
        case _:
            return False
