"""Blocks turned in registers give the elements that the definition reads, for any sizes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from relayvm.base.dims import DimVar, symbol
from relayvm.base.dtypes import BY_NAME
from relayvm.base.target import Target
from relayvm.kernels import compute as te
from relayvm.kernels import loops as n
from relayvm.kernels.interpret import interpret
from relayvm.kernels.lower import Computation
from relayvm.kernels.parser import parse_nest
from relayvm.kernels.printer import print_nest
from relayvm.kernels.schedule import schedule
from relayvm.kernels.schedules.transpose import turned
from relayvm.kernels.verify import verify_nest

from .native import Native

DTYPES = ("bool", "int8", "float16", "bfloat16", "float32", "float64")
SIZES = [(16, 16), (100, 17), (33, 65), (70, 130), (64, 128), (5, 40), (40, 3), (0, 20), (1, 1)]
SIZES += [(2100, 20), (20, 150)]
VARS = (DimVar("b"), DimVar("m"), DimVar("n"))


def transpose(shape, axes, dtype, variables=()):
    """Return `x.transpose(axes)`, plus one where that is a number."""
    x = te.placeholder("x", shape, dtype)
    places = [axes.index(k) for k in range(len(axes))]

    def element(*i):
        value = x[tuple(i[p] for p in places)]
        return te.scalar("logical_not", value) if dtype == "bool" else value + te.const(1, dtype)

    out = te.compute(tuple(shape[a] for a in axes), element)
    return Computation("turn", (x,), (out,), variables)


def values(shape, dtype):
    rng = np.random.default_rng(len(shape))
    array = rng.integers(0, 100, shape).astype(BY_NAME[dtype].numpy)
    expected = ~array if dtype == "bool" else array + array.dtype.type(1)
    return array, expected


@pytest.mark.parametrize("dtype", DTYPES)
def test_matrices_of_unknown_sizes(dtype):
    b, m, k = map(symbol, VARS)
    kernel = Native(transpose((b, m, k), (0, 2, 1), dtype, VARS))
    assert "shuffle" in print_nest(kernel.nest)
    for rows, columns in SIZES:
        x, expected = values((2, rows, columns), dtype)
        (result,) = kernel.results([x], (2, rows, columns))
        np.testing.assert_array_equal(result, expected.transpose(0, 2, 1))


@pytest.mark.parametrize("axes", [a for a in itertools.permutations(range(3)) if a[2] != 2])
def test_every_order_of_axes(axes):
    x, expected = values((20, 33, 70), "float32")
    kernel = Native(transpose(x.shape, axes, "float32"))
    assert "shuffle" in print_nest(kernel.nest)
    np.testing.assert_array_equal(kernel.results([x])[0], expected.transpose(axes))


@pytest.mark.parametrize("target", [Target(), Target(cpu="x86-64-v3")])
def test_rounds_of_blocks_write_places_of_their_own(target):
    x, expected = values((37, 150), "int8")
    nest = schedule(transpose(x.shape, (1, 0), "int8"), target)
    verify_nest(nest)
    (result,) = interpret(nest, [x], {}, slices=None)
    np.testing.assert_array_equal(result, expected.T)


@pytest.mark.parametrize(("item_bytes", "rows"), [(1, 64), (2, 32), (4, 16), (8, 16), (1, 16)])
@pytest.mark.parametrize("width", [2, 4, 8, 16])
def test_rows_become_columns(item_bytes, rows, width):
    dtype = {1: "int8", 2: "int16", 4: "int32", 8: "int64"}[item_bytes]
    x = n.Buffer("in0", te.placeholder("x", (), dtype).dtype, (n.const(rows * width),), "input")
    out = n.Buffer("out0", x.dtype, x.shape, "output")
    loads = [n.Load(x, (n.const(width * r),), width) for r in range(rows)]
    body: list[n.Stmt] = []

    def bind(value: n.Expr) -> n.Expr:
        var = n.Var(f"v{len(body)}", value.dtype, value.lanes)
        body.append(n.Let(var, value))
        return var

    for c, column in enumerate(turned(loads, item_bytes, bind)):
        body.append(n.Store(out, (n.const(rows * c),), column))
    nest = n.Nest("turn", (), (x, out), (), (n.Phase(n.Var("b0"), n.const(1), tuple(body)),))
    data = np.arange(rows * width).astype(dtype)
    (result,) = interpret(parse_nest(print_nest(nest)), [data], {})
    np.testing.assert_array_equal(result.reshape(width, rows), data.reshape(rows, width).T)


def test_lanes_that_are_not_there_are_refused():
    from relayvm.base.diagnostics import RelayError

    text = """nest @pick {
  input in0: int8[16]
  output out0: int8[16]
  phase b0 < 1 {
    out0[0]:2 = shuffle(in0[0]:16, in0[0]:16, 31, 32)
  }
}
"""
    with pytest.raises(RelayError) as failure:
        verify_nest(parse_nest(text.replace("]:2 =", "] =")))
    assert "Shuffle" in str(failure.value)


@pytest.mark.parametrize(("step", "size"), [(-1, 50), (2, 101), (-2, 101), (2, 32), (-1, 16)])
@pytest.mark.parametrize("dtype", ["int8", "float32"])
def test_lanes_a_step_apart_are_shuffled(step, size, dtype):
    x = te.placeholder("x", (3, size), dtype)
    count = -(-size // abs(step))
    first = 0 if step > 0 else size - 1
    out = te.compute((3, count), lambda i, j: x[i, j * step + first])
    kernel = Native(Computation("step", (x,), (out,)))
    assert "shuffle" in print_nest(kernel.nest)
    data = values((3, size), dtype)[0]
    np.testing.assert_array_equal(kernel.results([data])[0], data[:, ::step])


@pytest.mark.parametrize(("size", "times"), [(32, 3), (48, 2), (256, 2), (20, 2)])
@pytest.mark.parametrize("form", ["floor_mod", "floor_divide"])
def test_copies_side_by_side_and_in_turn(form, size, times):
    x = te.placeholder("x", (3, size), "float32")
    by = size if form == "floor_mod" else times
    out = te.compute((3, size * times), lambda i, j: x[i, te.scalar(form, j, te.dim(by))])
    kernel = Native(Computation("copies", (x,), (out,)))
    data = values((3, size), "float32")[0]
    expected = np.tile(data, (1, times)) if form == "floor_mod" else data.repeat(times, 1)
    np.testing.assert_array_equal(kernel.results([data])[0], expected)


@pytest.mark.parametrize("dtype", ["int8", "float32", "float64"])
@pytest.mark.parametrize(
    "shape", [(40, 3), (100, 8), (2050, 5), (33, 15), (3, 40), (8, 2100), (5, 7)]
)
def test_short_rows_are_parts_of_vectors(shape, dtype):
    x, expected = values(shape, dtype)
    kernel = Native(transpose(shape, (1, 0), dtype))
    text = print_nest(kernel.nest)
    assert "shuffle" in text and "index(" not in text and "greater_equal" not in text
    np.testing.assert_array_equal(kernel.results([x])[0], expected.T)


@pytest.mark.parametrize(
    ("shape", "axes", "dtype", "line"),
    [
        ((70, 512), (1, 0), "float32", 16),
        ((150, 2048), (1, 0), "int8", 64),
        ((40, 1024), (1, 0), "float16", 32),
        ((20, 3, 8, 64), (1, 2, 3, 0), "float32", 16),
        ((5, 512), (1, 0), "float32", 16),
    ],
)
def test_rows_that_share_sets_of_the_cache_are_loaded_by_lines(shape, axes, dtype, line):
    x, expected = values(shape, dtype)
    turn = transpose(shape, axes, dtype)
    wide, narrow = (schedule(turn, Target(cpu=cpu)) for cpu in ("x86-64-v4", "x86-64-v3"))
    assert f"]:{line}" in print_nest(wide).split("shuffle")[0]
    for nest in (wide, narrow):
        verify_nest(nest)
    np.testing.assert_array_equal(Native(turn).results([x])[0], expected.transpose(axes))
    if x.size < 40000:
        (result,) = interpret(wide, [x], {}, slices=None)
        np.testing.assert_array_equal(result, expected.transpose(axes))


def test_rows_by_lines_of_which_the_number_is_unknown():
    m = symbol(VARS[1])
    kernel = Native(transpose((m, 512), (1, 0), "float32", VARS[1:2]))
    for rows in (1, 15, 16, 33, 300):
        x, expected = values((rows, 512), "float32")
        (result,) = kernel.results([x], (rows,))
        np.testing.assert_array_equal(result, expected.T)
