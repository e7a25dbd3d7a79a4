"""How long compilation and loading take: cold, with a warm kernel cache, and from a file."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import relayvm
from relayvm.cli.bench import treelstm


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("RELAYVM_CACHE", str(tmp_path))
    return tmp_path


def test_compile_cold(benchmark, monkeypatch) -> None:
    monkeypatch.setenv("RELAYVM_CACHE", "")
    weights = treelstm.make_weights()
    benchmark.pedantic(lambda: treelstm.compile_program(weights), rounds=3)


def test_compile_with_a_warm_cache(benchmark, cache) -> None:
    weights = treelstm.make_weights()
    treelstm.compile_program(weights)
    benchmark.pedantic(lambda: treelstm.compile_program(weights), rounds=9)


def test_load(benchmark, cache, tmp_path) -> None:
    path = tmp_path / "tree_lstm.rvm"
    treelstm.compile_program(treelstm.make_weights()).save(path)
    benchmark(lambda: relayvm.load(path))


def test_first_result_after_load(benchmark, cache, tmp_path) -> None:
    path = tmp_path / "tree_lstm.rvm"
    treelstm.compile_program(treelstm.make_weights()).save(path)
    word = np.zeros((1, treelstm.INPUT), np.float32)

    def first():
        exe = relayvm.load(path)
        return relayvm.VirtualMachine(exe).run(exe.adt("Tree").Leaf(word))

    benchmark(first)


def test_import(compare) -> None:
    """A process that imports relayvm, beside one that imports numpy alone."""

    def start(statement: str) -> None:
        subprocess.run([sys.executable, "-c", statement], check=True)

    compare(lambda: start("import numpy, relayvm"), numpy=lambda: start("import numpy"))
