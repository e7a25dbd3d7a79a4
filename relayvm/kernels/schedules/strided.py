"""Loads of lanes that are a fixed step apart: whole vectors of memory, and shuffles."""

from __future__ import annotations

from relayvm.base.abi import Access
from relayvm.base.dtypes import BOOL
from relayvm.kernels import loops as n
from relayvm.kernels.index import simplify as s
from relayvm.kernels.index.prover import Prover


def apart(
    prover: Prover, buffer: n.Buffer, indices: tuple[n.Expr, ...], may_mask: bool = False
) -> n.Expr | None:
    """Return elements whose last index goes down by 1, up or down by 2, or up once in some lanes;
    None for others.

    All that is loaded lies between the first and the last of them. What is outside of the buffer
    is 0 with `may_mask`, and must not be so without.
    """
    *outer, last = (i.value if isinstance(i, n.Broadcast) else i for i in indices)
    if buffer.access is not Access.DENSE or len(indices) != len(buffer.shape):
        return None
    if any(i.lanes > 1 for i in outer):
        return None
    if isinstance(last, n.Call):
        return _repeated(prover, buffer, (*outer, last))
    if not isinstance(last, n.Ramp):
        return None
    if not isinstance(last.stride, n.Const) or last.stride.value not in (-2, -1, 2):
        return None
    lanes, stride = last.lanes, int(last.stride.value)
    if lanes < 4:
        return None
    first = last.base if stride > 0 else s.add(last.base, n.const(stride * (lanes - 1)))
    if not prover.in_range(last, buffer.shape[-1], lanes):
        if not may_mask or stride < 0:
            return None
        return _masked(prover, buffer, (*outer, first), lanes)
    if may_mask and not _all_inside(prover, buffer, outer):
        return _masked(prover, buffer, (*outer, first), lanes) if stride > 0 else None
    low = n.Load(buffer, (*outer, first), lanes)
    if stride == -1:
        return n.shuffle(low, low, range(lanes - 1, -1, -1))
    high = n.Load(buffer, (*outer, s.add(first, n.const(lanes - 1))), lanes)
    # Lane k is element 2k: of the second load, which begins at element lanes - 1, lane 2k + 1.
    picks = _every_second(lanes)
    return n.shuffle(low, high, picks if stride > 0 else picks[::-1])


def _every_second(lanes: int) -> list[int]:
    return [*range(0, lanes, 2), *range(lanes + 1, 2 * lanes, 2)]


def _all_inside(prover: Prover, buffer: n.Buffer, outer: list[n.Expr]) -> bool:
    return all(prover.in_range(i, e, 1) for i, e in zip(outer, buffer.shape))


def _masked(prover: Prover, buffer: n.Buffer, indices: tuple[n.Expr, ...], lanes: int) -> n.Expr:
    """Return every second element from a place on, 0 where it is outside of the buffer."""
    *outer, first = indices
    always: n.Expr = n.const(True, BOOL)
    for index, extent in zip(outer, buffer.shape):
        if not prover.in_range(index, extent, 1):
            low, high = (
                s.compare("less_equal", n.const(0), index),
                s.compare("less", index, extent),
            )
            always = s.both(always, s.both(low, high))

    def load(at: n.Expr) -> n.Expr:
        place = n.Ramp(at, n.const(1), lanes)
        low = n.call("less_equal", n.const(0), place)
        inside = n.call("logical_and", low, n.call("less", place, buffer.shape[-1]))
        return n.Load(buffer, (*outer, at), lanes, s.both(n.broadcast(always, lanes), inside))

    high = load(s.add(first, n.const(lanes - 1)))
    return n.shuffle(load(first), high, _every_second(lanes))


def _repeated(prover: Prover, buffer: n.Buffer, indices: tuple[n.Expr, ...]) -> n.Expr | None:
    """Return elements each of which stands in a whole number of lanes: `x[j // r]`."""
    *outer, last = indices
    match last:
        case n.Call("floor_divide", (n.Ramp(base, n.Const(1), lanes), n.Broadcast(n.Const(r)))):
            times = int(r)
        case _:
            return None
    if times < 2 or lanes % times or lanes == times:
        return None
    if prover.divisor(s.polynomial(base)) % times:
        return None
    width, first = lanes // times, s.floordiv(base, n.const(times))
    if not prover.in_range(n.Ramp(first, n.const(1), width), buffer.shape[-1], width):
        return None
    load = n.Load(buffer, (*outer, first), width)
    return n.shuffle(load, load, [lane // times for lane in range(lanes)])
