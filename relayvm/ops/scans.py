"""Running sums and products."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from relayvm.base.dims import Dim, dim_add, dim_floordiv, dim_mul
from relayvm.base.dtypes import INT32, NUMERIC, DType, dtype_of
from relayvm.base.shapes import ShapeError, require_equal
from relayvm.ir.types import TensorType
from relayvm.kernels import compute as te
from relayvm.kernels.compute import ScalarExpr, Tensor
from relayvm.kernels.schedules.program import Memory, Writer
from relayvm.ops import numeric
from relayvm.ops.axes import product, require_axis, require_rank
from relayvm.ops.lines import from_lines, lines_of, other_dims
from relayvm.ops.loads import Index, wide
from relayvm.ops.numeric import Array
from relayvm.ops.operator import Fusion, Operator, operator
from relayvm.ops.reshaping import reindexed
from relayvm.ops.schema import AnyTensor, Float, SameDtype

# Lines that run side by side, lanes that do, and elements across lines in a round of a phase.
LINES, VECTORS, BLOCK = 4, 64, 256


def _result_dtype(given: DType, dtype: DType | None, name: str) -> DType:
    if dtype is not None and dtype not in NUMERIC:
        raise ShapeError(f"`dtype` of `{name}` must be a number, got {dtype}", "dtype-mismatch")
    return dtype or (INT32 if given.is_bool else given)


def _scan(name: str, step: str, first: int, text: str, result: str) -> Operator:
    doc = (
        f"{text} of the elements up to each along `axis`, or of the flattened `data`.\n\n"
        "With `exclusive` the element itself is left out. `dtype` is that of the result, by default"
        " that of `data`, int32 for bools; integers wrap, float16 accumulates in float32."
        f"\n\n>>> %x = int32 [1, 2, 3]\n>>> {name}(%x)\n{result}"
    )

    def rule(
        data: AnyTensor,
        *,
        axis: int | None = None,
        dtype: DType | None = None,
        exclusive: bool = False,
    ) -> TensorType:
        shape = data.shape if axis is not None else (product(data.shape),)
        require_axis(axis if axis is not None else 0, len(shape))
        return TensorType(shape, _result_dtype(data.dtype, dtype, name))

    row = operator(name, fusion=Fusion.OPAQUE, doc=doc)(rule)

    @row.numpy
    def _(data: Array, *, axis: int | None, dtype: DType | None, exclusive: bool) -> Array:
        given = dtype_of(data.dtype)
        kind = _result_dtype(given, dtype, name)
        array = numeric.cast(data.reshape(-1) if axis is None else data, kind)
        array = array.astype(wide(kind).numpy)
        along = 0 if axis is None else axis
        ufunc = np.add if step == "add" else np.multiply
        if exclusive:
            array = np.roll(array, 1, along)
            array[(slice(None),) * (along % array.ndim) + (slice(0, 1),)] = first
        return np.asarray(ufunc.accumulate(array, along, dtype=array.dtype)).astype(kind.numpy)

    @row.compute
    def _(data: Tensor, *, axis: int | None, dtype: DType | None, exclusive: bool) -> Tensor:
        kind = _result_dtype(data.dtype, dtype, name)
        flat = data if axis is not None else reindexed(data, (product(data.shape),), "flat")
        place = require_axis(axis if axis is not None else 0, flat.rank)
        return _scanned(flat, place, kind, step, first, exclusive)

    return row


def _scanned(
    data: Tensor, axis: int, dtype: DType, step: str, first: int, exclusive: bool
) -> Tensor:
    total = wide(dtype)

    def build(w: Writer, given: Memory, result: Memory) -> None:
        def lines(places: Sequence[Index]) -> None:
            """Run along lines side by side, at places that lack the index on the axis."""
            held = [w.cell(te.const(first, total)) for _ in places]
            with w.loop(0, data.shape[axis]) as i:
                for cell, place in zip(held, places):
                    at = (*place[:axis], i, *place[axis:])
                    before = cell.value
                    value = te.cast(te.cast(given[at], dtype), total)
                    after = w.let(te.scalar(step, before, value))
                    cell.value = after
                    result[at] = te.cast(before if exclusive else after, dtype)

        each_line(w, other_dims(data.shape, axis), axis == data.rank - 1, lines)

    work = product(data.shape)
    return te.program([(data.shape, dtype)], [data], build, work, "scan")[0]


def each_line(
    w: Writer, others: Sequence[Dim], is_last: bool, lines: Callable[[Sequence[Index]], None]
) -> None:
    """Run `lines` at all places of the axes beside the one of the lines: of several of them at
    once, whose steps do not wait for each other.

    Where lines lie along memory (`is_last`) these are neighbours; else the last axis is in lanes.
    """
    if not others:
        with w.phase():
            lines([()])
        return
    *outer, size = others

    def together(at: Index, begin: ScalarExpr, end: ScalarExpr) -> None:
        if is_last:
            _side_by_side(w, at, begin, end, lines)
        else:
            w.vectors(begin, end, lambda j: lines([(*at, j)]), VECTORS)

    if outer:
        with w.phase(outer[0]) as k:
            _nested(w, (k,), outer[1:], lambda at: together(at, te.dim(0), te.dim(size)))
        return
    block = LINES if is_last else BLOCK
    count = dim_floordiv(dim_add(size, block - 1), block)
    with w.phase(count) as k:
        begin = w.let(k * block)
        together((), begin, w.let(te.scalar("minimum", begin + block, te.dim(size))))


def _nested(w: Writer, at: Index, rest: Sequence[Dim], body: Callable[[Index], None]) -> None:
    if not rest:
        body(at)
        return
    with w.loop(0, rest[0]) as k:
        _nested(w, (*at, k), rest[1:], body)


def _side_by_side(
    w: Writer,
    at: Index,
    begin: ScalarExpr,
    end: ScalarExpr,
    lines: Callable[[Sequence[Index]], None],
) -> None:
    whole = w.let(begin + (end - begin) // LINES * LINES)
    with w.loop(begin, whole, LINES) as k:
        lines([(*at, k + r) for r in range(LINES)])
    with w.loop(whole, end) as k:
        lines([(*at, k)])


cumsum = _scan("cumsum", "add", 0, "Sums", "[1, 3, 6]")
cumprod = _scan("cumprod", "multiply", 1, "Products", "[1, 2, 6]")


@operator("cumprod_grad", fusion=Fusion.OPAQUE)
def cumprod_grad(grad: Float, data: SameDtype, *, axis: int, exclusive: bool = False) -> TensorType:
    """The gradient of `cumprod` along `axis`, exact also where elements are 0.

    >>> %g = float32 [1, 1, 1]
    >>> %x = float32 [2, 0, 4]
    >>> cumprod_grad(%g, %x, axis=0)
    [1, 10, 0]
    """
    require_axis(axis, data.rank)
    require_rank(grad, data.rank, data.rank, "`grad` of `cumprod_grad`")
    for k, (a, b) in enumerate(zip(grad.shape, data.shape)):
        require_equal(a, b, f"axis {k} of the operands of `cumprod_grad`")
    return TensorType(data.shape, grad.dtype)


# With p[i] the product of what is before i, and r[i] the sum of g[j] times the product of what is
# between i and j: the gradient is p[i] * r[i].


@cumprod_grad.numpy
def _(grad: Array, data: Array, *, axis: int, exclusive: bool) -> Array:
    kind = wide(dtype_of(data.dtype)).numpy
    g, x = (np.moveaxis(a.astype(kind), axis, 0) for a in (grad, data))
    size = len(x)
    rest, result = np.zeros(x.shape[1:], kind), np.empty(x.shape, kind)
    for i in reversed(range(size)):
        if exclusive:
            result[i] = rest
            rest = g[i] + x[i] * rest
        else:
            rest = g[i] + rest
            result[i] = rest
            rest = x[i] * rest
    before = np.ones(x.shape[1:], kind)
    for i in range(size):
        result[i] = before * result[i]
        before = before * x[i]
    return np.moveaxis(result, 0, axis).astype(data.dtype)


@cumprod_grad.compute
def _(grad: Tensor, data: Tensor, *, axis: int, exclusive: bool) -> Tensor:
    place = require_axis(axis, data.rank)
    total = wide(data.dtype)
    g, x = lines_of(grad, place), lines_of(data, place)
    count, size = x.shape

    def build(w: Writer, g: Memory, x: Memory, result: Memory) -> None:
        with w.phase(count) as line:
            rest = w.cell(te.const(0.0, total))
            with w.loop(0, size) as back:
                i = te.dim(size) - 1 - back
                slope, value = g[line, i], x[line, i]
                if exclusive:
                    result[line, i] = rest.value
                    rest.value = te.cast(slope, total) + te.cast(value, total) * rest.value
                else:
                    here = w.let(te.cast(slope, total) + rest.value)
                    result[line, i] = here
                    rest.value = te.cast(value, total) * here
            before = w.cell(te.const(1.0, total))
            with w.loop(0, size) as i:
                result[line, i] = before.value * result[line, i]
                before.value = before.value * te.cast(x[line, i], total)

    work = dim_mul(dim_mul(count, size), 4)
    (lines,) = te.program([(x.shape, total)], [g, x], build, work, "cumprod_grad")
    wide_result = from_lines(lines, data.shape, place, "cumprod_grad")
    return te.compute(data.shape, lambda *i: te.cast(wide_result[i], data.dtype), "cumprod_grad")


OPERATORS = (cumprod, cumprod_grad, cumsum)
