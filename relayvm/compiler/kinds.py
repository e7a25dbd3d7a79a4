"""Kind checking: data types exist and get as many arguments, of the right kind, as their
definitions say.
"""

from __future__ import annotations

from relayvm.base.diagnostics import Diagnostic, DiagnosticSink, Note
from relayvm.base.dims import DimVar
from relayvm.ir.expr import Function
from relayvm.ir.module import Module, TypeData
from relayvm.ir.types import (
    FuncType,
    GlobalTypeVar,
    IncompleteType,
    Kind,
    RefType,
    ShapeArg,
    TupleType,
    Type,
    TypeCall,
    TypeVar,
)


def check_kinds(module: Module) -> None:
    """Check all data types and signatures of a module.

    Raises RelayError `unknown-type` or `wrong-kind`, with every error of the module.
    """
    sink = DiagnosticSink()
    check_type_definitions(module, sink)
    for function in module.functions.values():
        for type_ in signature_annotations(function):
            check_type(type_, module, sink)
    sink.raise_if_any()


def check_type_definitions(module: Module, sink: DiagnosticSink) -> None:
    """Report the kind errors in the fields of constructors."""
    for data in module.types.values():
        for constructor in data.constructors:
            for field in constructor.inputs:
                check_type(field, module, sink)


def signature_annotations(function: Function) -> list[Type]:
    """Return the types written at the parameters and the result of a function."""
    written = [p.type_annotation for p in function.params] + [function.ret_type]
    return [type_ for type_ in written if type_ is not None]


def check_type(
    type_: Type, module: Module, sink: DiagnosticSink, sound: dict[int, Type] | None = None
) -> bool:
    """Report what is wrong with one type in the place of a value's type; True if nothing is.

    `sound` are types by id that are known to be right, and gains those that this one is made of.
    """
    sound = {} if sound is None else sound
    before = len(sink.diagnostics)
    seen: dict[int, Type] = {}
    stack: list[Type] = [type_]
    while stack:
        part = stack.pop()
        if id(part) in sound or id(part) in seen:
            continue
        seen[id(part)] = part
        match part:
            case TupleType():
                stack.extend(reversed(part.fields))
            case FuncType():
                stack.extend((part.ret_type, *reversed(part.arg_types)))
            case RefType():
                stack.append(part.value)
            case TypeCall():
                _check_call(part, module, sink, stack)
            case GlobalTypeVar():
                _check_call(TypeCall(part, (), span=part.span), module, sink, stack)
            case ShapeArg():
                sink.add(Diagnostic("wrong-kind", "a dim stands where a type is needed", part.span))
            case TypeVar() if part.kind is not Kind.TYPE:
                message = f"`{part.name}` is a {part.kind.value}, where a type is needed"
                sink.add(Diagnostic("wrong-kind", message, part.span))
    if len(sink.diagnostics) > before:
        return False
    sound.update(seen)
    return True


def _check_call(call: TypeCall, module: Module, sink: DiagnosticSink, stack: list[Type]) -> None:
    data = module.types.get(call.func.name)
    if data is None:
        message = f"there is no data type `{call.func.name}`"
        sink.add(Diagnostic("unknown-type", message, call.span))
        return
    expected, given = len(data.type_params), len(call.args)
    if expected != given:
        noun = "type argument" if expected == 1 else "type arguments"
        message = f"`{data.header.name}` takes {expected} {noun}, got {given}"
        sink.add(Diagnostic("wrong-kind", message, call.span, notes=_defined(data)))
        return
    for parameter, argument in zip(data.type_params, call.args):
        if isinstance(argument, IncompleteType):
            continue
        if isinstance(parameter, DimVar) == isinstance(argument, ShapeArg):
            stack.extend(() if isinstance(argument, ShapeArg) else (argument,))
            continue
        wanted = "dim" if isinstance(parameter, DimVar) else "type"
        message = f"parameter `{parameter.name}` of `{data.header.name}` stands for a {wanted}"
        span = argument.span or call.span
        sink.add(Diagnostic("wrong-kind", message, span, notes=_defined(data)))


def _defined(data: TypeData) -> tuple[Note, ...]:
    return (Note(f"`{data.header.name}` is defined here", data.span),) if data.span else ()
