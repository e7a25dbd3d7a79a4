"""Convolution with a sparse weight: a matrix of compressed rows of blocks."""

from __future__ import annotations

from typing import Any

import numpy as np

from relayvm.base.dims import Dim, dim_add, dim_max, dim_mul, dim_sub
from relayvm.base.dtypes import INT64
from relayvm.base.shapes import ShapeError, require_equal
from relayvm.ir.types import TensorType
from relayvm.kernels import compute as te
from relayvm.kernels.compute import ScalarExpr, Tensor
from relayvm.kernels.schedules.program import Memory, Writer
from relayvm.ops.axes import product, require_rank
from relayvm.ops.dynamic import all_of
from relayvm.ops.layouts import Layout, data_layout
from relayvm.ops.loads import wide
from relayvm.ops.numeric import Array
from relayvm.ops.operator import Fusion, operator
from relayvm.ops.reshaping import unflattened
from relayvm.ops.schema import Dims, Integer, Ints, Numeric, SameDtype, like
from relayvm.ops.sparse_matrices import sparse_dense

_NAME = "nn.sparse_conv2d"


def read_sparse_layout(attrs: Any) -> tuple[Layout, tuple[int, int]]:
    """Return the layout of the images and the taps of each axis; raises ShapeError."""
    text, taps = attrs["layout"], attrs["kernel_size"]
    if text not in ("NHWC", "NCHW"):
        message = f'`layout` of `{_NAME}` must be "NHWC" or "NCHW", got "{text}"'
        raise ShapeError(message, "bad-attribute")
    both = taps * 2 if len(taps) == 1 else taps
    if len(both) != 2 or any(k < 1 or k % 2 == 0 for k in both):
        message = f"`kernel_size` of `{_NAME}` must be one or two odd numbers above 0"
        raise ShapeError(f"{message}, got {list(taps)}", "bad-attribute")
    return data_layout(text, 2, f"`layout` of `{_NAME}`"), both


def _block(data: TensorType | Tensor) -> tuple[Dim, Dim]:
    rows, columns, *_ = (*data.shape[1:], 1, 1)
    return rows, columns


@operator(_NAME, fusion=Fusion.OPAQUE, value_traps=True)
def sparse_conv2d(
    dense_data: Numeric,
    sparse_data: SameDtype,
    sparse_indices: Integer,
    sparse_indptr: Integer,
    *,
    layout: str = "NHWC",
    kernel_size: Ints = (1, 1),
) -> TensorType:
    """Convolution of images with a sparse weight, to images of the same size, padded with 0.

    The weight is a matrix with a row for each output channel: `sparse_data` has its entries, or
    blocks [rows] or [rows, columns] of them, as `nn.sparse_dense` has. Its columns are taps and
    input channels: the channels of a tap beside each other for "NHWC", the taps of a channel for
    "NCHW".

    >>> %x = float32 [[[[1, 2], [3, 4]]]]
    >>> %d = float32 [10, 100]
    >>> %i = int32 [1, 0]
    >>> %p = int32 [0, 1, 2]
    >>> nn.sparse_conv2d(%x, %d, %i, %p)
    [[[[20, 100], [40, 300]]]]
    """
    images, _ = read_sparse_layout({"layout": layout, "kernel_size": kernel_size})
    require_rank(dense_data, 4, 4, f"`dense_data` of `{_NAME}`")
    require_rank(sparse_data, 1, 3, f"`sparse_data` of `{_NAME}`")
    require_rank(sparse_indices, 1, 1, f"`sparse_indices` of `{_NAME}`")
    require_rank(sparse_indptr, 1, 1, f"`sparse_indptr` of `{_NAME}`")
    what = f"numbers of data and indices of `{_NAME}`"
    require_equal(sparse_data.shape[0], sparse_indices.shape[0], what)
    if sparse_indptr.shape[0] == 0:
        raise ShapeError(f"`sparse_indptr` of `{_NAME}` must have an entry")
    n, _, *space = images.canonical(dense_data.shape)
    out = _channels(sparse_data, sparse_indptr)
    return TensorType(images.arranged((n, out, *space)), dense_data.dtype)


def _channels(data: TensorType | Tensor, indptr: TensorType | Tensor) -> Dim:
    return dim_mul(dim_max(dim_sub(indptr.shape[0], 1), 0), _block(data)[0])


@sparse_conv2d.numpy
@like(sparse_conv2d.rule)
def _(
    dense_data: Array, sparse_data: Array, sparse_indices: Array, sparse_indptr: Array, **attrs: Any
) -> Array:
    images, (rows, columns) = read_sparse_layout(attrs)
    x = dense_data.transpose(images.places)
    n, c, height, width = x.shape
    padded = np.pad(x, ((0, 0), (0, 0), (rows // 2,) * 2, (columns // 2,) * 2))
    taps = [
        padded[:, :, i : i + height, j : j + width] for i in range(rows) for j in range(columns)
    ]
    # [n, rows, columns, taps, channels], or the last two in the other order.
    apart = np.stack(taps).transpose(1, 3, 4, *((0, 2) if attrs["layout"] == "NHWC" else (2, 0)))
    matrix = apart.reshape(n * height * width, rows * columns * c)
    blocks = sparse_data.reshape(len(sparse_data), *(*sparse_data.shape[1:], 1, 1)[:2])
    sparse = (blocks, sparse_indices, sparse_indptr)
    result = sparse_dense.facets["numpy"](matrix, *sparse, sparse_lhs=False)
    shaped = result.reshape(n, height, width, result.shape[1]).transpose(0, 3, 1, 2)
    return np.asarray(shaped.transpose(images.arranged((0, 1, 2, 3))))


@sparse_conv2d.compute
@like(sparse_conv2d.rule)
def _(
    dense_data: Tensor,
    sparse_data: Tensor,
    sparse_indices: Tensor,
    sparse_indptr: Tensor,
    **attrs: Any,
) -> Tensor:
    images, taps = read_sparse_layout(attrs)
    n, c, *space = images.canonical(dense_data.shape)
    height, width = _block(sparse_data)
    entries, total = sparse_data.shape[0], wide(dense_data.dtype)
    shape: Dims = images.arranged((n, _channels(sparse_data, sparse_indptr), *space))
    extent = dim_mul(c, taps[0] * taps[1])

    def element(w: Writer, dense: Memory, image: ScalarExpr, place: Any, column: Any) -> ScalarExpr:
        if attrs["layout"] == "NHWC":
            channel, tap = column % te.dim(c), column // te.dim(c)
        else:
            channel, tap = column // (taps[0] * taps[1]), column % (taps[0] * taps[1])
        near = (tap // taps[1] - taps[0] // 2, tap % taps[1] - taps[1] // 2)
        at = [w.let(a + b) for a, b in zip(place, near)]
        inside = all_of(*(te.in_range(v, size) for v, size in zip(at, space)))
        held = (te.index(v, size, "clip") for v, size in zip(at, space))
        value = dense[images.arranged((image, w.let(channel), *held))]
        return te.cast(te.select(inside, value, 0), total)

    def build(
        w: Writer, dense: Memory, data: Memory, indices: Memory, indptr: Memory, out: Memory
    ) -> None:
        with w.phase(product(shape)) as flat:
            at = tuple(w.let(v) for v in unflattened(flat, shape))
            image, row, *place = images.canonical(at)
            block = row // te.dim(height)
            begin, end = (te.cast(indptr[block + k], INT64) for k in (0, 1))
            found = w.cell(te.const(0, total))
            with w.loop(begin, end) as entry:
                k = w.let(te.index(entry, entries))
                first = w.let(te.cast(indices[k], INT64) * te.dim(width))
                with w.loop(0, te.dim(width)) as inner:
                    column = w.let(te.index(first + inner, extent))
                    weight = data[(k, row % te.dim(height), inner)[: data.rank]]
                    x = element(w, dense, image, place, column)
                    found.value = found.value + x * te.cast(weight, total)
            out[at] = te.cast(found.value, dense_data.dtype)

    inputs = [dense_data, sparse_data, sparse_indices, sparse_indptr]
    each = dim_mul(product((n, *space)), product(sparse_data.shape))
    work = dim_add(product(shape), dim_mul(each, 8))
    return te.program([(shape, dense_data.dtype)], inputs, build, work, "sparse_conv2d")[0]


@sparse_conv2d.reduction_size
@like(sparse_conv2d.rule)
def _(
    dense_data: TensorType,
    sparse_data: TensorType,
    sparse_indices: TensorType,
    sparse_indptr: TensorType,
    **attrs: Any,
) -> Dim:
    images, taps = read_sparse_layout(attrs)
    return dim_mul(images.canonical(dense_data.shape)[1], taps[0] * taps[1])


OPERATORS = (sparse_conv2d,)
