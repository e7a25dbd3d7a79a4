"""An expression as a graph: who uses a node, and which node all uses of a node lead to."""

from __future__ import annotations

from relayvm.base.process import lazy_property
from relayvm.ir.expr import Expr, Function, Let, Match
from relayvm.ir.visit import children, pattern_vars, post_order


class ExprGraph:
    """The nodes below a root, inputs before users.

    What a function, let or match binds counts among its inputs, so that patterns reach parameters.
    """

    def __init__(self, root: Expr) -> None:
        self.root = root
        self.order: list[Expr] = []
        self.number: dict[int, int] = {}
        self.users: list[list[int]] = []
        for node in post_order(root):
            for binder in _binders(node):
                self._add(binder)
            self._add(node)

    def _add(self, node: Expr) -> None:
        if id(node) in self.number:
            return
        own = self.number[id(node)] = len(self.order)
        self.order.append(node)
        self.users.append([])
        for below in self.inputs(node):
            self.users[self.number[id(below)]].append(own)

    def __contains__(self, node: Expr) -> bool:
        return id(node) in self.number

    @staticmethod
    def inputs(node: Expr) -> tuple[Expr, ...]:
        """Return what a node is made of, variables that it binds first."""
        bound = _binders(node)
        return (*bound, *children(node)) if bound else children(node)

    def users_of(self, node: Expr) -> list[Expr]:
        """Return the nodes that have this one as an input."""
        return [self.order[i] for i in self.users[self.number[id(node)]]]

    @lazy_property
    def dominators(self) -> list[int]:
        """For each node the nearest one that all ways from it to the root pass; the root is its
        own.
        """
        last = len(self.order) - 1
        parents, depths = [last] * (last + 1), [0] * (last + 1)
        for i in range(last - 1, -1, -1):
            meet = -1
            for user in self.users[i]:
                meet = user if meet < 0 else self._meet(meet, user, parents, depths)
            parents[i] = last if meet < 0 else meet
            depths[i] = depths[parents[i]] + 1
        return parents

    @staticmethod
    def _meet(a: int, b: int, parents: list[int], depths: list[int]) -> int:
        while a != b:
            if depths[a] >= depths[b]:
                a = parents[a]
            else:
                b = parents[b]
        return a

    @lazy_property
    def _dominated(self) -> list[list[int]]:
        below: list[list[int]] = [[] for _ in self.order]
        for i, parent in enumerate(self.dominators[:-1]):
            below[parent].append(i)
        return below

    def dominated_by(self, node: Expr) -> list[Expr]:
        """Return all nodes whose every way to the root passes `node`, nearest first."""
        found: list[Expr] = []
        waiting = [self.number[id(node)]]
        while waiting:
            for i in self._dominated[waiting.pop()]:
                found.append(self.order[i])
                waiting.append(i)
        return found


def _binders(node: Expr) -> tuple[Expr, ...]:
    if isinstance(node, Function):
        return node.params
    if isinstance(node, Let):
        return (node.var,)
    if isinstance(node, Match):
        return tuple(v for clause in node.clauses for v in pattern_vars(clause.lhs))
    return ()
