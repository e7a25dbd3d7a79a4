"""The engine `jit` is the interpreter in results, traps, stack traces and steps."""

from __future__ import annotations

import signal
import threading

import numpy as np
import pytest

import relayvm
from relayvm.base.diagnostics import RelayError, Trap
from relayvm.vm.executable import Executable, load
from relayvm.vm.jit import host, make_native
from relayvm.vm.jit.engine import native_key
from relayvm.vm.jit.module import MOST_OPTIMISED
from relayvm.vm.jit.writer import MOST_ARGUMENTS
from relayvm.vm.machine import VirtualMachine
from relayvm.vm.python_kernel import bind_python_kernel
from tests.vm import test_kernel_call as kernels
from tests.vm.programs import INT, LIST, entry, executable, lists, loops

ENGINES = ("interpreter", "jit")


def told(trap: Trap) -> tuple:
    """Return all that a trap says."""
    return str(trap), trap.stack, [note.message for d in trap.diagnostics for note in d.notes]


def both(exe: Executable, name: str, *args, **limits) -> list:
    """Run on each engine; return what came of it, which must be equal, with the steps it took."""
    outcomes = []
    for engine in ENGINES:
        vm = VirtualMachine(exe, engine=engine, **limits)
        try:
            value = vm.invoke(name, *args)
            outcome = value.tobytes() if isinstance(value, np.ndarray) else str(value)
        except Trap as trap:
            outcome = told(trap)
        outcomes.append((outcome, vm.stats()["steps"]))
    assert outcomes[0] == outcomes[1]
    return outcomes[1]


# --- limits ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("steps", [0, 1, 2, 3, 4, 5, 9, 14, 15, 65_535, 65_536, 65_537, 70_000])
def test_a_limit_of_steps_ends_runs_at_the_same_place(steps):
    exe = loops()
    for name, args in {
        "main": (0, 100_000, 1),
        "fib": (30,),
        "depth": (100_000,),
        "even": (90_001,),
    }.items():
        assert "out-of-steps" in both(exe, name, *args, max_steps=steps)[0][0]


@pytest.mark.parametrize("depth", [0, 1, 2, 3, 49, 50, 51, 99, 100, 101, 102, 1000])
def test_a_limit_of_depth_ends_runs_at_the_same_place(depth):
    assert "out-of-depth" in both(loops(), "depth", 5000, max_depth=depth)[0][0]
    assert "out-of-depth" in both(lists(), "sum", list(range(1100)), max_depth=depth)[0][0]


@pytest.mark.parametrize("depth", [1 << 31, 1 << 32, (1 << 63) - 1])
def test_a_limit_of_depth_may_be_beyond_what_the_state_counts(depth):
    both(loops(), "depth", 1000, max_depth=depth)


def test_a_recursion_a_million_deep_returns_and_can_be_trimmed():
    vm = VirtualMachine(loops(), engine="jit")
    before = vm.stats()["stack_bytes"]
    assert vm.invoke("depth", 1_000_000) == 1_000_000
    assert vm.stats()["stack_bytes"] > before + 1_000_000 * 16
    vm.trim()
    assert vm.stats()["stack_bytes"] == before
    assert vm.invoke("depth", 100_000) == 100_000


def test_the_stack_counts_as_memory():
    vm = VirtualMachine(loops(), engine="jit", max_memory=4 << 20)
    with pytest.raises(Trap) as caught:
        vm.invoke("depth", 1_000_000)
    assert caught.value.code == "out-of-memory"
    assert vm.invoke("depth", 1000) == 1000


@pytest.mark.slow
def test_a_runaway_recursion_ends_at_the_default_limit():
    exe = relayvm.compile(
        relayvm.parse("def @main(%x: int64) -> int64 { @main(%x + 1i64) + 1i64 }")
    )
    vm = VirtualMachine(exe, engine="jit")
    with pytest.raises(Trap) as caught:
        vm.run(0)
    assert caught.value.code == "out-of-depth"
    assert "calls are nested 2000000 deep" in str(caught.value)


# --- traps ----------------------------------------------------------------------------------------


def test_traps_leave_the_same_record():
    exe = lists()
    both(exe, "first", [])
    both(exe, "take_twice", [1, 2])
    for n in (0, 1, 5):
        both(exe, "squares", n)


def test_a_value_of_another_layout_is_told_as_interpreted():
    text = """
    layout l0 constructor "A" (w int64) type "T" tag 0 of 2
    layout l1 constructor "B" (w int64, o) type "T" tag 1 of 2
    layout l2 tuple "pair" (w int64, o)
    layout l3 constructor "C" () type "U" tag 0 of 1
    signature s0 (w) -> (w)
    function f0 "field" (w) -> (w) registers 2 2 0 {
        cell_new o0, l0, (w0)
        field_word w1, o0, l2, 0
        release o0
        return (w1)
    }
    function f1 "unpack" (w) -> (w) registers 2 3 0 {
        cell_new o0, l0, (w0)
        retain o2, o0
        cell_unpack o0, l2, (w1, o1)
        release o1
        release o2
        return (w1)
    }
    function f2 "switch" (w) -> (w) registers 2 2 0 {
        cell_new o0, l3, ()
        name o0 "held"
        switch_tag o0, l0, (A, B)
      A:
        release o0
        return (w0)
      B:
        release o0
        return (w0)
    }
    function f3 "closure" (w) -> (w) registers 2 2 0 {
        cell_new o0, l0, (w0)
        call_closure o0, s0, (w0), (w1)
        return (w1)
    }
    function f4 "tail" (w) -> (w) registers 2 2 0 {
        box_word o0, w0, int64
        tail_call_closure o0, s0, (w0)
    }
    function f5 "tag" (w) -> (w) registers 2 2 0 {
        cell_new o0, l3, ()
        tag w1, o0, l0
        release o0
        return (w1)
    }
    function f6 "retained" (w) -> (w) registers 2 2 0 {
        box_word o0, w0, int64
        field_retain o1, o0, l2, 1
        release o0
        release o1
        return (w0)
    }
    """
    names = ("field", "unpack", "switch", "closure", "tail", "tag", "retained")
    text = text.replace('        name o0 "held"\n', "")
    exe = executable(text, [entry(i, n, [("x", INT)], INT) for i, n in enumerate(names)])
    for name in names:
        assert "bad-value" in both(exe, name, 7)[0][0]


def test_a_trap_below_owned_values_frees_them():
    exe = relayvm.compile(
        relayvm.parse(
            """
        def @deep(%n: int32, %l: List[int32], %r: ref(List[int32])) -> List[int32] {
          if (%n == 0) { match? (%l) { Nil => Nil } }
          else { Cons(%n, @deep(%n - 1, Cons(%n, %l), ref(%l))) }
        }
        def @main(%n: int32) -> int32 { length(@deep(%n, Nil, ref(Nil))) }
        """.replace("length(", "@length(")
        )
    )
    for n in (1, 10, 200):
        assert "match-failed" in both(exe, "main", n)[0][0]
    vm = VirtualMachine(exe, engine="jit")
    held = set()
    for _ in range(4):
        with pytest.raises(Trap):
            vm.run(100)
        held.add(vm.stats()["held_bytes"])
    assert len(held) == 1


def test_a_kernel_that_raises_ends_the_run():
    exe = kernels.unlinked()

    def fails(inputs, dims, begin, end):
        raise KeyError("from the kernel")

    for number, functions in enumerate(kernels.PHASES):
        bind_python_kernel(exe, number, [fails] if number == 0 else functions)
    for engine in ENGINES:
        vm = VirtualMachine(exe, engine=engine)
        with pytest.raises(KeyError, match="from the kernel"):
            vm.invoke("scale", np.ones(4, np.float32), np.float32(2))


class Alarm(Exception):
    """Raised by a signal handler."""


def test_a_signal_handler_ends_a_loop_and_a_recursion():
    def handler(number, frame):
        raise Alarm

    before = signal.signal(signal.SIGALRM, handler)
    try:
        for name, args in {"main": (0, 1 << 60, 1), "fib": (90,)}.items():
            vm = VirtualMachine(loops(), engine="jit")
            signal.setitimer(signal.ITIMER_REAL, 0.03)
            with pytest.raises(Alarm):
                vm.invoke(name, *args)
            assert vm.invoke("fib", 10) == 55
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


# --- shapes of functions --------------------------------------------------------------------------


def many(params: int, results: int) -> Executable:
    """Return a program that calls a function of so many words, plainly, at its end, and through a
    closure, with an owned list last."""
    words = [f"w{i}" for i in range(params)]
    doubled = "\n".join(f"    add_i64 w{i}, w{i}, w{params - 1 - i}" for i in range(params))
    given = "\n".join(f"    word w{i}, {i * i + 1}" for i in range(1, params))
    back = ", ".join(f"w{i % params}" for i in range(results))
    out = ", ".join(f"w{params + i}" for i in range(results))
    total = "\n".join(f"    add_i64 w0, w0, w{params + i}" for i in range(results))
    classes, kinds = ", ".join("w" * params), ", ".join("w" * results)
    line = ", ".join(words)
    text = f"""
    signature s0 ({classes}) -> ({kinds}, o)
    layout l0 tuple "pair" (w int64)
    layout l1 closure "c" (w int64) function f3 signature s0
    function f0 "plain" (w) -> (w) registers {params + results} 2 0 {{
{given}
        cell_new o0, l0, (w0)
        call f1, ({line}, o0), ({out}, o1)
        release o1
{total}
        return (w0)
    }}
    function f1 "middle" ({classes}, o) -> ({kinds}, o) registers {params} 1 0 {{
{doubled}
        tail_call f2, (o0, {line})
    }}
    function f2 "last" (o, {classes}) -> ({kinds}, o) registers {params} 1 0 {{
{doubled}
        return ({back}, o0)
    }}
    function f3 "body" (o, {classes}) -> ({kinds}, o) registers {params + 1} 2 0 {{
        field_word w{params}, o0, l1, 0
        release o0
        cell_new o1, l0, (w{params})
        tail_call f1, ({line}, o1)
    }}
    function f4 "closure" (w) -> (w) registers {params + results} 2 0 {{
{given}
        cell_new o0, l1, (w0)
        call_closure o0, s0, ({line}), ({out}, o1)
        release o1
{total}
        return (w0)
    }}
    function f5 "from_outside" ({classes}) -> (w) registers {params + results} 2 0 {{
        cell_new o0, l0, (w0)
        call f1, ({line}, o0), ({out}, o1)
        release o1
{total}
        return (w0)
    }}
    """
    outside = entry(5, "from_outside", [(f"x{i}", INT) for i in range(params)], INT)
    called = [entry(i, n, [("x", INT)], INT) for i, n in ((0, "plain"), (4, "closure"))]
    return executable(text, [*called, outside])


@pytest.mark.parametrize("params", [1, MOST_ARGUMENTS - 1, MOST_ARGUMENTS, MOST_ARGUMENTS + 1, 40])
@pytest.mark.parametrize("results", [1, 2, 3, 9])
def test_any_number_of_arguments_and_results_is_passed(params, results):
    exe = many(params, results)
    for x in (0, 3, -(1 << 62)):
        both(exe, "plain", x)
        both(exe, "closure", x)
        both(exe, "from_outside", *range(x, x + params))
    for steps in range(5):
        both(exe, "closure", 1, max_steps=steps)


def test_arguments_of_a_loop_may_change_places():
    text = """
    function f0 "main" (w, w, w, w, w, w, w) -> (w, w, w) registers 9 0 0 {
        word w7, 0
        equal_i64 w8, w0, w7
        branch_false w8, More
        return (w1, w3, w6)
      More:
        word w7, 1
        subtract_i64 w0, w0, w7
        tail_call f0, (w0, w2, w3, w1, w5, w6, w4)
    }
    """
    triple = {"kind": "tuple", "text": "(int64, int64, int64)", "fields": [INT, INT, INT]}
    parameters = [(f"x{i}", INT) for i in range(7)]
    exe = executable(text, [entry(0, "main", parameters, triple, ("a", "b", "c"))])
    for n in (0, 1, 2, 65_536, 100_001):
        both(exe, "main", n, 1, 2, 3, 4, 5, 6)


def test_a_huge_function_is_compiled_without_effort_and_means_the_same():
    terms = "\n".join(
        f"    multiply_i64 w1, w1, w2\n    add_i64 w1, w1, w0\n    cell_new o0, l0, (w1)\n"
        f"    cell_unpack o0, l0, (w{1 + i % 2 * 2})\n    move w1, w{1 + i % 2 * 2}"
        for i in range(MOST_OPTIMISED // 4)
    )
    text = f"""
    layout l0 tuple "one" (w int64)
    function f0 "main" (w, w) -> (w) registers 5 1 0 {{
        word w2, 3
{terms}
        word w4, 20
        less_i64 w3, w0, w4
        branch_false w3, End
        call f0, (w4, w1), (w3)
        word w4, 1
        add_i64 w0, w0, w4
        tail_call f0, (w0, w3)
      End:
        return (w1)
    }}
    """
    exe = executable(text, [entry(0, "main", [("x", INT), ("y", INT)], INT)])
    both(exe, "main", 0, 7)
    both(exe, "main", 0, 7, max_steps=13)
    both(exe, "main", 0, 7, max_depth=1)


# --- threads, hosts -------------------------------------------------------------------------------


def test_threads_make_and_run_machines_of_one_executable():
    exe = loops()
    results = []

    def work():
        vm = VirtualMachine(exe, engine="jit")
        results.append([int(vm.invoke("fib", n)) for n in range(20)] + [vm.invoke("depth", 50_000)])

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 8
    assert all(result == results[0] for result in results)


def test_values_go_from_one_engine_to_the_other():
    exe = lists()
    first, second = (VirtualMachine(exe, engine=engine) for engine in ENGINES)
    made = second.invoke("range", 10)
    assert first.invoke("sum", made) == second.invoke("sum", first.invoke("reverse", made)) == 45
    add = first.invoke("adder", 5)
    assert second.invoke("apply", add, 1) == 6
    assert second.invoke("adder", 7)(1) == 8


def test_other_machines_are_told_apart(monkeypatch):
    monkeypatch.setattr(host.platform, "machine", lambda: "riscv64")
    host.this_host.cache_clear()
    try:
        with pytest.raises(RelayError, match="on `riscv64`") as caught:
            VirtualMachine(loops(), engine="jit")
    finally:
        host.this_host.cache_clear()
    assert caught.value.code == "bad-option"


def test_without_llvmlite_the_engine_is_refused(monkeypatch):
    monkeypatch.setenv("RELAYVM_CACHE", "")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(RelayError, match="needs llvmlite") as caught:
        VirtualMachine(loops(), engine="jit")
    assert caught.value.code == "bad-option"


def test_the_cache_holds_code_that_needs_no_compiler(monkeypatch, tmp_path):
    monkeypatch.setenv("RELAYVM_CACHE", str(tmp_path))
    assert VirtualMachine(lists(), engine="jit").invoke("sum", [1, 2]) == 3
    (name,) = (p for p in tmp_path.glob("kernels/??/*") if len(p.name) > 40)
    compiled = native_key(lists())
    assert name.name == compiled[2:]
    assert native_key(lists(), inline=False) != compiled != native_key(loops())
    monkeypatch.setattr("relayvm.vm.jit.compile.program_image", lambda *_: pytest.fail("compiled"))
    assert VirtualMachine(lists(), engine="jit").invoke("sum", [1, 2]) == 3
    name.write_bytes(b"damage")
    monkeypatch.undo()
    monkeypatch.setenv("RELAYVM_CACHE", str(tmp_path))
    assert VirtualMachine(lists(), engine="jit").invoke("sum", [1, 2]) == 3


def test_the_setting_names_the_engine(monkeypatch):
    monkeypatch.setenv("RELAYVM_ENGINE", "jit")
    assert VirtualMachine(loops()).engine == "jit"
    assert VirtualMachine(loops(), engine="interpreter").engine == "interpreter"
    monkeypatch.setenv("RELAYVM_ENGINE", "warp")
    with pytest.raises(RelayError, match="RELAYVM_ENGINE") as caught:
        VirtualMachine(loops())
    assert caught.value.code == "bad-setting"


def test_lists_closures_references_and_arrays_are_as_interpreted():
    for inline in (True, False):
        exe = lists()
        make_native(exe, inline)
        items = [3, 1, 2]
        for name in ("sum", "reverse", "sum_owned", "first", "array_alias", "pair_with"):
            both(exe, name, items)
        for n in (0, 1, 100):
            both(exe, "range", n)
            both(exe, "squares", n)
            both(exe, "many_cycles", n, items)
        vm = VirtualMachine(exe, engine="jit")
        doubled = vm.invoke("map", vm.invoke("adder", 10), items)
        assert vm.invoke("sum", doubled) == 36


def test_an_executable_that_is_loaded_again_runs_compiled():
    exe = load(lists().to_bytes())
    assert VirtualMachine(exe, engine="jit").invoke("sum", [1, 2, 3]) == 6
    assert LIST["kind"] == "data"
