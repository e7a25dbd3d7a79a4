"""Running sums and products."""

from __future__ import annotations

import numpy as np

from relayvm.base.dims import dim_mul
from relayvm.base.dtypes import INT32, NUMERIC, DType, dtype_of
from relayvm.base.shapes import ShapeError, require_equal
from relayvm.ir.types import TensorType
from relayvm.kernels import compute as te
from relayvm.kernels.compute import Tensor
from relayvm.kernels.schedules.program import Memory, Writer
from relayvm.ops import numeric
from relayvm.ops.axes import product, require_axis, require_rank
from relayvm.ops.lines import from_lines, lines_of
from relayvm.ops.loads import wide
from relayvm.ops.numeric import Array
from relayvm.ops.operator import Fusion, Operator, operator
from relayvm.ops.reshaping import reindexed
from relayvm.ops.schema import AnyTensor, Float, SameDtype


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
        lines = lines_of(flat, place)
        scanned = _scanned_lines(lines, kind, step, first, exclusive)
        return from_lines(scanned, flat.shape, place, name)

    return row


def _scanned_lines(lines: Tensor, dtype: DType, step: str, first: int, exclusive: bool) -> Tensor:
    count, size = lines.shape
    total = wide(dtype)

    def build(w: Writer, given: Memory, result: Memory) -> None:
        with w.phase(count) as line:
            held = w.cell(te.const(first, total))
            with w.loop(0, size) as i:
                before = held.value
                value = te.cast(te.cast(given[line, i], dtype), total)
                after = w.let(te.scalar(step, before, value))
                held.value = after
                result[line, i] = te.cast(before if exclusive else after, dtype)

    work = dim_mul(count, size)
    return te.program([(lines.shape, dtype)], [lines], build, work, "scan")[0]


cumsum = _scan("cumsum", "add", 0, "Sums", "[1, 3, 6]")
cumprod = _scan("cumprod", "multiply", 1, "Products", "[1, 2, 6]")


@operator(
    "cumprod_grad",
    fusion=Fusion.OPAQUE,
    no_gradient="only the first derivative of `cumprod` is there",
)
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
