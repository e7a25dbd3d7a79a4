"""Linear code: machine instructions over virtual registers, in structured blocks.

Between Relay and bytecode. A register is assigned once on every path; a `Choice` is the only
branching, so lifetimes are found in one backward walk. Roles say what an instruction does with a
register.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Union

from relayvm.base.source import Span
from relayvm.ir.types import Type

WORD, OBJECT = "w", "o"


@dataclass(slots=True, eq=False)
class Reg:
    """A virtual register: a word, or an object that is owned or borrowed from `root` while that is
    held.

    A borrowed register without a root is a parameter lent by the caller or a constant: always
    alive.
    """

    kind: str
    name: str = ""
    type: Type | None = None
    borrowed: bool = False
    root: Reg | None = None
    is_param: bool = False
    # Says which was made first: where the order of registers matters it is the same in every run.
    number: int = field(default_factory=itertools.count().__next__, init=False)

    def __repr__(self) -> str:
        return f"%{self.name or id(self)}"

    @property
    def owner(self) -> Reg | None:
        """The owned register that keeps this object alive; None for words and for what is always
        alive.
        """
        reg: Reg | None = self
        while reg is not None and reg.borrowed:
            reg = reg.root
        return reg if reg is not None and reg.kind == OBJECT else None


@dataclass(frozen=True, slots=True)
class Use:
    """Reads a word, or lends an object for the length of the instruction."""

    reg: Reg


@dataclass(frozen=True, slots=True)
class Take:
    """Gives one count of an object away."""

    reg: Reg


@dataclass(frozen=True, slots=True)
class Arg:
    """An argument of a call: `Use` or `Take` once it is known how the callee holds its
    parameter.
    """

    reg: Reg


@dataclass(frozen=True, slots=True)
class Def:
    """Writes a register; an object arrives with one count unless the register is borrowed."""

    reg: Reg


Role = Union[Use, Take, Arg, Def]
Operand = Union[Role, int, str, "tuple[Operand, ...]"]


@dataclass(slots=True)
class Step:
    """One instruction. `callee` is the name of the function that a call names."""

    name: str
    operands: tuple[Operand, ...]
    span: Span | None = None
    callee: str = ""

    @property
    def ends(self) -> bool:
        """True if control does not go on behind this step."""
        return self.name in ENDS


ENDS = frozenset({"return", "tail_call", "tail_call_closure", "trap"})


@dataclass(slots=True)
class Choice:
    """A branch: on a bool word (blocks: true, false), or on the constructor of a cell (one block
    each).
    """

    on: Reg
    blocks: list[Block]
    span: Span | None = None
    layout: int = -1
    joins: list[Reg] = field(default_factory=list)

    @property
    def is_switch(self) -> bool:
        return self.layout >= 0

    @property
    def ends(self) -> bool:
        """True if control does not go on behind any of the blocks."""
        return all(block.ends for block in self.blocks)


@dataclass(slots=True)
class Block:
    """Instructions in order. `ends` is True if no path reaches the end of the block."""

    items: list[Step | Choice] = field(default_factory=list)
    ends: bool = False

    def add(self, item: Step | Choice) -> None:
        """Append an instruction, or a choice whose blocks are complete."""
        self.items.append(item)
        self.ends = item.ends


@dataclass(slots=True)
class LinearFunction:
    """One function of the machine. A closure body receives the closure as its first parameter."""

    name: str
    params: list[Reg]
    results: str
    body: Block
    owned_params: bool = False
    span: Span | None = None


def roles(operands: tuple[Operand, ...]) -> Iterator[Role]:
    """Yield the roles among operands, in order, lists included."""
    for operand in operands:
        if isinstance(operand, tuple):
            yield from roles(operand)
        elif isinstance(operand, (Use, Take, Arg, Def)):
            yield operand


def map_roles(operands: tuple[Operand, ...], change: Callable[[Role], Role]) -> tuple[Operand, ...]:
    """Return operands with changed roles, lists included."""
    result: list[Operand] = []
    for operand in operands:
        if isinstance(operand, tuple):
            result.append(map_roles(operand, change))
        elif isinstance(operand, (Use, Take, Arg, Def)):
            result.append(change(operand))
        else:
            result.append(operand)
    return tuple(result)


def steps(block: Block) -> Iterator[Step]:
    """Yield all steps of a block and its branches, in order."""
    pending = [iter(block.items)]
    while pending:
        for item in pending[-1]:
            if isinstance(item, Step):
                yield item
            else:
                pending.extend(iter(inner.items) for inner in reversed(item.blocks))
                break
        else:
            pending.pop()
