"""Running programs: control flow, calls, closures, references, arrays; calls from Python."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from relayvm.base.diagnostics import RelayError
from relayvm.vm.machine import VirtualMachine, default_max_memory
from tests.vm.programs import list_machine, lists, loops

MASK = (1 << 64) - 1


@pytest.fixture(scope="module")
def vm() -> VirtualMachine:
    return list_machine()


def test_a_self_tail_call_is_a_loop():
    vm = VirtualMachine(loops())
    expected = 1
    for i in range(1000):
        expected = (expected * 3 + i) & MASK
    assert int(vm.run(0, 1000, 1)) & MASK == expected


def test_arguments_may_be_named_and_mixed():
    vm = VirtualMachine(loops())
    assert vm.run(0, acc=1, n=10) == vm.run(0, 10, 1)


def test_recursive_calls_return_to_their_callers():
    assert VirtualMachine(loops()).invoke("fib", 20) == 6765


def test_mutual_tail_calls_run_in_one_frame():
    vm = VirtualMachine(loops(), max_depth=1)
    assert vm.invoke("even", 100_001) == 0


def test_lists_are_built_folded_and_reversed(vm):
    items = vm.invoke("range", 10)
    assert vm.invoke("sum", items) == 45
    assert vm.invoke("reverse", vm.invoke("reverse", items)) == items


def test_closures_capture_words_and_are_called_in_programs(vm):
    add = vm.invoke("adder", 10)
    assert vm.invoke("apply", add, 4) == 14
    assert vm.invoke("map", add, [1, 2]) == vm.invoke("map", vm.invoke("adder", 0), [11, 12])


def test_a_returned_closure_is_a_python_function(vm):
    assert vm.invoke("adder", 5)(2) == 7


def test_closures_check_their_arguments(vm):
    with pytest.raises(RelayError, match="`#0`.*`int64`.*the number 1.5"):
        vm.invoke("adder", 5)(1.5)


def test_a_shared_list_survives_a_function_that_consumes_it(vm):
    items = vm.invoke("range", 5)
    vm.invoke("reverse", items)
    assert vm.invoke("sum", items) == 10


def test_references_keep_what_programs_write(vm):
    reference = vm.invoke("ref_of", [1])
    vm.invoke("push", reference, 2)
    vm.invoke("push", reference, 3)
    assert repr(reference.read()) == "Cons(3, Cons(2, Cons(1, Nil)))"


def test_python_can_write_a_reference(vm):
    reference = vm.invoke("ref_of", [])
    reference.write([7])
    assert vm.invoke("sum", reference.read()) == 7


def test_arrays_grow_in_place(vm):
    assert vm.invoke("squares", 1000) == 999 * 999


def test_a_shared_array_is_copied_before_it_changes(vm):
    assert vm.invoke("array_alias", [1, 2]) == 1


def test_several_results_are_a_tuple(vm):
    items, seven = vm.invoke("pair_with", [1])
    assert repr(items) == "Cons(1, Nil)"
    assert seven == 7


def test_word_results_are_rank_0_arrays():
    result = VirtualMachine(loops()).invoke("fib", 5)
    assert isinstance(result, np.ndarray)
    assert result.shape == ()
    assert result.dtype == np.int64


def test_run_dict_names_results():
    assert VirtualMachine(loops()).run_dict(i=0, n=1, acc=5) == {"output": 15}


def test_an_unknown_entry_names_those_that_exist(vm):
    with pytest.raises(RelayError, match="no entry `nothing`.*`range`, `sum`") as caught:
        vm.invoke("nothing")
    assert caught.value.code == "unknown-entry"


@pytest.mark.parametrize(
    ("args", "named", "message"),
    [
        ((1, 2), {}, "`acc` of `main` is not given"),
        ((1, 2, 3, 4), {}, "`main` takes 3 arguments, 4 given"),
        ((1, 2, 3), {"n": 1}, "`n` of `main` is given twice"),
        ((1, 2), {"other": 1}, "no parameter `other`; it has `i`, `n`, `acc`"),
    ],
)
def test_wrong_argument_lists_are_named(args, named, message):
    with pytest.raises(RelayError, match=message) as caught:
        VirtualMachine(loops()).run(*args, **named)
    assert caught.value.code == "wrong-argument"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"device": "tpu"}, "no device `tpu`"),
        ({"engine": "warp"}, "no engine `warp`"),
        ({"num_threads": 0}, "`num_threads` is 0"),
        ({"num_threads": 1025}, "`num_threads` is 1025"),
        ({"max_memory": -1}, "`max_memory` is -1"),
        ({"max_depth": 1.5}, "`max_depth` is 1.5"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(RelayError, match=message) as caught:
        VirtualMachine(loops(), **options)
    assert caught.value.code == "bad-option"


def test_an_executable_is_shared_by_threads():
    exe = lists()
    sums = []

    def work():
        vm = VirtualMachine(exe)
        sums.append([int(vm.invoke("sum", vm.invoke("range", 1000))) for _ in range(20)])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sums == [[499500] * 20] * 4


def test_values_of_one_machine_go_to_another_over_the_same_executable():
    exe = lists()
    items = VirtualMachine(exe).invoke("range", 4)
    assert VirtualMachine(exe).invoke("sum", items) == 6


def test_threads_share_a_value():
    exe = lists()
    items = VirtualMachine(exe).invoke("range", 500)
    failures = []

    def work():
        vm = VirtualMachine(exe)
        for _ in range(50):
            if vm.invoke("sum", vm.invoke("reverse", items)) != 124750:
                failures.append(1)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_reprs_are_short():
    machine = VirtualMachine(loops(), engine="interpreter")
    assert repr(machine).startswith("VirtualMachine(interpreter, `main`")


def test_the_default_memory_limit_is_below_the_ram():
    assert 0 < default_max_memory() < 1 << 50
