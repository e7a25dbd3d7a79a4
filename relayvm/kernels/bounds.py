"""Bounds: proves that every access of a nest is inside its buffer, and puts a check where it
cannot.

The prover knows the ranges of loop variables, that dims are at least 0, the conditions of
enclosing branches and masks, and what `index`, `floor_mod`, `floor_divide`, `minimum`, `maximum`
and selections can yield.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from relayvm.base.abi import Access
from relayvm.base.dtypes import INT64
from relayvm.kernels import simplify as s
from relayvm.kernels.loops import (
    Broadcast,
    Buffer,
    Call,
    Declare,
    DimRef,
    Expr,
    For,
    Gather,
    If,
    Index,
    Let,
    Load,
    Mask,
    Nest,
    Ramp,
    Select,
    Stmt,
    Store,
    TileStore,
    Var,
    broadcast,
    call,
    children,
    const,
    map_operands,
)
from relayvm.kernels.simplify import Polynomial, poly_add, poly_mul, polynomial

MAX_DEPTH = 12
MAX_STEPS = 300
# No text can name it, so no nest can be about it.
_LANE = Var("<lane>")


Edges = tuple[list[Polynomial], list[Polynomial]]


@dataclass
class Prover:
    """Facts that hold at one place of a nest; `child` adds to them for a nested place.

    `edges` holds what each variable is at least and at most, outer variables first.
    """

    edges: dict[Var, Edges] = field(default_factory=dict)
    facts: list[Polynomial] = field(default_factory=list)
    values: dict[Var, Polynomial] = field(default_factory=dict)
    broadcasts: tuple[Expr, ...] = ()
    _depth: int = field(default=0, repr=False)
    _fuel: int = field(default=0, repr=False)
    _failed: dict[frozenset[tuple[tuple[Expr, ...], int]], int] = field(
        default_factory=dict, repr=False
    )

    def child(self) -> Prover:
        """Return a prover with the same knowledge, to be extended."""
        return Prover(
            dict(self.edges),
            list(self.facts),
            dict(self.values),
            self.broadcasts,
            self._depth,
            self._fuel,
        )

    def add_range(self, var: Var, begin: Expr, end: Expr, step: int = 1) -> None:
        """Know that a loop runs over `[begin, end)`, so that it is not empty.

        The last step leaves room for `step` where the length is a multiple of it.
        """
        low, high = polynomial(begin), polynomial(end)
        length = poly_add(high, low, -1)
        room = step if all(c % step == 0 for c in self._expanded(length).values()) else 1
        self.edges.pop(var, None)
        self.edges[var] = ([low], [poly_add(high, {(): -room})])
        self._add_fact(poly_add(length, {(): -room}))

    def _expanded(self, poly: Polynomial) -> Polynomial:
        for var in reversed(self.values):
            poly = _substitute(poly, var, self.values[var])
        return poly

    def add_value(self, var: Var, value: Expr) -> None:
        """Know what an index variable was bound to."""
        if var.dtype != INT64 or var.lanes != 1:
            return
        poly = polynomial(value)
        self.values[var] = poly
        lows, highs = [poly], [poly]
        if isinstance(value, Call) and value.name == "minimum":
            a, b = (polynomial(e) for e in value.args)
            highs = [a, b]
            lows = [low for low in _floors(a, b) if self._both_above(a, b, low)][:1]
        else:
            lows, highs = self._multiple_edges(poly)
        self.edges[var] = (lows, highs)

    def _both_above(self, a: Polynomial, b: Polynomial, low: Polynomial) -> bool:
        return all(self.at_least_zero(poly_add(e, low, -1)) for e in (a, b))

    def _multiple_edges(self, poly: Polynomial) -> Edges:
        """Bound `begin + w * (length // w)` by `begin` and `begin + length`."""
        low, high = poly, poly
        for monomial, c in poly.items():
            if len(monomial) != 1 or not isinstance(monomial[0], Call):
                continue
            atom = monomial[0]
            if c < 0 or atom.name != "floor_divide" or atom.args[1] != const(c):
                continue
            length = polynomial(atom.args[0])
            high = poly_add(poly_add(high, {monomial: c}, -1), length)
            if self.at_least_zero(length):
                low = poly_add(low, {monomial: c}, -1)
        return ([low], [high])

    def add_condition(self, condition: Expr, holds: bool = True) -> None:
        """Know that a condition holds (or does not)."""
        for fact in self._condition_facts(condition, holds):
            self._add_fact(fact)

    def _add_fact(self, fact: Polynomial) -> None:
        self.facts.append(fact)
        # c*n*m >= 1 makes every factor at least 1.
        products = [(m, c) for m, c in fact.items() if m]
        if len(products) != 1 or products[0][1] < 0 or fact.get((), 0) >= 0:
            return
        factors = products[0][0]
        if all(map(_is_natural, factors)) and fact != {factors: 1, (): -1}:
            self.facts += [{(atom,): 1, (): -1} for atom in factors]

    def _condition_facts(self, condition: Expr, holds: bool) -> list[Polynomial]:
        match condition:
            case Broadcast(value):
                return self._condition_facts(value, holds)
            case Call("logical_and", (a, b)) if holds:
                return self._condition_facts(a, True) + self._condition_facts(b, True)
            case Call("logical_or", (a, b)) if not holds:
                return self._condition_facts(a, False) + self._condition_facts(b, False)
            case Call("logical_not", (a,)):
                return self._condition_facts(a, not holds)
            case Mask(count) if holds:
                return [poly_add(poly_add(polynomial(count), {(_LANE,): 1}, -1), {(): -1})]
            case Call(name, (a, b)) if a.dtype == INT64:
                return _comparison_facts(name if holds else _OPPOSITE.get(name, ""), a, b)
            case _:
                return []

    def in_range(self, index: Expr, extent: Expr, lanes: int, *, strided: bool = False) -> bool:
        """Return whether `0 <= index < extent` is proved, in every lane of a vector index."""
        here = self
        if lanes > 1:
            here = self.child()
            here.edges[_LANE] = ([{}], [{(): lanes - 1}])
        value = lane_polynomial(index)
        if not here.at_least_zero(value):
            return False
        rest = poly_add(poly_add(polynomial(extent), value, -1), {(): -1})
        return here.at_least_zero(rest) or (strided and here._below_broadcast(value, extent))

    def _below_broadcast(self, value: Polynomial, extent: Expr) -> bool:
        """A strided axis may be indexed as far as any axis it broadcasts to."""
        for end in self.broadcasts:
            if not any(extent == d for d in _broadcast_parts(end)):
                continue
            if self.at_least_zero(poly_add(poly_add(polynomial(end), value, -1), {(): -1})):
                return True
        return False

    def at_least_zero(self, poly: Polynomial, depth: int = MAX_DEPTH) -> bool:
        """Return whether a polynomial is proved to be at least 0; the search is bounded."""
        if self._depth == 0:
            self._fuel = MAX_STEPS
            self._failed = {}
        self._depth += 1
        try:
            return self._search(poly, depth)
        finally:
            self._depth -= 1

    def _search(self, poly: Polynomial, depth: int) -> bool:
        if all(c >= 0 and all(_is_natural(a) for a in m) for m, c in poly.items()):
            return True
        self._fuel -= 1
        if depth <= 0 or self._fuel <= 0 or set(poly) == {()}:
            return False
        key = frozenset(poly.items())
        if self._failed.get(key, 0) >= depth:
            return False
        self._failed[key] = depth
        bounds = self._innermost(poly)
        if bounds is not None:
            return any(self.at_least_zero(p, depth - 1) for p in bounds)
        return self._by_opaque(poly, depth - 1) or self._by_facts(poly, depth - 1)

    def _innermost(self, poly: Polynomial) -> list[Polynomial] | None:
        """Replace the innermost variable by the ends of its range that are worse, or use a fact.

        A variable inside another atom waits: the atom goes first.
        """
        atoms = {a for m in poly for a in m}
        inside = [a for a in atoms if not isinstance(a, (Var, DimRef))]
        for var in reversed(self.edges):
            if var not in atoms or any(_contains(a, var) for a in inside):
                continue
            sign = _sign_of(poly, var)
            if sign == 0:
                return None
            ends = self.edges[var][0 if sign > 0 else 1]
            # A fact about the variable itself may be sharper than its range.
            facts = [f for f in self.facts if _sign_of(f, var) == sign]
            sharper = [poly_add(poly, f, -1) for f in facts]
            return [p for p in sharper if not any(var in m for m in p)] + [
                _substitute(poly, var, end) for end in ends
            ]
        return None

    def _by_facts(self, poly: Polynomial, depth: int) -> bool:
        for fact in self.facts:
            shared = set(fact) & set(poly) - {()}
            if shared and self.at_least_zero(poly_add(poly, fact, -1), min(depth, 3)):
                return True
        return False

    def _by_opaque(self, poly: Polynomial, depth: int) -> bool:
        """Use what is known of an atom that is not a variable."""
        for monomial, c in poly.items():
            for atom in monomial:
                if isinstance(atom, (Var, DimRef)) or sum(atom in m for m in poly) != 1:
                    continue
                if monomial == (atom,) and self._floordiv_edge(poly, atom, c, depth):
                    return True
                for low, high in self._atom_bounds(atom, depth):
                    edge: Polynomial | None = low if c > 0 else high
                    if edge is not None and self.at_least_zero(
                        _substitute(poly, atom, edge), depth
                    ):
                        return True
                if self._by_extreme(poly, atom, c, depth):
                    return True
        selects = {a for m in poly for a in m if isinstance(a, Select)}
        return any(self._by_arms(poly, atom, depth) for atom in selects)

    def _by_extreme(self, poly: Polynomial, atom: Expr, c: int, depth: int) -> bool:
        """Show it for both arguments of a `minimum` that helps, or of a `maximum` that hurts."""
        if not isinstance(atom, Call) or atom.name != ("minimum" if c > 0 else "maximum"):
            return False
        return all(
            self.at_least_zero(_substitute(poly, atom, polynomial(a)), depth) for a in atom.args
        )

    def _by_arms(self, poly: Polynomial, atom: Select, depth: int) -> bool:
        for arm, truth in ((atom.a, True), (atom.b, False)):
            inner = self.child()
            inner.add_condition(atom.condition, truth)
            proved = inner.at_least_zero(_substitute(poly, atom, polynomial(arm)), depth)
            self._fuel = inner._fuel
            if not proved:
                return False
        return True

    def _floordiv_edge(self, poly: Polynomial, atom: Expr, c: int, depth: int) -> bool:
        """Use `d * (e // d) <= e < d * (e // d) + d`, for one term `c * (e // d)`."""
        if not (isinstance(atom, Call) and atom.name == "floor_divide"):
            return False
        numerator, divisor = (polynomial(a) for a in atom.args)
        rest = {m: k for m, k in poly.items() if m != (atom,)}
        if set(divisor) == {()} and divisor[()] > 0 and c % divisor[()] == 0:
            d = divisor[()]
            edge = numerator if c < 0 else poly_add(numerator, {(): 1 - d})
            return self.at_least_zero(poly_add(rest, edge, c // d), depth)
        if c != -1 or not self.at_least_zero(poly_add(divisor, {(): -1}), depth):
            return False
        # rest - e // d >= 0 follows from e < (rest + 1) * d.
        limit = poly_mul(poly_add(rest, {(): 1}), divisor)
        goal = poly_add(poly_add(limit, numerator, -1), {(): -1})
        return self.at_least_zero(goal, depth)

    def _atom_bounds(
        self, atom: Expr, depth: int
    ) -> list[tuple[Polynomial | None, Polynomial | None]]:
        match atom:
            case Index(_, extent):
                return [({}, poly_add(polynomial(extent), {(): -1}))]
            case Call("floor_mod", (_, divisor)):
                top = poly_add(polynomial(divisor), {(): -1})
                if not self.at_least_zero(polynomial(divisor), depth - 1):
                    return []
                return [({}, top if self.at_least_zero(top, depth - 1) else None)]
            case Call("floor_divide", (a, b)):
                natural = self.at_least_zero(polynomial(a), depth - 1) and self.at_least_zero(
                    polynomial(b), depth - 1
                )
                return [({}, polynomial(a)) if natural else (None, None)]
            case Call("minimum", (a, b)):
                return [(None, polynomial(a)), (None, polynomial(b))]
            case Call("maximum", (a, b)):
                return [(polynomial(a), None), (polynomial(b), None)]
            case _:
                return []


_OPPOSITE = {
    "less": "greater_equal",
    "greater_equal": "less",
    "greater": "less_equal",
    "less_equal": "greater",
    "not_equal": "equal",
}


def _comparison_facts(name: str, a: Expr, b: Expr) -> list[Polynomial]:
    x, y = lane_polynomial(a), lane_polynomial(b)
    up, down = poly_add(y, x, -1), poly_add(x, y, -1)
    one: Polynomial = {(): -1}
    return {
        "less": [poly_add(up, one)],
        "less_equal": [up],
        "greater": [poly_add(down, one)],
        "greater_equal": [down],
        "equal": [up, down],
    }.get(name, [])


def lane_polynomial(index: Expr) -> Polynomial:
    """Return an index as a polynomial, a vector's lane number being a variable."""
    match index:
        case Ramp(base, stride):
            return poly_add(polynomial(base), poly_mul(polynomial(stride), {(_LANE,): 1}))
        case Broadcast(value):
            return polynomial(value)
        case Call("add", (a, b)) if index.lanes > 1:
            return poly_add(lane_polynomial(a), lane_polynomial(b))
        case Call("subtract", (a, b)) if index.lanes > 1:
            return poly_add(lane_polynomial(a), lane_polynomial(b), -1)
        case Call("multiply", (a, b)) if index.lanes > 1:
            return poly_mul(lane_polynomial(a), lane_polynomial(b))
        case Call(name, args, dtype) if index.lanes > 1 and dtype == INT64:
            scalars = tuple(s.from_polynomial(lane_polynomial(a)) for a in args)
            return polynomial(Call(name, scalars, INT64, 1))
        case Select(condition, a, b) if index.lanes > 1:
            x, y = (s.from_polynomial(lane_polynomial(e)) for e in (a, b))
            return polynomial(Select(_scalar_condition(condition), x, y, INT64, 1))
        case _:
            return polynomial(index)


def _scalar_condition(condition: Expr) -> Expr:
    match condition:
        case Broadcast(value):
            return value
        case Call(name, args, dtype):
            parts = tuple(
                s.from_polynomial(lane_polynomial(a)) if a.dtype == INT64 else _scalar_condition(a)
                for a in args
            )
            return Call(name, parts, dtype, 1)
        case _:
            return condition


def _broadcast_parts(end: Expr) -> tuple[Expr, ...]:
    if isinstance(end, Select):
        return (end, *_broadcast_parts(end.a), *_broadcast_parts(end.b))
    return (end,)


def _is_natural(atom: Expr) -> bool:
    return isinstance(atom, DimRef)


def _contains(expr: Expr, var: Var) -> bool:
    return expr == var or any(_contains(e, var) for e in children(expr))


def _floors(a: Polynomial, b: Polynomial) -> list[Polynomial]:
    """Return guesses of what both arguments of a minimum are at least: `begin + 1`, `begin`, 0."""
    plain = [{m: c for m, c in p.items() if m} for p in (a, b)]
    return [poly_add(p, {(): k}) for k in (1, 0) for p in plain] + [{}]


def _substitute(poly: Polynomial, atom: Expr, value: Polynomial) -> Polynomial:
    result: Polynomial = {}
    for monomial, c in poly.items():
        product: Polynomial = {(): c}
        for factor in monomial:
            product = poly_mul(product, value if factor == atom else {(factor,): 1})
        result = poly_add(result, product)
    return result


def _sign_of(poly: Polynomial, var: Var) -> int:
    """Return the sign of the coefficient of a variable that stands in no product but with dims."""
    signs = set()
    for monomial, c in poly.items():
        if var not in monomial:
            continue
        others = list(monomial)
        others.remove(var)
        if not all(_is_natural(a) for a in others):
            return 0
        signs.add(1 if c > 0 else -1)
    return signs.pop() if len(signs) == 1 else 0


def ensure_bounds(nest: Nest) -> Nest:
    """Return the nest with every access proved inside its buffer, or checked.

    A scalar index that is not proved becomes `index(i, extent, trap)`; a masked or vector access
    gets the check in its mask. What needs no check is left as it is.
    """
    phases = []
    for phase in nest.phases:
        prover = Prover(broadcasts=broadcast_extents((*nest.operands, *nest.scratch)))
        prover.add_range(phase.var, const(0), phase.extent)
        phases.append(replace(phase, body=_check_block(phase.body, prover)))
    return replace(nest, phases=tuple(phases))


def broadcast_extents(buffers: Iterable[Buffer]) -> tuple[Expr, ...]:
    """Return the extents that are broadcast at run time."""
    return tuple({e: None for b in buffers for e in b.shape if isinstance(e, Select)})


def _check_block(body: tuple[Stmt, ...], prover: Prover) -> tuple[Stmt, ...]:
    result: list[Stmt] = []
    for stmt in body:
        match stmt:
            case For(var, begin, end, step):
                inner = prover.child()
                inner.add_range(var, begin, end, step)
                stmt = replace(stmt, body=_check_block(stmt.body, inner))
            case If(condition):
                condition = _check_expr(condition, prover)
                yes, no = prover.child(), prover.child()
                yes.add_condition(condition)
                no.add_condition(condition, False)
                stmt = If(condition, _check_block(stmt.then, yes), _check_block(stmt.otherwise, no))
            case Let(var, value):
                value = _check_expr(value, prover)
                stmt = Let(var, value)
                prover.add_value(var, value)
            case Store(buffer, indices, value, mask):
                value = _check_expr(value, prover)
                indices = tuple(_check_expr(i, prover) for i in indices)
                indices, mask = _checked(buffer, indices, value.lanes, mask, prover)
                stmt = Store(buffer, indices, value, mask)
            case TileStore(tile, index, value):
                stmt = TileStore(tile, index, _check_expr(value, prover))
            case Declare():
                pass
        result.append(stmt)
    return tuple(result)


def _check_expr(expr: Expr, prover: Prover) -> Expr:
    expr = map_operands(expr, lambda e: _check_expr(e, prover))
    if isinstance(expr, Load):
        indices, mask = _checked(expr.buffer, expr.indices, expr.lanes, expr.mask, prover)
        return replace(expr, indices=indices, mask=mask)
    if isinstance(expr, Gather):
        mask = expr.mask
        here = _with_mask(prover, mask)
        strided = expr.buffer.access is Access.STRIDED
        for i, e in zip(expr.indices, extents_of(expr.buffer, len(expr.indices))):
            if not here.in_range(i, e, expr.lanes, strided=strided):
                mask = _and_range(mask, i, e, expr.lanes)
        return replace(expr, mask=mask)
    return expr


def _with_mask(prover: Prover, mask: Expr | None) -> Prover:
    if mask is None:
        return prover
    inner = prover.child()
    inner.add_condition(mask)
    return inner


def _checked(
    buffer: Buffer, indices: tuple[Expr, ...], lanes: int, mask: Expr | None, prover: Prover
) -> tuple[tuple[Expr, ...], Expr | None]:
    here = _with_mask(prover, mask)
    strided = buffer.access is Access.STRIDED
    checked = list(indices)
    for axis, extent in enumerate(extents_of(buffer, len(indices))):
        index = indices[axis]
        if lanes > 1 and axis == len(indices) - 1:
            ramp = Ramp(index, const(1), lanes)
            if not here.in_range(ramp, extent, lanes, strided=strided):
                mask = _and_range(mask, ramp, extent, lanes)
        elif not here.in_range(index, extent, 1, strided=strided):
            if mask is None and lanes == 1:
                checked[axis] = Index(index, extent, "trap")
            else:
                mask = _and_range(mask, index, extent, lanes)
    return tuple(checked), mask


def _and_range(mask: Expr | None, index: Expr, extent: Expr, lanes: int) -> Expr:
    low = call("greater_equal", broadcast(index, lanes), broadcast(const(0), lanes))
    high = call("less", broadcast(index, lanes), broadcast(extent, lanes))
    check = call("logical_and", low, high)
    return check if mask is None else call("logical_and", mask, check)


def extents_of(buffer: Buffer, count: int) -> tuple[Expr, ...]:
    """Return what `count` indices run over: the shape, or its product for a flat index."""
    if count == len(buffer.shape):
        return buffer.shape
    assert count == 1, f"{count} indices on {buffer.name}"
    total: Expr = const(1)
    for extent in buffer.shape:
        total = s.mul(total, extent)
    return (total,)
