"""From linear code with places to the functions of a program: labels, bank sizes, line table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from relayvm.base.diagnostics import InternalError
from relayvm.base.source import Source, Span
from relayvm.base.trampoline import Recursive, trampoline
from relayvm.compiler.lower.linear import (
    Arg,
    Block,
    Choice,
    Def,
    LinearFunction,
    Operand,
    Reg,
    Step,
    Take,
    Use,
)
from relayvm.compiler.lower.registers import Places, allocate_registers, bank_of
from relayvm.compiler.lower.turns import order_turns
from relayvm.ir.types import TensorType
from relayvm.vm.program import FunctionCode, Instr, Layout, LayoutKind, Line, SourceText


class SourceTable:
    """The sources that the line table points into, numbered as they are first met."""

    def __init__(self) -> None:
        self.texts: list[SourceText] = []
        self._numbers: dict[Source, int] = {}

    def number(self, source: Source) -> int:
        """Return the number of a source."""
        if source not in self._numbers:
            self._numbers[source] = len(self.texts)
            self.texts.append(SourceText(source.name, source.text))
        return self._numbers[source]


def emit_bytecode(
    functions: Mapping[str, LinearFunction], layouts: list[Layout], sources: SourceTable
) -> tuple[tuple[FunctionCode, ...], list[Layout]]:
    """Return the functions in order, and the layouts with the functions of closures filled in."""
    numbers = {name: index for index, name in enumerate(functions)}
    codes = tuple(_Emitter(f, numbers, sources).emit() for f in functions.values())
    settled = [
        replace(row, function=numbers[row.name]) if row.kind is LayoutKind.CLOSURE else row
        for row in layouts
    ]
    return codes, settled


class _Emitter:
    def __init__(
        self, function: LinearFunction, numbers: Mapping[str, int], sources: SourceTable
    ) -> None:
        self.function = function
        self.numbers = numbers
        self.sources = sources
        order_turns(function)
        self.places: Places = allocate_registers(function)
        self.code: list[Instr] = []
        self.lines: list[Line] = []
        self.last: tuple[int, int, int] | None = None
        self.labels = 0

    def emit(self) -> FunctionCode:
        trampoline(self.block(self.function.body))
        if not self.function.body.ends:
            raise InternalError(f"function `{self.function.name}` falls off its end")
        sizes = self.places.sizes
        return FunctionCode(
            self.function.name,
            "".join(bank_of(p) for p in self.function.params),
            self.function.results,
            sizes["w"],
            sizes["o"],
            sizes["b"],
            tuple(self.code),
            tuple(self.lines),
            self.register_names(),
        )

    def register_names(self) -> tuple[tuple[str, str], ...]:
        """Name the registers that stand for one variable all through the function.

        Traps show values by these names, so a place that others use later has none. A word has its
        dtype behind its name if it is a parameter: only these are certain to be written.
        """
        holders: dict[str, list[Reg]] = {}
        for reg, place in self.places.names.items():
            holders.setdefault(place, []).append(reg)
        names = {}
        for place, regs in holders.items():
            first = regs[0]
            if not first.name or any(r.name != first.name for r in regs):
                continue
            names[place] = first.name
            if first.kind == "w" and first in self.function.params:
                assert isinstance(first.type, TensorType)
                names[place] += f": {first.type.dtype}"
        return tuple(sorted(names.items()))

    def block(self, block: Block) -> Recursive[None]:
        for item in block.items:
            self.mark(item.span)
            if isinstance(item, Choice):
                yield self.choice(item)
            else:
                self.step(item)

    def mark(self, span: Span | None) -> None:
        if span is None:
            return
        line, column = span.source.line_column(span.begin)
        place = (self.sources.number(span.source), line, column)
        if place != self.last:
            self.last = place
            self.lines.append(Line(len(self.code), *place))

    def step(self, step: Step) -> None:
        operands = list(step.operands)
        if step.callee:
            operands[0] = self.numbers[step.callee]
        self.code.append(Instr(step.name, tuple(self.operand(o) for o in operands)))

    def operand(self, operand: Operand) -> int | str | tuple[str, ...]:
        if isinstance(operand, tuple):
            return tuple(str(self.operand(o)) for o in operand)
        if isinstance(operand, (Use, Take, Arg, Def)):
            return self.places.names[operand.reg]
        return operand

    def choice(self, choice: Choice) -> Recursive[None]:
        end = self.label()
        starts = [self.label() for _ in choice.blocks]
        on = self.places.names[choice.on]
        if choice.is_switch:
            self.code.append(Instr("switch_tag", (on, choice.layout, tuple(starts))))
        else:
            self.code.append(Instr("branch_false", (on, starts[1])))
        reaches_end = False
        for index, (start, block) in enumerate(zip(starts, choice.blocks)):
            if choice.is_switch or index == 1:
                self.code.append(Instr("label", (start,)))
            yield self.block(block)
            if not block.ends:
                reaches_end = True
                if index + 1 < len(choice.blocks):
                    self.code.append(Instr("goto", (end,)))
        if reaches_end:
            self.code.append(Instr("label", (end,)))

    def label(self) -> str:
        self.labels += 1
        return f"L{self.labels}"
