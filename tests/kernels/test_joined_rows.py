"""Rows of several leading axes are scheduled as those of one, with the same bits."""

from __future__ import annotations

import numpy as np
import pytest

from relayvm.base.dims import DimVar, symbol
from relayvm.base.dtypes import FLOAT32
from relayvm.kernels import compute as te
from relayvm.kernels.interpret import interpret
from relayvm.kernels.lower import Computation, lower
from relayvm.kernels.schedule import schedule
from relayvm.kernels.schedules.joined_rows import joined
from relayvm.kernels.verify import verify_nest

from .native import Native

VARS = (DimVar("b"), DimVar("t"))
B, T = map(symbol, VARS)
SIZES = [(3, 5), (1, 7), (0, 3)]


def dense(shape, units=9):
    *outer, k = shape
    x, w = te.placeholder("x", shape, FLOAT32), te.placeholder("w", (units, k), FLOAT32)
    out = te.compute(
        (*outer, units),
        lambda *i: te.reduce("sum", (k,), lambda r: x[(*i[:-1], r)] * w[i[-1], r]),
    )
    return (x, w), (te.compute(out.shape, lambda *i: te.scalar("maximum", out[i], 0.5)),)


def softmax(shape):
    *outer, k = shape
    x = te.placeholder("x", shape, FLOAT32)
    most = te.compute(tuple(outer), lambda *i: te.reduce("max", (k,), lambda r: x[(*i, r)]))
    e = te.compute(shape, lambda *i: te.scalar("exp", x[i] - most[i[:-1]]))
    total = te.compute(tuple(outer), lambda *i: te.reduce("sum", (k,), lambda r: e[(*i, r)]))
    return (x,), (te.compute(shape, lambda *i: te.scalar("divide", e[i], total[i[:-1]])),)


def product_of_batches(shape):
    b, t, k = shape
    x, y = te.placeholder("x", shape, FLOAT32), te.placeholder("y", (b, 6, k), FLOAT32)
    out = te.compute(
        (b, t, 6), lambda i, j, u: te.reduce("sum", (k,), lambda r: x[i, j, r] * y[i, u, r])
    )
    return (x, y), (out,)


def sum_with_places(shape):
    x = te.placeholder("x", shape, FLOAT32)
    sums = te.compute(shape[:2], lambda i, j: te.reduce("sum", shape[2:], lambda r: x[i, j, r]))
    return (x,), (te.compute(shape, lambda i, j, u: sums[i, j] + te.cast(j, FLOAT32)),)


@pytest.mark.slow
@pytest.mark.parametrize("make", [dense, softmax])
@pytest.mark.parametrize("is_symbolic", [True, False])
def test_rows_of_two_axes_have_the_bits_of_the_definition(make, is_symbolic):
    for sizes in SIZES if is_symbolic else [(3, 5)]:
        shape = (B, T, 21) if is_symbolic else (*sizes, 21)
        computation = Computation("rows", *make(shape), VARS if is_symbolic else ())
        assert joined(computation) is not None
        data = [
            np.random.default_rng(n).standard_normal((*sizes, 21) if n == 0 else (9, 21))
            for n in range(len(computation.inputs))
        ]
        data = [x.astype(np.float32) for x in data]
        dims = dict(zip(("b", "t"), sizes)) if is_symbolic else {}
        nest = schedule(computation)
        verify_nest(nest)
        (expected,) = interpret(lower(computation), data, dims)
        np.testing.assert_array_equal(interpret(nest, data, dims, slices=3)[0], expected)
        (result,) = Native(computation).results(data, tuple(sizes) if is_symbolic else ())
        np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("units", [64, 150, 768])
def test_products_of_unknown_rows_share_blocks_of_rows_whatever_their_width(units):
    inputs, outputs = dense((B, T, 300), units)
    nest = schedule(Computation("wide", inputs, outputs, VARS))
    assert len(nest.phases) == 1
    inputs, outputs = dense((B * T, 300), units)
    alone = schedule(Computation("wide", inputs, outputs, VARS))
    assert nest.phases[0].extent == alone.phases[0].extent


def test_four_axes_become_two():
    found = joined(Computation("rows", *softmax((2, 3, 4, 20))))
    assert found is not None and found.outputs[0].shape == (24, 20)


@pytest.mark.parametrize("make", [product_of_batches, sum_with_places])
def test_axes_that_something_tells_apart_stay_apart(make):
    computation = Computation("rows", *make((3, 5, 20)))
    assert joined(computation) is None
    data = [
        np.random.default_rng(0).standard_normal(t.shape).astype(np.float32)
        for t in computation.inputs
    ]
    (expected,) = interpret(lower(computation), data, {})
    np.testing.assert_array_equal(interpret(schedule(computation), data, {})[0], expected)


def test_single_rows_and_plain_elements_are_left_alone():
    assert joined(Computation("rows", *dense((1, T, 20)), VARS[1:])) is None
    x = te.placeholder("x", (3, 4, 5), FLOAT32)
    assert joined(Computation("rows", (x,), (te.compute(x.shape, lambda *i: x[i] * 2.0),))) is None
