"""Dead code: lets, projections, pattern variables and functions that nobody uses."""

from __future__ import annotations

from dataclasses import replace

from relayvm.compiler.analysis.purity import Effect, Purity
from relayvm.compiler.analysis.scopes import same_scope_children, scope_bodies
from relayvm.compiler.entries import entry_names
from relayvm.compiler.transforms.to_graph_normal_form import drop_lets
from relayvm.ir.expr import (
    Clause,
    Expr,
    Function,
    GlobalVar,
    Let,
    Match,
    Pattern,
    PatternVar,
    PatternWildcard,
    Tuple,
    TupleGetItem,
    Var,
)
from relayvm.ir.module import Module
from relayvm.ir.visit import post_order, rebuild, rewrite_pattern


def eliminate_dead_code(
    module: Module, inline_once: bool = False, ignore_impurity: bool = False
) -> Module:
    """Drop what is computed for nothing: `let %a = exp(%x); %x` -> `%x`.

    Only an unused value that writes a reference stays; with `ignore_impurity` it goes, too. Unused
    pattern variables become `_`, and `(%a, %b).0` becomes `%a`. A trap or an endless loop of an
    unused value is dropped with it. With `inline_once`, what is used once takes the place of its
    variable where `to_graph_normal_form` would put it.
    """
    order = purity = Purity(module)
    if ignore_impurity:
        purity = Purity(module)
        purity.anything = Effect.NONE
    functions = {}
    for name, function in module.functions.items():
        clean = _clean(function, purity)
        while inline_once:
            before, clean = clean, _clean(drop_lets(clean, order, _is_once), purity)
            if clean is before:
                break
        functions[name] = clean
    return module.with_functions(functions)


def _is_once(uses: int) -> bool:
    return uses == 1


def remove_unused_functions(module: Module) -> Module:
    """Drop the functions that no entry of the module reaches."""
    reached: set[str] = set()
    pending = list(entry_names(module))
    while pending:
        name = pending.pop()
        if name in reached or name not in module.functions:
            continue
        reached.add(name)
        for node in post_order(module.functions[name]):
            if isinstance(node, GlobalVar):
                pending.append(node.name)
    functions = {name: f for name, f in module.functions.items() if name in reached}
    return module.with_functions(functions)


def _clean(function: Function, purity: Purity) -> Function:
    used = _used_vars(function, purity)

    def drop(before: Expr, after: Expr) -> Expr:
        match after:
            case Let():
                assert isinstance(before, Let)
                unused = id(after.var) not in used
                return after.body if unused and purity.is_removable(before.value) else after
            case Match():
                return _without_unused(after, used)
            case TupleGetItem():
                value = after.tuple_value
                if isinstance(value, Tuple):
                    others = (f for i, f in enumerate(value.fields) if i != after.index)
                    if all(purity.is_removable(f) for f in others):
                        return value.fields[after.index]
        return after

    while True:
        cleaned = rebuild(function, drop)
        assert isinstance(cleaned, Function)
        if cleaned is function:
            return function
        # A projection that went away may have been the last use of something.
        function, used = cleaned, _used_vars(cleaned, purity)


def _used_vars(function: Function, purity: Purity) -> set[int]:
    """Return the variables that live code mentions; the value of an unused let is not live."""
    used: set[int] = set()
    waiting: dict[int, Expr] = {}
    seen: set[int] = set()
    pending: list[Expr] = [function]
    while pending:
        node = pending.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, Var):
            used.add(id(node))
            if id(node) in waiting:
                pending.append(waiting.pop(id(node)))
        elif isinstance(node, Let):
            pending.append(node.body)
            if id(node.var) in used or not purity.is_removable(node.value):
                pending.append(node.value)
            else:
                waiting[id(node.var)] = node.value
        else:
            pending.extend(same_scope_children(node) + scope_bodies(node))
    return used


def _without_unused(node: Match, used: set[int]) -> Match:
    clauses = tuple(_clean_clause(clause, used) for clause in node.clauses)
    if all(a is b for a, b in zip(clauses, node.clauses)):
        return node
    return replace(node, clauses=clauses)


def _clean_clause(clause: Clause, used: set[int]) -> Clause:
    pattern = _clean_pattern(clause.lhs, used)
    return clause if pattern is clause.lhs else replace(clause, lhs=pattern)


def _clean_pattern(pattern: Pattern, used: set[int]) -> Pattern:
    def clean(part: Pattern) -> Pattern:
        unused = isinstance(part, PatternVar) and id(part.var) not in used
        return PatternWildcard(span=part.span) if unused else part

    return rewrite_pattern(pattern, clean)
