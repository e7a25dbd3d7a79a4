"""Calls of functions and constructors: instantiation, arity, and arguments that flow into
parameters.
"""

from __future__ import annotations

from collections.abc import Sequence

from relayvm.base.diagnostics import Note, quantity
from relayvm.base.dims import DimVar
from relayvm.base.source import Span
from relayvm.compiler.inference.context import Context
from relayvm.compiler.inference.holes import Hole, Owner, Reason, new_hole
from relayvm.compiler.inference.messages import callee_text, origin_notes, type_text
from relayvm.compiler.inference.type_walk import prune, type_holes
from relayvm.ir.expr import Call, Constructor, Expr, GlobalVar, Var
from relayvm.ir.types import POISON, FuncType, ShapeArg, Type


def function_call(context: Context, call: Call, callee: Type, args: Sequence[Type]) -> Type:
    """Return the type of a call of anything but an operator."""
    callee = prune(callee)
    if callee is POISON:
        return _poisoned(context, args)
    if isinstance(callee, Hole):
        result = new_hole(Owner(f"the result of {callee_text(call.op)}", call.span, derived=True))
        called = FuncType(tuple(args), result)
        message = "{actual} is called as {expected}"
        context.solver.flow(callee, called, Reason(call.span, message, callee, called))
        return result
    if not isinstance(callee, FuncType):
        message = f"{callee_text(call.op)} is called, but has type `{type_text(callee)}`"
        if not isinstance(call.op, (Var, GlobalVar)):
            message = f"a value of type `{type_text(callee)}` is called, which is no function"
        context.reporter.report("not-a-function", message, call.span, notes=_origin(call.op))
        return _poisoned(context, args)
    if not _has_arity(context, call, callee) or not _has_type_args(context, call, callee):
        return _poisoned(context, args)
    instance, type_args = context.instance(callee, call.op, call.span, call.type_args)
    if type_args:
        context.type_args[id(call)] = type_args
    for index, (arg, param) in enumerate(zip(args, instance.arg_types)):
        context.solver.flow(arg, param, _argument_reason(context, call, index, arg, param))
    context.solver.queue.drain()
    return instance.ret_type


def _poisoned(context: Context, args: Sequence[Type]) -> Type:
    for arg in args:
        for hole in type_holes(arg):
            context.solver.poison(hole)
    return POISON


def _origin(callee: Expr) -> tuple[Note, ...]:
    return origin_notes((callee,))


def _has_arity(context: Context, call: Call, callee: FuncType) -> bool:
    expected, given = len(callee.arg_types), len(call.args)
    if expected == given:
        return True
    noun = "field" if isinstance(call.op, Constructor) else "argument"
    message = f"{callee_text(call.op)} takes {quantity(expected, noun)}, got {given}"
    context.reporter.report("wrong-arity", message, call.span, notes=_definition(context, call.op))
    return False


def _definition(context: Context, callee: Expr) -> tuple[Note, ...]:
    if isinstance(callee, GlobalVar):
        span = context.module.functions[callee.name].span
        return (Note(f"`@{callee.name}` is defined here", span),) if span else ()
    if isinstance(callee, Constructor):
        span = context.module.types[callee.belong_to.name].span
        return (Note(f"`{callee.belong_to.name}` is defined here", span),) if span else ()
    return ()


def _has_type_args(context: Context, call: Call, callee: FuncType) -> bool:
    given, expected = call.type_args, callee.type_params
    if not given:
        return True
    if POISON in given:
        return False  # What is wrong with it is reported.
    name = callee_text(call.op)
    if len(given) != len(expected):
        message = f"{name} takes {quantity(len(expected), 'type argument')}, got {len(given)}"
        context.reporter.report("wrong-kind", message, call.span)
        return False
    for parameter, argument in zip(expected, given):
        if isinstance(parameter, DimVar) != isinstance(argument, ShapeArg):
            wanted = "dim" if isinstance(parameter, DimVar) else "type"
            message = f"type parameter `{parameter.name}` of {name} stands for a {wanted}"
            context.reporter.report("wrong-kind", message, argument.span or call.span)
            return False
    return True


def _argument_reason(context: Context, call: Call, index: int, arg: Type, param: Type) -> Reason:
    noun = "field" if isinstance(call.op, Constructor) else "argument"
    message = (
        f"{noun} {index + 1} of {callee_text(call.op)} is {{actual}}, but must be {{expected}}"
    )
    notes = origin_notes((call.args[index],)) + context.definition_note(call.op, index)
    return Reason(argument_span(call, index), message, arg, param, notes=notes)


def argument_span(call: Call, index: int) -> Span | None:
    """Return where an argument stands; a variable's own span is where it is bound, so then that of
    the call.
    """
    arg = call.args[index]
    return call.span if isinstance(arg, Var) or arg.span is None else arg.span
