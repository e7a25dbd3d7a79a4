"""Morphological dilation: the greatest sum of elements and weights in each window."""

from __future__ import annotations

from typing import Any

import numpy as np

from relayvm.base.dtypes import DType, dtype_of
from relayvm.base.shapes import require_equal
from relayvm.ir.types import TensorType
from relayvm.kernels import compute as te
from relayvm.kernels.compute import ScalarExpr, Tensor
from relayvm.ops import numeric
from relayvm.ops.axes import require_rank, sizes_of
from relayvm.ops.layouts import Layout, data_layout, read_layout
from relayvm.ops.numeric import Array
from relayvm.ops.operator import Fusion, operator
from relayvm.ops.schema import Dims, Ints, Numeric, SameDtype, like, number_dtype
from relayvm.ops.windows import Window, both, read_window

_NAME = "image.dilation2d"


def dilation_plan(attrs: Any) -> tuple[Window, Layout, Layout]:
    """Return the window, and the layouts of data and weight."""
    window = read_window(_NAME, 2, attrs["strides"], attrs["padding"], attrs["dilations"])
    data = data_layout(attrs["data_layout"], 2, f"`data_layout` of `{_NAME}`")
    weight = read_layout(attrs["kernel_layout"], "IHW", f"`kernel_layout` of `{_NAME}`")
    return window, data, weight


def dilation_sizes(window: Window, x: Dims, w: Dims) -> Dims:
    """Return the sizes of the result for canonical shapes of data and weight."""
    what = f"the result of `{_NAME}`"
    return tuple(window.result(k, x[2 + k], w[1 + k], what) for k in (0, 1))


@operator(_NAME, fusion=Fusion.REDUCTION)
def dilation2d(
    data: Numeric,
    weight: SameDtype,
    *,
    strides: Ints = (1, 1),
    padding: Ints = (0, 0),
    dilations: Ints = (1, 1),
    data_layout: str = "NCHW",
    kernel_layout: str = "IHW",
    out_dtype: DType | None = None,
) -> TensorType:
    """The greatest sum of element and weight in each window of each channel of images; the padding
    is never the greatest.

    >>> %x = float32 [[[[1, 5, 2]]]]
    >>> %w = float32 [[[0, 4]]]
    >>> image.dilation2d(%x, %w)
    [[[[9, 6]]]]
    """
    window, layout, kernel = dilation_plan(locals())
    require_rank(data, 4, 4, f"`data` of `{_NAME}`")
    require_rank(weight, 3, 3, f"`weight` of `{_NAME}`")
    x, w = layout.canonical(data.shape), kernel.canonical(weight.shape)
    require_equal(x[1], w[0], f"channels of `data` and `weight` of `{_NAME}`")
    shape = layout.arranged((x[0], x[1], *dilation_sizes(window, x, w)))
    return TensorType(shape, number_dtype(_NAME, out_dtype, data.dtype))


def _least(dtype: DType) -> float:
    return float("-inf") if dtype.is_float else dtype.min


@dilation2d.numpy
@like(dilation2d.rule)
def _(data: Array, weight: Array, **attrs: Any) -> Array:
    window, layout, kernel = dilation_plan(attrs)
    dtype = dtype_of(data.dtype)
    x, w = data.transpose(layout.places), weight.transpose(kernel.places)
    sizes = sizes_of(dilation_sizes(window, x.shape, w.shape))
    padded = window.padded(x, 0)
    inside = window.padded(np.ones((1, 1, *x.shape[2:]), bool), False)
    least = np.array(_least(dtype), dtype.numpy)
    result = np.full((*x.shape[:2], *sizes), least)
    for tap, places in window.taps(w.shape[1:], sizes):
        window_of = (slice(None), slice(None)) + places
        term = padded[window_of] + w[:, tap[0], tap[1]][:, None, None]
        result = np.maximum(result, np.where(inside[window_of], term, least))
    result = numeric.cast(result, attrs["out_dtype"] or dtype)
    return np.asarray(result.transpose(layout.arranged((0, 1, 2, 3))))


@dilation2d.compute
@like(dilation2d.rule)
def _(data: Tensor, weight: Tensor, **attrs: Any) -> Tensor:
    window, layout, kernel = dilation_plan(attrs)
    x, w = layout.canonical(data.shape), kernel.canonical(weight.shape)
    dtype = data.dtype

    def element(*i: ScalarExpr) -> ScalarExpr:
        n, c, *place = layout.canonical(i)

        def term(*tap: ScalarExpr) -> ScalarExpr:
            inside, at = None, []
            for k in (0, 1):
                source = window.place(k, place[k], tap[k])
                if not window.is_inside(k):
                    inside = both(inside, te.in_range(source, x[2 + k]))
                at.append(source)
            value = data[layout.arranged((n, c, *at))] + weight[kernel.arranged((c, *tap))]
            return value if inside is None else te.select(inside, value, _least(dtype))

        return te.cast(te.reduce("max", w[1:], term), attrs["out_dtype"] or dtype)

    shape = layout.arranged((x[0], x[1], *dilation_sizes(window, x, w)))
    return te.compute(shape, element, "dilation2d")


OPERATORS = (dilation2d,)
