"""A measured call tells how often each kernel ran, and for how long; other calls tell nothing."""

from __future__ import annotations

import dataclasses
import threading
from typing import Any

import numpy as np
import pytest

import relayvm
from relayvm.base.diagnostics import RelayError, Trap, error
from relayvm.vm import jit
from relayvm.vm.calling import Call
from relayvm.vm.jit import make_native
from relayvm.vm.library import lib
from relayvm.vm.machine import VirtualMachine
from relayvm.vm.profile import Profile, Profiler

TEXT = """
def @steps[n](%i: int32, %x: Tensor[(n, 4), float32]) -> Tensor[(n, 4), float32] {
  if (%i == 0) { %x } else { @steps(%i - 1, tanh(%x + 1f)) }
}
def @main[n](%i: int32, %x: Tensor[(n, 4), float32]) {
  nn.dense(@steps(%i, %x), ones(shape=[3, 4], dtype="float32"))
}
def @same(%x: Tensor[(2), float32]) { %x }
def @rows(%x: Tensor[(?), float32], %y: Tensor[(?), float32]) { %x + %y }
"""
X = np.ones((1000, 4), np.float32)


@pytest.fixture(scope="module")
def exe() -> relayvm.Executable:
    return relayvm.compile(relayvm.parse(TEXT))


@pytest.fixture
def vm(exe: relayvm.Executable) -> VirtualMachine:
    return VirtualMachine(exe)


def kernel_calls(exe: relayvm.Executable, measured: Any) -> list[int]:
    count = lib.rvm_program_num_kernels(exe.handle)
    return [measured.kernels[i].calls for i in range(count)]


def calls(profile: Profile) -> list[int]:
    return sorted(row.calls for row in profile.kernels)


@pytest.mark.parametrize("count", [0, 1, 7, 100])
def test_kernels_are_counted_as_often_as_a_loop_runs(vm: VirtualMachine, count: int) -> None:
    profile = vm.profile(count, X)
    assert calls(profile) == ([1, count] if count > 1 else [1] * (1 + count))
    assert profile.kernel_calls == 1 + count == vm.stats()["kernel_calls"]
    assert profile.steps == vm.stats()["steps"]


def test_times_of_kernels_are_parts_of_the_whole(vm: VirtualMachine) -> None:
    profile = vm.profile(50, X)
    assert all(row.time_ns > 0 for row in profile.kernels)
    assert 0 < profile.kernel_time_ns <= profile.time_ns
    times = [row.time_ns for row in profile.kernels]
    assert times == sorted(times, reverse=True)


def test_work_and_operands_are_those_of_the_signature(vm: VirtualMachine) -> None:
    once = {row.name: row for row in vm.profile(1, X).kernels}
    often = {row.name: row for row in vm.profile(9, X).kernels}
    (name,) = (n for n, row in often.items() if row.calls == 9)
    assert often[name].work == 9 * once[name].work > 0
    assert often[name].operands == ("float32[n, 4]", "float32[n, 4]")


def test_each_profile_is_of_one_call_alone(vm: VirtualMachine) -> None:
    for _ in range(3):
        assert calls(vm.profile(5, X)) == [1, 5]
        vm.run(8, X)
    assert calls(vm.profile(i=2, x=X)) == [1, 2]


def test_an_entry_is_named_and_may_have_no_kernels(vm: VirtualMachine) -> None:
    profile = vm.profile(np.zeros(2, np.float32), entry="same")
    assert (profile.entry, profile.kernels, profile.kernel_time_ns) == ("same", (), 0)
    with pytest.raises(RelayError, match="there is no entry `other`"):
        vm.profile(entry="other")


def test_a_call_that_is_not_measured_fills_no_rows(exe: relayvm.Executable) -> None:
    machine = VirtualMachine(exe)
    call = Call(machine, machine._entry("main"))
    kept = Profiler(machine).new()
    call((3, X), {}, profile=kept)
    first = kernel_calls(exe, kept)
    assert sum(first) == 4 and kept.time_ns > 0
    machine.run(3, X)
    call((3, X), {})
    assert kernel_calls(exe, kept) == first


def test_a_trap_in_a_measured_call_leaves_the_machine_unmeasured(exe: relayvm.Executable) -> None:
    machine = VirtualMachine(exe, max_steps=2000)
    call = Call(machine, machine._entry("main"))
    kept = Profiler(machine).new()
    with pytest.raises(Trap, match="limit of 2000 steps"):
        call((1 << 30, X), {}, profile=kept)
    counted = sum(kernel_calls(exe, kept))
    assert 0 < counted == machine.stats()["kernel_calls"] and kept.time_ns > 0
    machine.run(2, X)
    assert sum(kernel_calls(exe, kept)) == counted
    with pytest.raises(Trap):
        machine.profile(1 << 30, X)
    assert calls(machine.profile(2, X)) == [1, 2]


def test_a_kernel_that_refuses_its_operands_is_not_counted(vm: VirtualMachine) -> None:
    a, b = np.zeros(2, np.float32), np.zeros(3, np.float32)
    with pytest.raises(Trap, match="broadcast"):
        vm.profile(a, b, entry="rows")
    assert vm.stats()["kernel_calls"] == 0
    with pytest.raises(RelayError, match="wrong-argument"):
        vm.profile(a, entry="rows")
    assert calls(vm.profile(a, a, entry="rows")) == [1]


def test_machines_in_other_threads_are_not_measured(exe: relayvm.Executable) -> None:
    stop = threading.Event()

    def work() -> None:
        machine = VirtualMachine(exe)
        while not stop.is_set():
            machine.run(20, X)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        machine = VirtualMachine(exe)
        assert all(calls(machine.profile(30, X)) == [1, 30] for _ in range(20))
    finally:
        stop.set()
        thread.join()


def test_a_profile_is_a_table_with_its_sums(vm: VirtualMachine) -> None:
    profile = vm.profile(1234, X[:1])
    lines = str(profile).splitlines()
    assert lines[0].startswith("main on `interpreter`: ") and lines[0].endswith(" steps")
    assert " ".join(lines[1].split()) == "time us % calls us a call Gop/s GB/s kernel"
    assert " 1,234 " in lines[2] and lines[2].endswith(f"  {profile.kernels[0].name}")
    last = 2 + len(profile.kernels)
    assert " 1,235 " in lines[last] and lines[last].endswith("  all kernels")
    assert lines[last + 1].endswith("  the machine") and lines[last + 2] == ""
    heads = [line.split()[-1] for line in lines[1:] if "us" in line.split()]
    assert heads == ["kernel", "function", "instructions"]
    nothing = dataclasses.replace(profile, kernels=(), time_ns=0, functions=(), instructions=())
    assert str(dataclasses.replace(nothing, allocations=())).count("\n") == 3


def test_where_nothing_compiles_machines_that_went_native_are_measured_by_the_interpreter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: Any) -> None:
        raise error("bad-option", "there is no compiler")

    exe = relayvm.compile(relayvm.parse("def @main(%x: Tensor[(2), float32]) { %x + %x }"))
    make_native(exe)
    monkeypatch.setattr(jit, "make_profiled", refuse)
    x = np.ones(2, "float32")
    for engine in ("auto", "jit"):
        vm = relayvm.VirtualMachine(exe, engine=engine)
        assert vm.native
        if engine == "auto":
            profile = vm.profile(x)
            assert (profile.engine, calls(profile)) == ("interpreter", [1])
        else:
            with pytest.raises(RelayError, match="there is no compiler"):
                vm.profile(x)
