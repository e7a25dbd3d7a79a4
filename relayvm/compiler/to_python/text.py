"""Pieces of Python text: terms that wait for their place, suites of statements, names."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Union

import numpy as np

# How tightly the parts of a term hold together.
ATOM, POSTFIX, OPERATOR, LOOSE = range(4)
LONGEST = 72


@dataclass(frozen=True, slots=True)
class Term:
    """An expression as text. What is no atom must be evaluated in its turn."""

    text: str
    level: int = ATOM

    @property
    def tight(self) -> str:
        """The text as an operand of an operator or of a postfix."""
        return self.text if self.level <= POSTFIX else f"({self.text})"

    @property
    def loose(self) -> str:
        """The text as an argument."""
        return self.text


@dataclass(frozen=True, slots=True)
class AgainLine:
    """A call of the function itself in tail position: how it is written is known at the end."""

    args: tuple[str, ...]


Line = Union[str, AgainLine, "Suite"]


@dataclass(slots=True, eq=False)
class Suite:
    """Statements of one indentation; a flat one has that of the suite around it.

    `level` counts the choices around it in the same function, `depth` all that it is indented by.
    """

    lines: list[Line] = field(default_factory=list)
    flat: bool = False
    level: int = 0
    depth: int = 0

    def add(self, line: Line) -> None:
        """Add one statement."""
        self.lines.append(line)


def walk(suite: Suite) -> Iterator[tuple[Suite, int, int]]:
    """Yield the place of each line that is no suite, with its depth, in order."""
    stack: list[tuple[Suite, int, int]] = [(suite, 0, 0)]
    while stack:
        inside, index, depth = stack.pop()
        if index == len(inside.lines):
            continue
        stack.append((inside, index + 1, depth))
        line = inside.lines[index]
        if isinstance(line, Suite):
            stack.append((line, 0, depth if line.flat else depth + 1))
        else:
            yield inside, index, depth


class Names:
    """Hands out names that differ from each other and from those of an outer scope."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self.taken = set(taken)
        self.counts: dict[str, int] = {}

    def new(self, wanted: str) -> str:
        """Return a name like the wanted one."""
        base = re.sub(r"\W", "_", wanted) or "v"
        if base[0].isdigit() or base == "_":
            base = "v" + base.strip("_")
        name = base
        while name in self.taken or keyword.iskeyword(name):
            self.counts[base] = self.counts.get(base, 0) + 1
            name = f"{base}_{self.counts[base]}"
        self.taken.add(name)
        return name


def joined(terms: Iterable[Term]) -> str:
    """Return terms as arguments."""
    return ", ".join(term.loose for term in terms)


def tuple_text(parts: list[str]) -> str:
    """Return the text of a tuple."""
    return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"


def scalar_text(value: Any) -> str:
    """Return a scalar of numpy as text that gives the same bits."""
    name = value.dtype.name
    if value.dtype.kind == "b":
        return f"np.bool_({bool(value)})"
    if value.dtype.kind in "iu":
        return f"np.{name}({int(value)})"
    if not np.isfinite(value):
        return f'np.{name}("{float(value)}")'
    if value == 0:
        return f"np.{name}({'-0.0' if np.signbit(value) else '0'})"
    short = np.format_float_positional(value, trim="-")
    if len(short) > 12:
        short = np.format_float_scientific(value, trim="-")
    same = value.dtype.type(float(short)).tobytes() == value.tobytes()
    return f"np.{name}({short if same else repr(float(value))})"
