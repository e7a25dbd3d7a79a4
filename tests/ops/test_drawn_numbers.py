"""Kernels draw words, numbers and choices in vectors: any number of them, as numpy does."""

from __future__ import annotations

import numpy as np
import pytest

import relayvm
from relayvm.base.dtypes import INT64
from relayvm.ops import OPS

KEY = np.array([5, 6, 7, 8, 9, 10, 11, 2**64 - 700, 1 << 62, 0], np.uint64)
SIZES = (0, 1, 5, 63, 64, 65, 128, 1000)


def machine(text: str) -> relayvm.VirtualMachine:
    return relayvm.VirtualMachine(relayvm.compile(relayvm.parse(text)), num_threads=2)


def equal(found: object, expected: object) -> None:
    assert isinstance(found, tuple) and isinstance(expected, tuple)
    for a, b in zip(found, expected):
        np.testing.assert_array_equal(np.asarray(a), b)


@pytest.mark.parametrize("size", SIZES)
def test_words_of_any_number_are_those_of_numpy(size: int) -> None:
    name = "random.threefry_generate"
    vm = machine(f"def @main(%k: Tensor[(10,), uint64]) {{ {name}(%k, out_shape=[{size}]) }}")
    equal(vm.run(KEY), OPS[name].evaluate([KEY], {"out_shape": (size,)}))


@pytest.mark.parametrize("rows", [0, 1, 3])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8"])
def test_choices_among_any_number_are_those_of_numpy(dtype: str, rows: int) -> None:
    op, rng = OPS["random.multinomial"], np.random.default_rng(0)
    call = "random.multinomial(%k, %p, num_samples=70)"
    operands = f"%k: Tensor[(10,), uint64], %p: Tensor[(?, ?), {dtype}]"
    unknown = machine(f"def @main({operands}) {{ {call} }}")
    for size in (0, 1, 2, 17, 300):
        weights = (rng.standard_normal((rows, size)) * 9).astype(dtype)
        if dtype.startswith("float"):
            weights[:, 3::11], weights[:, 5::13] = np.nan, np.inf if rows == 1 else 0.0
        expected = op.evaluate([KEY, weights], {"num_samples": 70})
        known = machine(f"def @main({operands.replace('(?, ?)', str(weights.shape))}) {{ {call} }}")
        equal(unknown.run(KEY, weights), expected)
        equal(known.run(KEY, weights), expected)


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("dtype", ["int8", "uint64", "float16", "float32", "float64"])
def test_places_in_rows_of_any_length_are_those_of_numpy(dtype: str, right: bool) -> None:
    op, rng = OPS["searchsorted"], np.random.default_rng(0)
    attrs = {"right": right, "dtype": INT64}
    for shape, looked_up in (("(?)", "(?, ?)"), ("(?, ?)", "(?, ?)"), ("(?)", "()")):
        operands = f"%s: Tensor[{shape}, {dtype}], %x: Tensor[{looked_up}, {dtype}]"
        call = f'searchsorted(%s, %x, right={right}, dtype="int64")'
        unknown = machine(f"def @main({operands.replace('(?)', '(?,)')}) {{ {call} }}")
        for size, count in ((0, 3), (1, 1), (7, 40), (64, 17), (300, 5)):
            lines = (3,) if shape == "(?, ?)" else ()
            s = np.sort(rng.integers(0, 100, (*lines, size)).astype(dtype), -1)
            x = rng.integers(0, 100, (3, count)).astype(dtype)
            if np.dtype(dtype).kind == "f" and size > 1:
                s[..., -1], x[1] = np.nan, np.nan
            x = x if looked_up != "()" else x[0, 0]
            np.testing.assert_array_equal(unknown.run(s, x), op.evaluate([s, x], attrs))
            if not lines and s.dtype.kind != "f":
                expected = np.searchsorted(s, x, "right" if right else "left")
                np.testing.assert_array_equal(unknown.run(s, x), expected)
