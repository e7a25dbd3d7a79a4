"""Reads the block of a function: register names, lines, labels and instructions."""

from __future__ import annotations

import re

from relayvm.base.abi import TrapCode
from relayvm.base.diagnostics import quantity
from relayvm.base.dtypes import DTYPES
from relayvm.vm.assembly.tokens import WORD_LIMIT, TextReader, Token
from relayvm.vm.isa import ISA, Kind
from relayvm.vm.program import Instr, Line, OperandValue

REGISTER = re.compile(r"[wob](0|[1-9][0-9]{0,4})")
IMMEDIATE = {"imm64": (-(1 << 63), 1 << 64), "imm32": (0, 1 << 32)}
LINE_LIMIT = 1 << 32


class CodeReader:
    """Collects what stands in one function; `banks` are the sizes of its banks of registers."""

    def __init__(self, reader: TextReader, banks: dict[str, int]) -> None:
        self.reader = reader
        self.banks = banks
        self.code: list[Instr] = []
        self.lines: list[Line] = []
        self.names: list[tuple[str, str]] = []
        self.labels: set[str] = set()
        self.uses: list[Token] = []

    def line(self) -> None:
        """Read one line of the block."""
        reader = self.reader
        token = reader.take("name", "an instruction")
        if reader.accept(":"):
            self.label(token)
        elif token.text == "line":
            numbers = [reader.number_below(LINE_LIMIT) for _ in range(3)]
            self.lines.append(Line(len(self.code), *numbers))
        elif token.text == "name":
            self.names.append((self.register(), reader.string()))
        elif token.text in ISA:
            self.instruction(token.text)
        else:
            reader.refuse(f"there is no instruction `{token.text}`", token)
        reader.end()

    def label(self, token: Token) -> None:
        if token.text in self.labels:
            self.reader.refuse(f"label `{token.text}` is here twice", token)
        self.labels.add(token.text)
        self.code.append(Instr("label", (token.text,)))

    def instruction(self, name: str) -> None:
        values: list[OperandValue] = []
        for operand in ISA[name].operands:
            if values:
                self.reader.expect(",")
            values.append(self.operand(operand.kind))
        self.code.append(Instr(name, tuple(values)))

    def operand(self, kind: Kind) -> OperandValue:
        reader = self.reader
        if kind.name == "labels":
            return tuple(reader.list_of(self.use))
        if kind.group == "list":
            return tuple(reader.list_of(self.register))
        if kind.group == "register":
            return self.register()
        if kind.group == "label":
            return self.use()
        if kind.group == "immediate":
            least, limit = IMMEDIATE[kind.name]
            value = reader.number_below(limit, least)
            return value - (1 << 64) if value >= 1 << 63 else value
        return self.index(kind)

    def index(self, kind: Kind) -> int:
        reader = self.reader
        text = reader.tokens[reader.at].text
        names: dict[str, int] = {}
        if kind.name == "dtype":
            names = {dtype.name: dtype.code for dtype in DTYPES}
        elif kind.name == "trap_code":
            names = {code.name: int(code) for code in TrapCode}
        if text in names:
            reader.at += 1
            return names[text]
        return reader.index(kind.mark) if kind.mark else reader.number_below(WORD_LIMIT)

    def register(self) -> str:
        token = self.reader.take("name", "a register")
        if not REGISTER.fullmatch(token.text):
            self.reader.refuse(f"`{token.text}` is not a register", token)
        size = self.banks[token.text[0]]
        if int(token.text[1:]) >= size:
            there = quantity(size, "register")
            self.reader.refuse(f"the function has {there} of this bank, not `{token.text}`", token)
        return token.text

    def use(self) -> str:
        token = self.reader.take("name", "a label")
        self.uses.append(token)
        return token.text

    def finish(self) -> None:
        """Refuse jumps to labels that are not there."""
        for token in self.uses:
            if token.text not in self.labels:
                self.reader.refuse(f"there is no label `{token.text}`", token)
