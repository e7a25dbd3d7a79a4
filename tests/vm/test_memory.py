"""Memory: nothing is left behind, the steady state asks the system for nothing, deep runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import relayvm
from relayvm.vm.library import lib
from relayvm.vm.machine import VirtualMachine
from tests.vm.programs import list_machine, loops

ROOT = Path(__file__).parents[2]
stress_build = pytest.mark.skipif(
    lib.rvm_is_stress_build(), reason="the stress build keeps no memory"
)


@stress_build
def test_the_steady_state_asks_the_system_for_nothing():
    vm = list_machine()
    items = list(range(2000))

    def work():
        values = vm.invoke("reverse", items)
        vm.invoke("map", vm.invoke("adder", 1), values)
        vm.invoke("sum", vm.invoke("range", 3000))
        vm.invoke("squares", 5000)
        vm.invoke("make_cycle", 1)

    for _ in range(3):
        work()
    before = vm.stats()["system_calls"]
    for _ in range(20):
        work()
    assert vm.stats()["system_calls"] == before


@stress_build
def test_calls_with_values_of_the_host_do_not_gather_their_memory():
    vm = list_machine()
    for _ in range(3_000):
        vm.invoke("sum_owned", [1, 2, 3, 4] * 10)
    assert vm.stats()["held_bytes"] < 3 << 20


def test_cycles_through_references_are_collected():
    vm = list_machine()
    vm.invoke("make_cycle", 1)
    before = vm.stats()["held_bytes"]
    for _ in range(1000):
        vm.invoke("make_cycle", 1)
    assert vm.stats()["held_bytes"] == before


def test_cycles_are_collected_within_one_call():
    vm = list_machine(max_memory=1 << 20)
    assert vm.invoke("many_cycles", 100_000, [1, 2, 3]) == 6


@stress_build
def test_a_million_cycles_in_one_call_hold_little_memory():
    vm = list_machine()
    vm.invoke("many_cycles", 1_000_000, [])
    assert vm.stats()["peak_bytes"] < 24 << 20


def test_a_search_for_cycles_spares_what_a_frame_holds():
    vm = list_machine(max_memory=1 << 20)
    assert vm.invoke("cycles_beside", 50_000, vm.invoke("range", 100)) == 4950


def test_trim_gives_memory_back():
    vm = list_machine()
    vm.invoke("sum_owned", vm.invoke("range", 100_000))
    vm.invoke("squares", 100_000)
    vm.trim()
    assert vm.stats()["held_bytes"] < 1 << 20
    assert vm.invoke("sum", vm.invoke("range", 10)) == 45


RESIDENT = """
import numpy as np
import relayvm
from tests.vm.programs import list_machine

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096

text = "def @main[n](%x: Tensor[(n, 500), float32]) { nn.dense(nn.softmax(%x), %x) }"
lists, tensors = list_machine(), relayvm.VirtualMachine(relayvm.compile(relayvm.parse(text)))
levels = []
for _ in range(3):
    lists.invoke("sum_owned", lists.invoke("range", 500_000))
    tensors.run(np.ones((1500, 500), np.float32))
    before = resident()
    lists.trim()
    tensors.trim()
    levels.append((before, resident()))
assert all(before - after > 20 << 20 for before, after in levels), levels
assert levels[2][1] - levels[0][1] < 4 << 20, levels
"""


@stress_build
@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the system does not tell")
def test_what_trim_gives_back_is_the_system_s_again():
    done = subprocess.run(
        [sys.executable, "-c", RESIDENT], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]


def test_loops_do_not_hold_more_memory_the_longer_they_run():
    vm = VirtualMachine(loops(), max_memory=1 << 20)
    vm.run(0, 200_000, 1)
    assert vm.stats()["held_bytes"] == vm.stats()["stack_bytes"]


def test_a_deep_recursion_returns():
    vm = VirtualMachine(loops())
    assert vm.invoke("depth", 100_000) == 100_000


@pytest.mark.slow
def test_a_recursion_a_million_deep_returns_and_can_be_trimmed():
    vm = VirtualMachine(loops())
    assert vm.invoke("depth", 1_000_000) == 1_000_000
    vm.trim()
    assert vm.stats()["held_bytes"] < 1 << 20


@pytest.mark.slow
def test_a_list_of_a_million_elements_is_built_mapped_and_folded():
    vm = list_machine()
    mapped = vm.invoke("map", vm.invoke("adder", 1), vm.invoke("range", 1_000_000))
    assert vm.invoke("sum", mapped) == 500000500000
    del mapped
    vm.trim()
    assert vm.stats()["held_bytes"] < 1 << 20


@stress_build
@pytest.mark.slow
def test_forty_million_iterations_do_not_grow_memory():
    vm = VirtualMachine(loops(), max_memory=1 << 20)
    before = vm.stats()["peak_bytes"]
    vm.run(0, 40_000_000, 1)
    assert vm.stats()["peak_bytes"] == before


def test_a_compiled_loop_of_cyclic_closures_stays_within_its_memory():
    text = """
    def @main(%n: int64) -> int64 {
      if (%n == 0i64) { 0i64 } else {
        let %r = ref(fn (%x: int64) -> int64 { %x });
        let %f = fn (%x: int64) -> int64 { let %g = ref_read(%r); %g(%x) + %n };
        ref_write(%r, %f);
        @main(%n - 1i64)
      }
    }
    """
    vm = VirtualMachine(relayvm.compile(relayvm.parse(text)), max_memory=1 << 20)
    assert vm.run(50_000) == 0
