"""Dataflow patterns: matched, rewritten, partitioned."""

from __future__ import annotations

import relayvm as tvm
from relayvm import relay
from relayvm.relay.dataflow_pattern import *  # noqa: F403 - as programs of TVM do
from relayvm.relay.dataflow_pattern import (
    DFPatternCallback,
    TupleGetItemPattern,
    TuplePattern,
    dominates,
    has_attr,
    has_dtype,
    has_shape,
    has_type,
    is_constant,
    is_expr,
    is_if,
    is_let,
    is_op,
    is_tuple,
    is_tuple_get_item,
    is_var,
    rewrite,
    wildcard,
)
from relayvm.relay.testing import run_opt_pass

BatchnormCallback = None


def test_patterns_of_leaves() -> None:
    x = relay.var("x")
    assert is_var("x").match(x) and not is_var("y").match(x) and is_var().match(x)
    assert is_constant().match(relay.const(1.0)) and not is_constant().match(x)
    assert is_expr(relay.op.get("add")).match(relay.op.get("add"))
    assert is_op("add").expr.name == "add"
    assert wildcard().match(x)


def test_patterns_of_calls() -> None:
    x, y = relay.var("x"), relay.var("y")
    assert is_op("add")(is_var("x"), is_var("y")).match(x + y)
    assert is_op("add")(is_var("x"), is_var("y")).match(y + x)
    assert not is_op("subtract")(is_var("x"), is_var("y")).match(y - x)
    assert (wildcard() + wildcard()).match(x + y)
    assert (wildcard() - wildcard()).match(x - y)
    assert (is_op("add") | is_op("subtract"))(wildcard(), wildcard()).match(x - y)
    relu = is_op("nn.relu")(wildcard()).optional(lambda p: is_op("nn.bias_add")(p, wildcard()))
    assert relu.match(relay.nn.relu(x))
    assert relu.match(relay.nn.bias_add(relay.nn.relu(x), y))
    assert is_op("add")(wildcard(), wildcard()).has_attr({"TOpPattern": 0}).match(x + y) in (
        True,
        False,
    )


def test_patterns_of_types_and_attributes() -> None:
    x = run_opt_pass(relay.var("x", shape=(10, 10), dtype="float32"), relay.transform.InferType())
    assert has_dtype("float32", wildcard()).match(x) and not has_dtype("int8").match(x)
    assert has_shape((10, 10), wildcard()).match(x) and not has_shape((10,)).match(x)
    assert wildcard().has_type(relay.TensorType((10, 10), "float32")).match(x)
    assert has_type(relay.TensorType((10, 10))).match(x)
    w = relay.var("w")
    conv = relay.nn.conv2d(x, w, channels=10, kernel_size=(3, 3), strides=(2, 2))
    is_conv2d = is_op("nn.conv2d")(wildcard(), wildcard())
    assert is_conv2d.has_attr({"channels": 10}).match(conv)
    assert not is_conv2d.has_attr({"channels": 11}).match(conv)
    assert has_attr({"strides": [2, 2]}, is_conv2d).match(conv)


def test_patterns_of_tuples_ifs_lets_and_functions() -> None:
    x, y, z = relay.var("x"), relay.var("y"), relay.var("z")
    tup = relay.Tuple((x, y, z))
    assert is_tuple((is_var("x"), wildcard(), is_var("z"))).match(tup)
    assert not is_tuple((is_var("x"), wildcard())).match(tup)
    assert TuplePattern(None).match(tup)
    item = relay.TupleGetItem(tup, 1)
    assert is_tuple_get_item(is_tuple((wildcard(), wildcard(), wildcard())), 1).match(item)
    assert not TupleGetItemPattern(wildcard(), 0).match(item)
    assert TupleGetItemPattern(wildcard()).match(item)
    assert is_if(is_var("x"), is_var("y"), wildcard()).match(relay.If(x, y, z))
    let = relay.Let(x, y, relay.add(x, z))
    assert is_let(is_var("x"), is_var("y"), wildcard()).match(let)
    f = relay.Function([x, y], x + y)
    from relayvm.relay.dataflow_pattern import FunctionPattern

    assert FunctionPattern([wildcard(), wildcard()], wildcard() + wildcard()).match(f)
    assert not FunctionPattern([wildcard()], wildcard() + wildcard()).match(f)


def test_domination() -> None:
    is_conv2d = is_op("nn.conv2d")(wildcard(), wildcard())
    is_unary = is_op("nn.relu")(wildcard()) | is_op("tanh")(wildcard())
    reduction = is_op("add")(wildcard(), wildcard())
    diamond = dominates(is_conv2d, is_unary, reduction)
    inp, weight = relay.var("input"), relay.var("weight")
    conv = relay.nn.conv2d(inp, weight)
    out = relay.op.add(relay.op.nn.relu(conv), relay.op.tanh(conv))
    assert diamond.match(out)
    leak = relay.op.add(relay.op.nn.relu(conv), inp)
    assert not diamond.match(relay.op.add(leak, relay.op.tanh(inp)))


def test_a_rewrite_of_a_batch_norm() -> None:
    class Rewriter(DFPatternCallback):
        def __init__(self) -> None:
            super().__init__()
            self.x, self.var, self.mean = wildcard(), wildcard(), wildcard()
            self.beta, self.gamma, self.eps = wildcard(), wildcard(), wildcard()
            self.pattern = (
                self.gamma * (self.x - self.mean) / is_op("sqrt")(self.var + self.eps) + self.beta
            )

        def callback(self, pre, post, node_map):
            x, var, mean = node_map[self.x][0], node_map[self.var][0], node_map[self.mean][0]
            beta, gamma = node_map[self.beta][0], node_map[self.gamma][0]
            eps = node_map[self.eps][0].data.numpy().item()
            return relay.op.nn.batch_norm(x, gamma, beta, mean, var, epsilon=eps)[0]

    x, var, mean = relay.var("x"), relay.var("var"), relay.var("mean")
    beta, gamma = relay.var("beta"), relay.var("gamma")
    norm = gamma * (x - mean) / relay.op.sqrt(var + relay.const(1e-5)) + beta
    out = rewrite(Rewriter(), norm)
    expected = relay.op.nn.batch_norm(x, gamma, beta, mean, var, epsilon=1e-5)[0]
    assert isinstance(out, relay.TupleGetItem)
    assert abs(out.tuple_value.attrs.epsilon - expected.tuple_value.attrs.epsilon) < 1e-9
    assert list(out.tuple_value.args) == list(expected.tuple_value.args)


def test_rewrites_reach_their_end() -> None:
    class Simplify(DFPatternCallback):
        def __init__(self) -> None:
            super().__init__()
            self.x = wildcard()
            self.pattern = is_op("transpose")(is_op("transpose")(self.x))

        def callback(self, pre, post, node_map):
            return node_map[self.x][0]

    x = relay.var("x")
    deep = x
    for _ in range(6):
        deep = relay.transpose(deep)
    assert tvm.ir.structural_equal(rewrite(Simplify(), deep), x)

    class Once(DFPatternCallback):
        def __init__(self) -> None:
            super().__init__(rewrite_once=True)
            self.pattern = is_op("nn.relu")(wildcard())

        def callback(self, pre, post, node_map):
            return relay.nn.relu(post)

    out = rewrite(Once(), relay.nn.relu(x))
    assert relay.testing.count_ops(out) == {"nn.relu": 2}


def test_callbacks_that_want_types() -> None:
    seen = []

    class Typed(DFPatternCallback):
        def __init__(self) -> None:
            super().__init__(require_type=True)
            self.pattern = is_op("nn.relu")(wildcard())

        def callback(self, pre, post, node_map):
            seen.append(list(pre.checked_type.shape))
            return post

    x = relay.var("x", shape=(3, 4))
    rewrite(Typed(), relay.nn.relu(x))
    assert seen[0] == [3, 4]


def test_partitions() -> None:
    x, w, b = relay.var("x"), relay.var("w"), relay.var("b")
    pattern = is_op("nn.relu")(
        is_op("nn.bias_add")(is_op("nn.conv2d")(wildcard(), wildcard()), wildcard())
    )
    relu = relay.nn.relu(relay.nn.bias_add(relay.nn.conv2d(x, w), b))
    out = pattern.partition(relu)
    assert isinstance(out.op, relay.Function) and list(out.args) == [x, w, b]
    assert out.op.attrs["PartitionedFromPattern"] == "nn.conv2d_nn.bias_add_nn.relu_"
    named = pattern.partition(relu, {"Composite": "one"}, check=lambda pre: True)
    assert named.op.attrs["Composite"] == "one"
    assert pattern.partition(relu, check=lambda pre: False) is relu
    twice = pattern.partition(relay.nn.relu(relay.nn.bias_add(relay.nn.conv2d(relu, w), b)))
    assert relay.testing.count_ops(twice)["nn.conv2d"] == 2
