"""Operators that find elements: where they are not 0, and which are there at all."""

from __future__ import annotations

import numpy as np

from relayvm.base.dims import ANY, Dim, dim_mul
from relayvm.base.dtypes import INT32, INT64, DType
from relayvm.ir.types import TensorType, TupleType
from relayvm.kernels import compute as te
from relayvm.kernels.compute import ScalarExpr, Tensor
from relayvm.kernels.schedules.program import Memory, Writer
from relayvm.ops.axes import product, require_rank
from relayvm.ops.bisection import LEVELS
from relayvm.ops.numeric import Array
from relayvm.ops.operator import Fusion, operator
from relayvm.ops.reshaping import unflattened
from relayvm.ops.schema import AnyTensor, Dims
from relayvm.ops.sorting import LineSort, comes_before, sorted_places


@operator("argwhere", fusion=Fusion.OPAQUE, no_gradient="places are integers")
def argwhere(condition: AnyTensor) -> TensorType:
    """The indices of all elements that are not 0, in row-major order, one a row.

    >>> %x = bool [[True, False], [True, True]]
    >>> argwhere(%x)
    [[0, 0], [1, 0], [1, 1]]
    """
    return TensorType((ANY, condition.rank), INT32)


@argwhere.value_shape
def _(condition: Array) -> Dims:
    return (int(np.count_nonzero(condition)),)


@argwhere.numpy
def _(condition: Array) -> Array:
    if not condition.ndim:
        return np.empty((int(condition != 0), 0), np.int32)
    return np.argwhere(condition).astype(np.int32)


def _is_set(value: ScalarExpr) -> ScalarExpr:
    return value if value.dtype.is_bool else te.scalar("not_equal", value, 0)


@argwhere.value_dims
def _(condition: Tensor) -> tuple[Tensor, ...]:
    def one(*i: ScalarExpr) -> ScalarExpr:
        return te.cast(_is_set(condition[i]), INT64)

    total = te.reduce("sum", condition.shape, one) if condition.rank else one()
    return (te.compute((), lambda: total, "count"),)


@argwhere.compute
def _(dims: Dims, condition: Tensor) -> Tensor:
    shape, total = condition.shape, product(condition.shape)

    def build(w: Writer, condition: Memory, result: Memory) -> None:
        with w.walk(total, (te.const(0, INT64), None)) as (flat, (found,)):
            index = unflattened(flat, shape)
            with w.when(_is_set(condition[index])):
                row = w.let(te.index(found.value, dims[0]))
                for axis, place in enumerate(index):
                    result[row, axis] = te.cast(place, INT32)
                found.value = row + 1

    kinds = [((dims[0], condition.rank), INT32)]
    work = dim_mul(total, max(1, condition.rank))
    return te.program(kinds, [condition], build, work, "argwhere")[0]


@operator("unique", fusion=Fusion.OPAQUE)
def unique(data: AnyTensor, *, sorted: bool = True, return_counts: bool = False) -> TupleType:
    """Each element of a vector once: the elements, where each stands first, for each element of
    `data` which it is, their number, and with `return_counts` how often each is there.

    They come in ascending order, or without `sorted` in the order in which they stand first. All
    NaN are the same, and the greatest.

    >>> %x = int32 [4, 1, 4, 2]
    >>> unique(%x).0
    [1, 2, 4]
    """
    require_rank(data, 1, 1, "`data` of `unique`")
    found = TensorType((ANY,), INT32)
    fields = (
        TensorType((ANY,), data.dtype),
        found,
        TensorType(data.shape, INT32),
        TensorType((1,), INT32),
    )
    return TupleType((*fields, found) if return_counts else fields)


def _groups(data: Array) -> tuple[Array, Array]:
    """Return the sorted places, and the number of the group of each in ascending order."""
    order = sorted_places(data, 0, True)
    values = data[order]
    same = values[1:] == values[:-1]
    if data.dtype.kind == "f":
        same |= np.isnan(values[1:]) & np.isnan(values[:-1])
    starts = np.concatenate((np.ones(min(len(data), 1), bool), ~same))
    return order, np.cumsum(starts) - 1


@unique.value_shape
def _(data: Array, *, sorted: bool, return_counts: bool) -> Dims:
    _, groups = _groups(data)
    count = int(groups[-1]) + 1 if len(groups) else 0
    return (count,) * (3 if return_counts else 2)


@unique.numpy
def _(data: Array, *, sorted: bool, return_counts: bool) -> tuple[Array, ...]:
    order, groups = _groups(data)
    count = int(groups[-1]) + 1 if len(groups) else 0
    firsts = order[np.searchsorted(groups, np.arange(count))]
    numbers = np.arange(count)
    if not sorted:
        numbers = np.argsort(np.argsort(firsts))
        firsts = np.sort(firsts)
    inverse = np.empty(len(data), np.int64)
    inverse[order] = numbers[groups]
    counts = np.bincount(inverse, minlength=count)
    fields = (data[firsts], firsts, inverse, np.array([count]))
    whole = (*fields, counts) if return_counts else fields
    return (whole[0], *(a.astype(np.int32) for a in whole[1:]))


def _sorted_vector(w: Writer, data: Memory, size: Dim) -> tuple[Memory, Memory]:
    """Sort a vector, in phases of its own; return keys and places of one line."""
    pairs = []
    for dtype in (data.dtype, INT64):
        pairs.append((w.scratch((1, size), dtype), w.scratch((1, size), dtype)))
    with w.parts(1, size) as (line, begin, end), w.loop(begin, end) as i:
        pairs[0][0][line, i] = data[i]
        pairs[1][0][line, i] = i
    LineSort(w, (1, size), True, pairs[0], pairs[1]).write()
    return pairs[0][0], pairs[1][0]


def _starts(keys: Memory, i: ScalarExpr) -> ScalarExpr:
    """Return whether an element of a sorted line differs from the one before it."""
    before = keys[0, te.scalar("maximum", i - 1, 0)]
    return te.scalar("logical_or", i.equal(0), comes_before(before, keys[0, i], True))


@unique.value_dims
def _(data: Tensor, *, sorted: bool, return_counts: bool) -> tuple[Tensor, ...]:
    size = data.shape[0]

    def build(w: Writer, data: Memory, count: Memory) -> None:
        keys, _ = _sorted_vector(w, data, size)
        with w.walk(size, (te.const(0, INT64), count)) as (i, (groups,)), w.when(_starts(keys, i)):
            groups.value = groups.value + 1

    (found,) = te.program([((1,), INT64)], [data], build, dim_mul(size, LEVELS), "groups")
    return tuple(
        te.compute((), lambda: found[0], "count") for _ in range(3 if return_counts else 2)
    )


@unique.compute
def _(dims: Dims, data: Tensor, *, sorted: bool, return_counts: bool) -> tuple[Tensor, ...]:
    size, count = data.shape[0], dims[0]

    def build(w: Writer, data: Memory, *results: Memory) -> None:
        values, firsts, inverse, total = results[:4]
        keys, places = _sorted_vector(w, data, size)
        group_of = w.scratch((size,), INT64)
        first_of = w.scratch((count,), INT64)
        name_of = w.scratch((count,), INT64)
        with w.walk(size, (te.const(-1, INT64), None)) as (i, (group,)):
            place = w.let(te.index(places[0, i], size))
            with w.when(_starts(keys, i)):
                group.value = group.value + 1
                first_of[group.value] = place
            group_of[place] = group.value
        if sorted:
            with w.walk(count) as (g, _):
                name_of[g] = g
        else:
            with w.walk(size, (te.const(0, INT64), None)) as (i, (named,)):
                g = group_of[i]
                with w.when(first_of[g].equal(i)):
                    name_of[g] = named.value
                    named.value = named.value + 1
        with w.walk(count) as (g, _):
            name = w.let(te.index(name_of[g], count))
            first = w.let(te.index(first_of[g], size))
            values[name] = data[first]
            firsts[name] = te.cast(first, INT32)
            if return_counts:
                results[4][name] = 0
        with w.walk(size) as (i, _):
            name = w.let(te.index(name_of[group_of[i]], count))
            inverse[i] = te.cast(name, INT32)
            if return_counts:
                results[4][name] = results[4][name] + 1
        with w.phase():
            total[0] = te.cast(te.dim(count), INT32)

    kinds: list[tuple[Dims, DType]] = [
        ((count,), data.dtype),
        ((dims[1],), INT32),
        ((size,), INT32),
        ((1,), INT32),
    ]
    if return_counts:
        kinds.append(((dims[2],), INT32))
    return te.program(kinds, [data], build, dim_mul(size, LEVELS), "unique")


OPERATORS = (argwhere, unique)
