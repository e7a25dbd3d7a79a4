"""Upsampling by scales that are known at run time only."""

from __future__ import annotations

from typing import Any

import numpy as np

from relayvm.base.dims import ANY, Dim, dim_mul
from relayvm.base.dtypes import FLOAT64, INT64
from relayvm.base.shapes import ShapeError
from relayvm.ir.types import TensorType
from relayvm.kernels import compute as te
from relayvm.kernels.compute import ScalarExpr, Tensor
from relayvm.ops.axes import require_rank
from relayvm.ops.dynamic import all_of, dims_if
from relayvm.ops.numeric import Array
from relayvm.ops.operator import Fusion, Operator, operator
from relayvm.ops.schema import Dims, Float, Numeric, like
from relayvm.ops.upsampling import sampled_array, sampled_tensor, samplings_to, space_of

_REASON = "`nn.upsampling_grad` needs sizes that are known when a gradient is taken"
_MOST = 1e6


def _type(name: str, data: TensorType, scales: tuple[TensorType, ...], attrs: Any) -> TensorType:
    at = space_of(name, data, attrs, len(scales))
    for letter, scale in zip("whd", reversed(scales)):
        require_rank(scale, 0, 0, f"`scale_{letter}` of `{name}`")
    samplings_to(name, data, attrs, [data.shape[a] for a in at])
    return TensorType(tuple(ANY if k in at else d for k, d in enumerate(data.shape)), data.dtype)


@operator(
    "dyn.nn.upsampling",
    fusion=Fusion.OPAQUE,
    ulp=4,
    no_gradient=_REASON,
    value_operands=("scale_h", "scale_w"),
    ignored=("scale_h", "scale_w"),
)
def dyn_upsampling(
    data: Numeric,
    scale_h: Float,
    scale_w: Float,
    *,
    layout: str = "NCHW",
    method: str = "nearest_neighbor",
    align_corners: bool = False,
) -> TensorType:
    """Images `scale_h` times as high and `scale_w` times as wide, as `nn.upsampling` makes them.

    >>> %x = float32 [[[[1, 3]]]]
    >>> %h = float32 1
    >>> %w = float32 2
    >>> dyn.nn.upsampling(%x, %h, %w)
    [[[[1, 1, 3, 3]]]]
    """
    return _type("dyn.nn.upsampling", data, (scale_h, scale_w), locals())


@operator(
    "dyn.nn.upsampling3d",
    fusion=Fusion.OPAQUE,
    ulp=4,
    no_gradient=_REASON,
    value_operands=("scale_d", "scale_h", "scale_w"),
    ignored=("scale_d", "scale_h", "scale_w"),
)
def dyn_upsampling3d(
    data: Numeric,
    scale_d: Float,
    scale_h: Float,
    scale_w: Float,
    *,
    layout: str = "NCDHW",
    method: str = "nearest_neighbor",
    coordinate_transformation_mode: str = "half_pixel",
) -> TensorType:
    """Volumes multiplied in depth, height and width, as `nn.upsampling3d` makes them.

    >>> %x = float32 [[[[[1, 3]]]]]
    >>> %s = float32 1
    >>> %w = float32 2
    >>> dyn.nn.upsampling3d(%x, %s, %s, %w, coordinate_transformation_mode="asymmetric")
    [[[[[1, 1, 3, 3]]]]]
    """
    return _type("dyn.nn.upsampling3d", data, (scale_d, scale_h, scale_w), locals())


def _size(extent: Dim, scale: Array) -> Dim:
    """Return `floor(extent * scale + 0.5)` in float64."""
    factor = float(scale)
    if not 0 < factor < _MOST:
        raise ShapeError(f"a scale must be above 0 and below {_MOST:g}, got {factor}", "bad-value")
    if isinstance(extent, int):
        return int(np.floor(np.float64(extent) * factor + 0.5))
    return dim_mul(extent, int(factor)) if factor == int(factor) else ANY


def _add_facets(row: Operator, name: str) -> None:
    spatial = len(row.operands) - 1

    def value_shape(data: Any, *scales: Array, **attrs: Any) -> Dims:
        at = space_of(name, data, attrs, spatial)
        sizes = {a: _size(data.shape[a], scale) for a, scale in zip(at, scales)}
        return tuple(sizes[a] for a in sorted(sizes))

    def meaning(data: Array, *scales: Array, **attrs: Any) -> Array:
        at = space_of(name, data, attrs, spatial)
        sizes = [_size(data.shape[a], scale) for a, scale in zip(at, scales)]
        # As in a kernel, which does not know that an axis keeps its size.
        return sampled_array(data, *samplings_to(name, data, attrs, sizes, every_axis=True))

    def value_dims(data: Tensor, *scales: Tensor, **attrs: Any) -> tuple[Tensor, ...]:
        at = space_of(name, data, attrs, spatial)
        sizes: dict[int, ScalarExpr] = {}
        valid: list[ScalarExpr] = []
        for a, scale in zip(at, scales):
            factor = te.cast(scale[()], FLOAT64)
            valid += [factor > 0.0, factor < _MOST]
            product = te.cast(te.dim(data.shape[a]), FLOAT64) * factor
            sizes[a] = te.cast(te.scalar("floor", product + 0.5), INT64)
        return dims_if(all_of(*valid), [sizes[a] for a in sorted(sizes)])

    def compute(dims: Dims, data: Tensor, *scales: Tensor, **attrs: Any) -> Tensor:
        at = space_of(name, data, attrs, spatial)
        sizes = dict(zip(sorted(at), dims))
        return sampled_tensor(data, *samplings_to(name, data, attrs, [sizes[a] for a in at], True))

    row.value_shape(like(row.rule)(value_shape))
    row.numpy(like(row.rule)(meaning))
    row.value_dims(like(row.rule)(value_dims))
    row.compute(like(row.rule)(compute))


for _row in (dyn_upsampling, dyn_upsampling3d):
    _add_facets(_row, _row.name)
OPERATORS = (dyn_upsampling, dyn_upsampling3d)
