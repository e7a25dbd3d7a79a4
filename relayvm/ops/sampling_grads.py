"""The gradients of values sampled at the places of a grid, by the image and by the grid."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from relayvm.base.dims import Dim, dim_mul
from relayvm.base.dtypes import DType, dtype_of
from relayvm.base.shapes import require_equal
from relayvm.ir.types import TensorType, TupleType
from relayvm.kernels import compute as te
from relayvm.kernels.compute import ScalarExpr, Tensor
from relayvm.kernels.schedules.program import LONG_STEPS, Memory, Writer
from relayvm.ops.axes import product, require_rank
from relayvm.ops.dynamic import all_of
from relayvm.ops.formulas import ARRAYS, SCALARS
from relayvm.ops.numeric import Array
from relayvm.ops.operator import Fusion, operator
from relayvm.ops.resampling import total_of
from relayvm.ops.reshaping import unflattened
from relayvm.ops.sampling import GridAxis, grid_sample, product_of
from relayvm.ops.schema import Float, SameDtype, like

_NAME = "image.grid_sample_grad"


@operator(_NAME, fusion=Fusion.OPAQUE, ulp=16)
def grid_sample_grad(
    grad: Float,
    data: SameDtype,
    grid: SameDtype,
    *,
    method: str = "bilinear",
    layout: str = "NCHW",
    padding_mode: str = "zeros",
    align_corners: bool = True,
) -> TupleType:
    """For each element of `data` the sum of `grad` times its weights in `image.grid_sample`, and
    for each coordinate of `grid` the sum of `grad` times how what is sampled changes with it.

    >>> %d = float32 [[[[1, 10]]]]
    >>> %x = float32 [[[[1, 3]]]]
    >>> %g = float32 [[[[0, 0.5]], [[0, 0]]]]
    >>> image.grid_sample_grad(%d, %x, %g).0
    [[[[3, 8]]]]
    """
    attrs = {"method": method, "layout": layout, "padding_mode": padding_mode}
    given = {**attrs, "align_corners": align_corners}
    result = grid_sample.result_type([data, grid], given)
    assert isinstance(result, TensorType)
    require_rank(grad, data.rank, data.rank, f"`grad` of `{_NAME}`")
    for axis, (a, b) in enumerate(zip(grad.shape, result.shape)):
        require_equal(a, b, f"axis {axis} of `grad` of `{_NAME}` and of what is sampled")
    return TupleType((TensorType(data.shape, grad.dtype), TensorType(grid.shape, grad.dtype)))


Taps = tuple[list[Any], list[Any], list[Any]]


def _choices(taps: Sequence[Taps]) -> Any:
    return itertools.product(*(range(len(elements)) for elements, _, _ in taps))


def _weight(taps: Sequence[Taps], choice: Any) -> Any:
    return product_of([weights[k] for k, (_, weights, _) in zip(choice, taps) if weights])


def _slope(taps: Sequence[Taps], choice: Any, axis: int) -> Any:
    """Return how the weight of a choice changes with the coordinate of one axis."""
    return product_of(
        [
            slopes[k] if number == axis else weights[k]
            for number, (k, (_, weights, slopes)) in enumerate(zip(choice, taps))
        ]
    )


# -- numpy ----------------------------------------------------------------------------------------


@grid_sample_grad.numpy
@like(grid_sample_grad.rule)
def _(grad: Array, data: Array, grid: Array, **attrs: Any) -> tuple[Array, Array]:
    total = total_of(dtype_of(data.dtype))
    g, x, at = (a.astype(total.numpy) for a in (grad, data, grid))
    sizes, count = data.shape[2:], data.ndim - 2
    taps = [_taps_of(at[:, count - 1 - k], n, total, attrs) for k, n in enumerate(sizes)]
    batch = np.arange(len(data)).reshape(-1, *(1,) * (count + 1))
    channel = np.arange(data.shape[1]).reshape(1, -1, *(1,) * count)
    of_data, changes = np.zeros_like(x), [np.zeros_like(g) for _ in sizes]
    for choice in _choices(taps) if 0 not in sizes else ():
        places = [elements[k] for k, (elements, _, _) in zip(choice, taps)]
        inside = np.logical_and.reduce([(v >= 0) & (v < n) for v, n in zip(places, sizes)])
        inside = inside[:, None]
        whole = (batch, channel) + tuple(
            np.clip(v, 0, n - 1)[:, None] for v, n in zip(places, sizes)
        )
        weight = _weight(taps, choice)
        part = g if weight is None else g * weight[:, None]
        np.add.at(of_data, whole, np.where(inside, part, total.numpy.type(0)))
        if attrs["method"] != "nearest":
            value = np.where(inside, x[whole], total.numpy.type(0))
            for k in range(count):
                changes[k] = changes[k] + value * _slope(taps, choice, k)[:, None]
    of_grid = np.stack([(g * change).sum(1) for change in reversed(changes)], 1)
    if attrs["method"] == "nearest":
        of_grid = np.zeros_like(at)
    return of_data.astype(grad.dtype), of_grid.astype(grad.dtype)


def _taps_of(x: Any, size: Dim, dtype: DType, attrs: Any) -> Taps:
    reading = ARRAYS if isinstance(x, np.ndarray) else SCALARS
    axis = GridAxis(reading, size, dtype, attrs)
    return (*axis.taps(x), axis.slopes(x))


# -- Loops ----------------------------------------------------------------------------------------


def _held(taps: Sequence[Taps], choice: Any, sizes: Sequence[Dim]) -> tuple[ScalarExpr, Any]:
    """Return whether a choice of elements lies in the data, and where, moved inside."""
    places = [elements[k] for k, (elements, _, _) in zip(choice, taps)]
    inside = all_of(*(te.in_range(v, size) for v, size in zip(places, sizes)))
    return inside, tuple(te.index(v, size, "clip") for v, size in zip(places, sizes))


def _of_data(grad: Tensor, data: Tensor, grid: Tensor, total: DType, attrs: Any) -> Tensor:
    sizes, lines, places = data.shape[2:], data.shape[:2], grid.shape[2:]
    count = len(sizes)

    def build(w: Writer, g: Memory, grid: Memory, result: Memory) -> None:
        parts = w.parts(product(lines), product(sizes))
        with parts as (line, begin, end), w.loop(begin, end) as flat:
            result[unflattened(line, lines) + unflattened(flat, sizes)] = 0.0
        with w.walk_lines(product(lines), product(places), block=LONG_STEPS) as (line, flat, _):
            n, c = (w.let(v) for v in unflattened(line, lines))
            at = tuple(w.let(v) for v in unflattened(flat, places))
            slope = w.let(te.cast(g[(n, c) + at], total))
            taps = []
            for k, size in enumerate(sizes):
                x = te.cast(grid[(n, te.dim(count - 1 - k)) + at], total)
                taps.append(_taps_of(x, size, total, attrs))
            for choice in _choices(taps):
                inside, held = _held(taps, choice, sizes)
                weight = _weight(taps, choice)
                part = slope if weight is None else slope * weight
                whole = (n, c) + tuple(w.let(v) for v in held)
                result[whole] = result[whole] + te.select(inside, part, 0.0)

    work = dim_mul(product(grad.shape), 16)
    return te.program([(data.shape, total)], [grad, grid], build, work, "grid_sample_grad")[0]


def _of_grid(grad: Tensor, data: Tensor, grid: Tensor, total: DType, attrs: Any) -> Tensor:
    sizes, count = data.shape[2:], data.rank - 2

    def element(n: ScalarExpr, which: ScalarExpr, *at: ScalarExpr) -> ScalarExpr:
        taps = []
        for k, size in enumerate(sizes):
            x = te.cast(grid[(n, te.dim(count - 1 - k)) + at], total)
            taps.append(_taps_of(x, size, total, attrs))

        def term(c: ScalarExpr) -> ScalarExpr:
            changes: list[ScalarExpr] = [te.const(0.0, total)] * count
            for choice in _choices(taps):
                inside, held = _held(taps, choice, sizes)
                value = te.select(inside, te.cast(data[(n, c) + held], total), 0.0)
                for k in range(count):
                    changes[k] = changes[k] + value * _slope(taps, choice, k)
            chosen = changes[0]
            for k in range(1, count):
                chosen = te.select(which.equal(count - 1 - k), changes[k], chosen)
            return te.cast(grad[(n, c) + at], total) * chosen

        return te.cast(te.reduce("sum", (data.shape[1],), term), grad.dtype)

    return te.compute(grid.shape, element, "grid_grad")


@grid_sample_grad.compute
@like(grid_sample_grad.rule)
def _(grad: Tensor, data: Tensor, grid: Tensor, **attrs: Any) -> tuple[Tensor, Tensor]:
    total, dtype = total_of(data.dtype), grad.dtype
    wide = _of_data(grad, data, grid, total, attrs)
    of_data = te.compute(data.shape, lambda *i: te.cast(wide[i], dtype), "data_grad")
    if attrs["method"] == "nearest":
        zeros = te.compute(grid.shape, lambda *i: te.const(0.0, dtype), "grid_grad")
        return of_data, zeros
    return of_data, _of_grid(grad, data, grid, total, attrs)


@grid_sample_grad.reduction_size
@like(grid_sample_grad.rule)
def _(grad: TensorType, data: TensorType, grid: TensorType, **attrs: Any) -> Dim:
    return dim_mul(product(grad.shape), 16)


OPERATORS = (grid_sample_grad,)
