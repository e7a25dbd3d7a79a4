"""Suppression of more boxes than are looked at together."""

from __future__ import annotations

import numpy as np
import pytest

import relayvm
from relayvm.ops import OPS


def detections(count: int, side: float) -> np.ndarray:
    """Return boxes (class, score, left, top, right, bottom) in a square."""
    rng = np.random.default_rng(0)
    corner = rng.uniform(0, side, (count, 2))
    sides = rng.uniform(1, 20, (count, 2))
    first = np.stack((rng.integers(0, 3, count), rng.random(count)), 1)
    return np.concatenate((first, corner, corner + sides), 1).astype(np.float32)[None]


@pytest.mark.parametrize("most", [-1, 270])
@pytest.mark.parametrize("side", [60.0, 600.0])
@pytest.mark.parametrize("id_index", [-1, 0])
def test_the_choice_among_many_boxes_is_that_of_the_meaning(most, side, id_index) -> None:
    data = detections(700, side)
    given = [data, np.array([690], np.int32), np.arange(700, dtype=np.int32)[None]]
    attrs = f"{most}, 0.4f, id_index={id_index}"
    operands = ", ".join(f"%{k}: Tensor[{v.shape}, {v.dtype}]" for k, v in zip("abc", given))
    operands = operands.replace(",)", ")")
    text = f"def @main({operands}) {{ vision.non_max_suppression(%a, %b, %c, {attrs}) }}"
    module = relayvm.parse(text)
    found = relayvm.VirtualMachine(relayvm.compile(module)).run(*given)
    call = module["main"].body
    scalars = [np.int32(most), np.float32(0.4)]
    expected = OPS["vision.non_max_suppression"].evaluate([*given, *scalars], call.attrs)
    for a, b in zip(found, expected):
        np.testing.assert_array_equal(a, b)
    assert int(np.asarray(found[1])[0, 0]) >= 270 or side == 60.0
