"""The gradient of boxes cut out of images, by the images: it is spread over what was sampled."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from relayvm.base.dims import Dim, dim_add, dim_mul
from relayvm.base.dtypes import DType, dtype_of
from relayvm.base.shapes import require_equal
from relayvm.ir.types import TensorType
from relayvm.kernels import compute as te
from relayvm.kernels.compute import ScalarExpr, Tensor
from relayvm.kernels.schedules.program import LONG_STEPS, Memory, Writer
from relayvm.ops.axes import product, require_rank, sizes_of
from relayvm.ops.dynamic import all_of
from relayvm.ops.formulas import ARRAYS, SCALARS
from relayvm.ops.numeric import Array
from relayvm.ops.operator import Fusion, operator
from relayvm.ops.resampling import Axis, total_of
from relayvm.ops.reshaping import unflattened
from relayvm.ops.resizing import resize_gradient_array
from relayvm.ops.sampling import (
    crop_and_resize,
    crop_layout,
    crop_way,
    product_of,
    require_images,
)
from relayvm.ops.schema import Dims, Float, Integer, SameDtype, like

_NAME = "image.crop_and_resize_grad"


@operator(_NAME, fusion=Fusion.OPAQUE, ulp=8, value_traps=True)
def crop_and_resize_grad(
    grad: Float,
    data: SameDtype,
    boxes: Float,
    box_indices: Integer,
    *,
    crop_size: Dims,
    layout: str = "NCHW",
    method: str = "bilinear",
    extrapolation_value: float = 0.0,
    out_dtype: DType | None = None,
) -> TensorType:
    """For each element of `data` the sum of `grad` times its weights in `image.crop_and_resize`.

    >>> %g = float32 [[[[1, 10, 100]]]]
    >>> %x = float32 [[[[1, 2, 4]]]]
    >>> %b = float32 [[0, 0, 0, 0.5]]
    >>> %i = int32 [0]
    >>> image.crop_and_resize_grad(%g, %x, %b, %i, crop_size=[1, 3])
    [[[[6, 105, 0]]]]
    """
    attrs: dict[str, Any] = {"crop_size": crop_size, "layout": layout, "method": method}
    attrs |= {"extrapolation_value": extrapolation_value, "out_dtype": out_dtype}
    result = crop_and_resize.result_type([data, boxes, box_indices], attrs)
    assert isinstance(result, TensorType)
    require_rank(grad, 4, 4, f"`grad` of `{_NAME}`")
    for axis, (a, b) in enumerate(zip(grad.shape, result.shape)):
        require_equal(a, b, f"axis {axis} of `grad` of `{_NAME}` and of what is cut out")
    return data


@crop_and_resize_grad.numpy
@like(crop_and_resize_grad.rule)
def _(grad: Array, data: Array, boxes: Array, box_indices: Array, **attrs: Any) -> Array:
    layout, way = crop_layout(attrs["layout"]), crop_way(attrs)
    total = total_of(dtype_of(data.dtype))
    x, g = (a.transpose(layout.places).astype(total.numpy) for a in (data, grad))
    size, result = sizes_of(attrs["crop_size"]), np.zeros_like(x)
    require_images(box_indices, len(x))
    for row, (box, image) in enumerate(zip(boxes, box_indices)):
        ends = [ARRAYS.cast(v.reshape(()), total) for v in np.array(box).reshape(4, 1)]
        axes = [Axis(x.shape[2 + k], size[k], way, ends[k], ends[k + 2]) for k in (0, 1)]
        whole = resize_gradient_array(g[row][None], x[int(image)][None], axes, (2, 3))
        result[int(image)] += whole[0]
    return np.asarray(result.transpose(layout.arranged((0, 1, 2, 3))).astype(grad.dtype))


@crop_and_resize_grad.compute
@like(crop_and_resize_grad.rule)
def _(grad: Tensor, data: Tensor, boxes: Tensor, box_indices: Tensor, **attrs: Any) -> Tensor:
    layout, way, size = crop_layout(attrs["layout"]), crop_way(attrs), attrs["crop_size"]
    total, shape = total_of(data.dtype), layout.canonical(data.shape)
    batch, channels, *extents = shape
    others = (batch, *extents)

    def spread(
        w: Writer, slope: ScalarExpr, taps: Sequence[Any], line: tuple[Any, Any], result: Memory
    ) -> None:
        inside = all_of(*(t.inside for t in taps if t.inside is not None))
        slope = w.let(te.select(inside, slope, 0.0))
        for choice in itertools.product(*(range(len(t.elements)) for t in taps)):
            held = [
                w.let(te.index(t.elements[k], extent, "clip"))
                for k, t, extent in zip(choice, taps, extents)
            ]
            weight = product_of([t.weights[k] for k, t in zip(choice, taps) if t.weights])
            at = layout.arranged((*line, *held))
            result[at] = result[at] + (slope if weight is None else slope * weight)

    def build(w: Writer, g: Memory, boxes: Memory, indices: Memory, result: Memory) -> None:
        parts = w.parts(channels, product(others))
        with parts as (channel, begin, end), w.loop(begin, end) as flat:
            n, *place = unflattened(flat, others)
            result[layout.arranged((n, channel, *place))] = 0.0
        numbers = (boxes.shape[0], *size)
        with w.walk_lines(channels, product(numbers), block=LONG_STEPS) as (channel, flat, _):
            row, *place = (w.let(v) for v in unflattened(flat, numbers))
            image = w.let(te.index(indices[row,], batch))
            ends = [w.let(te.cast(boxes[row, te.dim(k)], total)) for k in range(4)]
            taps = [
                Axis(extents[k], size[k], way, ends[k], ends[k + 2]).taps(SCALARS, place[k], total)
                for k in (0, 1)
            ]
            slope = te.cast(g[layout.arranged((row, channel, *place))], total)
            spread(w, slope, taps, (image, channel), result)

    work = dim_add(product(data.shape), dim_mul(product(grad.shape), 16))
    inputs = [grad, boxes, box_indices]
    (summed,) = te.program([(data.shape, total)], inputs, build, work, "crop_and_resize_grad")
    return te.compute(data.shape, lambda *i: te.cast(summed[i], grad.dtype), "crop_and_resize_grad")


@crop_and_resize_grad.reduction_size
@like(crop_and_resize_grad.rule)
def _(
    grad: TensorType, data: TensorType, boxes: TensorType, box_indices: TensorType, **attrs: Any
) -> Dim:
    return dim_mul(dim_mul(product(attrs["crop_size"]), boxes.shape[0]), 4)


OPERATORS = (crop_and_resize_grad,)
