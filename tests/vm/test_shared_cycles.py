"""Memory of programs with references and recursive closures, also of values that the host held."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest

import relayvm
from relayvm import VirtualMachine
from relayvm.compiler.evaluate import Evaluator
from relayvm.vm.library import lib
from tests.compiler.programs_text import typed

PROGRAM = """
type Node { Node(int32, ref(List[Node])) }

// A node that is its own neighbour.
def @make(%n: int32) -> Node {
  let %r: ref(List[Node]) = ref(Nil);
  let %a = Node(%n, %r);
  ref_write(%r, Cons(%a, Nil));
  %a
}
def @new() -> ref(List[Node]) { ref(Nil) }
def @put(%r: ref(List[Node]), %n: int32) { ref_write(%r, Cons(@make(%n), Nil)) }

// A closure that calls itself through a reference.
def @knot(%k: int32) -> fn (int32) -> int32 {
  let %r = ref(fn (%x: int32) -> int32 { %x });
  let %f = fn (%x: int32) -> int32 {
    if (%x == 0) { %k } else { let %g = ref_read(%r); %g(%x - 1) + 1 }
  };
  ref_write(%r, %f);
  %f
}
def @many(%n: int32, %l: List[Node]) -> List[Node] {
  if (%n == 0) { %l } else { @many(%n - 1, Cons(@make(%n), %l)) }
}
def @main(%n: int32) -> int32 {
  let %go = fn (%i: int32, %sum: int32) -> int32 {
    if (%i == 0) { %sum } else { let %f = @knot(%i); %go(%i - 1, %sum + %f(2) - %i) }
  };
  %go(%n, 0)
}
"""

keeps_memory = pytest.mark.skipif(
    lib.rvm_is_stress_build(), reason="the stress build keeps no memory"
)


@pytest.fixture(scope="module")
def exe():
    return relayvm.compile(relayvm.parse(PROGRAM))


def holds(vm: VirtualMachine, work, rounds: int = 6_000) -> None:
    """Assert that repeated work needs no more memory than it took at first: what leaked would have
    to be replaced by the system.
    """
    for _ in range(300):
        work()
    before = vm.stats()["system_calls"]
    for _ in range(rounds):
        work()
    assert vm.stats()["system_calls"] == before
    assert vm.stats()["held_bytes"] < 4 << 20


@keeps_memory
def test_a_run_of_many_recursive_closures_keeps_memory_constant(exe):
    vm = VirtualMachine(exe, max_memory=2 << 20)
    assert vm.run(100_000) == 200_000


def test_the_evaluator_keeps_memory_constant():
    evaluator = Evaluator(typed(PROGRAM))
    evaluator.call("main", [100])
    gc.collect()
    before = len(gc.get_objects())
    assert int(evaluator.call("main", [2_000])) == 4_000
    gc.collect()
    assert len(gc.get_objects()) < before + 1_000


@pytest.mark.slow
def test_the_evaluator_keeps_memory_constant_over_a_long_run():
    evaluator = Evaluator(typed(PROGRAM))
    evaluator.call("main", [100])
    gc.collect()
    before = len(gc.get_objects())
    assert int(evaluator.call("main", [100_000])) == 200_000
    gc.collect()
    assert len(gc.get_objects()) < before + 1_000


@keeps_memory
def test_many_runs_keep_memory_constant(exe):
    vm = VirtualMachine(exe)
    holds(vm, lambda: vm.run(5), 20_000)


@keeps_memory
def test_a_cycle_that_the_host_held_goes_with_its_last_handle(exe):
    vm = VirtualMachine(exe)

    def look_inside():
        node = vm.invoke("make", 3)
        assert int(node.fields[1].read().fields[0].fields[0]) == 3

    holds(vm, lambda: vm.invoke("make", 3))
    holds(vm, look_inside)
    holds(vm, lambda: vm.invoke("knot", 7)(3))


@keeps_memory
def test_a_cycle_goes_when_a_reference_of_the_host_is_written(exe):
    vm = VirtualMachine(exe)
    reference = vm.invoke("new")
    holds(vm, lambda: vm.invoke("put", reference, 3))
    holds(vm, lambda: reference.write([vm.invoke("make", 1)]))
    assert int(reference.read().fields[0].fields[0]) == 1


@keeps_memory
def test_large_values_with_cycles_go_too(exe):
    vm = VirtualMachine(exe)
    holds(vm, lambda: vm.invoke("many", 500, []), 200)


def test_what_another_handle_reaches_stays(exe):
    vm = VirtualMachine(exe)
    node = vm.invoke("make", 42)
    neighbours = node.fields[1]
    del node
    for _ in range(100):
        vm.invoke("make", 1)
    again = neighbours.read().fields[0]
    del neighbours
    vm.trim()
    assert int(again.fields[1].read().fields[0].fields[0]) == 42
    knot = vm.invoke("knot", 5)
    copies = [vm.invoke("knot", k) for k in range(20)]
    del copies
    assert int(knot(3)) == 8


def test_a_long_value_is_walked_by_the_host_in_reasonable_time(exe):
    vm = VirtualMachine(exe)
    value, length = vm.invoke("many", 3_000, []), 0
    while value.fields:
        value, length = value.fields[1], length + 1
    assert length == 3_000


def test_values_outlive_their_machine_and_executable():
    vm = VirtualMachine(relayvm.compile(relayvm.parse(PROGRAM)))
    values = [vm.invoke("many", 50, []) for _ in range(30)]
    del vm
    gc.collect()
    while values:
        assert int(values.pop().fields[0].fields[0]) == 1


def test_machines_in_threads_share_references_with_cycles(exe):
    shared = VirtualMachine(exe).invoke("new")
    failures: list[BaseException] = []

    def work(seed: int) -> None:
        vm = VirtualMachine(exe)
        try:
            for k in range(400):
                vm.invoke("put", shared, seed * 1000 + k)
                node = shared.read().fields[0]
                number = int(node.fields[0])
                assert int(node.fields[1].read().fields[0].fields[0]) == number
                assert int(vm.invoke("knot", k)(2)) == k + 2
                shared.write([vm.invoke("make", number)])
                if k % 50 == 0:
                    vm.trim()
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert np.shape(shared.read().fields[0].fields[0]) == ()
