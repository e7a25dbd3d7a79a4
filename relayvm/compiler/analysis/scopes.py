"""Where a shared node is evaluated: in the least scope that encloses all its uses.

Function bodies, branches of `if` and clauses of `match` are scopes; the body of a let is not. A
node whose scope lies outside of its first use is evaluated just before the construct that opens the
inner scope.
"""

from __future__ import annotations

from relayvm.ir.expr import Expr, Function, If, Match
from relayvm.ir.scope import Scope
from relayvm.ir.visit import LEAVES, children, post_order


def is_atomic(expr: Expr) -> bool:
    """Return True if `expr` needs no evaluation: a variable, global, constant, operator or
    constructor.
    """
    return isinstance(expr, LEAVES)


def is_primitive(expr: Expr) -> bool:
    """Return True if `expr` is the function of a fused group."""
    return isinstance(expr, Function) and bool(expr.attrs.get("Primitive"))


def same_scope_children(expr: Expr) -> tuple[Expr, ...]:
    """Return the operands that are evaluated in the scope of `expr` itself, in order."""
    if isinstance(expr, (Function, If, Match)):
        return () if isinstance(expr, Function) else children(expr)[:1]
    return children(expr)


def scope_bodies(expr: Expr) -> tuple[Expr, ...]:
    """Return the expressions that are evaluated in a scope of their own that `expr` opens."""
    if isinstance(expr, (Function, If, Match)):
        return children(expr) if isinstance(expr, Function) else children(expr)[1:]
    return ()


class Scopes:
    """The scope of each node under a root, and the scopes that its nodes open."""

    def __init__(self, root: Expr) -> None:
        self.top = Scope(None, True)
        self._of: dict[int, Scope] = {id(root): self.top}
        self._opened: dict[int, tuple[Scope, ...]] = {}
        self._uses: dict[int, int] = {}
        self.order = [node for node in post_order(root) if not is_atomic(node)]
        for node in reversed(self.order):
            self._spread(node)

    def of(self, node: Expr) -> Scope:
        """Return the scope in which a node that is not atomic is evaluated."""
        return self._of[id(node)]

    def opened(self, node: Expr) -> tuple[Scope, ...]:
        """Return the scopes of `scope_bodies(node)`."""
        return self._opened[id(node)]

    def uses(self, node: Expr) -> int:
        """Return how many operands and bodies are `node`."""
        return self._uses.get(id(node), 0)

    def _spread(self, node: Expr) -> None:
        # Users come before operands here, so the scope of `node` is final.
        scope = self._of[id(node)]
        for child in same_scope_children(node):
            self._meet(child, scope)
        bodies = scope_bodies(node)
        opened = tuple(Scope(scope, True, node, i) for i in range(len(bodies)))
        self._opened[id(node)] = opened
        for body, inner in zip(bodies, opened):
            self._meet(body, inner)

    def _meet(self, child: Expr, scope: Scope) -> None:
        if is_atomic(child):
            return
        self._uses[id(child)] = self._uses.get(id(child), 0) + 1
        known = self._of.get(id(child))
        self._of[id(child)] = scope if known is None else known.meet(scope)
