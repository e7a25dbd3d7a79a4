"""What the machine itself costs, without kernels: loops, calls, cells, calls from Python."""

from __future__ import annotations

import numpy as np

import relayvm

PROGRAM = """
def @loop(%i: int64, %acc: int64, %n: int64) -> int64 {
  if (%i < %n) { @loop(%i + 1i64, %acc * 3i64 + %i, %n) } else { %acc }
}
def @fib(%n: int32) -> int32 { if (%n < 2) { %n } else { @fib(%n - 1) + @fib(%n - 2) } }
def @build(%n: int32, %acc: List[int32]) -> List[int32] {
  if (%n == 0) { %acc } else { @build(%n - 1, Cons(%n, %acc)) }
}
def @total(%l: List[int32], %acc: int32) -> int32 {
  match (%l) { Cons(%h, %t) => @total(%t, %acc + %h), Nil => %acc }
}
def @list(%n: int32) -> int32 { @total(@build(%n, Nil), 0) }
def @same(%x: Tensor[(16), float32]) -> Tensor[(16), float32] { %x }
"""
ITERATIONS = 1_000_000


def machine() -> relayvm.VirtualMachine:
    return relayvm.VirtualMachine(relayvm.compile(relayvm.parse(PROGRAM)))


def python_loop(n: int) -> int:
    acc = 0
    for i in range(n):
        acc = (acc * 3 + i) & 0xFFFFFFFFFFFFFFFF
    return acc


def test_scalar_loop(compare, benchmark) -> None:
    vm, n = machine(), np.int64(ITERATIONS)
    compare(
        lambda: vm.invoke("loop", np.int64(0), np.int64(0), n),
        python=lambda: python_loop(ITERATIONS),
    )
    benchmark.extra_info["ns per iteration"] = benchmark.stats["median"] / ITERATIONS * 1e9


def test_recursive_call(compare, benchmark) -> None:
    vm, n = machine(), 25
    calls = 2 * 121_393 * 2

    def fib(k: int) -> int:
        return k if k < 2 else fib(k - 1) + fib(k - 2)

    compare(lambda: vm.invoke("fib", n), python=lambda: fib(n))
    benchmark.extra_info["ns per call"] = benchmark.stats["median"] / calls * 1e9


def test_list_built_and_folded(compare, benchmark) -> None:
    vm, n = machine(), 100_000
    compare(lambda: vm.invoke("list", n), python=lambda: sum(list(range(n))))
    benchmark.extra_info["ns per element"] = benchmark.stats["median"] / n * 1e9


def test_call_from_python(compare) -> None:
    vm, x = machine(), np.zeros(16, np.float32)
    compare(lambda: vm.invoke("same", x), numpy_copy=x.copy)
