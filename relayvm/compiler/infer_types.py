"""Type inference: checks a module and returns it with a type at every expression."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from relayvm.base.diagnostics import Diagnostic, Note, source_order
from relayvm.base.dims import DimExpr, dims_equal
from relayvm.base.trampoline import trampoline
from relayvm.compiler.analysis.variables import escapes
from relayvm.compiler.inference.choices import Choices
from relayvm.compiler.inference.context import Context
from relayvm.compiler.inference.holes import Choice
from relayvm.compiler.inference.messages import type_text
from relayvm.compiler.inference.rebuild import Rebuild
from relayvm.compiler.inference.recursion import callees_first
from relayvm.compiler.inference.settle import settle
from relayvm.compiler.inference.type_walk import SameTypes
from relayvm.compiler.inference.walk import Walk
from relayvm.compiler.kinds import check_type_definitions
from relayvm.ir.expr import Expr, Function, Var
from relayvm.ir.module import Inferred, Module
from relayvm.ir.types import POISON, FuncType, TensorType, TupleType, Type, TypeVar
from relayvm.ir.visit import binders, children, global_vars

EMPTY = Module()

# Each round finds at least one more place that needs a polymorphic function; places that get theirs
# from others come later. A large program gets fewer rounds: all rounds together look at so many
# expressions.
FEWEST_ROUNDS, MOST_ROUNDS = 12, 250
MOST_LOOKED_AT = 100_000


def infer_types(module: Module, late: bool = False) -> Module:
    """Return the module with types: `checked_type` everywhere, annotations at variables, results,
    type arguments.

    Returns `module` itself if all of it is there already. Functions that an earlier inference
    returned, and whose callees keep their signatures, are not looked at again. Operators and
    constructors that are called are shared and keep their `checked_type` as it is. Where a type
    with `?` flows into one with a known dim (`needs_check`), the consumer of the typed program
    inserts the run-time check. With `late` the module is what passes made of a typed one: they may
    know more of a size than the program tells, and where that contradicts what is declared, the
    check of the run tells so, if it comes there. Linear in the size of the program, but for
    recursion without annotations. Raises RelayError with every independent error.
    """
    kept = kept_functions(module)
    if len(kept) == len(module.functions):
        return module
    new = {n: f for n, f in module.functions.items() if n not in kept}

    def visit(context: Context) -> None:
        context.solver.dims.late = late
        _visit_module(context, new)

    context = _settled(module, {}, visit)
    context.sink.raise_if_any()
    rebuild = Rebuild(context)
    functions: dict[str, Function] = {}
    for name, function in module.functions.items():
        typed = function if name in kept else rebuild.expr(function)
        assert isinstance(typed, Function)
        functions[name] = typed
    if context.has_local_params:
        _check_escapes(context, [f for name, f in functions.items() if name not in kept])
    result = module.with_functions(functions)
    inferred = Inferred(result.functions, result.types)
    if result is module:
        # Nothing that can be seen changes: the module only knows now that it is typed.
        object.__setattr__(module, "inferred", inferred)
        return module
    return replace(result, inferred=inferred)


def _check_escapes(context: Context, functions: Iterable[Function]) -> None:
    """Raise RelayError where a type that was found mentions what only a function inside knows."""
    for escape in (e for function in functions for e in escapes(function)):
        name = escape.param.name
        what = "a type" if escape.var is None else f"`%{escape.var.name}`"
        context.reporter.report(
            "type-mismatch",
            f"{what} would be `{type_text(escape.type)}`, but `{name}` is a parameter of a function"
            " inside",
            escape.span,
            help=f"what takes values of type `{name}` must be made inside of that function",
        )
    context.sink.raise_if_any()


@dataclass(frozen=True, slots=True)
class Spoilt:
    """What has types that fit anywhere: variables, functions by name, what type parameters stand
    for where an operator is called, and calls of operators, by id, that lack attributes.
    """

    variables: tuple[Var, ...]
    functions: frozenset[str]
    params: frozenset[TypeVar]
    calls: frozenset[int]


def type_errors(module: Module, names: Collection[str], spoilt: Spoilt) -> tuple[Diagnostic, ...]:
    """Return the type errors of some functions; of all others only the signatures are looked at."""
    functions = {n: f for n, f in module.functions.items() if n in names}

    def visit(context: Context) -> None:
        context.vars.update((id(var), POISON) for var in spoilt.variables)
        context.unclear = spoilt.functions
        context.unclear_params |= spoilt.params
        context.unclear_calls = spoilt.calls
        context.has_faults = True
        _visit_module(context, functions)

    return tuple(_settled(module, {}, visit).sink.diagnostics)


def infer_expr(expr: Expr, module: Module = EMPTY, env: Mapping[Var, Type] | None = None) -> Expr:
    """Return one expression with types, in the scope of a module.

    Free variables take their types from `env` or their annotations and stay the same objects.
    Functions of the module that the expression uses must be annotated or inferable; they are not
    returned. Raises RelayError as `infer_types`.
    """

    def visit(context: Context) -> None:
        _visit_functions(context, _unfinished(module))
        trampoline(Walk(context).visit(None, 0, expr))

    context = _settled(module, env or {}, visit)
    context.sink.raise_if_any()
    return Rebuild(context, keep_free_vars=True).expr(expr)


def infer_type_local(expr: Expr, module: Module = EMPTY) -> Type:
    """Return the type of one expression from those of its direct subexpressions.

    Subexpressions that have a type are not looked at again; the others are inferred. Raises
    RelayError as `infer_types`.
    """

    def visit(context: Context) -> None:
        for var in binders(expr):
            if var.checked_type is not None:
                context.vars[id(var)] = var.checked_type
        for child in children(expr):
            if child.checked_type is not None:
                context.types[id(child)] = child.checked_type
        context.result = trampoline(Walk(context).visit(None, 0, expr))

    context = _settled(module, {}, visit)
    context.sink.raise_if_any()
    assert context.result is not None
    return Rebuild(context).type_(context.result)


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
    seen: set[tuple[int, int]] = set()
    while stack:
        source, target = stack.pop()
        key = id(source), id(target)
        if source is target or key in seen:
            continue
        seen.add(key)
        if isinstance(source, TupleType) and isinstance(target, TupleType):
            stack.extend(zip(source.fields, target.fields))
        elif isinstance(source, TensorType) and isinstance(target, TensorType):
            for a, b in zip(source.shape, target.shape):
                if isinstance(b, (int, DimExpr)) and dims_equal(a, b) is not True:
                    return True
    return False


def kept_functions(module: Module) -> frozenset[str]:
    """Return the names of the functions whose types an earlier inference found and that still
    hold.
    """
    known = module.inferred
    if known is None or any(module.types.get(n) is not d for n, d in known.types.items()):
        return frozenset()
    same = {n for n, f in module.functions.items() if known.functions.get(n) is f}
    moved = {
        name
        for name, function in known.functions.items()
        if name not in same and not _keeps_signature(function, module.functions.get(name))
    }
    if moved:
        same = {n for n in same if moved.isdisjoint(global_vars(module.functions[n]))}
    return frozenset(same)


def _keeps_signature(old: Function, new: Function | None) -> bool:
    """Return True if the written signature of a function is the one that `old` was inferred
    with.
    """
    if new is None or new.ret_type is None or _lacks_annotation(new.params):
        return False
    args = tuple(p.type_annotation for p in new.params if p.type_annotation is not None)
    signature = FuncType(args, new.ret_type, new.type_params, new.type_constraints)
    return old.checked_type is not None and SameTypes()(old.checked_type, signature)


def _settled(
    module: Module, env: Mapping[Var, Type], visit: Callable[[Context], object]
) -> Context:
    """Return what one inference found.

    Where polymorphic functions meet types to be found, these take one instance; those that so have
    a part in an error take the polymorphic type instead, if nothing else comes there. Of what is
    wrong whichever they take, the least is reported.
    """
    kept: set[Choice] = set()
    refused: set[Choice] = set()
    best: Context | None = None
    rounds, done = MOST_ROUNDS, 0
    while done < rounds:
        choices = Choices(frozenset(kept), frozenset(refused))
        context = Context(module, env, choices)
        visit(context)
        settle(context)
        if not context.sink.diagnostics:
            return context
        if best is None or len(context.sink.diagnostics) < len(best.sink.diagnostics):
            best = context
        refused |= choices.refused
        before, kept = kept, (kept | choices.disputed) - refused
        done += 1
        if kept == before:
            break
        rounds = min(rounds, max(FEWEST_ROUNDS, MOST_LOOKED_AT // max(1, len(context.types))))
    else:
        assert best is not None
        _tell_end(best, kept - before, done)
    assert best is not None
    return best


def _tell_end(context: Context, undecided: Collection[Choice], rounds: int) -> None:
    """Add to the first error that more rounds could find types, and which place to declare."""
    owners = sorted(
        (owner for owner, _ in undecided if owner.span is not None),
        key=lambda owner: owner.span.begin if owner.span is not None else 0,
    )
    where = f": {owners[0].what} is where it ended" if owners else ""
    message = (
        f"the search for polymorphic functions that come from place to place ended after {rounds}"
        f" rounds{where}; declare a type on the way"
    )
    first, *others = sorted(context.sink.diagnostics, key=source_order)
    note = Note(message, owners[0].span if owners else None)
    context.sink.diagnostics[:] = [replace(first, notes=(*first.notes, note)), *others]


def _visit_module(context: Context, functions: Mapping[str, Function]) -> None:
    check_type_definitions(context.module, context.sink)
    _visit_functions(context, functions)


def _visit_functions(context: Context, functions: Mapping[str, Function]) -> None:
    """Visit functions, those that are called before their callers, so that results are known at
    uses.
    """
    walk = Walk(context)
    for group in callees_first(functions):
        for name in group:
            trampoline(walk.function(functions[name], f"`@{name}`"))
        for name in group:
            context.close(context.signature(functions[name]))


def _unfinished(module: Module) -> dict[str, Function]:
    """Return the functions whose types are not complete without their bodies."""
    return {
        name: function
        for name, function in module.functions.items()
        if function.ret_type is None or _lacks_annotation(function.params)
    }


def _lacks_annotation(params: Iterable[Var]) -> bool:
    return any(p.type_annotation is None for p in params)


__all__ = [
    "Spoilt",
    "infer_expr",
    "infer_type_local",
    "infer_types",
    "kept_functions",
    "needs_check",
    "type_errors",
    "type_of",
]
