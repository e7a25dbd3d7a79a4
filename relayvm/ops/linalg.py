"""Operators that contract axes of two tensors: dense layers and matrix products."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from relayvm.base.dims import Dim
from relayvm.base.dtypes import DType, dtype_of
from relayvm.base.shapes import require_broadcast, require_equal
from relayvm.ir.types import TensorType, Type
from relayvm.kernels import compute as te
from relayvm.kernels.compute import ScalarExpr, Tensor
from relayvm.ops import numeric
from relayvm.ops.axes import require_rank
from relayvm.ops.loads import Index, load_broadcast, wide
from relayvm.ops.numeric import Array
from relayvm.ops.operator import Fusion, operator
from relayvm.ops.schema import Numeric, number_dtype, require_same_dtype


@operator("nn.dense", fusion=Fusion.CONTRACTION)
def dense(
    data: Numeric, weight: Numeric, *, units: Dim | None = None, out_dtype: DType | None = None
) -> TensorType:
    """Product of `data` [..., k] with the transpose of `weight` [units, k]: [..., units].

    Integers may be of different dtypes, as `uint8` data and `int8` weights.

    >>> %x = float32 [[1, 2]]
    >>> %w = float32 [[1, 0], [0, 1], [1, 1]]
    >>> nn.dense(%x, %w)
    [[1, 2, 3]]
    """
    require_rank(data, 1, 99, "`data` of `nn.dense`")
    require_rank(weight, 2, 2, "`weight` of `nn.dense`")
    require_factors(data, weight, "nn.dense")
    require_equal(data.shape[-1], weight.shape[1], "last axis of `data` and axis 1 of `weight`")
    out = weight.shape[0]
    if units is not None:
        out = require_equal(out, units, "axis 0 of `weight` and `units`")
    return TensorType((*data.shape[:-1], out), number_dtype("nn.dense", out_dtype, data.dtype))


@dense.infer_operands
def _(
    data: TensorType | None,
    weight: TensorType | None,
    *,
    units: Dim | None,
    out_dtype: DType | None,
) -> tuple[Type | None, ...]:
    if data is None or units is None:
        return data, weight
    require_rank(data, 1, 99, "`data` of `nn.dense`")
    return data, TensorType((units, data.shape[-1]), _dtype_of_factor(weight, data))


@dense.numpy
def _(data: Array, weight: Array, *, units: Dim | None, out_dtype: DType | None) -> Array:
    return numeric.matmul(data, weight.T, out_dtype or dtype_of(data.dtype))


@dense.compute
def _(data: Tensor, weight: Tensor, *, units: Dim | None, out_dtype: DType | None) -> Tensor:
    shape = (*data.shape[:-1], weight.shape[0] if units is None else units)

    return contraction(
        shape,
        data.shape[-1],
        lambda i, r: data[i[:-1] + (r,)],
        lambda i, r: weight[i[-1], r],
        out_dtype or data.dtype,
        "dense",
    )


@dense.reduction_size
def _(data: TensorType, weight: TensorType, *, units: Dim | None, out_dtype: DType | None) -> Dim:
    return data.shape[-1]


@dense.row_axis
def _(data: TensorType, weight: TensorType, *, units: Dim | None, out_dtype: DType | None) -> int:
    return 0 if data.rank > 1 else -1


def require_factors(a: TensorType, b: TensorType, name: str) -> None:
    """Raise ShapeError unless two tensors are of one dtype, or both of integers.

    Integers of any size and sign have an exact product: `uint8` data, `int8` weights.
    """
    if not (a.dtype.is_integer and b.dtype.is_integer):
        require_same_dtype(a.dtype, b.dtype, f"dtypes of `{name}`'s operands")


def _dtype_of_factor(known: TensorType | None, other: TensorType) -> DType:
    """Return the dtype of a factor: its own where that is known, else the other one's."""
    if known is None or not (known.dtype.is_integer and other.dtype.is_integer):
        return other.dtype
    return known.dtype


Side = Callable[[Index, ScalarExpr], ScalarExpr]


def contraction(
    shape: tuple[Dim, ...], inner: Dim, left: Side, right: Side, dtype: DType, name: str
) -> Tensor:
    """Return sums of products over `inner`; factors are widened to the dtype of the sum first."""
    total = wide(dtype)

    def element(*i: ScalarExpr) -> ScalarExpr:
        products = te.reduce(
            "sum", (inner,), lambda r: te.cast(left(i, r), total) * te.cast(right(i, r), total)
        )
        return te.cast(products, dtype)

    return te.compute(shape, element, name)


def _swapped(tensor: TensorType | Tensor, swap: bool) -> tuple[Dim, ...]:
    shape = tensor.shape
    return (*shape[:-2], shape[-1], shape[-2]) if swap else shape


@operator("nn.matmul", fusion=Fusion.CONTRACTION)
def matmul(
    tensor_a: Numeric,
    tensor_b: Numeric,
    *,
    units: Dim | None = None,
    out_dtype: DType | None = None,
    transpose_a: bool = False,
    transpose_b: bool = False,
) -> TensorType:
    """Product of `tensor_a` [..., m, k] and `tensor_b` [k, n]: [..., m, n]; either may come
    transposed.

    `tensor_a` may have rank 1 unless it is transposed.

    >>> %x = float32 [[1, 2]]
    >>> %y = float32 [[1, 0], [1, 1]]
    >>> nn.matmul(%x, %y)
    [[3, 2]]
    """
    require_rank(tensor_a, 2 if transpose_a else 1, 99, "`tensor_a` of `nn.matmul`")
    require_rank(tensor_b, 2, 2, "`tensor_b` of `nn.matmul`")
    require_factors(tensor_a, tensor_b, "nn.matmul")
    a, b = _swapped(tensor_a, transpose_a), _swapped(tensor_b, transpose_b)
    require_equal(a[-1], b[0], "contracted axes of `tensor_a` and `tensor_b`")
    out = b[1] if units is None else require_equal(b[1], units, "result axis and `units`")
    return TensorType((*a[:-1], out), number_dtype("nn.matmul", out_dtype, tensor_a.dtype))


@matmul.infer_operands
def _(
    tensor_a: TensorType | None,
    tensor_b: TensorType | None,
    *,
    units: Dim | None,
    out_dtype: DType | None,
    transpose_a: bool,
    transpose_b: bool,
) -> tuple[Type | None, ...]:
    if tensor_a is None or units is None:
        return tensor_a, tensor_b
    require_rank(tensor_a, 2 if transpose_a else 1, 99, "`tensor_a` of `nn.matmul`")
    inner = _swapped(tensor_a, transpose_a)[-1]
    shape = (units, inner) if transpose_b else (inner, units)
    return tensor_a, TensorType(shape, _dtype_of_factor(tensor_b, tensor_a))


@matmul.numpy
def _(
    tensor_a: Array,
    tensor_b: Array,
    *,
    units: Dim | None,
    out_dtype: DType | None,
    transpose_a: bool,
    transpose_b: bool,
) -> Array:
    a = np.swapaxes(tensor_a, -1, -2) if transpose_a else tensor_a
    b = np.swapaxes(tensor_b, -1, -2) if transpose_b else tensor_b
    return numeric.matmul(a, b, out_dtype or dtype_of(tensor_a.dtype))


@matmul.compute
def _(
    tensor_a: Tensor,
    tensor_b: Tensor,
    *,
    units: Dim | None,
    out_dtype: DType | None,
    transpose_a: bool,
    transpose_b: bool,
) -> Tensor:
    a, b = _swapped(tensor_a, transpose_a), _swapped(tensor_b, transpose_b)

    def left(i: Index, r: ScalarExpr) -> ScalarExpr:
        return tensor_a[i[:-2] + (r, i[-2]) if transpose_a else i[:-1] + (r,)]

    def right(i: Index, r: ScalarExpr) -> ScalarExpr:
        return tensor_b[(i[-1], r) if transpose_b else (r, i[-1])]

    dtype = out_dtype or tensor_a.dtype
    shape = (*a[:-1], b[1] if units is None else units)
    return contraction(shape, a[-1], left, right, dtype, "matmul")


@matmul.reduction_size
def _(
    tensor_a: TensorType,
    tensor_b: TensorType,
    *,
    units: Dim | None,
    out_dtype: DType | None,
    transpose_a: bool,
    transpose_b: bool,
) -> Dim:
    return _swapped(tensor_a, transpose_a)[-1]


@matmul.row_axis
def _(
    tensor_a: TensorType,
    tensor_b: TensorType,
    *,
    units: Dim | None,
    out_dtype: DType | None,
    transpose_a: bool,
    transpose_b: bool,
) -> int | None:
    if transpose_a:
        return None
    return 0 if tensor_a.rank > 1 else -1


@operator("nn.batch_matmul", fusion=Fusion.CONTRACTION)
def batch_matmul(
    tensor_a: Numeric,
    tensor_b: Numeric,
    *,
    out_dtype: DType | None = None,
    transpose_a: bool = False,
    transpose_b: bool = False,
) -> TensorType:
    """Products of the matrices of `tensor_a` [b, m, k] and `tensor_b` [b, k, n]: [b, m, n].

    A batch of 1 is broadcast; either operand may come transposed.

    >>> %x = float32 [[[1, 2]]]
    >>> %y = float32 [[[1, 0], [1, 1]]]
    >>> nn.batch_matmul(%x, %y, transpose_b=True)
    [[[1, 3]]]
    """
    require_rank(tensor_a, 3, 3, "`tensor_a` of `nn.batch_matmul`")
    require_rank(tensor_b, 3, 3, "`tensor_b` of `nn.batch_matmul`")
    require_factors(tensor_a, tensor_b, "nn.batch_matmul")
    a, b = _swapped(tensor_a, transpose_a), _swapped(tensor_b, transpose_b)
    batch = require_broadcast(a[0], b[0], "batches of `tensor_a` and `tensor_b`")
    require_equal(a[2], b[1], "contracted axes of `tensor_a` and `tensor_b`")
    dtype = number_dtype("nn.batch_matmul", out_dtype, tensor_a.dtype)
    return TensorType((batch, a[1], b[2]), dtype)


@batch_matmul.numpy
def _(
    tensor_a: Array,
    tensor_b: Array,
    *,
    out_dtype: DType | None,
    transpose_a: bool,
    transpose_b: bool,
) -> Array:
    a = np.swapaxes(tensor_a, -1, -2) if transpose_a else tensor_a
    b = np.swapaxes(tensor_b, -1, -2) if transpose_b else tensor_b
    return numeric.matmul(a, b, out_dtype or dtype_of(tensor_a.dtype))


@batch_matmul.compute
def _(
    tensor_a: Tensor,
    tensor_b: Tensor,
    *,
    out_dtype: DType | None,
    transpose_a: bool,
    transpose_b: bool,
) -> Tensor:
    a, b = _swapped(tensor_a, transpose_a), _swapped(tensor_b, transpose_b)
    batch = require_broadcast(a[0], b[0], "batches")
    full_a, full_b = (batch, *tensor_a.shape[1:]), (batch, *tensor_b.shape[1:])

    def left(i: Index, r: ScalarExpr) -> ScalarExpr:
        place = (i[0], r, i[1]) if transpose_a else (i[0], i[1], r)
        return load_broadcast(tensor_a, full_a, place)

    def right(i: Index, r: ScalarExpr) -> ScalarExpr:
        place = (i[0], i[2], r) if transpose_b else (i[0], r, i[2])
        return load_broadcast(tensor_b, full_b, place)

    dtype = out_dtype or tensor_a.dtype
    return contraction((batch, a[1], b[2]), a[2], left, right, dtype, "batch_matmul")


@batch_matmul.reduction_size
def _(
    tensor_a: TensorType,
    tensor_b: TensorType,
    *,
    out_dtype: DType | None,
    transpose_a: bool,
    transpose_b: bool,
) -> Dim:
    return _swapped(tensor_a, transpose_a)[2]


@batch_matmul.row_axis
def _(
    tensor_a: TensorType,
    tensor_b: TensorType,
    *,
    out_dtype: DType | None,
    transpose_a: bool,
    transpose_b: bool,
) -> int | None:
    return None if transpose_a else 1


OPERATORS = (dense, matmul, batch_matmul)
