"""The three maps of a convolution: result, gradient of the data, gradient of the weight.

All take canonical axes: data [n, c, space], weight [o, c / groups, taps], results [n, o, space].
Each is linear in both operands, and the gradient of each is made of the other two.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from relayvm.base.dims import Dim, dim_add, dim_floordiv, dim_mod
from relayvm.base.dtypes import DType
from relayvm.kernels import compute as te
from relayvm.kernels.compute import ScalarExpr, Tensor
from relayvm.ops.axes import product
from relayvm.ops.layouts import Layout
from relayvm.ops.loads import Index, wide
from relayvm.ops.numeric import Array
from relayvm.ops.windows import Window, both


@dataclass(frozen=True, slots=True)
class Plan:
    """A convolution: its window, groups, and the layouts of data, weight and result."""

    window: Window
    groups: int
    data: Layout
    weight: Layout
    result: Layout


def _wide(array: Array, dtype: DType) -> Array:
    return array.astype(wide(dtype).numpy)


def _tap(tap: tuple[int, ...]) -> Any:
    """Return the index of one tap of a weight."""
    return (Ellipsis, *tap)


def _space(slices: tuple[slice, ...]) -> Any:
    """Return the index of a part of space."""
    return (slice(None), slice(None), *slices)


def result_array(data: Array, weight: Array, plan: Plan, sizes: Sequence[int], d: DType) -> Array:
    """Return the convolution with `sizes` of space; sums are accumulated in the wide dtype."""
    n, c = data.shape[:2]
    o, inner, *taps = weight.shape
    groups = plan.groups
    padded = plan.window.padded(_wide(data, d), 0)
    w = _wide(weight, d).reshape(groups, o // groups, inner, *taps)
    total = np.zeros((n, groups, o // groups, int(np.prod(sizes))), padded.dtype)
    for tap, slices in plan.window.taps(taps, sizes):
        patch = padded[_space(slices)]
        patch = patch.reshape(n, groups, c // groups, total.shape[3])
        total += np.matmul(w[_tap(tap)], patch)
    return total.reshape(n, o, *sizes).astype(d.numpy)


def data_gradient_array(
    grad: Array, weight: Array, plan: Plan, sizes: Sequence[int], d: DType
) -> Array:
    """Return the map from results to data with `sizes` of space: the transposed convolution."""
    n, o, *results = grad.shape
    _, inner, *taps = weight.shape
    groups = plan.groups
    window = plan.window
    w = _wide(weight, d).reshape(groups, o // groups, inner, *taps)
    g = _wide(grad, d).reshape(n, groups, o // groups, int(np.prod(results)))
    empty = np.zeros((n, groups * inner, *sizes), g.dtype)
    # A weight of many taps may reach behind the padded data, where nothing is kept.
    reach = [
        max(0, (k - 1) * di + s * (r - 1) + 1 - b - size - a)
        for k, di, s, r, b, size, a in zip(
            taps, window.dilation, window.strides, results, window.before, sizes, window.after
        )
    ]
    total = window.padded(empty, 0, tuple(reach))
    for tap, slices in window.taps(taps, results):
        part = np.matmul(np.swapaxes(w[_tap(tap)], -1, -2), g)
        total[_space(slices)] += part.reshape(n, groups * inner, *results)
    inside = tuple(slice(b, b + size) for b, size in zip(window.before, sizes))
    return np.asarray(total[_space(inside)].astype(d.numpy))


def weight_gradient_array(
    grad: Array, data: Array, plan: Plan, taps: Sequence[int], d: DType
) -> Array:
    """Return the sums of products of results and data that meet at each tap of a weight."""
    n, o, *results = grad.shape
    c, groups = data.shape[1], plan.groups
    padded = plan.window.padded(_wide(data, d), 0)
    count = int(np.prod(results))
    g = _wide(grad, d).reshape(n, groups, o // groups, count)
    total = np.zeros((groups, o // groups, c // groups, *taps), padded.dtype)
    for tap, slices in plan.window.taps(taps, results):
        patch = padded[_space(slices)].reshape(n, groups, c // groups, count)
        products = np.matmul(g, np.swapaxes(patch, -1, -2))
        total[_tap(tap)] = np.sum(products, axis=0, dtype=total.dtype)
    return total.reshape(o, c // groups, *taps).astype(d.numpy)


Load = Callable[[Index], ScalarExpr]


def _load(tensor: Tensor, layout: Layout) -> Load:
    return lambda index: tensor[layout.arranged(index)]


def _guarded(load: Load, index: Index, inside: ScalarExpr | None) -> ScalarExpr:
    value = load(index)
    return value if inside is None else te.select(inside, value, 0)


def _in_group(group: ScalarExpr | None, size: Dim, channel: ScalarExpr) -> ScalarExpr:
    """Return the number of a channel among all, from its number in its group."""
    if group is None:
        return channel
    return group if size == 1 else group * te.dim(size) + channel


def _group_of(channel: ScalarExpr, size: Dim, groups: int) -> ScalarExpr | None:
    """Return the group of a channel among all; None where there is one group."""
    if groups == 1:
        return None
    return channel if size == 1 else channel // te.dim(size)


def _computed(
    shape: Sequence[Dim], layout: Layout, element: Callable[[Index], ScalarExpr], name: str
) -> Tensor:
    return te.compute(layout.arranged(tuple(shape)), lambda *i: element(layout.canonical(i)), name)


def _sum_of_products(
    extents: Sequence[Dim], factors: Callable[[Index], tuple[ScalarExpr, ScalarExpr]], d: DType
) -> ScalarExpr:
    total = wide(d)

    def term(*r: ScalarExpr) -> ScalarExpr:
        a, b = factors(r)
        return te.cast(a, total) * te.cast(b, total)

    return te.cast(te.reduce("sum", tuple(extents), term), d)


def result_tensor(
    data: Tensor, weight: Tensor, plan: Plan, sizes: Sequence[Dim], d: DType
) -> Tensor:
    """Return the loop-level convolution; what lies in the padding is never loaded."""
    x, w = plan.data.canonical(data.shape), plan.weight.canonical(weight.shape)
    per_group = dim_floordiv(w[0], plan.groups)
    load_x, load_w = _load(data, plan.data), _load(weight, plan.weight)

    def element(i: Index) -> ScalarExpr:
        group = _group_of(i[1], per_group, plan.groups)

        def factors(r: Index) -> tuple[ScalarExpr, ScalarExpr]:
            places, inside = _places(plan.window, i[2:], r[1:], x[2:])
            value = _guarded(load_x, (i[0], _in_group(group, w[1], r[0]), *places), inside)
            return value, load_w((i[1], r[0], *r[1:]))

        return _sum_of_products(w[1:], factors, d)

    return _computed((x[0], w[0], *sizes), plan.result, element, "conv")


def _places(
    window: Window, results: Index, taps: Index, sizes: Sequence[Dim]
) -> tuple[list[ScalarExpr], ScalarExpr | None]:
    """Return the indices that taps of windows read, and whether they are inside, if in doubt."""
    inside: ScalarExpr | None = None
    places = []
    for axis, (result, tap) in enumerate(zip(results, taps)):
        place = window.place(axis, result, tap)
        if not window.is_inside(axis):
            inside = both(inside, te.in_range(place, sizes[axis]))
        places.append(place)
    return places, inside


def data_gradient_tensor(
    grad: Tensor, weight: Tensor, plan: Plan, shape: Sequence[Dim], d: DType
) -> Tensor:
    """Return the loop-level map from results to data of the canonical `shape`.

    Along an axis with a stride s, places with the same remainder by s meet the same taps: every
    s-th. They are computed side by side, for each remainder, and put in their order at the end.
    """
    g, w = plan.result.canonical(grad.shape), plan.weight.canonical(weight.shape)
    per_group = dim_floordiv(w[0], plan.groups)
    load_g, load_w = _load(grad, plan.result), _load(weight, plan.weight)
    window, spatial = plan.window, range(len(shape) - 2)
    split = [a for a in spatial if window.strides[a] > 1 and window.dilation[a] == 1]

    def element(i: Index, remainders: Index) -> ScalarExpr:
        group = _group_of(i[1], w[1], plan.groups)
        channel = i[1] if group is None else te.dim(0) if w[1] == 1 else i[1] % te.dim(w[1])
        rest = dict(zip(split, remainders))

        def factors(r: Index) -> tuple[ScalarExpr, ScalarExpr]:
            out = _in_group(group, per_group, r[0])
            sources = [
                _source(window, a, i[2 + a], rest.get(a), r[1 + a], w[2 + a], g[2 + a])
                for a in spatial
            ]
            inside, known = None, None
            for source in sources:
                inside = both(inside, source.inside)
                known = known if source.is_tap is None else both(known, source.is_tap)
            assert inside is not None
            place = (i[0], out, *(source.window for source in sources))
            tap = (out, channel, *(source.tap for source in sources))
            return _guarded(load_g, place, inside), _guarded(load_w, tap, known)

        steps = [_steps(window, a, w[2 + a], a in split) for a in spatial]
        return _sum_of_products((per_group, *steps), factors, d)

    name = "conv_transpose"
    if not split:
        return _computed(shape, plan.data, lambda i: element(i, ()), name)
    parts = [window.strides[a] for a in split]
    whole = plan.data.arranged(
        (*shape[:2], *(_quotients(window, a, shape[2 + a], a in split) for a in spatial))
    )
    count = len(split)
    apart = te.compute(
        (*parts, *whole), lambda *i: element(plan.data.canonical(i[count:]), i[:count]), "apart"
    )

    def ordered(i: Index) -> ScalarExpr:
        places = list(i)
        remainders = []
        for a in split:
            padded = i[2 + a] + window.before[a] if window.before[a] else i[2 + a]
            remainders.append(padded % window.strides[a])
            places[2 + a] = padded // window.strides[a]
        at: Index = (*remainders, *plan.data.arranged(places))
        return apart[at]

    return _computed(shape, plan.data, ordered, name)


@dataclass(frozen=True, slots=True)
class _Source:
    """A window that may read a place, the tap with which it does, and what must hold for that."""

    window: ScalarExpr
    tap: ScalarExpr
    inside: ScalarExpr
    is_tap: ScalarExpr | None = None


def _steps(window: Window, axis: int, taps: Dim, is_split: bool) -> Dim:
    """Return how many taps a place may meet: all, or for one remainder every stride-th."""
    stride = window.strides[axis]
    return dim_floordiv(dim_add(taps, stride - 1), stride) if is_split else taps


def _quotients(window: Window, axis: int, size: Dim, is_split: bool) -> Dim:
    """Return how many places of an axis of the data have the same remainder, at most."""
    stride = window.strides[axis]
    if not is_split:
        return size
    return dim_floordiv(dim_add(size, window.before[axis] + stride - 1), stride)


def _source(
    window: Window,
    axis: int,
    place: ScalarExpr,
    remainder: ScalarExpr | None,
    step: ScalarExpr,
    taps: Dim,
    results: Dim,
) -> _Source:
    """Return the window that reads a place of the data, and its tap, for one candidate.

    With a remainder the place is the quotient of that in the padded data by the stride.
    """
    stride, dilation = window.strides[axis], window.dilation[axis]
    if remainder is not None:
        source, tap = place - step, remainder + step * stride
        is_tap = None if dim_mod(taps, stride) == 0 else tap < te.dim(taps)
        return _Source(source, tap, te.in_range(source, results), is_tap)
    padded = place + window.before[axis] if window.before[axis] else place
    distance = padded - (step if dilation == 1 else step * dilation)
    if stride == 1:
        return _Source(distance, step, te.in_range(distance, results))
    source = distance // stride
    inside = both((distance % stride).equal(0), te.in_range(source, results))
    return _Source(source, step, inside)


def weight_gradient_tensor(
    grad: Tensor, data: Tensor, plan: Plan, shape: Sequence[Dim], d: DType
) -> Tensor:
    """Return the loop-level map from results and data to a weight of the canonical `shape`."""
    g, x = plan.result.canonical(grad.shape), plan.data.canonical(data.shape)
    per_group = dim_floordiv(shape[0], plan.groups)
    load_g, load_x = _load(grad, plan.result), _load(data, plan.data)

    def element(i: Index) -> ScalarExpr:
        group = _group_of(i[0], per_group, plan.groups)

        def factors(r: Index) -> tuple[ScalarExpr, ScalarExpr]:
            places, inside = _places(plan.window, r[1:], i[2:], x[2:])
            value = _guarded(load_x, (r[0], _in_group(group, shape[1], i[1]), *places), inside)
            return load_g((r[0], i[0], *r[1:])), value

        return _sum_of_products((g[0], *g[2:]), factors, d)

    return _computed(shape, plan.weight, element, "conv_weight")


def terms_of_result(weight: Sequence[Dim]) -> Dim:
    """Return how many products one element of a result sums."""
    return product(weight[1:])
