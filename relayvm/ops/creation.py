"""Operators that make tensors from a value, a shape or a range."""

from __future__ import annotations

import numpy as np

from relayvm.base.dims import ANY, Dim
from relayvm.base.dtypes import FLOAT32, FLOAT64, INT32, INT64, UINT64, DType, dtype_of
from relayvm.base.shapes import ShapeError, bad_value
from relayvm.ir.types import TensorType
from relayvm.kernels import compute as te
from relayvm.kernels.compute import ScalarExpr, Tensor
from relayvm.ops import numeric
from relayvm.ops.axes import require_known, require_rank, sizes_of
from relayvm.ops.loads import wide
from relayvm.ops.numeric import Array
from relayvm.ops.operator import Fusion, Operator, operator
from relayvm.ops.schema import AnyTensor, Dims, Numeric, SameDtype

_CONSTANT = "no operand has an influence on the elements"


def _filled(name: str, value: int, text: str, result: str) -> Operator:
    doc = (
        f'{text}; `dtype` is float32 by default.\n\n>>> {name}(shape=(2,), dtype="int8")\n{result}'
    )

    def rule(*, shape: Dims, dtype: DType | None = None) -> TensorType:
        return TensorType(require_known(shape, f"`shape` of `{name}`"), dtype or FLOAT32)

    row = operator(name, fusion=Fusion.INJECTIVE, no_gradient=_CONSTANT, doc=doc)(rule)

    @row.numpy
    def _(*, shape: Dims, dtype: DType | None) -> Array:
        return np.full(sizes_of(shape), value, (dtype or FLOAT32).numpy)

    @row.compute
    def _(*, shape: Dims, dtype: DType | None) -> Tensor:
        return te.compute(shape, lambda *i: te.const(value, dtype or FLOAT32), name)

    return row


def _filled_like(name: str, value: int, text: str, result: str) -> Operator:
    doc = f"{text}.\n\n>>> %x = float32 [5, 6]\n>>> {name}(%x)\n{result}"

    def rule(data: AnyTensor) -> TensorType:
        return TensorType(data.shape, data.dtype)

    row = operator(name, fusion=Fusion.ELEMENTWISE, doc=doc)(rule)

    @row.numpy
    def _(data: Array) -> Array:
        return np.full(data.shape, value, data.dtype)

    @row.compute
    def _(data: Tensor) -> Tensor:
        return te.compute(data.shape, lambda *i: te.const(value, data.dtype), name)

    return row


zeros = _filled("zeros", 0, "Zeros", "[0, 0]")
ones = _filled("ones", 1, "Ones", "[1, 1]")
zeros_like = _filled_like("zeros_like", 0, "Zeros with the type of `data`", "[0, 0]")
ones_like = _filled_like("ones_like", 1, "Ones with the type of `data`", "[1, 1]")


@operator("full", fusion=Fusion.ELEMENTWISE)
def full(fill_value: AnyTensor, *, shape: Dims, dtype: DType | None = None) -> TensorType:
    """The rank-0 `fill_value` everywhere; `dtype` is that of the value by default.

    >>> %x = float32 7
    >>> full(%x, shape=(2, 2))
    [[7, 7], [7, 7]]
    """
    require_rank(fill_value, 0, 0, "`fill_value` of `full`")
    return TensorType(require_known(shape, "`shape` of `full`"), dtype or fill_value.dtype)


@full.numpy
def _(fill_value: Array, *, shape: Dims, dtype: DType | None) -> Array:
    value = numeric.cast(fill_value, dtype or dtype_of(fill_value.dtype))
    return np.full(sizes_of(shape), value, value.dtype)


@full.compute
def _(fill_value: Tensor, *, shape: Dims, dtype: DType | None) -> Tensor:
    value = te.cast(fill_value[()], dtype or fill_value.dtype)
    return te.compute(shape, lambda *i: value, "full")


@operator("full_like", fusion=Fusion.ELEMENTWISE)
def full_like(data: AnyTensor, fill_value: SameDtype) -> TensorType:
    """The rank-0 `fill_value` in the shape of `data`.

    >>> %x = float32 [1, 2]
    >>> %v = float32 7
    >>> full_like(%x, %v)
    [7, 7]
    """
    require_rank(fill_value, 0, 0, "`fill_value` of `full_like`")
    return TensorType(data.shape, data.dtype)


@full_like.numpy
def _(data: Array, fill_value: Array) -> Array:
    return np.full(data.shape, fill_value, data.dtype)


@full_like.compute
def _(data: Tensor, fill_value: Tensor) -> Tensor:
    return te.compute(data.shape, lambda *i: fill_value[()], "full_like")


@operator("shape_of", fusion=Fusion.OPAQUE, no_gradient="sizes are integers")
def shape_of(data: AnyTensor, *, dtype: DType | None = None) -> TensorType:
    """The sizes of `data`, as int32 by default.

    >>> %x = float32 [[1, 2, 3]]
    >>> shape_of(%x)
    [1, 3]
    """
    if dtype is not None and not dtype.is_integer:
        raise ShapeError(f"`dtype` of `shape_of` must be an integer, got {dtype}", "dtype-mismatch")
    return TensorType((data.rank,), dtype or INT32)


@shape_of.numpy
def _(data: Array, *, dtype: DType | None) -> Array:
    return np.array(data.shape, dtype=np.int64).astype((dtype or INT32).numpy)


@shape_of.compute
def _(data: Tensor, *, dtype: DType | None) -> Tensor:
    def size(i: ScalarExpr) -> ScalarExpr:
        value = te.const(0, INT64)
        for axis in reversed(range(data.rank)):
            value = te.select(i.equal(axis), te.dim(data.shape[axis]), value)
        return te.cast(value, dtype or INT32)

    return te.compute((data.rank,), size, "shape_of")


@operator(
    "arange",
    fusion=Fusion.OPAQUE,
    ignored=("start", "stop", "step"),
)
def arange(
    start: Numeric, end: SameDtype, step: SameDtype, *, dtype: DType | None = None
) -> TensorType:
    """`start`, `start + step`, ... before `end`; all are rank 0, elements are cast to `dtype`.

    The length is `ceil((end - start) / step)`, at least 0, for integers without rounding. It
    depends on values: see `value_shape` for constant operands and `value_dims` for the run time. A
    step of 0 gives no elements; a range that is infinite or not a number is an error, `bad-value`.

    >>> %a = int32 1
    >>> %b = int32 8
    >>> %s = int32 3
    >>> arange(%a, %b, %s)
    [1, 4, 7]
    """
    for name, operand in (("start", start), ("end", end), ("step", step)):
        require_rank(operand, 0, 0, f"`{name}` of `arange`")
    return TensorType((ANY,), dtype or start.dtype)


@arange.value_shape
def _(start: Array, end: Array, step: Array, *, dtype: DType | None) -> tuple[Dim, ...]:
    if start.dtype.kind != "f":
        first, last, stride = int(start), int(end), int(step)
        return (max(0, -((first - last) // stride)) if stride else 0,)
    computed = np.float32 if start.dtype == np.float16 else start.dtype.type
    distance, stride = computed(end) - computed(start), computed(step)
    steps = distance / stride if stride else stride
    if not np.isfinite([distance, steps, stride]).all():
        raise bad_value("range", float(distance), float(stride))
    if not steps and distance and stride and (distance > 0) == (stride > 0):
        return (1,)  # The quotient is below the smallest float.
    return (max(0, int(np.ceil(steps))),)


@arange.numpy
def _(start: Array, end: Array, step: Array, *, dtype: DType | None) -> Array:
    (length,) = arange.facets["value_shape"](start, end, step, dtype=dtype)
    computed = np.float32 if start.dtype == np.float16 else start.dtype.type
    positions = np.arange(length, dtype=np.int64).astype(computed)
    values = positions * computed(step) + computed(start)
    return numeric.cast(values, dtype or dtype_of(start.dtype))


@arange.value_dims
def _(start: Tensor, end: Tensor, step: Tensor, *, dtype: DType | None) -> tuple[Tensor, ...]:
    a, b, s = (te.cast(t[()], wide(t.dtype)) for t in (start, end, step))
    length = _float_length(a, b, s) if start.dtype.is_float else _integer_length(a, b, s)
    return (te.compute((), lambda: length, "length"),)


def _float_length(a: ScalarExpr, b: ScalarExpr, s: ScalarExpr) -> ScalarExpr:
    """Return the number of elements; traps where there is none."""
    distance, still = b - a, s.equal(0.0)
    steps = te.select(still, s, te.scalar("divide", distance, s))
    forward = te.scalar("equal", distance > 0.0, s > 0.0)
    moves = te.scalar("logical_and", te.scalar("not_equal", distance, 0.0), forward)
    vanishes = te.scalar("logical_and", steps.equal(0.0), te.scalar("logical_not", still))
    one = te.scalar("logical_and", vanishes, moves)
    count = te.select(one, 1.0, te.scalar("maximum", te.scalar("ceil", steps), 0.0))
    legal = te.scalar("isfinite", distance)
    for part in (steps, s):
        legal = te.scalar("logical_and", legal, te.scalar("isfinite", part))
    told = te.told("range", te.cast(distance, FLOAT64), te.cast(s, FLOAT64))
    return te.required(legal, told) + te.cast(count, INT64)


def _integer_length(a: ScalarExpr, b: ScalarExpr, s: ScalarExpr) -> ScalarExpr:
    """Return the number of elements; differences of any two integers are exact in uint64."""
    x, y, stride = (te.cast(v, UINT64) for v in (a, b, s))
    up = te.scalar("logical_and", s > 0, a < b)
    down = te.scalar("logical_and", s < 0, b < a)
    distance, step = (
        te.select(up, y - x, x - y),
        te.select(up, stride, te.const(0, UINT64) - stride),
    )
    count = te.scalar("divide", distance - 1, step) + 1
    legal = te.scalar("logical_or", up, down)
    most = te.const(2**63 - 1, UINT64)
    return te.cast(te.select(legal, te.scalar("minimum", count, most), te.const(0, UINT64)), INT64)


@arange.compute
def _(
    dims: tuple[Dim, ...], start: Tensor, end: Tensor, step: Tensor, *, dtype: DType | None
) -> Tensor:
    total = wide(start.dtype)
    first, stride = te.cast(start[()], total), te.cast(step[()], total)
    return te.compute(
        dims,
        lambda i: te.cast(te.cast(i, total) * stride + first, dtype or start.dtype),
        "arange",
    )


OPERATORS = (arange, full, full_like, ones, ones_like, shape_of, zeros, zeros_like)
