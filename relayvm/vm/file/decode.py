"""Executable bytes to programs, for disassembly. Expects a file that the C loader has accepted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from relayvm.base.abi import (
    IMAGE_IMPORTS,
    Access,
    DimCheck,
    DimSource,
    Direction,
    Image,
    Kernel,
    KernelSignature,
    Operand,
)
from relayvm.base.diagnostics import error
from relayvm.base.dims import Dim, DimVar, dim_add, dim_mul, symbol, written_term
from relayvm.base.dtypes import BY_CODE
from relayvm.vm.file.format import (
    DIM_OPS,
    HEADER,
    PREFIX_BYTES,
    RECORDS,
    SECTION_NUMBER,
    SECTION_ROW,
)
from relayvm.vm.isa import BY_OPCODE, ISA, Kind
from relayvm.vm.manifest import Manifest, manifest_from_json
from relayvm.vm.program import (
    ClosureSignature,
    FunctionCode,
    Instr,
    LateConstant,
    Layout,
    LayoutKind,
    Line,
    NativeCode,
    OperandValue,
    Program,
    SourceText,
    TensorSpec,
)

Row = dict[str, int]
NO_INDEX = 0xFFFF
OBJECT_DTYPE = 255


def decode(data: bytes | memoryview) -> Program:
    """Return the program in the bytes of an executable."""
    view = memoryview(data)

    def section(name: str) -> memoryview:
        at = HEADER.size + SECTION_ROW.size * SECTION_NUMBER[name]
        _, _, offset, size, _ = SECTION_ROW.unpack_from(view, at)
        return view[offset : offset + size]

    return decode_sections(section)


def decode_sections(section: Callable[[str], memoryview], constants: bool = True) -> Program:
    """Return the program whose sections `section` gives by name, without `constants` if so told."""
    return _Decoder(section).program(constants)


def decode_kernels(section: Callable[[str], memoryview]) -> tuple[Kernel, ...]:
    """Return the kernels alone."""
    return _Decoder(section).kernels()


def decode_native(section: Callable[[str], memoryview]) -> NativeCode | None:
    """Return the code of the functions alone, if there is any."""
    return _Decoder(section).native()


def decode_late_constants(section: Callable[[str], memoryview]) -> dict[int, LateConstant]:
    """Return the constants that are bound late, by their numbers."""
    return _Decoder(section).late_constants()


def decode_manifest(section: Callable[[str], memoryview]) -> Manifest:
    """Return the manifest; raises RelayError `bad-executable` where its text is not one."""
    try:
        return manifest_from_json(bytes(section("manifest")).decode())
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as reason:
        begin = PREFIX_BYTES + -PREFIX_BYTES % 64
        raise error(
            "bad-executable", f"byte {begin}: the manifest cannot be read: {reason}"
        ) from None


class _Decoder:
    """Reads tables of sections when they are asked for."""

    def __init__(self, section: Callable[[str], memoryview]) -> None:
        self.section = section
        self.strings = bytes(section("strings"))
        self.classes = bytes(section("classes"))
        self.dims = np.frombuffer(section("dims"), "<i8")
        self.code = np.frombuffer(section("code"), "<u2")
        self.nests = bytes(section("nests"))
        self.tables: dict[str, list[Row]] = {}

    def rows(self, name: str) -> list[Row]:
        if name not in self.tables:
            record = RECORDS[name]
            rows = record.layout.iter_unpack(self.section(name))
            self.tables[name] = [dict(zip(record.field_names, row)) for row in rows]
        return self.tables[name]

    def text(self, row: Row, field: str) -> str:
        begin, size = row[f"{field}_begin"], row[f"{field}_bytes"]
        return self.strings[begin : begin + size].decode(errors="replace")

    def letters(self, begin: int, count: int) -> str:
        return "".join("wob"[c] for c in self.classes[begin : begin + count])

    def sizes(self, begin: int, rank: int) -> list[int]:
        return [int(d) for d in self.dims[begin : begin + rank]]

    def program(self, constants: bool = True) -> Program:
        manifest = decode_manifest(self.section)
        rows = self.rows
        return Program(
            functions=tuple(self.function(r) for r in rows("functions")),
            layouts=tuple(self.layout(r) for r in rows("layouts")),
            signatures=tuple(self.signature(r) for r in rows("signatures")),
            tensor_types=tuple(self.tensor_type(r) for r in rows("tensor_types")),
            constants=tuple(self.constant(r) for r in rows("constants") if constants),
            kernels=self.kernels(),
            native=self.native(),
            entries=manifest.entries,
            types=manifest.types,
            sources=tuple(
                SourceText(self.text(r, "name"), self.text(r, "text")) for r in rows("sources")
            ),
            devices=manifest.devices,
            version=manifest.version,
        )

    # --- functions and layouts ---------------------------------------------------------------

    def function(self, row: Row) -> FunctionCode:
        begin, num_params = row["classes_begin"], row["num_params"]
        banks = (row["words"], row["owned"], row["borrowed"])
        units = self.code[row["code_begin"] : row["code_begin"] + row["code_units"]]
        code, index = decode_code(units.tolist(), banks)
        lines = self.rows("lines")[row["lines_begin"] :][: row["num_lines"]]
        names = self.rows("register_names")[row["register_names_begin"] :]
        return FunctionCode(
            self.text(row, "name"),
            self.letters(begin, num_params),
            self.letters(begin + num_params, row["num_results"]),
            *banks,
            tuple(code),
            tuple(
                Line(index.get(r["unit"], 0), r["source"], r["line"], r["column"]) for r in lines
            ),
            tuple(
                (register_name(r["slot"], banks), self.text(r, "name"))
                for r in names[: row["num_register_names"]]
            ),
        )

    def layout(self, row: Row) -> Layout:
        begin, count = row["classes_begin"], row["num_fields"]
        dtypes = self.classes[begin + count : begin + 2 * count]
        return Layout(
            LayoutKind(row["kind"]),
            self.text(row, "name"),
            self.letters(begin, count),
            tuple("" if d == OBJECT_DTYPE else BY_CODE[d].name for d in dtypes),
            self.text(row, "type"),
            row["tag"],
            row["tags"],
            bool(row["cyclic"]),
            -1 if row["function"] == NO_INDEX else row["function"],
            -1 if row["signature"] == NO_INDEX else row["signature"],
        )

    def signature(self, row: Row) -> ClosureSignature:
        begin, count = row["classes_begin"], row["num_params"]
        return ClosureSignature(
            self.letters(begin, count), self.letters(begin + count, row["num_results"])
        )

    def tensor_type(self, row: Row) -> TensorSpec:
        sizes = self.sizes(row["dims_begin"], row["rank"])
        dims = tuple(None if d < 0 else d for d in sizes)
        return TensorSpec(BY_CODE[row["dtype"]].name, dims)

    def constant(self, row: Row) -> np.ndarray | LateConstant:
        dtype, shape = BY_CODE[row["dtype"]].numpy, self.sizes(row["dims_begin"], row["rank"])
        if row["late"]:
            return LateConstant(dtype, tuple(shape), row["checksum"])
        data = self.section("data")[row["offset"] : row["offset"] + row["size_bytes"]]
        return np.frombuffer(data, dtype).reshape(shape)

    def late_constants(self) -> dict[int, LateConstant]:
        found = enumerate(map(self.constant, self.rows("constants")))
        return {number: c for number, c in found if isinstance(c, LateConstant)}

    # --- kernels -----------------------------------------------------------------------------

    def kernels(self) -> tuple[Kernel, ...]:
        images = self.images()
        rows = self.rows("kernels")
        return tuple(self.kernel(row, images.get(i)) for i, row in enumerate(rows))

    def kernel(self, row: Row, image: Image | None) -> Kernel:
        variables = tuple(
            DimVar(self.text(r, "name"))
            for r in self.rows("dim_sources")[row["sources_begin"] :][: row["num_vars"]]
        )
        nest = self.nests[row["nest_begin"] : row["nest_begin"] + row["nest_bytes"]]
        signature = self.kernel_signature(row, variables)
        return Kernel(self.text(row, "name"), nest.decode(errors="replace"), signature, image)

    def kernel_signature(self, row: Row, variables: tuple[DimVar, ...]) -> KernelSignature:
        at = row["expressions_begin"]

        def take(count: int) -> tuple[Dim, ...]:
            nonlocal at
            at += count
            return tuple(self.dim(r, variables) for r in self.rows("expressions")[at - count : at])

        count = row["num_inputs"] + row["num_outputs"]
        operands = tuple(
            Operand(
                Direction(r["direction"]), BY_CODE[r["dtype"]], take(r["rank"]), Access(r["access"])
            )
            for r in self.rows("operands")[row["operands_begin"] :][:count]
        )
        checks = tuple(
            DimCheck(take(1)[0], take(1)[0], self.text(r, "what"))
            for r in self.rows("checks")[row["checks_begin"] :][: row["num_checks"]]
        )
        scratch, private, work = take(3)
        phases, chains = take(row["num_phases"]), take(row["num_phases"])
        return KernelSignature(
            operands,
            variables,
            tuple(
                DimSource(r["operand"], r["axis"])
                for r in self.rows("dim_sources")[row["sources_begin"] :][: row["num_vars"]]
            ),
            checks,
            tuple(
                (r["output"], r["input"])
                for r in self.rows("in_place")[row["in_place_begin"] :][: row["num_in_place"]]
            ),
            scratch,
            phases,
            work,
            private,
            chains if any(chain != 1 for chain in chains) else (),
        )

    def dim(self, row: Row, variables: Sequence[DimVar]) -> Dim:
        if row["kind"] == 0:
            return row["value"]
        if row["kind"] == 1:
            return symbol(variables[row["value"]])
        code = np.frombuffer(self.section("dim_code"), "<i8")
        return dim_of_code(code[row["value"] :][: row["length"]].tolist(), variables)

    def images(self) -> dict[int, Image]:
        """Return the image of each kernel that has one."""
        result: dict[int, Image] = {}
        names = [self.text(r, "name") for r in self.rows("kernels")]
        for row in self.rows("images"):
            entries: dict[int, list[int]] = {}
            for phase in self.rows("image_phases")[row["phases_begin"] :][: row["num_phases"]]:
                entries.setdefault(phase["kernel"], []).append(phase["offset"])
            image = self.image(row, {names[k]: tuple(at) for k, at in entries.items()})
            result |= dict.fromkeys(entries, image)
        return result

    def native(self) -> NativeCode | None:
        """Return the code of the functions, if there is any."""
        for row in self.rows("images"):
            if row["num_functions"]:
                begin = row["functions_begin"]
                rows = self.rows("image_functions")[begin : begin + row["num_functions"]]
                entries = {
                    "functions": tuple(r["code"] for r in rows),
                    "enter": tuple(r["enter"] for r in rows),
                    "margin": (row["margin_bytes"],),
                }
                return NativeCode(self.image(row, entries), row["abi"])
        return None

    def image(self, row: Row, entries: dict[str, tuple[int, ...]]) -> Image:
        code = self.section("image_code")
        imports = self.rows("image_imports")[row["imports_begin"] :][: row["num_imports"]]
        return Image(
            self.text(row, "triple"),
            tuple(f for f in self.text(row, "features").split(",") if f),
            bytes(code[row["code_begin"] : row["code_begin"] + row["code_bytes"]]),
            entries,
            tuple((IMAGE_IMPORTS[r["symbol"]], r["slot"]) for r in imports),
        )


def dim_of_code(code: Sequence[int], variables: Sequence[DimVar]) -> Dim:
    """Return the dim that a postfix program computes."""
    names = {number: name for name, number in DIM_OPS.items()}
    stack: list[Dim] = []
    items = iter(code)
    for op in items:
        name = names[op]
        if name == "constant":
            stack.append(next(items))
        elif name == "variable":
            stack.append(symbol(variables[next(items)]))
        else:
            b, a = stack.pop(), stack.pop()
            functions: dict[str, Any] = {"+": dim_add, "*": dim_mul}
            stack.append(functions[name](a, b) if name in functions else written_term(name, a, b))
    return stack[0]


# --- code -----------------------------------------------------------------------------------


def register_name(slot: int, banks: tuple[int, int, int]) -> str:
    """Return `w3`, `o0` or `b1` for a slot of a function with these bank sizes."""
    words, owned, _ = banks
    if slot < words:
        return f"w{slot}"
    return f"o{slot - words}" if slot < words + owned else f"b{slot - words - owned}"


def decode_code(
    units: list[int], banks: tuple[int, int, int]
) -> tuple[list[Instr], dict[int, int]]:
    """Return the instructions with labels `L0..` before them, and where each unit's one stands."""
    raw: list[tuple[int, Instr]] = []
    targets: set[int] = set()
    at = 0
    while at < len(units):
        row = BY_OPCODE[units[at]]
        unit = at
        at += 1
        operands: list[Any] = []
        for operand in row.operands:
            at, value = _decode_operand(units, at, operand.kind, banks, targets)
            operands.append(value)
        raw.append((unit, Instr(row.name, tuple(operands))))
    names = {target: f"L{i}" for i, target in enumerate(sorted(targets))}
    code: list[Instr] = []
    index: dict[int, int] = {}
    for unit, instr in raw:
        if unit in names:
            code.append(Instr("label", (names[unit],)))
        index[unit] = len(code)
        code.append(_name_labels(instr, names))
    return code, index


def _decode_operand(
    units: list[int], at: int, kind: Kind, banks: tuple[int, int, int], targets: set[int]
) -> tuple[int, Any]:
    if kind.name == "labels":
        count = units[at]
        places = [units[at + 1 + 2 * i] | units[at + 2 + 2 * i] << 16 for i in range(count)]
        targets.update(places)
        return at + 1 + 2 * count, tuple(places)
    if kind.group == "list":
        count = units[at]
        items = units[at + 1 : at + 1 + count]
        return at + 1 + count, tuple(register_name(slot, banks) for slot in items)
    value = sum(units[at + u] << 16 * u for u in range(kind.units))
    at += kind.units
    if kind.group == "register":
        return at, register_name(value, banks)
    if kind.group == "label":
        targets.add(value)
    if kind.name == "imm64" and value >= 1 << 63:
        value -= 1 << 64
    return at, value


def _name_labels(instr: Instr, names: dict[int, str]) -> Instr:
    kinds = [o.kind.name for o in ISA[instr.name].operands]
    if "label" not in kinds and "labels" not in kinds:
        return instr
    operands: list[OperandValue] = []
    for kind, value in zip(kinds, instr.operands):
        if kind == "label":
            assert isinstance(value, int)
            operands.append(names[value])
        elif kind == "labels":
            assert isinstance(value, tuple)
            operands.append(tuple(names[place] for place in value))  # type: ignore[index]
        else:
            operands.append(value)
    return Instr(instr.name, tuple(operands))
