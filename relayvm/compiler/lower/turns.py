"""Order within the turns of a loop: words of the next turn are computed last.

A function that calls itself in tail position is a loop, and its arguments had better be computed
where the parameters stand. A parameter's place is free once nobody reads it any more.
"""

from __future__ import annotations

from collections import Counter

from relayvm.compiler.lower.linear import Block, Choice, Def, LinearFunction, Reg, Step, roles
from relayvm.vm.isa import ISA

# Instructions that write one word and do nothing else: they may run at any time after what they
# read is there.
_PURE = frozenset(
    i.name
    for i in ISA.values()
    if i.group in ("moves", "words", "casts")
    and not (i.machine or i.traps or i.control)
    and [o.kind.name for o in i.operands].count("w_out") == 1
)


def order_turns(function: LinearFunction) -> None:
    """Move words that only the next turn needs to the end, behind who reads the parameter.

    `%j = %i + 1; %s = %sum + %i; loop(%j, %s)` -> `%s = %sum + %i; %j = %i + 1; loop(%j, %s)`
    """
    pending = [function.body]
    while pending:
        block = pending.pop()
        for item in block.items:
            if isinstance(item, Choice):
                pending.extend(item.blocks)
        last = block.items[-1] if block.items else None
        if isinstance(last, Step) and repeats(last, function):
            _order(block, last, function.params)


def repeats(step: Step, function: LinearFunction) -> bool:
    """Tell whether a step is a tail call of the function that it stands in."""
    return step.name == "tail_call" and step.callee == function.name


def _order(block: Block, call: Step, params: list[Reg]) -> None:
    """Put the steps whose words the call alone reads, with their constants, before the call."""
    start = len(block.items)
    while start and isinstance(block.items[start - 1], Step):
        start -= 1
    steps = [item for item in block.items[start:] if isinstance(item, Step)][:-1]
    made = {role.reg: s for s in steps for role in roles(s.operands) if isinstance(role, Def)}
    uses = Counter(reg for step in (*steps, call) for reg in _read(step))
    becomes: dict[int, Reg] = {}
    found: list[Step] = []
    for param, reg in zip(params, _read(call)):
        step = made.get(reg)
        if step is not None and step.name in _PURE and uses[reg] == 1:
            becomes[id(step)] = param
            found.append(step)
    if not found:
        return
    last: list[Step] = []
    for step in _readers_first(found, becomes):
        last += [made[r] for r in dict.fromkeys(_read(step)) if uses[r] == 1 and _is_word(made, r)]
        last.append(step)
    moved = set(map(id, last))
    block.items[start:-1] = [s for s in steps if id(s) not in moved] + last


def _readers_first(steps: list[Step], becomes: dict[int, Reg]) -> list[Step]:
    """Order steps so that who reads a parameter comes before who writes the next one, where that
    can be; linear in the operands.
    """
    writer = {becomes[id(step)]: step for step in steps}
    readers = Counter(
        reg for step in steps for reg in set(_read(step)) if reg is not becomes[id(step)]
    )
    ordered: dict[int, Step] = {}
    for first in steps:
        ready = [first] if not readers[becomes[id(first)]] else []
        while ready:
            step = ready.pop()
            if id(step) in ordered:
                continue
            ordered[id(step)] = step
            for reg in set(_read(step)):
                if reg is not becomes[id(step)]:
                    readers[reg] -= 1
                    if not readers[reg] and reg in writer:
                        ready.append(writer[reg])
    return [*ordered.values(), *(s for s in steps if id(s) not in ordered)]


def _read(step: Step) -> list[Reg]:
    return [role.reg for role in roles(step.operands) if not isinstance(role, Def)]


def _is_word(made: dict[Reg, Step], reg: Reg) -> bool:
    return reg in made and made[reg].name == "word"
