"""Operators that move elements without computing: joins, parts, permutations."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np

from relayvm.base.diagnostics import quantity
from relayvm.base.dims import Dim, dim_add, dim_floordiv, dim_min, dim_mod, dim_mul, dim_sub
from relayvm.base.shapes import ShapeError, require_equal
from relayvm.ir.types import TensorType, TupleType
from relayvm.kernels import compute as te
from relayvm.kernels.compute import ScalarExpr, Tensor
from relayvm.ops.axes import require_axes, require_axis, require_rank
from relayvm.ops.numeric import Array
from relayvm.ops.operator import Fusion, operator
from relayvm.ops.schema import AnyTensor, Ints, Tensors, require_same_dtype

MAX_SECTIONS = 10_000


def _tensors(data: TupleType) -> tuple[TensorType, ...]:
    return tuple(t for t in data.fields if isinstance(t, TensorType))


def _require_alike(data: TupleType, name: str) -> tuple[TensorType, ...]:
    tensors = _tensors(data)
    for i, tensor in enumerate(tensors[1:], 1):
        require_same_dtype(
            tensors[0].dtype, tensor.dtype, f"dtypes of fields 0 and {i} of `{name}`"
        )
        if tensor.rank != tensors[0].rank:
            raise ShapeError(
                f"ranks of fields 0 and {i} of `{name}` differ: {tensors[0].rank} and {tensor.rank}"
            )
    return tensors


@operator("concatenate", fusion=Fusion.INJECTIVE)
def concatenate(data: Tensors, *, axis: int = 0) -> TensorType:
    """The tensors of a tuple joined along `axis`; their other axes agree.

    >>> %x = int32 [1, 2]
    >>> %y = int32 [3]
    >>> concatenate((%x, %y))
    [1, 2, 3]
    """
    tensors = _require_alike(data, "concatenate")
    place = require_axis(axis, tensors[0].rank)
    shape = list(tensors[0].shape)
    for i, tensor in enumerate(tensors[1:], 1):
        for k, dim in enumerate(tensor.shape):
            if k == place:
                shape[k] = dim_add(shape[k], dim)
            else:
                what = f"axis {k} of fields 0 and {i} of `concatenate`"
                shape[k] = require_equal(shape[k], dim, what)
    return TensorType(tuple(shape), tensors[0].dtype)


@concatenate.numpy
def _(data: tuple[Array, ...], *, axis: int) -> Array:
    return np.concatenate(data, axis=axis)


@concatenate.compute
def _(data: tuple[Tensor, ...], *, axis: int) -> Tensor:
    place = require_axis(axis, data[0].rank)
    starts: list[Dim] = [0]
    for tensor in data:
        starts.append(dim_add(starts[-1], tensor.shape[place]))
    shape = (*data[0].shape[:place], starts[-1], *data[0].shape[place + 1 :])

    def element(*i: ScalarExpr) -> ScalarExpr:
        def load(k: int) -> ScalarExpr:
            return data[k][i[:place] + (i[place] - te.dim(starts[k]),) + i[place + 1 :]]

        return _part_at(i[place], starts, load)

    return te.compute(shape, element, "concatenate")


def _part_at(
    position: ScalarExpr, starts: Sequence[Dim], load: Callable[[int], ScalarExpr]
) -> ScalarExpr:
    """Return `load(k)` for the part k in which a position lies, found by halving.

    Part k is `[starts[k], starts[k + 1])`; a chain of tests would nest as deep as there are parts.
    """

    def find(first: int, end: int) -> ScalarExpr:
        if end - first == 1:
            return load(first)
        middle = (first + end) // 2
        left, right = find(first, middle), find(middle, end)
        return te.select(position < te.dim(starts[middle]), left, right)

    return find(0, len(starts) - 1)


def section_bounds(extent: Dim, indices_or_sections: int | Ints) -> list[tuple[Dim, Dim]]:
    """Return begin and end of each part; may leave a check that an extent divides."""
    if isinstance(indices_or_sections, int):
        count = indices_or_sections
        if count < 1:
            raise ShapeError(f"`split` needs at least 1 section, got {count}", "bad-attribute")
        if count > MAX_SECTIONS:
            message = f"`split` makes at most {MAX_SECTIONS} sections, got {count}"
            raise ShapeError(message, "bad-attribute")
        remainder = dim_mod(extent, count)
        if isinstance(remainder, int) and remainder:
            raise ShapeError(f"`split` into {count} equal sections of an axis of {extent}")
        size = dim_floordiv(extent, count)
        sections = quantity(count, "section")
        require_equal(remainder, 0, f"remainder of the axis divided by {sections} and 0")
        return [(dim_mul(size, i), dim_mul(size, i + 1)) for i in range(count)]
    cuts = (0, *indices_or_sections)
    if any(a > b for a, b in itertools.pairwise(cuts)):
        raise ShapeError(
            f"indices of `split` must ascend from 0, got {list(cuts[1:])}", "bad-attribute"
        )
    if isinstance(extent, int) and cuts[-1] > extent:
        raise ShapeError(f"`split` at {cuts[-1]} of an axis of {extent}")
    require_equal(
        dim_min(extent, cuts[-1]), cuts[-1], "axis cut to the last index of `split` and that index"
    )
    bounds: list[Dim] = [*cuts, extent]
    return list(itertools.pairwise(bounds))


@operator("split", fusion=Fusion.INJECTIVE)
def split(data: AnyTensor, *, indices_or_sections: int | Ints, axis: int = 0) -> TupleType:
    """Parts of `data` along `axis`: so many equal sections, or the parts between indices.

    >>> %x = int32 [1, 2, 3, 4]
    >>> split(%x, indices_or_sections=[1]).1
    [2, 3, 4]
    """
    place = require_axis(axis, data.rank)
    shape = data.shape
    return TupleType(
        tuple(
            TensorType((*shape[:place], dim_sub(end, begin), *shape[place + 1 :]), data.dtype)
            for begin, end in section_bounds(shape[place], indices_or_sections)
        )
    )


@split.numpy
def _(data: Array, *, indices_or_sections: int | Ints, axis: int) -> tuple[Array, ...]:
    return tuple(np.split(data, indices_or_sections, axis=axis))


@split.compute
def _(data: Tensor, *, indices_or_sections: int | Ints, axis: int) -> tuple[Tensor, ...]:
    place = require_axis(axis, data.rank)
    bounds = section_bounds(data.shape[place], indices_or_sections)
    return tuple(_part(data, place, begin, dim_sub(end, begin)) for begin, end in bounds)


def _part(data: Tensor, place: int, begin: Dim, size: Dim) -> Tensor:
    """Return `size` elements of an axis from `begin` on, which is known to be inside."""
    shape = (*data.shape[:place], size, *data.shape[place + 1 :])

    def element(*i: ScalarExpr) -> ScalarExpr:
        return data[i[:place] + (i[place] + te.dim(begin),) + i[place + 1 :]]

    return te.compute(shape, element, "part")


@operator("split_like", fusion=Fusion.INJECTIVE)
def split_like(data: AnyTensor, like: Tensors, *, axis: int = 0) -> TupleType:
    """Parts of `data` along `axis`, each as long as the tensor of `like` at its place.

    What `concatenate` of tensors shaped as `like` joined comes apart again: its gradient.

    >>> %x = int32 [1, 2, 3]
    >>> %y = float32 [0]
    >>> %z = float32 [0, 0]
    >>> split_like(%x, (%y, %z)).1
    [2, 3]
    """
    place = require_axis(axis, data.rank)
    shape = data.shape
    total: Dim = 0
    parts = []
    for i, tensor in enumerate(_tensors(like)):
        require_rank(tensor, data.rank, data.rank, f"field {i} of `like`")
        total = dim_add(total, tensor.shape[place])
        part = (*shape[:place], tensor.shape[place], *shape[place + 1 :])
        parts.append(TensorType(part, data.dtype))
    require_equal(shape[place], total, f"axis {place} of `data` and the sum of those of `like`")
    return TupleType(tuple(parts))


@split_like.numpy
def _(data: Array, like: tuple[Array, ...], *, axis: int) -> tuple[Array, ...]:
    ends = np.cumsum([tensor.shape[axis] for tensor in like])
    return tuple(np.split(data, ends[:-1], axis=axis))


@split_like.compute
def _(data: Tensor, like: tuple[Tensor, ...], *, axis: int) -> tuple[Tensor, ...]:
    place = require_axis(axis, data.rank)
    begin: Dim = 0
    parts = []
    for tensor in like:
        parts.append(_part(data, place, begin, tensor.shape[place]))
        begin = dim_add(begin, tensor.shape[place])
    return tuple(parts)


@operator("stack", fusion=Fusion.INJECTIVE)
def stack(data: Tensors, *, axis: int = 0) -> TensorType:
    """The tensors of a tuple, all of one shape, side by side along a new `axis`.

    >>> %x = int32 [1, 2]
    >>> %y = int32 [3, 4]
    >>> stack((%x, %y), axis=1)
    [[1, 3], [2, 4]]
    """
    tensors = _require_alike(data, "stack")
    place = require_axis(axis, tensors[0].rank + 1)
    shape = list(tensors[0].shape)
    for i, tensor in enumerate(tensors[1:], 1):
        for k, dim in enumerate(tensor.shape):
            shape[k] = require_equal(shape[k], dim, f"axis {k} of fields 0 and {i} of `stack`")
    return TensorType((*shape[:place], len(tensors), *shape[place:]), tensors[0].dtype)


@stack.numpy
def _(data: tuple[Array, ...], *, axis: int) -> Array:
    return np.stack(data, axis=axis)


@stack.compute
def _(data: tuple[Tensor, ...], *, axis: int) -> Tensor:
    place = require_axis(axis, data[0].rank + 1)
    shape = (*data[0].shape[:place], len(data), *data[0].shape[place:])

    def element(*i: ScalarExpr) -> ScalarExpr:
        inner = i[:place] + i[place + 1 :]
        return _part_at(i[place], range(len(data) + 1), lambda k: data[k][inner])

    return te.compute(shape, element, "stack")


@operator("transpose", fusion=Fusion.INJECTIVE)
def transpose(data: AnyTensor, *, axes: Ints | None = None) -> TensorType:
    """`data` with its axes in the order of `axes`, reversed by default.

    >>> %x = int32 [[1, 2], [3, 4]]
    >>> transpose(%x)
    [[1, 3], [2, 4]]
    """
    order = permutation(axes, data.rank)
    return TensorType(tuple(data.shape[a] for a in order), data.dtype)


def permutation(axes: Ints | None, rank: int) -> Ints:
    """Return the order of axes of a `transpose`; raises ShapeError unless each is there once."""
    if not axes:
        return tuple(reversed(range(rank)))
    if len(axes) != rank:
        entries = quantity(len(axes), "entry", "entries")
        raise ShapeError(
            f"`axes` of `transpose` has {entries}, the rank is {rank}",
            "bad-axis",
        )
    return require_axes(axes, rank, "`axes` of `transpose`")


@transpose.numpy
def _(data: Array, *, axes: Ints | None) -> Array:
    return np.transpose(data, permutation(axes, data.ndim))


@transpose.compute
def _(data: Tensor, *, axes: Ints | None) -> Tensor:
    order = permutation(axes, data.rank)
    shape = tuple(data.shape[a] for a in order)
    return te.compute(
        shape, lambda *i: data[tuple(i[order.index(k)] for k in range(data.rank))], "transpose"
    )


OPERATORS = (concatenate, split, split_like, stack, transpose)
