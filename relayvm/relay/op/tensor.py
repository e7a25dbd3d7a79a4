"""Operators that work on elements, and those that make, join and describe tensors."""

from __future__ import annotations

from typing import Any

from relayvm.ir.expr import Call, Expr
from relayvm.relay.op.make import as_expr, call, folded, is_dynamic, sizes, tuple_of
from relayvm.relay.op.naming import binary, unary

log = unary("log", "the natural logarithm of each element")
log2 = unary("log2", "the logarithm of each element to base 2")
log10 = unary("log10", "the logarithm of each element to base 10")
tan = unary("tan", "the tangent of each element")
cos = unary("cos", "the cosine of each element")
cosh = unary("cosh", "the hyperbolic cosine of each element")
sin = unary("sin", "the sine of each element")
sinh = unary("sinh", "the hyperbolic sine of each element")
acos = unary("acos", "the arc cosine of each element")
acosh = unary("acosh", "the inverse hyperbolic cosine of each element")
asin = unary("asin", "the arc sine of each element")
asinh = unary("asinh", "the inverse hyperbolic sine of each element")
atan = unary("atan", "the arc tangent of each element")
atanh = unary("atanh", "the inverse hyperbolic tangent of each element")
exp = unary("exp", "e to the power of each element")
erf = unary("erf", "the error function of each element")
sqrt = unary("sqrt", "the square root of each element")
rsqrt = unary("rsqrt", "1 divided by the square root of each element")
sigmoid = unary("sigmoid", "the logistic function of each element")
floor = unary("floor", "each element rounded down")
ceil = unary("ceil", "each element rounded up")
trunc = unary("trunc", "each element rounded toward 0")
round = unary("round", "each element rounded to the nearest, half to even")
abs = unary("abs", "the absolute value of each element")
sign = unary("sign", "-1, 0 or 1 by the sign of each element")
tanh = unary("tanh", "the hyperbolic tangent of each element")
negative = unary("negative", "each element with its sign changed")
logical_not = unary("logical_not", "whether each element is false")
bitwise_not = unary("bitwise_not", "each element with all bits flipped")
copy = unary("copy", "the tensor itself")
isnan = unary("isnan", "whether each element is not a number")
isfinite = unary("isfinite", "whether each element is finite")
isinf = unary("isinf", "whether each element is infinite")
zeros_like = unary("zeros_like", "a tensor of zeros like another")
ones_like = unary("ones_like", "a tensor of ones like another")
fast_exp = unary("fast_exp", "an approximation of `exp`")
fast_tanh = unary("fast_tanh", "an approximation of `tanh`")
fast_erf = unary("fast_erf", "an approximation of `erf`")

add = binary("add", "the sum of two tensors")
subtract = binary("subtract", "the difference of two tensors")
multiply = binary("multiply", "the product of two tensors")
divide = binary("divide", "the quotient of two tensors, of integers toward 0")
floor_divide = binary("floor_divide", "the quotient rounded down")
trunc_divide = binary("trunc_divide", "the quotient rounded toward 0")
power = binary("power", "`lhs` to the power of `rhs`")
mod = binary("mod", "the remainder with the sign of `lhs`")
floor_mod = binary("floor_mod", "the remainder with the sign of `rhs`")
trunc_mod = binary("trunc_mod", "the remainder with the sign of `lhs`")
logical_and = binary("logical_and", "whether both are true")
logical_or = binary("logical_or", "whether one is true")
logical_xor = binary("logical_xor", "whether exactly one is true")
bitwise_and = binary("bitwise_and", "the bits that both have")
bitwise_or = binary("bitwise_or", "the bits that one has")
bitwise_xor = binary("bitwise_xor", "the bits that exactly one has")
equal = binary("equal", "whether elements are equal")
not_equal = binary("not_equal", "whether elements differ")
less = binary("less", "whether `lhs` is less")
less_equal = binary("less_equal", "whether `lhs` is less or equal")
greater = binary("greater", "whether `lhs` is greater")
greater_equal = binary("greater_equal", "whether `lhs` is greater or equal")
maximum = binary("maximum", "the greater of two elements")
minimum = binary("minimum", "the smaller of two elements")
right_shift = binary("right_shift", "the bits of `lhs` shifted right")
left_shift = binary("left_shift", "the bits of `lhs` shifted left")


def zeros(shape: Any, dtype: str) -> Call:
    """Return a tensor of zeros; the shape may be an expression."""
    return _filled("zeros", shape, dtype)


def ones(shape: Any, dtype: str) -> Call:
    """Return a tensor of ones; the shape may be an expression."""
    return _filled("ones", shape, dtype)


def _filled(name: str, shape: Any, dtype: str) -> Call:
    shape = folded(shape)
    if is_dynamic(shape):
        return call(f"dyn.{name}", as_expr(shape), dtype=dtype)
    return call(name, shape=sizes(shape), dtype=dtype)


def clip(a: Expr, a_min: float, a_max: float) -> Call:
    """Return the elements, none below `a_min` or above `a_max`."""
    return call("clip", a, a_min=a_min, a_max=a_max)


def fixed_point_multiply(data: Expr, multiplier: int, shift: int) -> Call:
    """Return the product of integers with a number of fixed point: multiplier * 2**(shift - 31)."""
    return call("fixed_point_multiply", data, multiplier=multiplier, shift=shift)


def fixed_point_multiply_per_axis(
    x: Expr,
    y: Expr,
    lshift: Expr,
    rshift: Expr,
    is_lshift_required: bool,
    is_rshift_required: bool,
    axes: Any,
) -> Call:
    """Return the product of integers with numbers of fixed point, one for each place of `axes`."""
    return call(
        "fixed_point_multiply_per_axis",
        x,
        y,
        lshift,
        rshift,
        is_lshift_required=is_lshift_required,
        is_rshift_required=is_rshift_required,
        axes=axes,
    )


def concatenate(data: Any, axis: int) -> Call:
    """Return tensors joined along an axis."""
    return call("concatenate", tuple_of(data, "concatenate"), axis=folded(axis))


def einsum(data: Any, equation: str) -> Call:
    """Return the sums of products that an equation of index letters describes."""
    return call("einsum", tuple_of(data, "einsum"), equation=equation)


def stack(data: Any, axis: int) -> Call:
    """Return tensors joined along a new axis."""
    return call("stack", tuple_of(data, "stack"), axis=folded(axis))


def shape_of(data: Expr, dtype: str = "int32") -> Call:
    """Return the sizes of a tensor as a vector."""
    return call("shape_of", data, dtype=dtype)


def ndarray_size(data: Expr, dtype: str = "int32") -> Call:
    """Return the number of elements of a tensor."""
    return call("ndarray_size", data, dtype=dtype)


def device_copy(data: Expr, src_device: Any, dst_device: Any) -> Call:
    """Return the tensor on another device."""
    devices = {"src_device": str(src_device), "dst_device": str(dst_device)}
    return call("device_copy", data, **devices)


def copy_shape_func(attrs: Any, inputs: Any, _: Any) -> Any:
    """Return the shapes of the results of `copy`, which are those of its operands."""
    return [inputs[0]]
