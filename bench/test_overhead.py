"""Time outside kernels: the Tree-LSTM with every kernel replaced by one that returns at once."""

from __future__ import annotations

import platform
from dataclasses import replace
from pathlib import Path

import pytest

import relayvm
from relayvm.base.abi import Image
from relayvm.cli.bench import treelstm
from relayvm.cli.bench.trees import count_tokens, read_trees, word_vectors
from relayvm.vm.executable import load
from relayvm.vm.file.codec import encode

TREES = Path(__file__).parents[1] / "examples" / "tree_lstm" / "trees.txt"
RETURN_ZERO = {"x86_64": b"\x31\xc0\xc3", "aarch64": b"\x00\x00\x80\x52\xc0\x03\x5f\xd6"}


def with_empty_kernels(exe: relayvm.Executable) -> relayvm.Executable:
    """Return the executable with kernels that do nothing; their outputs are left as allocated."""
    program = exe.program()
    entries = {k.name: (0,) * len(k.signature.phases) for k in program.kernels}
    old = program.kernels[0].image
    assert old is not None
    image = Image(old.triple, (), RETURN_ZERO[platform.machine()], entries)
    kernels = tuple(replace(k, image=image) for k in program.kernels)
    return load(encode(replace(program, kernels=kernels)), native=True)


@pytest.mark.skipif(platform.machine() not in RETURN_ZERO, reason="no empty kernel for this CPU")
def test_time_outside_kernels(benchmark) -> None:
    trees = read_trees(TREES)
    exe = treelstm.compile_program(treelstm.make_weights())
    vectors = word_vectors(trees, treelstm.INPUT)
    empty = with_empty_kernels(exe)
    values = [treelstm.to_values(empty, tree, vectors) for tree in trees]
    vm = relayvm.VirtualMachine(empty, num_threads=1)
    benchmark(lambda: [vm.run(value) for value in values])
    benchmark.extra_info["us per token"] = benchmark.stats["median"] / count_tokens(trees) * 1e6
