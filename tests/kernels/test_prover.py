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
