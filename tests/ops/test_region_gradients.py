"""Gradients of regions by their images against finite differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cases_vision import VISION_CASES
from operator_case import Case

from relayvm.ops import OPS

STEP = 1e-6
CALLS = [
    (name, case) for name in ("vision.roi_align", "vision.roi_pool") for case in VISION_CASES[name]
]


@pytest.mark.parametrize(("name", "case"), CALLS)
def test_the_gradient_is_what_finite_differences_say(name: str, case: Case) -> None:
    rng = np.random.default_rng(5)
    forward, backward = OPS[name], OPS[f"{name}_grad"]
    data: Any = rng.permutation(np.prod(case.shapes[0])).reshape(case.shapes[0]) / 7.0
    rois = np.array(case.values[1], np.float64)
    result = forward.evaluate([data, rois], case.attrs)
    g = rng.normal(0, 1, result.shape)
    slopes = np.zeros(data.shape)
    for index in np.ndindex(*data.shape):
        ends = []
        for step in (STEP, -STEP):
            moved = data.copy()
            moved[index] += step
            ends.append(np.sum(forward.evaluate([moved, rois], case.attrs) * g))
        slopes[index] = (ends[0] - ends[1]) / (2 * STEP)
    assert np.abs(slopes).max() > 0.1
    assert np.allclose(backward.evaluate([g, data, rois], case.attrs), slopes, atol=1e-6)
