"""How many operations a scalar program is: a machine whose values know nothing but that they are,
and which counts what it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from relayvm.base.dtypes import DType
from relayvm.kernels.scalars.value import Value

# What takes longer than a sum, measured in vectors; there is none of integer quotients.
_SLOW = {"divide": 8, "sqrt": 8, "quotient": 40}
# So many rounds a loop has, about.
_ROUNDS = 8


class _CountingMachine:
    """Counts operations. What runs only if some lane needs it counts nothing: that is rare."""

    def __init__(self) -> None:
        self.count = 0

    def constant(self, value: float, dtype: DType) -> Any:
        return None

    def apply(self, name: str, dtype: DType, operands: Sequence[Any]) -> Any:
        self.count += _SLOW.get(name, 1)

    def choose(self, condition: Any, a: Any, b: Any, dtype: DType) -> Any:
        self.count += 1

    def bitcast(self, raw: Any, source: DType, target: DType) -> Any:
        return None

    def convert(self, raw: Any, source: DType, target: DType) -> Any:
        self.count += 1

    def repeat(
        self,
        condition: Callable[[Sequence[Any]], Any],
        body: Callable[[Sequence[Any]], Sequence[Any]],
        state: Sequence[Any],
        dtypes: Sequence[DType],
    ) -> Sequence[Any]:
        before = self.count
        condition(state)
        body(state)
        self.count += (_ROUNDS - 1) * (self.count - before)
        return state

    def when_any(
        self,
        condition: Any,
        program: Callable[[], Sequence[Any]],
        otherwise: Sequence[Any],
        dtypes: Sequence[DType],
    ) -> Sequence[Any]:
        return otherwise


def count_operations(program: Callable[..., Value], *dtypes: DType) -> int:
    """Return how many operations on vectors a program of values of some dtypes is, about: one at
    least.
    """
    machine = _CountingMachine()
    program(*(Value(machine, None, dtype) for dtype in dtypes))
    return max(1, machine.count)
