"""Turns the machine's record of a trap into a `Trap`: source line, stack, variables by name."""

from __future__ import annotations

import re
from typing import Any

from relayvm.base.abi import TRAP_CODES, TrapCode, named_trap
from relayvm.base.diagnostics import Diagnostic, Note, Trap
from relayvm.base.dtypes import BY_CODE, BY_NAME
from relayvm.base.source import Source, Span
from relayvm.vm.convert import Converter, number_of_word
from relayvm.vm.library import ffi, lib

WORD = 0
TENSOR = 1
DEFINITION = re.compile(r"\s*def (@[\w/]+)")
OPERATOR = re.compile(r"([a-z_][\w.]*)\(")
# What operands of an operator's call may be; all else is told by the machine itself.
_OF_OPERATORS = ("run-time-shape", "bad-value", "index-out-of-range")
TOKEN = re.compile(r"[@%]?[\w.]+|\S")


def trap_error(converter: Converter, record: Any) -> Trap:
    """Return the error for a machine's last trap."""
    code, meaning = TRAP_CODES.get(TrapCode(record.code), TRAP_CODES[TrapCode.BAD_VALUE])
    message = ffi.string(record.message).decode(errors="replace") or meaning
    places = _Places(converter)
    stack: list[str] = []
    span = None
    for i in range(record.num_frames):
        if i == record.num_inner and record.skipped:
            stack.append(f"... {record.skipped:,} more ...")
        frame = record.frames[i]
        text, place = places.frame(frame.function, frame.unit)
        stack.append(text)
        span = span or (place if i == 0 else None)
    name = _operator_at(span)
    if name and code == "bad-value" and message == meaning:
        message = f"`{name}` has no result for the values of its operands"
    elif code in _OF_OPERATORS:
        kernel = "" if record.kernel == ffi.NULL else ffi.string(record.kernel).decode()
        message = named_trap(name or kernel, message)
    notes = _variables(converter, record)
    return Trap(Diagnostic(code, message, span, notes=notes), tuple(stack))


def _operator_at(span: Span | None) -> str:
    """Return the name of the operator whose call begins at a place of a text, else ""."""
    found = OPERATOR.match(span.source.text, span.begin) if span else None
    return found[1] if found else ""


class _Places:
    """Finds source places of instructions; sources are read once."""

    def __init__(self, converter: Converter) -> None:
        self.program = converter.program
        self.sources: dict[int, Source] = {}
        self.definitions: dict[int, list[tuple[int, str]]] = {}
        self.place = ffi.new("rvm_place *")
        self.info = ffi.new("rvm_function_info *")

    def frame(self, function: int, unit: int) -> tuple[str, Span | None]:
        """Return the line of a stack trace and the span, if the text of the source is there."""
        lib.rvm_program_function(self.program, function, self.info)
        name = "@" + ffi.string(self.info.name).decode()
        lib.rvm_program_place(self.program, function, unit, self.place)
        if not self.place.found:
            return name, None
        source = self.source(self.place.source)
        line, column = self.place.line, self.place.column
        written = self.written_in(self.place.source, line)
        if written and not (name + "_").startswith(written + "_"):
            name = f"{written}, inlined into {name}"
        return f"{name} ({source.name}:{line}:{column})", _span(source, line, column)

    def written_in(self, number: int, line: int) -> str:
        """Return the name of the definition in which a line stands; "" if the text is not there.

        Code that was inlined runs in another function than the one it was written in. Names that
        the compiler makes (of closures, cases, instances) begin with that of their definition.
        """
        if number not in self.definitions:
            lines = self.source(number).text.splitlines()
            found = ((i, DEFINITION.match(text)) for i, text in enumerate(lines, 1))
            self.definitions[number] = [(i, m[1]) for i, m in found if m]
        before = [name for start, name in self.definitions[number] if start <= line]
        return before[-1] if before else ""

    def source(self, number: int) -> Source:
        if number not in self.sources:
            name = ffi.string(lib.rvm_program_source_name(self.program, number)).decode()
            text = ffi.string(lib.rvm_program_source_text(self.program, number)).decode()
            self.sources[number] = Source(name, text)
        return self.sources[number]


def _span(source: Source, line: int, column: int) -> Span | None:
    if not 1 <= line <= len(source.line_starts) or not source.text:
        return None
    text = source.line(line)
    if not 1 <= column <= len(text):
        return None
    token = TOKEN.match(text, column - 1)
    begin = source.line_starts[line - 1] + column - 1
    return Span(source, begin, begin + (len(token.group()) if token else 1))


def _variables(converter: Converter, record: Any) -> tuple[Note, ...]:
    notes = []
    for i in range(record.num_registers):
        row = record.registers[i]
        name, _, dtype = ffi.string(row.name).decode().partition(": ")
        text = _value_text(converter, row, dtype)
        if text:
            notes.append(Note(f"{name} is {text}"))
    return tuple(notes)


def _value_text(converter: Converter, row: Any, dtype: str) -> str:
    if row.kind == WORD:
        if dtype not in BY_NAME:
            return ""
        return repr(number_of_word(row.word, BY_NAME[dtype]))
    if row.kind == TENSOR:
        dims = ", ".join(str(row.dims[k]) for k in range(row.rank))
        return f"Tensor[({dims}), {BY_CODE[row.dtype].name}]"
    layout = converter.layout(row.layout)
    return f"{layout.name} of {layout.type_name}" if layout.type_name else layout.name
