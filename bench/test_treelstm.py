"""The Tree-LSTM, one tree a call on one thread, from Python value to Python value.

The trees are those of the example, or the first hundred of the file that RELAYVM_BENCH_TREES names,
in Penn Treebank brackets.
"""

from __future__ import annotations

import os
import resource
import time
from pathlib import Path

import numpy as np
import pytest

import relayvm
from relayvm.cli.bench import treelstm
from relayvm.cli.bench.trees import count_tokens, read_trees, word_vectors
from relayvm.vm.library import ffi, lib

EXAMPLE = Path(__file__).parents[1] / "examples" / "tree_lstm" / "trees.txt"
TREES = Path(os.environ.get("RELAYVM_BENCH_TREES", EXAMPLE))
MOST_TREES, RUNS = 100, 300


@pytest.fixture(scope="module")
def setup():
    trees = read_trees(TREES)[:MOST_TREES]
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


def weight_bytes(tree, weights) -> int:
    """Return the bytes of weights that a tree has read: those of a leaf or a node for each."""
    leaves = count_tokens([tree])
    leaf = weights.leaf_weight.nbytes + weights.leaf_bias.nbytes
    node = weights.node_weight.nbytes + weights.node_bias.nbytes
    return leaves * leaf + (leaves - 1) * node


def test_the_worst_tree_beside_the_median_tree(setup, benchmark) -> None:
    """The median of many runs of each tree, divided by the bytes of weights that it reads."""
    trees, weights, _, vm, values = setup
    times = np.empty((RUNS, len(values)))

    def measure() -> None:
        # All trees take turns, so that what the machine does besides meets them alike.
        for run in range(RUNS):
            for i, value in enumerate(values):
                start = time.perf_counter()
                vm.run(value)
                times[run, i] = time.perf_counter() - start

    benchmark.pedantic(measure, rounds=1, warmup_rounds=1)
    rates = np.median(times, axis=0) / [weight_bytes(tree, weights) for tree in trees]
    benchmark.extra_info["worst / median tree"] = float(rates.max() / np.median(rates))
    benchmark.extra_info["GB/s of weights, median tree"] = float(1e-9 / np.median(rates))


def test_what_a_second_pass_asks_of_the_system(setup, benchmark) -> None:
    """Counted: page faults, memory from the system, and switches that the process asks for."""
    _, _, _, vm, values = setup

    def counters() -> dict[str, int]:
        usage, stats = resource.getrusage(resource.RUSAGE_THREAD), vm.stats()
        return {
            "page faults": usage.ru_minflt + usage.ru_majflt,
            "calls of malloc by the machine": stats["system_calls"],
            "context switches by us": usage.ru_nvcsw,
        }

    def measure() -> None:
        for value in values:
            vm.run(value)

    measure()
    before = counters()
    benchmark.pedantic(measure, rounds=1)
    after = counters()
    benchmark.extra_info.update({name: after[name] - before[name] for name in after})
