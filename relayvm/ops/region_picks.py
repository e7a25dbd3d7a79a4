"""What other images have where the greatest elements of regions are: the second gradients of
regions by their maxima.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from relayvm.base.dims import dim_mul
from relayvm.base.dtypes import INT64, dtype_of
from relayvm.base.shapes import require_equal
from relayvm.ir.types import TensorType
from relayvm.kernels import compute as te
from relayvm.kernels.compute import ScalarExpr, Tensor
from relayvm.kernels.schedules.program import Memory, Writer
from relayvm.ops.axes import product, require_rank
from relayvm.ops.loads import wide
from relayvm.ops.numeric import Array
from relayvm.ops.operator import Fusion, Operator, operator
from relayvm.ops.regions import batch_array, region_layout, roi_align, roi_pool, sampled_array
from relayvm.ops.regions_grads import (
    Part,
    Samples,
    array_sides,
    array_window,
    first_of_greatest,
    greatest_element,
)
from relayvm.ops.reshaping import unflattened
from relayvm.ops.schema import Float, Ints, SameDtype, like

_ALIGN, _POOL = "vision.roi_align_pick", "vision.roi_pool_pick"


def _type(
    name: str,
    forward: Operator,
    values: TensorType,
    data: TensorType,
    rois: TensorType,
    attrs: Any,
) -> TensorType:
    result = forward.result_type([data, rois], attrs)
    assert isinstance(result, TensorType)
    require_rank(values, 4, 4, f"`values` of `{name}`")
    for axis, (a, b) in enumerate(zip(values.shape, data.shape)):
        require_equal(a, b, f"axis {axis} of `values` and of `data` of `{name}`")
    return result


def _by_arrays(
    name: str,
    operands: tuple[Array, Array, Array],
    attrs: Any,
    pick: Callable[[Array, Array, Any, Any], Array | None],
) -> Array:
    """Return what `pick` finds in [channels, rows, columns] of values and data, for each part."""
    values, data, rois = operands
    layout, kind = region_layout(name, attrs["layout"]), wide(dtype_of(data.dtype))
    v, x = (a.transpose(layout.places).astype(kind.numpy) for a in (values, data))
    result = np.zeros((len(rois), x.shape[1], *attrs["pooled_size"]), kind.numpy)
    images = batch_array(rois, x.shape[0])
    for region, row in enumerate(rois.astype(kind.numpy)):
        ends = [np.array(end) for end in row[1:]]
        for part in np.ndindex(*attrs["pooled_size"]):
            found = pick(v[images[region]], x[images[region]], ends, part)
            if found is not None:
                result[region, :, part[0], part[1]] = found
    return np.asarray(result.astype(data.dtype).transpose(layout.arranged((0, 1, 2, 3))))


def _by_parts(
    name: str,
    operands: tuple[Tensor, Tensor, Tensor],
    attrs: Any,
    steps: int,
    pick: Callable[[Writer, Memory, Memory, Part], ScalarExpr],
) -> Tensor:
    """Return what `pick` gives for each part of the regions, which takes so many `steps`."""
    values, data, rois = operands
    layout, kind = region_layout(name, attrs["layout"]), wide(data.dtype)
    batch, channels, *_ = layout.canonical(data.shape)
    shape = (rois.shape[0], channels, *attrs["pooled_size"])

    def build(w: Writer, v: Memory, x: Memory, rois: Memory, result: Memory) -> None:
        with w.phase(product(shape)) as flat:
            region, channel, *numbers = (w.let(i) for i in unflattened(flat, shape))
            image = w.let(te.index(te.cast(rois[region, te.dim(0)], INT64), batch))
            ends = tuple(te.cast(rois[region, te.dim(k)], kind) for k in range(1, 5))
            place = tuple(layout.arranged((region, channel, *numbers)))
            found = pick(w, v, x, Part(place, tuple(numbers), image, channel, ends))
            result[place] = te.cast(found, data.dtype)

    kinds, label = [(layout.arranged(shape), data.dtype)], name.rpartition(".")[2]
    work = dim_mul(product(shape), steps)
    return te.program(kinds, [values, data, rois], build, work, label)[0]


@operator(_ALIGN, fusion=Fusion.OPAQUE, ulp=8, value_traps=True)
def roi_align_pick(
    values: Float,
    data: SameDtype,
    rois: SameDtype,
    *,
    pooled_size: Ints,
    spatial_scale: float,
    sample_ratio: int = -1,
    layout: str = "NCHW",
) -> TensorType:
    """What `values` have at the first of the greatest samples of each part of `vision.roi_align` of
    `data`.

    >>> %v = float32 [[[[5, 6], [7, 8]]]]
    >>> %x = float32 [[[[1, 2], [3, 4]]]]
    >>> %r = float32 [[0, 0, 0, 1, 1]]
    >>> vision.roi_align_pick(%v, %x, %r, pooled_size=[1, 1], spatial_scale=1f)
    [[[[6.5]]]]
    """
    attrs = {"pooled_size": pooled_size, "spatial_scale": spatial_scale, "mode": "max"}
    given = {**attrs, "sample_ratio": sample_ratio, "layout": layout}
    return _type(_ALIGN, roi_align, values, data, rois, given)


@roi_align_pick.numpy
@like(roi_align_pick.rule)
def _(values: Array, data: Array, rois: Array, **attrs: Any) -> Array:
    kind = wide(dtype_of(data.dtype))

    def pick(v: Array, x: Array, ends: Any, part: Any) -> Array:
        sides = array_sides(ends, part, x.shape[1:], attrs, kind)
        of_v, of_x = (
            sampled_array(a, sides, (a.shape[1], a.shape[2])).reshape(len(a), -1) for a in (v, x)
        )
        return np.asarray(of_v[np.arange(len(v)), first_of_greatest(of_x)])

    return _by_arrays(_ALIGN, (values, data, rois), attrs, pick)


@roi_align_pick.compute
@like(roi_align_pick.rule)
def _(values: Tensor, data: Tensor, rois: Tensor, **attrs: Any) -> Tensor:
    layout, kind = region_layout(_ALIGN, attrs["layout"]), wide(data.dtype)
    _, _, *size = layout.canonical(data.shape)

    def pick(w: Writer, v: Memory, x: Memory, part: Part) -> ScalarExpr:
        samples = Samples(w, part, layout, (size[0], size[1]), attrs, kind)
        value: ScalarExpr = samples.value(v, *samples.first_of_greatest(x))
        return value

    return _by_parts(_ALIGN, (values, data, rois), attrs, 64, pick)


@operator(_POOL, fusion=Fusion.OPAQUE, value_traps=True)
def roi_pool_pick(
    values: Float,
    data: SameDtype,
    rois: SameDtype,
    *,
    pooled_size: Ints,
    spatial_scale: float,
    layout: str = "NCHW",
) -> TensorType:
    """What `values` have at the first of the greatest elements of each part of `vision.roi_pool` of
    `data`; 0 for a part without elements.

    >>> %v = float32 [[[[5, 6], [7, 8]]]]
    >>> %x = float32 [[[[1, 2], [3, 4]]]]
    >>> %r = float32 [[0, 0, 0, 1, 1]]
    >>> vision.roi_pool_pick(%v, %x, %r, pooled_size=[1, 2], spatial_scale=1f)
    [[[[7, 8]]]]
    """
    attrs = {"pooled_size": pooled_size, "spatial_scale": spatial_scale, "layout": layout}
    return _type(_POOL, roi_pool, values, data, rois, attrs)


@roi_pool_pick.numpy
@like(roi_pool_pick.rule)
def _(values: Array, data: Array, rois: Array, **attrs: Any) -> Array:
    kind = wide(dtype_of(data.dtype))

    def pick(v: Array, x: Array, ends: Any, part: Any) -> Array | None:
        rows, columns = array_window(ends, part, x.shape[1:], attrs, kind)
        of_v, of_x = (a[:, rows, columns] for a in (v, x))
        if not (of_x.shape[1] and of_x.shape[2]):
            return None
        at = first_of_greatest(of_x.reshape(len(x), -1))
        return np.asarray(of_v.reshape(len(v), -1)[np.arange(len(v)), at])

    return _by_arrays(_POOL, (values, data, rois), attrs, pick)


@roi_pool_pick.compute
@like(roi_pool_pick.rule)
def _(values: Tensor, data: Tensor, rois: Tensor, **attrs: Any) -> Tensor:
    layout, kind = region_layout(_POOL, attrs["layout"]), wide(data.dtype)
    _, _, *size = layout.canonical(data.shape)

    def pick(w: Writer, v: Memory, x: Memory, part: Part) -> ScalarExpr:
        filled, at = greatest_element(w, x, part, layout, (size[0], size[1]), attrs)
        return te.select(filled, te.cast(v[at], kind), 0.0)

    return _by_parts(_POOL, (values, data, rois), attrs, 64, pick)


OPERATORS = (roi_align_pick, roi_pool_pick)
