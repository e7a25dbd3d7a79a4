"""Loads that compute facets share: broadcast operands, folded axes, float16 widened to float32."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from relayvm.base.dims import Dim, dims_equal, is_broadcast_of
from relayvm.base.dtypes import FLOAT32, NARROW, DType
from relayvm.base.shapes import broadcast_shapes
from relayvm.kernels import compute as te
from relayvm.kernels.compute import ScalarExpr, Tensor

Index = tuple[ScalarExpr, ...]


def load_broadcast(tensor: Tensor, shape: Sequence[Dim], index: Index) -> ScalarExpr:
    """Return the element of `tensor`, broadcast to `shape` from the right, at `index` of `shape`.

    An axis that may turn out to have size 1 only at run time is read at the full index where the
    tensor is an operand of the kernel, which is then passed strided, and the size of the result is
    a number or a broadcast of its own; otherwise the index is clipped, which is right in any case.
    """
    skipped = len(shape) - tensor.rank
    places: list[ScalarExpr | int] = []
    for axis, extent in enumerate(tensor.shape):
        place = index[skipped + axis]
        if extent == 1:
            places.append(0)
        elif _reaches(tensor, extent, shape[skipped + axis]):
            places.append(place)
        else:
            places.append(te.index(place, extent, "clip"))
    return tensor[tuple(places)]


def _reaches(tensor: Tensor, extent: Dim, whole: Dim) -> bool:
    """Return whether an axis of size `extent` can be read at any index below `whole`."""
    if dims_equal(extent, whole) is True:
        return True
    if not is_placeholder(tensor):
        return False
    # The rule of the operator lets only 1 and the number itself pass.
    return (isinstance(whole, int) and whole > 1) or is_broadcast_of(whole, extent)


def is_placeholder(tensor: Tensor) -> bool:
    """Return whether the kernel is given this tensor."""
    return isinstance(tensor.op, te.Placeholder)


def broadcast_compute(
    tensors: Sequence[Tensor], combine: Callable[..., ScalarExpr], name: str
) -> Tensor:
    """Return `combine` of elements at the same place of tensors broadcast against each other."""
    shape: tuple[Dim, ...] = ()
    for tensor in tensors:
        shape = broadcast_shapes(shape, tensor.shape)
    return te.compute(
        shape, lambda *i: combine(*(load_broadcast(t, shape, i) for t in tensors)), name
    )


def wide(dtype: DType) -> DType:
    """Return the dtype in which sums of `dtype` are accumulated."""
    return FLOAT32 if dtype in NARROW else dtype


def load_wide(tensor: Tensor, index: Index) -> ScalarExpr:
    """Return an element, float16 and bfloat16 as float32."""
    return te.cast(tensor[tuple(index)], wide(tensor.dtype))


def insert_axes(index: Index, folded: Index, axes: Sequence[int], rank: int) -> Index:
    """Return a full index: values of `folded` at `axes`, of `index` at the others in order."""
    inner = dict(zip(axes, folded))
    outer = iter(index)
    return tuple(inner[axis] if axis in inner else next(outer) for axis in range(rank))
