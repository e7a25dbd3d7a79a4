"""Resizing against sums over neighbours at exact coordinates, written from the definition."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from relayvm.base.dtypes import FLOAT32
from relayvm.base.shapes import ShapeError
from relayvm.ir.types import TensorType
from relayvm.ops import OPS

HALF = Fraction(1, 2)
ROI = (0.25, 1.25)


def coordinate(x: int, m: int, n: int, mode: str) -> Fraction:
    ratio = Fraction(m, n)
    if mode == "tf_crop_and_resize":
        begin, end = map(Fraction, ROI)
        if n == 1:
            return (begin + end) * HALF * (m - 1)
        return begin * (m - 1) + x * (end - begin) * Fraction(m - 1, n - 1)
    return {
        "half_pixel": (x + HALF) * ratio - HALF,
        "pytorch_half_pixel": (x + HALF) * ratio - HALF if n > 1 else Fraction(0),
        "tf_half_pixel_for_nn": (x + HALF) * ratio,
        "align_corners": Fraction(m - 1, max(n - 1, 1)) * x,
        "asymmetric": x * ratio,
    }[mode]


def cubic(d: float, alpha: float) -> float:
    d = abs(d)
    if d < 1:
        return (alpha + 2) * d**3 - (alpha + 3) * d**2 + 1
    return alpha * d**3 - 5 * alpha * d**2 + 8 * alpha * d - 4 * alpha if d < 2 else 0.0


ROUND = {
    "round": lambda c: math.floor(c + HALF),
    "round_prefer_ceil": lambda c: math.floor(c + HALF),
    "round_prefer_floor": lambda c: math.ceil(c - HALF),
    "floor": math.floor,
    "ceil": math.ceil,
}


def resized(line: np.ndarray, n: int, **attrs: Any) -> list[float]:
    m, result = len(line), []
    for x in range(n):
        c = coordinate(x, m, n, attrs["coordinate_transformation_mode"])
        low = math.floor(c)
        if attrs["coordinate_transformation_mode"] == "tf_crop_and_resize" and not 0 <= c <= m - 1:
            result.append(attrs["extrapolation_value"])
            continue
        if attrs["method"] == "nearest_neighbor":
            result.append(float(line[min(max(ROUND[attrs["rounding_method"]](c), 0), m - 1)]))
            continue
        reach = 1 if attrs["method"] == "linear" else 2
        taps = range(low - reach + 1, low + reach + 1)
        if reach == 1:
            weights = [float(1 - (c - low)), float(c - low)]
        else:
            weights = [cubic(float(c - k), attrs["cubic_alpha"]) for k in taps]
        if attrs.get("cubic_exclude"):
            weights = [w if 0 <= k < m else 0.0 for k, w in zip(taps, weights)]
            weights = [w / sum(weights) for w in weights]
        values = [float(line[min(max(k, 0), m - 1)]) for k in taps]
        result.append(sum(w * v for w, v in zip(weights, values)))
    return result


@pytest.mark.parametrize("size", [1, 2, 5, 9, 10])
@pytest.mark.parametrize(
    "mode",
    [
        "half_pixel",
        "align_corners",
        "asymmetric",
        "pytorch_half_pixel",
        "tf_half_pixel_for_nn",
        "tf_crop_and_resize",
    ],
)
def test_every_mode_places_elements_as_defined(mode: str, size: int) -> None:
    line = np.random.default_rng(size).normal(0, 1, 5)
    shared = {"coordinate_transformation_mode": mode, "extrapolation_value": 9.0}
    ways: list[dict[str, Any]] = [
        {"method": "nearest_neighbor", "rounding_method": r} for r in ROUND
    ]
    ways += [{"method": "linear"}, {"method": "cubic", "cubic_alpha": -0.75}]
    ways += [{"method": "cubic", "cubic_alpha": -0.5, "cubic_exclude": True}]
    for way in ways:
        attrs = {**shared, **way, "size": (size,), "roi": ROI}
        result = OPS["image.resize1d"].evaluate([line.reshape(1, 1, 5)], attrs)
        assert np.allclose(result.reshape(-1), resized(line, size, **shared, **way)), way


def test_axes_are_resized_one_by_one() -> None:
    x = np.random.default_rng(0).normal(0, 1, (1, 1, 3, 4))
    attrs = {"size": (5, 7), "method": "cubic", "cubic_alpha": -0.5}
    result = OPS["image.resize2d"].evaluate([x], attrs)
    way = {"coordinate_transformation_mode": "half_pixel", "method": "cubic", "cubic_alpha": -0.5}
    rows = np.array([resized(row, 7, **way) for row in x[0, 0]])
    expected = np.array([resized(column, 5, **way) for column in rows.T]).T
    assert np.allclose(result[0, 0], expected)


def test_places_do_not_drift_in_large_images() -> None:
    x = np.arange(3001, dtype=np.float32).reshape(1, 1, -1)
    attrs = {"size": (3001 * 3,), "method": "nearest_neighbor", "rounding_method": "floor"}
    attrs |= {"coordinate_transformation_mode": "asymmetric"}
    result = OPS["image.resize1d"].evaluate([x], attrs)
    assert np.array_equal(result.reshape(-1), np.repeat(np.arange(3001), 3))


@pytest.mark.parametrize(
    ("attrs", "message"),
    [
        ({"size": (2,)}, "`size` of `image.resize2d` must have 2 entries"),
        ({"size": (2, 2), "method": "lanczos"}, '"nearest_neighbor", "linear", "cubic"'),
        ({"size": (2, 2), "roi": (0.0, 1.0)}, "`roi` of `image.resize2d` must have 4"),
        ({"size": (-1, 2)}, "must be sizes"),
    ],
)
def test_mistakes_are_named(attrs: dict[str, Any], message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        OPS["image.resize2d"].result_type([TensorType((1, 1, 3, 3), FLOAT32)], attrs)
