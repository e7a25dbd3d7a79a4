"""Texts to modules, with every independent error: where the text of one function is wrong, the
types of the others are checked all the same, and where only a name is wrong, all but what is made
of it.
"""

from __future__ import annotations

import copyreg
from collections.abc import Mapping, Sequence

from relayvm.base.diagnostics import Diagnostic, DiagnosticSink
from relayvm.base.source import Source, Span
from relayvm.compiler.infer_types import type_errors
from relayvm.compiler.inference.type_walk import leaves
from relayvm.ir.expr import Function, Op
from relayvm.ir.json import load_json, save_json
from relayvm.ir.module import Module
from relayvm.ir.parser import recover_module
from relayvm.ir.prelude import prelude
from relayvm.ir.types import IncompleteType, Type
from relayvm.ir.visit import global_vars
from relayvm.ops import OPS

# What a text between definitions may hold without a doubt about what the definitions mean.
_HARMLESS = frozenset({"syntax", "bad-literal", "unsupported-version"})

# What leaves a function whole but for one expression, of which nothing is known.
_MISSING = frozenset(
    {
        "unknown-variable",
        "unknown-function",
        "unknown-operator",
        "unknown-attribute",
        "bad-attribute",
        "missing-attribute",
    }
)


def parse_every_error(source: Source | str, operators: Mapping[str, Op]) -> Module:
    """Return the module that a text describes, with what it uses of the prelude.

    Raises RelayError with the errors of the text and, if there are any, the type errors of the
    functions that these leave whole, but for expressions whose names or attributes are wrong.
    """
    found = recover_module(source, operators, prelude(operators))
    module, errors = found.module, found.sink.diagnostics
    if not errors:
        return module
    every = DiagnosticSink()
    for diagnostic in errors:
        every.add(diagnostic)
    sound = _sound_functions(module, errors)
    for diagnostic in type_errors(module, sound, found.missing) if sound else ():
        # What nothing fixes here may follow from a text that could not be read.
        if diagnostic.code != "cannot-infer":
            every.add(diagnostic)
    every.raise_if_any()
    return module


def module_of_json(text: str) -> Module:
    """Return the module of a JSON text; its operators are those of the table."""
    result = load_json(text, OPS)
    assert isinstance(result, Module)
    return result


# Where TVM's names are there as well, they know more operators.
copyreg.dispatch_table.setdefault(Module, lambda module: (module_of_json, (save_json(module),)))


def _sound_functions(module: Module, errors: Sequence[Diagnostic]) -> frozenset[str]:
    """Return the functions whose types do not depend on what could not be read."""
    own = {n: f for n, f in module.functions.items() if n not in module.library}
    spoiling = [e for e in errors if e.code not in _MISSING]
    broken = {n for n, f in own.items() if any(_spoils(e.span, f.span) for e in spoiling)}
    inside = [f.span for f in own.values()]
    types = [data.span for n, data in module.types.items() if n not in module.library]
    for error in errors:
        if any(_overlap(span, error.span) for span in types):
            return frozenset()
        if error.code not in _HARMLESS and not any(_overlap(s, error.span) for s in inside):
            return frozenset()
    uses = {name: global_vars(function.body) for name, function in own.items()}
    known = {n for n, f in module.functions.items() if _has_signature(f)} | module.library
    sound = {n for n, f in own.items() if n not in broken and _is_complete(_parameters(f))}
    while True:
        left = {n for n in sound if all(u in known or u in sound for u in uses[n])}
        if left == sound:
            return frozenset(sound)
        sound = left


def _spoils(error: Span | None, function: Span | None) -> bool:
    """Tell if an error is in a function, or follows it at once, as where a brace is too many."""
    if error is None or function is None or error.source is not function.source:
        return True
    gap = error.source.text[function.end : error.begin]
    return _overlap(function, error) or (error.begin >= function.end and not gap.strip())


def _overlap(a: Span | None, b: Span | None) -> bool:
    return (
        a is not None
        and b is not None
        and a.source is b.source
        and a.begin < max(b.end, b.begin + 1)
        and b.begin < a.end
    )


def _parameters(function: Function) -> tuple[Type | None, ...]:
    return tuple(p.type_annotation for p in function.params)


def _has_signature(function: Function) -> bool:
    return _is_complete((*_parameters(function), function.ret_type))


def _is_complete(types: Sequence[Type | None]) -> bool:
    return all(
        t is not None and not any(isinstance(leaf, IncompleteType) for leaf in leaves(t))
        for t in types
    )
