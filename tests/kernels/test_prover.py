"""What the prover of index ranges knows."""

from __future__ import annotations

from relayvm.kernels import loops as n
from relayvm.kernels.index.prover import Prover


def test_what_is_never_run_is_in_range() -> None:
    prover = Prover()
    prover.add_range(n.Var("i"), n.const(0), n.const(0))
    assert prover.in_range(n.const(5), n.const(3), 1)
    assert prover.child().masked(None).in_range(n.const(-1), n.const(0), 1)
    other = Prover()
    other.add_condition(n.call("less", n.const(3), n.const(3)))
    assert other.in_range(n.const(5), n.const(3), 1)
    other = Prover()
    other.add_condition(n.call("less", n.const(2), n.const(3)))
    assert not other.in_range(n.const(5), n.const(3), 1)


def test_rests_of_multiples_leave_room_for_a_vector() -> None:
    prover, k = Prover(), n.Var("k")
    prover.add_range(k, n.const(32), n.const(320), 16)

    def lanes(base: n.Expr, size: int) -> bool:
        rest = n.call("floor_mod", base, n.const(size))
        return prover.in_range(n.Ramp(rest, n.const(1), 16), n.const(size), 16)

    assert lanes(k, 64) and lanes(n.call("multiply", k, n.const(3)), 48)
    assert not lanes(n.call("add", k, n.const(8)), 64) and not lanes(k, 40)
    odd = n.Var("o")
    prover.add_range(odd, n.const(1), n.const(320), 16)
    assert not lanes(odd, 64)


def test_blocks_of_as_many_numbers_as_their_size_end_where_the_last_one_does() -> None:
    prover, b, e, i = Prover(), n.Var("b"), n.Var("e"), n.Var("i")
    prover.add_range(b, n.const(0), n.const(1024))
    number = n.call("floor_divide", b, n.const(64))
    prover.add_value(e, n.call("multiply", number, n.const(64)))
    prover.add_range(i, e, n.call("add", e, n.const(64)), 64)
    assert prover.in_range(n.Ramp(i, n.const(1), 64), n.const(1024), 64)
    assert not prover.in_range(n.Ramp(i, n.const(1), 64), n.const(1023), 64)
