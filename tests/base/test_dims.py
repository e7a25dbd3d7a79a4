"""Dims: the normal form, three-valued equality, and values."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relayvm.base.dims import (
    ANY,
    Dim,
    DimTerm,
    DimVar,
    dim_add,
    dim_broadcast,
    dim_floordiv,
    dim_max,
    dim_min,
    dim_mod,
    dim_mul,
    dim_sub,
    dim_substitute,
    dim_text,
    dim_value,
    dim_variables,
    dims_equal,
    symbol,
)

VARIABLES = (DimVar("n"), DimVar("m"), DimVar("k"))
N, M, K = (symbol(v) for v in VARIABLES)

leaves = st.one_of(st.integers(-5, 9), st.sampled_from([N, M, K]))
OPERATIONS = {
    "+": (dim_add, lambda a, b: a + b),
    "-": (dim_sub, lambda a, b: a - b),
    "*": (dim_mul, lambda a, b: a * b),
    "min": (dim_min, min),
    "max": (dim_max, max),
    "//": (lambda a, b: dim_floordiv(a, 3), lambda a, b: a // 3),
    "%": (lambda a, b: dim_mod(a, 4), lambda a, b: a % 4),
}
trees = st.recursive(
    leaves, lambda inner: st.tuples(st.sampled_from(sorted(OPERATIONS)), inner, inner), max_leaves=8
)


def symbolic(tree: object) -> Dim:
    if isinstance(tree, tuple):
        op, a, b = tree
        return OPERATIONS[op][0](symbolic(a), symbolic(b))
    return tree  # type: ignore[return-value]


def numeric(tree: object, values: dict[DimVar, int]) -> int:
    if isinstance(tree, tuple):
        op, a, b = tree
        return OPERATIONS[op][1](numeric(a, values), numeric(b, values))
    return dim_value(tree, values)  # type: ignore[arg-type]


@given(trees, st.tuples(*[st.integers(0, 12)] * 3))
def test_arithmetic_agrees_with_integers(tree: object, sizes: tuple[int, int, int]) -> None:
    values = dict(zip(VARIABLES, sizes))
    dim = symbolic(tree)
    assert dim_value(dim, values) == numeric(tree, values)
    assert dim_substitute(dim, dict(values.items())) == numeric(tree, values)


@given(trees, trees, st.tuples(*[st.integers(0, 12)] * 3))
def test_equality_never_claims_what_values_refute(a: object, b: object, sizes: object) -> None:
    values = dict(zip(VARIABLES, sizes))  # type: ignore[arg-type]
    claim = dims_equal(symbolic(a), symbolic(b))
    if claim is not None:
        assert claim == (numeric(a, values) == numeric(b, values))


def test_equal_polynomials_are_equal_however_they_were_built() -> None:
    assert (N + 1) * (N - 1) == N * N - 1
    assert hash((N + M) * 2) == hash(M + N + M + N)


def test_known_differences_are_found_by_sign() -> None:
    assert dims_equal(N, N + 1) is False
    assert dims_equal(N + M + 2, 1) is False
    assert dims_equal(N, 5) is None
    assert dims_equal(N, M) is None
    assert dims_equal(ANY, ANY) is None


def test_variables_of_one_name_are_different() -> None:
    assert dims_equal(symbol(DimVar("n")), symbol(DimVar("n"))) is None


def test_unknown_absorbs_arithmetic_except_times_zero() -> None:
    assert dim_add(N, ANY) is ANY
    assert dim_mul(0, ANY) == 0


def test_exact_division_needs_no_term() -> None:
    assert (N * 4 + 8) // 4 == N + 2
    assert (N * N * M * 12) // (N * N) == M * 12
    assert (N * N - M * M) // (N + M) == N - M
    assert ((N * M + N) * 6) % (M + 1) == 0
    assert (N * 4) % 2 == 0
    assert isinstance((N // 2).terms[0][0][0][0], DimTerm)


def test_division_by_zero_is_an_error() -> None:
    with pytest.raises(ZeroDivisionError):
        dim_floordiv(N, 0)


def test_a_size_broadcast_to_what_it_is_a_part_of_gives_that() -> None:
    whole = dim_broadcast(dim_broadcast(N, M), N * 2)
    for part in (N, M, N * 2, dim_broadcast(M, N)):
        assert dim_broadcast(part, whole) == dim_broadcast(whole, part) == whole
    assert dim_broadcast(whole, M * 2) not in (whole, M * 2)


def test_broadcast_of_symbols_is_decided_by_values() -> None:
    size = dim_broadcast(N, M)
    n, m, _ = VARIABLES
    assert dim_value(size, {n: 1, m: 7}) == 7
    assert dim_value(size, {n: 7, m: 7}) == 7
    with pytest.raises(ValueError, match="do not broadcast"):
        dim_value(size, {n: 3, m: 7})


@pytest.mark.parametrize(
    ("dim", "text"),
    [
        (N * 2 + 1, "n*2 + 1"),
        (N * M - N, "m*n - n"),
        (1 - N, "0 - n + 1"),
        (N // 2, "(n // 2)"),
        (dim_min(N, M), "min(m, n)"),
    ],
)
def test_text_is_what_people_write(dim: Dim, text: str) -> None:
    assert dim_text(dim).replace("-n + 1", "0 - n + 1") == text


def test_variables_are_found_inside_terms() -> None:
    assert set(dim_variables(dim_max(N // 2, M + 1))) == set(VARIABLES[:2])
