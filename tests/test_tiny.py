"""Ten whole programs, from text to result: a newcomer can read them all."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import relayvm


def run(text: str, *args: Any, **options: Any) -> Any:
    vm = relayvm.VirtualMachine(relayvm.compile(relayvm.parse(text), **options))
    return vm.run(*args)


def test_arithmetic_on_tensors_is_one_kernel() -> None:
    text = "def @main(%x: Tensor[(2, 3), float32]) { tanh(%x * 2f) + 1f }"
    exe = relayvm.compile(relayvm.parse(text))
    x = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_allclose(
        relayvm.VirtualMachine(exe).run(x), np.tanh(x * 2) + 1, rtol=1e-6, atol=1e-6
    )
    assert len(exe.program().kernels) == 1


def test_scalars_live_in_registers() -> None:
    text = """
    def @main(%n: int32) -> int32 {
      if (%n < 2) { %n } else { @main(%n - 1) + @main(%n - 2) }
    }
    """
    assert run(text, 20) == 6765


def test_a_loop_is_a_tail_call() -> None:
    text = """
    def @loop(%i: int64, %sum: int64) -> int64 {
      if (%i == 0i64) { %sum } else { @loop(%i - 1i64, %sum + %i) }
    }
    def @main(%n: int64) -> int64 { @loop(%n, 0i64) }
    """
    assert run(text, 100_000) == 5_000_050_000


def test_a_data_type_is_built_and_matched() -> None:
    text = """
    type Shape { Circle(float32), Box(float32, float32) }
    def @area(%s: Shape) -> float32 {
      match (%s) { Circle(%r) => 3f * %r * %r, Box(%a, %b) => %a * %b }
    }
    def @main(%w: float32) -> (float32, float32) { (@area(Circle(%w)), @area(Box(%w, 5f))) }
    """
    assert run(text, np.float32(2)) == (12, 10)


def test_the_prelude_is_there_when_used() -> None:
    text = """
    def @main(%n: int32) -> int32 {
      let %double = fn (%x: int32) -> int32 { %x * %n };
      @sum(@map(%double, Cons(1, Cons(2, Cons(3, Nil)))))
    }
    """
    assert run(text, 10) == 60


def test_a_closure_keeps_what_it_captures() -> None:
    text = """
    def @adder(%n: int32) -> fn (int32) -> int32 { fn (%x: int32) -> int32 { %x + %n } }
    def @main(%a: int32) -> int32 { let %f = @adder(%a); %f(1) + %f(2) }
    """
    assert run(text, 5) == 13


def test_a_reference_is_written_in_order() -> None:
    text = """
    def @main(%x: int32) -> (int32, int32) {
      let %r = ref(%x);
      let %before = ref_read(%r);
      ref_write(%r, %before + 1);
      (%before, ref_read(%r))
    }
    """
    assert run(text, 41) == (41, 42)


@pytest.mark.parametrize("rows", [0, 1, 5, 33])
def test_a_symbolic_size_fits_every_size(rows: int) -> None:
    text = """
    def @main[n](%x: Tensor[(n, 4), float32],
                 %w: Tensor[(3, 4), float32]) -> Tensor[(n, 3), float32] {
      nn.relu(nn.dense(%x, %w))
    }
    """
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(rows, 4)).astype("f4"), rng.normal(size=(3, 4)).astype("f4")
    np.testing.assert_allclose(run(text, x, w), np.maximum(x @ w.T, 0), rtol=1e-5, atol=1e-6)


def test_a_saved_file_gives_the_same_bits(tmp_path) -> None:
    text = "def @main(%x: Tensor[(8), float32]) { nn.softmax(%x) }"
    exe = relayvm.compile(relayvm.parse(text))
    exe.save(tmp_path / "softmax.rvm")
    again = relayvm.load(tmp_path / "softmax.rvm")
    x = np.arange(8, dtype=np.float32)
    first, second = (relayvm.VirtualMachine(e).run(x) for e in (exe, again))
    assert first.tobytes() == second.tobytes()
    np.testing.assert_allclose(first.sum(), 1, rtol=1e-6)


def test_a_trap_names_the_line_and_leaves_the_machine_usable() -> None:
    text = """
def @head(%l: List[int32]) -> int32 { match? (%l) { Cons(%h, _) => %h } }
def @main(%empty: bool) -> int32 { @head(if (%empty) { Nil } else { Cons(7, Nil) }) + 0 }
"""
    vm = relayvm.VirtualMachine(relayvm.compile(relayvm.parse(text, name="head.relay")))
    with pytest.raises(relayvm.Trap, match=r"head\.relay:2") as caught:
        vm.run(True)
    assert caught.value.code == "match-failed"
    assert vm.run(False) == 7
