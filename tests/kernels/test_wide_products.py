"""Products of narrow floats, float64 and int64: the bits of the naive nest in every layout."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from relayvm.base.dims import symbol
from relayvm.base.dtypes import BY_NAME
from relayvm.base.target import Target
from relayvm.kernels import compute as te
from relayvm.kernels.interpret import interpret
from relayvm.kernels.lower import Computation, lower
from relayvm.kernels.printer import print_nest
from relayvm.kernels.schedule import schedule

from .test_integer_products import RUN_HERE, VARS, Built

DTYPES = {"float16": "float32", "bfloat16": "float32", "float64": "float64", "int64": "int64"}
LAYOUTS = list(itertools.product((False, True), repeat=2))
SIZES = [(1, 18, 20), (5, 19, 17), (0, 3, 5), (3, 2, 0)]
CASES = list(itertools.product(DTYPES, LAYOUTS))


def product(dtype, layout, sizes=None):
    """Return `x . y` summed in a wider dtype; `layout` says which operands come transposed."""
    m, columns, k = sizes or tuple(map(symbol, VARS))
    x = te.placeholder("x", (k, m) if layout[0] else (m, k), dtype)
    y = te.placeholder("y", (columns, k) if layout[1] else (k, columns), dtype)

    def element(i, j):
        def term(r):
            left = x[(r, i) if layout[0] else (i, r)]
            right = y[(j, r) if layout[1] else (r, j)]
            return te.cast(left, DTYPES[dtype]) * te.cast(right, DTYPES[dtype])

        return te.cast(te.reduce("sum", (k,), term), dtype)

    out = te.compute((m, columns), element)
    return Computation("product", (x, y), (out,), () if sizes else VARS)


def arrays(dtype, layout, sizes):
    m, columns, k = sizes
    rng = np.random.default_rng(sum(sizes))
    shapes = ((k, m) if layout[0] else (m, k), (columns, k) if layout[1] else (k, columns))
    return [BY_NAME[dtype].array(rng.standard_normal(s) * 50) for s in shapes]


def check(built, sizes_of):
    """Compare code with the interpreter of naive nests."""
    for number, (dtype, layout) in enumerate(CASES):
        for sizes in sizes_of(number):
            operands = arrays(dtype, layout, sizes)
            naive = lower(built.made[f"k{number}"])
            (expected,) = interpret(naive, operands, dict(zip("mnk", sizes)))
            result = built.run(number, operands, sizes)
            assert result.tobytes() == expected.tobytes(), (dtype, layout, sizes)


@pytest.mark.slow
@pytest.mark.parametrize("target", RUN_HERE, ids=str)
def test_products_of_unknown_sizes_have_the_bits_of_the_naive_nest(target):
    check(Built([product(*case) for case in CASES], target), lambda number: SIZES)


@pytest.mark.slow
@pytest.mark.parametrize("target", RUN_HERE, ids=str)
def test_products_of_known_sizes_have_the_bits_of_the_naive_nest(target):
    sizes = [(7, 34, 19), (17, 20, 5), (2, 20, 33)]
    cases = [product(*case, sizes[number % 3]) for number, case in enumerate(CASES)]
    check(Built(cases, target), lambda number: [sizes[number % 3]])


@pytest.mark.parametrize("target", [Target(cpu="skylake-avx512"), Target(cpu="haswell")], ids=str)
def test_partials_of_64_bits_take_two_registers_each(target):
    def partials(dtype):
        nest = schedule(product(dtype, (False, True), (64, 64, 64)), target)
        lines = [line for line in print_nest(nest).splitlines() if "tile acc" in line]
        return max(int(line.split("[")[1].rstrip("]")) for line in lines)

    assert partials("float64") <= partials("float16") // 2


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_few_uses_of_narrow_floats_need_no_memory_for_float32(dtype):
    for rows, columns in ((1, 16), (16, 48)):
        nest = schedule(product(dtype, (False, True), (rows, columns, 64)), Target())
        assert not nest.scratch
        assert not nest.private
    nest = schedule(product(dtype, (False, True), (512, 512, 64)), Target())
    assert [buffer.dtype.name for buffer in nest.scratch] == ["float32", "float32"]
