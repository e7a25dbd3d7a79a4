"""Quantized numbers: integers q that stand for `(q - zero_point) * scale`, one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from relayvm.base.dtypes import FLOAT32, FLOAT64, INT8, INT32, INT64, INTEGERS, DType
from relayvm.base.shapes import ShapeError, broadcast_shapes, require_equal
from relayvm.ir.types import TensorType, Type
from relayvm.ops.axes import require_axis
from relayvm.ops.composing import Composer, core_type, defined_by
from relayvm.ops.fixed_point import (
    choice,
    dequantized,
    quantized,
    ratio,
    rescaled,
    shifted,
    stored_float,
)
from relayvm.ops.operator import Fusion, Operator, operator
from relayvm.ops.schema import AnyTensor, Float, Integer, Quantized, SameDtype, Tensors

NO_GRADIENT = "integers have no derivative"
_WIDEST = 32


# -- Checks and shapes ----------------------------------------------------------------------------


def require_quantized(dtype: DType, what: str) -> DType:
    """Return a dtype that quantized numbers may have; raises ShapeError `dtype-mismatch`."""
    if dtype not in INTEGERS or dtype.bits > _WIDEST:
        message = f"{what} must be an integer of up to {_WIDEST} bits, got {dtype}"
        raise ShapeError(message, "dtype-mismatch")
    return dtype


def require_parameter(
    name: str, operand: str, given: TensorType, dtype: DType, data: TensorType | None, axis: int
) -> None:
    """Check a scale or zero point: one number, or one for each place along `axis` of `data`."""
    if given.dtype is not dtype:
        message = f"`{operand}` of `{name}` must be {dtype}, got {given.dtype}"
        raise ShapeError(message, "dtype-mismatch")
    if given.rank > (data is not None):
        ranks = "rank 0" if data is None else "rank 0 or 1"
        raise ShapeError(f"`{operand}` of `{name}` must have {ranks}, got {given.rank}")
    if data is None or not given.rank:
        return
    if given.shape[0] == 1 and not data.rank:
        return
    place = require_axis(axis, data.rank, f"`axis` of `{name}`")
    if given.shape[0] == 1:
        return
    what = f"entries of `{operand}` of `{name}` and axis {place} of the data"
    require_equal(given.shape[0], data.shape[place], what)


def require_parameters(
    name: str,
    prefix: str,
    scale: TensorType,
    zero_point: TensorType,
    data: TensorType | None = None,
    axis: int = -1,
) -> None:
    """Check a scale and a zero point, whose names begin with `prefix`."""
    require_parameter(name, f"{prefix}scale", scale, FLOAT32, data, axis)
    require_parameter(name, f"{prefix}zero_point", zero_point, INT32, data, axis)


def along(c: Composer, value: Any, given: TensorType, data: TensorType, axis: int) -> Any:
    """Return a scale or zero point in the shape in which it is broadcast along `axis` of `data`."""
    if not given.rank:
        return value
    place = require_axis(axis, data.rank) if data.rank else 0
    if given.shape[0] != 1:
        value = c.resized(value, data.shape[place])
    behind = max(data.rank - place - 1, 0)
    if not data.rank:
        return c("reshape", value, newshape=())
    return c("expand_dims", value, axis=1, num_newaxis=behind) if behind else value


# -- To and from quantized numbers ----------------------------------------------------------------


@operator("qnn.quantize", fusion=Fusion.ELEMENTWISE, no_gradient=NO_GRADIENT)
def quantize(
    data: Float,
    output_scale: AnyTensor,
    output_zero_point: AnyTensor,
    *,
    out_dtype: DType = INT8,
    axis: int = -1,
) -> TensorType:
    """`round(data / output_scale) + output_zero_point`, saturated to `out_dtype`.

    Halves are rounded to even, NaN counts as 0. To a float of 8 or 4 bits the sum is rounded once,
    and NaN stays. The scale (float32) and the zero point (int32) are
    one number, or one for each place along `axis`.

    >>> %x = float32 [0.4, -1, 300]
    >>> %s = float32 0.5
    >>> %z = int32 3
    >>> qnn.quantize(%x, %s, %z)
    [4, 1, 127]
    """
    require_parameters("qnn.quantize", "output_", output_scale, output_zero_point, data, axis)
    if not out_dtype.is_stored:
        require_quantized(out_dtype, "`out_dtype` of `qnn.quantize`")
    return TensorType(data.shape, out_dtype)


@defined_by(quantize)
def _(c: Composer, types: Sequence[Any], args: Sequence[Any], attrs: dict[str, Any]) -> Any:
    data, axis = types[0], attrs["axis"]
    scale, zero = (along(c, a, t, data, axis) for a, t in zip(args[1:], types[1:]))
    scale = c("cast", scale, dtype=data.dtype)
    dtype = attrs["out_dtype"]
    if dtype.is_real:
        return stored_float(c, args[0], scale, zero, dtype)
    return quantized(c, args[0], scale, zero, dtype)


@operator("qnn.dequantize", fusion=Fusion.ELEMENTWISE)
def dequantize(
    data: Quantized,
    input_scale: AnyTensor,
    input_zero_point: AnyTensor,
    *,
    out_dtype: DType = FLOAT32,
    axis: int = -1,
) -> TensorType:
    """`(data - input_zero_point) * input_scale`: a difference in int32, of floats of 8 or 4 bits in
    float32; a product in float32.

    The scale and the zero point are one number, or one for each place along `axis`.

    >>> %x = uint8 [[3, 5], [3, 5]]
    >>> %s = float32 [0.5, 2]
    >>> %z = int32 3
    >>> qnn.dequantize(%x, %s, %z, axis=0)
    [[0, 1], [0, 4]]
    """
    require_parameters("qnn.dequantize", "input_", input_scale, input_zero_point, data, axis)
    if not out_dtype.is_float:
        message = f"`out_dtype` of `qnn.dequantize` must be a float, got {out_dtype}"
        raise ShapeError(message, "dtype-mismatch")
    return TensorType(data.shape, out_dtype)


@defined_by(dequantize)
def _(c: Composer, types: Sequence[Any], args: Sequence[Any], attrs: dict[str, Any]) -> Any:
    scale, zero = (along(c, a, t, types[0], attrs["axis"]) for a, t in zip(args[1:], types[1:]))
    real = args[0]
    if types[0].dtype.is_real:
        moved = c("subtract", c("cast", real, dtype=FLOAT32), c("cast", zero, dtype=FLOAT32))
        return c("cast", c("multiply", moved, scale), dtype=attrs["out_dtype"])
    return c("cast", dequantized(c, real, scale, zero), dtype=attrs["out_dtype"])


@operator("qnn.requantize", fusion=Fusion.ELEMENTWISE, no_gradient=NO_GRADIENT)
def requantize(
    data: Integer,
    input_scale: AnyTensor,
    input_zero_point: AnyTensor,
    output_scale: AnyTensor,
    output_zero_point: AnyTensor,
    *,
    axis: int = -1,
    rounding: str = "None",
    compute_dtype: str = "None",
    out_dtype: DType = INT8,
) -> TensorType:
    """The same numbers with another scale and zero point, saturated to `out_dtype`:
    `round((data - input_zero_point) * input_scale / output_scale) + output_zero_point`.

    `rounding` takes halves up ("UPWARD", the default) or away from zero ("TONEAREST").
    `compute_dtype` is "int64", the default: the quotient of the scales is rounded to 31 bits and
    the product is formed in integers; or "float32" or "float64". The scale and the zero point of
    the input are one number, or one for each place along `axis`.

    >>> %x = int32 [10, -10, 1000]
    >>> %s = float32 0.25
    >>> %z = int32 0
    >>> %t = float32 1
    >>> %o = int32 1
    >>> qnn.requantize(%x, %s, %z, %t, %o)
    [4, -1, 127]
    """
    name, attrs = "qnn.requantize", {"rounding": rounding, "compute_dtype": compute_dtype}
    require_parameters(name, "input_", input_scale, input_zero_point, data, axis)
    require_parameters(name, "output_", output_scale, output_zero_point)
    for attribute in attrs:
        choice(name, attrs, attribute)
    return TensorType(data.shape, require_quantized(out_dtype, f"`out_dtype` of `{name}`"))


@defined_by(requantize)
def _(c: Composer, types: Sequence[Any], args: Sequence[Any], attrs: dict[str, Any]) -> Any:
    scale, zero = (along(c, a, t, types[0], attrs["axis"]) for a, t in zip(args[1:3], types[1:3]))
    rounding, computed = (choice("qnn.requantize", attrs, a) for a in ("rounding", "compute_dtype"))
    x = shifted(c, args[0], zero, INT64)
    multiplier = ratio(c, scale, args[3])
    return rescaled(c, x, multiplier, args[4], attrs["out_dtype"], rounding, computed)


# -- Quantized numbers as floats ------------------------------------------------------------------

# What the codes of dtypes stand for; another code leaves the data as it is.
_LIMITS = {1: (0.0, 255.0), 2: (-128.0, 127.0), 3: (-(2.0**31), 2.0**31 - 1)}


def _is_on(c: Composer, code: Any) -> Any:
    return c("greater", code, c.number(0, INT32))


def _require_code(name: str, operand: str, code: TensorType) -> None:
    require_parameter(name, operand, code, INT32, None, -1)


@operator(
    "qnn.simulated_quantize",
    fusion=Fusion.ELEMENTWISE,
    no_gradient="rounded numbers have no derivative",
)
def simulated_quantize(
    data: Float,
    out_dtype: AnyTensor,
    output_scale: AnyTensor,
    output_zero_point: AnyTensor,
    *,
    axis: int = -1,
) -> TensorType:
    """What `qnn.quantize` gives, as floats; `out_dtype` is a number: 1 for uint8, 2 for int8, 3 for
    int32, 0 for the data as they are.

    >>> %x = float32 [0.4, -1, 300]
    >>> %d = int32 1
    >>> %s = float32 0.5
    >>> %z = int32 1
    >>> qnn.simulated_quantize(%x, %d, %s, %z)
    [2, 0, 255]
    """
    name = "qnn.simulated_quantize"
    _require_code(name, "out_dtype", out_dtype)
    require_parameters(name, "output_", output_scale, output_zero_point, data, axis)
    return TensorType(data.shape, data.dtype)


@defined_by(simulated_quantize)
def _(c: Composer, types: Sequence[Any], args: Sequence[Any], attrs: dict[str, Any]) -> Any:
    data, code, kind = args[0], args[1], types[0].dtype
    scale, zero = (
        c("cast", along(c, a, t, types[0], attrs["axis"]), dtype=kind)
        for a, t in zip(args[2:], types[2:])
    )
    moved = c("add", c("round", c("divide", data, scale)), zero)
    bounds = []
    for side in (0, 1):
        bound = c.number(_LIMITS[3][side], FLOAT32)
        for number in (2, 1):
            known = c("equal", code, c.number(number, INT32))
            bound = c("where", known, c.number(_LIMITS[number][side], FLOAT32), bound)
        bounds.append(c("cast", bound, dtype=kind))
    held = c("minimum", c("maximum", moved, bounds[0]), bounds[1])
    return c("where", _is_on(c, code), held, data)


@operator(
    "qnn.simulated_dequantize",
    fusion=Fusion.ELEMENTWISE,
    ignored=("out_dtype",),
)
def simulated_dequantize(
    data: Float,
    in_dtype: AnyTensor,
    input_scale: AnyTensor,
    input_zero_point: AnyTensor,
    *,
    axis: int = -1,
) -> TensorType:
    """What `qnn.dequantize` gives of whole floats; `in_dtype` is the number of a dtype as in
    `qnn.simulated_quantize`, 0 for the data as they are.

    >>> %x = float32 [2, 255]
    >>> %d = int32 1
    >>> %s = float32 0.5
    >>> %z = int32 1
    >>> qnn.simulated_dequantize(%x, %d, %s, %z)
    [0.5, 127]
    """
    name = "qnn.simulated_dequantize"
    _require_code(name, "in_dtype", in_dtype)
    require_parameters(name, "input_", input_scale, input_zero_point, data, axis)
    return TensorType(data.shape, data.dtype)


@defined_by(simulated_dequantize)
def _(c: Composer, types: Sequence[Any], args: Sequence[Any], attrs: dict[str, Any]) -> Any:
    scale, zero = (
        c("cast", along(c, a, t, types[0], attrs["axis"]), dtype=types[0].dtype)
        for a, t in zip(args[2:], types[2:])
    )
    real = c("multiply", c("subtract", args[0], zero), scale)
    return c("where", _is_on(c, args[1]), real, args[0])


# -- Functions of one tensor ----------------------------------------------------------------------


def _hardswish(c: Composer, x: Any) -> Any:
    three, six = (c.number(v, FLOAT32) for v in (3.0, 6.0))
    gate = c("clip", c("add", x, three), a_min=0.0, a_max=6.0)
    return c("divide", c("multiply", x, gate), six)


_FUNCTIONS: dict[str, tuple[str, str, str]] = {
    "tanh": ("The hyperbolic tangent", "[0, 100]", "[-12, 7]"),
    "exp": ("e to the power", "[0, 2]", "[-1, 3]"),
    "sqrt": ("The square root", "[3, 9]", "[-3, 14]"),
    "rsqrt": ("1 divided by the square root", "[4, 5]", "[11, 7]"),
    "erf": ("The error function", "[0, 100]", "[-13, 7]"),
    "abs": ("The absolute value", "[0, 9]", "[12, 27]"),
    "sigmoid": ("`1 / (1 + exp(-x))`", "[3, 100]", "[2, 7]"),
    "hardswish": ("`x * clip(x + 3, 0, 6) / 6`", "[0, 9]", "[-7, 27]"),
    "log": ("The natural logarithm", "[5, 100]", "[-3, 36]"),
}


def _unary(name: str, text: str, given: str, result: str) -> Operator:
    full = f"qnn.{name}"
    doc = (
        f"{text} of quantized numbers, quantized.\n\n"
        "The number is dequantized and the function computed in float32; the result has the dtype "
        "of `x`.\n\n"
        f">>> %x = int8 {given}\n>>> %s = float32 0.5\n>>> %z = int32 3\n"
        ">>> %t = float32 0.1\n>>> %o = int32 -3\n"
        f">>> {full}(%x, %s, %z, %t, %o)\n{result}"
    )

    def rule(
        x: Integer,
        scale: AnyTensor,
        zero_point: AnyTensor,
        output_scale: AnyTensor,
        output_zero_point: AnyTensor,
    ) -> TensorType:
        require_parameters(full, "", scale, zero_point)
        require_parameters(full, "output_", output_scale, output_zero_point)
        return TensorType(x.shape, require_quantized(x.dtype, f"operand `x` of `{full}`"))

    row = operator(full, fusion=Fusion.ELEMENTWISE, no_gradient=NO_GRADIENT, doc=doc)(rule)

    @defined_by(row)
    def _(c: Composer, types: Sequence[Any], args: Sequence[Any], attrs: dict[str, Any]) -> Any:
        real = dequantized(c, args[0], args[1], args[2])
        value = _hardswish(c, real) if name == "hardswish" else c(name, real)
        return quantized(c, value, args[3], args[4], types[0].dtype)

    return row


UNARY = tuple(_unary(name, *row) for name, row in _FUNCTIONS.items())


# -- Functions of two tensors ---------------------------------------------------------------------

Combine = Callable[[Composer, Sequence[Any], Any, DType], Any]


def _sum(sign: str) -> Combine:
    def combine(c: Composer, sides: Sequence[Any], output: Any, dtype: DType) -> Any:
        parts = []
        for x, scale in sides:
            zero = c.number(0, INT32)
            parts.append(rescaled(c, x, ratio(c, scale, output[0]), zero, INT64))
        moved = c("add", c(sign, *parts), c("cast", output[1], dtype=INT64))
        held = c("clip", moved, a_min=float(dtype.min), a_max=float(dtype.max))
        return c("cast", held, dtype=dtype)

    return combine


def _product(c: Composer, sides: Sequence[Any], output: Any, dtype: DType) -> Any:
    (x, first), (y, second) = sides
    both = c("multiply", x, y)
    scales = [c("cast", s, dtype=FLOAT64) for s in (first, second)]
    multiplier = c("divide", c("multiply", *scales), c("cast", output[0], dtype=FLOAT64))
    return rescaled(c, both, multiplier, output[1], dtype)


def _binary(name: str, text: str, example: str, combine: Combine) -> Operator:
    full = f"qnn.{name}"
    doc = (
        f"{text}\n\n"
        "Scales and zero points of the operands are one number each, or one for each place along "
        "`lhs_axis` and `rhs_axis`; halves are rounded up.\n\n"
        ">>> %a = int8 [2, 100]\n>>> %b = int8 [4, 100]\n>>> %s = float32 0.5\n>>> %z = int32 0\n"
        ">>> %t = float32 0.25\n>>> %o = float32 1\n"
        f">>> {full}(%a, %b, %s, %z, %t, %z, %o, %z)\n{example}"
    )

    def rule(
        lhs: Integer,
        rhs: SameDtype,
        lhs_scale: AnyTensor,
        lhs_zero_point: AnyTensor,
        rhs_scale: AnyTensor,
        rhs_zero_point: AnyTensor,
        output_scale: AnyTensor,
        output_zero_point: AnyTensor,
        *,
        lhs_axis: int = -1,
        rhs_axis: int = -1,
    ) -> TensorType:
        require_parameters(full, "lhs_", lhs_scale, lhs_zero_point, lhs, lhs_axis)
        require_parameters(full, "rhs_", rhs_scale, rhs_zero_point, rhs, rhs_axis)
        require_parameters(full, "output_", output_scale, output_zero_point)
        shape = broadcast_shapes(lhs.shape, rhs.shape, f"operands of `{full}`")
        return TensorType(shape, require_quantized(lhs.dtype, f"operand `lhs` of `{full}`"))

    row = operator(full, fusion=Fusion.BROADCAST, no_gradient=NO_GRADIENT, doc=doc)(rule)

    @defined_by(row)
    def _(c: Composer, types: Sequence[Any], args: Sequence[Any], attrs: dict[str, Any]) -> Any:
        sides = []
        for k, axis in enumerate(("lhs_axis", "rhs_axis")):
            scale, zero = (
                along(c, args[p], types[p], types[k], attrs[axis]) for p in (2 + 2 * k, 3 + 2 * k)
            )
            sides.append((shifted(c, args[k], zero, INT64), scale))
        return combine(c, sides, args[6:], types[0].dtype)

    return row


BINARY = (
    _binary(
        "add",
        "The sum of quantized numbers: each is brought to the scale of the result, then they are "
        "added.",
        "[2, 75]",
        _sum("add"),
    ),
    _binary(
        "subtract",
        "The difference of quantized numbers: each is brought to the scale of the result, then "
        "they are subtracted.",
        "[0, 25]",
        _sum("subtract"),
    ),
    _binary(
        "mul",
        "The product of quantized numbers, formed in int64 and then brought to the scale of the "
        "result.",
        "[1, 127]",
        _product,
    ),
)


@operator("qnn.leaky_relu", fusion=Fusion.ELEMENTWISE, no_gradient=NO_GRADIENT)
def leaky_relu(
    data: Integer,
    input_scale: AnyTensor,
    input_zero_point: AnyTensor,
    output_scale: AnyTensor,
    output_zero_point: AnyTensor,
    *,
    alpha: float = 0.25,
) -> TensorType:
    """Quantized numbers, times `alpha` where they are below 0, with another scale and zero point.

    The factor and the quotient of the scales are one multiplier; halves are rounded up.

    >>> %x = int8 [-8, 9]
    >>> %s = float32 0.5
    >>> %z = int32 0
    >>> %t = float32 1
    >>> qnn.leaky_relu(%x, %s, %z, %t, %z)
    [-1, 5]
    """
    name = "qnn.leaky_relu"
    require_parameters(name, "input_", input_scale, input_zero_point)
    require_parameters(name, "output_", output_scale, output_zero_point)
    if not 0 <= alpha < float("inf"):
        message = f"`alpha` of `{name}` must be a number from 0 on, got {alpha}"
        raise ShapeError(message, "bad-attribute")
    return TensorType(data.shape, require_quantized(data.dtype, f"operand `data` of `{name}`"))


@defined_by(leaky_relu)
def _(c: Composer, types: Sequence[Any], args: Sequence[Any], attrs: dict[str, Any]) -> Any:
    x = shifted(c, args[0], args[2], INT64)
    above = ratio(c, args[1], args[3])
    below = c("multiply", above, c.number(attrs["alpha"], FLOAT64))
    zero, none = c.number(0, INT64), c.number(0, INT32)
    positive, negative = (
        rescaled(c, c(side, x, zero), factor, none, INT64)
        for side, factor in (("maximum", above), ("minimum", below))
    )
    return rescaled(
        c, c("add", positive, negative), c.number(1.0, FLOAT64), args[4], types[0].dtype
    )


@operator("qnn.concatenate", fusion=Fusion.INJECTIVE, no_gradient=NO_GRADIENT)
def concatenate(
    data: Tensors,
    input_scales: Tensors,
    input_zero_points: Tensors,
    output_scale: AnyTensor,
    output_zero_point: AnyTensor,
    *,
    axis: int = 0,
) -> TensorType:
    """Quantized tensors joined along `axis`, each brought to the scale and zero point of the
    result; halves are rounded up.

    >>> %a = int8 [2]
    >>> %b = int8 [8]
    >>> %s = float32 0.5
    >>> %t = float32 0.25
    >>> %z = int32 0
    >>> %o = float32 1
    >>> qnn.concatenate((%a, %b), (%s, %t), (%z, %z), %o, %z)
    [1, 2]
    """
    name = "qnn.concatenate"
    counts = {len(t.fields) for t in (data, input_scales, input_zero_points)}
    if len(counts) != 1:
        message = f"`{name}` takes a scale and a zero point for each tensor"
        raise ShapeError(f"{message}, got {len(input_scales.fields)} for {len(data.fields)}")
    require_parameters(name, "output_", output_scale, output_zero_point)
    for tensor, scale, zero in zip(data.fields, input_scales.fields, input_zero_points.fields):
        assert isinstance(tensor, TensorType)
        assert isinstance(scale, TensorType)
        assert isinstance(zero, TensorType)
        require_parameters(name, "input_", scale, zero)
        require_quantized(tensor.dtype, f"operand `data` of `{name}`")
    result = named_type(name, "concatenate", [data], {"axis": axis})
    assert isinstance(result, TensorType)
    return result


def named_type(name: str, core: str, types: Sequence[Type], attrs: dict[str, Any]) -> Type:
    """Return the type of a call of the operator `core`, whose errors name the operator `name`."""
    try:
        return core_type(core, types, attrs)
    except ShapeError as failure:
        message = failure.message.replace(f"`{core}`", f"`{name}`")
        raise ShapeError(message, failure.code) from None


@defined_by(concatenate)
def _(c: Composer, types: Sequence[Any], args: Sequence[Any], attrs: dict[str, Any]) -> Any:
    data, scales, zeros, scale, zero = args
    parts = []
    for k, field in enumerate(types[0].fields):
        x = shifted(c, c.field(data, k), c.field(zeros, k), INT64)
        multiplier = ratio(c, c.field(scales, k), scale)
        parts.append(rescaled(c, x, multiplier, zero, field.dtype))
    return c("concatenate", tuple(parts), axis=attrs["axis"])


OPERATORS = (
    *UNARY,
    *BINARY,
    concatenate,
    dequantize,
    leaky_relu,
    quantize,
    requantize,
    simulated_dequantize,
    simulated_quantize,
)
