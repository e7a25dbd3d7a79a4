"""Layouts of tensors, such as NHWC: where each axis of the canonical order stands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from relayvm.base.shapes import ShapeError

T = TypeVar("T")

SPATIAL = {1: "W", 2: "HW", 3: "DHW"}


@dataclass(frozen=True, slots=True)
class Layout:
    """`places[k]` is the axis at which a tensor has axis k of the canonical order."""

    places: tuple[int, ...]

    def canonical(self, values: Sequence[T]) -> tuple[T, ...]:
        """Return one value an axis in canonical order."""
        return tuple(values[place] for place in self.places)

    def arranged(self, values: Sequence[T]) -> tuple[T, ...]:
        """Return one value an axis, given in canonical order, as the tensor has them."""
        return tuple(values[self.places.index(axis)] for axis in range(len(values)))

    @property
    def is_canonical(self) -> bool:
        return self.places == tuple(range(len(self.places)))


def read_layout(text: str, canonical: str, what: str) -> Layout:
    """Return the layout that `text` names by the letters of `canonical`, each once.

    Raises ShapeError `bad-attribute`.
    """
    if sorted(text) != sorted(canonical):
        message = f"{what} must have the letters of `{canonical}` in any order, got {text!r}"
        raise ShapeError(message, "bad-attribute")
    return Layout(tuple(text.index(letter) for letter in canonical))


def data_layout(text: str, spatial: int, what: str) -> Layout:
    """Return a layout of batch, channels and `spatial` axes of space."""
    return read_layout(text, f"NC{SPATIAL[spatial]}", what)


def kernel_layout(text: str, spatial: int, what: str) -> Layout:
    """Return a layout of output channels, input channels and `spatial` axes of space."""
    return read_layout(text, f"OI{SPATIAL[spatial]}", what)
