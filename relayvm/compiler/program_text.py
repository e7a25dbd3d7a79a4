"""Texts to modules, with every independent error: where the text of one function cannot be read,
the types of the others are checked all the same, and where only a name or the like is wrong, all
but what is made of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from relayvm.base.diagnostics import DiagnosticSink
from relayvm.base.source import Source, Span
from relayvm.compiler.infer_types import Spoilt, type_errors
from relayvm.compiler.inference.type_walk import leaves
from relayvm.ir.expr import Function, Op
from relayvm.ir.module import Module
from relayvm.ir.parser import Recovered, recover_module
from relayvm.ir.prelude import prelude
from relayvm.ir.types import IncompleteType, Type
from relayvm.ir.visit import global_vars


def parse_every_error(source: Source | str, operators: Mapping[str, Op]) -> Module:
    """Return the module that a text describes, with what it uses of the prelude.

    Raises RelayError with the errors of the text and, if there are any, the type errors of the
    functions that these leave whole, but for what they are about.
    """
    found = recover_module(source, operators, prelude(operators))
    module, errors = found.module, found.sink.diagnostics
    if not errors:
        return module
    every = DiagnosticSink()
    for diagnostic in errors:
        every.add(diagnostic)
    whole = _whole_functions(found)
    functions = _unclear_functions(found, whole)
    calls = frozenset(map(id, found.unclear_calls))
    spoilt = Spoilt(found.missing, functions, frozenset(found.unclear_params), calls)
    for diagnostic in type_errors(module, whole, spoilt) if whole else ():
        # What nothing fixes here may follow from a text that could not be read.
        if diagnostic.code != "cannot-infer":
            every.add(diagnostic)
    every.raise_if_any()
    return module


def _whole_functions(found: Recovered) -> frozenset[str]:
    """Return the functions that hold nothing that could not be read; none where that is in a data
    type.
    """
    module = found.module
    types = [data.span for n, data in module.types.items() if n not in module.library]
    if any(_overlap(span, unread) for span in types for unread in found.unread):
        return frozenset()
    own = {n: f for n, f in module.functions.items() if n not in module.library}
    return frozenset(
        n for n, f in own.items() if not any(_spoils(unread, f.span) for unread in found.unread)
    )


def _unclear_functions(found: Recovered, whole: frozenset[str]) -> frozenset[str]:
    """Return the names of functions whose types are not known."""
    module = found.module
    named = {used for name in whole for used in global_vars(module.functions[name].body)}
    left = {n for n in named if n not in module.functions}
    others = module.functions.keys() - whole - module.library
    left |= {n for n in others if not _has_signature(module.functions[n])}
    return found.unclear | left


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


def _has_signature(function: Function) -> bool:
    return _is_complete((*(p.type_annotation for p in function.params), function.ret_type))


def _is_complete(types: Sequence[Type | None]) -> bool:
    return all(
        t is not None and not any(isinstance(leaf, IncompleteType) for leaf in leaves(t))
        for t in types
    )
