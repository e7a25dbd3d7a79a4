"""Fast Fourier transforms of lines of any length and number."""

from __future__ import annotations

import numpy as np
import pytest

import relayvm

SHAPES = (
    (1, 1),
    (3, 2),
    (5, 3),
    (40, 12),
    (17, 16),
    (3, 30),
    (2, 97),
    (33, 128),
    (2, 1000),
    (17, 131),
    (1, 509),
    (2, 6 * 127),
    (1, 20011),
    (18, 8219),
    (0, 8),
)


@pytest.fixture(scope="module")
def machines() -> dict[bool, relayvm.VirtualMachine]:
    found = {}
    for inverse in (False, True):
        operands = "%a: Tensor[(?, ?), float64], %b: Tensor[(?, ?), float64]"
        text = f"def @main({operands}) {{ dft(%a, %b, inverse={inverse}) }}"
        found[inverse] = relayvm.VirtualMachine(relayvm.compile(relayvm.parse(text)), num_threads=2)
    return found


@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_transforms_are_those_of_numpy(machines, shape, inverse) -> None:
    rng = np.random.default_rng(0)
    re, im = rng.standard_normal((2, *shape))
    found = machines[inverse].run(re, im)
    if re.size:
        expected = (np.fft.ifft if inverse else np.fft.fft)(re + 1j * im)
        np.testing.assert_allclose(found[0], expected.real, atol=1e-12, rtol=1e-12)
        np.testing.assert_allclose(found[1], expected.imag, atol=1e-12, rtol=1e-12)
    assert np.asarray(found[0]).shape == shape


def _known(shape: tuple[int, ...], dtype: str, inverse: bool) -> relayvm.VirtualMachine:
    operands = ", ".join(f"%{name}: Tensor[{shape}, {dtype}]" for name in "ab")
    text = f"def @main({operands}) {{ dft(%a, %b, inverse={inverse}) }}"
    return relayvm.VirtualMachine(relayvm.compile(relayvm.parse(text)), num_threads=2)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "size",
    [
        1,
        2,
        7,
        12,
        49,
        50,
        62,
        108,
        140,
        509,
        1003,
        37 * 41,
        64,
        72,
        128,
        200,
        256,
        512,
        1000,
        2048,
        3 * 5 * 7 * 11 * 13 * 16,
    ],
)
def test_transforms_of_a_known_length_are_those_of_numpy(size: int, dtype: str) -> None:
    inverse = size % 3 == 1
    re, im = np.random.default_rng(0).standard_normal((2, 3, 2, size)).astype(dtype)
    found = _known(re.shape, dtype, inverse).run(re, im)
    expected = (np.fft.ifft if inverse else np.fft.fft)(re.astype(np.float64) + 1j * im)
    most = 4 * np.finfo(dtype).eps * abs(expected).max()
    np.testing.assert_allclose(found[0], expected.real, atol=most, rtol=0)
    np.testing.assert_allclose(found[1], expected.imag, atol=most, rtol=0)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_only_the_line_of_a_known_length_that_is_not_finite_is_lost(dtype: str) -> None:
    re, im = np.ones((5, 200), dtype), np.zeros((5, 200), dtype)
    re[1, 199], im[3, 0] = np.inf, np.nan
    found = np.asarray(_known(re.shape, dtype, False).run(re, im))
    lost = np.isnan(found)
    assert lost[:, [1, 3]].all() and lost.sum() == 2 * 2 * 200


def test_only_the_line_that_is_not_finite_is_lost(machines) -> None:
    re, im = np.ones((40, 24)), np.zeros((40, 24))
    re[7, 3], im[30, 0] = np.inf, np.nan
    found = np.asarray(machines[False].run(re, im)[0])
    lost = np.isnan(found)
    assert lost[[7, 30]].all() and lost.sum() == 2 * 24


def test_windows_with_what_is_not_finite_are_lost() -> None:
    x, window = np.ones(256, np.float32), np.ones(64, np.float32)
    x[70] = np.inf
    call = "stft(%a, %b, n_fft=64, hop_length=64, win_length=64)"
    text = f"def @main(%a: Tensor[(256,), float32], %b: Tensor[(64,), float32]) {{ {call} }}"
    found = relayvm.VirtualMachine(relayvm.compile(relayvm.parse(text))).run(x, window)
    lost = np.isnan(np.asarray(found))
    assert lost[:, 1].all() and lost.sum() == 33 * 2


def test_gradients_of_take_are_added_in_place_along_any_axis() -> None:
    rng = np.random.default_rng(0)
    x, places = np.zeros((3, 5, 1100), np.float32), rng.integers(0, 5, (4, 2))
    grad = rng.standard_normal((3, 4, 2, 1100)).astype(np.float32)
    operands = ", ".join(
        f"%{n}: Tensor[{v.shape}, {v.dtype}]" for n, v in (("g", grad), ("x", x), ("i", places))
    )
    text = f"def @main({operands}) {{ take_grad(%g, %x, %i, axis=1) }}"
    vm = relayvm.VirtualMachine(relayvm.compile(relayvm.parse(text)), num_threads=2)
    expected = x.copy()
    for k in np.ndindex(*places.shape):
        expected[:, places[k]] += grad[:, k[0], k[1]]
    np.testing.assert_allclose(vm.run(grad, x, places), expected, atol=1e-5)
