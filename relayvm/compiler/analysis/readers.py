"""Who reads each variable of a block: bindings of the same block, or its tail, however deep inside.

One walk for a whole function: asking each value for its free variables is quadratic in nesting.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from relayvm.compiler.analysis.scopes import is_primitive, same_scope_children, scope_bodies
from relayvm.compiler.transforms.blocks import split_block
from relayvm.ir.expr import Expr, Function, Var


@dataclass(slots=True)
class Readers:
    """`reads` has for each let variable those of its block that its value reads, in order;
    `escaping` the variables that the tail of their block reads.
    """

    reads: dict[Var, dict[Var, None]] = field(default_factory=dict)
    escaping: set[Var] = field(default_factory=set)


def find_readers(function: Function) -> Readers:
    """Return who reads what in each block of a function in A-normal form."""
    readers = Readers()
    levels: dict[Var, int] = {}
    # The binding of each block around that the walk is in; None in its tail.
    around: list[Var | None] = []
    pending: list[tuple[Expr, int, Var | None]] = []

    def enter(body: Expr, level: int) -> None:
        bindings, tail = split_block(body)
        pending.append((tail, level, None))
        for binding in reversed(bindings):
            levels[binding.var] = level
            readers.reads[binding.var] = {}
            pending.append((binding.value, level, binding.var))

    enter(function.body, 0)
    while pending:
        expr, level, owner = pending.pop()
        del around[level:]
        around.append(owner)
        parts = [expr]
        while parts:
            part = parts.pop()
            if isinstance(part, Var):
                _note(readers, part, levels, around)
            elif not is_primitive(part):
                parts.extend(reversed(same_scope_children(part)))
                for body in reversed(scope_bodies(part)):
                    enter(body, level + 1)
    return readers


def _note(readers: Readers, var: Var, levels: dict[Var, int], around: list[Var | None]) -> None:
    if var not in levels:
        return
    reader = around[levels[var]]
    if reader is None:
        readers.escaping.add(var)
    else:
        readers.reads[reader][var] = None
