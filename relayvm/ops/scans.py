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
from relayvm.kernels.schedules.program import Cell, Kept, Memory, Writer
from relayvm.ops import numeric
from relayvm.ops.axes import product, require_axis, require_rank
from relayvm.ops.lines import from_lines, lines_of, other_dims
from relayvm.ops.loads import Index, wide
from relayvm.ops.numeric import Array
from relayvm.ops.operator import Fusion, Operator, operator
from relayvm.ops.reshaping import reindexed, unflattened
from relayvm.ops.schema import AnyTensor, Float, SameDtype

# Lines that run side by side, lanes that do, lines of these in a round, and elements in a round.
LINES, VECTORS, COLUMNS, STEPS = 4, 64, 256, 1 << 18


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
    others, size = other_dims(data.shape, axis), data.shape[axis]

    def build(w: Writer, given: Memory, result: Memory) -> None:
        def element(cell: Cell, place: Index, i: ScalarExpr) -> None:
            at = (*place[:axis], i, *place[axis:])
            before = cell.value
            value = te.cast(te.cast(given[at], dtype), total)
            after = w.let(te.scalar(step, before, value))
            cell.value = after
            result[at] = te.cast(before if exclusive else after, dtype)

        _each_line(w, others, size, axis == data.rank - 1, te.const(first, total), element)

    work = product(data.shape)
    return te.program([(data.shape, dtype)], [data], build, work, "scan")[0]


def _each_line(
    w: Writer,
    others: Sequence[Dim],
    size: Dim,
    is_last: bool,
    first: ScalarExpr,
    element: Callable[[Cell, Index, ScalarExpr], None],
) -> None:
    """Run `element` for all places along all lines, with a cell that holds `first` where a line
    begins, at a place of the axes beside the one of the lines.

    Several lines run at once, whose steps do not wait for each other: where lines lie along memory
    (`is_last`) these are neighbours; else the last axis is in lanes.
    """
    if all(isinstance(n, int) and n == 1 for n in others):
        with w.walk(size, (first, None)) as (i, (cell,)):
            element(cell, (te.dim(0),) * len(others), i)
        return
    *outer, last = others
    together = _lines_together(size) if is_last else COLUMNS
    groups = (*outer, dim_floordiv(dim_add(last, together - 1), together))
    block = STEPS // together
    kept = Kept(w, tuple(others), size, block, first.dtype)
    with w.parts(product(groups), size, block, in_order=True) as (group, begin, end):
        *at, number = (w.let(v) for v in unflattened(group, groups))

        def lines(places: Sequence[Index]) -> None:
            held = [kept.cell(first, place, begin) for place in places]
            with w.loop(begin, end) as i:
                for cell, place in zip(held, places):
                    element(cell, place, i)
            for cell, place in zip(held, places):
                kept.keep(cell, place, begin, end)

        low = w.let(number * together)
        high = w.let(te.scalar("minimum", low + together, te.dim(last)))
        if is_last:
            _side_by_side(w, tuple(at), low, high, lines)
        else:
            w.vectors(low, high, lambda j: lines([(*at, j)]), VECTORS)


def _lines_together(size: Dim) -> int:
    """Return how many neighbours a round takes: more where they are short."""
    return LINES * (min(16, max(1, 256 // max(1, size))) if isinstance(size, int) else 4)


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
        with w.walk_lines(count, size, (te.const(0.0, total), None)) as (line, back, (rest,)):
            i = te.dim(size) - 1 - back
            slope, value = g[line, i], x[line, i]
            if exclusive:
                result[line, i] = rest.value
                rest.value = te.cast(slope, total) + te.cast(value, total) * rest.value
            else:
                here = w.let(te.cast(slope, total) + rest.value)
                result[line, i] = here
                rest.value = te.cast(value, total) * here
        with w.walk_lines(count, size, (te.const(1.0, total), None)) as (line, i, (before,)):
            result[line, i] = before.value * result[line, i]
            before.value = before.value * te.cast(x[line, i], total)

    work = dim_mul(dim_mul(count, size), 4)
    (lines,) = te.program([(x.shape, total)], [g, x], build, work, "cumprod_grad")
    wide_result = from_lines(lines, data.shape, place, "cumprod_grad")
    return te.compute(data.shape, lambda *i: te.cast(wide_result[i], data.dtype), "cumprod_grad")


OPERATORS = (cumprod, cumprod_grad, cumsum)
