"""Programs whose output may lie in the memory of an input: it is copied unless it does."""

from __future__ import annotations

import numpy as np
import pytest

from relayvm.base.diagnostics import RelayError
from relayvm.base.dims import DimVar, symbol
from relayvm.base.dtypes import FLOAT32
from relayvm.base.target import Target
from relayvm.kernels import compute as te
from relayvm.kernels.interpret import interpret
from relayvm.kernels.lower import Computation, kernel_signature, lower
from relayvm.kernels.parser import parse_nest
from relayvm.kernels.printer import print_nest
from relayvm.kernels.schedule import schedule
from relayvm.kernels.schedules.program import BLOCK, Memory, Writer
from relayvm.kernels.verify import verify_nest

N = DimVar("n")
SIZE = symbol(N)


def first_set(*more: str, strided: bool = False, doubled: bool = False) -> Computation:
    """Return what sets element 0 of a vector to -1; `more` outputs are made of the vector too."""
    x = te.placeholder("x", (SIZE,), "float32")
    source = te.compute((SIZE,), lambda i: x[i] * 2, "doubled") if doubled else x

    def build(w: Writer, x: Memory, y: Memory) -> None:
        w.copy(x, y)
        with w.phase(), w.when(te.dim(SIZE) > 0):
            y[0] = te.const(-1.0, FLOAT32)

    (y,) = te.program([((SIZE,), FLOAT32)], [source], build, SIZE, in_place=((0, 0),))
    others = {
        "same": lambda: te.compute((SIZE,), lambda i: x[i] + 1, "more"),
        "read": lambda: te.compute((SIZE,), lambda i: y[i] + 1, "after"),
    }
    outputs = (y, *(others[name]() for name in more))
    return Computation("f", (x,), outputs, (N,), frozenset({0} if strided else ()))


@pytest.mark.parametrize("build", [lower, lambda c: schedule(c, Target())], ids=["naive", "best"])
@pytest.mark.parametrize("size", [0, 1, 5, 16, BLOCK + 7])
@pytest.mark.parametrize("more", [(), ("same",), ("read",), ("doubled",)])
def test_a_copy_gives_all_elements(build, size, more):
    doubled = "doubled" in more
    computation = first_set(*(m for m in more if m != "doubled"), doubled=doubled)
    nest = build(computation)
    verify_nest(nest)
    x = np.arange(1, size + 1, dtype=np.float32)
    wanted = x * 2 if doubled else x.copy()
    wanted[:1] = -1
    results = interpret(nest, [x], {"n": size}, slices=3)
    np.testing.assert_array_equal(results[0], wanted)
    if more == ("read",):
        np.testing.assert_array_equal(results[1], wanted + 1)


def test_a_vector_may_be_seen_as_one_of_another_size():
    nest = lower(first_set(strided=True))
    verify_nest(nest)
    assert "apart" not in print_nest(nest)
    (result,) = interpret(nest, [np.ones(4, np.float32)], {"n": 4})
    assert result.tolist() == [-1, 1, 1, 1]


@pytest.mark.parametrize(
    ("options", "pairs"),
    [
        ({}, ((1, 0),)),
        ({"more": ("read",)}, ((1, 0),)),
        ({"more": ("same",)}, ()),
        ({"strided": True}, ()),
        ({"doubled": True}, ()),
    ],
)
def test_the_signature_pairs_what_may_lie_in_one_memory(options, pairs):
    computation = first_set(*options.pop("more", ()), **options)
    assert kernel_signature(computation, lower(computation), ()).in_place == pairs


def test_the_text_says_where_a_copy_is_made():
    nest = lower(first_set())
    text = print_nest(nest)
    assert "if apart(out0, in0) {" in text
    assert parse_nest(text) == nest


@pytest.mark.parametrize("words", ["apart(in0, out0)", "apart(out0, out0)", "apart(out0, q)"])
def test_only_an_output_is_apart_from_an_input(words):
    text = print_nest(lower(first_set())).replace("apart(out0, in0)", words)
    with pytest.raises(RelayError, match="dense|expected a buffer"):
        verify_nest(parse_nest(text))


ROWS, COLUMNS = 3, 5


def negative_corner(x: te.Tensor, flat: bool) -> te.Tensor:
    """Return a program's copy of a matrix whose first element is -1, found by one index or two."""

    def build(w: Writer, source: Memory, target: Memory) -> None:
        w.copy(source, target)
        with w.phase():
            target[0 if flat else (0, 0)] = te.const(-1.0, FLOAT32)

    (y,) = te.program([(x.shape, FLOAT32)], [x], build, ROWS * COLUMNS, in_place=((0, 0),))
    return y


def side_by_side(a: te.Tensor, b: te.Tensor, axis: int) -> te.Tensor:
    """Return two matrices joined."""
    middle = a.shape[axis]
    shape = tuple(2 * e if k == axis else e for k, e in enumerate(a.shape))

    def body(*i: te.IndexVar) -> te.ScalarExpr:
        behind = tuple(at - te.dim(middle) if k == axis else at for k, at in enumerate(i))
        return te.select(i[axis] < te.dim(middle), a[i], b[behind])

    return te.compute(shape, body, "joined")


@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("order", ["last", "first", "both"])
@pytest.mark.parametrize("beside", [False, True])
def test_an_update_may_be_a_part_of_a_join(axis, order, flat, beside):
    x = te.placeholder("x", (ROWS, COLUMNS), "float32")
    z = te.placeholder("z", (ROWS, COLUMNS), "float32")
    updated = negative_corner(x, flat)
    parts = {
        "last": (x, updated),
        "first": (updated, x),
        "both": (updated, negative_corner(x, flat)),
    }
    whole = side_by_side(*parts[order], axis)
    outputs = (whole, negative_corner(z, flat)) if beside else (whole,)
    computation = Computation("f", (x, z), outputs)
    nest = schedule(computation, Target())
    verify_nest(nest)
    given = np.arange(1, ROWS * COLUMNS + 1, dtype=np.float32).reshape(ROWS, COLUMNS)
    corner = given.copy()
    corner[0, 0] = -1
    wanted = {"last": (given, corner), "first": (corner, given), "both": (corner, corner)}[order]
    results = interpret(nest, [given, given + 0], {}, slices=3)
    np.testing.assert_array_equal(results[0], np.concatenate(wanted, axis))
    if beside:
        assert kernel_signature(computation, nest, ()).in_place == ((3, 1),)
        assert "if apart(out1, in1) {" in print_nest(nest)
        np.testing.assert_array_equal(results[1], corner)
    elif axis == 0 or not flat:
        assert nest.scratch == ()  # nothing is copied into the join
