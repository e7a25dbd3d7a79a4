"""Index arithmetic: int64 expressions as polynomials over atoms, and smart constructors.

Index arithmetic never overflows (dims are below 2^46), so reordering sums and products is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache

from relayvm.base.dims import AnyDim, Dim, DimExpr, DimTerm, DimVar
from relayvm.base.dtypes import BOOL, INT64
from relayvm.kernels.loops import (
    Broadcast,
    Call,
    Cast,
    Const,
    DimRef,
    Expr,
    Index,
    Ramp,
    Select,
    Var,
    broadcast,
    call,
    const,
    map_operands,
    select,
)

Monomial = tuple[Expr, ...]
# Never changed once made: the same one is given to all who ask.
Polynomial = Mapping[Monomial, int]
Terms = dict[Monomial, int]

_COMPARISONS: dict[str, Callable[[int], bool]] = {
    "less": lambda d: d < 0,
    "less_equal": lambda d: d <= 0,
    "greater": lambda d: d > 0,
    "greater_equal": lambda d: d >= 0,
    "equal": lambda d: d == 0,
    "not_equal": lambda d: d != 0,
}


def polynomial(expr: Expr) -> Polynomial:
    """Return a scalar int64 expression as coefficients over sorted products of atoms."""
    if isinstance(expr, Call):
        return _ring_polynomial(expr) if expr.name in _RING else {(expr,): 1}
    if isinstance(expr, Const):
        return {(): int(expr.value)} if expr.value else {}
    return {(expr,): 1}


_RING = frozenset(("add", "subtract", "multiply", "negative"))


@lru_cache(maxsize=1 << 14)
def _ring_polynomial(expr: Call) -> Polynomial:
    if expr.name == "negative":
        return poly_add({}, polynomial(expr.args[0]), -1)
    a, b = polynomial(expr.args[0]), polynomial(expr.args[1])
    if expr.name == "multiply":
        return poly_mul(a, b)
    return poly_add(a, b, 1 if expr.name == "add" else -1)


def poly_add(a: Polynomial, b: Polynomial, factor: int = 1) -> Polynomial:
    """Return `a + factor * b`."""
    result = dict(a)
    for monomial, c in b.items():
        value = result.get(monomial, 0) + factor * c
        if value:
            result[monomial] = value
        else:
            result.pop(monomial, None)
    return result


def poly_mul(a: Polynomial, b: Polynomial) -> Polynomial:
    """Return the product."""
    result: Terms = {}
    for ma, ca in a.items():
        for mb, cb in b.items():
            monomial = _merged(ma, mb) if ma and mb else ma or mb
            value = result.get(monomial, 0) + ca * cb
            if value:
                result[monomial] = value
            else:
                result.pop(monomial, None)
    return result


@lru_cache(maxsize=1 << 14)
def _merged(a: Monomial, b: Monomial) -> Monomial:
    return tuple(sorted(a + b, key=atom_key))


def atom_key(atom: Expr) -> tuple[int, str]:
    """Return a stable sort key: dims, then variables, then everything else by its text."""
    if isinstance(atom, DimRef):
        return (0, atom.name)
    if isinstance(atom, Var):
        return (1, atom.name)
    return (2, _text(atom))


@lru_cache(maxsize=4096)
def _text(atom: Expr) -> str:
    return repr(atom)


def from_polynomial(poly: Polynomial) -> Expr:
    """Return the canonical expression: higher degrees first, the constant last."""

    def key(item: tuple[tuple[Expr, ...], int]) -> tuple[int, list[tuple[int, str]]]:
        return (-len(item[0]), [atom_key(a) for a in item[0]])

    terms = sorted(poly.items(), key=key) if len(poly) > 1 else poly.items()
    positive = [(m, c) for m, c in terms if c > 0 and m]
    negative = [(m, c) for m, c in terms if c < 0 and m]
    constant = poly.get((), 0)
    if not positive and constant > 0:
        positive, constant = [((), constant)], 0
    total: Expr | None = None
    for monomial, c in positive:
        term = _term(monomial, c)
        total = term if total is None else Call("add", (total, term), INT64, 1)
    total = const(0) if total is None and not (constant or negative) else total
    for monomial, c in negative:
        if total is None:
            total = _term(monomial, c)
        else:
            total = Call("subtract", (total, _term(monomial, -c)), INT64, 1)
    if constant:
        name = "add" if constant > 0 or total is None else "subtract"
        value = const(abs(constant) if name == "subtract" else constant)
        total = value if total is None else Call(name, (total, value), INT64, 1)
    assert total is not None
    return total


def _term(monomial: tuple[Expr, ...], coefficient: int) -> Expr:
    if not monomial:
        return const(coefficient)
    product = monomial[0]
    for atom in monomial[1:]:
        product = Call("multiply", (product, atom), INT64, 1)
    if coefficient == 1:
        return product
    return Call("multiply", (product, const(coefficient)), INT64, 1)


def add(a: Expr, b: Expr) -> Expr:
    """Return the index sum, ramps kept as ramps."""
    return _linear("add", a, b)


def sub(a: Expr, b: Expr) -> Expr:
    """Return the index difference, ramps kept as ramps."""
    return _linear("subtract", a, b)


def mul(a: Expr, b: Expr) -> Expr:
    """Return the index product; a ramp times a scalar is a ramp."""
    if a.lanes == b.lanes == 1:
        return from_polynomial(poly_mul(polynomial(a), polynomial(b)))
    lanes = max(a.lanes, b.lanes)
    x, y = _as_ramp(a), _as_ramp(b)
    if x is None or y is None:
        return call("multiply", a, b)
    if y[1] == const(0):
        return _ramp(mul(x[0], y[0]), mul(x[1], y[0]), lanes)
    if x[1] == const(0):
        return _ramp(mul(x[0], y[0]), mul(y[1], x[0]), lanes)
    return call("multiply", a, b)


def _linear(name: str, a: Expr, b: Expr) -> Expr:
    sign = 1 if name == "add" else -1
    if a.lanes == b.lanes == 1:
        return from_polynomial(_put_together(poly_add(polynomial(a), polynomial(b), sign)))
    lanes = max(a.lanes, b.lanes)
    x, y = _as_ramp(a), _as_ramp(b)
    if x is None or y is None:
        return call(name, a, b)
    return _ramp(_linear(name, x[0], y[0]), _linear(name, x[1], y[1]), lanes)


def _put_together(poly: Polynomial) -> Polynomial:
    """Return a polynomial with x for `x // 12 * 12 + x % 12`, as reshapes there and back leave."""
    for monomial, c in poly.items():
        for rest in monomial:
            if not isinstance(rest, Call) or rest.name != "floor_mod":
                continue
            value, divisor = rest.args
            times = Call("floor_divide", rest.args, INT64, 1)
            others = list(monomial)
            others.remove(rest)
            key = tuple(sorted((*others, times), key=atom_key))
            if isinstance(divisor, Const) and poly.get(key) == c * int(divisor.value) != 0:
                left = {m: k for m, k in poly.items() if m not in (monomial, key)}
                whole = poly_mul(polynomial(value), {tuple(others): c})
                return _put_together(poly_add(left, whole))
    return poly


def _as_ramp(value: Expr) -> tuple[Expr, Expr] | None:
    if value.lanes == 1:
        return value, const(0)
    if isinstance(value, Ramp):
        return value.base, value.stride
    if isinstance(value, Broadcast):
        return value.value, const(0)
    return None


def _ramp(base: Expr, stride: Expr, lanes: int) -> Expr:
    if stride == const(0):
        return broadcast(base, lanes)
    return Ramp(base, stride, lanes)


def floordiv(a: Expr, b: Expr) -> Expr:
    """Return `floor(a / b)` for int64 indices; division by 0 gives 0."""
    if a.lanes != 1 or b.lanes != 1:
        return _unbroadcast2(a, b, floordiv) or call("floor_divide", a, b)
    if isinstance(b, Const) and int(b.value) > 0:
        quotient, rest = _split(polynomial(a), int(b.value))
        if set(rest) <= {()}:
            return from_polynomial(quotient)
    if isinstance(a, Const) and isinstance(b, Const):
        return const(int(a.value) // int(b.value) if b.value else 0)
    if a == const(0) or b == const(0):
        return const(0)
    return Call("floor_divide", (a, b), INT64, 1)


def floormod(a: Expr, b: Expr) -> Expr:
    """Return `a - b * floor(a / b)` for int64 indices; modulo 0 gives 0."""
    if a.lanes != 1 or b.lanes != 1:
        return _unbroadcast2(a, b, floormod) or call("floor_mod", a, b)
    if isinstance(a, Const) and isinstance(b, Const):
        return const(int(a.value) % int(b.value) if b.value else 0)
    if isinstance(b, Const) and int(b.value) > 0:
        _, rest = _split(polynomial(a), int(b.value))
        if set(rest) <= {()}:
            return const(rest.get((), 0) % int(b.value))
        return Call("floor_mod", (from_polynomial(rest), b), INT64, 1)
    if a == const(0) or b == const(0):
        return const(0)
    return Call("floor_mod", (a, b), INT64, 1)


def _split(poly: Polynomial, divisor: int) -> tuple[Polynomial, Polynomial]:
    """Return the quotient, and the rest with coefficients in [0, divisor)."""
    quotient: Terms = {}
    rest: Terms = {}
    for monomial, c in poly.items():
        if c // divisor:
            quotient[monomial] = c // divisor
        if c % divisor:
            rest[monomial] = c % divisor
    return quotient, rest


def divide_polynomial(a: Expr, b: Expr) -> tuple[Polynomial, Expr]:
    """Return (q, r) with `a = b * q + r`, where b is a positive literal or one product."""
    divisor = polynomial(b)
    if isinstance(b, Const):
        quotient, rest = _split(polynomial(a), int(b.value)) if b.value else ({}, polynomial(a))
        return quotient, from_polynomial(rest)
    if len(divisor) != 1:
        return {}, a
    ((factors, scale),) = divisor.items()
    quotient, rest = {}, {}
    for monomial, c in polynomial(a).items():
        remaining = list(monomial)
        for factor in factors:
            if factor in remaining:
                remaining.remove(factor)
        if len(remaining) == len(monomial) - len(factors) and c % scale == 0:
            quotient[tuple(remaining)] = c // scale
        else:
            rest[monomial] = c
    return quotient, from_polynomial(rest)


def _unbroadcast2(a: Expr, b: Expr, fn: Callable[[Expr, Expr], Expr]) -> Expr | None:
    x = a.value if isinstance(a, Broadcast) else a
    y = b.value if isinstance(b, Broadcast) else b
    if x.lanes == y.lanes == 1:
        return broadcast(fn(x, y), max(a.lanes, b.lanes))
    return None


def minimum(a: Expr, b: Expr) -> Expr:
    """Return the lesser index, folded where the difference is known."""
    return _extreme("minimum", a, b)


def maximum(a: Expr, b: Expr) -> Expr:
    """Return the greater index, folded where the difference is known."""
    return _extreme("maximum", a, b)


def _extreme(name: str, a: Expr, b: Expr) -> Expr:
    if a.lanes == b.lanes == 1:
        difference = poly_add(polynomial(a), polynomial(b), -1)
        if set(difference) <= {()}:
            less = difference.get((), 0) <= 0
            return a if less == (name == "minimum") else b
    return call(name, a, b)


def compare(name: str, a: Expr, b: Expr) -> Expr:
    """Return an index comparison, a literal where it is decided."""
    if a.lanes == b.lanes == 1:
        difference = poly_add(polynomial(a), polynomial(b), -1)
        if set(difference) <= {()}:
            return const(_COMPARISONS[name](difference.get((), 0)), BOOL)
    return call(name, a, b)


def choose(condition: Expr, a: Expr, b: Expr) -> Expr:
    """Return a selection, decided where the condition is a literal or both arms are equal."""
    decided = condition.value if isinstance(condition, Broadcast) else condition
    if isinstance(decided, Const):
        lanes = max(condition.lanes, a.lanes, b.lanes)
        return broadcast(a if decided.value else b, lanes)
    return a if a == b else select(condition, a, b)


def both(a: Expr, b: Expr) -> Expr:
    """Return the conjunction, of bools without literal and equal parts."""
    if a.dtype is not BOOL:
        return call("logical_and", a, b)
    for x, y in ((a, b), (b, a)):
        known = x.value if isinstance(x, Broadcast) else x
        if isinstance(known, Const):
            lanes = max(a.lanes, b.lanes)
            return broadcast(y if known.value else const(False, BOOL), lanes)
    return a if a == b else call("logical_and", a, b)


def negate(a: Expr) -> Expr:
    """Return the logical negation; a comparison turns into its opposite."""
    opposite = {
        "less": "greater_equal",
        "greater_equal": "less",
        "greater": "less_equal",
        "less_equal": "greater",
        "equal": "not_equal",
        "not_equal": "equal",
    }
    if isinstance(a, Const):
        return const(not a.value, BOOL)
    if isinstance(a, Call) and a.name in opposite and a.args[0].dtype == INT64:
        return Call(opposite[a.name], a.args, BOOL, a.lanes)
    return call("logical_not", a)


SMART: dict[str, Callable[[Expr, Expr], Expr]] = {
    "add": add,
    "subtract": sub,
    "multiply": mul,
    "floor_divide": floordiv,
    "floor_mod": floormod,
    "minimum": minimum,
    "maximum": maximum,
    **{name: (lambda a, b, n=name: compare(n, a, b)) for name in _COMPARISONS},  # type: ignore[misc]
}


def simplify(expr: Expr) -> Expr:
    """Return an index expression (int64 or bool over int64) rebuilt with the smart constructors."""
    match expr:
        case Call(name, args) if name in SMART and args[0].dtype == INT64:
            return SMART[name](simplify(args[0]), simplify(args[1]))
        case Call("logical_and", args):
            return both(simplify(args[0]), simplify(args[1]))
        case Call("logical_not", args):
            return negate(simplify(args[0]))
        case Call(name, args):
            return call(name, *(simplify(a) for a in args))
        case Select(condition, a, b):
            return choose(simplify(condition), simplify(a), simplify(b))
        case Broadcast(value, lanes):
            return broadcast(simplify(value), lanes)
        case Ramp(base, stride, lanes):
            return _ramp(simplify(base), simplify(stride), lanes)
        case Index():
            return map_operands(expr, simplify)
        case Cast(value, dtype, lanes):
            return Cast(simplify(value), dtype, lanes)
        case _:
            return expr


def dim_expr(dim: Dim, names: Mapping[DimVar, str]) -> Expr:
    """Return a dim as an int64 expression over the nest's dims."""
    if isinstance(dim, int):
        return const(dim)
    assert not isinstance(dim, AnyDim), "`?` cannot be a dim of a kernel"
    assert isinstance(dim, DimExpr)
    total: Expr = const(0)
    for monomial, c in dim.terms:
        product: Expr = const(c)
        for atom, power in monomial:
            value = DimRef(names[atom]) if isinstance(atom, DimVar) else _term_expr(atom, names)
            for _ in range(power):
                product = mul(product, value)
        total = add(total, product)
    return total


def _term_expr(term: DimTerm, names: Mapping[DimVar, str]) -> Expr:
    a, b = dim_expr(term.a, names), dim_expr(term.b, names)
    if term.op == "broadcast":
        return choose(compare("equal", a, const(1)), b, a)
    return {"//": floordiv, "%": floormod, "min": minimum, "max": maximum}[term.op](a, b)
