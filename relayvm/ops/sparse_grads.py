"""The gradients of products and sums with sparse matrices, by both factors."""

from __future__ import annotations

from typing import Any

import numpy as np

from relayvm.base.dims import Dim, dim_add, dim_max, dim_mul, dim_sub
from relayvm.base.dtypes import INT64
from relayvm.base.shapes import require_equal
from relayvm.ir.types import TensorType, TupleType
from relayvm.kernels import compute as te
from relayvm.kernels.compute import Tensor
from relayvm.kernels.schedules.program import Memory, Writer
from relayvm.ops.axes import product, require_rank
from relayvm.ops.loads import wide
from relayvm.ops.numeric import Array
from relayvm.ops.operator import Fusion, operator
from relayvm.ops.reshaping import unflattened
from relayvm.ops.schema import Float, Integer, SameDtype
from relayvm.ops.sparse_matrices import (
    ROWS_WALKED,
    blocks_of,
    inside,
    row_of,
    sparse_add,
    sparse_dense,
)

_DENSE, _ADD = "nn.sparse_dense_grad", "nn.sparse_add_grad"


@operator(_DENSE, fusion=Fusion.OPAQUE, ulp=1, value_traps=True)
def sparse_dense_grad(
    grad: Float,
    dense_data: SameDtype,
    sparse_data: SameDtype,
    sparse_indices: Integer,
    sparse_indptr: Integer,
) -> TupleType:
    """For each element of both factors of `nn.sparse_dense` the sum of `grad` times the elements
    of the other factor that it meets.

    Entries that are in no row get 0.

    >>> %g = float32 [[1, 10]]
    >>> %x = float32 [[1, 2, 3]]
    >>> %d = float32 [10, 100]
    >>> %i = int32 [2, 0]
    >>> %p = int32 [0, 1, 2]
    >>> nn.sparse_dense_grad(%g, %x, %d, %i, %p).0
    [[1000, 0, 10]]
    """
    given = [dense_data, sparse_data, sparse_indices, sparse_indptr]
    result = sparse_dense.result_type(given, {})
    assert isinstance(result, TensorType)
    require_rank(grad, 2, 2, f"`grad` of `{_DENSE}`")
    for axis, (a, b) in enumerate(zip(grad.shape, result.shape)):
        require_equal(a, b, f"axis {axis} of `grad` of `{_DENSE}` and of the product")
    return TupleType((dense_data, sparse_data))


@sparse_dense_grad.numpy
def _(
    grad: Array,
    dense_data: Array,
    sparse_data: Array,
    sparse_indices: Array,
    sparse_indptr: Array,
) -> tuple[Array, Array]:
    kind = np.dtype(np.float32) if grad.dtype == np.float16 else grad.dtype
    g, x = grad.astype(kind), dense_data.astype(kind)
    blocks = sparse_data.reshape(len(sparse_data), *(sparse_data.shape[1:] or (1, 1))).astype(kind)
    height, width = blocks.shape[1:]
    of_dense, of_sparse = np.zeros_like(x), np.zeros_like(blocks)
    for row in range(len(sparse_indptr) - 1):
        for k in row_of(sparse_indptr, len(blocks), row):
            for inner in range(width):
                at = inside(int(sparse_indices[k]) * width + inner, x.shape[1])
                for h in range(height):
                    slope = g[:, row * height + h]
                    of_dense[:, at] += slope * blocks[k, h, inner]
                    of_sparse[k, h, inner] += _summed(slope * x[:, at])
    return (
        of_dense.astype(grad.dtype),
        of_sparse.reshape(sparse_data.shape).astype(grad.dtype),
    )


def _summed(values: Array) -> Any:
    """Return a sum made one after the other, as the loops make it."""
    return np.add.accumulate(values)[-1] if values.size else values.dtype.type(0)


@sparse_dense_grad.compute
def _(
    grad: Tensor,
    dense_data: Tensor,
    sparse_data: Tensor,
    sparse_indices: Tensor,
    sparse_indptr: Tensor,
) -> tuple[Tensor, Tensor]:
    total, dtype = wide(grad.dtype), grad.dtype
    inputs = [grad, dense_data, sparse_data, sparse_indices, sparse_indptr]
    height, width = blocks_of(sparse_data)
    lines, extent = dense_data.shape
    entries, rows = sparse_data.shape[0], dim_max(dim_sub(sparse_indptr.shape[0], 1), 0)

    def place(k: Any, h: Any, inner: Any) -> Any:
        return (k, h, inner)[: 3 if sparse_data.rank == 3 else 1]

    def build(
        w: Writer,
        g: Memory,
        x: Memory,
        data: Memory,
        indices: Memory,
        indptr: Memory,
        of_dense: Memory,
        of_sparse: Memory,
    ) -> None:
        parts = w.parts(lines, extent)
        with parts as (line, begin, end), w.loop(begin, end) as column:
            of_dense[line, column] = 0.0
        with w.phase(product(sparse_data.shape)) as flat:
            of_sparse[unflattened(flat, sparse_data.shape)] = 0.0
        with w.walk(rows, block=ROWS_WALKED) as (row, _):
            begin, end = (te.cast(indptr[row + k], INT64) for k in (0, 1))
            with w.loop(begin, end) as entry, w.loop(0, te.dim(width)) as inner:
                k = w.let(te.index(entry, entries))
                first = te.cast(indices[k], INT64) * te.dim(width)
                at = w.let(te.index(first + inner, extent))
                with w.loop(0, te.dim(height)) as h:
                    own = place(k, h, inner)
                    weight = w.let(te.cast(data[own], total))
                    found = w.cell(te.const(0.0, total))
                    with w.loop(0, te.dim(lines)) as line:
                        slope = w.let(te.cast(g[line, row * te.dim(height) + h], total))
                        of_dense[line, at] = of_dense[line, at] + slope * weight
                        found.value = found.value + slope * te.cast(x[line, at], total)
                    of_sparse[own] = of_sparse[own] + found.value

    kinds = [(dense_data.shape, total), (sparse_data.shape, total)]
    work = dim_add(
        product(dense_data.shape), dim_mul(dim_mul(lines, product(sparse_data.shape)), 8)
    )
    both = te.program(kinds, inputs, build, work, "sparse_dense_grad")
    if total is dtype:
        return both[0], both[1]
    return _narrowed(both[0], dtype), _narrowed(both[1], dtype)


def _narrowed(tensor: Tensor, dtype: Any) -> Tensor:
    return te.compute(tensor.shape, lambda *i: te.cast(tensor[i], dtype), "narrowed")


@sparse_dense_grad.reduction_size
def _(
    grad: TensorType,
    dense_data: TensorType,
    sparse_data: TensorType,
    sparse_indices: TensorType,
    sparse_indptr: TensorType,
) -> Dim:
    return dim_add(dim_add(grad.shape[0], grad.shape[1]), product(sparse_data.shape))


@operator(_ADD, fusion=Fusion.OPAQUE, value_traps=True)
def sparse_add_grad(
    grad: Float, sparse_data: SameDtype, sparse_indices: Integer, sparse_indptr: Integer
) -> TensorType:
    """The elements of `grad` at the places of a sparse matrix, in the order of its entries.

    Entries that are in no row get 0.

    >>> %g = float32 [[1, 2], [3, 4]]
    >>> %d = float32 [10]
    >>> %i = int32 [1]
    >>> %p = int32 [0, 1, 1]
    >>> nn.sparse_add_grad(%g, %d, %i, %p)
    [2]
    """
    result = sparse_add.result_type([grad, sparse_data, sparse_indices, sparse_indptr], {})
    assert isinstance(result, TensorType)
    return sparse_data


@sparse_add_grad.numpy
def _(grad: Array, sparse_data: Array, sparse_indices: Array, sparse_indptr: Array) -> Array:
    result = np.zeros_like(sparse_data)
    for row in range(len(grad)):
        for k in row_of(sparse_indptr, len(result), row):
            at = inside(sparse_indices[k], grad.shape[1])
            result[k] += grad[row, at]
    return result


@sparse_add_grad.compute
def _(grad: Tensor, sparse_data: Tensor, sparse_indices: Tensor, sparse_indptr: Tensor) -> Tensor:
    (rows, columns), (entries,) = grad.shape, sparse_data.shape

    def build(w: Writer, g: Memory, indices: Memory, indptr: Memory, out: Memory) -> None:
        with w.phase(entries) as entry:
            out[entry,] = 0.0
        with w.walk(rows, block=ROWS_WALKED) as (row, _):
            begin, end = (te.cast(indptr[row + k], INT64) for k in (0, 1))
            with w.loop(begin, end) as entry:
                k = w.let(te.index(entry, entries))
                out[k,] = out[k,] + g[row, w.let(te.index(indices[k], columns))]

    inputs = [grad, sparse_indices, sparse_indptr]
    work = dim_add(dim_mul(entries, 5), rows)
    return te.program([((entries,), grad.dtype)], inputs, build, work, "sparse_add_grad")[0]


OPERATORS = (sparse_add_grad, sparse_dense_grad)
