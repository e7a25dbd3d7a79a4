"""What a row of `bench operators` says: the call's text, its operands, and the peer's call.

Operators without a row are called with default attributes on made-up operands, where their rules
take them, see `operators.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Union

import numpy as np

# A size: a literal, or a name of `sizes`.
Size = Union[int, str]
Shape = tuple[Size, ...]
# What makes an operand whose values have a meaning, as boxes have, from the named sizes.
Maker = Callable[[np.random.Generator, "dict[str, int]"], np.ndarray]
Operand = Union["tuple[str, Shape]", Maker]
Peer = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Row:
    """A call: `text` over %a, %b and so on, whose operands are (dtype, shape) each, or made.

    An integer operand named `dtype:bound` has values below the bound. `{name}` in the text is a
    named size. `peer` is given the module `torch` and its tensors; `needs` are the packages without
    which there is none. A row that is `fixed` has operands of one size.
    """

    operator: str
    text: str
    operands: tuple[Operand, ...]
    peer: Peer | None = None
    note: str = ""
    needs: tuple[str, ...] = ("torch",)
    fixed: bool = False


def sizes(elements: int) -> dict[str, int]:
    """Return the named sizes where an operand has so many elements, a power of four."""
    side = 1 << (elements.bit_length() // 2)
    return {
        "all": elements,
        "side": side,
        "half": side // 2,
        "rows": elements // 64,
        "planes": elements // 1024,
        "image": elements // 64 // 32,
        "half_all": elements // 2,
        "half_image": elements // 64 // 32 // 2,
        "twice_image": elements // 64 // 32 * 2,
        "twice_rows": elements // 64 * 2,
        "sparse": 16 * side,
    }


SQUARE = ("float32", ("side", "side"))
FLAGS = ("bool", ("side", "side"))
INTS = ("int32", ("side", "side"))
VECTOR = ("float32", ("all",))
IMAGE = ("float32", (1, 64, "image", 32))
# 64 channels of sequences and of volumes.
SEQUENCE = ("float32", (1, 64, "rows"))
VOLUME = ("float32", (1, 64, "image", 4, 8))
HEADS = ("float32", (8, "planes", 8, 16))


def channels(number: int = 64) -> tuple[str, Shape]:
    """Return an operand with a number for each channel."""
    return ("float32", (number,))


def unary(name: str, peer: str = "") -> Row:
    """Return the row of a function of one square; `peer` names it in PyTorch if it differs."""
    function = peer or name
    return Row(name, f"{name}(%a)", (SQUARE,), lambda t, x: named(t, function)(x))


def binary(name: str, peer: str = "", operand: Operand = SQUARE) -> Row:
    """Return the row of a function of two operands of one kind."""
    function = peer or name
    return Row(
        name, f"{name}(%a, %b)", (operand, operand), lambda t, x, y: named(t, function)(x, y)
    )


def named(torch: Any, path: str) -> Any:
    """Return what a dotted name means in PyTorch."""
    for part in path.split("."):
        torch = getattr(torch, part)
    return torch


def shaped(
    name: str, attrs: str, peer: Peer | None, operand: Operand = SQUARE, note: str = ""
) -> Row:
    """Return the row of a call of one operand with attributes."""
    return Row(name, f"{name}(%a, {attrs})" if attrs else f"{name}(%a)", (operand,), peer, note)
