"""Register allocation: gives each virtual register a place in its bank, reusing those of dead ones.

Linear in the code: lifetimes come from one backward walk, places are handed out in one forward
walk.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from relayvm.base.diagnostics import error
from relayvm.base.trampoline import Recursive, trampoline
from relayvm.compiler.lower.linear import Block, Choice, Def, LinearFunction, Reg, Step, roles
from relayvm.compiler.lower.liveness import Live, walk_blocks
from relayvm.compiler.lower.turns import repeats

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
    """Return the places of all registers; parameters come first in their banks, in order.

    Words that are parameters keep their places, so that a trap can show them. In a loop they do
    not: the arguments of the next turn are computed where they must stand, if that place is free.
    """
    lifetimes = _Lifetimes(function)
    live = Live()
    trampoline(lifetimes.block(function.body, live))
    allocation = _Allocation(lifetimes)
    for param in function.params:
        allocation.give(param)
    if not lifetimes.is_loop:
        allocation.kept = {param for param in function.params if param.kind == "w"}
    for param in function.params:
        if param not in live:
            allocation.free(param)
    trampoline(allocation.block(function.body))
    places = allocation.places
    if sum(places.sizes.values()) > MAX_SLOTS:
        message = (
            f"function `{function.name}` needs more than {MAX_SLOTS} registers at once; "
            "split it into functions, or put values into a list"
        )
        raise error("too-many-registers", message, function.span)
    return places


class _Lifetimes:
    """For each item the registers that nobody needs behind it, for each branch those at its
    start.
    """

    def __init__(self, function: LinearFunction) -> None:
        self.function = function
        self.dead_after: dict[int, list[Reg]] = {}
        self.dead_at_start: dict[int, set[Reg]] = {}
        self.is_loop = False
        self.becomes: dict[Reg, Reg] = {}  # what a register is in the next turn: a parameter

    def block(self, block: Block, live: Live) -> Recursive[None]:
        for item in reversed(block.items):
            if isinstance(item, Choice):
                yield self.choice(item, live)
                continue
            if repeats(item, self.function):
                self.is_loop = True
                for param, role in zip(self.function.params, roles(item.operands)):
                    if not role.reg.is_param and bank_of(role.reg) == bank_of(param):
                        self.becomes.setdefault(role.reg, param)
            mentioned = dict.fromkeys(role.reg for role in roles(item.operands))
            self.dead_after[id(item)] = [r for r in mentioned if r not in live]
            live.add(mentioned)
            live.remove(r.reg for r in roles(item.operands) if isinstance(r, Def))

    def choice(self, choice: Choice, live: Live) -> Recursive[None]:
        joins = set(choice.joins)
        dead = yield walk_blocks(choice.blocks, live, joins, (choice.on,), self.block)
        for block, regs in zip(choice.blocks, dead):
            self.dead_at_start[id(block)] = regs


class _Allocation:
    """Hands out places. The places in use are bit masks: what a branch did to them is forgotten by
    putting the old masks back, whatever their size.
    """

    def __init__(self, lifetimes: _Lifetimes) -> None:
        self.lifetimes = lifetimes
        self.places = Places()
        self.numbers: dict[Reg, int] = {}
        self.used = {"w": 0, "o": 0, "b": 0}
        self.kept: set[Reg] = set()

    def give(self, reg: Reg) -> None:
        """Give a register a free place of its bank, once: that of the parameter it becomes, or the
        lowest.
        """
        if reg in self.numbers:
            return
        bank = bank_of(reg)
        used = self.used[bank]
        lowest = ~used & (used + 1)
        number = lowest.bit_length() - 1
        param = self.lifetimes.becomes.get(reg)
        if param is not None and not used >> self.numbers[param] & 1:
            number = self.numbers[param]
        self.used[bank] = used | 1 << number
        self.places.sizes[bank] = max(self.places.sizes[bank], number + 1)
        self.numbers[reg] = number
        self.places.names[reg] = f"{bank}{number}"

    def free(self, reg: Reg) -> None:
        """Make the place of a register free: nobody needs it on this path."""
        if reg in self.numbers and reg not in self.kept:
            self.used[bank_of(reg)] &= ~(1 << self.numbers[reg])

    def make_room(self, reg: Reg, step: Step) -> None:
        """Free the place of the parameter that a result becomes, if it dies in the same step: what
        an instruction reads is read before it writes.
        """
        param = self.lifetimes.becomes.get(reg)
        if param is None:
            return
        dying = self.lifetimes.dead_after[id(step)]
        for dead in dying:
            if self.numbers.get(dead) == self.numbers[param] and bank_of(dead) == bank_of(param):
                self.free(dead)
                dying.remove(dead)  # the place is the result's from here on
                return

    def block(self, block: Block) -> Recursive[None]:
        for item in block.items:
            if isinstance(item, Choice):
                yield self.choice(item)
                continue
            for role in roles(item.operands):
                if isinstance(role, Def):
                    self.make_room(role.reg, item)
                self.give(role.reg)
            for reg in self.lifetimes.dead_after[id(item)]:
                self.free(reg)

    def choice(self, choice: Choice) -> Recursive[None]:
        for join in choice.joins:
            self.give(join)
        before = dict(self.used)
        behind: dict[str, int] | None = None
        for block in choice.blocks:
            self.used = dict(before)
            for reg in self.lifetimes.dead_at_start[id(block)]:
                self.free(reg)
            yield self.block(block)
            if behind is None and not block.ends:
                # All that lives behind the choice was placed before it, so any end will do.
                behind = self.used
        if behind is not None:
            self.used = dict(behind)
