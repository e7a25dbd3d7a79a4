"""How long a kernel runs between two looks at the host, counted in rounds of its loops."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping

from relayvm.kernels import loops as n

KINDS = ("bool", "int", "uint")
LOOK_WORK = 4_000_000  # FIRST_WORK of vm/runtime/kernel_phases.c; later steps follow the clock

Sizes = dict[str, int]
FUNCTIONS = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "minimum": min,
    "maximum": max,
    "floor_divide": lambda a, b: a // b if b else 0,
    "floor_mod": lambda a, b: a % b if b else 0,
    "equal": operator.eq,
    "not_equal": operator.ne,
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
    "logical_and": operator.and_,
    "logical_or": operator.or_,
    "logical_not": operator.not_,
}


def rounds_between_looks(nest: n.Nest, work: int, dims: Mapping[str, int]) -> Iterator[int]:
    """Yield for each phase the rounds of its innermost loops in the first of the steps into which
    the machine cuts it.

    Loops whose ends lie in memory count as one round, and an index found there as 0.
    """
    for phase in nest.phases:
        known: Sizes = {f"dim {name}": size for name, size in dims.items()}
        extent = _value(phase.extent, known)
        assert extent is not None
        steps = work // LOOK_WORK + 1
        step = -(-extent // steps)
        known[phase.var.name] = 0
        yield step * _block(phase.body, known)


def _block(body: tuple[n.Stmt, ...], known: Sizes) -> int:
    return max(1, sum(_stmt(stmt, known) for stmt in body))


def _stmt(stmt: n.Stmt, known: Sizes) -> int:
    match stmt:
        case n.For():
            begin, end = _value(stmt.begin, known), _value(stmt.end, known)
            rounds = 1 if begin is None or end is None else -(-max(0, end - begin) // stmt.step)
            if begin is not None:
                known[stmt.var.name] = begin
            return rounds * _block(stmt.body, known)
        case n.If():
            bodies = stmt.then, stmt.otherwise
            choice = _value(stmt.condition, known)
            chosen = bodies if choice is None else bodies[:1] if choice else bodies[1:]
            return max(_block(body, known) for body in chosen)
        case n.Let():
            value = _value(stmt.value, known)
            if value is not None:
                known[stmt.var.name] = value
    return 0


def _value(expr: n.Expr, known: Sizes) -> int | None:
    """Return a scalar that follows from what is known, or what it is at most; None without."""
    match expr:
        case n.Const():
            return int(expr.value) if expr.dtype.kind in KINDS else None
        case n.DimRef():
            return known[f"dim {expr.name}"]
        case n.Var():
            return known.get(expr.name)
        case n.Cast():
            return _value(expr.value, known) if expr.dtype.kind in KINDS else None
        case n.Call():
            values = [_value(a, known) for a in expr.args]
            if expr.name == "minimum" and any(v is not None for v in values):
                return min(v for v in values if v is not None)
            if expr.name not in FUNCTIONS or any(v is None for v in values):
                return None
            return int(FUNCTIONS[expr.name](*values))
        case n.Select():
            choice = _value(expr.condition, known)
            values = [_value(e, known) for e in (expr.a, expr.b)]
            if choice is not None:
                return values[0 if choice else 1]
            return None if None in values else max(v for v in values if v is not None)
    return None
