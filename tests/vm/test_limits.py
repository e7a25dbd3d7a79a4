"""Steps, depth, memory, interrupts and signals: every limit is a trap; the machine runs on."""

from __future__ import annotations

import signal
import threading
import time

import pytest

from relayvm.base.diagnostics import RelayError, Trap
from relayvm.vm.machine import VirtualMachine
from tests.vm.programs import list_machine, loops

FOREVER = 1 << 62


def test_the_step_limit_counts_function_entries():
    vm = VirtualMachine(loops(), max_steps=11)
    assert vm.run(0, 10, 1) == vm.run(0, 10, 1)
    with pytest.raises(Trap) as caught:
        vm.run(0, 11, 1)
    assert caught.value.code == "out-of-steps"


def test_a_step_limit_beyond_one_slice_is_exact():
    vm = VirtualMachine(loops(), max_steps=100_000)
    vm.run(0, 99_999, 1)
    with pytest.raises(Trap, match="the limit of 100000 steps"):
        vm.run(0, 100_000, 1)


def test_no_steps_allow_no_call():
    with pytest.raises(Trap) as caught:
        VirtualMachine(loops(), max_steps=0).invoke("fib", 1)
    assert caught.value.code == "out-of-steps"


def test_the_depth_limit_counts_nested_calls():
    vm = VirtualMachine(loops(), max_depth=10)
    assert vm.invoke("depth", 9) == 9
    with pytest.raises(Trap, match="nested 10 deep") as caught:
        vm.invoke("depth", 10)
    assert caught.value.code == "out-of-depth"
    assert vm.invoke("depth", 9) == 9


def test_the_memory_limit_stops_a_growing_list():
    vm = list_machine(max_memory=1 << 20)
    with pytest.raises(Trap) as caught:
        vm.invoke("range", 100_000)
    assert caught.value.code == "out-of-memory"
    assert vm.invoke("sum", vm.invoke("range", 1000)) == 499500


def test_the_memory_limit_covers_the_stack():
    vm = VirtualMachine(loops(), max_memory=1 << 20)
    with pytest.raises(Trap) as caught:
        vm.invoke("depth", 1_000_000)
    assert caught.value.code == "out-of-memory"
    assert vm.invoke("depth", 100) == 100


def test_a_machine_that_does_not_fit_its_memory_is_refused():
    with pytest.raises(RelayError) as caught:
        VirtualMachine(loops(), max_memory=100)
    assert caught.value.code == "out-of-memory"


def test_another_thread_interrupts_a_run():
    vm = VirtualMachine(loops())
    timer = threading.Timer(0.05, vm.interrupt)
    timer.start()
    with pytest.raises(Trap) as caught:
        vm.run(0, FOREVER, 1)
    timer.join()
    assert caught.value.code == "interrupted"
    assert vm.invoke("fib", 10) == 55


def test_an_interrupt_of_an_idle_machine_is_forgotten():
    vm = VirtualMachine(loops())
    vm.interrupt()
    assert vm.invoke("fib", 10) == 55


class Alarm(Exception):
    """Raised by the signal handler below."""


def test_signal_handlers_run_during_a_call_and_may_end_it():
    def handler(number, frame):
        raise Alarm

    vm = VirtualMachine(loops())
    before = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        started = time.monotonic()
        with pytest.raises(Alarm):
            vm.run(0, FOREVER, 1)
        assert time.monotonic() - started < 5
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert vm.invoke("fib", 10) == 55


def test_a_machine_runs_one_call_at_a_time():
    vm = VirtualMachine(loops())

    def work():
        with pytest.raises(Trap):
            vm.run(0, FOREVER, 1)

    thread = threading.Thread(target=work)
    thread.start()
    while vm.stats()["invocations"] == 0:
        time.sleep(0)
    try:
        with pytest.raises(RelayError) as caught:
            vm.invoke("fib", 1)
    finally:
        while thread.is_alive():
            vm.interrupt()
            thread.join(0.01)
    assert caught.value.code == "machine-busy"


def test_other_python_threads_run_during_a_call():
    vm = VirtualMachine(loops())
    counted = 0
    thread = threading.Thread(target=lambda: vm.run(0, 30_000_000, 1))
    thread.start()
    while thread.is_alive():
        counted += 1
        time.sleep(0)
    assert counted > 10
