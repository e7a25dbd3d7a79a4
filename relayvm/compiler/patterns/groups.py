"""Finding the subgraphs that match a pattern and may be replaced as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from relayvm.compiler.patterns.graph import ExprGraph
from relayvm.compiler.patterns.matcher import Matcher
from relayvm.compiler.patterns.nodes import (
    AltPattern,
    AttrPattern,
    DataTypePattern,
    DFPattern,
    DominatorPattern,
    ShapePattern,
    TypePattern,
    VarPattern,
    WildcardPattern,
)
from relayvm.ir.expr import Constructor, Expr, Function, GlobalVar, Op
from relayvm.ir.module import Module
from relayvm.ir.visit import binders, children, free_vars, post_order

PARTITIONED = "PartitionedFromPattern"


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """A match: `found` maps pattern nodes to expressions, `inside` are the nodes between the root
    and the `inputs`, inputs first in order of use.
    """

    root: Expr
    found: Mapping[DFPattern, tuple[Expr, ...]]
    inside: tuple[Expr, ...]
    inputs: tuple[Expr, ...]


def find_groups(pattern: DFPattern, expr: Expr, module: Module | None = None) -> list[Group]:
    """Return the matches in `expr`, those nearest to its root first.

    No two share a node, and nothing inside one is used outside it but its root. Functions that were
    cut out before are not entered.
    """
    graph = ExprGraph(expr)
    matcher = Matcher(graph, module)
    taken: set[int] = set()
    groups: list[Group] = []
    for node in reversed(graph.order):
        if isinstance(node, Function) and PARTITIONED in node.attrs:
            taken.update(map(id, post_order(node)))
        if id(node) in taken or not matcher.match(pattern, node):
            continue
        group = _group(node, matcher)
        if _is_closed(group, graph) and not taken.intersection(map(id, group.inside)):
            taken.update(map(id, group.inside))
            groups.append(group)
    return groups


def _group(root: Expr, matcher: Matcher) -> Group:
    found = {pattern: tuple(exprs) for pattern, exprs in matcher.found.items()}
    fuzzy = _on_ways(found)
    members = {id(root)}
    for pattern, exprs in found.items():
        if not _is_open(pattern, found):
            members.update(map(id, exprs))
    for expr in fuzzy:
        members.add(id(expr))
    inside: list[Expr] = []
    inputs: dict[Expr, None] = {}
    opened: set[int] = set()
    bound: set[Expr] = set()
    waiting = [(root, False)]
    while waiting:
        node, ready = waiting.pop()
        if ready:
            inside.append(node)
            continue
        if id(node) in opened or node in bound or isinstance(node, (Op, Constructor, GlobalVar)):
            continue
        if id(node) not in members and bound.isdisjoint(free_vars(node) if bound else ()):
            inputs[node] = None
            continue
        opened.add(id(node))
        bound.update(binders(node))
        waiting.append((node, True))
        waiting.extend((below, False) for below in reversed(children(node)))
    return Group(root, found, tuple(inside), tuple(inputs))


def _is_open(pattern: DFPattern, found: Mapping[DFPattern, tuple[Expr, ...]]) -> bool:
    """Return True for a pattern that says nothing of what its expression is made of: that is an
    input.
    """
    while True:
        match pattern:
            case WildcardPattern() if pattern.redirection.target is not None:
                pattern = pattern.redirection.target
            case AttrPattern() | TypePattern() | DataTypePattern() | ShapePattern():
                pattern = pattern.pattern
            case AltPattern():
                pattern = pattern.left if pattern.left in found else pattern.right
            case _:
                return isinstance(pattern, (WildcardPattern, VarPattern))


def _on_ways(found: Mapping[DFPattern, tuple[Expr, ...]]) -> list[Expr]:
    """Return what lies between a dominator's parent and its child, all of it inside the group."""
    paths = (p.path for p in found if isinstance(p, DominatorPattern))
    return [expr for path in paths for expr in found.get(path, ())]


def _is_closed(group: Group, graph: ExprGraph) -> bool:
    """Return True if nothing inside but the root has a user outside."""
    members = set(map(id, group.inside))
    return all(
        node is group.root or all(id(user) in members for user in graph.users_of(node))
        for node in group.inside
    )
