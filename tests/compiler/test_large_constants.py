"""Constants that are large: not computed while compiling, stored once."""

from __future__ import annotations

import numpy as np

import relayvm
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


def test_equal_constants_are_stored_once_and_all_others_by_themselves() -> None:
    zeros = np.zeros((300, 400), np.float32)
    other = zeros.copy()
    other[123, 45] = 1
    wide = zeros.reshape(400, 300).T  # other strides, the same elements
    module = relayvm.parse(
        """
        def @main(%a: Tensor[(300, 400), float32], %b: Tensor[(300, 400), float32],
                  %c: Tensor[(300, 400), float32], %d: Tensor[(300, 400), float32]) {
          (%a, %b, %c, %d)
        }
        """
    )
    for last, count in ((other, 2), (-zeros, 2), (wide, 1)):
        params = {"a": zeros, "b": zeros.copy(), "c": last, "d": last.copy()}
        exe = relayvm.compile(module, params=params)
        assert len(exe.program().constants) == count
        for given, got in zip(params.values(), relayvm.VirtualMachine(exe).run(), strict=True):
            assert given.tobytes() == np.asarray(got).tobytes()
