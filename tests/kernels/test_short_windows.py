"""Short windows that slide along the last axis: places in lanes, elements in the one order."""

from __future__ import annotations

import numpy as np
import pytest

import relayvm


def in_order(terms: np.ndarray, op: np.ufunc, first: float) -> np.ndarray:
    """Reduce the last axis by 16 partials that are folded in halves."""
    partials = np.full((*terms.shape[:-1], 16), first, terms.dtype)
    for k in range(terms.shape[-1]):
        partials[..., k % 16] = op(partials[..., k % 16], terms[..., k])
    while partials.shape[-1] > 1:
        half = partials.shape[-1] // 2
        partials = op(partials[..., :half], partials[..., half:])
    return partials[..., 0]


def pooled(name: str, x: np.ndarray, size: int) -> np.ndarray:
    axes = x.ndim - 2
    every = f"[{', '.join([str(size)] * axes)}]"
    text = f"def @main(%x: Tensor[{x.shape}, float32]) {{ {name}(%x, pool_size={every}) }}"
    return np.asarray(relayvm.VirtualMachine(relayvm.compile(relayvm.parse(text))).run(x))


@pytest.mark.parametrize(
    ("axes", "size"), [(1, 2), (1, 3), (1, 20), (2, 3), (2, 5), (3, 2), (3, 3)]
)
def test_windows_are_reduced_in_the_one_order(axes: int, size: int) -> None:
    x = np.random.default_rng(0).standard_normal((1, 3, *[9] * (axes - 1), 41)).astype(np.float32)
    x[0, 0, ..., ::5] = -0.0
    windows = np.lib.stride_tricks.sliding_window_view(x, [size] * axes, range(2, 2 + axes))
    terms = windows.reshape(*windows.shape[: 2 + axes], -1)
    total = in_order(terms, np.add, 0.0)
    count = np.float32(size**axes)
    found = pooled(f"nn.avg_pool{axes}d", x, size)
    assert found.tobytes() == (total / count).astype(np.float32).tobytes()
    found = pooled(f"nn.max_pool{axes}d", x, size)
    np.testing.assert_array_equal(found, terms.max(-1))


def test_a_window_that_holds_nan_has_no_greatest_element() -> None:
    x = np.zeros((1, 1, 40), np.float32)
    x[0, 0, 17] = np.nan
    found = pooled("nn.max_pool1d", x, 3)
    assert np.flatnonzero(np.isnan(found[0, 0])).tolist() == [15, 16, 17]
