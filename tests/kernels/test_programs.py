"""Loops that an operator writes itself: what they mean, their code, their text, their limits."""

from __future__ import annotations

import numpy as np
import pytest

from relayvm.base.dims import DimVar, dim_value, symbol
from relayvm.base.dtypes import BOOL, FLOAT32, INT64
from relayvm.base.link import link_object
from relayvm.base.native.cpu import target_cpu
from relayvm.base.target import Target
from relayvm.kernels import compute as te
from relayvm.kernels import loops as n
from relayvm.kernels.codegen.function import nest_functions
from relayvm.kernels.codegen.llvm import compile_object, module_text
from relayvm.kernels.index.bounds import ensure_bounds
from relayvm.kernels.interpret import IndexTrap, interpret
from relayvm.kernels.lower import Computation, kernel_signature, lower
from relayvm.kernels.parser import parse_nest
from relayvm.kernels.printer import print_nest
from relayvm.kernels.schedule import schedule
from relayvm.kernels.schedules.emit import Context, Names
from relayvm.kernels.schedules.program import Memory, Writer
from relayvm.kernels.stored import computation_key
from relayvm.kernels.verify import verify_nest

from .images import LoadedImage, own_memory

M, N = DimVar("m"), DimVar("n")
SIZE = symbol(N)


def running_sum() -> Computation:
    x = te.placeholder("x", (SIZE,), FLOAT32)

    def build(w: Writer, x: Memory, y: Memory) -> None:
        with w.phase():
            total = w.cell(te.const(0.0, FLOAT32))
            with w.loop(0, SIZE) as i:
                total.value = total.value + x[i]
                y[i] = total.value

    outputs = te.program([((SIZE,), FLOAT32)], [x], build, work=SIZE)
    return Computation("running_sum", (x,), outputs, (N,))


def rows_to_the_first_negative() -> Computation:
    """The number of elements of each row before the first below 0, doubled by a formula."""
    x = te.placeholder("x", (SIZE, 4), FLOAT32)
    shifted = te.compute((SIZE, 4), lambda i, j: x[i, j] - 1.0)

    def build(w: Writer, x: Memory, count: Memory, found: Memory) -> None:
        with w.phase(SIZE) as row:
            length = w.cell(te.const(0, INT64))
            going = w.cell(te.const(True, BOOL))
            with w.loop_while(0, 4, going) as k:
                with w.when(x[row, k] < 0.0):
                    going.value = te.const(False, BOOL)
                with w.otherwise():
                    length.value = length.value + 1
            count[row] = length.value
            found[row] = te.scalar("logical_not", going.value)

    count, found = te.program([((SIZE,), INT64), ((SIZE,), BOOL)], [shifted], build, work=SIZE * 4)
    doubled = te.compute((SIZE,), lambda i: count[i] * 2)
    return Computation("first_negative", (x,), (doubled, found), (N,))


def reversed_pairs() -> Computation:
    """Two phases, the second reads what the first left in scratch; a program reads another."""
    x = te.placeholder("x", (SIZE,), FLOAT32)

    def reverse(w: Writer, x: Memory, y: Memory) -> None:
        held = w.scratch((SIZE,), FLOAT32)
        with w.phase(SIZE) as i:
            held[i] = x[i]
        with w.phase(SIZE) as i:
            y[i] = held[te.dim(SIZE) - 1 - i]

    (once,) = te.program([((SIZE,), FLOAT32)], [x], reverse, work=SIZE)
    (twice,) = te.program([((SIZE,), FLOAT32)], [once], reverse, work=SIZE)
    return Computation("reversed_pairs", (x,), (once, twice), (N,))


def taken() -> Computation:
    x = te.placeholder("x", (SIZE,), FLOAT32)
    at = te.placeholder("at", (SIZE,), INT64)

    def build(w: Writer, x: Memory, at: Memory, y: Memory) -> None:
        with w.phase(SIZE) as i:
            y[i] = x[at[i]]

    outputs = te.program([((SIZE,), FLOAT32)], [x, at], build, work=SIZE)
    return Computation("taken", (x, at), outputs, (N,))


def long_walk() -> Computation:
    """Running sums by rounds that know of each other only what they left in memory."""
    x = te.placeholder("x", (SIZE,), FLOAT32)

    def build(w: Writer, x: Memory, sums: Memory, total: Memory) -> None:
        with w.walk(SIZE, (te.const(0.0, FLOAT32), total), block=3) as (i, (held,)):
            held.value = held.value + x[i]
            sums[i] = held.value

    kinds = [((SIZE,), FLOAT32), ((1,), FLOAT32)]
    return Computation("long_walk", (x,), te.program(kinds, [x], build, work=SIZE), (N,))


ALL = (long_walk, running_sum, rows_to_the_first_negative, reversed_pairs, taken)
ROWS = np.array([[1, 2, -3, 4], [1, 1, 1, 1.5], [0, 5, 5, 5]], np.float32)


def inputs_of(computation: Computation, size: int) -> list[np.ndarray]:
    rng = np.random.default_rng(size)
    shapes = [tuple(dim_value(d, {N: size}) for d in t.shape) for t in computation.inputs]
    arrays = [rng.normal(0, 2, shape).astype(np.float32) for shape in shapes]
    if len(arrays) > 1:
        arrays[1] = rng.integers(0, max(size, 1), size)
    return arrays


def test_a_running_sum_is_what_loops_say() -> None:
    (result,) = interpret(lower(running_sum()), [np.array([1, 2, 4], np.float32)], {"n": 3})
    assert result.tolist() == [1, 3, 7]


def test_a_program_reads_what_formulas_compute_and_the_other_way_round() -> None:
    doubled, found = interpret(lower(rows_to_the_first_negative()), [ROWS], {"n": 3}, slices=2)
    assert doubled.tolist() == [4, 8, 0]
    assert found.tolist() == [True, False, True]


def test_phases_see_what_the_phases_before_wrote() -> None:
    x = np.arange(5, dtype=np.float32)
    once, twice = interpret(lower(reversed_pairs()), [x], {"n": 5}, slices=3)
    assert once.tolist() == x[::-1].tolist()
    assert twice.tolist() == x.tolist()


@pytest.mark.parametrize("slices", [None, 1, 2, 3])
def test_rounds_in_order_go_on_with_what_those_before_left(slices: int | None) -> None:
    x = np.arange(8, dtype=np.float32)
    sums, total = interpret(lower(long_walk()), [x], {"n": 8}, slices=slices)
    assert sums.tolist() == np.cumsum(x).tolist()
    assert total.tolist() == [28]
    assert interpret(lower(long_walk()), [x[:0]], {"n": 0}, slices=slices)[1].tolist() == [0]


def test_rounds_that_go_on_with_each_other_are_one_chain() -> None:
    computation = long_walk()
    signature = kernel_signature(computation, lower(computation), ())
    for rounds in (*signature.phases, *signature.chains):
        assert [dim_value(rounds, {N: size}) for size in (0, 2, 3, 8)] == [1, 1, 2, 3]


def test_without_chains_a_signature_has_no_numbers_of_them() -> None:
    computation = running_sum()
    assert kernel_signature(computation, lower(computation), ()).chains == ()


def test_a_loaded_index_is_checked() -> None:
    arrays = [np.zeros(2, np.float32), np.array([0, 2])]
    with pytest.raises(IndexTrap):
        interpret(lower(taken()), arrays, {"n": 2})


@pytest.mark.parametrize("make", ALL, ids=lambda f: f.__name__)
def test_schedules_leave_programs_alone(make) -> None:
    computation = make()
    naive, scheduled = lower(computation), schedule(computation, Target())
    assert len(naive.scratch) == len(scheduled.scratch)
    for size in (0, 1, 5):
        arrays = inputs_of(computation, size)
        a, b = (interpret(nest, arrays, {"n": size}) for nest in (naive, scheduled))
        assert all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize("make", ALL, ids=lambda f: f.__name__)
def test_the_text_of_a_program_reads_back(make) -> None:
    nest = lower(make())
    verify_nest(nest)
    assert parse_nest(print_nest(nest)) == nest


@pytest.mark.parametrize("make", ALL, ids=lambda f: f.__name__)
def test_no_operand_of_a_program_shares_its_memory(make) -> None:
    computation = make()
    assert kernel_signature(computation, lower(computation), ()).in_place == ()


def test_the_work_of_a_program_is_counted() -> None:
    computation = running_sum()
    assert kernel_signature(computation, lower(computation), ()).work == SIZE


@pytest.mark.parametrize("size", [0, 1, 7])
def test_code_has_the_bits_of_the_nest(size: int) -> None:
    cpu = target_cpu(Target())
    nests = {make.__name__: lower(make()) for make in ALL}
    entries = {k: tuple(f"{k}.{p}" for p in range(len(x.phases))) for k, x in nests.items()}
    text = "\n".join(nest_functions(nest, name, (), cpu) for name, nest in nests.items())
    data = compile_object(module_text(text, cpu), cpu, speed=1)
    image = LoadedImage(link_object(data, cpu.triple, cpu.features, entries))
    for make in ALL:
        computation, nest = make(), nests[make.__name__]
        arrays = inputs_of(computation, size)
        expected = interpret(nest, arrays, {"n": size})
        results = [np.empty_like(e) for e in expected]
        signature = kernel_signature(computation, nest, ())
        extents = [dim_value(p, {N: size}) for p in signature.phases]
        memory_bytes = own_memory(signature, {N: size})
        name = make.__name__
        assert image.call(name, [*arrays, *results], [size], extents, *memory_bytes) == 0
        for result, wanted in zip(results, expected, strict=True):
            assert result.tobytes() == wanted.tobytes()


def test_a_parallel_phase_writes_no_shared_place() -> None:
    def build(w: Writer, y: Memory) -> None:
        with w.phase(SIZE) as i:
            y[0] = te.cast(i, FLOAT32)

    outputs = te.program([((SIZE,), FLOAT32)], [], build, work=SIZE)
    with pytest.raises(AssertionError, match="shared"):
        lower(Computation("bad", (), outputs, (N,)))


def test_what_is_known_of_memory_is_forgotten_when_it_changes() -> None:
    text = """\
nest @changed {
  input in0: int64[4]
  output out0: int64[4]
  phase b0 < 1 {
    tile t: int64 x 1 [1]
    t[0] = 0
    if less(t[0], 4) {
      if greater_equal(t[0], 0) {
        t[0] = 1000000
        out0[t[0]] = 1
        let k = t[0]
        t[0] = 2000000
        out0[((t[0] - t[0]) + (k - t[0]))] = 1
      }
    }
  }
}
"""
    nest = parse_nest(text)
    checked = ensure_bounds(nest)
    outer = checked.phases[0].body[-1]
    assert isinstance(outer, n.If)
    assert print_nest(checked).count("index(trap") == 2


def test_a_loop_that_ends_early_is_serial() -> None:
    nest = lower(rows_to_the_first_negative())
    text = print_nest(nest)
    assert " while cell" in text
    with pytest.raises(Exception, match="only a serial loop ends early"):
        verify_nest(parse_nest(text.replace("for k", "unroll k")))


def counting(step: int) -> Computation:
    def build(w: Writer, y: Memory) -> None:
        with w.phase(SIZE) as i:
            y[i] = i * step

    outputs = te.program([((SIZE,), INT64)], [], build, work=SIZE)
    return Computation("counting", (), outputs, (N,))


def test_programs_are_known_by_what_they_do() -> None:
    keys = [computation_key(counting(step), (), ()) for step in (1, 1, 2)]
    assert keys[0] == keys[1] != keys[2]


def test_memory_of_a_program_gets_a_name_that_is_free() -> None:
    # Buffers before it may have gone from the list, to be private.
    scratch = [n.Buffer("tmp1", FLOAT32, (n.const(3),), "scratch")]
    writer = Writer(Context(Names(), {}, {}), scratch)
    writer.scratch((4,), FLOAT32)
    writer.scratch((5,), FLOAT32)
    assert len({buffer.name for buffer in scratch}) == 3


def test_vectors_reread_what_they_wrote():
    m, size = symbol(M), symbol(N)
    x = te.placeholder("x", (m, size), FLOAT32)

    def build(w: Writer, x: Memory, y: Memory) -> None:
        with w.phase():

            def column(j: te.ScalarExpr) -> None:
                total = w.cell(te.const(0.0, FLOAT32))
                with w.loop(0, m) as i:
                    y[i, j] = x[i, j]
                    total.value = total.value + y[i, j]
                    y[i, j] = total.value + y[i, j]

            w.vectors(0, size, column)

    outputs = te.program([((m, size), FLOAT32)], [x], build, work=SIZE)
    nest = lower(Computation("sums", (x,), outputs, (M, N)))
    verify_nest(nest)
    for rows, columns in ((3, 16), (2, 37), (1, 5), (4, 0)):
        data = np.arange(rows * columns).reshape(rows, columns).astype(np.float32)
        (result,) = interpret(parse_nest(print_nest(nest)), [data], {"m": rows, "n": columns})
        np.testing.assert_array_equal(result, np.cumsum(data, axis=0) + data)
