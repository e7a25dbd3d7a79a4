"""Quantized operators against references in integers and fractions, written from the definition."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from relayvm.base.dtypes import BY_NAME
from relayvm.base.shapes import ShapeError
from relayvm.ir.types import TensorType
from relayvm.ops import OPS


def run(name: str, *args: Any, **attrs: Any) -> np.ndarray:
    result = OPS[name].evaluate(args, attrs)
    assert isinstance(result, np.ndarray)
    return result


def f32(value: Any) -> np.ndarray:
    return np.array(value, np.float32)


def i32(value: Any) -> np.ndarray:
    return np.array(value, np.int32)


def fixed(multiplier: float) -> Fraction:
    """Return the multiplier with a significand of 31 bits."""
    if multiplier == 0:
        return Fraction(0)
    part, exponent = math.frexp(multiplier)
    return Fraction(math.floor(part * 2**31 + 0.5)) * Fraction(2) ** (exponent - 31)


def rounded(value: Fraction, rounding: str) -> int:
    if rounding == "UPWARD" or value >= 0:
        return math.floor(value + Fraction(1, 2))
    return -math.floor(-value + Fraction(1, 2))


def requantized(
    x: np.ndarray, multiplier: float, zero: int, dtype: str, rounding: str = "UPWARD"
) -> np.ndarray:
    limits = np.iinfo(dtype)
    exact = [rounded(int(v) * fixed(multiplier), rounding) + zero for v in x.reshape(-1)]
    return np.array([min(max(v, limits.min), limits.max) for v in exact], dtype).reshape(x.shape)


@pytest.mark.parametrize("rounding", ["UPWARD", "TONEAREST"])
@pytest.mark.parametrize(
    "scales", [(0.5, 1.0), (0.37, 0.0021), (1e-7, 3.0), (2.0, 2.0), (7.5, 0.1)]
)
def test_requantize_is_a_product_in_fixed_point(scales: tuple[float, float], rounding: str) -> None:
    rng = np.random.default_rng(3)
    x = rng.integers(-30000, 30000, 400).astype(np.int32)
    first, second = map(f32, scales)
    given = (x, first, i32(7), second, i32(-5))
    result = run("qnn.requantize", *given, rounding=rounding, out_dtype="int16")
    multiplier = float(np.float64(first) / np.float64(second))
    assert np.array_equal(result, requantized(x.astype(int) - 7, multiplier, -5, "int16", rounding))


@pytest.mark.parametrize(
    ("rounding", "expected"), [("UPWARD", [-1, 0, 1, 2]), ("TONEAREST", [-2, -1, 1, 2])]
)
@pytest.mark.parametrize("compute_dtype", ["int64", "float32", "float64"])
def test_halves_go_where_the_rounding_says(
    compute_dtype: str, rounding: str, expected: list[int]
) -> None:
    given = (i32([-3, -1, 1, 3]), f32(0.5), i32(0), f32(1), i32(0))
    attrs = {"rounding": rounding, "compute_dtype": compute_dtype}
    assert run("qnn.requantize", *given, **attrs).tolist() == expected


def test_scales_that_are_the_same_change_nothing() -> None:
    x = np.arange(-128, 128).astype(np.int8)
    given = (x, f32(0.123), i32(4), f32(0.123), i32(4))
    assert np.array_equal(run("qnn.requantize", *given), x)


def test_quantize_rounds_then_moves_and_saturates() -> None:
    x = f32([0.5, 1.5, -0.5, 1e9, -1e30, np.nan, np.inf, -np.inf])
    result = run("qnn.quantize", x, f32(1), i32(3), out_dtype="uint8")
    assert result.tolist() == [3, 5, 3, 255, 0, 3, 255, 0]
    for zero in (3, -3):
        result = run("qnn.quantize", x[4:], f32(0.5), i32(zero), out_dtype="int32")
        assert result.tolist() == [-(2**31), zero, 2**31 - 1, -(2**31)]


def test_dequantize_undoes_quantize_up_to_half_a_step() -> None:
    x = np.linspace(-2, 2, 101).astype(np.float32)
    scale, zero = f32(0.02), i32(-3)
    back = run("qnn.dequantize", run("qnn.quantize", x, scale, zero), scale, zero)
    assert np.all(np.abs(back - x) <= 0.0101)


def test_a_simulation_gives_the_same_numbers() -> None:
    x = np.random.default_rng(1).normal(0, 9, 200).astype(np.float32)
    for code, dtype in ((1, "uint8"), (2, "int8")):
        plain = run("qnn.quantize", x, f32(0.1), i32(9), out_dtype=dtype)
        floats = run("qnn.simulated_quantize", x, i32(code), f32(0.1), i32(9))
        assert np.array_equal(floats, plain)
        back = run("qnn.simulated_dequantize", floats, i32(code), f32(0.1), i32(9))
        assert np.array_equal(back, run("qnn.dequantize", plain, f32(0.1), i32(9)))


@pytest.mark.parametrize("name", ["add", "subtract", "mul"])
def test_functions_of_two_tensors_are_what_their_definition_says(name: str) -> None:
    rng = np.random.default_rng(5)
    a, b = (rng.integers(-128, 128, 300).astype(np.int8) for _ in range(2))
    p, q, out = np.float64(f32(0.4)), np.float64(f32(0.03)), np.float64(f32(0.21))
    given = (a, b, f32(p), i32(-7), f32(q), i32(11), f32(out), i32(5))
    result = run(f"qnn.{name}", *given)
    x, y = a.astype(int) + 7, b.astype(int) - 11
    if name == "mul":
        assert np.array_equal(result, requantized(x * y, float(p * q / out), 5, "int8"))
        return
    sides = [requantized(v, float(s / out), 0, "int64") for v, s in ((x, p), (y, q))]
    exact = sides[0] + sides[1] if name == "add" else sides[0] - sides[1]
    assert np.array_equal(result, np.clip(exact + 5, -128, 127))


def test_layers_sum_integers_without_their_zero_points() -> None:
    rng = np.random.default_rng(6)
    x = rng.integers(0, 256, (2, 3, 5, 4)).astype(np.uint8)
    w = rng.integers(-128, 128, (4, 3, 2, 3)).astype(np.int8)
    zeros = i32([1, -2, 3, 0])
    given = (x, w, i32(128), zeros, f32(0.1), f32([1, 2, 3, 4]))
    result = run("qnn.conv2d", *given, padding=(1, 0))
    wide = np.pad(x.astype(int) - 128, ((0, 0), (0, 0), (1, 1), (0, 0)))
    kernel = w.astype(int) - zeros[:, None, None, None]
    expected = np.zeros((2, 4, 6, 2), int)
    for i in range(6):
        for j in range(2):
            patch = wide[:, None, :, i : i + 2, j : j + 3]
            expected[:, :, i, j] = (patch * kernel[None]).sum((2, 3, 4))
    assert result.dtype == np.int32
    assert np.array_equal(result, expected)
    a, b = x.reshape(2, 60)[:, :6], w.reshape(4, 18)[:, :6]
    dense = run("qnn.dense", a, b, i32(128), zeros, f32(0.1), f32([1, 2, 3, 4]))
    assert np.array_equal(dense, (a.astype(int) - 128) @ (b.astype(int) - zeros[:, None]).T)


def test_softmax_in_integers_is_near_the_real_one() -> None:
    x = np.random.default_rng(7).integers(-100, 100, (20, 8)).astype(np.int8)
    given = (x, f32(0.05), i32(0), f32(1 / 256), i32(-128))
    result = (run("qnn.softmax", *given).astype(int) + 128) / 256
    real = np.exp(x * 0.05)
    assert np.max(np.abs(result - real / real.sum(1, keepdims=True))) < 0.04


REAL = {
    "tanh": np.tanh,
    "exp": np.exp,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "erf": np.vectorize(math.erf),
    "abs": np.abs,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "hardswish": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "log": np.log,
}


@pytest.mark.parametrize("name", sorted(REAL))
def test_functions_of_numbers_are_those_of_the_reals(name: str) -> None:
    x = np.arange(1, 256).astype(np.uint8)
    result = run(f"qnn.{name}", x, f32(0.02), i32(0), f32(0.031), i32(2)).astype(int)
    exact = np.clip(REAL[name](x * np.float64(f32(0.02))) / f32(0.031) + 2, 0, 255)
    assert np.all(np.abs(result - exact) <= 0.501)


@pytest.mark.parametrize(
    ("name", "shapes", "dtypes", "attrs", "message"),
    [
        ("qnn.quantize", [(3,), (2,), ()], ["float32"] * 2 + ["int32"], {}, "entries of"),
        ("qnn.quantize", [(3,), (), ()], ["float32"] * 3, {}, "must be int32"),
        ("qnn.quantize", [(3,), (), ()], ["float32"] * 2 + ["int32"], {"out_dtype": "int64"}, "32"),
        ("qnn.dense", [(2, 3), (4, 5)] + [()] * 4, ["int8"] * 2, {}, "axis 1 of `weight`"),
        (
            "qnn.requantize",
            [(2,)] + [()] * 4,
            ["int32"],
            {"rounding": "DOWN"},
            '"UPWARD", "TONEAREST"',
        ),
    ],
)
def test_mistakes_are_named(
    name: str, shapes: list[Any], dtypes: list[str], attrs: dict[str, Any], message: str
) -> None:
    kinds = [*dtypes, *["float32", "int32"] * 3][: len(shapes)]
    types = [TensorType(s, BY_NAME[d]) for s, d in zip(shapes, kinds)]
    with pytest.raises(ShapeError, match=message):
        OPS[name].result_type(types, attrs)
