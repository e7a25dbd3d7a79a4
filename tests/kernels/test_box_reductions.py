"""Reductions over boxes that memory holds in runs have the naive nest's bits."""

from __future__ import annotations

import re

import numpy as np
import pytest

from relayvm.base.dims import DimVar, symbol
from relayvm.base.target import Target
from relayvm.kernels import compute as te
from relayvm.kernels.interpret import interpret
from relayvm.kernels.lower import Computation, lower
from relayvm.kernels.printer import print_nest
from relayvm.kernels.schedule import schedule
from relayvm.kernels.schedules.machine import vector_bytes

from .native import Native

B, C = DimVar("b"), DimVar("c")


def reduced(shape, axes, kind, dtype, product=False, variables=()):
    """Return a reduction of x (or of x * x) over some axes."""
    x = te.placeholder("x", shape, dtype)
    kept = [k for k in range(len(shape)) if k not in axes]

    def element(*i):
        def term(*r):
            places = dict(zip(kept, i)) | dict(zip(axes, r))
            value = x[tuple(places[k] for k in range(len(shape)))]
            return value * value if product else value

        return te.reduce(kind, tuple(shape[k] for k in axes), term)

    out = te.compute(tuple(shape[k] for k in kept), element)
    return Computation("box", (x,), (out,), variables)


def values(shape, dtype):
    rng = np.random.default_rng(sum(shape))
    x = rng.standard_normal(shape) * 3
    if np.dtype(dtype).kind == "f":
        special = rng.choice([0.0, -0.0, 1e-42, np.inf], shape)
        x = np.where(rng.random(shape) < 0.02, special, x)
    return x.astype(dtype)


@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((5, 3, 64), (0, 2)),
        ((5, 3, 9), (0, 2)),
        ((4, 3, 7, 7), (0, 2, 3)),
        ((3, 2, 5, 31), (0, 3)),
        ((2, 3, 1, 20), (1, 2, 3)),
        ((3, 1, 40), (0, 2)),
        ((16, 2, 17), (0, 2)),
    ],
)
def test_runs_of_any_length(shape, axes):
    for kind, dtype, product in (
        ("sum", "float32", False),
        ("sum", "float64", True),
        ("max", "float32", False),
        ("min", "float16", False),
        ("sum", "float16", False),
        ("prod", "int32", False),
        ("any", "bool", False),
    ):
        computation = reduced(shape, axes, kind, dtype, product)
        x = values(shape, dtype)
        with np.errstate(all="ignore"):
            expected = interpret(lower(computation), [x], {})
            nest = schedule(computation, Target())
            for result in (interpret(nest, [x], {}, slices=None), Native(computation).results([x])):
                np.testing.assert_array_equal(result[0], expected[0])
                assert result[0].tobytes() == expected[0].tobytes() or np.isnan(expected[0]).any()


def test_an_unknown_number_of_runs():
    computation = reduced((symbol(B), symbol(C), 32), (0, 2), "sum", "float32", False, (B, C))
    kernel = Native(computation)
    assert "gather" not in print_nest(kernel.nest)
    naive = lower(computation)
    for sizes in ((0, 3), (1, 1), (5, 7), (20, 2)):
        x = values((*sizes, 32), "float32")
        (expected,) = interpret(naive, [x], dict(zip("bc", sizes)))
        np.testing.assert_array_equal(kernel.results([x], sizes)[0], expected)


@pytest.mark.parametrize("kind", ["sum", "max"])
@pytest.mark.parametrize("columns", [5, 40, 64, 200])
def test_columns_that_share_nothing(kind, columns):
    """Narrow ones run in turns, wide ones in order; both have the naive nest's bits."""
    b, c = symbol(B), symbol(C)
    computation = reduced((b, c, columns), (1,), kind, "float32", False, (B, C))
    kernel, naive = Native(computation), lower(computation)
    for sizes in ((1, 1), (3, 16), (2, 33), (1, 70), (2, 0)):
        x = values((*sizes, columns), "float32")
        with np.errstate(all="ignore"):
            (expected,) = interpret(naive, [x], dict(zip("bc", sizes)))
        np.testing.assert_array_equal(kernel.results([x], sizes)[0], expected)


@pytest.mark.parametrize(("dtype", "columns"), [("int8", 1300), ("int32", 300), ("int64", 140)])
def test_integers_of_a_column_need_one_partial(dtype, columns):
    """Of each row a run of several lines of the cache is read."""
    b = symbol(B)
    kernel = Native(reduced((b, columns), (0,), "sum", dtype, False, (B,)))
    text = print_nest(kernel.nest)
    run = max(map(int, re.findall(r"in0\[.*\]:(\d+)", text)))
    assert run * np.dtype(dtype).itemsize >= 4 * vector_bytes(Target())
    for length in (0, 1, 2, 37):
        x = values((length, columns), dtype)
        np.testing.assert_array_equal(kernel.results([x], (length,))[0], x.sum(0, dtype=dtype))


@pytest.mark.skipif(vector_bytes(Target()) < 64, reason="masks are not cheap here")
@pytest.mark.parametrize("columns", [20, 48, 70])
def test_rows_of_integers_are_read_once(columns):
    b = symbol(B)
    kernel = Native(reduced((b, columns), (0,), "max", "int32", False, (B,)))
    runs = set(map(int, re.findall(r"in0\[.*\]:(\d+)", print_nest(kernel.nest))))
    assert runs == {20: {32}, 48: {64}, 70: {64, 16}}[columns]
    x = values((37, columns), "int32")
    np.testing.assert_array_equal(kernel.results([x], (37,))[0], x.max(0))
