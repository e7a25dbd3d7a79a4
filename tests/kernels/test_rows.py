"""Groups of stages over blocks of rows: bits, how many phases, and how much memory they need."""

from __future__ import annotations

import dataclasses
import zlib

import numpy as np
import pytest

import relayvm
from relayvm.base.dims import DimVar, dim_value, symbol
from relayvm.base.target import Target
from relayvm.kernels import compute as c
from relayvm.kernels import loops as n
from relayvm.kernels.interpret import interpret
from relayvm.kernels.lower import Computation, kernel_signature, lower
from relayvm.kernels.parser import parse_nest
from relayvm.kernels.printer import print_nest
from relayvm.kernels.schedule import schedule
from relayvm.kernels.schedules import rows
from relayvm.kernels.verify import verify_nest

from .computations import (
    Random,
    attention,
    attention_of_heads,
    dense_and_norm,
    group_norm,
    layer_norm,
    softmax,
    softmax_of_any_axis,
    tree_node,
)

TARGETS = (Target(cpu="skylake-avx512"), Target(cpu="generic"))
GROUPED = (
    softmax,
    layer_norm,
    softmax_of_any_axis,
    group_norm,
    attention,
    attention_of_heads,
    dense_and_norm,
    tree_node,
)
CASES = 10


@pytest.mark.slow
@pytest.mark.parametrize("family", GROUPED, ids=lambda f: f.__name__)
def test_blocks_of_rows_have_the_bits_of_naive_loops(family, monkeypatch):
    """Sizes are too small for blocks otherwise, where they are known."""
    monkeypatch.setattr(rows, "SMALL_WORK", 0)
    monkeypatch.setattr(rows, "BLOCK_ELEMENTS", 64)
    monkeypatch.setattr(rows, "PRODUCT_ELEMENTS", 128)
    for number in range(CASES):
        case = family(Random(zlib.crc32(f"rows {family.__name__} {number}".encode())))
        naive = interpret(lower(case.computation), case.arrays, case.dims)
        nest = schedule(case.computation, TARGETS[number % 2])
        verify_nest(nest)
        results = interpret(nest, case.arrays, case.dims, slices=1 + number % 3)
        for a, b in zip(naive, results, strict=True):
            assert a.tobytes() == b.tobytes(), f"{number}: {case.dims}\n{print_nest(nest)}"
        assert parse_nest(print_nest(nest)) == nest
        assert "index(" not in print_nest(nest), number


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [(0, 5), (5, 0), (1, 1), (3, 33)], ids=str)
def test_attention_of_empty_and_odd_sequences(sizes):
    queries, keys = DimVar("t"), DimVar("s")
    computation = _attention(2, symbol(queries), symbol(keys), 8, (queries, keys))
    dims = dict(zip("ts", sizes))
    rng = np.random.default_rng(1)
    arrays = [
        rng.standard_normal([dim_value(d, {queries: sizes[0], keys: sizes[1]}) for d in x.shape])
        for x in computation.inputs
    ]
    (naive,) = interpret(lower(computation), arrays, dims)
    (result,) = interpret(schedule(computation), arrays, dims, slices=2)
    assert result.tobytes() == naive.tobytes()


def _attention(heads, queries, keys, size, dim_vars=()):
    q, k, v = (
        c.placeholder(name, (heads, length, size), "float32")
        for name, length in (("q", queries), ("k", keys), ("v", keys))
    )
    scores = c.compute(
        (heads, queries, keys),
        lambda h, i, j: c.reduce("sum", (size,), lambda r: q[h, i, r] * k[h, j, r]),
    )
    top = c.compute(
        (heads, queries, 1), lambda h, i, _: c.reduce("max", (keys,), lambda r: scores[h, i, r])
    )
    e = c.compute(scores.shape, lambda h, i, j: c.scalar("exp", scores[h, i, j] - top[h, i, 0]))
    total = c.compute(
        (heads, queries, 1), lambda h, i, _: c.reduce("sum", (keys,), lambda r: e[h, i, r])
    )
    p = c.compute(scores.shape, lambda h, i, j: c.scalar("divide", e[h, i, j], total[h, i, 0]))
    y = c.compute(
        (heads, queries, size),
        lambda h, i, j: c.reduce("sum", (keys,), lambda r: p[h, i, r] * v[h, r, j]),
    )
    return Computation("attention", (q, k, v), (y,), dim_vars)


def _memory(computation, sizes=None):
    """Return the nest, and its bytes of scratch and of private memory."""
    nest = schedule(computation, TARGETS[0])
    signature = kernel_signature(computation, nest, ())
    sizes = sizes or {}
    return (
        nest,
        dim_value(signature.scratch_bytes, sizes),
        dim_value(signature.private_bytes, sizes),
    )


def test_attention_is_one_phase_whose_scores_stay_with_a_worker():
    t = DimVar("t")
    for computation in (
        _attention(12, 2048, 2048, 64),
        _attention(12, symbol(t), symbol(t), 64, (t,)),
    ):
        nest, scratch, private = _memory(computation, {t: 2048})
        # Values are read where they are, with their columns in lanes.
        assert len(nest.phases) == 1
        assert scratch == 0
        assert private <= 160 << 10
        # Blocks of all heads are shared out, each of some rows.
        signature = kernel_signature(computation, nest, ())
        assert dim_value(signature.phases[-1], {t: 2048}) >= 12 * 16


@pytest.mark.parametrize("axis", range(3))
def test_a_softmax_of_any_axis_is_one_phase_over_blocks(axis):
    size = (40, 50, 60)
    x = c.placeholder("x", size, "float32")
    one = tuple(1 if k == axis else d for k, d in enumerate(size))

    def at(i, q):
        return tuple(q if k == axis else v for k, v in enumerate(i))

    top = c.compute(one, lambda *i: c.reduce("max", (size[axis],), lambda q: x[at(i, q)]))
    e = c.compute(size, lambda *i: c.scalar("exp", x[i] - top[at(i, c.dim(0))]))
    total = c.compute(one, lambda *i: c.reduce("sum", (size[axis],), lambda q: e[at(i, q)]))
    y = c.compute(size, lambda *i: c.scalar("divide", e[i], total[at(i, c.dim(0))]))
    nest, scratch, private = _memory(Computation("softmax", (x,), (y,)))
    assert (len(nest.phases), scratch) == (1, 0)
    assert 0 < private <= 1 << 18


def test_what_is_made_element_by_element_takes_the_place_of_what_it_is_made_of():
    nest, _, _ = _memory(_attention(12, 2048, 2048, 64))
    rows_of_scores = [b for b in nest.private if b.shape[-1] == n.const(2048)]
    assert len(rows_of_scores) == 1


def test_what_is_read_outside_of_its_group_keeps_memory_of_its_own():
    m = 4096
    x = c.placeholder("x", (m, 64), "float32")
    total = c.compute((m,), lambda i: c.reduce("sum", (64,), lambda q: x[i, q]))
    less = c.compute((m, 64), lambda i, j: x[i, j] - total[i])
    back = c.compute((m,), lambda i: c.scalar("exp", total[m - 1 - i]))
    nest, scratch, private = _memory(Computation("f", (x,), (less, back)))
    assert (len(nest.phases), scratch, private) == (2, 4 * m, 0)


PRIVATE = """\
nest @twice {
  input in0: float32[8]
  output out0: float32[8]
  private own0: float32[1]
  phase b0 < 8 {
    own0[0] = in0[b0]
    out0[b0] = (own0[0] + own0[0])
  }
}
"""


def test_private_memory_has_text_and_a_meaning():
    nest = parse_nest(PRIVATE)
    verify_nest(nest)
    assert print_nest(nest) == PRIVATE
    assert [b.role for b in nest.private] == ["private"]
    x = np.arange(8, dtype=np.float32)
    np.testing.assert_array_equal(interpret(nest, [x], {}, slices=3)[0], x + x)


def test_private_memory_holds_nothing_of_another_round():
    nest = parse_nest(
        PRIVATE.replace("own0[0] = in0[b0]", "if less(b0, 1) {\nown0[0] = in0[b0]\n}")
    )
    verify_nest(nest)
    with pytest.raises(AssertionError, match="read before it is written"):
        interpret(nest, [np.zeros(8, np.float32)], {})


def test_a_signature_says_how_much_private_memory_a_nest_has():
    nest = parse_nest(PRIVATE)
    computation = _attention(1, 8, 8, 8)
    assert kernel_signature(computation, nest, ()).private_bytes == 64
    bare = dataclasses.replace(nest, private=())
    assert kernel_signature(computation, bare, ()).private_bytes == 0


@pytest.mark.slow
def test_workers_have_private_memory_of_their_own(monkeypatch):
    monkeypatch.setattr("relayvm.vm.machine.available_cores", lambda: 4)
    text = "def @main(%x: Tensor[(512, 300), float32]) { nn.softmax(%x) }"
    executable = relayvm.compile(relayvm.parse(text))
    (kernel,) = executable.program().kernels
    assert kernel.signature.private_bytes != 0
    x = np.random.default_rng(2).standard_normal((512, 300)).astype(np.float32)
    alone = relayvm.VirtualMachine(executable, num_threads=1)
    shared = relayvm.VirtualMachine(executable, num_threads=4)
    expected = alone.run(x)
    np.testing.assert_allclose(expected.sum(axis=1), 1, rtol=1e-5)
    for _ in range(20):
        assert shared.run(x).tobytes() == expected.tobytes()


def test_rows_that_are_only_reduced_run_in_blocks_of_the_first_cache():
    """A mean and the distances from it read each row twice, the second time from there."""
    shape = (64, 256)
    x = c.placeholder("x", shape, "float32")
    mean = c.compute((64,), lambda i: c.reduce("sum", (256,), lambda k: x[i, k]) * 0.125)
    distance = lambda i, k: x[i, k] - mean[i]  # noqa: E731
    spread = c.compute(
        (64,), lambda i: c.reduce("sum", (256,), lambda k: distance(i, k) * distance(i, k))
    )
    computation = Computation("spread", (x,), (spread,))
    nest = schedule(computation)
    assert [phase.extent for phase in nest.phases] == [n.const(4)]
    rng = np.random.default_rng(0)
    arrays = [rng.random(shape, np.float32)]
    (found,) = interpret(nest, arrays, {}, None)
    (naive,) = interpret(lower(computation), arrays, {})
    assert found.tobytes() == naive.tobytes()
