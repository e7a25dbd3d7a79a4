"""Gradients of operators that repeat, cut, mask and place elements."""

from __future__ import annotations

from relayvm.base.dtypes import INT64
from relayvm.ir.expr import Expr, Tuple, TupleGetItem
from relayvm.ir.types import TensorType, TupleType
from relayvm.ops.axes import require_axis
from relayvm.ops.broadcasting import broadcast_to_like, collapse_sum_like
from relayvm.ops.creation import ones, ones_like, shape_of, zeros_like
from relayvm.ops.dynamic import dyn_expand_dims, dyn_reshape, dyn_squeeze
from relayvm.ops.dynamic_filling import (
    collapse_sum_to,
    dyn_broadcast_to,
    dyn_full,
    dyn_one_hot,
    dyn_tile,
)
from relayvm.ops.elementwise import cast
from relayvm.ops.gathering import (
    adv_index,
    gather,
    gather_nd,
    scatter_elements,
    scatter_nd,
    scattered_axes,
)
from relayvm.ops.gathering_grads import (
    adv_index_grad,
    gather_nd_grad,
    scatter_elements_grad,
    scatter_nd_grad,
)
from relayvm.ops.gradient_elementwise import Gradients
from relayvm.ops.gradient_expressions import number
from relayvm.ops.masking import (
    matrix_set_diag,
    matrix_set_diag_grad,
    one_hot,
    sequence_mask,
    trilu,
)
from relayvm.ops.movement import concatenate
from relayvm.ops.operator import GradientCall
from relayvm.ops.repeating import (
    grid_axes,
    meshgrid,
    repeat,
    reverse,
    reverse_sequence,
    slice_like,
    slice_like_grad,
    sliding_window,
    sliding_window_grad,
    tile,
    tile_grad,
    tiling,
)
from relayvm.ops.reshaping import reshape, reshape_like
from relayvm.ops.rows import floor_divide, multiply, subtract, sum_
from relayvm.ops.scan_grads import cumprod_grad_grad
from relayvm.ops.scans import cumprod, cumprod_grad, cumsum
from relayvm.ops.scatter_products import scatter_elements_grad_grad, scatter_nd_grad_grad
from relayvm.ops.sorting import argsort, sort, topk


@tile.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    shape = call.type_of("data").shape
    _, reps = tiling(shape, call.reps)
    if 0 in reps:
        return (zeros_like(call.data),)
    # Each repeated axis is split in two, the copies before the axis itself.
    repeated = [axis for axis, count in enumerate(reps) if count != 1]
    codes = [c for count in reps for c in ((0,) if count == 1 else (-4, count, -1))]
    if repeated:
        axes = tuple(axis + k for k, axis in enumerate(repeated))
        g = sum_(reshape(g, newshape=tuple(codes)), axis=axes)
    return (reshape_like(g, call.data),)


@repeat.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    if call.repeats == 0:
        return (zeros_like(call.data),)
    if call.axis is None:
        return (reshape_like(sum_(reshape(g, newshape=(-1, call.repeats)), axis=(1,)), call.data),)
    place = require_axis(call.axis, call.type_of("data").rank)
    parted = reshape(g, newshape=(*(0,) * place, -4, -1, call.repeats, -2))
    return (sum_(parted, axis=(place + 1,)),)


@reverse.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    return (reverse(g, axis=call.axis),)


@reverse_sequence.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    attrs = {"seq_axis": call.seq_axis, "batch_axis": call.batch_axis}
    return reverse_sequence(g, call.seq_lengths, **attrs), None


@slice_like.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    return slice_like_grad(g, call.data), None


@slice_like_grad.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    return slice_like(g, call.grad), None


_WINDOW = ("axis", "window_shape", "strides")


@sliding_window.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    return (sliding_window_grad(g, call.data, **{n: call.attrs[n] for n in _WINDOW}),)


@sliding_window_grad.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    return sliding_window(g, **{n: call.attrs[n] for n in _WINDOW}), None


@meshgrid.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    (data,) = call.types
    assert isinstance(data, TupleType)
    count = len(data.fields)
    order = grid_axes(count, call.indexing)
    parts = []
    for k in range(count):
        others = tuple(axis for axis in range(count) if order[axis] != k)
        total = sum_(TupleGetItem(g, k), axis=others)
        parts.append(reshape_like(total, TupleGetItem(call.data, k)))
    return (Tuple(tuple(parts)),)


@trilu.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    return trilu(g, call.k, upper=call.upper), None


_BAND = ("k1", "k2", "super_diag_right_align", "sub_diag_right_align")


@matrix_set_diag.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    attrs = {n: call.attrs[n] for n in _BAND}
    kept = matrix_set_diag(g, zeros_like(call.diagonal), **attrs)
    return kept, reshape_like(matrix_set_diag_grad(g, **attrs), call.diagonal)


@matrix_set_diag_grad.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    attrs = {n: call.attrs[n] for n in _BAND}
    return (matrix_set_diag(zeros_like(call.grad), g, **attrs),)


@sequence_mask.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    return sequence_mask(g, call.valid_length, axis=call.axis), None


@one_hot.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    value = call.type_of("on_value").dtype
    assert isinstance(call.output_type, TensorType)
    given = call.output_type.dtype
    if not (value.is_float and given.is_float):
        return None, None, None
    one, zero = number(1, given), number(0, given)
    hot = one_hot(call.indices, one, zero, depth=call.depth, axis=call.axis)
    on, off = sum_(multiply(g, hot)), sum_(multiply(g, subtract(one, hot)))
    return None, cast(on, dtype=value), cast(off, dtype=value)


@cumsum.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    data = call.type_of("data").dtype
    assert isinstance(call.output_type, TensorType)
    if not (data.is_float and call.output_type.dtype.is_float):
        return (None,)
    axis = call.axis if call.axis is not None else 0
    back = cumsum(reverse(g, axis=axis), axis=axis, exclusive=call.exclusive)
    total = reverse(back, axis=axis)
    total = total if call.axis is not None else reshape_like(total, call.data)
    return (total if data is call.output_type.dtype else cast(total, dtype=data),)


@cumprod.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    data = call.type_of("data").dtype
    assert isinstance(call.output_type, TensorType)
    given = call.output_type.dtype
    if not (data.is_float and given.is_float):
        return (None,)
    x = call.data if data is given else cast(call.data, dtype=given)
    if call.axis is None:
        x = reshape_like(x, g)
    axis = call.axis if call.axis is not None else 0
    total = cumprod_grad(g, x, axis=axis, exclusive=call.exclusive)
    total = total if call.axis is not None else reshape_like(total, call.data)
    return (total if data is given else cast(total, dtype=data),)


@cumprod_grad.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    both = cumprod_grad_grad(g, call.grad, call.data, **call.attrs)
    return TupleGetItem(both, 0), TupleGetItem(both, 1)


# -- Places given by tensors --------------------------------------------------------------------


@gather.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    zero = zeros_like(call.data)
    return scatter_elements(zero, call.indices, g, axis=call.axis, reduction="add"), None


@gather_nd.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    attrs = {"batch_dims": call.batch_dims, "index_rank": call.index_rank}
    return gather_nd_grad(g, call.data, call.indices, **attrs), None


@gather_nd_grad.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    attrs = {"batch_dims": call.batch_dims, "index_rank": call.index_rank}
    return gather_nd(g, call.indices, **attrs), None, None


@adv_index.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    (inputs,) = call.types
    assert isinstance(inputs, TupleType)
    data = inputs.fields[0]
    if not isinstance(data, TensorType) or not data.dtype.is_float:
        return (None,)
    fields = [TupleGetItem(call.inputs, k) for k in range(len(inputs.fields))]
    return (Tuple((adv_index_grad(g, call.inputs), *map(zeros_like, fields[1:]))),)


@adv_index_grad.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    inputs = call.types[1]
    assert isinstance(inputs, TupleType)
    fields = [TupleGetItem(call.inputs, k) for k in range(len(inputs.fields))]
    read = adv_index(Tuple((g, *fields[1:])))
    return read, Tuple(tuple(map(zeros_like, fields)))


@scatter_elements.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    if not call.type_of("data").dtype.is_float:
        return None, None, None
    if call.reduction == "add":
        return g, None, gather(g, call.indices, axis=call.axis)
    attrs = {"axis": call.axis, "reduction": call.reduction}
    both = scatter_elements_grad(g, call.data, call.indices, call.updates, **attrs)
    return TupleGetItem(both, 0), None, TupleGetItem(both, 1)


@scatter_nd.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    if call.mode == "add":
        count = scattered_axes(*(call.type_of(n) for n in ("data", "indices", "updates")))
        return g, None, gather_nd(g, call.indices, index_rank=count)
    both = scatter_nd_grad(g, call.data, call.indices, call.updates, mode=call.mode)
    return TupleGetItem(both, 0), None, TupleGetItem(both, 1)


# What a scatter gives is a sum of its operands with factors, and both gradients are `grad` times
# these: the gradients of ones are the factors. They change with the operands for products alone.


@scatter_elements_grad.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    operands, axis = (call.data, call.indices, call.updates), call.axis
    changes = TupleGetItem(g, 0), TupleGetItem(g, 1)
    if call.reduction == "mul":
        return _of_products(scatter_elements_grad_grad(*changes, call.grad, *operands, axis=axis))
    factors = scatter_elements_grad(
        ones_like(call.grad), *operands, axis=axis, reduction=call.reduction
    )
    kept, put = (multiply(c, TupleGetItem(factors, k)) for k, c in enumerate(changes))
    return scatter_elements(kept, call.indices, put, axis=axis, reduction="add"), None, None, None


@scatter_nd_grad.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    operands = (call.data, call.indices, call.updates)
    changes = TupleGetItem(g, 0), TupleGetItem(g, 1)
    if call.mode == "mul":
        return _of_products(scatter_nd_grad_grad(*changes, call.grad, *operands))
    factors = scatter_nd_grad(ones_like(call.grad), *operands, mode=call.mode)
    kept, put = (multiply(c, TupleGetItem(factors, k)) for k, c in enumerate(changes))
    return scatter_nd(kept, call.indices, put, mode="add"), None, None, None


def _of_products(three: Expr) -> Gradients:
    of_grad, of_data, of_updates = (TupleGetItem(three, k) for k in range(3))
    return of_grad, of_data, None, of_updates


# -- Orders -------------------------------------------------------------------------------------


@sort.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    places = argsort(call.data, axis=call.axis, is_ascend=call.is_ascend, dtype=INT64)
    return (scatter_elements(zeros_like(call.data), places, g, axis=call.axis, reduction="add"),)


@topk.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    if call.ret_type == "indices":
        return (None,)
    attrs = {n: call.attrs[n] for n in ("k", "axis", "is_ascend")}
    places = topk(call.data, **attrs, ret_type="indices", dtype=INT64)
    slopes = TupleGetItem(g, 0) if call.ret_type == "both" else g
    zero = zeros_like(call.data)
    return (scatter_elements(zero, places, slopes, axis=call.axis, reduction="add"),)


@tile_grad.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    whole = shape_of(call.grad, dtype=INT64)
    rank, wanted = call.type_of("data").rank, call.type_of("grad").rank
    part = cast(shape_of(call.data, dtype=INT64), dtype=INT64)
    padded = concatenate(Tuple((ones(shape=(wanted - rank,), dtype=INT64), part)))
    return dyn_tile(g, floor_divide(whole, padded)), None


# -- Shapes given by tensors --------------------------------------------------------------------


def _back_in_shape(call: GradientCall, g: Expr) -> Gradients:
    return reshape_like(g, call.data), None


for _row in (dyn_reshape, dyn_expand_dims, dyn_squeeze):
    _row.gradient(_back_in_shape)


@dyn_broadcast_to.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    return collapse_sum_like(g, call.data), None


@collapse_sum_to.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    return broadcast_to_like(g, call.data), None


@dyn_tile.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    return tile_grad(g, call.data), None


@dyn_full.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    value = call.type_of("fill_value").dtype
    assert isinstance(call.output_type, TensorType)
    if not (value.is_float and call.output_type.dtype.is_float):
        return None, None
    return cast(sum_(g), dtype=value), None


@dyn_one_hot.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    value = call.type_of("on_value").dtype
    assert isinstance(call.output_type, TensorType)
    given = call.output_type.dtype
    if not (value.is_float and given.is_float):
        return None, None, None, None
    one, zero = number(1, given), number(0, given)
    hot = dyn_one_hot(call.indices, one, zero, call.depth, axis=call.axis)
    on, off = sum_(multiply(g, hot)), sum_(multiply(g, subtract(one, hot)))
    return None, cast(on, dtype=value), cast(off, dtype=value), None
