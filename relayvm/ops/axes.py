"""What shape rules share: axes, ranks, products of dims, and least attributes."""

from __future__ import annotations

from collections.abc import Iterable

from relayvm.base.dims import AnyDim, Dim, dim_mul
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


def require_least(name: str, attribute: str, value: float, least: int = 1) -> None:
    """Raise ShapeError `bad-attribute` unless an attribute of operator `name` is so much; NaN is
    not.
    """
    if not value >= least:
        message = f"`{attribute}` of `{name}` must be at least {least}, got {value}"
        raise ShapeError(message, "bad-attribute")


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


def folded_shape(shape: tuple[Dim, ...], axes: tuple[int, ...], keepdims: bool) -> tuple[Dim, ...]:
    """Return `shape` without `axes`, or with them of size 1."""
    if keepdims:
        return tuple(1 if i in axes else d for i, d in enumerate(shape))
    return tuple(d for i, d in enumerate(shape) if i not in axes)


def require_known(shape: tuple[Dim, ...], what: str) -> tuple[Dim, ...]:
    """Return `shape`; raises ShapeError if it has a `?` or a negative size."""
    for dim in shape:
        if isinstance(dim, AnyDim) or (isinstance(dim, int) and dim < 0):
            raise ShapeError(f"{what} must be sizes, got {list(shape)}", "bad-attribute")
    return shape


def sizes_of(shape: tuple[Dim, ...]) -> tuple[int, ...]:
    """Return a shape that has no symbols left, as evaluation needs it."""
    assert all(isinstance(d, int) for d in shape), f"symbols in {shape} have no value"
    return tuple(d for d in shape if isinstance(d, int))
