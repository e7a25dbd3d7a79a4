"""The order of float sums is a function of the length alone: written down here once more."""

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

N = DimVar("n")
LENGTHS = (1, 16, 33, 63, 64, 65, 80, 127, 128, 150, 1000)


def add(x, total):
    return x + total


def multiply(x, total):
    return x * total


def add_square(x, total):
    """Return the sum rounded once: float64 holds the square, and nearly the sum."""
    return (x.astype(np.float64) ** 2 + total).astype(np.float32)


def in_order(x: np.ndarray, combine, bring) -> np.ndarray:
    """Return elements [n, ...] combined: dealt to 16 partials, of each four at a time, in halves.

    `combine` takes an element to others, `bring` takes these to a partial.
    """
    identity = np.float32(bring is multiply)
    partials = []
    for lane in range(16):
        own, partial = x[lane::16], np.full(x.shape[1:], identity)
        for first in range(0, len(own), 4):
            together = np.full(x.shape[1:], identity)
            for element in own[first : first + 4]:
                together = combine(element, together)
            partial = bring(together, partial)
        partials.append(partial)
    while len(partials) > 1:
        half = len(partials) // 2
        partials = [bring(a, b) for a, b in zip(partials[:half], partials[half:])]
    return partials[0]


def reduced(kind, shape, axis, variables=(), is_square=False):
    """Return a reduction of float32 x over one axis."""
    x = te.placeholder("x", shape, "float32")

    def element(*i):
        def term(k):
            value = x[(*i[:axis], k, *i[axis:])]
            return value * value if is_square else value

        return te.reduce(kind, (shape[axis],), term)

    out = te.compute((*shape[:axis], *shape[axis + 1 :]), element)
    return Computation("sums", (x,), (out,), variables)


@pytest.mark.parametrize("shape", [("n",), (6, "n"), ("n", 40), (3, "n", 20)])
@pytest.mark.parametrize("kind", ["sum", "prod", "square"])
def test_four_terms_of_a_partial_come_together_first(kind, shape):
    axis = shape.index("n")
    rng = np.random.default_rng(len(shape))
    combine = {"sum": add, "prod": multiply, "square": add_square}[kind]
    bring = multiply if kind == "prod" else add
    name = "sum" if kind == "square" else kind
    for length in LENGTHS:
        sizes = tuple(length if d == "n" else d for d in shape)
        x = rng.uniform(0.75, 1.25, sizes).astype(np.float32)
        expected = in_order(np.moveaxis(x, axis, 0), combine, bring)
        known = reduced(name, sizes, axis, (), kind == "square")
        dims = tuple(symbol(N) if d == "n" else d for d in shape)
        unknown = reduced(name, dims, axis, (N,), kind == "square")
        for nest, values in (
            (lower(known), {}),
            (schedule(known, Target()), {}),
            (schedule(unknown, Target()), {"n": length}),
        ):
            (result,) = interpret(nest, [x], values)
            np.testing.assert_array_equal(result, expected, f"{length}")


def test_a_product_of_two_tensors_takes_terms_one_by_one():
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(200).astype(np.float64) for _ in range(2))
    x, y = (te.placeholder(name, (200,), "float64") for name in "xy")
    out = te.compute((), lambda: te.reduce("sum", (200,), lambda k: x[k] * y[k]))
    nest = schedule(Computation("dot", (x, y), (out,), ()), Target())
    assert "fma(" in print_nest(nest)
    assert " step 16 " in print_nest(nest)
    (result,) = interpret(nest, [a, b], {})
    np.testing.assert_allclose(result, a @ b)
