"""How long compilation and loading take: cold, with a warm kernel cache, and from a file."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import relayvm
from bench.models import bert as bert_base
from relayvm.base.dtypes import FLOAT32
from relayvm.cli.bench import treelstm
from relayvm.compiler.infer_types import infer_types
from relayvm.ir.build import const, var
from relayvm.ir.expr import Call, Expr, Function, Let
from relayvm.ir.module import Module
from relayvm.ir.printer import print_module
from relayvm.ir.types import TensorType
from relayvm.ops import OPS
from tests.compiler.bert import bert


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


def test_infer_bert(benchmark) -> None:
    """BERT-base of the builder, 12 layers, with weights of unknown types."""
    module = bert()
    benchmark(lambda: infer_types(module))


def test_print_bert(benchmark) -> None:
    module = infer_types(bert())
    benchmark(lambda: print_module(module))


@pytest.mark.parametrize("state", ["cold", "warm"])
def test_compile_bert(benchmark, monkeypatch, tmp_path, state) -> None:
    """Text with weights to an executable; a warm cache holds every kernel, a cold one none."""
    weights = bert_base.make_weights()
    module = relayvm.parse(bert_base.relay_text(weights))
    caches = iter(range(99))

    def fresh() -> None:
        number = next(caches) if state == "cold" else 0
        monkeypatch.setenv("RELAYVM_CACHE", str(tmp_path / str(number)))

    fresh()
    if state == "warm":
        relayvm.compile(module, params=weights)
    benchmark.pedantic(lambda: relayvm.compile(module, params=weights), setup=fresh, rounds=3)


def megabyte() -> str:
    """Return one function of about 18,000 lets whose text is a million characters long."""
    lines: list[str] = []
    size = 0
    while size < 1_000_000:
        i = len(lines)
        lines.append(f"  let %v{i + 1} = nn.relu(add(%v{i}, multiply(%v{max(0, i - 3)}, 2f)));\n")
        size += len(lines[-1])
    head = "def @main(%v0: Tensor[(?, 64), float32]) {\n"
    return head + "".join(lines) + f"  %v{len(lines)}\n}}\n"


def test_parse_a_megabyte(benchmark) -> None:
    text = megabyte()
    benchmark.pedantic(lambda: relayvm.parse(text), rounds=3)


def test_infer_a_megabyte(benchmark) -> None:
    module = relayvm.parse(megabyte())
    benchmark.pedantic(lambda: infer_types(module), rounds=3)


@pytest.mark.parametrize("level", [0, 3])
def test_compile_a_chain_of_lets(benchmark, cache, level) -> None:
    """10,000 lets: a tenth of the largest program that must compile; time is linear in them."""
    first = var("x", TensorType((2, 3), FLOAT32))
    names = [var(f"v{i}") for i in range(10_000)]
    body: Expr = names[-1]
    for name, operand in zip(reversed(names), [*reversed(names[:-1]), first]):
        body = Let(name, Call(OPS["add"], (operand, const(1.0))), body)
    module = Module({"main": Function((first,), body)})
    benchmark.pedantic(lambda: relayvm.compile(module, opt_level=level), rounds=3)
