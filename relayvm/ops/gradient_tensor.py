"""Gradients of matrix products and of operators that move elements."""

from __future__ import annotations

from relayvm.base.dtypes import DType
from relayvm.ir.expr import Expr, Tuple, TupleGetItem
from relayvm.ir.types import TensorType, TupleType
from relayvm.ops.broadcasting import broadcast_to, broadcast_to_like, collapse_sum_like
from relayvm.ops.creation import full, full_like, ones_like, zeros_like
from relayvm.ops.elementwise import cast
from relayvm.ops.gradient_elementwise import Gradients
from relayvm.ops.gradient_expressions import same_shape
from relayvm.ops.indexing import take, take_grad
from relayvm.ops.linalg import batch_matmul, dense, matmul
from relayvm.ops.movement import concatenate, permutation, split, split_like, stack, transpose
from relayvm.ops.operator import GradientCall
from relayvm.ops.reshaping import expand_dims, reshape, reshape_like, squeeze
from relayvm.ops.rows import sum_
from relayvm.ops.slicing import strided_slice, strided_slice_grad


def _as(dtype: DType, g: Expr, given: DType) -> Expr:
    return g if dtype is given else cast(g, dtype=dtype)


def _incoming(call: GradientCall, g: Expr, dtype: DType) -> Expr:
    """Return `g` in the dtype of the operands, which `out_dtype` may have changed."""
    assert isinstance(call.output_type, TensorType)
    return _as(dtype, g, call.output_type.dtype)


def _as_matrix(x: Expr, rank: int) -> Expr:
    """Return `x` with all axes but the last joined."""
    if rank == 1:
        return expand_dims(x, axis=0)
    while rank > 2:
        x, rank = reshape(x, newshape=(-3, -2)), rank - 1
    return x


@dense.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    # y = x w^T: dx = g w, dw = g^T x
    data = call.type_of("data")
    g = _incoming(call, g, data.dtype)
    rows_of_g, rows_of_x = _as_matrix(g, data.rank), _as_matrix(call.data, data.rank)
    return matmul(g, call.weight), matmul(rows_of_g, rows_of_x, transpose_a=True)


@matmul.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    # With A and B as they enter the product: dA = g B^T, dB = A^T g
    a = call.type_of("tensor_a")
    g = _incoming(call, g, a.dtype)
    of_a = matmul(g, call.tensor_b, transpose_b=not call.transpose_b)
    left = call.tensor_a
    if call.transpose_a:
        swap = (*range(a.rank - 2), a.rank - 1, a.rank - 2)
        of_a, left = transpose(of_a, axes=swap), transpose(left, axes=swap)
    rows_of_a, rows_of_g = _as_matrix(left, a.rank), _as_matrix(g, a.rank)
    if call.transpose_b:
        return of_a, matmul(rows_of_g, rows_of_a, transpose_a=True)
    return of_a, matmul(rows_of_a, rows_of_g, transpose_a=True)


@batch_matmul.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    a, b = call.tensor_a, call.tensor_b
    ta, tb = call.transpose_a, call.transpose_b
    g = _incoming(call, g, call.type_of("tensor_a").dtype)
    if ta:
        of_a = batch_matmul(b, g, transpose_a=tb, transpose_b=True)
    else:
        of_a = batch_matmul(g, b, transpose_b=not tb)
    if tb:
        of_b = batch_matmul(g, a, transpose_a=True, transpose_b=ta)
    else:
        of_b = batch_matmul(a, g, transpose_a=not ta)
    return _batch_summed(call, "tensor_a", of_a), _batch_summed(call, "tensor_b", of_b)


def _batch_summed(call: GradientCall, operand: str, g: Expr) -> Expr:
    assert isinstance(call.output_type, TensorType)
    if same_shape(call.type_of(operand).shape[:1], call.output_type.shape[:1]):
        return g
    return collapse_sum_like(g, getattr(call, operand))


@concatenate.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    return (split_like(g, call.data, axis=call.axis),)


@split_like.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    return concatenate(g, axis=call.axis), None


@split.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    return (concatenate(g, axis=call.axis),)


@stack.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    (data,) = call.types
    assert isinstance(data, TupleType)
    count = len(data.fields)
    parts = split(g, indices_or_sections=count, axis=call.axis)
    return (Tuple(tuple(squeeze(TupleGetItem(parts, i), axis=(call.axis,)) for i in range(count))),)


@transpose.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    order = permutation(call.axes, call.type_of("data").rank)
    return (transpose(g, axes=tuple(order.index(i) for i in range(len(order)))),)


def _back_in_shape(call: GradientCall, g: Expr) -> Gradients:
    return (reshape_like(g, call.data),)


for _row in (reshape, expand_dims, squeeze):
    _row.gradient(_back_in_shape)


@reshape_like.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    return reshape_like(g, call.data), None


@broadcast_to.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    return (collapse_sum_like(g, call.data),)


@broadcast_to_like.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    return collapse_sum_like(g, call.data), None


@collapse_sum_like.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    return broadcast_to_like(g, call.data), None


_SLICE = ("begin", "end", "strides", "slice_mode", "axes")


@strided_slice.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    return (strided_slice_grad(g, call.data, **{n: call.attrs[n] for n in _SLICE}),)


@strided_slice_grad.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    return strided_slice(g, **{n: call.attrs[n] for n in _SLICE}), None


_TAKE = ("batch_dims", "axis", "mode")


@take.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    attrs = {n: call.attrs[n] for n in _TAKE}
    return take_grad(g, call.data, call.indices, **attrs), None


@take_grad.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    return take(g, call.indices, **{n: call.attrs[n] for n in _TAKE}), None, None


@zeros_like.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    return (None,)


@ones_like.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    return (None,)


@full.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    value = call.type_of("fill_value").dtype
    assert isinstance(call.output_type, TensorType)
    both = value.is_float and call.output_type.dtype.is_float
    return (_as(value, sum_(g), call.output_type.dtype) if both else None,)


@full_like.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    return None, sum_(g)
