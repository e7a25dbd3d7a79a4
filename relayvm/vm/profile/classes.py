"""What kind of work each instruction is, and what it allocates."""

from __future__ import annotations

from functools import cache

from relayvm.base.dtypes import DTYPES
from relayvm.vm.isa import COMPARISONS, ISA
from relayvm.vm.program import Instr, Layout, LayoutKind

_CLASSES = {
    "retain": "counts of references",
    "release": "counts of references",
    "goto": "branches",
    "branch_false": "branches",
    "switch_tag": "matches",
    "tag": "matches",
    "trap": "traps",
    "return": "returns",
    "call": "calls",
    "tail_call": "tail calls",
    "call_closure": "closure calls",
    "tail_call_closure": "closure calls",
    "kernel": "kernel calls",
    "kernel_reuse": "kernel calls",
    "cell_new": "new cells",
    "cell_reuse": "new cells",
}
_GROUPS = {
    "moves": "constants and moves",
    "cells": "fields of cells",
    "references": "references",
    "arrays": "arrays",
    "tensors": "tensors",
    "casts": "casts",
}
_FLOATS = tuple(dtype.short for dtype in DTYPES if dtype.is_float)
_CELL_BYTES, _FIELD_BYTES, _CLASS_BYTES = 16, 8, 16
_REFERENCE_BYTES = 48
_KINDS = {
    LayoutKind.TUPLE: "tuples",
    LayoutKind.CONSTRUCTOR: "cells",
    LayoutKind.CLOSURE: "closures",
}
_OTHERS = {
    "box_word": "tensors of a scalar",
    "tensor_from_words": "tensors of scalars",
    "tensor_view": "views of tensors",
    "tensor_view_take": "views of tensors",
    "slice_view": "views of tensors",
    "array_new": "arrays",
}


@cache
def class_of(name: str) -> str:
    """Return the class of an instruction, by its name."""
    known = _CLASSES.get(name) or _GROUPS.get(ISA[name].group)
    if known is not None:
        return known
    operation, _, dtype = name.rpartition("_")
    if operation in COMPARISONS:
        return "comparisons"
    return "float arithmetic" if dtype in _FLOATS else "integer arithmetic"


def allocation_of(instr: Instr, layouts: tuple[Layout, ...]) -> tuple[str, int | None] | None:
    """Return what an instruction allocates, and its bytes if they are fixed; None if nothing."""
    if instr.name in ("cell_new", "cell_reuse"):
        is_new = instr.name == "cell_new"
        number = instr.operands[1 if is_new else 2]
        assert isinstance(number, int)
        layout = layouts[number]
        size = _CELL_BYTES + _FIELD_BYTES * len(layout.fields)
        name = f"{layout.type}.{layout.name}" if layout.type else layout.name
        name = f"{_KINDS[layout.kind]} {name}".rstrip()
        if is_new:
            return name, size + -size % _CLASS_BYTES
        return f"{name} where dead ones lay", None
    if instr.name in ("ref_new", "ref_new_word"):
        return "references", _REFERENCE_BYTES
    return (_OTHERS[instr.name], None) if instr.name in _OTHERS else None
