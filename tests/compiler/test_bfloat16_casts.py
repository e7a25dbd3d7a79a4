"""Casts to and from bfloat16: in kernels, in registers and of constants, rounded once."""

from __future__ import annotations

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

import relayvm
from relayvm.base.dtypes import BFLOAT16, BOOL, DTYPES, DType
from relayvm.base.narrow.bfloat16 import widened
from relayvm.ops import OPS

KIND = np.dtype(ml_dtypes.bfloat16)
EVERY = np.arange(1 << 16, dtype=np.uint16)
OTHERS = [d for d in DTYPES if d is not BFLOAT16]
VALUES = np.sort(widened(EVERY[(EVERY & 0x7F80) != 0x7F80].view(KIND)).astype(np.float64))


def ties() -> list[int]:
    """Return whole numbers on and beside the middle between two neighbours, of every size."""
    middles = [(257 + 2 * k) << shift for k in (0, 1, 62, 127) for shift in range(56)]
    return [sign * (m + d) for m in middles for d in (-1, 0, 1) for sign in (1, -1)]


def samples(dtype: DType) -> np.ndarray:
    if dtype is BOOL:
        return np.array([False, True])
    if dtype.bits == 16:
        return EVERY.view(dtype.numpy)
    if dtype.is_float:
        middles = (VALUES[:-1] + VALUES[1:])[::7] / 2
        near = np.concatenate([middles, np.nextafter(middles, np.inf)])
        ends = [np.inf, -np.inf, np.nan, 3.3961775e38, -3.39e38, 1e-45, 0.0, -0.0]
        with np.errstate(over="ignore"):
            return np.concatenate([near, ends]).astype(dtype.numpy)
    limits = [int(dtype.min), int(dtype.max), 0, 1]
    return np.array(limits + [n for n in ties() if dtype.min <= n <= dtype.max], dtype.numpy)


def nearest(value: int | float) -> float:
    """Return the element nearest to a number, by comparing its neighbours exactly."""
    if value != value or value in (np.inf, -np.inf) or value == 0:
        return float(value)
    exact = Fraction(value)
    if abs(exact) >= Fraction(2) ** 127 * (Fraction(2) - Fraction(1, 256)):
        return np.inf if exact > 0 else -np.inf
    at = int(np.searchsorted(VALUES, float(value)))
    near = VALUES[max(at - 2, 0) : at + 2]
    bits = near.astype(np.float32).view(np.uint32) >> 16
    order = [(abs(Fraction(float(v)) - exact), int(b) & 1) for v, b in zip(near, bits)]
    result = float(near[order.index(min(order))])
    return np.copysign(result, float(exact)) if result == 0 else result


def cast(array: np.ndarray, dtype: DType) -> np.ndarray:
    given = array.dtype if array.dtype != KIND else "bfloat16"
    text = f'def @main[n](%x: Tensor[(n), {given}]) {{ cast(%x, dtype="{dtype}") }}'
    result: np.ndarray = relayvm.VirtualMachine(relayvm.compile(relayvm.parse(text))).run(array)
    return result


def cast_words(array: np.ndarray, dtype: DType, engine: str) -> list[np.ndarray]:
    given = array.dtype if array.dtype != KIND else "bfloat16"
    text = f'def @main(%x: {given}) -> {dtype} {{ cast(%x, dtype="{dtype}") }}'
    vm = relayvm.VirtualMachine(relayvm.compile(relayvm.parse(text)), engine=engine)
    return [vm.run(x) for x in array]


def assert_same(given: np.ndarray, wanted: np.ndarray, dtype: DType) -> None:
    """Fail unless both have the same bits; NaN is any NaN."""
    assert given.dtype == wanted.dtype == dtype.numpy
    if dtype.is_real:
        a, b = given.astype(np.float64), wanted.astype(np.float64)
        nan = np.isnan(a) & np.isnan(b)
        assert np.array_equal(np.where(nan, 0, a), np.where(nan, 0, b))
        assert np.array_equal(
            np.where(nan, False, np.signbit(a)), np.where(nan, False, np.signbit(b))
        )
    else:
        assert np.array_equal(given, wanted)


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize("dtype", OTHERS, ids=str)
def test_numbers_are_rounded_once_to_it(dtype):
    given = samples(dtype)
    if given.size > 5000:
        given = given[:: max(1, given.size // 4000)]
    wanted = np.array([nearest(v) for v in given.astype(object)]).astype(np.float32).astype(KIND)
    assert_same(cast(given, BFLOAT16), wanted, BFLOAT16)
    assert_same(OPS["cast"].evaluate([given], {"dtype": BFLOAT16}), wanted, BFLOAT16)
    for engine in ("interpreter", "jit"):
        some = slice(None, None, max(1, given.size // 150))
        words = np.array(cast_words(given[some], BFLOAT16, engine), KIND)
        assert_same(words, wanted[some], BFLOAT16)


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize("dtype", OTHERS, ids=str)
def test_every_element_becomes_what_its_float32_becomes(dtype):
    every = EVERY.view(KIND)
    wanted = OPS["cast"].evaluate([widened(every)], {"dtype": dtype})
    assert_same(cast(every, dtype), wanted, dtype)
    assert_same(OPS["cast"].evaluate([every], {"dtype": dtype}), wanted, dtype)
    for engine in ("interpreter", "jit"):
        words = np.array(cast_words(every[::431], dtype, engine), dtype.numpy)
        assert_same(words, wanted[::431], dtype)
