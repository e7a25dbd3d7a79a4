"""Maxima and means over windows, and what they give back to the data: in numpy and in loops."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from relayvm.base.dims import Dim
from relayvm.base.dtypes import INT32, DType, dtype_of, number_of
from relayvm.kernels import compute as te
from relayvm.kernels.compute import ScalarExpr, Tensor
from relayvm.ops import numeric
from relayvm.ops.axes import sizes_of
from relayvm.ops.loads import Index, load_wide, wide
from relayvm.ops.numeric import Array
from relayvm.ops.pooling_axes import Adaptive, Axis
from relayvm.ops.windows import both

Axes = Sequence[Axis]


def least(dtype: DType) -> Any:
    """Return the maximum of no elements."""
    return dtype.array(-np.inf if dtype.is_float else dtype.min)[()]


# -- numpy ----------------------------------------------------------------------------------------


def _spots(axes: Axes) -> list[Array]:
    """Return [window, tap] the element on each axis, one behind the last where there is none."""
    spots = []
    for axis in axes:
        places, inside = axis.places()
        (size,) = sizes_of((axis.size,))
        spots.append(np.where(inside, places, size))
    return spots


def _in_space(data: Array, at: Sequence[int]) -> Array:
    """Return a view with the axes of space last."""
    return np.moveaxis(data, at, range(-len(at), 0))


def _taps(spots: list[Array]) -> Iterator[tuple[Any, ...]]:
    """Yield, for each tap, the index of the last axes with which all windows read it."""
    for tap in itertools.product(*(range(s.shape[1]) for s in spots)):
        yield (Ellipsis, *np.ix_(*(s[:, t] for s, t in zip(spots, tap))))


def _covered(data: Array, at: Sequence[int], axes: Axes, fill: Any) -> Array:
    """Return [tap, ..., windows] the elements that windows cover, `fill` where there is none."""
    space = _in_space(data, at)
    padded = np.pad(
        space, [(0, 0)] * (data.ndim - len(at)) + [(0, 1)] * len(at), constant_values=fill
    )
    spots = _spots(axes)
    parts = [padded[index] for index in _taps(spots)]
    if parts:
        return np.stack(parts)
    results = [s.shape[0] for s in spots]
    return np.empty((0, *space.shape[: space.ndim - len(at)], *results), data.dtype)


def _outside(result: Array, at: Sequence[int]) -> Array:
    return np.moveaxis(result, range(-len(at), 0), at)


def max_array(data: Array, at: Sequence[int], axes: Axes) -> Array:
    """Return the greatest element of each window; NaN if there is one."""
    low = least(dtype_of(data.dtype))
    return _outside(np.max(_covered(data, at, axes, low), axis=0, initial=low), at)


def _counts(axes: Axes) -> Array:
    """Return [windows] what means divide by, at least 1."""
    total = np.ones((), np.int64)
    for axis in axes:
        total = total[..., None] * axis.counts()
    return np.maximum(total, 1)


def _quotient(total: Array, axes: Axes) -> Array:
    count = _counts(axes).astype(total.dtype)
    if total.dtype.kind == "f":
        return np.asarray(total / count)
    return numeric.divide(total, np.broadcast_to(count, total.shape))


def mean_array(data: Array, at: Sequence[int], axes: Axes) -> Array:
    """Return the mean of each window; of integers rounded toward zero."""
    wider = data.astype(wide(dtype_of(data.dtype)).numpy)
    total = np.sum(_covered(wider, at, axes, 0), axis=0, dtype=wider.dtype)
    return _outside(_quotient(total, axes), at).astype(data.dtype)


def _given_back(data: Array, at: Sequence[int], axes: Axes, parts: Callable[[int], Array]) -> Array:
    """Return sums in the shape of `data` of what `parts(number)` has for each tap of windows."""
    space = _in_space(data, at)
    kept = space.ndim - len(at)
    shape = [*space.shape[:kept], *(n + 1 for n in space.shape[kept:])]
    total: Array | None = None
    for number, index in enumerate(_taps(_spots(axes))):
        part = parts(number)
        if total is None:
            total = np.zeros(shape, part.dtype)
        np.add.at(total, index, part)
    if total is None:
        return np.zeros(data.shape, parts(0).dtype)
    inside: Any = (Ellipsis, *(slice(0, n) for n in space.shape[kept:]))
    return _outside(total[inside], at)


def max_gradient_array(grad: Array, data: Array, at: Sequence[int], axes: Axes) -> Array:
    """Return `grad` summed at the first greatest element of each window."""
    low = least(dtype_of(data.dtype))
    covered = _covered(data, at, axes, low)
    first = np.argmax(covered, axis=0) if covered.shape[0] else np.zeros(covered.shape[1:], int)
    g = _in_space(grad, at).astype(wide(dtype_of(grad.dtype)).numpy)
    zero = g.dtype.type(0)
    result = _given_back(data, at, axes, lambda number: np.where(first == number, g, zero))
    return result.astype(grad.dtype)


def picked_array(values: Array, data: Array, at: Sequence[int], axes: Axes) -> Array:
    """Return the element of `values` where each window of `data` has its first greatest one."""
    covered = _covered(data, at, axes, least(dtype_of(data.dtype)))
    if not covered.shape[0]:
        return _outside(np.zeros(covered.shape[1:], values.dtype), at)
    first = np.argmax(covered, axis=0)
    found = np.take_along_axis(_covered(values, at, axes, 0), first[None], axis=0)
    return _outside(found[0], at)


def mean_gradient_array(grad: Array, data: Array, at: Sequence[int], axes: Axes) -> Array:
    """Return for each element of `data` the sum of its shares of `grad`."""
    g = _in_space(grad, at).astype(wide(dtype_of(grad.dtype)).numpy)
    share = _quotient(g, axes)
    return _given_back(data, at, axes, lambda number: share).astype(grad.dtype)


# -- Loops ----------------------------------------------------------------------------------------


def _replaced(index: Index, at: Sequence[int], values: Sequence[ScalarExpr]) -> Index:
    chosen = dict(zip(at, values))
    return tuple(chosen.get(k, v) for k, v in enumerate(index))


def _element(
    data: Tensor, at: Sequence[int], axes: Axes, i: Index, taps: Index, fill: Any
) -> ScalarExpr:
    """Return what taps of a window cover, `fill` where there is nothing."""
    inside: ScalarExpr | None = None
    places = []
    for axis, a, tap in zip(axes, at, taps):
        place, exists = axis.place(i[a], tap)
        places.append(place)
        inside = inside if exists is None else both(inside, exists)
    value = load_wide(data, _replaced(i, at, places))
    return value if inside is None else te.select(inside, value, fill)


def _result_shape(data: Tensor, at: Sequence[int], axes: Axes) -> tuple[Dim, ...]:
    sizes = dict(zip(at, (axis.result for axis in axes)))
    return tuple(sizes.get(k, d) for k, d in enumerate(data.shape))


def _extents(axes: Axes) -> tuple[Dim, ...]:
    return tuple(axis.taps for axis in axes)


def _are_uneven(axes: Axes) -> bool:
    """Return whether windows of several lengths run along two axes: lanes cannot read a line of
    them, so that it is better to have their rows as one before.
    """
    return sum(isinstance(axis, Adaptive) for axis in axes) > 1


def max_tensor(data: Tensor, at: Sequence[int], axes: Axes) -> Tensor:
    """Return the loop-level maxima."""
    if _are_uneven(axes):
        rows = max_tensor(data, at[:-1], axes[:-1])
        return max_tensor(rows, at[-1:], axes[-1:])
    low = number_of(least(data.dtype))

    def element(*i: ScalarExpr) -> ScalarExpr:
        greatest = te.reduce("max", _extents(axes), lambda *r: _element(data, at, axes, i, r, low))
        return te.cast(greatest, data.dtype)

    return te.compute(_result_shape(data, at, axes), element, "max_pool")


def _divided(value: ScalarExpr, axes: Axes, windows: Sequence[ScalarExpr]) -> ScalarExpr:
    count: ScalarExpr = te.dim(1)
    for axis, window in zip(axes, windows):
        count = count * axis.count(window)
    return te.scalar("divide", value, te.cast(te.scalar("maximum", count, te.dim(1)), value.dtype))


def mean_tensor(data: Tensor, at: Sequence[int], axes: Axes) -> Tensor:
    """Return the loop-level means."""
    summed, places, windows = data, at, axes
    if _are_uneven(axes):
        summed = _sum_tensor(data, at[:-1], axes[:-1])
        places, windows = at[-1:], axes[-1:]
    total = _sum_of(summed, places, windows)

    def element(*i: ScalarExpr) -> ScalarExpr:
        return te.cast(_divided(total(*i), axes, [i[a] for a in at]), data.dtype)

    return te.compute(_result_shape(summed, places, windows), element, "avg_pool")


def _sum_tensor(data: Tensor, at: Sequence[int], axes: Axes) -> Tensor:
    """Return the sum of each window, in the dtype of sums."""
    if _are_uneven(axes):
        return _sum_tensor(_sum_tensor(data, at[:-1], axes[:-1]), at[-1:], axes[-1:])
    return te.compute(_result_shape(data, at, axes), _sum_of(data, at, axes), "sums")


def _sum_of(data: Tensor, at: Sequence[int], axes: Axes) -> Callable[..., ScalarExpr]:
    def element(*i: ScalarExpr) -> ScalarExpr:
        return te.reduce("sum", _extents(axes), lambda *r: _element(data, at, axes, i, r, 0))

    return element


Share = Callable[[Index, Index], "tuple[ScalarExpr | None, ScalarExpr]"]


def _back(
    grad: Tensor, data: Tensor, at: Sequence[int], axes: Axes, share: Share, name: str
) -> Tensor:
    """Return sums over windows and taps that cover an element of `share(index, taps)`."""

    def element(*i: ScalarExpr) -> ScalarExpr:
        def term(*r: ScalarExpr) -> ScalarExpr:
            condition: ScalarExpr | None = None
            windows, taps = [], []
            for axis, a, candidate in zip(axes, at, r):
                window, tap, (_, exists) = axis.source(i[a], candidate)
                assert exists is not None
                windows.append(window)
                taps.append(tap)
                condition = both(condition, exists)
            more, value = share(_replaced(i, at, windows), tuple(taps))
            # The second condition reads memory, which the first has to allow.
            if more is not None:
                value = te.select(more, value, 0)
            assert condition is not None
            return te.select(condition, value, 0)

        extents = tuple(axis.candidates for axis in axes)
        return te.cast(te.reduce("sum", extents, term), grad.dtype)

    return te.compute(data.shape, element, name)


def max_gradient_tensor(grad: Tensor, data: Tensor, at: Sequence[int], axes: Axes) -> Tensor:
    """Return the loop-level map from maxima back to the data."""
    first = _first(data, at, axes)

    def share(i: Index, taps: Index) -> tuple[ScalarExpr, ScalarExpr]:
        return first[i].equal(_number(axes, taps)), load_wide(grad, i)

    return _back(grad, data, at, axes, share, "max_pool_grad")


def _first(data: Tensor, at: Sequence[int], axes: Axes) -> Tensor:
    """Return the number of the tap at which each window has its first greatest element."""
    low = number_of(least(data.dtype))

    def element(*i: ScalarExpr) -> ScalarExpr:
        return te.arg_reduce(
            "argmax", _extents(axes), lambda *r: _element(data, at, axes, i, r, low), INT32
        )

    return te.compute(_result_shape(data, at, axes), element, "first")


def _number(axes: Axes, taps: Index) -> ScalarExpr:
    """Return the number of a tap among all of a window."""
    number: ScalarExpr = te.dim(0)
    for axis, tap in zip(axes, taps):
        number = number * te.dim(axis.taps) + tap
    return te.cast(number, INT32)


def picked_tensor(values: Tensor, data: Tensor, at: Sequence[int], axes: Axes) -> Tensor:
    """Return the loop-level elements of `values` where windows of `data` have their maxima."""
    first = _first(data, at, axes)

    def element(*i: ScalarExpr) -> ScalarExpr:
        def term(*r: ScalarExpr) -> ScalarExpr:
            value = _element(values, at, axes, i, r, 0)
            return te.select(first[i].equal(_number(axes, r)), value, 0)

        return te.cast(te.reduce("sum", _extents(axes), term), values.dtype)

    return te.compute(_result_shape(data, at, axes), element, "picked")


def mean_gradient_tensor(grad: Tensor, data: Tensor, at: Sequence[int], axes: Axes) -> Tensor:
    """Return the loop-level map from means back to the data."""

    def share(i: Index, taps: Index) -> tuple[None, ScalarExpr]:
        return None, _divided(load_wide(grad, i), axes, [i[a] for a in at])

    return _back(grad, data, at, axes, share, "avg_pool_grad")
