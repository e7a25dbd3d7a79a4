"""Large results that the host keeps are lent, not copied: what holds while they live and after."""

from __future__ import annotations

import gc
import os
import threading
import weakref

import numpy as np
import pytest

import relayvm
from relayvm.vm.library import lib
from relayvm.vm.machine import VirtualMachine

LARGE = 5000
TEXT = """
def @main[n](%x: Tensor[(n), float32]) { %x * 2f }
def @twice[n](%x: Tensor[(n), float32]) { let %y = %x * 2f; (%y, %y, %y + 1f) }
def @same[n](%x: Tensor[(n), float32]) { %x }
def @constant() -> Tensor[(5000), float32] { ones(shape=[5000], dtype="float32") }
def @part[n](%x: Tensor[(n), float32]) {
  strided_slice(%x * 2f, begin=[0], end=[2000]) }
def @box() { ref(zeros(shape=[5000], dtype="float32")) }
def @content(%r: ref(Tensor[(5000), float32])) { ref_read(%r) }
def @pair(%x: Tensor[(5000), float32], %i: int64) {
  let %n: List[int64] = Nil;
  (%x * 3f, if (%i > 0i64) { Cons(%i, %n) } else { %n })
}
"""
ENTRIES = ["main", "twice", "same", "constant", "part", "box", "content", "pair"]


@pytest.fixture(scope="module")
def exe() -> relayvm.Executable:
    return relayvm.compile(relayvm.parse(TEXT), entries=ENTRIES)


@pytest.fixture
def vm(exe: relayvm.Executable) -> VirtualMachine:
    return VirtualMachine(exe, num_threads=1)


def floats(count: int, first: float = 0) -> np.ndarray:
    return np.arange(first, first + count, dtype=np.float32)


def test_results_of_all_sizes_are_arrays_of_their_own(vm):
    counts = [0, 1, 500, 511, 512, 513, 1024, 9000, 40_000, 500_000]
    kept = [(c, vm.run(floats(c, 1))) for c in counts for _ in range(3)]
    for count, result in kept:
        np.testing.assert_array_equal(result, floats(count, 1) * 2)
        result[...] = -1  # which no other sees
    for count in counts:
        np.testing.assert_array_equal(vm.run(floats(count, 5)), floats(count, 5) * 2)


def test_an_array_that_dies_gives_its_memory_to_the_next_call(vm):
    x = floats(100_000)
    for _ in range(3):
        vm.run(x)
    before = vm.stats()["system_calls"]
    for _ in range(50):
        assert vm.run(x)[7] == 14
    if not lib.rvm_is_stress_build():  # which keeps no memory
        assert vm.stats()["system_calls"] == before


def test_a_value_that_somebody_else_has_is_copied(vm):
    x = floats(LARGE)
    first, second, third = vm.invoke("twice", x)
    same = vm.invoke("same", x)
    for result in (first, second, third, same):
        result += 1
    np.testing.assert_array_equal(first, x * 2 + 1)
    np.testing.assert_array_equal(second, x * 2 + 1)
    np.testing.assert_array_equal(third, x * 2 + 2)
    np.testing.assert_array_equal(x, floats(LARGE))
    np.testing.assert_array_equal(same, x + 1)


def test_constants_and_contents_of_references_stay_as_they_are(vm):
    box = vm.invoke("box")
    for _ in range(2):
        ones, content = vm.invoke("constant"), vm.invoke("content", box)
        assert (ones == 1).all()
        assert (content == 0).all()
        ones[...], content[...] = 7, 7
    assert (box.read() == 0).all()


def test_a_part_of_a_larger_value_does_not_keep_the_rest(vm):
    part = vm.invoke("part", floats(100_000))
    np.testing.assert_array_equal(part, floats(2000) * 2)
    base = part if part.base is None else part.base
    assert not isinstance(base, np.ndarray)
    vm.run(floats(100_000))
    np.testing.assert_array_equal(part, floats(2000) * 2)


def test_large_results_beside_values_that_are_no_arrays(vm):
    for i in (0, 3):
        array, items = vm.invoke("pair", floats(LARGE), i)
        np.testing.assert_array_equal(array, floats(LARGE) * 3)
        assert items.constructor == ("Cons" if i else "Nil")


def test_arrays_outlive_their_machine_and_its_executable():
    exe = relayvm.compile(relayvm.parse(TEXT), entries=["main"])
    vm = VirtualMachine(exe, num_threads=1)
    kept = [vm.run(floats(count)) for count in (LARGE, 100_000)]
    view = kept[0][10:]
    gone = weakref.ref(vm)
    del vm, exe
    gc.collect()
    assert gone() is None
    np.testing.assert_array_equal(kept[1], floats(100_000) * 2)
    del kept
    np.testing.assert_array_equal(view, floats(LARGE)[10:] * 2)


def test_arrays_that_die_wait_only_for_a_few_calls(vm):
    """What comes back beyond that, or while nobody calls, is the system's again."""
    kept = [vm.run(floats(100_000)) for _ in range(20)]
    held = vm.stats()["held_bytes"]
    kept.clear()
    vm.run(floats(10))
    assert vm.stats()["held_bytes"] <= held + 8 * 2**20
    result = vm.run(floats(100_000))
    vm.trim()
    np.testing.assert_array_equal(result, floats(100_000) * 2)
    del result
    vm.trim()
    assert vm.stats()["held_bytes"] < 2**20


def test_limits_on_memory_hold_while_results_come_and_go(exe):
    vm = VirtualMachine(exe, num_threads=1, max_memory=16 * 2**20)
    for i in range(60):
        result = vm.run(floats(500_000, i))
        assert result[1] == 2 * (i + 1)
    with pytest.raises(relayvm.Trap, match="out-of-memory"):
        vm.run(floats(8_000_000))
    assert vm.run(floats(LARGE))[1] == 2


def test_arrays_die_on_other_threads_while_the_machine_runs(vm):
    x, wrong, queue = floats(30_000), [], []
    done = threading.Event()

    def drop() -> None:
        while not done.is_set() or queue:
            if queue:
                array = queue.pop()
                if array[7] != 14:
                    wrong.append(array[7])

    dropper = threading.Thread(target=drop)
    dropper.start()
    for _ in range(2000):
        queue.append(vm.run(x))
    done.set()
    dropper.join()
    assert not wrong


def test_a_forked_child_has_its_own_arrays(vm):
    kept = [vm.run(floats(30_000)) for _ in range(3)]
    child = os.fork()
    if child == 0:
        right = bool((kept.pop() == floats(30_000) * 2).all())
        kept[0][...] = 0
        for _ in range(5):
            right = right and vm.run(floats(30_000))[3] == 6
        os._exit(0 if right else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    for array in kept:
        np.testing.assert_array_equal(array, floats(30_000) * 2)


def test_a_lent_result_is_an_argument_like_any_other(vm):
    value = vm.run(floats(LARGE))
    for _ in range(3):
        value = vm.run(value)
    np.testing.assert_array_equal(value, floats(LARGE) * 16)
    assert vm.run(value, out=value) is value
    np.testing.assert_array_equal(value, floats(LARGE) * 32)
