"""The numpy meaning of scalar functions: error bounds, special values, exact fused multiply-add."""

import math
from fractions import Fraction

import numpy as np
import pytest

from relayvm.base.dtypes import BY_NAME, FLOAT16, INT8
from relayvm.kernels.scalar_ops import SCALAR_OPS, cast_array
from relayvm.kernels.scalars.numpy_machine import fma32, fma64

SAMPLES = 20_000
NUMPY_NAMES = {
    "asin": "arcsin",
    "acos": "arccos",
    "atan": "arctan",
    "asinh": "arcsinh",
    "acosh": "arccosh",
    "atanh": "arctanh",
}
# Where each function is sampled: (low, high) uniform, and whether sizes are spread over magnitudes.
RANGES = {
    "exp": (-87, 88),
    "log": (1e-30, 1e30),
    "log2": (1e-30, 1e30),
    "log10": (1e-30, 1e30),
    "rsqrt": (1e-30, 1e30),
    "sin": (-1e5, 1e5),
    "cos": (-1e5, 1e5),
    "tan": (-1e5, 1e5),
    "asin": (-1, 1),
    "acos": (-1, 1),
    "atan": (-1e6, 1e6),
    "sinh": (-88, 88),
    "cosh": (-88, 88),
    "tanh": (-20, 20),
    "asinh": (-1e12, 1e12),
    "acosh": (1, 1e12),
    "atanh": (-0.9999, 0.9999),
    "sigmoid": (-85, 85),
}


def _samples(low, high):
    """Return points spread uniformly and by magnitude over an interval."""
    rng = np.random.default_rng(3)
    uniform = rng.uniform(low, high, SAMPLES)
    sizes = np.exp(rng.uniform(math.log(1e-8), math.log(max(abs(low), abs(high))), SAMPLES))
    near_one = rng.uniform(0.5, 2, SAMPLES)
    signs = rng.choice([-1.0, 1.0], SAMPLES)
    points = np.concatenate([uniform, sizes * signs, near_one])
    return points[(points >= low) & (points <= high)]


def _reference(name, x):
    if name == "rsqrt":
        return 1 / np.sqrt(x)
    if name == "sigmoid":
        return 1 / (1 + np.exp(-x))
    return getattr(np, NUMPY_NAMES.get(name, name))(x)


def _worst_ulp(result, exact):
    """Return the largest error in units of the last place of the exact results."""
    unit = np.spacing(np.abs(exact).astype(result.dtype)).astype(exact.dtype)
    return float(np.max(np.abs(result.astype(exact.dtype) - exact) / unit))


@pytest.mark.parametrize("name", RANGES)
def test_float32_functions_keep_their_stated_error(name):
    x = _samples(*RANGES[name]).astype(np.float32)
    exact = _reference(name, x.astype(np.float64))
    assert _worst_ulp(SCALAR_OPS[name](x), exact) <= SCALAR_OPS[name].ulp


@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 63, reason="long double is not wider here")
@pytest.mark.parametrize("name", RANGES)
def test_float64_functions_keep_their_stated_error(name):
    x = _samples(*RANGES[name])
    exact = _reference(name, x.astype(np.longdouble))
    assert _worst_ulp(SCALAR_OPS[name](x), exact) <= SCALAR_OPS[name].ulp


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_erf_keeps_its_stated_error(dtype):
    x = np.linspace(-5.9, 5.9, 4001).astype(dtype)
    exact = np.array([math.erf(v) for v in x])
    # math.erf is itself good to about one unit in float64.
    assert _worst_ulp(SCALAR_OPS["erf"](x), exact) <= SCALAR_OPS["erf"].ulp + (dtype is np.float64)


def test_power_keeps_its_stated_error():
    rng = np.random.default_rng(5)
    x, y = rng.uniform(0.01, 50, SAMPLES), rng.uniform(-20, 20, SAMPLES)
    wide = np.power(x.astype(np.longdouble), y.astype(np.longdouble))
    assert _worst_ulp(SCALAR_OPS["power"](x, y), wide) <= SCALAR_OPS["power"].ulp
    x, y = x.astype(np.float32), y.astype(np.float32)
    wide = np.power(x.astype(np.float64), y.astype(np.float64))
    assert _worst_ulp(SCALAR_OPS["power"](x, y), wide) <= 0.51


SPECIAL = [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 3.0, 0.5, -0.5, 1.5, math.inf, -math.inf, math.nan]
SPECIAL += [1e-310, 1e300, -1e300, 2.0**53 + 2, 5e-324]


def _agree(result, expected):
    same = (result == expected) & (np.signbit(result) == np.signbit(expected))
    return same | (np.isnan(result) & np.isnan(expected))


@pytest.mark.parametrize(
    ("name", "reference"),
    [
        ("mod", np.fmod),
        ("floor_mod", np.mod),
        ("floor_divide", np.floor_divide),
        ("sign", np.sign),
        ("round", np.rint),
        ("sqrt", np.sqrt),
    ],
)
def test_functions_of_special_floats_are_those_of_numpy(name, reference):
    points = np.meshgrid(SPECIAL, SPECIAL)[: SCALAR_OPS[name].arity]
    if name == "sign":
        points = [p[p != 0] for p in points]
    with np.errstate(all="ignore"):
        expected = reference(*points)
    assert _agree(SCALAR_OPS[name](*points), expected).all()


def test_power_of_special_floats_is_that_of_numpy():
    x, y = np.meshgrid(SPECIAL, SPECIAL)
    with np.errstate(all="ignore"):
        expected = np.power(x, y)
    result = SCALAR_OPS["power"](x, y)
    close = np.isclose(result, expected, rtol=1e-15, atol=0) & (
        np.signbit(result) == np.signbit(expected)
    )
    assert (close | (np.isnan(result) & np.isnan(expected))).all()


@pytest.mark.parametrize("name", [n for n, op in SCALAR_OPS.items() if op.arity == 1 and op.ulp])
def test_nan_stays_nan(name):
    for dtype in SCALAR_OPS[name].dtypes:
        if dtype.is_float:
            assert np.isnan(SCALAR_OPS[name](np.array([np.nan], dtype.numpy))).all()


@pytest.mark.parametrize("name", ["int8", "int32", "int64", "uint8", "uint64"])
def test_integer_division_never_traps(name):
    dtype = BY_NAME[name]
    points = np.array([dtype.min, dtype.max, 0, 1, 2, 7], dtype.numpy)
    a, b = (v.ravel() for v in np.meshgrid(points, points))
    quotient, rest = SCALAR_OPS["divide"](a, b), SCALAR_OPS["mod"](a, b)
    for x, y, q, r in zip(a.tolist(), b.tolist(), quotient.tolist(), rest.tolist()):
        expected = int(Fraction(x, y)) if y else 0
        expected_rest = x - y * expected if y else 0
        wrapped = (expected - int(dtype.min)) % (1 << dtype.bits) + int(dtype.min)
        assert (q, r) == (wrapped, expected_rest), (x, y)


def test_integer_power_wraps_and_truncates():
    power = SCALAR_OPS["power"]
    x = np.array([3, 2, -1, -1, 1, 5, 0], np.int8)
    y = np.array([5, 9, -3, -2, -7, -1, 0], np.int8)
    assert power(x, y).tolist() == [243 - 256, 0, -1, 1, 1, 0, 1]


def test_shifts_out_of_range_are_endless_shifts():
    a = np.array([-5, -5, 5, 5, 5, -5], np.int8)
    b = np.array([8, -1, 8, 1, -1, 1], np.int8)
    assert SCALAR_OPS["right_shift"](a, b).tolist() == [-1, -1, 0, 2, 0, -3]
    assert SCALAR_OPS["left_shift"](a, b).tolist() == [0, 0, 0, 10, 0, -10]


def test_casts_saturate_and_send_nan_to_zero():
    x = np.array([np.nan, 300, -300, 127.9, -128.9, np.inf, -np.inf, -0.5])
    assert cast_array(x, INT8).tolist() == [0, 127, -128, 127, -128, 127, -128, 0]


def test_casts_to_float16_round_once():
    tie_broken = 1 + 2.0**-11 + 2.0**-40
    assert cast_array(np.array([tie_broken]), FLOAT16)[0] == np.float16(1 + 2.0**-10)
    x = np.random.default_rng(1).standard_normal(5000) * np.exp2(np.arange(5000) % 50 - 30)
    with np.errstate(over="ignore"):
        expected = x.astype(np.float16)
    assert (cast_array(x, FLOAT16) == expected).all()


def test_fma_of_float64_rounds_once():
    rng = np.random.default_rng(2)
    n = 3000
    a, b = (rng.standard_normal(n) * np.exp2(rng.integers(-300, 300, n)) for _ in range(2))
    noise = 1 + rng.standard_normal(n) * np.exp2(rng.integers(-60, 0, n))
    c = np.where(rng.random(n) < 0.7, -a * b * noise, rng.standard_normal(n))
    exact = [float(Fraction(x) * Fraction(y) + Fraction(z)) for x, y, z in zip(a, b, c)]
    with np.errstate(all="ignore"):
        assert fma64(a, b, c).tolist() == exact


def test_fma_of_float32_rounds_once():
    rng = np.random.default_rng(2)
    n = 3000
    a, b = ((rng.standard_normal(n) * 4).astype(np.float32) for _ in range(2))
    noise = 1 + rng.standard_normal(n) * np.exp2(rng.integers(-40, 0, n))
    c = (-(a.astype(np.float64) * b) * noise).astype(np.float32)
    result = fma32(a, b, c)
    for x, y, z, r in zip(a.tolist(), b.tolist(), c.tolist(), result.tolist()):
        error = abs(Fraction(r) - (Fraction(x) * Fraction(y) + Fraction(z)))
        below, above = np.nextafter(np.float32(r), np.float32([-np.inf, np.inf])).tolist()
        half_unit = max(Fraction(r) - Fraction(below), Fraction(above) - Fraction(r)) / 2
        assert error <= half_unit
