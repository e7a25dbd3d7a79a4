"""Dense layers with a weight in blocks, as the original's schedulers make them."""

from __future__ import annotations

from typing import Any

import numpy as np

from relayvm.base.dims import Dim, dim_mul
from relayvm.base.dtypes import DType, dtype_of
from relayvm.base.shapes import require_equal
from relayvm.ir.types import TensorType
from relayvm.kernels.compute import Tensor
from relayvm.ops import numeric
from relayvm.ops.axes import require_rank
from relayvm.ops.linalg import contraction
from relayvm.ops.numeric import Array
from relayvm.ops.operator import Fusion, operator
from relayvm.ops.schema import Numeric, SameDtype


@operator("nn.contrib_dense_pack", fusion=Fusion.CONTRACTION, ignored=("weight_layout",))
def contrib_dense_pack(
    data: Numeric, weight: SameDtype, *, units: Dim | None = None, out_dtype: DType | None = None
) -> TensorType:
    """`nn.dense` of `data` [n, k] with a weight [units / b, k, b] of blocks of b units.

    >>> %x = float32 [[1, 2]]
    >>> %w = float32 [[[1, 0], [0, 1]], [[1, 1], [1, -1]]]
    >>> nn.contrib_dense_pack(%x, %w)
    [[1, 2, 3, -1]]
    """
    require_rank(data, 2, 2, "`data` of `nn.contrib_dense_pack`")
    require_rank(weight, 3, 3, "`weight` of `nn.contrib_dense_pack`")
    what = "last axis of `data` and axis 1 of `weight` of `nn.contrib_dense_pack`"
    require_equal(data.shape[1], weight.shape[1], what)
    out = dim_mul(weight.shape[0], weight.shape[2])
    if units is not None:
        out = require_equal(out, units, "units in `weight` of `nn.contrib_dense_pack` and `units`")
    return TensorType((data.shape[0], out), out_dtype or data.dtype)


@contrib_dense_pack.numpy
def _(data: Array, weight: Array, *, units: Dim | None, out_dtype: DType | None) -> Array:
    plain = np.moveaxis(weight, 1, 0).reshape(weight.shape[1], weight.shape[0] * weight.shape[2])
    return numeric.matmul(data, plain, out_dtype or dtype_of(data.dtype))


@contrib_dense_pack.compute
def _(data: Tensor, weight: Tensor, *, units: Dim | None, out_dtype: DType | None) -> Tensor:
    block = weight.shape[2]
    out = dim_mul(weight.shape[0], block) if units is None else units

    def right(i: Any, r: Any) -> Any:
        return weight[i[1] // block, r, i[1] % block]

    shape = (data.shape[0], out)
    dtype = out_dtype or data.dtype
    return contraction(shape, data.shape[1], lambda i, r: data[i[0], r], right, dtype, "dense")


@contrib_dense_pack.reduction_size
def _(data: TensorType, weight: TensorType, *, units: Dim | None, out_dtype: DType | None) -> Dim:
    return data.shape[1]


@contrib_dense_pack.row_axis
def _(data: TensorType, weight: TensorType, *, units: Dim | None, out_dtype: DType | None) -> int:
    return 0


OPERATORS = (contrib_dense_pack,)
