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


def test_only_the_line_that_is_not_finite_is_lost(machines) -> None:
    re, im = np.ones((40, 24)), np.zeros((40, 24))
    re[7, 3], im[30, 0] = np.inf, np.nan
    found = np.asarray(machines[False].run(re, im)[0])
    lost = np.isnan(found)
    assert lost[[7, 30]].all() and lost.sum() == 2 * 24


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
