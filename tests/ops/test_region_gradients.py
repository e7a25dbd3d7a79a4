"""Gradients of regions by their images against finite differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cases_vision import VISION_CASES
from operator_case import Case
from test_gradients import gradient_function

from relayvm.base.dtypes import FLOAT64
from relayvm.compiler.evaluate import Evaluator
from relayvm.compiler.infer_types import infer_expr
from relayvm.ir.module import Module
from relayvm.ir.types import TensorType
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


@pytest.mark.parametrize(
    ("name", "case"),
    [
        (name, case)
        for name in ("vision.roi_align_grad", "vision.roi_pool_grad")
        for case in VISION_CASES[name]
    ],
)
def test_second_and_third_gradients_undo_each_other(name: str, case: Case) -> None:
    rng, attrs, back = np.random.default_rng(6), case.attrs, OPS[name]
    g, data = (rng.normal(0, 1, s) for s in case.shapes[:2])
    rois, slopes = np.array(case.values[2], np.float64), rng.normal(0, 1, case.shapes[1])
    types = [TensorType(np.shape(v), FLOAT64) for v in (g, data, rois)]
    function, present = gradient_function(back, types, attrs, ())
    evaluator = Evaluator(Module())
    found = evaluator.apply(evaluator.evaluate(infer_expr(function)), (g, data, rois, slopes))
    assert present == (0,)
    assert np.isclose(np.sum(back.evaluate([g, data, rois], attrs) * slopes), np.sum(g * found[0]))
    if name == "vision.roi_align_grad" and attrs.get("mode") != "max":
        return  # a mean of samples is linear, and its own second gradient
    pick = OPS[name.replace("_grad", "_pick")]
    own = {k: v for k, v in attrs.items() if k != "mode"}
    assert np.array_equal(pick.evaluate([slopes, data, rois], own), found[0])
    function, present = gradient_function(pick, [types[1], *types[1:]], own, ())
    (again,) = evaluator.apply(evaluator.evaluate(infer_expr(function)), (slopes, data, rois, g))
    assert present == (0,)
    assert np.allclose(again, back.evaluate([g, data, rois], attrs))
