"""Patterns: what they ask of the value, and the variables that they bind."""

from __future__ import annotations

from relayvm.base.diagnostics import assert_never, quantity
from relayvm.base.source import Span
from relayvm.compiler.inference.context import Context
from relayvm.compiler.inference.holes import Owner, Reason, new_hole
from relayvm.compiler.inference.type_walk import prune
from relayvm.ir.expr import (
    Clause,
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    PatternWildcard,
)
from relayvm.ir.types import POISON, FuncType, TupleType, Type, TypeCall


def bind_pattern(context: Context, clause: Clause, type_: Type, rejected: set[int]) -> bool:
    """Let a value of a type flow into the pattern of a clause; False if the pattern is wrong.

    A pattern for a value whose own type is wrong is not known to be right. `rejected` are the ids
    of types for which another clause of the match got a message already.
    """
    ok = True
    stack: list[tuple[Pattern, Type]] = [(clause.lhs, type_)]
    while stack:
        pattern, type_ = stack.pop()
        span = pattern.span or clause.span
        match pattern:
            case PatternWildcard():
                pass
            case PatternVar():
                _bind_variable(context, pattern, type_, span)
            case PatternTuple():
                inner = _tuple_fields(context, pattern, type_, span)
                ok &= inner is not None
                fields = inner or (POISON,) * len(pattern.patterns)
                stack.extend(zip(pattern.patterns, fields))
            case PatternConstructor():
                inner = _constructor_fields(context, pattern, type_, span, rejected)
                ok &= inner is not None
                fields = inner or (POISON,) * len(pattern.patterns)
                stack.extend(zip(pattern.patterns, fields))
            case _:
                assert_never(pattern)  # type: ignore[arg-type]
    return ok


def _bind_variable(context: Context, pattern: PatternVar, type_: Type, span: Span | None) -> None:
    var = pattern.var
    context.bind(var, type_)
    declared = context.var_type(var)
    message = f"`%{var.name}` is declared as {{expected}}, but matches {{actual}}"
    context.solver.flow(type_, declared, Reason(span, message, type_, declared))


def _tuple_fields(
    context: Context, pattern: PatternTuple, type_: Type, span: Span | None
) -> tuple[Type, ...] | None:
    type_ = prune(type_)
    if type_ is POISON:
        return None
    if isinstance(type_, TupleType) and len(type_.fields) == len(pattern.patterns):
        return type_.fields
    owner = Owner("a field of a tuple", span, derived=True)
    shape = TupleType(tuple(new_hole(owner) for _ in pattern.patterns))
    message = (
        f"the pattern is a tuple of {quantity(len(shape.fields), 'field')}, the value is {{actual}}"
    )
    reason = Reason(span, message, type_, shape)
    context.solver.flow(type_, shape, reason)
    return None if reason.reported else shape.fields


def _constructor_fields(
    context: Context,
    pattern: PatternConstructor,
    type_: Type,
    span: Span | None,
    rejected: set[int],
) -> tuple[Type, ...] | None:
    constructor = pattern.constructor
    scheme = context.scheme(constructor)
    if scheme is POISON:
        return None
    assert isinstance(scheme, FuncType)
    if len(pattern.patterns) != len(scheme.arg_types):
        expected = quantity(len(scheme.arg_types), "field")
        message = f"`{constructor.name}` has {expected}, the pattern has {len(pattern.patterns)}"
        context.reporter.report("wrong-arity", message, span)
        return None
    type_ = prune(type_)
    if type_ is POISON or id(type_) in rejected:
        return None
    result = scheme.ret_type
    assert isinstance(result, TypeCall)
    if isinstance(type_, TypeCall) and type_.func == result.func:
        given = type_.args
        if not given:
            return scheme.arg_types
        return context.instance(scheme, constructor, span, given)[0].arg_types
    instance = context.solver.instantiate(scheme, f"`{constructor.name}`", span)[0]
    message = f"`{constructor.name}` is a pattern for {{expected}}, the value is {{actual}}"
    reason = Reason(span, message, type_, instance.ret_type)
    context.solver.flow(type_, instance.ret_type, reason)
    if reason.reported:
        rejected.add(id(type_))
        return None
    return instance.arg_types
