"""Gradients of operators on images and their regions."""

from __future__ import annotations

import numpy as np

from relayvm.base.dtypes import INT64
from relayvm.ir.expr import Constant, Expr, Tuple, TupleGetItem
from relayvm.ops.creation import shape_of
from relayvm.ops.crop_grads import crop_and_resize_grad
from relayvm.ops.dilation import dilation2d
from relayvm.ops.dilation_grads import dilation2d_change, dilation2d_grad
from relayvm.ops.elementwise import cast
from relayvm.ops.gradient_elementwise import Gradients
from relayvm.ops.indexing import take
from relayvm.ops.movement import stack, transpose
from relayvm.ops.operator import GradientCall, Operator
from relayvm.ops.region_picks import roi_align_pick, roi_pool_pick
from relayvm.ops.regions import roi_align, roi_pool, yolo_reorg
from relayvm.ops.regions_grads import roi_align_grad, roi_pool_grad
from relayvm.ops.reshaping import reshape, reshape_like
from relayvm.ops.resizing import RESIZES, dyn_resize2d, dyn_resize2d_grad
from relayvm.ops.rows import multiply, sum_
from relayvm.ops.sampling import affine_grid, crop_and_resize, grid_sample
from relayvm.ops.sampling_grads import grid_sample_grad
from relayvm.ops.slicing import strided_slice


@yolo_reorg.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    # The way back of the elements: [n, p, q, c, rows, columns] -> [n, c, rows, p, columns, q].
    apart = reshape_like(g, call.data)
    apart = reshape(apart, newshape=(0, -4, call.stride, -1, -2))
    apart = reshape(apart, newshape=(0, 0, -4, call.stride, -1, -2))
    return (reshape_like(transpose(apart, axes=(0, 3, 4, 1, 5, 2)), call.data),)


# Regions are places to look at: they get no gradient, as in the frameworks that train with them.
@roi_align.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    return roi_align_grad(g, call.data, call.rois, **call.attrs), None


@roi_align_grad.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    # Both are linear in the slopes: which sample is the greatest changes by jumps.
    if call.mode == "avg":
        return roi_align(g, call.rois, **call.attrs), None, None
    attrs = {name: value for name, value in call.attrs.items() if name != "mode"}
    return roi_align_pick(g, call.data, call.rois, **attrs), None, None


@roi_align_pick.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    return roi_align_grad(g, call.data, call.rois, **call.attrs, mode="max"), None, None


@roi_pool.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    return roi_pool_grad(g, call.data, call.rois, **call.attrs), None


@roi_pool_grad.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    return roi_pool_pick(g, call.data, call.rois, **call.attrs), None, None


@roi_pool_pick.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    return roi_pool_grad(g, call.data, call.rois, **call.attrs), None, None


def _add_resize(forward: Operator, backward: Operator) -> None:
    @forward.gradient
    def _(call: GradientCall, g: Expr) -> Gradients:
        data = call.type_of("data")
        attrs = {**call.attrs, "out_dtype": None}
        return (backward(cast(g, dtype=data.dtype), call.data, **attrs),)

    @backward.gradient
    def _(call: GradientCall, g: Expr) -> Gradients:
        # Places outside the data have no gradient: what stands there must not be added.
        attrs = {**call.attrs, "extrapolation_value": 0.0, "out_dtype": None}
        return forward(g, **attrs), None


for _forward, _backward in RESIZES:
    _add_resize(_forward, _backward)


# Boxes are places to look at, too.
@crop_and_resize.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    attrs = {**call.attrs, "out_dtype": None}
    slope = cast(g, dtype=call.type_of("data").dtype)
    return crop_and_resize_grad(slope, *call.args, **attrs), None, None


@crop_and_resize_grad.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    attrs = {**call.attrs, "extrapolation_value": 0.0, "out_dtype": None}
    return crop_and_resize(g, call.boxes, call.box_indices, **attrs), None, None, None


@dilation2d.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    slope = cast(g, dtype=call.type_of("data").dtype)
    both = dilation2d_grad(slope, *call.args, **{**call.attrs, "out_dtype": None})
    return TupleGetItem(both, 0), TupleGetItem(both, 1)


@dilation2d_grad.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    # Both are linear in the slopes: which sums are the greatest changes by jumps.
    attrs = {name: value for name, value in call.attrs.items() if name != "out_dtype"}
    changes = TupleGetItem(g, 0), TupleGetItem(g, 1)
    return dilation2d_change(*changes, call.data, call.weight, **attrs), None, None


@dilation2d_change.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    both = dilation2d_grad(g, call.data, call.weight, **call.attrs)
    return TupleGetItem(both, 0), TupleGetItem(both, 1), None, None


@dyn_resize2d.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    attrs = {**call.attrs, "out_dtype": None}
    of_data = cast(g, dtype=call.type_of("data").dtype)
    return dyn_resize2d_grad(of_data, call.data, call.roi, **attrs), None, None


@dyn_resize2d_grad.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    attrs = {**call.attrs, "extrapolation_value": 0.0, "out_dtype": None}
    places = Constant(np.array([call.layout.index(a) for a in "HW"], np.int64))
    size = take(shape_of(call.grad, dtype=INT64), places, axis=0)
    return dyn_resize2d(g, size, call.roi, **attrs), None, None


@affine_grid.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    # With points p: the slope of column k is the sum of g * p[k], that of the last the sum of g.
    count, dtype = len(call.target_shape), call.type_of("data").dtype
    unit = Constant(np.eye(count, count + 1, dtype=dtype.numpy)[None])
    points = affine_grid(unit, target_shape=call.target_shape)
    space = tuple(range(2, 2 + count))
    columns: list[Expr] = []
    for k in range(count):
        point = strided_slice(points, begin=(k,), end=(k + 1,), axes=(1,))
        columns.append(sum_(multiply(g, point), axis=space))
    return (stack(Tuple((*columns, sum_(g, axis=space))), axis=2),)


@grid_sample.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    grid, dtype = call.grid, call.type_of("data").dtype
    both = grid_sample_grad(g, call.data, cast(grid, dtype=dtype), **call.attrs)
    of_grid = cast(TupleGetItem(both, 1), dtype=call.type_of("grid").dtype)
    return TupleGetItem(both, 0), of_grid
