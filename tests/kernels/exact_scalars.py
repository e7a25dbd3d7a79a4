"""Exact values of the scalar functions of floats, and how far results are from them."""

import math
from fractions import Fraction

import mpmath
from ml_dtypes import finfo
from mpmath import mpf

from relayvm.base.dtypes import FLOAT16, NARROW
from relayvm.kernels.scalar_ops import SCALAR_OPS

PRECISION = 220
NAN, INFINITY = mpf("nan"), mpf("inf")


def _within(low, high, function):
    """Return the function, NaN outside the closed interval."""
    return lambda x: function(x) if low <= x <= high else NAN


UNARY = {
    "exp": mpmath.exp,
    "log": _within(0, INFINITY, mpmath.log),
    "log2": _within(0, INFINITY, lambda x: mpmath.log(x) / mpmath.log(2)),
    "log10": _within(0, INFINITY, mpmath.log10),
    "sqrt": _within(0, INFINITY, mpmath.sqrt),
    "rsqrt": _within(0, INFINITY, lambda x: 1 / mpmath.sqrt(x)),
    "sin": mpmath.sin,
    "cos": mpmath.cos,
    "tan": mpmath.tan,
    "asin": _within(-1, 1, mpmath.asin),
    "acos": _within(-1, 1, mpmath.acos),
    "atan": mpmath.atan,
    "sinh": mpmath.sinh,
    "cosh": mpmath.cosh,
    "tanh": mpmath.tanh,
    "asinh": mpmath.asinh,
    "acosh": _within(1, INFINITY, mpmath.acosh),
    "atanh": _within(-1, 1, mpmath.atanh),
    "erf": mpmath.erf,
    "sigmoid": lambda x: 1 / (1 + mpmath.exp(-x)),
    "floor": mpmath.floor,
    "ceil": mpmath.ceil,
    "round": mpmath.nint,
    "trunc": lambda x: mpmath.sign(x) * mpmath.floor(abs(x)),
    "negative": lambda x: -x,
    "abs": abs,
    "sign": mpmath.sign,
}


def _exactly(function):
    """Return the function of mpmath's numbers computed in fractions, without any rounding."""

    def exact(*operands):
        result = function(*(Fraction(float(x)) for x in operands))
        return mpf(result.numerator) / result.denominator

    return exact


def _mod(a, b):
    rest = abs(a) % abs(b)
    return rest if a >= 0 else -rest


BINARY = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "divide": lambda a, b: a / b,
    "floor_divide": _exactly(lambda a, b: Fraction(a // b)),
    "mod": _exactly(_mod),
    "floor_mod": _exactly(lambda a, b: a % b),
    "power": lambda a, b: a**b if a > 0 or b == mpmath.floor(b) else NAN,
    "maximum": max,
    "minimum": min,
}
FUSED = {"fma": _exactly(lambda a, b, c: a * b + c)}


def error_bound(name, dtype):
    """Return how many units of the last place a result may be off.

    float16 is rounded from float32, whose units are 2**-13 of its own; bfloat16 too, with 2**-16.
    """
    bound = SCALAR_OPS[name].ulp
    if dtype in NARROW and bound:
        return 0.5 + bound * 2.0 ** -(13 if dtype is FLOAT16 else 16)
    return bound


def _error(result, exact, info):
    """Return the error of a finite or infinite result in units of the last place of the exact."""
    _, mantissa, exponent, size = exact._mpf_
    if not mantissa:
        return 0.0 if result == 0 else math.inf
    if (result < 0) != (exact < 0) and result != 0:
        return math.inf
    top = max(info.minexp, min(exponent + size - 1, info.maxexp - 1))
    if math.isinf(result):
        # An infinity stands for the first power of two that the type lacks, and all above.
        limit = mpf(2) ** info.maxexp
        gap = max(limit - abs(exact), 0)
    else:
        gap = abs(mpf(result) - exact)
    return float(mpmath.ldexp(gap, info.nmant - top))


def worst_error(name, reference, *operands):
    """Return the largest error of a scalar function, and the operands that have it."""
    info = finfo(operands[0].dtype)
    results = SCALAR_OPS[name](*operands).tolist()
    worst, where = 0.0, None
    with mpmath.workprec(PRECISION):
        for result, *values in zip(results, *(x.tolist() for x in operands)):
            exact = reference(*(mpf(v) for v in values))
            if mpmath.isnan(exact) or math.isnan(result):
                error = 0.0 if mpmath.isnan(exact) and math.isnan(result) else math.inf
            elif mpmath.isinf(exact):
                error = 0.0 if result == exact else math.inf
            else:
                error = _error(result, exact, info)
            if error > worst:
                worst, where = error, (*values, result)
    return worst, where
