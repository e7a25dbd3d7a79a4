"""The dims of inferred types: flows between dims, joined to `?` where they disagree, and the
ShapeVars of calls.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from relayvm.base.dims import ANY, Dim, DimExpr, dim_floordiv, dim_mod, dim_sub, dims_equal
from relayvm.base.shapes import join_dims
from relayvm.compiler.inference.holes import (
    DimHole,
    Mode,
    Queue,
    Reason,
    Renaming,
    Task,
    dim_holes,
    has_dim_hole,
    hole_of,
    is_any,
    known_dim,
    replace_dims,
)
from relayvm.ir.types import POISON_DIM, is_poisoned


class DimFlow(Task):
    """A dim that must fit another: `source` goes where `target` stands."""

    __slots__ = ("mode", "reason", "renaming", "solver", "source", "target")

    def __init__(
        self,
        solver: DimSolver,
        source: Dim,
        target: Dim,
        reason: Reason,
        mode: Mode,
        renaming: Renaming | None,
    ) -> None:
        super().__init__()
        self.solver = solver
        self.source = source
        self.target = target
        self.reason = reason
        self.mode = mode
        self.renaming = renaming

    def known_source(self) -> Dim | None:
        """Return what flows now, or None if that is not known yet."""
        dim = known_dim(self.source)
        if dim is None or not self.renaming or not isinstance(dim, DimExpr):
            return dim
        return known_dim(replace_dims(dim, self.renaming))

    def run(self) -> None:
        """Raise the target to what flows now."""
        hole = hole_of(self.target)
        if hole is not None and not hole.solves:
            dim = self.known_source()
            if dim is not None:
                self.solver.raise_hole(hole, dim)
            return
        for part in dim_holes(self.target):
            if part.solves:
                self.solver.queue.put(self.solver.solution_of(part))


class Solution(Task):
    """Finds the dim that a ShapeVar of a call stands for."""

    __slots__ = ("hole", "solver")

    def __init__(self, solver: DimSolver, hole: DimHole) -> None:
        super().__init__()
        self.solver = solver
        self.hole = hole

    def run(self) -> None:
        """Take the first known solution; `?` only if every flow is known and none tells more."""
        self.decide(final=False)

    def decide(self, final: bool) -> bool:
        """Give the hole a value if one is known; `final` does not wait for flows that are still
        unknown.
        """
        waiting = unknown = False
        for flow in self.hole.flows:
            assert isinstance(flow, DimFlow)
            dim = flow.known_source()
            candidate = None if dim is None or is_any(dim) else solve(flow.target, self.hole, dim)
            if dim is not None and is_poisoned(dim):
                candidate = POISON_DIM
            if candidate is not None:
                self.solver.raise_hole(self.hole, candidate)
                return True
            waiting |= dim is None
            unknown |= dim is not None
        if unknown and (final or not waiting):
            self.solver.raise_hole(self.hole, ANY)
            return True
        return False


def solve(pattern: Dim, hole: DimHole, value: Dim) -> Dim | None:
    """Return the dim for `hole` that makes `pattern` equal to `value`; None if there is none.

    Solves `c*n + rest = value` for a constant c, once the other holes of the pattern have values.
    """
    linear = _linear(pattern, hole)
    if linear is None:
        return None
    coefficient, rest = linear
    difference = dim_sub(value, rest)
    if coefficient < 0:
        coefficient, difference = -coefficient, dim_sub(0, difference)
    if dim_mod(difference, coefficient) != 0:
        return None
    solution = dim_floordiv(difference, coefficient)
    return None if isinstance(solution, int) and solution < 0 else solution


def is_unsolvable(pattern: Dim, value: Dim) -> bool:
    """Return True if no size of the one hole in `pattern` makes it the number `value`."""
    holes = set(dim_holes(pattern))
    linear = _linear(pattern, holes.pop()) if len(holes) == 1 else None
    if linear is None or not isinstance(value, int) or not isinstance(linear[1], int):
        return False
    coefficient, difference = linear[0], value - linear[1]
    return difference % coefficient != 0 or difference // coefficient < 0


def _linear(pattern: Dim, hole: DimHole) -> tuple[int, Dim] | None:
    """Return c and rest where `pattern` is `c*hole + rest`, the other holes having values."""
    others = {h: h.value for h in dim_holes(pattern) if h is not hole}
    if any(v is None or is_any(v) for v in others.values()):
        return None
    pattern = replace_dims(pattern, {h: v for h, v in others.items() if v is not None})
    if not isinstance(pattern, DimExpr):
        return None
    coefficient = 0
    for monomial, c in pattern.terms:
        if monomial == ((hole, 1),):
            coefficient = c
        elif any(True for _ in dim_holes(DimExpr(((monomial, 1),)))):
            return None
    return (coefficient, replace_dims(pattern, {hole: 0})) if coefficient else None


def fits(source: Dim, target: Dim, mode: Mode) -> bool:
    """Return True unless `source` can never stand where `target` does, or could only with a check
    that `mode` forbids. What has an error that is reported fits everything.
    """
    return _fit(source, target, mode) or is_poisoned(source) or is_poisoned(target)


def _fit(source: Dim, target: Dim, mode: Mode) -> bool:
    if mode is Mode.EQUAL:
        return (is_any(source) and is_any(target)) or dims_equal(source, target) is True
    if is_any(target):
        return True
    equal = dims_equal(source, target)
    return equal is True or (equal is None and mode is Mode.CHECKED)


@dataclass(slots=True)
class DimSolver:
    """All flows between dims, and the holes that they fill.

    With `late`, sizes that contradict what is declared are left to the check of the run, where
    there can be one.
    """

    queue: Queue
    mismatch: Callable[[Reason, Dim, Dim], None]
    late: bool = False
    flows: list[DimFlow] = field(default_factory=list)
    solutions: dict[DimHole, Solution] = field(default_factory=dict)

    def flow(
        self,
        source: Dim,
        target: Dim,
        reason: Reason,
        mode: Mode,
        renaming: Renaming | None = None,
    ) -> None:
        """Let `source` go where `target` stands."""
        if source is target and mode is not Mode.EQUAL and not renaming:
            return
        source_open = has_dim_hole(source) or (renaming is not None and isinstance(source, DimExpr))
        target_open = has_dim_hole(target)
        if not source_open and not target_open:
            if not self._fits(source, target, mode):
                self.mismatch(reason, source, target)
            return
        flow = DimFlow(self, source, target, reason, mode, renaming)
        self.flows.append(flow)
        parts = list(dim_holes(source))
        if renaming:
            parts += [h for dim in renaming.values() for h in dim_holes(dim)]
        for hole in dim_holes(target):
            hole.fed = True
            if hole.solves:
                hole.flows.append(flow)
                parts.append(hole)
        for hole in parts:
            hole.listeners.append(flow)
        self.queue.put(flow)
        if mode is Mode.EQUAL and source_open:
            back = DimFlow(self, target, source, reason, mode, None)
            for hole in dim_holes(target):
                hole.listeners.append(back)
            self.queue.put(back)

    def raise_hole(self, hole: DimHole, dim: Dim) -> None:
        """Let the hole cover `dim` too."""
        old = hole.value
        new = dim if old is None else join_dims(old, dim)
        if old is not None and is_any(new) and (is_poisoned(old) or is_poisoned(dim)):
            new = old if is_any(old) else POISON_DIM
        if old is None or (new is not old and (is_any(new) or new is POISON_DIM)):
            hole.value = new
            for task in hole.listeners:
                self.queue.put(task)

    def solution_of(self, hole: DimHole) -> Solution:
        """Return the task that finds a solving hole."""
        if hole not in self.solutions:
            self.solutions[hole] = Solution(self, hole)
        return self.solutions[hole]

    def settle_solutions(self) -> bool:
        """Decide ShapeVars that wait for flows which will not come; True if one was."""
        found = False
        for hole, solution in list(self.solutions.items()):
            if hole.value is None:
                found |= solution.decide(final=True)
        return found

    def settle_from_above(self, fed: bool) -> bool:
        """Give empty holes the dim that their uses ask for; True if one was.

        Those that nothing flows into come first, for from them the `fed` ones may get their dims.
        """
        above: dict[DimHole, list[Dim]] = {}
        for flow in self.flows:
            hole = hole_of(flow.source)
            if hole is not None and hole.value is None and not flow.renaming:
                above.setdefault(hole, []).append(flow.target)
        chosen = {hole: _wanted(hole, above) for hole in above if hole.fed == fed}
        for hole, dim in chosen.items():
            if dim is not None:
                self.raise_hole(hole, dim)
        return any(dim is not None for dim in chosen.values())

    def settle_rest(self) -> bool:
        """Give all other empty holes `?`; True if there was one."""
        found = False
        for hole in list(self._holes()):
            if hole.value is None:
                self.raise_hole(hole, ANY)
                found = True
        return found

    def check(self) -> None:
        """Report the flows that do not fit, now that all holes have values."""
        for flow in self.flows:
            source, target = flow.known_source(), known_dim(flow.target)
            if source is None or target is None:
                continue
            if not self._fits(source, target, flow.mode):
                self.mismatch(flow.reason, source, target)
            elif is_any(target) and is_unsolvable(flow.target, source):
                self.mismatch(flow.reason, source, flow.target)

    def _fits(self, source: Dim, target: Dim, mode: Mode) -> bool:
        return (self.late and mode is Mode.CHECKED) or fits(source, target, mode)

    def _holes(self) -> Iterator[DimHole]:
        for flow in self.flows:
            yield from dim_holes(flow.source)
            yield from dim_holes(flow.target)
            for dim in (flow.renaming or {}).values():
                yield from dim_holes(dim)


def _wanted(hole: DimHole, above: Mapping[DimHole, list[Dim]]) -> Dim | None:
    """Return the first known dim that an empty hole flows into, also by way of other empty holes.

    `?` only if there is no other.
    """
    found: Dim | None = None
    seen = {hole}
    waiting = deque([hole])
    while waiting:
        for target in above.get(waiting.popleft(), ()):
            dim = known_dim(target)
            if dim is not None and not is_any(dim):
                return dim
            found = dim if found is None else found
            following = hole_of(target)
            if dim is None and following is not None and following not in seen:
                seen.add(following)
                waiting.append(following)
    return found
