"""Dense layers with a weight in blocks, as the original's schedulers make them."""

from __future__ import annotations

from typing import Any

from relayvm.base.dims import Dim, dim_mul
from relayvm.base.dtypes import DType, dtype_of
from relayvm.base.shapes import ShapeError, require_equal
from relayvm.ir.types import TensorType
from relayvm.kernels.compute import Tensor
from relayvm.ops import numeric
from relayvm.ops.axes import require_rank
from relayvm.ops.linalg import contraction, require_factors
from relayvm.ops.numeric import Array
from relayvm.ops.operator import Fusion, operator
from relayvm.ops.schema import Numeric, number_dtype


@operator("nn.contrib_dense_pack", fusion=Fusion.CONTRACTION, ignored=("weight_layout",))
def contrib_dense_pack(
    data: Numeric, weight: Numeric, *, units: Dim | None = None, out_dtype: DType | None = None
) -> TensorType:
    """`nn.dense` of `data` [..., k] with a weight [units / b, k, b] of blocks of b units.

    A weight of integers may be [units / b, k / c, b, c], with c neighbours on axis k together; its
    last block of units, and its last group on axis k, may be filled up with anything and with 0.

    >>> %x = float32 [[1, 2]]
    >>> %w = float32 [[[1, 0], [0, 1]], [[1, 1], [1, -1]]]
    >>> nn.contrib_dense_pack(%x, %w)
    [[1, 2, 3, -1]]
    """
    require_rank(data, 1, 99, "`data` of `nn.contrib_dense_pack`")
    require_rank(weight, 3, 4, "`weight` of `nn.contrib_dense_pack`")
    require_factors(data, weight, "nn.contrib_dense_pack")
    out = dim_mul(weight.shape[0], weight.shape[2])
    what = "units in `weight` of `nn.contrib_dense_pack` and `units`"
    inner = "last axis of `data` and axis 1 of `weight` of `nn.contrib_dense_pack`"
    if weight.rank == 4:
        if not weight.dtype.is_integer:
            reason = (
                "`weight` of `nn.contrib_dense_pack` has groups on axis k, as only integers may"
            )
            raise ShapeError(reason, "dtype-mismatch")
        _require_filled(weight.shape[1], weight.shape[3], data.shape[-1], inner)
        if units is not None:
            _require_filled(weight.shape[0], weight.shape[2], units, what)
            out = units
    else:
        require_equal(data.shape[-1], weight.shape[1], inner)
        if units is not None:
            out = require_equal(out, units, what)
    dtype = number_dtype("nn.contrib_dense_pack", out_dtype, data.dtype)
    return TensorType((*data.shape[:-1], out), dtype)


def _require_filled(blocks: Dim, size: Dim, extent: Dim, what: str) -> None:
    """Raise ShapeError unless so many blocks of a size hold an extent, only the last not full."""
    filled = None
    if isinstance(size, int) and isinstance(extent, int) and size:
        filled = -(-extent // size)
    if filled is None or filled != blocks:
        require_equal(dim_mul(blocks, size), extent, what)


@contrib_dense_pack.numpy
def _(data: Array, weight: Array, *, units: Dim | None, out_dtype: DType | None) -> Array:
    order = (1, 0, 2) if weight.ndim == 3 else (1, 3, 0, 2)
    rows = weight.shape[1] * (weight.shape[3] if weight.ndim == 4 else 1)
    plain = weight.transpose(order).reshape(rows, weight.shape[0] * weight.shape[2])
    plain = plain[: data.shape[-1], : units if isinstance(units, int) else None]
    return numeric.matmul(data, plain, out_dtype or dtype_of(data.dtype))


@contrib_dense_pack.compute
def _(data: Tensor, weight: Tensor, *, units: Dim | None, out_dtype: DType | None) -> Tensor:
    block = weight.shape[2]
    out = dim_mul(weight.shape[0], block) if units is None else units

    def right(i: Any, r: Any) -> Any:
        if weight.rank == 3:
            return weight[i[-1] // block, r, i[-1] % block]
        group = weight.shape[3]
        return weight[i[-1] // block, r // group, i[-1] % block, r % group]

    shape = (*data.shape[:-1], out)
    dtype = out_dtype or data.dtype
    inner = data.shape[-1]
    return contraction(shape, inner, lambda i, r: data[i[:-1] + (r,)], right, dtype, "dense")


@contrib_dense_pack.reduction_size
def _(data: TensorType, weight: TensorType, *, units: Dim | None, out_dtype: DType | None) -> Dim:
    return data.shape[-1]


@contrib_dense_pack.row_axis
def _(data: TensorType, weight: TensorType, *, units: Dim | None, out_dtype: DType | None) -> int:
    return 0 if data.rank > 1 else -1


OPERATORS = (contrib_dense_pack,)
