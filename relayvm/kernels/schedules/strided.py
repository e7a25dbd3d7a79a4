"""Loads of lanes that are a fixed step apart: whole vectors of memory, and shuffles."""

from __future__ import annotations

from relayvm.base.abi import Access
from relayvm.kernels import loops as n
from relayvm.kernels.index import simplify as s
from relayvm.kernels.index.prover import Prover


def apart(prover: Prover, buffer: n.Buffer, indices: tuple[n.Expr, ...]) -> n.Expr | None:
    """Return elements whose last index goes down by 1, or up or down by 2; None for others.

    All that is loaded lies between the first and the last of them.
    """
    *outer, last = (i.value if isinstance(i, n.Broadcast) else i for i in indices)
    if buffer.access is not Access.DENSE or len(indices) != len(buffer.shape):
        return None
    if any(i.lanes > 1 for i in outer) or not isinstance(last, n.Ramp):
        return None
    if not isinstance(last.stride, n.Const) or last.stride.value not in (-2, -1, 2):
        return None
    lanes, stride = last.lanes, int(last.stride.value)
    if lanes < 4 or not prover.in_range(last, buffer.shape[-1], lanes):
        return None
    first = last.base if stride > 0 else s.add(last.base, n.const(stride * (lanes - 1)))
    low = n.Load(buffer, (*outer, first), lanes)
    if stride == -1:
        return n.shuffle(low, low, range(lanes - 1, -1, -1))
    high = n.Load(buffer, (*outer, s.add(first, n.const(lanes - 1))), lanes)
    # Lane k is element 2k: of the second load, which begins at element lanes - 1, lane 2k + 1.
    picks = [*range(0, lanes, 2), *range(lanes + 1, 2 * lanes, 2)]
    return n.shuffle(low, high, picks if stride > 0 else picks[::-1])
