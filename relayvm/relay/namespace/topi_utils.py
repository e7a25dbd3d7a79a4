"""`tvm.topi.utils`: shapes as numbers."""

from __future__ import annotations

from collections.abc import Sequence

from relayvm.base.diagnostics import error
from relayvm.base.dims import Dim
from relayvm.relay.lazy import absent


def get_const_int(expr: Dim) -> int:
    """Return a known size as an integer; raises RelayError `bad-dim` where it is not known."""
    if isinstance(expr, bool) or not isinstance(expr, int):
        raise error("bad-dim", f"the size `{expr}` is not known before the program runs")
    return expr


def get_const_tuple(in_tuple: Sequence[Dim]) -> tuple[Dim, ...]:
    """Return a shape as a tuple: known sizes as integers, others as they are."""
    return tuple(in_tuple)


__getattr__ = absent("relayvm.topi.utils")
