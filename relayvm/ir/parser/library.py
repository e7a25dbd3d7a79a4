"""Taking from a library what a program uses: the definitions it names, with all that they need."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from typing import TypeVar

from relayvm.base.diagnostics import Diagnostic, DiagnosticSink
from relayvm.base.source import Span
from relayvm.ir.equal import structural_equal
from relayvm.ir.expr import (
    Call,
    Constructor,
    Expr,
    Function,
    GlobalVar,
    Let,
    Match,
    Pattern,
    PatternConstructor,
    PatternVar,
    Var,
)
from relayvm.ir.intrinsics import ARRAY_NAME, Intrinsic
from relayvm.ir.module import Module, TypeData
from relayvm.ir.types import GlobalTypeVar, Type, TypeCall
from relayvm.ir.visit import pattern_walk, post_order, type_walk

D = TypeVar("D", Function, TypeData)


def merge_library(
    module: Module,
    library: Module,
    functions: Iterable[str],
    types: Iterable[str],
    sink: DiagnosticSink,
    unclear: set[str] | None = None,
) -> Module:
    """Return `module` with these definitions of `library` and all that they need.

    A definition that needs a library name which the module defines otherwise is reported as
    `library-conflict`, and noted among the `unclear` ones.
    """
    unclear = set() if unclear is None else unclear
    roots = [("function", name) for name in functions] + [("type", name) for name in types]
    taken = set(roots)
    for root in roots:
        waiting = [root]
        while waiting:
            kind, name = waiting.pop()
            for need in _needs(library, kind, name):
                own = module.functions if need[0] == "function" else module.types
                if need[1] in own and need[1] in module.library:
                    continue  # It was taken before.
                if need[1] in own:
                    sink.add(_conflict(*root, need, own[need[1]].span))
                    unclear.add(root[1])
                elif need not in taken:
                    taken.add(need)
                    waiting.append(need)
    if not taken:
        return module
    new_functions = {n: f for n, f in library.functions.items() if ("function", n) in taken}
    new_types = {n: t for n, t in library.types.items() if ("type", n) in taken}
    return Module(
        {**module.functions, **new_functions},
        {**module.types, **new_types},
        module.library | frozenset(new_functions) | frozenset(new_types),
        module.attrs,
    )


def add_definitions(module: Module, other: Module, library: Module, sink: DiagnosticSink) -> Module:
    """Return `module` with all definitions of another one and what these need of `library`.

    A name that both define, but not alike, is reported as `library-conflict`.
    """
    new_functions = _new(other.functions, module.functions, "@", sink)
    new_types = _new(other.types, module.types, "type ", sink)
    joined = replace(
        module,
        functions={**module.functions, **new_functions},
        types={**module.types, **new_types},
    )
    roots = [("function", name) for name in new_functions] + [("type", name) for name in new_types]
    functions: dict[str, None] = {}
    types: dict[str, None] = {}
    for root in roots:
        for kind, name in _needs(other, *root):
            is_function = kind == "function"
            own: Mapping[str, Function | TypeData]
            own = joined.functions if is_function else joined.types
            of_library = name in (library.functions if is_function else library.types)
            if name not in own:
                (functions if is_function else types)[name] = None
            elif of_library and name not in module.library:
                sink.add(_conflict(*root, (kind, name), own[name].span))
    return merge_library(joined, library, functions, types, sink)


def _new(
    given: Mapping[str, D], present: Mapping[str, D], mark: str, sink: DiagnosticSink
) -> dict[str, D]:
    new: dict[str, D] = {}
    for name, definition in given.items():
        if name not in present:
            new[name] = definition
        elif not structural_equal(present[name], definition):
            message = f"`{mark}{name}` is defined already, and otherwise"
            sink.add(Diagnostic("library-conflict", message, present[name].span))
    return new


def _conflict(kind: str, name: str, need: tuple[str, str], span: Span | None) -> Diagnostic:
    def shown(kind: str, name: str) -> str:
        return f"`@{name}`" if kind == "function" else f"type `{name}`"

    return Diagnostic(
        "library-conflict",
        f"{shown(kind, name)} of the library needs its own {shown(*need)}, "
        f"which this program defines otherwise",
        span,
        help=f"give {shown(*need)} another name, or define {shown(kind, name)} in the program",
    )


Need = tuple[str, str]


def needs_of_module(module: Module) -> tuple[set[str], set[str]]:
    """Return the names of the functions and of the data types that a module mentions."""
    seen: set[int] = set()
    parts = [_needs_of_function(function, seen) for function in module.functions.values()]
    parts += [_needs_of_type(data, seen) for data in module.types.values()]
    needs = set(chain.from_iterable(parts))
    return {n for kind, n in needs if kind == "function"}, {
        n for kind, n in needs if kind == "type"
    }


def unused_library(module: Module) -> frozenset[str]:
    """Return the names of the library that nothing in the program needs, by way of others
    either.
    """
    functions = {n: f for n, f in module.functions.items() if n not in module.library}
    types = {n: t for n, t in module.types.items() if n not in module.library}
    needs = needs_of_module(Module(functions, types))
    waiting = [("function", n) for n in needs[0]] + [("type", n) for n in needs[1]]
    used: set[Need] = set()
    while waiting:
        need = waiting.pop()
        known = module.functions if need[0] == "function" else module.types
        if need not in used and need[1] in module.library and need[1] in known:
            used.add(need)
            waiting.extend(_needs(module, *need))
    return module.library - {name for _, name in used}


def _needs(library: Module, kind: str, name: str) -> Iterator[Need]:
    if kind == "function":
        return _needs_of_function(library.functions[name], set())
    return _needs_of_type(library.types[name], set())


def _needs_of_type(data: TypeData, seen: set[int]) -> Iterator[Need]:
    for constructor in data.constructors:
        for field in constructor.inputs:
            yield from _needs_in_type(field, seen)


def _needs_of_function(function: Function, seen: set[int]) -> Iterator[Need]:
    for expr in post_order(function):
        yield from _needs_of_node(expr, seen)


def _needs_of_node(expr: Expr, seen: set[int]) -> Iterator[Need]:
    types: list[Type | None] = []
    match expr:
        case GlobalVar():
            yield ("function", expr.name)
        case Constructor():
            yield ("type", expr.belong_to.name)
        case Intrinsic():
            yield ("type", ARRAY_NAME)
        case Function():
            types = [expr.ret_type, *(p.type_annotation for p in expr.params)]
        case Let():
            types = [expr.var.type_annotation]
        case Var():
            types = [expr.type_annotation]
        case Call():
            types = list(expr.type_args)
        case Match():
            for clause in expr.clauses:
                yield from _needs_of_pattern(clause.lhs, seen)
        case _:
            pass
    for type_ in types:
        if type_ is not None:
            yield from _needs_in_type(type_, seen)


def _needs_of_pattern(pattern: Pattern, seen: set[int]) -> Iterator[Need]:
    for part in pattern_walk(pattern):
        if isinstance(part, PatternConstructor):
            yield ("type", part.constructor.belong_to.name)
        elif isinstance(part, PatternVar) and part.var.type_annotation is not None:
            yield from _needs_in_type(part.var.type_annotation, seen)


def _needs_in_type(type_: Type, seen: set[int]) -> Iterator[Need]:
    """Yield what a type needs; types with others inside that are among the `seen` are left out."""
    for part in type_walk(type_, seen):
        if isinstance(part, TypeCall):
            yield ("type", part.func.name)
        elif isinstance(part, GlobalTypeVar):
            yield ("type", part.name)
