"""Kernel calls: sizes and checks from the operands, access modes, phases, reuse in place, traps."""

from __future__ import annotations

import numpy as np
import pytest

from relayvm.base.diagnostics import RelayError, Trap
from relayvm.vm.assembly import assemble
from relayvm.vm.executable import Executable, read_executable
from relayvm.vm.file.codec import encode
from relayvm.vm.library import ffi, lib
from relayvm.vm.machine import VirtualMachine
from relayvm.vm.python_kernel import bind_python_kernel
from tests.vm.programs import INT, entry, manifest_line, tensor

FLOAT = {"kind": "tensor", "text": "float32", "dtype": "float32"}

KERNELS = """
kernel k0 "scale" {
  var d0 "n" operand 0 axis 0
  input dense float32 (d0)
  input scalar float32 ()
  output dense float32 (d0)
  in_place 2 0
  phase d0
  work d0
  | scale
}
kernel k1 "add_broadcast" {
  var d0 "n" operand 0 axis 0
  var d1 "m" operand 1 axis 0
  input strided float32 (d0)
  input strided float32 (d1)
  output dense float32 (broadcast(d0, d1))
  phase 1
  work d0
  | add
}
kernel k2 "matmul" {
  var d0 "n" operand 0 axis 0
  var d1 "k" operand 0 axis 1
  var d2 "k2" operand 1 axis 0
  var d3 "m" operand 1 axis 1
  input dense float32 (d0, d1)
  input dense float32 (d2, d3)
  output dense float32 (d0, d3)
  check d1 == d2 "the inner axes differ"
  scratch d0 * 4
  private d1 * 4096
  phase d0
  phase 2
  work d0 * d1 * d3
  | matmul
}
kernel k3 "count" {
  var d0 "n" operand 0 axis -1
  input scalar int64 ()
  output dense int64 (d0)
  output scalar int32 ()
  phase 1
  work 1
  | arange
}
kernel k4 "huge" {
  var d0 "n" operand 0 axis -1
  input scalar int64 ()
  output dense int64 (d0 * d0 * d0)
  phase 1
  work 1
  | huge
}
kernel k5 "walk" {
  var d0 "n" operand 0 axis 0
  input dense float32 (d0)
  output dense float32 (d0)
  phase 4 * d0 chain 4
  work 40000000 * d0
  | walk
}
function f0 "scale" (b, w) -> (o) registers 1 1 1 {
    kernel k0, (b0, w0), (o0)
    return (o0)
}
function f1 "scale_twice" (b, w) -> (o) registers 1 2 1 {
    kernel k0, (b0, w0), (o0)
    kernel_reuse k0, 1, (o0, w0), (o1)
    return (o1)
}
function f2 "add" (b, b) -> (o) registers 0 1 2 {
    kernel k1, (b0, b1), (o0)
    return (o0)
}
function f3 "matmul" (b, b) -> (o) registers 0 1 2 {
    kernel k2, (b0, b1), (o0)
    return (o0)
}
function f4 "count" (w) -> (o, w) registers 1 1 0 {
    kernel k3, (w0), (o0, w0)
    return (o0, w0)
}
function f5 "reuse_argument" (o, w) -> (o) registers 1 2 0 {
    kernel_reuse k0, 1, (o0, w0), (o1)
    return (o1)
}
function f6 "reuse_shared" (b, w) -> (o, o) registers 1 4 1 {
    kernel k0, (b0, w0), (o0)
    retain o1, o0
    kernel_reuse k0, 1, (o0, w0), (o2)
    return (o1, o2)
}
function f7 "huge" (w) -> (o) registers 1 1 0 {
    kernel k4, (w0), (o0)
    return (o0)
}
function f8 "reuse_view" (b, w) -> (o) registers 3 4 1 {
    kernel k0, (b0, w0), (o0)
    tensor_dim w1, b0, 0
    tensor_view o1, o0, (w1)
    kernel_reuse k0, 1, (o0, w0), (o2)
    release o2
    return (o1)
}
function f9 "identity" (o) -> (o) registers 0 1 0 {
    return (o0)
}
function f10 "slice" (b, w, w) -> (o) registers 2 1 1 {
    slice_view o0, b0, w0, w1
    return (o0)
}
function f11 "reshape" (b, w, w) -> (o) registers 2 1 1 {
    tensor_view o0, b0, (w0, w1)
    return (o0)
}
function f12 "walk" (b) -> (o) registers 0 1 1 {
    kernel k5, (b0), (o0)
    return (o0)
}
"""
ANY = tensor(None)
MATRIX = tensor(None, None)
LONGS = tensor(None, dtype="int64")
PAIR = {"kind": "tuple", "text": "(a, b)", "fields": [LONGS, INT]}
TWO = {"kind": "tuple", "text": "(a, b)", "fields": [ANY, ANY]}
ENTRIES = [
    entry(0, "scale", [("x", ANY), ("s", FLOAT)], ANY),
    entry(1, "scale_twice", [("x", ANY), ("s", FLOAT)], ANY),
    entry(2, "add", [("x", ANY), ("y", ANY)], ANY),
    entry(3, "matmul", [("x", MATRIX), ("y", MATRIX)], MATRIX),
    entry(4, "count", [("n", INT)], PAIR),
    entry(5, "reuse_argument", [("x", ANY), ("s", FLOAT)], ANY),
    entry(6, "reuse_shared", [("x", ANY), ("s", FLOAT)], TWO),
    entry(7, "huge", [("n", INT)], LONGS),
    entry(8, "reuse_view", [("x", ANY), ("s", FLOAT)], ANY),
    entry(9, "identity", [("x", ANY)], ANY),
    entry(10, "slice", [("x", ANY), ("a", INT), ("b", INT)], ANY),
    entry(11, "reshape", [("x", ANY), ("a", INT), ("b", INT)], MATRIX),
    entry(12, "walk", [("x", ANY)], ANY),
]


def scale(arrays, dims, begin, end):
    x, s, out = arrays
    out[begin:end] = x[begin:end] * s


def add(arrays, dims, begin, end):
    x, y, out = arrays
    out[...] = np.broadcast_to(x, out.shape) + np.broadcast_to(y, out.shape)


def matmul(arrays, dims, begin, end):
    x, y, out = arrays
    out[begin:end] = x[begin:end] @ y


def double(arrays, dims, begin, end):
    assert (begin, end) == (0, 2)
    arrays[2][...] *= 2


def count(arrays, dims, begin, end):
    n, out, total = arrays
    out[...] = np.arange(n)
    total[...] = -int(n)


# What the phases of each kernel compute.
PHASES = [[scale], [add], [matmul, double], [count], [count], [count]]


def unlinked() -> Executable:
    return read_executable(encode(assemble(manifest_line(ENTRIES) + KERNELS)))


@pytest.fixture
def exe() -> Executable:
    exe = unlinked()
    for number, phases in enumerate(PHASES):
        bind_python_kernel(exe, number, phases)
    return exe


@pytest.fixture
def vm(exe) -> VirtualMachine:
    return VirtualMachine(exe)


X = np.arange(4, dtype=np.float32)


def test_outputs_get_the_sizes_of_the_signature(vm):
    assert np.array_equal(vm.invoke("scale", X, 2.0), X * 2)


def test_empty_tensors_are_tensors(vm):
    assert vm.invoke("scale", X[:0], 2.0).shape == (0,)


def test_a_broadcast_axis_has_stride_0(vm):
    assert np.array_equal(vm.invoke("add", X, X[1:2]), X + 1)
    assert np.array_equal(vm.invoke("add", X[1:2], X), X + 1)


def test_sizes_that_do_not_broadcast_trap(vm):
    with pytest.raises(Trap, match="operands of `add_broadcast`") as caught:
        vm.invoke("add", X, X[:3])
    assert caught.value.code == "run-time-shape"


def test_phases_run_in_order(vm):
    x = np.ones((2, 3), np.float32)
    assert np.array_equal(vm.invoke("matmul", x, x.T), np.full((2, 2), 6, np.float32))


def test_checks_name_what_differs(vm):
    x = np.ones((2, 3), np.float32)
    with pytest.raises(Trap, match="the inner axes differ: 3 and 2") as caught:
        vm.invoke("matmul", x, x)
    assert caught.value.code == "run-time-shape"
    assert caught.value.stack == ("@matmul",)


def test_scalars_come_and_go_in_registers(vm):
    numbers, total = vm.invoke("count", 5)
    assert np.array_equal(numbers, np.arange(5))
    assert total == -5


def test_a_negative_size_traps(vm):
    with pytest.raises(Trap) as caught:
        vm.invoke("count", -1)
    assert caught.value.code == "size-overflow"


def test_a_size_beyond_the_limit_traps(vm):
    for n in (1 << 20, 1 << 40, 1 << 62):
        with pytest.raises(Trap) as caught:
            vm.invoke("huge", n)
        assert caught.value.code == "size-overflow"


def test_a_tensor_beyond_the_memory_limit_traps(exe):
    with pytest.raises(Trap) as caught:
        VirtualMachine(exe, max_memory=1 << 20).invoke("count", 1 << 20)
    assert caught.value.code == "out-of-memory"


def test_private_memory_beyond_the_limit_traps(exe):
    vm = VirtualMachine(exe, max_memory=1 << 20)
    x = np.ones((1, 100), np.float32)
    assert np.array_equal(vm.invoke("matmul", x, x.T), [[200]])
    x = np.ones((1, 300), np.float32)
    with pytest.raises(Trap) as caught:
        vm.invoke("matmul", x, x.T)
    assert caught.value.code == "out-of-memory"


def test_a_given_unique_operand_is_overwritten(exe):
    places = []

    def remember(arrays, dims, begin, end):
        places.append([a.__array_interface__["data"][0] for a in (arrays[0], arrays[2])])
        scale(arrays, dims, begin, end)

    bind_python_kernel(exe, 0, [remember])
    assert np.array_equal(VirtualMachine(exe).invoke("scale_twice", X, 3.0), X * 9)
    assert places[0][0] != places[0][1]
    assert places[1][0] == places[1][1]


def test_an_argument_of_the_host_is_never_overwritten(vm):
    x = X.copy()
    assert np.array_equal(vm.invoke("reuse_argument", x, 3.0), X * 3)
    assert np.array_equal(x, X)


def test_a_shared_operand_is_not_overwritten(vm):
    first, second = vm.invoke("reuse_shared", X, 2.0)
    assert np.array_equal(first, X * 2)
    assert np.array_equal(second, X * 4)


def test_an_operand_whose_storage_has_a_view_is_not_overwritten(vm):
    assert np.array_equal(vm.invoke("reuse_view", X, 2.0), X * 2)


def test_results_do_not_share_memory_with_arguments(vm):
    x = X.copy()
    result = vm.invoke("identity", x)
    x[0] = 99
    assert result[0] == 0


def test_slices_are_views_within_bounds(vm):
    assert np.array_equal(vm.invoke("slice", X, 1, 3), X[1:3])
    for begin, end in ((-1, 2), (3, 2), (0, 5)):
        with pytest.raises(Trap, match="of an axis of size 4") as caught:
            vm.invoke("slice", X, begin, end)
        assert caught.value.code == "index-out-of-range"


def test_a_view_keeps_the_number_of_elements(vm):
    assert vm.invoke("reshape", X, 2, 2).shape == (2, 2)
    for dims in ((2, 3), (-2, -2), (1 << 62, 4)):
        with pytest.raises(Trap, match="4 elements do not fit") as caught:
            vm.invoke("reshape", X, *dims)
        assert caught.value.code == "run-time-shape"


def test_a_kernels_result_is_a_trap_code(exe):
    bind_python_kernel(exe, 0, [lambda arrays, dims, begin, end: 1])
    with pytest.raises(Trap, match="`scale` stopped") as caught:
        VirtualMachine(exe).invoke("scale", X, 2.0)
    assert caught.value.code == "index-out-of-range"


def test_an_unknown_trap_code_is_a_bad_value(exe):
    bind_python_kernel(exe, 0, [lambda arrays, dims, begin, end: 1234])
    with pytest.raises(Trap) as caught:
        VirtualMachine(exe).invoke("scale", X, 2.0)
    assert caught.value.code == "bad-value"


def test_an_exception_of_a_python_kernel_reaches_the_caller(exe):
    def fail(arrays, dims, begin, end):
        raise KeyError("kernel")

    bind_python_kernel(exe, 0, [fail])
    with pytest.raises(KeyError):
        VirtualMachine(exe).invoke("scale", X, 2.0)


def test_work_counts_as_steps(exe):
    vm = VirtualMachine(exe, max_steps=10)
    big = np.zeros(4096 * 20, np.float32)
    vm.invoke("scale", X, 1.0)
    with pytest.raises(Trap) as caught:
        vm.invoke("scale", big, 1.0)
    assert caught.value.code == "out-of-steps"


def test_a_long_kernel_runs_in_slices_and_can_be_interrupted(exe):
    slices = []

    def note(arrays, dims, begin, end):
        slices.append((begin, end))
        vm.interrupt()

    bind_python_kernel(exe, 2, [note, double])
    vm = VirtualMachine(exe)
    x = np.zeros((100, 10_000), np.float32)
    with pytest.raises(Trap) as caught:
        vm.invoke("matmul", x, np.zeros((10_000, 100), np.float32))
    assert caught.value.code == "interrupted"
    assert slices == [(0, 4)]


def test_a_run_can_be_ended_inside_of_a_chain_of_rounds(exe):
    rounds = []

    def walk(arrays, dims, begin, end):
        rounds.append((begin, end))
        if len(rounds) == 2:
            vm.interrupt()

    bind_python_kernel(exe, 5, [walk])
    vm = VirtualMachine(exe, num_threads=2)
    with pytest.raises(Trap) as caught:
        vm.invoke("walk", X[:3])
    assert caught.value.code == "interrupted"
    vm.invoke("walk", X[:3])
    ended, whole = rounds[:2], rounds[2:]
    # How many rounds a step has follows the clock.
    for steps in (ended, whole):
        assert [begin for begin, _ in steps] == [0, *(end for _, end in steps[:-1])]
    assert ended[-1][1] < 12 == whole[-1][1]


def test_a_kernel_without_code_is_named():
    with pytest.raises(RelayError, match="kernel `scale` has no code") as caught:
        VirtualMachine(unlinked())
    assert caught.value.code == "not-ready"


def test_kernels_can_be_replaced_by_empty_ones():
    exe = unlinked()
    address = ffi.new("uint64_t[]", [lib.rvm_kernel_empty_address()] * 2)
    for number, count in enumerate((1, 1, 2, 1, 1, 1)):
        assert lib.rvm_kernel_bind(exe.handle, number, address, count)
    assert not lib.rvm_kernel_bind(exe.handle, 9, address, 1)
    assert not lib.rvm_kernel_bind(exe.handle, 0, address, 2)
    assert VirtualMachine(exe).invoke("scale", X, 1.0).shape == (4,)
