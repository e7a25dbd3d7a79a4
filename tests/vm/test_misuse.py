"""Hosts that do what they should not, or at a bad moment: a clear error, and nothing breaks."""

from __future__ import annotations

import copy
import gc
import os
import pickle
import signal
import threading
import weakref

import numpy as np
import pytest

from relayvm.base.diagnostics import RelayError, Trap
from relayvm.vm.assembly import assemble
from relayvm.vm.calling import call as call_module
from relayvm.vm.executable import load, read_executable
from relayvm.vm.file.codec import encode
from relayvm.vm.machine import VirtualMachine
from relayvm.vm.python_kernel import bind_python_kernel
from tests.vm.programs import entry, executable, list_machine, lists, loops, manifest_line, tensor

ECHO = """
constant c0 float32 (2) x0000803f00000040
function f0 "main" (o) -> (o) registers 0 1 0 {
    return (o0)
}
"""

HEAVY = """
kernel k0 "heavy" {
  var d0 "n" operand 0 axis 0
  input dense float32 (d0)
  output dense float32 (d0)
  phase d0
  work d0 * 1000000000
  | heavy
}
function f0 "main" (b) -> (o) registers 0 1 1 {
    kernel k0, (b0), (o0)
    return (o0)
}
"""


def echo(*dims):
    return executable(ECHO, [entry(0, "main", [("x", tensor(*dims))], tensor(*dims))])


def heavy(phase):
    kind = tensor(None)
    text = manifest_line([entry(0, "main", [("x", kind)], kind)]) + HEAVY
    exe = read_executable(encode(assemble(text)))
    bind_python_kernel(exe, 0, [phase])
    return exe


# --- a machine at work ---------------------------------------------------------------------------


@pytest.mark.parametrize("act", ["run", "trim"])
def test_a_kernel_that_uses_its_own_machine_is_an_error(act):
    def phase(arrays, dims, begin, end):
        vm.run(np.ones(4, np.float32)) if act == "run" else vm.trim()

    vm = VirtualMachine(heavy(phase))
    with pytest.raises(RelayError) as caught:
        vm.run(np.ones(4, np.float32))
    assert caught.value.code == "machine-busy"


def test_a_kernel_may_use_another_machine():
    def phase(arrays, dims, begin, end):
        arrays[1][begin:end] = inner.invoke("fib", 10)

    inner = VirtualMachine(loops())
    result = VirtualMachine(heavy(phase)).run(np.ones(3, np.float32))
    np.testing.assert_array_equal(result, [55, 55, 55])


def test_a_conversion_of_an_argument_may_call_the_machine():
    class Computed:
        def __init__(self, value):
            self.value = value

        def __dlpack__(self, **options):
            self.array = vm.run(np.full(2, self.value, np.float32))
            return self.array.__dlpack__(**options)

        def __dlpack_device__(self):
            return (1, 0)

    vm = VirtualMachine(echo(2))
    np.testing.assert_array_equal(vm.run(Computed(3)), [3, 3])
    np.testing.assert_array_equal(vm.run(np.ones(2, np.float32)), [1, 1])


def test_a_long_kernel_of_few_rows_runs_row_by_row():
    ranges = []
    vm = VirtualMachine(heavy(lambda arrays, dims, begin, end: ranges.append((begin, end))))
    vm.run(np.ones(3, np.float32))
    assert ranges == [(0, 1), (1, 2), (2, 3)]


def test_the_keyboard_interrupts_a_run():
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    vm = VirtualMachine(loops())
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.03)
        with pytest.raises(KeyboardInterrupt):
            vm.run(0, 1 << 62, 1)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert vm.invoke("fib", 10) == 55


def test_two_machines_write_one_reference_at_a_time():
    exe = lists()
    machines = [VirtualMachine(exe) for _ in range(2)]
    reference = machines[0].invoke("ref_of", [])
    failures = []

    def work(vm):
        try:
            for i in range(2000):
                vm.invoke("prepend", reference, i)
                if i % 100 == 0:
                    vm.invoke("sum", reference.read())
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(vm,)) for vm in machines]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert reference.read().fields[0] == 1999


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_while_a_thread_makes_values_leaves_the_child_able_to():
    vm = list_machine()
    names = vm.executable.adt("List[int64]")
    stop = threading.Event()

    def work():
        while not stop.is_set():
            names.Cons(1, names.Nil)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        for _ in range(20):
            child = os.fork()
            if child == 0:
                signal.alarm(10)  # ends a child that waits for a lock
                os._exit(0 if vm.invoke("sum", names.Cons(2, names.Nil)) == 2 else 1)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        stop.set()
        thread.join()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_while_a_thread_compiles_leaves_the_child_able_to(monkeypatch):
    monkeypatch.setenv("RELAYVM_CACHE", "")
    exe, begun, stop = loops(), threading.Event(), threading.Event()

    def work():
        while not stop.is_set():
            VirtualMachine(loops(), engine="jit")
            begun.set()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        begun.wait()
        for _ in range(8):
            child = os.fork()
            if child == 0:
                signal.alarm(20)  # ends a child that waits for a lock
                os._exit(0 if VirtualMachine(exe, engine="jit").invoke("fib", 10) == 55 else 1)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        stop.set()
        thread.join()


# --- copies and lifetimes -------------------------------------------------------------------------


def test_a_copied_value_is_dropped_once():
    vm = list_machine()
    value = vm.invoke("range", 3)
    twin = copy.copy(value)
    del value
    gc.collect()
    assert vm.invoke("sum", twin) == 3


@pytest.mark.parametrize("act", [pickle.dumps, copy.deepcopy])
def test_values_and_machines_are_not_pickled(act):
    vm = list_machine()
    for thing in (vm, vm.invoke("range", 3), vm.invoke("adder", 1), vm.invoke("ref_of", [])):
        with pytest.raises(TypeError, match="neither pickled nor"):
            act(thing)


def test_an_executable_is_not_pickled_and_copies_are_itself():
    exe = lists()
    with pytest.raises(TypeError, match="to_bytes"):
        pickle.dumps(exe)
    assert copy.copy(exe) is copy.deepcopy(exe) is exe


def test_values_and_machines_outlive_what_made_them():
    vm = list_machine()
    items, add, reference = vm.invoke("range", 4), vm.invoke("adder", 2), vm.invoke("ref_of", [7])
    del vm
    gc.collect()
    assert [items.fields[0].item(), add(1).item()] == [0, 3]
    assert reference.read().fields[0] == 7


def test_parts_of_an_executable_outlive_it(tmp_path):
    path = tmp_path / "echo.rvm"
    echo(2).save(path)
    exe = load(path)
    constant, strings = exe.program().constants[0], exe.section("strings")
    before = bytes(strings)
    del exe
    gc.collect()
    load(path)
    np.testing.assert_array_equal(constant, [1, 2])
    assert bytes(strings) == before


def test_arguments_are_not_kept_after_a_call():
    vm = VirtualMachine(echo(4))
    x = np.ones(4, np.float32)
    kept = weakref.ref(x)
    vm.run(x)
    vm.run(x)
    del x
    assert kept() is None


def test_results_that_cannot_be_taken_are_dropped(monkeypatch):
    def refuse(*_):
        raise MemoryError

    vm = VirtualMachine(echo(2000))
    ones = np.ones(2000, np.float32)
    monkeypatch.setattr(call_module, "empty", refuse)
    with pytest.raises(MemoryError):
        vm.run(ones.tolist())
    (record,) = vm._call("main").free
    assert record.results[0] == 0
    monkeypatch.undo()
    np.testing.assert_array_equal(vm.run(ones.tolist()), ones)


# --- odd arguments --------------------------------------------------------------------------------

SQUARE = np.arange(9, dtype=np.float32).reshape(3, 3)


@pytest.mark.parametrize(
    "array",
    [
        SQUARE.T,
        SQUARE[::-1],
        SQUARE[:, ::-1],
        SQUARE.astype(">f4"),
        np.broadcast_to(SQUARE[0], (3, 3)),
        np.arange(36, dtype=np.float32).reshape(6, 6)[::2, 1::2],
    ],
    ids=["transposed", "reversed", "reversed rows", "byteswapped", "broadcast", "strided"],
)
def test_an_array_of_a_known_shape_but_other_strides_is_read_right(array):
    vm = VirtualMachine(echo(3, 3))
    vm.run(SQUARE)
    np.testing.assert_array_equal(vm.run(array), array)
    np.testing.assert_array_equal(vm.run(SQUARE), SQUARE)


def test_an_empty_array_of_huge_sizes_is_refused_or_returned():
    vm = VirtualMachine(echo(None, None))
    assert vm.run(np.empty((1 << 40, 0), np.float32)).shape == (1 << 40, 0)
    with pytest.raises(Trap) as caught:
        vm.run(np.empty((1 << 50, 0), np.float32))
    assert caught.value.code == "size-overflow"


def test_tuples_nested_without_end_are_described_shortly():
    nested = ()
    for _ in range(100_000):
        nested = (nested,)
    with pytest.raises(RelayError) as caught:
        VirtualMachine(echo(2)).run(nested)
    assert caught.value.code == "wrong-argument"
    while nested:  # frees it without recursion
        nested = nested[0]


def test_half_a_dlpack_tensor_is_refused():
    class Half:
        def __dlpack__(self, **options):
            return None

    with pytest.raises(RelayError) as caught:
        VirtualMachine(echo(2)).run(Half())
    assert caught.value.code == "wrong-argument"


def test_a_pipe_and_a_path_with_a_zero_byte_are_no_files(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, str(tmp_path / "a") + "\0b"):
        with pytest.raises(RelayError) as caught:
            load(path)
        assert caught.value.code == "bad-executable"
