"""Schemas of operators, read from Python signatures: operand constraints and attribute kinds, and
their checks.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeGuard, get_args, get_type_hints

from relayvm.base.attribute_kinds import given_text, kind_text
from relayvm.base.diagnostics import quantity
from relayvm.base.dims import AnyDim, Dim, DimExpr
from relayvm.base.dtypes import (
    BOOL,
    COMPUTED,
    DTYPES,
    FLOATS,
    INT64,
    INTEGERS,
    NUMERIC,
    STORED,
    WHOLE_BYTES,
    DType,
    dtype_of,
)
from relayvm.base.shapes import ShapeError
from relayvm.ir.expr import AttributeSchema, AttrValue, OperandSchema
from relayvm.ir.types import (
    POISON,
    POISON_DTYPE,
    FuncType,
    IncompleteType,
    RefType,
    TensorType,
    TupleType,
    Type,
    TypeCall,
    TypeVar,
)

F = typing.TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Constraint:
    """What an operand may be: one of these dtypes; the dtype of the operand before it; a tuple of
    tensors.
    """

    text: str
    dtypes: tuple[DType, ...] = COMPUTED
    same_as_previous: bool = False
    is_tuple: bool = False


AnyTensor = Annotated[TensorType, Constraint("a tensor")]
Numeric = Annotated[TensorType, Constraint("a tensor of numbers", NUMERIC)]
Float = Annotated[TensorType, Constraint("a tensor of floats", FLOATS)]
Integer = Annotated[TensorType, Constraint("a tensor of integers", INTEGERS)]
Bool = Annotated[TensorType, Constraint("a tensor of bools", (BOOL,))]
Whole = Annotated[TensorType, Constraint("a tensor of integers or bools", (*INTEGERS, BOOL))]
SameDtype = Annotated[
    TensorType, Constraint("a tensor of the same dtype as the operand before it", DTYPES, True)
]
Bits = Annotated[TensorType, Constraint("a tensor of numbers of whole bytes", WHOLE_BYTES)]
Quantized = Annotated[
    TensorType, Constraint("a tensor of integers or of what is stored", (*INTEGERS, *STORED))
]
Tensors = Annotated[TupleType, Constraint("a tuple of tensors", COMPUTED, False, True)]

Ints = tuple[int, ...]
Dims = tuple[Dim, ...]
Floats = tuple[float, ...]
Pairs = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class ConstrainedOperand(OperandSchema):
    """An operand with the constraint its annotation states."""

    constraint: Constraint = field(repr=False)


def read_operands(rule: Callable[..., Type]) -> tuple[ConstrainedOperand, ...]:
    """Return the positional parameters of a rule as operands."""
    hints = get_type_hints(rule, include_extras=True)
    return tuple(
        ConstrainedOperand(name, _constraint(name, hints.get(name)))
        for name, parameter in inspect.signature(rule).parameters.items()
        if parameter.kind is not inspect.Parameter.KEYWORD_ONLY
    )


def _constraint(name: str, hint: Any) -> Constraint:
    for part in get_args(hint):
        if isinstance(part, Constraint):
            return part
    kinds = "`AnyTensor`, `Numeric`, `Float`, `Integer`, `Bool`, `Whole`, `SameDtype` or `Tensors`"
    raise TypeError(f"operand `{name}` of a rule must be annotated as {kinds}, not {hint!r}")


def read_attributes(rule: Callable[..., Type]) -> tuple[AttributeSchema, ...]:
    """Return the keyword-only parameters of a rule as attributes; their annotations must be known
    kinds.
    """
    result = []
    for name, parameter in inspect.signature(rule).parameters.items():
        if parameter.kind is not inspect.Parameter.KEYWORD_ONLY:
            continue
        kind = _kind(parameter.annotation)
        if kind.removesuffix(" | None") not in _READERS:
            listed = ", ".join(f"`{k}`" for k in _READERS)
            raise TypeError(f"attribute `{name}` of a rule has the kind `{kind}`, known: {listed}")
        required = parameter.default is inspect.Parameter.empty
        default = None if required else parameter.default
        result.append(AttributeSchema(name, kind, default, required))
    return tuple(result)


def _kind(annotation: Any) -> str:
    """Return the kind that an annotation names; a text where annotations are not evaluated."""
    if isinstance(annotation, str):
        return annotation
    parts = get_args(annotation) if type(None) in get_args(annotation) else (annotation,)
    known = {
        int | Ints: "int | Ints",
        Dim: "Dim",
        Ints: "Ints",
        Dims: "Dims",
        Floats: "Floats",
        Pairs: "Pairs",
    }
    names = [known.get(p) or getattr(p, "__name__", str(p)) for p in parts if p is not type(None)]
    return " | ".join(names + ["None"] * (len(parts) > len(names)))


def like(rule: Callable[..., Any]) -> Callable[[F], F]:
    """Give a facet that takes its attributes as a mapping (`**attrs`) the signature of a rule."""

    def decorate(function: F) -> F:
        function.__signature__ = inspect.signature(rule)  # type: ignore[attr-defined]
        return function

    return decorate


def check_attributes(
    op_name: str,
    schema: Sequence[AttributeSchema],
    given: Mapping[str, AttrValue],
    ignored: Sequence[str] = (),
) -> dict[str, Any]:
    """Return all attributes in schema order: given values in their canonical form, defaults for
    the others.

    Raises ShapeError `bad-attribute` for unknown or missing names and for values of another kind.
    """
    known = [row.name for row in schema]
    for name in given:
        if name not in known and name not in ignored:
            listed = ", ".join(f"`{n}`" for n in known) or "none"
            raise ShapeError(
                f"`{op_name}` has no attribute `{name}`; it has {listed}", "bad-attribute"
            )
    return {row.name: _read_attribute(op_name, row, given) for row in schema}


def refuse_stored_dtypes(op_name: str, attrs: Mapping[str, Any]) -> None:
    """Raise ShapeError `dtype-mismatch` for an attribute that is a dtype nothing computes in."""
    for name, value in attrs.items():
        if isinstance(value, DType) and value.is_stored:
            wanted = f"attribute `{name}` of `{op_name}` must be a dtype that is computed in"
            raise ShapeError(f"{wanted}, got {value}; `cast` makes it", "dtype-mismatch")


def _read_attribute(op_name: str, row: AttributeSchema, given: Mapping[str, AttrValue]) -> Any:
    if row.name not in given:
        if row.required:
            raise ShapeError(f"`{op_name}` needs the attribute `{row.name}`", "bad-attribute")
        return row.default
    value = given[row.name]
    kind = row.kind.removesuffix(" | None")
    if value is None and kind != row.kind:
        return None
    try:
        return _READERS[kind](value)
    except (TypeError, KeyError, ValueError):
        wanted = f"attribute `{row.name}` of `{op_name}` must be {kind_text(row.kind)}"
        message = f"{wanted}, got {given_text(value)}"
        raise ShapeError(message, "bad-attribute") from None


def _read_int(value: Any) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError
    number = int(value)
    if abs(number) > INT64.max:
        raise ValueError
    return number


def _read_bool(value: Any) -> bool:
    if (
        value is not True
        and value is not False
        and (isinstance(value, bool) or value not in (0, 1))
    ):
        raise TypeError
    return bool(value)


def _read_float(value: Any) -> float:
    if isinstance(value, (bool, str)):
        raise TypeError
    return float(value)


def _read_str(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _read_dim(value: Any) -> Dim:
    return value if isinstance(value, (DimExpr, AnyDim)) else _read_int(value)


def _read_ints(value: Any) -> Ints:
    return (
        tuple(_read_int(v) for v in value)
        if isinstance(value, (tuple, list))
        else (_read_int(value),)
    )


def _read_dims(value: Any) -> Dims:
    return (
        tuple(_read_dim(v) for v in value)
        if isinstance(value, (tuple, list))
        else (_read_dim(value),)
    )


def _read_floats(value: Any) -> Floats:
    given = value if isinstance(value, (tuple, list)) else (value,)
    return tuple(_read_float(v) for v in given)


def _read_sections(value: Any) -> int | Ints:
    return _read_ints(value) if isinstance(value, (tuple, list)) else _read_int(value)


def _read_dtype(value: Any) -> DType:
    if value is None:  # which numpy takes for float64
        raise TypeError
    return dtype_of(value)


def _read_pairs(value: Any) -> Pairs:
    if not isinstance(value, (tuple, list)):
        raise TypeError
    pairs = tuple(_read_ints(v) for v in value)
    if any(len(pair) != 2 for pair in pairs):
        raise ValueError
    return tuple((first, second) for first, second in pairs)


_READERS: dict[str, Callable[[Any], Any]] = {
    "int": _read_int,
    "bool": _read_bool,
    "float": _read_float,
    "str": _read_str,
    "DType": _read_dtype,
    "Dim": _read_dim,
    "Ints": _read_ints,
    "Dims": _read_dims,
    "Floats": _read_floats,
    "Pairs": _read_pairs,
    "int | Ints": _read_sections,
}


def check_operands(
    op_name: str, operands: Sequence[ConstrainedOperand], types: Sequence[Type]
) -> None:
    """Raise ShapeError unless the number, classes and dtypes of operands are what the schema
    allows.
    """
    if len(types) != len(operands):
        names = ", ".join(f"`{o.name}`" for o in operands)
        listed = f" ({names})" if operands else ""
        takes = f"`{op_name}` takes {quantity(len(operands), 'operand')}{listed}"
        raise ShapeError(f"{takes}, got {len(types)}", "wrong-arity")
    check_known_operands(op_name, operands, types)


def check_known_operands(
    op_name: str, operands: Sequence[ConstrainedOperand], types: Sequence[Type | None]
) -> None:
    """Raise ShapeError unless the classes and dtypes of the operands that are known, the ones that
    are not None, are what the schema allows.
    """
    previous: Type | None = None
    for operand, given in zip(operands, types):
        if given is not None:
            _check_operand(op_name, operand, given, previous)
        previous = given


def operand_failures(
    op_name: str, operands: Sequence[ConstrainedOperand], types: Sequence[Type]
) -> dict[int, ShapeError]:
    """Return what is wrong with operands, by position, whatever the others are, and with dtypes
    beside that of the operand before.

    Types may have parts that are to be found or have a reported error. Operands that are type
    parameters fail as one: what they lack is one constraint.
    """
    found: dict[int, ShapeError] = {}
    previous: Type | None = None
    is_promised_too_little = False
    for index, (operand, given) in enumerate(zip(operands, types)):
        before, previous = previous, None
        if _is_open(given):
            continue
        try:
            _check_operand(op_name, operand, given, before)
            previous = given
        except ShapeError as failure:
            if not (isinstance(given, TypeVar) and is_promised_too_little):
                found[index] = failure
            is_promised_too_little |= isinstance(given, TypeVar)
    return found


def check_class(op_name: str, operand: ConstrainedOperand, given: Type) -> tuple[Type, ...]:
    """Return the tensors of an operand; raises ShapeError where it is none, nor a tuple of some.

    What is still to be found may be one.
    """
    constraint = operand.constraint
    tensors: tuple[Type, ...] = (given,)
    if constraint.is_tuple and isinstance(given, TupleType):
        tensors = given.fields
    elif constraint.is_tuple:
        tensors = ()
    if not all(isinstance(t, TensorType) or _is_open(t) for t in tensors) or (
        constraint.is_tuple and not tensors
    ):
        wanted = f"operand `{operand.name}` of `{op_name}` must be {constraint.text}"
        raise ShapeError(f"{wanted}, got {_class_text(given)}", "type-mismatch")
    return tensors


def _check_operand(
    op_name: str, operand: ConstrainedOperand, given: Type, previous: Type | None
) -> None:
    constraint = operand.constraint
    for tensor in check_class(op_name, operand, given):
        if not isinstance(tensor, TensorType) or tensor.dtype is POISON_DTYPE:
            continue
        if tensor.dtype not in constraint.dtypes:
            wanted = f"operand `{operand.name}` of `{op_name}` must be {constraint.text}"
            wider = f"; `cast` it to {tensor.dtype.wide}" if tensor.dtype.is_stored else ""
            raise ShapeError(f"{wanted}, got {tensor.dtype}{wider}", "dtype-mismatch")
        if constraint.same_as_previous and _has_dtype(previous):
            require_same_dtype(previous.dtype, tensor.dtype, f"dtypes of `{op_name}`'s operands")


def _is_open(type_: Type) -> bool:
    return type_ is POISON or isinstance(type_, IncompleteType)


def _has_dtype(type_: Type | None) -> TypeGuard[TensorType]:
    return isinstance(type_, TensorType) and type_.dtype is not POISON_DTYPE


def _class_text(given: Type) -> str:
    match given:
        case TensorType():
            return "a tensor"
        case TupleType(fields):
            return f"a tuple of {quantity(len(fields), 'field')}" if fields else "the empty tuple"
        case FuncType():
            return "a function"
        case RefType():
            return "a reference"
        case TypeCall(head):
            return f"a value of data type `{head.name}`"
        case TypeVar(name):
            return f"a value of type parameter `{name}`"
        case _:
            return "a value of another type"


def number_dtype(name: str, given: DType | None, default: DType) -> DType:
    """Return the dtype of a result; raises ShapeError where `out_dtype` is no number."""
    if given is not None and given.is_bool:
        raise ShapeError(f"`out_dtype` of `{name}` must be a number, got bool", "dtype-mismatch")
    return given or default


def require_same_dtype(a: DType, b: DType, what: str) -> DType:
    """Return the dtype both are; raises ShapeError `dtype-mismatch` if they differ."""
    if a is not b:
        raise ShapeError(f"{what} differ: {a} and {b}", "dtype-mismatch")
    return a
