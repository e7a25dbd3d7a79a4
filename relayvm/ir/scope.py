"""Where each node of an expression is evaluated: the least scope that encloses all its uses."""

from __future__ import annotations

from relayvm.ir.expr import Expr, Function, If, Let, Match
from relayvm.ir.visit import LEAVES, children, post_order


class Scope:
    """A region of an expression: a function body, a branch, a clause, or what follows a let.

    `block` is the region that stands in its own braces: a let in tail position does not open one.
    `owner` is the node that opens it (None at the top), as its branch or clause number `index`.
    Nodes keep a second, longer link upward (skew-binary jumps), so that `meet` and `encloses` take
    logarithmic time.
    """

    __slots__ = ("block", "depth", "index", "jump", "owner", "parent")

    def __init__(
        self,
        parent: Scope | None,
        opens_block: bool,
        owner: Expr | None = None,
        index: int = 0,
    ) -> None:
        self.parent = parent or self
        self.owner = owner
        self.index = index
        self.depth: int = parent.depth + 1 if parent else 0
        self.block: Scope = self if opens_block or parent is None else parent.block
        if parent is None:
            self.jump = self
        elif parent.depth - parent.jump.depth == parent.jump.depth - parent.jump.jump.depth:
            self.jump = parent.jump.jump
        else:
            self.jump = parent

    def ancestor(self, depth: int) -> Scope:
        """Return the enclosing scope at a depth not below this one's."""
        scope = self
        while scope.depth > depth:
            scope = scope.jump if scope.jump.depth >= depth else scope.parent
        return scope

    def encloses(self, other: Scope) -> bool:
        """Tell whether `other` is this scope or lies inside."""
        return other.depth >= self.depth and other.ancestor(self.depth) is self

    def meet(self, other: Scope) -> Scope:
        """Return the innermost scope that encloses both."""
        depth = min(self.depth, other.depth)
        a, b = self.ancestor(depth), other.ancestor(depth)
        while a is not b:
            a, b = (a.jump, b.jump) if a.jump is not b.jump else (a.parent, b.parent)
        return a


class Scopes:
    """The scopes of one expression.

    `of[id(node)]` is where a node is evaluated; `binding[id(node)]` are the scopes that a node
    opens: for a let that of its body, for a function that of its body, for a match one a clause,
    for an if one a branch. `uses[id(node)]` counts the places at which a node stands.
    `inner[id(let)]` is where the let's value stands.
    """

    def __init__(self, root: Expr, outer: Scope | None = None) -> None:
        self.of: dict[int, Scope] = {id(root): outer or Scope(None, True)}
        self.uses: dict[int, int] = {id(root): 1}
        self.binding: dict[int, tuple[Scope, ...]] = {}
        self.inner: dict[int, Scope] = {}
        order = list(post_order(root))
        self.nodes = order[::-1]
        # A let stands in tail position if its one use is as the body of a let, or as what a scope
        # consists of.
        tails: set[int] = {id(root)}
        for node in order:
            for child in children(node):
                self.uses[id(child)] = self.uses.get(id(child), 0) + 1
            tails.update(_tail_children(node))
        for node in self.nodes:
            self._place_children(node, tails)

    def _place_children(self, node: Expr, tails: set[int]) -> None:
        here = self.of[id(node)]
        match node:
            case Let():
                tail = id(node) in tails and self.uses[id(node)] == 1
                inside = here if tail else Scope(here, True)
                after = Scope(inside, False)
                self.inner[id(node)] = inside
                self.binding[id(node)] = (after,)
                self._use(node.value, inside)
                self._use(node.body, after)
            case Function():
                body = Scope(here, True)
                self.binding[id(node)] = (body,)
                self._use(node.body, body)
            case If():
                branches = (Scope(here, True), Scope(here, True))
                self.binding[id(node)] = branches
                self._use(node.cond, here)
                self._use(node.true_branch, branches[0])
                self._use(node.false_branch, branches[1])
            case Match():
                regions = tuple(Scope(here, True) for _ in node.clauses)
                self.binding[id(node)] = regions
                self._use(node.data, here)
                for clause, region in zip(node.clauses, regions):
                    self._use(clause.rhs, region)
            case _:
                for child in children(node):
                    self._use(child, here)

    def _use(self, child: Expr, scope: Scope) -> None:
        old = self.of.get(id(child))
        self.of[id(child)] = scope if old is None else old.meet(scope)

    def is_shared(self, node: Expr) -> bool:
        """Tell whether a node that is no leaf stands at more than one place."""
        return self.uses[id(node)] > 1 and not isinstance(node, LEAVES)


def _tail_children(node: Expr) -> tuple[int, ...]:
    match node:
        case Let() | Function():
            return (id(node.body),)
        case If():
            return (id(node.true_branch), id(node.false_branch))
        case Match():
            return tuple(id(clause.rhs) for clause in node.clauses)
        case _:
            return ()
