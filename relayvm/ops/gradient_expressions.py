"""Expressions that gradients share: constants, sums back to an operand's shape, element counts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from relayvm.base.dims import Dim, dims_equal
from relayvm.base.dtypes import INT64, DType
from relayvm.ir.expr import Constant, Expr
from relayvm.ir.types import TensorType
from relayvm.ops import rows
from relayvm.ops.axes import product
from relayvm.ops.broadcasting import broadcast_to_like, collapse_sum_like
from relayvm.ops.creation import shape_of
from relayvm.ops.elementwise import cast, where
from relayvm.ops.indexing import take
from relayvm.ops.operator import GradientCall
from relayvm.ops.reshaping import expand_dims


def number(value: float, dtype: DType) -> Constant:
    """Return a rank-0 constant."""
    return Constant(dtype.array(value))


def times(g: Expr, *factors: Expr) -> Expr:
    """Return the product, from the left."""
    for factor in factors:
        g = rows.multiply(g, factor)
    return g


def where_or_zero(condition: Expr, g: Expr, dtype: DType) -> Expr:
    """Return `g` where `condition` holds, else 0."""
    return where(condition, g, number(0, dtype))


def summed_like(call: GradientCall, operand: str, g: Expr) -> Expr:
    """Return `g`, shaped as the result, summed along axes that `operand` was broadcast along."""
    assert isinstance(call.output_type, TensorType)
    if same_shape(call.type_of(operand).shape, call.output_type.shape):
        return g
    return collapse_sum_like(g, getattr(call, operand))


def same_shape(a: Sequence[Dim], b: Sequence[Dim]) -> bool:
    """Return whether two shapes are known to be equal."""
    return len(a) == len(b) and all(dims_equal(x, y) is True for x, y in zip(a, b))


def count_of(data: Expr, shape: Sequence[Dim], axes: Sequence[int], dtype: DType) -> Expr:
    """Return the number of elements along `axes` of `data` as a rank-0 value, read at run time if
    it must be.
    """
    total = product(shape[a] for a in axes)
    if isinstance(total, int):
        return number(total, dtype)
    sizes = take(shape_of(data, dtype=INT64), Constant(np.array(axes, np.int64)), axis=0)
    return cast(rows.prod(sizes), dtype=dtype)


def spread(g: Expr, axes: Sequence[int], keepdims: bool) -> Expr:
    """Return the result of a reduction with its folded axes there again, of size 1."""
    if not keepdims:
        for axis in sorted(axes):
            g = expand_dims(g, axis=axis)
    return g


def spread_like(g: Expr, axes: Sequence[int], keepdims: bool, data: Expr) -> Expr:
    """Return the result of a reduction repeated to the shape of what was reduced."""
    return broadcast_to_like(spread(g, axes, keepdims), data)


def in_dtype_of(call: GradientCall, operand: str, g: Expr) -> Expr | None:
    """Return the gradient of an operand that is converted to the dtype of the result."""
    own, given = call.type_of(operand).dtype, call.output_type
    if isinstance(given, TensorType) and given.dtype is own:
        return g
    return cast(g, dtype=own) if own.is_float else None
