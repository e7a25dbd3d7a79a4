"""Which expressions read, write or make references: the only effects there are.

Traps and endless loops are no effects: the value of an unused expression need not be computed.
Calls of unknown functions are taken to do whatever any function of the module does.
"""

from __future__ import annotations

from enum import Flag, auto

from relayvm.compiler.analysis.scopes import same_scope_children, scope_bodies
from relayvm.ir.expr import (
    Call,
    Constructor,
    Expr,
    Function,
    GlobalVar,
    Let,
    Op,
    RefCreate,
    RefRead,
    RefWrite,
    Var,
)
from relayvm.ir.module import Module
from relayvm.ir.visit import post_order


class Effect(Flag):
    """What evaluating an expression may do beside giving a value."""

    NONE = 0
    CREATE = auto()
    READ = auto()
    WRITE = auto()


class Purity:
    """The effects of expressions of one module; found once, in time linear in its size."""

    def __init__(self, module: Module) -> None:
        self.anything = Effect.NONE
        self._globals: dict[str, Effect] = {}
        self._bodies: dict[int, Effect] = {}
        self._local_functions: dict[int, Function] = {}
        # Nodes are kept beside their effects: an id is only unique while its object lives.
        self._known: dict[int, tuple[Expr, Effect]] = {}
        for function in module.functions.values():
            self._scan(function)
        # What is not known: nothing while effects are gathered, later what any function does.
        self._unknown = Effect.NONE
        if self.anything is not Effect.NONE:
            while self._changes(module):
                pass
        self._unknown = self.anything

    def of(self, expr: Expr) -> Effect:
        """Return the effects of evaluating `expr`; a function has none until it is called."""
        if self.anything is Effect.NONE:
            return Effect.NONE
        if id(expr) not in self._known:
            self._visit(expr)
        return self._known[id(expr)][1]

    def of_call(self, name: str) -> Effect:
        """Return the effects of calling a global function."""
        return self._globals.get(name, self._unknown)

    def is_pure(self, expr: Expr) -> bool:
        """Return True if evaluating `expr` has no effect and does not depend on one."""
        return self.of(expr) is Effect.NONE

    def is_removable(self, expr: Expr) -> bool:
        """Return True if nobody can tell that an unused `expr` is not evaluated."""
        return not self.of(expr) & Effect.WRITE

    def _scan(self, function: Function) -> None:
        for node in post_order(function):
            if isinstance(node, (RefCreate, RefRead, RefWrite)):
                self.anything |= _own_effect(node)
            if isinstance(node, Let) and isinstance(node.value, Function):
                self._local_functions[id(node.var)] = node.value

    def _changes(self, module: Module) -> bool:
        """Look at all functions once more; effects only grow, so this ends."""
        before = (dict(self._globals), dict(self._bodies))
        self._known.clear()
        for name, function in module.functions.items():
            self._visit(function)
            self._globals[name] = self._bodies[id(function)]
        return before != (self._globals, self._bodies)

    def _visit(self, root: Expr) -> None:
        for node in post_order(root):
            effect = _own_effect(node)
            if isinstance(node, Function):
                self._bodies[id(node)] = self._known[id(node.body)][1]
            else:
                for part in same_scope_children(node) + scope_bodies(node):
                    effect |= self._known[id(part)][1]
            if isinstance(node, Call):
                effect |= self._called(node.op)
            self._known[id(node)] = (node, effect)

    def _called(self, op: Expr) -> Effect:
        if isinstance(op, (Op, Constructor)):
            return Effect.NONE
        if isinstance(op, GlobalVar):
            return self._globals.get(op.name, self._unknown)
        if isinstance(op, Var) and id(op) in self._local_functions:
            return self._bodies.get(id(self._local_functions[id(op)]), self._unknown)
        if isinstance(op, Function):
            return self._bodies.get(id(op), self._unknown)
        return self.anything


def _own_effect(node: Expr) -> Effect:
    if isinstance(node, RefCreate):
        return Effect.CREATE
    if isinstance(node, RefRead):
        return Effect.READ
    return Effect.WRITE if isinstance(node, RefWrite) else Effect.NONE
