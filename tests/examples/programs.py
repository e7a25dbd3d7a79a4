"""What an example is run with, and what must come out; `plain` makes results comparable."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

F32, F64 = np.float32, np.float64


@dataclass(frozen=True)
class Example:
    """A program by category and name, arguments of `main`, and the result as `plain` gives it.

    `expected` is a value, or a function of the arguments that computes it in numpy.
    """

    name: str
    args: tuple[Any, ...]
    expected: Any
    rtol: float = 1e-5

    def wanted(self) -> Any:
        """Return the expected result."""
        return self.expected(*self.args) if callable(self.expected) else self.expected


def plain(value: Any) -> Any:
    """Return a result as arrays, tuples and lists: lists of the prelude and arrays become lists,
    other data a name with its fields.
    """
    if isinstance(value, np.ndarray):
        return value
    if isinstance(value, list):
        return [plain(v) for v in value]
    if isinstance(value, tuple):
        return tuple(plain(v) for v in value)
    if value.constructor in ("Cons", "Nil"):
        items = []
        while value.constructor == "Cons":
            items.append(plain(value.fields[0]))
            value = value.fields[1]
        return items
    return (value.constructor, *(plain(f) for f in value.fields))


def assert_close(actual: Any, wanted: Any, rtol: float, where: str = "result") -> None:
    """Compare plain values; numbers within `rtol`, integers and structure exactly."""
    if isinstance(wanted, (tuple, list)) and not isinstance(actual, np.ndarray):
        assert type(actual) is type(wanted), f"{where}: {actual!r} is no {type(wanted).__name__}"
        assert len(actual) == len(wanted), f"{where}: {len(actual)} parts, not {len(wanted)}"
        for index, (a, w) in enumerate(zip(actual, wanted)):
            assert_close(a, w, rtol, f"{where}[{index}]")
    elif isinstance(wanted, str):
        assert actual == wanted, where
    elif np.asarray(wanted).dtype.kind == "f":
        np.testing.assert_allclose(actual, wanted, rtol=rtol, atol=rtol, err_msg=where)
    else:
        np.testing.assert_array_equal(actual, wanted, err_msg=where)


def numbers(seed: int, *shape: int, scale: float = 1.0) -> np.ndarray:
    """Return normally distributed float32 numbers."""
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(F32)


Expectation = Callable[..., Any]
