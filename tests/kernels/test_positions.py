"""Positions of extremes in lanes are those that a walk over the elements finds."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from relayvm.base.dims import DimVar, symbol
from relayvm.base.dtypes import BY_NAME
from relayvm.base.target import Target
from relayvm.kernels import compute as te
from relayvm.kernels.interpret import interpret
from relayvm.kernels.lower import Computation
from relayvm.kernels.printer import print_nest
from relayvm.kernels.schedule import schedule

from .native import Native

DTYPES = ("bool", "int8", "uint16", "int64", "float16", "bfloat16", "float32", "float64")
FORMS = list(itertools.product(("argmax", "argmin"), (False, True)))
VARS = (DimVar("m"), DimVar("n"))


def positions(shape, axis, dtype, kind, is_last, variables=()):
    """Return the positions along an axis of a matrix, -1 for all of it."""
    x = te.placeholder("x", shape, dtype)
    options = {"select_last_index": is_last}
    if axis == -1:
        out = te.compute((), lambda: te.arg_reduce(kind, shape, lambda i, j: x[i, j], **options))
    elif axis == 1:
        out = te.compute(
            shape[:1], lambda i: te.arg_reduce(kind, shape[1:], lambda j: x[i, j], **options)
        )
    else:
        out = te.compute(
            shape[1:], lambda j: te.arg_reduce(kind, shape[:1], lambda i: x[i, j], **options)
        )
    return Computation("find", (x,), (out,), variables)


def found(row, kind, is_last):
    """Return the position in a row, by a walk."""
    best, value = 0, None
    for k, x in enumerate(row.tolist()):
        later = value is None or (x > value if kind == "argmax" else x < value)
        if value is not None and value != value:
            later = is_last and x != x
        elif x != x or (is_last and x == value):
            later = True
        if later:
            best, value = k, x
    return best


def expected(x, axis, kind, is_last):
    rows = {-1: x.reshape(1, -1), 0: x.T, 1: x}[axis]
    answer = np.array([found(row, kind, is_last) for row in rows], np.int32)
    return answer[0] if axis == -1 else answer


def values(shape, dtype, seed):
    """Return few different values, so that equals are met; some NaN, infinities and zeros."""
    rng = np.random.default_rng(seed)
    few = np.array([0, 1, 2, 100] if seed % 2 else [7, 7])
    x = rng.choice(few, shape).astype(BY_NAME[dtype].numpy)
    if BY_NAME[dtype].is_float and seed % 3:
        special = np.array([np.nan, -0.0, np.inf, -np.inf] if seed % 3 == 1 else [-np.inf])
        x = np.where(rng.random(shape) < 0.3, rng.choice(special, shape), x.astype(float)).astype(
            BY_NAME[dtype].numpy
        )
    return x


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_matrices_of_unknown_sizes(dtype, axis):
    shape = tuple(map(symbol, VARS))
    kind, is_last = FORMS[(len(dtype) + axis) % 4]
    kernel = Native(positions(shape, axis, dtype, kind, is_last, VARS))
    assert "where" in print_nest(kernel.nest)
    sizes = [(1, 1), (3, 15), (2, 64), (5, 65), (20, 20), (3, 200), (70, 17), (130, 2)]
    for seed, (m, k) in enumerate(sizes):
        x = values((m, k), dtype, seed)
        (result,) = kernel.results([x], (m, k))
        np.testing.assert_array_equal(result, expected(x, axis, kind, is_last), str((m, k)))


@pytest.mark.parametrize(("kind", "is_last"), FORMS)
@pytest.mark.parametrize(("rows", "columns"), [(4, 3), (2, 40), (17, 130)])
def test_known_sizes_in_the_interpreter(kind, is_last, rows, columns):
    for axis, dtype in ((1, "float32"), (0, "float64"), (-1, "int8")):
        x = values((rows, columns), dtype, rows + columns)
        computation = positions(x.shape, axis, dtype, kind, is_last)
        (result,) = interpret(schedule(computation, Target()), [x], {}, slices=None)
        np.testing.assert_array_equal(result, expected(x, axis, kind, is_last))


def test_nothing_is_found_at_the_first_place():
    for kind, is_last in FORMS:
        computation = positions(tuple(map(symbol, VARS)), 1, "float32", kind, is_last, VARS)
        (result,) = Native(computation).results([np.ones((3, 0), np.float32)], (3, 0))
        np.testing.assert_array_equal(result, np.zeros(3, np.int32))


@pytest.mark.parametrize("dtype", DTYPES)
def test_long_rows_and_several_at_once(dtype):
    kind, is_last = FORMS[len(dtype) % 4]
    for seed, (rows, columns) in enumerate([(9, 100), (8, 256), (2, 5000), (1, 16389)]):
        for axis in (1, -1) if rows < 8 else (1, 0):
            x = values((rows, columns), dtype, seed)
            (result,) = Native(positions(x.shape, axis, dtype, kind, is_last)).results([x])
            np.testing.assert_array_equal(result, expected(x, axis, kind, is_last), str(x.shape))


def test_a_long_row_is_searched_where_its_extreme_is():
    text = print_nest(schedule(positions((1, 65536), -1, "float32", "argmax", False)))
    assert "number0" in text
    assert "number0" not in print_nest(schedule(positions((8, 64), 1, "float32", "argmax", False)))


def test_infinities_before_and_after_nan():
    for kind, is_last in FORMS:
        rows = np.full((8, 40), -np.inf if kind == "argmax" else np.inf, np.float32)
        rows[1, 7] = rows[2, 39] = rows[3, 0] = np.nan
        rows[1, 3] = rows[1, 9] = rows[4, 5] = -rows[0, 0]
        (result,) = Native(positions(rows.shape, 1, "float32", kind, is_last)).results([rows])
        np.testing.assert_array_equal(result, expected(rows, 1, kind, is_last))
