"""How long statements take at most, in vector instructions."""

from __future__ import annotations

from collections.abc import Iterator

from relayvm.base.diagnostics import assert_never
from relayvm.base.dtypes import INT64
from relayvm.kernels import loops as n
from relayvm.kernels.index.prover import is_stable
from relayvm.kernels.index.simplify import Polynomial, poly_add, poly_mul, polynomial
from relayvm.kernels.scalar_ops import cast_work, scalar_work

# Bounds put one for the other before a length is given up.
_DEPTH = 16


class Lengths:
    """Lengths of the statements of one phase. `whole`, that of a round, is None where it follows
    from a size that is not known, or from memory; `of` and `inner` are for phases where it is not.
    """

    def __init__(self, phase: n.Phase) -> None:
        # What each variable is: its value, or the first and last of a loop. Inner ones are later.
        self._values: dict[n.Var, Polynomial] = {}
        self._edges: dict[n.Var, tuple[Polynomial, Polynomial]] = {}
        self._lengths: dict[int, int | None] = {}
        self._loops: dict[int, tuple[int, int]] = {}
        self._set_edges(phase.var, n.const(0), phase.extent)
        self.whole = self._block(phase.body)

    def of(self, stmt: n.Stmt) -> int:
        """Return the length of a statement."""
        length = self._lengths[id(stmt)]
        assert length is not None
        return length

    def inner(self, loop: n.For) -> int:
        """Return the length of one round of a loop."""
        return self._loops[id(loop)][0]

    def rounds(self, loop: n.For) -> int:
        """Return how many rounds a loop has at most."""
        return self._loops[id(loop)][1]

    def expanded(self, value: n.Expr) -> Polynomial:
        """Return an index with what its variables are in their places."""
        poly = polynomial(value)
        for var in reversed(self._values):
            poly = _replaced(poly, var, self._values[var])
        return poly

    def _block(self, body: tuple[n.Stmt, ...]) -> int | None:
        total: int | None = 1
        for stmt in body:
            length = self._lengths[id(stmt)] = self._of(stmt)
            total = None if total is None or length is None else total + length
        return total

    def _of(self, stmt: n.Stmt) -> int | None:
        match stmt:
            case n.For(var, begin, end, step, body):
                self._set_edges(var, begin, end)
                inner, length = self._block(body), self._length_of(begin, end)
                if inner is None or length is None or stmt.condition is not None:
                    return None
                inner = 1 << (inner - 1).bit_length()  # a power of 2, by which one divides at once
                self._loops[id(stmt)] = inner, -(-length // step)
                return inner * -(-length // step)
            case n.If(condition, then, otherwise):
                a, b = self._block(then), self._block(otherwise)
                return None if a is None or b is None else work_of(condition) + max(a, b)
            case n.Let(var, value):
                if var.dtype == INT64 and var.lanes == 1 and is_stable(value):
                    self._values[var] = polynomial(value)
                return work_of(value)
            case n.Store(_, _, value):
                return work_of(value) + wide(value.lanes)
            case n.TileStore(_, _, value):
                return work_of(value)
            case n.Prefetch() | n.Declare():
                return 0
            case _:
                assert_never(stmt)

    def _set_edges(self, var: n.Var, begin: n.Expr, end: n.Expr) -> None:
        if is_stable(begin) and is_stable(end):
            last = poly_add(polynomial(end), {(): -1})
            self._edges[var] = polynomial(begin), last

    def _length_of(self, begin: n.Expr, end: n.Expr) -> int | None:
        if not (is_stable(begin) and is_stable(end)):
            return None
        length = self._highest(poly_add(polynomial(end), polynomial(begin), -1), _DEPTH)
        return None if length is None else max(length, 0)

    def _highest(self, poly: Polynomial, depth: int) -> int | None:
        """Return what a polynomial is at most, or None."""
        atom = self._last(poly)
        if atom is None:
            return poly.get((), 0)
        if depth == 0:
            return None
        if isinstance(atom, n.Var) and atom in self._values:
            return self._highest(_replaced(poly, atom, self._values[atom]), depth - 1)
        factor = poly.get((atom,), 0)
        rest = {m: c for m, c in poly.items() if m != (atom,)}
        if any(atom in monomial for monomial in rest):
            return None
        bounds = self._bounds(atom, factor, depth - 1)
        found = [self._highest(poly_add(rest, bound), depth - 1) for bound in bounds]
        return min((high for high in found if high is not None), default=None)

    def _last(self, poly: Polynomial) -> n.Expr | None:
        """Return an atom of a polynomial: a variable only where none has it inside."""
        atoms = [atom for monomial in poly for atom in monomial]
        outer = [a for a in atoms if not isinstance(a, (n.Var, n.DimRef))]
        order: dict[n.Expr, int] = {}
        for var in (*self._edges, *self._values):
            order[var] = len(order)
        return outer[0] if outer else max(atoms, key=lambda a: order.get(a, -1), default=None)

    def _bounds(self, atom: n.Expr, factor: int, depth: int) -> Iterator[Polynomial]:
        """Yield polynomials that are not below an atom times a factor."""
        match atom:
            case n.Var() if atom in self._edges:
                yield _times(self._edges[atom][factor > 0], factor)
            case n.DimRef() if factor < 0:
                yield {}
            case n.Call("minimum" | "maximum" as name, args):
                sides = [_times(polynomial(a), factor) for a in args]
                if (name == "minimum") == (factor > 0):
                    yield from sides
                    return
                found = [self._highest(side, depth) for side in sides]
                highs = [high for high in found if high is not None]
                if len(highs) == len(found):
                    yield {(): max(highs)}
            case n.Call("floor_mod", (_, n.Const(by))):
                yield {(): (int(by) - 1) * factor} if factor > 0 else {}
            case n.Call("floor_divide", (a, n.Const(by))):
                # It lies between (a - by + 1) / by and a / by.
                top = polynomial(a) if factor > 0 else poly_add(polynomial(a), {(): 1 - int(by)})
                if factor % int(by) == 0:
                    yield _times(top, factor // int(by))
                elif (high := self._highest(_times(top, factor), depth)) is not None:
                    yield {(): high // int(by)}
            case n.Index(_, extent):
                yield _times(poly_add(polynomial(extent), {(): -1}), factor) if factor > 0 else {}


def _times(poly: Polynomial, factor: int) -> Polynomial:
    return poly_mul(poly, {(): factor})


def _replaced(poly: Polynomial, atom: n.Expr, value: Polynomial) -> Polynomial:
    """Return a polynomial with a value in the place of an atom."""
    result: Polynomial = {}
    for monomial, c in poly.items():
        term: Polynomial = {tuple(a for a in monomial if a != atom): c}
        for _ in range(monomial.count(atom)):
            term = poly_mul(term, value)
        result = poly_add(result, term)
    return result


def wide(lanes: int) -> int:
    """Return how many vectors lanes are."""
    return -(-lanes // n.LANES)


def work_of(root: n.Expr) -> int:
    """Return how many vector instructions a value takes, about; indices take none."""
    total, seen = 0, set[int]()
    stack = [root]
    while stack:
        expr = stack.pop()
        if id(expr) in seen or (expr.dtype == INT64 and is_stable(expr)):
            continue
        seen.add(id(expr))
        total += _own_work(expr)
        stack += n.children(expr)
    return total


def _own_work(expr: n.Expr) -> int:
    match expr:
        case n.Call(name, args, _, lanes):
            return wide(lanes) * scalar_work(name, args[0].dtype)
        case n.Cast(value, dtype, lanes):
            return wide(lanes) * cast_work(value.dtype, dtype)
        case n.Gather():
            return expr.lanes
        case n.Load() | n.Select() | n.Shuffle() | n.Dot():
            return wide(expr.lanes)
        case n.Tree(_, vectors):
            return 4 * sum(wide(v.lanes) for v in vectors)
        case _:
            return 0
