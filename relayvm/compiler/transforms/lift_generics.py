"""Lifting of local polymorphic functions: their code becomes that of globals, which calls name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from relayvm.base.dims import symbol
from relayvm.compiler.analysis.sizes import size_suppliers
from relayvm.compiler.transforms.instances import match_types, type_params_only
from relayvm.ir.expr import Call, Expr, Function, GlobalVar, Let, Var
from relayvm.ir.types import FuncType, ShapeArg, Type, TypeParam, TypeRelation, TypeVar
from relayvm.ir.visit import (
    TypeVariables,
    assumed,
    children,
    free_type_vars,
    free_vars,
    post_order,
    rebuild,
    substitute,
    with_own_params,
)


@dataclass(slots=True)
class Lifted:
    """A polymorphic function, what it takes from around it, and the name of the global."""

    name: str
    function: Function
    var: Var | None
    owner: Function
    captures: tuple[Var, ...]
    outer: tuple[TypeParam, ...]
    # What is known of type parameters around it that it uses.
    constraints: tuple[TypeRelation, ...]
    used_as_value: bool = False

    @property
    def is_closed(self) -> bool:
        """Whether the global itself can be the value of this function."""
        return not self.captures and not self.outer


@dataclass(slots=True)
class Lifts:
    """The globals that were made of local polymorphic functions."""

    names: set[str]
    # Whether a function that is one call is lifted, but for another name of a global; else those
    # that capture something are left.
    all_values: bool = False
    functions: dict[str, Function] = field(default_factory=dict)

    def run(self, name: str, function: Function) -> Function:
        """Return a function in A-normal form whose calls of local polymorphic functions are calls
        of globals, with what these capture and all type parameters in scope that they use.

        `let %g = fn [B](%b: B) { (%a, %b) }; (%g(1), @f(%g))` -> `let %g = fn [B](%b: B) { @h_g[A,
        B](%a, %b) }; (@h_g[A, int32](%a, 1), @f(%g))`: only a function that is used as a value is
        left, and its code is one call. Other functions do not capture it.
        """
        if not any(map(is_generic, post_order(function.body))):
            return function
        lifting = _Lifting(name, function, self)
        new = lifting.rewritten()
        self.functions.update(lifting.done)
        return new


def is_generic(node: Expr) -> bool:
    """Return True for a function with type parameters of kind Type."""
    return isinstance(node, Function) and bool(type_params_only(node.type_params))


def _is_one_call(function: Function) -> bool:
    body = function.body
    return (
        isinstance(body, Call)
        and isinstance(body.op, GlobalVar)
        and all(isinstance(arg, Var) for arg in body.args)
    )


def _is_name(function: Function) -> bool:
    """Return True for `fn [A](%a: A) { @f[A](%a) }`."""
    body = function.body
    if not _is_one_call(function) or not isinstance(body, Call):
        return False
    same = body.type_args == type_args(function.type_params)
    return same and body.args == function.params


# The functions around a place, the innermost first.
_Scope = tuple[Function, "_Scope | None"]


class _Lifting:
    def __init__(self, name: str, function: Function, lifts: Lifts) -> None:
        self.name = name
        self.root = function
        self.names = lifts.names
        self.all_values = lifts.all_values
        self.variables = TypeVariables()
        self.by_var: dict[Var, Lifted] = {}
        self.by_function: dict[int, Lifted] = {}
        # By functions, those that they use as values and that are bound outside of them.
        self.values: dict[int, dict[Var, Lifted]] = {}
        self.own_calls: set[int] = set()
        self.done: dict[str, Function] = {}
        self.find()

    def find(self) -> None:
        """Note the polymorphic functions, outer ones and those that are bound before first."""
        waiting: list[tuple[Expr, _Scope]] = [(self.root.body, (self.root, None))]
        while waiting:
            node, scope = waiting.pop()
            bound = node.value if isinstance(node, Let) else None
            if isinstance(node, Let) and bound is not None and is_generic(bound):
                self.note(bound, node.var, scope)
            elif id(node) not in self.by_function and is_generic(node):
                self.note(node, None, scope)
            inner = (node, scope) if isinstance(node, Function) else scope
            for place, part in enumerate(children(node)):
                used = self.by_var.get(part) if isinstance(part, Var) else None
                if used is not None and not (place == 0 and isinstance(node, Call)):
                    self.note_value(used, inner[0])
                waiting.append((part, inner))

    def note(self, function: Expr, var: Var | None, scope: _Scope) -> None:
        assert isinstance(function, Function)
        captures: dict[Var, None] = {}
        params: dict[TypeParam, None] = {}
        for free in free_vars(function):
            used = self.by_var.get(free)
            if used is not None:
                captures.update(dict.fromkeys(used.captures))
                params.update(dict.fromkeys(used.outer))
            elif free is not var:
                captures[free] = None
        around = _functions(scope)
        outside = [param for f in around for param in f.params]
        captures.update(dict.fromkeys(size_suppliers(function, captures, outside)))
        for type_ in (*map(_type, captures), *map(_type, function.params)):
            params.update(dict.fromkeys(self.variables(type_)))
        params.update(dict.fromkeys(free_type_vars(function, self.variables)))
        constraints = [r for f in around for r in f.type_constraints]
        own = set(function.type_params)
        outer, taken = assumed([p for p in params if p not in own], constraints)
        stays = _is_name(function) if self.all_values else captures and _is_one_call(function)
        if stays:
            return
        name = self.fresh(var.name if var is not None else "lambda")
        made = Lifted(name, function, var, scope[0], tuple(captures), outer, taken)
        self.by_function[id(function)] = made
        if var is not None:
            self.by_var[var] = made

    def note_value(self, used: Lifted, user: Function) -> None:
        if used.owner is user:
            used.used_as_value = True
        else:
            assert used.var is not None
            self.values.setdefault(id(user), {})[used.var] = used

    def fresh(self, name: str) -> str:
        stem = candidate = f"{self.name}_{name}"
        count = 0
        while candidate in self.names:
            count += 1
            candidate = f"{stem}{count}"
        self.names.add(candidate)
        return candidate

    def rewritten(self) -> Function:
        new = rebuild(self.root, self.step)
        assert isinstance(new, Function)
        return replace(new, checked_type=self.root.checked_type)

    def step(self, before: Expr, after: Expr) -> Expr:
        if isinstance(before, Let) and before.var in self.by_var:
            assert isinstance(after, Let)
            return after if self.by_var[before.var].used_as_value else after.body
        if isinstance(before, Function):
            assert isinstance(after, Function)
            after = self.with_values(before, after)
            made = self.by_function.get(id(before))
            if made is None:
                return after
            self.done[made.name] = _global(made, after)
            return _value(made)
        if isinstance(before, Call) and isinstance(before.op, Var):
            made = self.by_var.get(before.op)
            if made is not None:
                assert isinstance(after, Call)
                return _direct(made, before, after)
        return after

    def with_values(self, before: Function, after: Function) -> Function:
        """Return a function with lets for the polymorphic functions around it that it uses."""
        used = self.values.get(id(before))
        if not used:
            return after
        own = {var: replace(var) for var in used}
        body = substitute(after.body, dict(own))
        for var, made in reversed(list(used.items())):
            body = Let(own[var], _value(made), body, checked_type=body.checked_type)
        return replace(after, body=body)


def _functions(scope: _Scope) -> list[Function]:
    """Return the functions around a place, the outermost first."""
    around: list[Function] = []
    inner: _Scope | None = scope
    while inner is not None:
        around.append(inner[0])
        inner = inner[1]
    return around[::-1]


def _global(made: Lifted, function: Function) -> Function:
    """Return the global function, which takes what the local one takes from around it."""
    kind = made.function.checked_type
    assert isinstance(kind, FuncType)
    fresh = {v: Var(v.name, _type(v), span=v.span, checked_type=_type(v)) for v in made.captures}
    own = {
        v: v if v.type_annotation else replace(v, type_annotation=_type(v)) for v in function.params
    }
    params = (*fresh.values(), *own.values())
    type_params = (*made.outer, *function.type_params)
    constraints = (*made.constraints, *function.type_constraints)
    return replace(
        function,
        params=params,
        body=substitute(function.body, {**fresh, **own}),
        ret_type=function.ret_type or kind.ret_type,
        type_params=type_params,
        type_constraints=constraints,
        checked_type=FuncType(tuple(map(_type, params)), kind.ret_type, type_params, constraints),
    )


def _value(made: Lifted) -> Expr:
    """Return what stands for the function where it is a value."""
    kind = made.function.checked_type
    assert isinstance(kind, FuncType)
    if made.is_closed:
        return GlobalVar(made.name, span=made.function.span, checked_type=kind)
    return _one_call(kind, made)


def _one_call(kind: FuncType, made: Lifted) -> Function:
    """Return `fn [B](%b: B) { @g[A, B](%a, %b) }`."""
    like = made.function
    own = with_own_params(kind)
    pairs = zip(like.params, own.arg_types)
    params = tuple(Var(p.name, t, span=p.span, checked_type=t) for p, t in pairs)
    given = type_args((*made.outer, *own.type_params))
    callee = GlobalVar(made.name, span=like.span)
    args = (*made.captures, *params)
    body = Call(callee, args, type_args=given, span=like.span, checked_type=own.ret_type)
    return Function(
        params,
        body,
        own.ret_type,
        own.type_params,
        type_constraints=own.type_constraints,
        span=like.span,
        checked_type=own,
    )


def type_args(params: Sequence[TypeParam]) -> tuple[Type, ...]:
    """Return type parameters as arguments."""
    return tuple(p if isinstance(p, TypeVar) else ShapeArg(symbol(p)) for p in params)


def _type(var: Var) -> Type:
    kind = var.checked_type or var.type_annotation
    assert kind is not None
    return kind


def _direct(made: Lifted, before: Call, after: Call) -> Call:
    """Return the call of the global in place of one of the local function."""
    given = after.type_args or _found_args(made.function, before)
    return replace(
        after,
        op=GlobalVar(made.name, span=before.op.span),
        args=(*made.captures, *after.args),
        type_args=(*type_args(made.outer), *given) if given else (),
    )


def _found_args(function: Function, call: Call) -> tuple[Type, ...]:
    """Return the type arguments of a call that names none: one inside of the function itself."""
    kind, result = function.checked_type, call.checked_type
    if not isinstance(kind, FuncType) or result is None:
        return ()
    types = [a.checked_type for a in call.args if a.checked_type is not None]
    found: dict[TypeVar, Type] = {}
    known = set(type_params_only(kind.type_params))
    match_types(kind, FuncType(tuple(types), result), known, found)
    own = type_args(function.type_params)
    return tuple(found.get(a, a) if isinstance(a, TypeVar) else a for a in own)
