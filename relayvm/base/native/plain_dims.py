"""Dims in plain form, as numbers and lists: for keys, and for what is kept in the cache."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Union

from relayvm.base.dims import Dim, DimExpr, DimTerm, DimVar, dim_add, dim_mul, symbol

# A number, or terms: pairs of factors (an atom with its power) and coefficient.
Plain = Union[int, list[list[object]]]


def encode_dim(dim: Dim, numbers: dict[DimVar, int]) -> Plain:
    """Return a dim as numbers and lists, variables by number."""
    if isinstance(dim, int):
        return dim
    assert isinstance(dim, DimExpr), "`?` cannot be a dim of a kernel"
    terms: list[list[object]] = []
    for monomial, coefficient in dim.terms:
        factors = [
            [numbers[a], power]
            if isinstance(a, DimVar)
            else [[a.op, encode_dim(a.a, numbers), encode_dim(a.b, numbers)], power]
            for a, power in monomial
        ]
        terms.append([factors, coefficient])
    return terms


def decode_dim(plain: Plain, variables: Sequence[DimVar]) -> Dim:
    """Return the dim that `encode_dim` took apart."""
    if isinstance(plain, int):
        return plain
    total: Dim = 0
    for factors, coefficient in plain:
        product: Dim = coefficient  # type: ignore[assignment]
        for atom, power in factors:  # type: ignore[attr-defined]
            if isinstance(atom, int):
                factor = symbol(variables[atom])
            else:
                op, a, b = atom
                factor = symbol(DimTerm(op, decode_dim(a, variables), decode_dim(b, variables)))
            for _ in range(power):
                product = dim_mul(product, factor)
        total = dim_add(total, product)
    return total
