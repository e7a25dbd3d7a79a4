"""What an executable holds, as lines of text for a reader."""

from __future__ import annotations

from collections.abc import Iterator

from relayvm.base.abi import Direction, Kernel, Operand
from relayvm.base.diagnostics import quantity
from relayvm.vm.executable import Executable
from relayvm.vm.file.format import FORMAT_VERSION, SECTIONS
from relayvm.vm.manifest import DataType, Entry
from relayvm.vm.program import FunctionCode, LateConstant, Program


def describe_executable(executable: Executable, *, nests: bool = False) -> Iterator[str]:
    """Yield the lines that describe an executable; with `nests`, loop nests of its kernels too."""
    program = executable.program()
    yield f"format {FORMAT_VERSION}, compiled by relayvm {program.version or '(unknown)'}"
    yield f"devices: {', '.join(program.devices)}"
    yield from _part("entries", (_entry_text(row) for row in program.entries))
    yield from _part("data types", (_type_text(row) for row in program.types))
    yield from _part("functions", (_function_text(row) for row in program.functions))
    yield from _part("kernels", (_kernel_text(row) for row in program.kernels))
    yield from _part("native code", _image_texts(program))
    yield from _part("constants", _constant_texts(program))
    yield from _part("sections", _section_texts(executable))
    if nests:
        for kernel in program.kernels:
            yield ""
            yield kernel.nest.rstrip("\n")


def _part(title: str, lines: Iterator[str]) -> Iterator[str]:
    texts = list(lines)
    if texts:
        yield f"{title} ({len(texts)})"
        yield from (f"  {text}" for text in texts)


def _entry_text(entry: Entry) -> str:
    parameters = ", ".join(f"{p.name}: {p.type.text}" for p in entry.parameters)
    return f"{entry.name}({parameters}) -> {entry.result.text}"


def _type_text(row: DataType) -> str:
    constructors = (
        c.name + (f"({', '.join(f.text for f in c.fields)})" if c.fields else "")
        for c in row.constructors
    )
    return f"{row.name} = {' | '.join(constructors)}"


def _function_text(row: FunctionCode) -> str:
    instructions = quantity(sum(instr.name != "label" for instr in row.code), "instruction")
    registers = f"{row.words} word, {row.owned} owned, {row.borrowed} borrowed registers"
    return f"@{row.name}: {instructions}, {registers}"


def _kernel_text(kernel: Kernel) -> str:
    operands = kernel.signature.operands
    inputs = [_operand_text(o) for o in operands if o.direction == Direction.INPUT]
    outputs = [_operand_text(o) for o in operands if o.direction == Direction.OUTPUT]
    return f"{kernel.name}: ({', '.join(inputs)}) -> ({', '.join(outputs)})"


def _operand_text(operand: Operand) -> str:
    return f"{operand.dtype}[{', '.join(map(str, operand.dims))}]"


def _image_texts(program: Program) -> Iterator[str]:
    images = {id(k.image): k.image for k in program.kernels if k.image is not None}
    for image in images.values():
        kernels = quantity(sum(k.image is image for k in program.kernels), "kernel")
        needs = ", ".join(image.features) or "no features"
        yield f"{image.triple}: {kernels}, {len(image.code):,} bytes, needs {needs}"
    if program.native is not None:
        image = program.native.image
        needs = ", ".join(image.features) or "no features"
        yield f"{image.triple}: all functions, {len(image.code):,} bytes, needs {needs}"
    portable = sum(k.image is None for k in program.kernels)
    if portable:
        kernels = quantity(portable, "kernel")
        yield f"none for {kernels}: what has none is compiled from its nest when loaded"


def _constant_texts(program: Program) -> Iterator[str]:
    for number, array in enumerate(program.constants):
        late = ", bound late" if isinstance(array, LateConstant) else ""
        yield f"c{number}: {array.dtype}{list(array.shape)}, {quantity(array.nbytes, 'byte')}{late}"


def _section_texts(executable: Executable) -> Iterator[str]:
    for row in SECTIONS:
        size = len(executable.section(row.name))
        if size:
            yield f"{row.name}: {quantity(size, 'byte')}"
