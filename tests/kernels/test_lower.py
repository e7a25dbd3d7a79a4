"""Lowering: what is kept in memory, and the signature the machine sees."""

from __future__ import annotations

import numpy as np
import pytest

from relayvm.base.abi import Access, DimSource, Direction
from relayvm.base.dims import DimVar, dim_value, symbol
from relayvm.kernels import compute as c
from relayvm.kernels.interpret import IndexTrap, interpret
from relayvm.kernels.lower import Computation, kernel_signature, lower
from relayvm.kernels.schedule import schedule

from .computations import FAMILIES, Random, tree_node


class Empty(Random):
    """Draws many sizes of 0, known and unknown."""

    def size(self, high=40, low=1):
        size, value = super().size(high, low)
        if not self.chance(0.4):
            return size, value
        if isinstance(size, int):
            return 0, 0
        self.values[size.variable.name] = 0
        return size, 0


def rows(name="x", dtype="float32"):
    n = DimVar("n")
    return n, c.placeholder(name, (symbol(n), 4), dtype)


def signature(computation: Computation):
    sources = tuple(DimSource(0, 0) for _ in computation.dim_vars)
    return kernel_signature(computation, schedule(computation), sources)


def test_an_elementwise_output_may_take_the_place_of_its_input():
    n, x = rows()
    y = c.compute(x.shape, lambda i, j: c.scalar("exp", x[i, j]))
    assert signature(Computation("f", (x,), (y,), (n,))).in_place == ((1, 0),)


def test_an_input_that_is_read_elsewhere_is_not_overwritten():
    n, x = rows()
    flipped = c.compute(x.shape, lambda i, j: x[i, c.const(3, "int64") - j] + 1.0)
    total = c.compute(x.shape[:1], lambda i: c.reduce("sum", (4,), lambda q: x[i, q]))
    less = c.compute(x.shape, lambda i, j: x[i, j] - total[i])
    for output in (flipped, less):
        assert signature(Computation("f", (x,), (output,), (n,))).in_place == ()


def test_two_outputs_never_share_one_input():
    n, x = rows()
    a = c.compute(x.shape, lambda i, j: x[i, j] + 1.0)
    b = c.compute(x.shape, lambda i, j: x[i, j] * 2.0)
    assert signature(Computation("f", (x,), (a, b), (n,))).in_place == ()


def test_rank_0_operands_are_register_slots():
    x, s = c.placeholder("x", (3,), "float32"), c.placeholder("s", (), "float32")
    y = c.compute((), lambda: c.reduce("sum", (3,), lambda q: x[q] * s[()]))
    operands = signature(Computation("f", (x, s), (y,))).operands
    assert [o.access for o in operands] == [Access.DENSE, Access.SCALAR, Access.SCALAR]
    assert [o.direction for o in operands] == [Direction.INPUT] * 2 + [Direction.OUTPUT]


def test_a_reduction_with_an_elementwise_reader_needs_no_scratch():
    n, x = rows()
    total = c.compute(x.shape[:1], lambda i: c.reduce("sum", (4,), lambda q: x[i, q]))
    mean = c.compute(x.shape[:1], lambda i: total[i] * 0.25)
    assert signature(Computation("f", (x,), (mean,), (n,))).scratch_bytes == 0


def test_scratch_grows_with_dims_in_whole_lines():
    n, x = rows()
    total = c.compute(x.shape[:1], lambda i: c.reduce("sum", (4,), lambda q: x[i, q]))
    # Read in another order, so that it is needed whole.
    other = c.dim(symbol(n)) - 1
    less = c.compute(x.shape, lambda i, j: x[i, j] - total[other - i])
    scratch = signature(Computation("f", (x,), (less,), (n,))).scratch_bytes
    assert [dim_value(scratch, {n: k}) for k in (0, 1, 16, 17)] == [0, 64, 64, 128]


def test_work_counts_the_products_of_a_contraction():
    case = tree_node(Random(1))
    (state, *_, weight, _) = case.computation.inputs
    products = state.shape[0] * weight.shape[0] * weight.shape[1]
    work = signature(case.computation).work
    assert 2 * products <= work <= 8 * products


def test_work_counts_functions_as_what_they_take():
    (n, x), works = rows(), {}
    for name in ("negative", "sqrt", "exp", "tan"):
        y = c.compute(x.shape, lambda i, j, f=name: c.scalar(f, x[i, j]))
        works[name] = dim_value(signature(Computation(name, (x,), (y,), (n,))).work, {n: 10}) / 40
    assert works["negative"] == 2
    assert works["negative"] < works["sqrt"] < works["exp"] < works["tan"] < 100


def test_only_a_product_that_is_worth_it_is_shared_out():
    assert signature(tree_node(Random(1), 150).computation).phases == (1, 12, 1)
    assert signature(tree_node(Random(1), 20).computation).phases == (1,)


def test_a_softmax_runs_block_by_block_in_one_phase():
    (n, _), k = rows(), 1000
    x = c.placeholder("x", (symbol(n), k), "float32")
    top = c.compute(x.shape[:1], lambda i: c.reduce("max", (k,), lambda q: x[i, q]))
    e = c.compute(x.shape, lambda i, j: c.scalar("exp", x[i, j] - top[i]))
    total = c.compute(x.shape[:1], lambda i: c.reduce("sum", (k,), lambda q: e[i, q]))
    y = c.compute(x.shape, lambda i, j: c.scalar("divide", e[i, j], total[i]))
    (phase,) = signature(Computation("softmax", (x,), (y,), (n,))).phases
    assert [dim_value(phase, {n: k}) for k in (0, 4, 5)] == [0, 1, 2]


def test_an_output_that_is_an_input_is_copied():
    n, x = rows()
    array = np.arange(8, dtype="float32").reshape(2, 4)
    computation = Computation("f", (x,), (x, x), (n,))
    for nest in (lower(computation), schedule(computation)):
        for result in interpret(nest, [array], {"n": 2}):
            np.testing.assert_array_equal(result, array)


def test_an_index_outside_its_axis_traps():
    table, at = c.placeholder("table", (5, 20), "float32"), c.placeholder("at", (1,), "int64")
    y = c.compute((1, 20), lambda i, j: table[c.index(at[i], 5), j])
    computation = Computation("take", (table, at), (y,))
    for nest in (lower(computation), schedule(computation)):
        with pytest.raises(IndexTrap):
            interpret(nest, [np.zeros((5, 20)), [5]], {})


@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.__name__)
def test_empty_tensors_compute_to_empty_ones_or_identities(family):
    for seed in range(3):
        try:
            case = family(Empty(seed))
        except (ValueError, IndexError):
            continue  # numpy has no answer, or there is no index to draw
        naive = interpret(lower(case.computation), case.arrays, case.dims)
        fast = interpret(schedule(case.computation), case.arrays, case.dims)
        assert [a.tobytes() for a in naive] == [b.tobytes() for b in fast]
