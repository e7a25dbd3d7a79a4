"""Programs to text.

Native images have no text; constants of more than 64 bytes are left out unless asked for.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np

from relayvm.base.abi import Kernel, TrapCode
from relayvm.base.dims import Dim, DimVar
from relayvm.base.dtypes import BY_CODE
from relayvm.base.narrow.host import name_of
from relayvm.vm.file.codec import dim_code
from relayvm.vm.file.format import DIM_OPS
from relayvm.vm.isa import ISA, Kind
from relayvm.vm.manifest import Manifest, manifest_to_json
from relayvm.vm.program import FunctionCode, Instr, LateConstant, Layout, OperandValue, Program

SMALL_BYTES = 64


def disassemble(program: Program, data: bool = True) -> str:
    """Return the text of a program; without `data`, large constants are shown as `...`."""
    return "\n".join(_Disassembler(program, data).lines()) + "\n"


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _letters(classes: str) -> str:
    return f"({', '.join(classes)})"


def _block(text: str, indent: str) -> Iterator[str]:
    """Yield the lines of a text, each behind a bar, so that any text can stand in a block."""
    for line in text.split("\n"):
        yield f"{indent}| {line}"


class _Disassembler:
    def __init__(self, program: Program, data: bool) -> None:
        self.program = program
        self.data = data

    def lines(self) -> Iterator[str]:
        program = self.program
        manifest = Manifest(program.entries, program.types, program.devices, program.version)
        yield f"manifest {manifest_to_json(manifest)}"
        for source in program.sources:
            yield f"source {_quote(source.name)} {{"
            yield from _block(source.text, "  ")
            yield "}"
        for i, signature in enumerate(program.signatures):
            yield f"signature s{i} {_letters(signature.params)} -> {_letters(signature.results)}"
        for i, layout in enumerate(program.layouts):
            yield f"layout l{i} {self.layout(layout)}"
        for i, spec in enumerate(program.tensor_types):
            dims = ", ".join("?" if d is None else str(d) for d in spec.dims)
            yield f"tensor_type t{i} {spec.dtype} ({dims})"
        for i, constant in enumerate(program.constants):
            yield f"constant c{i} {self.constant(constant)}"
        for i, kernel in enumerate(program.kernels):
            yield from self.kernel(i, kernel)
        for i, function in enumerate(program.functions):
            yield from self.function(i, function)

    def layout(self, layout: Layout) -> str:
        fields = [c if c == "o" else f"w {d}" for c, d in zip(layout.fields, layout.dtypes)]
        text = f"{layout.kind.name.lower()} {_quote(layout.name)} ({', '.join(fields)})"
        if layout.type:
            text += f" type {_quote(layout.type)}"
        if layout.tags:
            text += f" tag {layout.tag} of {layout.tags}"
        if layout.function >= 0:
            text += f" function f{layout.function}"
        if layout.signature >= 0:
            text += f" signature s{layout.signature}"
        return text + (" cyclic" if layout.cyclic else "")

    def constant(self, array: np.ndarray | LateConstant) -> str:
        dims = ", ".join(map(str, array.shape))
        if isinstance(array, LateConstant):
            return f"{name_of(array.dtype)} ({dims}) late x{array.checksum:016x}"
        shown = self.data or array.nbytes <= SMALL_BYTES
        content = f"x{array.tobytes().hex()}" if shown else "..."
        return f"{name_of(array.dtype)} ({dims}) {content}"

    def kernel(self, number: int, kernel: Kernel) -> Iterator[str]:
        signature = kernel.signature
        variables = signature.dim_vars
        if kernel.image is not None:
            size = len(kernel.image.code)
            yield f"; kernel k{number} has native code: {kernel.image.triple}, {size} bytes"
        yield f"kernel k{number} {_quote(kernel.name)} {{"
        for i, (var, source) in enumerate(zip(variables, signature.sources)):
            yield f"  var d{i} {_quote(var.name)} operand {source.operand} axis {source.axis}"
        for operand in signature.operands:
            dims = ", ".join(dim_text(d, variables) for d in operand.dims)
            names = f"{operand.direction.name.lower()} {operand.access.name.lower()}"
            yield f"  {names} {operand.dtype.name} ({dims})"
        for check in signature.checks:
            a, b = dim_text(check.a, variables), dim_text(check.b, variables)
            yield f"  check {a} == {b} {_quote(check.what)}"
        for output, input in signature.in_place:
            yield f"  in_place {output} {input}"
        yield f"  scratch {dim_text(signature.scratch_bytes, variables)}"
        if signature.private_bytes != 0:
            yield f"  private {dim_text(signature.private_bytes, variables)}"
        chains = signature.chains or (1,) * len(signature.phases)
        for phase, chain in zip(signature.phases, chains):
            rounds = f" chain {dim_text(chain, variables)}" if chain != 1 else ""
            yield f"  phase {dim_text(phase, variables)}{rounds}"
        yield f"  work {dim_text(signature.work, variables)}"
        yield from _block(kernel.nest, "  ")
        yield "}"

    def function(self, number: int, function: FunctionCode) -> Iterator[str]:
        banks = f"{function.words} {function.owned} {function.borrowed}"
        yield (
            f"function f{number} {_quote(function.name)} {_letters(function.params)} -> "
            f"{_letters(function.results)} registers {banks} {{"
        )
        for register, name in function.register_names:
            yield f"  name {register} {_quote(name)}"
        lines = {line.index: line for line in function.lines}
        for i, instr in enumerate(function.code):
            if i in lines:
                line = lines[i]
                yield f"  line {line.source} {line.line} {line.column}"
            if instr.name == "label":
                yield f"  {instr.operands[0]}:"
            else:
                yield f"    {instruction_text(instr)}"
        yield "}"


def instruction_text(instr: Instr) -> str:
    """Return one instruction as text, for example `add_i64 w2, w0, w1`."""
    operands = ISA[instr.name].operands
    values = [_operand_text(o.kind, v) for o, v in zip(operands, instr.operands)]
    return f"{instr.name} {', '.join(values)}"


def _operand_text(kind: Kind, value: OperandValue) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(value)})"
    if isinstance(value, str):
        return value
    if kind.name == "dtype" and value in BY_CODE:
        return BY_CODE[value].name
    if kind.name == "trap_code" and value in TrapCode.__members__.values():
        return TrapCode(value).name
    return f"{kind.mark}{value}"


PRECEDENCE = {"+": 1, "*": 2, "//": 2, "%": 2}


def dim_text(dim: Dim, variables: tuple[DimVar, ...]) -> str:
    """Return a dim with its variables named `d0`, `d1`, ... by their place."""
    names = {number: name for name, number in DIM_OPS.items()}
    stack: list[tuple[str, int]] = []
    items = iter(dim_code(dim, variables))
    for op in items:
        name = names[op]
        if name == "constant":
            stack.append((str(next(items)), 3))
        elif name == "variable":
            stack.append((f"d{next(items)}", 3))
        else:
            (b, level_b), (a, level_a) = stack.pop(), stack.pop()
            level = PRECEDENCE.get(name, 0)
            if not level:
                stack.append((f"{name}({a}, {b})", 3))
                continue
            a = a if level_a >= level else f"({a})"
            b = b if level_b > level else f"({b})"
            stack.append((f"{a} {name} {b}", level))
    return stack[0][0]
