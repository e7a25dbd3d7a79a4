"""Operators that take as a tensor what others have as an attribute: shapes and axes.

The size of a result is computed in the machine. Values that mean nothing trap; what a constant
says is known to the type.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from relayvm.base.abi import MAX_RANK
from relayvm.base.dims import ANY, Dim, dim_mul, dims_equal
from relayvm.base.dtypes import FLOAT32, INT64, DType, dtype_of
from relayvm.base.shapes import ShapeError
from relayvm.ir.types import TensorType
from relayvm.kernels import compute as te
from relayvm.kernels.compute import ScalarExpr, Tensor
from relayvm.ops import numeric
from relayvm.ops.axes import product, require_rank
from relayvm.ops.loads import load_wide
from relayvm.ops.masking import one_hot_array, one_hot_tensor, one_hot_type
from relayvm.ops.numeric import Array
from relayvm.ops.operator import Fusion, Operator, operator
from relayvm.ops.repeating import tiled, tiling
from relayvm.ops.reshaping import reindexed, reshaped
from relayvm.ops.schema import AnyTensor, Dims, Integer, Ints, Numeric, SameDtype, like

CONSTANT = "no operand has an influence on the elements"


def length_of(tensor: TensorType | Tensor, what: str) -> int:
    """Return the number of elements of a vector of sizes or axes, which must be known."""
    if len(tensor.shape) != 1 or not isinstance(tensor.shape[0], int):
        shape = ", ".join(map(str, tensor.shape))
        raise ShapeError(f"{what} must be a vector of known length, got the shape ({shape})")
    if tensor.shape[0] > MAX_RANK:
        raise ShapeError(f"{what} has {tensor.shape[0]} entries, above {MAX_RANK}", "rank-limit")
    return tensor.shape[0]


def open_shape(tensor: TensorType, what: str) -> Dims:
    """Return as many unknown sizes as a vector of sizes has entries."""
    return (ANY,) * length_of(tensor, what)


@contextmanager
def values_matter() -> Iterator[None]:
    """Turn the complaint of a rule about sizes into one about the values they come from."""
    try:
        yield
    except ShapeError as failure:
        raise ShapeError(failure.message, "bad-value") from None


def numbers(array: Array) -> Ints:
    """Return the elements of an array of integers."""
    return tuple(int(v) for v in array.reshape(-1))


def sizes_in(array: Array, what: str) -> Ints:
    """Return sizes; raises ShapeError `bad-value` where one is negative."""
    sizes = numbers(array)
    if min(sizes, default=0) < 0 or max(sizes, default=0) > INT64.max:
        raise ShapeError(f"{what} must be sizes, got {list(sizes)}", "bad-value")
    return sizes


def entry(tensor: Tensor, k: int) -> ScalarExpr:
    """Return an entry of a vector of integers; those above int64 come out negative."""
    return te.cast(tensor[(te.dim(k),)[: tensor.rank]], INT64)


def entries(tensor: Tensor) -> list[ScalarExpr]:
    """Return all entries of a vector of known length."""
    return [entry(tensor, k) for k in range(length_of(tensor, "an operand"))]


def all_of(*conditions: ScalarExpr) -> ScalarExpr:
    """Return whether all conditions hold."""
    result: ScalarExpr = te.const(True, "bool")
    for condition in conditions:
        result = te.scalar("logical_and", result, condition)
    return result


def any_of(*conditions: ScalarExpr) -> ScalarExpr:
    """Return whether one of the conditions holds."""
    result: ScalarExpr = te.const(False, "bool")
    for condition in conditions:
        result = te.scalar("logical_or", result, condition)
    return result


def dims_if(valid: ScalarExpr, sizes: Sequence[ScalarExpr]) -> tuple[Tensor, ...]:
    """Return sizes as the tensors of a `value_dims`, -1 where they are not valid."""

    def tensor(size: ScalarExpr) -> Tensor:
        value = te.select(valid, size, -1)
        return te.compute((), lambda: value, "size")

    return tuple(tensor(size) for size in sizes)


def plain_sizes(tensor: Tensor) -> tuple[Tensor, ...]:
    """Return the entries of a vector as sizes, -1 where they are negative."""
    return tuple(d for v in entries(tensor) for d in dims_if(v >= 0, [v]))


# -- Shapes -------------------------------------------------------------------------------------


@operator("dyn.reshape", fusion=Fusion.OPAQUE, value_operands=("newshape",), ignored=("newshape",))
def dyn_reshape(data: AnyTensor, newshape: Integer, *, allowzero: bool = False) -> TensorType:
    """The elements of `data` in row-major order in the shape `newshape`.

    An entry of 0 takes the size of the same axis over (with `allowzero` it is the size 0), one of
    -1 follows from the others.

    >>> %x = int32 [[1, 2], [3, 4]]
    >>> %s = int64 [4, -1]
    >>> dyn.reshape(%x, %s)
    [[1], [2], [3], [4]]
    """
    return TensorType(open_shape(newshape, "`newshape` of `dyn.reshape`"), data.dtype)


def _new_shape(shape: Dims, newshape: Array, allowzero: bool) -> Dims:
    codes = numbers(newshape)
    if min(codes, default=0) < -1:
        raise ShapeError(f"`newshape` must be at least -1, got {list(codes)}", "bad-value")
    copied = [k for k, code in enumerate(codes) if code == 0 and not allowzero]
    if any(k >= len(shape) for k in copied):
        raise ShapeError("a 0 in `newshape` has no axis to take over", "bad-value")
    known = tuple(shape[k] if k in copied else code for k, code in enumerate(codes))
    with values_matter():
        return reshaped(shape, known, allowzero=True)


@dyn_reshape.value_shape
def _(data: Any, newshape: Array, *, allowzero: bool) -> Dims:
    return _new_shape(data.shape, newshape, allowzero)


@dyn_reshape.numpy
def _(data: Array, newshape: Array, *, allowzero: bool) -> Array:
    return data.reshape(_new_shape(data.shape, newshape, allowzero))


@dyn_reshape.value_dims
def _(data: Tensor, newshape: Tensor, *, allowzero: bool) -> tuple[Tensor, ...]:
    sizes, valid = [], []
    for k, code in enumerate(entries(newshape)):
        taken = te.dim(data.shape[k]) if k < data.rank else te.const(-2, INT64)
        size = code if allowzero else te.select(code.equal(0), taken, code)
        sizes.append(size)
        valid.append(size >= -1)
    known, inferred = te.const(1, INT64), te.const(0, INT64)
    for size in sizes:
        open_ = size.equal(-1)
        known = te.select(open_, known, known * size)
        inferred = inferred + te.cast(open_, INT64)
    total = te.dim(product(data.shape))
    quotient = total // known
    fits = te.select(
        inferred.equal(0),
        total.equal(known),
        all_of(inferred.equal(1), known > 0, (quotient * known).equal(total)),
    )
    return dims_if(all_of(fits, *valid), [te.select(s.equal(-1), quotient, s) for s in sizes])


@dyn_reshape.compute
def _(dims: Dims, data: Tensor, newshape: Tensor, *, allowzero: bool) -> Tensor:
    if not dims:
        return te.compute((), lambda: data[(0,) * data.rank], "reshape")
    return reindexed(data, dims, "reshape")


@operator("dyn.expand_dims", fusion=Fusion.OPAQUE, value_operands=("axis",))
def dyn_expand_dims(data: AnyTensor, axis: Integer, *, num_newaxis: int = 1) -> TensorType:
    """`data` with `num_newaxis` axes of size 1 inserted before `axis`; -1 is behind the last.

    >>> %x = int32 [1, 2]
    >>> %a = int32 1
    >>> dyn.expand_dims(%x, %a)
    [[1], [2]]
    """
    _require_single(axis, "`axis` of `dyn.expand_dims`")
    if num_newaxis < 0:
        raise ShapeError(f"`num_newaxis` must be at least 0, got {num_newaxis}", "bad-attribute")
    if data.rank + num_newaxis > MAX_RANK:
        message = f"the result of `dyn.expand_dims` has rank {data.rank + num_newaxis}"
        raise ShapeError(f"{message}, above {MAX_RANK}", "rank-limit")
    return TensorType((ANY,) * (data.rank + num_newaxis), data.dtype)


def _require_single(tensor: TensorType, what: str) -> None:
    if tensor.rank > 1 or (tensor.rank == 1 and tensor.shape[0] != 1):
        raise ShapeError(f"{what} must be one number, got the shape {list(tensor.shape)}")


def _expanded(shape: Dims, axis: Array, count: int) -> Dims:
    (place,) = numbers(axis)
    if not -len(shape) - 1 <= place <= len(shape):
        legal = f"{-len(shape) - 1} to {len(shape)}"
        raise ShapeError(f"`axis` of `dyn.expand_dims` is {place}, legal are {legal}", "bad-value")
    place = place + len(shape) + 1 if place < 0 else place
    return (*shape[:place], *(1,) * count, *shape[place:])


@dyn_expand_dims.value_shape
def _(data: Any, axis: Array, *, num_newaxis: int) -> Dims:
    return _expanded(data.shape, axis, num_newaxis)


@dyn_expand_dims.numpy
def _(data: Array, axis: Array, *, num_newaxis: int) -> Array:
    return data.reshape(_expanded(data.shape, axis, num_newaxis))


@dyn_expand_dims.value_dims
def _(data: Tensor, axis: Tensor, *, num_newaxis: int) -> tuple[Tensor, ...]:
    rank, place = data.rank, entry(axis, 0)
    valid = all_of(place >= -rank - 1, place <= rank)
    place = te.select(place < 0, place + (rank + 1), place)
    sizes = []
    for k in range(rank + num_newaxis):
        before = te.dim(data.shape[k]) if k < rank else te.const(1, INT64)
        behind = te.dim(data.shape[k - num_newaxis]) if k >= num_newaxis else te.const(1, INT64)
        is_new = place + num_newaxis > k
        sizes.append(te.select(place > k, before, te.select(is_new, te.const(1, INT64), behind)))
    return dims_if(valid, sizes)


@dyn_expand_dims.compute
def _(dims: Dims, data: Tensor, axis: Tensor, *, num_newaxis: int) -> Tensor:
    return reindexed(data, dims, "expand_dims") if dims else te.compute((), lambda: data[()])


@operator("dyn.squeeze", fusion=Fusion.OPAQUE, value_operands=("axes",), ignored=("axis",))
def dyn_squeeze(data: AnyTensor, axes: Integer) -> TensorType:
    """`data` without the axes in `axes`, all of size 1.

    >>> %x = int32 [[1], [2]]
    >>> %a = int32 [1]
    >>> dyn.squeeze(%x, %a)
    [1, 2]
    """
    count = length_of(axes, "`axes` of `dyn.squeeze`")
    if count > data.rank:
        raise ShapeError(f"`dyn.squeeze` of {count} axes of a rank of {data.rank}")
    return TensorType((ANY,) * (data.rank - count), data.dtype)


def _kept_shape(shape: Dims, axes: Array) -> Dims:
    places = numbers(axes)
    legal = all(-len(shape) <= a < len(shape) for a in places)
    gone = {a % len(shape) for a in places} if legal and shape else set()
    if not legal or len(gone) != len(places):
        raise ShapeError(f"`axes` of `dyn.squeeze` are {list(places)}", "bad-value")
    if any(dims_equal(shape[a], 1) is False for a in gone):
        sizes = [shape[a] for a in sorted(gone)]
        raise ShapeError(f"`dyn.squeeze` removes axes of the sizes {sizes}", "bad-value")
    return tuple(d for k, d in enumerate(shape) if k not in gone)


@dyn_squeeze.value_shape
def _(data: Any, axes: Array) -> Dims:
    return _kept_shape(data.shape, axes)


@dyn_squeeze.numpy
def _(data: Array, axes: Array) -> Array:
    return data.reshape(_kept_shape(data.shape, axes))


@dyn_squeeze.value_dims
def _(data: Tensor, axes: Tensor) -> tuple[Tensor, ...]:
    rank = data.rank
    places = [te.select(v < 0, v + rank, v) for v in entries(axes)]
    valid = [te.scalar("logical_and", p >= 0, p < rank) for p in places]
    kept_before: ScalarExpr = te.const(0, INT64)
    result = [te.const(0, INT64)] * (rank - len(places))
    gone_total: ScalarExpr = te.const(0, INT64)
    for k in range(rank):
        gone = any_of(*(p.equal(k) for p in places))
        valid.append(
            te.scalar("logical_or", te.scalar("logical_not", gone), te.dim(data.shape[k]).equal(1))
        )
        kept = te.scalar("logical_not", gone)
        for position in range(len(result)):
            here = te.scalar("logical_and", kept, kept_before.equal(position))
            result[position] = te.select(here, te.dim(data.shape[k]), result[position])
        kept_before = kept_before + te.cast(kept, INT64)
        gone_total = gone_total + te.cast(gone, INT64)
    # An axis named twice leaves one too many.
    valid.append(gone_total.equal(len(places)))
    return dims_if(all_of(*valid), result)


@dyn_squeeze.compute
def _(dims: Dims, data: Tensor, axes: Tensor) -> Tensor:
    if not dims:
        return te.compute((), lambda: data[(0,) * data.rank], "squeeze")
    return reindexed(data, dims, "squeeze")


# -- Repetition ---------------------------------------------------------------------------------


@operator(
    "dyn.broadcast_to",
    fusion=Fusion.OPAQUE,
    value_operands=("shape",),
    ignored=("shape", "dtype"),
)
def dyn_broadcast_to(data: AnyTensor, shape: Integer) -> TensorType:
    """`data` broadcast from the right to the shape `shape`.

    >>> %x = int32 [1, 2]
    >>> %s = int64 [2, 2]
    >>> dyn.broadcast_to(%x, %s)
    [[1, 2], [1, 2]]
    """
    wanted = open_shape(shape, "`shape` of `dyn.broadcast_to`")
    if len(wanted) < data.rank:
        raise ShapeError(f"a rank of {data.rank} does not broadcast to a rank of {len(wanted)}")
    return TensorType(wanted, data.dtype)


def _broadcast_shape(source: Dims, shape: Array) -> Dims:
    wanted = sizes_in(shape, "`shape` of `dyn.broadcast_to`")
    for a, b in zip(reversed(source), reversed(wanted)):
        if a != 1 and dims_equal(a, b) is False:
            raise ShapeError(f"a size of {a} does not broadcast to {b}", "bad-value")
    return wanted


@dyn_broadcast_to.value_shape
def _(data: Any, shape: Array) -> Dims:
    return _broadcast_shape(data.shape, shape)


@dyn_broadcast_to.numpy
def _(data: Array, shape: Array) -> Array:
    return np.broadcast_to(data, _broadcast_shape(data.shape, shape))  # type: ignore[arg-type]


@dyn_broadcast_to.value_dims
def _(data: Tensor, shape: Tensor) -> tuple[Tensor, ...]:
    sizes = entries(shape)
    skipped = len(sizes) - data.rank
    valid = [s >= 0 for s in sizes]
    for k, extent in enumerate(data.shape):
        size = te.dim(extent)
        valid.append(te.scalar("logical_or", size.equal(1), size.equal(sizes[skipped + k])))
    return dims_if(all_of(*valid), sizes)


@dyn_broadcast_to.compute
def _(dims: Dims, data: Tensor, shape: Tensor) -> Tensor:
    skipped = len(dims) - data.rank

    def element(*i: ScalarExpr) -> ScalarExpr:
        places = (te.index(i[skipped + k], d, "clip") for k, d in enumerate(data.shape))
        return data[tuple(places)]

    return te.compute(dims, element, "broadcast_to")


@operator("dyn.tile", fusion=Fusion.OPAQUE, value_operands=("reps",), ignored=("reps",))
def dyn_tile(data: AnyTensor, reps: Integer) -> TensorType:
    """`data` repeated as a whole `reps[k]` times along axis k, counted from the last.

    >>> %x = int32 [1, 2]
    >>> %r = int64 [2, 2]
    >>> dyn.tile(%x, %r)
    [[1, 2, 1, 2], [1, 2, 1, 2]]
    """
    rank = max(data.rank, length_of(reps, "`reps` of `dyn.tile`"))
    return TensorType((ANY,) * rank, data.dtype)


@dyn_tile.value_shape
def _(data: Any, reps: Array) -> Dims:
    counts = sizes_in(reps, "`reps` of `dyn.tile`")
    return tuple(map(dim_mul, *tiling(data.shape, counts)))


@dyn_tile.numpy
def _(data: Array, reps: Array) -> Array:
    return np.tile(data, sizes_in(reps, "`reps` of `dyn.tile`"))


@dyn_tile.value_dims
def _(data: Tensor, reps: Tensor) -> tuple[Tensor, ...]:
    counts = entries(reps)
    rank = max(data.rank, len(counts))
    one = te.const(1, INT64)
    sizes = [one] * (rank - data.rank) + [te.dim(d) for d in data.shape]
    whole = [one] * (rank - len(counts)) + counts
    valid = all_of(*(c >= 0 for c in counts))
    return dims_if(valid, [a * b for a, b in zip(sizes, whole)])


@dyn_tile.compute
def _(dims: Dims, data: Tensor, reps: Tensor) -> Tensor:
    return tiled(data, dims)


# -- New tensors --------------------------------------------------------------------------------


def _filled(name: str, value: int, text: str, result: str) -> Operator:
    doc = (
        f"{text} in the shape `shape`; `dtype` is float32 by default."
        f"\n\n>>> %s = int64 [2]\n>>> {name}(%s)\n{result}"
    )

    def rule(shape: Integer, *, dtype: DType | None = None) -> TensorType:
        return TensorType(open_shape(shape, f"`shape` of `{name}`"), dtype or FLOAT32)

    row = operator(name, fusion=Fusion.OPAQUE, no_gradient=CONSTANT, ignored=("shape",), doc=doc)(
        rule
    )

    @row.value_shape
    def _(shape: Array, *, dtype: DType | None) -> Dims:
        return sizes_in(shape, f"`shape` of `{name}`")

    @row.numpy
    def _(shape: Array, *, dtype: DType | None) -> Array:
        return np.full(sizes_in(shape, f"`shape` of `{name}`"), value, (dtype or FLOAT32).numpy)

    @row.value_dims
    def _(shape: Tensor, *, dtype: DType | None) -> tuple[Tensor, ...]:
        return plain_sizes(shape)

    @row.compute
    def _(dims: Dims, shape: Tensor, *, dtype: DType | None) -> Tensor:
        return te.compute(dims, lambda *i: te.const(value, dtype or FLOAT32), name)

    return row


dyn_zeros = _filled("dyn.zeros", 0, "Zeros", "[0, 0]")
dyn_ones = _filled("dyn.ones", 1, "Ones", "[1, 1]")


@operator("dyn.full", fusion=Fusion.OPAQUE, value_operands=("shape",), ignored=("shape",))
def dyn_full(fill_value: AnyTensor, shape: Integer, *, dtype: DType | None = None) -> TensorType:
    """The rank-0 `fill_value` everywhere in the shape `shape`; `dtype` is its by default.

    >>> %x = float32 7
    >>> %s = int64 [2]
    >>> dyn.full(%x, %s)
    [7, 7]
    """
    require_rank(fill_value, 0, 0, "`fill_value` of `dyn.full`")
    return TensorType(open_shape(shape, "`shape` of `dyn.full`"), dtype or fill_value.dtype)


@dyn_full.value_shape
def _(fill_value: Any, shape: Array, *, dtype: DType | None) -> Dims:
    return sizes_in(shape, "`shape` of `dyn.full`")


@dyn_full.numpy
def _(fill_value: Array, shape: Array, *, dtype: DType | None) -> Array:
    value = numeric.cast(fill_value, dtype or dtype_of(fill_value.dtype))
    return np.full(sizes_in(shape, "`shape` of `dyn.full`"), value, value.dtype)


@dyn_full.value_dims
def _(fill_value: Tensor, shape: Tensor, *, dtype: DType | None) -> tuple[Tensor, ...]:
    return plain_sizes(shape)


@dyn_full.compute
def _(dims: Dims, fill_value: Tensor, shape: Tensor, *, dtype: DType | None) -> Tensor:
    value = te.cast(fill_value[()], dtype or fill_value.dtype)
    return te.compute(dims, lambda *i: value, "full")


@operator("dyn.one_hot", fusion=Fusion.OPAQUE, value_operands=("depth",), ignored=("depth",))
def dyn_one_hot(
    indices: Integer,
    on_value: AnyTensor,
    off_value: SameDtype,
    depth: Integer,
    *,
    axis: int = -1,
    dtype: DType | None = None,
) -> TensorType:
    """`on_value` where the position along a new `axis` of size `depth` is the index, else
    `off_value`.

    >>> %i = int32 [0, 2]
    >>> %a = float32 1
    >>> %b = float32 0
    >>> %d = int32 3
    >>> dyn.one_hot(%i, %a, %b, %d)
    [[1, 0, 0], [0, 0, 1]]
    """
    _require_single(depth, "`depth` of `dyn.one_hot`")
    return one_hot_type(indices, on_value, off_value, ANY, axis, dtype)


@dyn_one_hot.value_shape
@like(dyn_one_hot.rule)
def _(indices: Any, on_value: Any, off_value: Any, depth: Array, **attrs: Any) -> Dims:
    return sizes_in(depth, "`depth` of `dyn.one_hot`")


@dyn_one_hot.numpy
@like(dyn_one_hot.rule)
def _(indices: Array, on_value: Array, off_value: Array, depth: Array, **attrs: Any) -> Array:
    (size,) = sizes_in(depth, "`depth` of `dyn.one_hot`")
    return one_hot_array(indices, on_value, off_value, size, **attrs)


@dyn_one_hot.value_dims
@like(dyn_one_hot.rule)
def _(indices: Tensor, on_value: Tensor, off_value: Tensor, depth: Tensor, **attrs: Any) -> Any:
    size = entry(depth, 0)
    return dims_if(size >= 0, [size])


@dyn_one_hot.compute
def _(
    dims: Dims,
    indices: Tensor,
    on_value: Tensor,
    off_value: Tensor,
    depth: Tensor,
    *,
    axis: int,
    dtype: DType | None,
) -> Tensor:
    return one_hot_tensor(indices, on_value, off_value, dims[0], axis, dtype)


@operator("collapse_sum_to", fusion=Fusion.OPAQUE, value_operands=("shape",))
def collapse_sum_to(data: Numeric, shape: Integer) -> TensorType:
    """`data` summed along axes to the shape `shape`, which broadcasts to that of `data`.

    >>> %x = float32 [[1, 2], [3, 4]]
    >>> %s = int64 [2]
    >>> collapse_sum_to(%x, %s)
    [4, 6]
    """
    wanted = open_shape(shape, "`shape` of `collapse_sum_to`")
    if len(wanted) > data.rank:
        raise ShapeError(f"a rank of {len(wanted)} does not broadcast to a rank of {data.rank}")
    return TensorType(wanted, data.dtype)


def _collapsed(source: Dims, shape: Array) -> Ints:
    wanted = sizes_in(shape, "`shape` of `collapse_sum_to`")
    for a, b in zip(reversed(source), reversed(wanted)):
        if b != 1 and dims_equal(a, b) is False:
            raise ShapeError(f"a size of {b} does not broadcast to {a}", "bad-value")
    return wanted


@collapse_sum_to.value_shape
def _(data: Any, shape: Array) -> Dims:
    return _collapsed(data.shape, shape)


@collapse_sum_to.numpy
def _(data: Array, shape: Array) -> Array:
    wanted = _collapsed(data.shape, shape)
    outer = tuple(range(data.ndim - len(wanted)))
    inner = tuple(len(outer) + k for k, n in enumerate(wanted) if n == 1)
    return numeric.sum_terms(data, (*outer, *inner), keepdims=True).reshape(wanted)


@collapse_sum_to.value_dims
def _(data: Tensor, shape: Tensor) -> tuple[Tensor, ...]:
    sizes = entries(shape)
    skipped = data.rank - len(sizes)
    valid = [
        te.scalar("logical_or", s.equal(1), s.equal(te.dim(data.shape[skipped + k])))
        for k, s in enumerate(sizes)
    ]
    return dims_if(all_of(*valid), sizes)


@collapse_sum_to.compute
def _(dims: Dims, data: Tensor, shape: Tensor) -> Tensor:
    skipped = data.rank - len(dims)

    def element(*i: ScalarExpr) -> ScalarExpr:
        # Of an axis that stays one place counts, of one that is summed all.
        def term(*r: ScalarExpr) -> ScalarExpr:
            value = load_wide(data, r)
            for k, size in enumerate(dims):
                here = any_of(te.dim(size).equal(1), r[skipped + k].equal(i[k]))
                value = te.select(here, value, 0)
            return value

        return te.cast(te.reduce("sum", data.shape, term), data.dtype)

    return te.compute(dims, element, "collapse_sum_to")


@collapse_sum_to.reduction_size
def _(data: TensorType, shape: TensorType) -> Dim:
    return product(data.shape)


OPERATORS = (
    collapse_sum_to,
    dyn_broadcast_to,
    dyn_expand_dims,
    dyn_full,
    dyn_one_hot,
    dyn_ones,
    dyn_reshape,
    dyn_squeeze,
    dyn_tile,
    dyn_zeros,
)
