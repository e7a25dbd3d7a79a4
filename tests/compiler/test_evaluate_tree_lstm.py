"""The Tree-LSTM of the examples, by the evaluator, equals numpy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from programs_text import parsed

from relayvm.compiler.entries import bind_params
from relayvm.compiler.evaluate import Evaluator
from relayvm.compiler.host.values import DataValue
from relayvm.compiler.infer_types import infer_types
from relayvm.compiler.passes import run_passes
from relayvm.ir.expr import Call, GlobalVar
from relayvm.ir.printer import print_module
from relayvm.ir.visit import post_order

EXAMPLE = Path(__file__).parents[2] / "examples" / "tree_lstm"
SHAPES = {
    "leaf_weight": (450, 300),
    "leaf_bias": (450,),
    "node_weight": (750, 300),
    "node_bias": (750,),
}


def weights():
    random = np.random.default_rng(7)
    return {
        name: (random.standard_normal(shape) * 0.1).astype(np.float32)
        for name, shape in SHAPES.items()
    }


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def encode(tree, w):
    if isinstance(tree, np.ndarray):
        i, o, u = np.split(tree @ w["leaf_weight"].T + w["leaf_bias"], 3, axis=1)
        memory = sigmoid(i) * np.tanh(u)
        return sigmoid(o) * np.tanh(memory), memory
    (lh, lc), (rh, rc) = encode(tree[0], w), encode(tree[1], w)
    states = np.concatenate([lh, rh], axis=1)
    i, fl, fr, o, u = np.split(states @ w["node_weight"].T + w["node_bias"], 5, axis=1)
    memory = sigmoid(i) * np.tanh(u) + sigmoid(fl) * lc + sigmoid(fr) * rc
    return sigmoid(o) * np.tanh(memory), memory


def random_tree(random, leaves):
    if leaves == 1:
        return random.standard_normal((1, 300)).astype(np.float32)
    left = int(random.integers(1, leaves))
    return random_tree(random, left), random_tree(random, leaves - left)


def to_value(tree):
    if isinstance(tree, np.ndarray):
        return DataValue("Leaf", "Tree", 0, (tree,))
    return DataValue("Node", "Tree", 1, tuple(map(to_value, tree)))


def module():
    return parsed((EXAMPLE / "tree_lstm.relay").read_text(encoding="utf-8"))


def test_50_random_trees_equal_numpy():
    w = weights()
    evaluator = Evaluator(infer_types(module()))
    random = np.random.default_rng(3)
    for leaves in [1, 2, *random.integers(1, 16, 48)]:
        tree = random_tree(random, int(leaves))
        result = evaluator.call("main", [to_value(tree), *w.values()])
        for ours, numpys in zip(result, encode(tree, w)):
            np.testing.assert_allclose(ours, numpys, rtol=2e-5, atol=1e-6)


def test_bound_weights_are_constants_all_the_way_down_the_recursion():
    w = weights()
    bound = bind_params(module(), w)
    lowered = run_passes(bound, ["constant_parameters"], verify=True)
    called = lowered["main"].body
    assert isinstance(called, Call) and isinstance(called.op, GlobalVar)
    inner = lowered[called.op.name]
    assert [p.name for p in inner.params] == ["tree"], print_module(lowered)
    recursive = [
        node
        for node in post_order(inner)
        if isinstance(node, Call) and isinstance(node.op, GlobalVar)
    ]
    assert [(node.op.name, len(node.args)) for node in recursive] == [(called.op.name, 1)] * 2
    tree = random_tree(np.random.default_rng(1), 5)
    for ours, numpys in zip(Evaluator(lowered).call("main", [to_value(tree)]), encode(tree, w)):
        np.testing.assert_allclose(ours, numpys, rtol=2e-5, atol=1e-6)
