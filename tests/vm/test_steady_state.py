"""The second pass over inputs of all sizes asks the system for nothing, on both engines."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import relayvm
from relayvm.cli.bench.treelstm import compile_program, make_weights, to_values
from relayvm.cli.bench.trees import Node, Tree, word_vectors
from relayvm.vm.library import lib

pytestmark = pytest.mark.skipif(
    lib.rvm_is_stress_build(), reason="the stress build keeps no memory"
)
ENGINES = pytest.mark.parametrize("engine", ["interpreter", "jit"])
THREADS = pytest.mark.parametrize("threads", [1, 2])

LSTM = """
def @step(%x: Tensor[(1, 24), float32], %h: Tensor[(1, 16), float32],
          %c: Tensor[(1, 16), float32], %w: Tensor[(64, 40), float32])
          -> (Tensor[(1, 16), float32], Tensor[(1, 16), float32]) {
  let %g = split(nn.dense(concatenate((%x, %h), axis=1), %w), indices_or_sections=4, axis=1);
  let %n = sigmoid(%g.0) * %c + sigmoid(%g.1) * tanh(%g.2);
  (sigmoid(%g.3) * tanh(%n), %n)
}
def @go(%xs: List[Tensor[(1, 24), float32]], %h: Tensor[(1, 16), float32],
        %c: Tensor[(1, 16), float32], %w: Tensor[(64, 40), float32],
        %seen: List[Tensor[(1, 16), float32]]) -> List[Tensor[(1, 16), float32]] {
  match (%xs) {
    Nil => %seen,
    Cons(%x, %rest) => {
      let %s = @step(%x, %h, %c, %w);
      @go(%rest, %s.0, %s.1, %w, Cons(%s.0, %seen))
    },
  }
}
def @main(%xs: List[Tensor[(1, 24), float32]], %w: Tensor[(64, 40), float32])
    -> List[Tensor[(1, 16), float32]] {
  @go(%xs, zeros(shape=[1, 16], dtype="float32"), zeros(shape=[1, 16], dtype="float32"), %w, Nil)
}
def @words[n](%i: int64, %x: Tensor[(n, 24), float32], %h: Tensor[(1, 16), float32],
              %c: Tensor[(1, 16), float32], %w: Tensor[(64, 40), float32])
              -> Tensor[(1, 16), float32] {
  if (%i < take(shape_of(%x, dtype="int64"), 0i64, axis=0)) {
    let %s = @step(expand_dims(take(%x, %i, axis=0), axis=0), %h, %c, %w);
    @words(%i + 1i64, %x, %s.0, %s.1, %w)
  } else { %h }
}
def @text[n](%x: Tensor[(n, 24), float32], %w: Tensor[(64, 40), float32]) {
  let %z = zeros(shape=[1, 16], dtype="float32");
  @words(0i64, %x, %z, %z, %w)
}
def @rows[n](%x: Tensor[(n, 24), float32], %w: Tensor[(64, 24), float32])
    -> Tensor[(n, 64), float32] {
  nn.softmax(nn.dense(tanh(%x), %w))
}
"""


def second_pass(vm: relayvm.VirtualMachine, work: Callable[[], Any]) -> dict[str, int]:
    """Return by how much the counters grow in a second pass, results of the first being gone."""
    for _ in range(2):
        work()
    before = vm.stats()
    work()
    after = vm.stats()
    return {name: after[name] - before[name] for name in before}


def grow(choice: random.Random, words: int) -> Tree:
    """Return a tree over so many words, which are numbers below 50."""
    if words == 1:
        return str(choice.randrange(50))
    left = choice.randrange(1, words)
    return Node(grow(choice, left), grow(choice, words - left))


@pytest.fixture(scope="module")
def tree_lstm() -> relayvm.Executable:
    return compile_program(make_weights())


@ENGINES
@THREADS
def test_trees_of_all_sizes(tree_lstm: relayvm.Executable, engine: str, threads: int) -> None:
    choice = random.Random(0)
    trees = [grow(choice, words) for words in choice.choices(range(1, 60), k=20)]
    vectors = word_vectors(trees, 300)
    values = [to_values(tree_lstm, tree, vectors) for tree in trees]
    vm = relayvm.VirtualMachine(tree_lstm, engine=engine, num_threads=threads)
    grown = second_pass(vm, lambda: [vm.run(value) for value in values])
    assert grown["invocations"] == len(trees)
    assert grown["kernel_calls"] > len(trees)
    assert grown["system_calls"] == grown["held_bytes"] == grown["stack_bytes"] == 0
    assert grown["new_cells"] == 0


@pytest.fixture(scope="module")
def lstm() -> relayvm.Executable:
    return relayvm.compile(relayvm.parse(LSTM))


@ENGINES
@THREADS
def test_texts_of_all_lengths(lstm: relayvm.Executable, engine: str, threads: int) -> None:
    rng = np.random.default_rng(0)
    w = rng.standard_normal((64, 40)).astype(np.float32)
    words = lstm.adt("List[Tensor[(1, 24), float32]]")
    texts = []
    for length in rng.integers(1, 60, 12):
        text = words.Nil()
        for _ in range(length):
            text = words.Cons(rng.standard_normal((1, 24)).astype(np.float32), text)
        texts.append(text)
    vm = relayvm.VirtualMachine(lstm, engine=engine, num_threads=threads)
    arrays = [rng.standard_normal((n, 24)).astype(np.float32) for n in rng.integers(1, 60, 12)]
    for work in (
        lambda: [vm.run(text, w) for text in texts],
        lambda: [vm.invoke("text", x, w) for x in arrays],
    ):
        grown = second_pass(vm, work)
        assert grown["kernel_calls"] > 0
        assert grown["system_calls"] == grown["stack_bytes"] == 0


@ENGINES
@THREADS
def test_kernels_with_memory_of_their_own(
    lstm: relayvm.Executable, engine: str, threads: int
) -> None:
    rng = np.random.default_rng(0)
    w = rng.standard_normal((64, 24)).astype(np.float32)
    rows = [rng.standard_normal((n, 24)).astype(np.float32) for n in (3, 500, 1, 64)]
    vm = relayvm.VirtualMachine(lstm, engine=engine, num_threads=threads)
    grown = second_pass(vm, lambda: [vm.invoke("rows", x, w) for x in rows])
    assert grown["kernel_calls"] >= len(rows)
    assert grown["system_calls"] == grown["held_bytes"] == 0


@ENGINES
def test_searches_for_cycles_and_wide_results(engine: str) -> None:
    text = """
    type T { Leaf, Node(T, T) }
    def @grow(%n: int32) -> T {
      if (%n == 0) { Leaf } else { Node(@grow(%n - 1), @grow(%n - 1)) }
    }
    def @wide(%n: int32) -> T { @grow(%n) }
    def @main(%n: int64) -> int64 {
      if (%n == 0i64) { 0i64 } else {
        let %r = ref(fn (%x: int64) -> int64 { %x });
        let %f = fn (%x: int64) -> int64 { let %g = ref_read(%r); %g(%x) + %n };
        ref_write(%r, %f);
        @main(%n - 1i64)
      }
    }
    """
    vm = relayvm.VirtualMachine(relayvm.compile(relayvm.parse(text)), engine=engine)
    grown = second_pass(vm, lambda: (vm.run(20_000), vm.invoke("wide", 10)))
    assert grown["system_calls"] == 0


def test_what_trim_gives_back_is_fetched_again(lstm: relayvm.Executable) -> None:
    vm = relayvm.VirtualMachine(lstm, engine="interpreter", num_threads=1)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((3000, 24)).astype(np.float32)
    w = rng.standard_normal((64, 24)).astype(np.float32)
    first = vm.invoke("rows", x, w).copy()
    vm.invoke("rows", x[:1], w)  # takes up the memory of the result that died
    held = vm.stats()["held_bytes"]
    vm.trim()
    trimmed = vm.stats()
    assert trimmed["held_bytes"] < held - x.nbytes
    np.testing.assert_array_equal(vm.invoke("rows", x, w), first)
    assert vm.stats()["system_calls"] > trimmed["system_calls"]
