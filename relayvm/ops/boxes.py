"""Boxes as four numbers, and the choice of those that no better box overlaps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from relayvm.base.dims import Dim, dim_add
from relayvm.base.dtypes import BOOL, DType
from relayvm.kernels import compute as te
from relayvm.kernels.compute import ScalarExpr
from relayvm.kernels.loops import LANES
from relayvm.kernels.schedules.program import Cell, Memory, Writer
from relayvm.ops.formulas import ARRAYS, SCALARS, Reading
from relayvm.ops.numeric import Array

Corners = Sequence[Any]

BOXES = 64  # of one line, that are compared with others before a run can be ended


def ordered(r: Reading, corners: Corners) -> list[Any]:
    """Return least and greatest coordinates of a box that two opposite corners give."""
    x, y, u, v = corners
    return [
        r.apply("minimum", x, u),
        r.apply("minimum", y, v),
        r.apply("maximum", x, u),
        r.apply("maximum", y, v),
    ]


def area(r: Reading, box: Corners, edge: float = 0.0) -> Any:
    """Return the area of an ordered box; `edge` is added to both sides."""
    sides = [r.apply("subtract", box[k + 2], box[k]) for k in (0, 1)]
    if edge:
        sides = [r.apply("add", side, edge) for side in sides]
    return r.apply("multiply", *sides)


def overlap(r: Reading, a: Corners, b: Corners, areas: Sequence[Any], edge: float = 0.0) -> Any:
    """Return the area that two ordered boxes share divided by that of their union, 0 where it has
    none.
    """
    sides = []
    for k in (0, 1):
        high = r.apply("minimum", a[k + 2], b[k + 2])
        side = r.apply("subtract", high, r.apply("maximum", a[k], b[k]))
        side = r.apply("add", side, edge) if edge else side
        sides.append(r.apply("maximum", side, 0.0))
    shared = r.apply("multiply", sides[1], sides[0])
    union = r.apply("subtract", r.apply("add", *areas), shared)
    nothing = r.apply("less_equal", union, 0.0)
    safe = r.select(nothing, r.apply("add", r.apply("multiply", union, 0.0), 1.0), union)
    return r.select(nothing, r.apply("multiply", shared, 0.0), r.apply("divide", shared, safe))


@dataclass(frozen=True, slots=True)
class Rule:
    """When a box is dropped for a better one: their overlap is above the threshold, or at least
    it with `inclusive`; `edge` is added to the sides of boxes.
    """

    inclusive: bool
    edge: float = 0.0

    def drops(self, r: Reading, shared: Any, threshold: Any) -> Any:
        """Return whether an overlap is too much."""
        return r.apply("greater_equal" if self.inclusive else "greater", shared, threshold)


# -- numpy ----------------------------------------------------------------------------------------


class ArrayChoice:
    """The boxes chosen so far of one line, best first."""

    def __init__(self, rule: Rule, threshold: Array, dtype: DType) -> None:
        self.rule, self.threshold = rule, threshold
        self.boxes = np.empty((0, 4), dtype.numpy)
        self.labels: list[Any] = []

    @property
    def count(self) -> int:
        """How many are chosen."""
        return len(self.boxes)

    def is_clear(self, box: Array, label: Any = None) -> bool:
        """Return whether none of the chosen boxes (of this label) overlaps a box too much."""
        rivals = self.boxes
        if label is not None:
            rivals = rivals[np.array([other == label for other in self.labels], bool)]
        if not len(rivals):
            return True
        columns, own = list(rivals.T), [np.array(v) for v in box]
        edge = self.rule.edge
        areas = area(ARRAYS, columns, edge), area(ARRAYS, own, edge)
        shared = overlap(ARRAYS, columns, own, areas, edge)
        return not bool(self.rule.drops(ARRAYS, shared, self.threshold).any())

    def add(self, box: Array, label: Any = None) -> None:
        """Choose a box."""
        self.boxes = np.concatenate([self.boxes, box[None]])
        self.labels.append(label)


# -- Loops ----------------------------------------------------------------------------------------


# So many chosen boxes are looked at before it is asked whether one of them overlaps.
BLOCK = 256


class Choice:
    """The same in memory: the ordered corners of chosen boxes, their areas and labels.

    All lines share the memory, which is indexed by line and place.
    """

    def __init__(
        self, w: Writer, rule: Rule, lines: Dim, size: Dim, dtype: DType, labelled: bool = False
    ) -> None:
        self.w, self.rule, self.size = w, rule, size
        # Room behind the last box: boxes are looked at in whole vectors.
        self.room = dim_add(size, LANES)
        self.parts = [w.scratch((lines, self.room), dtype) for _ in range(5)]
        self.labels: Memory | None = w.scratch((lines, self.room), dtype) if labelled else None
        self.hits = w.scratch((lines, LANES), BOOL)

    def is_clear(
        self,
        line: ScalarExpr,
        count: Cell,
        box: Corners,
        threshold: ScalarExpr,
        label: ScalarExpr | None = None,
    ) -> ScalarExpr:
        """Return whether none of the chosen boxes (of this label) overlaps a box too much."""
        w, edge = self.w, self.rule.edge
        own = w.let(area(SCALARS, box, edge))
        # The overlap of boxes that lie apart is 0, whatever numbers their sides are.
        apart = w.let(self.rule.drops(SCALARS, te.const(0.0, own.dtype), threshold))
        clear = w.cell(te.const(True, BOOL))
        chosen = w.let(count.value)
        with w.loop_while(0, (chosen + (BLOCK - 1)) // BLOCK, clear) as block:
            begin = w.let(block * BLOCK)
            held = te.scalar("minimum", chosen - begin, BLOCK)
            steps = w.let((held + (LANES - 1)) // LANES)

            def look(lane: ScalarExpr) -> None:
                hit = w.cell(te.const(False, BOOL))
                with w.loop(0, steps) as k:
                    here = w.let(te.index(begin + k * LANES, self.size, "clip"))
                    place = w.shifted(lane, here)
                    found = self._drops(line, place, box, own, apart, threshold, label)
                    found = te.scalar("logical_and", found, place < chosen)
                    hit.value = te.scalar("logical_or", hit.value, found)
                self.hits[line, lane] = hit.value

            w.vectors(0, LANES, look)
            with w.loop(0, LANES) as lane:
                missed = te.scalar("logical_not", self.hits[line, lane])
                clear.value = te.scalar("logical_and", clear.value, missed)
        return clear.value

    def _drops(
        self,
        line: ScalarExpr,
        place: ScalarExpr,
        box: Corners,
        own: ScalarExpr,
        apart: ScalarExpr,
        threshold: ScalarExpr,
        label: ScalarExpr | None,
    ) -> ScalarExpr:
        """Return whether the chosen box at a place drops a box; `apart` is what one far from it
        does.
        """
        edge = self.rule.edge
        rival = [self.w.let(part[line, place]) for part in self.parts[:4]]
        areas = self.parts[4][line, place], own
        shared = overlap(SCALARS, rival, box, areas, edge)
        dropped = self.rule.drops(SCALARS, shared, threshold)
        dropped = te.select(_touch(rival, box, edge), dropped, apart)
        if label is None:
            return dropped
        assert self.labels is not None
        return te.scalar("logical_and", self.labels[line, place].equal(label), dropped)

    def add(
        self, line: ScalarExpr, count: Cell, box: Corners, label: ScalarExpr | None = None
    ) -> None:
        """Choose a box."""
        w = self.w
        place = w.let(te.index(count.value, self.size, "clip"))
        for part, value in zip(self.parts, (*box, area(SCALARS, box, self.rule.edge))):
            part[line, place] = value
        if label is not None and self.labels is not None:
            self.labels[line, place] = label
        count.value = count.value + 1


def _touch(a: Corners, b: Corners, edge: float) -> ScalarExpr:
    """Return whether two ordered boxes may share some area."""
    result: ScalarExpr = te.const(True, BOOL)
    for k in (0, 1):
        high = te.scalar("minimum", a[k + 2], b[k + 2])
        low = te.scalar("maximum", a[k], b[k])
        result = te.scalar("logical_and", result, (high + edge if edge else high) > low)
    return result
