"""Pools whose windows differ in length or move on by two elements, as numpy computes them."""

from __future__ import annotations

import numpy as np
import pytest

import relayvm
from relayvm.base.dtypes import dtype_of
from relayvm.ops import OPS

DTYPES = ("float16", "float32", "float64", "int8", "uint16", "int64")


def data(dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    rng = np.random.default_rng(0)
    if dtype.startswith("float"):
        found = rng.standard_normal(shape).astype(dtype)
        found[..., 5::17], found[..., 3::29] = np.nan, np.inf
        return found
    return rng.integers(0, 100, shape).astype(dtype)


def run(call: str, x: np.ndarray, is_known: bool) -> np.ndarray:
    shape = x.shape if is_known else f"({', '.join('?' * x.ndim)})"
    text = f"def @main(%x: Tensor[{shape}, {dtype_of(x.dtype)}]) {{ {call} }}"
    vm = relayvm.VirtualMachine(relayvm.compile(relayvm.parse(text)), num_threads=2)
    return np.asarray(vm.run(x))


def compare(found: np.ndarray, expected: np.ndarray) -> None:
    assert found.dtype == expected.dtype
    if expected.dtype.kind != "f":
        np.testing.assert_array_equal(found, expected)
        return
    eps = float(np.finfo(expected.dtype).eps)
    wide = [np.asarray(a, np.float64) for a in (found, expected)]
    np.testing.assert_allclose(*wide, rtol=8 * eps, atol=8 * eps)


@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("kind", ["max", "avg"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_windows_of_several_lengths_are_those_of_numpy(
    dtype: str, kind: str, is_known: bool
) -> None:
    cases = (("2d", (2, 3, 23, 50), (7, 6)), ("3d", (1, 2, 5, 11, 37), (3, 4, 5)))
    for rank, shape, result in (*cases, ("2d", (1, 2, 3, 70), (7, 64))):
        name, x = f"nn.adaptive_{kind}_pool{rank}", data(dtype, shape)
        attrs = {"output_size": result}
        expected = np.asarray(OPS[name].evaluate([x], attrs))
        compare(run(f"{name}(%x, output_size={list(result)})", x, is_known), expected)


@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("kind", ["max", "avg"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_windows_two_elements_apart_are_those_of_numpy(
    dtype: str, kind: str, is_known: bool
) -> None:
    name = f"nn.{kind}_pool1d"
    for size, taps, pad in ((128, 2, 0), (71, 3, 1), (33, 2, 0), (6, 2, 1), (300, 5, 2)):
        x = data(dtype, (2, 3, size))
        attrs = {"pool_size": (taps,), "strides": (2,), "padding": (pad, pad)}
        expected = np.asarray(OPS[name].evaluate([x], attrs))
        call = f"{name}(%x, pool_size=[{taps}], strides=[2], padding=[{pad}, {pad}])"
        compare(run(call, x, is_known), expected)
