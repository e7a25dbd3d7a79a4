"""Scalar functions of zeros, infinities, NaN and other operands whose results are exact."""

import math

import numpy as np
import pytest
from ml_dtypes import finfo

from relayvm.base.dtypes import FLOAT16, FLOAT32, FLOAT64, FLOATS
from relayvm.kernels.scalar_ops import SCALAR_OPS

INF, NAN, PI = math.inf, math.nan, math.pi
# Operand and result; a result of pi is the nearest value of the type.
EXACT = {
    "exp": [(0.0, 1), (-0.0, 1), (INF, INF), (-INF, 0.0), (1e4, INF), (-1e4, 0.0)],
    "log": [(0.0, -INF), (-0.0, -INF), (1, 0.0), (INF, INF), (-INF, NAN), (-1, NAN), (-1e-7, NAN)],
    "log2": [(0.0, -INF), (-0.0, -INF), (1, 0.0), (INF, INF), (-INF, NAN), (-1, NAN), (0.125, -3)],
    "log10": [(0.0, -INF), (-0.0, -INF), (1, 0.0), (INF, INF), (-INF, NAN), (-1, NAN), (1000, 3)],
    "sqrt": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, NAN), (-1, NAN), (9, 3), (0.25, 0.5)],
    "rsqrt": [(0.0, INF), (-0.0, -INF), (INF, 0.0), (-INF, NAN), (-1, NAN), (16, 0.25)],
    "sin": [(0.0, 0.0), (-0.0, -0.0), (INF, NAN), (-INF, NAN)],
    "cos": [(0.0, 1), (-0.0, 1), (INF, NAN), (-INF, NAN)],
    "tan": [(0.0, 0.0), (-0.0, -0.0), (INF, NAN), (-INF, NAN)],
    "asin": [(0.0, 0.0), (-0.0, -0.0), (1, PI / 2), (-1, -PI / 2), (1.5, NAN), (-INF, NAN)],
    "acos": [
        (0.0, PI / 2),
        (-0.0, PI / 2),
        (1, 0.0),
        (-1, PI),
        (1.5, NAN),
        (-1.5, NAN),
        (INF, NAN),
    ],
    "atan": [(0.0, 0.0), (-0.0, -0.0), (INF, PI / 2), (-INF, -PI / 2), (1, PI / 4), (-1, -PI / 4)],
    "sinh": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF), (1e4, INF), (-1e4, -INF)],
    "cosh": [(0.0, 1), (-0.0, 1), (INF, INF), (-INF, INF), (1e4, INF), (-1e4, INF)],
    "tanh": [(0.0, 0.0), (-0.0, -0.0), (INF, 1), (-INF, -1), (40, 1), (-40, -1)],
    "asinh": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF)],
    "acosh": [(1, 0.0), (INF, INF), (0.5, NAN), (0.0, NAN), (-2, NAN), (-INF, NAN)],
    "atanh": [(0.0, 0.0), (-0.0, -0.0), (1, INF), (-1, -INF), (1.5, NAN), (-INF, NAN), (INF, NAN)],
    "erf": [(0.0, 0.0), (-0.0, -0.0), (INF, 1), (-INF, -1), (7, 1), (-7, -1)],
    "sigmoid": [(0.0, 0.5), (-0.0, 0.5), (INF, 1), (-INF, 0.0), (50, 1), (-1e4, 0.0)],
    "floor": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF), (0.5, 0.0), (-0.5, -1)],
    "ceil": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF), (0.5, 1), (-0.5, -0.0)],
    "round": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-0.5, -0.0), (0.5, 0.0), (1.5, 2), (2.5, 2)],
    "trunc": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF), (0.75, 0.0), (-0.75, -0.0)],
    "negative": [(0.0, -0.0), (-0.0, 0.0), (INF, -INF), (-INF, INF)],
    "abs": [(0.0, 0.0), (-0.0, 0.0), (INF, INF), (-INF, INF)],
    "sign": [(0.0, 0.0), (-0.0, 0.0), (INF, 1), (-INF, -1)],
}
ODD = ("sin", "tan", "asin", "atan", "sinh", "tanh", "asinh", "atanh", "erf")
EVEN = ("cos", "cosh", "abs")
# Pairs and the result of C's `pow`.
POWERS = [
    *(((x, y), 1) for x in (0.0, -0.0, NAN, INF, -INF, -3) for y in (0.0, -0.0)),
    *(((1, y), 1) for y in (NAN, INF, -INF, 0.5)),
    *(((-1, y), 1) for y in (INF, -INF, 2)),
    ((-1, 3), -1),
    ((0.0, 3), 0.0),
    ((-0.0, 3), -0.0),
    ((-0.0, 2), 0.0),
    ((-0.0, 0.5), 0.0),
    ((0.0, -3), INF),
    ((-0.0, -3), -INF),
    ((-0.0, -2), INF),
    ((-0.0, -0.5), INF),
    ((0.0, INF), 0.0),
    ((-0.0, -INF), INF),
    ((-2, 0.5), NAN),
    ((-2, 3), -8),
    ((-INF, 3), -INF),
    ((-INF, 2), INF),
    ((-INF, 0.5), INF),
    ((-INF, -3), -0.0),
    ((-INF, -2), 0.0),
    ((INF, 0.5), INF),
    ((INF, -0.5), 0.0),
    ((0.5, INF), 0.0),
    ((0.5, -INF), INF),
    ((-2, INF), INF),
    ((-2, -INF), 0.0),
    ((INF, INF), INF),
    ((INF, -INF), 0.0),
    ((2, NAN), NAN),
    ((NAN, 2), NAN),
    ((-1, NAN), NAN),
]
REMAINDERS = [(INF, 2), (-INF, 2), (2, 0.0), (0.0, 0.0), (NAN, 2), (2, NAN), (INF, INF), (2, -0.0)]


def _same(a, b):
    return (a == b and math.copysign(1, a) == math.copysign(1, b)) or (a != a and b != b)


def _check(name, dtype, cases):
    columns = [
        np.array(column, dtype.numpy) for column in zip(*(operands for operands, _ in cases))
    ]
    results = SCALAR_OPS[name](*columns)
    assert results.dtype == dtype.numpy
    for (operands, expected), result in zip(cases, results):
        rounded = dtype.numpy.type(expected)
        assert _same(float(result), float(rounded)), f"{name}{operands}: {result}, not {rounded}"


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", EXACT)
def test_operands_with_exact_results(name, dtype):
    with np.errstate(over="ignore"):
        _check(name, dtype, [((x,), expected) for x, expected in [*EXACT[name], (NAN, NAN)]])


def test_every_function_of_one_float_has_exact_results_here():
    rows = [n for n, op in SCALAR_OPS.items() if op.arity == 1 and op.to is None]
    assert {n for n in rows if not SCALAR_OPS[n].predicate} - {"bitwise_not"} == set(EXACT)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_power_has_the_special_values_of_c(dtype):
    _check("power", dtype, POWERS)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_remainders_without_meaning_are_nan(dtype):
    for name in ("mod", "floor_mod"):
        _check(name, dtype, [(pair, NAN) for pair in REMAINDERS])
    _check("mod", dtype, [((-0.0, 2), -0.0), ((0.0, -2), 0.0), ((-4, 2), -0.0), ((3, INF), 3)])
    _check(
        "floor_mod", dtype, [((-0.0, 2), 0.0), ((0.0, -2), -0.0), ((4, -2), -0.0), ((3, INF), 3)]
    )


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_the_larger_and_the_smaller_of_nan_is_nan(dtype):
    for name in ("maximum", "minimum"):
        _check(
            name, dtype, [((NAN, 1), NAN), ((1, NAN), NAN), ((NAN, NAN), NAN), ((INF, NAN), NAN)]
        )
    _check("maximum", dtype, [((INF, 1), INF), ((-INF, 1), 1)])
    _check("minimum", dtype, [((INF, 1), 1), ((-INF, 1), -INF)])


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_predicates_of_special_floats(dtype):
    tiny = finfo(dtype.numpy).smallest_subnormal
    x = np.array([0.0, -0.0, tiny, 1, INF, -INF, NAN], dtype.numpy)
    assert SCALAR_OPS["isnan"](x).tolist() == [False] * 6 + [True]
    assert SCALAR_OPS["isinf"](x).tolist() == [False] * 4 + [True, True, False]
    assert SCALAR_OPS["isfinite"](x).tolist() == [True] * 4 + [False] * 3
    assert SCALAR_OPS["logical_not"](x).tolist() == [True, True] + [False] * 5
    for name in ("less", "less_equal", "greater", "greater_equal", "equal"):
        assert not SCALAR_OPS[name](x, np.full_like(x, NAN)).any()
    assert SCALAR_OPS["not_equal"](x, np.full_like(x, NAN)).all()
    assert SCALAR_OPS["less"](np.zeros_like(x[2:3]), x[2:3]).all()


def _every_size(dtype):
    info = finfo(dtype.numpy)
    rng = np.random.default_rng(21)
    powers = np.repeat(np.arange(info.minexp - info.nmant, info.maxexp), 4)
    return np.ldexp(rng.uniform(1, 2 - float(info.eps), len(powers)), powers).astype(dtype.numpy)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_odd_and_even_functions_are_so_to_the_last_bit(dtype):
    x = _every_size(dtype)[::3]
    for name in ODD:
        positive, negative = SCALAR_OPS[name](x), SCALAR_OPS[name](-x)
        assert np.array_equal(positive, -negative, equal_nan=True), name
    for name in EVEN:
        assert np.array_equal(SCALAR_OPS[name](x), SCALAR_OPS[name](-x), equal_nan=True), name


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_small_operands_of_odd_functions_come_back(dtype):
    """Denormals are not flushed, by any of them."""
    info = finfo(dtype.numpy)
    x = np.array([info.smallest_subnormal, info.tiny, info.tiny - info.smallest_subnormal])
    for name in set(ODD) - {"erf"}:
        assert SCALAR_OPS[name](x).tolist() == x.tolist(), name


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_logarithms_to_base_2_of_powers_of_2_are_whole(dtype):
    info = finfo(dtype.numpy)
    powers = np.arange(info.minexp - info.nmant, info.maxexp)
    x = np.ldexp(1.0, powers).astype(dtype.numpy)
    assert SCALAR_OPS["log2"](x).tolist() == powers.tolist()


@pytest.mark.parametrize(("dtype", "most"), [(FLOAT16, 4), (FLOAT32, 10), (FLOAT64, 22)], ids=str)
def test_logarithms_to_base_10_of_powers_of_10_are_whole(dtype, most):
    x = np.array([10**k for k in range(most + 1)], dtype.numpy)
    assert SCALAR_OPS["log10"](x).tolist() == list(range(most + 1))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_whole_powers_of_two_are_exact(dtype):
    info = finfo(dtype.numpy)
    powers = np.arange(info.minexp - info.nmant, info.maxexp)
    y = powers.astype(dtype.numpy)
    result = SCALAR_OPS["power"](np.full_like(y, 2), y)
    assert result.tolist() == np.ldexp(1.0, powers).tolist()
