"""The text of nests: what it looks like, that it reads back, and how bad text is refused."""

from __future__ import annotations

import numpy as np
import pytest

from relayvm.base.diagnostics import RelayError
from relayvm.base.target import Target
from relayvm.kernels import compute as c
from relayvm.kernels.interpret import IndexTrap, interpret
from relayvm.kernels.lower import Computation, lower
from relayvm.kernels.parser import parse_nest
from relayvm.kernels.printer import print_nest
from relayvm.kernels.schedule import schedule
from relayvm.kernels.verify import verify_nest

from .computations import FAMILIES, Random

SUM = """\
nest @total {
  dims $n
  input in0: float32[$n]
  output out0: float32[] scalar
  phase b0 < 1 {
    tile acc0: float32 x 16 [1]
    unroll l0 = 0 to 1 {
      acc0[l0] = broadcast(float32(0.0), 16)
    }
    let e0 = (floor_divide($n, 64) * 64)
    for k0 = 0 to e0 step 64 {
      let x0 = in0[k0]:16
      let x1 = in0[(k0 + 16)]:16
      let x2 = in0[(k0 + 32)]:16
      let x3 = in0[(k0 + 48)]:16
      acc0[0] = ((x3 + (x2 + (x1 + x0))) + acc0[0])
    }
    tile some0: float32 x 16 [1]
    unroll l1 = 0 to 1 {
      some0[l1] = broadcast(float32(0.0), 16)
    }
    let e1 = (floor_divide($n, 16) * 16)
    for k1 = e0 to e1 step 16 {
      let x4 = in0[k1]:16
      some0[0] = (x4 + some0[0])
    }
    if less(e1, $n) {
      let x5 = in0[e1]:16?mask(($n - e1), 16)
      some0[0] = select(mask(($n - e1), 16), (x5 + some0[0]), some0[0])
    }
    unroll l2 = 0 to 1 {
      acc0[l2] = (some0[l2] + acc0[l2])
    }
    let v0 = tree(add, acc0[0])
    out0[] = v0
  }
}
"""


def total() -> Computation:
    r = Random(0)
    n, _ = r.size()
    while isinstance(n, int):
        n, _ = r.size()
    variable = n.variable
    variable.name = "n"
    x = c.placeholder("x", (n,), "float32")
    y = c.compute((), lambda: c.reduce("sum", (n,), lambda q: x[q]))
    return Computation("total", (x,), (y,), (variable,))


def test_a_scheduled_sum_prints_its_partials_mask_and_tree():
    assert print_nest(schedule(total(), Target(cpu="skylake-avx512"))) == SUM


@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.__name__)
def test_naive_nests_read_back_and_keep_the_rules(family):
    nest = lower(family(Random(3)).computation)
    verify_nest(nest)
    assert parse_nest(print_nest(nest)) == nest


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("in0[k0]:16", "in0[k0]:3", "expected a power of two up to 1024, found `3`"),
        ("$n - e1", "$m - e1", "expected a dim of the nest, found `m`"),
        ("tree(add", "tree(divide", "expected an operator of a tree, found `divide`"),
        (
            "+ acc0[0])",
            "+ k0)",
            "expected operands of one dtype and width that suit `add`, found `)`",
        ),
        ("phase b0", "phase 1", "expected a variable, found `1`"),
        (
            "let e0 =",
            "let at0 = index(trap, $n, 9, why, $n, 9)\n    let e0 =",
            "expected a reason of a trap, found `why`",
        ),
        ("{\n    tile", "{\n    ; tile", "`;` cannot stand in a nest"),
    ],
)
def test_bad_text_is_refused_with_its_place(old, new, message):
    with pytest.raises(RelayError, match="nest-syntax") as caught:
        parse_nest(SUM.replace(old, new))
    assert caught.value.message == message
    assert caught.value.span is not None


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("out0[] =", "in0[0] =", "input `in0` is written"),
        ("acc0[0] = (", "acc0[1] = (", "an index of tile `acc0` is not proved to be in range"),
        ("phase b0", "phase k0", "`k0` is defined twice"),
        ("float32[] scalar", "float64[] scalar", "dtype of a store to `out0`"),
        ("0 to 1 {", "0 to $n {", "unrolled loop `l0` needs literal edges"),
        ("x 16 [1]", "x 16 [9999]", "tile `acc0` is too large or empty"),
        (
            "let e0 =",
            "let at0 = index(trap, $n, 9, size, float32(1.0), 9)\n    let e0 =",
            "operands of `Index` do not fit",
        ),
    ],
)
def test_a_nest_that_breaks_a_rule_is_refused(old, new, message):
    with pytest.raises(RelayError, match="bad-nest") as caught:
        verify_nest(parse_nest(SUM.replace(old, new)))
    assert caught.value.message == f"nest `total`: {message}"


def test_a_check_says_what_a_trap_tells_and_reads_back():
    check = "let at0 = index(trap, ($n - 3), 9, range, float64(1.5), $n)"
    text = SUM.replace("let e0 =", f"{check}\n    let e0 =")
    nest = parse_nest(text)
    verify_nest(nest)
    assert print_nest(nest) == text
    with pytest.raises(IndexTrap, match=r"^a distance of 1.5 in steps of 2 has"):
        interpret(nest, [np.zeros(2, np.float32)], {"n": 2})
