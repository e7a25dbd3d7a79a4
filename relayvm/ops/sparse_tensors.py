"""Sparse tensors as rows of indices beside a vector of values."""

from __future__ import annotations

from typing import Any

import numpy as np

from relayvm.base.dims import ANY, dim_add, dim_mul
from relayvm.base.dtypes import BOOL, INT64
from relayvm.base.shapes import ShapeError, bad_index, bad_value, require_equal
from relayvm.ir.types import TensorType, TupleType
from relayvm.kernels import compute as te
from relayvm.kernels.compute import ScalarExpr, Tensor
from relayvm.kernels.schedules.program import Memory, Writer
from relayvm.ops.axes import product, require_known, require_rank, sizes_of
from relayvm.ops.bisection import LEVELS
from relayvm.ops.dynamic import (
    all_of,
    entries,
    length_of,
    open_shape,
    plain_sizes,
    sizes_in,
)
from relayvm.ops.numeric import Array
from relayvm.ops.operator import Fusion, operator
from relayvm.ops.reshaping import unflattened
from relayvm.ops.schema import AnyTensor, Dims, Integer, SameDtype, require_same_dtype
from relayvm.ops.sorting import LineSort


def _require_sparse(
    indices: TensorType, values: TensorType, default: TensorType, rank: int, name: str
) -> None:
    require_rank(indices, 0, 2, f"`sparse_indices` of `{name}`")
    if indices.rank < 2 and rank != 1:
        raise ShapeError(f"`sparse_indices` of `{name}` of a rank of {rank} must have rank 2")
    if indices.rank == 2:
        require_equal(
            indices.shape[1], rank, f"axis 1 of `sparse_indices` of `{name}` and the rank"
        )
    require_rank(values, 0, 1, f"`sparse_values` of `{name}`")
    if values.rank:
        count = indices.shape[0] if indices.rank else 1
        require_equal(count, values.shape[0], f"numbers of indices and values of `{name}`")
    require_rank(default, 0, 0, f"`default_value` of `{name}`")


@operator("sparse_to_dense", fusion=Fusion.OPAQUE, value_traps=True)
def sparse_to_dense(
    sparse_indices: Integer,
    sparse_values: AnyTensor,
    default_value: SameDtype,
    *,
    output_shape: Dims,
) -> TensorType:
    """`default_value` in the shape `output_shape`, with `sparse_values` (one, or one for each) at
    the rows of `sparse_indices`.

    An index outside traps; of values for one place the last counts.

    >>> %i = int32 [0, 2]
    >>> %v = float32 [5, 6]
    >>> %d = float32 0
    >>> sparse_to_dense(%i, %v, %d, output_shape=[4])
    [5, 0, 6, 0]
    """
    shape = require_known(output_shape, "`output_shape` of `sparse_to_dense`")
    _require_sparse(sparse_indices, sparse_values, default_value, len(shape), "sparse_to_dense")
    return TensorType(shape, sparse_values.dtype)


def _dense_array(indices: Array, values: Array, default: Array, shape: tuple[int, ...]) -> Array:
    result = np.full(shape, default, default.dtype)
    table = indices.reshape(-1, len(shape))
    for row, value in zip(table, np.broadcast_to(values, (len(table),))):
        for index, extent in zip(row, shape):
            if not 0 <= index < extent:
                raise bad_index(int(index), extent)
        result[tuple(row)] = value
    return result


def _dense_tensor(indices: Tensor, values: Tensor, default: Tensor, shape: Dims) -> Tensor:
    count = indices.shape[0] if indices.rank else 1

    def build(w: Writer, indices: Memory, values: Memory, default: Memory, result: Memory) -> None:
        with w.phase(product(shape)) as flat:
            result[unflattened(flat, shape)] = default[()]
        with w.walk(count) as (row, _):
            at = []
            for k, extent in enumerate(shape):
                index = indices[(row, te.dim(k))[: indices.rank]]
                at.append(w.let(te.index(index, extent)))
            result[tuple(at)] = values[(row,)[: values.rank]]

    kinds = [(shape, values.dtype)]
    work = dim_add(product(shape), dim_mul(count, 4))
    return te.program(kinds, [indices, values, default], build, work, "dense")[0]


@sparse_to_dense.numpy
def _(
    sparse_indices: Array, sparse_values: Array, default_value: Array, *, output_shape: Dims
) -> Array:
    return _dense_array(sparse_indices, sparse_values, default_value, sizes_of(output_shape))


@sparse_to_dense.compute
def _(
    sparse_indices: Tensor, sparse_values: Tensor, default_value: Tensor, *, output_shape: Dims
) -> Tensor:
    return _dense_tensor(sparse_indices, sparse_values, default_value, output_shape)


@operator("dyn.sparse_to_dense", fusion=Fusion.OPAQUE, value_operands=("output_shape",))
def dyn_sparse_to_dense(
    sparse_indices: Integer,
    sparse_values: AnyTensor,
    default_value: SameDtype,
    output_shape: Integer,
) -> TensorType:
    """`sparse_to_dense` in the shape `output_shape`.

    >>> %i = int32 [0, 2]
    >>> %v = float32 [5, 6]
    >>> %d = float32 0
    >>> %s = int64 [4]
    >>> dyn.sparse_to_dense(%i, %v, %d, %s)
    [5, 0, 6, 0]
    """
    shape = open_shape(output_shape, "`output_shape` of `dyn.sparse_to_dense`")
    _require_sparse(sparse_indices, sparse_values, default_value, len(shape), "dyn.sparse_to_dense")
    return TensorType(shape, sparse_values.dtype)


@dyn_sparse_to_dense.value_shape
def _(sparse_indices: Any, sparse_values: Any, default_value: Any, output_shape: Array) -> Dims:
    return sizes_in(output_shape)


@dyn_sparse_to_dense.numpy
def _(
    sparse_indices: Array, sparse_values: Array, default_value: Array, output_shape: Array
) -> Array:
    shape = sizes_in(output_shape)
    return _dense_array(sparse_indices, sparse_values, default_value, shape)


@dyn_sparse_to_dense.value_dims
def _(
    sparse_indices: Tensor, sparse_values: Tensor, default_value: Tensor, output_shape: Tensor
) -> tuple[Tensor, ...]:
    return plain_sizes(output_shape)


@dyn_sparse_to_dense.compute
def _(
    dims: Dims,
    sparse_indices: Tensor,
    sparse_values: Tensor,
    default_value: Tensor,
    output_shape: Tensor,
) -> Tensor:
    return _dense_tensor(sparse_indices, sparse_values, default_value, dims)


@operator("sparse_reshape", fusion=Fusion.INJECTIVE, no_gradient="integers only", value_traps=True)
def sparse_reshape(
    sparse_indices: Integer, prev_shape: SameDtype, new_shape: SameDtype
) -> TupleType:
    """The indices of a sparse tensor of the shape `prev_shape` in the shape `new_shape`, of which
    one entry may be -1, and that shape. A shape of another number of elements traps.

    >>> %i = int64 [[0, 1], [1, 2]]
    >>> %p = int64 [2, 3]
    >>> %n = int64 [3, -1]
    >>> sparse_reshape(%i, %p, %n).0
    [[0, 1], [2, 1]]
    """
    require_rank(sparse_indices, 2, 2, "`sparse_indices` of `sparse_reshape`")
    old = length_of(prev_shape, "`prev_shape` of `sparse_reshape`")
    new = length_of(new_shape, "`new_shape` of `sparse_reshape`")
    require_equal(sparse_indices.shape[1], old, "axis 1 of `sparse_indices` and the rank")
    dtype = sparse_indices.dtype
    return TupleType((TensorType((sparse_indices.shape[0], new), dtype), TensorType((new,), dtype)))


def _resolved(old: list[Any], new: list[Any], ops: Any) -> list[Any]:
    """Return the new sizes with the one that is -1 filled in; what is no shape traps."""
    if not new:
        return []
    total, known, opened, zero = ops("one"), ops("one"), ops("zero"), ops("zero")
    for size in old:
        total = total * size
    for number, size in enumerate(new):
        is_open = ops("equal", size, -1)
        known = ops("select", is_open, known, known * size)
        opened = opened + ops("select", is_open, ops("one"), ops("zero"))
        zero = zero + ops("required", size >= -1, "new_size", size, number)
    zero = zero + ops("required", opened <= 1, "open_sizes", opened, 0)
    rest = ops("floor_divide", total, known)
    whole = ops("select", ops("equal", opened, 1), known * rest, known)
    zero = zero + ops("required", ops("equal", whole, total), "elements", total, known)
    return [ops("select", ops("equal", size, -1), rest, size) + zero for size in new]


def _array_ops(name: str, *args: Any) -> Any:
    if name in ("one", "zero"):
        return np.int64(name == "one")
    if name == "required":
        if not args[0]:
            raise bad_value(args[1], int(args[2]), int(args[3]))
        return np.int64(0)
    if name == "select":
        return args[1] if args[0] else args[2]
    if name == "equal":
        return args[0] == args[1]
    return args[0] // args[1] if args[1] else np.int64(0)


def _value_ops(name: str, *args: Any) -> Any:
    if name in ("one", "zero"):
        return te.const(int(name == "one"), INT64)
    if name == "required":
        return te.required(args[0], te.told(*args[1:]))
    return te.select(*args) if name == "select" else te.scalar(name, *args)


@sparse_reshape.numpy
def _(sparse_indices: Array, prev_shape: Array, new_shape: Array) -> tuple[Array, ...]:
    old, new = (list(a.astype(np.int64)) for a in (prev_shape, new_shape))
    sizes = _resolved(old, new, _array_ops)
    flat = np.zeros(len(sparse_indices), np.int64)
    for k, size in enumerate(old):
        flat = flat * size + sparse_indices[:, k].astype(np.int64)
    columns = []
    for size in reversed(sizes):
        columns.append(flat % size if size else np.zeros_like(flat))
        flat = flat // size if size else np.zeros_like(flat)
    table = np.array(columns[::-1]).reshape(len(sizes), len(sparse_indices)).T
    dtype = sparse_indices.dtype
    return table.astype(dtype), np.array(sizes, np.int64).astype(dtype)


@sparse_reshape.compute
def _(sparse_indices: Tensor, prev_shape: Tensor, new_shape: Tensor) -> tuple[Tensor, ...]:
    old, new = entries(prev_shape), entries(new_shape)
    sizes, dtype = _resolved(old, new, _value_ops), sparse_indices.dtype

    def chosen(k: ScalarExpr, values: list[ScalarExpr]) -> ScalarExpr:
        result: ScalarExpr = te.const(0, INT64)
        for number, value in enumerate(values):
            result = te.select(k.equal(number), value, result)
        return te.cast(result, dtype)

    def element(row: ScalarExpr, k: ScalarExpr) -> ScalarExpr:
        flat: ScalarExpr = te.const(0, INT64)
        for axis, size in enumerate(old):
            flat = flat * size + te.cast(sparse_indices[row, axis], INT64)
        columns = []
        for size in reversed(sizes):
            columns.append(flat % size)
            flat = flat // size
        return chosen(k, columns[::-1])

    shape = (sparse_indices.shape[0], len(new))
    return (
        te.compute(shape, element, "indices"),
        te.compute((len(new),), lambda k: chosen(k, sizes), "shape"),
    )


@operator(
    "sparse_fill_empty_rows",
    fusion=Fusion.OPAQUE,
    value_operands=("sparse_indices", "dense_shape"),
)
def sparse_fill_empty_rows(
    sparse_indices: Integer,
    sparse_values: AnyTensor,
    dense_shape: Integer,
    default_value: AnyTensor,
) -> TupleType:
    """A sparse tensor, ordered by rows, with `default_value` at column 0 of each row that had
    nothing; its indices, its values, and which rows had nothing.

    >>> %i = int64 [[0, 1], [2, 0]]
    >>> %v = float32 [5, 6]
    >>> %s = int64 [3, 2]
    >>> %d = float32 9
    >>> sparse_fill_empty_rows(%i, %v, %s, %d).1
    [5, 9, 6]
    """
    require_rank(sparse_indices, 2, 2, "`sparse_indices` of `sparse_fill_empty_rows`")
    require_rank(sparse_values, 1, 1, "`sparse_values` of `sparse_fill_empty_rows`")
    require_same_dtype(
        sparse_indices.dtype, dense_shape.dtype, "dtypes of `sparse_indices` and `dense_shape`"
    )
    require_same_dtype(
        sparse_values.dtype, default_value.dtype, "dtypes of `sparse_values` and `default_value`"
    )
    require_equal(sparse_indices.shape[0], sparse_values.shape[0], "numbers of indices and values")
    rank = length_of(dense_shape, "`dense_shape` of `sparse_fill_empty_rows`")
    if rank == 0:
        raise ShapeError("`dense_shape` of `sparse_fill_empty_rows` has no rows")
    require_equal(sparse_indices.shape[1], rank, "axis 1 of `sparse_indices` and the rank")
    require_rank(default_value, 0, 0, "`default_value` of `sparse_fill_empty_rows`")
    return TupleType(
        (
            TensorType((ANY, rank), sparse_indices.dtype),
            TensorType((ANY,), sparse_values.dtype),
            TensorType((ANY,), BOOL),
        )
    )


def _row_count(indices: Array, dense_shape: Array) -> tuple[int, Array]:
    rows = int(dense_shape[0])
    used = indices[:, 0].astype(object)
    if not 0 <= rows <= INT64.max:
        raise bad_value("size", rows, 0)
    outside = used[(used < 0) | (used >= rows)]
    if outside.size:
        raise bad_value("row", outside[0], rows)
    return rows, used.astype(np.int64)


@sparse_fill_empty_rows.value_shape
def _(sparse_indices: Array, sparse_values: Any, dense_shape: Array, default_value: Any) -> Dims:
    rows, used = _row_count(sparse_indices, dense_shape)
    count = len(used) + rows - len(set(used.tolist()))
    return count, count, rows


@sparse_fill_empty_rows.numpy
def _(
    sparse_indices: Array, sparse_values: Array, dense_shape: Array, default_value: Array
) -> tuple[Array, ...]:
    rows, used = _row_count(sparse_indices, dense_shape)
    is_empty = np.ones(rows, bool)
    is_empty[used] = False
    added = np.zeros((int(is_empty.sum()), sparse_indices.shape[1]), sparse_indices.dtype)
    added[:, 0] = np.flatnonzero(is_empty)
    indices = np.concatenate((sparse_indices, added))
    values = np.concatenate((sparse_values, np.full(len(added), default_value)))
    order = np.argsort(indices[:, 0], kind="stable")
    return indices[order], values[order].astype(sparse_values.dtype), is_empty


@sparse_fill_empty_rows.value_dims
def _(
    sparse_indices: Tensor, sparse_values: Tensor, dense_shape: Tensor, default_value: Tensor
) -> tuple[Tensor, ...]:
    size = sparse_indices.shape[0]

    def build(w: Writer, indices: Memory, shape: Memory, counts: Memory) -> None:
        keys = w.scratch((1, size), INT64), w.scratch((1, size), INT64)
        line = te.const(0, INT64)
        with w.phase():
            w.let(te.required(te.cast(shape[0], INT64) >= 0, te.told("size", shape[0], 0)))
        with w.walk(size) as (i, _):
            row, rows = (w.let(te.cast(v, INT64)) for v in (indices[i, 0], shape[0]))
            told = te.told("row", indices[i, 0], rows)
            w.let(te.required(all_of(row >= 0, row < rows), told))
            keys[0][line, i] = row
        LineSort(w, (1, size), True, keys).write()
        number = w.scratch((1,), INT64)
        with w.walk(size, (te.const(0, INT64), number)) as (i, (used,)):
            before = keys[0][line, te.scalar("maximum", i - 1, 0)]
            starts = te.scalar("logical_or", i.equal(0), before < keys[0][line, i])
            used.value = used.value + te.cast(starts, INT64)
        with w.phase():
            rows = w.let(te.cast(shape[0], INT64))
            counts[0] = te.dim(size) + rows - number[0]
            counts[1] = rows

    work = dim_mul(size, LEVELS)
    (found,) = te.program([((2,), INT64)], [sparse_indices, dense_shape], build, work, "counts")
    return tuple(te.compute((), lambda k=k: found[k], "count") for k in (0, 0, 1))


@sparse_fill_empty_rows.compute
def _(
    dims: Dims,
    sparse_indices: Tensor,
    sparse_values: Tensor,
    dense_shape: Tensor,
    default_value: Tensor,
) -> tuple[Tensor, ...]:
    size, rank = sparse_indices.shape
    rows, dtype = dims[2], sparse_indices.dtype
    assert isinstance(rank, int) or dense_shape.rank == 1
    width = length_of(dense_shape, "`dense_shape`")

    def build(
        w: Writer,
        given: Memory,
        values: Memory,
        default: Memory,
        indices: Memory,
        filled: Memory,
        is_empty: Memory,
    ) -> None:
        # Where the next element of each row goes; first the number of its elements.
        cursor = w.scratch((rows,), INT64)
        with w.walk(rows) as (r, _):
            cursor[r] = 0
        with w.walk(size) as (i, _):
            row = w.let(te.index(given[i, 0], rows))
            cursor[row] = cursor[row] + 1
        with w.walk(rows, (te.const(0, INT64), None)) as (r, (start,)):
            count = cursor[r]
            here = start.value
            cursor[r] = here
            is_empty[r] = count.equal(0)
            with w.when(count.equal(0)):
                filled[here] = default[()]
                indices[here, 0] = te.cast(r, dtype)
                for column in range(1, width):
                    indices[here, column] = 0
            start.value = here + te.scalar("maximum", count, 1)
        with w.walk(size) as (i, _):
            row = w.let(te.index(given[i, 0], rows))
            here = cursor[row]
            filled[here] = values[i]
            for column in range(width):
                indices[here, column] = given[i, column]
            cursor[row] = here + 1

    kinds = [
        ((dims[0], width), dtype),
        ((dims[1],), sparse_values.dtype),
        ((rows,), BOOL),
    ]
    work = dim_add(dim_mul(rows, 4), dim_mul(size, 4))
    inputs = [sparse_indices, sparse_values, default_value]
    return te.program(kinds, inputs, build, work, "filled")


OPERATORS = (dyn_sparse_to_dense, sparse_fill_empty_rows, sparse_reshape, sparse_to_dense)
