"""Searching rows that are in order, by halves, in the lanes of vectors."""

from __future__ import annotations

from collections.abc import Callable

from relayvm.base.dims import Dim
from relayvm.base.dtypes import INT64
from relayvm.kernels import compute as te
from relayvm.kernels.compute import ScalarExpr
from relayvm.kernels.schedules.program import Writer

# More steps than any row needs.
LEVELS = 64


def search_levels(w: Writer, size: Dim) -> Callable[[], ScalarExpr]:
    """Return what gives, in a phase, how many steps a search of so many places takes at most.

    A size that is not known is measured in a phase of its own.
    """
    if isinstance(size, int):
        return lambda: te.const(size.bit_length(), INT64)
    found = w.scratch((1,), INT64)
    with w.phase():
        steps, rest = w.cell(te.const(0, INT64)), w.cell(te.dim(size))
        going = w.cell(rest.value > 0)
        with w.loop_while(0, LEVELS, going):
            steps.value = steps.value + 1
            rest.value = te.scalar("right_shift", rest.value, 1)
            going.value = rest.value > 0
        found[te.dim(0)] = steps.value
    return lambda: found[te.dim(0)]


def first_place(
    w: Writer, size: Dim, steps: ScalarExpr, is_before: Callable[[ScalarExpr], ScalarExpr]
) -> ScalarExpr:
    """Return the first place for which `is_before` does not hold, as it holds up to there; `size`
    where there is none.

    All lanes take `steps` steps and none branches, for what they compare cannot be foretold.
    """
    if size == 0:
        return te.const(0, INT64)
    low, high = w.cell(te.const(0, INT64)), w.cell(te.dim(size))
    with w.when(te.dim(size) > 0), w.loop(0, steps):
        first, last = low.value, high.value
        middle = w.let(te.scalar("right_shift", first + last, 1))
        held = is_before(w.let(te.index(middle, size, "clip")))
        held = w.let(te.scalar("logical_and", held, first < last))
        low.value = te.select(held, middle + 1, first)
        high.value = te.select(held, last, middle)
    return low.value
