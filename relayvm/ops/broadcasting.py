"""Operators that repeat elements along axes, and the one that sums them back."""

from __future__ import annotations

import numpy as np

from relayvm.base.dims import Dim, dim_floordiv, dim_max, dims_equal
from relayvm.base.shapes import ShapeError, require_broadcast, require_equal
from relayvm.ir.types import TensorType
from relayvm.kernels import compute as te
from relayvm.kernels.compute import ScalarExpr, Tensor
from relayvm.ops import numeric
from relayvm.ops.axes import product, require_known, sizes_of
from relayvm.ops.loads import load_broadcast, load_wide
from relayvm.ops.numeric import Array
from relayvm.ops.operator import Fusion, operator
from relayvm.ops.schema import AnyTensor, Dims, Numeric


def require_broadcast_to(source: Dims, target: Dims, what: str) -> None:
    """Raise ShapeError, or leave checks, unless `source` can be broadcast to exactly `target`."""
    skipped = len(target) - len(source)
    if skipped < 0:
        raise ShapeError(f"{what}: rank {len(source)} does not broadcast to rank {len(target)}")
    for axis, (x, y) in enumerate(zip(source, target[skipped:])):
        place = f"axis {axis + skipped} of {what}"
        size = require_broadcast(x, y, place)
        if dims_equal(size, y) is False:
            raise ShapeError(f"{place} do not broadcast: {x} to {y}")
        require_equal(size, y, place)


@operator("broadcast_to", fusion=Fusion.BROADCAST, ignored=("dtype",))
def broadcast_to(data: AnyTensor, *, shape: Dims) -> TensorType:
    """`data` repeated to `shape` along new leading axes and axes of size 1.

    >>> %x = int32 [1, 2]
    >>> broadcast_to(%x, shape=(2, 2))
    [[1, 2], [1, 2]]
    """
    require_known(shape, "`shape` of `broadcast_to`")
    require_broadcast_to(data.shape, shape, "`data` and `shape`")
    return TensorType(shape, data.dtype)


@broadcast_to.numpy
def _(data: Array, *, shape: Dims) -> Array:
    return np.broadcast_to(data, sizes_of(shape))


@broadcast_to.compute
def _(data: Tensor, *, shape: Dims) -> Tensor:
    return te.compute(shape, lambda *i: load_broadcast(data, shape, i), "broadcast_to")


@operator("broadcast_to_like", fusion=Fusion.BROADCAST)
def broadcast_to_like(data: AnyTensor, broadcast_type: AnyTensor) -> TensorType:
    """`data` repeated to the shape of `broadcast_type`.

    >>> %x = int32 [1, 2]
    >>> %y = float32 [[0, 0], [0, 0]]
    >>> broadcast_to_like(%x, %y)
    [[1, 2], [1, 2]]
    """
    require_broadcast_to(data.shape, broadcast_type.shape, "`data` and `broadcast_type`")
    return TensorType(broadcast_type.shape, data.dtype)


@broadcast_to_like.numpy
def _(data: Array, broadcast_type: Array) -> Array:
    return np.broadcast_to(data, broadcast_type.shape)


@broadcast_to_like.compute
def _(data: Tensor, broadcast_type: Tensor) -> Tensor:
    shape = broadcast_type.shape
    return te.compute(shape, lambda *i: load_broadcast(data, shape, i), "broadcast_to_like")


@operator("collapse_sum_like", fusion=Fusion.REDUCTION)
def collapse_sum_like(data: Numeric, collapse_type: AnyTensor) -> TensorType:
    """Sums of `data` in the shape of `collapse_type`, from which it could have been broadcast.

    The gradient of a broadcast: axes that were added, or repeated from size 1, are summed.

    >>> %x = float32 [[1, 2], [3, 4]]
    >>> %y = float32 [[0], [0]]
    >>> collapse_sum_like(%x, %y)
    [[3], [7]]
    """
    require_broadcast_to(collapse_type.shape, data.shape, "`collapse_type` and `data`")
    return TensorType(collapse_type.shape, data.dtype)


@collapse_sum_like.numpy
def _(data: Array, collapse_type: Array) -> Array:
    added = data.ndim - collapse_type.ndim
    repeated = tuple(
        added + i
        for i, n in enumerate(collapse_type.shape)
        if n == 1 and data.shape[added + i] != 1
    )
    sums = numeric.sum_terms(data, (*range(added), *repeated), True)
    return sums.reshape(collapse_type.shape)


@collapse_sum_like.compute
def _(data: Tensor, collapse_type: Tensor) -> Tensor:
    added = data.rank - collapse_type.rank
    target = collapse_type.shape
    folded: list[int] = list(range(added))
    unsure: list[int] = []
    for i, n in enumerate(target):
        whole = data.shape[added + i]
        if dims_equal(n, whole) is True:
            continue
        folded.append(added + i)
        if n != 1:
            unsure.append(added + i)
    # An axis of unknown size that was not repeated has one term; if it turns out to be 1, all.
    extents = tuple(
        dim_floordiv(data.shape[a], dim_max(target[a - added], 1)) if a in unsure else data.shape[a]
        for a in folded
    )

    def element(*i: ScalarExpr) -> ScalarExpr:
        def load(*r: ScalarExpr) -> ScalarExpr:
            place: list[ScalarExpr] = [*r[:added], *i]
            for axis, term in zip(folded[added:], r[added:]):
                # An axis that was not repeated has one term, at `i`; one that was has `i` = 0.
                place[axis] = place[axis] + term if axis in unsure else term
            return load_wide(data, tuple(place))

        if not folded:
            return te.cast(load(), data.dtype)
        return te.cast(te.reduce("sum", extents, load), data.dtype)

    return te.compute(target, element, "collapse_sum_like")


@collapse_sum_like.reduction_size
def _(data: TensorType, collapse_type: TensorType) -> Dim:
    return dim_floordiv(product(data.shape), dim_max(product(collapse_type.shape), 1))


OPERATORS = (broadcast_to, broadcast_to_like, collapse_sum_like)
