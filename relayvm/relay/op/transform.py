"""Operators that change the shape, the element type or the order of a tensor."""

from __future__ import annotations

from typing import Any

from relayvm.base.diagnostics import error
from relayvm.ir.expr import Call, Expr
from relayvm.relay.expr import TupleWrapper
from relayvm.relay.op.make import (
    as_expr,
    call,
    folded,
    is_dynamic,
    sizes,
    tuple_of,
    wrapped,
)
from relayvm.relay.op.tensor import greater_equal, less, shape_of


def sliding_window(data: Expr, axis: int, window_shape: Any, strides: Any) -> Call:
    """Return the windows of a shape over `axis` and all axes behind it."""
    return call(
        "sliding_window", data, axis=axis, window_shape=sizes(window_shape), strides=sizes(strides)
    )


def cast(data: Expr, dtype: str) -> Call:
    """Return the tensor with another element type."""
    return call("cast", data, dtype=dtype)


def cast_like(data: Expr, dtype_like: Expr) -> Call:
    """Return the tensor with the element type of another."""
    return call("cast_like", data, dtype_like)


def reinterpret(data: Expr, dtype: str) -> Call:
    """Return the bits of the elements, read as another element type."""
    return call("reinterpret", data, dtype=dtype)


def expand_dims(data: Expr, axis: Any, num_newaxis: int = 1) -> Call:
    """Return the tensor with new axes of size 1 at `axis`, which may be an expression."""
    axis = folded(axis)
    if is_dynamic(axis):
        return call("dyn.expand_dims", data, as_expr(axis), num_newaxis=num_newaxis)
    return call("expand_dims", data, axis=axis, num_newaxis=num_newaxis)


def transpose(data: Expr, axes: Any = None) -> Call:
    """Return the tensor with its axes in another order; without `axes`, in reverse."""
    return call("transpose", data, axes=None if axes is None else list(axes))


def squeeze(data: Expr, axis: Any = None) -> Call:
    """Return the tensor without axes of size 1: those of `axis`, or all."""
    axis = folded(axis)
    if is_dynamic(axis):
        return call("dyn.squeeze", data, as_expr(axis))
    return call("squeeze", data, axis=axis)


def reshape(data: Expr, newshape: Any, allowzero: bool = False) -> Call:
    """Return the elements in another shape, in which 0, -1, -2, -3 and -4 have special meanings."""
    newshape = folded(newshape)
    if is_dynamic(newshape):
        return call("dyn.reshape", data, as_expr(newshape), allowzero=allowzero)
    return call("reshape", data, newshape=sizes(newshape), allowzero=allowzero)


def reverse_reshape(data: Expr, newshape: Any) -> Call:
    """Return the elements in another shape, whose special sizes are read from the right."""
    return call("contrib_reverse_reshape", data, newshape=sizes(newshape))


def reshape_like(
    data: Expr,
    shape_like: Expr,
    lhs_begin: int = 0,
    lhs_end: int | None = None,
    rhs_begin: int = 0,
    rhs_end: int | None = None,
) -> Call:
    """Return the elements with axes of `data` replaced by axes of another tensor."""
    return call(
        "reshape_like",
        data,
        shape_like,
        lhs_begin=lhs_begin,
        lhs_end=lhs_end,
        rhs_begin=rhs_begin,
        rhs_end=rhs_end,
    )


def full(fill_value: Expr, shape: Any = (), dtype: str = "") -> Call:
    """Return a tensor in which every element is `fill_value`; the shape may be an expression."""
    shape = folded(shape)
    if is_dynamic(shape):
        return call("dyn.full", as_expr(fill_value), as_expr(shape), dtype=dtype)
    return call("full", as_expr(fill_value), shape=sizes(shape), dtype=dtype)


def full_like(data: Expr, fill_value: Expr) -> Call:
    """Return a tensor like another in which every element is `fill_value`."""
    return call("full_like", data, fill_value)


def arange(start: Any, stop: Any = None, step: Any = None, dtype: str = "float32") -> Call:
    """Return the numbers from `start` to below `stop`; with one argument, from 0 to below it."""
    if stop is None:
        start, stop = as_expr(0, dtype), start
    step = as_expr(1 if step is None else step, dtype)
    return call("arange", as_expr(start, dtype), as_expr(stop, dtype), step, dtype=dtype)


def meshgrid(data: Any, indexing: str = "ij") -> TupleWrapper:
    """Return the coordinates of the grid over vectors, one tensor for each."""
    vectors = list(data)
    return wrapped(len(vectors), "meshgrid", vectors, indexing=indexing)


def repeat(data: Expr, repeats: int, axis: int | None = None) -> Call:
    """Return the tensor with each element repeated along an axis."""
    return call("repeat", data, repeats=repeats, axis=axis)


def tile(data: Expr, reps: Any) -> Call:
    """Return copies of the tensor side by side; `reps` may be an expression."""
    reps = folded(reps)
    if is_dynamic(reps):
        return call("dyn.tile", data, as_expr(reps))
    return call("tile", data, reps=sizes(reps))


def reverse(data: Expr, axis: int) -> Call:
    """Return the tensor with an axis in reverse order."""
    return call("reverse", data, axis=axis)


def reverse_sequence(data: Expr, seq_lengths: Expr, seq_axis: int = 1, batch_axis: int = 0) -> Call:
    """Return the tensor with the first elements of each sequence in reverse order."""
    return call("reverse_sequence", data, seq_lengths, seq_axis=seq_axis, batch_axis=batch_axis)


def where(condition: Expr, x: Expr, y: Expr) -> Call:
    """Return the elements of `x` where the condition holds, else those of `y`."""
    return call("where", condition, x, y)


def broadcast_to(data: Expr, shape: Any) -> Call:
    """Return the tensor repeated to a shape, which may be an expression."""
    shape = folded(shape)
    if is_dynamic(shape):
        return call("dyn.broadcast_to", data, as_expr(shape))
    return call("broadcast_to", data, shape=sizes(shape))


def broadcast_to_like(data: Expr, broadcast_type: Expr) -> Call:
    """Return the tensor repeated to the shape of another."""
    return call("broadcast_to_like", data, broadcast_type)


def collapse_sum_like(data: Expr, collapse_type: Expr) -> Call:
    """Return sums that have the shape of another tensor, the opposite of a broadcast."""
    return call("collapse_sum_like", data, collapse_type)


def collapse_sum_to(data: Expr, shape: Any) -> Call:
    """Return sums that have a shape, the opposite of a broadcast."""
    return call("collapse_sum_to", data, as_expr(shape, "int32"))


def split(data: Expr, indices_or_sections: Any, axis: int = 0) -> TupleWrapper:
    """Return the parts of a tensor along an axis: so many equal ones, or cut at indices."""
    parts = folded(indices_or_sections)
    count = parts if isinstance(parts, int) else len(parts) + 1
    return wrapped(count, "split", data, indices_or_sections=parts, axis=axis)


def strided_slice(
    data: Expr, begin: Any, end: Any, strides: Any = None, axes: Any = None, slice_mode: str = "end"
) -> Call:
    """Return a slice of a tensor; `begin`, `end` and `strides` may be expressions.

    With `slice_mode="size"`, `end` is the sizes of the slice, -1 for all that is left. Raises
    RelayError `bad-attribute` for `axes` beside expressions.
    """
    begin, end, strides = folded(begin), folded(end), folded(strides)
    if strides is None or (not is_dynamic(strides) and not len(strides)):
        strides = (1,)
    if is_dynamic(begin, end, strides):
        if axes is not None:
            message = "`axes` of `strided_slice` cannot stand beside expressions"
            raise error("bad-attribute", message)
        return _dynamic_slice(data, as_expr(begin), as_expr(end), as_expr(strides), slice_mode)
    return call(
        "strided_slice",
        data,
        begin=sizes(begin),
        end=sizes(end),
        strides=sizes(strides),
        slice_mode=slice_mode,
        axes=axes,
    )


def _dynamic_slice(data: Expr, begin: Expr, end: Expr, strides: Expr, slice_mode: str) -> Call:
    """Build a slice by expressions, in which a negative `begin` counts from the end as it does in a
    slice by numbers; that of `end` is the operator's own matter.
    """
    shape = cast_like(shape_of(data, "int64"), begin)
    shape = slice_like(shape, begin)
    zero = cast_like(as_expr(0), begin)
    begin = where(less(begin, zero), call("add", begin, shape), begin)
    begin = where(greater_equal(begin, shape), shape, begin)
    return call("dyn.strided_slice", data, begin, end, strides, slice_mode=slice_mode)


def strided_set(data: Expr, v: Expr, begin: Any, end: Any, strides: Any = None) -> Call:
    """Return the tensor with a slice of it replaced."""
    step = as_expr([1] if strides is None else strides, "int32")
    return call("strided_set", data, v, as_expr(begin), as_expr(end), step)


def slice_like(data: Expr, shape_like: Expr, axes: Any = None) -> Call:
    """Return the first elements along each axis, as many as another tensor has."""
    return call("slice_like", data, shape_like, axes=axes)


def layout_transform(data: Expr, src_layout: str, dst_layout: str) -> Call:
    """Return the tensor in another layout, such as `NCHW` to `NCHW8c`."""
    return call("layout_transform", data, src_layout=src_layout, dst_layout=dst_layout)


def sequence_mask(data: Expr, valid_length: Expr, mask_value: float = 0, axis: int = 0) -> Call:
    """Return the tensor with what lies behind the length of each sequence replaced."""
    return call("sequence_mask", data, valid_length, mask_value=mask_value, axis=axis)


def matrix_set_diag(data: Expr, diagonal: Expr, k: Any = 0, align: str = "RIGHT_LEFT") -> Call:
    """Return matrices with diagonals replaced: those from `k[0]` to `k[1]`, or the one `k`."""
    band = list(k) if isinstance(k, (tuple, list)) else [k]
    return call(
        "matrix_set_diag",
        data,
        diagonal,
        k1=band[0],
        k2=band[1] if len(band) > 1 else band[0],
        super_diag_right_align=align[:5] == "RIGHT",
        sub_diag_right_align=align[-5:] == "RIGHT",
    )


def trilu(data: Expr, k: Any, upper: bool = True) -> Call:
    """Return matrices with the elements below (or above) a diagonal replaced by 0."""
    return call("trilu", data, as_expr(k, None if isinstance(k, Expr) else "int32"), upper=upper)


def cumsum(
    data: Expr, axis: int | None = None, dtype: str | None = None, exclusive: bool | None = None
) -> Call:
    """Return the sums of all elements up to each; `exclusive` leaves out the element itself."""
    return _scan("cumsum", data, axis, dtype, exclusive)


def cumprod(
    data: Expr, axis: int | None = None, dtype: str | None = None, exclusive: bool | None = None
) -> Call:
    """Return the products of all elements up to each; `exclusive` leaves out the element itself."""
    return _scan("cumprod", data, axis, dtype, exclusive)


def _scan(name: str, data: Expr, axis: Any, dtype: Any, exclusive: Any) -> Call:
    return call(name, data, axis=axis, dtype=dtype, exclusive=bool(exclusive))


def stft(
    data: Expr,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Expr | None = None,
    normalized: bool = False,
    onesided: bool = True,
) -> Call:
    """Return the Fourier transforms of overlapping windows of a signal.

    The weights of a window take the dtype of the signal.
    """
    weights = call("ones", shape=(n_fft,), dtype="int32") if window is None else window
    return call(
        "stft",
        data,
        cast_like(weights, data),
        n_fft=n_fft,
        hop_length=n_fft // 4 if hop_length is None else hop_length,
        win_length=n_fft if win_length is None else win_length,
        normalized=normalized,
        onesided=onesided,
    )


def dft(re_data: Expr, im_data: Expr, inverse: bool = False) -> TupleWrapper:
    """Return the real and the imaginary part of the Fourier transform along the last axis."""
    return wrapped(2, "dft", re_data, im_data, inverse=inverse)


def adv_index(inputs: Any) -> Call:
    """Return the elements of the first tensor at the indices in the others, as numpy does."""
    return call("adv_index", tuple_of(inputs, "adv_index"))
