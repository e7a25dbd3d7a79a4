"""Every instruction on words against numpy, on edge values of every dtype."""

from __future__ import annotations

import math

import numpy as np
import pytest

from relayvm.base.dtypes import COMPUTED, NARROW, NUMERIC, DType
from relayvm.vm import isa
from relayvm.vm.executable import Executable
from relayvm.vm.machine import VirtualMachine
from tests.vm.programs import entry, executable


def type_of(dtype: DType) -> dict:
    return {"kind": "tensor", "text": dtype.name, "dtype": dtype.name}


def samples(dtype: DType) -> list:
    """Return edge values of the dtype."""
    if dtype.is_bool:
        return [False, True]
    if dtype.is_float:
        big = {"float16": 60000.0, "float32": 3e38, "float64": 1e308, "bfloat16": 3e38}[dtype.name]
        numbers = [
            0.0,
            -0.0,
            1.0,
            -1.0,
            0.1,
            2.5,
            -3.7,
            7.0,
            big,
            -big,
            math.inf,
            -math.inf,
            math.nan,
        ]
        return [dtype.numpy.type(v) for v in [*numbers, 5.960464477539063e-08]]
    values = {0, 1, 2, 3, 7, 100, dtype.max, dtype.max - 1, dtype.bits - 1, dtype.bits}
    if dtype.kind == "int":
        values |= {-1, -2, -3, -7, dtype.min, dtype.min + 1}
    return sorted(values)


def wrap(value: int, dtype: DType) -> int:
    value &= (1 << dtype.bits) - 1
    return value - (1 << dtype.bits) if dtype.kind == "int" and value >> (dtype.bits - 1) else value


def truncated(a: int, b: int) -> int:
    quotient = abs(a) // abs(b) if b else 0
    return -quotient if (a < 0) != (b < 0) else quotient


INTEGER_MEANING = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "divide": truncated,
    "floor_divide": lambda a, b: a // b if b else 0,
    "mod": lambda a, b: a - b * truncated(a, b) if b else 0,
    "floor_mod": lambda a, b: a % b if b else 0,
    "maximum": max,
    "minimum": min,
    "bitwise_and": lambda a, b: a & b,
    "bitwise_or": lambda a, b: a | b,
    "bitwise_xor": lambda a, b: a ^ b,
}


def shifted(name: str, a: int, b: int, dtype: DType) -> int:
    if 0 <= b < dtype.bits:
        return a << b if name == "left_shift" else a >> b
    return -1 if name == "right_shift" and a < 0 else 0


def float_divmod(a, b):
    """Return quotient and rest as numpy defines them."""
    with np.errstate(all="ignore"):
        return np.floor_divide(a, b), np.mod(a, b)


def float_meaning(name: str, a, b, dtype: DType):
    """Return the result in the dtype; narrow floats are computed in float32 and rounded once."""
    wide = np.float32 if dtype in NARROW else dtype.numpy.type
    x, y = wide(a), wide(b)
    with np.errstate(all="ignore"):
        result = {
            "add": lambda: x + y,
            "subtract": lambda: x - y,
            "multiply": lambda: x * y,
            "divide": lambda: x / y,
            "mod": lambda: np.fmod(x, y),
            "floor_divide": lambda: float_divmod(x, y)[0],
            "floor_mod": lambda: float_divmod(x, y)[1],
            "maximum": lambda: np.maximum(x, y),
            "minimum": lambda: np.minimum(x, y),
        }[name]()
        return dtype.numpy.type(result)


COMPARISONS = {
    "equal": lambda a, b: a == b,
    "not_equal": lambda a, b: a != b,
    "less": lambda a, b: a < b,
    "less_equal": lambda a, b: a <= b,
    "greater": lambda a, b: a > b,
    "greater_equal": lambda a, b: a >= b,
}


def machine(instructions) -> VirtualMachine:
    return VirtualMachine(program(instructions))


def program(instructions) -> Executable:
    """Return an executable with an entry for each (instruction, operand dtypes, result dtype)."""
    text, entries = [], []
    for i, (name, operands, result) in enumerate(instructions):
        count = len(operands)
        registers = ", ".join(f"w{k}" for k in range(count))
        text.append(
            f'function f{i} "{name}" ({", ".join("w" * count)}) -> (w) '
            f"registers {count + 1} 0 0 {{\n  {name} w{count}, {registers}\n  return (w{count})\n}}"
        )
        parameters = [(f"x{k}", type_of(d)) for k, d in enumerate(operands)]
        entries.append(entry(i, name, parameters, type_of(result)))
    return executable("\n".join(text), entries)


def same(actual, expected) -> bool:
    if np.isnan(expected):
        return bool(np.isnan(actual))
    return actual == expected and np.signbit(actual) == np.signbit(expected)


BOOL = COMPUTED[0]


@pytest.mark.parametrize("dtype", [d for d in COMPUTED if d.is_integer], ids=str)
def test_integer_arithmetic_wraps_and_never_traps(dtype):
    names = [*INTEGER_MEANING, "left_shift", "right_shift"]
    vm = machine([(isa.word_name(n, dtype), (dtype, dtype), dtype) for n in names])
    for name in names:
        for a in samples(dtype):
            for b in samples(dtype):
                if name in INTEGER_MEANING:
                    expected = wrap(INTEGER_MEANING[name](a, b), dtype)
                else:
                    expected = wrap(shifted(name, a, b, dtype), dtype)
                actual = vm.invoke(isa.word_name(name, dtype), a, b)
                assert int(actual) == expected, (name, a, b)


@pytest.mark.parametrize("dtype", [d for d in NUMERIC if d.is_float], ids=str)
def test_float_arithmetic_is_numpys(dtype):
    names = list(isa.ARITHMETIC)
    vm = machine([(isa.word_name(n, dtype), (dtype, dtype), dtype) for n in names])
    for name in names:
        for a in samples(dtype):
            for b in samples(dtype):
                actual = vm.invoke(isa.word_name(name, dtype), a, b)
                expected = float_meaning(name, a, b, dtype)
                if name in ("maximum", "minimum") and a == b:
                    assert actual == expected, (name, a, b)
                else:
                    assert same(actual, expected), (name, a, b, actual, expected)


@pytest.mark.parametrize("dtype", COMPUTED, ids=str)
def test_comparisons_give_bools(dtype):
    vm = machine([(isa.word_name(n, dtype), (dtype, dtype), BOOL) for n in COMPARISONS])
    for name, meaning in COMPARISONS.items():
        for a in samples(dtype):
            for b in samples(dtype):
                actual = vm.invoke(isa.word_name(name, dtype), a, b)
                assert bool(actual) == bool(meaning(a, b)), (name, a, b)


@pytest.mark.parametrize("dtype", COMPUTED, ids=str)
def test_unary_instructions(dtype):
    names = [n for n in ("negative", "abs", "bitwise_not") if isa.word_name(n, dtype) in isa.ISA]
    vm = machine([(isa.word_name(n, dtype), (dtype,), dtype) for n in names])
    for name in names:
        for a in samples(dtype):
            actual = vm.invoke(isa.word_name(name, dtype), a)
            if dtype.is_float:
                assert same(actual, -a if name == "negative" else abs(a)), (name, a)
            elif dtype.is_bool:
                assert bool(actual) is not a
            else:
                expected = {"negative": -a, "abs": abs(a), "bitwise_not": ~a}[name]
                assert int(actual) == wrap(expected, dtype), (name, a)


def test_logical_instructions():
    table = {
        "logical_and": lambda a, b: a and b,
        "logical_or": lambda a, b: a or b,
        "logical_xor": lambda a, b: a != b,
        "bitwise_and_b1": lambda a, b: a and b,
        "bitwise_or_b1": lambda a, b: a or b,
        "bitwise_xor_b1": lambda a, b: a != b,
    }
    vm = machine([(n, (BOOL, BOOL), BOOL) for n in table] + [("logical_not", (BOOL,), BOOL)])
    for name, meaning in table.items():
        for a in (False, True):
            for b in (False, True):
                assert bool(vm.invoke(name, a, b)) == meaning(a, b)
    assert bool(vm.invoke("logical_not", False))


def cast_meaning(value, source: DType, target: DType):
    if target.is_bool:
        return bool(value != 0)
    if target.is_float:
        with np.errstate(all="ignore"):
            return target.array(value)[()]
    if not source.is_float:
        return wrap(int(value), target)
    if np.isnan(value):
        return 0
    if np.isinf(value):
        return target.max if value > 0 else target.min
    return min(max(math.trunc(float(value)), target.min), target.max)


@pytest.mark.parametrize("source", COMPUTED, ids=str)
def test_casts_saturate_from_floats_and_wrap_between_integers(source):
    targets = [t for t in COMPUTED if t is not source]
    vm = machine([(isa.cast_name(source, t), (source,), t) for t in targets])
    extra = [0.5, 65519.0, 65520.0, 2049.0, -129.9, 1e10] if source.name == "float64" else []
    for target in targets:
        for value in samples(source) + extra:
            actual = vm.invoke(isa.cast_name(source, target), value)
            expected = cast_meaning(value, source, target)
            if target.is_float:
                assert same(actual, expected), (target, value, actual, expected)
            else:
                assert int(actual) == int(expected), (target, value, actual, expected)


def test_float16_rounds_as_numpy_does_everywhere():
    float16, float64 = (next(d for d in COMPUTED if d.name == n) for n in ("float16", "float64"))
    vm = machine([("cast_f64_f16", (float64,), float16)])
    generator = np.random.default_rng(5)
    halves = np.arange(0, 0x7C00, 37, dtype=np.uint16).view(np.float16).astype(np.float64)
    middles = (halves[:-1] + halves[1:]) / 2
    near = halves * (1 + generator.normal(size=halves.size) * 1e-4)
    for value in np.concatenate([halves, middles, near]):
        with np.errstate(over="ignore"):
            assert vm.invoke("cast_f64_f16", value) == np.float16(value), value
