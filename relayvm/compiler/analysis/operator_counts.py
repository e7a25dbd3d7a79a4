"""Counts over the operator calls of a program: how many, how deep, how much work."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from math import prod

from relayvm.ir.expr import Call, Constant, Expr, Op, Tuple, TupleGetItem, Var
from relayvm.ir.module import Module
from relayvm.ir.types import TensorType, Type
from relayvm.ir.visit import children, post_order
from relayvm.ops.operator import Operator

PRODUCTS = ("nn.dense", "nn.matmul", "nn.batch_matmul")


def operator_calls(item: Expr | Module) -> Iterator[Call]:
    """Yield the calls of operators, those inside of functions too, operands first."""
    for root in item.functions.values() if isinstance(item, Module) else (item,):
        for node in post_order(root):
            if isinstance(node, Call) and isinstance(node.op, Op):
                yield node


def operator_frequencies(item: Expr | Module) -> dict[str, int]:
    """Return how many calls there are of each operator."""
    found: dict[str, int] = {}
    for call in operator_calls(item):
        assert isinstance(call.op, Op)
        found[call.op.name] = found.get(call.op.name, 0) + 1
    return found


def layer_count(expr: Expr, operators: Collection[str]) -> int:
    """Return the most calls of some operators on any one way from operand to result."""
    depth: dict[int, int] = {}
    for node in post_order(expr):
        own = isinstance(node, Call) and isinstance(node.op, Op) and node.op.name in operators
        below = max((depth[id(part)] for part in children(node)), default=0)
        depth[id(node)] = below + bool(own)
    return depth[id(expr)]


def multiply_accumulates(expr: Expr) -> int:
    """Return the products that matrix products and convolutions of a typed expression sum.

    Calls with a size that is not known count nothing.
    """
    return sum(_products(call) for call in operator_calls(expr))


def _products(call: Call) -> int:
    assert isinstance(call.op, Op)
    result = _shape(call.checked_type)
    operands = [_shape(arg.checked_type) for arg in call.args[:2]]
    if result is None or None in operands or len(operands) < 2:
        return 0
    data, weight = operands
    assert data is not None and weight is not None
    if call.op.name in PRODUCTS:
        return prod(result) * _summed(call, data)
    if call.op.name.startswith("nn.conv") and isinstance(call.op, Operator):
        attrs = call.op.complete_attrs(call.attrs)
        channels = _channels(str(attrs["data_layout"]), data)
        window = _window(attrs, weight)
        return prod(result) * window * channels // int(attrs.get("groups", 1))
    return 0


def _summed(call: Call, data: tuple[int, ...]) -> int:
    assert isinstance(call.op, Operator)
    attrs = call.op.complete_attrs(call.attrs)
    turned = attrs.get("transpose_a", False)
    return data[-2] if turned else data[-1]


def _channels(layout: str, data: tuple[int, ...]) -> int:
    letters = [c for c in layout if c.isalpha()]
    return prod(size for letter, size in zip(letters, data) if letter in "Cc")


def _window(attrs: dict[str, object], weight: tuple[int, ...]) -> int:
    given = attrs.get("kernel_size")
    if isinstance(given, tuple):
        return prod(given)
    letters = [c for c in str(attrs["kernel_layout"]) if c.isalpha()]
    return prod(size for letter, size in zip(letters, weight) if letter in "DHW")


def _shape(kind: Type | None) -> tuple[int, ...] | None:
    if not isinstance(kind, TensorType):
        return None
    sizes = tuple(d for d in kind.shape if isinstance(d, int))
    return sizes if len(sizes) == len(kind.shape) else None


def transposed_weights(expr: Expr) -> list[str]:
    """Return the variables `w` of `nn.dense(x, transpose(w, axes=[1, 0]))`, each once."""
    found: dict[str, None] = {}
    for call in operator_calls(expr):
        assert isinstance(call.op, Op)
        if call.op.name != "nn.dense":
            continue
        weight = call.args[1]
        if not isinstance(weight, Call) or not isinstance(weight.op, Op):
            continue
        turned = weight.op.name == "transpose" and weight.attrs.get("axes") in (None, (1, 0))
        if turned and isinstance(weight.args[0], Var):
            found[weight.args[0].name] = None
    return list(found)


def is_constant(expr: Expr) -> bool:
    """Return True if an expression is a constant, or a tuple of such."""
    return all(isinstance(node, (Constant, Tuple)) for node in post_order(expr))


def fake_quantized_frequencies(item: Expr | Module) -> dict[str, int]:
    """Return the calls of each operator that lie on ways from `qnn.dequantize` to `qnn.quantize`
    and could be computed with integers.
    """
    found: dict[str, int] = {}
    counted: set[int] = set()
    for call in operator_calls(item):
        assert isinstance(call.op, Op)
        if call.op.name != "qnn.quantize":
            continue
        for inner in _between(call.args[0]):
            if id(inner) not in counted:
                counted.add(id(inner))
                assert isinstance(inner.op, Op)
                found[inner.op.name] = found.get(inner.op.name, 0) + 1
    return found


def _between(root: Expr) -> list[Call]:
    """Return the operator calls under a quantisation, down to `qnn.dequantize`; none if a way ends
    elsewhere.
    """
    calls: list[Call] = []
    seen: set[int] = set()
    pending = [root]
    while pending:
        node = pending.pop()
        if id(node) in seen or isinstance(node, (Op, Constant)):
            continue
        seen.add(id(node))
        if isinstance(node, Call) and isinstance(node.op, Op):
            if node.op.name != "qnn.dequantize":
                calls.append(node)
                pending.extend(node.args)
        elif isinstance(node, (Tuple, TupleGetItem)):
            pending.extend(children(node))
        else:
            return []
    return calls
