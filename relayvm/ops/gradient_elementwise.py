"""Gradients of the elementwise operators."""

from __future__ import annotations

import math
from collections.abc import Callable

from relayvm.ir.expr import Expr
from relayvm.ops import rows
from relayvm.ops.elementwise import cast, clip, copy, relu, where
from relayvm.ops.gradient_expressions import number, summed_like, times, where_or_zero
from relayvm.ops.integers import cast_like
from relayvm.ops.operator import GradientCall
from relayvm.ops.rows import ROWS, add, divide, multiply, negative, subtract

Gradients = tuple["Expr | None", ...]
Constants = Callable[[float], Expr]
# From (operand x, result y, gradient g of the result, maker of constants) to the gradient of x.
UnaryRule = Callable[[Expr, Expr, Expr, Constants], "Expr | None"]


def _one_minus_square(x: Expr, const: Constants) -> Expr:
    return subtract(const(1), multiply(x, x))


_UNARY: dict[str, UnaryRule] = {
    "abs": lambda x, y, g, c: where(rows.less(x, c(0)), negative(g), g),
    "negative": lambda x, y, g, c: negative(g),
    "exp": lambda x, y, g, c: multiply(g, y),
    "log": lambda x, y, g, c: divide(g, x),
    "log2": lambda x, y, g, c: divide(g, multiply(x, c(math.log(2)))),
    "log10": lambda x, y, g, c: divide(g, multiply(x, c(math.log(10)))),
    "sqrt": lambda x, y, g, c: divide(g, multiply(y, c(2))),
    # (x^-1/2)' = -1/2 x^-1/2 / x
    "rsqrt": lambda x, y, g, c: divide(times(g, y, c(-0.5)), x),
    "sin": lambda x, y, g, c: multiply(g, rows.cos(x)),
    "cos": lambda x, y, g, c: negative(multiply(g, rows.sin(x))),
    "tan": lambda x, y, g, c: multiply(g, add(c(1), multiply(y, y))),
    "asin": lambda x, y, g, c: divide(g, rows.sqrt(_one_minus_square(x, c))),
    "acos": lambda x, y, g, c: negative(divide(g, rows.sqrt(_one_minus_square(x, c)))),
    "atan": lambda x, y, g, c: divide(g, add(c(1), multiply(x, x))),
    "sinh": lambda x, y, g, c: multiply(g, rows.cosh(x)),
    "cosh": lambda x, y, g, c: multiply(g, rows.sinh(x)),
    "tanh": lambda x, y, g, c: multiply(g, _one_minus_square(y, c)),
    "asinh": lambda x, y, g, c: divide(g, rows.sqrt(add(multiply(x, x), c(1)))),
    "acosh": lambda x, y, g, c: divide(g, rows.sqrt(subtract(multiply(x, x), c(1)))),
    "atanh": lambda x, y, g, c: divide(g, _one_minus_square(x, c)),
    # erf' = 2 / sqrt(pi) exp(-x^2)
    "erf": lambda x, y, g, c: times(
        g, c(2 / math.sqrt(math.pi)), rows.exp(negative(multiply(x, x)))
    ),
    "sigmoid": lambda x, y, g, c: times(g, y, subtract(c(1), y)),
    # Steps: the gradient is zero wherever it exists.
    "sign": lambda x, y, g, c: None,
    "ceil": lambda x, y, g, c: None,
    "floor": lambda x, y, g, c: None,
    "round": lambda x, y, g, c: None,
    "trunc": lambda x, y, g, c: None,
}


def _add_unary(name: str, rule: UnaryRule) -> None:
    @ROWS[name].gradient
    def _(call: GradientCall, g: Expr) -> Gradients:
        dtype = call.type_of("data").dtype
        return (rule(call.data, call.output, g, lambda value: number(value, dtype)),)


for _name, _rule in _UNARY.items():
    _add_unary(_name, _rule)

# From (x, y, result, g, maker of constants) to the gradients of x and y before broadcast axes are
# summed.
BinaryRule = Callable[[Expr, Expr, Expr, Expr, Constants], "tuple[Expr | None, Expr | None]"]


def _power(x: Expr, y: Expr, result: Expr, g: Expr, c: Constants) -> tuple[Expr, Expr]:
    # d x^y / dy = x^y log x; there is none where x is not positive, 0 is the usual choice.
    positive = rows.greater(x, c(0))
    logarithm = where(positive, rows.log(where(positive, x, c(1))), c(0))
    return times(g, y, rows.power(x, subtract(y, c(1)))), times(g, result, logarithm)


def _extreme(left_wins: Expr, g: Expr, c: Constants) -> tuple[Expr, Expr]:
    return where(left_wins, g, c(0)), where(left_wins, c(0), g)


_BINARY: dict[str, BinaryRule] = {
    "add": lambda x, y, r, g, c: (g, g),
    "subtract": lambda x, y, r, g, c: (g, negative(g)),
    "multiply": lambda x, y, r, g, c: (multiply(g, y), multiply(g, x)),
    "divide": lambda x, y, r, g, c: (divide(g, y), negative(divide(multiply(g, r), y))),
    "power": _power,
    "mod": lambda x, y, r, g, c: (g, negative(multiply(g, rows.trunc(divide(x, y))))),
    "floor_mod": lambda x, y, r, g, c: (g, negative(multiply(g, rows.floor_divide(x, y)))),
    "floor_divide": lambda x, y, r, g, c: (None, None),
    "trunc_mod": lambda x, y, r, g, c: (g, negative(multiply(g, rows.trunc(divide(x, y))))),
    "trunc_divide": lambda x, y, r, g, c: (None, None),
    "maximum": lambda x, y, r, g, c: _extreme(rows.greater_equal(x, y), g, c),
    "minimum": lambda x, y, r, g, c: _extreme(rows.less_equal(x, y), g, c),
}


def _add_binary(name: str, rule: BinaryRule) -> None:
    @ROWS[name].gradient
    def _(call: GradientCall, g: Expr) -> Gradients:
        dtype = call.type_of("lhs").dtype
        left, right = rule(call.lhs, call.rhs, call.output, g, lambda value: number(value, dtype))
        return (
            None if left is None else summed_like(call, "lhs", left),
            None if right is None else summed_like(call, "rhs", right),
        )


for _name, _pair in _BINARY.items():
    _add_binary(_name, _pair)


@relu.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    dtype = call.type_of("data").dtype
    return (where_or_zero(rows.greater(call.data, number(0, dtype)), g, dtype),)


@copy.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    return (g,)


@cast.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    source = call.type_of("data").dtype
    return (cast(g, dtype=source) if source.is_float and call.dtype.is_float else None,)


@cast_like.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    source, like = call.type_of("data").dtype, call.type_of("dtype_like").dtype
    return (cast(g, dtype=source) if source.is_float and like.is_float else None, None)


@clip.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    dtype = call.type_of("data").dtype
    inside = rows.logical_and(
        rows.greater_equal(call.data, number(call.a_min, dtype)),
        rows.less_equal(call.data, number(call.a_max, dtype)),
    )
    return (where_or_zero(inside, g, dtype),)


@where.gradient
def _(call: GradientCall, g: Expr) -> Gradients:
    zero = number(0, call.type_of("x").dtype)
    return (
        None,
        summed_like(call, "x", where(call.condition, g, zero)),
        summed_like(call, "y", where(call.condition, zero, g)),
    )
