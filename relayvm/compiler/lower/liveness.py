"""Live registers in backward walks over linear code: a branch costs what it changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from relayvm.base.trampoline import Recursive
from relayvm.compiler.lower.linear import Block, Reg


class Live:
    """The registers needed behind a point of the code, with a record of the changes.

    Copying the set at every choice would make a function with many live registers and many choices
    quadratic; a branch is walked on the set itself and its changes are taken back.
    """

    def __init__(self) -> None:
        self.regs: set[Reg] = set()
        self._log: list[tuple[Reg, bool]] = []

    def __contains__(self, reg: Reg) -> bool:
        return reg in self.regs

    def add(self, regs: Iterable[Reg]) -> None:
        """Add registers."""
        for reg in regs:
            if reg not in self.regs:
                self.regs.add(reg)
                self._log.append((reg, True))

    def remove(self, regs: Iterable[Reg]) -> None:
        """Remove registers."""
        for reg in regs:
            if reg in self.regs:
                self.regs.remove(reg)
                self._log.append((reg, False))

    def mark(self) -> int:
        """Return a point to which `take_back` can go back."""
        return len(self._log)

    def take_back(self, mark: int) -> set[Reg]:
        """Undo the changes since `mark`; return the registers that they added on the whole."""
        was_absent: dict[Reg, bool] = {}
        for reg, is_new in self._log[mark:]:
            was_absent.setdefault(reg, is_new)
        del self._log[mark:]
        added = {reg for reg, absent in was_absent.items() if absent and reg in self.regs}
        for reg, absent in was_absent.items():
            if absent:
                self.regs.discard(reg)
            else:
                self.regs.add(reg)
        return added


def walk_blocks(
    blocks: list[Block],
    live: Live,
    joins: set[Reg],
    on: Iterable[Reg],
    walk: Callable[[Block, Live], Recursive[None]],
) -> Recursive[list[set[Reg]]]:
    """Walk the blocks of a choice backwards; leave in `live` what the choice needs.

    Returns for each block the registers alive before the choice that the block does not need.
    `joins` are the registers that every block which comes to its end defines, `on` what the choice
    itself reads. A block that does not come to its end, beside one that does, can only trap: the
    machine gives back what it holds, and nothing is returned for it.
    """
    falls = [not block.ends for block in blocks]
    comes_back = any(falls)
    needed: list[set[Reg]] = []
    for block, falling in zip(blocks, falls):
        if falling:
            mark = live.mark()
            yield walk(block, live)
            needed.append(live.take_back(mark))
        else:
            own = Live()
            yield walk(block, own)
            needed.append(own.regs - live.regs if comes_back else own.regs)
    union = set(on).union(*needed) - joins
    live.remove(joins if comes_back else list(live.regs))
    union -= live.regs
    live.add(union)
    return [
        set() if comes_back and not falling else union - own for own, falling in zip(needed, falls)
    ]
