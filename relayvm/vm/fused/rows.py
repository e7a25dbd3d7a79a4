"""The table of fused instructions: one row a sequence of instructions that runs in one dispatch.

A row is its expansion. The loader writes the row's opcode over that of the first instruction and
leaves all else in place, so that a unit of the code means the same in both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from relayvm.base.dtypes import DTYPES, NUMERIC, DType
from relayvm.base.process import lazy_property
from relayvm.vm.isa import (
    ARITHMETIC,
    BITWISE,
    BY_OPCODE,
    COMPARISONS,
    ISA,
    SHIFTS,
    Instruction,
    word_name,
)


@dataclass(frozen=True, slots=True)
class Part:
    """An instruction of a row and its operands, each a name or a tuple of names.

    Two registers with one name must be the same. The first letter of a name in a list whose
    registers have classes is the class: `w`, `o` or `b`; `x` is any. A list that is `None` may be
    of any length. `unit` is where the part begins, counted from the first one.
    """

    instruction: Instruction
    operands: tuple[str | tuple[str, ...] | None, ...]
    unit: int

    @property
    def num_units(self) -> int:
        """Units of the part, without the items of a list of any length."""
        count = 1
        for operand, value in zip(self.instruction.operands, self.operands):
            count += operand.kind.units
            if operand.kind.group == "list":
                count += 1 + len(value or ())
        return count

    def items(self) -> Iterator[tuple[str, str, int]]:
        """Yield name, kind and unit of each operand and each item of a list, in order."""
        unit = self.unit + 1
        for operand, value in zip(self.instruction.operands, self.operands):
            if operand.kind.group != "list":
                assert isinstance(value, str)
                yield value, operand.kind.name, unit
                unit += operand.kind.units
                continue
            unit += 1
            for name in value or ():
                yield name, operand.kind.name, unit
                unit += 1


@dataclass(frozen=True)
class Fused:
    """A row: its opcode, which follows those of the instructions, and its parts.

    `repeats` says that the last part is a tail call of the function itself; `in_place` that its
    arguments all stand where they must.
    """

    opcode: int
    name: str
    parts: tuple[Part, ...]
    repeats: bool = False
    in_place: bool = False

    @property
    def first(self) -> int:
        """The opcode that it takes the place of."""
        return self.parts[0].instruction.opcode

    @lazy_property
    def text(self) -> str:
        """The expansion as assembly text."""
        lines = []
        for part in self.parts:
            names = [_shown(value) for value in part.operands]
            lines.append(f"{part.instruction.name} {', '.join(names)}")
        return "; ".join(lines) + (
            " in place" if self.in_place else " to itself" if self.repeats else ""
        )


def _shown(value: str | tuple[str, ...] | None) -> str:
    if value is None:
        return "(...)"
    return value if isinstance(value, str) else f"({', '.join(value)})"


FUSED: dict[str, Fused] = {}

# Dtypes whose words need no conversion, so that a dispatch is much of what an operation costs.
_PLAIN = tuple(d for d in DTYPES if d in NUMERIC and not (d.is_float and d.itemsize_bytes < 4))
# Dtypes of counters, indices and accumulators: these get the longer rows.
_COMMON = tuple(d for d in _PLAIN if d.short in ("i32", "i64", "f32", "f64"))
_MOST_ITEMS = 3


def _row(*parts: str, repeats: bool = False, in_place: bool = False) -> None:
    """Add a row; a part is the name of an instruction and its operands: `call f (w0) (x)`."""
    parsed: list[Part] = []
    unit = 0
    for text in parts:
        name, *operands = text.replace(", ", ",").split()
        part = Part(ISA[name], tuple(_operand(o) for o in operands), unit)
        assert len(part.operands) == len(part.instruction.operands), text
        parsed.append(part)
        unit += part.num_units
    name = "__".join(_name(part) for part in parsed)
    repeats = repeats or in_place
    name += "_again" if repeats else ""
    assert name not in FUSED, name
    FUSED[name] = Fused(len(BY_OPCODE) + len(FUSED), name, tuple(parsed), repeats, in_place)


def _operand(text: str) -> str | tuple[str, ...] | None:
    if text == "(...)":
        return None
    return tuple(filter(None, text[1:-1].split(","))) if text.startswith("(") else text


def _name(part: Part) -> str:
    """Name a part by its instruction and the classes of the items of its first list."""
    first = next((v for v in part.operands if isinstance(v, tuple)), None)
    if first is None:
        return part.instruction.name
    return f"{part.instruction.name}_{''.join(n[0] for n in first) or 'none'}"


def _integers(dtypes: Sequence[DType]) -> tuple[DType, ...]:
    return tuple(d for d in dtypes if d.is_integer)


def _binary(dtype: DType) -> list[str]:
    names = [*ARITHMETIC, *((*BITWISE, *SHIFTS) if dtype.is_integer else ())]
    return [word_name(name, dtype) for name in names]


def _branches() -> None:
    for dtype in _PLAIN:
        for name in COMPARISONS:
            compare = word_name(name, dtype)
            _row(f"{compare} x a b", "branch_false x l")
            _row("word t k", f"{compare} x a t", "branch_false x l")


def _words() -> None:
    for dtype in _PLAIN:
        for name in _binary(dtype):
            _row("word t k", f"{name} x a t")
    for dtype in _COMMON:
        add, multiply = word_name("add", dtype), word_name("multiply", dtype)
        for first in (add, multiply):
            _row(f"{multiply} x a b", f"{first} y x c")
            _row("word t k", f"{multiply} x a t", f"{first} y x c")


def _loops() -> None:
    again = "tail_call f (...)"
    _row(again, in_place=True)
    for arguments in _classes("wo", _MOST_ITEMS):
        if arguments != "()":
            _row(f"tail_call f {arguments}", repeats=True)
    for dtype in _COMMON:
        for name in _binary(dtype):
            _row(f"{name} x a b", again, in_place=True)
        for operation in ("add", "subtract"):
            name = word_name(operation, dtype)
            _row("word t k", f"{name} x a t", again, in_place=True)


def _classes(letters: str, most: int) -> Iterator[str]:
    """Yield lists of names of all classes, of up to so many items."""
    for count in range(most + 1):
        for chosen in product(letters, repeat=count):
            yield f"({','.join(f'{letter}{i}' for i, letter in enumerate(chosen))})"


def _calls() -> None:
    for arguments in _classes("wob", _MOST_ITEMS):
        _row(f"call f {arguments} (...)")
    for arguments in _classes("wo", _MOST_ITEMS - 1):
        _row(f"call_closure c s {arguments} (...)")
        _row("retain c d", f"call_closure c s {arguments} (...)")
        _row(f"tail_call_closure c s {arguments}")
    for values in ("(x0)", "(x0,x1)"):
        _row(f"return {values}")
    for dtype in _COMMON:
        for name in _binary(dtype):
            _row(f"{name} x a b", "return (x)")
        for operation in ("add", "subtract"):
            name = word_name(operation, dtype)
            _row("word t k", f"{name} x a t", "call f (x) (...)")


def _cells() -> None:
    for fields in _classes("wo", _MOST_ITEMS):
        _row(f"cell_new d l {fields}")
        _row(f"cell_reuse d m l {fields}")
    for fields in _classes("x", _MOST_ITEMS):
        _row(f"cell_unpack s l {fields}")
        _row(f"cell_unpack_keep m s l {fields}")


_branches()
_words()
_loops()
_calls()
_cells()
