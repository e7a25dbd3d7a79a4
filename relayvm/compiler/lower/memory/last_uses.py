"""Where cells are used for the last time but for reads of their fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from relayvm.base.trampoline import Recursive
from relayvm.compiler.lower.linear import Block, Choice, Def, Reg, Use, roles, steps
from relayvm.compiler.lower.liveness import Live, walk_blocks

READS = ("field_word", "field_borrow")
# Cells that were matched around a block and are looked at in it.
MOST_MATCHED = 4


@dataclass(frozen=True, slots=True, eq=False)
class Lent:
    """An object that is borrowed from a cell: layout and number of the field, and the register."""

    layout: int
    index: int
    reg: Reg


def fields_read(body: Block) -> dict[Reg, list[Lent]]:
    """Return by cell what is borrowed from it anywhere."""
    found: dict[Reg, list[Lent]] = {}
    for step in steps(body):
        if step.name == "field_borrow":
            target, source, layout, index = step.operands
            assert isinstance(target, Def) and isinstance(source, Use)
            assert isinstance(layout, int) and isinstance(index, int)
            found.setdefault(source.reg, []).append(Lent(layout, index, target.reg))
    return found


class LastUses:
    """Finds in a backward walk the arms of choices behind whose start the matched cell is only read
    field by field, blocks further inside with this property, and the reads of fields behind which
    their cell is.
    """

    def __init__(self, fields: Mapping[Reg, list[Lent]]) -> None:
        self.blocks: set[int] = set()
        self.late: set[tuple[int, Reg]] = set()
        self.reads: set[int] = set()
        self._fields = fields
        self._matched: dict[int, Reg] = {}
        self._around: dict[int, tuple[Reg, ...]] = {}

    def block(self, block: Block, live: Live) -> Recursive[None]:
        """Walk a block whose end needs `live`; leave in `live` what its start needs."""
        around = self._around.get(id(block), ())
        # Fields that are read behind the block must stay where they are.
        needed = {c for c in around if any(lent.reg in live for lent in self._fields.get(c, ()))}
        for item in reversed(block.items):
            if isinstance(item, Choice):
                if item.is_switch:
                    self._matched.update((id(b), item.on) for b in item.blocks)
                inside = (*around, item.on)[-MOST_MATCHED:] if item.is_switch else around
                self._around.update((id(b), inside) for b in item.blocks)
                joins = set(item.joins)
                yield walk_blocks(item.blocks, live, joins, (item.on,), self.block)
                continue
            live.remove(r.reg for r in roles(item.operands) if isinstance(r, Def))
            used = [r.reg for r in roles(item.operands) if not isinstance(r, Def)]
            if item.name not in READS:
                live.add(used)
            elif used[0] not in live:
                self.reads.add(id(item))
        matched = self._matched.get(id(block))
        if matched is not None and matched not in live:
            self.blocks.add(id(block))
        self.late.update((id(block), c) for c in around if c not in live and c not in needed)
