"""Writes the LLVM IR of one function: values, blocks, calls of C, and what happens at a trap.

Registers are `alloca`s that LLVM turns into values. Which owned registers are full is known at each
instruction, as the verifier has proved it, so a trap stores and releases just these.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from relayvm.vm.isa import ISA, Instruction
from relayvm.vm.jit.host import Host
from relayvm.vm.program import FunctionCode, Instr, Program

PENDING = -(1 << 63)
KNOWN_TRAP = "-1"
# Arguments beyond these go through the machine: all CPUs have registers for so many besides machine
# and state, and LLVM's `musttail` has lost arguments on the stack. So do results beyond two words:
# four in registers end in a crash on x86-64.
MOST_ARGUMENTS = 4
MOST_RESULTS = 2
INVARIANT = ", !invariant.load !0"


def result_type(results: int) -> str:
    """Return what a function of so many results returns: at most two, then the state."""
    words = min(results, MOST_RESULTS)
    return "{ " + ", ".join(["i64"] * (words + 1)) + " }" if words else "i64"


def parameter_registers(params: str) -> list[str]:
    """Return the register in which each parameter arrives: those of a class stand in order."""
    counts = dict.fromkeys("wob", 0)
    registers = []
    for letter in params:
        registers.append(f"{letter}{counts[letter]}")
        counts[letter] += 1
    return registers


class Writer:
    """The text of one function on its way; `full` are its full owned registers at this place, None
    where control never comes."""

    def __init__(
        self,
        program: Program,
        index: int,
        host: Host,
        inline: bool = True,
        first_block: int | None = None,
        texts: Mapping[int, str] | None = None,
    ) -> None:
        self.program = program
        self.index = index
        self.code: FunctionCode = program.functions[index]
        self.host = host
        self.inline = inline
        self.first_block = first_block  # where its blocks are counted, in instrumented code
        self.texts = texts or {}  # functions of kernels, by number
        self.called: set[int] = set()  # those of them that are called
        self.lines: list[str] = []
        self.cold: list[str] = []
        self.count = 0
        self.repeats = False  # whether the block `again` is written
        self.list_words = 1
        self.places: set[tuple[int, int]] = set()  # lists of numbers that calls of kernels take
        self.shapes: set[tuple[int, ...]] = set()  # dims of tensors that are made
        self.locals: set[str] = set()
        self.leaving: dict[tuple[str, ...], str] = {}  # blocks by the registers that they store
        self.full: set[str] | None = set()
        self.unit = 0
        self.next_unit = 0
        self.parameters = parameter_registers(self.code.params)
        named = {register for register, _ in self.code.register_names}
        self.named_words = [r for r in self.parameters if r[0] == "w" and r in named]

    def empty(self, registers: set[str]) -> None:
        """Note that owned registers are empty from here on."""
        assert self.full is not None
        self.full = self.full - registers

    # --- text -------------------------------------------------------------------------------------

    def name(self, stem: str = "v") -> str:
        """Return a name that is free."""
        self.count += 1
        return f"{stem}{self.count}"

    def do(self, text: str) -> None:
        """Append an instruction without a value."""
        self.lines.append(f"  {text}")

    def value(self, text: str) -> str:
        """Append an instruction; return its value."""
        self.count += 1
        self.lines.append(f"  %v{self.count} = {text}")
        return f"%v{self.count}"

    def block(self, label: str) -> None:
        """Begin a block; the one before must have ended."""
        self.lines.append(f"{label}:")

    def load(self, register: str) -> str:
        """Return the word in a register of the bytecode."""
        return self.value(f"load i64, ptr %{register}")

    def store(self, register: str, word: str) -> None:
        """Set a register of the bytecode."""
        self.do(f"store i64 {word}, ptr %{register}")

    def address(self, base: str, offset: int) -> str:
        """Return a pointer so many bytes behind another."""
        return self.value(f"getelementptr i8, ptr {base}, i64 {offset}") if offset else base

    def of_machine(self, field: str, kind: str, suffix: str = INVARIANT) -> str:
        """Return a field of the machine."""
        place = self.address("%m", self.host.offsets[field])
        return self.value(f"load {kind}, ptr {place}{suffix}")

    def local(self, name: str) -> str:
        """Return a variable of the function, which holds a word."""
        self.locals.add(name)
        return f"%{name}"

    def pointer(self, word: str) -> str:
        """Return the pointer that a word is."""
        return self.value(f"inttoptr i64 {word} to ptr")

    def branch(self, condition: str, yes: str, no: str, likely: bool | None = None) -> None:
        """End the block; `likely` says whether control mostly goes to `yes`."""
        weights = {None: "", True: ", !prof !1", False: ", !prof !2"}[likely]
        self.do(f"br i1 {condition}, label %{yes}, label %{no}{weights}")

    def expect(self, condition: str, unlikely: str) -> None:
        """Go on where a condition holds, else to the block `unlikely`."""
        on = self.name("on")
        self.branch(condition, on, unlikely, likely=True)
        self.block(on)

    def aside(self, label: str) -> _Aside:
        """Write a block away from the others: `with` its instructions."""
        return _Aside(self, label)

    # --- calls of C -------------------------------------------------------------------------------

    def call(self, index: int, result: str, arguments: Iterable[str], cold: bool = False) -> str:
        """Call a function of the machine's table; return its value, if it has one."""
        table = self.of_machine("calls", "ptr")
        place = self.address(table, 8 * index)
        function = self.value(f"load ptr, ptr {place}{INVARIANT}")
        text = f"call {result} {function}({', '.join(['ptr %m', *arguments])})"
        text += " cold" if cold else ""
        if result == "void":
            self.do(text)
            return ""
        return self.value(text)

    def helper(self, name: str, result: str, *arguments: str) -> str:
        """Call a function of native.c, which is done rarely."""
        return self.call(self.host.calls[name], result, arguments, cold=True)

    def list_place(self, index: int) -> str:
        """Return the address of a word of the list that calls of C share."""
        self.list_words = max(self.list_words, index + 1)
        return self.address("%list", 8 * index)

    def store_list(self, registers: Sequence[str], first: int = 0) -> None:
        """Put registers into that list."""
        for i, register in enumerate(registers):
            word = self.load(register)
            self.do(f"store i64 {word}, ptr {self.list_place(first + i)}")

    def load_list(self, registers: Sequence[str], first: int = 0) -> None:
        """Set registers from that list."""
        for i, register in enumerate(registers):
            word = self.value(f"load i64, ptr {self.list_place(first + i)}")
            self.store(register, word)

    def body(self, instr: Instr, cold: bool = False) -> None:
        """Do an instruction by a call of its C body: the lowering that every one has."""
        row = ISA[instr.name]
        arguments, after = self._arguments(row, instr.operands)
        if not row.machine:
            arguments.insert(0, "")
        result = "i32" if row.traps else "void"
        code = self._call_body(row, result, [a for a in arguments if a], cold)
        if row.traps:
            self.expect(self.value(f"icmp eq i32 {code}, 0"), self.trap(code))
        for registers, is_list in after:
            if is_list:
                self.load_list(registers)
            else:
                self.store(registers[0], self.value("load i64, ptr %out"))

    def _call_body(self, row: Instruction, result: str, arguments: list[str], cold: bool) -> str:
        if row.machine:
            return self.call(row.opcode, result, arguments, cold)
        table = self.of_machine("calls", "ptr")
        place = self.address(table, 8 * row.opcode)
        function = self.value(f"load ptr, ptr {place}{INVARIANT}")
        self.do(f"call void {function}({', '.join(arguments)})")
        return ""

    def _arguments(
        self, row: Instruction, operands: Sequence[Any]
    ) -> tuple[list[str], list[tuple[Sequence[str], bool]]]:
        arguments: list[str] = []
        after: list[tuple[Sequence[str], bool]] = []
        for operand, value in zip(row.operands, operands):
            kind = operand.kind
            if kind.group == "list":
                if kind.name == "fields_out":
                    after.append((value, True))
                    self.list_place(max(0, len(value) - 1))
                else:
                    self.store_list(value)
                arguments += ["ptr %list", f"i32 {len(value)}"]
            elif kind.access in ("write", "fill", "borrow"):
                arguments.append("ptr %out")
                after.append(((value,), False))
            elif kind.group == "register":
                arguments.append(f"i64 {self.load(value)}")
            else:
                arguments.append(f"{'i64' if kind.name == 'imm64' else 'i32'} {value}")
        return arguments, after

    # --- traps ------------------------------------------------------------------------------------

    def trap(self, code: str, unit: int | None = None) -> str:
        """Return a block that leaves the function by a trap; `code` is 0 below a call that did."""
        label = self.name("trap")
        registers = sorted(self.full or ())
        if code != "0":
            registers += self.named_words
        leaving = self.leaving.setdefault(tuple(registers), f"leave{len(self.leaving)}")
        with self.aside(label):
            at = self.unit if unit is None else unit
            self.do(f"store i32 {at}, ptr %unit")
            self.do(f"store i32 {code}, ptr %code")
            self.do(f"br label %{leaving}")
        return label

    def write_leaving(self) -> None:
        """Write the blocks that traps share where the same registers are full."""
        for registers, label in self.leaving.items():
            with self.aside(label):
                if registers:
                    slots = self.of_machine("slots", "ptr")
                for register in registers:
                    place = self.address(slots, 8 * self.slot(register))
                    self.do(f"store i64 {self.load(register)}, ptr {place}")
                unit = self.value("load i32, ptr %unit")
                code = self.value("load i32, ptr %code")
                state = self.value("load i64, ptr %state")
                where = (f"i32 {self.index}", f"i32 {unit}", f"i32 {code}", f"i64 {state}")
                self.helper("trapped", "void", *where)
                self.do("br label %pending")

    def slot(self, register: str) -> int:
        """Return the number of a register in the frame that an interpreter would have."""
        bank = {"w": 0, "o": self.code.words, "b": self.code.words + self.code.owned}
        return bank[register[0]] + int(register[1:])


class _Aside:
    def __init__(self, writer: Writer, label: str) -> None:
        self.writer = writer
        self.label = label

    def __enter__(self) -> None:
        self.kept = self.writer.lines
        self.writer.lines = [f"{self.label}:"]

    def __exit__(self, *_: object) -> None:
        self.writer.cold += self.writer.lines
        self.writer.lines = self.kept
