"""What the declared type of a name says beside its value: sizes that a run compares, and sizes that
must stay hidden from operators.
"""

from __future__ import annotations

from collections.abc import Sequence

from relayvm.base.dtypes import dtype_of
from relayvm.base.shapes import ShapeError
from relayvm.compiler.infer_types import needs_check
from relayvm.compiler.transforms.blocks import Binding
from relayvm.ir.expr import Call, Constant, Expr, Tuple, TupleGetItem, Var
from relayvm.ir.types import TensorType, TupleType, Type
from relayvm.ops.operator import Operator


def promises_more(var: Var, value: Expr) -> bool:
    """Return True if a variable is declared with sizes that its value may not have: a run compares
    them where the variable is bound, so that the value must not take its place.
    """
    declared = var.type_annotation or var.checked_type
    given = _given(value)
    return declared is not None and given is not None and needs_check(given, declared)


def _given(value: Expr) -> Type | None:
    """Return what is known of the type of a value, which a pass may just have made."""
    if isinstance(value, Constant):
        return TensorType(value.data.shape, dtype_of(value.data.dtype))
    if isinstance(value, Tuple):
        fields = [f.checked_type if isinstance(f, Tuple) else _given(f) for f in value.fields]
        known = tuple(f for f in fields if f is not None)
        return TupleType(known) if len(known) == len(fields) else value.checked_type
    return value.checked_type


def hiding_names(bindings: Sequence[Binding]) -> frozenset[Var]:
    """Return the variables of a block that are declared more open than their values are, of which
    an operator is computed that could not take what follows from the values' types.

    In `let %a: Tensor[(?,), float32] = exp(%x); add(%a, %y)`, where `x` has 3 elements and `y` has
    4, the call traps if it is run; a kernel of both operators would have no type.
    """
    exact: dict[Expr, Type] = {}
    hiding: dict[Expr, frozenset[Var]] = {}
    found: frozenset[Var] = frozenset()
    for binding in bindings:
        var, value = binding.var, binding.value
        if isinstance(value, Call) and isinstance(value.op, Operator):
            read = frozenset().union(*(hiding.get(a, ()) for a in value.args))
            result = _result(value.op, value, exact) if read else value.checked_type
            if result is None:
                found |= read
            elif result != value.checked_type:
                exact[var], hiding[var] = result, read
        elif isinstance(value, Tuple) and any(f in hiding for f in value.fields):
            types = [exact.get(f, f.checked_type) for f in value.fields]
            exact[var] = TupleType(tuple(t for t in types if t is not None))
            hiding[var] = frozenset().union(*(hiding.get(f, ()) for f in value.fields))
        elif isinstance(value, TupleGetItem) and value.tuple_value in hiding:
            whole = exact[value.tuple_value]
            assert isinstance(whole, TupleType)
            exact[var], hiding[var] = whole.fields[value.index], hiding[value.tuple_value]
        given, declared = value.checked_type, var.checked_type
        if isinstance(given, TensorType) and given != declared:
            exact.setdefault(var, given)
            hiding[var] = hiding.get(var, frozenset()) | {var}
    return found


def _result(op: Operator, call: Call, exact: dict[Expr, Type]) -> Type | None:
    """Return the type that a call has for operands of exact types; None if it has none."""
    types = [exact.get(arg, arg.checked_type) for arg in call.args]
    try:
        return op.result_type([t for t in types if t is not None], call.attrs)
    except ShapeError:
        return None
