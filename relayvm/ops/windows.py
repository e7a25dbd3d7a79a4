"""Windows that slide over the axes of space: strides, dilation, padding, and result sizes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from relayvm.base.dims import (
    AnyDim,
    Dim,
    dim_add,
    dim_floordiv,
    dim_max,
    dim_mul,
    dim_sub,
    never_negative,
)
from relayvm.base.shapes import ShapeError, require_equal
from relayvm.kernels import compute as te
from relayvm.kernels.compute import ScalarExpr
from relayvm.ops.numeric import Array
from relayvm.ops.schema import Ints


@dataclass(frozen=True, slots=True)
class Window:
    """How a window moves along each axis of space, and the padding before and after it."""

    strides: Ints
    dilation: Ints
    before: Ints
    after: Ints

    def span(self, axis: int, extent: Dim) -> Dim:
        """Return the reach of a window of `extent` taps: `(extent - 1) * dilation + 1`."""
        return dim_add(dim_mul(dim_sub(extent, 1), self.dilation[axis]), 1)

    def result(self, axis: int, size: Dim, extent: Dim, what: str, ceil: bool = False) -> Dim:
        """Return how many windows fit into a padded axis; with `ceil` a last one may reach out."""
        pads = self.before[axis] + self.after[axis]
        stride = self.strides[axis]
        room = dim_sub(dim_add(size, pads), self.span(axis, extent))
        # One division with the 1 inside, so that a size that cannot be negative is seen to be none.
        last = stride - 1 if ceil else 0
        windows = dim_floordiv(dim_add(room, stride + last), stride)
        return require_natural(windows, f"axis {axis} of space of {what}")

    def place(self, axis: int, result: ScalarExpr, tap: ScalarExpr) -> ScalarExpr:
        """Return the index on an axis that a tap of a window reads; it may be outside."""
        place = result * self.strides[axis] if self.strides[axis] != 1 else result
        place = place + (tap * self.dilation[axis] if self.dilation[axis] != 1 else tap)
        return place - self.before[axis] if self.before[axis] else place

    def is_inside(self, axis: int) -> bool:
        """Return whether no window reaches outside an axis."""
        return self.before[axis] == 0 and self.after[axis] == 0

    def padded(self, data: Array, value: Any, extra: Ints = ()) -> Array:
        """Return `data` [n, c, ...] with the padding, and `extra` behind each axis of space."""
        more = extra or (0,) * len(self.strides)
        widths = [(b, a + e) for b, a, e in zip(self.before, self.after, more)]
        return np.pad(data, [(0, 0), (0, 0), *widths], constant_values=value)

    def taps(
        self, extents: Sequence[int], results: Sequence[int]
    ) -> Iterator[tuple[Ints, tuple[slice, ...]]]:
        """Yield each tap of a window with the slices of a padded array that it reads."""
        for tap in itertools.product(*(range(k) for k in extents)):
            yield (
                tap,
                tuple(
                    slice(t * d, t * d + s * (n - 1) + 1 if n else t * d, s)
                    for t, d, s, n in zip(tap, self.dilation, self.strides, results)
                ),
            )


def read_window(
    name: str, spatial: int, strides: Ints, padding: Ints, dilation: Ints | None = None
) -> Window:
    """Return the window that attributes describe.

    Padding has one number for all sides, one an axis, or those before and then those after each
    axis. Raises ShapeError `bad-attribute`.
    """
    if len(padding) not in (1, spatial, 2 * spatial):
        listed = " or ".join(str(n) for n in sorted({1, spatial, 2 * spatial}))
        raise ShapeError(
            f"`padding` of `{name}` must have {listed} entries, got {list(padding)}",
            "bad-attribute",
        )
    if min(padding) < 0:
        raise ShapeError(
            f"`padding` of `{name}` must be at least 0, got {list(padding)}", "bad-attribute"
        )
    pads = padding * (2 * spatial // len(padding))
    return Window(
        per_axis(name, "strides", strides, spatial),
        per_axis(name, "dilation", (1,) if dilation is None else dilation, spatial),
        pads[:spatial],
        pads[spatial:],
    )


def per_axis(name: str, attribute: str, values: Ints, spatial: int, least: int = 1) -> Ints:
    """Return one number an axis of space; one alone counts for all. Raises ShapeError."""
    if len(values) not in (1, spatial) or min(values) < least:
        numbers = "1 number" if spatial == 1 else f"1 or {spatial} numbers"
        wanted = f"`{attribute}` of `{name}` must be {numbers} of at least {least}"
        raise ShapeError(f"{wanted}, got {list(values)}", "bad-attribute")
    return values if len(values) == spatial else values * spatial


def require_natural(size: Dim, what: str) -> Dim:
    """Return a computed size; raises ShapeError if it is negative, or leaves a check."""
    if isinstance(size, int) and size < 0:
        raise ShapeError(f"{what} would have the size {size}")
    if isinstance(size, AnyDim) or never_negative(size):
        return size
    return require_equal(size, dim_max(size, 0), f"{what} and the same if not negative")


def both(a: ScalarExpr | None, b: ScalarExpr) -> ScalarExpr:
    """Return whether `b` and, where there is one, `a` holds."""
    return b if a is None else te.scalar("logical_and", a, b)
