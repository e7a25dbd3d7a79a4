"""A nest may rely on sizes that broadcast only where the machine is told to check them."""

import pytest

from relayvm.base.abi import DimCheck
from relayvm.base.diagnostics import RelayError
from relayvm.base.dims import DimTerm, DimVar, dim_broadcast, symbol
from relayvm.base.native.own_code import signature_text
from relayvm.kernels import compute as c
from relayvm.kernels.codegen.contract import check_contract
from relayvm.kernels.lower import Computation, joined_sizes, kernel_signature, lower
from relayvm.kernels.parser import parse_nest
from relayvm.kernels.printer import print_nest
from relayvm.kernels.verify import verify_nest

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


def scaled(size=8):
    """Return vectors of a known and an unknown size that broadcast, and the nest of their sum."""
    known, open_ = (
        c.placeholder("x", (size,), "float32"),
        c.placeholder("y", (symbol(N),), "float32"),
    )
    y = c.compute((), lambda: c.reduce("sum", (size,), lambda i: known[i] * open_[i]))
    strided, checks = frozenset({1}), (with_number(size),)
    joined = joined_sizes((known, open_), strided, checks)
    computation = Computation("scaled", (known, open_), (y,), (N,), strided, joined)
    return computation, lower(computation)


def with_number(size):
    """Return the check that a size is a number, or 1."""
    return DimCheck(symbol(DimTerm("broadcast", size, symbol(N))), size, "sizes")


def test_reads_of_what_is_broadcast_to_a_number_are_proved():
    _, nest = scaled()
    text = print_nest(nest)
    assert "index(" not in text
    assert "joined select(equal($n, 1), 8, $n)" in text
    assert parse_nest(text) == nest
    verify_nest(nest)


def test_reads_beyond_the_number_are_checked():
    _, nest = scaled()
    text = print_nest(nest)
    for other in ("select(equal($n, 1), 7, $n)", "select(equal($n, 1), 1, $n)"):
        with pytest.raises(RelayError, match="neither proved to be in range nor checked"):
            verify_nest(parse_nest(text.replace("select(equal($n, 1), 8, $n)", other)))
    with pytest.raises(RelayError, match="a joined size is no broadcast"):
        verify_nest(parse_nest(text.replace("select(equal($n, 1), 8, $n)", "$n")))


@pytest.mark.parametrize(
    ("check", "fits"),
    [
        (with_number(8), True),
        (with_number(7), False),
        (DimCheck(8, 8, "sizes"), False),
        (None, False),
    ],
)
def test_a_number_is_relied_on_where_it_is_checked(check, fits):
    computation, nest = scaled()
    signature = kernel_signature(computation, nest, ((N, 1, 0),), (check,) if check else ())
    if fits:
        check_contract(nest, signature)
        return
    with pytest.raises(RelayError, match="nothing checks that"):
        check_contract(nest, signature)


def test_the_text_of_a_signature_tells_what_a_number_is_compared_with():
    computation, nest = scaled()
    texts = {
        signature_text(kernel_signature(computation, nest, ((N, 1, 0),), (check,)))
        for check in (with_number(8), DimCheck(8, 8, "sizes"))
    }
    assert len(texts) == 2
