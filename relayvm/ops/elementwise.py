"""Elementwise operators with attributes or more than two operands."""

from __future__ import annotations

import math

import numpy as np

from relayvm.base.dtypes import DType, dtype_of, number_of
from relayvm.base.shapes import ShapeError, broadcast_shapes
from relayvm.ir.types import TensorType
from relayvm.kernels import compute as te
from relayvm.kernels.compute import Tensor
from relayvm.ops import numeric
from relayvm.ops.loads import broadcast_compute
from relayvm.ops.narrow import takes_bfloat16
from relayvm.ops.numeric import Array
from relayvm.ops.operator import Fusion, operator
from relayvm.ops.schema import AnyTensor, Bool, Numeric, SameDtype


@operator("nn.relu", fusion=Fusion.ELEMENTWISE)
def relu(data: Numeric) -> TensorType:
    """The greater of each element and 0; NaN stays NaN.

    >>> %x = float32 [-1, 2]
    >>> nn.relu(%x)
    [0, 2]
    """
    return TensorType(data.shape, data.dtype)


@relu.numpy
def _(data: Array) -> Array:
    return np.asarray(np.maximum(data, data.dtype.type(0)))


@relu.compute
def _(data: Tensor) -> Tensor:
    return broadcast_compute((data,), lambda x: te.scalar("maximum", x, 0), "relu")


@operator("copy", fusion=Fusion.ELEMENTWISE)
def copy(data: AnyTensor) -> TensorType:
    """The same value.

    >>> %x = int32 [1, 2]
    >>> copy(%x)
    [1, 2]
    """
    return TensorType(data.shape, data.dtype)


@copy.numpy
def _(data: Array) -> Array:
    return data


@copy.compute
def _(data: Tensor) -> Tensor:
    return broadcast_compute((data,), lambda x: x, "copy")


@operator("cast", fusion=Fusion.ELEMENTWISE)
def cast(data: AnyTensor, *, dtype: DType) -> TensorType:
    """The elements as `dtype`: floats to integers truncate and saturate, NaN gives 0; to bool
    means `!= 0`.

    >>> %x = float32 [-1.5, 300, nan]
    >>> cast(%x, dtype="int8")
    [-1, 127, 0]
    """
    return TensorType(data.shape, dtype)


@cast.numpy
@takes_bfloat16
def _(data: Array, *, dtype: DType) -> Array:
    return numeric.cast(data, dtype)


@cast.compute
def _(data: Tensor, *, dtype: DType) -> Tensor:
    return broadcast_compute((data,), lambda x: te.cast(x, dtype), "cast")


@operator("clip", fusion=Fusion.ELEMENTWISE)
def clip(data: Numeric, *, a_min: float, a_max: float) -> TensorType:
    """Each element held between `a_min` and `a_max`, which for integers are truncated and
    saturated; NaN stays.

    >>> %x = float32 [-2, 0.5, 7]
    >>> clip(%x, a_min=0f, a_max=1f)
    [0, 0.5, 1]
    """
    for name, bound in (("a_min", a_min), ("a_max", a_max)):
        if math.isnan(bound):
            raise ShapeError(f"`{name}` of `clip` must be a number, got nan", "bad-attribute")
    return TensorType(data.shape, data.dtype)


@clip.numpy
def _(data: Array, *, a_min: float, a_max: float) -> Array:
    low, high = clip_bounds(a_min, a_max, dtype_of(data.dtype))
    return np.asarray(np.minimum(np.maximum(data, low), high))


@clip.compute
def _(data: Tensor, *, a_min: float, a_max: float) -> Tensor:
    low, high = (number_of(v) for v in clip_bounds(a_min, a_max, data.dtype))

    def held(x: te.ScalarExpr) -> te.ScalarExpr:
        return te.scalar("minimum", te.scalar("maximum", x, low), high)

    return broadcast_compute((data,), held, "clip")


def clip_bounds(a_min: float, a_max: float, dtype: DType) -> tuple[Array, Array]:
    """Return the bounds as rank-0 arrays of `dtype`."""
    return numeric.cast(np.array(a_min), dtype), numeric.cast(np.array(a_max), dtype)


@operator("where", fusion=Fusion.BROADCAST)
def where(condition: Bool, x: AnyTensor, y: SameDtype) -> TensorType:
    """Elements of `x` where `condition` is True, of `y` elsewhere; all three are broadcast.

    >>> %c = bool [True, False]
    >>> %x = float32 [1, 2]
    >>> %y = float32 0
    >>> where(%c, %x, %y)
    [1, 0]
    """
    shape = broadcast_shapes(x.shape, y.shape, "shapes of `x` and `y`")
    return TensorType(broadcast_shapes(condition.shape, shape), x.dtype)


@where.numpy
def _(condition: Array, x: Array, y: Array) -> Array:
    return np.where(condition, x, y)


@where.compute
def _(condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
    return broadcast_compute((condition, x, y), te.select, "where")


OPERATORS = (relu, copy, cast, clip, where)
