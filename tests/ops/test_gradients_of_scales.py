"""Gradients by scales of quantized numbers, and by the ends of ranges."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from test_gradients import gradient_function

from relayvm.base.dims import ANY
from relayvm.base.dtypes import dtype_of
from relayvm.compiler.evaluate import Evaluator
from relayvm.compiler.infer_types import infer_expr
from relayvm.ir.module import Module
from relayvm.ir.types import TensorType
from relayvm.ops import OPS

X = np.array([[3, 5, 9], [0, 7, 2]], np.uint8)
SLOPES = np.arange(6, dtype=np.float32).reshape(2, 3) - 2


def gradients(name: str, values: list[Any], g: Any, attrs: dict[str, Any], known: bool) -> Any:
    """Return the gradients that there are, in a program of known or of unknown sizes."""
    types = [
        TensorType(v.shape if known else (ANY,) * v.ndim, dtype_of(v.dtype))
        for v in map(np.asarray, values)
    ]
    function, _ = gradient_function(OPS[name], types, attrs, ())
    evaluator = Evaluator(Module())
    return evaluator.apply(evaluator.evaluate(infer_expr(function)), (*values, g))


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(
    ("scale", "axis"), [(2.0, -1), ([2.0], 0), ([2.0, 3.0], 0), ([2.0, 3.0, 4.0], 1)]
)
def test_a_scale_gets_the_sum_of_what_it_multiplies(scale: Any, axis: int, known: bool) -> None:
    values = [X, np.array(scale, np.float32), np.array(3, np.int32)]
    (found,) = gradients("qnn.dequantize", values, SLOPES, {"axis": axis}, known)
    each = SLOPES * (X.astype(np.float32) - 3)
    want = each.sum() if np.size(scale) == 1 else each.sum(1 - axis)
    assert found.dtype == np.float32
    assert np.allclose(found, np.reshape(want, np.shape(scale)))


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("code", [0, 2])
@pytest.mark.parametrize(("scale", "axis"), [(2.0, -1), ([2.0], 0), ([2.0, 3.0, 4.0], 1)])
def test_simulated_numbers_pass_slopes_to_data_and_scale(
    scale: Any, axis: int, code: int, dtype: str, known: bool
) -> None:
    scales = np.array(scale, np.float32)
    values = [X.astype(dtype), np.array(code, np.int32), scales, np.array(3, np.int32)]
    g = SLOPES.astype(dtype)
    of_data, of_scale = gradients("qnn.simulated_dequantize", values, g, {"axis": axis}, known)
    each = SLOPES * (X.astype(np.float32) - 3) if code else np.zeros_like(SLOPES)
    want = each.sum() if np.size(scale) == 1 else each.sum(1 - axis)
    assert (of_data.dtype, of_scale.dtype) == (np.dtype(dtype), np.float32)
    assert np.allclose(of_data, SLOPES * (scales if code else 1))
    assert np.allclose(of_scale, np.reshape(want, np.shape(scale)))


def test_a_range_moves_with_its_start_and_spreads_with_its_step() -> None:
    ends = [np.array(v) for v in (0.5, 2.3, 0.25)]
    g = np.random.default_rng(1).normal(0, 1, 8)
    of_start, of_step = gradients("arange", ends, g, {}, True)
    assert np.allclose([of_start, of_step], [g.sum(), (g * np.arange(8)).sum()])
