"""A signal handler that raises ends a run in the middle of what takes long, on each engine, and the
machine can be used afterwards."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import relayvm
from relayvm.base.abi import TrapCode
from relayvm.vm.library import lib
from relayvm.vm.machine import VirtualMachine

PRODUCT = """
def @main(%a: Tensor[(4096, 4096), float32], %n: int64) {
  if (%n == 0i64) { %a } else { nn.dense(%a, %a) }
}
"""
SORT = """
def @main(%a: Tensor[(100000000,), float32], %n: int64) {
  if (%n == 0i64) { %a } else { sort(%a) }
}
"""
LOOP = """
def @main(%a: int64, %n: int64) -> int64 { @loop(%a, %n * 1000000000000i64) }
def @loop(%a: int64, %n: int64) -> int64 {
  if (%n == 0i64) { %a } else { @loop(right_shift(%a * 3i64 + %n, 1i64), %n - 1i64) }
}
"""
RECURSION = """
def @main(%a: int64, %n: int64) -> int64 {
  if (%n == 0i64) { %a } else { let %x = @deep(1000000i64); @rounds(1000000i64) }
}
def @rounds(%n: int64) -> int64 {
  if (%n == 0i64) { 0i64 } else { let %x = @deep(1000000i64); @rounds(%n - %x / 1000000i64) }
}
def @deep(%n: int64) -> int64 { if (%n == 0i64) { 0i64 } else { @deep(%n - 1i64) + 1i64 } }
"""
TRANSFORM = """
def @main(%a: Tensor[(1, 33554432), float32], %n: int64) {
  if (%n == 0i64) { %a } else { dft(%a, %a, inverse=False).0 }
}
"""
CASES: dict[str, tuple[str, Callable[[], object]]] = {
    "product": (PRODUCT, lambda: np.ones((4096, 4096), np.float32)),
    "sort": (SORT, lambda: np.arange(10**8, 0, -1, dtype=np.float32)),
    "transform": (TRANSFORM, lambda: np.ones((1, 1 << 25), np.float32)),
    "loop": (LOOP, lambda: 1),
    "recursion": (RECURSION, lambda: 1),
}


@pytest.fixture
def alarm() -> Iterator[None]:
    """Have a signal do what the key does that ends a program."""
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["interpreter", "jit", "auto"])
@pytest.mark.parametrize("name", CASES)
def test_a_handler_ends_what_takes_long(name, engine, alarm):
    text, value = CASES[name]
    vm = VirtualMachine(relayvm.compile(relayvm.parse(text)), engine=engine)
    given = value()
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    with pytest.raises(KeyboardInterrupt):
        vm.run(given, 1)
    # It ended inside: what is over raises behind the call, without a trap.
    assert lib.rvm_machine_trap(vm.handle).code == TrapCode.INTERRUPTED
    assert np.all(vm.run(given, 0) == given)
