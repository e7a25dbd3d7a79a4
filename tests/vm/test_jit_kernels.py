"""Calls of kernels from native code, written out where sizes are known, are as interpreted."""

from __future__ import annotations

import numpy as np
import pytest

import relayvm
from relayvm.base.diagnostics import Trap
from relayvm.vm.executable import Executable
from relayvm.vm.jit.host import this_host
from relayvm.vm.jit.llvm import compile_assembly
from relayvm.vm.jit.module import module_text
from relayvm.vm.library import lib
from relayvm.vm.machine import VirtualMachine
from relayvm.vm.python_kernel import bind_python_kernel
from tests.vm.test_jit import ENGINES, told

KERNELS = """
def @reused(%n: int64, %x: Tensor[(40), float32]) -> Tensor[(40), float32] {
  if (%n == 0i64) { %x } else { @reused(%n - 1i64, tanh(%x * 0.5f) + 1f) }
}
def @kept(%n: int64, %x: Tensor[(40), float32], %l: List[Tensor[(40), float32]])
    -> List[Tensor[(40), float32]] {
  if (%n == 0i64) { Cons(%x, %l) } else { @kept(%n - 1i64, tanh(%x) * %x, Cons(%x, %l)) }
}
def @scalars(%n: int64, %s: float32, %x: Tensor[(3, 5), int8]) -> (float32, Tensor[(3, 5), int8]) {
  if (%n == 0i64) { (%s, %x) }
  else { @scalars(%n - 1i64, sqrt(%s) + erf(%s), %x + cast(sum(%x), dtype="int8")) }
}
def @work(%n: int64, %x: Tensor[(64, 64), float32]) -> Tensor[(64, 64), float32] {
  if (%n == 0i64) { %x } else { @work(%n - 1i64, exp(%x) * 0.25f) }
}
def @sizes(%x: Tensor[(?), float32], %y: Tensor[(?), float32]) -> Tensor[(?), float32] {
  tanh(%x) * %y
}
def @rows(%i: int64, %x: Tensor[(4, 3), float32]) -> Tensor[(3), float32] {
  take(%x, %i, axis=0, mode="fast") + 1f
}
def @flags(%x: Tensor[(6), float32]) -> (bool, int8, uint16, float64, float16) {
  (any(%x > 0f), cast(sum(%x), dtype="int8"), cast(max(%x), dtype="uint16"),
   cast(min(%x), dtype="float64"), cast(sum(%x), dtype="float16"))
}
"""


def kernel_program() -> Executable:
    return relayvm.compile(relayvm.parse(KERNELS))


def vector(*shape, dtype="float32") -> np.ndarray:
    return (np.arange(np.prod(shape)).reshape(shape) % 7 - 2).astype(dtype)


def bits(value) -> tuple:
    """Return all that a value is, arrays by their bytes."""
    if isinstance(value, np.ndarray):
        return value.dtype.name, value.shape, value.tobytes()
    if isinstance(value, tuple):
        return tuple(map(bits, value))
    return value.tag, *map(bits, value.fields)


def of_engines(exe: Executable, name: str, *args, **limits) -> None:
    """Both engines give the same value or trap, in as many steps and calls of kernels."""
    outcomes = []
    for engine in ENGINES:
        vm = VirtualMachine(exe, engine=engine, **limits)
        for _ in range(2):
            try:
                value = vm.invoke(name, *args)
                outcome = bits(value)
            except Trap as trap:
                outcome = told(trap)
        stats = vm.stats()
        outcomes.append((outcome, stats["steps"], stats["kernel_calls"]))
    assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize("n", [0, 1, 2, 7])
def test_kernels_in_loops_are_as_interpreted(n):
    exe = kernel_program()
    of_engines(exe, "reused", n, vector(40))
    of_engines(exe, "kept", n, vector(40), [])
    of_engines(exe, "scalars", n, np.float32(0.5), vector(3, 5, dtype="int8"))
    of_engines(exe, "work", n, vector(64, 64))


def test_results_of_every_dtype_leave_kernels_as_interpreted():
    exe = kernel_program()
    for x in (vector(6), -vector(6), np.zeros(6, np.float32)):
        of_engines(exe, "flags", x)


@pytest.mark.parametrize("steps", range(0, 12))
def test_the_work_of_kernels_ends_runs_at_the_same_place(steps):
    of_engines(kernel_program(), "work", 5, vector(64, 64), max_steps=steps)


def test_kernels_that_stop_are_told_as_interpreted():
    exe = kernel_program()
    for i in (0, 3, 4, -1, 1 << 40):
        of_engines(exe, "rows", i, vector(4, 3))
    of_engines(exe, "sizes", vector(5), vector(5))
    of_engines(exe, "sizes", vector(5), vector(4))


def test_kernels_leave_no_memory_behind():
    vm = VirtualMachine(kernel_program(), engine="jit")
    held = []
    for _ in range(30):
        vm.invoke("kept", 50, vector(40), [])
        vm.invoke("scalars", 50, np.float32(0.5), vector(3, 5, dtype="int8"))
        vm.invoke("flags", vector(6))
        with pytest.raises(Trap):
            vm.invoke("rows", 4, vector(4, 3))
        held.append(vm.stats()["held_bytes"])
    assert max(held) - min(held) < 16 << 10


def test_memory_that_is_out_within_a_kernel_call_leaves_nothing():
    exe = kernel_program()
    ended = set()
    for kib in range(68, 220, 4):
        vm = VirtualMachine(exe, engine="jit", max_memory=kib << 10)
        try:
            assert vm.invoke("kept", 150, vector(40), []).tag == 0
            ended.add("whole")
        except Trap as trap:
            assert trap.code == "out-of-memory"
            ended.add("out")
        assert vm.invoke("reused", 3, vector(40)).shape == (40,)
    assert ended == {"whole", "out"}


# --- inlined kernels ------------------------------------------------------------------------------


def inlined_kernels(exe: Executable) -> set[str]:
    """Return the names of the kernels of which native code is given the function."""
    program = exe.program()
    _, functions = module_text(program, this_host(), texts=exe.texts)
    return {kernel.name for k, kernel in enumerate(program.kernels) if f"@inlined{k}(" in functions}


inlines = pytest.mark.skipif(
    lib.rvm_is_stress_build(), reason="the stress build makes every block by a call"
)
SMALL = {"multiply_tanh_add", "tanh_multiply", "sqrt", "erf", "add", "take_add"}
REDUCED = {"sum", "sum_1", "greater_any", "max", "min"}


@inlines
def test_these_kernels_are_inlined():
    exe = kernel_program()
    names = {kernel.name for kernel in exe.program().kernels}
    assert inlined_kernels(exe) == SMALL | REDUCED
    # One has more operations, one has sizes that are not known.
    assert names - inlined_kernels(exe) == {"exp_multiply", "tanh_multiply_1"}


@inlines
def test_nothing_is_left_of_the_functions_of_inlined_kernels():
    exe, host = kernel_program(), this_host()
    text, functions = module_text(exe.program(), host, texts=exe.texts)
    code = compile_assembly(text, host.triple, host.cpu, host.features, kernels=functions)
    assert "inlined" not in code
    apart, none = module_text(exe.program(), host)
    assert none == ""
    assert len(code) > len(compile_assembly(apart, host.triple, host.cpu, host.features))


@inlines
@pytest.mark.parametrize(("size", "inlined"), [(2048, True), (2049, False)])
def test_kernels_of_at_most_4096_operations_are_inlined(size, inlined):
    kind = f"Tensor[({size}), float32]"
    exe = relayvm.compile(relayvm.parse(f"def @main(%x: {kind}) -> {kind} {{ negative(%x) }}"))
    (kernel,) = exe.program().kernels
    assert kernel.signature.work == 2 * size
    assert bool(inlined_kernels(exe)) == inlined
    of_engines(exe, "main", np.linspace(-3, 3, size, dtype=np.float32))


def test_inlined_kernels_compute_the_same_bits():
    rng = np.random.default_rng(7)
    inline, called = kernel_program(), kernel_program()
    called.texts.clear()
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-42, 3e38, -1e-38], np.float32)
    x = np.concatenate([special, rng.normal(0, 5, 32).astype(np.float32)])
    arguments = {
        "reused": (3, x),
        "kept": (3, x, []),
        "scalars": (3, np.float32(0.3), vector(3, 5, dtype="int8")),
        "rows": (2, vector(4, 3)),
        "flags": (x[8:14],),
    }
    machines = [VirtualMachine(exe, engine="jit") for exe in (inline, called)]
    for name, given in arguments.items():
        results = [bits(vm.invoke(name, *given)) for vm in machines]
        assert results[0] == results[1], name
    for special_value in special:
        given = (2, special_value, vector(3, 5, dtype="int8"))
        assert len({bits(vm.invoke("scalars", *given)) for vm in machines}) == 1


def test_a_kernel_that_is_bound_to_the_host_is_not_the_inlined_one():
    exe = kernel_program()
    number = next(
        k for k, kernel in enumerate(exe.program().kernels) if kernel.name == "multiply_tanh_add"
    )
    vm = VirtualMachine(exe, engine="jit")
    usual = vm.invoke("reused", 1, vector(40))

    def negate(arrays, dims, begin, end):
        np.negative(arrays[0], out=arrays[1])

    bind_python_kernel(exe, number, [negate])
    changed = vm.invoke("reused", 1, vector(40))
    assert usual.tobytes() != changed.tobytes() == (-vector(40)).tobytes()


def test_loaded_executables_inline_what_was_compiled_again_for_them():
    exe = kernel_program()
    again = relayvm.load(exe.to_bytes())
    assert inlined_kernels(again) == inlined_kernels(exe)
    trusted = relayvm.load(exe.to_bytes(), native=True)
    assert inlined_kernels(trusted) == set()
    of_engines(again, "reused", 3, vector(40))
    of_engines(trusted, "reused", 3, vector(40))
