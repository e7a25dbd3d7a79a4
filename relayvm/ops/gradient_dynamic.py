"""Gradients of operators that take shapes, bounds and places as tensors."""

from __future__ import annotations

import numpy as np

from relayvm.base.dtypes import INT64
from relayvm.ir.expr import Constant, Expr, Tuple, TupleGetItem
from relayvm.ops import rows
from relayvm.ops.broadcasting import broadcast_to_like
from relayvm.ops.creation import ones, ones_like, shape_of, zeros_like
from relayvm.ops.dynamic_parts import dyn_pad, dyn_strided_slice, dyn_topk, strided_set
from relayvm.ops.elementwise import cast, where
from relayvm.ops.gathering import scatter_elements
from relayvm.ops.gathering_grads import scatter_nd_grad
from relayvm.ops.gradient_elementwise import Gradients
from relayvm.ops.gradient_expressions import in_dtype_of
from relayvm.ops.operator import GradientCall
from relayvm.ops.repeating import slice_like_grad
from relayvm.ops.reshaping import expand_dims, reshape, reshape_like
from relayvm.ops.scans import cumsum
from relayvm.ops.selecting import unique
from relayvm.ops.slicing import strided_slice
from relayvm.ops.sparse_tensors import dyn_sparse_to_dense, sparse_to_dense


def _number(value: int) -> Constant:
    return Constant(np.array(value, np.int64))


@dyn_strided_slice.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    zero, begin, end, strides = zeros_like(call.data), call.begin, call.end, call.strides
    if call.slice_mode == "size":
        count = call.type_of("begin").shape[0]
        assert isinstance(count, int)
        sizes = strided_slice(shape_of(call.data, dtype=INT64), begin=(0,), end=(count,))
        begin, end = cast(begin, dtype=INT64), cast(end, dtype=INT64)
        begin = where(rows.less(begin, _number(0)), rows.add(begin, sizes), begin)
        begin = rows.ROWS["maximum"](begin, _number(0))
        end = where(rows.less(end, _number(0)), sizes, rows.add(begin, end))
        strides = ones(shape=(count,), dtype=INT64)
    return strided_set(zero, g, begin, end, strides), None, None, None


@strided_set.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    bounds = call.begin, call.end, call.strides
    kept = strided_set(g, zeros_like(call.v), *bounds)
    taken = slice_like_grad(dyn_strided_slice(g, *bounds), call.v)
    return kept, taken, None, None, None


@dyn_topk.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    if call.ret_type == "indices":
        return None, None
    attrs = {n: call.attrs[n] for n in ("axis", "is_ascend")}
    places = dyn_topk(call.data, call.k, **attrs, ret_type="indices", dtype=INT64)
    slopes = TupleGetItem(g, 0) if call.ret_type == "both" else g
    zero = zeros_like(call.data)
    return scatter_elements(zero, places, slopes, axis=call.axis, reduction="add"), None


@dyn_pad.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    # Where each element of the result came from: positions counted from 1, and 0 outside.
    counted = reshape(cast(ones_like(call.data), dtype=INT64), newshape=(-1,))
    positions = reshape_like(cumsum(counted, axis=0), call.data)
    source = dyn_pad(positions, call.pad_width, _number(0), pad_mode=call.pad_mode)
    flat, slopes = reshape(source, newshape=(-1,)), reshape(g, newshape=(-1,))
    around = expand_dims(cast(zeros_like(call.pad_val), dtype=call.type_of("data").dtype), axis=0)
    table = Tuple((around, reshape(zeros_like(call.data), newshape=(-1,))))
    whole = rows.ROWS["concatenate"](table, axis=0)
    sums = scatter_elements(whole, flat, slopes, axis=0, reduction="add")
    inner = reshape_like(strided_slice(sums, begin=(1,), end=(2**31 - 1,)), call.data)
    outer = reshape(strided_slice(sums, begin=(0,), end=(1,)), newshape=())
    return inner, None, in_dtype_of(call, "pad_val", outer)


def _sparse(call: GradientCall, g: Expr) -> tuple[Expr, Expr]:
    """Return the gradients of values and default."""
    indices, values = call.type_of("sparse_indices"), call.type_of("sparse_values")
    places = call.sparse_indices
    if indices.rank == 2:
        places = rows.ROWS["transpose"](places)
    else:
        for _ in range(2 - indices.rank):
            places = expand_dims(places, axis=0)
    given = call.sparse_values
    if values.rank == 0:
        row = reshape(strided_slice(places, begin=(0,), end=(1,)), newshape=(-1,))
        given = broadcast_to_like(given, row)
    both = scatter_nd_grad(g, zeros_like(g), places, given)
    slopes: Expr = TupleGetItem(both, 1)
    return rows.sum_(slopes) if values.rank == 0 else slopes, rows.sum_(TupleGetItem(both, 0))


@sparse_to_dense.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    return None, *_sparse(call, g)


@dyn_sparse_to_dense.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    return None, *_sparse(call, g), None


@unique.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    zero, firsts = zeros_like(call.data), TupleGetItem(call.output, 1)
    return (scatter_elements(zero, firsts, TupleGetItem(g, 0), axis=0, reduction="add"),)
