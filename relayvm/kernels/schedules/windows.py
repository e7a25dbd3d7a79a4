"""What makes a stage a convolution: sums of products of a weight and windows of data, whose pixels
run along the stage's last axis.

Read off the places of loads, so any operator may be one, fused with what is done to its result.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from relayvm.base.abi import Access
from relayvm.kernels import compute as c
from relayvm.kernels import loops as n
from relayvm.kernels.index import simplify as s
from relayvm.kernels.schedules.boxes import AxisValues, box_loops, product
from relayvm.kernels.schedules.contraction import (
    NotAContraction,
    Record,
    discover,
    no_reduction,
    reduced_axes,
)
from relayvm.kernels.schedules.elementwise import last_axis
from relayvm.kernels.schedules.emit import CannotVectorise, Context, Emitter, Frame, flat_index
from relayvm.kernels.schedules.grid import Ranges, Side, grid_phase
from relayvm.kernels.schedules.plan import Stage
from relayvm.kernels.schedules.reduction import Rule, rule_of

# Elements of a weight that may be copied to be read in order.
MAX_COPY = 1 << 24


@dataclass(frozen=True, eq=False)
class Windows:
    """A convolution: the axes of its stage, and how its weight lies in memory.

    `column` is the axis of pixels, `line` the one of rows of pixels just before, if there is one,
    `row` that of results which share windows, `group` of them each. `weight` is memory over
    `weight_axes` and the reduced box in row-major order: the operand, if it `is_plain`, else a copy
    of the values of `factor`.
    """

    stage: Stage
    extents: tuple[n.Expr, ...]
    column: int
    line: int | None
    row: int
    group: n.Expr
    box: tuple[c.IndexVar, ...]
    sizes: tuple[n.Expr, ...]
    data: c.ScalarExpr
    factor: c.ScalarExpr
    weight: n.Buffer
    weight_axes: tuple[int, ...]
    is_plain: bool
    rule: Rule

    @property
    def length(self) -> n.Expr:
        """How many products a result sums."""
        return product(self.sizes)

    @property
    def groups(self) -> n.Expr:
        """How many groups of results there are along `row`, each with windows of its own."""
        if self.group == self.extents[self.row]:
            return n.const(1)
        return s.floordiv(self.extents[self.row], self.group)

    @property
    def outer(self) -> tuple[int, ...]:
        """The other axes, along which a block has one place."""
        inner = (self.column, self.line, self.row)
        return tuple(k for k, e in enumerate(self.extents) if k not in inner and e != n.const(1))

    def record(self, context: Context, place: tuple[n.Expr, ...]) -> Record:
        """Return the sum at a place of the stage."""
        (record,) = discover(context, self.stage, place)
        return record

    def inside(self, record: Record, at: tuple[n.Expr, ...]) -> Frame:
        """Return what axes stand for at one place of the box of a sum."""
        return _inside(record, at)

    def advanced(self, a: n.Expr, b: n.Expr, old: n.Expr) -> n.Expr:
        """Return a partial after one more product."""
        if self.rule.dtype.is_float:
            return n.call("fma", a, b, old)
        return n.call(self.rule.op, n.call("multiply", a, b), old)

    def coefficient(self, place: tuple[n.Expr, ...], k: n.Expr) -> n.Expr:
        """Return one element of the weight."""
        flat: n.Expr = n.const(0)
        for axis in self.weight_axes:
            flat = s.add(s.mul(flat, self.extents[axis]), place[axis])
        load = n.Load(self.weight, (s.add(s.mul(flat, self.length), k),))
        return n.cast(load, self.rule.dtype)


def weight_phase(context: Context, windows: Windows) -> n.Phase:
    """Return the phase that copies the weight to where the convolution reads it."""
    emitter = Emitter(context, no_reduction)
    sides = [Side(k, windows.extents[k], 1) for k in windows.weight_axes]

    def run(ranges: Ranges) -> None:
        at = {k: ranges[k][0] for k in windows.weight_axes}
        place = tuple(at.get(k, n.const(0)) for k in range(len(windows.extents)))
        record = windows.record(context, place)

        def step(inner: AxisValues, flat: n.Expr) -> None:
            box = tuple(inner[a] for a in windows.box)
            value = emitter.value(windows.factor, windows.inside(record, box))
            emitter.statements.append(n.Store(windows.weight, (*at.values(), *box), value))

        box_loops(emitter, windows.box, step)

    return grid_phase(context, emitter, sides, run)


def windows_of(context: Context, stage: Stage) -> Windows | None:
    """Return the convolution that a stage is, or None."""
    try:
        return _windows_of(context, stage)
    except (NotAContraction, CannotVectorise):
        return None


def _windows_of(context: Context, stage: Stage) -> Windows | None:
    extents = tuple(context.dim(d) for d in stage.shape)
    column = last_axis(extents)
    axes = tuple(n.Var(f"p{k}") for k in range(len(extents)))
    records = discover(context, stage, axes)
    if len(records) != 1 or column is None:
        return None
    (record,) = records
    reduction, rule = record.reduction, rule_of(record.reduction)
    body, box = reduction.body, reduced_axes(reduction)
    if reduction.kind != "sum" or not isinstance(body, c.Scalar) or body.name != "multiply":
        return None
    if not box or rule.dtype != reduction.dtype or any(a.dtype != rule.dtype for a in body.args):
        return None
    views = [_View(context, record, axes, extents, factor) for factor in body.args]
    data, weight = views if column in views[0].axes else views[::-1]
    if column not in data.axes or column in weight.axes or not weight.axes:
        return None
    # Results along an axis that the data does not have share its windows.
    row = max(weight.axes - data.axes, default=max(weight.axes))
    # All pixels of a block share the weights, which do not depend on its lines then.
    line = column - 1 if column - 1 in data.axes - weight.axes and column - 1 != row else None
    if len(box) == 1 and line is None:
        # A matrix of columns.
        return None
    group = data.group(row, axes[row], extents[row])
    if not isinstance(group, n.Const) and group != extents[row]:
        return None
    sizes = tuple(context.dim(a.extent) for a in box)
    places = tuple(sorted(weight.axes))
    buffer = weight.matrix(axes[row]) if places == (row,) else None
    is_plain = buffer is not None
    if buffer is None:
        shape = (*(extents[k] for k in places), *sizes)
        whole = product(shape)
        if not isinstance(whole, n.Const) or int(whole.value) > MAX_COPY:
            return None
        buffer = n.Buffer(context.names.fresh("weight"), rule.dtype, shape, "scratch")
    return Windows(
        stage,
        extents,
        column,
        line,
        row,
        group,
        box,
        sizes,
        data.factor,
        weight.factor,
        buffer,
        places,
        is_plain,
        rule,
    )


class _View:
    """One factor, and how what it reads depends on the axes of the stage."""

    def __init__(
        self,
        context: Context,
        record: Record,
        axes: tuple[n.Var, ...],
        extents: tuple[n.Expr, ...],
        factor: c.ScalarExpr,
    ) -> None:
        self.factor = factor
        self.places = tuple(n.Var(f"q{k}") for k in range(len(reduced_axes(record.reduction))))
        self.sizes = tuple(context.dim(a.extent) for a in reduced_axes(record.reduction))
        trial = replace(context, names=context.names.copy())
        emitter = Emitter(trial, no_reduction)
        for variable, extent in zip((*axes, *self.places), (*extents, *self.sizes)):
            emitter.prover.add_range(variable, n.const(0), extent)
        value = emitter.value(factor, _inside(record, self.places))
        lets = [stmt for stmt in emitter.statements if isinstance(stmt, n.Let)]
        self.known = {stmt.var: stmt.value for stmt in lets}
        self.value = value
        self.parts = [value, *self.known.values()]
        names = {v for part in self.parts for v in _variables(part)}
        self.axes = {k for k, axis in enumerate(axes) if axis in names}

    def matrix(self, row: n.Var) -> n.Buffer | None:
        """Return the memory that the factor is an element of, at `row` and the flat position in
        the reduced box; None where it is anything else."""
        value = self._resolved(self.value)
        if isinstance(value, n.Cast):
            value = self._resolved(value.value)
        if not isinstance(value, n.Load) or value.mask is not None:
            return None
        if value.buffer.access is not Access.DENSE or not value.indices:
            return None
        flat: n.Expr = row
        for place, size in zip(self.places, self.sizes):
            flat = s.add(s.mul(flat, size), place)
        whole = len(value.indices) == len(value.buffer.shape)
        found = flat_index(value.buffer, value.indices) if whole else None
        return value.buffer if found == flat else None

    def _resolved(self, value: n.Expr) -> n.Expr:
        return self.known.get(value, value) if isinstance(value, n.Var) else value

    def group(self, row: int, axis: n.Var, extent: n.Expr) -> n.Expr:
        """Return how many results along an axis read the same: `i // group` is all that counts."""
        if row not in self.axes:
            return extent
        found: set[n.Expr] = set()
        for part in self.parts:
            found |= _divisors(part, axis)
        (group,) = found if len(found) == 1 else (n.const(1),)
        return group


def _inside(record: Record, at: tuple[n.Expr, ...]) -> Frame:
    """Return the frame of a reduction at one place of its box."""
    inner = dict(record.frame)
    inner.update({a: n.const(0) for a in record.reduction.axes})
    inner.update(zip(reduced_axes(record.reduction), at))
    return inner


def _divisors(expr: n.Expr, axis: n.Var) -> set[n.Expr]:
    """Return by what an axis is divided wherever it stands; 1 where it is not."""
    if expr == axis:
        return {n.const(1)}
    if isinstance(expr, n.Call) and expr.name == "floor_divide" and expr.args[0] == axis:
        return {expr.args[1]}
    return {d for child in n.children(expr) for d in _divisors(child, axis)}


def _variables(expr: n.Expr) -> Iterator[n.Var]:
    if isinstance(expr, n.Var):
        yield expr
    for child in n.children(expr):
        yield from _variables(child)
