"""Instructions on objects and tensors that the other programs do not use, and their traps."""

from __future__ import annotations

import numpy as np
import pytest

from relayvm.base.diagnostics import Trap
from relayvm.vm.machine import VirtualMachine
from tests.vm.programs import INT, entry, executable, tensor

PROGRAM = """
layout l0 tuple "pair" (w int64, o)
layout l1 ref "ref" (w int64)
layout l2 array "array" (o)
layout l3 tuple "other" (o)
tensor_type t0 float32 (2, ?)
constant c0 float32 (2, 2) x0000803f000000400000404000008040
function f0 "constant" () -> (o) registers 0 1 1 {
    constant b0, c0
    retain o0, b0
    return (o0)
}
function f1 "select" (w, w, w) -> (w) registers 4 0 0 {
    select w3, w0, w1, w2
    return (w3)
}
function f2 "move_twice" (o) -> (o) registers 0 3 0 {
    move_object o1, o0
    move_object o2, o1
    return (o2)
}
function f3 "check_dim" (b, w) -> (w) registers 1 0 1 {
    check_dim b0, 1, w0
    return (w0)
}
function f4 "check_equal" (w, w) -> (w) registers 2 0 0 {
    check_equal w0, w1
    return (w0)
}
function f5 "tensor_check" (b) -> (w) registers 1 0 1 {
    tensor_check b0, t0
    tensor_rank w0, b0
    return (w0)
}
function f6 "from_words" (w, w) -> (o) registers 2 1 0 {
    tensor_from_words o0, d3, (w0, w1, w0)
    return (o0)
}
function f7 "view_take" (b, w) -> (o) registers 1 2 1 {
    retain o0, b0
    tensor_view_take o1, o0, (w0)
    return (o1)
}
function f8 "pair" (w, o) -> (o, w) registers 2 3 1 {
    cell_new o1, l0, (w0, o0)
    field_retain o2, o1, l0, 1
    field_borrow b0, o1, l0, 1
    borrow b0, b0
    field_word w1, o1, l0, 0
    release o1
    return (o2, w1)
}
function f9 "shared_pair" (w, o) -> (o, w) registers 2 4 0 {
    cell_new o1, l0, (w0, o0)
    retain o2, o1
    cell_unpack o1, l0, (w1, o3)
    release o2
    return (o3, w1)
}
function f10 "word_ref" (w, w) -> (w) registers 3 1 0 {
    ref_new_word o0, l1, w0
    ref_write_word o0, l1, w1
    ref_read_word w2, o0, l1
    release o0
    return (w2)
}
function f11 "array" (o, o, w) -> (o, w) registers 4 6 0 {
    word w1, 0
    array_new o2, l2, w1
    array_push o3, o2, l2, o0
    retain o2, o3
    array_set o4, o2, l2, w0, o1
    array_get o5, o4, l2, w1
    array_length w3, o3, l2
    release o3
    release o4
    return (o5, w3)
}
function f12 "get" (o, w) -> (o) registers 2 3 0 {
    word w1, 0
    array_new o1, l2, w1
    array_push o1, o1, l2, o0
    array_get o2, o1, l2, w0
    release o1
    return (o2)
}
function f13 "unpack_wrong" (o) -> (o) registers 0 2 0 {
    cell_unpack o0, l3, (o1)
    return (o1)
}
function f14 "big_array" (w) -> (w) registers 1 1 0 {
    array_new o0, l2, w0
    release o0
    return (w0)
}
function f15 "rank_dim" (b) -> (w) registers 1 0 1 {
    tensor_dim w0, b0, 3
    return (w0)
}
function f16 "unbox" (b) -> (w) registers 1 0 1 {
    unbox_word w0, b0, d4
    return (w0)
}
function f17 "swap" (o, o, w) -> (o, o) registers 4 2 0 {
    word w1, 0
    less_equal_i64 w2, w0, w1
    branch_false w2, More
    return (o0, o1)
  More:
    word w3, 1
    subtract_i64 w0, w0, w3
    tail_call f17, (o1, o0, w0)
}
"""
ANY = tensor(None)
MATRIX = tensor(None, None)
BOTH = {"kind": "tuple", "text": "(a, b)", "fields": [ANY, INT]}
TWO = {"kind": "tuple", "text": "(a, b)", "fields": [ANY, ANY]}
ENTRIES = [
    entry(0, "constant", [], MATRIX),
    entry(1, "select", [("c", INT), ("a", INT), ("b", INT)], INT),
    entry(2, "move_twice", [("x", ANY)], ANY),
    entry(3, "check_dim", [("x", MATRIX), ("n", INT)], INT),
    entry(4, "check_equal", [("a", INT), ("b", INT)], INT),
    entry(5, "tensor_check", [("x", MATRIX)], INT),
    entry(5, "tensor_check_vector", [("x", ANY)], INT),
    entry(6, "from_words", [("a", INT), ("b", INT)], tensor(3, dtype="int32")),
    entry(7, "view_take", [("x", MATRIX), ("n", INT)], ANY),
    entry(8, "pair", [("n", INT), ("x", ANY)], BOTH),
    entry(9, "shared_pair", [("n", INT), ("x", ANY)], BOTH),
    entry(10, "word_ref", [("a", INT), ("b", INT)], INT),
    entry(11, "array", [("x", ANY), ("y", ANY), ("i", INT)], BOTH),
    entry(12, "get", [("x", ANY), ("i", INT)], ANY),
    entry(13, "unpack_wrong", [("x", ANY)], ANY),
    entry(14, "big_array", [("n", INT)], INT),
    entry(15, "rank_dim", [("x", ANY)], INT),
    entry(16, "unbox", [("x", ANY)], INT),
    entry(17, "swap", [("x", ANY), ("y", ANY), ("n", INT)], TWO),
]
X = np.arange(4, dtype=np.float32)
M = X.reshape(2, 2)


@pytest.fixture(scope="module")
def vm() -> VirtualMachine:
    return VirtualMachine(executable(PROGRAM, ENTRIES))


def test_constants_are_borrowed_from_the_executable(vm):
    first, second = vm.invoke("constant"), vm.invoke("constant")
    assert np.array_equal(first, [[1, 2], [3, 4]])
    first[0, 0] = 99
    assert second[0, 0] == 1
    assert vm.invoke("constant")[0, 0] == 1


def test_select_takes_one_of_two_words(vm):
    assert (vm.invoke("select", 1, 5, 6), vm.invoke("select", 0, 5, 6)) == (5, 6)


def test_objects_move_between_registers(vm):
    assert np.array_equal(vm.invoke("move_twice", X), X)


def test_arguments_of_a_loop_may_change_places(vm):
    for n in range(4):
        first, second = vm.invoke("swap", X, X + 1, n)
        assert np.array_equal(first, X + n % 2)
        assert np.array_equal(second, X + 1 - n % 2)


def test_tensors_are_made_of_words(vm):
    made = vm.invoke("from_words", -1, 7)
    assert made.dtype == np.int32
    assert made.tolist() == [-1, 7, -1]


def test_a_view_may_take_its_tensor(vm):
    assert np.array_equal(vm.invoke("view_take", M, 4), X)


def test_fields_are_read_and_taken_out(vm):
    for name in ("pair", "shared_pair"):
        x, n = vm.invoke(name, 5, X)
        assert np.array_equal(x, X)
        assert n == 5


def test_word_references(vm):
    assert vm.invoke("word_ref", 1, 2) == 2


def test_setting_an_item_of_a_shared_array_leaves_the_other(vm):
    item, length = vm.invoke("array", X, X + 1, 0)
    assert np.array_equal(item, X + 1)
    assert length == 1


def test_sizes_that_are_right_pass(vm):
    assert vm.invoke("check_dim", M, 2) == 2
    assert vm.invoke("check_equal", 3, 3) == 3
    assert vm.invoke("tensor_check", M) == 2


@pytest.mark.parametrize(
    ("name", "args", "code", "message"),
    [
        ("check_dim", (M, 3), "run-time-shape", "axis 1 has size 2 where 3 is required"),
        ("check_equal", (3, 4), "run-time-shape", "sizes 3 and 4 must be equal"),
        ("tensor_check", (M.T[:1],), "run-time-shape", "axis 0 has size 1 where 2 is required"),
        ("tensor_check_vector", (X,), "run-time-shape", "not the dtype and rank"),
        ("view_take", (M, 3), "run-time-shape", "4 elements do not fit"),
        ("array", (X, X, 1), "index-out-of-range", "index 1 of an array of 1 item"),
        ("get", (X, -1), "index-out-of-range", "index -1 of an array of 1 item"),
        ("unpack_wrong", (X,), "bad-value", "not the `other`"),
        ("big_array", (-1,), "size-overflow", "room for -1 items"),
        ("big_array", (1 << 50,), "size-overflow", "room for"),
        ("rank_dim", (X,), "run-time-shape", "a tensor of rank 1 has no axis 3"),
        ("unbox", (X,), "bad-value", "not the number"),
    ],
)
def test_what_does_not_fit_traps(vm, name, args, code, message):
    refuses(vm, name, args, code, message)


def test_an_array_of_more_room_than_the_limit_traps():
    small = VirtualMachine(executable(PROGRAM, ENTRIES), max_memory=1 << 24)
    refuses(small, "big_array", (1 << 28,), "out-of-memory", "bytes is reached")


def refuses(vm, name, args, code, message):
    before = vm.stats()["held_bytes"]
    for _ in range(2):
        with pytest.raises(Trap, match=message) as caught:
            vm.invoke(name, *args)
        assert caught.value.code == code
    assert vm.stats()["held_bytes"] <= before + 32768
