"""A bytecode program as data: functions, layouts, signatures, constants, kernels, names.

`codec` turns it into bytes and back, `assembly` into text and back.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from math import prod
from typing import Union

import numpy as np

from relayvm.base.abi import Image, Kernel
from relayvm.vm.isa import ISA
from relayvm.vm.manifest import DataType, Entry

WORD, OWNED, BORROWED = "w", "o", "b"

OperandValue = Union[int, str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Instr:
    """One instruction: its name in the table and a value for each operand.

    A register is its text (`w3`, `o0`, `b1`), an index or immediate an int, a label its name, a
    list a tuple of registers (or labels). The pseudo-instruction `label` with a name marks a place
    and takes no bytes.
    """

    name: str
    operands: tuple[OperandValue, ...] = ()


def units(instr: Instr) -> int:
    """Return the 16-bit units that an instruction takes in the file."""
    size = 1
    for operand, value in zip(ISA[instr.name].operands, instr.operands):
        if operand.kind.group == "list":
            assert isinstance(value, tuple)
            size += 1 + len(value) * (2 if operand.kind.name == "labels" else 1)
        else:
            size += operand.kind.units
    return size


@dataclass(frozen=True, slots=True)
class Line:
    """From instruction `index` of `FunctionCode.code` on, the program stands at this place of a
    source."""

    index: int
    source: int
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class FunctionCode:
    """A function: classes of parameters and results, sizes of its three banks of registers, its
    code.

    The parameters of a class arrive in its first registers, in order. A string of classes has one
    letter each: `w` word, `o` owned, `b` borrowed (parameters only).
    """

    name: str
    params: str
    results: str
    words: int
    owned: int
    borrowed: int
    code: tuple[Instr, ...]
    lines: tuple[Line, ...] = ()
    register_names: tuple[tuple[str, str], ...] = ()


class LayoutKind(IntEnum):
    """What an object with fields is; the number stored in executables."""

    TUPLE = 0
    CONSTRUCTOR = 1
    CLOSURE = 2
    REF = 3
    ARRAY = 4


_CELL_BYTES = 16
_SMALL_BYTES = 1024


def block_class(fields: int) -> int | None:
    """Return the size class of a cell, None if its block is not that of a small object."""
    size = _CELL_BYTES + 8 * fields
    return (size + 15) // 16 if size <= _SMALL_BYTES else None


@dataclass(frozen=True, slots=True)
class Layout:
    """The fields of a kind of object.

    `dtypes` has a dtype name for each field of class w and "" for each of class o. References and
    arrays have one field, their content. The layouts of a data type's constructors stand together,
    in order of `tag`. `cyclic` says that a reference is reachable from it. `function` and
    `signature` are those of a closure.
    """

    kind: LayoutKind
    name: str
    fields: str
    dtypes: tuple[str, ...]
    type: str = ""
    tag: int = 0
    tags: int = 0
    cyclic: bool = False
    function: int = -1
    signature: int = -1

    @property
    def block_class(self) -> int | None:
        """The size class of its cells, None if their blocks are not those of small objects."""
        return block_class(len(self.fields))


@dataclass(frozen=True, slots=True)
class ClosureSignature:
    """Classes of a closure's parameters (w or o, without the closure itself) and results."""

    params: str
    results: str


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """A tensor type that `tensor_check` names: dims are sizes or None for any."""

    dtype: str
    dims: tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class LateConstant:
    """A constant that is bound late: the executable knows it by a checksum of its bytes, and does
    not run before it has it. `dtype` and `shape` are as those of an array.
    """

    dtype: np.dtype
    shape: tuple[int, ...]
    checksum: int

    @property
    def nbytes(self) -> int:
        """The bytes of the array."""
        return prod(self.shape) * self.dtype.itemsize


@dataclass(frozen=True, slots=True)
class SourceText:
    """A source that the line table points into; the text may be empty."""

    name: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class NativeCode:
    """Machine code of all functions, for runtimes whose `rvm_native_abi` is `abi`.

    The entries of the image are offsets of `functions`, of what `enter`s each from C, and the
    `margin` of stack in bytes.
    """

    image: Image
    abi: int


@dataclass(frozen=True, eq=False)
class Program:
    """All that an executable holds; `version` is that of the compiler.

    Constants are C-contiguous arrays in native byte order.
    """

    functions: tuple[FunctionCode, ...] = ()
    layouts: tuple[Layout, ...] = ()
    signatures: tuple[ClosureSignature, ...] = ()
    tensor_types: tuple[TensorSpec, ...] = ()
    constants: tuple[np.ndarray | LateConstant, ...] = ()
    kernels: tuple[Kernel, ...] = ()
    entries: tuple[Entry, ...] = ()
    types: tuple[DataType, ...] = ()
    sources: tuple[SourceText, ...] = ()
    devices: tuple[str, ...] = ("cpu",)
    version: str = ""
    native: NativeCode | None = None
