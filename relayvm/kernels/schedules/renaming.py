"""What statements name, and statements with other values in the place of names."""

from __future__ import annotations

from dataclasses import dataclass, field

from relayvm.base.diagnostics import assert_never
from relayvm.kernels import loops as n


@dataclass
class Renaming:
    """Rewrites statements with values in the place of variables."""

    names: dict[n.Var, n.Expr] = field(default_factory=dict)

    def block(self, body: tuple[n.Stmt, ...]) -> tuple[n.Stmt, ...]:
        """Return the statements with all their parts."""
        return tuple(map(self.stmt, body))

    def stmt(self, stmt: n.Stmt) -> n.Stmt:
        """Return a statement with all its parts."""
        if not self.names:
            return stmt
        match stmt:
            case n.For(var, begin, end, step, body):
                begin, end = self.expr(begin), self.expr(end)
                condition = None if stmt.condition is None else self.expr(stmt.condition)
                return n.For(var, begin, end, step, self.block(body), stmt.kind, condition)
            case n.If(condition, then, otherwise):
                return n.If(self.expr(condition), self.block(then), self.block(otherwise))
            case n.Let(var, value):
                return n.Let(var, self.expr(value))
            case n.TileStore(tile, index, value):
                return n.TileStore(tile, self.expr(index), self.expr(value))
            case n.Store(buffer, indices, value, mask):
                mask = None if mask is None else self.expr(mask)
                return n.Store(buffer, tuple(map(self.expr, indices)), self.expr(value), mask)
            case n.Prefetch(buffer, indices):
                return n.Prefetch(buffer, tuple(map(self.expr, indices)))
            case n.Declare():
                return stmt
            case _:
                assert_never(stmt)

    def expr(self, expr: n.Expr) -> n.Expr:
        """Return an expression with all its parts."""
        if isinstance(expr, n.Var):
            return self.names.get(expr, expr)
        return n.map_operands(expr, self.expr) if self.names else expr


def used_names(stmt: n.Stmt, found: set[str]) -> None:
    """Add the names of the variables that a statement reads, and of its tiles."""
    match stmt:
        case n.For(_, begin, end, _, body):
            exprs = [begin, end] if stmt.condition is None else [begin, end, stmt.condition]
            bodies = [body]
        case n.If(condition, then, otherwise):
            exprs, bodies = [condition], [then, otherwise]
        case n.Let(_, value):
            exprs, bodies = [value], []
        case n.TileStore(tile, index, value):
            found.add(tile.name)
            exprs, bodies = [index, value], []
        case n.Store(_, indices, value, mask):
            exprs, bodies = [*indices, value, *(() if mask is None else (mask,))], []
        case n.Prefetch(_, indices):
            exprs, bodies = list(indices), []
        case n.Declare():
            exprs, bodies = [], []
        case _:
            assert_never(stmt)
    for inner in bodies:
        for each in inner:
            used_names(each, found)
    while exprs:
        expr = exprs.pop()
        if isinstance(expr, n.Var):
            found.add(expr.name)
        elif isinstance(expr, n.TileLoad):
            found.add(expr.tile.name)
        exprs += n.children(expr)


def has_index(expr: n.Expr) -> bool:
    """Return whether an expression may trap, or checks an index."""
    return isinstance(expr, n.Index) or any(map(has_index, n.children(expr)))
