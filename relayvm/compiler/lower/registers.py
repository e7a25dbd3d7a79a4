"""Register allocation: gives each virtual register a place in its bank, reusing those of dead ones.

Linear in the code: lifetimes come from one backward walk, places are handed out in one forward
walk.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heappop, heappush

from relayvm.base.diagnostics import InternalError
from relayvm.compiler.lower.linear import Block, Choice, Def, LinearFunction, Reg, Step, roles

MAX_SLOTS = 1 << 16


@dataclass(slots=True)
class Places:
    """Where each register of a function lies, as assembly text, and how large the banks are."""

    names: dict[Reg, str] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=lambda: {"w": 0, "o": 0, "b": 0})


def bank_of(reg: Reg) -> str:
    """Return the bank of a register: w, o or b."""
    return "b" if reg.kind == "o" and reg.borrowed else reg.kind


def allocate_registers(function: LinearFunction) -> Places:
    """Return the places of all registers; parameters come first in their banks, in order."""
    lifetimes = _Lifetimes()
    live = lifetimes.block(function.body, set())
    allocation = _Allocation(lifetimes)
    for param in function.params:
        allocation.give(param)
    for param in function.params:
        if param not in live:
            allocation.free(param)
    allocation.block(function.body)
    places = allocation.places
    if sum(places.sizes.values()) > MAX_SLOTS:
        raise InternalError(f"function `{function.name}` needs more than {MAX_SLOTS} registers")
    return places


class _Lifetimes:
    """For each item the registers that nobody needs behind it, for each branch those at its
    start.
    """

    def __init__(self) -> None:
        self.dead_after: dict[int, list[Reg]] = {}
        self.dead_at_start: dict[int, list[Reg]] = {}

    def block(self, block: Block, live_out: set[Reg]) -> set[Reg]:
        live = set() if block.ends else set(live_out)
        for item in reversed(block.items):
            if isinstance(item, Step):
                mentioned = {role.reg for role in roles(item.operands)}
                defined = {r.reg for r in roles(item.operands) if isinstance(r, Def)}
                self.dead_after[id(item)] = [r for r in mentioned if r not in live]
                live -= defined
                live |= mentioned - defined
            else:
                self.choice(item, live)
        return live

    def choice(self, choice: Choice, live: set[Reg]) -> None:
        needed = [self.block(block, live) for block in choice.blocks]
        joins = set(choice.joins)
        union = set().union(*needed, {choice.on}) - joins
        dead_joins = [j for j in choice.joins if j not in live]
        self.dead_after[id(choice)] = dead_joins
        for block, own in zip(choice.blocks, needed):
            self.dead_at_start[id(block)] = [r for r in union if r not in own]
        live -= joins
        live |= union


class _Allocation:
    def __init__(self, lifetimes: _Lifetimes) -> None:
        self.lifetimes = lifetimes
        self.places = Places()
        self.taken: dict[Reg, int] = {}
        self.holes: dict[str, list[int]] = {"w": [], "o": [], "b": []}
        self.tops: dict[str, int] = {"w": 0, "o": 0, "b": 0}

    def give(self, reg: Reg) -> None:
        if reg in self.taken:
            return
        bank = bank_of(reg)
        if self.holes[bank]:
            number = heappop(self.holes[bank])
        else:
            number = self.tops[bank]
            self.tops[bank] += 1
            self.places.sizes[bank] = max(self.places.sizes[bank], self.tops[bank])
        self.taken[reg] = number
        self.places.names[reg] = f"{bank}{number}"

    def free(self, reg: Reg) -> None:
        if reg in self.taken:
            heappush(self.holes[bank_of(reg)], self.taken.pop(reg))

    def block(self, block: Block) -> None:
        for item in block.items:
            if isinstance(item, Step):
                for role in roles(item.operands):
                    self.give(role.reg)
                for reg in sorted(self.lifetimes.dead_after[id(item)], key=self._number):
                    self.free(reg)
            else:
                self.choice(item)

    def choice(self, choice: Choice) -> None:
        for join in choice.joins:
            self.give(join)
        state = self._state()
        ends: list[tuple[dict[Reg, int], dict[str, list[int]], dict[str, int]]] = []
        for block in choice.blocks:
            self._restore(state)
            for reg in sorted(self.lifetimes.dead_at_start[id(block)], key=self._number):
                self.free(reg)
            self.block(block)
            if not block.ends:
                ends.append(self._state())
        if ends:
            # All that lives behind the choice was placed before it, so any end will do; places
            # above its top are free too.
            self._restore(ends[0])
        for reg in self.lifetimes.dead_after[id(choice)]:
            self.free(reg)

    def _number(self, reg: Reg) -> int:
        return self.taken.get(reg, -1)

    def _state(self) -> tuple[dict[Reg, int], dict[str, list[int]], dict[str, int]]:
        return (
            dict(self.taken),
            {bank: list(holes) for bank, holes in self.holes.items()},
            dict(self.tops),
        )

    def _restore(self, state: tuple[dict[Reg, int], dict[str, list[int]], dict[str, int]]) -> None:
        taken, holes, tops = state
        self.taken = dict(taken)
        self.holes = {bank: list(numbers) for bank, numbers in holes.items()}
        self.tops = dict(tops)
