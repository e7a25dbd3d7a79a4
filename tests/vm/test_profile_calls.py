"""Profiles count functions, instructions and allocations exactly, on both engines alike."""

from __future__ import annotations

import ctypes
import json
from collections import Counter
from typing import Any

import numpy as np
import pytest

import relayvm
from relayvm.base.diagnostics import RelayError, Trap
from relayvm.vm.machine import VirtualMachine
from relayvm.vm.profile import MOST_EVENTS, Event, Profile, Profiler

TEXT = """
def @fib(%n: int32) -> int32 { if (%n < 2) { %n } else { @fib(%n - 1) + @fib(%n - 2) } }
def @even(%n: int32) -> bool { if (%n == 0) { True } else { @odd(%n - 1) } }
def @odd(%n: int32) -> bool { if (%n == 0) { False } else { @even(%n - 1) } }
def @warm[n](%i: int32, %x: Tensor[(n), float32]) -> Tensor[(n), float32] {
  if (%i == 0) { %x } else { @warm(%i - 1, tanh(%x + 1f)) }
}
def @deep[n](%i: int32, %x: Tensor[(n), float32]) -> Tensor[(n), float32] {
  if (%i == 0) { %x } else { exp(@deep(%i - 1, %x)) }
}
def @added(%k: int32, %l: List[int32]) -> List[int32] { @map(fn (%a: int32) { %a + %k }, %l) }
def @count(%n: int32) -> List[int32] { if (%n == 0) { Nil } else { Cons(%n, @count(%n - 1)) } }
def @counted(%n: int32) -> List[int32] { @added(1, @count(%n)) }
def @main[n](%i: int32, %x: Tensor[(n), float32]) { (@fib(%i), @deep(%i, @warm(%i, %x))) }
def @bad(%i: int32, %l: List[int32]) -> int32 {
  if (%i == 0) { match? (%l) { Cons(%h, _) => %h } } else { 1 + @bad(%i - 1, %l) }
}
"""
X = np.zeros(100, np.float32)
ENGINES = ("interpreter", "jit")
_HELD = [
    "arena",
    "ordblks",
    "smblks",
    "hblks",
    "hblkhd",
    "usmblks",
    "fsmblks",
    "uordblks",
    "fordblks",
    "keepcost",
]


@pytest.fixture(scope="module")
def exe() -> relayvm.Executable:
    return relayvm.compile(relayvm.parse(TEXT))


@pytest.fixture(params=ENGINES)
def vm(exe: relayvm.Executable, request: Any) -> VirtualMachine:
    return VirtualMachine(exe, engine=request.param, num_threads=1)


def function_calls(profile: Profile) -> dict[str, int]:
    return {row.name: row.calls for row in profile.functions}


def fib_depths(n: int) -> list[int]:
    """Return how deep each call of fib lies, in their order."""
    inner = [1 + depth for k in (n - 1, n - 2) if n > 1 for depth in fib_depths(k)]
    return [0, *inner]


def fib_calls(n: int) -> int:
    return 1 if n < 2 else 1 + fib_calls(n - 1) + fib_calls(n - 2)


@pytest.mark.parametrize("n", [0, 1, 5, 18])
def test_functions_are_counted_as_often_as_they_run(vm: VirtualMachine, n: int) -> None:
    profile = vm.profile(n, entry="fib")
    assert function_calls(profile) == {"the host": 1, "fib": fib_calls(n)}
    assert profile.engine == vm.engine and profile.steps == fib_calls(n)


def test_rounds_of_loops_and_tail_calls_are_calls(vm: VirtualMachine) -> None:
    counts = function_calls(vm.profile(300, X, entry="warm"))
    assert counts["warm"] == 301
    profile = vm.profile(101, entry="even")
    assert sum(function_calls(profile).values()) == 1 + profile.steps


def test_sums_of_all_kinds_of_rows_are_the_whole(vm: VirtualMachine) -> None:
    profile = vm.profile(12, X)
    own = sum(row.self_ns + row.kernel_ns for row in profile.functions)
    assert own == pytest.approx(profile.time_ns, abs=len(profile.functions) * 2)
    assert profile.functions[0].name == "the host"
    assert profile.functions[0].total_ns == pytest.approx(profile.time_ns, abs=2)
    assert sum(node.self_ns for node in profile.calls) == pytest.approx(profile.time_ns)
    kernels = sum(node.self_ns for node in profile.calls if node.is_kernel)
    assert kernels == pytest.approx(profile.kernel_time_ns, abs=len(profile.kernels) * 2)


def test_recursion_makes_no_tower(vm: VirtualMachine) -> None:
    profile = vm.profile(3000, X, entry="deep")
    names = [node.name for node in profile.calls]
    assert names.count("deep") == 1
    (deep,) = (node for node in profile.calls if node.name == "deep")
    assert deep.calls == 3001 and profile.calls[0].parent == -1
    assert all(node.parent < i for i, node in enumerate(profile.calls))


def test_engines_count_the_same_instructions_and_allocations(exe: relayvm.Executable) -> None:
    values = exe.adt("List[int32]")
    items = values.Nil()
    for i in range(40):
        items = values.Cons(np.int32(i), items)
    calls: list[tuple[str, tuple[Any, ...]]] = [
        ("main", (9, X)),
        ("added", (3, items)),
        ("even", (33,)),
    ]
    for entry, args in calls:
        both = []
        for engine in ENGINES:
            profile = VirtualMachine(exe, engine=engine).profile(*args, entry=entry)
            counts = {row.name: row.count for row in profile.instructions}
            made = {row.name: (row.count, row.bytes) for row in profile.allocations}
            both.append((counts, made, function_calls(profile), profile.steps))
        assert both[0] == both[1] and both[0][0]


def test_cells_and_results_are_counted_with_their_bytes(vm: VirtualMachine) -> None:
    values = vm.executable.adt("List[int32]")
    items = values.Nil()
    for i in range(7):
        items = values.Cons(np.int32(i), items)
    made = {row.name: row for row in vm.profile(1, items, entry="added").allocations}
    (cells,) = (row for name, row in made.items() if "List[int32].Cons" in name)
    assert cells.count >= 7 and cells.bytes is None, "each may lie where a dead one lay"
    profile = vm.profile(9, entry="count")
    (cells,) = (row for row in profile.allocations if row.name.endswith("List[int32].Cons"))
    assert (cells.count, cells.bytes, profile.reused_cells) == (9, 9 * 32, 0)
    profile = vm.profile(9, entry="counted")
    over = [row.count for row in profile.allocations if row.name.endswith("dead ones lay")]
    assert sum(over) == profile.reused_cells >= 9
    profile = vm.profile(5, X, entry="deep")
    (kernel,) = profile.kernels
    assert kernel.bytes == 5 * 2 * X.nbytes
    assert kernel.new_bytes == kernel.new_tensors * X.nbytes and 1 <= kernel.new_tensors <= 5


def test_instructions_have_times_where_they_are_interpreted(vm: VirtualMachine) -> None:
    rows = vm.profile(18, entry="fib").instructions
    times = [row.time_ns for row in rows]
    if vm.engine == "jit":
        assert set(times) == {None}
    else:
        assert all(time is not None and time >= 0 for time in times) and sum(times) > 0  # type: ignore[arg-type]
    count = {row.name: row.count for row in rows}
    assert count["calls"] == fib_calls(18) - 1 and count["branches"] == fib_calls(18)


def test_events_lie_within_each_other(vm: VirtualMachine) -> None:
    profile = vm.profile(6, X, events=10_000)
    assert not profile.lost_events
    counts = Counter(event.name for event in profile.events)
    assert counts["fib"] == fib_calls(6) and counts["warm"] == 1 and counts["deep"] == 7
    assert sum(event.is_kernel for event in profile.events) == profile.kernel_calls
    check_nesting(profile.events)
    assert all(e.end_ns <= profile.time_ns for e in profile.events)


def check_nesting(events: tuple[Event, ...]) -> None:
    open_: list[Event] = []
    for event in events:
        del open_[event.depth :]
        assert len(open_) == event.depth and event.begin_ns <= event.end_ns
        assert not open_ or open_[-1].begin_ns <= event.begin_ns <= event.end_ns <= open_[-1].end_ns
        open_.append(event)


def test_too_many_events_are_counted_and_the_first_are_kept(vm: VirtualMachine) -> None:
    profile = vm.profile(10, entry="fib", events=50)
    assert len(profile.events) <= 50 and profile.lost_events > 2 * fib_calls(10) - 60
    check_nesting(profile.events)
    assert function_calls(profile)["fib"] == fib_calls(10)


@pytest.mark.parametrize("events", [-1, MOST_EVENTS + 1, 1.5, None])
def test_a_number_of_events_is_checked(vm: VirtualMachine, events: Any) -> None:
    with pytest.raises(RelayError, match=r"bad-option.*`events`"):
        vm.profile(1, entry="fib", events=events)


def test_a_trace_is_json_of_nested_slices(vm: VirtualMachine) -> None:
    document = json.loads(vm.profile(4, X, events=1000).trace_json())
    ends = [row for row in document["traceEvents"] if row["ph"] != "M"]
    assert document["otherData"] == {"entry": "main", "engine": vm.engine, "lost events": 0}
    assert ends[0]["name"] == "main"
    assert {row["cat"] for row in ends if row["ph"] == "B"} == {"kernel", "function"}
    depths = np.cumsum([{"B": 1, "E": -1}[row["ph"]] for row in ends])
    assert depths[-1] == 0 and min(depths) == 0 and list(depths).index(0) == len(depths) - 1


def test_times_of_a_trace_never_go_back(vm: VirtualMachine) -> None:
    """As readers see them, who round to nanoseconds."""
    document = json.loads(vm.profile(12, entry="fib", events=MOST_EVENTS).trace_json())
    times = [int(row["ts"] * 1000) for row in document["traceEvents"] if row["ph"] != "M"]
    assert len(times) == 2 * fib_calls(12) and times == sorted(times)


def test_slices_lie_in_those_that_called_them(vm: VirtualMachine) -> None:
    profile = vm.profile(6, entry="fib", events=MOST_EVENTS)
    depths = [event.depth for event in profile.events]
    assert depths == fib_depths(6)


def test_calls_deeper_than_the_profile_remembers_are_counted(vm: VirtualMachine) -> None:
    profile = vm.profile(150_000, np.zeros(0, np.float32), entry="deep")
    assert function_calls(profile)["deep"] == 150_001
    assert sum(node.self_ns for node in profile.calls) == pytest.approx(profile.time_ns)


def test_a_trap_leaves_a_machine_that_can_be_measured(vm: VirtualMachine) -> None:
    nil = vm.executable.adt("List[int32]").Nil()
    for _ in range(2):
        with pytest.raises(Trap, match="match-failed"):
            vm.profile(50, nil, entry="bad", events=1000)
        assert function_calls(vm.profile(8, entry="fib"))["fib"] == fib_calls(8)


def test_a_measured_call_keeps_the_peak_of_all_calls(vm: VirtualMachine) -> None:
    vm.run(3, np.zeros(100_000, np.float32))
    peak = vm.stats()["peak_bytes"]
    vm.trim()
    profile = vm.profile(3, X)
    assert 0 < profile.peak_bytes < peak == vm.stats()["peak_bytes"]


class _Held(ctypes.Structure):
    """What glibc says of the memory of a process."""

    _fields_ = [(name, ctypes.c_size_t) for name in _HELD]


def test_a_profile_leaves_the_caches_to_what_it_measures(vm: VirtualMachine) -> None:
    try:
        held = ctypes.CDLL(None).mallinfo2
    except AttributeError:
        pytest.skip("this C library does not tell how much memory is in use")
    held.restype = _Held
    vm.profile(3000, X, entry="deep")  # no profile keeps the room that another needed
    profiler = Profiler(vm)
    before = held()
    measured = profiler.new(0)
    after = held()
    assert after.hblkhd == before.hblkhd
    assert after.uordblks - before.uordblks < 32 << 10
    del measured
