"""The executable file's tables: sections in file order and the fixed-width records in them.

The encoder, the decoder and the C structs that read the file in place are derived from here.
Everything is little-endian; a record's fields are naturally aligned without padding. Wherever a
record names a range of another table (`*_begin` with a count), the ranges of consecutive records
follow each other without gaps, so that nothing in a file is read twice.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Union

import numpy as np

Buffer = Union[bytes, bytearray, memoryview]

MAGIC = b"\x8fRVM\r\n\x1a\n"
FORMAT_VERSION = 9
HEADER = struct.Struct("<8sIIQQ")
SECTION_ROW = struct.Struct("<IIQQQ")

MAX_VARS = 256
MAX_OPERANDS = 4096
MAX_PHASES = 4096
MAX_DIM_STACK = 32

DIM_OPS: dict[str, int] = {
    "constant": 0,
    "variable": 1,
    "+": 2,
    "*": 3,
    "//": 4,
    "%": 5,
    "min": 6,
    "max": 7,
    "broadcast": 8,
}

CODES = {"u8": "B", "u16": "H", "i16": "h", "u32": "I", "u64": "Q", "i64": "q"}
C_TYPES = {name: ("int" if name[0] == "i" else "uint") + name[1:] + "_t" for name in CODES}


@dataclass(frozen=True, slots=True)
class Record:
    """A row of a section: its fields in order, with their types.

    The type `str` of a field list becomes two fields, a range of `strings`.
    """

    name: str
    fields: tuple[tuple[str, str], ...]
    layout: struct.Struct

    @classmethod
    def of(cls, name: str, text: str) -> Record:
        """Return the record of a field list `name:type ...`."""
        fields: list[tuple[str, str]] = []
        for word in text.split():
            field, kind = word.split(":")
            if kind == "str":
                fields += [(f"{field}_begin", "u32"), (f"{field}_bytes", "u32")]
            else:
                fields.append((field, kind))
        return cls(name, tuple(fields), struct.Struct("<" + "".join(CODES[k] for _, k in fields)))

    @property
    def field_names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.fields)

    @property
    def size_bytes(self) -> int:
        return self.layout.size


@dataclass(frozen=True, slots=True)
class Section:
    """One section: its name, the bytes of an element, and its record if elements are records."""

    name: str
    element_bytes: int
    record: Record | None = None
    doc: str = ""


def _records(name: str, doc: str, fields: str) -> Section:
    record = Record.of(name, fields)
    return Section(name, record.size_bytes, record, doc)


SECTIONS: tuple[Section, ...] = (
    Section("manifest", 1, doc="JSON text, read by hosts only"),
    Section("strings", 1, doc="UTF-8 texts, each with a final zero"),
    Section("classes", 1, doc="classes of registers and dtypes of fields"),
    _records(
        "functions",
        "functions; classes are parameters, then results",
        "name:str code_begin:u32 code_units:u32 words:u16 owned:u16 borrowed:u16 num_params:u16 "
        "num_results:u16 reserved:u16 classes_begin:u32 lines_begin:u32 num_lines:u32 "
        "register_names_begin:u32 num_register_names:u32",
    ),
    Section("code", 2, doc="instructions"),
    _records("lines", "line table", "unit:u32 source:u32 line:u32 column:u32"),
    _records("register_names", "names of variables in registers", "slot:u32 name:str"),
    _records(
        "layouts",
        "layouts; classes are those of fields, then their dtypes (255 for objects)",
        "name:str type:str kind:u8 cyclic:u8 num_fields:u16 tag:u16 tags:u16 function:u16 "
        "signature:u16 classes_begin:u32",
    ),
    _records(
        "signatures",
        "closure signatures; classes are parameters, then results",
        "num_params:u16 num_results:u16 classes_begin:u32",
    ),
    _records(
        "tensor_types",
        "tensor types; a dim of -1 is any",
        "dtype:u8 rank:u8 reserved:u16 dims_begin:u32",
    ),
    _records(
        "constants",
        "constants; offset is from the start of `data`. One whose `late` is 1 is not there but "
        "given before the program runs: checksum is that of its bytes",
        "dtype:u8 rank:u8 late:u16 dims_begin:u32 offset:u64 size_bytes:u64 checksum:u64",
    ),
    Section("dims", 8, doc="dims of tensor types, then of constants"),
    _records(
        "kernels",
        "kernels; their dims are those of operands, checks (two each), scratch, private, work, "
        "extents of phases, chains of phases",
        "name:str nest_begin:u32 nest_bytes:u32 num_inputs:u16 num_outputs:u16 num_vars:u16 "
        "num_checks:u16 num_in_place:u16 num_phases:u16 operands_begin:u32 expressions_begin:u32 "
        "sources_begin:u32 checks_begin:u32 in_place_begin:u32",
    ),
    _records("operands", "operands of kernels", "direction:u8 dtype:u8 rank:u8 access:u8"),
    _records(
        "expressions",
        "dims of kernels: constant, variable, or postfix program at `value` in `dim_code`",
        "kind:u32 length:u32 value:i64",
    ),
    Section("dim_code", 8, doc="postfix programs"),
    _records("dim_sources", "where dim variables are read", "operand:u16 axis:i16 name:str"),
    _records("checks", "what a check of dims is called", "what:str"),
    _records("in_place", "pairs that may share memory", "output:u16 input:u16"),
    _records("sources", "source texts of the line table", "name:str text:str"),
    _records("entries", "functions that a host may call", "name:str function:u32 reserved:u32"),
    _records(
        "images",
        "native code: of kernels, or of the functions for a runtime of this `abi`, with the stack "
        "that they need",
        "triple:str features:str abi:u64 margin_bytes:u64 code_begin:u32 code_bytes:u32 "
        "imports_begin:u32 num_imports:u32 phases_begin:u32 num_phases:u32 functions_begin:u32 "
        "num_functions:u32",
    ),
    _records("image_imports", "imported functions", "symbol:u32 slot:u32"),
    _records("image_phases", "offsets of phases", "kernel:u32 phase:u32 offset:u32"),
    _records(
        "image_functions", "offsets of functions and of what enters them", "code:u32 enter:u32"
    ),
    Section("nests", 1, doc="texts of portable kernels"),
    Section("image_code", 1, doc="native code, each image aligned to 64 bytes"),
    Section(
        "data",
        1,
        doc="constants, each aligned to 64 bytes, those of 64 KiB and more to 2,048 bytes after "
        "multiples of 4,096; so is then the section to 4,096; not checksummed at load",
    ),
)

PREFIX_BYTES = HEADER.size + SECTION_ROW.size * len(SECTIONS)
SECTION_NUMBER: dict[str, int] = {s.name: i for i, s in enumerate(SECTIONS)}
RECORDS: dict[str, Record] = {s.name: s.record for s in SECTIONS if s.record is not None}

# What is mixed at once, with what that needs, stays in a core's own cache.
CHUNK_BYTES = 1 << 17
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_MIXER = np.uint64(0xD6E8FEB86659FD93)


def checksum(*parts: Buffer) -> int:
    """Return the 64-bit checksum of bytes: a sum of words, each mixed with its position.

    Parts are taken as one; each but the last has a multiple of 8 bytes. Position-wise, so that
    numpy and a C loop vectorise it; a change of one bit always changes it.
    """
    total = size = 0
    for part in parts:
        assert size % 8 == 0, size
        whole = np.frombuffer(part, np.uint8)
        for begin in range(0, len(whole), CHUNK_BYTES):
            total += _mixed_sum(whole[begin : begin + CHUNK_BYTES], (size + begin) // 8 + 1)
        size += len(whole)
    return (total ^ (size * int(_MIXER))) & 0xFFFFFFFFFFFFFFFF


def _mixed_sum(chunk: np.ndarray, position: int) -> int:
    """Return the sum of the words of a chunk, the first of them at a position of the whole."""
    if len(chunk) % 8:
        chunk = np.concatenate((chunk, np.zeros(-len(chunk) % 8, np.uint8)))
    words = np.arange(position, position + len(chunk) // 8, dtype=np.uint64)
    with np.errstate(over="ignore"):
        words *= _MULTIPLIER
        words ^= chunk.view("<u8")
        words *= _MIXER
        words ^= words >> np.uint64(32)
        words *= _MULTIPLIER
        return int(np.add.reduce(words, dtype=np.uint64))
