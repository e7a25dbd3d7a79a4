"""Rows in runs side by side, and small integers in wide vectors, have the naive nest's bits."""

from __future__ import annotations

import numpy as np
import pytest

from relayvm.base.dims import DimVar, symbol
from relayvm.base.target import Target
from relayvm.kernels import compute as te
from relayvm.kernels.interpret import interpret
from relayvm.kernels.lower import Computation, lower
from relayvm.kernels.printer import print_nest
from relayvm.kernels.schedule import schedule

from .native import Native

LENGTH = DimVar("n")
SIZES = (1, 15, 63, 64, 129, 511, 512, 1000, 4099)
CASES = [
    *((kind, dtype) for kind in ("max", "min") for dtype in ("float32", "float64", "float16")),
    *((kind, dtype) for kind in ("sum", "prod", "max", "min") for dtype in ("int8", "uint16")),
    *((kind, "int32") for kind in ("sum", "prod", "max")),
    *((kind, "bool") for kind in ("any", "all")),
]


def values(rng, shape, dtype):
    """Return values of which the extremes are zeros of both signs, and some are NaN of several
    bits.
    """
    if dtype == "bool":
        return rng.random(shape) < rng.choice([0.0, 0.001, 0.999, 1.0])
    if np.dtype(dtype).kind != "f":
        limits = np.iinfo(dtype)
        return rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)
    x = rng.choice([0.0, -0.0], shape).astype(dtype)
    if rng.random() < 0.5:
        nan = np.array([np.nan], dtype)
        bits = nan.view(f"u{nan.itemsize}")[0] + rng.integers(0, 9, shape).astype(
            f"u{nan.itemsize}"
        )
        x = np.where(rng.random(shape) < 0.01, bits.view(dtype), x)
    return x


def reduced(shape, kind, dtype, variables=()):
    """Return a reduction of the last axis."""
    x = te.placeholder("x", shape, dtype)
    out = te.compute(shape[:-1], lambda *i: te.reduce(kind, shape[-1:], lambda k: x[(*i, k)]))
    return Computation("run", (x,), (out,), variables)


@pytest.mark.parametrize(("kind", "dtype"), CASES)
@pytest.mark.parametrize("rows", [(), (3,)])
def test_runs_have_the_bits_of_the_naive_order(kind, dtype, rows):
    rng = np.random.default_rng(len(kind + dtype))
    fast = Native(reduced((*rows, symbol(LENGTH)), kind, dtype, (LENGTH,)))
    for size in SIZES:
        x = values(rng, (*rows, size), dtype)
        known = reduced((*rows, size), kind, dtype)
        with np.errstate(all="ignore"):
            (expected,) = interpret(lower(known), [x], {})
            (nest,) = interpret(schedule(known, Target()), [x], {}, slices=None)
        (native,), (unknown,) = Native(known).results([x]), fast.results([x], (size,))
        for result in (nest, native, unknown):
            assert result.tobytes() == np.asarray(expected).tobytes(), (size, result, expected)


def boxed(shape, kept, kind, dtype, variables=()):
    """Return a reduction of all axes but some, in front or at the end."""
    x = te.placeholder("x", shape, dtype)
    first, last = (kept, 0) if kept >= 0 else (0, -kept)
    inner = shape[first : len(shape) - last]

    def element(*i):
        return te.reduce(kind, inner, lambda *k: x[(*i[:first], *k, *i[first:])])

    out = te.compute((*shape[:first], *shape[len(shape) - last :]), element)
    return Computation("box", (x,), (out,), variables)


@pytest.mark.parametrize(
    ("kind", "dtype"), [*CASES, ("sum", "float32"), ("sum", "float64"), ("prod", "float16")]
)
@pytest.mark.parametrize("kept", [0, 1, -1])
def test_boxes_of_several_axes_have_the_bits_of_the_naive_order(kind, dtype, kept):
    rng = np.random.default_rng(len(kind + dtype))
    for shape in ((4, 128), (7, 65), (3, 5, 43), (2, 1, 17, 16), (3, 2, 3, 67)):
        x = values(rng, shape, dtype)
        if kind in ("sum", "prod") and x.dtype.kind == "f":  # which NaN comes is not promised
            x = rng.uniform(-2, 2, shape).astype(dtype)
        known = boxed(shape, kept, kind, dtype)
        fast = Native(boxed((symbol(LENGTH), *shape[1:]), kept, kind, dtype, (LENGTH,)))
        with np.errstate(all="ignore"):
            (expected,) = interpret(lower(known), [x], {})
            (nest,) = interpret(schedule(known, Target()), [x], {}, slices=None)
        (native,), (unknown,) = Native(known).results([x]), fast.results([x], (shape[0],))
        for result in (nest, native, unknown):
            assert result.tobytes() == np.asarray(expected).tobytes(), (shape, result, expected)


def test_a_long_row_is_several_runs():
    text = print_nest(schedule(reduced((4096,), "max", "float32")))
    assert "1024" in text
    assert "1024" not in print_nest(schedule(reduced((4096,), "sum", "float32")))
