"""The Tree-LSTM, one tree a call on one thread, from Python value to Python value."""

from __future__ import annotations

from pathlib import Path

import pytest

import relayvm
from relayvm.cli.bench import treelstm
from relayvm.cli.bench.trees import count_tokens, read_trees, word_vectors
from relayvm.vm.library import ffi, lib

TREES = Path(__file__).parents[1] / "examples" / "tree_lstm" / "trees.txt"


@pytest.fixture(scope="module")
def setup():
    trees = read_trees(TREES)
    weights = treelstm.make_weights()
    exe = treelstm.compile_program(weights)
    vectors = word_vectors(trees, treelstm.INPUT)
    values = [treelstm.to_values(exe, tree, vectors) for tree in trees]
    return trees, weights, vectors, relayvm.VirtualMachine(exe, num_threads=1), values


def test_trees_one_by_one(setup, compare, benchmark) -> None:
    trees, weights, vectors, vm, values = setup
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)
    model = treelstm.TorchModel(weights, vectors)
    compare(
        lambda: [vm.run(value) for value in values],
        pytorch=lambda: [model(tree) for tree in trees],
        numpy=lambda: [treelstm.numpy_encode(tree, vectors, weights) for tree in trees],
    )
    benchmark.extra_info["us per token"] = benchmark.stats["median"] / count_tokens(trees) * 1e6
    sweep = treelstm.read_sweep_us(trees, weights)
    benchmark.extra_info["read sweep, us per token"] = sweep
    benchmark.extra_info["aim, us per token"] = 1.12 * sweep + 0.9


def test_time_outside_kernels(setup, benchmark) -> None:
    """The same trees with every kernel replaced by an empty one."""
    trees, weights, vectors, _, _ = setup
    exe = treelstm.compile_program(weights)
    for number, kernel in enumerate(exe.program().kernels):
        phases = [lib.rvm_kernel_empty_address()] * len(kernel.signature.phases)
        assert lib.rvm_kernel_bind(exe.handle, number, ffi.new("uint64_t[]", phases), len(phases))
    vm = relayvm.VirtualMachine(exe, num_threads=1)
    values = [treelstm.to_values(exe, tree, vectors) for tree in trees]
    benchmark(lambda: [vm.run(value) for value in values])
    benchmark.extra_info["us per token"] = benchmark.stats["median"] / count_tokens(trees) * 1e6
