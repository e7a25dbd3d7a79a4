"""Object file to flat image: lays out code and constants, applies every relocation, gives imports
a slot.

Reads ELF for x86-64 and AArch64. An image holds no absolute address; it must be mapped at a
multiple of 4 KiB.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from relayvm.base.abi import ALIGN_BYTES, IMAGE_IMPORTS, Image
from relayvm.base.diagnostics import InternalError

_SHF_ALLOC = 2
_SHT_PROGBITS, _SHT_SYMTAB, _SHT_RELA, _SHT_NOBITS = 1, 2, 4, 8
_EM_X86_64, _EM_AARCH64 = 62, 183
# Unwind tables: kernels neither throw nor are unwound through.
_IGNORED = (".eh_frame",)


@dataclass(frozen=True, slots=True)
class _Section:
    name: str
    kind: int
    flags: int
    offset: int
    size: int
    info: int
    link: int
    align: int


@dataclass(frozen=True, slots=True)
class _Symbol:
    name: str
    section: int
    value: int


def link_object(
    data: bytes,
    triple: str,
    features: tuple[str, ...],
    entries: Mapping[str, tuple[str, ...]],
) -> Image:
    """Return the image of an object file; `entries` gives the symbols of each kernel's phases.

    Raises InternalError for a relocation, section or import that flat images do not have.
    """
    return _Linker(data).image(triple, features, entries)


# A multiple of this keeps the page arithmetic of AArch64 code right wherever an image is put.
_MERGE_ALIGN_BYTES = {"x86_64": ALIGN_BYTES, "aarch64": 4096}


def merge_images(parts: Sequence[tuple[str, Image]]) -> Image:
    """Return one image with the code of several one-kernel images, under the names given.

    The same code under two names is there once. All of it needs what any part of it needs of a CPU.
    """
    first = parts[0][1]
    features = tuple(dict.fromkeys(f for _, image in parts for f in image.features))
    boundary = _MERGE_ALIGN_BYTES[first.triple.split("-")[0]]
    code = bytearray()
    places: dict[bytes, int] = {}
    entries: dict[str, tuple[int, ...]] = {}
    imports: list[tuple[str, int]] = []
    texts: dict[str, str] = {}
    for name, image in parts:
        assert image.triple == first.triple
        assert name not in entries, f"two kernels are called `{name}`"
        ((_, offsets),) = image.entries.items()
        if image.code not in places:
            code += bytes(_align(len(code), boundary) - len(code))
            place = places[image.code] = len(code)
            code += image.code
            imports += [(symbol, place + slot) for symbol, slot in image.imports]
        entries[name] = tuple(places[image.code] + offset for offset in offsets)
        for text in image.texts.values():
            texts[name] = text
    return Image(first.triple, features, bytes(code), entries, tuple(imports), texts)


def _align(value: int, boundary: int) -> int:
    return -(-value // boundary) * boundary


@dataclass(eq=False)
class _Linker:
    """One object file on its way to an image; `places` are the offsets of sections in it."""

    data: bytes
    code: bytearray = field(default_factory=bytearray)
    places: dict[int, int] = field(default_factory=dict)
    stubs: dict[str, int] = field(default_factory=dict)

    def image(
        self, triple: str, features: tuple[str, ...], entries: Mapping[str, tuple[str, ...]]
    ) -> Image:
        machine = self._read_sections()
        symbols = self._read_symbols()
        self._lay_out()
        self._add_stubs(symbols, machine)
        apply = {_EM_X86_64: _relocate_x86_64, _EM_AARCH64: _relocate_aarch64}[machine]
        self._relocate(symbols, apply)
        by_name = {s.name: s for s in symbols if s.name and s.section in self.places}

        def offset(name: str) -> int:
            symbol = by_name[name]
            return self.places[symbol.section] + symbol.value

        return Image(
            triple=triple,
            features=features,
            code=bytes(self.code),
            entries={kernel: tuple(map(offset, names)) for kernel, names in entries.items()},
            imports=tuple((name, stub + 8) for name, stub in self.stubs.items()),
        )

    def _read_sections(self) -> int:
        if self.data[:6] != b"\x7fELF\x02\x01":
            raise InternalError("the code generator returned no little-endian ELF64 object")
        (machine,) = struct.unpack_from("<H", self.data, 18)
        if machine not in (_EM_X86_64, _EM_AARCH64):
            raise InternalError(f"no linker for ELF machine {machine}")
        (table,) = struct.unpack_from("<Q", self.data, 40)
        size, count, names = struct.unpack_from("<HHH", self.data, 58)
        rows = [
            struct.unpack_from("<IIQQQQIIQQ", self.data, table + i * size) for i in range(count)
        ]
        text = rows[names][4]
        self.sections = [
            _Section(self._string(text + r[0]), r[1], r[2], r[4], r[5], r[7], r[6], r[8])
            for r in rows
        ]
        return int(machine)

    def _string(self, offset: int) -> str:
        return self.data[offset : self.data.index(b"\0", offset)].decode()

    def _read_symbols(self) -> list[_Symbol]:
        symbols = []
        for section in self.sections:
            if section.kind != _SHT_SYMTAB:
                continue
            names = self.sections[section.link].offset
            for at in range(section.offset, section.offset + section.size, 24):
                name, _, _, index, value, _ = struct.unpack_from("<IBBHQQ", self.data, at)
                symbols.append(_Symbol(self._string(names + name), index, value))
        return symbols

    def _lay_out(self) -> None:
        for index, section in enumerate(self.sections):
            if not section.flags & _SHF_ALLOC or section.name in _IGNORED or not section.size:
                continue
            if section.kind != _SHT_PROGBITS or not section.name.startswith((".text", ".rodata")):
                raise InternalError(f"kernel code has a section `{section.name}`")
            self._pad(max(ALIGN_BYTES, section.align))
            self.places[index] = len(self.code)
            self.code += self.data[section.offset : section.offset + section.size]

    def _pad(self, boundary: int) -> None:
        self.code += bytes(_align(len(self.code), boundary) - len(self.code))

    def _add_stubs(self, symbols: list[_Symbol], machine: int) -> None:
        """Append a jump through an 8-byte slot for each import: 8 bytes of code, then the slot."""
        jump = {
            _EM_X86_64: b"\xff\x25\x02\x00\x00\x00\xcc\xcc",
            _EM_AARCH64: struct.pack("<II", 0x58000050, 0xD61F0200),
        }[machine]
        self._pad(ALIGN_BYTES)
        for symbol in symbols:
            if symbol.section or not symbol.name or symbol.name in self.stubs:
                continue
            if symbol.name not in IMAGE_IMPORTS:
                raise InternalError(
                    f"kernel code calls `{symbol.name}`, which images do not import"
                )
            self.stubs[symbol.name] = len(self.code)
            self.code += jump + bytes(8)

    def _relocate(
        self, symbols: list[_Symbol], apply: Callable[[bytearray, int, int, int], bool]
    ) -> None:
        for section in self.sections:
            if section.kind != _SHT_RELA or section.info not in self.places:
                continue
            base = self.places[section.info]
            for at in range(section.offset, section.offset + section.size, 24):
                offset, info, addend = struct.unpack_from("<QQq", self.data, at)
                symbol, kind = symbols[info >> 32], info & 0xFFFFFFFF
                if not apply(self.code, kind, base + offset, self._address(symbol) + addend):
                    where = f"`{symbol.name}` in `{section.name}`"
                    raise InternalError(f"relocation {kind} against {where} is not known")

    def _address(self, symbol: _Symbol) -> int:
        if not symbol.section:
            return self.stubs[symbol.name]
        if symbol.section not in self.places:
            raise InternalError(f"kernel code refers to `{symbol.name}` outside code and constants")
        return self.places[symbol.section] + symbol.value


def _fits(value: int, bits: int) -> int:
    if not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
        raise InternalError(f"an image is too large for a {bits}-bit relocation")
    return value


def _relocate_x86_64(code: bytearray, kind: int, place: int, target: int) -> bool:
    if kind in (2, 4):  # PC32, PLT32
        struct.pack_into("<i", code, place, _fits(target - place, 32))
        return True
    if kind == 24:  # PC64
        struct.pack_into("<q", code, place, target - place)
        return True
    return False


# LDST*_ABS_LO12_NC and ADD_ABS_LO12_NC: how far the page offset is shifted.
_AARCH64_PAGE_OFFSETS = {277: 0, 278: 0, 284: 1, 285: 2, 286: 3, 299: 4}
# Branches and literal loads: (bits, lowest bit) of the field that holds the distance in words.
_AARCH64_BRANCHES = {282: (26, 0), 283: (26, 0), 280: (19, 5), 273: (19, 5), 279: (14, 5)}


def _relocate_aarch64(code: bytearray, kind: int, place: int, target: int) -> bool:
    distance = target - place
    if kind == 261:  # PREL32
        struct.pack_into("<i", code, place, _fits(distance, 32))
        return True
    if kind == 260:  # PREL64
        struct.pack_into("<q", code, place, distance)
        return True
    (word,) = struct.unpack_from("<I", code, place)
    if kind in _AARCH64_BRANCHES:
        bits, low = _AARCH64_BRANCHES[kind]
        word |= (_fits(distance >> 2, bits) & ((1 << bits) - 1)) << low
    elif kind in _AARCH64_PAGE_OFFSETS:
        word |= ((target & 0xFFF) >> _AARCH64_PAGE_OFFSETS[kind]) << 10
    elif kind in (274, 275):  # ADR_PREL_LO21, ADR_PREL_PG_HI21
        value = distance if kind == 274 else (target >> 12) - (place >> 12)
        value = _fits(value, 21) & 0x1FFFFF
        word |= (value & 3) << 29 | (value >> 2) << 5
    else:
        return False
    struct.pack_into("<I", code, place, word)
    return True
