"""Rows of tensors through operators: which contractions and reductions compute row by row, and
which operators between them keep the rows.

The rows of a tensor are the places on all axes but the trailing ones that an operator works along.
"""

from __future__ import annotations

from collections.abc import Sequence

from relayvm.base.dims import Dim, dim_mul, dims_equal
from relayvm.compiler.lower.words import is_view
from relayvm.ir.expr import Call, Expr
from relayvm.ir.types import TensorType
from relayvm.ops.operator import Fusion, Operator
from relayvm.ops.tracing import tensors_of

# Contractions of the last axis of their first operand, whose other axes become those of the result.
_PRODUCTS = frozenset(
    ("nn.dense", "nn.matmul", "nn.batch_matmul", "nn.contrib_dense_pack")
    + ("qnn.dense", "qnn.batch_matmul", "qnn.contrib_dense_pack")
)
_LAYERS = frozenset(("nn.dense", "nn.matmul"))
_BATCHED = frozenset(("nn.batch_matmul", "qnn.batch_matmul"))
_FOLDS = frozenset(
    ("all", "any", "argmax", "argmin", "max", "mean", "min", "prod", "sum", "variance")
    + ("nn.softmax", "nn.fast_softmax", "nn.log_softmax", "qnn.softmax")
    + ("nn.layer_norm", "nn.l2_normalize")
)
# Parts and joins along the last axis leave the rows as they are.
_PARTS = frozenset(("split", "strided_slice", "concatenate"))


def is_product(call: Expr) -> bool:
    """Tell whether a call is a matrix product of the rows of its first operand."""
    return isinstance(call, Call) and _name(call) in _PRODUCTS and not _turned(call)


def is_batched(call: Call) -> bool:
    """Tell whether a product takes a matrix of its own for each of a batch of matrices."""
    return _name(call) in _BATCHED


def is_layer(call: Call) -> bool:
    """Tell whether a product is that of all rows with one matrix, which may lie either way."""
    return _name(call) in _LAYERS


def rows_of(call: Call) -> Dim | None:
    """Return how many rows a product or a reduction of trailing axes computes, else None."""
    if is_product(call):
        result = call.checked_type
        return volume(result.shape[:-1]) if isinstance(result, TensorType) else None
    count = trailing_axes(call)
    operand = _tensor(call.args[0]) if count else None
    return volume(operand.shape[: operand.rank - (count or 0)]) if operand is not None else None


def trailing_axes(call: Call) -> int | None:
    """Return along how many of the last axes of its operand a call reduces; None if along others.

    `sum(%x, axis=[1, 2])` of rank 3 -> 2
    """
    if _name(call) not in _FOLDS or not isinstance(call.op, Operator):
        return None
    operand = _tensor(call.args[0])
    if operand is None or not operand.rank:
        return None
    attrs = call.op.complete_attrs(call.attrs)
    given = attrs["axis"]
    axes = range(operand.rank) if given is None else given
    chosen = {a % operand.rank for a in ([axes] if isinstance(axes, int) else axes)}
    if attrs.get("exclude"):
        chosen = set(range(operand.rank)) - chosen
    first = operand.rank - len(chosen)
    return len(chosen) if chosen and chosen == set(range(first, operand.rank)) else None


def keeps_rows(value: Expr, source: Expr) -> bool:
    """Tell whether each row of a value follows from the same row of `source`, which it reads."""
    if not isinstance(value, Call) or not isinstance(value.op, Operator):
        return True  # Tuples and their fields.
    if value.op.fusion in (Fusion.ELEMENTWISE, Fusion.BROADCAST):
        read, made = _tensor(source), _tensor(value)
        return read is None or made is None or read.rank in (0, made.rank)
    if is_view(value):
        operand, result = _tensor(value.args[0]), _tensor(value)
        assert operand is not None and result is not None
        same = dims_equal(operand.shape[-1], result.shape[-1]) is True
        return same or _without_ones(operand.shape) == _without_ones(result.shape)
    if value.op.name in _PARTS:
        known = [e.checked_type for e in (*value.args, value) if e.checked_type]
        kinds = [t for kind in known for t in tensors_of(kind)]
        return all(same_dims(t.shape[:-1], kinds[0].shape[:-1]) for t in kinds)
    return trailing_axes(value) is not None


def is_cheap_view(call: Call) -> bool:
    """Tell whether a view within a kernel still reads runs of memory: its last axes lie on the last
    axis of its operand, whatever becomes of the rows. All sizes have names.
    """
    operand, result = _tensor(call.args[0]), _tensor(call)
    if len(call.args) != 1 or operand is None or result is None:
        return False
    if any(dims_equal(d, d) is not True for d in (*operand.shape, *result.shape)):
        return False
    if _without_ones(operand.shape) == _without_ones(result.shape):
        return True
    last = operand.shape[-1]
    tails = (volume(result.shape[k:]) for k in range(result.rank))
    return last != 1 and any(dims_equal(tail, last) is True for tail in tails)


def volume(shape: Sequence[Dim]) -> Dim:
    """Return the number of elements of a shape."""
    total: Dim = 1
    for extent in shape:
        total = dim_mul(total, extent)
    return total


def same_dims(a: Sequence[Dim], b: Sequence[Dim]) -> bool:
    """Tell whether two shapes are known to be equal."""
    return len(a) == len(b) and all(dims_equal(x, y) is True for x, y in zip(a, b))


def _without_ones(shape: Sequence[Dim]) -> list[Dim]:
    return [d for d in shape if d != 1]


def _turned(call: Call) -> bool:
    return bool(call.attrs.get("transpose_a"))


def _name(call: Call) -> str:
    return call.op.name if isinstance(call.op, Operator) else ""


def _tensor(value: Expr) -> TensorType | None:
    kind = value.checked_type
    return kind if isinstance(kind, TensorType) else None
