"""Loops over the box that a reduction takes together, in scalars or in lanes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Union

from relayvm.base.dtypes import DType
from relayvm.kernels import compute as c
from relayvm.kernels import loops as n
from relayvm.kernels.index import simplify as s
from relayvm.kernels.schedules.emit import Emitter, Frame, Run

_ZERO = n.const(0)
AxisValues = dict[Union[c.IndexVar, None], n.Expr]
BoxStep = Callable[[AxisValues, n.Expr], None]
LaneStep = Callable[[n.Expr, Union[n.Expr, None]], None]
PlaceStep = Callable[[n.Expr], None]


def identity(kind: str, dtype: DType) -> n.Const:
    """Return what a reduction of nothing gives."""
    if kind in ("max", "min"):
        if dtype.is_float:
            return n.const(float("-inf") if kind == "max" else float("inf"), dtype)
        return n.const(dtype.min if kind == "max" else dtype.max, dtype)
    return n.const({"sum": 0, "prod": 1, "any": 0, "all": 1}[kind], dtype)


def box_loops(
    emitter: Emitter,
    axes: tuple[c.IndexVar, ...],
    step: BoxStep,
    done: AxisValues | None = None,
    flat: n.Expr = _ZERO,
) -> None:
    """Emit loops over a box around `step(axis values, flat position)`."""
    done = done or {}
    if not axes:
        step(done, flat)
        return
    axis, rest = axes[0], axes[1:]
    extent = emitter.context.dim(axis.extent)
    var = emitter.context.names.var("k")
    with emitter.block() as body:
        emitter.prover.add_range(var, n.const(0), extent)
        here = s.add(s.mul(flat, extent), var)
        box_loops(emitter, rest, step, {**done, axis: var}, here)
    emitter.statements.append(n.For(var, n.const(0), extent, 1, tuple(body)))


def lane_loop(
    emitter: Emitter,
    extent: n.Expr,
    step: LaneStep,
    begin: n.Expr | None = None,
    lanes: int = n.LANES,
    whole: bool = False,
) -> None:
    """Emit a loop over whole vectors of an axis, then one masked vector if any is left.

    With `whole`, `begin` is known to be a number of whole vectors.
    """
    first = begin if begin is not None else n.const(0)
    full = _whole_vectors(emitter, extent, step, first, lanes, whole)
    if full == extent:
        return
    with emitter.block() as body:
        rest = s.sub(extent, full)
        emitter.mask = n.Mask(rest, lanes)
        emitter.prover.add_condition(s.compare("less", full, extent))
        step(full, emitter.mask)
    if isinstance(rest, n.Const):
        emitter.statements += body
    else:
        emitter.statements.append(n.If(s.compare("less", full, extent), tuple(body)))


def _whole_vectors(
    emitter: Emitter,
    extent: n.Expr,
    step: LaneStep,
    begin: n.Expr,
    lanes: int,
    whole: bool = False,
) -> n.Expr:
    """Emit a loop over whole vectors of an axis; return where it ends."""
    width = n.const(lanes)
    start = n.const(0) if whole else begin
    full = s.add(start, s.mul(s.floordiv(s.sub(extent, start), width), width))
    if full != extent:
        full = emitter.bind(full, "e")
    if full != begin:
        k = emitter.context.names.var("k")
        with emitter.block() as body:
            emitter.prover.add_range(k, begin, full, lanes)
            step(k, None)
        emitter.statements.append(n.For(k, begin, full, lanes, tuple(body)))
    return full


def place_loops(
    emitter: Emitter, extent: n.Expr, step: PlaceStep, begin: n.Expr | None = None
) -> None:
    """Emit loops over vectors of an axis as wide as `emitter.widths` says, the widest first.

    What is left is one masked vector of the last width; of width 1 all places are scalars.
    """
    *wider, last = emitter.widths
    begin = begin if begin is not None else n.const(0)

    def of(lanes: int) -> LaneStep:
        return lambda k, mask: step(n.Ramp(k, n.const(1), lanes) if lanes > 1 else k)

    for lanes in wider:
        begin = _whole_vectors(emitter, extent, of(lanes), begin, lanes)
    if begin != extent:
        lane_loop(emitter, extent, of(last), begin, last)


def product(extents: tuple[n.Expr, ...]) -> n.Expr:
    """Return the number of elements of a box."""
    total: n.Expr = n.const(1)
    for extent in extents:
        total = s.mul(total, extent)
    return total


def reduced_axes(axes: tuple[c.IndexVar, ...]) -> tuple[c.IndexVar, ...]:
    """Return the axes of a box that may have more than one element."""
    return tuple(a for a in axes if a.extent != 1)


def run_frame(
    emitter: Emitter, box: tuple[c.IndexVar, ...], frame: Frame, k: n.Expr, lanes: int
) -> Frame:
    """Return the frame at position `k` of a box, whose axes run in lanes as one.

    Leaves `emitter.run` set, for loads there.
    """
    axes = reduced_axes(box)
    inner = dict(frame)
    inner.update({a: n.const(0) for a in box})
    position = n.Ramp(k, n.const(1), lanes)
    emitter.run = None
    if len(axes) == 1:
        inner[axes[0]] = position
    elif axes:
        extents = tuple(emitter.context.dim(a.extent) for a in axes)
        stand_ins = emitter.stand_ins(position, extents)
        inner.update(zip(axes, stand_ins))
        emitter.run = Run(stand_ins, extents, position)
    return inner


def reads_apart(body: tuple[n.Stmt, ...]) -> bool:
    """Return whether statements read memory element by element into lanes, or use a stand-in."""
    for stmt in body:
        match stmt:
            case n.For():
                if reads_apart(stmt.body):
                    return True
            case n.If():
                if reads_apart(stmt.then) or reads_apart(stmt.otherwise):
                    return True
            case n.Let() | n.Store() | n.TileStore():
                if is_apart(stmt.value):
                    return True
            case _:
                pass
    return False


def is_apart(expr: n.Expr) -> bool:
    """Return whether a value reads memory element by element, or uses a stand-in of an axis."""
    if isinstance(expr, n.Gather) or (isinstance(expr, n.Var) and expr.name.startswith("axis")):
        return True
    return any(map(is_apart, n.children(expr)))
