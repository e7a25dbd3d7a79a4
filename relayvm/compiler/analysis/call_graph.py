"""Which global function names which, and the groups that call each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from relayvm.ir.expr import GlobalVar
from relayvm.ir.module import Module
from relayvm.ir.visit import post_order


@dataclass(frozen=True, slots=True)
class CallGraph:
    """Which function mentions which: `callees` and `callers` by name, each name once, in order.

    `order` has callees before callers; `recursive` are the functions that can reach themselves.
    """

    callees: Mapping[str, tuple[str, ...]]
    callers: Mapping[str, tuple[str, ...]]
    order: tuple[str, ...]
    recursive: frozenset[str]

    @classmethod
    def of(cls, module: Module) -> CallGraph:
        """Return the call graph of a module; a mention as a value counts as a call."""
        graph = call_graph(module)
        callees = {name: tuple(dict.fromkeys(named)) for name, named in graph.items()}
        callers: dict[str, list[str]] = {name: [] for name in graph}
        for name, named in callees.items():
            for callee in named:
                callers.setdefault(callee, []).append(name)
        order = tuple(name for group in components(graph) for name in group)
        frozen = {name: tuple(found) for name, found in callers.items()}
        return cls(callees, frozen, order, frozenset(recursive_names(graph)))


def call_graph(module: Module) -> dict[str, list[str]]:
    """Return the globals that each function mentions, in order, each mention once a node."""
    return {
        name: [n.name for n in post_order(function) if isinstance(n, GlobalVar)]
        for name, function in module.functions.items()
    }


def components(graph: Mapping[str, list[str]]) -> list[list[str]]:
    """Return the strongly connected groups, callees before callers.

    R. E. Tarjan, "Depth-first search and linear graph algorithms", with an explicit stack.
    """
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    open_nodes: list[str] = []
    is_open: set[str] = set()
    groups: list[list[str]] = []
    for root in graph:
        if root in index:
            continue
        stack = [(root, iter(graph[root]))]
        index[root] = low[root] = len(index)
        open_nodes.append(root)
        is_open.add(root)
        while stack:
            node, successors = stack[-1]
            for successor in successors:
                if successor not in graph:
                    continue
                if successor not in index:
                    index[successor] = low[successor] = len(index)
                    open_nodes.append(successor)
                    is_open.add(successor)
                    stack.append((successor, iter(graph[successor])))
                    break
                if successor in is_open:
                    low[node] = min(low[node], index[successor])
            else:
                stack.pop()
                if stack:
                    low[stack[-1][0]] = min(low[stack[-1][0]], low[node])
                if low[node] == index[node]:
                    groups.append(_close(node, open_nodes, is_open))
    return groups


def _close(root: str, open_nodes: list[str], is_open: set[str]) -> list[str]:
    group = []
    while True:
        node = open_nodes.pop()
        is_open.discard(node)
        group.append(node)
        if node == root:
            return group[::-1]


def recursive_names(graph: Mapping[str, list[str]]) -> set[str]:
    """Return the functions that can reach themselves."""
    found: set[str] = set()
    for group in components(graph):
        if len(group) > 1 or group[0] in graph[group[0]]:
            found.update(group)
    return found
