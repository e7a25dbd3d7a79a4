"""C text of the fused instructions: how the loader finds each, and the block that runs it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import accumulate

from relayvm.vm.fused.rows import FUSED, Fused, Part
from relayvm.vm.isa import BY_OPCODE

_CLASS_NUMBERS = {"w": 0, "o": 1, "b": 2}
# Lists whose items have classes: the operand that says which, and the test that asks it.
_CLASSED = {
    "call": ("callee", "PARAMETER"),
    "tail_call": ("callee", "PARAMETER"),
    "call_closure": ("type", "ARGUMENT"),
    "tail_call_closure": ("type", "ARGUMENT"),
    "cell_new": ("type", "FIELD"),
    "cell_reuse": ("type", "FIELD"),
}


def fused_rows() -> str:
    """Return the table of rows by the opcode that they begin with, those of more parts first.

    Tests are `{kind, unit, what}`: a unit that has this value, two units that are equal, an item
    of a list, by its number times 4, that has a class, a tail call that repeats its function.
    """
    tests: list[str] = []
    rows: list[str] = []
    begins = [0] * (len(BY_OPCODE) + 1)
    for row in sorted(FUSED.values(), key=_rank):
        own = list(_tests(row))
        rows.append(f"    {{{row.opcode}, {len(own)}, {len(tests)}}},\n")
        begins[row.first + 1] += 1
        tests += own
    starts = ", ".join(map(str, accumulate(begins)))
    firsts = ", ".join(str(row.first) for row in FUSED.values())
    names = "".join(f'    "{row.name}",\n' for row in FUSED.values())
    lines = "".join(f"    {test},\n" for test in tests)
    return (
        f"static const fused_test fused_tests[] = {{\n{lines}}};\n\n"
        f"static const fused_row fused_rows[RVM_NUM_FUSED] = {{\n{''.join(rows)}}};\n\n"
        f"static const uint16_t fused_begin[RVM_NUM_OPCODES + 1] = {{{starts}}};\n\n"
        f"static const char *const fused_names[RVM_NUM_FUSED] = {{\n{names}}};\n\n"
        f"const uint16_t fused_first[RVM_NUM_FUSED] = {{{firsts}}};\n"
    )


def _rank(row: Fused) -> tuple[int, ...]:
    return row.first, -len(row.parts), -row.in_place, -len(list(_tests(row)))


def _tests(row: Fused) -> Iterator[str]:
    seen: dict[str, int] = {}
    for part in row.parts:
        if part.unit:
            yield f"{{FUSED_UNIT, {part.unit}, {part.instruction.opcode}}}"
        yield from _count_tests(part)
        for name, kind, unit in part.items():
            if kind in ("imm64", "imm32", "label"):
                continue
            if name in seen:
                yield f"{{FUSED_SAME, {unit}, {seen[name]}}}"
            seen.setdefault(name, unit)
    if row.repeats:
        yield f"{{FUSED_REPEATS, {row.parts[-1].unit}, {int(row.in_place)}}}"


def _count_tests(part: Part) -> Iterator[str]:
    unit = part.unit + 1
    units: dict[str, int] = {}
    for operand, value in zip(part.instruction.operands, part.operands):
        units[operand.name] = unit
        if operand.kind.group != "list":
            unit += operand.kind.units
            continue
        if value is None:
            return
        yield f"{{FUSED_UNIT, {unit}, {len(value)}}}"
        if part.instruction.name in _CLASSED:
            named, kind = _CLASSED[part.instruction.name]
            for i, name in enumerate(value):
                number = _CLASS_NUMBERS[_class_of(name)]
                yield f"{{FUSED_{kind}, {units[named]}, {4 * i + number}}}"
        unit += 1 + len(value)


def _class_of(name: str) -> str:
    return name[0] if name[0] in _CLASS_NUMBERS else "w"


def fused_blocks() -> str:
    """Return the block of each row, as the interpreter includes them."""
    return "\n".join(_Block(row).text() for row in FUSED.values())


class _Block:
    """One block: `known` are the names of registers whose values stand in variables."""

    def __init__(self, row: Fused) -> None:
        self.row = row
        self.known: set[str] = set()
        self.lines: list[str] = []

    def text(self) -> str:
        for part in self.row.parts:
            emit = getattr(self, f"_{part.instruction.name}", None)
            if emit is not None:
                emit(part)
            else:
                self._compute(part)
        if self.row.parts[-1].instruction.group == "words":
            last = self.row.parts[-1]
            self.lines.append(f"NEXT({last.unit + last.num_units});")
        body = "".join(f"    {line}\n" for line in self.lines)
        return f"OP({self.row.name}) {{\n{body}}}\n"

    def value(self, name: str, unit: int) -> str:
        return f"v_{name}" if name in self.known else f"r[pc[{unit}]]"

    def _compute(self, part: Part) -> None:
        """A body that writes a word. What it writes is kept until another register is written."""
        arguments: list[str] = []
        written, place = "", 0
        for name, kind, unit in part.items():
            if kind == "w_out":
                written, place = name, unit
                arguments.append(f"&v_{name}")
            elif kind == "imm64":
                arguments.append(f"READ_IMM64(pc + {unit})")
            else:
                arguments.append(self.value(name, unit))
        self.lines += [
            f"uint64_t v_{written};",
            f"body_{part.instruction.name}({', '.join(arguments)});",
            f"r[pc[{place}]] = v_{written};",
        ]
        self.known = {written}

    def _branch_false(self, part: Part) -> None:
        (name, _, unit), (_, _, label) = part.items()
        self.lines += [
            f"if ({self.value(name, unit)}) NEXT({part.unit + part.num_units});",
            f"NEXT_AT(pc + {part.unit} + read_u32(pc + {label}));",
        ]

    def _return(self, part: Part) -> None:
        items = list(part.items())
        values = ", ".join(self.value(name, unit) for name, _, unit in items)
        self._begin(part)
        self.lines.append(f"RETURN_{len(items)}({self._from(values, part)});")

    def _retain(self, part: Part) -> None:
        (target, _, place), (_, _, unit) = part.items()
        self.lines += [
            f"const uint64_t v_{target} = r[pc[{unit}]];",
            f"object_retain(word_object(v_{target}));",
            f"r[pc[{place}]] = v_{target};",
        ]
        self.known = {target}

    def _call(self, part: Part) -> None:
        items = [(n, u) for n, kind, u in part.items() if kind == "arguments"]
        values = [self.value(n, u) for n, u in items]
        self._begin(part)
        self.lines.append("BEGIN_CALL(&m->functions[pc[1]]);")
        self._pass([self._from(v, part) for v in values], items, part, ("0", "callee->words"))
        self.lines.append(f"ENTER_FRAME(pc + {part.num_units - 1});")

    def _call_closure(self, part: Part) -> None:
        (closure, _, unit), *_ = part.items()
        items = [(n, u) for n, kind, u in part.items() if kind == "arguments"]
        word = self._from(self.value(closure, unit), part)
        self._begin(part)
        self.lines += [
            f"const uint64_t closure = {word};",
            "if (UNLIKELY(!is_closure(closure, pc[2]))) goto op_call_closure;",
            "BEGIN_CALL(word_cell(closure)->shape->callee);",
            "entered->slots[callee->words] = closure;",
            "r[pc[1]] = 0;",
        ]
        values = [self._from(self.value(n, u), part) for n, u in items]
        self._pass(values, items, part, ("0", "callee->words + 1"))
        self.lines.append(f"ENTER_FRAME(pc + {part.num_units - 1});")

    def _tail_call(self, part: Part) -> None:
        """All arguments are read before any is written, and owned ones are emptied between."""
        if not self.row.in_place:
            items = [(n, u) for n, kind, u in part.items() if kind == "arguments"]
            self.lines += [f"const uint64_t v_{name} = r[pc[{unit}]];" for name, unit in items]
            self.lines += [f"r[pc[{unit}]] = 0;" for name, unit in items if name[0] == "o"]
            self._settle(items, "FRAME->function->words", 0)
        self.lines.append("REPEAT();")

    def _settle(self, items: list[tuple[str, int]], words: str, owned: int) -> None:
        """Values that are read stand where parameters do, of which `owned` are there already."""
        count = 0
        for name, _ in items:
            if name[0] == "o":
                self.lines.append(f"r[{words} + {owned}] = v_{name};")
                owned += 1
            else:
                self.lines.append(f"r[{count}] = v_{name};")
                count += 1

    def _tail_call_closure(self, part: Part) -> None:
        """The frame is another's afterwards: all arguments are read before."""
        items = [(n, u) for n, kind, u in part.items() if kind == "arguments"]
        self.lines += [
            "const uint64_t closure = r[pc[1]];",
            "if (UNLIKELY(!FITS_FRAME(closure, pc[2]))) goto op_tail_call_closure;",
            *(f"const uint64_t v_{name} = r[pc[{unit}]];" for name, unit in items),
            "REPLACE_FRAME(word_cell(closure)->shape->callee);",
            "r[callee->words] = closure;",
        ]
        self._settle(items, "callee->words", 1)
        self.lines.append("ENTER(callee->code);")

    def _pass(
        self, values: list[str], items: list[tuple[str, int]], part: Part, first: tuple[str, str]
    ) -> None:
        """Arguments go to the first registers of their banks, in order; owned ones are emptied."""
        banks = {"w": first[0], "o": first[1], "b": "callee->words + callee->owned"}
        used = dict.fromkeys(banks, 0)
        for value, (name, unit) in zip(values, items):
            bank = _class_of(name)
            place = f"{banks[bank]} + {used[bank]}"
            used[bank] += 1
            self.lines.append(f"entered->slots[{place}] = {value};")
            if bank == "o":
                self.lines.append(f"r[pc[{unit - part.unit}]] = 0;")

    def _begin(self, part: Part) -> None:
        """What traps or waits in this part is found at its own instruction."""
        if part.unit:
            self.lines.append(f"pc += {part.unit};")

    def _from(self, value: str, part: Part) -> str:
        """The value as it is read once pc stands at the part."""
        return re.sub(r"pc\[(\d+)\]", lambda m: f"pc[{int(m[1]) - part.unit}]", value)

    # -- Cells ------------------------------------------------------------------------------------

    def _cell_new(self, part: Part) -> None:
        self._fill(part, "CELL_MEMORY", "op_cell_new")

    def _cell_reuse(self, part: Part) -> None:
        self._fill(part, "KEPT_MEMORY", "op_cell_reuse")

    def _fill(self, part: Part, memory: str, otherwise: str) -> None:
        """A cell in memory that is there; where it is not, the instruction itself does all."""
        units = {kind: unit for _, kind, unit in part.items()}
        fields = [(n, u) for n, kind, u in part.items() if kind == "fields_in"]
        given = f", r[pc[{units['o_in']}]]" if "o_in" in units else ""
        self.lines += [
            f"rvm_cell *cell = {memory}({_size_class(len(fields))}{given});",
            f"if (UNLIKELY(!cell)) goto {otherwise};",
            f"START_CELL(cell, pc[{units['cell']}]);",
            *(f"cell->fields[{i}] = r[pc[{u}]];" for i, (_, u) in enumerate(fields)),
            *(f"r[pc[{u}]] = 0;" for n, u in fields if n[0] == "o"),
        ]
        if given:
            self.lines.append(f"r[pc[{units['o_in']}]] = 0;")
        target = units["o_out"]
        self.lines += [f"r[pc[{target}]] = object_word(cell);", f"NEXT({part.num_units});"]

    def _cell_unpack(self, part: Part) -> None:
        self._read(part, "op_cell_unpack")

    def _cell_unpack_keep(self, part: Part) -> None:
        self._read(part, "op_cell_unpack_keep")

    def _read(self, part: Part, otherwise: str) -> None:
        """The fields of a cell that is nobody else's, whose memory is free or kept afterwards."""
        units = {kind: unit for _, kind, unit in part.items()}
        fields = [(n, u) for n, kind, u in part.items() if kind == "fields_out"]
        size_class = _size_class(len(fields))
        self.lines += [
            f"rvm_cell *cell = word_cell(r[pc[{units['o_in']}]]);",
            f"if (UNLIKELY(!IS_SOLE(cell, pc[{units['cell']}]))) goto {otherwise};",
            *(f"const uint64_t v_{n} = cell->fields[{i}];" for i, (n, _) in enumerate(fields)),
            f"r[pc[{units['o_in']}]] = 0;",
        ]
        if "o_out" in units:
            self.lines.append(f"KEEP_MEMORY(cell, {size_class});")
            self.lines.append(f"r[pc[{units['o_out']}]] = object_word(cell);")
        else:
            self.lines.append(f"FREE_MEMORY(cell, {size_class});")
        self.lines += [f"r[pc[{u}]] = v_{n};" for n, u in fields]
        self.lines.append(f"NEXT({part.num_units});")


def _size_class(num_fields: int) -> int:
    """The heap's class of small cells: 16 bytes each."""
    return (16 + 8 * num_fields + 15) // 16
