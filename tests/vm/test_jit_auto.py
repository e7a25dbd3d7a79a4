"""The engine `auto`: runs that go from the interpreter to native code, and the process that
compiles it meanwhile, whatever becomes of the two.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import relayvm
from relayvm.base.diagnostics import Trap
from relayvm.vm.executable import Executable
from relayvm.vm.jit import auto, background, make_native
from relayvm.vm.jit.host import this_host
from relayvm.vm.library import ffi, lib
from relayvm.vm.machine import VirtualMachine
from tests.vm.programs import lists, loops
from tests.vm.test_jit import many, told

ROOT = Path(__file__).parents[2]
PATIENCE_SECONDS = 60


def switches(vm: VirtualMachine) -> int:
    """Return how many runs went on in native code."""
    stats = ffi.new("rvm_stats *")
    lib.rvm_machine_stats(vm.handle, stats)
    return int(stats.switches)


def is_native(exe: Executable) -> bool:
    return bool(lib.rvm_program_is_native(exe.handle))


def outcome(vm: VirtualMachine, name: str, *args) -> tuple:
    before = vm.stats()["steps"]
    try:
        value = vm.invoke(name, *args)
        result = value.tobytes() if isinstance(value, np.ndarray) else str(value)
    except Trap as trap:
        result = told(trap)
    return result, vm.stats()["steps"] - before


def switched_after(exe: Executable, steps: int, **limits) -> VirtualMachine:
    """Return a machine whose runs go on in native code after so many steps."""
    vm = VirtualMachine(exe, engine="jit", **limits)
    lib.rvm_machine_interpret_first(vm.handle, steps)
    return vm


def check_all_switches(exe: Executable, name: str, *args, steps=range(1, 14), **limits) -> None:
    """Compare a run with those that change engines after each number of steps."""
    wanted = outcome(VirtualMachine(exe, engine="interpreter", **limits), name, *args)
    count = 0
    for step in steps:
        vm = switched_after(exe, step, **limits)
        assert outcome(vm, name, *args) == wanted, f"{name} after {step} steps"
        assert outcome(vm, name, *args) == wanted
        count += switches(vm)
    assert count > 0 or wanted[1] <= 2


# --- runs that change engines ---------------------------------------------------------------------


@pytest.mark.parametrize("name", ["main", "fib", "depth", "even"])
def test_a_run_may_change_engines_at_any_step(name):
    args = {"main": (0, 40, 1), "fib": (9,), "depth": (40,), "even": (41,)}[name]
    exe = loops()
    check_all_switches(exe, name, *args, steps=range(1, 44))
    for limit in (1, 2, 7, 20, 37):
        check_all_switches(exe, name, *args, max_steps=limit)
        check_all_switches(exe, name, *args, max_depth=limit)


@pytest.mark.parametrize("steps", [65_535, 65_536, 65_537, 131_072, 200_000])
def test_limits_of_steps_hold_across_a_change(steps):
    for name, args in {"main": (0, 300_000, 1), "fib": (30,), "even": (300_001,)}.items():
        check_all_switches(loops(), name, *args, steps=(1, 2, 65_535), max_steps=steps)


def test_lists_closures_references_and_arrays_change_engines():
    exe = lists()
    items = [3, 1, 2]
    for name in ("sum", "reverse", "sum_owned", "first", "array_alias", "pair_with", "take_twice"):
        check_all_switches(exe, name, items, steps=range(1, 6))
    for name in ("range", "squares"):
        check_all_switches(exe, name, 9)
    check_all_switches(exe, "many_cycles", 7, items)
    check_all_switches(exe, "first", [])
    vm = switched_after(exe, 2)
    doubled = vm.invoke("map", vm.invoke("adder", 10), items)
    assert vm.invoke("sum", doubled) == 36


@pytest.mark.parametrize("results", [1, 2, 3, 9])
@pytest.mark.parametrize("params", [1, 4, 5, 40])
def test_any_number_of_arguments_goes_over(params, results):
    exe = many(params, results)
    for name in ("plain", "closure"):
        check_all_switches(exe, name, 3, steps=range(1, 6))
    check_all_switches(exe, "from_outside", *range(params), steps=range(1, 5))


def test_a_trap_in_native_code_names_the_frames_that_wait():
    exe = relayvm.compile(
        relayvm.parse(
            """
            def @deep(%n: int32, %l: List[int32], %r: ref(List[int32])) -> List[int32] {
              if (%n == 0) { match? (%l) { Nil => Nil } }
              else { Cons(%n, @deep(%n - 1, Cons(%n, %l), ref(%l))) }
            }
            def @main(%n: int32) -> int32 { @length(@deep(%n, Nil, ref(Nil))) }
            """
        )
    )
    for n in (1, 9, 130):
        check_all_switches(exe, "main", n, steps=[*range(1, 12), 60, 100, 101, 131])


def test_a_run_leaves_in_the_middle_of_a_function_after_a_long_kernel():
    text = """
    def @main(%x: Tensor[(600, 600), float32], %n: int32) -> Tensor[(600, 600), float32] {
      let %y = nn.dense(%x, %x);
      let %rest = fn (%i: int32, %a: Tensor[(600, 600), float32]) {
        if (%i == 0) { %a } else { @twice(%a) } };
      add(%rest(%n, %y), %y)
    }
    def @twice(%a: Tensor[(600, 600), float32]) { nn.relu(add(%a, %a)) }
    """
    exe = relayvm.compile(relayvm.parse(text))
    x = np.random.default_rng(3).standard_normal((600, 600), dtype=np.float32)
    check_all_switches(exe, "main", x, 1, steps=(1, 2, 3, 1000))


# --- compiling in the background ------------------------------------------------------------------


@pytest.fixture
def eager(monkeypatch, tmp_path):
    """Have programs compiled as soon as a run is over, with a cache that is empty."""
    monkeypatch.setattr(auto, "ASK_AFTER_STEPS", 1)
    monkeypatch.setenv("RELAYVM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("RELAYVM_ENGINE", "auto")
    return tmp_path / "cache"


def wait(condition, what: str) -> None:
    """Wait for another process, which takes as long as the machine is busy."""
    event, end = threading.Event(), time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < end, what
        event.wait(0.01)


def every_child() -> list[str]:
    """Return the numbers of this process's children, those that nobody waited for included."""
    found = Path("/proc/self/task").glob("*/children")
    return [number for path in found for number in path.read_text().split()]


# Processes that compile kernels stay for the next test.
_ELDER: set[str] = set()


@pytest.fixture(autouse=True)
def elder_children():
    _ELDER.update(every_child())
    yield
    _ELDER.clear()


def children() -> list[str]:
    """Return the numbers of the children that this process got since the test began."""
    return [number for number in every_child() if number not in _ELDER]


def settled() -> None:
    wait(lambda: lib.rvm_native_compiles() == 0, "the compiler goes on")


def test_a_machine_goes_native_when_the_code_is_there(eager):
    exe = loops()
    vm = VirtualMachine(exe)
    assert vm.engine == "auto"
    assert vm.invoke("fib", 10) == 55
    wait(lambda: is_native(exe), "no code")
    assert vm.invoke("fib", 12) == 144
    assert (vm.native, switches(vm)) == (True, lib.rvm_is_stress_build())
    settled()
    other = VirtualMachine(loops())
    assert other.native  # from the cache
    assert other.invoke("fib", 12) == 144


def test_a_call_that_runs_goes_on_in_native_code(eager):
    exe = loops()
    vm, other = VirtualMachine(exe), VirtualMachine(exe)
    failures = []

    def loop(machine):
        with pytest.raises(Trap) as caught:
            machine.invoke("main", 0, 1 << 60, 1)
        failures.append(caught.value.code)

    threads = [threading.Thread(target=loop, args=(machine,)) for machine in (vm, other)]
    for thread in threads:
        thread.start()
    wait(lambda: switches(vm) == switches(other) == 1, "no switch")
    vm.interrupt()
    other.interrupt()
    for thread in threads:
        thread.join()
    assert failures == ["interrupted"] * 2
    assert vm.invoke("fib", 10) == 55
    settled()


def test_programs_queue_up_for_the_compiler(eager):
    programs = [loops(), lists(), many(3, 2)]
    machines = [VirtualMachine(exe) for exe in programs]
    calls = (("fib", 5), ("sum", [1, 2]), ("plain", 3))

    def are_native() -> bool:
        # Who asks while a process is being started is not heard, and asks again in the next call.
        for machine, call in zip(machines, calls):
            machine.invoke(*call)
        return all(map(is_native, programs))

    wait(are_native, "no code")
    assert machines[1].invoke("sum", [1, 2]) == 3
    settled()
    assert not children()


def test_a_machine_that_is_gone_is_not_waited_for(eager):
    vm = VirtualMachine(loops())
    vm.invoke("fib", 5)
    del vm
    settled()
    assert not children()


def test_the_engine_jit_does_not_wait_for_it(eager):
    exe = loops()
    vm = VirtualMachine(exe)
    vm.invoke("fib", 5)
    jit = VirtualMachine(exe, engine="jit")
    assert jit.invoke("fib", 20) == vm.invoke("fib", 20) == 6765
    settled()
    assert vm.invoke("fib", 20) == 6765


def with_compiler(*words: str) -> Executable:
    """Return a program that such a command is to compile."""
    exe = loops()
    encoded = [ffi.new("char[]", word.encode()) for word in words]
    lib.rvm_program_set_compiler(exe.handle, encoded, len(words), b"{}")
    return exe


@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="threads have no CPUs of their own"
)
def test_the_compiler_stays_out_of_the_way_of_who_asked(eager, tmp_path):
    told_to = tmp_path / "told"
    code = (
        "import os, sys; sys.stdin.buffer.read(100); "
        f"open({str(told_to)!r}, 'w').write(f'{{os.nice(0)}} {{len(os.sched_getaffinity(0))}}')"
    )
    vm = VirtualMachine(with_compiler(sys.executable, "-S", "-c", code))
    vm.invoke("fib", 15)
    settled()
    niceness, cpus = map(int, told_to.read_text().split())
    assert niceness >= min(os.nice(0) + 1, 10)
    assert cpus == max(len(os.sched_getaffinity(0)) - 1, 1)


@pytest.mark.parametrize(
    "code",
    [
        "raise SystemExit(3)",
        "import os; os.kill(os.getpid(), 11)",
        "import os; os.close(0); os.write(1, b'x' * 100000)",
        "import sys; sys.stdin.buffer.read(100); print('half')",
        "import os, struct; os.write(1, struct.pack('=3Q2I', 0x31564954414E5652, 0, 0, 5, 0))",
        "import os, struct; os.write(1, bytes(8) + struct.pack('=10I', *range(8, 18)) + "
        "struct.pack('=3Q2I', 0x31564954414E5652, 8, 0, 5, 0))",
        "import os, struct; os.write(1, bytes(8) + bytes(40) + struct.pack('=2I', 999, 0) + "
        "struct.pack('=3Q2I', 0x31564954414E5652, 8, 0, 5, 1))",
    ],
)
def test_a_compiler_that_fails_leaves_the_interpreter(eager, code, capfd):
    exe = with_compiler(sys.executable, "-S", "-c", code)
    vm = VirtualMachine(exe)
    for _ in range(3):
        assert vm.invoke("fib", 10) == 55
    settled()
    assert vm.invoke("fib", 10) == 55
    assert not vm.native
    assert not children()
    assert capfd.readouterr() == ("", "")


def test_a_compiler_that_is_not_there_leaves_the_interpreter(eager):
    vm = VirtualMachine(with_compiler("/nowhere/python"))
    for _ in range(3):
        assert vm.invoke("fib", 10) == 55
    settled()
    assert not vm.native


def test_without_llvmlite_it_interprets(eager, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    exe = loops()
    vm = VirtualMachine(exe)
    assert vm.invoke("fib", 10) == 55
    assert not lib.rvm_program_has_compiler(exe.handle)
    assert lib.rvm_native_compiles() == 0


def test_a_cache_that_cannot_be_written_does_no_harm(eager, monkeypatch):
    monkeypatch.setenv("RELAYVM_CACHE", "/proc/nowhere")
    exe = loops()
    vm = VirtualMachine(exe)
    vm.invoke("fib", 5)
    wait(lambda: is_native(exe), "no code")
    assert vm.invoke("fib", 20) == 6765
    settled()


def test_what_the_process_answers_is_what_would_be_compiled_here(eager):
    exe = loops()
    make_native(exe)
    vm = VirtualMachine(loops())  # the cache has it now
    assert vm.native
    image = auto.kernel_cache().get(auto.native_key(exe))
    assert len(background.image_answer(image)) % 8 == 0


SCRIPT = """
import os, sys, threading
from relayvm.vm.jit import auto
from relayvm.vm.library import lib
from relayvm.vm.machine import VirtualMachine
from tests.vm.programs import loops
from tests.vm.test_jit_auto import children, groups, is_native, settled, wait, with_compiler
auto.ASK_AFTER_STEPS = 1
exe = loops()
vm = VirtualMachine(exe, engine="auto")
assert vm.invoke("fib", 10) == 55
"""


def groups() -> list[int]:
    """Return the process groups of the children that live."""
    found = []
    for pid in children():
        with contextlib.suppress(ProcessLookupError):
            found.append(os.getpgid(int(pid)))
    return found


def script(text: str, tmp_path: Path) -> str:
    """Run a program of its own whose machine has just asked for code; return what it prints."""
    environment = dict(os.environ, RELAYVM_CACHE=str(tmp_path), PYTHONPATH=str(ROOT))
    environment["RELAYVM_ENGINE"] = "auto"
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT + text],
        capture_output=True,
        text=True,
        env=environment,
        timeout=3 * PATIENCE_SECONDS,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def is_alive(pid: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


@pytest.mark.parametrize("end", ["", "os._exit(0)", "os.execv('/bin/true', ['true'])"])
def test_a_program_that_ends_takes_the_compiler_with_it(end, tmp_path):
    text = f"""
wait(lambda: is_native(exe), "no code")
slow = with_compiler(sys.executable, "-c", "import sys; sys.stdin.buffer.read()")
vm = VirtualMachine(slow, engine="auto")
wait(lambda: vm.invoke("fib", 10) == 55 and children(), "no process")
print(*children(), flush=True)
{end}
"""
    (pid,) = map(int, script(text, tmp_path).split())
    wait(lambda: not is_alive(pid), "the compiler lives on")


def test_the_compiler_ends_with_who_asked(tmp_path):
    request = json.dumps({"key": "0" * 64, "host": dataclasses.asdict(this_host())})
    command = [sys.executable, "-S", "-c", auto._START, request, str(ROOT), *sys.path]
    environment = dict(os.environ, RELAYVM_CACHE=str(tmp_path))
    done = subprocess.run(
        command, input=bytes(11), capture_output=True, env=environment, check=False
    )
    assert (done.returncode, done.stdout) == (1, b"")


def test_a_fork_while_it_compiles_leaves_both_sides_well(tmp_path):
    text = """
wait(lambda: children() or is_native(exe), 'no process')
pid = os.fork()
if pid == 0:
    assert vm.invoke("fib", 10) == 55
    wait(lambda: is_native(exe), "no code in the child")
    assert vm.invoke("fib", 20) == 6765
    settled()
    assert not children()
    os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
wait(lambda: is_native(exe), "no code in the parent")
assert vm.invoke("fib", 20) == 6765
settled()
assert not children()
"""
    assert script(text, tmp_path) == ""


def test_children_that_somebody_else_waits_for_do_no_harm(tmp_path):
    text = """
wait(lambda: children() or is_native(exe), 'no process')
while children():
    try:
        os.waitpid(-1, 0)
    except ChildProcessError:
        pass
settled()
wait(lambda: is_native(exe), "no code")
assert vm.invoke("fib", 20) == 6765
"""
    assert script(text, tmp_path) == ""


def test_a_key_that_ends_the_program_is_not_for_the_compiler(tmp_path):
    text = """
import signal
wait(lambda: children() or is_native(exe), 'no process')
wait(lambda: os.getpgid(0) not in groups(), 'the process is not on its own')
try:
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    vm.invoke("main", 0, 1 << 60, 1)
except KeyboardInterrupt:
    print("interrupted")
wait(lambda: is_native(exe), "no code")
assert vm.invoke("fib", 20) == 6765
"""
    assert script(text, tmp_path) == "interrupted\n"
