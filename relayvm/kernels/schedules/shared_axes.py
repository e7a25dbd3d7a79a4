"""Axes that stages share: how those of one stage make up those of another that reads it.

`scores[g, i, j]` is read as `scores[h, i, j]` and `p[b * 12 + h, i, r]`: a stage of a group may
name a head by one axis and another by two, or by a part of one (`out[i, h * 64 + d]`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from relayvm.kernels import compute as c
from relayvm.kernels import loops as n
from relayvm.kernels.index import simplify as s
from relayvm.kernels.schedules.emit import Context, Emitter
from relayvm.kernels.schedules.plan import Stage
from relayvm.kernels.schedules.reduction import serial


@dataclass(frozen=True)
class Place:
    """What an axis of a stage stands for: shared axes, the first one slowest, and what is left of
    it, of extent `rest`, that is not shared.
    """

    shared: tuple[int, ...]
    rest: n.Expr | None = None


Places = dict[int, Place]


@dataclass(eq=False)
class Shared:
    """The axes that stages share, by number in order, with their extents; of each stage, which of
    its axes stand for them.
    """

    extents: dict[int, n.Expr]
    places: list[Places]

    def volume(self, axes: tuple[int, ...]) -> n.Expr:
        """Return the product of extents."""
        total: n.Expr = n.const(1)
        for axis in axes:
            total = s.mul(total, self.extents[axis])
        return total

    def without(self, axes: set[int]) -> Shared:
        """Return these without some axes, and without those behind one of them in an axis of a
        stage, of which then only a part is shared.
        """
        lost = set(axes)
        while True:
            behind = {
                a
                for places in self.places
                for place in places.values()
                for k, a in enumerate(place.shared)
                if any(b in lost for b in place.shared[:k])
            }
            if behind <= lost:
                break
            lost |= behind
        every: list[Places] = []
        for places in self.places:
            every.append({})
            for k, place in places.items():
                kept = tuple(a for a in place.shared if a not in lost)
                rest = place.rest
                if kept != place.shared:
                    left = self.volume(place.shared[len(kept) :])
                    rest = left if rest is None else s.mul(left, rest)
                if kept:
                    every[-1][k] = Place(kept, rest)
        return Shared({a: e for a, e in self.extents.items() if a not in lost}, every)


def axes_of(context: Context, stage: Stage) -> tuple[int, ...]:
    """Return the axes of a stage that may have more than one element."""
    return tuple(k for k, d in enumerate(stage.shape) if context.dim(d) != n.const(1))


def own_axes(context: Context, stage: Stage) -> Shared:
    """Return the axes of a stage as shared by it alone."""
    axes = axes_of(context, stage)
    extents = {k: context.dim(stage.shape[k]) for k in axes}
    return Shared(extents, [{k: Place((k,)) for k in axes}])


def shared_with(context: Context, stages: list[Stage], before: Shared, stage: Stage) -> Shared:
    """Return the axes that stages share with one more, which reads them at no other place."""
    return _Reading(context, stages, before, stage).result()


class _Reading:
    """Finds what the axes of a stage stand for, from how it reads the others."""

    def __init__(self, context: Context, stages: list[Stage], before: Shared, stage: Stage) -> None:
        self.context, self.stages, self.stage = context, stages, stage
        self.shared = Shared(dict(before.extents), [dict(p) for p in before.places])
        self.lost: set[int] = set()
        self.own: Places = {}
        self.extents = [context.dim(d) for d in stage.shape]

    def result(self) -> Shared:
        """Return the shared axes of all stages, the new one last."""
        of_tensor = {
            self.context.buffers[t].name: number
            for number, stage in enumerate(self.stages)
            for t in stage.tensors
        }
        reads = False
        for tensor in self.stage.tensors:
            axes, loads = _loads_at(self.context, tensor)
            self.axes = {axis: k for k, axis in enumerate(axes)}
            for load in loads:
                number = of_tensor.get(load.buffer.name)
                if number is not None:
                    reads = True
                    self._read(number, load)
        if not reads:
            self._same_places()
        self.lost |= self.shared.extents.keys() - {a for p in self.own.values() for a in p.shared}
        every = [*self.shared.places, self.own]
        return Shared(self.shared.extents, every).without(self.lost)

    def _same_places(self) -> None:
        """Stages that have nothing to do with each other share axes of one extent and place."""
        for k, place in self.shared.places[0].items():
            here = self.extents[k] if k < len(self.extents) else None
            if place.rest is None and here == self.shared.volume(place.shared):
                self.own[k] = place

    def _read(self, number: int, load: n.Load | n.Gather) -> None:
        places = self.shared.places[number]
        if len(load.indices) != len(self.stages[number].shape):
            self.lost |= self.shared.extents.keys()
            return
        high: dict[int, tuple[Place, n.Expr]] = {}
        low: dict[int, tuple[Place, n.Expr]] = {}
        for k, place in list(places.items()):
            index = load.indices[k]
            if not self._whole(place, index, self.context.dim(self.stages[number].shape[k])):
                self._part(place, index, high, low)
        for axis, (place, divisor) in high.items():
            if axis in low and low[axis][1] == divisor:
                inner = low.pop(axis)[0]
                if self.shared.volume(inner.shared) == divisor:
                    place, divisor = Place(place.shared + inner.shared), n.const(1)
                else:
                    self.lost.update(inner.shared)
            whole = s.mul(self.shared.volume(place.shared), divisor)
            rest = None if divisor == n.const(1) else divisor
            self._note(axis, replace(place, rest=rest), whole == self.extents[axis])
        for place, _ in low.values():
            self.lost.update(place.shared)

    def _whole(self, place: Place, index: n.Expr, extent: n.Expr) -> bool:
        """Note an index that is one own axis, or two that follow each other."""
        if isinstance(index, n.Var) and index in self.axes:
            axis = self.axes[index]
            self._note(axis, place, extent == self.extents[axis])
            return True
        pair = self._pair(index)
        if pair is None or place.rest is not None:
            return False
        outer, inner = pair
        if s.mul(self.extents[outer], self.extents[inner]) != extent:
            return False
        if len(place.shared) == 1:
            place = self._split(place.shared[0], self.extents[outer], self.extents[inner])
        cut = next(
            (
                k
                for k in range(1, len(place.shared))
                if self.shared.volume(place.shared[k:]) == self.extents[inner]
            ),
            None,
        )
        if cut is None:
            return False
        self._note(outer, Place(place.shared[:cut]), True)
        self._note(inner, Place(place.shared[cut:]), True)
        return True

    def _pair(self, index: n.Expr) -> tuple[int, int] | None:
        """Return the own axes x and y of an index `x * extent(y) + y`."""
        for inner_axis, inner in self.axes.items():
            for outer_axis, outer in self.axes.items():
                if inner_axis != outer_axis:
                    whole = s.add(s.mul(outer_axis, self.extents[inner]), inner_axis)
                    if s.sub(index, whole) == n.const(0):
                        return outer, inner
        return None

    def _split(self, axis: int, outer: n.Expr, inner: n.Expr) -> Place:
        """Make two shared axes of one."""
        new = max(self.shared.extents) + 1
        extents: dict[int, n.Expr] = {}
        for each, extent in self.shared.extents.items():
            if each == axis:
                extents[axis], extents[new] = outer, inner
            else:
                extents[each] = extent
        self.shared.extents = extents
        if axis in self.lost:
            self.lost.add(new)
        for places in (*self.shared.places, self.own):
            for k, place in places.items():
                parts = [(a, new) if a == axis else (a,) for a in place.shared]
                places[k] = replace(place, shared=tuple(b for part in parts for b in part))
        return Place((axis, new))

    def _part(
        self,
        place: Place,
        index: n.Expr,
        high: dict[int, tuple[Place, n.Expr]],
        low: dict[int, tuple[Place, n.Expr]],
    ) -> None:
        """Take an index that is the quotient or the rest of an own axis."""
        match index:
            case n.Call("floor_divide" | "floor_mod" as name, (n.Var() as axis, divisor)) if (
                axis in self.axes and place.rest is None
            ):
                (high if name == "floor_divide" else low)[self.axes[axis]] = (place, divisor)
            case _:
                self.lost.update(place.shared)

    def _note(self, axis: int, place: Place, fits: bool) -> None:
        known = self.own.setdefault(axis, place)
        # Two axes that stand for one, as rows and columns of a product with itself, share nothing.
        others = {a for k, p in self.own.items() if k != axis for a in p.shared}
        if not fits or known != place or not others.isdisjoint(place.shared):
            self.lost.update(place.shared, known.shared)


def _loads_at(
    context: Context, tensor: c.Tensor
) -> tuple[tuple[n.Var, ...], list[n.Load | n.Gather]]:
    """Return names for the axes of a tensor, and what an element of it loads."""
    trial = replace(context, names=context.names.copy())
    emitter = Emitter(trial, serial)
    axes = tuple(trial.names.var("i") for _ in tensor.shape)
    for var, extent in zip(axes, tensor.shape):
        emitter.prover.add_range(var, n.const(0), trial.dim(extent))
    value = emitter.tensor(tensor, axes)
    return axes, list(_loads_of(value, tuple(emitter.statements)))


def _loads_of(value: n.Expr, body: tuple[n.Stmt, ...]) -> Iterator[n.Load | n.Gather]:
    yield from _loads(value)
    for stmt in body:
        match stmt:
            case n.For():
                yield from _loads_of(n.const(0), stmt.body)
            case n.If():
                yield from _loads_of(stmt.condition, (*stmt.then, *stmt.otherwise))
            case n.Let() | n.TileStore() | n.Store():
                yield from _loads(stmt.value)
            case _:
                pass


def _loads(expr: n.Expr) -> Iterator[n.Load | n.Gather]:
    if isinstance(expr, (n.Load, n.Gather)):
        yield expr
    for child in n.children(expr):
        yield from _loads(child)
