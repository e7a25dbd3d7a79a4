"""What the windows of pooling cover on one axis of space: of fixed size, or adapted to a result.

An axis answers for the loop level (`place`, `count`, `source`) and for numpy (`places`, `counts`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Union

import numpy as np

from relayvm.base.dims import Dim, dim_add, dim_floordiv, dim_mul
from relayvm.base.shapes import ShapeError
from relayvm.kernels import compute as te
from relayvm.kernels.compute import ScalarExpr
from relayvm.ops.axes import sizes_of
from relayvm.ops.layouts import SPATIAL
from relayvm.ops.numeric import Array
from relayvm.ops.windows import both

Covered = tuple[ScalarExpr, "ScalarExpr | None"]


@dataclass(frozen=True, slots=True)
class Sliding:
    """Windows of `taps` elements, `dilation` apart, that begin every `stride` elements.

    `is_whole` says that none reaches outside. With `counts_padding` a mean counts the padding, but
    not what a last window has beyond it.
    """

    size: Dim
    result: Dim
    taps: Dim
    stride: Dim = 1
    dilation: int = 1
    before: int = 0
    after: int = 0
    is_whole: bool = True
    counts_padding: bool = False

    @property
    def candidates(self) -> Dim:
        """How many windows may cover one element: one for each tap."""
        return self.taps

    def _start(self, window: ScalarExpr) -> ScalarExpr:
        start = window if self.stride == 1 else window * te.dim(self.stride)
        return start - self.before if self.before else start

    def place(self, window: ScalarExpr, tap: ScalarExpr) -> Covered:
        """Return the element that a tap of a window covers, and the condition that there is one."""
        place = self._start(window) + (tap if self.dilation == 1 else tap * self.dilation)
        return place, None if self.is_whole else te.in_range(place, self.size)

    def count(self, window: ScalarExpr) -> ScalarExpr:
        """Return how many elements a mean over a window divides by, at least 0."""
        if self.is_whole:
            return te.dim(self.taps)
        start = self._start(window)
        end = te.dim(dim_add(self.size, self.after if self.counts_padding else 0))
        high = te.scalar("minimum", self._steps(end - start), te.dim(self.taps))
        if not self.counts_padding:
            high = high - self._steps(te.scalar("maximum", -start, te.dim(0)))
        return te.scalar("maximum", high, te.dim(0))

    def _steps(self, distance: ScalarExpr) -> ScalarExpr:
        """Return how many taps fit before a distance from the start."""
        if self.dilation == 1:
            return distance
        return (distance + (self.dilation - 1)) // self.dilation

    def source(self, place: ScalarExpr, tap: ScalarExpr) -> tuple[ScalarExpr, ScalarExpr, Covered]:
        """Return the window whose tap covers an element, the tap, and whether there is one."""
        distance = place + self.before if self.before else place
        distance = distance - (tap if self.dilation == 1 else tap * self.dilation)
        if self.stride == 1:
            return distance, tap, (distance, te.in_range(distance, self.result))
        window = distance // te.dim(self.stride)
        inside = both((distance % te.dim(self.stride)).equal(0), te.in_range(window, self.result))
        return window, tap, (window, inside)

    def places(self) -> tuple[Array, Array]:
        """Return [window, tap] the elements covered, and whether they exist."""
        size, result, taps, stride = sizes_of((self.size, self.result, self.taps, self.stride))
        start = np.arange(result)[:, None] * stride - self.before
        places = start + np.arange(taps)[None, :] * self.dilation
        return places, (places >= 0) & (places < size)

    def counts(self) -> Array:
        """Return `count` of every window."""
        (size,) = sizes_of((self.size,))
        places, inside = self.places()
        if self.counts_padding and not self.is_whole:
            inside = places < size + self.after
        return np.asarray(inside.sum(axis=1))


@dataclass(frozen=True, slots=True)
class Adaptive:
    """Windows that cover an axis as evenly as may be: from `floor(i * size / result)` to
    `ceil((i + 1) * size / result)`.
    """

    size: Dim
    result: Dim

    @property
    def taps(self) -> Dim:
        """The most elements of a window, or a bound of it."""
        if isinstance(self.size, int) and isinstance(self.result, int):
            places, inside = self._spans(self.size, self.result)
            return int(np.max(inside - places, initial=0))
        return dim_add(dim_floordiv(self.size, self.result), 2)

    @property
    def candidates(self) -> Dim:
        """How many windows may cover one element."""
        return self.result

    @staticmethod
    def _spans(size: int, result: int) -> tuple[Array, Array]:
        windows = np.arange(result)
        return windows * size // max(result, 1), -((windows + 1) * -size // max(result, 1))

    def _start(self, window: ScalarExpr) -> ScalarExpr:
        return (window * te.dim(self.size)) // te.dim(self.result)

    def _end(self, window: ScalarExpr) -> ScalarExpr:
        last = dim_add(self.size, dim_add(self.result, -1))
        return (window * te.dim(self.size) + te.dim(last)) // te.dim(self.result)

    def place(self, window: ScalarExpr, tap: ScalarExpr) -> Covered:
        """Return the element that a tap of a window covers, and the condition that there is one."""
        place = self._start(window) + tap
        return place, both(te.in_range(place, self.size), place < self._end(window))

    def count(self, window: ScalarExpr) -> ScalarExpr:
        """Return how many elements a window has."""
        return self._end(window) - self._start(window)

    def source(
        self, place: ScalarExpr, window: ScalarExpr
    ) -> tuple[ScalarExpr, ScalarExpr, Covered]:
        """Return a window, the tap that covers an element, and whether there is one."""
        tap = place - self._start(window)
        inside = both(tap >= 0, place < self._end(window))
        return window, tap, (window, inside)

    def places(self) -> tuple[Array, Array]:
        """Return [window, tap] the elements covered, and whether they exist."""
        size, result, taps = sizes_of((self.size, self.result, self.taps))
        start, end = self._spans(size, result)
        places = start[:, None] + np.arange(taps)[None, :]
        return places, places < end[:, None]

    def counts(self) -> Array:
        """Return `count` of every window."""
        start, end = self._spans(*sizes_of((self.size, self.result)))
        return np.asarray(end - start)


Axis = Union[Sliding, Adaptive]


def adaptive_axis(size: Dim, result: Dim) -> Axis:
    """Return the windows of adaptive pooling; where they are all equal they slide."""
    if result == 1:
        return Sliding(size, 1, size)
    if result == size:
        return Sliding(size, size, 1)
    if isinstance(size, int) and isinstance(result, int) and result and size % result == 0:
        return Sliding(size, result, size // result, size // result)
    return Adaptive(size, result)


def space_axes(layout: str, spatial: int, rank: int, name: str) -> tuple[int, ...]:
    """Return at which axes a layout such as NHWC or NCHW16c has its space, from the outside in.

    Raises ShapeError.
    """
    letters = re.findall(r"[A-Z]|[0-9]+[a-z]", layout)
    space = SPATIAL[spatial]
    others = [part[-1] for part in letters if part not in space]
    if (
        "".join(letters) != layout
        or any(letters.count(letter) != 1 for letter in space)
        or any(letter not in "NCnc" for letter in others)
    ):
        message = f"`layout` of `{name}` must have N, C and each of `{space}` once, got {layout!r}"
        raise ShapeError(message, "bad-attribute")
    if rank != len(letters):
        message = f"`data` of `{name}` must have rank {len(letters)} for {layout!r}, got {rank}"
        raise ShapeError(message)
    return tuple(letters.index(letter) for letter in space)


def most_terms(axes: tuple[Axis, ...]) -> Dim:
    """Return a bound of how many elements a window covers."""
    total: Dim = 1
    for axis in axes:
        total = dim_mul(total, axis.taps)
    return total
