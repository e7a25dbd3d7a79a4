"""Operators that fold axes: sums, extremes, and their positions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from relayvm.base.dims import Dim, dim_max, dim_sub, dims_equal
from relayvm.base.dtypes import BOOL, INT32, dtype_of
from relayvm.base.shapes import ShapeError, require_broadcast, require_equal
from relayvm.ir.types import TensorType, Type
from relayvm.kernels import compute as te
from relayvm.kernels.compute import ScalarExpr, Tensor
from relayvm.ops import numeric
from relayvm.ops.axes import folded_shape, product, reduced_axes
from relayvm.ops.loads import insert_axes, load_broadcast, load_wide, wide
from relayvm.ops.numeric import Array
from relayvm.ops.operator import Fusion, Operator, operator
from relayvm.ops.schema import AnyTensor, Bool, Float, Ints, Numeric, SameDtype


def _result(data: TensorType, axis: Ints | None, keepdims: bool, exclude: bool) -> tuple[Dim, ...]:
    return folded_shape(data.shape, reduced_axes(axis, exclude, data.rank), keepdims)


def _numeric(
    data: Numeric, *, axis: Ints | None = None, keepdims: bool = False, exclude: bool = False
) -> TensorType:
    return TensorType(_result(data, axis, keepdims, exclude), data.dtype)


def _any_tensor(
    data: AnyTensor, *, axis: Ints | None = None, keepdims: bool = False, exclude: bool = False
) -> TensorType:
    return TensorType(_result(data, axis, keepdims, exclude), data.dtype)


def _bool(
    data: Bool, *, axis: Ints | None = None, keepdims: bool = False, exclude: bool = False
) -> TensorType:
    return TensorType(_result(data, axis, keepdims, exclude), data.dtype)


Reduce = Callable[..., Array]


def _sum(data: Array, axes: Ints, keepdims: bool) -> Array:
    return numeric.sum_terms(data, axes, keepdims)


def _prod(data: Array, axes: Ints, keepdims: bool) -> Array:
    wide = data.astype(np.float32) if data.dtype == np.float16 else data
    result = np.prod(wide, axis=axes, keepdims=keepdims, dtype=wide.dtype)
    return np.asarray(result).astype(data.dtype)


def _max(data: Array, axes: Ints, keepdims: bool) -> Array:
    return np.asarray(np.max(data, axis=axes, keepdims=keepdims, initial=_least(data)))


def _min(data: Array, axes: Ints, keepdims: bool) -> Array:
    return np.asarray(np.min(data, axis=axes, keepdims=keepdims, initial=_greatest(data)))


def _least(data: Array) -> Any:
    return data.dtype.type(-np.inf if data.dtype.kind == "f" else dtype_of(data.dtype).min)


def _greatest(data: Array) -> Any:
    return data.dtype.type(np.inf if data.dtype.kind == "f" else dtype_of(data.dtype).max)


def _mean(data: Array, axes: Ints, keepdims: bool) -> Array:
    count = int(np.prod([data.shape[a] for a in axes], dtype=np.int64))
    if data.dtype.kind != "f":
        total = numeric.sum_terms(data, axes, keepdims)
        return numeric.divide(total, numeric.cast(np.int64(count), dtype_of(data.dtype)))
    wide = data.astype(np.float32) if data.dtype == np.float16 else data
    total = numeric.sum_terms(wide, axes, keepdims)
    return np.asarray(total / wide.dtype.type(count)).astype(data.dtype)


def _all(data: Array, axes: Ints, keepdims: bool) -> Array:
    return np.asarray(np.all(data, axis=axes, keepdims=keepdims))


def _any(data: Array, axes: Ints, keepdims: bool) -> Array:
    return np.asarray(np.any(data, axis=axes, keepdims=keepdims))


# What folds of bools are: those of the numbers 0 and 1, which do not leave them.
_BOOL_KINDS = {"sum": "any", "max": "any", "prod": "all", "min": "all"}
_OF_BOOLS: dict[str, Reduce] = {
    name: _any if kind == "any" else _all for name, kind in _BOOL_KINDS.items()
}


def fold_tensor(data: Tensor, axes: Ints, keepdims: bool, kind: str) -> Tensor:
    """Return `data` folded over `axes` by sum, prod, max, min, any, all or mean."""
    extents = tuple(data.shape[a] for a in axes)
    shape = folded_shape(data.shape, axes, keepdims)
    if data.dtype == BOOL:
        kind = _BOOL_KINDS.get(kind, kind)

    def element(*i: ScalarExpr) -> ScalarExpr:
        kept = tuple(v for k, v in enumerate(i) if k not in axes) if keepdims else i

        def load(*r: ScalarExpr) -> ScalarExpr:
            return load_wide(data, insert_axes(kept, r, axes, data.rank))

        folded = te.reduce("sum" if kind == "mean" else kind, extents, load)
        if kind == "mean":
            folded = te.scalar("divide", folded, te.cast(te.dim(product(extents)), folded.dtype))
        return te.cast(folded, data.dtype)

    return te.compute(shape, element, kind)


def _reduction(
    name: str,
    rule: Callable[..., Type],
    meaning: Reduce,
    doc: str,
    *,
    ulp: float = 0,
    no_gradient: str = "",
) -> Operator:
    row = operator(name, fusion=Fusion.REDUCTION, ulp=ulp, no_gradient=no_gradient, doc=doc)(rule)

    @row.numpy
    def _(data: Array, *, axis: Ints | None, keepdims: bool, exclude: bool) -> Array:
        fold = _OF_BOOLS.get(name, meaning) if data.dtype == np.bool_ else meaning
        return fold(data, reduced_axes(axis, exclude, data.ndim), keepdims)

    @row.compute
    def _(data: Tensor, *, axis: Ints | None, keepdims: bool, exclude: bool) -> Tensor:
        axes = reduced_axes(axis, exclude, data.rank)
        return fold_tensor(data, axes, keepdims, name)

    @row.reduction_size
    def _(data: TensorType, *, axis: Ints | None, keepdims: bool, exclude: bool) -> Dim:
        return product(data.shape[i] for i in reduced_axes(axis, exclude, data.rank))

    return row


_AXES = (
    "\n\nFolds all axes, those in `axis`, or with `exclude` all but those;"
    " `keepdims` leaves them with size 1."
)


def _doc(text: str, name: str, given: str, result: str) -> str:
    return f"{text}{_AXES}\n\n>>> %x = {given}\n>>> {name}(%x, axis=[1])\n{result}"


_MATRIX = "float32 [[1, 2], [3, 4]]"
_FLAGS = "bool [[True, False], [True, True]]"

_ROWS: tuple[tuple[str, Callable[..., Type], Reduce, str, str, str, str], ...] = (
    (
        "sum",
        _any_tensor,
        _sum,
        "",
        "Sum; integers wrap, float16 accumulates in float32; of bools, as `any`.",
        _MATRIX,
        "[3, 7]",
    ),
    (
        "prod",
        _any_tensor,
        _prod,
        "",
        "Product; integers wrap, float16 accumulates in float32; of bools, as `all`.",
        _MATRIX,
        "[2, 12]",
    ),
    (
        "max",
        _any_tensor,
        _max,
        "",
        "Greatest element; NaN if there is one; minus infinity or the least value of none.",
        _MATRIX,
        "[2, 4]",
    ),
    (
        "min",
        _any_tensor,
        _min,
        "",
        "Least element; NaN if there is one; infinity or the greatest value of none.",
        _MATRIX,
        "[1, 3]",
    ),
    ("mean", _numeric, _mean, "", "Mean; of integers rounded toward zero.", _MATRIX, "[1.5, 3.5]"),
    (
        "all",
        _bool,
        _all,
        "the result is bool",
        "True where all elements are.",
        _FLAGS,
        "[False, True]",
    ),
    ("any", _bool, _any, "the result is bool", "True where an element is.", _FLAGS, "[True, True]"),
)

REDUCTIONS = tuple(
    _reduction(name, rule, meaning, _doc(text, name, given, result), no_gradient=reason)
    for name, rule, meaning, reason, text, given, result in _ROWS
)


def _position(
    data: Numeric,
    *,
    axis: Ints | None = None,
    keepdims: bool = False,
    select_last_index: bool = False,
    exclude: bool = False,
) -> TensorType:
    return TensorType(_result(data, axis, keepdims, exclude), INT32)


def _arg_reduction(name: str, find: Reduce, text: str, result: str) -> Operator:
    doc = (
        f"{text}; of equals the first, or the last with `select_last_index`; NaN wins.{_AXES}"
        "\nOver several axes the position counts row-major; it is 0 where there is no element."
        f"\n\n>>> %x = {_MATRIX}\n>>> {name}(%x, axis=[1])\n{result}"
    )
    reason = "positions are integers"
    row = operator(name, fusion=Fusion.REDUCTION, no_gradient=reason, doc=doc)(_position)

    @row.numpy
    def _(
        data: Array, *, axis: Ints | None, keepdims: bool, select_last_index: bool, exclude: bool
    ) -> Array:
        axes = reduced_axes(axis, exclude, data.ndim)
        kept = [i for i in range(data.ndim) if i not in axes]
        outer = [data.shape[i] for i in kept]
        count = int(np.prod([data.shape[i] for i in axes], dtype=np.int64))
        rows = data.transpose(*kept, *axes).reshape(*outer, count)
        if count == 0:
            found = np.zeros(outer)
        elif select_last_index:
            found = count - 1 - find(rows[..., ::-1], axis=-1)
        else:
            found = find(rows, axis=-1)
        shape = [1 if i in axes else n for i, n in enumerate(data.shape)] if keepdims else outer
        return np.asarray(found).reshape(shape).astype(np.int32)

    @row.compute
    def _(
        data: Tensor, *, axis: Ints | None, keepdims: bool, select_last_index: bool, exclude: bool
    ) -> Tensor:
        axes = reduced_axes(axis, exclude, data.rank)
        extents = tuple(data.shape[a] for a in axes)

        def element(*i: ScalarExpr) -> ScalarExpr:
            kept = tuple(v for k, v in enumerate(i) if k not in axes) if keepdims else i
            return te.arg_reduce(
                name,
                extents,
                lambda *r: data[insert_axes(kept, r, axes, data.rank)],
                INT32,
                select_last_index,
            )

        return te.compute(folded_shape(data.shape, axes, keepdims), element, name)

    return row


argmax = _arg_reduction("argmax", np.argmax, "Position of the greatest element", "[1, 1]")
argmin = _arg_reduction("argmin", np.argmin, "Position of the least element", "[0, 0]")


@operator("variance", fusion=Fusion.REDUCTION)
def variance(
    data: Float,
    mean: SameDtype,
    *,
    axis: Ints | None = None,
    keepdims: bool = False,
    exclude: bool = False,
    unbiased: bool = False,
) -> TensorType:
    """Mean of the squared distances to `mean`, which has size 1 in the folded axes.

    With `unbiased` the sum is divided by one less than the number of elements, by 0 for none.

    >>> %x = float32 [[1, 3], [2, 2]]
    >>> %m = float32 [[2], [2]]
    >>> variance(%x, %m, axis=[1])
    [1, 0]
    """
    if mean.rank != data.rank:
        raise ShapeError(f"ranks of `data` and `mean` differ: {data.rank} and {mean.rank}")
    for i, (x, m) in enumerate(zip(data.shape, mean.shape)):
        size = require_broadcast(x, m, f"axis {i} of `data` and `mean`")
        if dims_equal(size, x) is False:
            raise ShapeError(f"axis {i} of `mean` is larger than of `data`: {m} and {x}")
        require_equal(size, x, f"axis {i} of `mean` broadcast to `data` and of `data`")
    return TensorType(_result(data, axis, keepdims, exclude), data.dtype)


@variance.numpy
def _(
    data: Array,
    mean: Array,
    *,
    axis: Ints | None,
    keepdims: bool,
    exclude: bool,
    unbiased: bool,
) -> Array:
    axes = reduced_axes(axis, exclude, data.ndim)
    count = int(np.prod([data.shape[a] for a in axes], dtype=np.int64))
    wide = np.float32 if data.dtype == np.float16 else data.dtype.type
    distance = data.astype(wide) - mean.astype(wide)
    total = numeric.sum_terms(distance * distance, axes, keepdims)
    return np.asarray(total / wide(max(count - unbiased, 0))).astype(data.dtype)


@variance.compute
def _(
    data: Tensor,
    mean: Tensor,
    *,
    axis: Ints | None,
    keepdims: bool,
    exclude: bool,
    unbiased: bool,
) -> Tensor:
    axes = reduced_axes(axis, exclude, data.rank)
    count = dim_max(dim_sub(product(data.shape[a] for a in axes), int(unbiased)), 0)
    total = wide(data.dtype)

    extents = tuple(data.shape[a] for a in axes)

    def element(*i: ScalarExpr) -> ScalarExpr:
        kept = tuple(v for k, v in enumerate(i) if k not in axes) if keepdims else i

        def squared(*r: ScalarExpr) -> ScalarExpr:
            place = insert_axes(kept, r, axes, data.rank)
            mean_here = te.cast(load_broadcast(mean, data.shape, place), total)
            distance = load_wide(data, place) - mean_here
            return distance * distance

        sum_ = te.reduce("sum", extents, squared)
        return te.cast(te.scalar("divide", sum_, te.cast(te.dim(count), total)), data.dtype)

    return te.compute(folded_shape(data.shape, axes, keepdims), element, "variance")


@variance.reduction_size
def _(
    data: TensorType,
    mean: TensorType,
    *,
    axis: Ints | None,
    keepdims: bool,
    exclude: bool,
    unbiased: bool,
) -> Dim:
    return product(data.shape[i] for i in reduced_axes(axis, exclude, data.rank))


OPERATORS = (*REDUCTIONS, argmax, argmin, variance)
