"""How the places of a resized axis are made of elements: coordinates, neighbours and weights.

Coordinates are exact fractions where sizes alone decide on them, so that no rounding moves an
element to its neighbour.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from relayvm.base.dims import Dim, dim_max, dim_min, dim_mul, dim_sub
from relayvm.base.dtypes import FLOAT32, INT64, DType
from relayvm.base.shapes import ShapeError
from relayvm.ops.formulas import Reading
from relayvm.ops.loads import wide
from relayvm.ops.schema import Floats

METHODS = ("nearest_neighbor", "linear", "cubic")
CROP = "tf_crop_and_resize"
MODES = (
    "half_pixel",
    "align_corners",
    "asymmetric",
    "pytorch_half_pixel",
    "tf_half_pixel_for_nn",
    CROP,
)
ROUNDINGS = ("", "round", "round_prefer_floor", "round_prefer_ceil", "floor", "ceil")


@dataclass(frozen=True, slots=True)
class Way:
    """How all axes are resized, as the attributes say."""

    method: str
    mode: str
    rounding: str
    alpha: float
    exclude: bool
    extrapolation: float

    @property
    def crops(self) -> bool:
        """Return whether places may lie outside the data."""
        return self.mode == CROP


def read_way(name: str, attrs: Any) -> Way:
    """Return what attributes say; raises ShapeError `bad-attribute`."""
    mode = "coordinate_transformation_mode"
    for attribute, legal in (("method", METHODS), (mode, MODES), ("rounding_method", ROUNDINGS)):
        if attrs[attribute] not in legal:
            listed = ", ".join(f'"{m}"' for m in legal)
            message = f'`{attribute}` of `{name}` must be one of {listed}, got "{attrs[attribute]}"'
            raise ShapeError(message, "bad-attribute")
    for attribute in ("cubic_alpha", "extrapolation_value"):
        if not math.isfinite(attrs[attribute]):
            message = f"`{attribute}` of `{name}` must be finite, got {attrs[attribute]}"
            raise ShapeError(message, "bad-attribute")
    rounding = attrs["rounding_method"]
    if not rounding:
        rounding = "round" if attrs[mode] == "align_corners" else "floor"
    alpha, outside = attrs["cubic_alpha"], attrs["extrapolation_value"]
    return Way(attrs["method"], attrs[mode], rounding, alpha, bool(attrs["cubic_exclude"]), outside)


def read_region(name: str, roi: Floats, axes: int) -> list[tuple[float, float]]:
    """Return begin and end of each axis of a region, all of it where none is given."""
    if not roi:
        return [(0.0, 0.0)] * axes
    if len(roi) != 2 * axes or not all(map(math.isfinite, roi)):
        message = f"`roi` of `{name}` must have {2 * axes} finite numbers, got {list(roi)}"
        raise ShapeError(message, "bad-attribute")
    return list(zip(roi[:axes], roi[axes:]))


def total_of(dtype: DType) -> DType:
    """Return the dtype in which elements are weighed."""
    return wide(dtype) if dtype.is_float else FLOAT32


@dataclass(frozen=True, slots=True)
class Taps:
    """The elements that one place is made of (int64, perhaps outside), their weights (none where
    one is taken as it is), and whether the place lies in the data (None if all do).
    """

    elements: Sequence[Any]
    weights: Sequence[Any]
    inside: Any = None


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis: `result` places over `size` elements; begin and end of the region are numbers, or
    values of the dtype in which elements are weighed.
    """

    size: Dim
    result: Dim
    way: Way
    begin: Any = 0.0
    end: Any = 0.0

    def taps(self, r: Reading, place: Any, dtype: DType) -> Taps:
        """Return what a place (int64) is made of."""
        if self.way.crops:
            return self._cropped(r, place, dtype)
        up, down = self._fraction(r, place)
        if self.way.method == "nearest_neighbor":
            return Taps([self._nearest(r, up, down)], [])
        base = r.apply("floor_divide", up, down)
        rest = r.cast(r.apply("floor_mod", up, down), dtype)
        return self._weighed(r, base, r.apply("divide", rest, r.cast(down, dtype)))

    def _fraction(self, r: Reading, place: Any) -> tuple[Any, Any]:
        """Return the coordinate of a place as numerator and denominator."""
        mode, size, result = self.way.mode, self.size, self.result
        if mode == "align_corners":
            gaps = dim_max(dim_sub(result, 1), 1)
            return r.apply("multiply", place, r.dim(dim_sub(size, 1))), r.dim(gaps)
        if mode == "asymmetric":
            return r.apply("multiply", place, r.dim(size)), r.dim(dim_max(result, 1))
        centre = r.apply("add", r.apply("multiply", place, 2), 1)
        whole = r.apply("multiply", centre, r.dim(size))
        if mode != "tf_half_pixel_for_nn":
            whole = r.apply("subtract", whole, r.dim(result))
        if mode == "pytorch_half_pixel":
            whole = r.apply("multiply", whole, r.dim(dim_min(dim_sub(result, 1), 1)))
        return whole, r.dim(dim_mul(dim_max(result, 1), 2))

    def _nearest(self, r: Reading, up: Any, down: Any) -> Any:
        rounding = self.way.rounding
        if rounding == "floor":
            return r.apply("floor_divide", up, down)
        if rounding == "ceil":
            return r.apply("negative", r.apply("floor_divide", r.apply("negative", up), down))
        twice, whole = r.apply("multiply", up, 2), r.apply("multiply", down, 2)
        if rounding == "round_prefer_floor":
            turned = r.apply("subtract", down, twice)
            return r.apply("negative", r.apply("floor_divide", turned, whole))
        return r.apply("floor_divide", r.apply("add", twice, down), whole)

    def _cropped(self, r: Reading, place: Any, dtype: DType) -> Taps:
        last = r.cast(r.dim(dim_sub(self.size, 1)), dtype)
        begin, end = (
            r.const(v, dtype) if isinstance(v, float) else v for v in (self.begin, self.end)
        )
        gaps = r.cast(r.dim(dim_max(dim_sub(self.result, 1), 1)), dtype)
        step = r.apply("multiply", r.apply("subtract", end, begin), last)
        moved = r.apply("divide", r.apply("multiply", r.cast(place, dtype), step), gaps)
        first = r.apply("add", r.apply("multiply", begin, last), moved)
        middle = r.apply("multiply", r.apply("multiply", r.apply("add", begin, end), 0.5), last)
        single = r.apply("less_equal", r.dim(self.result), 1)
        at = r.select(single, middle, first)
        low, high = r.apply("greater_equal", at, 0.0), r.apply("less_equal", at, last)
        inside = r.apply("logical_and", low, high)
        if self.way.method == "nearest_neighbor":
            return Taps([r.cast(self._rounded(r, at), INT64)], [], inside)
        base = r.apply("floor", at)
        return self._weighed(r, r.cast(base, INT64), r.apply("subtract", at, base), inside)

    def _rounded(self, r: Reading, at: Any) -> Any:
        rounding = self.way.rounding
        if rounding in ("floor", "ceil"):
            return r.apply(rounding, at)
        if rounding == "round_prefer_floor":
            return r.apply("ceil", r.apply("subtract", at, 0.5))
        return r.apply("floor", r.apply("add", at, 0.5))

    def _weighed(self, r: Reading, base: Any, f: Any, inside: Any = None) -> Taps:
        if self.way.method == "linear":
            one = r.apply("add", r.apply("multiply", f, -1.0), 1.0)
            return Taps([base, r.apply("add", base, 1)], [one, f], inside)
        weights = cubic_weights(r, f, self.way.alpha)
        elements = [r.apply("add", base, k - 1) for k in range(4)]
        if self.way.exclude:
            weights = self._without_outside(r, elements, weights)
        return Taps(elements, weights, inside)

    def _without_outside(self, r: Reading, elements: Any, weights: Any) -> list[Any]:
        kept = []
        for element, weight in zip(elements, weights):
            below = r.apply("less", element, r.dim(self.size))
            known = r.apply("logical_and", r.apply("greater_equal", element, 0), below)
            kept.append(r.select(known, weight, r.apply("multiply", weight, 0.0)))
        whole = r.apply("add", r.apply("add", kept[0], kept[1]), r.apply("add", kept[2], kept[3]))
        return [r.apply("divide", weight, whole) for weight in kept]


def cubic_weights(r: Reading, f: Any, alpha: float) -> list[Any]:
    """Return the weights of the four elements around a place f behind the second."""

    def times(a: Any, b: Any) -> Any:
        return r.apply("multiply", a, b)

    def near(d: Any) -> Any:
        inner = r.apply("subtract", times(d, alpha + 2.0), alpha + 3.0)
        return r.apply("add", times(times(inner, d), d), 1.0)

    def far(d: Any) -> Any:
        inner = r.apply("subtract", times(d, alpha), 5.0 * alpha)
        inner = r.apply("add", times(inner, d), 8.0 * alpha)
        return r.apply("subtract", times(inner, d), 4.0 * alpha)

    back = r.apply("add", times(f, -1.0), 1.0)
    return [far(r.apply("add", f, 1.0)), near(f), near(back), far(r.apply("add", back, 1.0))]


def cubic_slopes(r: Reading, f: Any, alpha: float) -> list[Any]:
    """Return the derivatives of `cubic_weights` by f."""

    def times(a: Any, b: Any) -> Any:
        return r.apply("multiply", a, b)

    def near(d: Any) -> Any:
        return times(r.apply("subtract", times(d, 3.0 * (alpha + 2.0)), 2.0 * (alpha + 3.0)), d)

    def far(d: Any) -> Any:
        inner = r.apply("subtract", times(d, 3.0 * alpha), 10.0 * alpha)
        return r.apply("add", times(inner, d), 8.0 * alpha)

    back = r.apply("add", times(f, -1.0), 1.0)
    behind = [near(back), far(r.apply("add", back, 1.0))]
    return [far(r.apply("add", f, 1.0)), near(f), *(times(v, -1.0) for v in behind)]


def cubic_curves(r: Reading, f: Any, alpha: float) -> list[Any]:
    """Return the second derivatives of `cubic_weights` by f."""

    def near(d: Any) -> Any:
        return r.apply("subtract", r.apply("multiply", d, 6.0 * (alpha + 2.0)), 2.0 * (alpha + 3.0))

    def far(d: Any) -> Any:
        return r.apply("subtract", r.apply("multiply", d, 6.0 * alpha), 10.0 * alpha)

    back = r.apply("add", r.apply("multiply", f, -1.0), 1.0)
    return [far(r.apply("add", f, 1.0)), near(f), near(back), far(r.apply("add", back, 1.0))]
