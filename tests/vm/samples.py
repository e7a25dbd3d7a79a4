"""A program with one of each table, and a verified function around any instruction of the table."""

from __future__ import annotations

import dataclasses

import numpy as np

from relayvm.base.abi import (
    Access,
    DimCheck,
    DimSource,
    Direction,
    Image,
    Kernel,
    KernelSignature,
    Operand,
)
from relayvm.base.dims import DimVar, dim_broadcast, symbol
from relayvm.base.dtypes import FLOAT32, INT64
from relayvm.vm.isa import ISA, Instruction
from relayvm.vm.manifest import Constructor, DataType, Entry, Parameter, ValueType
from relayvm.vm.program import (
    ClosureSignature,
    FunctionCode,
    Instr,
    Layout,
    LayoutKind,
    Line,
    Program,
    SourceText,
    TensorSpec,
)

# xor eax, eax; ret: a kernel that does nothing
EMPTY_CODE = b"\x31\xc0\xc3".ljust(64, b"\xcc")

INT = ValueType("tensor", "int64", "int64")
VECTOR = ValueType("tensor", "Tensor[(?,), float32]", "float32", (None,))

LAYOUTS = (
    Layout(LayoutKind.TUPLE, "pair", "wo", ("int64", "")),
    Layout(LayoutKind.CONSTRUCTOR, "Nil", "", (), "List", 0, 2),
    Layout(LayoutKind.CONSTRUCTOR, "Cons", "wo", ("int32", ""), "List", 1, 2),
    Layout(LayoutKind.CLOSURE, "add_n", "w", ("int64",), function=0, signature=0),
    Layout(LayoutKind.REF, "ref(int64)", "w", ("int64",)),
    Layout(LayoutKind.REF, "ref(List)", "o", ("",), cyclic=True),
    Layout(LayoutKind.ARRAY, "array(int64)", "w", ("int64",)),
    Layout(LayoutKind.ARRAY, "array(List)", "o", ("",)),
)
LAYOUT_OF_KIND = {
    "cell": 0,
    "data": 1,
    "ref_word": 4,
    "ref_object": 5,
    "array": 6,
    "array_word": 6,
    "array_object": 7,
}
FUNCTIONS = (
    FunctionCode(
        "closure_body",
        "owo",
        "w",
        1,
        2,
        0,
        (Instr("release", ("o0",)), Instr("release", ("o1",)), Instr("return", (("w0",),))),
    ),
    FunctionCode(
        "callee",
        "wob",
        "w",
        1,
        1,
        1,
        (Instr("release", ("o0",)), Instr("return", (("w0",),))),
        (Line(0, 0, 1, 5),),
        (("w0", "%x"), ("o0", "%list")),
    ),
)


def kernel(name: str = "scale", image: Image | None = None) -> Kernel:
    """Return a kernel with every feature of signatures."""
    n, m = DimVar("n"), DimVar("m")
    size = symbol(n)
    signature = KernelSignature(
        (
            Operand(Direction.INPUT, FLOAT32, (size,)),
            Operand(Direction.INPUT, FLOAT32, (), Access.SCALAR),
            Operand(Direction.INPUT, INT64, (), Access.SCALAR),
            Operand(Direction.INPUT, FLOAT32, (size, 3), Access.STRIDED),
            Operand(Direction.OUTPUT, FLOAT32, (size,)),
            Operand(Direction.OUTPUT, INT64, (), Access.SCALAR),
        ),
        (n, m),
        (DimSource(0, 0), DimSource(2, -1)),
        (DimCheck(size, dim_broadcast(size, symbol(m) * 2 - 1), "rows"),),
        ((4, 0),),
        size * 4 + size // 3,
        (size, 2),
        size * size * 3 + symbol(m) + 7,
        symbol(m) * 64,
    )
    return Kernel(name, f"nest {name}\n  with `two` lines", signature, image)


def image_of(*names: str) -> Image:
    """Return an image in which every phase of these kernels does nothing."""
    return Image(
        "x86_64-unknown-linux-gnu",
        ("sse2",),
        EMPTY_CODE,
        dict.fromkeys(names, (0, 0)),
        (("memcpy", 56),),
    )


def build(kernels, target):
    """Return the kernels with code that does nothing: a builder for `load`."""
    return [
        dataclasses.replace(k, image=dataclasses.replace(image_of(), entries=_entries(k)))
        for k in kernels
    ]


def _entries(built: Kernel) -> dict[str, tuple[int, ...]]:
    return {built.name: (0,) * len(built.signature.phases)}


def program(*functions: FunctionCode, entry: int = 1, stored: bool = False) -> Program:
    """Return the sample program with more functions; `stored` gives its kernel an image."""
    image = image_of("scale") if stored else None
    items = ValueType("data", "List", name="List")
    return Program(
        FUNCTIONS + functions,
        LAYOUTS,
        (ClosureSignature("wo", "w"),),
        (TensorSpec("float32", (2, None)), TensorSpec("int64", ())),
        (np.arange(4, dtype=np.float32), np.arange(6, dtype=np.int64).reshape(2, 3)),
        (kernel(image=image),),
        (
            Entry(
                "callee",
                entry,
                (Parameter("x", INT), Parameter("list", items), Parameter("v", VECTOR)),
                INT,
            ),
        ),
        (
            DataType(
                "List",
                (Constructor("Nil", 1, ()), Constructor("Cons", 2, (INT, items))),
            ),
        ),
        (SourceText("a.relay", "def @main() {\n  1\n}\n"), SourceText("b.relay")),
        version="1.2.3",
    )


def probe(row: Instruction) -> FunctionCode:
    """Return a function `wwoob -> w` that holds the instruction and that the verifier accepts."""
    builder = _Probe()
    operands = tuple(builder.operand(o.kind.name) for o in row.operands)
    if row.name == "kernel_reuse":
        operands = builder.reuse(operands)
    code = [Instr(row.name, operands)]
    if row.name == "release":
        builder.full.discard("o0")
    leaves = row.name in ("return", "tail_call", "tail_call_closure")
    if leaves:
        code = [Instr("release", (r,)) for r in sorted(builder.full)] + code
    else:
        code.append(Instr("label", ("L0",)))
        code += [Instr("release", (r,)) for r in sorted(builder.full)]
        code.append(Instr("return", (("w0",),)))
    if not builder.jumps:
        code = [i for i in code if i.name != "label"]
        if row.name == "trap":
            code = code[:1]
    return FunctionCode("probe", "wwoob", "w", 4, 8, 3, tuple(code))


class _Probe:
    def __init__(self) -> None:
        self.inputs = iter(("o0", "o1"))
        self.outputs = iter(f"o{i}" for i in range(2, 8))
        self.full = {"o0", "o1"}
        self.jumps = False

    def take(self) -> str:
        register = next(self.inputs)
        self.full.discard(register)
        return register

    def fill(self) -> str:
        register = next(self.outputs)
        self.full.add(register)
        return register

    def label(self) -> str:
        self.jumps = True
        return "L0"

    def reuse(self, operands):
        k, _, inputs, outputs = operands
        return (k, 1, (self.take(), *inputs[1:]), outputs)

    def operand(self, kind: str):
        makers = {
            "w": lambda: "w0",
            "w_out": lambda: "w2",
            "o_in": self.take,
            "o_out": self.fill,
            "ob": lambda: "b0",
            "b_out": lambda: "b1",
            "imm64": lambda: -2,
            "imm32": lambda: 0,
            "function": lambda: 1,
            "field_word": lambda: 0,
            "field_object": lambda: 1,
            "dtype": lambda: 4,
            "axis": lambda: 7,
            "trap_code": lambda: 3,
            "label": self.label,
            "words": lambda: ("w0", "w1"),
            "fields_in": lambda: ("w1", self.take()),
            "fields_out": lambda: ("w3", self.fill()),
            "arguments": self.arguments,
            "results": lambda: ("w2",),
            "returns": lambda: ("w1",),
            "kernel_inputs": lambda: ("b0", "w0", "w1", "b0"),
            "kernel_outputs": lambda: (self.fill(), "w3"),
            "labels": lambda: (self.label(), "L0"),
        }
        if kind in LAYOUT_OF_KIND:
            return LAYOUT_OF_KIND[kind]
        return makers[kind]() if kind in makers else 0

    def arguments(self):
        # a closure has been taken by its own operand: its signature has no lent parameter
        if "o0" not in self.full:
            return ("w0", self.take())
        return ("w0", self.take(), "b0")


PROBES = {name: probe(row) for name, row in ISA.items()}
