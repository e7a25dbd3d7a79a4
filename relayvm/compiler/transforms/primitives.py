"""Primitive functions (one kernel each) as parts of programs: opened, inlined, defused."""

from __future__ import annotations

from dataclasses import replace

from relayvm.compiler.analysis.scopes import is_primitive
from relayvm.ir.expr import Attrs, Call, Expr, Function, GlobalVar, Let, Var
from relayvm.ir.module import Module
from relayvm.ir.visit import fresh_binders, post_order, rebuild, substitute


def open_primitives(module: Module) -> Module:
    """Drop `Primitive=1` everywhere: `fn (%p, Primitive=1) { .. }` -> `fn (%p) { .. }`.

    What kernels are is decided by `fuse` alone. A primitive function of the program may hold
    anything, as any other function; one that has a name takes the place of it where it is called.
    """
    if not any(_mentions_primitive(f) for f in module.functions.values()):
        return module

    def step(_before: Expr, after: Expr) -> Expr:
        if not isinstance(after, Function) or not is_primitive(after):
            return after
        kept = {name: value for name, value in after.attrs.items() if name != "Primitive"}
        return replace(after, attrs=Attrs(kept))

    return _each(inline_primitives(module), step)


def _mentions_primitive(function: Function) -> bool:
    return any(is_primitive(node) for node in post_order(function))


def inline_primitives(module: Module) -> Module:
    """Put primitive functions in the place of their names: `let %f = fn (.., Primitive=1) {..};
    %f(%x)` -> `fn (.., Primitive=1) {..}(%x)`; globals likewise.
    """
    functions = {}
    for name, function in module.functions.items():
        local = {
            node.var: node.value
            for node in post_order(function)
            if isinstance(node, Let)
            and isinstance(node.value, Function)
            and is_primitive(node.value)
        }
        functions[name] = _named_primitives_inlined(function, module, local)
    return module.with_functions(functions)


def _named_primitives_inlined(
    function: Function, module: Module, local: dict[Var, Function]
) -> Function:
    def step(_before: Expr, after: Expr) -> Expr:
        if not isinstance(after, Call):
            return after
        callee: Function | None = None
        if isinstance(after.op, GlobalVar):
            callee = module.functions.get(after.op.name)
        elif isinstance(after.op, Var):
            callee = local.get(after.op)
        if callee is None or not is_primitive(callee) or callee.type_params:
            return after
        return replace(after, op=fresh_binders(callee), type_args=())

    result = rebuild(function, step)
    assert isinstance(result, Function)
    return result


def defuse_ops(module: Module) -> Module:
    """Put what primitive functions compute in the place of their calls, the inverse of `fuse_ops`:
    `fn (%p, Primitive=1) { exp(%p) }(%x)` -> `exp(%x)`.
    """

    def step(_before: Expr, after: Expr) -> Expr:
        if not isinstance(after, Call) or not is_primitive(after.op):
            return after
        assert isinstance(after.op, Function)
        plain = fresh_binders(after.op)
        assert isinstance(plain, Function)
        return substitute(plain.body, dict(zip(plain.params, after.args)))

    return _each(module, step)


def _each(module: Module, step: object) -> Module:
    functions = {}
    for name, function in module.functions.items():
        result = rebuild(function, step)  # type: ignore[arg-type]
        assert isinstance(result, Function)
        functions[name] = result
    return module.with_functions(functions)
