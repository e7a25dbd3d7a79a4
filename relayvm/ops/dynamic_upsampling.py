"""Upsampling by scales that are known at run time only."""

from __future__ import annotations

from typing import Any

import numpy as np

from relayvm.base.dims import ANY, Dim, dim_mul
from relayvm.base.dtypes import FLOAT64, INT64
from relayvm.base.shapes import bad_value, require_equal
from relayvm.ir.types import TensorType
from relayvm.kernels import compute as te
from relayvm.kernels.compute import ScalarExpr, Tensor
from relayvm.ops.axes import product, require_rank
from relayvm.ops.dynamic import Rule, all_of, dims_if
from relayvm.ops.numeric import Array
from relayvm.ops.operator import Fusion, Operator, operator
from relayvm.ops.schema import AnyTensor, Dims, Float, Numeric, like
from relayvm.ops.upsampling import (
    sampled_array,
    sampled_tensor,
    samplings_to,
    space_of,
    upsampling_gradient_array,
    upsampling_gradient_tensor,
)

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
        raise bad_value("scale", factor, _MOST)
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
        rules: list[Rule] = []
        for a, scale in zip(at, scales):
            factor = te.cast(scale[()], FLOAT64)
            legal = all_of(factor > 0.0, factor < _MOST)
            rules.append((legal, te.told("scale", factor, te.const(_MOST, FLOAT64))))
            product = te.cast(te.dim(data.shape[a]), FLOAT64) * factor
            sizes[a] = te.cast(te.scalar("floor", product + 0.5), INT64)
        return dims_if(rules, [sizes[a] for a in sorted(sizes)])

    def compute(dims: Dims, data: Tensor, *scales: Tensor, **attrs: Any) -> Tensor:
        at = space_of(name, data, attrs, spatial)
        sizes = dict(zip(sorted(at), dims))
        return sampled_tensor(data, *samplings_to(name, data, attrs, [sizes[a] for a in at], True))

    row.value_shape(like(row.rule)(value_shape))
    row.numpy(like(row.rule)(meaning))
    row.value_dims(like(row.rule)(value_dims))
    row.compute(like(row.rule)(compute))


# -- Back -----------------------------------------------------------------------------------------
#
# The sizes of the result are those of its gradient; scales are there for the way forth again.


def _gradient_type(
    name: str, grad: TensorType, data: TensorType, scales: tuple[TensorType, ...], attrs: Any
) -> TensorType:
    at = space_of(name, data, attrs, len(scales))
    require_rank(grad, data.rank, data.rank, f"`grad` of `{name}`")
    for letter, scale in zip("whd", reversed(scales)):
        require_rank(scale, 0, 0, f"`scale_{letter}` of `{name}`")
    for axis, (a, b) in enumerate(zip(grad.shape, data.shape)):
        if axis not in at:
            require_equal(a, b, f"axis {axis} of `grad` and `data` of `{name}`")
    samplings_to(name, data, attrs, [grad.shape[a] for a in at])
    return TensorType(data.shape, grad.dtype)


@operator("dyn.nn.upsampling_grad", fusion=Fusion.CONTRACTION, ulp=4)
def dyn_upsampling_grad(
    grad: Float,
    data: AnyTensor,
    scale_h: Float,
    scale_w: Float,
    *,
    layout: str = "NCHW",
    method: str = "nearest_neighbor",
    align_corners: bool = False,
) -> TensorType:
    """For each element of `data` the sum of `grad` times its weights in `dyn.nn.upsampling`.

    >>> %g = float32 [[[[1, 10, 100, 1000]]]]
    >>> %x = float32 [[[[0, 0]]]]
    >>> %h = float32 1
    >>> %w = float32 2
    >>> dyn.nn.upsampling_grad(%g, %x, %h, %w)
    [[[[11, 1100]]]]
    """
    return _gradient_type("dyn.nn.upsampling_grad", grad, data, (scale_h, scale_w), locals())


@operator("dyn.nn.upsampling3d_grad", fusion=Fusion.CONTRACTION, ulp=4)
def dyn_upsampling3d_grad(
    grad: Float,
    data: AnyTensor,
    scale_d: Float,
    scale_h: Float,
    scale_w: Float,
    *,
    layout: str = "NCDHW",
    method: str = "nearest_neighbor",
    coordinate_transformation_mode: str = "half_pixel",
) -> TensorType:
    """For each element of `data` the sum of `grad` times its weights in `dyn.nn.upsampling3d`.

    >>> %g = float32 [[[[[1, 10, 100, 1000]]]]]
    >>> %x = float32 [[[[[0, 0]]]]]
    >>> %s = float32 1
    >>> %w = float32 2
    >>> dyn.nn.upsampling3d_grad(%g, %x, %s, %s, %w, coordinate_transformation_mode="asymmetric")
    [[[[[11, 1100]]]]]
    """
    name, scales = "dyn.nn.upsampling3d_grad", (scale_d, scale_h, scale_w)
    return _gradient_type(name, grad, data, scales, locals())


def _add_gradient_facets(row: Operator, name: str) -> None:
    spatial = len(row.operands) - 2

    def samplings(grad: Any, data: Any, attrs: Any) -> Any:
        at = space_of(name, data, attrs, spatial)
        return samplings_to(name, data, attrs, [grad.shape[a] for a in at], True)

    @row.numpy
    @like(row.rule)
    def _(grad: Array, data: Array, *scales: Array, **attrs: Any) -> Array:
        return upsampling_gradient_array(grad, data, *samplings(grad, data, attrs))

    @row.compute
    @like(row.rule)
    def _(grad: Tensor, data: Tensor, *scales: Tensor, **attrs: Any) -> Tensor:
        return upsampling_gradient_tensor(grad, data, *samplings(grad, data, attrs))

    @row.reduction_size
    @like(row.rule)
    def _(grad: TensorType, data: TensorType, *scales: TensorType, **attrs: Any) -> Dim:
        return product(axis.window()[-1] for axis in samplings(grad, data, attrs)[0])


DYNAMIC_UPSAMPLING = (
    (dyn_upsampling, dyn_upsampling_grad),
    (dyn_upsampling3d, dyn_upsampling3d_grad),
)
for _forward, _backward in DYNAMIC_UPSAMPLING:
    _add_facets(_forward, _forward.name)
    _add_gradient_facets(_backward, _backward.name)
OPERATORS = tuple(row for pair in DYNAMIC_UPSAMPLING for row in pair)
