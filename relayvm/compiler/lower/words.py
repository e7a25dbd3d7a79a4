"""Which operator calls on rank-0 values are single word instructions of the machine, and which are
views.

Both are left out of kernels: a word instruction costs less than a kernel call, and a view copies
nothing. Parts of the leading axis may stand in kernels, which read them in place; a primitive
function of such parts alone is no kernel but views.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace

from relayvm.base.dims import (
    Dim,
    DimVar,
    dim_add,
    dim_min,
    dim_sub,
    dim_variables,
    linear_dim,
    symbol,
)
from relayvm.base.dtypes import DType
from relayvm.base.shapes import Check, shape_context
from relayvm.compiler.transforms.blocks import split_block
from relayvm.ir.expr import Call, Expr, Function, Op, Tuple, TupleGetItem, Var
from relayvm.ir.types import TensorType, TupleType, Type
from relayvm.ir.visit import is_concrete
from relayvm.ops.operator import Operator
from relayvm.ops.slicing import SliceSpec, slice_ranges
from relayvm.ops.tracing import name_unknown_dims, tensors_of

_ARITHMETIC = {
    "add": "add",
    "subtract": "subtract",
    "multiply": "multiply",
    "divide": "divide",
    "floor_divide": "floor_divide",
    "mod": "mod",
    "floor_mod": "floor_mod",
    "maximum": "maximum",
    "minimum": "minimum",
    "negative": "negative",
    "abs": "abs",
}
_COMPARISONS = {
    "equal": "equal",
    "not_equal": "not_equal",
    "less": "less",
    "less_equal": "less_equal",
    "greater": "greater",
    "greater_equal": "greater_equal",
}
_LOGICAL = {
    "logical_and": "logical_and",
    "logical_or": "logical_or",
    "logical_xor": "logical_xor",
    "logical_not": "logical_not",
}
_SHIFTS = {"left_shift": "left_shift", "right_shift": "right_shift"}
_BITWISE = {
    "bitwise_and": "bitwise_and",
    "bitwise_or": "bitwise_or",
    "bitwise_xor": "bitwise_xor",
    "bitwise_not": "bitwise_not",
}
_ON_BITS = {**_SHIFTS, **_BITWISE}

VIEW_OPERATORS = frozenset({"reshape", "squeeze", "expand_dims", "reshape_like"})
# Operators that may take rows: the first axis unless an attribute `axis` says another.
_PARTS = frozenset({"slice_like", "split", "split_like", "strided_slice"})
DATA_DEPENDENT_VIEWS = frozenset({"dyn.reshape", "dyn.squeeze", "dyn.expand_dims"})


def operand_types(call: Call) -> tuple[TensorType, ...] | None:
    """Return the tensor types of a call's operands, or None if one is not a tensor."""
    types = tuple(arg.checked_type for arg in call.args)
    if all(isinstance(t, TensorType) for t in types):
        return types  # type: ignore[return-value]
    return None


def word_instruction(call: Call) -> str | None:
    """Return the instruction that computes a call on rank-0 operands, or None where it needs a
    kernel.

    `add` on int64 operands -> `add_i64`; `cast` to float32 from int32 -> `cast_i32_f32`; `where`
    -> `select`.
    """
    types = operand_types(call)
    result = call.checked_type
    if not isinstance(call.op, Op) or types is None or not isinstance(result, TensorType):
        return None
    if not types or result.rank or any(t.rank for t in types):
        return None
    return _stem(call.op.name, types[0].dtype, result.dtype)


def _stem(name: str, operand: DType, result: DType) -> str | None:
    if operand.is_stored or result.is_stored:
        return "move" if name == "copy" else None
    if name == "cast":
        return "move" if operand == result else f"cast_{operand.short}_{result.short}"
    if name in ("copy", "where"):
        return {"copy": "move", "where": "select"}[name]
    if name in _COMPARISONS:
        return f"{_COMPARISONS[name]}_{operand.short}"
    if name in _LOGICAL and operand.is_bool:
        return _LOGICAL[name]
    if operand.is_bool:
        return None
    if name in _ARITHMETIC:
        return f"{_ARITHMETIC[name]}_{operand.short}"
    if name in _ON_BITS and operand.is_integer:
        return f"{_ON_BITS[name]}_{operand.short}"
    return None


def is_view(call: Call) -> bool:
    """Tell whether a call only gives the same elements another shape, so that it needs no kernel.

    Rank-0 values are registers, not storage: a reshape from or to rank 0 is not a view.
    """
    return _keeps_elements(call, VIEW_OPERATORS)


def is_data_dependent_view(call: Call) -> bool:
    """Tell whether a call gives the same elements a shape that values of operands tell."""
    return _keeps_elements(call, DATA_DEPENDENT_VIEWS)


def _keeps_elements(call: Call, operators: Container[str]) -> bool:
    if not isinstance(call.op, Op) or call.op.name not in operators:
        return False
    operand, result = call.args[0].checked_type, call.checked_type
    return (
        isinstance(operand, TensorType)
        and isinstance(result, TensorType)
        and operand.rank > 0
        and result.rank > 0
    )


def kernel_operator(value: Expr) -> Operator | None:
    """Return the operator of a call that becomes a part of a kernel, or None."""
    if not isinstance(value, Call) or not isinstance(value.op, Operator):
        return None
    if not all(is_concrete(part.checked_type) for part in (*value.args, value)):
        return None  # What it is applied to is known to the callers of a polymorphic function.
    if value.op.has_effect or word_instruction(value) is not None or is_view(value):
        return None
    if value.op.name == "shape_of" or "value_dims" in value.op.facets:
        return None
    return value.op


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows `begin` up to `end` of a parameter, counted along its first axis."""

    param: Var
    begin: Dim
    end: Dim


@dataclass(frozen=True, slots=True)
class LeadingParts:
    """The rows that a function takes of its parameters, and what must hold for that.

    `lengths` are the first axes that a run tells and that the others are written in.
    """

    rows: tuple[Rows, ...]
    checks: tuple[Check, ...]
    lengths: Mapping[Var, Dim]


def leading_parts(function: Function) -> LeadingParts | None:
    """Return the results of a primitive function that only takes rows of its parameters; None for
    any other.

    `fn (%p) { strided_slice(%p, begin=[1], end=[3]) }` -> rows 1 to 3 of %p
    """
    lengths: dict[Var, Dim] = {}
    for param in function.params:
        kind = param.checked_type
        if isinstance(kind, TensorType) and kind.shape:
            lengths[param] = _length(kind)
    known: dict[Expr, tuple[Rows, ...]] = {p: (Rows(p, 0, d),) for p, d in lengths.items()}
    bindings, tail = split_block(function.body)
    with shape_context() as context:
        for binding in bindings:
            parts = _parts(binding.value, known)
            if parts is None:
                return None
            known[binding.var] = parts
        rows = _parts(tail, known)
    if rows is None:
        return None
    dims = [d for r in rows for d in (r.begin, r.end)]
    dims += [d for c in context.checks for d in (c.a, c.b)]
    needed = {v for d in dims for v in dim_variables(d)}
    told = {p: d for p, d in lengths.items() if not needed.isdisjoint(dim_variables(d))}
    return LeadingParts(rows, tuple(context.checks), told)


def takes_rows(call: Call) -> bool:
    """Tell whether a call gives rows of its first operand that may be views of it."""
    operands: list[tuple[Rows, ...]] = []
    for arg in call.args:
        kinds = list(tensors_of(arg.checked_type)) if arg.checked_type is not None else []
        if not all(kind.shape for kind in kinds):
            return False
        operands.append(tuple(Rows(Var("p"), 0, _length(kind)) for kind in kinds))
    return _rows_taken(call, operands) is not None


def _length(kind: TensorType) -> Dim:
    """Return the size of the first axis, a name of its own where it does not tell that of its type.

    `n*2` -> `n*2`; `?` -> `rows`, a fresh variable
    """
    first = kind.shape[0]
    told = isinstance(first, int) or linear_dim(first) is not None
    return first if told else symbol(DimVar("rows"))


def _parts(value: Expr, known: Mapping[Expr, tuple[Rows, ...]]) -> tuple[Rows, ...] | None:
    match value:
        case Var():
            return known.get(value)
        case Tuple():
            fields = [known.get(f, ()) for f in value.fields]
            return tuple(f[0] for f in fields) if all(len(f) == 1 for f in fields) else None
        case TupleGetItem():
            whole = known.get(value.tuple_value)
            return (whole[value.index],) if whole is not None else None
        case Call():
            operands = [known.get(arg, ()) for arg in value.args]
            return _rows_taken(value, operands) if all(operands) else None
    return None


def _rows_taken(call: Call, operands: Sequence[tuple[Rows, ...]]) -> tuple[Rows, ...] | None:
    """Return the rows of the first operand that a call gives; what its rule leaves to a run is
    noted.
    """
    op = call.op
    if not isinstance(op, Operator) or op.name not in _PARTS:
        return None
    types = [_with_lengths(a.checked_type, rows) for a, rows in zip(call.args, operands)]
    data, attrs = types[0], op.complete_attrs(call.attrs)
    if not isinstance(data, TensorType) or attrs.get("axis", 0) not in (0, -data.rank):
        return None  # A tuple of one part, or another axis.
    kinds = list(tensors_of(op.result_type(types, call.attrs)))
    if any(k.shape[1:] != data.shape[1:] for k in kinds):
        return None
    (source,) = operands[0]
    begin: Dim = 0
    if op.name == "strided_slice":
        first, *others = slice_ranges(data.shape, SliceSpec(**attrs))
        if any(r.stride != 1 for r in (first, *others)):
            return None
        # What is empty may begin behind the end.
        begin = dim_min(first.begin, data.shape[0])
    begin = dim_add(source.begin, begin)
    parts: list[Rows] = []
    for kind in kinds:
        parts.append(replace(source, begin=begin, end=dim_add(begin, kind.shape[0])))
        begin = parts[-1].end
    return tuple(parts)


def _with_lengths(kind: Type | None, rows: Sequence[Rows]) -> Type:
    """Return a type with the lengths of these rows, and a name for every other `?`."""
    lengths = (dim_sub(r.end, r.begin) for r in rows)
    assert kind is not None
    tensors = [replace(t, shape=(next(lengths), *t.shape[1:])) for t in tensors_of(kind)]
    known = TupleType(tuple(tensors)) if isinstance(kind, TupleType) else tensors[0]
    return name_unknown_dims(known, [])
