"""The Tree-LSTM over the bundled trees: evaluator, naive nests and schedules beside numpy."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import relayvm
from relayvm.cli.bench import treelstm
from relayvm.cli.bench.trees import Node, count_tokens, post_order, read_trees, word_vectors
from relayvm.compiler.analysis.scopes import is_primitive
from relayvm.compiler.entries import bind_params
from relayvm.compiler.evaluate import Evaluator
from relayvm.compiler.host.values import DataValue
from relayvm.compiler.infer_types import infer_types
from relayvm.compiler.optimize import optimize
from relayvm.ir.expr import Match
from relayvm.ir.visit import post_order as nodes_of

EXAMPLE = Path(__file__).parents[2] / "examples" / "tree_lstm"
TREES = read_trees(EXAMPLE / "trees.txt")
VECTORS = word_vectors(TREES, treelstm.INPUT)
WEIGHTS = treelstm.make_weights()
TOLERANCE = 2e-5
KERNELS_A_LEAF, KERNELS_A_NODE = 2, 3


@pytest.fixture(scope="module")
def module() -> relayvm.Module:
    return relayvm.parse(EXAMPLE / "tree_lstm.relay")


@pytest.fixture(scope="module")
def executable(module) -> relayvm.Executable:
    return relayvm.compile(module, params=WEIGHTS.named())


@pytest.fixture(scope="module")
def roots() -> list[tuple[np.ndarray, np.ndarray]]:
    return [treelstm.numpy_encode(tree, VECTORS, WEIGHTS) for tree in TREES]


def run_all(exe, *weights) -> list[tuple[np.ndarray, np.ndarray]]:
    vm = relayvm.VirtualMachine(exe)
    return [vm.run(treelstm.to_values(exe, tree, VECTORS), *weights) for tree in TREES]


def assert_close(results, expected) -> None:
    assert len(results) == len(expected)
    for result, wanted in zip(results, expected):
        for ours, numpys in zip(result, wanted):
            assert ours.dtype == np.float32 and ours.shape == numpys.shape
            np.testing.assert_allclose(ours, numpys, rtol=0, atol=TOLERANCE)


def bits(results) -> bytes:
    return b"".join(part.tobytes() for result in results for part in result)


def as_data(tree) -> DataValue:
    """Return a tree as the evaluator takes it."""
    stack: list[DataValue] = []
    for node in post_order(tree):
        if isinstance(node, Node):
            right, left = stack.pop(), stack.pop()
            stack.append(DataValue("Node", "Tree", 1, (left, right)))
        else:
            stack.append(DataValue("Leaf", "Tree", 0, (VECTORS[node],)))
    return stack[0]


def test_there_are_50_trees():
    assert len(TREES) == 50
    assert count_tokens(TREES) > 300


def test_the_evaluator_agrees_with_numpy(module, roots):
    evaluator = Evaluator(infer_types(bind_params(module, WEIGHTS.named())))
    results = [evaluator.call("main", (as_data(tree),)) for tree in TREES]
    assert_close(results, roots)


def test_naive_nests_agree_with_numpy(module, roots):
    exe = relayvm.compile(module, params=WEIGHTS.named(), opt_level=0)
    assert_close(run_all(exe), roots)


def test_scheduled_kernels_agree_with_numpy(executable, roots):
    assert_close(run_all(executable), roots)


def test_a_saved_executable_gives_the_same_bits(executable, tmp_path):
    executable.save(tmp_path / "tree_lstm.rvm")
    loaded = relayvm.load(tmp_path / "tree_lstm.rvm", native=True)
    assert bits(run_all(loaded)) == bits(run_all(executable))


def test_weights_given_at_run_time_give_the_bits_of_constants(module, executable):
    exe = relayvm.compile(module)
    assert bits(run_all(exe, *WEIGHTS.named().values())) == bits(run_all(executable))


def test_a_run_makes_two_kernel_calls_a_leaf_and_three_a_node_at_most(executable):
    vm = relayvm.VirtualMachine(executable)

    def calls(tree) -> int:
        value = treelstm.to_values(executable, tree, VECTORS)
        before = vm.stats()["kernel_calls"]
        vm.run(value)
        return vm.stats()["kernel_calls"] - before

    word = next(iter(VECTORS))
    leaf = calls(word)
    node = calls(Node(word, word)) - 2 * leaf
    assert 1 <= leaf <= KERNELS_A_LEAF
    assert 1 <= node <= KERNELS_A_NODE
    for tree in TREES:
        leaves = count_tokens([tree])
        assert calls(tree) == leaf * leaves + node * (leaves - 1)


@pytest.mark.parametrize("bound", [False, True], ids=["parameters", "constants"])
def test_fusion_leaves_two_kernels_in_a_leaf_and_three_in_a_node_at_most(module, bound):
    if bound:
        module = bind_params(module, WEIGHTS.named())
    lowered = optimize(module, entries=["main"]).module
    counts = dict(kernels_by_clause(lowered))
    assert counts.keys() == {"Leaf", "Node"}
    assert 1 <= counts["Leaf"] <= KERNELS_A_LEAF
    assert 1 <= counts["Node"] <= KERNELS_A_NODE


def kernels_by_clause(lowered: relayvm.Module) -> Iterator[tuple[str, int]]:
    """Yield the number of kernels in each clause of the match over the tree."""
    for function in lowered.functions.values():
        for match in nodes_of(function):
            for clause in match.clauses if isinstance(match, Match) else ():
                kernels = sum(is_primitive(node) for node in nodes_of(clause.rhs))
                yield clause.lhs.constructor.name, kernels


def test_what_is_compiled_again_is_the_same_to_the_byte():
    first, *others = (treelstm.compile_program(WEIGHTS).to_bytes() for _ in range(4))
    assert others == [first] * 3
