"""How operator functions build calls: the row by name, attributes in canonical form, constants as
attributes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from relayvm.base.diagnostics import error, quantity
from relayvm.base.shapes import ShapeError
from relayvm.ir.expr import NO_ATTRS, Attrs, Call, Constant, Expr, Tuple
from relayvm.ops import OPS
from relayvm.ops.operator import Operator
from relayvm.relay.expr import TupleWrapper, const
from relayvm.relay.node import as_expr as as_node
from relayvm.relay.node import attr_value
from relayvm.relay.python_span import here


def row(name: str) -> Operator:
    """Return the row of an operator; raises RelayError `unknown-operator` where there is none."""
    if name not in OPS:
        raise error("unknown-operator", f"there is no operator `{name}` in the table")
    return OPS[name]


def call(name: str, /, *args: Any, **attrs: Any) -> Call:
    """Return a call of an operator.

    Its attributes are complete, defaults filled in, and canonical; an empty dtype means that it is
    not given. Raises RelayError `unknown-operator`, `bad-attribute`, and `bad-node`
    for an operand that is no expression.
    """
    op = row(name)
    operands = tuple(operand(arg, name) for arg in args)
    return Call(op, operands, _attributes(op, attrs), span=here())


def wrapped(size: int, name: str, /, *args: Any, **attrs: Any) -> TupleWrapper:
    """Return a call of an operator with `size` results as something to index and unpack."""
    return TupleWrapper(call(name, *args, **attrs), size)


def operand(value: Any, name: str) -> Expr:
    """Return an operand as an expression; lists and tuples of expressions become tuples."""
    return (
        tuple_of(value, name) if isinstance(value, (list, tuple)) else as_node(value, f"`{name}`")
    )


def tuple_of(values: Any, name: str) -> Expr:
    """Return the operand of an operator that takes a tuple: an expression, or one made of many."""
    if isinstance(values, (Expr, TupleWrapper)):
        return operand(values, name)
    return Tuple(tuple(operand(v, name) for v in values))


def _attributes(op: Operator, given: dict[str, Any]) -> Attrs:
    dtypes = {a.name for a in op.attributes if a.kind == "DType | None"}
    values = {
        name: None if name in dtypes and _is_empty(value) else attr_value(value)
        for name, value in given.items()
    }
    try:
        complete = op.complete_attrs({n: v for n, v in values.items() if n not in op.ignored})
    except ShapeError as failure:
        raise error(failure.code or "bad-attribute", failure.message) from None
    return Attrs(complete) if complete else NO_ATTRS


def _is_empty(value: Any) -> bool:
    return isinstance(value, str) and not value


# -- Constants and expressions in the place of attributes -----------------------------------------


def folded(value: Any) -> Any:
    """Return the numbers of a constant as they stand in an attribute; anything else as it is."""
    if isinstance(value, Constant):
        return attr_value(np.asarray(value.data).tolist())
    return value


def is_dynamic(*values: Any) -> bool:
    """Tell whether one of the values is known only when the program runs."""
    return any(isinstance(v, (Expr, TupleWrapper)) for v in values)


def as_expr(value: Any, dtype: str | None = None) -> Expr:
    """Return a number, a list of numbers or an expression as an expression."""
    if isinstance(value, TupleWrapper):
        return value.astuple()
    return value if isinstance(value, Expr) else const(value, dtype)


def sizes(value: Any) -> Any:
    """Return a list of sizes: one number stands for a list of one."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    return value if isinstance(value, (list, tuple, Expr)) else (value,)


def spread(value: Any, count: int) -> Any:
    """Return one number as `count` equal ones; a sequence as it is."""
    if isinstance(value, int) and not isinstance(value, bool):
        return (value,) * count
    return value


def padding(value: Any, axes: int) -> Sequence[int]:
    """Return the padding of a window over `axes` axes in full: all befores, then all afters.

    One number pads all sides; one an axis pads both its sides; two an axis are taken as they are.
    Raises RelayError `bad-attribute` for another number of them.
    """
    try:
        given = tuple(int(v) for v in (value if isinstance(value, Iterable) else (value,)))
    except (TypeError, ValueError, OverflowError) as reason:
        raise error("bad-attribute", f"`padding` is no number or list of them: {reason}") from None
    if len(given) == 1:
        return given * (2 * axes)
    if len(given) == axes:
        return given * 2
    if len(given) == 2 * axes:
        return given
    wanted = ", ".join(str(n) for n in sorted({1, axes, 2 * axes}))
    over = quantity(axes, "axis", "axes")
    message = f"`padding` over {over} is a list of {wanted} numbers, not of {len(given)}"
    raise error("bad-attribute", message)
