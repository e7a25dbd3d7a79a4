"""Operators on images, by TVM's names."""

from __future__ import annotations

from typing import Any

import numpy as np

from relayvm.ir.expr import Call, Expr
from relayvm.relay.op.make import as_expr, call, folded, is_dynamic, spread
from relayvm.relay.op.make import padding as full_padding

Sizes = Any


def resize1d(
    data: Expr,
    size: Sizes,
    roi: Any = None,
    layout: str = "NCW",
    method: str = "linear",
    coordinate_transformation_mode: str = "half_pixel",
    rounding_method: str = "",
    cubic_alpha: float = -0.5,
    cubic_exclude: int = 0,
    extrapolation_value: float = 0.0,
    out_dtype: str | None = None,
) -> Call:
    """Return signals resampled to another length."""
    return call(
        "image.resize1d",
        data,
        size=spread(folded(size), 1),
        roi=_region(roi, 1),
        layout=layout,
        method=method,
        coordinate_transformation_mode=coordinate_transformation_mode,
        rounding_method=rounding_method,
        cubic_alpha=cubic_alpha,
        cubic_exclude=cubic_exclude,
        extrapolation_value=extrapolation_value,
        out_dtype=out_dtype,
    )


def resize2d(
    data: Expr,
    size: Sizes,
    roi: Any = None,
    layout: str = "NCHW",
    method: str = "linear",
    coordinate_transformation_mode: str = "half_pixel",
    rounding_method: str = "",
    cubic_alpha: float = -0.5,
    cubic_exclude: int = 0,
    extrapolation_value: float = 0.0,
    out_dtype: str | None = None,
) -> Call:
    """Return images resampled to another size; `size` and `roi` may be expressions."""
    size, roi = folded(size), folded(roi)
    rest = {
        "layout": layout,
        "method": method,
        "coordinate_transformation_mode": coordinate_transformation_mode,
        "rounding_method": rounding_method,
        "cubic_alpha": cubic_alpha,
        "cubic_exclude": cubic_exclude,
        "extrapolation_value": extrapolation_value,
        "out_dtype": out_dtype,
    }
    if is_dynamic(size, roi):
        region = as_expr(np.array(_region(roi, 2), np.float32) if not is_dynamic(roi) else roi)
        wanted = as_expr(size if is_dynamic(size) else spread(size, 2), None)
        return call("dyn.image.resize2d", data, wanted, region, **rest)
    return call("image.resize2d", data, size=spread(size, 2), roi=_region(roi, 2), **rest)


def resize3d(
    data: Expr,
    size: Sizes,
    roi: Any = None,
    layout: str = "NCDHW",
    method: str = "linear",
    coordinate_transformation_mode: str = "half_pixel",
    rounding_method: str = "",
    cubic_alpha: float = -0.5,
    cubic_exclude: int = 0,
    extrapolation_value: float = 0.0,
    out_dtype: str | None = None,
) -> Call:
    """Return volumes resampled to another size."""
    return call(
        "image.resize3d",
        data,
        size=spread(folded(size), 3),
        roi=_region(roi, 3),
        layout=layout,
        method=method,
        coordinate_transformation_mode=coordinate_transformation_mode,
        rounding_method=rounding_method,
        cubic_alpha=cubic_alpha,
        cubic_exclude=cubic_exclude,
        extrapolation_value=extrapolation_value,
        out_dtype=out_dtype,
    )


def _region(roi: Any, axes: int) -> Any:
    """Return the region that is resampled: begins, then ends; zeros where none is given."""
    return (0.0,) * (2 * axes) if roi is None else folded(roi)


def crop_and_resize(
    data: Expr,
    boxes: Expr,
    box_indices: Expr,
    crop_size: Sizes,
    layout: str,
    method: str = "bilinear",
    extrapolation_value: float = 0,
    out_dtype: str | None = None,
) -> Call:
    """Return boxes cut out of images, each resampled to one size."""
    return call(
        "image.crop_and_resize",
        data,
        boxes,
        box_indices,
        crop_size=crop_size,
        layout=layout,
        method=method,
        extrapolation_value=extrapolation_value,
        out_dtype=out_dtype,
    )


def dilation2d(
    data: Expr,
    weight: Expr,
    strides: Sizes = (1, 1),
    padding: Sizes = (0, 0),
    dilations: Sizes = (1, 1),
    data_layout: str = "NCHW",
    kernel_layout: str = "IHW",
    out_dtype: str = "",
) -> Call:
    """Return the greatest sum of elements and weights in each window."""
    return call(
        "image.dilation2d",
        data,
        weight,
        strides=spread(strides, 2),
        padding=full_padding(padding, 2),
        dilations=spread(dilations, 2),
        data_layout=data_layout,
        kernel_layout=kernel_layout,
        out_dtype=out_dtype,
    )


def affine_grid(data: Expr, target_shape: Sizes = None) -> Call:
    """Return the places that affine maps give to the points of a regular grid."""
    return call("image.affine_grid", data, target_shape=folded(target_shape))


def grid_sample(
    data: Expr,
    grid: Expr,
    method: str = "bilinear",
    layout: str = "NCHW",
    padding_mode: str = "zeros",
    align_corners: bool = True,
) -> Call:
    """Return images sampled at the places of a grid."""
    return call(
        "image.grid_sample",
        data,
        grid,
        method=method,
        layout=layout,
        padding_mode=padding_mode,
        align_corners=align_corners,
    )
