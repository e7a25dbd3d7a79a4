"""Operator calls for many steps of a loop at once: each rule turns a call on the values of one step
into one on tensors that have the steps as their first axis.

A batched value of shape [s] is a tensor [steps, s]. The values of each step stay the same, to the
bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from relayvm.compiler.rewriting.build import attrs_of, call, type_of, typed_call
from relayvm.compiler.rewriting.build import tensor as tensor_of
from relayvm.ir.expr import Attrs, Call, Expr
from relayvm.ir.types import TensorType
from relayvm.ops import OPS
from relayvm.ops.operator import Fusion, Operator

Emit = Callable[[Expr], Expr]


@dataclass(frozen=True, slots=True)
class Batch:
    """A call of one step, and its operands for all steps; `varies` tells which of them do."""

    call: Call
    args: Sequence[Expr]
    varies: Sequence[bool]
    emit: Emit

    @property
    def attrs(self) -> dict[str, Any]:
        """All attributes of the call."""
        return attrs_of(self.call)

    def kind(self, place: int) -> TensorType:
        """Return the type of an operand in one step."""
        return tensor_of(self.call.args[place])

    def make(self, name: str, args: Sequence[Expr], **attrs: Any) -> Expr:
        """Return the result of one more call."""
        return self.emit(call(name, args, self.call.span, **attrs))

    def again(self, args: Sequence[Expr], attrs: Mapping[str, Any]) -> Expr:
        """Return the result of the same operator on other operands."""
        op = self.call.op
        assert isinstance(op, Operator)
        return self.emit(typed_call(op, args, Attrs(attrs), self.call.span))

    def shaped(self, value: Expr, shape: Sequence[int]) -> Expr:
        """Return a batched value whose steps have another shape with as many elements."""
        if static_shape(type_of(value), 1) == tuple(shape):
            return value
        return self.make("reshape", (value,), newshape=(-1, *shape))


def batched(batch: Batch) -> Expr | None:
    """Return the results of a call in all steps, or None if there is no rule for it.

    `nn.dense(take(%x, %i, axis=0), %w)` -> `nn.dense(take(%x, %places, axis=0), %w)`
    """
    op = batch.call.op
    assert isinstance(op, Operator)
    shape = static_shape(batch.call.checked_type)
    if shape is None or 0 in shape or op.has_effect or op.is_data_dependent:
        return None
    if not all(isinstance(arg.checked_type, TensorType) for arg in batch.call.args):
        return None
    if op.name in _RULES:
        return _RULES[op.name](batch)
    if op.fusion is Fusion.ELEMENTWISE or (op.fusion is Fusion.BROADCAST and not op.attributes):
        return _broadcast(batch, len(shape))
    return _product(batch) if op.fusion is Fusion.CONTRACTION else None


def static_shape(kind: object, first: int = 0) -> tuple[int, ...] | None:
    """Return the sizes of a tensor type from axis `first` on, or None if they are not all known."""
    if not isinstance(kind, TensorType):
        return None
    sizes = tuple(d for d in kind.shape[first:] if isinstance(d, int))
    return sizes if len(sizes) == len(kind.shape[first:]) else None


def rows_of_product(node: Call) -> int | None:
    """Return how many rows the first operand of a contraction has, or None if they cannot be more
    at a time.
    """
    assert isinstance(node.op, Operator)
    axis = node.op.axis_of_rows([type_of(a) for a in node.args], node.attrs)
    shape = static_shape(node.args[0].checked_type)
    if axis is None or shape is None or math.prod(shape[: max(axis, 0)]) != 1:
        return None
    return 1 if axis < 0 else shape[axis]


def _product(batch: Batch) -> Expr | None:
    """Put the rows of all steps below each other."""
    if not batch.varies[0] or any(batch.varies[1:]) or rows_of_product(batch.call) is None:
        return None
    op = batch.call.op
    assert isinstance(op, Operator)
    types = [type_of(a) for a in batch.call.args]
    axis = op.axis_of_rows(types, batch.call.attrs)
    shape = static_shape(types[0])
    result = static_shape(batch.call.checked_type)
    assert axis is not None and shape is not None and result is not None
    if axis < 0:
        return batch.again(batch.args, batch.attrs)
    newshape = (*shape[:axis], -1, *shape[axis + 1 :])
    joined = batch.make("reshape", batch.args[:1], newshape=newshape)
    product = batch.again((joined, *batch.args[1:]), batch.attrs)
    return batch.make("reshape", (product,), newshape=(-1, *result))


def _broadcast(batch: Batch, rank: int) -> Expr:
    """Let the axes of all operands meet as they do in one step."""
    args: list[Expr] = []
    for place, arg in enumerate(batch.args):
        kind = batch.kind(place)
        if batch.varies[place] and kind.rank < rank:
            shape = static_shape(kind)
            assert shape is not None
            arg = batch.shaped(arg, (*(1,) * (rank - kind.rank), *shape))
        args.append(arg)
    return batch.again(args, batch.attrs)


def _take(batch: Batch) -> Expr | None:
    attrs = batch.attrs
    data, places = batch.args
    axis = attrs["axis"]
    if attrs["batch_dims"] or all(batch.varies):
        return None
    rank = batch.kind(0).rank
    at = None if axis is None else axis % rank
    if batch.varies[0]:
        if at is None:
            shape = static_shape(batch.kind(0))
            assert shape is not None
            data, at = batch.shaped(data, (math.prod(shape),)), 0
        return batch.again((data, places), {**attrs, "axis": at + 1})
    taken = batch.again((data, places), attrs)
    if not at:
        return taken
    order = (at, *range(at), *range(at + 1, tensor_of(taken).rank))
    return batch.make("transpose", (taken,), axes=order)


def _same_order(batch: Batch) -> Expr:
    shape = static_shape(batch.call.checked_type)
    assert shape is not None
    return batch.shaped(batch.args[0], shape)


def _transpose(batch: Batch) -> Expr:
    rank = batch.kind(0).rank
    axes = batch.attrs["axes"] or tuple(reversed(range(rank)))
    return batch.make("transpose", batch.args, axes=(0, *(a % rank + 1 for a in axes)))


def _strided_slice(batch: Batch) -> Expr:
    attrs, rank = batch.attrs, batch.kind(0).rank
    axes = range(len(attrs["begin"])) if attrs["axes"] is None else attrs["axes"]
    return batch.again(batch.args, {**attrs, "axes": tuple(a % rank + 1 for a in axes)})


def _bias_add(batch: Batch) -> Expr | None:
    if batch.varies[1]:
        return None
    axis = batch.attrs["axis"] % batch.kind(0).rank
    return batch.again(batch.args, {**batch.attrs, "axis": axis + 1})


_RULES: dict[str, Callable[[Batch], Expr | None]] = {
    "take": _take,
    "expand_dims": _same_order,
    "squeeze": _same_order,
    "reshape": _same_order,
    "transpose": _transpose,
    "strided_slice": _strided_slice,
    "nn.bias_add": _bias_add,
}
assert _RULES.keys() <= OPS.keys()
