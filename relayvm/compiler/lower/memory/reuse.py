"""Reuse of dead cells: a cell that a match or a projection reads for the last time is taken apart,
and a cell of its size that is made afterwards lies where it was.

After Reinking, Xie, de Moura and Leijen, "Perceus: Garbage Free Reference Counting with Reuse"
(PLDI 2021). What is shared at run time is copied: its fields are counted, and it leaves no memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

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
    Step,
    Take,
    Use,
    roles,
)
from relayvm.compiler.lower.liveness import Live, walk_blocks
from relayvm.vm.program import Layout, LayoutKind

_READS = ("field_word", "field_borrow")
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
    for apart in pairing.found:
        if apart.memory is not None or apart.moves:
            _take_apart(apart, layouts[apart.layout], dropped)
    for step, memory in pairing.makers:
        target, layout, fields = step.operands
        step.name, step.operands = "cell_reuse", (target, Take(memory), layout, fields)
    blocks = {id(a.block): a.block for a in pairing.found} | pairing.blocks_of_reads
    for block in blocks.values():
        block.items = [item for item in block.items if id(item) not in dropped]
    _settle_roots(pairing.reads)


@dataclass(slots=True, eq=False)
class _Apart:
    """A cell that may be taken apart at the start of a block, or at a step that reads it.

    `memory` is what is left of it, if a cell is made of that (of layout `maker`). `reads` are the
    steps that read fields from there on. `moves` says that some field is given away afterwards.
    `outer` is the one that makes this cell owned, being its field.
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
        self.last = _LastUses()
        trampoline(self.last.block(function.body, Live()))
        self.found: list[_Apart] = []
        self.makers: list[tuple[Step, Reg]] = []
        self.reads: list[Step] = []
        self.blocks_of_reads: dict[int, Block] = {}
        self._open: dict[Reg, _Apart] = {}  # by cell: where control is, it is apart
        self._parts: dict[Reg, _Apart] = {}  # by field
        trampoline(self._block(function.body, ()))

    def _block(self, block: Block, waiting: tuple[_Apart, ...]) -> Recursive[tuple[_Apart, ...]]:
        begun = len(self.found)
        for item in block.items:
            if isinstance(item, Choice):
                waiting = yield self._choice(item, waiting)
            elif item.name in _READS:
                waiting = self._read(item, block, waiting)
            elif item.name == "cell_new":
                waiting = self._make(item, waiting)
                self._note_moves(item)
            else:
                self._note_moves(item)
        for apart in self.found[begun:]:
            if apart.block is block and apart.at is not None:
                del self._open[apart.cell]
        return waiting

    def _choice(self, choice: Choice, waiting: tuple[_Apart, ...]) -> Recursive[tuple[_Apart, ...]]:
        left = set(waiting)
        for index, block in enumerate(choice.blocks):
            own, begun = waiting, None
            if choice.is_switch and id(block) in self.last.blocks:
                begun = self._begin(choice.on, choice.layout + index, block, None)
                own = self._wait(begun, own)
            behind = yield self._block(block, own)
            if begun is not None:
                del self._open[begun.cell]
            if not block.ends:
                left.intersection_update(behind)
        return tuple(apart for apart in waiting if apart in left)

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


class _LastUses:
    """Finds in a backward walk the arms of choices behind whose start the matched cell is only read
    field by field, and the reads of fields behind which their cell is.
    """

    def __init__(self) -> None:
        self.blocks: set[int] = set()
        self.reads: set[int] = set()
        self._matched: dict[int, Reg] = {}

    def block(self, block: Block, live: Live) -> Recursive[None]:
        for item in reversed(block.items):
            if isinstance(item, Choice):
                if item.is_switch:
                    self._matched.update((id(b), item.on) for b in item.blocks)
                joins = set(item.joins)
                yield walk_blocks(item.blocks, live, joins, (item.on,), self.block)
                continue
            regs = [role.reg for role in roles(item.operands)]
            if item.name in _READS:
                if regs[1] not in live:
                    self.reads.add(id(item))
                regs = []
            live.remove(r.reg for r in roles(item.operands) if isinstance(r, Def))
            live.add(regs)
        matched = self._matched.get(id(block))
        if matched is not None and matched not in live:
            self.blocks.add(id(block))


def _take_apart(apart: _Apart, layout: Layout, dropped: set[int]) -> None:
    """Put the instruction that takes a cell apart before the steps that read it, which go."""
    parts: dict[int, Reg] = {}
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


def _settle_roots(reads: Iterable[Step]) -> None:
    """Let each borrowed field depend on the owned register next to it; parents come first."""
    for step in reads:
        target, source = step.operands[:2]
        if isinstance(target, Def) and isinstance(source, Use) and target.reg.borrowed:
            parent = source.reg
            target.reg.root = parent.root if parent.borrowed and parent.root else parent
