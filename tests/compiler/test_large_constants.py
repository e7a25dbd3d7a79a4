"""Results that are too large to keep are not computed while compiling."""

from __future__ import annotations

import numpy as np

from relayvm.compiler.infer_types import infer_types
from relayvm.compiler.passes import run_passes
from relayvm.ir.expr import Call
from relayvm.ir.parser import parse_module
from relayvm.ir.types import TensorType
from relayvm.ops import OPS, Fusion, operator
from relayvm.ops.schema import Dims, Float


def test_a_large_result_of_a_constant_is_left_to_the_run() -> None:
    computed: list[int] = []

    @operator("spread", fusion=Fusion.OPAQUE, no_gradient="a test")
    def spread(data: Float, *, shape: Dims) -> TensorType:
        """`data` everywhere."""
        return TensorType(shape, data.dtype)

    @spread.numpy
    def _(data: np.ndarray, *, shape: Dims) -> np.ndarray:
        computed.append(1)
        return np.full(shape, data)

    text = "def @main() { spread(1f, shape=[4000, 4000]) }"
    module = infer_types(parse_module(text, {**OPS, "spread": spread}))
    folded = run_passes(module, ["fold_constants"])
    assert isinstance(folded.functions["main"].body, Call)
    assert not computed
    small = parse_module(text.replace("4000", "2"), {**OPS, "spread": spread})
    assert not isinstance(run_passes(infer_types(small), ["fold_constants"])["main"].body, Call)
