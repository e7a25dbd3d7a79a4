"""Damaged executables at three levels: bytes, operands and fields known from the tables, text."""

from __future__ import annotations

import random
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

import relayvm
from relayvm.base.diagnostics import RelayError
from relayvm.vm.assembly import assemble, disassemble
from relayvm.vm.file.codec import encode
from relayvm.vm.file.decode import decode
from relayvm.vm.file.format import RECORDS, SECTIONS
from relayvm.vm.isa import BY_OPCODE
from tests.fuzz.random_programs import random_program
from tests.vm.damage import FIELD_CODES, place, repair
from tests.vm.programs import LOOPS, lists
from tests.vm.samples import PROBES, program

REPAIRED = 0.9
EDGES = (0, 1, 2, 3, 7, 8, 64, 255, 0xFFFF, 0xFFFFFFFF, 1 << 46, (1 << 63) - 1, (1 << 64) - 1)

# Kernels reached with tensors that fit: dense, strided, scalar, in place, sized by a value.
KERNELS = """
constant c0 float32 (2) x0000803f00000040
kernel k0 "in_place" {
  var d0 "n" operand 0 axis 0
  input dense float32 (d0)
  input strided float32 (d0, 3)
  input scalar int64 ()
  output dense float32 (d0)
  output scalar int64 ()
  check d0 * 3 == 6 "n"
  in_place 3 0
  scratch d0 * 8
  private d0 * 16
  phase d0
  phase 1
  work d0 * d0
}
kernel k1 "sized" {
  var d0 "n" operand 0 axis -1
  var d1 "m" operand 1 axis 1
  input scalar int64 ()
  input dense float32 (2, d1)
  output dense int8 (d0, max(d1, 2), d0 // 2 + 1)
  scratch 0
  phase d0
  work d0 * d1 + 1
}
function f0 "run" (w) -> (w) registers 6 5 1 {
    tensor_from_words o0, float32, (w0, w0)
    tensor_from_words o1, float32, (w0, w0, w0, w0, w0, w0)
    word w1, 2
    word w2, 3
    tensor_view_take o2, o1, (w1, w2)
    kernel_reuse k0, 1, (o0, o2, w0), (o3, w3)
    constant b0, c0
    kernel k0, (b0, o2, w3), (o0, w3)
    kernel k1, (w1, o2), (o4)
    tensor_dim w4, o4, 2
    release o4
    kernel k1, (w0, o2), (o4)
    release o4
    release o3
    release o2
    slice_view o2, o0, w3, w1
    release o2
    release o0
    return (w4)
}
"""


# What the compiler makes of lists, closures, references, tuples, loops and kernels.
COMPILED = """
def @sizes(%l: List[Tensor[(?), float32]]) -> List[int64] {
  @map(fn (%x: Tensor[(?), float32]) { cast(@first(shape_of(%x)), dtype="int64") }, %l)
}
def @first(%s: Tensor[(1), int32]) -> int32 { take(%s, 0) }
def @count(%r: ref(int64), %i: int64) -> int64 {
  if (%i > 0i64) { ref_write(%r, ref_read(%r) + %i); @count(%r, %i - 1i64) } else { ref_read(%r) }
}
def @main[n](%k: int64, %x: Tensor[(n, 3), float32]) {
  let %list = Cons(%k, Cons(@count(ref(0i64), 9i64), Nil));
  let %fold = @foldl(fn (%a: int64, %b: int64) { %a * %b + 1i64 }, 0i64, @rev(%list));
  (%fold, sum(%x, axis=[1]), @zip(%list, %list))
}
"""


@dataclass(frozen=True)
class Mutant:
    """Damaged bytes, and how they came about."""

    level: str
    data: bytes


def seeds(choice: random.Random) -> list[bytes]:
    """Return small good executables that together hold every instruction."""
    probes = list(PROBES.values())
    choice.shuffle(probes)
    groups = [probes[i : i + 4] for i in range(0, len(probes), 4)]
    texts = [lists().to_bytes(), *(encode(assemble(text)) for text in (LOOPS, KERNELS))]
    texts += [relayvm.compile(relayvm.parse(COMPILED), jit=jit).to_bytes() for jit in (False, True)]
    texts.append(encode(assemble(KERNELS.replace("x0000803f00000040", "late x0123456789abcdef"))))
    written = [encode(random_program(choice.randrange(1 << 30), 2, 20)) for _ in range(20)]
    return texts * 10 + written + [encode(program(*group, stored=True)) for group in groups]


def mutants(count: int, seed: int) -> Iterator[Mutant]:
    """Yield `count` mutants; the same seed gives the same ones."""
    choice = random.Random(seed)
    bases = seeds(choice)
    levels = {"bytes": damage_bytes, "tables": damage_tables, "text": damage_text}
    for number in range(count):
        level = list(levels)[number % len(levels)]
        data = levels[level](choice, choice.choice(bases))
        if data is not None:
            yield Mutant(level, repair(data) if choice.random() < REPAIRED else data)


def damage_bytes(choice: random.Random, data: bytes) -> bytes:
    """Change one to three bytes anywhere, or cut the file."""
    result = bytearray(data)
    for _ in range(choice.randint(1, 3)):
        name = "code" if choice.random() < 0.5 else choice.choice(SECTIONS).name
        begin, size = place(data, name)
        at = choice.randrange(begin, begin + size) if size else choice.randrange(len(data))
        result[at] = choice.choice((result[at] ^ 1 << choice.randrange(8), choice.randrange(256)))
    return bytes(result[: choice.randrange(len(result))] if choice.random() < 0.02 else result)


def damage_tables(choice: random.Random, data: bytes) -> bytes:
    """Change one or two operands of instructions or fields of records."""
    result = bytearray(data)
    for _ in range(choice.randint(1, 2)):
        change = damage_operand if choice.random() < 0.7 else damage_field
        change(choice, result)
    return bytes(result)


def damage_operand(choice: random.Random, data: bytearray) -> None:
    begin, size = place(bytes(data), "code")
    code = np.frombuffer(bytes(data[begin : begin + size]), "<u2")
    starts = list(_units_of_operands(code))
    if not starts:
        return
    unit, kind = choice.choice(starts)
    value = int(code[unit])
    near = (value + 1, value - 1, choice.randrange(4), choice.randrange(12))
    far = (choice.choice(EDGES), choice.randrange(1 << 16))
    if kind == "opcode":
        same = [r.opcode for r in BY_OPCODE if _shape(r) == _shape(BY_OPCODE[value])]
        near = (choice.choice(same),)
    new = choice.choice(near if choice.random() < 0.8 else far) & 0xFFFF
    struct.pack_into("<H", data, begin + 2 * unit, new)


def _shape(row) -> list[str]:
    return [operand.kind.name for operand in row.operands]


def _units_of_operands(code: np.ndarray) -> Iterator[tuple[int, str]]:
    """Yield the unit and kind of opcodes and operands, as far as the code can be followed."""
    at = 0
    while at < len(code) and code[at] < len(BY_OPCODE):
        yield at, "opcode"
        row = BY_OPCODE[code[at]]
        at += 1
        for operand in row.operands:
            units = operand.kind.units
            if operand.kind.group == "list":
                if at >= len(code):
                    return
                units = 1 + int(code[at]) * (2 if operand.kind.name == "labels" else 1)
            for unit in range(at, min(at + units, len(code))):
                yield unit, operand.kind.name
            at += units


def damage_field(choice: random.Random, data: bytearray) -> None:
    name = choice.choice(list(RECORDS))
    begin, size = place(bytes(data), name)
    record = RECORDS[name]
    if size < record.size_bytes:
        return
    offset = begin + record.size_bytes * choice.randrange(size // record.size_bytes)
    wanted = choice.randrange(len(record.fields))
    for _, kind in record.fields[:wanted]:
        offset += struct.calcsize(FIELD_CODES[kind])
    code = FIELD_CODES[record.fields[wanted][1]]
    (value,) = struct.unpack_from(code, data, offset)
    new = choice.choice((value + 1, value - 1, choice.choice(EDGES)))
    width = struct.calcsize(code)
    data[offset : offset + width] = (new & ((1 << 8 * width) - 1)).to_bytes(width, "little")


TOKEN = re.compile(r"\b[wob][0-9]+\b|\b[lcsktf][0-9]+\b|-?\b[0-9]+\b|\b[a-z_]+_[a-z0-9_]+\b")


def damage_text(choice: random.Random, data: bytes) -> bytes | None:
    """Change lines or words of the text; None if the assembler refuses it, as it may."""
    lines = disassemble(decode(data)).split("\n")
    begin = next(i for i, line in enumerate(lines) if line.startswith("function"))
    for _ in range(choice.randint(1, 3)):
        at = choice.randrange(begin if choice.random() < 0.8 else 1, len(lines))
        edit = choice.randrange(5)
        if edit == 0:
            lines.insert(at, lines[choice.randrange(begin, len(lines))])
        elif edit == 1 and at < len(lines) - 1:
            lines[at], lines[at + 1] = lines[at + 1], lines[at]
        elif edit == 2:
            del lines[at]
        else:
            lines[at] = TOKEN.sub(lambda m: _other_word(choice, m.group()), lines[at], count=1)
    try:
        return encode(assemble("\n".join(lines)))
    except RelayError as failure:
        assert failure.code == "bad-assembly", failure
        assert failure.span is not None
        return None


def _other_word(choice: random.Random, word: str) -> str:
    if word[0] in "wob" and word[1:].isdigit():
        bank = word[0] if choice.random() < 0.8 else choice.choice("wob")
        return f"{bank}{choice.randrange(6)}"
    if word[1:].isdigit() and word[0].isalpha():
        return f"{word[0]}{choice.randrange(9)}"
    if word.lstrip("-").isdigit():
        return str(choice.choice((int(word) + 1, int(word) - 1, choice.choice(EDGES))))
    return choice.choice(BY_OPCODE).name
