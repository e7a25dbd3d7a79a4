"""Layers of quantized networks: products in integers, whose scale is that of both factors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from relayvm.base.dims import Dim
from relayvm.base.dtypes import FLOAT32, FLOAT64, INT8, INT32, INT64, INTEGERS, UINT8, DType
from relayvm.base.shapes import ShapeError
from relayvm.ir.expr import Constant
from relayvm.ir.types import TensorType
from relayvm.ops.axes import require_axis
from relayvm.ops.composing import Composer, defined_by
from relayvm.ops.fixed_point import ratio, rescaled, shifted
from relayvm.ops.operator import Fusion, operator
from relayvm.ops.quantized import (
    NO_GRADIENT,
    along,
    named_type,
    require_parameters,
    require_quantized,
)
from relayvm.ops.schema import AnyTensor, Dims, Integer, Ints, like

_SOFTMAX_BITS = 8
_SOFTMAX_SCALE = 30


def _as_int32(tensor: TensorType) -> TensorType:
    return TensorType(tensor.shape, INT32)


def _product_type(
    name: str, core: str, data: TensorType, weight: TensorType, attrs: dict[str, Any]
) -> TensorType:
    """Return the type of a layer whose integers are summed as int32."""
    given = attrs["out_dtype"]
    if given not in INTEGERS:
        message = f"`out_dtype` of `{name}` must be an integer, got {given}"
        raise ShapeError(message, "dtype-mismatch")
    for tensor, operand in ((data, "data"), (weight, "weight")):
        require_quantized(tensor.dtype, f"operand `{operand}` of `{name}`")
    result = named_type(name, core, [_as_int32(data), _as_int32(weight)], attrs)
    assert isinstance(result, TensorType)
    return result


_PRODUCTS = ("nn.dense", "nn.batch_matmul")


def _product(
    c: Composer, core: str, types: Sequence[Any], args: Sequence[Any], attrs: dict[str, Any]
) -> Any:
    """Return a product of matrices of bytes, whose zero points are taken off its sums.

    `sum((x - a) * (w - b))` -> `sum(x * w) - a * sum(w) - b * sum(x - a)`: bytes stay bytes, and
    the sums of constant weights are constants.
    """
    data, weight, first, second = args[:4]
    if types[3].rank and types[3].shape[0] != 1:
        second = c.resized(second, types[1].shape[0])
    if types[0].dtype is not types[1].dtype:
        data, first = _signed(c, data, types[0].dtype, first)
        weight, second = _signed(c, weight, types[1].dtype, second)
    result = c(core, data, weight, **{**attrs, "out_dtype": INT32})
    if not _is_zero(first):
        sums = _sums(c, weight, _summed(core, attrs, "b"))
        if core == "nn.batch_matmul":
            sums = c("expand_dims", sums, axis=1)
        result = c("subtract", result, c("multiply", sums, first))
    if not _is_zero(second):
        rows = shifted(c, data, first)
        sums = c("sum", rows, axis=_summed(core, attrs, "a"), keepdims=core == "nn.dense")
        if core == "nn.batch_matmul":
            sums = c("expand_dims", sums, axis=2)
        result = c("subtract", result, c("multiply", sums, second))
    return result


def _summed(core: str, attrs: dict[str, Any], side: str) -> tuple[int, ...]:
    """Return the axis of an operand over which a product of matrices sums."""
    if core == "nn.dense":
        return (-1,)
    return (2 if attrs[f"transpose_{side}"] == (side == "b") else 1,)


def _signed(c: Composer, x: Any, dtype: DType, zero: Any) -> tuple[Any, Any]:
    """Return bytes as signed ones, and their zero point: both are 128 less where they were not."""
    if dtype is INT8:
        return x, zero
    if isinstance(x, Constant):
        moved = Constant(x.data.view(np.int8) ^ np.int8(-128))
    else:
        moved = c("bitwise_xor", c("reinterpret", x, dtype=INT8), c.number(-128, INT8))
    if isinstance(zero, Constant):
        return moved, Constant(zero.data - np.int32(128))
    return moved, c("subtract", zero, c.number(128, INT32))


def _sums(c: Composer, weight: Any, axis: tuple[int, ...]) -> Any:
    """Return sums of bytes; those of constants are made here, whatever their size."""
    if isinstance(weight, Constant):
        return Constant(weight.data.sum(axis=axis, dtype=np.int32))
    return c("sum", c("cast", weight, dtype=INT32), axis=axis)


def _is_zero(zero: Any) -> bool:
    """Return whether a zero point is known to be 0."""
    return isinstance(zero, Constant) and not zero.data.any()


def _layer(
    c: Composer,
    core: str,
    types: Sequence[Any],
    args: Sequence[Any],
    attrs: dict[str, Any],
    weight_axis: int,
) -> Any:
    """Return the layer `core` of both operands without their zero points."""
    if core in _PRODUCTS and all(t.dtype in (INT8, UINT8) for t in types[:2]):
        result = _product(c, core, types, args, attrs)
        given = attrs["out_dtype"]
        return result if given is INT32 else c("cast", result, dtype=given)
    data = shifted(c, args[0], args[2])
    zero = along(c, args[3], types[3], types[1], weight_axis)
    weight = shifted(c, args[1], zero)
    given = attrs["out_dtype"]
    result = c(core, data, weight, **{**attrs, "out_dtype": INT32})
    return result if given is INT32 else c("cast", result, dtype=given)


# -- Products of matrices -------------------------------------------------------------------------


@operator("qnn.dense", fusion=Fusion.CONTRACTION, no_gradient=NO_GRADIENT)
def dense(
    data: Integer,
    weight: Integer,
    input_zero_point: AnyTensor,
    weight_zero_point: AnyTensor,
    input_scale: AnyTensor,
    weight_scale: AnyTensor,
    *,
    units: Dim | None = None,
    out_dtype: DType = INT32,
) -> TensorType:
    """`nn.dense` of quantized numbers without their zero points, summed as int32; the scale of the
    result is the product of both.

    Those of the weight are one number, or one a unit.

    >>> %x = uint8 [[4, 5]]
    >>> %w = int8 [[1, 2], [3, -1]]
    >>> %s = float32 0.5
    >>> %z = int32 3
    >>> %o = int32 [0, 1]
    >>> qnn.dense(%x, %w, %z, %o, %s, %s)
    [[5, -2]]
    """
    attrs = {"units": units, "out_dtype": out_dtype}
    result = _product_type("qnn.dense", "nn.dense", data, weight, attrs)
    require_parameters("qnn.dense", "input_", input_scale, input_zero_point)
    require_parameters("qnn.dense", "weight_", weight_scale, weight_zero_point, weight, 0)
    return result


@defined_by(dense)
def _(c: Composer, types: Sequence[Any], args: Sequence[Any], attrs: dict[str, Any]) -> Any:
    return _layer(c, "nn.dense", types, args, attrs, 0)


@dense.row_axis
@like(dense.rule)
def _(*types: TensorType, **attrs: Any) -> int:
    return 0 if types[0].rank > 1 else -1


@operator(
    "qnn.contrib_dense_pack",
    fusion=Fusion.CONTRACTION,
    ignored=("weight_layout",),
    no_gradient=NO_GRADIENT,
)
def contrib_dense_pack(
    data: Integer,
    weight: Integer,
    input_zero_point: AnyTensor,
    weight_zero_point: AnyTensor,
    input_scale: AnyTensor,
    weight_scale: AnyTensor,
    *,
    units: Dim | None = None,
    out_dtype: DType = INT32,
) -> TensorType:
    """`qnn.dense` with a weight [units / b, k, b] of blocks of b units, and one zero point for all.

    >>> %x = uint8 [[4, 5]]
    >>> %w = int8 [[[1, 3], [2, -1]]]
    >>> %s = float32 0.5
    >>> %z = int32 3
    >>> %o = int32 0
    >>> qnn.contrib_dense_pack(%x, %w, %z, %o, %s, %s)
    [[5, 1]]
    """
    name, attrs = "qnn.contrib_dense_pack", {"units": units, "out_dtype": out_dtype}
    result = _product_type(name, "nn.contrib_dense_pack", data, weight, attrs)
    require_parameters(name, "input_", input_scale, input_zero_point)
    require_parameters(name, "weight_", weight_scale, weight_zero_point)
    return result


@defined_by(contrib_dense_pack)
def _(c: Composer, types: Sequence[Any], args: Sequence[Any], attrs: dict[str, Any]) -> Any:
    return _layer(c, "nn.contrib_dense_pack", types, args, attrs, -1)


@operator("qnn.batch_matmul", fusion=Fusion.CONTRACTION, no_gradient=NO_GRADIENT)
def batch_matmul(
    x: Integer,
    y: Integer,
    x_zero_point: AnyTensor,
    y_zero_point: AnyTensor,
    x_scale: AnyTensor,
    y_scale: AnyTensor,
    *,
    out_dtype: DType = INT32,
    transpose_a: bool = False,
    transpose_b: bool = False,
) -> TensorType:
    """`nn.batch_matmul` of quantized numbers without their zero points, summed as int32; the scale
    of the result is the product of both.

    >>> %x = uint8 [[[4, 5]]]
    >>> %y = int8 [[[1], [2]]]
    >>> %s = float32 0.5
    >>> %z = int32 3
    >>> %o = int32 0
    >>> qnn.batch_matmul(%x, %y, %z, %o, %s, %s)
    [[[5]]]
    """
    name = "qnn.batch_matmul"
    attrs = {"out_dtype": out_dtype, "transpose_a": transpose_a, "transpose_b": transpose_b}
    result = _product_type(name, "nn.batch_matmul", x, y, attrs)
    require_parameters(name, "x_", x_scale, x_zero_point)
    require_parameters(name, "y_", y_scale, y_zero_point)
    return result


@defined_by(batch_matmul)
def _(c: Composer, types: Sequence[Any], args: Sequence[Any], attrs: dict[str, Any]) -> Any:
    return _layer(c, "nn.batch_matmul", types, args, attrs, -1)


# -- Convolutions ---------------------------------------------------------------------------------


def _output_axis(layout: str) -> int:
    """Return the axis of output channels in the layout of a weight, which has been checked."""
    return layout.upper().index("O")


@operator("qnn.conv2d", fusion=Fusion.CONTRACTION, no_gradient=NO_GRADIENT)
def conv2d(
    data: Integer,
    weight: Integer,
    input_zero_point: AnyTensor,
    weight_zero_point: AnyTensor,
    input_scale: AnyTensor,
    weight_scale: AnyTensor,
    *,
    strides: Ints = (1, 1),
    padding: Ints = (0, 0),
    dilation: Ints = (1, 1),
    groups: int = 1,
    channels: Dim | None = None,
    kernel_size: Dims | None = None,
    data_layout: str = "NCHW",
    kernel_layout: str = "OIHW",
    out_layout: str = "",
    out_dtype: DType = INT32,
) -> TensorType:
    """`nn.conv2d` of quantized numbers without their zero points, summed as int32; the scale of the
    result is the product of both.

    Zeros of the padding are numbers 0, that is zero points. The scale and the zero point of the
    weight are one number, or one for each output channel.

    >>> %x = uint8 [[[[4, 5, 7]]]]
    >>> %w = int8 [[[[1, 2]]]]
    >>> %s = float32 0.5
    >>> %z = int32 3
    >>> %o = int32 0
    >>> qnn.conv2d(%x, %w, %z, %o, %s, %s)
    [[[[5, 10]]]]
    """
    attrs = _core_attrs(locals())
    result = _product_type("qnn.conv2d", "nn.conv2d", data, weight, attrs)
    require_parameters("qnn.conv2d", "input_", input_scale, input_zero_point)
    axis = _output_axis(kernel_layout)
    require_parameters("qnn.conv2d", "weight_", weight_scale, weight_zero_point, weight, axis)
    return result


_OPERANDS = frozenset(
    ["data", "weight", "input_zero_point", "weight_zero_point", "input_scale", "weight_scale"]
)


def _core_attrs(given: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if name not in _OPERANDS}


@defined_by(conv2d)
def _(c: Composer, types: Sequence[Any], args: Sequence[Any], attrs: dict[str, Any]) -> Any:
    return _layer(c, "nn.conv2d", types, args, attrs, _output_axis(attrs["kernel_layout"]))


@operator("qnn.conv2d_transpose", fusion=Fusion.CONTRACTION, no_gradient=NO_GRADIENT)
def conv2d_transpose(
    data: Integer,
    weight: Integer,
    input_zero_point: AnyTensor,
    weight_zero_point: AnyTensor,
    input_scale: AnyTensor,
    weight_scale: AnyTensor,
    *,
    channels: Dim | None = None,
    kernel_size: Dims | None = None,
    strides: Ints = (1, 1),
    output_padding: Ints = (0, 0),
    padding: Ints = (0, 0),
    dilation: Ints = (1, 1),
    groups: int = 1,
    data_layout: str = "NCHW",
    kernel_layout: str = "IOHW",
    out_layout: str = "",
    out_dtype: DType = INT32,
) -> TensorType:
    """`nn.conv2d_transpose` of quantized numbers without their zero points, summed as int32; the
    scale of the result is the product of both.

    The scale and the zero point of the weight are one number, or one for each output channel.

    >>> %x = uint8 [[[[4, 5]]]]
    >>> %w = int8 [[[[1, 2]]]]
    >>> %s = float32 0.5
    >>> %z = int32 3
    >>> %o = int32 0
    >>> qnn.conv2d_transpose(%x, %w, %z, %o, %s, %s)
    [[[[1, 4, 4]]]]
    """
    attrs = _core_attrs(locals())
    name = "qnn.conv2d_transpose"
    result = _product_type(name, "nn.conv2d_transpose", data, weight, attrs)
    require_parameters(name, "input_", input_scale, input_zero_point)
    axis = _output_axis(kernel_layout)
    require_parameters(name, "weight_", weight_scale, weight_zero_point, weight, axis)
    return result


@defined_by(conv2d_transpose)
def _(c: Composer, types: Sequence[Any], args: Sequence[Any], attrs: dict[str, Any]) -> Any:
    axis = _output_axis(attrs["kernel_layout"])
    return _layer(c, "nn.conv2d_transpose", types, args, attrs, axis)


# -- Means and softmax ----------------------------------------------------------------------------


@operator("qnn.avg_pool2d", fusion=Fusion.REDUCTION, no_gradient=NO_GRADIENT)
def avg_pool2d(
    data: Integer,
    input_scale: AnyTensor,
    input_zero_point: AnyTensor,
    output_scale: AnyTensor,
    output_zero_point: AnyTensor,
    *,
    pool_size: Ints,
    strides: Ints = (1, 1),
    dilation: Ints = (1, 1),
    padding: Ints = (0, 0),
    layout: str = "NCHW",
    out_layout: str = "",
    ceil_mode: bool = False,
    count_include_pad: bool = False,
) -> TensorType:
    """`nn.avg_pool2d` of quantized numbers without their zero points as int32, rounded as there,
    then brought to the scale and zero point of the result with halves rounded up.

    >>> %x = uint8 [[[[5, 9, 11]]]]
    >>> %s = float32 0.5
    >>> %z = int32 3
    >>> %t = float32 1
    >>> qnn.avg_pool2d(%x, %s, %z, %t, %z, pool_size=[1, 2])
    [[[[5, 7]]]]
    """
    name = "qnn.avg_pool2d"
    operands = ("data", "input_scale", "input_zero_point", "output_scale", "output_zero_point")
    attrs = {k: v for k, v in locals().items() if k not in (*operands, "name", "operands")}
    require_parameters(name, "input_", input_scale, input_zero_point)
    require_parameters(name, "output_", output_scale, output_zero_point)
    dtype = require_quantized(data.dtype, f"operand `data` of `{name}`")
    pooled = named_type(name, "nn.avg_pool2d", [_as_int32(data)], attrs)
    assert isinstance(pooled, TensorType)
    return TensorType(pooled.shape, dtype)


@defined_by(avg_pool2d)
def _(c: Composer, types: Sequence[Any], args: Sequence[Any], attrs: dict[str, Any]) -> Any:
    data, scale, zero, output_scale, output_zero = args
    mean = c("cast", c("nn.avg_pool2d", shifted(c, data, zero), **attrs), dtype=INT64)
    return rescaled(c, mean, ratio(c, scale, output_scale), output_zero, types[0].dtype)


@operator("qnn.softmax", fusion=Fusion.REDUCTION, no_gradient=NO_GRADIENT)
def softmax(
    data: Integer,
    scale: AnyTensor,
    zero_point: AnyTensor,
    output_scale: AnyTensor,
    output_zero_point: AnyTensor,
    *,
    axis: int = -1,
) -> TensorType:
    """The softmax of quantized numbers in integers: with x the distance from the greatest and
    n = max(1, round(1 / scale)), powers are taken as `((r >> 1) + n) << (8 - q)`, where
    p = x + (x >> 1) - (x >> 4) is -q * n + r. Their shares have 7 bits before they are brought to
    the scale of the result.

    >>> %x = int8 [0, 0, 40]
    >>> %s = float32 0.05
    >>> %z = int32 0
    >>> %t = float32 0.0078125
    >>> qnn.softmax(%x, %s, %z, %t, %z)
    [13, 13, 100]
    """
    name = "qnn.softmax"
    require_parameters(name, "", scale, zero_point)
    require_parameters(name, "output_", output_scale, output_zero_point)
    require_axis(axis, data.rank, f"`axis` of `{name}`")
    return TensorType(data.shape, require_quantized(data.dtype, f"operand `data` of `{name}`"))


@defined_by(softmax)
def _(c: Composer, types: Sequence[Any], args: Sequence[Any], attrs: dict[str, Any]) -> Any:
    data, scale, zero, output_scale, output_zero = args

    def whole(value: int) -> Any:
        return c.number(value, INT64)

    def folded(kind: str, x: Any) -> Any:
        return c(kind, x, axis=(attrs["axis"],), keepdims=True)

    numbers = shifted(c, data, zero, INT64)
    steps = c("cast", c("round", c("divide", c.number(1.0, FLOAT32), scale)), dtype=INT32)
    n = c("maximum", c("cast", steps, dtype=INT64), whole(1))
    x = c("subtract", numbers, folded("max", numbers))
    power = c("add", x, c("right_shift", x, whole(1)))
    power = c("subtract", power, c("right_shift", x, whole(4)))
    q = c("floor_divide", c("negative", power), n)
    r = c("add", power, c("multiply", q, n))
    base = c("add", c("right_shift", r, whole(1)), n)
    terms = c("left_shift", base, c("subtract", whole(_SOFTMAX_BITS), q))
    shares = c("floor_divide", whole(1 << _SOFTMAX_SCALE), folded("sum", terms))
    last = _SOFTMAX_SCALE - (_SOFTMAX_BITS - 1)
    result = c("right_shift", c("multiply", shares, terms), whole(last))
    unit = c.number(2.0 ** (1 - _SOFTMAX_BITS), FLOAT64)
    multiplier = ratio(c, unit, output_scale)
    return rescaled(c, result, multiplier, output_zero, types[0].dtype)


OPERATORS = (
    avg_pool2d,
    batch_matmul,
    contrib_dense_pack,
    conv2d,
    conv2d_transpose,
    dense,
    softmax,
)
