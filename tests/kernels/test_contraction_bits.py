"""Bits of contractions: those of the naive nest, whatever the sizes, layouts, slices and target."""

from __future__ import annotations

import itertools
import platform

import numpy as np
import pytest

from relayvm.base.diagnostics import RelayError
from relayvm.base.dims import DimVar, dim_value, symbol
from relayvm.base.link import link_object
from relayvm.base.native.cpu import target_cpu
from relayvm.base.target import Target
from relayvm.kernels import compute as te
from relayvm.kernels.codegen.function import nest_functions
from relayvm.kernels.codegen.llvm import compile_object, module_text
from relayvm.kernels.index.bounds import ensure_bounds
from relayvm.kernels.interpret import interpret
from relayvm.kernels.lower import Computation, kernel_signature, lower
from relayvm.kernels.parser import parse_nest
from relayvm.kernels.printer import print_nest
from relayvm.kernels.schedule import schedule
from relayvm.kernels.verify import verify_nest

from .images import LoadedImage, chains_of, own_memory

VARS = {name: DimVar(name) for name in "bmnk"}
LAYOUTS = [(a, b) for a in "NT" for b in "NT"]
SIZES = [
    (1, 1, 1, 1),
    (1, 1, 16, 16),
    (1, 1, 37, 35),
    (1, 2, 64, 16),
    (1, 3, 65, 5),
    (1, 4, 15, 63),
    (1, 5, 200, 33),
    (1, 7, 3, 100),
    (1, 13, 70, 48),
    (1, 30, 130, 17),
    (2, 17, 16, 50),
    (3, 1, 21, 34),
    (2, 0, 5, 5),
    (1, 5, 0, 5),
    (1, 5, 5, 0),
    (0, 5, 5, 5),
    (2, 33, 129, 1),
    (1, 1, 300, 270),
    (1, 2, 260, 335),
    (1, 15, 18, 530),
]
HOST = Target()
NARROW = Target(cpu="x86-64-v3")


def product(layout, sizes, symbolic=(), batch_of_b=True, plus_one=False):
    """Return a product of matrices with the sizes of `b`, `m`, `n`, `k`, some unknown."""
    b, m, size, k = (
        symbol(VARS[name]) if name in symbolic else value for name, value in zip("bmnk", sizes)
    )
    first = (m, k) if layout[0] == "N" else (k, m)
    second = (k, size) if layout[1] == "N" else (size, k)
    x = te.placeholder("x", (b, *first), "float32")
    y = te.placeholder("y", ((b,) if batch_of_b else ()) + second, "float32")

    def element(o, i, j):
        def term(r):
            at = (i, r) if layout[0] == "N" else (r, i)
            by = (r, j) if layout[1] == "N" else (j, r)
            return x[(o, *at)] * y[((o,) if batch_of_b else ()) + by]

        total = te.reduce("sum", (k,), term)
        return te.scalar("maximum", total + 1.0, te.const(0.0, "float32")) if plus_one else total

    out = te.compute((b, m, size), element)
    return Computation("product", (x, y), (out,), tuple(VARS[d] for d in "bmnk" if d in symbolic))


class Compiled:
    """A computation in native code."""

    def __init__(self, computation, target=HOST, opt_level=3):
        self.nest = schedule(computation, target, opt_level) if opt_level else lower(computation)
        verify_nest(self.nest)
        cpu = target_cpu(target)
        text = module_text(nest_functions(self.nest, "kernel", ()), cpu)
        entries = {"kernel": tuple(f"kernel.{p}" for p in range(len(self.nest.phases)))}
        object_file = compile_object(text, cpu, speed=1)
        self.image = LoadedImage(link_object(object_file, cpu.triple, cpu.features, entries))
        self.computation = computation
        self.signature = kernel_signature(computation, self.nest, (), (), False)

    def run(self, arrays, sizes):
        values = dict(zip((VARS[d] for d in "bmnk"), sizes))
        (output,) = self.computation.outputs
        result = np.full([dim_value(d, values) for d in output.shape], np.nan, np.float32)
        dims = [values[v] for v in self.computation.dim_vars]
        extents = [dim_value(p, values) for p in self.signature.phases]
        memory = own_memory(self.signature, values)
        chains = chains_of(self.signature, values)
        slices = 1 + sum(sizes) % 3
        operands = [*arrays, result]
        assert self.image.call("kernel", operands, dims, extents, *memory, slices, chains) == 0
        return result


def operands(layout, sizes, batch_of_b=True):
    """Return arrays for `product`, made from the sizes."""
    b, m, size, k = sizes
    random = np.random.default_rng(sum(sizes))
    first = (b, m, k) if layout[0] == "N" else (b, k, m)
    second = (k, size) if layout[1] == "N" else (size, k)
    second = (b, *second) if batch_of_b else second
    return [random.standard_normal(s).astype(np.float32) for s in (first, second)]


def assert_same_bits(got, expected, why):
    assert got.tobytes() == expected.tobytes(), why


needs_x86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="code for x86-64 runs there")


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS, ids="".join)
@pytest.mark.parametrize("target", [HOST, pytest.param(NARROW, marks=needs_x86)], ids=str)
def test_products_of_unknown_sizes_have_the_bits_of_the_naive_nest(layout, target):
    computation = product(layout, (0, 0, 0, 0), "bmnk", plus_one=True)
    naive, fast = Compiled(computation, opt_level=0), Compiled(computation, target)
    for sizes in SIZES:
        arrays = operands(layout, sizes)
        assert_same_bits(fast.run(arrays, sizes), naive.run(arrays, sizes), sizes)


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS, ids="".join)
def test_products_of_known_sizes_have_the_bits_of_unknown_ones(layout):
    naive = Compiled(product(layout, (0, 0, 0, 0), "bmnk"), opt_level=0)
    for number, sizes in enumerate(SIZES):
        known = "".join(d for d, bit in zip("bmnk", itertools.count()) if number >> bit & 1)
        arrays = operands(layout, sizes)
        expected = naive.run(arrays, sizes)
        for symbolic in ("", known):
            target = NARROW if number % 3 == 2 and platform.machine() == "x86_64" else HOST
            fast = Compiled(product(layout, sizes, symbolic), target)
            assert_same_bits(fast.run(arrays, sizes), expected, (sizes, symbolic))


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS, ids="".join)
def test_weights_shared_by_a_batch_have_the_bits_of_their_copies(layout):
    naive = Compiled(product(layout, (0, 0, 0, 0), "bmnk"), opt_level=0)
    fast = Compiled(product(layout, (0, 0, 0, 0), "bmnk", batch_of_b=False))
    for sizes in SIZES:
        first, second = operands(layout, sizes, batch_of_b=False)
        copies = np.broadcast_to(second, (sizes[0], *second.shape)).copy()
        expected = naive.run([first, copies], sizes)
        assert_same_bits(fast.run([first, second], sizes), expected, sizes)


def two_products(m, size, symbolic, layout="T"):
    """Return `sum(x * v) + sum(h * w)` over axes of 19 and 34, and the second sum besides."""
    rows, columns = (symbol(VARS[d]) if d in symbolic else v for d, v in zip("mn", (m, size)))
    inputs, sums = [], []
    axes = (rows, columns)
    for name, length in (("x", 19), ("h", 34)):
        left = te.placeholder(name, (rows, length), "float32")
        shape = (columns, length) if layout == "T" else (length, columns)
        right = te.placeholder(f"w_{name}", shape, "float32")
        inputs += [left, right]

        def element(i, j, left=left, right=right, length=length):
            return te.reduce(
                "sum",
                (length,),
                lambda r: left[i, r] * (right[j, r] if layout == "T" else right[r, j]),
            )

        sums.append(te.compute(axes, element))
    both = te.compute(axes, lambda i, j: te.scalar("tanh", sums[0][i, j] + sums[1][i, j]))
    return Computation("two", tuple(inputs), (both,), tuple(VARS[d] for d in symbolic))


@pytest.mark.parametrize("layout", ["T", "N"])
def test_sums_of_different_lengths_share_one_phase_and_keep_their_bits(layout):
    fast = Compiled(two_products(0, 0, "mn", layout))
    naive = Compiled(two_products(0, 0, "mn", layout), opt_level=0)
    assert len(fast.nest.phases) == 1
    assert not fast.nest.scratch
    for m, size in ((1, 64), (3, 21), (6, 33), (0, 4)):
        random = np.random.default_rng(size)
        arrays = []
        for length in (19, 34):
            shape = (size, length) if layout == "T" else (length, size)
            arrays += [random.standard_normal(s).astype(np.float32) for s in ((m, length), shape)]
        sizes = (1, m, size, 1)
        assert_same_bits(fast.run(arrays, sizes), naive.run(arrays, sizes), sizes)


def test_weights_from_afar_are_fetched_for_the_next_tile():
    sizes = (1, 7, 1400, 200)
    fast = Compiled(product("NT", sizes, "m"))
    text = print_nest(fast.nest)
    assert "prefetch in1[" in text
    assert parse_nest(text) == fast.nest
    assert "prefetch" not in print_nest(schedule(product("NT", (1, 7, 60, 200), "m"), HOST))
    arrays = operands("NT", sizes)
    naive = Compiled(product("NT", sizes), opt_level=0)
    assert_same_bits(fast.run(arrays, sizes), naive.run(arrays, sizes), sizes)


@pytest.mark.parametrize(("rows", "together"), [(7, 16), (1, 8)])
def test_partials_of_several_rows_are_folded_together(rows, together):
    """A tile of 4 rows and 4 columns folds its 16 vectors to one; a row has 8 columns."""
    text = print_nest(schedule(product("NT", (1, rows, 64, 64)), Target(cpu="znver4")))
    assert max(line.count("acc") for line in text.splitlines() if "tree(" in line) == together


def test_a_prefetch_may_lie_outside_of_its_buffer():
    text = """nest @copy {
  input in0: float32[4]
  output out0: float32[4]
  phase i0 < 4 {
    prefetch in0[(i0 + 1000)]
    out0[i0] = in0[i0]
  }
}
"""
    nest = parse_nest(text)
    verify_nest(nest)
    assert print_nest(ensure_bounds(nest)) == text
    array = np.arange(4, dtype=np.float32)
    assert interpret(nest, [array], {})[0].tolist() == [0, 1, 2, 3]
    with pytest.raises(RelayError, match="cannot be prefetched"):
        verify_nest(parse_nest(text.replace("in0[(i0 + 1000)]", "in0[i0, i0]")))


def test_rows_of_a_tile_are_folded_together():
    nest = schedule(product("NT", (1, 8, 64, 160)), Target(cpu="x86-64-v4"))
    trees = [line for line in print_nest(nest).splitlines() if "tree(" in line]
    assert {line.count("acc") for line in trees} == {16}


def test_partials_beyond_the_end_of_a_sum_keep_their_sign():
    """All products are negative and too small for float32, so that sums are -0."""
    sizes = (1, 5, 20, 22)
    computation = product("NT", sizes)
    arrays = [np.full(s, v, np.float32) for s, v in (((1, 5, 22), -1e-30), ((1, 20, 22), 1e-30))]
    expected = Compiled(computation, opt_level=0).run(arrays, sizes)
    assert np.signbit(expected).all()
    assert_same_bits(Compiled(computation).run(arrays, sizes), expected, sizes)
