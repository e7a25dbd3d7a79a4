"""Index simplification and bounds against random values."""

from __future__ import annotations

import itertools
import operator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relayvm.base.dtypes import INT64
from relayvm.kernels import loops as n
from relayvm.kernels.index import simplify as s
from relayvm.kernels.index.bounds import ensure_bounds
from relayvm.kernels.index.prover import Prover
from relayvm.kernels.interpret import IndexTrap, interpret
from relayvm.kernels.parser import parse_nest
from relayvm.kernels.printer import print_nest

VARIABLES = tuple(n.Var(name) for name in ("i", "j", "k"))
NAMES = ("add", "subtract", "multiply", "floor_divide", "floor_mod", "minimum", "maximum")
LEAVES = st.one_of(
    st.sampled_from(VARIABLES),
    st.sampled_from([n.DimRef("n"), n.DimRef("m")]),
    st.integers(-9, 33).map(n.const),
)


def _calls(inner):
    call = st.builds(
        lambda f, a, b: n.Call(f, (a, b), INT64, 1), st.sampled_from(NAMES), inner, inner
    )
    chosen = st.builds(
        lambda f, a, b, x, y: n.select(n.call(f, a, b), x, y),
        st.sampled_from(["less", "equal", "greater_equal"]),
        inner,
        inner,
        inner,
        inner,
    )
    return st.one_of(call, chosen)


EXPRESSIONS = st.recursive(LEAVES, _calls, max_leaves=10)
SMALL = st.recursive(LEAVES, _calls, max_leaves=5)
VALUES = st.fixed_dictionaries({name: st.integers(0, 40) for name in ("i", "j", "k", "n", "m")})


def value(expr: n.Expr, values: dict[str, int]) -> int:
    match expr:
        case n.Const(number):
            return int(number)
        case n.Var(name) | n.DimRef(name):
            return values[name]
        case n.Select(condition, a, b):
            return value(a if value(condition, values) else b, values)
        case n.Call(name, args):
            a, b = (value(e, values) for e in args)
            return {
                "add": lambda: a + b,
                "subtract": lambda: a - b,
                "multiply": lambda: a * b,
                "floor_divide": lambda: a // b if b else 0,
                "floor_mod": lambda: a % b if b else 0,
                "minimum": lambda: min(a, b),
                "maximum": lambda: max(a, b),
                "less": lambda: a < b,
                "equal": lambda: a == b,
                "greater_equal": lambda: a >= b,
            }[name]()
    raise AssertionError(expr)


@given(EXPRESSIONS, VALUES)
def test_simplifying_keeps_the_value(expr, values):
    assert value(s.simplify(expr), values) == value(expr, values)


@pytest.mark.parametrize("factor", [1, 5])
def test_quotient_and_rest_together_are_the_whole(factor):
    i, j, n_ = VARIABLES[0], VARIABLES[1], n.DimRef("n")
    whole = s.add(s.mul(i, n_), j)
    times = s.mul(s.floordiv(whole, n.const(12)), n.const(12 * factor))
    rest = s.mul(s.floormod(whole, n.const(12)), n.const(factor))
    assert s.add(s.add(times, j), rest) == s.add(s.mul(whole, n.const(factor)), j)
    assert s.add(s.mul(times, n_), rest) != s.mul(whole, n.const(factor))


@given(EXPRESSIONS)
def test_simplifying_twice_changes_nothing(expr):
    once = s.simplify(expr)
    assert s.simplify(once) == once


@given(EXPRESSIONS, st.integers(1, 6), st.integers(0, 6), st.integers(0, 6))
def test_what_the_prover_proves_holds_for_all_values(expr, extent, n_value, m_value):
    prover = Prover()
    ends = {"i": extent, "j": extent + 2, "k": 3}
    for var in VARIABLES:
        prover.add_range(var, n.const(0), n.const(ends[var.name]))
    if not prover.at_least_zero(s.polynomial(s.simplify(expr))):
        return
    for i, j, k in itertools.product(*(range(ends[name]) for name in "ijk")):
        values = {"i": i, "j": j, "k": k, "n": n_value, "m": m_value}
        assert value(expr, values) >= 0, values


@pytest.mark.slow
@settings(deadline=None)
@given(SMALL, SMALL, SMALL, st.booleans(), st.integers(0, 6), st.integers(0, 6))
def test_what_a_condition_adds_holds_where_the_condition_does(
    left, right, expr, holds, n_now, m_now
):
    prover = Prover()
    for var in VARIABLES:
        prover.add_range(var, n.const(0), n.const(4))
    condition = n.call("less", s.simplify(left), s.simplify(right))
    prover.add_condition(condition, holds)
    bound = n.Var("b")
    prover.add_value(bound, s.minimum(s.simplify(left), s.simplify(right)))
    goal = s.add(s.simplify(expr), s.sub(s.simplify(right), bound))
    if not prover.at_least_zero(s.polynomial(goal)):
        return
    for i, j, k in itertools.product(range(4), repeat=3):
        values = {"i": i, "j": j, "k": k, "n": n_now, "m": m_now}
        values["b"] = min(value(left, values), value(right, values))
        if (value(left, values) < value(right, values)) == holds:
            assert value(goal, values) >= 0, values


@settings(deadline=None, max_examples=50)
@given(SMALL, SMALL, st.sampled_from(["less", "less_equal", "greater", "equal"]))
def test_a_condition_that_is_decided_is_so_for_all_values(left, right, name):
    prover = Prover()
    for var in VARIABLES:
        prover.add_range(var, n.const(0), n.const(4))
    decided = prover.decide(n.call(name, s.simplify(left), s.simplify(right)))
    if decided is None:
        return
    holds = {"less": operator.lt, "less_equal": operator.le, "greater": operator.gt}
    for i, j, k, size in itertools.product(range(4), repeat=4):
        values = {"i": i, "j": j, "k": k, "n": size, "m": size + 1}
        a, b = value(left, values), value(right, values)
        assert holds.get(name, operator.eq)(a, b) == decided, values


def test_a_condition_is_decided_in_all_lanes_or_not_at_all():
    i, m = n.Var("i"), n.DimRef("m")
    prover = Prover()
    prover.add_range(i, n.const(0), n.const(64), 16)
    ramp = n.Ramp(i, n.const(1), 16)
    assert prover.decide(n.call("less", ramp, n.broadcast(n.const(64), 16))) is True
    assert prover.decide(n.call("less", ramp, n.broadcast(n.const(63), 16))) is None
    assert prover.decide(n.call("less", ramp, n.broadcast(n.const(0), 16))) is False
    assert prover.decide(n.call("less", n.broadcast(m, 16), n.broadcast(n.const(0), 16))) is False


def test_quotients_and_remainders_are_proved():
    i, m = n.Var("i"), n.DimRef("m")
    prover = Prover()
    prover.add_range(i, n.const(0), s.mul(n.const(8), m))
    assert prover.in_range(s.floormod(i, m), m, 1)
    assert prover.in_range(s.floordiv(i, m), n.const(8), 1)
    assert not prover.in_range(s.floordiv(i, m), n.const(7), 1)


UNPROVED = """\
nest @shift {
  dims $n
  input in0: float32[$n]
  output out0: float32[$n]
  phase i0 < $n {
    out0[i0] = in0[(i0 + 1)]
  }
}
"""


def test_an_access_that_is_not_proved_gets_a_check():
    nest = ensure_bounds(parse_nest(UNPROVED))
    assert "in0[index(trap, (i0 + 1), $n)]" in print_nest(nest)
    with pytest.raises(IndexTrap):
        interpret(nest, [[1.0, 2.0]], {"n": 2})


def test_a_checked_nest_needs_no_more_checks():
    nest = ensure_bounds(parse_nest(UNPROVED))
    assert ensure_bounds(nest) == nest
