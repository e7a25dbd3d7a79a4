"""What shape rules share: axes, ranks and products of dims."""

from __future__ import annotations

from collections.abc import Iterable

from relayvm.base.dims import Dim, dim_mul
from relayvm.base.shapes import ShapeError
from relayvm.ir.types import TensorType


def require_rank(tensor: TensorType, least: int, most: int, what: str) -> None:
    """Raise ShapeError unless the rank of `tensor` is in the range; a `most` of 99 is no limit."""
    if least <= tensor.rank <= most:
        return
    wanted = (
        f"at least {least}" if most == 99 else f"{least} to {most}" if least < most else str(least)
    )
    raise ShapeError(f"{what} must have rank {wanted}, got {tensor.rank}")


def require_axis(axis: int, rank: int, what: str = "axis") -> int:
    """Return `axis` counted from the front; negative ones count from the end."""
    if -rank <= axis < rank:
        return axis + rank if axis < 0 else axis
    legal = f"{-rank} to {rank - 1}" if rank else "none, the tensor has rank 0"
    raise ShapeError(f"{what} is {axis}, legal are {legal}", "bad-axis")


def require_axes(axes: Iterable[int], rank: int, what: str = "axis") -> tuple[int, ...]:
    """Return distinct axes counted from the front, in the given order."""
    result = tuple(require_axis(axis, rank, what) for axis in axes)
    if len(set(result)) != len(result):
        raise ShapeError(f"{what} {list(axes)} names an axis twice", "bad-axis")
    return result


def product(dims: Iterable[Dim]) -> Dim:
    """Return the product of dims: the number of elements of a shape."""
    result: Dim = 1
    for dim in dims:
        result = dim_mul(result, dim)
    return result


def reduced_axes(axis: tuple[int, ...] | None, exclude: bool, rank: int) -> tuple[int, ...]:
    """Return the axes that a reduction with these attributes folds, in ascending order.

    None means all of them, whatever `exclude` says, as in the original.
    """
    if axis is None:
        return tuple(range(rank))
    named = set(require_axes(axis, rank))
    return tuple(i for i in range(rank) if (i in named) != exclude)
