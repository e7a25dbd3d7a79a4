"""Calls of kernels from native code, written out where sizes are known, are as interpreted."""

from __future__ import annotations

import numpy as np
import pytest

import relayvm
from relayvm.base.diagnostics import Trap
from relayvm.vm.executable import Executable
from relayvm.vm.machine import VirtualMachine
from tests.vm.test_jit import ENGINES, told

KERNELS = """
def @reused(%n: int64, %x: Tensor[(40), float32]) -> Tensor[(40), float32] {
  if (%n == 0i64) { %x } else { @reused(%n - 1i64, tanh(%x * 0.5f) + 1f) }
}
def @kept(%n: int64, %x: Tensor[(40), float32], %l: List[Tensor[(40), float32]])
    -> List[Tensor[(40), float32]] {
  if (%n == 0i64) { Cons(%x, %l) } else { @kept(%n - 1i64, tanh(%x) * %x, Cons(%x, %l)) }
}
def @scalars(%n: int64, %s: float32, %x: Tensor[(3, 5), int8]) -> (float32, Tensor[(3, 5), int8]) {
  if (%n == 0i64) { (%s, %x) }
  else { @scalars(%n - 1i64, sqrt(%s) + erf(%s), %x + cast(sum(%x), dtype="int8")) }
}
def @work(%n: int64, %x: Tensor[(64, 64), float32]) -> Tensor[(64, 64), float32] {
  if (%n == 0i64) { %x } else { @work(%n - 1i64, exp(%x) * 0.25f) }
}
def @sizes(%x: Tensor[(?), float32], %y: Tensor[(?), float32]) -> Tensor[(?), float32] {
  tanh(%x) * %y
}
def @rows(%i: int64, %x: Tensor[(4, 3), float32]) -> Tensor[(3), float32] {
  take(%x, %i, axis=0, mode="fast") + 1f
}
def @flags(%x: Tensor[(6), float32]) -> (bool, int8, uint16, float64, float16) {
  (any(%x > 0f), cast(sum(%x), dtype="int8"), cast(max(%x), dtype="uint16"),
   cast(min(%x), dtype="float64"), cast(sum(%x), dtype="float16"))
}
"""


def kernel_program() -> Executable:
    return relayvm.compile(relayvm.parse(KERNELS))


def vector(*shape, dtype="float32") -> np.ndarray:
    return (np.arange(np.prod(shape)).reshape(shape) % 7 - 2).astype(dtype)


def bits(value) -> tuple:
    """Return all that a value is, arrays by their bytes."""
    if isinstance(value, np.ndarray):
        return value.dtype.name, value.shape, value.tobytes()
    if isinstance(value, tuple):
        return tuple(map(bits, value))
    return value.tag, *map(bits, value.fields)


def of_engines(exe: Executable, name: str, *args, **limits) -> None:
    """Both engines give the same value or trap, in as many steps and calls of kernels."""
    outcomes = []
    for engine in ENGINES:
        vm = VirtualMachine(exe, engine=engine, **limits)
        for _ in range(2):
            try:
                value = vm.invoke(name, *args)
                outcome = bits(value)
            except Trap as trap:
                outcome = told(trap)
        stats = vm.stats()
        outcomes.append((outcome, stats["steps"], stats["kernel_calls"]))
    assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize("n", [0, 1, 2, 7])
def test_kernels_in_loops_are_as_interpreted(n):
    exe = kernel_program()
    of_engines(exe, "reused", n, vector(40))
    of_engines(exe, "kept", n, vector(40), [])
    of_engines(exe, "scalars", n, np.float32(0.5), vector(3, 5, dtype="int8"))
    of_engines(exe, "work", n, vector(64, 64))


def test_results_of_every_dtype_leave_kernels_as_interpreted():
    exe = kernel_program()
    for x in (vector(6), -vector(6), np.zeros(6, np.float32)):
        of_engines(exe, "flags", x)


@pytest.mark.parametrize("steps", range(0, 12))
def test_the_work_of_kernels_ends_runs_at_the_same_place(steps):
    of_engines(kernel_program(), "work", 5, vector(64, 64), max_steps=steps)


def test_kernels_that_stop_are_told_as_interpreted():
    exe = kernel_program()
    for i in (0, 3, 4, -1, 1 << 40):
        of_engines(exe, "rows", i, vector(4, 3))
    of_engines(exe, "sizes", vector(5), vector(5))
    of_engines(exe, "sizes", vector(5), vector(4))


def test_kernels_leave_no_memory_behind():
    vm = VirtualMachine(kernel_program(), engine="jit")
    held = []
    for _ in range(30):
        vm.invoke("kept", 50, vector(40), [])
        vm.invoke("scalars", 50, np.float32(0.5), vector(3, 5, dtype="int8"))
        vm.invoke("flags", vector(6))
        with pytest.raises(Trap):
            vm.invoke("rows", 4, vector(4, 3))
        held.append(vm.stats()["held_bytes"])
    assert max(held) - min(held) < 16 << 10


def test_memory_that_is_out_within_a_kernel_call_leaves_nothing():
    exe = kernel_program()
    ended = set()
    for kib in range(68, 220, 4):
        vm = VirtualMachine(exe, engine="jit", max_memory=kib << 10)
        try:
            assert vm.invoke("kept", 150, vector(40), []).tag == 0
            ended.add("whole")
        except Trap as trap:
            assert trap.code == "out-of-memory"
            ended.add("out")
        assert vm.invoke("reused", 3, vector(40)).shape == (40,)
    assert ended == {"whole", "out"}
