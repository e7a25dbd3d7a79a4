"""The prover: shows that polynomials over dims and loop variables are at least 0.

It knows the ranges of loop variables, that dims are at least 0, the conditions of enclosing
branches and masks, and what `index`, `floor_mod`, `floor_divide`, `minimum`, `maximum` and
selections can yield.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from functools import lru_cache
from math import gcd
from typing import Union

from relayvm.base.dtypes import INT64
from relayvm.kernels.index import simplify as s
from relayvm.kernels.index.simplify import Monomial, Polynomial, poly_add, poly_mul, polynomial
from relayvm.kernels.loops import (
    Broadcast,
    Call,
    Const,
    DimRef,
    Expr,
    Gather,
    Index,
    Load,
    Mask,
    Ramp,
    Select,
    TileLoad,
    Var,
    children,
    const,
)

MAX_DEPTH = 12
# The most steps for each depth. Most proofs are short, and without a limit the search may pass by
# them.
LIMITS = {3: 40, 6: 60, MAX_DEPTH: 120}
MAX_INDEX = 2**63 - 1
# No text can name it, so no nest can be about it.
_LANE = Var("<lane>")


# What is not above and not below a variable, and a number that is greater for inner variables.
Edges = tuple[list[Polynomial], list[Polynomial], int]
_ranks = itertools.count()
# Least and greatest value; None for no greatest.
Interval = tuple[int, Union[int, None]]
ProofKey = tuple[frozenset[tuple[Monomial, int]], int]
Fact = tuple[Polynomial, frozenset[Expr]]
Spans = dict[Expr, Union[Interval, None]]


@dataclass
class Prover:
    """Facts that hold at one place of a nest; `child` adds to them for a nested place.

    `edges` holds what each variable is at least and at most; `intervals`
    the same as numbers where they are known, which decide most questions; `facts` polynomials that
    are at least 0, each with its atoms.
    """

    edges: dict[Var, Edges] = field(default_factory=dict)
    facts: list[Fact] = field(default_factory=list)
    values: dict[Var, Polynomial] = field(default_factory=dict)
    intervals: dict[Var, Interval] = field(default_factory=dict)
    # What variables are known to be multiples of.
    multiples: dict[Var, int] = field(default_factory=dict)
    broadcasts: tuple[Expr, ...] = ()
    parent: Prover | None = field(default=None, repr=False)
    # True where conditions contradict each other: what is never run is always in range.
    is_dead: bool = False
    # The least constant with which a sum of terms was proved, and the most with which it was not.
    _proved: dict[ProofKey, int] = field(default_factory=dict, repr=False)
    _refused: dict[ProofKey, int] = field(default_factory=dict, repr=False)
    _masked: dict[Expr, Prover] = field(default_factory=dict, repr=False)
    _laned: dict[int, Prover] = field(default_factory=dict, repr=False)
    # Which indices are known to be, or not to be, below what axes broadcast to.
    _below: dict[tuple[frozenset[tuple[Monomial, int]], Expr], bool] = field(
        default_factory=dict, repr=False
    )
    # The intervals of atoms that were asked for, for each number of lanes; now those of `always`.
    _lane_spans: dict[int, Spans] = field(default_factory=dict, repr=False)
    _spans: Spans = field(default_factory=dict, repr=False)
    # The facts about a variable, with the signs that it has in them, and those with a product.
    _about: dict[Var, list[tuple[Polynomial, int]]] = field(default_factory=dict, repr=False)
    _with: dict[Monomial, list[int]] = field(default_factory=dict, repr=False)
    _fuel: int = field(default=0, repr=False)
    # Whether the search ended somewhere because it was too deep or long.
    _was_cut: bool = field(default=False, repr=False)
    _failed: dict[frozenset[tuple[tuple[Expr, ...], int]], int] = field(
        default_factory=dict, repr=False
    )

    def child(self) -> Prover:
        """Return a prover with the same knowledge, to be extended."""
        return Prover(
            dict(self.edges),
            list(self.facts),
            dict(self.values),
            dict(self.intervals),
            dict(self.multiples),
            self.broadcasts,
            self,
            self.is_dead,
        )

    def masked(self, mask: Expr | None) -> Prover:
        """Return a prover that knows besides that a mask holds."""
        if mask is None:
            return self
        if mask not in self._masked:
            inner = self._masked[mask] = self.child()
            inner.add_condition(mask)
        return self._masked[mask]

    def add_range(self, var: Var, begin: Expr, end: Expr, step: int = 1) -> None:
        """Know that a loop runs over `[begin, end)`, so that it is not empty.

        The last step leaves room for `step` where the length is a multiple of it.
        """
        if not (is_stable(begin) and is_stable(end)):
            self._set_edges(
                var,
                [polynomial(begin)] if is_stable(begin) else [],
                [poly_add(polynomial(end), {(): -1})] if is_stable(end) else [],
            )
            return
        low, high = polynomial(begin), polynomial(end)
        self.multiples[var] = gcd(step, self.divisor(low))
        length = poly_add(high, low, -1)
        room = step if all(c % step == 0 for c in self._expanded(length).values()) else 1
        self._set_edges(var, [low], [poly_add(high, {(): -room})])
        self._add_fact(poly_add(length, {(): -room}))

    def divisor(self, poly: Polynomial) -> int:
        """Return the greatest number that a sum is known to be a multiple of; 0 for 0 itself."""
        found = 0
        for monomial, c in poly.items():
            term = c
            for atom in monomial:
                term *= self.multiples.get(atom, 1) if isinstance(atom, Var) else 1
            found = gcd(found, term)
        return found

    def _expanded(self, poly: Polynomial) -> Polynomial:
        for var in reversed(self.values):
            poly = _substitute(poly, var, self.values[var])
        return poly

    def add_value(self, var: Var, value: Expr) -> None:
        """Know what an index variable was bound to."""
        if var.dtype != INT64 or var.lanes != 1:
            return
        if not is_stable(value):
            if isinstance(value, Index) and is_stable(value.extent):
                top = poly_add(polynomial(value.extent), {(): -1})
                self._set_edges(var, [{}], [top])
            return
        poly = polynomial(value)
        self.values[var] = poly
        self.multiples[var] = self.divisor(poly)
        lows, highs = [poly], [poly]
        if isinstance(value, Call) and value.name == "minimum":
            a, b = (polynomial(e) for e in value.args)
            highs = [a, b]
            lows = next(([low] for low in _floors(a, b) if self._both_above(a, b, low)), [])
        else:
            lows, highs = self._multiple_edges(poly)
        self._set_edges(var, lows, highs)
        self._narrow(var, poly)

    def _narrow(self, var: Var, poly: Polynomial) -> None:
        """Know the range that the value of a variable has as numbers, which its edges may miss."""
        known, low = self.intervals.get(var), self._least(poly)
        high = self._least(poly_add({}, poly, -1))
        if known is None or low is None or high is None:
            return
        most = -high if known[1] is None else min(known[1], -high)
        self.intervals[var] = (max(known[0], low), most)
        self._forget_spans()

    def _set_edges(self, var: Var, lows: list[Polynomial], highs: list[Polynomial]) -> None:
        if var in self.intervals or var in self.edges:
            self._proved, self.parent = {}, None
        self._masked, self._laned, self._refused, self._below = {}, {}, {}, {}
        self.edges.pop(var, None)
        self.edges[var] = (lows, highs, next(_ranks))
        least = [e for e in map(self._least, lows) if e is not None]
        most = [-e for e in (self._least(poly_add({}, h, -1)) for h in highs) if e is not None]
        self.intervals.pop(var, None)
        if least:
            self.intervals[var] = (max(least), min(most) if most else None)
        self._forget_spans()

    def _forget_spans(self) -> None:
        self._lane_spans, self._spans = {}, {}

    def _least(self, poly: Polynomial) -> int | None:
        """Return what a polynomial is at least, each product of atoms taken for itself."""
        total, spans = 0, self._spans
        for monomial, c in poly.items():
            low: int = 1
            high: int | None = 1
            for atom in monomial:
                try:
                    span = spans[atom]
                except KeyError:
                    span = spans[atom] = self._interval(atom)
                if span is None or (span[0] < 0 and len(monomial) > 1):
                    return None
                low *= span[0]
                high = None if high is None or span[1] is None else high * span[1]
            edge = low if c > 0 else high
            if edge is None:
                return None
            total += c * edge
        return total

    def _is_natural(self, poly: Polynomial) -> bool:
        least = self._least(poly)
        return least is not None and least >= 0

    def _interval(self, atom: Expr) -> Interval | None:
        if isinstance(atom, Var):
            return self.intervals.get(atom)
        if isinstance(atom, DimRef):
            return (0, None)
        match atom:
            case Index(_, Const(extent)):
                return (0, max(0, int(extent) - 1))
            case Call("floor_mod", (a, Const(divisor))) if divisor > 0:
                whole = int(divisor)
                return (0, whole - gcd(self.divisor(polynomial(a)), whole))
            case Call("floor_divide", (a, Const(divisor))) if divisor > 0:
                low = self._least(polynomial(a))
                high = self._least(poly_add({}, polynomial(a), -1))
                d = int(divisor)
                return None if low is None else (low // d, None if high is None else -high // d)
            case _:
                return None

    def _both_above(self, a: Polynomial, b: Polynomial, low: Polynomial) -> bool:
        return all(self.at_least_zero(poly_add(e, low, -1)) for e in (a, b))

    def _multiple_edges(self, poly: Polynomial) -> tuple[list[Polynomial], list[Polynomial]]:
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
        """Know that a condition holds (or does not); what it reads from memory may change."""
        for fact in self._condition_facts(condition, holds):
            self._add_fact(fact)

    def _add_fact(self, fact: Polynomial) -> None:
        self._masked, self._laned, self._refused, self._below = {}, {}, {}, {}
        atoms = frozenset(atom for monomial in fact for atom in monomial)
        if not atoms:
            self.is_dead = self.is_dead or fact.get((), 0) < 0
            return
        if not all(map(is_stable, atoms)):
            return
        self._about, self._with = {}, {}
        self.facts.append((fact, atoms))
        # c*n*m >= 1 makes every factor at least 1.
        products = [(m, c) for m, c in fact.items() if m]
        if len(products) != 1 or products[0][1] < 0 or fact.get((), 0) >= 0:
            return
        factors = products[0][0]
        natural = all(self._is_natural({(atom,): 1}) for atom in factors)
        if natural and (len(factors) > 1 or fact != {factors: 1, (): -1}):
            self.facts += [({(atom,): 1, (): -1}, frozenset((atom,))) for atom in factors]

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
        last = _held_last(index)
        if last is not None and self._is_last(last, extent):
            return True
        value = lane_polynomial(index)
        if not self.always(value, lanes):
            return False
        if strided and self._shown_below(value, extent, lanes):
            return True
        return self.always(poly_add(poly_add(polynomial(extent), value, -1), {(): -1}), lanes)

    def _is_last(self, place: Expr, extent: Expr) -> bool:
        """Return whether there is a last element below an extent, at a place or behind it."""
        value = polynomial(place)
        rest = poly_add(poly_add(polynomial(extent), value, -1), {(): -1})
        return self.always(value, 1) and self.always(rest, 1)

    def always(self, poly: Polynomial, lanes: int) -> bool:
        """Return whether a polynomial is proved to be at least 0 in each of `lanes` lanes."""
        if self.is_dead:
            return True
        # A scalar is there for any lane, about which conditions may say something.
        self.intervals.pop(_LANE, None)
        if lanes > 1:
            self.intervals[_LANE] = (0, lanes - 1)
        self._spans = self._lane_spans.setdefault(lanes, {})
        return self._is_natural(poly) or self._shown(self._in_lanes(lanes), poly, lanes)

    def _in_lanes(self, lanes: int) -> Prover:
        if lanes == 1:
            return self
        if lanes not in self._laned:
            inner = self._laned[lanes] = self.child()
            inner.edges[_LANE] = ([{}], [{(): lanes - 1}], next(_ranks))
        return self._laned[lanes]

    def decide(self, condition: Expr) -> bool | None:
        """Return what a condition is known to be in all lanes, or None."""
        truths = (t for t in (True, False) if self._follows(condition, t, condition.lanes))
        return next(truths, None)

    def _follows(self, condition: Expr, holds: bool, lanes: int) -> bool:
        match condition:
            case Broadcast(value):
                return self._follows(value, holds, 1)
            case Call("logical_not", (a,)):
                return self._follows(a, not holds, lanes)
            case Call("logical_and" | "logical_or" as name, args):
                enough = all if holds == (name == "logical_and") else any
                return enough(self._follows(a, holds, lanes) for a in args)
            case Call(name, (a, b)) if a.dtype == INT64:
                facts = _comparison_facts(name if holds else _OPPOSITE.get(name, ""), a, b)
                return bool(facts) and all(self.always(f, lanes) for f in facts)
            case _:
                return False

    def _shown(self, here: Prover, poly: Polynomial, lanes: int) -> bool:
        """Return whether a polynomial is at least 0 `here`, which may have been asked before."""
        key = (frozenset(item for item in poly.items() if item[0]), lanes)
        constant = poly.get((), 0)
        known: Prover | None = self
        while known is not None:
            if known._proved.get(key, constant + 1) <= constant:
                return True
            known = known.parent
        outer = self._home(poly)
        if outer is not self and lanes == 1 and outer._ask(key, poly, constant):
            return True
        proved = here._ask(key, poly, constant)
        if proved:
            self._proved[key] = constant
        return proved

    def _ask(self, key: ProofKey, poly: Polynomial, constant: int) -> bool:
        if self._refused.get(key, constant - 1) >= constant:
            return False
        proved = self.at_least_zero(poly)
        (self._proved if proved else self._refused)[key] = constant
        return proved

    def _home(self, poly: Polynomial) -> Prover:
        """Return the outermost place where all variables of a polynomial are known."""
        variables = {a for m in poly for a in m if isinstance(a, Var)}
        home = self
        while home.parent is not None and variables <= home.parent.edges.keys():
            home = home.parent
        return home

    def _shown_below(self, value: Polynomial, extent: Expr, lanes: int) -> bool:
        """Return whether an index of a strided axis is proved to be below what it may reach."""
        outer = self._home(value)
        if outer is not self and lanes == 1 and outer._below_broadcast(value, extent):
            return True
        return self._in_lanes(lanes)._below_broadcast(value, extent)

    def _below_broadcast(self, value: Polynomial, extent: Expr) -> bool:
        """A strided axis may be indexed as far as any axis it broadcasts to.

        Any size that is broadcast from its own is such an axis: what checks the operands of the
        kernel lets no sizes pass that do not agree with it. So is a number in it that is not 1: the
        axis has that size or 1.
        """
        key = (frozenset(value.items()), extent)
        if key not in self._below:
            ends = [
                e
                for end in self.broadcasts
                if extent in broadcast_parts(end)
                for e in _reached(end)
            ]
            low = poly_add({(): -1}, value, -1)
            goals = [poly_add(polynomial(end), low) for end in (*ends, reach(extent))]
            self._below[key] = self._shown_by_search(*goals)
        return self._below[key]

    def at_least_zero(self, poly: Polynomial) -> bool:
        """Return whether a polynomial is proved to be at least 0; the search is bounded."""
        return self._shown_by_search(poly)

    def _shown_by_search(self, *goals: Polynomial) -> bool:
        """Return whether one of some polynomials is proved to be at least 0."""
        for depth, fuel in LIMITS.items():
            ended = True
            for goal in goals:
                self._fuel = fuel
                self._failed, self._was_cut = {}, False
                if self._search(goal, depth):
                    return True
                ended = ended and not self._was_cut
            if ended:  # a deeper search would find no more
                break
        return False

    def _search(self, poly: Polynomial, depth: int) -> bool:
        if self._is_natural(poly):
            return True
        self._fuel -= 1
        if len(poly) == 1 and () in poly:
            return False
        if depth <= 0 or self._fuel <= 0:
            self._was_cut = True
            return False
        key = frozenset(poly.items())
        if self._failed.get(key, 0) >= depth:
            return False
        self._failed[key] = depth
        bounds = self._innermost(poly)
        if bounds is not None:
            return any(self._search(p, depth - 1) for p in bounds)
        return self._by_opaque(poly, depth - 1) or self._by_facts(poly, depth - 1)

    def _innermost(self, poly: Polynomial) -> list[Polynomial] | None:
        """Replace the innermost variable by the ends of its range that are worse, or use a fact.

        A variable inside another atom waits: the atom goes first.
        """
        known: list[tuple[int, Var]] = []
        held: frozenset[Var] = frozenset()
        for atom in {a for m in poly for a in m}:
            if isinstance(atom, Var):
                if atom in self.edges:
                    known.append((self.edges[atom][2], atom))
            elif not isinstance(atom, DimRef):
                held |= variables_in(atom)
        known = [k for k in known if k[1] not in held] if held else known
        if not known:
            return None
        _, var = max(known) if len(known) > 1 else known[0]
        sign = _sign_of(poly, var)
        if sign == 0:
            return None
        lows, highs, _ = self.edges[var]
        # A fact about the variable itself may be sharper than its range.
        facts = [f for f, sign_there in self._facts_about(var) if sign_there == sign]
        sharper = [poly_add(poly, f, -_times(poly, f, var)) for f in facts]
        return [p for p in sharper if not any(var in m for m in p)] + [
            _substitute(poly, var, end) for end in (lows if sign > 0 else highs)
        ]

    def _facts_about(self, var: Var) -> list[tuple[Polynomial, int]]:
        if var not in self._about:
            facts = (f for f, about in self.facts if var in about)
            self._about[var] = [(f, _sign_of(f, var)) for f in facts]
        return self._about[var]

    def _by_facts(self, poly: Polynomial, depth: int) -> bool:
        if not self._with:
            for number, (fact, _) in enumerate(self.facts):
                for monomial in fact:
                    if monomial:
                        self._with.setdefault(monomial, []).append(number)
        sharing = {number for m in poly if m in self._with for number in self._with[m]}
        for number in sorted(sharing):
            fact = self.facts[number][0]
            if self._search(poly_add(poly, fact, -1), min(depth, 3)):
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
                    if edge is not None and self._search(_substitute(poly, atom, edge), depth):
                        return True
                if self._by_extreme(poly, atom, c, depth):
                    return True
        selects = {a for m in poly for a in m if isinstance(a, Select)}
        return any(self._by_arms(poly, atom, depth) for atom in selects)

    def _by_extreme(self, poly: Polynomial, atom: Expr, c: int, depth: int) -> bool:
        """Show it for both arguments of a `minimum` that helps, or of a `maximum` that hurts."""
        if not isinstance(atom, Call) or atom.name != ("minimum" if c > 0 else "maximum"):
            return False
        return all(self._search(_substitute(poly, atom, polynomial(a)), depth) for a in atom.args)

    def _by_arms(self, poly: Polynomial, atom: Select, depth: int) -> bool:
        for arm, truth in ((atom.a, True), (atom.b, False)):
            inner = self.child()
            inner.add_condition(atom.condition, truth)
            inner._fuel = self._fuel
            proved = inner._search(_substitute(poly, atom, polynomial(arm)), depth)
            self._fuel, self._was_cut = inner._fuel, self._was_cut or inner._was_cut
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
            return self._search(poly_add(rest, edge, c // d), depth)
        if c != -1 or not self._search(poly_add(divisor, {(): -1}), depth):
            return False
        # rest - e // d >= 0 follows from e < (rest + 1) * d.
        limit = poly_mul(poly_add(rest, {(): 1}), divisor)
        goal = poly_add(poly_add(limit, numerator, -1), {(): -1})
        return self._search(goal, depth)

    def _quotient_highs(self, atom: Expr, depth: int) -> list[Polynomial]:
        """Return what is not less than an atom: `x // d <= n - 1` where `x <= n * d - 1`.

        Blocks of several axes are numbered together, and taken apart that way.
        """
        if isinstance(atom, Var):
            return self.edges[atom][1] if atom in self.edges else []
        if not (isinstance(atom, Call) and atom.name == "floor_divide"):
            return []
        a, divisor = atom.args
        if not self._search(poly_add(polynomial(divisor), {(): -1}), depth - 1):
            return []
        found = []
        self._was_cut = self._was_cut or depth <= 1
        for high in self._quotient_highs(a, depth - 1) if depth > 1 else ():
            product = s.from_polynomial(poly_add(high, {(): 1}))
            quotient, rest = s.divide_polynomial(product, divisor)
            if rest == const(0):
                found.append(poly_add(quotient, {(): -1}))
        return found

    def _atom_bounds(
        self, atom: Expr, depth: int
    ) -> list[tuple[Polynomial | None, Polynomial | None]]:
        match atom:
            case Index(_, extent):
                return [({}, poly_add(polynomial(extent), {(): -1}))]
            case Call("floor_mod", (_, divisor)):
                top = poly_add(polynomial(divisor), {(): -1})
                if not self._search(polynomial(divisor), depth - 1):
                    return []
                return [({}, top if self._search(top, depth - 1) else None)]
            case Call("floor_divide", (a, b)):
                natural = self._search(polynomial(a), depth - 1) and self._search(
                    polynomial(b), depth - 1
                )
                highs = [(None, high) for high in self._quotient_highs(atom, depth)]
                return [({}, polynomial(a)) if natural else (None, None), *highs]
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


def _held_last(index: Expr) -> Expr | None:
    """Return up to where each lane is the nearest to a value from 0 on, or None."""
    match index:
        case Call("minimum", (Call("maximum", (_, Broadcast(Const(low)))), Broadcast(last))):
            return last if low >= 0 else None
        case _:
            return None


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


def reach(extent: Expr) -> Expr:
    """Return what indices of a strided axis are below: its extent, but anything where that is 1."""
    return s.choose(s.compare("equal", extent, const(1)), const(MAX_INDEX), extent)


@lru_cache(maxsize=1 << 14)
def is_stable(expr: Expr) -> bool:
    """Return whether an expression has one value wherever its names do: it reads no memory."""
    if isinstance(expr, (Load, Gather, TileLoad)):
        return False
    return all(map(is_stable, children(expr)))


@lru_cache(maxsize=1 << 14)
def variables_in(expr: Expr) -> frozenset[Var]:
    """Return the variables in an expression."""
    if isinstance(expr, Var):
        return frozenset((expr,))
    return frozenset().union(*map(variables_in, children(expr)))


@lru_cache(maxsize=1 << 10)
def broadcast_parts(end: Expr) -> tuple[Expr, ...]:
    """Return the sizes that a broadcast one is made of, and itself."""
    if isinstance(end, Select):
        return (end, *broadcast_parts(end.a), *broadcast_parts(end.b))
    return (end,)


@lru_cache(maxsize=1 << 10)
def _reached(end: Expr) -> tuple[Expr, ...]:
    """Return what sizes with a part in a broadcast one are, unless they are 1: the size itself, and
    each number in it but 1.
    """
    return (end, *(e for e in broadcast_parts(end) if isinstance(e, Const) and e.value != 1))


def _is_natural(atom: Expr) -> bool:
    return isinstance(atom, DimRef)


def _floors(a: Polynomial, b: Polynomial) -> list[Polynomial]:
    """Return guesses of what both arguments of a minimum are at least: `begin + 1`, `begin`, 0."""
    plain = [{m: c for m, c in p.items() if m} for p in (a, b)]
    return [poly_add(p, {(): k}) for k in (1, 0) for p in plain] + [{}]


def _substitute(poly: Polynomial, atom: Expr, value: Polynomial) -> Polynomial:
    result = {m: c for m, c in poly.items() if atom not in m}
    if len(result) == len(poly):
        return poly
    for monomial, c in poly.items():
        if atom not in monomial:
            continue
        product: Polynomial = {tuple(a for a in monomial if a != atom): c}
        for _ in range(monomial.count(atom)):
            product = poly_mul(product, value)
        for term, k in product.items():
            total = result.get(term, 0) + k
            if total:
                result[term] = total
            else:
                del result[term]
    return result


def _times(poly: Polynomial, fact: Polynomial, var: Var) -> int:
    """Return how often a fact must be taken from a polynomial to be rid of a variable."""
    alone = (var,)
    if abs(fact.get(alone, 0)) != 1:
        return 1
    return max(1, abs(poly.get(alone, 0)))


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
