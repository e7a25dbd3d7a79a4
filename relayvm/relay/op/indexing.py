"""Operators that pick, scatter and count elements by indices, and those on sparse tensors."""

from __future__ import annotations

from typing import Any

from relayvm.base.diagnostics import error
from relayvm.ir.expr import Call, Expr, Tuple
from relayvm.relay.expr import TupleWrapper
from relayvm.relay.op.make import as_expr, call, folded, is_dynamic, sizes, wrapped
from relayvm.relay.op.tensor import add, concatenate, shape_of
from relayvm.relay.op.transform import (
    cast,
    cast_like,
    reshape,
    reverse,
    strided_slice,
    tile,
    transpose,
)


def argwhere(condition: Expr) -> Call:
    """Return the indices of the elements that are not 0, one a row."""
    return call("argwhere", condition)


def scatter_elements(
    data: Expr, indices: Expr, updates: Expr, axis: int = 0, reduction: str = "update"
) -> Call:
    """Return `data` with elements replaced by, or combined with, updates along an axis."""
    return call("scatter_elements", data, indices, updates, axis=axis, reduction=reduction)


def scatter_nd(data: Expr, indices: Expr, updates: Expr, mode: str = "update") -> Call:
    """Return `data` with slices replaced by, or combined with, updates."""
    return call("scatter_nd", data, indices, updates, mode=mode)


def take(
    data: Expr, indices: Expr, axis: int | None = None, batch_dims: int = 0, mode: str = "clip"
) -> Call:
    """Return the elements at indices along an axis, or of the flat tensor."""
    return call("take", data, indices, batch_dims=batch_dims, axis=axis, mode=mode)


def gather(data: Expr, axis: int, indices: Expr) -> Call:
    """Return for each place of `indices` the element that it names along an axis."""
    return call("gather", data, indices, axis=axis)


def gather_nd(
    data: Expr, indices: Expr, batch_dims: int = 0, index_rank: int | None = None
) -> Call:
    """Return the slices whose places stand along the first axis of `indices`."""
    return call("gather_nd", data, indices, batch_dims=batch_dims, index_rank=index_rank)


def one_hot(
    indices: Expr, on_value: Expr, off_value: Expr, depth: Any, axis: int, dtype: str
) -> Call:
    """Return `on_value` at each index along a new axis, `off_value` elsewhere."""
    depth = folded(depth)
    on, off = as_expr(on_value, dtype), as_expr(off_value, dtype)
    if is_dynamic(depth):
        return call("dyn.one_hot", indices, on, off, as_expr(depth), axis=axis, dtype=dtype)
    return call("one_hot", indices, on, off, depth=depth, axis=axis, dtype=dtype)


def unravel_index(indices: Expr, shape: Any) -> Call:
    """Return the coordinates of flat indices into a shape."""
    return call("unravel_index", indices, as_expr(shape))


def unique(data: Expr, is_sorted: bool = True, return_counts: bool = False) -> TupleWrapper:
    """Return the different elements, where each first stands, which of them each element is, how
    many there are, and with `return_counts` how often each occurs.
    """
    count = 5 if return_counts else 4
    return wrapped(count, "unique", data, sorted=is_sorted, return_counts=return_counts)


def invert_permutation(data: Expr) -> Call:
    """Return the permutation that undoes another."""
    return call("invert_permutation", data)


def sparse_to_dense(
    sparse_indices: Expr, output_shape: Any, sparse_values: Expr, default_value: Any = 0
) -> Call:
    """Return the dense tensor of values at indices; `default_value` stands everywhere else."""
    shape = folded(output_shape)
    rest = as_expr(default_value)
    if is_dynamic(shape):
        return call("dyn.sparse_to_dense", sparse_indices, sparse_values, rest, as_expr(shape))
    return call("sparse_to_dense", sparse_indices, sparse_values, rest, output_shape=sizes(shape))


def sparse_fill_empty_rows(
    sparse_indices: Expr, sparse_values: Expr, dense_shape: Expr, default_value: Expr
) -> Tuple:
    """Return indices and values with a default in every empty row, and which rows were empty."""
    indices, values, empty = wrapped(
        3, "sparse_fill_empty_rows", sparse_indices, sparse_values, dense_shape, default_value
    )
    return Tuple(
        (cast_like(indices, sparse_indices), cast_like(values, sparse_values), cast(empty, "bool"))
    )


def sparse_reshape(sparse_indices: Expr, prev_shape: Expr, new_shape: Expr) -> TupleWrapper:
    """Return the indices of a sparse tensor in another shape, and that shape."""
    return wrapped(2, "sparse_reshape", sparse_indices, as_expr(prev_shape), as_expr(new_shape))


def segment_sum(data: Expr, segment_ids: Expr, num_segments: Any = None) -> Call:
    """Return the sums of the slices along axis 0 that have the same number in `segment_ids`.

    Without `num_segments` there is one more segment than the greatest number.
    """
    one = cast_like(as_expr([1]), segment_ids)
    if num_segments is None:
        count = add(reshape(call("max", segment_ids, axis=[0]), -1), one)
    else:
        given = folded(num_segments)
        if isinstance(given, int) and given < 1:
            raise error("bad-attribute", f"`num_segments` of `segment_sum` is {given}")
        listed = (
            given if is_dynamic(given) else as_expr([given] if isinstance(given, int) else given)
        )
        count = cast_like(listed, segment_ids)
    row = cast_like(strided_slice(shape_of(data, "int32"), [1], [-1], slice_mode="size"), count)
    repeats = concatenate([reverse(row, 0), one], 0)
    places = transpose(tile(segment_ids, repeats))
    zeros = call("dyn.zeros", concatenate([count, row], 0), dtype="float64")
    start = cast_like(zeros, data)
    return scatter_elements(start, places, data, axis=0, reduction="add")
