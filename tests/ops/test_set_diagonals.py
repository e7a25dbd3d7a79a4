"""Diagonals of matrices are set: bands inside and beyond the matrix, unknown sizes, in place."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import relayvm
from relayvm.ops import OPS

BANDS = ((0, 0), (-1, 2), (2, 2), (-6, -2), (-9, 9), (3, 20))
SHAPES = ((5, 7), (7, 5), (2, 3, 4, 4), (1, 1), (3, 0, 4))


def diagonals(shape: tuple[int, ...], band: tuple[int, int]) -> tuple[int, ...]:
    """Return the shape of what a band of matrices is set to."""
    rows, columns = shape[-2:]
    length = max(min(rows + min(band[1], 0), columns - max(band[0], 0)), 0)
    count = () if band[0] == band[1] else (band[1] - band[0] + 1,)
    return (*shape[:-2], *count, length)


@pytest.mark.parametrize("unknown", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("band", BANDS)
def test_diagonals_of_a_band_are_set(
    band: tuple[int, int], shape: tuple[int, ...], unknown: bool
) -> None:
    rng = np.random.default_rng(len(shape))
    data, lines = (rng.random(s).astype(np.float32) for s in (shape, diagonals(shape, band)))
    types = [
        ("?," * v.ndim) if unknown else "".join(f"{d}," for d in v.shape) for v in (data, lines)
    ]
    params = ", ".join(f"%{n}: Tensor[({t}), float32]" for n, t in zip("ab", types))
    for above, below in itertools.product((False, True), repeat=2):
        attrs = dict(zip(("k1", "k2"), band))
        attrs |= {"super_diag_right_align": above, "sub_diag_right_align": below}
        told = ", ".join(f"{name}={value}" for name, value in attrs.items())
        call = f"matrix_set_diag(%a, %b, {told})"
        vm = relayvm.VirtualMachine(
            relayvm.compile(relayvm.parse(f"def @main({params}) {{ ({call}, negative({call})) }}"))
        )
        expected = OPS["matrix_set_diag"].evaluate([data, lines], attrs)
        result, negated = vm.run(data, lines)
        np.testing.assert_array_equal(result, expected)
        np.testing.assert_array_equal(negated, -expected)
