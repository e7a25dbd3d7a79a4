"""Sums that are only moved are written where they are used; siblings have tiles of their own."""

from __future__ import annotations

import pytest

from relayvm.base.dims import DimVar, symbol
from relayvm.base.target import Target
from relayvm.kernels import compute as c
from relayvm.kernels.lower import Computation
from relayvm.kernels.schedule import schedule

WIDE = Target(cpu="skylake-avx512")
ROWS = DimVar("n")
N = symbol(ROWS)
K = 80


def dense(x, w, rows, columns):
    return c.compute(
        (rows, columns), lambda i, j: c.reduce("sum", (K,), lambda k: x[i, k] * w[j, k])
    )


def moved(shape, place):
    """Return the nest of a dense layer of 48 columns, each element of the result at a place."""
    x, w = c.placeholder("x", (N, K), "float32"), c.placeholder("w", (48, K), "float32")
    d = dense(x, w, N, 48)
    return schedule(
        Computation("moved", (x, w), (c.compute(shape, lambda *i: d[place(*i)]),), (ROWS,)), WIDE
    )


@pytest.mark.parametrize(
    ("shape", "place"),
    [
        ((3, N, 16), lambda h, i, q: (i, h * 16 + q)),
        ((N, 3, 16), lambda i, h, q: (i, h * 16 + q)),
        ((1, 3, N, 2, 8), lambda _, h, i, a, b: (i, h * 16 + a * 8 + b)),
    ],
)
def test_sums_are_written_where_they_are_used(shape, place):
    nest = moved(shape, place)
    assert (len(nest.phases), nest.scratch) == (1, ())


@pytest.mark.parametrize(
    ("shape", "place"),
    [
        ((3, N, 12), lambda h, i, q: (i, h * 16 + q)),  # not all of them
        ((2, N, 48), lambda h, i, q: (i, q)),  # each twice
        ((N, 48), lambda i, q: (i, 47 - q)),  # in another order
        ((48, N), lambda q, i: (i, q)),  # not along the columns
    ],
)
def test_other_uses_read_them_from_memory(shape, place):
    nest = moved(shape, place)
    assert len((*nest.scratch, *nest.private)) == 1


@pytest.mark.parametrize(("rows", "phases"), [(N, 3), (16, 3), (1, 1)])
def test_siblings_share_tiles_only_where_rows_are_few(rows, phases):
    x = c.placeholder("x", (rows, K), "float32")
    weights = tuple(c.placeholder(name, (256, K), "float32") for name in "uvw")
    sums = [dense(x, w, rows, 256) for w in weights]
    outputs = tuple(c.compute((rows, 256), lambda i, j, d=d: d[i, j] + 1.0) for d in sums)
    variables = () if rows is not N else (ROWS,)
    nest = schedule(Computation("siblings", (x, *weights), outputs, variables), WIDE)
    assert (len(nest.phases), nest.scratch) == (phases, ())
