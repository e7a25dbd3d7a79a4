"""Shows a program at work: each instruction before it runs, then the values it wrote, on stderr."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from relayvm.base.dtypes import BY_CODE, BY_NAME, DType
from relayvm.base.narrow.arrays import readable
from relayvm.vm.assembly.disassemble import instruction_text
from relayvm.vm.convert import Converter, number_of_word
from relayvm.vm.file.codec import encode_code, register_slot
from relayvm.vm.isa import ISA, Kind
from relayvm.vm.library import ffi, keep_exception, lib
from relayvm.vm.program import FunctionCode, Instr, Program

TENSOR = 1
ELEMENTS = 6
INDENTS = 20
SHORT = {
    d.name.replace("uint", "u").replace("int", "i").replace("float", "f"): d.name
    for d in BY_NAME.values()
}
WRITES = frozenset({"write", "fill", "borrow"})
WRITTEN_LISTS = frozenset({"fields_out", "results", "kernel_outputs"})


@dataclass(frozen=True, slots=True)
class Written:
    """A register that an instruction writes, and the dtype of the word in it where it is known."""

    register: str
    slot: int
    dtype: DType | None


@dataclass(frozen=True, slots=True)
class Shown:
    """An instruction ready to be shown."""

    text: str
    writes: tuple[Written, ...]


class Tracer:
    """Prints what one machine runs."""

    def __init__(self, converter: Converter) -> None:
        self.converter = converter
        self.program: Program = converter.executable.program()
        self.functions: dict[int, dict[int, Shown]] = {}
        self.run = 0
        self.waiting: list[tuple[int, Shown]] = []  # by depth: what has not written yet
        self.info = ffi.new("rvm_value_info *")

    def show(self, event: Any) -> None:
        """Print what the instruction before wrote in this frame, then the one that is next."""
        function, depth, slots = event.function, event.depth, event.slots
        if event.run != self.run:  # the last one ended; or trapped, and left what it was doing
            self.run = event.run
            self.waiting.clear()
        while self.waiting and self.waiting[-1][0] > depth:
            self.waiting.pop()
        lines = []
        indent = "  " * min(depth - 1, INDENTS)
        if self.waiting and self.waiting[-1][0] == depth:
            _, done = self.waiting.pop()
            for row in done.writes:
                lines.append(f"{indent}    {row.register} = {self.value(row, slots[row.slot])}\n")
        shown = self.function(function)[event.unit]
        lines.append(f"{indent}@{self.program.functions[function].name}: {shown.text}\n")
        self.waiting.append((depth, shown))
        sys.stderr.write("".join(lines))

    def function(self, number: int) -> dict[int, Shown]:
        """Return the instructions of a function by their units."""
        if number not in self.functions:
            code = self.program.functions[number]
            units = encode_code(code)[1]
            self.functions[number] = {
                unit: self.instruction(code, instr)
                for unit, instr in zip(units, code.code)
                if instr.name != "label"
            }
        return self.functions[number]

    def instruction(self, function: FunctionCode, instr: Instr) -> Shown:
        writes = tuple(
            Written(name, register_slot(function, name), dtype)
            for name, dtype in self.written(instr)
        )
        names = [self.name(o.kind, v) for o, v in zip(ISA[instr.name].operands, instr.operands)]
        remark = ", ".join(filter(None, names))
        return Shown(instruction_text(instr) + (f"  ; {remark}" if remark else ""), writes)

    def name(self, kind: Kind, value: Any) -> str:
        """Return the name of what an operand stands for, if it has one."""
        if kind.name == "function":
            return f"@{self.program.functions[value].name}"
        if kind.name == "kernel":
            return str(self.program.kernels[value].name)
        return self.program.layouts[value].name if kind.table == "layouts" else ""

    def written(self, instr: Instr) -> Iterator[tuple[str, DType | None]]:
        """Yield the registers that an instruction writes, with dtypes of words."""
        dtypes: Sequence[DType | None] = ()
        for operand, value in zip(ISA[instr.name].operands, instr.operands):
            kind = operand.kind
            if kind.access in WRITES:
                yield str(value), BY_NAME.get(SHORT.get(instr.name.rpartition("_")[2], ""))
            elif kind.name == "kernel":
                outputs = self.program.kernels[int(str(value))].signature.outputs
                dtypes = [o.dtype for o in outputs]
            elif kind.table == "layouts":
                fields = self.program.layouts[int(str(value))].dtypes
                dtypes = [BY_NAME.get(name) for name in fields]
            elif kind.name in WRITTEN_LISTS and isinstance(value, tuple):
                for i, register in enumerate(value):
                    yield register, dtypes[i] if i < len(dtypes) else None

    def value(self, row: Written, word: int) -> str:
        """Return a register's content as short text."""
        if row.register[0] == "w":
            return repr(number_of_word(word, row.dtype or BY_NAME["int64"]))
        if not word:
            return "empty"
        lib.rvm_value_inspect(word, self.info)
        if self.info.kind != TENSOR:
            layout = self.converter.layout(self.info.layout)
            return f"{layout.name} of {layout.type_name}" if layout.type_name else layout.name
        return self.tensor()

    def tensor(self) -> str:
        info = self.info
        dims = ", ".join(str(info.dims[i]) for i in range(info.rank))
        dtype = BY_CODE[info.dtype]
        count = min(info.elements, ELEMENTS)
        first: list[Any] = []
        if count:
            data = ffi.buffer(info.data, count * dtype.itemsize_bytes)
            raw = np.frombuffer(data, dtype.numpy)
            first = readable(raw).tolist()
        items = ", ".join(f"{v:.6g}" if isinstance(v, float) else str(v) for v in first)
        more = ", ..." if info.elements > count else ""
        return f"Tensor[({dims}), {dtype.name}] {items}{more}".rstrip()


@ffi.def_extern(name="relayvm_trace", error=1, onerror=keep_exception)  # type: ignore[untyped-decorator, unused-ignore]
def _trace(context: Any, event: Any) -> int:
    ffi.from_handle(context).show(event)
    return 0
