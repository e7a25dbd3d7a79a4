"""`relay.transform.gradient` and `check_grad`."""

from __future__ import annotations

import numpy as np
import pytest

import relayvm as tvm
from relayvm import relay
from relayvm.ir.expr import Function, RefCreate, RefRead, RefWrite
from relayvm.ir.visit import post_order
from relayvm.relay.testing import check_grad, run_infer_type
from relayvm.relay.transform import gradient


def layer() -> relay.Function:
    x = relay.var("x", shape=(3, 4), dtype="float64")
    w = relay.var("w", shape=(5, 4), dtype="float64")
    return relay.Function([x, w], relay.nn.softmax(relay.nn.dense(x, w)))


@pytest.mark.parametrize("mode", ["higher_order", "first_order"])
@pytest.mark.parametrize("executor", ["debug", "vm"])
def test_a_gradient_is_what_differences_say(mode: str, executor: str) -> None:
    check_grad(layer(), mode=mode, executor_kind=executor)


def test_a_wrong_gradient_is_found() -> None:
    x = relay.var("x", shape=(3,), dtype="float64")
    rounded = relay.Function([x], relay.cast(relay.cast(x, "int32"), "float64") + x * x)
    near = np.array([0.999999999, 2.5, 3.5])
    with pytest.raises(AssertionError):
        check_grad(rounded, inputs=[near])


def test_its_type_is_the_result_and_a_gradient_per_parameter() -> None:
    typed = run_infer_type(gradient(run_infer_type(layer())))
    matrix = relay.TensorType((3, 5), "float64")
    params = [relay.TensorType((3, 4), "float64"), relay.TensorType((5, 4), "float64")]
    expected = relay.FuncType(params, relay.TupleType([matrix, relay.TupleType(params)]))
    assert typed.checked_type == expected


def test_the_module_gets_the_gradients_of_the_functions_that_are_called() -> None:
    mod = tvm.IRModule.from_expr(layer())
    square = relay.var("a", shape=(2,), dtype="float32")
    mod["square"] = relay.Function([square], square * square)
    x = relay.var("x", shape=(2,), dtype="float32")
    f = relay.Function([x], relay.Call(mod.get_global_var("square"), [x]))
    back = gradient(f, mod)
    assert {v.name_hint for v in mod.get_global_vars()} == {"main", "square", "square_adjoint"}
    run = relay.create_executor("vm", mod).evaluate(back)
    value, (of_x,) = run(np.array([2, 3], "float32"))
    np.testing.assert_array_equal(value.numpy(), [4, 9])
    np.testing.assert_array_equal(of_x.numpy(), [4, 6])


def test_gradients_can_be_differentiated_again() -> None:
    x = relay.var("x", shape=(2,), dtype="float64")
    once = gradient(run_infer_type(relay.Function([x], relay.sum(x * x * x))))
    y = relay.var("y", shape=(2,), dtype="float64")
    slope = relay.TupleGetItem(relay.TupleGetItem(relay.Call(once, [y]), 1), 0)
    twice = gradient(run_infer_type(relay.Function([y], slope)))
    run = relay.create_executor("debug").evaluate(twice)
    np.testing.assert_allclose(run(np.array([1.0, 2.0]))[1][0].numpy(), [6, 12])


def test_an_unknown_mode_is_refused() -> None:
    with pytest.raises(tvm.RelayError, match="`higher_order` or `first_order`, not `forward`"):
        gradient(layer(), mode="forward")


def test_partial_evaluation_leaves_no_references_in_a_gradient() -> None:
    mod = tvm.IRModule.from_expr(gradient(run_infer_type(layer())))
    passes = tvm.transform.Sequential(
        [
            relay.transform.ToANormalForm(),
            relay.transform.PartialEvaluate(),
            relay.transform.DeadCodeElimination(),
        ]
    )
    after = passes(mod)["main"]
    kinds = {type(node) for node in post_order(after.body)}
    assert not kinds & {RefCreate, RefRead, RefWrite, Function}
    x, w = np.random.default_rng(0).normal(size=(2, 5, 4))
    before = relay.create_executor("vm", mod).evaluate()(x[:3], w)
    found = relay.create_executor("vm", tvm.IRModule.from_expr(after)).evaluate()(x[:3], w)
    np.testing.assert_array_equal(found[0].numpy(), before[0].numpy())
    for one, other in zip(found[1], before[1]):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-12)


def test_the_first_order_pass_derives_each_function_in_its_module() -> None:
    derive = tvm.transform.Sequential([relay.transform.FirstOrderGradient()])
    double = "def @double(%x: float32) { %x + %x }"
    made = derive(relay.parse(f"{double} def @main(%x: float32) {{ %x * %x }}"))
    for name, at, slope in (("double", 6.0, 2.0), ("main", 9.0, 6.0)):
        result, (gradient_of_x,) = relay.create_executor("debug", made).evaluate(made[name])(3.0)
        assert (result.numpy(), gradient_of_x.numpy()) == (at, slope)
    calling = relay.parse(f"{double} def @main(%x: float32) {{ @double(%x) }}")
    with pytest.raises(tvm.RelayError, match="straight-line code, not for a call of a func"):
        derive(calling)
