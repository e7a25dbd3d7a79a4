"""Reductions over a box that memory does not hold as one run: its last axes in lanes.

Lanes follow the place in a run. Where the length of runs is no multiple of 16, the partials are
turned by what is left after each of them, so that every element comes to the partial that it has.
"""

from __future__ import annotations

from relayvm.kernels import compute as c
from relayvm.kernels import loops as n
from relayvm.kernels.schedules.boxes import (
    AxisValues,
    box_loops,
    lane_loop,
    product,
    reduced_axes,
    run_frame,
)
from relayvm.kernels.schedules.emit import CannotVectorise, Emitter, Frame
from relayvm.kernels.schedules.reduction import combined, rule_of

MIN_RUN = 8


def box_row(emitter: Emitter, reduction: c.Reduce, frame: Frame, split: int) -> n.Expr:
    """Reduce one box; the axes from number `split` on (of more than one element) are its runs."""
    axes = reduced_axes(reduction.axes)
    outer, inner = axes[:split], axes[split:]
    run = product(tuple(emitter.context.dim(a.extent) for a in inner))
    count = product(tuple(emitter.context.dim(a.extent) for a in outer))
    if not inner or not isinstance(run, n.Const) or int(run.value) < MIN_RUN:
        raise CannotVectorise("runs that are short or of unknown length")
    rest = int(run.value) % n.LANES
    if rest and not isinstance(count, n.Const):
        raise CannotVectorise("an unknown number of runs")
    rule = rule_of(reduction)
    acc = n.Tile(emitter.context.names.fresh("acc"), rule.dtype, n.LANES, 1)
    held, zero = n.TileLoad(acc, n.const(0)), n.const(0)
    empty = n.TileStore(acc, zero, n.broadcast(rule.identity, n.LANES))
    emitter.statements += [n.Declare(acc), empty]

    def one_run(places: AxisValues, _flat: n.Expr) -> None:
        here = dict(frame)
        here.update({a: place for a, place in places.items() if a is not None})
        here.update({a: zero for a in reduction.axes if a.extent == 1})

        def step(k: n.Expr, mask: n.Expr | None) -> None:
            lanes = run_frame(emitter, inner, here, k, n.LANES)
            value = combined(emitter, rule, reduction.body, lanes, held)
            value = value if mask is None else n.select(mask, value, held)
            emitter.statements.append(n.TileStore(acc, zero, value))
            emitter.run = None

        lane_loop(emitter, run, step)
        if rest:
            emitter.statements.append(n.TileStore(acc, zero, _turned(held, rest)))

    box_loops(emitter, outer, one_run)
    turned = rest * int(count.value) % n.LANES if isinstance(count, n.Const) else 0
    folded = n.tree(rule.op, _turned(held, -turned) if turned else held)
    return emitter.bind(n.cast(folded, reduction.dtype))


def _turned(vector: n.Expr, by: int) -> n.Expr:
    return n.shuffle(vector, vector, [(k + by) % n.LANES for k in range(n.LANES)])
