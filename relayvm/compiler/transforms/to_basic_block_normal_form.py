"""Basic-block normal form: what several scopes share is named by a let in the scope around them."""

from __future__ import annotations

from relayvm.base.trampoline import trampoline
from relayvm.compiler.analysis.purity import Effect, Purity
from relayvm.compiler.analysis.scopes import (
    Scopes,
    is_atomic,
    is_primitive,
    same_scope_children,
    scope_bodies,
)
from relayvm.compiler.transforms.to_anf import Normalizer
from relayvm.ir.expr import Expr, Function, Let
from relayvm.ir.module import Module
from relayvm.ir.scope import Scope


def to_basic_block_normal_form(module: Module) -> Module:
    """Name what more than one scope uses, in the least scope around the uses.

    `%0 = exp(%x); if (%c) { %0 } else { add(%0, 1f) }`
    -> `let %v = exp(%x); if (%c) { %v } else { add(%v, 1f) }`. What one scope uses stays a graph.
    Where the program writes references, all of a block that gets a name is named: the order of
    effects stays. Linear.
    """
    writes = bool(Purity(module).anything & Effect.WRITE)
    return module.with_functions(
        {name: _normalize(function, writes) for name, function in module.functions.items()}
    )


def shared_between_scopes(scopes: Scopes) -> set[int]:
    """Return the nodes that are used in a scope other than their own."""
    lifted: set[int] = set()
    for node in scopes.order:
        own = scopes.of(node)
        uses = [(child, own) for child in same_scope_children(node)]
        uses += zip(scope_bodies(node), scopes.opened(node))
        lifted.update(
            id(child)
            for child, scope in uses
            if not is_atomic(child) and scopes.of(child) is not scope
        )
    return lifted


def is_basic_block_normal_form(expr: Expr) -> bool:
    """Return True if every node is used in one scope only."""
    return not shared_between_scopes(Scopes(expr))


def _normalize(function: Function, writes: bool) -> Function:
    if is_primitive(function):
        return function
    normalizer = _BlockNormalizer(function, writes)
    if not normalizer.lifted:
        return function
    return trampoline(normalizer.function(function))


class _BlockNormalizer(Normalizer):
    def __init__(self, function: Function, writes: bool) -> None:
        super().__init__(function)
        self.lifted = shared_between_scopes(self.scopes)
        self.named: set[Scope] = set()
        if writes:
            # What stands in a let of an operand is named in the block as well.
            order = self.scopes.order
            named = (n for n in order if id(n) in self.lifted or isinstance(n, Let))
            self.named = {self.scopes.of(n) for n in named}

    def leaves(self, node: Expr) -> bool:
        return id(node) not in self.lifted and self.scopes.of(node) not in self.named
