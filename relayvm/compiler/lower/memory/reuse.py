"""Reuse of dead cells: a cell that a match or a projection reads for the last time is taken apart,
and a cell of its size that is made afterwards lies where it was.

After Reinking, Xie, de Moura and Leijen, "Perceus: Garbage Free Reference Counting with Reuse"
(PLDI 2021). What is shared at run time is copied: its fields are counted, and it leaves no memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from relayvm.base.trampoline import Recursive, trampoline
from relayvm.compiler.lower.linear import (
    OBJECT,
    WORD,
    Block,
    Choice,
    Def,
    LinearFunction,
    Operand,
    Reg,
    Role,
    Step,
    Take,
    Use,
    map_roles,
    roles,
)
from relayvm.compiler.lower.liveness import Live
from relayvm.compiler.lower.memory.last_uses import (
    MOST_MATCHED,
    READS,
    LastUses,
    fields_read,
)
from relayvm.vm.program import Layout, LayoutKind

# Memory that waits longer is given back: few programs make so many cells of one match.
_MOST_WAITING = 8


def rebuilt_params(function: LinearFunction, layouts: Sequence[Layout]) -> set[Reg]:
    """Return the object parameters that a match takes apart before it makes a constructor of the
    same size: held by the function, they may become that cell.
    """
    pairing = _Pairing(function, layouts, every_param=True)
    found: set[Reg] = set()
    for apart in pairing.found:
        if apart.maker is None or not _is_constructor(layouts[apart.maker]):
            continue
        if _is_constructor(layouts[apart.layout]):
            cell = apart.outermost().cell
            found.update((cell,) if cell.is_param else ())
    return found


def _is_constructor(layout: Layout) -> bool:
    return layout.kind is LayoutKind.CONSTRUCTOR


def reuse_cells(function: LinearFunction, layouts: Sequence[Layout]) -> None:
    """Take owned cells apart where they are read last, and make others in their memory, in place.

    Requires that it is settled how each parameter is held, and comes before counts are added.
    """
    pairing = _Pairing(function, layouts, every_param=False)
    dropped: set[int] = set()
    renamed: dict[int, dict[Reg, Reg]] = {}
    for apart in reversed(pairing.found):  # What is put in front comes to stand in order.
        if apart.memory is not None or apart.moves:
            if apart.is_late:
                renamed.setdefault(id(apart.block), {}).update(pairing.own_fields(apart))
            _take_apart(apart, layouts[apart.layout], dropped)
    for step, memory in pairing.makers:
        target, layout, fields = step.operands
        step.name, step.operands = "cell_reuse", (target, Take(memory), layout, fields)
    blocks = {id(a.block): a.block for a in pairing.found} | pairing.blocks_of_reads
    for block in blocks.values():
        block.items = [item for item in block.items if id(item) not in dropped]
    if renamed:
        _rename(function.body, renamed)
    _settle_roots(pairing.reads)


@dataclass(slots=True, eq=False)
class _Apart:
    """A cell that may be taken apart at the start of a block, or at a step that reads it.

    `memory` is what is left of it, if a cell is made of that (of layout `maker`). `reads` are the
    steps that read fields from there on. `moves` says that some field is given away afterwards.
    `outer` is the one that makes this cell owned, being its field. One that is late was matched
    before, in a block around: `parts` are its fields by number, as far as they are read there.
    """

    cell: Reg
    layout: int
    block: Block
    at: Step | None
    outer: _Apart | None
    memory: Reg | None = None
    maker: int | None = None
    moves: bool = False
    reads: list[Step] = field(default_factory=list)
    parts: dict[int, Reg] = field(default_factory=dict)
    is_late: bool = False

    def outermost(self) -> _Apart:
        """Return the one that this is a part of, or of a part of, and so on."""
        apart = self
        while apart.outer is not None:
            apart = apart.outer
        return apart

    def wanted(self) -> None:
        """Note that a part is given away; what this is a part of must be taken apart too."""
        apart: _Apart | None = self
        while apart is not None and not apart.moves:
            apart.moves = True
            apart = apart.outer


class _Pairing:
    """Finds which cells can be taken apart, and which are made in their memory."""

    def __init__(
        self, function: LinearFunction, layouts: Sequence[Layout], *, every_param: bool
    ) -> None:
        self.layouts = layouts
        self.every_param = every_param
        self._fields = fields_read(function.body)
        self.last = LastUses(self._fields)
        trampoline(self.last.block(function.body, Live()))
        self.found: list[_Apart] = []
        self.makers: list[tuple[Step, Reg]] = []
        self.reads: list[Step] = []
        self.blocks_of_reads: dict[int, Block] = {}
        self._open: dict[Reg, _Apart] = {}  # by cell: where control is, it is apart
        self._parts: dict[Reg, _Apart] = {}  # by field
        self._matched: dict[Reg, int] = {}  # layouts of cells, where control has chosen by them
        trampoline(self._block(function.body, ()))

    def _block(self, block: Block, waiting: tuple[_Apart, ...]) -> Recursive[tuple[_Apart, ...]]:
        begun: list[_Apart] = []
        for item in block.items:
            if isinstance(item, Choice):
                waiting = yield self._choice(item, waiting)
            elif item.name in READS:
                known = len(self.found)
                waiting = self._read(item, block, waiting)
                begun += self.found[known:]
            elif item.name == "cell_new":
                waiting = self._make(item, waiting)
                self._note_moves(item)
            else:
                self._note_moves(item)
        for apart in begun:
            del self._open[apart.cell]
        return waiting

    def _choice(self, choice: Choice, waiting: tuple[_Apart, ...]) -> Recursive[tuple[_Apart, ...]]:
        left = set(waiting)
        for index, block in enumerate(choice.blocks):
            own = waiting
            before: dict[Reg, _Apart | None] = {}
            begun = self._begin_late(choice, block, before)
            if choice.is_switch:
                layout, outside = choice.layout + index, self._matched
                self._matched = {**dict(list(outside.items())[-MOST_MATCHED:]), choice.on: layout}
                if id(block) in self.last.blocks:
                    begun.append(self._begin(choice.on, layout, block, None))
            for apart in begun:
                own = self._wait(apart, own)
            behind = yield self._block(block, own)
            for apart in begun:
                if apart is not None:
                    del self._open[apart.cell]
            self._put_back(before)
            if choice.is_switch:
                self._matched = outside
            if not block.ends:
                left.intersection_update(behind)
        return tuple(apart for apart in waiting if apart in left)

    def _put_back(self, parts: Mapping[Reg, _Apart | None]) -> None:
        for reg, apart in parts.items():
            if apart is None:
                del self._parts[reg]
            else:
                self._parts[reg] = apart

    def _begin_late(
        self, choice: Choice, block: Block, before: dict[Reg, _Apart | None]
    ) -> list[_Apart | None]:
        """Begin with cells that were matched around the choice, of which this block needs no more
        than the fields. Adds to `before` what the fields were parts of.
        """
        begun: list[_Apart | None] = []
        for cell, layout in self._matched.items():
            if cell is choice.on or (id(block), cell) not in self.last.late:
                continue
            fields = [lent for lent in self._fields.get(cell, ()) if lent.layout == layout]
            if any(lent.reg in self._fields for lent in fields):
                continue  # What is borrowed from a field would need another root here.
            apart = self._begin(cell, layout, block, None)
            if apart is not None:
                apart.is_late = True
                for lent in fields:
                    before.setdefault(lent.reg, self._parts.get(lent.reg))
                    self._parts[lent.reg] = apart
                begun.append(apart)
        return begun

    def own_fields(self, apart: _Apart) -> dict[Reg, Reg]:
        """Return for the fields that were lent before a late cell is taken apart those that are
        held from there on.
        """
        found: dict[Reg, Reg] = {}
        for lent in self._fields.get(apart.cell, ()):
            if lent.layout == apart.layout:
                own = Reg(OBJECT, lent.reg.name, lent.reg.type)
                found[lent.reg] = apart.parts.setdefault(lent.index, own)
        return found

    def _read(self, step: Step, block: Block, waiting: tuple[_Apart, ...]) -> tuple[_Apart, ...]:
        target, source, layout, _ = step.operands
        assert isinstance(target, Def) and isinstance(source, Use) and isinstance(layout, int)
        self.reads.append(step)
        apart = self._open.get(source.reg)
        is_tuple = self.layouts[layout].kind is LayoutKind.TUPLE
        if apart is None and is_tuple and id(step) in self.last.reads:
            apart = self._begin(source.reg, layout, block, step)
            waiting = self._wait(apart, waiting)
        if apart is not None:
            apart.reads.append(step)
            self._parts[target.reg] = apart
            self.blocks_of_reads[id(block)] = block
        return waiting

    def _begin(self, cell: Reg, layout: int, block: Block, at: Step | None) -> _Apart | None:
        outer = self._parts.get(cell)
        owned = not cell.borrowed or (self.every_param and cell.is_param) or outer is not None
        if not owned or cell in self._open:
            return None
        apart = self._open[cell] = _Apart(cell, layout, block, at, outer)
        self.found.append(apart)
        return apart

    def _wait(self, apart: _Apart | None, waiting: tuple[_Apart, ...]) -> tuple[_Apart, ...]:
        if apart is None or self.layouts[apart.layout].block_class is None:
            return waiting
        return (*waiting, apart)[-_MOST_WAITING:]

    def _make(self, step: Step, waiting: tuple[_Apart, ...]) -> tuple[_Apart, ...]:
        layout = step.operands[1]
        assert isinstance(layout, int)
        size = self.layouts[layout].block_class
        fits = [a for a in waiting if self.layouts[a.layout].block_class == size]
        if not fits:
            return waiting
        chosen = next((a for a in reversed(fits) if a.layout == layout), fits[-1])
        if chosen.memory is None:
            chosen.memory = Reg(OBJECT)
        chosen.maker = layout
        chosen.wanted()
        self.makers.append((step, chosen.memory))
        return tuple(a for a in waiting if a is not chosen)

    def _note_moves(self, step: Step) -> None:
        for role in roles(step.operands):
            if isinstance(role, Take) and (apart := self._parts.get(role.reg)) is not None:
                apart.wanted()


def _take_apart(apart: _Apart, layout: Layout, dropped: set[int]) -> None:
    """Put the instruction that takes a cell apart before the steps that read it, which go."""
    parts = apart.parts
    for step in apart.reads:
        target, _, _, index = step.operands
        assert isinstance(target, Def) and isinstance(index, int)
        first = parts.setdefault(index, target.reg)
        if first is target.reg:
            dropped.add(id(step))
            first.borrowed, first.root = False, None
        else:
            step.name = "move" if first.kind == WORD else "borrow"
            step.operands = (target, Use(first))
    fields = tuple(
        Def(parts.get(i) or Reg(WORD if kind == "w" else OBJECT))
        for i, kind in enumerate(layout.fields)
    )
    at = apart.at
    span = apart.reads[0].span if apart.reads else None
    head: tuple[Operand, ...] = (Take(apart.cell), apart.layout, fields)
    name = "cell_unpack"
    if apart.memory is not None:
        name, head = "cell_unpack_keep", (Def(apart.memory), *head)
    if at is None:
        apart.block.items.insert(0, Step(name, head, span))
    else:
        at.name, at.operands = name, head
        dropped.discard(id(at))


def _rename(body: Block, renamed: Mapping[int, dict[Reg, Reg]]) -> None:
    """Replace registers in blocks, given by identity, and in all that is inside."""
    trampoline(_rename_in(body, renamed, {}))


def _rename_in(
    block: Block, renamed: Mapping[int, dict[Reg, Reg]], new: dict[Reg, Reg]
) -> Recursive[None]:
    """Do so in a block; `new` are the registers of the blocks around, and is left as it was."""
    own = renamed.get(id(block), {})
    before = {reg: new.get(reg) for reg in own}
    new.update(own)
    for item in block.items:
        if isinstance(item, Choice):
            item.on = new.get(item.on, item.on)
            for inner in item.blocks:
                yield _rename_in(inner, renamed, new)
        elif new:
            item.operands = map_roles(item.operands, partial(_with_register, new))
    for reg, outer in before.items():
        if outer is None:
            del new[reg]
        else:
            new[reg] = outer


def _with_register(new: Mapping[Reg, Reg], role: Role) -> Role:
    return replace(role, reg=new.get(role.reg, role.reg))


def _settle_roots(reads: Iterable[Step]) -> None:
    """Let each borrowed field depend on the owned register next to it; parents come first."""
    for step in reads:
        target, source = step.operands[:2]
        if isinstance(target, Def) and isinstance(source, Use) and target.reg.borrowed:
            parent = source.reg
            target.reg.root = parent.root if parent.borrowed and parent.root else parent
