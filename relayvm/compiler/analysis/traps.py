"""Which expressions can neither trap, nor run for ever, nor touch a reference."""

from __future__ import annotations

from relayvm.compiler.analysis.scopes import is_atomic
from relayvm.ir.expr import Call, Constructor, Expr, Function, Tuple, TupleGetItem
from relayvm.ir.types import TensorType, TupleType, Type
from relayvm.ir.visit import children
from relayvm.ops.operator import Operator


def may_trap(call: Call) -> bool:
    """Return True if only a run can tell that an operator call has a result."""
    assert isinstance(call.op, Operator)
    return may_miss(call) or not all(is_static(a.checked_type) for a in (*call.args, call))


def may_miss(call: Call) -> bool:
    """Return True if values of operands of an operator call may mean nothing, as an index does that
    is outside.
    """
    assert isinstance(call.op, Operator)
    types = [a.checked_type for a in call.args]
    known = [t for t in types if t is not None]
    return len(known) < len(types) or call.op.traps_on_values(known, call.attrs)


def is_static(kind: Type | None) -> bool:
    """Return True if all sizes of a type of tensors are known."""
    if isinstance(kind, TupleType):
        return all(is_static(f) for f in kind.fields)
    return isinstance(kind, TensorType) and all(isinstance(d, int) for d in kind.shape)


def is_inert(expr: Expr) -> bool:
    """Return True if it makes no difference when, and whether, a typed expression is evaluated."""
    pending = [expr]
    while pending:
        node = pending.pop()
        if is_atomic(node) or isinstance(node, Function):
            continue
        if isinstance(node, Call):
            operator = isinstance(node.op, Operator) and not node.op.has_effect
            if operator and may_trap(node):
                return False
            if not operator and not isinstance(node.op, Constructor):
                return False
            pending.extend(node.args)
        elif isinstance(node, (Tuple, TupleGetItem)):
            pending.extend(children(node))
        else:
            return False
    return True
