"""Values that scalar programs compute with, and the small set of primitives every back end
implements.

A program is a Python function over `Value`s. Run on a numpy machine it computes; run on a code
generator's machine it emits. Each primitive is one IEEE or integer operation, so all machines give
the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, Union

from relayvm.base.dtypes import BOOL, DType

# Primitive: (operands, what it means). Floats follow IEEE 754 with round to nearest even and no
# contraction; integers wrap. Comparisons give bool and are false on NaN, except `not_equal`.
PRIMITIVES: dict[str, tuple[int, str]] = {
    "add": (2, "sum"),
    "subtract": (2, "difference"),
    "multiply": (2, "product"),
    "divide": (2, "float quotient"),
    "quotient": (2, "integer quotient rounded toward zero; divisor not 0, no overflow"),
    "negative": (1, "float with its sign flipped"),
    "absolute": (1, "float with its sign cleared"),
    "copy_sign": (2, "float with the magnitude of the first and the sign of the second"),
    "sqrt": (1, "square root"),
    "round_even": (1, "nearest whole float, ties to even"),
    "floor": (1, "whole float not above"),
    "ceil": (1, "whole float not below"),
    "truncate": (1, "whole float toward zero"),
    "fma": (3, "a * b + c, rounded once"),
    "bit_and": (2, "bitwise and, also of bools"),
    "bit_or": (2, "bitwise or, also of bools"),
    "bit_xor": (2, "bitwise exclusive or, also of bools"),
    "shift_left": (2, "bits moved up; amount in range"),
    "shift_right": (2, "bits moved down, sign kept if signed; amount in range"),
    "equal": (2, "comparison"),
    "not_equal": (2, "comparison, true on NaN"),
    "less": (2, "comparison"),
    "less_equal": (2, "comparison"),
}
COMPARISONS = frozenset({"equal", "not_equal", "less", "less_equal"})


class Machine(Protocol):
    """What a back end provides: primitives over its own representation of values.

    `convert` is asked only for pairs and values that fit: between integers and bools (wrapping),
    integer to float32 or float64, float to an integer whose range holds the value, and between
    neighbours of float16, float32, float64. `repeat` runs `body` on the state while `condition`
    holds for any lane. `when_any` runs `program` if `condition` holds for any lane and returns its
    results, else those of `otherwise`, for all lanes.
    """

    def constant(self, value: float, dtype: DType) -> Any: ...
    def apply(self, name: str, dtype: DType, operands: Sequence[Any]) -> Any: ...
    def choose(self, condition: Any, a: Any, b: Any, dtype: DType) -> Any: ...
    def bitcast(self, raw: Any, source: DType, target: DType) -> Any: ...
    def convert(self, raw: Any, source: DType, target: DType) -> Any: ...
    def repeat(
        self,
        condition: Callable[[Sequence[Any]], Any],
        body: Callable[[Sequence[Any]], Sequence[Any]],
        state: Sequence[Any],
        dtypes: Sequence[DType],
    ) -> Sequence[Any]: ...
    def when_any(
        self,
        condition: Any,
        program: Callable[[], Sequence[Any]],
        otherwise: Sequence[Any],
        dtypes: Sequence[DType],
    ) -> Sequence[Any]: ...


class Value:
    """A value of a machine together with its dtype; Python numbers beside it take its dtype."""

    __slots__ = ("dtype", "machine", "raw")

    def __init__(self, machine: Machine, raw: Any, dtype: DType) -> None:
        self.machine = machine
        self.raw = raw
        self.dtype = dtype

    def like(self, value: Number) -> Value:
        """Return `value` itself, or the constant with the dtype of this value."""
        if isinstance(value, Value):
            assert value.dtype is self.dtype, f"{value.dtype} beside {self.dtype}"
            return value
        return Value(self.machine, self.machine.constant(value, self.dtype), self.dtype)

    def apply(self, name: str, *others: Number) -> Value:
        """Return a primitive of this value and others of the same dtype."""
        operands = [self, *(self.like(other) for other in others)]
        raw = self.machine.apply(name, self.dtype, [v.raw for v in operands])
        return Value(self.machine, raw, BOOL if name in COMPARISONS else self.dtype)

    def __add__(self, other: Number) -> Value:
        return self.apply("add", other)

    def __sub__(self, other: Number) -> Value:
        return self.apply("subtract", other)

    def __rsub__(self, other: Number) -> Value:
        return self.like(other).apply("subtract", self)

    def __mul__(self, other: Number) -> Value:
        return self.apply("multiply", other)

    __radd__ = __add__
    __rmul__ = __mul__

    def __truediv__(self, other: Number) -> Value:
        return self.apply("divide", other)

    def __rtruediv__(self, other: Number) -> Value:
        return self.like(other).apply("divide", self)

    def __neg__(self) -> Value:
        return self.apply("negative") if self.dtype.is_float else self.like(0) - self

    def __and__(self, other: Number) -> Value:
        return self.apply("bit_and", other)

    def __or__(self, other: Number) -> Value:
        return self.apply("bit_or", other)

    def __xor__(self, other: Number) -> Value:
        return self.apply("bit_xor", other)

    def __invert__(self) -> Value:
        return self.apply("bit_xor", 1 if self.dtype.is_bool else -1)

    def __lshift__(self, other: Number) -> Value:
        return self.apply("shift_left", other)

    def __rshift__(self, other: Number) -> Value:
        return self.apply("shift_right", other)

    def __lt__(self, other: Number) -> Value:
        return self.apply("less", other)

    def __le__(self, other: Number) -> Value:
        return self.apply("less_equal", other)

    def __gt__(self, other: Number) -> Value:
        return self.like(other).apply("less", self)

    def __ge__(self, other: Number) -> Value:
        return self.like(other).apply("less_equal", self)

    def equals(self, other: Number) -> Value:
        """Return the comparison (`==` keeps Python's meaning)."""
        return self.apply("equal", other)

    def differs(self, other: Number) -> Value:
        """Return the comparison, true on NaN."""
        return self.apply("not_equal", other)

    def bitcast(self, dtype: DType) -> Value:
        """Return the same bits read as another dtype of the same size."""
        return Value(self.machine, self.machine.bitcast(self.raw, self.dtype, dtype), dtype)

    def convert(self, dtype: DType) -> Value:
        """Return the value in another dtype; see `Machine.convert` for what may be asked."""
        if dtype is self.dtype:
            return self
        return Value(self.machine, self.machine.convert(self.raw, self.dtype, dtype), dtype)


Number = Union[Value, int, float]


def fma(a: Value, b: Number, c: Number) -> Value:
    """Return `a * b + c`, rounded once."""
    return a.apply("fma", b, c)


def select(condition: Value, a: Value, b: Number) -> Value:
    """Return `a` where the condition holds, else `b`."""
    other = a.like(b)
    return Value(a.machine, a.machine.choose(condition.raw, a.raw, other.raw, a.dtype), a.dtype)


def evaluate_polynomial(x: Value, coefficients: Sequence[float]) -> Value:
    """Return the polynomial in `x` by Horner's rule; coefficients come lowest power first."""
    result: Number = coefficients[-1]
    for coefficient in reversed(coefficients[:-1]):
        result = fma(x, result, coefficient)
    assert isinstance(result, Value)
    return result


def repeat(
    condition: Callable[..., Value], body: Callable[..., Sequence[Value]], *state: Value
) -> list[Value]:
    """Run `body` on the state while `condition` holds for any lane, and return the last state.

    `body` must leave lanes alone for which the condition does not hold.
    """
    machine = state[0].machine
    dtypes = [v.dtype for v in state]

    def wrap(raws: Sequence[Any]) -> list[Value]:
        return [Value(machine, raw, dtype) for raw, dtype in zip(raws, dtypes)]

    raws = machine.repeat(
        lambda raws: condition(*wrap(raws)).raw,
        lambda raws: [v.raw for v in body(*wrap(raws))],
        [v.raw for v in state],
        dtypes,
    )
    return wrap(raws)


def where_any(
    condition: Value, program: Callable[[], Sequence[Value]], *otherwise: Value
) -> list[Value]:
    """Return the results of `program` in lanes where the condition holds, else `otherwise`.

    The program runs only if some lane needs it, so it may cost much where that is rare.
    """
    machine = otherwise[0].machine

    def chosen() -> list[Any]:
        return [select(condition, a, b).raw for a, b in zip(program(), otherwise)]

    dtypes = [v.dtype for v in otherwise]
    raws = machine.when_any(condition.raw, chosen, [v.raw for v in otherwise], dtypes)
    return [Value(machine, raw, dtype) for raw, dtype in zip(raws, dtypes)]
