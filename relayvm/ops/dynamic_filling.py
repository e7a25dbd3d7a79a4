"""Operators that fill or repeat to a shape, or sum to one, that a tensor gives."""

from __future__ import annotations

from typing import Any

import numpy as np

from relayvm.base.dims import ANY, Dim, dim_mul, dims_equal
from relayvm.base.dtypes import FLOAT32, INT64, DType, dtype_of
from relayvm.base.shapes import ShapeError, bad_value
from relayvm.ir.types import TensorType
from relayvm.kernels import compute as te
from relayvm.kernels.compute import ScalarExpr, Tensor
from relayvm.ops import numeric
from relayvm.ops.axes import product, require_rank
from relayvm.ops.dynamic import (
    CONSTANT,
    any_of,
    dims_if,
    entries,
    entry,
    length_of,
    open_shape,
    plain_sizes,
    require_single,
    size_rules,
    sizes_in,
)
from relayvm.ops.loads import load_wide
from relayvm.ops.masking import one_hot_array, one_hot_tensor, one_hot_type
from relayvm.ops.numeric import Array
from relayvm.ops.operator import Fusion, Operator, operator
from relayvm.ops.repeating import tiled, tiling
from relayvm.ops.schema import AnyTensor, Dims, Integer, Ints, Numeric, SameDtype, like

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
    wanted = sizes_in(shape)
    _require_broadcast(source, wanted)
    return wanted


def _require_broadcast(source: Dims, wanted: Dims) -> None:
    both = min(len(source), len(wanted))
    for a, b in zip(source[len(source) - both :], wanted[len(wanted) - both :]):
        if a != 1 and dims_equal(a, b) is False:
            whole = (n if isinstance(n, int) else 0 for n in (a, b))
            raise bad_value("broadcast", *whole)


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
    rules = size_rules(shape)
    for k, extent in enumerate(data.shape):
        size, wanted = te.dim(extent), sizes[skipped + k]
        fits = any_of(size.equal(1), size.equal(wanted))
        rules.append((fits, te.told("broadcast", size, wanted)))
    return dims_if(rules, sizes)


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
    counts = sizes_in(reps)
    return tuple(map(dim_mul, *tiling(data.shape, counts)))


@dyn_tile.numpy
def _(data: Array, reps: Array) -> Array:
    return np.tile(data, sizes_in(reps))


@dyn_tile.value_dims
def _(data: Tensor, reps: Tensor) -> tuple[Tensor, ...]:
    counts = entries(reps)
    rank = max(data.rank, len(counts))
    one = te.const(1, INT64)
    sizes = [one] * (rank - data.rank) + [te.dim(d) for d in data.shape]
    whole = [one] * (rank - len(counts)) + counts
    return dims_if(size_rules(reps), [a * b for a, b in zip(sizes, whole)])


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
        return sizes_in(shape)

    @row.numpy
    def _(shape: Array, *, dtype: DType | None) -> Array:
        return np.full(sizes_in(shape), value, (dtype or FLOAT32).numpy)

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
    return sizes_in(shape)


@dyn_full.numpy
def _(fill_value: Array, shape: Array, *, dtype: DType | None) -> Array:
    value = numeric.cast(fill_value, dtype or dtype_of(fill_value.dtype))
    return np.full(sizes_in(shape), value, value.dtype)


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
    require_single(depth, "`depth` of `dyn.one_hot`")
    return one_hot_type(indices, on_value, off_value, ANY, axis, dtype)


@dyn_one_hot.value_shape
@like(dyn_one_hot.rule)
def _(indices: Any, on_value: Any, off_value: Any, depth: Array, **attrs: Any) -> Dims:
    return sizes_in(depth)


@dyn_one_hot.numpy
@like(dyn_one_hot.rule)
def _(indices: Array, on_value: Array, off_value: Array, depth: Array, **attrs: Any) -> Array:
    (size,) = sizes_in(depth)
    return one_hot_array(indices, on_value, off_value, size, **attrs)


@dyn_one_hot.value_dims
@like(dyn_one_hot.rule)
def _(indices: Tensor, on_value: Tensor, off_value: Tensor, depth: Tensor, **attrs: Any) -> Any:
    return dims_if([(entry(depth, 0) >= 0, _depth_told(depth))], [entry(depth, 0)])


def _depth_told(depth: Tensor) -> te.Told:
    return te.told("size", depth[(te.dim(0),)[: depth.rank]], 0)


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
    wanted = sizes_in(shape)
    _require_broadcast(wanted, source)
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
    rules = size_rules(shape)
    for k, size in enumerate(sizes):
        whole = te.dim(data.shape[skipped + k])
        fits = any_of(size.equal(1), size.equal(whole))
        rules.append((fits, te.told("broadcast", size, whole)))
    return dims_if(rules, sizes)


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
    dyn_full,
    dyn_one_hot,
    dyn_ones,
    dyn_tile,
    dyn_zeros,
)
