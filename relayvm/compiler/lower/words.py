"""Which operator calls on rank-0 values are single word instructions of the machine, and which are
views.

Both are left out of kernels: a word instruction costs less than a kernel call, and a view copies
nothing.
"""

from __future__ import annotations

from relayvm.base.dtypes import DType
from relayvm.ir.expr import Call, Op
from relayvm.ir.types import TensorType

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

VIEW_OPERATORS = frozenset({"reshape", "squeeze", "expand_dims", "reshape_like"})


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
    if name in _SHIFTS and operand.is_integer:
        return f"{_SHIFTS[name]}_{operand.short}"
    return None


def is_view(call: Call) -> bool:
    """Tell whether a call only gives the same elements another shape, so that it needs no kernel.

    Rank-0 values are registers, not storage: a reshape from or to rank 0 is not a view.
    """
    if not isinstance(call.op, Op) or call.op.name not in VIEW_OPERATORS:
        return False
    operand, result = call.args[0].checked_type, call.checked_type
    return (
        isinstance(operand, TensorType)
        and isinstance(result, TensorType)
        and operand.rank > 0
        and result.rank > 0
    )
