"""Executables taken apart into sections, changed, and given checksums again."""

from __future__ import annotations

import struct

from relayvm.vm.file.codec import header_bytes
from relayvm.vm.file.format import (
    HEADER,
    PREFIX_BYTES,
    RECORDS,
    SECTION_NUMBER,
    SECTION_ROW,
    SECTIONS,
    checksum,
)

FIELD_CODES = {"u8": "<B", "u16": "<H", "i16": "<h", "u32": "<I", "u64": "<Q", "i64": "<q"}


def place(data: bytes, name: str) -> tuple[int, int]:
    """Return offset and size of a section."""
    row = SECTION_ROW.unpack_from(data, HEADER.size + SECTION_ROW.size * SECTION_NUMBER[name])
    return row[2], row[3]


def repair(data: bytes) -> bytes:
    """Return the file with the checksums of all sections and of the header made right."""
    if len(data) < PREFIX_BYTES:
        return bytes(data)
    table = bytearray()
    for number in range(len(SECTIONS)):
        row = SECTION_ROW.unpack_from(data, HEADER.size + SECTION_ROW.size * number)
        kind, reserved, offset, size, _ = row
        total = checksum(data[offset : offset + size])
        table += SECTION_ROW.pack(kind, reserved, offset, size, total)
    known = bytes(data[:24])
    total = (checksum(known) + checksum(table)) & 0xFFFFFFFFFFFFFFFF
    return known + total.to_bytes(8, "little") + bytes(table) + bytes(data[PREFIX_BYTES:])


def edit(data: bytes, section: str, offset: int, new: bytes) -> bytes:
    """Return the file with bytes of a section replaced and its checksums repaired."""
    begin, size = place(data, section)
    assert offset + len(new) <= size
    return repair(data[: begin + offset] + new + data[begin + offset + len(new) :])


def edit_field(data: bytes, section: str, row: int, field: str, value: int) -> bytes:
    """Return the file with one field of a row of a table replaced."""
    record = RECORDS[section]
    offset = row * record.size_bytes
    for name, kind in record.fields:
        if name == field:
            return edit(data, section, offset, struct.pack(FIELD_CODES[kind], value))
        offset += struct.calcsize(FIELD_CODES[kind])
    raise KeyError(field)


def with_sections(data: bytes, changed: dict[str, bytes]) -> bytes:
    """Return the file laid out again with whole sections replaced."""
    table = bytearray()
    parts: list[bytes] = []
    end = PREFIX_BYTES
    for number, section in enumerate(SECTIONS):
        begin, size = place(data, section.name)
        content = changed.get(section.name, data[begin : begin + size])
        padding = -end % 64
        parts += [bytes(padding), content]
        row = (number, 0, end + padding, len(content), checksum(content))
        table += SECTION_ROW.pack(*row)
        end += padding + len(content)
    return header_bytes(table, end) + b"".join(parts)
