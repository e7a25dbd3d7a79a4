"""Lines of a tensor: all that lies along one axis, as rows of a matrix and back."""

from __future__ import annotations

import numpy as np

from relayvm.base.dims import Dim
from relayvm.kernels import compute as te
from relayvm.kernels.compute import ScalarExpr, Tensor
from relayvm.ops.axes import product
from relayvm.ops.loads import Index
from relayvm.ops.numeric import Array
from relayvm.ops.reshaping import flattened, unflattened


def lines_of(data: Tensor, axis: int) -> Tensor:
    """Return the lines along an axis as the rows of a matrix, ordered by their places."""
    others = other_dims(data.shape, axis)

    def element(line: ScalarExpr, i: ScalarExpr) -> ScalarExpr:
        outer = unflattened(line, others)
        return data[outer[:axis] + (i,) + outer[axis:]]

    return te.compute((product(others), data.shape[axis]), element, "lines")


def from_lines(lines: Tensor, shape: tuple[Dim, ...], axis: int, name: str) -> Tensor:
    """Return the tensor whose lines along an axis begin the rows of a matrix."""
    others = other_dims(shape, axis)

    def element(*i: ScalarExpr) -> ScalarExpr:
        return lines[flattened(other_places(i, axis), others), i[axis]]

    return te.compute(shape, element, name)


def other_dims(shape: tuple[Dim, ...], axis: int) -> tuple[Dim, ...]:
    """Return a shape without an axis."""
    return shape[:axis] + shape[axis + 1 :]


def other_places(index: Index, axis: int) -> Index:
    """Return an index without the place along an axis."""
    return index[:axis] + index[axis + 1 :]


def array_lines(data: Array, axis: int) -> Array:
    """Return the lines of an array along an axis as rows."""
    moved = np.moveaxis(data, axis, -1)
    return np.ascontiguousarray(moved).reshape(-1, data.shape[axis]) if data.size else moved
