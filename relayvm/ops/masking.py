"""Operators that keep or set elements by where they stand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from relayvm.base.dims import Dim, dim_add, dim_max, dim_min, dim_mul, dim_sub
from relayvm.base.dtypes import INT64, DType, dtype_of, number_of
from relayvm.base.shapes import ShapeError, bad_index, require_equal
from relayvm.ir.types import TensorType
from relayvm.kernels import compute as te
from relayvm.kernels.compute import ScalarExpr, Tensor
from relayvm.kernels.schedules.program import Memory, Writer, copy_work
from relayvm.ops import numeric
from relayvm.ops.axes import product, require_axis, require_least, require_rank
from relayvm.ops.numeric import Array
from relayvm.ops.operator import Fusion, operator
from relayvm.ops.reshaping import unflattened
from relayvm.ops.schema import AnyTensor, Dims, Integer, SameDtype, like, require_same_dtype


@operator("trilu", fusion=Fusion.ELEMENTWISE)
def trilu(data: AnyTensor, k: Integer, *, upper: bool = True) -> TensorType:
    """Matrices with zeros below (`upper`) or above the diagonal number `k`, 0 being the main one.

    >>> %x = int32 [[1, 2], [3, 4]]
    >>> %k = int32 0
    >>> trilu(%x, %k)
    [[1, 2], [0, 4]]
    """
    require_rank(data, 2, 99, "`data` of `trilu`")
    _require_one(k, "`k` of `trilu`")
    return TensorType(data.shape, data.dtype)


def _require_one(tensor: TensorType, what: str) -> None:
    require_rank(tensor, 0, 1, what)
    if tensor.rank:
        require_equal(tensor.shape[0], 1, f"the length of {what} and 1")


@trilu.numpy
def _(data: Array, k: Array, *, upper: bool) -> Array:
    rows, columns = np.indices(data.shape[-2:])
    distance = columns - rows
    kept = distance >= k.reshape(-1)[0] if upper else distance <= k.reshape(-1)[0]
    return np.where(kept, data, data.dtype.type(0))


@trilu.compute
def _(data: Tensor, k: Tensor, *, upper: bool) -> Tensor:
    def element(*i: ScalarExpr) -> ScalarExpr:
        diagonal = te.cast(k[(0,) * k.rank], INT64)
        distance = i[-1] - i[-2]
        kept = distance >= diagonal if upper else distance <= diagonal
        return te.select(kept, data[i], 0)

    return te.compute(data.shape, element, "trilu")


@dataclass(frozen=True, slots=True)
class _Band:
    """Diagonals k1 to k2 of matrices, as rows of one tensor."""

    k1: int
    k2: int
    super_diag_right_align: bool
    sub_diag_right_align: bool

    def shape(self, matrix: Dims) -> Dims:
        """Return the shape in which the diagonals of matrices stand."""
        if self.k1 > self.k2:
            message = f"`k1` must not exceed `k2`, got {self.k1} and {self.k2}"
            raise ShapeError(message, "bad-attribute")
        rows, columns = matrix[-2:]
        below, above = min(self.k2, 0), max(self.k1, 0)
        length = dim_max(dim_min(dim_add(rows, below), dim_sub(columns, above)), 0)
        count = () if self.k1 == self.k2 else (self.k2 - self.k1 + 1,)
        return (*matrix[:-2], *count, length)

    def place(self, i: tuple[Any, ...], matrix: Sequence[Any], longest: Any, ops: Any) -> Any:
        """Return the row and the column of an element of a diagonal among the diagonals."""
        row, column = i[-2:]
        distance = column - row
        length = ops(
            "minimum",
            matrix[-1] - ops("maximum", distance, 0),
            matrix[-2] + ops("minimum", distance, 0),
        )
        start = column - ops("maximum", distance, 0)
        right = start + (longest - length)
        above = right if self.super_diag_right_align else start
        below = right if self.sub_diag_right_align else start
        return self.k2 - distance, ops("where", distance >= 0, above, below)


def _numpy_ops(name: str, *args: Any) -> Any:
    return getattr(np, name)(*args)


def _tensor_ops(name: str, *args: Any) -> Any:
    return te.select(*args) if name == "where" else te.scalar(name, *args)


def _band_place(i: tuple[ScalarExpr, ...], matrix: Dims, band: _Band) -> tuple[ScalarExpr, ...]:
    diagonals = band.shape(matrix)
    sizes = [te.dim(d) for d in matrix]
    row, column = band.place(i, sizes, te.dim(diagonals[-1]), _tensor_ops)
    column = te.index(column, diagonals[-1], "clip")
    if band.k1 == band.k2:
        return (*i[:-2], column)
    return (*i[:-2], te.index(row, diagonals[-2], "clip"), column)


@operator("matrix_set_diag", fusion=Fusion.OPAQUE)
def matrix_set_diag(
    input: AnyTensor,
    diagonal: SameDtype,
    *,
    k1: int = 0,
    k2: int = 0,
    super_diag_right_align: bool = True,
    sub_diag_right_align: bool = False,
) -> TensorType:
    """Matrices whose diagonals `k1` to `k2` are replaced by `diagonal`, one a row, the highest
    first.

    A row is as long as the longest diagonal; shorter ones stand at its right or left end.

    >>> %x = int32 [[1, 2], [3, 4]]
    >>> %d = int32 [8, 9]
    >>> matrix_set_diag(%x, %d)
    [[8, 2], [3, 9]]
    """
    require_rank(input, 2, 99, "`input` of `matrix_set_diag`")
    wanted = _Band(k1, k2, super_diag_right_align, sub_diag_right_align).shape(input.shape)
    require_rank(diagonal, len(wanted), len(wanted), "`diagonal` of `matrix_set_diag`")
    for axis, (a, b) in enumerate(zip(diagonal.shape, wanted)):
        require_equal(a, b, f"axis {axis} of `diagonal` and of the diagonals of `input`")
    return TensorType(input.shape, input.dtype)


@matrix_set_diag.numpy
@like(matrix_set_diag.rule)
def _(input: Array, diagonal: Array, **attrs: Any) -> Array:
    band, result = _Band(**attrs), np.array(input)
    for i in np.ndindex(*input.shape):
        if band.k1 <= i[-1] - i[-2] <= band.k2:
            row, column = band.place(i, input.shape, diagonal.shape[-1], _numpy_ops)
            at = (column,) if band.k1 == band.k2 else (row, column)
            result[i] = diagonal[i[:-2] + at]
    return result


@matrix_set_diag.compute
@like(matrix_set_diag.rule)
def _(input: Tensor, diagonal: Tensor, **attrs: Any) -> Tensor:
    band = _Band(**attrs)
    *outer, rows, columns = input.shape
    lines = (*outer, band.k2 - band.k1 + 1)

    def build(w: Writer, input: Memory, diagonal: Memory, result: Memory) -> None:
        w.copy(input, result)
        with w.parts(product(lines), band.shape(input.shape)[-1]) as (line, begin, end):
            *at, number = unflattened(line, lines)
            distance = w.let(band.k2 - number)
            right, down = (te.scalar("maximum", d, 0) for d in (distance, 0 - distance))
            length = te.scalar("minimum", te.dim(columns) - right, te.dim(rows) - down)
            with w.loop(begin, w.let(te.scalar("minimum", length, end))) as k:
                row, column = te.index(k + down, rows, "clip"), te.index(k + right, columns, "clip")
                place = (*at, row, column)
                result[place] = diagonal[_band_place(place, input.shape, band)]

    work = dim_add(copy_work(input.shape), dim_mul(product(diagonal.shape), 8))
    results = [(input.shape, input.dtype)]
    return te.program(results, [input, diagonal], build, work, in_place=((0, 0),))[0]


@operator("matrix_set_diag_grad", fusion=Fusion.REDUCTION)
def matrix_set_diag_grad(
    grad: AnyTensor,
    *,
    k1: int = 0,
    k2: int = 0,
    super_diag_right_align: bool = True,
    sub_diag_right_align: bool = False,
) -> TensorType:
    """The diagonals of `grad` as `matrix_set_diag` takes them, 0 where a row has no element.

    >>> %g = float32 [[1, 2], [3, 4]]
    >>> matrix_set_diag_grad(%g)
    [1, 4]
    """
    require_rank(grad, 2, 99, "`grad` of `matrix_set_diag_grad`")
    band = _Band(k1, k2, super_diag_right_align, sub_diag_right_align)
    return TensorType(band.shape(grad.shape), grad.dtype)


@matrix_set_diag_grad.numpy
@like(matrix_set_diag_grad.rule)
def _(grad: Array, **attrs: Any) -> Array:
    band = _Band(**attrs)
    result = np.zeros([int(d) for d in band.shape(grad.shape)], grad.dtype)  # type: ignore[arg-type]
    for i in np.ndindex(*grad.shape):
        if band.k1 <= i[-1] - i[-2] <= band.k2:
            row, column = band.place(i, grad.shape, result.shape[-1], _numpy_ops)
            at = (column,) if band.k1 == band.k2 else (row, column)
            result[i[:-2] + at] = grad[i]
    return result


@matrix_set_diag_grad.compute
@like(matrix_set_diag_grad.rule)
def _(grad: Tensor, **attrs: Any) -> Tensor:
    band = _Band(**attrs)
    rows, columns = grad.shape[-2:]
    shape = band.shape(grad.shape)
    batch = len(grad.shape) - 2

    def element(*i: ScalarExpr) -> ScalarExpr:
        distance = te.const(band.k2, INT64) - (i[batch] if band.k1 != band.k2 else 0)
        above, below = te.scalar("maximum", distance, 0), te.scalar("minimum", distance, 0)
        length = te.scalar("minimum", te.dim(columns) - above, te.dim(rows) + below)
        gap = te.dim(shape[-1]) - length
        shift = te.select(
            distance >= 0,
            gap if band.super_diag_right_align else te.const(0, INT64),
            gap if band.sub_diag_right_align else te.const(0, INT64),
        )
        start = i[-1] - shift
        inside = te.scalar("logical_and", start >= 0, start < length)
        row = te.index(start - below, rows, "clip")
        column = te.index(start + above, columns, "clip")
        return te.select(inside, grad[i[:batch] + (row, column)], 0)

    return te.compute(shape, element, "diagonals")


@operator("sequence_mask", fusion=Fusion.INJECTIVE)
def sequence_mask(
    data: AnyTensor, valid_length: Integer, *, mask_value: float = 0.0, axis: int = 0
) -> TensorType:
    """`data` with `mask_value` from position `valid_length[b]` on along `axis`, which is 0 or 1;
    the other of the two counts b.

    >>> %x = float32 [[1, 2], [3, 4]]
    >>> %n = int32 [1, 2]
    >>> sequence_mask(%x, %n)
    [[1, 2], [0, 4]]
    """
    require_rank(data, 2, 99, "`data` of `sequence_mask`")
    if axis not in (0, 1):
        message = f"`axis` of `sequence_mask` is {axis}, legal are 0 and 1"
        raise ShapeError(message, "bad-axis")
    require_rank(valid_length, 1, 1, "`valid_length` of `sequence_mask`")
    what = f"axis {1 - axis} of `data` and the length of `valid_length`"
    require_equal(data.shape[1 - axis], valid_length.shape[0], what)
    return TensorType(data.shape, data.dtype)


def _filler(mask_value: float, dtype: DType) -> Array:
    return numeric.cast(np.array(mask_value), dtype)


@sequence_mask.numpy
def _(data: Array, valid_length: Array, *, mask_value: float, axis: int) -> Array:
    positions, batches = np.indices(data.shape[:2])[:: 1 if axis == 0 else -1]
    inside = positions < valid_length[batches] if batches.size else positions < 0
    wide = inside.reshape(data.shape[:2] + (1,) * (data.ndim - 2))
    return np.where(wide, data, _filler(mask_value, dtype_of(data.dtype)))


@sequence_mask.compute
def _(data: Tensor, valid_length: Tensor, *, mask_value: float, axis: int) -> Tensor:
    filler = number_of(_filler(mask_value, data.dtype))

    def element(*i: ScalarExpr) -> ScalarExpr:
        length = te.cast(valid_length[i[1 - axis]], INT64)
        return te.select(i[axis] < length, data[i], filler)

    return te.compute(data.shape, element, "sequence_mask")


@operator("one_hot", fusion=Fusion.INJECTIVE)
def one_hot(
    indices: Integer,
    on_value: AnyTensor,
    off_value: SameDtype,
    *,
    depth: int = 1,
    axis: int = -1,
    dtype: DType | None = None,
) -> TensorType:
    """`on_value` where the position along a new `axis` of size `depth` is the index, else
    `off_value`; the values have rank 0.

    >>> %i = int32 [0, 2]
    >>> %a = float32 1
    >>> %b = float32 0
    >>> one_hot(%i, %a, %b, depth=3)
    [[1, 0, 0], [0, 0, 1]]
    """
    require_least("one_hot", "depth", depth, 0)
    return one_hot_type(indices, on_value, off_value, depth, axis, dtype)


def one_hot_type(
    indices: TensorType,
    on_value: TensorType,
    off_value: TensorType,
    depth: Dim,
    axis: int,
    dtype: DType | None,
) -> TensorType:
    """Return the type of what `one_hot` gives."""
    for name, value in (("on_value", on_value), ("off_value", off_value)):
        require_rank(value, 0, 0, f"`{name}` of `one_hot`")
    require_same_dtype(on_value.dtype, off_value.dtype, "dtypes of the values of `one_hot`")
    place = require_axis(axis, indices.rank + 1, "`axis` of `one_hot`")
    shape = (*indices.shape[:place], depth, *indices.shape[place:])
    return TensorType(shape, dtype or on_value.dtype)


@one_hot.numpy
@like(one_hot.rule)
def _(indices: Array, on_value: Array, off_value: Array, **attrs: Any) -> Array:
    return one_hot_array(indices, on_value, off_value, **attrs)


def one_hot_array(
    indices: Array, on: Array, off: Array, depth: int, axis: int, dtype: DType | None
) -> Array:
    """Return the meaning of `one_hot`."""
    place = axis % (indices.ndim + 1)
    positions = np.arange(depth).reshape((-1,) + (1,) * (indices.ndim - place))
    hot = np.expand_dims(indices, place) == positions
    values = [numeric.cast(v, dtype or dtype_of(on.dtype)) for v in (on, off)]
    return np.asarray(np.where(hot, *values))


@one_hot.compute
@like(one_hot.rule)
def _(indices: Tensor, on_value: Tensor, off_value: Tensor, **attrs: Any) -> Tensor:
    return one_hot_tensor(indices, on_value, off_value, **attrs)


def one_hot_tensor(
    indices: Tensor, on: Tensor, off: Tensor, depth: Dim, axis: int, dtype: DType | None
) -> Tensor:
    """Return the definition of `one_hot`."""
    place = require_axis(axis, indices.rank + 1)
    shape = (*indices.shape[:place], depth, *indices.shape[place:])

    def element(*i: ScalarExpr) -> ScalarExpr:
        index = indices[i[:place] + i[place + 1 :]]
        hot = te.cast(index, INT64).equal(i[place])
        if index.dtype.name == "uint64":
            hot = index.equal(te.cast(i[place], index.dtype))
        return te.cast(te.select(hot, on[()], off[()]), dtype or on.dtype)

    return te.compute(shape, element, "one_hot")


@operator("unravel_index", fusion=Fusion.INJECTIVE, no_gradient="integers only", value_traps=True)
def unravel_index(data: Integer, shape: SameDtype) -> TensorType:
    """The index of each element that has the row-major position `data` in a tensor of a shape, one
    row for each axis. A position outside of the tensor traps.

    >>> %x = int32 [5, 3]
    >>> %s = int32 [2, 3]
    >>> unravel_index(%x, %s)
    [[1, 1], [2, 0]]
    """
    require_rank(shape, 1, 1, "`shape` of `unravel_index`")
    return TensorType((shape.shape[0], *data.shape), data.dtype)


@unravel_index.numpy
def _(data: Array, shape: Array) -> Array:
    sizes = [int(size) for size in shape]
    total = math.prod(sizes)
    for position in data.reshape(-1).tolist() if sizes else ():
        if not 0 <= position < total:
            raise bad_index(position, total)
    result = np.empty((len(sizes), *data.shape), data.dtype)
    rest = data.astype(np.int64)
    for axis in reversed(range(len(sizes))):
        result[axis] = rest % sizes[axis] if data.size else 0
        rest = rest // sizes[axis] if data.size else rest
    return result


@unravel_index.compute
def _(data: Tensor, shape: Tensor) -> Tensor:
    axes = shape.shape[0]

    def product_from(first: ScalarExpr) -> ScalarExpr:
        def size(k: ScalarExpr) -> ScalarExpr:
            at = te.index(k, axes, "clip")
            return te.select(k >= first, te.cast(shape[at], INT64), te.const(1, INT64))

        return te.reduce("prod", (axes,), size)

    behind = te.compute((axes,), lambda axis: product_from(axis + 1), "strides")
    total = te.compute((), lambda: product_from(te.const(0, INT64)), "total")

    def element(*i: ScalarExpr) -> ScalarExpr:
        given = te.cast(data[i[1:]], INT64)
        inside = te.scalar("logical_and", given >= 0, given < total[()])
        position = given + te.required(inside, te.told("index", data[i[1:]], total[()]))
        quotient = te.scalar("floor_divide", position, behind[i[0]])
        size = te.cast(shape[i[0]], INT64)
        return te.cast(te.scalar("floor_mod", quotient, size), data.dtype)

    return te.compute((axes, *data.shape), element, "unravel_index")


OPERATORS = (
    matrix_set_diag,
    matrix_set_diag_grad,
    one_hot,
    sequence_mask,
    trilu,
    unravel_index,
)
