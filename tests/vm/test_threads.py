"""Kernels on several threads: who runs what, traps, interrupts, fork, idleness, the end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest

from relayvm.base.abi import trap_status
from relayvm.base.diagnostics import Trap
from relayvm.vm import machine
from relayvm.vm.machine import VirtualMachine
from relayvm.vm.python_kernel import bind_python_kernel

from .thread_programs import ROOT, phases, rounds, workers

two_cores = pytest.mark.skipif(
    len(getattr(os, "sched_getaffinity", lambda _: ())(0)) < 2, reason="needs two cores"
)
pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc/self")

THREADS = (1, 2, 3, 5, 16)
MS = 1_000_000


@pytest.fixture(autouse=True)
def as_on_sixteen_cores(monkeypatch):
    monkeypatch.setattr(machine, "available_cores", lambda: 16)
    yield
    phases().set_delay(0)
    phases().set_gate(0)


def zeros(count: int) -> np.ndarray:
    return np.zeros(count, np.int64)


def in_a_process_of_its_own(text: str) -> str:
    """Return what a program prints that must end well."""
    # Newer Pythons warn of a fork beside any thread.
    options = ("-W", "ignore:This process:DeprecationWarning")
    start = """
        import os, signal, sys, threading, time
        import numpy as np
        from relayvm.vm import machine
        machine.available_cores = lambda: 16
        from relayvm.vm.machine import VirtualMachine
        from tests.vm.thread_programs import phases, rounds, worker_tasks, workers
        def zeros(count): return np.zeros(count, np.int64)
        cores = sorted(os.sched_getaffinity(0))
    """
    program = textwrap.dedent(start) + textwrap.dedent(text)
    done = subprocess.run(
        [sys.executable, *options, "-c", program],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("extent", [1, 2, 3, 7, 16, 19])
def test_slices_are_even_and_all_rounds_run_once(threads, extent):
    bound = {
        int(i) for i in VirtualMachine(rounds("first"), num_threads=threads).run(zeros(extent))
    }
    parts = min(threads, extent)
    even = {part * (extent // parts) + min(part, extent % parts) for part in range(parts)}
    assert bound in (even, {0}), "one slice alone where another machine had the workers"


def test_a_worker_takes_only_the_slice_of_its_number():
    phases().set_delay(MS // 2)
    vm = VirtualMachine(rounds("who"), num_threads=4)
    seen: set[int] = set()
    for _ in range(1000):
        out = vm.run(zeros(16)).reshape(4, 4)
        for part in range(4):
            assert set(out[part]) in ({0}, {part})
        seen |= {int(w) for w in out.ravel()}
        if len(seen) == 4:
            break
    assert seen == {0, 1, 2, 3}


@pytest.mark.parametrize("threads", THREADS)
def test_the_trap_of_the_lowest_index_is_reported(threads):
    phases().set_delay(MS // 50)
    vm = VirtualMachine(rounds("trap"), num_threads=threads)
    rng = np.random.default_rng(threads)
    told = trap_status("index")
    names = {told: "index-out-of-range", 2: "run-time-shape", 3: "match-failed", 10: "bad-value"}
    for _ in range(30):
        codes = zeros(40)
        places = rng.choice(40, size=rng.integers(1, 5), replace=False)
        codes[places] = rng.choice(list(names), size=len(places))
        with pytest.raises(Trap) as caught:
            vm.run(codes)
        first = min(places)
        assert caught.value.code == names[codes[first]]
        if codes[first] == told:
            assert f"index {first} is outside an axis of {told}" in str(caught.value)
        assert (vm.run(zeros(40)) == np.arange(40)).all()


def test_rounds_that_take_longer_than_their_work_tells_are_run_one_by_one():
    phases().set_delay(10 * MS)
    steps = set(VirtualMachine(rounds("first"), num_threads=1).run(zeros(40)).tolist())
    # From the second step on the clock has told: half as many at once, down to one.
    assert steps >= set(range(34, 40))


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_another_thread_interrupts_a_kernel_on_all_its_threads(threads):
    phases().set_delay(2 * MS)
    phases().set_gate(1)
    vm = VirtualMachine(rounds("hold"), num_threads=threads)
    caught: list[str] = []

    def work() -> None:
        try:
            vm.run(zeros(4000))
        except Trap as trap:
            caught.append(trap.code)

    thread = threading.Thread(target=work)
    thread.start()
    while not phases().held():
        pass
    vm.interrupt()
    phases().set_gate(0)
    thread.join(20)
    assert caught == ["interrupted"]
    phases().set_delay(0)
    assert vm.run(zeros(40)).shape == (40,)


def test_the_caller_looks_at_its_host_while_it_waits_for_a_worker():
    # The caller's own slice ends at once; the worker's is long, and does not look.
    phases().set_delay(2 * MS)
    heard = threading.Event()
    before = signal.signal(signal.SIGALRM, lambda *_: heard.set())
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.03)
        VirtualMachine(rounds("who"), num_threads=2).run(zeros(80))
        assert heard.is_set()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_a_machine_that_does_not_get_the_workers_runs_on_its_own_thread():
    phases().set_gate(1)
    holder = VirtualMachine(rounds("hold"), num_threads=3)
    other = VirtualMachine(rounds("who"), num_threads=3)
    thread = threading.Thread(target=holder.run, args=(zeros(64),))
    thread.start()
    while not phases().held():
        pass
    phases().set_delay(MS // 10)
    for _ in range(5):
        assert not other.run(zeros(64)).any()
    assert len(workers()) <= 15  # of all tests in this process
    phases().set_gate(0)
    thread.join()
    assert any(other.run(zeros(64)).any() for _ in range(500))


def test_workers_compute_in_the_modes_of_the_caller_and_take_no_signals():
    phases().set_delay(MS // 4)
    vm = VirtualMachine(rounds("manners"), num_threads=2)
    before = phases().modes()
    flush_and_round_down = before | 0xA040
    for modes in (flush_and_round_down, before):
        phases().set_modes(modes)
        try:
            for _ in range(1000):
                seen = vm.run(zeros(16))
                assert set(seen >> 32) == {modes}
                by_workers = seen[(seen & 0xFFFF) > 0]
                if by_workers.size:
                    break
        finally:
            phases().set_modes(before)
        assert set(by_workers >> 16 & 1) == {1}


@two_cores
def test_a_worker_that_has_lost_its_core_gets_that_of_the_caller_for_its_part():
    text = """
        phases().set_delay(300_000)
        vm = VirtualMachine(rounds("stall"), num_threads=2)
        VirtualMachine(rounds("who"), num_threads=2).run(zeros(8))
        os.sched_setaffinity(0, cores[:1])  # of this thread alone
        for _ in range(500):
            out = vm.run(zeros(8))
            if out[-1] & 0xFFFF: break
        print(out[-1] & 0xFFFF, set(out >> 16) == {cores[0]})
        while os.sched_getaffinity(worker_tasks()[0]) != set(cores): pass
    """
    assert in_a_process_of_its_own(text) == "1 True\n"


@two_cores
def test_workers_run_where_their_user_allows_it():
    text = """
        phases().set_delay(50_000)
        vm = VirtualMachine(rounds("where"), num_threads=2)
        def cores_seen(allowed):
            seen = set()
            for i in range(1000):
                if i % 2: time.sleep(0.002)  # it sleeps, and must be woken
                out = vm.run(zeros(8))
                seen |= {int(o) >> 16 for o in out if o & 0xFFFF}
                while os.sched_getaffinity(worker_tasks()[0]) != set(allowed): pass
                if i > 40 and seen: return seen
        vm.run(zeros(8))
        while not worker_tasks(): pass
        assert cores_seen(cores)
        os.sched_setaffinity(worker_tasks()[0], cores[1:2])
        os.sched_setaffinity(0, cores[:1])
        print(cores_seen(cores[1:2]) == {cores[1]})
    """
    assert in_a_process_of_its_own(text) == "True\n"


def test_a_worker_that_could_only_have_the_core_of_the_caller_is_not_woken():
    text = """
        os.sched_setaffinity(0, cores[:1])
        phases().set_delay(100_000)
        vm = VirtualMachine(rounds("who"), num_threads=4)
        vm.run(zeros(8))
        while len(workers()) < 3: pass
        time.sleep(0.05)
        seen = set()
        for _ in range(200): seen |= set(vm.run(zeros(8)).tolist())
        print(seen)
    """
    assert in_a_process_of_its_own(text) == "{0}\n"


def test_python_kernels_run_on_the_calling_thread():
    exe = rounds("who")
    seen: list[tuple[int, int, int]] = []

    def phase(arrays, dims, begin, end):
        seen.append((threading.get_ident(), begin, end))
        arrays[1][begin:end] = 1

    bind_python_kernel(exe, 0, [phase])
    assert VirtualMachine(exe, num_threads=4).run(zeros(8)).all()
    assert seen == [(threading.get_ident(), 0, 8)]


def test_workers_are_made_at_first_use_and_named():
    text = """
        one, three = (VirtualMachine(rounds("who"), num_threads=n) for n in (1, 3))
        one.run(zeros(64))
        print(workers())
        three.run(zeros(1))
        print(workers())
        three.run(zeros(64))
        while len(workers()) < 2: pass  # each names itself as it begins
        print(workers())
    """
    assert in_a_process_of_its_own(text) == "[]\n[]\n['relayvm-1', 'relayvm-2']\n"


def test_idle_workers_take_no_processor_time():
    text = """
        vm = VirtualMachine(rounds("who"), num_threads=4)
        for _ in range(100): vm.run(zeros(64))
        time.sleep(0.001)
        begin = time.process_time()
        time.sleep(0.3)
        print(time.process_time() - begin < 0.01)
    """
    assert in_a_process_of_its_own(text) == "True\n"


def test_a_forked_child_makes_workers_of_its_own():
    text = """
        phases().set_delay(200_000)
        vm = VirtualMachine(rounds("who"), num_threads=3)
        vm.run(zeros(64))
        child = os.fork()
        if child == 0:
            before = workers()
            seen = set(vm.run(zeros(64)))
            for _ in range(200):
                seen |= set(vm.run(zeros(64)))
                if seen == {0, 1, 2}: break
            os._exit(0 if before == [] and seen == {0, 1, 2} else 1)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), sorted({*vm.run(zeros(64))} | {0}) != [])
    """
    assert in_a_process_of_its_own(text) == "0 True\n"


def test_a_fork_in_the_middle_of_a_kernel_lets_both_processes_end_it():
    text = """
        phases().set_delay(1_000_000)
        children = []
        def fork(*_):
            children.append(os.fork())
        signal.signal(signal.SIGALRM, fork)
        signal.setitimer(signal.ITIMER_REAL, 0.03)
        vm = VirtualMachine(rounds("trap"), num_threads=3)
        good = (vm.run(zeros(240)) == np.arange(240)).all() and children
        again = (vm.run(zeros(24)) == np.arange(24)).all()
        if children == [0]:
            os._exit(0 if good and again else 1)
        _, status = os.waitpid(children[0], 0)
        print(os.waitstatus_to_exitcode(status), bool(good and again))
    """
    assert in_a_process_of_its_own(text) == "0 True\n"


def test_a_process_ends_while_workers_sleep_spin_or_work():
    text = """
        vm = VirtualMachine(rounds("who"), num_threads=3)
        vm.run(zeros(64))
        if sys.argv[1:] == ["asleep"]: time.sleep(0.01)
        phases().set_gate(1)
        hold = VirtualMachine(rounds("hold"), num_threads=3)
        if sys.argv[1:] == ["working"]:
            threading.Thread(target=hold.run, args=(zeros(64),), daemon=True).start()
            while not phases().held(): pass
        print("end")
    """
    for state in ("asleep", "spinning", "working"):
        program = f"import sys; sys.argv = ['', {state!r}]\n" + textwrap.dedent(text)
        assert in_a_process_of_its_own(program) == "end\n"


@pytest.fixture(scope="module")
def pool_alone(tmp_path_factory) -> str:
    """Return Python that binds `pool` to a library of the pool alone."""
    runtime = ROOT / "relayvm" / "vm" / "runtime"
    made = tmp_path_factory.mktemp("pool") / "pool.so"
    sources = [str(runtime / f"{name}.c") for name in ("pool", "park", "core")]
    flags = ["-std=c11", "-D_GNU_SOURCE", "-O1", "-fPIC", "-shared"]
    subprocess.run(["cc", *flags, *sources, "-o", str(made), "-lpthread"], check=True)
    return f"""
        import _ctypes, ctypes
        pool = ctypes.CDLL({str(made)!r})
        pool.pool_begin.restype = ctypes.c_bool
    """


def test_the_pool_leaves_no_thread_when_its_library_goes(pool_alone):
    text = """
        assert pool.pool_begin(4, 4)
        pool.pool_end(True)
        while len(workers()) < 3: pass
        _ctypes.dlclose(pool._handle)
        print(workers())
    """
    assert in_a_process_of_its_own(pool_alone + text) == "[]\n"


def test_a_job_is_not_shared_where_callers_take_all_cores(pool_alone):
    text = """
        begun, ended = threading.Event(), threading.Event()
        def call():
            print("second", pool.pool_begin(2, 8))
            begun.set()
            ended.wait()
            pool.pool_end(False)
        print("first", pool.pool_begin(2, 2))
        other = threading.Thread(target=call)
        other.start()
        begun.wait()
        pool.pool_end(True)
        for cores in (2, 3):
            shared = pool.pool_begin(2, cores)
            print(cores, "cores", shared)
            pool.pool_end(shared)
        sys.stdout.flush()
        child = os.fork()
        if child == 0: os._exit(not pool.pool_begin(2, 2))  # the other thread is not there
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        ended.set()
        other.join()
        print("again", pool.pool_begin(2, 2))
    """
    expected = ["first True", "second False", "2 cores False", "3 cores True", "0", "again True"]
    assert in_a_process_of_its_own(pool_alone + text).splitlines() == expected


@pytest.mark.slow
def test_machines_in_threads_hold_ten_thousand_calls_each():
    exe = rounds("first")
    failed: list[object] = []

    def work(threads: int) -> None:
        vm = VirtualMachine(exe, num_threads=threads)
        array = zeros(16)
        for _ in range(10_000):
            out = vm.run(array)
            if (np.diff(out) < 0).any() or (out > np.arange(16)).any():
                failed.append(out)

    callers = [threading.Thread(target=work, args=(n,)) for n in (2, 3, 5, 16)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert failed == []
