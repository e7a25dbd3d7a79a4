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
