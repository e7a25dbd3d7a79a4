"""Programs of users in which a variable is bound more than once, or is free beside its binder.

TVM warns of them and runs them by scope; the language below wants one binder for each variable.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from relayvm.base.trampoline import Recursive, trampoline
from relayvm.ir.expr import (
    Clause,
    Expr,
    Function,
    Let,
    Match,
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    Var,
)
from relayvm.ir.visit import (
    LEAVES,
    binders,
    children,
    pattern_vars,
    post_order,
    rewrite,
    substitute,
)


def free_variables(expr: Expr) -> tuple[Var, ...]:
    """Return the variables that are used where nothing binds them, each once, in order of first
    use; a binder elsewhere does not count. Linear.
    """
    bound: Counter[Var] = Counter()
    seen: set[int] = set()
    found: dict[Var, None] = {}
    # A variable to bind, one to release, or an expression to enter.
    stack: list[tuple[str, Expr]] = [("enter", expr)]
    while stack:
        step, node = stack.pop()
        if step != "enter":
            assert isinstance(node, Var)
            bound[node] += 1 if step == "bind" else -1
        elif isinstance(node, Var):
            if not bound[node]:
                found[node] = None
        elif id(node) not in seen and not isinstance(node, LEAVES):
            seen.add(id(node))
            stack.extend(reversed(list(_steps(node))))
    return tuple(found)


def _steps(node: Expr) -> Iterator[tuple[str, Expr]]:
    match node:
        case Function():
            yield from _scope(node.params, node.body)
        case Let() if isinstance(node.value, Function):
            yield ("bind", node.var)
            yield ("enter", node.value)
            yield ("enter", node.body)
            yield ("release", node.var)
        case Let():
            yield ("enter", node.value)
            yield from _scope((node.var,), node.body)
        case Match():
            yield ("enter", node.data)
            for clause in node.clauses:
                yield from _scope(tuple(pattern_vars(clause.lhs)), clause.rhs)
        case _:
            for child in children(node):
                yield ("enter", child)


def _scope(variables: tuple[Var, ...], body: Expr) -> Iterator[tuple[str, Expr]]:
    for variable in variables:
        yield ("bind", variable)
    yield ("enter", body)
    for variable in variables:
        yield ("release", variable)


def with_one_binder_each(expr: Expr) -> Expr:
    """Return an expression with a new variable at each binder of one that is bound twice, or free
    as well; the same object where there is none.

    `fn (%x) { (fn (%x) { %x })(%x) }` -> `fn (%x) { (fn (%x1) { %x1 })(%x) }`
    """
    left = Counter(var for node in post_order(expr) for var in binders(node))
    left.update(var for var in free_variables(expr) if var in left)
    if all(count == 1 for count in left.values()):
        return expr

    def step(node: Expr) -> Expr:
        # Inner binders come first, so that what is left of a variable in a scope belongs to the
        # scope; the last one keeps its variable, which the user may hold.
        again = {var for var in binders(node) if left[var] > 1}
        left.subtract(binders(node))
        return _renewed(node, again)

    return rewrite(expr, step)


def with_own_binders(functions: Mapping[str, Function]) -> dict[str, Function]:
    """Return functions no two of which bind the same variable: later ones get new variables.

    `def @f(%x) { %x }`, `def @g(%x) { @f(%x) }` with one `%x` -> `def @g(%x1) { @f(%x1) }`
    """
    if len(functions) < 2:
        return dict(functions)
    seen: set[Var] = set()
    result: dict[str, Function] = {}
    for name, given in functions.items():
        function = given
        own = {var for node in post_order(function) for var in binders(node)}
        if again := own & seen:
            renewed = rewrite(function, _renewing(again))
            assert isinstance(renewed, Function)
            function = renewed
        seen |= own
        result[name] = function
    return result


def _renewing(again: set[Var]) -> Callable[[Expr], Expr]:
    return lambda node: _renewed(node, again & {*binders(node)})


def _renewed(node: Expr, again: set[Var]) -> Expr:
    new = {v: Var(v.name, v.type_annotation, span=v.span) for v in again}
    if not new:
        return node
    match node:
        case Function():
            params = tuple(new.get(p, p) for p in node.params)
            return replace(node, params=params, body=substitute(node.body, new))
        case Let():
            is_function = isinstance(node.value, Function)
            value = substitute(node.value, new) if is_function else node.value
            return replace(node, var=new[node.var], value=value, body=substitute(node.body, new))
        case Match():
            clauses = tuple(_renewed_clause(clause, again) for clause in node.clauses)
            return replace(node, clauses=clauses)
    return node


def _renewed_clause(clause: Clause, again: set[Var]) -> Clause:
    """Return a clause with variables of its own: another clause may bind the same ones."""
    own = [v for v in pattern_vars(clause.lhs) if v in again]
    new = {v: Var(v.name, v.type_annotation, span=v.span) for v in own}
    if not new:
        return clause
    lhs = trampoline(_renewed_pattern(clause.lhs, new))
    return replace(clause, lhs=lhs, rhs=substitute(clause.rhs, new))


def _renewed_pattern(pattern: Pattern, new: Mapping[Var, Var]) -> Recursive[Pattern]:
    match pattern:
        case PatternVar():
            return replace(pattern, var=new.get(pattern.var, pattern.var))
        case PatternConstructor() | PatternTuple():
            inner = []
            for part in pattern.patterns:
                inner.append((yield _renewed_pattern(part, new)))
            return replace(pattern, patterns=tuple(inner))
    return pattern
