"""Operators that read or write elements at places given by values."""

from __future__ import annotations

import numpy as np

from relayvm.base.shapes import ShapeError, require_equal
from relayvm.ir.types import TensorType
from relayvm.ops.axes import require_axis
from relayvm.ops.numeric import Array
from relayvm.ops.operator import Fusion, operator
from relayvm.ops.schema import AnyTensor, Integer

MODES = ("clip", "wrap", "fast")


@operator("take", fusion=Fusion.INJECTIVE)
def take(
    data: AnyTensor,
    indices: Integer,
    *,
    batch_dims: int = 0,
    axis: int | None = None,
    mode: str = "clip",
) -> TensorType:
    """The elements, or slices along `axis`, of `data` at `indices`; without `axis` of the flattened `data`.

    `mode` says what an index outside means: `clip` the nearest legal one, `wrap` counting around, `fast` a trap
    (the original leaves it undefined). Negative indices count from the end only under `wrap`. The first
    `batch_dims` axes of both operands are walked together.

    >>> %x = float32 [[1, 2], [3, 4]]
    >>> %i = int32 [1, 0]
    >>> take(%x, %i, axis=0)
    [[3, 4], [1, 2]]
    """
    if mode not in MODES:
        raise ShapeError(
            f'`mode` of `take` is "{mode}", legal are {", ".join(MODES)}', "bad-attribute"
        )
    if axis is None:
        if batch_dims:
            raise ShapeError("`take` with `batch_dims` needs an `axis`", "bad-attribute")
        return TensorType(indices.shape, data.dtype)
    place = require_axis(axis, data.rank)
    batch = take_batch(batch_dims, place, indices.rank)
    shared = tuple(
        require_equal(data.shape[i], indices.shape[i], f"batch axis {i} of `data` and `indices`")
        for i in range(batch)
    )
    shape = (*shared, *data.shape[batch:place], *indices.shape[batch:], *data.shape[place + 1 :])
    return TensorType(shape, data.dtype)


def take_batch(batch_dims: int, place: int, rank: int) -> int:
    """Return the number of batch axes; negative counts are from the rank of `indices`."""
    batch = batch_dims + rank if batch_dims < 0 else batch_dims
    if not 0 <= batch <= min(place, rank):
        raise ShapeError(
            f"`batch_dims` of `take` is {batch_dims}, it must not exceed `axis` ({place}) nor the rank of"
            f" `indices` ({rank})",
            "bad-attribute",
        )
    return batch


def _legal(indices: Array, extent: int, mode: str) -> Array:
    wide = indices.astype(np.int64)
    if extent == 0 and indices.size:
        raise IndexError("an element is taken of an empty axis")
    if mode == "wrap":
        return wide % max(extent, 1)
    if mode == "clip":
        return np.clip(wide, 0, max(extent - 1, 0))
    outside = wide[(wide < 0) | (wide >= extent)]
    if outside.size:
        raise IndexError(f"index {outside.flat[0]} is outside an axis of {extent}")
    return wide


@take.numpy
def _(data: Array, indices: Array, *, batch_dims: int, axis: int | None, mode: str) -> Array:
    if axis is None:
        return np.asarray(data.reshape(-1)[_legal(indices, data.size, mode)])
    place = require_axis(axis, data.ndim)
    batch = take_batch(batch_dims, place, indices.ndim)
    legal = _legal(indices, data.shape[place], mode)
    if batch == 0:
        return np.asarray(np.take(data, legal, axis=place))
    shape = (*data.shape[:place], *indices.shape[batch:], *data.shape[place + 1 :])
    result = np.empty(shape, data.dtype)
    for b in np.ndindex(*indices.shape[:batch]):
        result[b] = np.take(data[b], legal[b], axis=place - batch)
    return result


OPERATORS = (take,)
