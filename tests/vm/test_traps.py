"""Traps: reason, source line with caret, call stack, variables by name; what they leave."""

from __future__ import annotations

import numpy as np
import pytest

import relayvm
from relayvm.base.diagnostics import RelayError, Trap
from relayvm.vm.machine import VirtualMachine
from tests.vm.programs import INT, LIST, LIST_REF, LISTS, entry, executable, list_machine, loops


def test_a_trap_shows_the_source_line():
    with pytest.raises(Trap) as caught:
        list_machine().invoke("first", [])
    assert str(caught.value).split("\n") == [
        "error[match-failed]: no clause of the match fits the value",
        "  --> lists.relay:2:3",
        "   |",
        " 2 |   match (%l) { Nil => 0, Cons(%h, %t) => %h + @sum(%t) }",
        "   |   ^^^^^",
        "help: `relayvm explain match-failed`",
        "  at @sum, inlined into @first_or_trap (lists.relay:2:3)",
    ]


def test_callers_stand_at_their_calls():
    with pytest.raises(Trap) as caught:
        list_machine(max_depth=3).invoke("sum", [1, 2, 3, 4])
    assert caught.value.stack == ("@sum (lists.relay:2:50)",) * 3


def notes_of(trap):
    return [note.message for note in trap.diagnostics[0].notes]


def test_words_are_shown_by_name_if_they_are_parameters():
    with pytest.raises(Trap) as caught:
        VirtualMachine(loops(), max_depth=3).invoke("depth", 10)
    assert notes_of(caught.value) == ["n is 8"]


def test_a_compiled_program_names_its_scalar_arguments():
    text = """
    def @main(%n: int64, %flag: bool, %x: float32, %t: Tensor[(2,), float32]) -> int64 {
      if (%flag) { 1i64 + @main(%n + 1i64, %flag, %x * 2f, %t) } else { %n }
    }
    """
    vm = relayvm.VirtualMachine(relayvm.compile(relayvm.parse(text)), max_depth=3)
    with pytest.raises(Trap) as caught:
        vm.run(5, True, 0.25, np.zeros(2, np.float32))
    assert {"n is 7", "flag is True", "x is 1.0"} >= set(notes_of(caught.value)) > {"flag is True"}


def test_a_long_stack_keeps_both_ends():
    with pytest.raises(Trap) as caught:
        VirtualMachine(loops(), max_depth=1000).invoke("depth", 5000)
    stack = caught.value.stack
    assert len(stack) == 101
    assert stack[50] == "... 900 more ..."


def test_a_stack_of_a_hundred_frames_is_whole():
    with pytest.raises(Trap) as caught:
        VirtualMachine(loops(), max_depth=100).invoke("depth", 5000)
    assert caught.value.stack == ("@depth",) * 100


def test_the_outermost_frames_are_the_last():
    exe = executable(
        """
        function f0 "main" (w) -> (w) registers 2 0 0 {
            call f1, (w0), (w1)
            return (w1)
        }
        function f1 "deep" (w) -> (w) registers 2 0 0 {
            call f1, (w0), (w1)
            return (w1)
        }
        """,
        [entry(0, "main", [("x", INT)], INT)],
    )
    with pytest.raises(Trap) as caught:
        VirtualMachine(exe, max_depth=777).run(1)
    assert caught.value.stack[-2:] == ("@deep", "@main")


def test_a_trap_is_a_relay_error():
    with pytest.raises(RelayError):
        list_machine().invoke("first", [])


def test_objects_of_all_frames_are_released():
    vm = list_machine(max_depth=50)
    items = vm.invoke("range", 100)
    before = vm.stats()["held_bytes"]
    for _ in range(3):
        with pytest.raises(Trap):
            vm.invoke("map", vm.invoke("adder", 1), items)
    assert vm.stats()["held_bytes"] <= before + (64 << 10)


def test_reading_a_reference_that_is_taken_out_traps():
    vm = list_machine()
    with pytest.raises(Trap) as caught:
        vm.invoke("take_twice", [1])
    assert caught.value.code == "empty-reference"


def test_a_reference_that_the_host_holds_is_never_seen_empty():
    vm = list_machine()
    reference = vm.invoke("ref_of", [5])
    with pytest.raises(Trap):
        vm.invoke("take_and_trap", reference)
    assert [int(reference.read().fields[0])] == [5]
    assert vm.invoke("push", reference, 6) == 6


def test_an_index_outside_an_array_traps():
    vm = list_machine()
    with pytest.raises(Trap, match="index -1 of an array of 0 items") as caught:
        vm.invoke("squares", 0)
    assert caught.value.code == "index-out-of-range"


def test_a_value_of_another_layout_is_not_believed():
    exe = executable(
        LISTS,
        [entry(24, "lie", [("r", {"kind": "data", "text": "List", "name": "List"})], INT)],
        [
            {
                "name": "List",
                "constructors": [{"name": "Nil", "layout": 0, "fields": []}],
            }
        ],
    )
    with pytest.raises(Trap) as caught:
        VirtualMachine(exe).invoke("lie", exe.adt("List").Nil())
    assert caught.value.code == "bad-value"


@pytest.mark.parametrize(
    ("function", "parameters", "result"),
    [
        (99, [("x", INT)], INT),
        (2, [], INT),
        (6, [("x", LIST)], LIST),
        (10, [("l", {"kind": "data", "text": "L", "name": "missing"})], INT),
        (20, [("l", LIST)], dict(LIST_REF, layout=77)),
    ],
)
def test_a_manifest_that_disagrees_with_the_code_is_an_error(function, parameters, result):
    with pytest.raises(RelayError):
        exe = executable(LISTS, [entry(function, "main", parameters, result)])
        VirtualMachine(exe).run(*([1] * len(parameters))).read()
