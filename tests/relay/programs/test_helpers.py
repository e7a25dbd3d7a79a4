"""What tests of users take from `tvm.testing`, `relay.testing`, `tvm.runtime` and the rest."""

from __future__ import annotations

import numpy as np
import pytest
import relayvm.testing

import relayvm as tvm
from relayvm import relay
from relayvm.relay.op import register_gradient
from relayvm.relay.testing.temp_op_attr import TempOpAttr


@tvm.testing.uses_gpu
def test_a_decorated_function() -> None:
    assert [t for t, _ in tvm.testing.enabled_targets()] == ["llvm"]
    assert tvm.testing.device_enabled("llvm") and not tvm.testing.device_enabled("cuda")


@tvm.testing.requires_llvm
def test_what_requires_llvm_runs() -> None:
    assert tvm.target.Target("llvm").kind.name == "llvm"


@tvm.testing.requires_cuda
def test_what_requires_cuda_is_skipped() -> None:
    raise AssertionError("there is no CUDA here")


dtype = tvm.testing.parameter("float32", "int32")
size, half = tvm.testing.parameters((2, 1), (4, 2))


@tvm.testing.fixture
def data(dtype, size):
    return np.ones(size, dtype)


def test_parameters_and_fixtures(data, dtype, half, target, dev) -> None:
    x = relay.var("x", shape=(half * 2,), dtype=dtype)
    run = relay.create_executor("vm", device=dev, target=target).evaluate(
        relay.Function([x], x + x)
    )
    tvm.testing.assert_allclose(run(data).numpy(), data * 2)


@tvm.testing.parametrize_targets("llvm")
def test_named_targets(target, dev) -> None:
    assert str(target).startswith("llvm") and dev == tvm.cpu(0)


def test_closeness() -> None:
    tvm.testing.assert_allclose(np.float32([1, 2]), [1, 2 + 1e-9])
    with pytest.raises(AssertionError):
        tvm.testing.assert_allclose(1.0, 1.1)


def test_global_functions() -> None:
    @tvm.register_func("programs.add_one")
    def add_one(x):
        return x + 1

    f = tvm.get_global_func("programs.add_one")
    assert f(3) == 4 and add_one(1) == 2
    assert tvm.get_global_func("programs.nothing", allow_missing=True) is None
    with pytest.raises(ValueError):
        tvm.get_global_func("programs.nothing")
    tvm.register_func("programs.add_one", lambda x: x + 2, override=True)
    assert tvm.get_global_func("programs.add_one")(1) == 3


def test_containers_of_the_runtime() -> None:
    adt = tvm.runtime.container.ADT(3, [tvm.nd.array(np.ones(2)), tvm.nd.array(np.zeros(1))])
    assert adt.tag == 3 and len(adt) == 2 and adt[1].shape == (1,)
    assert [v.shape for v in adt[0:2]] == [(2,), (1,)]
    tup = tvm.runtime.container.tuple_object([tvm.nd.array(np.ones(2))])
    assert tup.tag == 0 and len(tup) == 1
    with pytest.raises(IndexError):
        tup[2]
    s = tvm.runtime.container.String("text")
    assert s == "text" and s.startswith("te")
    assert list(tvm.runtime.container.ShapeTuple([1, 2])) == [1, 2]
    assert tvm.runtime.convert((1, 2))[1] == 2


def test_attributes_of_operators() -> None:
    @tvm.ir.register_op_attr("exp", "programs.note")
    def note(x):
        return x

    assert relay.op.get("exp").get_attr("programs.note")(5) == 5
    assert relay.op.get("add").get_attr("programs.note") is None
    with TempOpAttr("exp", "programs.note", 7):
        assert relay.op.get("exp").get_attr("programs.note") == 7
    assert relay.op.get("exp").get_attr("programs.note")(6) == 6
    assert relay.op.op.OpPattern.ELEMWISE == 0


def test_a_gradient_of_ones_own() -> None:
    from relayvm.relay.testing import run_infer_type

    name = "exp"
    old = relay.op.get(name).get_attr("FPrimalGradient")

    def twice(orig, grad):
        return [grad + grad]

    register_gradient(name, twice, level=20)
    try:
        x = relay.var("x", shape=())
        back = relay.transform.gradient(run_infer_type(relay.Function([x], relay.exp(x))))
        _, (grad,) = relay.create_executor().evaluate(run_infer_type(back))(np.float32(0))
        assert grad.numpy() == 2
    finally:
        relay.op.get(name).reset_attr("FPrimalGradient")
        if old is not None:
            register_gradient(name, old, level=10)


def test_gradients_are_checked() -> None:
    x, y = relay.var("x", shape=(3, 2)), relay.var("y", shape=(2,))
    relay.testing.check_grad(relay.Function([x, y], relay.tanh(x * y)))
    relay.testing.check_grad(
        relay.Function([x], relay.nn.softmax(x)), inputs=[np.ones((3, 2), "float32")]
    )


def test_workloads_have_parameters() -> None:
    for name, options in (
        ("mlp", {"batch_size": 1}),
        ("mobilenet", {"image_shape": (3, 32, 32)}),
        ("squeezenet", {"image_shape": (3, 64, 64)}),
        ("dqn", {"batch_size": 1}),
        ("dcgan", {"batch_size": 1}),
    ):
        mod, params = getattr(relay.testing, name).get_workload(**options)
        names = {p.name_hint for p in mod["main"].params}
        assert set(params) < names and "data" in names
        assert all(isinstance(v, tvm.nd.NDArray) for v in params.values())


def test_layers_build_networks() -> None:
    from relayvm.relay.testing import create_workload, layers

    data = relay.var("data", shape=(1, 3, 8, 8))
    net = layers.conv2d(data, channels=4, kernel_size=(3, 3), name="conv")
    net = layers.batch_norm_infer(net, name="bn")
    net = layers.dense_add_bias(relay.nn.batch_flatten(relay.nn.relu(net)), units=2, name="fc")
    mod, params = create_workload(relay.Function(relay.analysis.free_vars(net), net))
    assert params["conv_weight"].shape == (4, 3, 3, 3) and params["fc_weight"].shape == (2, 144)
    out = relay.create_executor("vm", mod, params=params).evaluate()(
        np.ones((1, 3, 8, 8), "float32")
    )
    assert out.shape == (1, 2)


def test_random_arrays() -> None:
    a = relay.testing.rand("float32", 2, 3)
    assert isinstance(a, tvm.nd.NDArray) and a.shape == (2, 3) and a.dtype == "float32"
    b = relay.testing._np_randn_from_type(relay.TensorType((4,), "float64"), scale=2)
    assert b.shape == (4,) and b.dtype == "float64"


def test_sizes_by_name() -> None:
    n = tvm.te.var("n")
    x = relay.var("x", shape=(n, 2))
    mod = relay.transform.InferType()(
        tvm.IRModule.from_expr(relay.Function([x], relay.transpose(x)))
    )
    assert mod["main"].ret_type == relay.TensorType((2, n))
    assert tvm.tir.IntImm("int32", 3) == 3 and tvm.tir.const(2) == 2
    assert tvm.tir.indexdiv(7, 2) == 3
    assert isinstance(relay.Any(), tvm.tir.Any)
    assert mod["main"].params[0].checked_type.shape[1] == 2


def test_errors_are_of_the_names_that_programs_catch() -> None:
    with pytest.raises(tvm.error.OpError):
        relay.op.get("no.such.operator")
    with pytest.raises(tvm.TVMError):
        relay.parse("def @main( {")
    with pytest.raises(RuntimeError):
        relay.op.get("no.such.operator")
    with pytest.raises(AttributeError, match="layouts"):
        relay.nn.contrib_conv2d_nchwc


def test_devices_and_targets() -> None:
    assert tvm.cpu().device_type == 1 and tvm.cpu(0) == tvm.device("llvm", 0) == tvm.device("cpu")
    assert not tvm.cuda().exist
    t = tvm.target.Target("llvm -mcpu=core-avx2")
    assert t.mcpu == "core-avx2" and tvm.target.Target(str(t)) == t
    assert tvm.target.Target({"kind": "llvm"}).kind.name == "llvm"
    v = tvm.target.VirtualDevice(tvm.cpu(0), t)
    assert v.device_type_int == 1 and v.target == t
    x = relay.var("x", shape=(2,))
    on = relay.annotation.on_device(x + x, tvm.cpu(0))
    assert relay.create_executor("vm").evaluate(relay.Function([x], on))(
        np.ones(2, "float32")
    ).shape == (2,)


def test_loops_and_scopes() -> None:
    i = relay.var("i", "int32")
    loop = relay.loops.while_loop(
        lambda i: relay.less(i, relay.const(10)), [i], lambda i: [i + relay.const(3)]
    )
    assert relay.create_executor().evaluate(loop(relay.const(0)))[0].numpy() == 12
    sb = relay.ScopeBuilder()
    x = sb.let("x", relay.const(1))
    with sb.if_scope(relay.const(True)):
        y = sb.let("y", x + x)
        sb.ret(y)
    with sb.else_scope():
        sb.ret(x)
    assert relay.create_executor().evaluate(sb.get()).numpy() == 2
    empty = relay.ScopeBuilder()
    with pytest.raises((RuntimeError, ValueError)):
        empty.get()


def test_modules_are_imported_by_their_paths() -> None:
    from relayvm._ffi.base import TVMError
    from relayvm.contrib import graph_executor, utils
    from relayvm.ir.instrument import pass_instrument
    from relayvm.ir.transform import PassContext, Sequential
    from relayvm.runtime import vm
    from relayvm.tir import IntImm

    from relayvm.ir import IRModule, structural_equal
    from relayvm.relay.build_module import bind_params_by_name, create_executor
    from relayvm.relay.expr_functor import ExprMutator
    from relayvm.relay.function import Function
    from relayvm.relay.op.annotation import on_device

    assert TVMError is tvm.TVMError and IRModule is tvm.IRModule and vm is tvm.runtime.vm
    assert Function is relay.Function and ExprMutator is relay.ExprMutator
    assert Sequential is tvm.transform.Sequential and PassContext is tvm.transform.PassContext
    assert structural_equal is tvm.ir.structural_equal and IntImm is tvm.tir.IntImm
    assert pass_instrument is tvm.instrument.pass_instrument
    assert on_device is relay.annotation.on_device
    assert create_executor is relay.create_executor and callable(bind_params_by_name)
    assert graph_executor is tvm.contrib.graph_executor and utils is tvm.contrib.utils
    x = relay.var("x", shape=(2,))
    assert relay.frontend.common.infer_type(x + x).checked_type == relay.TensorType((2,))
    assert tvm.nd.array([1, 2]).dtype == "int64" and tvm.nd.array([1.0]).dtype == "float64"


@pytest.mark.parametrize("name", ["autotvm", "auto_scheduler", "driver", "micro", "arith"])
def test_what_is_not_here_says_why(name) -> None:
    with pytest.raises(AttributeError, match=rf"no attribute `{name}`: \w+"):
        getattr(tvm, name)


def test_targets_come_from_the_plugin(target, dev) -> None:
    assert target == "llvm" and dev == tvm.cpu(0)


def test_a_target_alone_comes_from_the_plugin(target) -> None:
    assert tvm.testing.device_enabled(target)
