"""Dimensions: `int`, a symbolic expression in normal form, or `?` (`ANY`); arithmetic and
comparison on them.

An expression is a polynomial with integer coefficients over atoms; an atom is a variable or a
subterm that is not polynomial (`//`, `%`, `min`, `max`, `broadcast`). Equal polynomials are the
same value, so `==` is structural.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import gcd
from typing import Union

from relayvm.base.diagnostics import assert_never


class AnyDim:
    """The dim `?`: a size that is not known and not related to any other."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "?"

    def __reduce__(self) -> str:
        return "ANY"


ANY = AnyDim()


class DimVar:
    """A symbolic size, at least 0. Two variables are the same only if they are the same object."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class DimTerm:
    """A subterm that is not polynomial: `op` is one of `//`, `%`, `min`, `max`, `broadcast`.

    `broadcast(a, b)` is `a` where b is 1 or both agree, else `b` where a is 1; other sizes are an
    error. `//` and `%` round down, as in Python; a divisor of 0 is an error.
    """

    op: str
    a: Dim
    b: Dim

    def __repr__(self) -> str:
        if self.op in ("//", "%"):
            return f"({_factor_text(self.a)} {self.op} {_factor_text(self.b)})"
        return f"{self.op}({self.a}, {self.b})"


Atom = Union[DimVar, DimTerm]
Monomial = tuple[tuple[Atom, int], ...]


def _atom_key(atom: Atom) -> tuple[str, int]:
    return (repr(atom), id(atom) if isinstance(atom, DimVar) else 0)


@dataclass(frozen=True, slots=True)
class DimExpr:
    """A polynomial that is neither a constant nor `?`: sorted pairs of monomial and coefficient.

    The empty monomial is the constant term. Build with `+ - *` and the functions of this module.
    """

    terms: tuple[tuple[Monomial, int], ...]

    def __add__(self, other: Dim) -> Dim:
        return dim_add(self, other)

    __radd__ = __add__

    def __sub__(self, other: Dim) -> Dim:
        return dim_sub(self, other)

    def __rsub__(self, other: Dim) -> Dim:
        return dim_sub(other, self)

    def __mul__(self, other: Dim) -> Dim:
        return dim_mul(self, other)

    __rmul__ = __mul__

    def __floordiv__(self, other: Dim) -> Dim:
        return dim_floordiv(self, other)

    def __rfloordiv__(self, other: Dim) -> Dim:
        return dim_floordiv(other, self)

    def __mod__(self, other: Dim) -> Dim:
        return dim_mod(self, other)

    def __rmod__(self, other: Dim) -> Dim:
        return dim_mod(other, self)

    def __neg__(self) -> Dim:
        return dim_mul(self, -1)

    def __repr__(self) -> str:
        return dim_text(self)

    @property
    def variable(self) -> DimVar | None:
        """The variable that this expression is, or None if it is anything more."""
        if len(self.terms) == 1 and self.terms[0][1] == 1:
            monomial = self.terms[0][0]
            if len(monomial) == 1 and monomial[0][1] == 1 and isinstance(monomial[0][0], DimVar):
                return monomial[0][0]
        return None


Dim = Union[int, DimExpr, AnyDim]
Polynomial = dict[Monomial, int]


def symbol(variable: DimVar | DimTerm) -> DimExpr:
    """Return the dim that is this variable or this non-polynomial term."""
    return DimExpr(((((variable, 1),), 1),))


def _polynomial(dim: int | DimExpr) -> Polynomial:
    if isinstance(dim, DimExpr):
        return dict(dim.terms)
    return {(): dim} if dim else {}


def _from_polynomial(polynomial: Polynomial) -> int | DimExpr:
    terms = {monomial: c for monomial, c in polynomial.items() if c}
    if not terms:
        return 0
    if len(terms) == 1 and () in terms:
        return terms[()]

    def key(item: tuple[Monomial, int]) -> tuple[int, list[tuple[tuple[str, int], int]]]:
        monomial = item[0]
        return (-sum(p for _, p in monomial), [(_atom_key(a), p) for a, p in monomial])

    return DimExpr(tuple(sorted(terms.items(), key=key)))


def dim_add(a: Dim, b: Dim) -> Dim:
    """Return the sum."""
    if isinstance(a, AnyDim) or isinstance(b, AnyDim):
        return ANY
    if isinstance(a, int) and isinstance(b, int):
        return a + b
    result = _polynomial(a)
    for monomial, c in _polynomial(b).items():
        result[monomial] = result.get(monomial, 0) + c
    return _from_polynomial(result)


def dim_mul(a: Dim, b: Dim) -> Dim:
    """Return the product; `0 * ?` is 0."""
    if a == 0 or b == 0:
        return 0
    if isinstance(a, AnyDim) or isinstance(b, AnyDim):
        return ANY
    if isinstance(a, int) and isinstance(b, int):
        return a * b
    result: Polynomial = {}
    for ma, ca in _polynomial(a).items():
        for mb, cb in _polynomial(b).items():
            powers: dict[Atom, int] = dict(ma)
            for atom, power in mb:
                powers[atom] = powers.get(atom, 0) + power
            monomial = tuple(sorted(powers.items(), key=lambda item: _atom_key(item[0])))
            result[monomial] = result.get(monomial, 0) + ca * cb
    return _from_polynomial(result)


def dim_sub(a: Dim, b: Dim) -> Dim:
    """Return the difference."""
    return dim_add(a, dim_mul(b, -1))


def dim_floordiv(a: Dim, b: Dim) -> Dim:
    """Return `a // b`, without a term where `a` is a multiple of `b`: `t*t*12 // (t*t)` is 12."""
    if isinstance(a, AnyDim) or isinstance(b, AnyDim):
        return ANY
    if isinstance(b, int):
        if b == 0:
            raise ZeroDivisionError("a dim is divided by 0")
        if isinstance(a, int):
            return a // b
        if all(c % b == 0 for _, c in a.terms):
            return _from_polynomial({m: c // b for m, c in a.terms})
    else:
        quotient = _exact_quotient(a, b)
        if quotient is not None:
            return quotient
    return symbol(DimTerm("//", a, b))


def dim_mod(a: Dim, b: Dim) -> Dim:
    """Return `a - a // b * b`; 0 where `a` is known to be a multiple of `b`."""
    if isinstance(a, AnyDim) or isinstance(b, AnyDim):
        return ANY
    if isinstance(b, int):
        if b == 0:
            raise ZeroDivisionError("a dim is divided by 0")
        if isinstance(a, int):
            return a % b
        if all(c % b == 0 for _, c in a.terms):
            return 0
    elif _exact_quotient(a, b) is not None:
        return 0
    return symbol(DimTerm("%", a, b))


def _exact_quotient(a: int | DimExpr, b: DimExpr) -> Dim | None:
    """Return q where `a` is q times `b` as polynomials, else None.

    The leading term of what is left, in the order of the powers of all atoms, is a multiple of that
    of `b` as long as q exists.
    """
    left, divisor = _polynomial(a), _polynomial(b)
    atoms = dict.fromkeys(atom for part in (left, divisor) for m in part for atom, _ in m)
    order = sorted(atoms, key=_atom_key)

    def powers(monomial: Monomial) -> list[int]:
        own = dict(monomial)
        return [own.get(atom, 0) for atom in order]

    first = max(divisor, key=powers)
    total: Dim = 0
    while left:
        lead = max(left, key=powers)
        rest = [x - y for x, y in zip(powers(lead), powers(first))]
        if min(rest) < 0 or left[lead] % divisor[first]:
            return None
        monomial = tuple((atom, power) for atom, power in zip(order, rest) if power)
        term = _from_polynomial({monomial: left[lead] // divisor[first]})
        total = dim_add(total, term)
        less = dim_sub(_from_polynomial(left), dim_mul(term, b))
        assert not isinstance(less, AnyDim)
        left = _polynomial(less)
    return total


def dim_min(a: Dim, b: Dim) -> Dim:
    """Return the smaller one, symbolic where neither is known to be."""
    return _extreme("min", min, a, b)


def dim_max(a: Dim, b: Dim) -> Dim:
    """Return the greater one, symbolic where neither is known to be."""
    return _extreme("max", max, a, b)


def _extreme(op: str, fold: Callable[[int, int], int], a: Dim, b: Dim) -> Dim:
    if isinstance(a, AnyDim) or isinstance(b, AnyDim):
        return ANY
    difference = dim_sub(a, b)
    if isinstance(difference, int):
        return b if (difference > 0) == (op == "min") and difference != 0 else a
    if never_negative(difference):
        return a if op == "max" else b
    if never_negative(dim_mul(difference, -1)):
        return b if op == "max" else a
    if isinstance(a, int) and isinstance(b, int):
        return fold(a, b)
    first, second = sorted((a, b), key=dim_text)
    return symbol(DimTerm(op, first, second))


def dim_broadcast(a: Dim, b: Dim) -> Dim:
    """Return the size of two broadcast axes; sizes that can never agree must be rejected by the
    caller first.
    """
    if a == b:
        return a
    if a == 1:
        return b
    if b == 1:
        return a
    if isinstance(a, int) and not isinstance(b, int):
        return a
    if isinstance(b, int) and not isinstance(a, int):
        return b
    if isinstance(a, AnyDim) or isinstance(b, AnyDim):
        return ANY
    for whole, part in ((a, b), (b, a)):
        if is_broadcast_of(whole, part) or broadcast_factor(whole, part) is not None:
            return whole
    first, second = sorted((a, b), key=dim_text)
    return symbol(DimTerm("broadcast", first, second))


def is_broadcast_of(whole: Dim, part: Dim) -> bool:
    """Return whether `whole` is `part`, or a `broadcast`, perhaps of others, with `part` in it."""
    waiting = [whole]
    while waiting:
        size = waiting.pop()
        if size == part:
            return True
        match size:
            case DimExpr(((((DimTerm("broadcast", a, b), 1),), 1),)):
                waiting += [a, b]
    return False


def broadcast_factor(whole: Dim, part: Dim) -> Dim | None:
    """Return what both sizes are multiples of where one is `broadcast(b, m)*h`, and the other
    `b*h`; None where they are not.

    Where these broadcast, the result is as `whole`: they are equal, or one of them is 1, which
    leaves 1 for h and b.
    """
    match whole:
        case DimExpr(((monomial, 1),)):
            for atom, power in monomial:
                if power != 1 or not isinstance(atom, DimTerm) or atom.op != "broadcast":
                    continue
                factor = _from_polynomial({tuple(m for m in monomial if m[0] != atom): 1})
                if factor == 1 or dim_mod(part, factor) != 0:
                    continue
                if is_broadcast_of(symbol(atom), dim_floordiv(part, factor)):
                    return factor
    return None


def is_never_one(dim: Dim) -> bool:
    """Return whether a size is known not to be 1: `n*12` is not, whatever n is."""
    if isinstance(dim, DimExpr):
        return gcd(*(factor for _, factor in dim.terms)) > 1
    return isinstance(dim, int) and dim != 1


def dims_equal(a: Dim, b: Dim) -> bool | None:
    """Return True if the dims are equal for all values, False if for none, None if only a run can
    tell.
    """
    if isinstance(a, AnyDim) or isinstance(b, AnyDim):
        return None
    difference = dim_sub(a, b)
    if isinstance(difference, int):
        return difference == 0
    positive = never_negative(dim_sub(difference, 1))
    negative = never_negative(dim_sub(-1, difference))
    return False if positive or negative else None


def never_negative(dim: Dim) -> bool:
    """Return whether `dim` is known to be at least 0 for all sizes: no coefficient or atom is
    negative.
    """
    if isinstance(dim, DimExpr):
        return all(c > 0 and all(_is_natural(a) for a, _ in m) for m, c in dim.terms)
    return isinstance(dim, int) and dim >= 0


def _is_natural(atom: Atom) -> bool:
    if isinstance(atom, DimVar) or atom.op == "broadcast":
        return True
    if atom.op == "%":
        return never_negative(atom.b)
    if atom.op == "max":
        return never_negative(atom.a) or never_negative(atom.b)
    return never_negative(atom.a) and never_negative(atom.b)


def dim_text(dim: Dim) -> str:
    """Return the dim as Relay text: terms by falling degree, `n*2 + 1`."""
    if not isinstance(dim, DimExpr):
        return repr(dim)
    text = ""
    for monomial, coefficient in dim.terms:
        factors = [repr(atom) for atom, power in monomial for _ in range(power)]
        if abs(coefficient) != 1 or not factors:
            factors.append(str(abs(coefficient)))
        body = "*".join(factors)
        if not text:
            text = body if coefficient > 0 else f"-{body}" if len(factors) == 1 else f"0 - {body}"
        else:
            text += f" {'+' if coefficient > 0 else '-'} {body}"
    return text


def _factor_text(dim: Dim) -> str:
    """Return the text of an operand of `//` or `%`: in parentheses unless it is one factor."""
    text = dim_text(dim)
    single = not isinstance(dim, DimExpr) or (len(dim.terms) == 1 and dim.terms[0][1] == 1)
    return text if single and "*" not in text else f"({text})"


def dim_variables(dim: Dim) -> Iterator[DimVar]:
    """Yield the variables of `dim`, in order of first appearance, possibly more than once."""
    if not isinstance(dim, DimExpr):
        return
    for monomial, _ in dim.terms:
        for atom, _power in monomial:
            if isinstance(atom, DimVar):
                yield atom
            else:
                yield from dim_variables(atom.a)
                yield from dim_variables(atom.b)


def greatest_number(dim: Dim) -> int:
    """Return the greatest magnitude of the numbers that `dim` is written with."""
    if not isinstance(dim, DimExpr):
        return 0 if isinstance(dim, AnyDim) else abs(dim)
    inner = [0]
    for monomial, _ in dim.terms:
        for atom, _power in monomial:
            if isinstance(atom, DimTerm):
                inner += (greatest_number(atom.a), greatest_number(atom.b))
    return max(greatest_factor(dim), *inner)


def greatest_factor(dim: Dim) -> int:
    """Return the greatest magnitude of the coefficients of `dim`, of which products are made."""
    if not isinstance(dim, DimExpr):
        return 0 if isinstance(dim, AnyDim) else abs(dim)
    return max(abs(factor) for _, factor in dim.terms)


def dim_limited(dim: Dim, most: int) -> Dim:
    """Return `dim` with coefficients of at most `most`: an estimate that may be less."""
    if isinstance(dim, int):
        return max(-most, min(dim, most))
    if not isinstance(dim, DimExpr) or greatest_factor(dim) <= most:
        return dim
    return DimExpr(tuple((m, max(-most, min(factor, most))) for m, factor in dim.terms))


def linear_dim(dim: Dim) -> tuple[DimVar, int, int] | None:
    """Return `(n, 2, 1)` for `n*2 + 1`, with a factor above 0: a size that tells its variable."""
    if not isinstance(dim, DimExpr):
        return None
    found: tuple[DimVar, int] | None = None
    rest = 0
    for monomial, coefficient in dim.terms:
        if not monomial:
            rest = coefficient
            continue
        (atom, power), *more = monomial
        if more or found or power != 1 or coefficient < 1 or not isinstance(atom, DimVar):
            return None
        found = atom, coefficient
    return (*found, rest) if found else None


def told_size(dim: Dim, size: int) -> tuple[DimVar, int, bool] | None:
    """Return the variable of a linear dim, what it is where the dim is `size`, and whether it
    stands alone. Where no number makes it so, that nearest below which is not negative.
    """
    linear = linear_dim(dim)
    if linear is None:
        return None
    variable, factor, rest = linear
    return variable, max((size - rest) // factor, 0), (factor, rest) == (1, 0)


def dim_substitute(dim: Dim, values: Mapping[DimVar, Dim]) -> Dim:
    """Return `dim` with variables replaced by dims; the same object if none of them occurs."""
    if not isinstance(dim, DimExpr) or not any(v in values for v in dim_variables(dim)):
        return dim
    total: Dim = 0
    for monomial, coefficient in dim.terms:
        product: Dim = coefficient
        for atom, power in monomial:
            value = _substitute_atom(atom, values)
            for _ in range(power):
                product = dim_mul(product, value)
        total = dim_add(total, product)
    return total


def _substitute_atom(atom: Atom, values: Mapping[DimVar, Dim]) -> Dim:
    if isinstance(atom, DimVar):
        return values.get(atom, symbol(atom))
    return apply_term(atom.op, dim_substitute(atom.a, values), dim_substitute(atom.b, values))


def apply_term(op: str, a: Dim, b: Dim) -> Dim:
    """Return the dim `op(a, b)` for the name of a non-polynomial term."""
    functions: dict[str, Callable[[Dim, Dim], Dim]] = {
        "//": dim_floordiv,
        "%": dim_mod,
        "min": dim_min,
        "max": dim_max,
        "broadcast": dim_broadcast,
    }
    return functions[op](a, b)


def written_term(op: str, a: Dim, b: Dim) -> Dim:
    """Return `apply_term(op, a, b)`, but `broadcast(n, 8)` as it is written.

    As a size it is 8; in a check, which compares it with 8, it says what is checked.
    """
    if op != "broadcast" or a == b or 1 in (a, b):
        return apply_term(op, a, b)
    return symbol(DimTerm(op, *sorted((a, b), key=dim_text)))


def dim_value(dim: Dim, values: Mapping[DimVar, int]) -> int:
    """Return the size of `dim` where its variables have these values.

    Raises ValueError where a broadcast does not fit, KeyError for a missing variable.
    """
    if isinstance(dim, int):
        return dim
    if isinstance(dim, AnyDim):
        raise ValueError("`?` has no value")
    if isinstance(dim, DimExpr):
        return sum(c * _monomial_value(monomial, values) for monomial, c in dim.terms)
    assert_never(dim)


def _monomial_value(monomial: Monomial, values: Mapping[DimVar, int]) -> int:
    product = 1
    for atom, power in monomial:
        if isinstance(atom, DimVar):
            product *= values[atom] ** power
            continue
        a, b = dim_value(atom.a, values), dim_value(atom.b, values)
        if atom.op == "broadcast" and a != b and 1 not in (a, b):
            raise ValueError(f"sizes {a} and {b} do not broadcast")
        result = apply_term(atom.op, a, b)
        assert isinstance(result, int)
        product *= result**power
    return product
