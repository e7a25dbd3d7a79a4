"""Passes that change what operators take keep what programs compute."""

from __future__ import annotations

import numpy as np
import pytest

import relayvm as tvm
from relayvm import relay
from relayvm.base.diagnostics import RelayError


def joined(count):
    names = [relay.var(f"x{i}", shape=(2, i + 1)) for i in range(count)]
    return tvm.IRModule.from_expr(relay.Function(names, relay.concatenate(names, axis=1)))


def widths(module):
    found = []

    def visit(node):
        if isinstance(node, relay.Call) and node.op.name == "concatenate":
            found.append(len(node.args[0].fields))

    relay.analysis.post_order_visit(module["main"], visit)
    return found


@pytest.mark.parametrize(
    ("count", "most", "wanted"),
    [(3, 3, [3]), (7, 3, [3, 3, 3]), (5, 2, [2, 2, 2, 2]), (5, 0, [5])],
)
def test_tensors_are_joined_in_parts(count, most, wanted):
    module = joined(count)
    split = relay.transform.SplitArgs(most)(module)
    assert widths(split) == wanted
    given = [np.full((2, i + 1), i, "float32") for i in range(count)]
    run = relay.create_executor("debug", mod=split).evaluate()
    np.testing.assert_array_equal(run(*given), np.concatenate(given, axis=1))


def test_parts_are_not_fused():
    text = relay.transform.SplitArgs(2)(joined(4)).astext()
    assert text.count("annotation.stop_fusion(") == 2


@pytest.mark.parametrize("most", [1, -1, "2"])
def test_parts_of_one_tensor_are_refused(most):
    with pytest.raises(RelayError, match="`max_function_args` is 0 or at least 2"):
        relay.transform.SplitArgs(most)(joined(3))


def turned(other_use=False):
    x, w = relay.var("x", shape=(2, 3)), relay.var("w", shape=(3, 4))
    result = relay.nn.dense(x, relay.transpose(w, [1, 0]))
    result = relay.Tuple([result, w]) if other_use else result
    return tvm.IRModule.from_expr(relay.Function([x, w], result))


def test_weights_are_taken_the_way_that_dense_layers_want_them():
    module = turned()
    names = relay.analysis.search_fc_transpose(module["main"])
    after = relay.transform.SimplifyFCTranspose(names)(module)
    assert [p.name_hint for p in after["main"].params] == ["x", "w.T"]
    assert after["main"].params[1].checked_type.concrete_shape == (4, 3)
    assert relay.testing.count_ops(after["main"])["transpose"] == 0
    x, w = np.ones((2, 3), "float32"), np.arange(12, dtype="float32").reshape(3, 4)
    run = relay.create_executor("debug", mod=after).evaluate()
    np.testing.assert_array_equal(run(x, w.T.copy()), x @ w)


def test_weights_that_are_used_otherwise_stay_too():
    after = relay.transform.SimplifyFCTranspose(["w"])(turned(other_use=True))
    assert [p.name_hint for p in after["main"].params] == ["x", "w", "w.T"]
    other = relay.transform.SimplifyFCTranspose(["v"])(turned())
    assert [p.name_hint for p in other["main"].params] == ["x", "w"]
