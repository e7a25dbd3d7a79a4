"""Type inference: checks a module and returns it with a type at every expression."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from relayvm.base.diagnostics import Diagnostic
from relayvm.base.dims import DimExpr, dims_equal
from relayvm.base.trampoline import trampoline
from relayvm.compiler.inference.context import Context
from relayvm.compiler.inference.rebuild import Rebuild
from relayvm.compiler.inference.recursion import callees_first
from relayvm.compiler.inference.settle import settle
from relayvm.compiler.inference.walk import Walk
from relayvm.compiler.kinds import check_type_definitions
from relayvm.ir.expr import Expr, Function, Var
from relayvm.ir.module import Module
from relayvm.ir.types import TensorType, TupleType, Type

EMPTY = Module()


def infer_types(module: Module) -> Module:
    """Return the module with types: `checked_type` everywhere, annotations at variables, results,
    type arguments.

    Returns `module` itself if all of it is there already. Operators and constructors that are
    called are shared and keep their `checked_type` as it is. Where a type with `?` flows into one
    with a known dim (`needs_check`), the consumer of the typed program inserts the run-time check.
    Linear in the size of the program, but for recursion without annotations. Raises RelayError with
    every independent error.
    """
    context = Context(module, {})
    check_type_definitions(module, context.sink)
    _visit_functions(context, module.functions)
    settle(context)
    context.sink.raise_if_any()
    rebuild = Rebuild(context)
    typed = {name: rebuild.expr(function) for name, function in module.functions.items()}
    functions = {name: f for name, f in typed.items() if isinstance(f, Function)}
    assert len(functions) == len(typed)
    return module.with_functions(functions)


def type_errors(module: Module, names: Collection[str]) -> tuple[Diagnostic, ...]:
    """Return the type errors of some functions; of all others only the signatures are looked at."""
    context = Context(module, {})
    check_type_definitions(module, context.sink)
    _visit_functions(context, {n: f for n, f in module.functions.items() if n in names})
    settle(context)
    return tuple(context.sink.diagnostics)


def infer_expr(expr: Expr, module: Module = EMPTY, env: Mapping[Var, Type] | None = None) -> Expr:
    """Return one expression with types, in the scope of a module.

    Free variables take their types from `env` or their annotations and stay the same objects.
    Functions of the module that the expression uses must be annotated or inferable; they are not
    returned. Raises RelayError as `infer_types`.
    """
    context = Context(module, env or {})
    _visit_functions(context, _unfinished(module))
    trampoline(Walk(context).visit(None, 0, expr))
    settle(context)
    context.sink.raise_if_any()
    return Rebuild(context, keep_free_vars=True).expr(expr)


def type_of(expr: Expr, module: Module = EMPTY, env: Mapping[Var, Type] | None = None) -> Type:
    """Return the type of an expression; inferred unless the expression has it already."""
    typed = expr if expr.checked_type is not None else infer_expr(expr, module, env)
    if typed.checked_type is None:
        assert isinstance(typed, Var) and typed.type_annotation is not None
        return typed.type_annotation
    return typed.checked_type


def needs_check(from_type: Type, to_type: Type) -> bool:
    """Return True if a value of one type needs a run-time check of its dims to stand where the
    other is declared.

    That is so where a dim of `to_type` is known and that of `from_type` is `?` or may differ. Only
    tensors, also in tuples, ever need one: inside data types, functions and references dims fit
    without.
    """
    stack = [(from_type, to_type)]
    while stack:
        source, target = stack.pop()
        if source is target:
            continue
        if isinstance(source, TupleType) and isinstance(target, TupleType):
            stack.extend(zip(source.fields, target.fields))
        elif isinstance(source, TensorType) and isinstance(target, TensorType):
            for a, b in zip(source.shape, target.shape):
                if isinstance(b, (int, DimExpr)) and dims_equal(a, b) is not True:
                    return True
    return False


def _visit_functions(context: Context, functions: Mapping[str, Function]) -> None:
    """Visit functions, those that are called before their callers, so that results are known at
    uses.
    """
    walk = Walk(context)
    for group in callees_first(functions):
        for name in group:
            trampoline(walk.function(functions[name], f"`@{name}`"))
        for name in group:
            context.open.discard(id(context.signature(functions[name])))


def _unfinished(module: Module) -> dict[str, Function]:
    """Return the functions whose types are not complete without their bodies."""
    return {
        name: function
        for name, function in module.functions.items()
        if function.ret_type is None or _lacks_annotation(function.params)
    }


def _lacks_annotation(params: Iterable[Var]) -> bool:
    return any(p.type_annotation is None for p in params)


__all__ = ["infer_expr", "infer_types", "needs_check", "type_errors", "type_of"]
