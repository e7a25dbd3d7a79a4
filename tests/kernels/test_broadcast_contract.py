"""A nest may rely on sizes that broadcast only where the machine is told to check them."""

import pytest

from relayvm.base.abi import DimCheck
from relayvm.base.diagnostics import RelayError
from relayvm.base.dims import DimTerm, DimVar, dim_broadcast, symbol
from relayvm.kernels import compute as c
from relayvm.kernels.codegen.contract import check_contract
from relayvm.kernels.lower import Computation, kernel_signature, lower
from relayvm.kernels.printer import print_nest

N, M, K = (DimVar(name) for name in "nmk")
SOURCES = ((N, 0, 0), (M, 1, 0), (K, 2, 0))


def total():
    """Return the sum of three vectors whose sizes broadcast, and its nest."""
    xs = [c.placeholder(v.name, (symbol(v),), "float32") for v in (N, M, K)]
    size = dim_broadcast(dim_broadcast(symbol(N), symbol(M)), symbol(K))
    y = c.compute((), lambda: c.reduce("sum", (size,), lambda i: (xs[0][i] + xs[1][i]) + xs[2][i]))
    computation = Computation("total", tuple(xs), (y,), (N, M, K), frozenset(range(3)))
    return computation, lower(computation)


def joined(*variables):
    """Return the check that sizes broadcast, joined in this order."""
    dim = symbol(variables[0])
    for variable in variables[1:]:
        dim = symbol(DimTerm("broadcast", dim, symbol(variable)))
    return DimCheck(dim, dim, "sizes")


def test_all_reads_of_what_broadcasts_are_proved():
    _, nest = total()
    assert "index(" not in print_nest(nest)


@pytest.mark.parametrize("order", [(N, M, K), (K, N, M)])
def test_sizes_that_are_checked_in_any_order_may_be_relied_on(order):
    computation, nest = total()
    check_contract(nest, kernel_signature(computation, nest, SOURCES, (joined(*order),)))


@pytest.mark.parametrize("checks", [(), (joined(N, M),), (joined(N, K), joined(M, K))])
def test_sizes_that_nothing_checks_are_not_relied_on(checks):
    computation, nest = total()
    with pytest.raises(RelayError, match="nothing checks that"):
        check_contract(nest, kernel_signature(computation, nest, SOURCES, checks))
