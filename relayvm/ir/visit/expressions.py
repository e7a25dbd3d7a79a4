"""Walking and rebuilding expressions without recursion: a shared node is visited once, chains may
be any length.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from operator import is_
from typing import Any, cast
from typing import TypeVar as GenericVar

from relayvm.base.dims import Dim
from relayvm.ir.expr import (
    Call,
    Clause,
    Constant,
    Constructor,
    Expr,
    Function,
    GlobalVar,
    If,
    Let,
    Match,
    Op,
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    RefCreate,
    RefRead,
    RefWrite,
    Tuple,
    TupleGetItem,
    Var,
)
from relayvm.ir.types import (
    Type,
    TypeParam,
    TypeRelation,
)
from relayvm.ir.visit.types import (
    TypeVariables,
    attr_variables,
    same_objects,
    substitute_in_attrs,
    substitute_in_type,
    type_variables,
)

T = GenericVar("T")

LEAVES = (Var, GlobalVar, Constant, Op, Constructor)


def children(expr: Expr) -> tuple[Expr, ...]:
    """Return the direct subexpressions in order of evaluation; variables at their binders are
    none.
    """
    below = _CHILDREN.get(type(expr))
    if below is not None:
        return below(expr)
    if isinstance(expr, LEAVES):
        return ()
    raise TypeError(f"{type(expr).__name__} is not an expression")


# A table and no `match`: every pass asks this of every node several times.
_CHILDREN: dict[type, Callable[[Any], tuple[Expr, ...]]] = {
    Var: lambda expr: (),
    GlobalVar: lambda expr: (),
    Constant: lambda expr: (),
    Constructor: lambda expr: (),
    Call: lambda expr: (expr.op, *expr.args),
    Let: lambda expr: (expr.value, expr.body),
    Tuple: lambda expr: expr.fields,
    TupleGetItem: lambda expr: (expr.tuple_value,),
    Function: lambda expr: (expr.body,),
    If: lambda expr: (expr.cond, expr.true_branch, expr.false_branch),
    Match: lambda expr: (expr.data, *(clause.rhs for clause in expr.clauses)),
    RefCreate: lambda expr: (expr.value,),
    RefRead: lambda expr: (expr.ref,),
    RefWrite: lambda expr: (expr.ref, expr.value),
}


def with_children(expr: Expr, new: tuple[Expr, ...]) -> Expr:
    """Return `expr` with other subexpressions, in the order of `children`; itself if they are the
    same objects.
    """
    old = children(expr)
    if len(old) == len(new) and all(map(is_, old, new)):
        return expr
    return built(expr, new)


def built(expr: Expr, new: tuple[Expr, ...]) -> Expr:
    """Return a node that is `expr` but for its subexpressions; they are as many as before."""
    common: dict[str, Any] = {"span": expr.span, "checked_type": expr.checked_type}
    match expr:
        case Call():
            return Call(new[0], new[1:], expr.attrs, expr.type_args, **common)
        case Let():
            return Let(expr.var, new[0], new[1], **common)
        case Tuple():
            return Tuple(new, **common)
        case TupleGetItem():
            return TupleGetItem(new[0], expr.index, **common)
        case Function():
            return Function(
                expr.params,
                new[0],
                expr.ret_type,
                expr.type_params,
                expr.attrs,
                expr.type_constraints,
                **common,
            )
        case If():
            return If(*new, **common)
        case Match():
            clauses = tuple(
                clause if clause.rhs is rhs else Clause(clause.lhs, rhs, span=clause.span)
                for clause, rhs in zip(expr.clauses, new[1:])
            )
            return Match(new[0], clauses, expr.complete, **common)
        case RefCreate():
            return RefCreate(new[0], **common)
        case RefRead():
            return RefRead(new[0], **common)
        case RefWrite():
            return RefWrite(new[0], new[1], **common)
    raise TypeError(f"{type(expr).__name__} has no subexpressions")


def post_order(expr: Expr) -> Iterator[Expr]:
    """Yield every node once, subexpressions first and in order of evaluation."""
    if not isinstance(expr, Function):
        return _walk(expr)
    order: tuple[Expr, ...] | None = getattr(expr, "order", None)
    if order is None:
        order = tuple(_walk(expr.body))
        # Passes walk each function many times, and what is below a node never changes.
        object.__setattr__(expr, "order", order)
    return chain(order, (expr,))


def _walk(expr: Expr, known: Container[int] = ()) -> Iterator[Expr]:
    """Walk as `post_order`, but enter no node whose id is known."""
    opened: set[int] = set()
    done: set[int] = set()
    stack: list[Expr] = [expr]
    while stack:
        node = stack.pop()
        key = id(node)
        if key in done or key in known:
            continue
        if key not in opened:
            of_class = _CHILDREN.get(type(node))
            below = children(node) if of_class is None else of_class(node)
            if below:
                opened.add(key)
                stack.append(node)
                stack.extend(below[::-1])
                continue
        done.add(key)
        yield node


def fold(expr: Expr, combine: Callable[[Expr, tuple[T, ...]], T]) -> T:
    """Return `combine(node, results of its children)` of the root, computed once a node, from the
    leaves up.
    """
    results: dict[int, T] = {}
    for node in post_order(expr):
        results[id(node)] = combine(node, tuple(results[id(c)] for c in children(node)))
    return results[id(expr)]


def rebuild(
    root: Expr, transform: Callable[[Expr, Expr], Expr], *, memo: dict[int, Expr] | None = None
) -> Expr:
    """Return `root` with `transform(before, after)` applied to every node, operands first.

    `after` is `before` with its operands replaced, and the same object if none was. Binders are
    not transformed. Sharing, spans and types are kept. `memo` maps ids of old nodes to new ones:
    entries given are not entered, and what is found is added. The caller keeps the old nodes alive.
    """
    done: dict[int, Expr] = {} if memo is None else memo
    for node in post_order(root) if memo is None else _walk(root, memo):
        done[id(node)] = transform(node, with_parts(node, done))
    return done[id(root)]


def rewrite(
    expr: Expr, change: Callable[[Expr], Expr], *, memo: dict[int, Expr] | None = None
) -> Expr:
    """Return `expr` with `change` applied to each node once its subexpressions are rebuilt; as
    `rebuild` for those who need not know the node before.
    """
    return rebuild(expr, lambda _, after: change(after), memo=memo)


def with_parts(node: Expr, done: Mapping[int, Expr]) -> Expr:
    """Return `node` with each subexpression `e` replaced by `done[id(e)]`."""
    parts = children(node)
    new = tuple([done[id(part)] for part in parts])
    return node if all(map(is_, parts, new)) else built(node, new)


def pattern_walk(pattern: Pattern) -> Iterator[Pattern]:
    """Yield a pattern and all inside it, outer ones first, from left to right."""
    waiting = [pattern]
    while waiting:
        item = waiting.pop()
        yield item
        if isinstance(item, (PatternConstructor, PatternTuple)):
            waiting.extend(reversed(item.patterns))


def rewrite_pattern(pattern: Pattern, change: Callable[[Pattern], Pattern]) -> Pattern:
    """Return a pattern with `change` applied to each part once the parts inside it are rebuilt;
    where nothing changes the result is the same object.
    """
    done: dict[int, Pattern] = {}
    for item in reversed(list(pattern_walk(pattern))):
        new = item
        if isinstance(item, (PatternConstructor, PatternTuple)):
            inner = tuple(done[id(p)] for p in item.patterns)
            if any(a is not b for a, b in zip(inner, item.patterns)):
                new = replace(item, patterns=inner)
        done[id(item)] = change(new)
    return done[id(pattern)]


def pattern_vars(pattern: Pattern) -> Iterator[Var]:
    """Yield the variables that a pattern binds, from left to right."""
    return (p.var for p in pattern_walk(pattern) if isinstance(p, PatternVar))


def binders(expr: Expr) -> tuple[Var, ...]:
    """Return the variables that this node itself binds."""
    match expr:
        case Let():
            return (expr.var,)
        case Function():
            return expr.params
        case Match():
            return tuple(v for clause in expr.clauses for v in pattern_vars(clause.lhs))
        case _:
            return ()


def bound_vars(expr: Expr) -> tuple[Var, ...]:
    """Return all variables bound inside `expr`, each once, inner expressions first."""
    return tuple(dict.fromkeys(v for node in post_order(expr) for v in binders(node)))


def free_vars(expr: Expr) -> tuple[Var, ...]:
    """Return the variables used but not bound inside `expr`, each once, in order of first use.

    Relies on each variable having one binder.
    """
    bound: set[Var] = set()
    used: dict[Var, None] = {}
    for node in post_order(expr):
        if isinstance(node, Var):
            used[node] = None
        else:
            bound.update(binders(node))
    return tuple(v for v in used if v not in bound)


def global_vars(expr: Expr) -> tuple[str, ...]:
    """Return the names of the global functions that `expr` uses, each once, in order of first
    use.
    """
    return tuple(dict.fromkeys(n.name for n in post_order(expr) if isinstance(n, GlobalVar)))


def node_types(expr: Expr) -> Iterator[Type]:
    """Yield the types written in this node itself: annotations, return type, type arguments."""
    for var in binders(expr):
        if var.type_annotation is not None:
            yield var.type_annotation
    if isinstance(expr, Function):
        if expr.ret_type is not None:
            yield expr.ret_type
        yield from expr.type_constraints
    if isinstance(expr, Var) and expr.type_annotation is not None:
        yield expr.type_annotation
    if isinstance(expr, Call):
        yield from expr.type_args


def free_type_vars(
    item: Expr | Type, variables: TypeVariables | None = None
) -> tuple[TypeParam, ...]:
    """Return the type parameters used but not introduced inside, each once, in order of first
    use. Whoever asks about many expressions gives the same `variables` each time.
    """
    if isinstance(item, Type):
        return tuple(dict.fromkeys(type_variables(item)))
    bound: set[TypeParam] = set()
    used: dict[TypeParam, None] = {}
    variables = variables or TypeVariables()
    for node in post_order(item):
        for type_ in node_types(node):
            used.update(dict.fromkeys(variables(type_)))
        if isinstance(node, Call):
            for value in node.attrs.values():
                used.update(dict.fromkeys(attr_variables(value)))
        if isinstance(node, Function):
            bound.update(node.type_params)
    return tuple(v for v in used if v not in bound)


def substitute(expr: Expr, values: Mapping[Var, Expr]) -> Expr:
    """Return `expr` with variables replaced by expressions."""
    if not values:
        return expr
    return rewrite(expr, lambda n: values.get(n, n) if isinstance(n, Var) else n)


def substitute_types(expr: Expr, values: Mapping[TypeParam, Type | Dim]) -> Expr:
    """Return `expr` with type parameters replaced everywhere; variables whose annotation changes
    are renewed.
    """
    return rebind(expr, lambda t: substitute_in_type(t, values), values)


def fresh_binders(expr: Expr) -> Expr:
    """Return a copy of `expr` in which every variable that it binds is a new one."""
    return rebind(expr, None, {})


def rebind(
    expr: Expr,
    change_type: Callable[[Type], Type] | None,
    dims: Mapping[TypeParam, Type | Dim],
) -> Expr:
    """Return a copy with renewed variables: all of them where `change_type` is None, else those it
    changes.
    """
    change = change_type or (lambda t: t)

    def maybe(type_: Type | None) -> Type | None:
        return None if type_ is None else change(type_)

    renewed: dict[Var, Var] = {}
    bound = bound_vars(expr)
    for var in bound if change_type is None else (*bound, *free_vars(expr)):
        annotation, checked = maybe(var.type_annotation), maybe(var.checked_type)
        same = annotation is var.type_annotation and checked is var.checked_type
        if change_type is None or not same:
            renewed[var] = Var(var.name, annotation, span=var.span, checked_type=checked)

    def step(node: Expr) -> Expr:
        if isinstance(node, Var):
            return renewed.get(node, node)
        if isinstance(node, LEAVES) and not isinstance(node, (Constant, GlobalVar)):
            return node
        checked = maybe(node.checked_type)
        if checked is not node.checked_type:
            node = replace(node, checked_type=checked)
        return _rebound(node, renewed, change, dims)

    return rewrite(expr, step)


def _rebound(
    node: Expr,
    renewed: Mapping[Var, Var],
    change: Callable[[Type], Type],
    dims: Mapping[TypeParam, Type | Dim],
) -> Expr:
    match node:
        case Let() if node.var in renewed:
            return replace(node, var=renewed[node.var])
        case Function():
            params = tuple(renewed.get(p, p) for p in node.params)
            ret_type = None if node.ret_type is None else change(node.ret_type)
            constraints = cast(
                "tuple[TypeRelation, ...]", tuple(change(c) for c in node.type_constraints)
            )
            if (
                same_objects(params, node.params)
                and ret_type is node.ret_type
                and same_objects(constraints, node.type_constraints)
            ):
                return node
            return replace(node, params=params, ret_type=ret_type, type_constraints=constraints)
        case Call():
            type_args = tuple(change(t) for t in node.type_args)
            attrs = substitute_in_attrs(node.attrs, dims) if dims else node.attrs
            if same_objects(type_args, node.type_args) and attrs is node.attrs:
                return node
            return replace(node, type_args=type_args, attrs=attrs)
        case Match():
            clauses = tuple(replace(c, lhs=_rebound_pattern(c.lhs, renewed)) for c in node.clauses)
            return replace(node, clauses=clauses)
        case _:
            return node


def _rebound_pattern(pattern: Pattern, renewed: Mapping[Var, Var]) -> Pattern:
    def rebound(part: Pattern) -> Pattern:
        if not isinstance(part, PatternVar):
            return part
        return replace(part, var=renewed.get(part.var, part.var))

    return rewrite_pattern(pattern, rebound)
