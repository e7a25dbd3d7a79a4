"""Operators on bits and fixed-point numbers, and conversions that look at another tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from relayvm.base.dtypes import INT32, INT64, NUMERIC, WHOLE_BYTES, DType, dtype_of
from relayvm.base.shapes import ShapeError, bad_index, require_equal
from relayvm.ir.types import TensorType
from relayvm.kernels import compute as te
from relayvm.kernels.compute import ScalarExpr, Tensor
from relayvm.kernels.schedules.program import Memory, Writer
from relayvm.ops import numeric
from relayvm.ops.axes import product, require_axes, require_rank
from relayvm.ops.loads import broadcast_compute
from relayvm.ops.narrow import takes_bfloat16
from relayvm.ops.numeric import Array
from relayvm.ops.operator import Fusion, operator
from relayvm.ops.schema import AnyTensor, Bits, Integer, Ints, like

FRACTION_BITS = 31


@operator("reinterpret", fusion=Fusion.ELEMENTWISE, no_gradient="bits have no derivative")
def reinterpret(data: Bits, *, dtype: DType) -> TensorType:
    """The bits of each element read as `dtype`, which has as many.

    >>> %x = float32 [1, -2]
    >>> reinterpret(%x, dtype="int32")
    [1065353216, -1073741824]
    """
    if dtype not in WHOLE_BYTES or dtype.bits != data.dtype.bits:
        raise ShapeError(
            f"`reinterpret` of {data.dtype} as {dtype}: the numbers of bits differ",
            "dtype-mismatch",
        )
    return TensorType(data.shape, dtype)


@reinterpret.numpy
@takes_bfloat16
def _(data: Array, *, dtype: DType) -> Array:
    return np.ascontiguousarray(data).view(dtype.numpy).reshape(data.shape)


@reinterpret.compute
def _(data: Tensor, *, dtype: DType) -> Tensor:
    def bits(x: ScalarExpr) -> ScalarExpr:
        return x if x.dtype == dtype else te.scalar(f"bits_as_{dtype}", x)

    return broadcast_compute((data,), bits, "reinterpret")


@operator("cast_like", fusion=Fusion.ELEMENTWISE)
def cast_like(data: AnyTensor, dtype_like: AnyTensor) -> TensorType:
    """The elements of `data` in the dtype of `dtype_like`, converted as `cast` does.

    >>> %x = float32 [-1.5, 300]
    >>> %y = int8 0
    >>> cast_like(%x, %y)
    [-1, 127]
    """
    return TensorType(data.shape, dtype_like.dtype)


@cast_like.numpy
@takes_bfloat16
def _(data: Array, dtype_like: Array) -> Array:
    return numeric.cast(data, dtype_of(dtype_like.dtype))


@cast_like.compute
def _(data: Tensor, dtype_like: Tensor) -> Tensor:
    return broadcast_compute((data,), lambda x: te.cast(x, dtype_like.dtype), "cast_like")


@operator("ndarray_size", fusion=Fusion.INJECTIVE, no_gradient="sizes are integers")
def ndarray_size(data: AnyTensor, *, dtype: DType | None = None) -> TensorType:
    """The number of elements of `data`, as int32 by default.

    >>> %x = float32 [[1, 2, 3]]
    >>> ndarray_size(%x)
    3
    """
    if dtype is not None and dtype not in NUMERIC:
        message = f"`dtype` of `ndarray_size` must be a number, got {dtype}"
        raise ShapeError(message, "dtype-mismatch")
    return TensorType((), dtype or INT32)


@ndarray_size.numpy
def _(data: Array, *, dtype: DType | None) -> Array:
    return np.array(data.size, np.int64).astype((dtype or INT32).numpy)


@ndarray_size.compute
def _(data: Tensor, *, dtype: DType | None) -> Tensor:
    size = te.cast(te.dim(product(data.shape)), dtype or INT32)
    return te.compute((), lambda: size, "size")


@operator("fixed_point_multiply", fusion=Fusion.ELEMENTWISE, no_gradient="integers only")
def fixed_point_multiply(data: Integer, *, multiplier: int, shift: int) -> TensorType:
    """`data * multiplier * 2**(shift - 31)`, halves rounded up: a product with a real number.

    Operands are int32, the product is formed in int64.

    >>> %x = int32 [3, 10]
    >>> fixed_point_multiply(%x, multiplier=1073741824, shift=0)
    [2, 5]
    """
    _require_int32(data, "fixed_point_multiply")
    if not -(1 << 31) <= multiplier < 1 << 31:
        message = f"`multiplier` of `fixed_point_multiply` must be an int32, got {multiplier}"
        raise ShapeError(message, "bad-attribute")
    if not -31 <= shift <= 31:
        message = f"`shift` of `fixed_point_multiply` must be -31 to 31, got {shift}"
        raise ShapeError(message, "bad-attribute")
    return TensorType(data.shape, data.dtype)


def _require_int32(data: TensorType, name: str) -> None:
    if data.dtype is not INT32:
        message = f"operand `data` of `{name}` must be int32, got {data.dtype}"
        raise ShapeError(message, "dtype-mismatch")


def _scaled(apply: Callable[..., Any], x: Any, multiplier: Any, left: Any, right: Any) -> Any:
    """Return the rounded product; `apply` is a table of functions of int64 values."""
    total = apply("add", right, FRACTION_BITS)
    wide = apply("multiply", apply("left_shift", x, left), multiplier)
    half = apply("left_shift", 1, apply("subtract", total, 1))
    return apply("right_shift", apply("add", wide, half), total)


_NUMPY: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "left_shift": numeric.left_shift,
    "right_shift": numeric.right_shift,
}


def _scaled_array(x: Array, multiplier: Array, left: Array, right: Array) -> Array:
    operands = np.broadcast_arrays(*(np.asarray(a, np.int64) for a in (x, multiplier, left, right)))

    def apply(name: str, a: Any, b: Any) -> Any:
        a, b = np.broadcast_arrays(np.asarray(a, np.int64), np.asarray(b, np.int64))
        return _NUMPY[name](a, b)

    return np.asarray(_scaled(apply, *operands)).astype(np.int32)


def _scaled_value(
    x: ScalarExpr, multiplier: ScalarExpr, left: ScalarExpr, right: ScalarExpr
) -> ScalarExpr:
    wide = (te.cast(e, INT64) for e in (x, multiplier, left, right))
    return te.cast(_scaled(te.scalar, *wide), INT32)


@fixed_point_multiply.numpy
def _(data: Array, *, multiplier: int, shift: int) -> Array:
    left, right = max(shift, 0), max(-shift, 0)
    return _scaled_array(data, *(np.array(v) for v in (multiplier, left, right)))


@fixed_point_multiply.compute
def _(data: Tensor, *, multiplier: int, shift: int) -> Tensor:
    numbers = [te.const(v, INT64) for v in (multiplier, max(shift, 0), max(-shift, 0))]
    return broadcast_compute((data,), lambda x: _scaled_value(x, *numbers), "fixed_point")


@operator("fixed_point_multiply_per_axis", fusion=Fusion.BROADCAST, no_gradient="integers only")
def fixed_point_multiply_per_axis(
    data: Integer,
    fp_multiplier: Integer,
    left_shift: Integer,
    right_shift: Integer,
    *,
    is_lshift_required: bool = False,
    is_rshift_required: bool = False,
    axes: Ints,
) -> TensorType:
    """`data * fp_multiplier * 2**(left_shift - right_shift - 31)`, halves rounded up, with numbers
    of their own along `axes`.

    A shift that is not required is left out, whatever its operand holds.

    >>> %x = int32 [3, 10]
    >>> %m = int32 [1073741824, 1073741824]
    >>> %l = int32 [0, 1]
    >>> %r = int32 [0, 0]
    >>> fixed_point_multiply_per_axis(%x, %m, %l, %r, is_lshift_required=True, axes=[0])
    [2, 10]
    """
    _require_int32(data, "fixed_point_multiply_per_axis")
    places = require_axes(axes, data.rank, "`axes` of `fixed_point_multiply_per_axis`")
    named = (("fp_multiplier", fp_multiplier), ("left_shift", left_shift))
    for name, tensor in (*named, ("right_shift", right_shift)):
        _require_int32(tensor, "fixed_point_multiply_per_axis")
        require_rank(tensor, len(places), len(places), f"`{name}`")
        for k, axis in enumerate(places):
            what = f"axis {axis} of `data` and axis {k} of `{name}`"
            require_equal(data.shape[axis], tensor.shape[k], what)
    return TensorType(data.shape, data.dtype)


@fixed_point_multiply_per_axis.numpy
@like(fixed_point_multiply_per_axis.rule)
def _(
    data: Array, fp_multiplier: Array, left_shift: Array, right_shift: Array, **attrs: Any
) -> Array:
    places = [a % data.ndim for a in attrs["axes"]]

    def along(a: Array) -> Array:
        order = np.argsort(places)
        shape = [data.shape[i] if i in places else 1 for i in range(data.ndim)]
        return np.transpose(a, order).reshape(shape)

    left = along(left_shift) * attrs["is_lshift_required"]
    right = along(right_shift) * attrs["is_rshift_required"]
    return _scaled_array(data, along(fp_multiplier), left, right)


@fixed_point_multiply_per_axis.compute
@like(fixed_point_multiply_per_axis.rule)
def _(
    data: Tensor, fp_multiplier: Tensor, left_shift: Tensor, right_shift: Tensor, **attrs: Any
) -> Tensor:
    places = [a % data.rank for a in attrs["axes"]]
    zero = te.const(0, INT32)

    def element(*i: ScalarExpr) -> ScalarExpr:
        at = tuple(i[a] for a in places)
        left = left_shift[at] if attrs["is_lshift_required"] else zero
        right = right_shift[at] if attrs["is_rshift_required"] else zero
        return _scaled_value(data[i], fp_multiplier[at], left, right)

    return te.compute(data.shape, element, "fixed_point")


@operator("invert_permutation", fusion=Fusion.OPAQUE, no_gradient="integers only", value_traps=True)
def invert_permutation(data: Integer) -> TensorType:
    """Where each of 0, 1, ... stands in `data`: the permutation that undoes it.

    A number that is missing has place 0; of one that is there twice the last place counts.

    >>> %x = int32 [3, 0, 2, 1]
    >>> invert_permutation(%x)
    [1, 3, 2, 0]
    """
    require_rank(data, 1, 1, "`data` of `invert_permutation`")
    return TensorType(data.shape, data.dtype)


@invert_permutation.numpy
def _(data: Array) -> Array:
    wide = data.astype(np.int64)
    outside = data[(wide < 0) | (wide >= len(data))]
    if outside.size:
        raise bad_index(int(outside[0]), len(data))
    result = np.zeros(data.shape, data.dtype)
    for place, value in enumerate(wide):
        result[value] = np.array(place).astype(data.dtype)
    return result


@invert_permutation.compute
def _(data: Tensor) -> Tensor:
    size = data.shape[0]

    def build(w: Writer, data: Memory, result: Memory) -> None:
        with w.phase(size) as i:
            result[i] = 0
        with w.walk(size) as (i, _):
            place = te.index(data[i], size)
            result[place] = te.cast(i, data.dtype)

    outputs = te.program([(data.shape, data.dtype)], [data], build, size, "inverse")
    return outputs[0]


OPERATORS = (
    cast_like,
    fixed_point_multiply,
    fixed_point_multiply_per_axis,
    invert_permutation,
    ndarray_size,
    reinterpret,
)
