"""Programs to executable bytes. What a file must fulfil is checked by the C loader alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from relayvm.base.abi import (
    IMAGE_IMPORTS,
    LARGE_BYTES,
    PAGE_BYTES,
    Image,
    Kernel,
    KernelSignature,
)
from relayvm.base.diagnostics import InternalError
from relayvm.base.dims import Dim, DimExpr, DimTerm, DimVar, Monomial
from relayvm.base.dtypes import dtype_of
from relayvm.vm.file.decode import decode
from relayvm.vm.file.format import (
    DIM_OPS,
    FORMAT_VERSION,
    HEADER,
    MAGIC,
    RECORDS,
    SECTION_NUMBER,
    SECTION_ROW,
    SECTIONS,
    Buffer,
    checksum,
)
from relayvm.vm.isa import ISA
from relayvm.vm.manifest import Manifest, manifest_to_json
from relayvm.vm.program import FunctionCode, LateConstant, Layout, OperandValue, Program

__all__ = ["decode", "encode"]

ALIGN = 64
NO_INDEX = 0xFFFF
OBJECT_DTYPE = 255
CLASS_CODES = {"w": 0, "o": 1, "b": 2}


def encode(program: Program) -> bytes:
    """Return the executable of `program`; the same program gives the same bytes.

    Raises InternalError where it cannot be written down (an unknown instruction or label, a number
    that does not fit its place).
    """
    return b"".join(encoded_parts(program))


def encoded_parts(program: Program) -> list[Buffer]:
    """Return what joined is `encode(program)`: constants, which may be large, are not copied."""
    return _Encoder(program).run()


def encoded_sections(program: Program) -> Callable[[str], Buffer]:
    """Return what gives the sections of the file by name, but for constants."""
    encoder = _Encoder(program)
    encoder.fill()
    return encoder.sections.__getitem__


class _Encoder:
    """Collects the bytes of each section."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.sections: dict[str, bytearray] = {s.name: bytearray() for s in SECTIONS}
        self.strings: dict[str, tuple[int, int]] = {}
        self.data: list[Buffer] = []  # the last section; each part begins aligned
        self.data_bytes = 0

    def run(self) -> list[Buffer]:
        self.fill()
        return self.file()

    def fill(self) -> None:
        program = self.program
        manifest = Manifest(program.entries, program.types, program.devices, program.version)
        self.sections["manifest"] += manifest_to_json(manifest).encode()
        for source in program.sources:
            self.add("sources", *self.text(source.name), *self.text(source.text))
        for entry in program.entries:
            self.add("entries", *self.text(entry.name), entry.function, 0)
        for function in program.functions:
            self.function(function)
        for signature in program.signatures:
            begin = self.classes(signature.params + signature.results)
            self.add("signatures", len(signature.params), len(signature.results), begin)
        for layout in program.layouts:
            self.layout(layout)
        for spec in program.tensor_types:
            begin = self.dims(-1 if d is None else d for d in spec.dims)
            self.add("tensor_types", dtype_of(spec.dtype).code, len(spec.dims), 0, begin)
        for constant in program.constants:
            self.constant(constant)
        for kernel in program.kernels:
            self.kernel(kernel)
        self.images()

    # --- parts of tables ---------------------------------------------------------------------

    def count(self, section: str) -> int:
        return len(self.sections[section]) // SECTIONS[SECTION_NUMBER[section]].element_bytes

    def add(self, section: str, *values: int) -> None:
        self.sections[section] += RECORDS[section].layout.pack(*values)

    def text(self, text: str) -> tuple[int, int]:
        if text not in self.strings:
            data = text.encode()
            self.strings[text] = (len(self.sections["strings"]), len(data))
            self.sections["strings"] += data + b"\0"
        return self.strings[text]

    def classes(self, text: str) -> int:
        begin = self.count("classes")
        self.sections["classes"] += bytes(CLASS_CODES[c] for c in text)
        return begin

    def dims(self, values: Iterable[int]) -> int:
        begin = self.count("dims")
        self.sections["dims"] += np.fromiter(values, "<i8").tobytes()
        return begin

    # --- functions and layouts ---------------------------------------------------------------

    def function(self, function: FunctionCode) -> None:
        units, starts = encode_code(function)
        code_begin = self.count("code")
        self.sections["code"] += units.tobytes()
        lines_begin = self.count("lines")
        starts.append(len(units))
        lines = {starts[line.index]: line for line in function.lines}
        for unit, line in sorted(lines.items()):
            if unit < len(units):
                self.add("lines", unit, line.source, line.line, line.column)
        names_begin = self.count("register_names")
        for register, name in function.register_names:
            self.add("register_names", register_slot(function, register), *self.text(name))
        classes_begin = self.classes(function.params + function.results)
        self.add(
            "functions",
            *self.text(function.name),
            code_begin,
            len(units),
            function.words,
            function.owned,
            function.borrowed,
            len(function.params),
            len(function.results),
            0,
            classes_begin,
            lines_begin,
            self.count("lines") - lines_begin,
            names_begin,
            len(function.register_names),
        )

    def layout(self, layout: Layout) -> None:
        begin = self.classes(layout.fields)
        self.sections["classes"] += bytes(
            dtype_of(d).code if d else OBJECT_DTYPE for d in layout.dtypes
        )
        self.add(
            "layouts",
            *self.text(layout.name),
            *self.text(layout.type),
            layout.kind,
            int(layout.cyclic),
            len(layout.fields),
            layout.tag,
            layout.tags,
            layout.function if layout.function >= 0 else NO_INDEX,
            layout.signature if layout.signature >= 0 else NO_INDEX,
            begin,
        )

    def constant(self, array: np.ndarray | LateConstant) -> None:
        code, rank = dtype_of(array.dtype).code, len(array.shape)
        dims = self.dims(array.shape)
        if isinstance(array, LateConstant):
            self.add("constants", code, rank, 1, dims, 0, array.nbytes, array.checksum)
            return
        is_large, end = array.nbytes >= LARGE_BYTES, self.data_bytes
        padding = (PAGE_BYTES // 2 - end) % PAGE_BYTES if is_large else -end % ALIGN
        if end % 8:
            # Parts of a checksum are whole words.
            self.data[-1] = bytes(self.data[-1]) + bytes(-end % 8)
        self.data.append(bytes(padding - -end % 8))
        self.add("constants", code, rank, 0, dims, end + padding, array.nbytes, 0)
        self.data.append(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
        self.data_bytes += padding + array.nbytes

    # --- kernels -----------------------------------------------------------------------------

    def kernel(self, kernel: Kernel) -> None:
        signature = kernel.signature
        nest = kernel.nest.encode()
        nest_begin = self.count("nests")
        self.sections["nests"] += nest
        begins = [
            self.count(s) for s in ("operands", "expressions", "dim_sources", "checks", "in_place")
        ]
        for operand in signature.operands:
            self.add(
                "operands", operand.direction, operand.dtype.code, operand.rank, operand.access
            )
        for var, source in zip(signature.dim_vars, signature.sources):
            self.add("dim_sources", source.operand, source.axis, *self.text(var.name))
        for dim in signature_dims(signature):
            self.expression(dim, signature)
        for check in signature.checks:
            self.add("checks", *self.text(check.what))
        for output, input in signature.in_place:
            self.add("in_place", output, input)
        self.add(
            "kernels",
            *self.text(kernel.name),
            nest_begin,
            len(nest),
            len(signature.inputs),
            len(signature.outputs),
            len(signature.dim_vars),
            len(signature.checks),
            len(signature.in_place),
            len(signature.phases),
            *begins,
        )

    def expression(self, dim: Dim, signature: KernelSignature) -> None:
        if isinstance(dim, int):
            self.add("expressions", 0, 0, dim)
        elif isinstance(dim, DimExpr) and dim.variable is not None:
            self.add("expressions", 1, 0, signature.dim_vars.index(dim.variable))
        else:
            code = dim_code(dim, signature.dim_vars)
            self.add("expressions", 2, len(code), self.count("dim_code"))
            self.sections["dim_code"] += np.array(code, "<i8").tobytes()

    def images(self) -> None:
        kernels: dict[int, list[int]] = {}
        images: dict[int, Image] = {}
        for number, kernel in enumerate(self.program.kernels):
            if kernel.image is not None:
                images[id(kernel.image)] = kernel.image
                kernels.setdefault(id(kernel.image), []).append(number)
        for key, image in images.items():
            self.image(image, kernels[key])
        if self.program.native is not None:
            self.image(self.program.native.image, [], self.program.native.abi)

    def image(self, image: Image, kernels: list[int], abi: int = 0) -> None:
        """Add the code of kernels, or of all functions, which depends on an `abi`."""
        code = self.sections["image_code"]
        code += bytes(-len(code) % ALIGN)
        begin = len(code)
        code += image.code
        imports, phases = self.count("image_imports"), self.count("image_phases")
        for name, slot in image.imports:
            self.add("image_imports", IMAGE_IMPORTS.index(name), slot)
        for number in kernels:
            for phase, offset in enumerate(image.entries[self.program.kernels[number].name]):
                self.add("image_phases", number, phase, offset)
        functions, margin = self.count("image_functions"), 0
        if not kernels:
            (margin,) = image.entries["margin"]
            for pair in zip(image.entries["functions"], image.entries["enter"]):
                self.add("image_functions", *pair)
        self.add(
            "images",
            *self.text(image.triple),
            *self.text(",".join(image.features)),
            abi,
            margin,
            begin,
            len(image.code),
            imports,
            len(image.imports),
            phases,
            self.count("image_phases") - phases,
            functions,
            self.count("image_functions") - functions,
        )

    # --- the file ----------------------------------------------------------------------------

    def file(self) -> list[Buffer]:
        table = bytearray()
        parts: list[Buffer] = []
        end = HEADER.size + SECTION_ROW.size * len(SECTIONS)
        for number, section in enumerate(SECTIONS):
            data = self.data if section.name == "data" else [self.sections[section.name]]
            size = sum(map(len, data))
            is_large = section.name == "data" and size >= LARGE_BYTES
            padding = -end % (PAGE_BYTES if is_large else ALIGN)
            parts += [bytes(padding), *data]
            table += SECTION_ROW.pack(number, 0, end + padding, size, checksum(*data))
            end += padding + size
        return [header_bytes(table, end), *parts]


def header_bytes(table: bytes | bytearray, file_bytes: int) -> bytes:
    """Return the header and section table of a file, with their checksum."""
    known = HEADER.pack(MAGIC, FORMAT_VERSION, len(SECTIONS), file_bytes, 0)[:24]
    total = (checksum(known) + checksum(table)) & 0xFFFFFFFFFFFFFFFF
    return known + total.to_bytes(8, "little") + table


# --- code -----------------------------------------------------------------------------------


def register_slot(function: FunctionCode, register: str) -> int:
    """Return the slot of a register named `w3`, `o0` or `b1`."""
    number = int(register[1:])
    bank = register[0]
    banks = {
        "w": (0, function.words),
        "o": (function.words, function.owned),
        "b": (function.words + function.owned, function.borrowed),
    }
    if bank not in banks or not 0 <= number < banks[bank][1]:
        raise InternalError(f"function `{function.name}` has no register {register}")
    return banks[bank][0] + number


def encode_code(function: FunctionCode) -> tuple[np.ndarray, list[int]]:
    """Return the units of a function's code, and the unit at which each of its elements stands."""
    units: list[int] = []
    starts: list[int] = []
    labels: dict[str, int] = {}
    uses: list[tuple[int, str]] = []
    for instr in function.code:
        starts.append(len(units))
        if instr.name == "label":
            labels[str(instr.operands[0])] = len(units)
            continue
        row = ISA.get(instr.name)
        if row is None or len(row.operands) != len(instr.operands):
            raise InternalError(f"`{instr}` is not an instruction of the table")
        units.append(row.opcode)
        for operand, value in zip(row.operands, instr.operands):
            _encode_operand(function, operand.kind.name, value, units, uses)
    for place, label in uses:
        if label not in labels:
            raise InternalError(f"function `{function.name}` has no label {label}")
        units[place : place + 2] = [labels[label] & 0xFFFF, labels[label] >> 16]
    if units and not 0 <= min(units) <= max(units) <= 0xFFFF:
        raise InternalError(f"a number in function `{function.name}` does not fit 16 bits")
    return np.array(units, "<u2"), starts


WIDE = {"imm64": 4, "imm32": 2}


def _encode_operand(
    function: FunctionCode,
    kind: str,
    value: OperandValue,
    units: list[int],
    uses: list[tuple[int, str]],
) -> None:
    if isinstance(value, tuple):
        units.append(len(value))
        for item in value:
            if kind == "labels":
                uses.append((len(units), item))
                units += (0, 0)
            else:
                units.append(register_slot(function, item))
    elif kind == "label":
        uses.append((len(units), str(value)))
        units += (0, 0)
    elif isinstance(value, str):
        units.append(register_slot(function, value))
    elif kind in WIDE:
        width = 16 * WIDE[kind]
        least = 0 if kind == "imm32" else -(1 << width - 1)
        if not least <= value < 1 << width:
            raise InternalError(f"{value} in function `{function.name}` does not fit {width} bits")
        bits = value & ((1 << width) - 1)
        units += [bits >> 16 * u & 0xFFFF for u in range(WIDE[kind])]
    else:
        units.append(value)


# --- dims -----------------------------------------------------------------------------------


def signature_dims(signature: KernelSignature) -> list[Dim]:
    """Return all dims in file order: operands, checks, scratch, private, work, phases, chains."""
    dims = [d for operand in signature.operands for d in operand.dims]
    for check in signature.checks:
        dims += (check.a, check.b)
    sizes = (signature.scratch_bytes, signature.private_bytes, signature.work)
    chains = signature.chains or (1,) * len(signature.phases)
    return [*dims, *sizes, *signature.phases, *chains]


def encode_signature(signature: KernelSignature) -> bytes:
    """Return bytes that are equal for signatures that say the same."""
    encoder = _Encoder(Program())
    encoder.kernel(Kernel("", "", signature))
    sources = [(source.operand, source.axis) for source in signature.sources]
    parts = ("operands", "expressions", "dim_code", "in_place", "kernels")
    return repr(sources).encode() + b"".join(encoder.sections[name] for name in parts)


def dim_code(dim: Dim, variables: tuple[DimVar, ...]) -> list[int]:
    """Return the postfix program of a dim over `variables`.

    Terms are sorted by their code, since the order in a DimExpr may depend on addresses.
    """
    if isinstance(dim, int):
        return [DIM_OPS["constant"], dim]
    if not isinstance(dim, DimExpr):
        raise InternalError("`?` cannot be a dim of a kernel's signature")
    terms = sorted(
        ((-sum(p for _, p in m), _term_code(m, c, variables)) for m, c in dim.terms),
    )
    return _join(DIM_OPS["+"], [code for _, code in terms])


def _join(op: int, parts: list[list[int]]) -> list[int]:
    code = list(parts[0])
    for part in parts[1:]:
        code += [*part, op]
    return code


def _term_code(monomial: Monomial, coefficient: int, variables: tuple[DimVar, ...]) -> list[int]:
    factors = []
    for atom, power in monomial:
        if isinstance(atom, DimVar):
            code = [DIM_OPS["variable"], variables.index(atom)]
        else:
            assert isinstance(atom, DimTerm)
            code = [*dim_code(atom.a, variables), *dim_code(atom.b, variables), DIM_OPS[atom.op]]
        factors += [code] * power
    factors.sort()
    if coefficient != 1 or not factors:
        factors.append([DIM_OPS["constant"], coefficient])
    return _join(DIM_OPS["*"], factors)
