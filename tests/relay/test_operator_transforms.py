"""Passes over operators by TVM's names: parameters, registered functions, configuration."""

from __future__ import annotations

import numpy as np
import pytest

import relayvm as tvm
from relayvm import relay
from relayvm.base.diagnostics import RelayError
from relayvm.relay import op_registry


@pytest.fixture
def registry(monkeypatch):
    monkeypatch.setattr(op_registry, "_attributes", dict(op_registry._attributes))


def dense_module():
    x = relay.var("x", shape=(2, 3))
    w = relay.var("w", shape=(4, 3))
    module = tvm.IRModule.from_expr(relay.Function([x, w], relay.nn.dense(x, w)))
    return relay.transform.InferType()(module)


def test_a_registered_function_legalizes_calls(registry):
    @relay.op.register_legalize("nn.dense")
    def _(attrs, inputs, types):
        assert attrs["units"] is None
        assert len(types) == 3
        return relay.nn.relu(relay.nn.dense(*inputs))

    text = relay.transform.Legalize()(dense_module()).astext(show_meta_data=False)
    assert "nn.relu(nn.dense(%x, %w" in text
    other = relay.transform.Legalize("FTVMSomethingElse")(dense_module())
    assert "nn.relu" not in other.astext(show_meta_data=False)


def test_the_output_of_mixed_precision_is_narrow_unless_configured():
    module = dense_module()
    narrow = relay.transform.ToMixedPrecision("float16")(module)
    assert narrow["main"].ret_type.dtype == "float16"
    with tvm.transform.PassContext(config={"relay.ToMixedPrecision.keep_orig_output_dtype": True}):
        kept = relay.transform.ToMixedPrecision("float16")(module)
    assert kept["main"].ret_type.dtype == "float32"


def test_a_registered_category_decides(registry):
    relay.op.register_mixed_precision_conversion("nn.dense", lambda call, dtype: [2, dtype, dtype])
    module = dense_module()
    after = relay.transform.ToMixedPrecision("float16")(module)
    assert tvm.ir.structural_equal(after, module)


def test_dense_layers_combine_as_a_batch_or_as_one_matrix():
    x = relay.var("x", shape=(2, 3))
    weights = [relay.var(f"w{i}", shape=(4, 3)) for i in range(3)]
    body = relay.Tuple([relay.nn.dense(x, w) for w in weights])
    module = tvm.IRModule.from_expr(relay.Function([x, *weights], body))
    batch = relay.transform.CombineParallelDense(3)(module).astext()
    assert "nn.batch_matmul" in batch
    whole = relay.transform.CombineParallelDense(3, to_batch=False)(module).astext()
    assert "nn.batch_matmul" not in whole
    assert whole.count("nn.dense") == 1


def test_quantized_operators_stay_where_none_is_asked_for():
    x = relay.var("x", shape=(2, 3), dtype="int8")
    floats = relay.qnn.op.dequantize(x, relay.const(0.125), relay.const(0))
    body = relay.qnn.op.quantize(relay.nn.softmax(floats), relay.const(0.01), relay.const(0))
    module = tvm.IRModule.from_expr(relay.Function([x], body))
    plain = relay.transform.FakeQuantizationToInteger()(module).astext()
    assert "qnn.softmax" not in plain
    asked = relay.transform.FakeQuantizationToInteger(optional_qnn_ops=["nn.softmax"])(module)
    assert "qnn.softmax" in asked.astext()
    with pytest.raises(RelayError, match="`nn.softmax` has no form on integers"):
        relay.transform.FakeQuantizationToInteger(hard_fail=True)(module)


def test_devices_that_agree_are_dropped():
    x = relay.var("x", shape=(2,))
    body = relay.exp(relay.annotation.on_device(x, tvm.cpu()))
    module = tvm.IRModule.from_expr(relay.Function([x], body))
    assert "on_device" not in relay.transform.PlanDevices(None)(module).astext()


@pytest.mark.parametrize(
    "name",
    [
        *("SimplifyExpr", "CanonicalizeOps", "CanonicalizeCast", "DivToMul", "FastMath"),
        *("FoldExplicitPadding", "FlattenAtrousConv", "DynamicToStatic", "FoldScaleAxis"),
        *("BackwardFoldScaleAxis", "ForwardFoldScaleAxis", "CombineParallelConv2D"),
        *("CombineParallelBatchMatmul", "SimplifyInference", "LazyGradientInit"),
    ],
)
def test_a_pass_takes_and_gives_a_module(name):
    module = dense_module()
    after = getattr(relay.transform, name)()(module)
    assert tvm.ir.structural_equal(after, module)


@pytest.mark.slow
def test_batch_norms_of_a_network_vanish_into_its_weights():
    module, params = relay.testing.mobilenet.get_workload(
        1, image_shape=(3, 32, 32), num_classes=10
    )
    bound = relay.build_module.bind_params_by_name(module["main"], params)
    before = relay.transform.InferType()(tvm.IRModule.from_expr(bound))
    passes = [
        relay.transform.SimplifyInference(),
        relay.transform.FoldConstant(),
        relay.transform.FoldScaleAxis(),
        relay.transform.SimplifyExpr(),
        relay.transform.CanonicalizeOps(),
        relay.transform.FoldExplicitPadding(),
    ]
    with tvm.transform.PassContext(opt_level=4):
        after = tvm.transform.Sequential(passes)(before)
    text = after.astext(show_meta_data=False)
    assert "multiply(" not in text
    assert "nn.batch_norm(" not in text
    image = np.random.default_rng(0).standard_normal((1, 3, 32, 32)).astype("float32")
    results = [
        relay.create_executor("vm", mod=m).evaluate()(image).numpy() for m in (before, after)
    ]
    np.testing.assert_allclose(*results, rtol=1e-4, atol=1e-6)
