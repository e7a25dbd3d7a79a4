"""The numpy meaning of scalar functions: as numpy has it, integers, casts, fused multiply-add."""

import math
from fractions import Fraction

import numpy as np
import pytest

from relayvm.base.dtypes import BY_NAME, FLOAT16, FLOAT64, INT8
from relayvm.kernels.scalar_ops import SCALAR_OPS, cast_array
from relayvm.kernels.scalars.numpy_machine import fma32, fma64, run_program
from relayvm.kernels.scalars.value import where_any

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


@pytest.mark.parametrize(("x", "runs"), [([1.0, 2.0], 0), ([1.0, 9.0, math.nan], 1)])
def test_a_rare_program_runs_only_if_some_lane_needs_it(x, runs):
    calls = []

    def program(value):
        def rare():
            calls.append(1)
            return [value * 100.0]

        return where_any(value > 5.0, rare, value)[0]

    result = run_program(program, [np.array(x)], [FLOAT64])
    assert (result.tolist()[:2], len(calls)) == ([1.0, 900.0] if runs else x, runs)
