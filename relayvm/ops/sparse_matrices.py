"""Products and sums with sparse matrices: compressed rows of elements, or of blocks.

`indptr[r]` to `indptr[r + 1]` are the entries of row r, `indices` their columns; what is outside
traps.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from relayvm.base.dims import Dim, dim_add, dim_floordiv, dim_max, dim_mul, dim_sub
from relayvm.base.dtypes import INT64
from relayvm.base.shapes import ShapeError, bad_index, require_equal
from relayvm.ir.types import TensorType, TupleType
from relayvm.kernels import compute as te
from relayvm.kernels.compute import ScalarExpr, Tensor
from relayvm.kernels.schedules.program import Memory, Writer
from relayvm.ops.axes import product, require_rank
from relayvm.ops.loads import wide
from relayvm.ops.numeric import Array
from relayvm.ops.operator import Fusion, operator
from relayvm.ops.reshaping import unflattened
from relayvm.ops.schema import AnyTensor, Dims, Integer, Numeric, SameDtype

ROWS_WALKED = 1 << 10  # rows that are walked before a run can be ended
# So many lines of a dense matrix are summed for all rows before the next: they stay in the cache.
LINES = 256
# What of a matrix is turned in one round: so many rows, and few columns, as what they become may
# lie in one set of the cache.
COLUMNS_TURNED, ROWS_TURNED = 4, 1 << 12


def _require_rows(data: TensorType, indices: TensorType, indptr: TensorType, name: str) -> Dim:
    """Check the parts of a sparse matrix and return the number of its rows (of blocks)."""
    require_rank(data, 1, 3, f"`sparse_data` of `{name}`")
    if data.rank == 2:
        raise ShapeError(f"`sparse_data` of `{name}` must have rank 1, or 3 for blocks, got 2")
    require_rank(indices, 1, 1, f"`sparse_indices` of `{name}`")
    require_rank(indptr, 1, 1, f"`sparse_indptr` of `{name}`")
    require_equal(data.shape[0], indices.shape[0], f"numbers of data and indices of `{name}`")
    if indptr.shape[0] == 0:
        raise ShapeError(f"`sparse_indptr` of `{name}` must have an entry")
    return dim_max(dim_sub(indptr.shape[0], 1), 0)


def blocks_of(data: TensorType | Tensor) -> tuple[Dim, Dim]:
    """Return the rows and columns of a block; an element is one."""
    return (data.shape[1], data.shape[2]) if len(data.shape) == 3 else (1, 1)


def row_of(indptr: Array, entries: int, row: int) -> Iterator[int]:
    """Yield the entries of a row; raises IndexError where there is none such."""
    for entry in range(int(indptr[row]), int(indptr[row + 1])):
        yield inside(entry, entries)


def inside(index: int, extent: int) -> int:
    """Return an index that is inside an axis; raises IndexError for others."""
    if not 0 <= index < extent:
        raise bad_index(int(index), extent)
    return int(index)


@operator("nn.sparse_dense", fusion=Fusion.OPAQUE, value_traps=True)
def sparse_dense(
    dense_data: Numeric,
    sparse_data: SameDtype,
    sparse_indices: Integer,
    sparse_indptr: Integer,
    *,
    sparse_lhs: bool = False,
) -> TensorType:
    """The dense matrix times the transposed sparse one; with `sparse_lhs` the sparse matrix times
    the transposed dense one.

    >>> %x = float32 [[1, 2, 3]]
    >>> %d = float32 [10, 100]
    >>> %i = int32 [2, 0]
    >>> %p = int32 [0, 1, 2]
    >>> nn.sparse_dense(%x, %d, %i, %p)
    [[30, 100]]
    """
    require_rank(dense_data, 2, 2, "`dense_data` of `nn.sparse_dense`")
    rows = _require_rows(sparse_data, sparse_indices, sparse_indptr, "nn.sparse_dense")
    rows = dim_mul(rows, blocks_of(sparse_data)[0])
    count = dense_data.shape[0]
    shape = (rows, count) if sparse_lhs else (count, rows)
    return TensorType(shape, dense_data.dtype)


@sparse_dense.numpy
def _(
    dense_data: Array,
    sparse_data: Array,
    sparse_indices: Array,
    sparse_indptr: Array,
    *,
    sparse_lhs: bool,
) -> Array:
    blocks = sparse_data.reshape(len(sparse_data), *(sparse_data.shape[1:] or (1, 1)))
    height, width = blocks.shape[1:]
    kind = np.dtype(np.float32) if dense_data.dtype == np.float16 else dense_data.dtype
    result = np.zeros((len(dense_data), (len(sparse_indptr) - 1) * height), kind)
    for row in range(len(sparse_indptr) - 1 if result.size else 0):
        for k in row_of(sparse_indptr, len(blocks), row):
            for inner in range(width):
                at = inside(int(sparse_indices[k]) * width + inner, dense_data.shape[1])
                for h in range(height):
                    term = dense_data[:, at].astype(kind) * blocks[k, h, inner].astype(kind)
                    result[:, row * height + h] += term
    result = result.astype(dense_data.dtype)
    return result.T if sparse_lhs else result


def _turn(w: Writer, source: Memory, target: Memory) -> None:
    """Give a matrix the elements of another transposed."""
    rows, columns = source.shape
    blocks = tuple(_parts(d, most) for d, most in ((columns, COLUMNS_TURNED), (rows, ROWS_TURNED)))
    with w.phase(product(blocks)) as number:
        column, row = unflattened(number, blocks)
        with _part(w, row, rows, ROWS_TURNED) as i, _part(w, column, columns, COLUMNS_TURNED) as j:
            target[j, i] = source[i, j]


def _parts(size: Dim, most: int) -> Dim:
    return dim_floordiv(dim_add(size, most - 1), most)


@contextmanager
def _part(w: Writer, number: ScalarExpr, size: Dim, most: int) -> Iterator[ScalarExpr]:
    begin = w.let(number * most)
    with w.loop(begin, w.let(te.scalar("minimum", begin + most, te.dim(size)))) as i:
        yield i


@sparse_dense.compute
def _(
    dense_data: Tensor,
    sparse_data: Tensor,
    sparse_indices: Tensor,
    sparse_indptr: Tensor,
    *,
    sparse_lhs: bool,
) -> Tensor:
    height, width = blocks_of(sparse_data)
    count, extent = dense_data.shape
    entries, total = sparse_data.shape[0], wide(dense_data.dtype)
    rows = dim_mul(dim_max(dim_sub(sparse_indptr.shape[0], 1), 0), height)
    shape = (rows, count) if sparse_lhs else (count, rows)

    def build(
        w: Writer, dense: Memory, data: Memory, indices: Memory, indptr: Memory, out: Memory
    ) -> None:
        # Rows of the dense matrix are lanes: in memory they lie side by side.
        turned = w.scratch((extent, count), dense_data.dtype)
        _turn(w, dense, turned)
        sums = out if sparse_lhs else w.scratch((rows, count), dense_data.dtype)
        parts = (_parts(count, LINES), rows)
        with w.phase(product(parts)) as number:
            part, row = unflattened(number, parts)
            block = row // te.dim(height)
            begin, end = (te.cast(indptr[block + k], INT64) for k in (0, 1))

            def step(line: ScalarExpr) -> None:
                found = w.cell(te.const(0, total))
                with w.loop(begin, end) as entry:
                    k = w.let(te.index(entry, entries))
                    first = w.let(te.cast(indices[k], INT64) * width)
                    with w.loop(0, width) as inner:
                        x = turned[te.index(first + inner, extent), line]
                        place = (k, row % te.dim(height), inner)[: 3 if data.rank == 3 else 1]
                        weight = te.cast(data[place], total)
                        found.value = found.value + te.cast(x, total) * weight
                sums[row, line] = te.cast(found.value, dense_data.dtype)

            first_line = w.let(part * LINES)
            w.vectors(first_line, te.scalar("minimum", first_line + LINES, te.dim(count)), step)
        if not sparse_lhs:
            _turn(w, sums, out)

    inputs = [dense_data, sparse_data, sparse_indices, sparse_indptr]
    moved = dim_add(dim_mul(product(shape), 2), product(dense_data.shape))
    work = dim_add(moved, dim_mul(dim_mul(count, product(sparse_data.shape)), 4))
    return te.program([(shape, dense_data.dtype)], inputs, build, work, "sparse_dense")[0]


@sparse_dense.reduction_size
def _(
    dense_data: TensorType,
    sparse_data: TensorType,
    sparse_indices: TensorType,
    sparse_indptr: TensorType,
    *,
    sparse_lhs: bool,
) -> Dim:
    return dense_data.shape[1]


@operator("nn.sparse_add", fusion=Fusion.OPAQUE, value_traps=True)
def sparse_add(
    dense_data: Numeric, sparse_data: SameDtype, sparse_indices: Integer, sparse_indptr: Integer
) -> TensorType:
    """The sum of a dense matrix and a sparse one.

    >>> %x = float32 [[1, 2], [3, 4]]
    >>> %d = float32 [10]
    >>> %i = int32 [1]
    >>> %p = int32 [0, 1, 1]
    >>> nn.sparse_add(%x, %d, %i, %p)
    [[1, 12], [3, 4]]
    """
    require_rank(dense_data, 2, 2, "`dense_data` of `nn.sparse_add`")
    rows = _require_rows(sparse_data, sparse_indices, sparse_indptr, "nn.sparse_add")
    require_rank(sparse_data, 1, 1, "`sparse_data` of `nn.sparse_add`")
    require_equal(dense_data.shape[0], rows, "numbers of rows of the operands of `nn.sparse_add`")
    return TensorType(dense_data.shape, dense_data.dtype)


@sparse_add.numpy
def _(dense_data: Array, sparse_data: Array, sparse_indices: Array, sparse_indptr: Array) -> Array:
    result = np.array(dense_data)
    for row in range(len(result)):
        for k in row_of(sparse_indptr, len(sparse_data), row):
            at = inside(sparse_indices[k], result.shape[1])
            result[row, at] += sparse_data[k]
    return result


@sparse_add.compute
def _(
    dense_data: Tensor, sparse_data: Tensor, sparse_indices: Tensor, sparse_indptr: Tensor
) -> Tensor:
    (rows, columns), entries = dense_data.shape, sparse_data.shape[0]

    def build(
        w: Writer, dense: Memory, data: Memory, indices: Memory, indptr: Memory, out: Memory
    ) -> None:
        w.copy(dense, out)
        with w.phase(rows) as row:
            begin, end = (te.cast(indptr[row + k], INT64) for k in (0, 1))
            with w.loop(begin, end) as entry:
                k = w.let(te.index(entry, entries))
                at = w.let(te.index(indices[k], columns))
                value = data[k]
                out[row, at] = out[row, at] + value

    inputs = [dense_data, sparse_data, sparse_indices, sparse_indptr]
    work = dim_add(product(dense_data.shape), dim_mul(entries, 4))
    kinds = [(dense_data.shape, dense_data.dtype)]
    return te.program(kinds, inputs, build, work, "sparse_add")[0]


@operator("nn.sparse_transpose", fusion=Fusion.OPAQUE, value_traps=True)
def sparse_transpose(
    sparse_data: AnyTensor, sparse_indices: Integer, sparse_indptr: SameDtype
) -> TupleType:
    """The transpose of a square sparse matrix: its data, indices and row pointers.

    >>> %d = float32 [5, 6]
    >>> %i = int32 [1, 0]
    >>> %p = int32 [0, 1, 2]
    >>> nn.sparse_transpose(%d, %i, %p).0
    [6, 5]
    """
    _require_rows(sparse_data, sparse_indices, sparse_indptr, "nn.sparse_transpose")
    require_rank(sparse_data, 1, 1, "`sparse_data` of `nn.sparse_transpose`")
    return TupleType((sparse_data, sparse_indices, sparse_indptr))


@sparse_transpose.numpy
def _(sparse_data: Array, sparse_indices: Array, sparse_indptr: Array) -> tuple[Array, ...]:
    size, count = len(sparse_indptr) - 1, len(sparse_data)
    columns = np.array([inside(column, size) for column in sparse_indices], np.int64)
    starts = np.concatenate(([0], np.cumsum(np.bincount(columns, minlength=size)[:size])))
    cursor = starts.astype(np.int64)
    data, indices = np.zeros_like(sparse_data), np.zeros_like(sparse_indices)
    for row in range(size):
        for k in row_of(sparse_indptr, count, row):
            at = inside(cursor[columns[k]], count)
            data[at], indices[at] = sparse_data[k], np.array(row).astype(indices.dtype)
            cursor[columns[k]] += 1
    return data, indices, starts.astype(sparse_indptr.dtype)


@sparse_transpose.compute
def _(sparse_data: Tensor, sparse_indices: Tensor, sparse_indptr: Tensor) -> tuple[Tensor, ...]:
    count = sparse_data.shape[0]
    size = dim_max(dim_sub(sparse_indptr.shape[0], 1), 0)

    def build(w: Writer, given: Memory, columns: Memory, indptr: Memory, *out: Memory) -> None:
        data, indices, starts = out
        cursor = w.scratch((size,), INT64)
        whole = w.scratch((1,), INT64)
        with w.walk(size) as (r, _):
            cursor[r] = 0
        with w.walk(count) as (k, _):
            data[k] = 0
            indices[k] = 0
            column = w.let(te.index(columns[k], size))
            cursor[column] = cursor[column] + 1
        with w.walk(size, (te.const(0, INT64), whole)) as (r, (total,)):
            here, found = total.value, cursor[r]
            starts[r] = te.cast(here, starts.dtype)
            cursor[r] = here
            total.value = here + found
        with w.phase():
            starts[size] = te.cast(whole[0], starts.dtype)
        with w.walk(size, block=ROWS_WALKED) as (r, _):
            begin, end = (te.cast(indptr[r + k], INT64) for k in (0, 1))
            with w.loop(begin, end) as entry:
                k = w.let(te.index(entry, count))
                column = w.let(te.index(columns[k], size))
                at = w.let(te.index(cursor[column], count))
                data[at] = given[k]
                indices[at] = te.cast(r, indices.dtype)
                cursor[column] = at + 1

    inputs = [sparse_data, sparse_indices, sparse_indptr]
    kinds: list[tuple[Dims, Any]] = [(t.shape, t.dtype) for t in inputs]
    return te.program(kinds, inputs, build, dim_add(dim_mul(count, 8), size), "sparse_transpose")


OPERATORS = (sparse_add, sparse_dense, sparse_transpose)
