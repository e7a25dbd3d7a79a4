"""Lambda lifting as a pass over programs: local functions become globals, with types to be inferred
anew.
"""

from __future__ import annotations

from dataclasses import replace

from relayvm.base.trampoline import Recursive
from relayvm.compiler.analysis.scopes import is_primitive
from relayvm.compiler.transforms.aligned_generics import with_aligned_params
from relayvm.compiler.transforms.lift_closures import Lifter
from relayvm.compiler.transforms.lift_generics import Lifts
from relayvm.ir.expr import Expr, Function, GlobalVar, Let, Var
from relayvm.ir.module import Module
from relayvm.ir.types import FuncType
from relayvm.ir.visit import free_type_vars, free_vars, rebuild


def lambda_lift(module: Module) -> Module:
    """Make local functions global ones.

    `let %g = fn (%y) { .. }; %g(%x)` -> `@f_g(%x)` where the function captures nothing; otherwise
    `let %g = @f_g(%a); %g(%x)` with `def @f_g(%a, Closure=1) { fn (%y) { .. } }`. Calls of a local
    function with type parameters hand over what it captures: `@f_g[A, int32](%a, %x)`; where it is
    a value, a function stays that is one such call. Requires TYPED and ANF.
    """
    names = set(module.functions)
    lifter, generics = _LambdaLifter(names), Lifts(names)
    functions: dict[str, Function] = {}
    for name, function in module.functions.items():
        kept = is_primitive(function) or function.attrs.get("Closure")
        if not kept:
            function = generics.run(name, with_aligned_params(function, module))
        functions[name] = function
    functions.update(generics.functions)
    for name, function in functions.items():
        kept = is_primitive(function) or function.attrs.get("Closure")
        functions[name] = function if kept else lifter.run(name, function)
    functions.update(lifter.lifted)
    if lifter.named:
        functions = {name: _renamed(f, lifter.named) for name, f in functions.items()}
    return module.with_functions(functions)


class _LambdaLifter(Lifter):
    def __init__(self, names: set[str]) -> None:
        super().__init__(names)
        self.named: dict[Var, GlobalVar] = {}

    def lift(self, function: Function, name: Var | None) -> Recursive[Expr]:
        free = [v for v in free_vars(function) if v is not name and v not in self.named]
        if free or free_type_vars(function):
            if function.type_params:
                inside: Function = yield self.inside(function)
                return inside
            closure: Expr = yield super().lift(function, name)
            return closure
        stem = self.fresh_name(name)
        kind = function.checked_type
        assert isinstance(kind, FuncType)
        own = GlobalVar(stem, span=function.span, checked_type=kind)
        if name is not None:
            self.named[name] = own
        self.lifted[stem] = yield self.inside(function)
        return own

    def captures_of(self, function: Function) -> list[Var]:
        """Return the free variables of a function but for those that are globals now."""
        return [v for v in free_vars(function) if v not in self.named]


def _renamed(function: Function, named: dict[Var, GlobalVar]) -> Function:
    def step(_before: Expr, after: Expr) -> Expr:
        if isinstance(after, Var):
            return named.get(after, after)
        if isinstance(after, Let) and after.var in named:
            return after.body
        return after

    result = rebuild(function, step)
    assert isinstance(result, Function)
    if result is not function:
        result = replace(result, checked_type=None)
    return result
