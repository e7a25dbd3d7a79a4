"""Each engine on loops, calls, closures, cells and folds: nanoseconds by the slope between two
lengths, minima of several runs, engines alternating.

`python -m bench.test_engines` prints the table alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import relayvm

PROGRAM = """
def @xor(%i: int64, %acc: int64, %n: int64) -> int64 {
  if (%i < %n) { @xor(%i + 1i64, bitwise_xor(%acc, %i), %n) } else { %acc }
}
def @line(%i: int64, %acc: int64, %n: int64) -> int64 {
  if (%i < %n) { @line(%i + 1i64, %acc * 3i64 + %i, %n) } else { %acc }
}
def @fib(%n: int32) -> int32 { if (%n < 2) { %n } else { @fib(%n - 1) + @fib(%n - 2) } }
def @again(%f: fn (int64) -> int64, %i: int64, %acc: int64) -> int64 {
  if (%i == 0i64) { %acc } else { @again(%f, %i - 1i64, %f(%acc)) }
}
def @pick(%k: int64, %c: bool) -> fn (int64) -> int64 {
  if (%c) { fn (%x: int64) -> int64 { %x + %k } } else { fn (%x: int64) -> int64 { %x - %k } }
}
def @closure(%n: int64, %c: bool) -> int64 { @again(@pick(%n, %c), %n, 0i64) }
type Pair { Two(int64, int64), One(int64) }
def @make(%i: int64, %c: bool) -> Pair { if (%c) { Two(%i, %i) } else { One(%i) } }
def @sum(%p: Pair) -> int64 { match (%p) { Two(%x, %y) => %x + %y, One(%x) => %x } }
def @cells(%i: int64, %acc: int64, %c: bool) -> int64 {
  if (%i == 0i64) { %acc } else { @cells(%i - 1i64, %acc + @sum(@make(%i, %c)), %c) }
}
def @build(%n: int64, %acc: List[int64]) -> List[int64] {
  if (%n == 0i64) { %acc } else { @build(%n - 1i64, Cons(%n, %acc)) }
}
def @total(%l: List[int64], %acc: int64) -> int64 {
  match (%l) { Cons(%h, %t) => @total(%t, %acc + %h), Nil => %acc }
}
def @list(%n: int64) -> int64 { @total(@build(%n, Nil), 0i64) }
def @rounds(%n: int64, %l: List[int64], %acc: int64) -> int64 {
  if (%n == 0i64) { %acc }
  else {
    let %step = fn (%a: int64, %x: int64) -> int64 { %a + %x * %acc };
    @rounds(%n - 1i64, %l, %acc + @foldl(%step, 0i64, %l))
  }
}
def @folds(%n: int64) -> int64 { @rounds(%n, @build(1000i64, Nil), 1i64) }
def @fused(%i: int64, %x: Tensor[(150), float32]) -> Tensor[(150), float32] {
  if (%i == 0i64) { %x } else { @fused(%i - 1i64, tanh(%x * 0.5f) + 1f) }
}
"""
ENGINES = ("interpreter", "jit")


@dataclass(frozen=True)
class Row:
    """A loop to time: its entry, arguments for a length, two lengths, units of a length."""

    what: str
    entry: str
    arguments: Callable[[int], tuple]
    lengths: tuple[int, int]
    units: Callable[[int], int] = int


def calls_of_fib(n: int) -> int:
    golden = (1 + 5**0.5) / 2
    return 2 * round(golden ** (n + 1) / 5**0.5) - 1


VECTOR = np.linspace(-1, 1, 150, dtype=np.float32)
ROWS = (
    Row("loop: acc xor i", "xor", lambda n: (0, 0, n), (200_000, 2_000_000)),
    Row("loop: acc * 3 + i", "line", lambda n: (0, 0, n), (200_000, 2_000_000)),
    Row("recursive call", "fib", lambda n: (n,), (20, 27), calls_of_fib),
    Row("closure call", "closure", lambda n: (n, True), (20_000, 400_000)),
    Row("cell made and matched", "cells", lambda n: (n, 0, True), (20_000, 400_000)),
    Row("list built and summed", "list", lambda n: (n,), (5_000, 40_000)),
    Row("foldl, an element", "folds", lambda n: (n,), (10, 200), lambda n: 1000 * n),
    Row("loop around a kernel", "fused", lambda n: (n, VECTOR), (1_000, 20_000)),
)


def machines() -> dict[str, relayvm.VirtualMachine]:
    exe = relayvm.compile(relayvm.parse(PROGRAM))
    return {name: relayvm.VirtualMachine(exe, engine=name, num_threads=1) for name in ENGINES}


def slopes(row: Row, vms: dict[str, relayvm.VirtualMachine], rounds: int = 7) -> dict[str, float]:
    """Return nanoseconds a unit for each engine."""
    best = {(name, n): float("inf") for name in vms for n in row.lengths}
    for _ in range(rounds):
        for (name, n), known in best.items():
            args = row.arguments(n)
            start = time.perf_counter()
            vms[name].invoke(row.entry, *args)
            best[name, n] = min(known, time.perf_counter() - start)
    low, high = row.lengths
    units = row.units(high) - row.units(low)
    return {name: (best[name, high] - best[name, low]) / units * 1e9 for name in vms}


def test_engines(capsys) -> None:
    vms = machines()
    for row in ROWS:
        found = slopes(row, vms)
        with capsys.disabled():
            print(
                f"\n  {row.what}: " + ", ".join(f"{n} {t:.2f} ns" for n, t in found.items()), end=""
            )
        assert found["jit"] < found["interpreter"]


if __name__ == "__main__":
    made = machines()
    for each in ROWS:
        times = slopes(each, made)
        print(f"{each.what:24s}", *(f"{name} {t:8.2f} ns" for name, t in times.items()))
