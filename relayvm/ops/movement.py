"""Operators that move elements to other places without computing: joins, slices, permutations, broadcasts."""

from __future__ import annotations

import numpy as np

from relayvm.base.dims import Dim, dim_add, dim_floordiv, dim_min, dim_mod, dim_mul, dim_sub
from relayvm.base.shapes import ShapeError, require_equal
from relayvm.ir.types import TensorType, TupleType
from relayvm.ops.axes import require_axis
from relayvm.ops.numeric import Array
from relayvm.ops.operator import Fusion, operator
from relayvm.ops.schema import AnyTensor, Ints, Tensors, require_same_dtype


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


def section_bounds(extent: Dim, indices_or_sections: int | Ints) -> list[tuple[Dim, Dim]]:
    """Return begin and end of each part; may leave a check that an extent divides."""
    if isinstance(indices_or_sections, int):
        count = indices_or_sections
        if count < 1:
            raise ShapeError(f"`split` needs at least 1 section, got {count}", "bad-attribute")
        remainder = dim_mod(extent, count)
        if isinstance(remainder, int) and remainder:
            raise ShapeError(f"`split` into {count} equal sections of an axis of {extent}")
        size = dim_floordiv(extent, count)
        require_equal(remainder, 0, f"remainder of the axis divided by {count} sections and 0")
        return [(dim_mul(size, i), dim_mul(size, i + 1)) for i in range(count)]
    cuts = (0, *indices_or_sections)
    if any(a > b for a, b in zip(cuts, cuts[1:])):
        raise ShapeError(
            f"indices of `split` must ascend from 0, got {list(cuts[1:])}", "bad-attribute"
        )
    if isinstance(extent, int) and cuts[-1] > extent:
        raise ShapeError(f"`split` at {cuts[-1]} of an axis of {extent}")
    require_equal(
        dim_min(extent, cuts[-1]), cuts[-1], "axis cut to the last index of `split` and that index"
    )
    bounds: list[Dim] = [*cuts, extent]
    return list(zip(bounds[:-1], bounds[1:]))


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


OPERATORS = (concatenate, split)
