"""The arithmetic of quantized numbers: products with real numbers as integers and shifts."""

from __future__ import annotations

from typing import Any

from relayvm.base.dtypes import FLOAT32, FLOAT64, INT32, INT64, DType
from relayvm.base.shapes import ShapeError
from relayvm.ops.composing import Composer

ROUNDINGS = ("UPWARD", "TONEAREST")
COMPUTE_DTYPES = {"int64": None, "float32": FLOAT32, "float64": FLOAT64}
_DEFAULTS = {"rounding": "UPWARD", "compute_dtype": "int64"}
# A float64 has 52 bits of fraction and an exponent of 11 bits; a significand keeps 31 bits.
_FRACTION = 52
_EXPONENT = 0x7FF
_BIAS = 1022
_KEPT = 31
# Beyond this a shift leaves nothing of what int32 and a significand multiply to.
_LAST_SHIFT = 62
# Far outside of every quantized dtype, and far inside int64.
_FAR = 2.0**40


def choice(name: str, attrs: dict[str, Any], attribute: str) -> str:
    """Return what `rounding` or `compute_dtype` says, or the default where it says "None"."""
    legal = ROUNDINGS if attribute == "rounding" else tuple(COMPUTE_DTYPES)
    given = attrs[attribute]
    chosen = str(_DEFAULTS[attribute] if given == "None" else given)
    if chosen not in legal:
        listed = ", ".join(f'"{m}"' for m in (*legal, "None"))
        message = f'`{attribute}` of `{name}` must be one of {listed}, got "{given}"'
        raise ShapeError(message, "bad-attribute")
    return chosen


def _whole(c: Composer, value: int) -> Any:
    return c.number(value, INT64)


def significand_and_shift(c: Composer, multiplier: Any) -> tuple[Any, Any]:
    """Return int64 values m of 31 bits and s with `multiplier` (float64) = m * 2**(s - 31), rounded
    to nearest; both for 0 where it is not above 0.
    """
    bits = c("reinterpret", multiplier, dtype=INT64)
    biased = c("bitwise_and", c("right_shift", bits, _whole(c, _FRACTION)), _whole(c, _EXPONENT))
    exponent = c("subtract", biased, _whole(c, _BIAS))
    fraction = c("bitwise_and", bits, _whole(c, (1 << _FRACTION) - 1))
    mantissa = c("bitwise_or", fraction, _whole(c, 1 << _FRACTION))
    dropped = _FRACTION + 1 - _KEPT
    half = _whole(c, 1 << (dropped - 1))
    rounded = c("right_shift", c("add", mantissa, half), _whole(c, dropped))
    carried = c("equal", rounded, _whole(c, 1 << _KEPT))
    kept = c("where", carried, _whole(c, 1 << (_KEPT - 1)), rounded)
    positive = c("greater", multiplier, c.number(0.0, FLOAT64))
    shift = c("add", exponent, c("cast", carried, dtype=INT64))
    return c("where", positive, kept, _whole(c, 0)), c("where", positive, shift, _whole(c, 0))


def multiplied(c: Composer, x: Any, multiplier: Any, rounding: str) -> Any:
    """Return int64 `x` times a float64 multiplier in fixed point, halves rounded as `rounding`
    says.
    """
    significand, shift = significand_and_shift(c, multiplier)
    zero = _whole(c, 0)
    left = c("maximum", shift, zero)
    right = c("add", c("maximum", c("negative", shift), zero), _whole(c, _KEPT))
    held = c("minimum", right, _whole(c, _LAST_SHIFT))
    product = c("multiply", c("left_shift", x, left), significand)
    half = c("left_shift", _whole(c, 1), c("subtract", held, _whole(c, 1)))
    if rounding == "TONEAREST":
        below = c("subtract", half, _whole(c, 1))
        half = c("where", c("greater_equal", product, zero), half, below)
    result = c("right_shift", c("add", product, half), held)
    return c("where", c("greater", right, _whole(c, _LAST_SHIFT)), zero, result)


def _multiplied_float(c: Composer, x: Any, multiplier: Any, rounding: str, dtype: DType) -> Any:
    real = c("multiply", c("cast", x, dtype=dtype), c("cast", multiplier, dtype=dtype))
    half = c.number(0.5, dtype)
    rounded = c("floor", c("add", real, half))
    if rounding == "TONEAREST":
        negative = c("less", real, c.number(0.0, dtype))
        rounded = c("where", negative, c("ceil", c("subtract", real, half)), rounded)
    return c("cast", c("clip", rounded, a_min=-_FAR, a_max=_FAR), dtype=INT64)


def ratio(c: Composer, first: Any, second: Any) -> Any:
    """Return the quotient of two scales in float64."""
    return c("divide", c("cast", first, dtype=FLOAT64), c("cast", second, dtype=FLOAT64))


def saturated(c: Composer, x: Any, dtype: DType) -> Any:
    """Return int64 values held within the range of a dtype, in it."""
    if dtype is INT64:
        return x
    held = c("clip", x, a_min=float(dtype.min), a_max=float(dtype.max))
    return c("cast", held, dtype=dtype)


def rescaled(
    c: Composer,
    x: Any,
    multiplier: Any,
    zero_point: Any,
    dtype: DType,
    rounding: str = "UPWARD",
    compute_dtype: str = "int64",
) -> Any:
    """Return int64 `x` times `multiplier` plus `zero_point`, rounded and saturated to `dtype`."""
    real = COMPUTE_DTYPES[compute_dtype]
    if real is None:
        product = multiplied(c, x, multiplier, rounding)
    else:
        product = _multiplied_float(c, x, multiplier, rounding, real)
    return saturated(c, c("add", product, c("cast", zero_point, dtype=INT64)), dtype)


def quantized(c: Composer, real: Any, scale: Any, zero_point: Any, dtype: DType) -> Any:
    """Return `round(real / scale) + zero_point` saturated to `dtype`; NaN counts as 0."""
    rounded = c("round", c("divide", real, scale))
    if dtype is INT32:
        # What is saturated already must stay so behind the zero point.
        wide = c("cast", rounded, dtype=FLOAT64)
        rounded = c("clip", wide, a_min=-_FAR, a_max=_FAR)
    else:
        rounded = c("cast", rounded, dtype=INT32)
    moved = c("add", c("cast", rounded, dtype=INT64), c("cast", zero_point, dtype=INT64))
    return saturated(c, moved, dtype)


def stored_float(c: Composer, real: Any, scale: Any, zero_point: Any, dtype: DType) -> Any:
    """Return `real / scale + zero_point` saturated to a stored float, in it; NaN stays."""
    quotient = c("cast", c("divide", real, scale), dtype=FLOAT32)
    moved = c("add", quotient, c("cast", zero_point, dtype=FLOAT32))
    held = c("clip", moved, a_min=float(dtype.min), a_max=float(dtype.max))
    return c("cast", held, dtype=dtype)


def shifted(c: Composer, x: Any, zero_point: Any, dtype: DType = INT32) -> Any:
    """Return `x - zero_point` in `dtype`; the zero point is int32."""
    zero = zero_point if dtype is INT32 else c("cast", zero_point, dtype=dtype)
    return c("subtract", c("cast", x, dtype=dtype), zero)


def dequantized(c: Composer, x: Any, scale: Any, zero_point: Any) -> Any:
    """Return `(x - zero_point) * scale` in float32."""
    return c("multiply", c("cast", shifted(c, x, zero_point), dtype=FLOAT32), scale)
