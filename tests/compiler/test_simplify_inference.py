"""Layers in inference: the expanded form means what the operator does, to the bit."""

from __future__ import annotations

import numpy as np
import pytest

import relayvm
from relayvm.compiler.evaluate import Evaluator
from relayvm.compiler.passes import run_passes
from relayvm.ir.printer import print_module

NORMS = {
    "nn.batch_norm": "nn.batch_norm(%x, %g, %b, %m, %v, epsilon=0.01f).0",
    "nn.dropout": "nn.dropout(%x, rate=0.25f).0",
    "nn.layer_norm": "nn.layer_norm(%x, %g, %b, axis=1, epsilon=0.01f)",
    "nn.instance_norm": "nn.instance_norm(%x, %g, %b, scale=False)",
    "nn.group_norm": "nn.group_norm(%x, %g, %b, num_groups=2)",
    "nn.l2_normalize": "nn.l2_normalize(%x, eps=1e-3f, axis=[1, 2])",
}


def program(body: str, dtype: str) -> str:
    vectors = ", ".join(f"%{v}: Tensor[(4), {dtype}]" for v in "gbmv")
    return f"def @main(%x: Tensor[(3, 4, 5), {dtype}], {vectors}) {{ {body} }}"


def values(dtype: str) -> list[np.ndarray]:
    rng = np.random.default_rng(7)
    vectors = [np.abs(rng.normal(size=4)) + 0.5 for _ in range(4)]
    return [a.astype(dtype) for a in (rng.normal(size=(3, 4, 5)), *vectors)]


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("name", sorted(NORMS))
def test_the_expanded_form_means_what_the_operator_does(name: str, dtype: str) -> None:
    module = run_passes(relayvm.parse(program(NORMS[name], dtype)), ["infer_types"])
    step = ("simplify_inference", {"every_norm": True})
    simple = run_passes(module, [step, "infer_types"], verify=True)
    assert name not in print_module(simple)
    args = values(dtype)
    expected = Evaluator(module).call("main", args)
    actual = Evaluator(simple).call("main", args)
    if name in ("nn.batch_norm", "nn.dropout"):
        assert np.array_equal(actual, expected)
    else:
        assert np.allclose(actual, expected, rtol=2e-3 if dtype == "float16" else 1e-5)


def test_compiled_batch_norm_has_the_bits_of_the_operator() -> None:
    module = relayvm.parse(program("nn.relu(nn.batch_norm(%x, %g, %b, %m, %v).0)", "float32"))
    args = values("float32")
    expected = Evaluator(run_passes(module, ["infer_types"])).call("main", args)
    for level in (0, 3):
        machine = relayvm.VirtualMachine(relayvm.compile(module, opt_level=level))
        assert np.array_equal(machine.run(*args), expected), level
