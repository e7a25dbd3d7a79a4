"""Costly functions of sums are computed in whole vectors when a block of them is done."""

from __future__ import annotations

import pytest

from relayvm.base.dims import DimVar, symbol
from relayvm.base.target import Target
from relayvm.kernels import compute as c
from relayvm.kernels import loops as n
from relayvm.kernels.lower import Computation
from relayvm.kernels.printer import print_nest
from relayvm.kernels.schedule import schedule

WIDE = Target(cpu="skylake-avx512")


def layer(rows, columns, function):
    """Return a dense layer with a bias and a function of it that is used twice."""
    var = DimVar("n")
    rows = symbol(var) if rows is None else rows
    x = c.placeholder("x", (rows, 64), "float32")
    w = c.placeholder("w", (columns, 64), "float32")
    b = c.placeholder("b", (columns,), "float32")
    d = c.compute((rows, columns), lambda i, j: c.reduce("sum", (64,), lambda k: x[i, k] * w[j, k]))
    z = c.compute((rows, columns), lambda i, j: d[i, j] + b[j])
    y = c.compute((rows, columns), lambda i, j: z[i, j] * c.scalar(function, z[i, j]))
    variables = (var,) if not isinstance(rows, int) else ()
    return schedule(Computation("layer", (x, w, b), (y,), variables), WIDE)


def calls(nest, name):
    """Return the lanes of each call of a function in a nest."""
    found = []
    bodies = [phase.body for phase in nest.phases]
    while bodies:
        for stmt in bodies.pop():
            if isinstance(stmt, n.For):
                bodies.append(stmt.body)
            elif isinstance(stmt, n.If):
                bodies += [stmt.then, stmt.otherwise]
            elif isinstance(stmt, n.Let) and isinstance(stmt.value, n.Call):
                found += [stmt.value.lanes] if stmt.value.name == name else []
    return found


@pytest.mark.parametrize("rows", [None, 1, 7, 40])
@pytest.mark.parametrize("columns", [16, 50, 256])
def test_costly_functions_take_whole_vectors(rows, columns):
    nest = layer(rows, columns, "erf")
    assert set(calls(nest, "erf")) == {n.LANES}, print_nest(nest)
    assert [buffer.role for buffer in nest.private] == ["private"]


def test_what_only_one_loop_uses_has_no_memory():
    assert layer(None, 256, "erf").scratch == ()
    assert layer(None, 256, "abs").scratch == ()


def test_cheap_functions_stay_in_the_tiles():
    assert layer(None, 256, "abs").private == ()


def test_columns_that_fill_no_vector_stay_in_the_tiles():
    nest = layer(None, 9, "erf")
    assert nest.private == ()
    assert max(calls(nest, "erf")) < n.LANES
