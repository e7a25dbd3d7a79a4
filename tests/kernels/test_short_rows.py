"""Rows of few elements run in vectors of the axis before them, with the naive nest's bits."""

from __future__ import annotations

import numpy as np
import pytest

from relayvm.base.dims import DimVar, symbol
from relayvm.base.target import Target
from relayvm.kernels import compute as te
from relayvm.kernels.interpret import interpret
from relayvm.kernels.loops import Nest
from relayvm.kernels.lower import Computation, lower
from relayvm.kernels.printer import print_nest
from relayvm.kernels.schedule import schedule
from relayvm.kernels.verify import verify_nest

from .native import Native

ROWS = DimVar("m")


def stacked(shape, parts, dtype, variables=()):
    """Return tensors side by side on a new last axis."""
    inputs = tuple(te.placeholder(f"x{k}", shape, dtype) for k in range(parts))

    def element(*i):
        value = inputs[-1][i[:-1]]
        for k in reversed(range(parts - 1)):
            value = te.select(te.scalar("less", i[-1], te.dim(k + 1)), inputs[k][i[:-1]], value)
        return value

    return Computation("stack", inputs, (te.compute((*shape, parts), element),), variables)


def scaled(shape, dtype, variables=()):
    """Return a tensor of which each last place has a factor of its own, and its square."""
    x, w = te.placeholder("x", shape, dtype), te.placeholder("w", shape[-1:], dtype)
    once = te.compute(shape, lambda *i: x[i] * w[i[-1]])
    twice = te.compute(shape, lambda *i: once[i] * once[i])
    return Computation("scale", (x, w), (once, twice), variables)


def same_bits(known: Computation, unknown: Native, arrays, sizes) -> Nest:
    expected = interpret(lower(known), arrays, {})
    nest = schedule(known, Target())
    verify_nest(nest)
    shared = interpret(nest, arrays, {}, slices=None)
    for found in (shared, Native(known).results(arrays), unknown.results(arrays, sizes)):
        for a, b in zip(found, expected, strict=True):
            assert a.tobytes() == np.asarray(b).tobytes()
    return nest


@pytest.mark.parametrize(("parts", "dtype"), [(2, "float32"), (3, "int8"), (4, "float64")])
def test_stacks(parts, dtype):
    rng = np.random.default_rng(parts)
    unknown = Native(stacked((3, symbol(ROWS)), parts, dtype, (ROWS,)))
    for rows in (5, 16, 33, 64):
        arrays = [rng.integers(0, 100, (3, rows)).astype(dtype) for _ in range(parts)]
        nest = same_bits(stacked((3, rows), parts, dtype), unknown, arrays, (rows,))
        assert ("shuffle" in print_nest(nest)) == (rows >= 8), rows


@pytest.mark.parametrize(("few", "dtype"), [(2, "float32"), (3, "float16"), (4, "int32")])
def test_rows_with_factors(few, dtype):
    rng = np.random.default_rng(few)
    unknown = Native(scaled((symbol(ROWS), few), dtype, (ROWS,)))
    for rows in (1, 16, 31, 700):
        arrays = [rng.integers(0, 100, s).astype(dtype) for s in ((rows, few), (few,))]
        nest = same_bits(scaled((rows, few), dtype), unknown, arrays, (rows,))
        assert ("shuffle" in print_nest(nest)) == (rows > 1), rows
