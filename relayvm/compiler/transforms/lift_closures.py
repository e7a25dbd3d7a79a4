"""Closure conversion: each local function becomes a global one that takes what it captures."""

from __future__ import annotations

from dataclasses import replace

from relayvm.base.trampoline import Recursive, trampoline
from relayvm.compiler.analysis.scopes import is_primitive
from relayvm.compiler.analysis.sizes import size_suppliers
from relayvm.compiler.transforms.blocks import Binding, rebuild_block, split_block
from relayvm.ir.expr import (
    Attrs,
    Call,
    Expr,
    Function,
    GlobalVar,
    If,
    Let,
    Match,
    Var,
)
from relayvm.ir.module import Module
from relayvm.ir.types import FuncType, Type, TypeRelation
from relayvm.ir.visit import TypeVariables, assumed, free_type_vars, free_vars, substitute

CLOSURE = Attrs(Closure=1)


def lift_closures(module: Module) -> Module:
    """Return the module with all local functions lifted to globals with attribute `Closure=1`.

    Requires TYPED and ANF, ensures CLOSURES_LIFTED. A lifted function takes the captures and
    returns the closure; a closure that calls itself does so by the name it is bound to inside, so
    that it does not capture itself.

    `def @f(%x) { let %g = fn (%y) { add(%x, %y) }; %g }`
    -> `def @f(%x) { @f_lambda(%x) }`, `def @f_lambda(%x, Closure=1) { fn (%y) { add(%x, %y) } }`
    """
    lifter = Lifter(set(module.functions))
    functions: dict[str, Function] = {}
    for name, function in module.functions.items():
        if is_primitive(function):
            functions[name] = function
        elif function.attrs.get("Closure"):
            functions[name] = lifter.again(name, function)
        else:
            functions[name] = lifter.run(name, function)
    return module.with_functions({**functions, **lifter.lifted})


class Lifter:
    """Lifts the local functions of one function after the other."""

    def __init__(self, names: set[str]) -> None:
        self.names = names
        self.counts: dict[str, int] = {}
        self.lifted: dict[str, Function] = {}
        self.owner = ""
        self.params: list[Var] = []  # of the functions around
        self.constraints: list[TypeRelation] = []  # of the functions around
        self.variables = TypeVariables()

    def run(self, name: str, function: Function) -> Function:
        self.owner = name
        result: Function = trampoline(self.inside(function))
        return result

    def again(self, name: str, function: Function) -> Function:
        """Lift what is inside the closure that a lifted function returns; one that only says that
        it is lifted becomes a function like others.
        """
        body = function.body
        named = body if isinstance(body, Let) and body.body is body.var else None
        inner = named.value if named else body
        if not isinstance(inner, Function) or is_primitive(inner):
            attrs = Attrs({n: v for n, v in function.attrs.items() if n != "Closure"})
            return self.run(name, replace(function, attrs=attrs))
        self.params, self.constraints = [*function.params], [*function.type_constraints]
        new = self.run(name, inner)
        self.params, self.constraints = [], []
        if new is inner:
            return function
        return _with_body(function, replace(named, value=new) if named else new)

    def inside(self, function: Function) -> Recursive[Function]:
        """Lift what is inside a function."""
        self.params.extend(function.params)
        self.constraints.extend(function.type_constraints)
        body = yield self.block(function.body)
        del self.params[len(self.params) - len(function.params) :]
        del self.constraints[len(self.constraints) - len(function.type_constraints) :]
        return _with_body(function, body)

    def block(self, expr: Expr) -> Recursive[Expr]:
        bindings, tail = split_block(expr)
        new: list[Binding] = []
        for binding in bindings:
            value = yield self.value(binding.value, binding.var)
            new.append(binding if value is binding.value else replace(binding, value=value))
        last = yield self.value(tail, None)
        same = last is tail and all(a.value is b.value for a, b in zip(new, bindings))
        return expr if same else rebuild_block(new, last)

    def value(self, expr: Expr, name: Var | None) -> Recursive[Expr]:
        match expr:
            case Function() if not is_primitive(expr):
                closure: Expr = yield self.lift(expr, name)
                return closure
            case If():
                yes = yield self.block(expr.true_branch)
                no = yield self.block(expr.false_branch)
                if yes is expr.true_branch and no is expr.false_branch:
                    return expr
                return replace(expr, true_branch=yes, false_branch=no)
            case Match():
                sides: list[Expr] = []
                for clause in expr.clauses:
                    side = yield self.block(clause.rhs)
                    sides.append(side)
                if all(new is c.rhs for new, c in zip(sides, expr.clauses)):
                    return expr
                clauses = tuple(replace(c, rhs=new) for c, new in zip(expr.clauses, sides))
                return replace(expr, clauses=clauses)
            case Call() if isinstance(expr.op, Function) and not is_primitive(expr.op):
                op = yield self.lift(expr.op, None)
                return replace(expr, op=op)
            case _:
                return expr

    def lift(self, function: Function, name: Var | None) -> Recursive[Expr]:
        function = yield self.inside(function)
        free = self.captures_of(function)
        captures = [v for v in free if v is not name]
        recursive = len(captures) < len(free)
        captures += size_suppliers(function, captures, self.params)
        # Functions with type parameters, as passes make of these, need the types of theirs.
        fresh = {v: Var(v.name, _type(v), span=v.span, checked_type=_type(v)) for v in captures}
        inner: Expr = substitute(function, dict(fresh))
        kind = function.checked_type
        assert isinstance(kind, FuncType)
        if recursive:
            assert name is not None
            own = Var(name.name, kind, span=name.span, checked_type=kind)
            inner = Let(
                own, substitute(inner, {name: own}), own, span=function.span, checked_type=kind
            )
        global_name = self.fresh_name(name)
        params = tuple(fresh.values())
        maker = FuncType(tuple(_type(p) for p in params), kind)
        used = free_type_vars(Function(params, inner), self.variables)
        type_params, known = assumed(used, self.constraints)
        self.lifted[global_name] = Function(
            params, inner, kind, type_params, CLOSURE, known, span=function.span, checked_type=maker
        )
        callee = GlobalVar(global_name, span=function.span, checked_type=maker)
        return Call(callee, tuple(captures), span=function.span, checked_type=kind)

    def captures_of(self, function: Function) -> list[Var]:
        """Return the variables that a function takes from around it."""
        return list(free_vars(function))

    def fresh_name(self, name: Var | None) -> str:
        stem = f"{self.owner}_{name.name if name is not None else 'lambda'}"
        candidate = stem
        while candidate in self.names:
            self.counts[stem] = self.counts.get(stem, 0) + 1
            candidate = f"{stem}{self.counts[stem]}"
        self.names.add(candidate)
        return candidate


def _with_body(function: Function, body: Expr) -> Function:
    return function if body is function.body else replace(function, body=body)


def _type(var: Var) -> Type:
    kind = var.checked_type or var.type_annotation
    assert kind is not None
    return kind
