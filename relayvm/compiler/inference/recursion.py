"""The order in which global functions are inferred: groups of mutual recursion, callees first."""

from __future__ import annotations

from collections.abc import Mapping

from relayvm.base.trampoline import Recursive, trampoline
from relayvm.ir.expr import Function, GlobalVar
from relayvm.ir.visit import post_order


def callees_first(functions: Mapping[str, Function]) -> list[list[str]]:
    """Return the strongly connected groups of the call graph, each after those that it uses
    (Tarjan).

    Functions with a written result need no order, so their uses do not count.
    """
    open_names = {name for name, f in functions.items() if f.ret_type is None}
    if not open_names:
        return [[name] for name in functions]
    uses = {name: _uses(function, open_names) for name, function in functions.items()}
    search = _Search(uses)
    for name in functions:
        if name not in search.index:
            trampoline(search.visit(name))
    return search.groups


def _uses(function: Function, names: set[str]) -> list[str]:
    found = {
        node.name: None
        for node in post_order(function)
        if isinstance(node, GlobalVar) and node.name in names
    }
    return list(found)


class _Search:
    def __init__(self, uses: Mapping[str, list[str]]) -> None:
        self.uses = uses
        self.index: dict[str, int] = {}
        self.low: dict[str, int] = {}
        self.stack: list[str] = []
        self.active: set[str] = set()
        self.groups: list[list[str]] = []

    def visit(self, name: str) -> Recursive[None]:
        self.index[name] = self.low[name] = len(self.index)
        self.stack.append(name)
        self.active.add(name)
        for other in self.uses[name]:
            if other not in self.index:
                yield self.visit(other)
                self.low[name] = min(self.low[name], self.low[other])
            elif other in self.active:
                self.low[name] = min(self.low[name], self.index[other])
        if self.low[name] == self.index[name]:
            at = self.stack.index(name)
            group = self.stack[at:]
            del self.stack[at:]
            self.active.difference_update(group)
            self.groups.append(group)
