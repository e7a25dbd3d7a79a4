"""Gradients of operators whose sizes or places are values that have no gradient themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from operator_case import Case
from operator_cases import CASES, types_of

from relayvm.base.dims import ANY
from relayvm.base.dtypes import BY_NAME, FLOAT64
from relayvm.compiler.evaluate import Evaluator
from relayvm.compiler.infer_types import infer_expr
from relayvm.ir.expr import Attrs, Call, Function, Var
from relayvm.ir.module import Module
from relayvm.ir.types import TensorType
from relayvm.ops import OPS, gradient_call

STEP = 1e-6
NAMES = [
    f"dyn.{name}{end}"
    for name in ("image.resize2d", "nn.upsampling", "nn.upsampling3d")
    for end in ("", "_grad")
]
NAMES += ["image.crop_and_resize", "image.crop_and_resize_grad"]
CALLS = [
    (name, case)
    for name in NAMES
    for case in CASES[name]
    if "out_dtype" not in case.attrs and all(0 not in shape for shape in case.shapes)
]


def gradient_of(name: str, case: Case, values: list[Any], g: Any, unknown: bool) -> Any:
    """Return the gradient of the first operand, in a program of known or of unknown sizes."""
    op = OPS[name]
    dtypes = tuple(BY_NAME[case.dtypes[i]] if i in case.dtypes else FLOAT64 for i in range(9))
    params = []
    for i, kind in enumerate(types_of(case, dtypes[: len(case.shapes)])):
        assert isinstance(kind, TensorType)
        shape = (ANY,) * kind.rank if unknown and i not in case.known else kind.shape
        params.append(Var(f"x{i}", TensorType(shape, kind.dtype)))
    kinds = [p.type_annotation for p in params]
    result = op.result_type(kinds, case.attrs)  # type: ignore[arg-type]
    slope = Var("g", result)
    call = Call(op, tuple(params), Attrs(case.attrs))
    view = gradient_call(op, params, case.attrs, call, kinds)  # type: ignore[arg-type]
    body = op.facets["gradient"](view, slope)[0]
    function = infer_expr(Function((*params, slope), body, None, ()))
    evaluator = Evaluator(Module())
    return evaluator.apply(evaluator.evaluate(function), (*values, g))


@pytest.mark.parametrize("unknown", [False, True])
@pytest.mark.parametrize(("name", "case"), CALLS)
def test_the_gradient_is_what_finite_differences_say(name: str, case: Case, unknown: bool) -> None:
    op, rng = OPS[name], np.random.default_rng(3)
    values: list[Any] = [
        np.array(case.values[i]).astype(BY_NAME[case.dtypes[i]].numpy)
        if i in case.values
        else rng.normal(0, 1, shape)
        for i, shape in enumerate(case.shapes)
    ]
    result = op.evaluate(values, case.attrs)
    assert isinstance(result, np.ndarray)
    g = rng.normal(0, 1, result.shape)
    slopes = np.zeros(values[0].shape)
    for index in np.ndindex(*slopes.shape):
        ends = []
        for step in (STEP, -STEP):
            moved = values[0].copy()
            moved[index] += step
            ends.append(np.sum(op.evaluate([moved, *values[1:]], case.attrs) * g))
        slopes[index] = (ends[0] - ends[1]) / (2 * STEP)
    found = gradient_of(name, case, values, g, unknown)
    assert np.allclose(found, slopes, atol=1e-6), (found, slopes)
