"""Products with weights in packs: the integers of numpy for any rows, units, lengths and target."""

from __future__ import annotations

import itertools
import platform

import numpy as np
import pytest

from relayvm.base.dims import DimVar, dim_value, symbol
from relayvm.base.dtypes import INT32
from relayvm.base.link import link_object
from relayvm.base.native.cpu import target_cpu
from relayvm.base.target import Target
from relayvm.kernels import compute as te
from relayvm.kernels.codegen.function import nest_functions
from relayvm.kernels.codegen.llvm import compile_object, module_text
from relayvm.kernels.interpret import interpret
from relayvm.kernels.lower import Computation, kernel_signature
from relayvm.kernels.printer import print_nest
from relayvm.kernels.schedule import schedule
from relayvm.kernels.verify import verify_nest

from .images import LoadedImage, chains_of, own_memory

ROWS = DimVar("m")
SUMS_OF_BYTES = Target(cpu="znver4")
HOST = Target()
TARGETS = [HOST]
if platform.machine() == "x86_64":
    TARGETS.append(Target(cpu="x86-64-v3"))
SIZES = [(1, 16, 64), (2, 150, 150), (3, 22, 9), (5, 130, 37), (7, 64, 4), (18, 33, 70), (0, 16, 8)]


def product(sizes, dtypes, is_symbolic=False, batch=(), plus_one=False):
    """Return `x [..., m, k] . w [n, k]^T` with w in packs of 16 units and four of k."""
    m, units, k = sizes
    rows = symbol(ROWS) if is_symbolic else m
    x = te.placeholder("x", (*batch, rows, k), dtypes[0])
    packs = (-(-units // 16), -(-k // 4), 16, 4)
    w = te.placeholder("w", packs, dtypes[1])

    def element(*i):
        def term(r):
            right = w[i[-1] // 16, r // 4, i[-1] % 16, r % 4]
            return te.cast(x[(*i[:-1], r)], INT32) * te.cast(right, INT32)

        return te.reduce("sum", (k,), term)

    shape = (*batch, rows, units)
    out = te.compute(shape, element)
    if plus_one:
        out = te.compute(shape, lambda *i: te.scalar("maximum", out[i] + 1, te.const(0, INT32)))
    return Computation("product", (x, w), (out,), (ROWS,) if is_symbolic else ())


def arrays(sizes, dtypes, batch=()):
    """Return data and packs, what fills the packs up being 0, and the plain weight."""
    m, units, k = sizes
    rng = np.random.default_rng(sum(sizes))
    ranges = {"int8": (-128, 128), "uint8": (0, 256)}
    x = rng.integers(*ranges[dtypes[0]], (*batch, m, k)).astype(dtypes[0])
    weight = rng.integers(*ranges[dtypes[1]], (units, k)).astype(dtypes[1])
    filled = np.zeros((-(-units // 16) * 16, -(-k // 4) * 4), dtypes[1])
    filled[:units, :k] = weight
    packs = filled.reshape(-1, 16, filled.shape[1] // 4, 4).transpose(0, 2, 1, 3)
    return x, np.ascontiguousarray(packs), weight


def run(computation, nest, target, operands, sizes, shape):
    """Return the result of a nest in native code."""
    verify_nest(nest)
    cpu = target_cpu(target)
    text = module_text(nest_functions(nest, "kernel", (), cpu), cpu)
    entries = {"kernel": tuple(f"kernel.{p}" for p in range(len(nest.phases)))}
    code = compile_object(text, cpu, speed=1)
    image = LoadedImage(link_object(code, cpu.triple, cpu.features, entries))
    signature = kernel_signature(computation, nest, (), (), False)
    values = {ROWS: sizes[0]} if computation.dim_vars else {}
    extents = [dim_value(p, values) for p in signature.phases]
    result = np.full(shape, 77, np.int32)
    memory = own_memory(signature, values)
    chains = chains_of(signature, values)
    dims = [sizes[0]] if computation.dim_vars else []
    assert image.call("kernel", [*operands, result], dims, extents, *memory, 2, chains) == 0
    return result


def expected(x, weight, plus_one):
    sums = x.astype(np.int32) @ weight.T.astype(np.int32)
    return np.maximum(sums + 1, 0) if plus_one else sums


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize("dtypes", [("uint8", "int8"), ("int8", "uint8")], ids="-".join)
def test_packs_give_the_integers_of_numpy(target, dtypes):
    for number, sizes in enumerate(SIZES):
        plus_one, is_symbolic = number % 2 == 0, number % 3 == 0
        computation = product(sizes, dtypes, is_symbolic, plus_one=plus_one)
        nest = schedule(computation, target)
        x, packs, weight = arrays(sizes, dtypes)
        got = run(computation, nest, target, [x, packs], sizes, (sizes[0], sizes[1]))
        assert np.array_equal(got, expected(x, weight, plus_one)), (sizes, is_symbolic)


@pytest.mark.parametrize("is_symbolic", [False, True])
def test_packs_are_read_whole_and_nothing_is_folded(is_symbolic):
    nest = schedule(product((8, 150, 150), ("uint8", "int8"), is_symbolic), SUMS_OF_BYTES)
    text = print_nest(nest)
    assert "dot(" in text
    assert ":64" in text
    assert "tree(" not in text
    assert not nest.scratch


@pytest.mark.parametrize("batch", [(2,), (2, 1, 3)], ids=str)
def test_rows_of_several_axes_share_packs(batch):
    sizes, dtypes = (3, 40, 21), ("uint8", "int8")
    computation = product(sizes, dtypes, batch=batch)
    x, packs, weight = arrays(sizes, dtypes, batch)
    target = TARGETS[0]
    nest = schedule(computation, target)
    got = run(computation, nest, target, [x, packs], sizes, (*batch, 3, 40))
    assert np.array_equal(got, expected(x, weight, False))


def test_the_interpreter_reads_packs_as_native_code_does():
    sizes, dtypes = (3, 37, 11), ("uint8", "int8")
    nest = schedule(product(sizes, dtypes), SUMS_OF_BYTES)
    x, packs, weight = arrays(sizes, dtypes)
    assert np.array_equal(interpret(nest, [x, packs], {})[0], expected(x, weight, False))


def test_what_lies_beyond_the_end_of_rows_counts_nothing():
    """Packs are filled up with 1, which no row may meet."""
    sizes, dtypes = (2, 16, 5), ("uint8", "int8")
    x, packs, weight = arrays(sizes, dtypes)
    packs[:, 1, :, 1:] = 1
    nest = schedule(product(sizes, dtypes), SUMS_OF_BYTES)
    assert np.array_equal(interpret(nest, [x, packs], {})[0], expected(x, weight, False))


@pytest.mark.slow
def test_other_blocks_than_those_of_a_vector_are_multiplied_too():
    for size, group in itertools.product((8, 16), (2, 4)):
        if (size, group) == (16, 4):
            continue
        x = te.placeholder("x", (3, 12), "uint8")
        w = te.placeholder("w", (32 // size, 12 // group, size, group), "int8")

        def element(i, j, x=x, w=w, size=size, group=group):
            def term(r):
                right = w[j // size, r // group, j % size, r % group]
                return te.cast(x[i, r], INT32) * te.cast(right, INT32)

            return te.reduce("sum", (12,), term)

        out = te.compute((3, 32), element)
        computation = Computation("product", (x, w), (out,), ())
        nest = schedule(computation, TARGETS[0])
        data, _, weight = arrays((3, 32, 12), ("uint8", "int8"))
        blocks = weight.reshape(32 // size, size, 12 // group, group).transpose(0, 2, 1, 3).copy()
        got = run(computation, nest, TARGETS[0], [data, blocks], (3, 32, 12), (3, 32))
        assert np.array_equal(got, expected(data, weight, False)), (size, group)


def computed(m, units, k, moved):
    """Return a product of bytes that are made of floats, or of bytes with their sign changed."""
    x = te.placeholder("x", (m, k), "int8" if moved else "float32")
    w = te.placeholder("w", (-(-units // 16), -(-k // 4), 16, 4), "int8")

    def byte(i, r):
        if moved:
            return te.scalar("bitwise_xor", te.scalar("bits_as_uint8", x[i, r]), 128)
        return te.cast(x[i, r] * 4.0, "uint8")

    made = te.compute((m, k), byte)

    def element(i, j):
        def term(r):
            right = w[j // 16, r // 4, j % 16, r % 4]
            return te.cast(made[i, r], INT32) * te.cast(right, INT32)

        return te.reduce("sum", (k,), term)

    return Computation("computed", (x, w), (te.compute((m, units), element),), ())


@pytest.mark.parametrize("moved", [False, True])
def test_bytes_are_computed_once_for_all_columns(moved):
    _, packs, weight = arrays((3, 70, 10), ("uint8", "int8"))
    computation = computed(3, 70, 10, moved)
    nest = schedule(computation, SUMS_OF_BYTES)
    assert "tree(" not in print_nest(nest)
    assert [str(buffer.dtype) for buffer in nest.scratch] == ["uint8"]
    rng = np.random.default_rng(5)
    if moved:
        x = rng.integers(-128, 128, (3, 10)).astype(np.int8)
        bytes_ = x.astype(np.int32) + 128
    else:
        x = (rng.integers(0, 256, (3, 10)) / 4).astype(np.float32)
        bytes_ = (x * 4).astype(np.int32)
    got = run(computation, schedule(computation, HOST), HOST, [x, packs], (3, 70, 10), (3, 70))
    assert np.array_equal(got, bytes_ @ weight.T.astype(np.int32))
