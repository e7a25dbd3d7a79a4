"""Operators that take or set parts of a tensor, or surround it, as tensors of numbers say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from relayvm.base.dims import ANY, Dim, dim_add, dim_floordiv, dim_mul
from relayvm.base.dtypes import INT32, INT64, DType
from relayvm.base.shapes import ShapeError, bad_index, bad_value, require_equal
from relayvm.ir.types import TensorType, TupleType
from relayvm.kernels import compute as te
from relayvm.kernels.compute import ScalarExpr, Tensor
from relayvm.kernels.schedules.program import BLOCK, Memory, Writer, copy_work
from relayvm.ops.axes import product, require_axis, require_rank
from relayvm.ops.dynamic import (
    Rule,
    all_of,
    any_of,
    dims_if,
    entry,
    length_of,
    numbers,
    sizes_in,
)
from relayvm.ops.numeric import Array
from relayvm.ops.operator import Fusion, operator
from relayvm.ops.padding import pad
from relayvm.ops.schema import AnyTensor, Dims, Integer, SameDtype, like
from relayvm.ops.slicing import SliceSpec, slice_ranges, strided_slice
from relayvm.ops.sorting import topk_arrays, topk_tensors, topk_type

# -- Slices -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Span:
    """Places `begin + k * stride` for k below `size`, known at run time; `valid` says if it is."""

    begin: ScalarExpr
    stride: ScalarExpr
    size: ScalarExpr
    valid: ScalarExpr

    def named(self, w: Writer) -> _Span:
        """Return the same with each value computed here, once."""
        parts = (self.begin, self.stride, self.size, self.valid)
        return _Span(*(w.let(part) for part in parts))


def _bounded(value: ScalarExpr, low: ScalarExpr, high: ScalarExpr) -> ScalarExpr:
    return te.scalar("minimum", te.scalar("maximum", value, low), high)


def _spans(
    data: Tensor | Memory,
    begin: Tensor | Memory,
    end: Tensor | Memory,
    strides: Tensor | Memory,
    mode: str,
) -> list[_Span]:
    """Return what a slice takes along the first axes."""
    result = []
    steps = length_of(strides, "`strides`")
    for k in range(length_of(begin, "`begin`")):
        size, zero = te.dim(data.shape[k]), te.const(0, INT64)
        stride = te.const(1, INT64)
        if mode == "end" and (steps == 1 or k < steps):
            stride = entry(strides, 0 if steps == 1 else k)
        first, last = entry(begin, k), entry(end, k)
        first = te.select(first < 0, first + size, first)
        if mode == "size":
            first = _bounded(first, zero, size)
            rest = size - first
            count = te.select(last < 0, rest, te.scalar("minimum", last, rest))
            result.append(_Span(first, stride, count, te.const(True, "bool")))
            continue
        last = te.select(last < 0, last + size, last)
        forward = stride > 0
        low = te.select(forward, zero, te.const(-1, INT64))
        high = te.select(forward, size, size - 1)
        first, last = _bounded(first, low, high), _bounded(last, low, high)
        step = te.scalar("abs", stride)
        distance = te.select(forward, last - first, first - last)
        count = te.scalar("maximum", (distance + step - 1) // step, 0)
        result.append(_Span(first, stride, count, te.scalar("not_equal", stride, 0)))
    return result


def _require_bounds(
    data: TensorType, begin: TensorType, end: TensorType, strides: TensorType, name: str
) -> int:
    count = length_of(begin, f"`begin` of `{name}`")
    if length_of(end, f"`end` of `{name}`") != count or count > data.rank:
        raise ShapeError(
            f"`begin` and `end` of `{name}` have {count} and {end.shape[0]} entries for a rank of"
            f" {data.rank}"
        )
    length_of(strides, f"`strides` of `{name}`")
    return count


def _require_mode(slice_mode: str) -> None:
    if slice_mode not in ("end", "size"):
        message = f'`slice_mode` is "{slice_mode}", legal are "end" and "size"'
        raise ShapeError(message, "bad-attribute")


@operator(
    "dyn.strided_slice",
    fusion=Fusion.OPAQUE,
    value_operands=("begin", "end", "strides"),
    ignored=("begin", "end", "strides", "axes"),
)
def dyn_strided_slice(
    data: AnyTensor, begin: Integer, end: Integer, strides: Integer, *, slice_mode: str = "end"
) -> TensorType:
    """Elements `begin`, `begin + stride`, ... before `end` along the first axes, as
    `strided_slice` takes them.

    >>> %x = int32 [1, 2, 3, 4]
    >>> %b = int64 [1]
    >>> %e = int64 [4]
    >>> %s = int64 [2]
    >>> dyn.strided_slice(%x, %b, %e, %s)
    [2, 4]
    """
    _require_mode(slice_mode)
    count = _require_bounds(data, begin, end, strides, "dyn.strided_slice")
    return TensorType((*(ANY,) * count, *data.shape[count:]), data.dtype)


def _static(begin: Array, end: Array, strides: Array, slice_mode: str) -> dict[str, Any]:
    return {
        "begin": numbers(begin),
        "end": numbers(end),
        "strides": numbers(strides),
        "slice_mode": slice_mode,
        "axes": None,
    }


def _require_strides(count: int, strides: Array, slice_mode: str = "end") -> None:
    """Raise ShapeError `bad-value` where a stride of the first axes is 0."""
    steps = numbers(strides)
    used = (steps * count if len(steps) == 1 else steps)[:count]
    if slice_mode == "end" and 0 in used:
        raise bad_value("stride", used.index(0))


def _stride_rules(spans: Sequence[_Span]) -> list[Rule]:
    return [(s.valid, te.told("stride", k)) for k, s in enumerate(spans)]


@dyn_strided_slice.value_shape
def _(data: Any, begin: Array, end: Array, strides: Array, *, slice_mode: str) -> Dims:
    _require_strides(len(begin), strides, slice_mode)
    ranges = slice_ranges(data.shape, SliceSpec(**_static(begin, end, strides, slice_mode)))
    return tuple(r.size for r in ranges[: len(begin)])


@dyn_strided_slice.numpy
def _(data: Array, begin: Array, end: Array, strides: Array, *, slice_mode: str) -> Array:
    _require_strides(len(begin), strides, slice_mode)
    attrs = _static(begin, end, strides, slice_mode)
    return np.asarray(strided_slice.facets["numpy"](data, **attrs))


@dyn_strided_slice.value_dims
def _(
    data: Tensor, begin: Tensor, end: Tensor, strides: Tensor, *, slice_mode: str
) -> tuple[Tensor, ...]:
    spans = _spans(data, begin, end, strides, slice_mode)
    return dims_if(_stride_rules(spans), [s.size for s in spans])


@dyn_strided_slice.value_rows
def _(data: Tensor, begin: Tensor, end: Tensor, strides: Tensor, *, slice_mode: str) -> Tensor:
    first, *others = _spans(data, begin, end, strides, slice_mode)
    steps = [s.stride.equal(1) for s in (first, *others)]
    whole = [s.size.equal(te.dim(d)) for s, d in zip(others, data.shape[1:])]
    row = te.select(all_of(*steps, *whole), first.begin, -1)
    return te.compute((), lambda: row, "row")


@dyn_strided_slice.compute
def _(
    dims: Dims, data: Tensor, begin: Tensor, end: Tensor, strides: Tensor, *, slice_mode: str
) -> Tensor:
    spans = _spans(data, begin, end, strides, slice_mode)

    def element(*i: ScalarExpr) -> ScalarExpr:
        places = (te.index(s.begin + i[k] * s.stride, data.shape[k]) for k, s in enumerate(spans))
        return data[tuple(places) + i[len(spans) :]]

    return te.compute((*dims, *data.shape[len(spans) :]), element, "strided_slice")


@operator("strided_set", fusion=Fusion.OPAQUE, value_traps=True)
def strided_set(
    data: AnyTensor, v: SameDtype, begin: Integer, end: Integer, strides: Integer
) -> TensorType:
    """`data` with the elements that a strided slice of the first axes takes replaced by those of
    `v`.

    An element for which `v` has none traps.

    >>> %x = int32 [1, 2, 3, 4]
    >>> %v = int32 [8, 9]
    >>> %b = int64 [0]
    >>> %e = int64 [4]
    >>> %s = int64 [2]
    >>> strided_set(%x, %v, %b, %e, %s)
    [8, 2, 9, 4]
    """
    count = _require_bounds(data, begin, end, strides, "strided_set")
    require_rank(v, data.rank, data.rank, "`v` of `strided_set`")
    for axis in range(count, data.rank):
        what = f"axis {axis} of `data` and `v` of `strided_set`"
        require_equal(data.shape[axis], v.shape[axis], what)
    return TensorType(data.shape, data.dtype)


@strided_set.numpy
def _(data: Array, v: Array, begin: Array, end: Array, strides: Array) -> Array:
    result, steps = np.array(data), numbers(strides)
    if not data.size:
        return result
    whole = [steps[0]] * len(begin) if len(steps) == 1 else [*steps, *[1] * len(begin)]
    _require_strides(len(begin), strides)
    places = [
        range(*slice(int(b), int(e), s).indices(n))
        for b, e, s, n in zip(begin, end, whole, data.shape)
    ]
    sizes = [len(p) for p in places]
    for size, held in zip(sizes, v.shape):
        if all(sizes) and size > held:
            raise bad_index(size - 1, held)
    if all(sizes):
        taken = v[tuple(slice(n) for n in sizes)]
        result[np.ix_(*places) if places else ...] = taken
    return result


@strided_set.compute
def _(data: Tensor, v: Tensor, begin: Tensor, end: Tensor, strides: Tensor) -> Tensor:
    def build(
        w: Writer,
        data: Memory,
        v: Memory,
        begin: Memory,
        end: Memory,
        strides: Memory,
        result: Memory,
    ) -> None:
        w.copy(data, result)
        with w.phase(), w.when(te.dim(product(data.shape)) > 0):
            spans = [s.named(w) for s in _spans(data, begin, end, strides, "end")]
            for holds, told in _stride_rules(spans):
                w.let(te.required(holds, told))
            with w.when(all_of(*(s.size > 0 for s in spans))):
                for k, span in enumerate(spans):
                    w.let(te.index(span.size - 1, v.shape[k]))
        with w.phase(_rounds(v.shape)) as round:
            spans = [s.named(w) for s in _spans(data, begin, end, strides, "end")]
            if v.rank == 1:
                _set_last(w, result, v, spans, (), (), round * BLOCK)
            else:
                _set_part(w, result, v, spans, (round,)[: v.rank], ())

    inputs = [data, v, begin, end, strides]
    work = dim_add(copy_work(data.shape), dim_mul(product(v.shape), 4))
    kinds = [(data.shape, data.dtype)]
    return te.program(kinds, inputs, build, work, "strided_set", in_place=((0, 0),))[0]


def _rounds(shape: Dims) -> Dim:
    """Return in how many rounds a part is set: rows, or blocks of a vector."""
    if len(shape) == 1:
        return dim_floordiv(dim_add(shape[0], BLOCK - 1), BLOCK)
    return shape[0] if shape else 1


def _set_part(
    w: Writer,
    result: Memory,
    v: Memory,
    spans: Sequence[_Span],
    at: tuple[ScalarExpr, ...],
    places: tuple[ScalarExpr, ...],
) -> None:
    """Write what `v` has at an index of its first axes, of which all but the last have their
    `places` in `result`.
    """
    if not at:
        result[()] = v[()]
        return
    axis = len(places)
    first, stride, size = _walk(v, spans, axis)
    with w.when(at[-1] < size):
        places = (*places, w.let(first + at[-1] * stride))
        if axis + 2 == v.rank:
            _set_last(w, result, v, spans, at, places, te.const(0, INT64))
            return
        with w.loop(0, _walk(v, spans, axis + 1)[2]) as k:
            _set_part(w, result, v, spans, (*at, k), places)


def _set_last(
    w: Writer,
    result: Memory,
    v: Memory,
    spans: Sequence[_Span],
    at: tuple[ScalarExpr, ...],
    places: tuple[ScalarExpr, ...],
    begin: ScalarExpr,
) -> None:
    """Do so along the last axis; of a vector for the block that begins there."""
    first, stride, end = _walk(v, spans, len(places))
    if not places:
        end = w.let(te.scalar("minimum", begin + BLOCK, end))

    def one(k: ScalarExpr) -> None:
        place, source = (*places, w.shifted(k, first)), (*at, k)
        result[place] = v[source]

    if len(places) >= len(spans):
        w.vectors(begin, end, one)
        return
    with w.when(stride.equal(1)):
        w.vectors(begin, end, one)
    with w.otherwise(), w.loop(begin, end) as k:
        place, source = (*places, first + k * stride), (*at, k)
        result[place] = v[source]


def _walk(
    v: Memory, spans: Sequence[_Span], axis: int
) -> tuple[ScalarExpr, ScalarExpr, ScalarExpr]:
    """Return where the part of `result` begins on an axis, its stride and its size."""
    if axis < len(spans):
        return spans[axis].begin, spans[axis].stride, spans[axis].size
    return te.const(0, INT64), te.const(1, INT64), te.dim(v.shape[axis])


# -- The greatest elements ----------------------------------------------------------------------


@operator("dyn.topk", fusion=Fusion.OPAQUE, value_operands=("k",), ignored=("k",))
def dyn_topk(
    data: AnyTensor,
    k: Integer,
    *,
    axis: int = -1,
    ret_type: str = "both",
    is_ascend: bool = False,
    dtype: DType = INT32,
) -> TensorType | TupleType:
    """The `k` greatest elements along `axis` and their places, as `topk` gives them.

    >>> %x = float32 [3, 1, 2]
    >>> %k = int64 2
    >>> dyn.topk(%x, %k).0
    [3, 2]
    """
    if k.rank > 1 or (k.rank == 1 and k.shape[0] != 1):
        raise ShapeError(f"`k` of `dyn.topk` must be one number, got the shape {list(k.shape)}")
    return topk_type(data, ANY, require_axis(axis, data.rank), ret_type, dtype)


def _kept(extent: Dim, k: Array) -> Dim:
    (count,) = numbers(k)
    if count < 1:
        return extent
    if isinstance(extent, int) and count > extent:
        raise bad_value("count", count, extent)
    return count


@dyn_topk.value_shape
@like(dyn_topk.rule)
def _(data: Any, k: Array, **attrs: Any) -> Dims:
    kept = _kept(data.shape[attrs["axis"]], k)
    return (kept, kept) if attrs["ret_type"] == "both" else (kept,)


@dyn_topk.numpy
@like(dyn_topk.rule)
def _(data: Array, k: Array, **attrs: Any) -> Any:
    kept = _kept(data.shape[attrs["axis"]], k)
    assert isinstance(kept, int)
    return topk_arrays(data, kept, attrs)


@dyn_topk.value_dims
@like(dyn_topk.rule)
def _(data: Tensor, k: Tensor, **attrs: Any) -> tuple[Tensor, ...]:
    count, extent = entry(k, 0), te.dim(data.shape[attrs["axis"]])
    kept = te.select(count < 1, extent, count)
    told = te.told("count", count, extent)
    return dims_if([(kept <= extent, told)], [kept] * (2 if attrs["ret_type"] == "both" else 1))


@dyn_topk.compute
def _(
    dims: Dims,
    data: Tensor,
    k: Tensor,
    *,
    axis: int,
    ret_type: str,
    is_ascend: bool,
    dtype: DType,
) -> Any:
    attrs = {"axis": axis, "ret_type": ret_type, "is_ascend": is_ascend, "dtype": dtype}
    return topk_tensors(data, dims[0], attrs)


# -- Pads ---------------------------------------------------------------------------------------


@operator("dyn.nn.pad", fusion=Fusion.OPAQUE, value_operands=("pad_width",), ignored=("pad_width",))
def dyn_pad(
    data: AnyTensor, pad_width: Integer, pad_val: AnyTensor, *, pad_mode: str = "constant"
) -> TensorType:
    """`data` with `pad_width[k]` elements before and after axis k, as `nn.pad` puts them.

    >>> %x = float32 [1, 2]
    >>> %w = int64 [[1, 2]]
    >>> %v = float32 0
    >>> dyn.nn.pad(%x, %w, %v)
    [0, 1, 2, 0, 0]
    """
    if pad_mode not in ("constant", "edge", "reflect"):
        legal = '"constant", "edge" or "reflect"'
        message = f'`pad_mode` of `dyn.nn.pad` must be {legal}, got "{pad_mode}"'
        raise ShapeError(message, "bad-attribute")
    require_rank(pad_val, 0, 0, "`pad_val` of `dyn.nn.pad`")
    require_rank(pad_width, 2, 2, "`pad_width` of `dyn.nn.pad`")
    require_equal(pad_width.shape[0], data.rank, "axis 0 of `pad_width` and the rank of `data`")
    require_equal(pad_width.shape[1], 2, "axis 1 of `pad_width` and 2")
    return TensorType((ANY,) * data.rank, data.dtype)


def _widths(shape: Dims, pad_width: Array, mode: str) -> list[tuple[int, int]]:
    pairs = [(int(a), int(b)) for a, b in pad_width]
    sizes_in(pad_width)
    for size, pair in zip(shape, pairs):
        least = 0 if mode == "constant" or max(pair) == 0 else 1
        least = max(pair) + 1 if least and mode == "reflect" else least
        if isinstance(size, int) and size < least:
            raise bad_value("pad", max(pair), size)
    return pairs


@dyn_pad.value_shape
def _(data: Any, pad_width: Array, pad_val: Any, *, pad_mode: str) -> Dims:
    pairs = _widths(data.shape, pad_width, pad_mode)
    return tuple(dim_add(d, sum(pair)) for d, pair in zip(data.shape, pairs))


@dyn_pad.numpy
def _(data: Array, pad_width: Array, pad_val: Array, *, pad_mode: str) -> Array:
    pairs = tuple(_widths(data.shape, pad_width, pad_mode))
    result = pad.facets["numpy"](data, pad_val, pad_width=pairs, pad_mode=pad_mode)
    return np.asarray(result)


def _width(pad_width: Tensor, axis: int, side: int) -> ScalarExpr:
    return te.cast(pad_width[(te.dim(axis), te.dim(side))], INT64)


@dyn_pad.value_dims
def _(data: Tensor, pad_width: Tensor, pad_val: Tensor, *, pad_mode: str) -> tuple[Tensor, ...]:
    sizes, rules, fitting = [], list[Rule](), list[Rule]()
    for axis, extent in enumerate(data.shape):
        before, behind = (_width(pad_width, axis, side) for side in (0, 1))
        size, most = te.dim(extent), te.scalar("maximum", before, behind)
        sizes.append(size + before + behind)
        for side, width in enumerate((before, behind)):
            given = pad_width[te.dim(axis), te.dim(side)]
            rules.append((width >= 0, te.told("size", given, 2 * axis + side)))
        if pad_mode != "constant":
            enough = size >= 1 if pad_mode == "edge" else size > most
            fitting.append((any_of(most.equal(0), enough), te.told("pad", most, size)))
    return dims_if([*rules, *fitting], sizes)


@dyn_pad.compute
def _(dims: Dims, data: Tensor, pad_width: Tensor, pad_val: Tensor, *, pad_mode: str) -> Tensor:
    def element(*i: ScalarExpr) -> ScalarExpr:
        inside, places = [], []
        for axis, (place, size) in enumerate(zip(i, data.shape)):
            index = place - _width(pad_width, axis, 0)
            inside.append(te.in_range(index, size))
            if pad_mode == "reflect":
                low = te.scalar("abs", index)
                last = te.dim(size) * 2 - 2
                index = te.select(low < te.dim(size), low, last - low)
            places.append(te.index(index, size, "clip"))
        value = data[tuple(places)]
        if pad_mode != "constant":
            return value
        return te.select(all_of(*inside), value, te.cast(pad_val[()], data.dtype))

    return te.compute(dims, element, "pad")


OPERATORS = (dyn_pad, dyn_strided_slice, dyn_topk, strided_set)
