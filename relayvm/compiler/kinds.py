"""Kind checking: each part of a type is of the kind that its place asks for, data types exist and
get as many arguments as their definitions say, constraints name operators.
"""

from __future__ import annotations

from functools import cache
from typing import Union

from relayvm.base.diagnostics import Diagnostic, DiagnosticSink, Note, error
from relayvm.base.dims import DimVar
from relayvm.base.shapes import ShapeError
from relayvm.base.source import Span
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
    TypeRelation,
    TypeVar,
)
from relayvm.ir.visit import TypeWords
from relayvm.ops import OPS
from relayvm.ops.operator import Operator

EMPTY = Module()

# A type of more words, written out, is refused: passes look at types part by part.
MOST_WORDS = 1 << 20
TOO_LARGE = f"a type has more than {MOST_WORDS:,} words where it is written out"

# Where code is made for each part of a value, its type may have so many words.
MOST_PARTS = 1 << 16

# Names of the original's relations, for an operator that has the same rule.
RELATIONS = {
    "Broadcast": "add",
    "BroadcastComp": "equal",
    "Identity": "copy",
    "Dense": "nn.dense",
    "BatchMatmul": "nn.batch_matmul",
    "BiasAdd": "nn.bias_add",
    "Softmax": "nn.softmax",
    "Cast": "cast",
    "Reshape": "reshape",
    "Transpose": "transpose",
    "ExpandDims": "expand_dims",
    "Where": "where",
}

Item = Union[Type, DimVar, TypeData]


def check_kind(item: Item, module: Module = EMPTY) -> Kind:
    """Return the kind of a type, a dim variable or a definition of a data type.

    Raises RelayError `wrong-kind`, `unknown-type` or `unknown-operator` with all that stands in a
    place where its kind is not allowed.
    """
    sink = DiagnosticSink()
    kind = _kind_of(item)
    if isinstance(item, TypeData):
        module = module.with_types({**module.types, item.header.name: item})
        _check_definition(item, module, sink)
    elif isinstance(item, TypeRelation):
        check_relation(item, module, sink)
    elif kind is Kind.TYPE and isinstance(item, Type):
        check_type(item, module, sink)
    sink.raise_if_any()
    return kind


def _kind_of(item: Item) -> Kind:
    match item:
        case TypeVar() | IncompleteType():
            return item.kind
        case GlobalTypeVar():
            return Kind.ADT_HANDLE
        case TypeRelation():
            return Kind.CONSTRAINT
        case TypeData():
            return Kind.TYPE_DATA
        case DimVar() | ShapeArg():
            return Kind.SHAPE_VAR
    return Kind.TYPE


def check_parts(type_: Type, span: Span | None, words: TypeWords) -> None:
    """Raise RelayError `too-large-type` for the type of a value with too many parts for each to
    have code of its own.
    """
    if words(type_) > MOST_PARTS:
        message = (
            f"code for each part of a value is needed, and its type has over {MOST_PARTS:,} words"
        )
        raise error("too-large-type", message, span)


def check_kinds(module: Module) -> None:
    """Check all data types and signatures of a module.

    Raises RelayError as `check_kind`, with every error of the module.
    """
    sink = DiagnosticSink()
    check_type_definitions(module, sink)
    for function in module.functions.values():
        for type_ in signature_annotations(function):
            check_type(type_, module, sink)
        for relation in function.type_constraints:
            check_relation(relation, module, sink)
    sink.raise_if_any()


def check_type_definitions(module: Module, sink: DiagnosticSink) -> None:
    """Report the kind errors in the fields of constructors."""
    for data in module.types.values():
        _check_definition(data, module, sink)


def _check_definition(data: TypeData, module: Module, sink: DiagnosticSink) -> None:
    for parameter in data.type_params:
        if isinstance(parameter, TypeVar) and parameter.kind is not Kind.TYPE:
            message = f"parameter `{parameter.name}` of a data type is a {parameter.kind.value}"
            sink.add(Diagnostic("wrong-kind", message, parameter.span or data.span))
    words = TypeWords()
    for constructor in data.constructors:
        for field in constructor.inputs:
            if words(field) > MOST_WORDS:
                sink.add(Diagnostic("too-large-type", TOO_LARGE, field.span or constructor.span))
            else:
                check_type(field, module, sink)


def signature_annotations(function: Function) -> list[Type]:
    """Return the types written at the parameters and the result of a function."""
    written = [p.type_annotation for p in function.params] + [function.ret_type]
    return [type_ for type_ in written if type_ is not None]


def relation_operator(name: str) -> Operator | None:
    """Return the operator whose rule a constraint names; None if there is none."""
    return OPS.get(RELATIONS.get(name, name))


def same_rule_name(name: str) -> str:
    """Return the name of the first operator that takes the same operands and attributes by the same
    rule, for the name of an operator or of a relation: a promise of one is a promise of all.
    """
    op = relation_operator(name)
    return name if op is None else _first_alike().get(op.name, name)


@cache
def _first_alike() -> dict[str, str]:
    first: dict[tuple[object, ...], str] = {}
    return {
        name: first.setdefault((op.rule, op.constrained_operands, op.attributes), name)
        for name, op in OPS.items()
    }


def check_relation(
    relation: TypeRelation,
    module: Module,
    sink: DiagnosticSink,
    sound: dict[int, Type] | None = None,
) -> bool:
    """Report what is wrong with a constraint; True if nothing is."""
    before = len(sink.diagnostics)
    if not isinstance(relation, TypeRelation):
        shown = _kind_of(relation).value
        message = f"a {shown} stands where a constraint is needed"
        sink.add(Diagnostic("wrong-kind", message, getattr(relation, "span", None)))
        return False
    op = relation_operator(relation.name)
    if op is None:
        message = f"the constraint names no operator: there is no `{relation.name}`"
        sink.add(Diagnostic("unknown-operator", message, relation.span))
    else:
        _check_relation_of(relation, op, sink)
    for argument in relation.args:
        check_type(argument, module, sink, sound)
    return len(sink.diagnostics) == before


def _check_relation_of(relation: TypeRelation, op: Operator, sink: DiagnosticSink) -> None:
    wanted, given = len(op.operands), relation.num_inputs
    if wanted != given:
        message = (
            f"a constraint `{relation.name}` takes {wanted + 1} types, those of the operands and "
            f"of the result, got {given + 1}"
        )
        sink.add(Diagnostic("wrong-arity", message, relation.span))
        return
    try:
        op.complete_attrs(dict(relation.attrs or {}))
    except ShapeError as failure:
        sink.add(Diagnostic(failure.code, failure.message, relation.span))


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
                for relation in part.type_constraints:
                    check_relation(relation, module, sink)
                stack.extend((part.ret_type, *reversed(part.arg_types)))
            case RefType():
                stack.append(part.value)
            case TypeCall():
                _check_call(part, module, sink, stack)
            case GlobalTypeVar():
                _check_call(TypeCall(part, (), span=part.span), module, sink, stack)
            case _:
                _check_leaf(part, sink)
    if len(sink.diagnostics) > before:
        return False
    sound.update(seen)
    return True


def _check_leaf(part: Item, sink: DiagnosticSink) -> None:
    kind = _kind_of(part)
    if kind is Kind.TYPE:
        return
    span: Span | None = getattr(part, "span", None)
    match part:
        case ShapeArg() | DimVar():
            message = "a dim stands where a type is needed"
        case TypeRelation():
            message = "a constraint stands where a type is needed"
        case TypeData():
            message = f"the definition of `{part.header.name}` stands where a type is needed"
        case TypeVar():
            message = f"`{part.name}` is a {kind.value}, where a type is needed"
        case _:
            message = f"a {kind.value} stands where a type is needed"
    sink.add(Diagnostic("wrong-kind", message, span))


def _check_call(call: TypeCall, module: Module, sink: DiagnosticSink, stack: list[Type]) -> None:
    if not isinstance(call.func, GlobalTypeVar):
        shown = _kind_of(call.func).value
        message = f"a {shown} is applied to arguments; only a data type is"
        sink.add(Diagnostic("wrong-kind", message, call.span))
        return
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
