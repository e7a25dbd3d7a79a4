"""Calls from Python: sizes that change, results into given arrays, rows of calls, threads."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import itertools
import sys
import threading
import weakref

import numpy as np
import pytest

import relayvm
from relayvm.base.diagnostics import RelayError, Trap
from relayvm.vm.arrays import array_argument
from relayvm.vm.executable import load
from relayvm.vm.file.codec import encode
from relayvm.vm.library import ffi
from relayvm.vm.machine import VirtualMachine

TEXT = """
def @main[n](%x: Tensor[(n), float32], %y: Tensor[(n), float32]) { %x * 2f + %y }
def @fixed(%x: Tensor[(4), float32]) { (%x + 1f, sum(%x), take(%x, 2)) }
def @large(%x: Tensor[(2000), float32], %a: float32) { %x * %a }
def @same(%x: Tensor[(4), float32]) { %x }
def @scalar(%i: int64, %x: float64) { (%i * 2i64, cast(%i, dtype="float64") * %x) }
def @pick(%x: Tensor[(4), float32], %i: int64) {
  if (%i < 0i64) {
    let %none: List[float32] = Nil;
    match? (%none) { Cons(%v, _) => %v }
  } else { take(%x, %i) }
}
def @five(%a: Tensor[(2000), float32], %b: Tensor[(2000), float32], %c: Tensor[(2000), float32],
          %d: Tensor[(2000), float32], %e: Tensor[(2000), float32]) { (%a - %b, %c - %d, %e) }
def @list(%x: Tensor[(4), float32]) { (Cons(%x, Nil), %x * 2f) }
def @nested(%x: Tensor[(4), float32]) { (%x, (%x, %x)) }
def @shift[n](%x: Tensor[(n), float32]) { (%x + 1f, %x, (%x, Cons(%x, Nil))) }
def @spin(%i: int64) -> int64 { if (%i > 0i64) { @spin(%i - 1i64) } else { 7i64 } }
"""
ENTRIES = [
    "main",
    "fixed",
    "large",
    "same",
    "scalar",
    "pick",
    "five",
    "list",
    "nested",
    "shift",
    "spin",
]


@pytest.fixture(scope="module")
def exe() -> relayvm.Executable:
    return relayvm.compile(relayvm.parse(TEXT), entries=ENTRIES)


@pytest.fixture
def vm(exe: relayvm.Executable) -> VirtualMachine:
    return VirtualMachine(exe, num_threads=1)


def floats(count: int, first: float = 0) -> np.ndarray:
    return np.arange(first, first + count, dtype=np.float32)


# --- the usual case and all others ----------------------------------------------------------------


def test_sizes_may_change_from_call_to_call(vm):
    for count in (3, 3, 5, 0, 3, 2000, 2000, 1):
        x, y = floats(count), floats(count, 7)
        np.testing.assert_array_equal(vm.run(x, y), x * 2 + y)


def test_sizes_that_disagree_are_refused_whatever_was_accepted_before(vm):
    vm.run(floats(3), floats(3))
    vm.run(floats(3), floats(3))
    for x, y in ((3, 4), (4, 3)):
        with pytest.raises(RelayError, match="size `n` is") as caught:
            vm.run(floats(x), floats(y))
        assert caught.value.code == "wrong-argument"
    vm.run(floats(4), floats(4))
    with pytest.raises(RelayError, match="size `n` is"):
        vm.run(floats(4), floats(3))


@pytest.mark.parametrize("entry", ["same", "large"])
def test_other_arguments_than_arrays_in_order_are_read_right(vm, entry):
    count, more = (4, ()) if entry == "same" else (2000, (1.0,))
    x = floats(count)
    wide = np.zeros(2 * count, np.float32)
    wide[::2] = x
    for value in (x, wide[::2], x, x[::-1], x.astype(">f4"), x.tolist(), x):
        np.testing.assert_array_equal(vm.invoke(entry, value, *more), np.asarray(value, "f4"))


@pytest.mark.parametrize(
    "bad", [floats(5), floats(4).astype("f8"), floats(4).reshape(2, 2), "x", None]
)
def test_wrong_arguments_are_refused_between_right_ones(vm, bad):
    for _ in range(2):
        np.testing.assert_array_equal(vm.invoke("same", floats(4)), floats(4))
        with pytest.raises(RelayError) as caught:
            vm.invoke("same", bad)
        assert caught.value.code == "wrong-argument"


def test_more_large_arrays_than_addresses_of_a_call(vm):
    arrays = [floats(2000, i) for i in range(5)]
    for _ in range(2):
        first, second, last = vm.invoke("five", *arrays)
        np.testing.assert_array_equal(first, np.full(2000, -1))
        np.testing.assert_array_equal(second, np.full(2000, -1))
        np.testing.assert_array_equal(last, arrays[4])
        assert not np.shares_memory(last, arrays[4])


def test_results_are_fresh_in_every_call(vm):
    results = [vm.invoke("same", floats(4, i)) for i in range(3)]
    results += [vm.invoke("large", floats(2000, i), 1.0) for i in range(3)]
    firsts = [r[0] for r in results]
    assert firsts == [0, 1, 2, 0, 1, 2]
    assert all(r.flags.writeable and r.flags.c_contiguous for r in results)
    for a, b in itertools.combinations(results, 2):
        assert not np.shares_memory(a, b)


def test_tensors_of_other_libraries_are_borrowed(vm):
    class Tensor:
        def __init__(self, array):
            self.array = array

        def __dlpack__(self, **options):
            return self.array.__dlpack__(**options)

        def __dlpack_device__(self):
            return (1, 0)

    x = floats(2000)
    np.testing.assert_array_equal(vm.invoke("large", Tensor(x), 2.0), x * 2)
    type_ = vm.executable.manifest.entry("large").parameters[0].type
    assert np.shares_memory(array_argument(Tensor(x), type_, "`x`", {}), x)


def test_tensors_of_torch_are_taken_and_those_with_gradients_refused(vm):
    torch = pytest.importorskip("torch")
    x = torch.arange(2000, dtype=torch.float32)
    np.testing.assert_array_equal(vm.invoke("large", x, 2.0), x.numpy() * 2)
    pairs = torch.stack([x, x], dim=1)
    np.testing.assert_array_equal(vm.invoke("large", pairs[:, 1], 1.0), x.numpy())
    with pytest.raises(RelayError, match="grad") as caught:
        vm.invoke("large", x.requires_grad_(), 2.0)
    assert caught.value.code == "wrong-argument"


def test_names_of_arguments_in_any_order(vm):
    x, y = floats(3), floats(3, 5)
    for given in ({"x": x, "y": y}, {"y": y, "x": x}):
        np.testing.assert_array_equal(vm.run(**given), x * 2 + y)
    np.testing.assert_array_equal(vm.run(x, y=y), x * 2 + y)
    out = floats(3)
    assert vm.run(x, out=out, y=y) is out
    np.testing.assert_array_equal(out, x * 2 + y)


class Lent:
    """A tensor of another library that notes whether somebody holds its memory."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def test_arrays_made_for_a_call_die_with_it(vm):
    strided, lent = floats(4000)[::2], floats(2000)
    count = sys.getrefcount(lent)
    for _ in range(3):
        result = vm.run(strided, Lent(lent))
        np.testing.assert_array_equal(result, strided * 2 + lent)
        with pytest.raises(RelayError, match="size `n` is 2000 on axis 0 of `x` of `main` and 7"):
            vm.run(strided, Lent(floats(7)))
        with pytest.raises(RelayError, match="`y` of `main` is"):
            vm.run(strided, Lent(floats(7).astype(np.float64)))
    assert sys.getrefcount(lent) == count


def test_what_stops_the_program_is_not_taken_for_a_wrong_argument(vm):
    class Stops(Lent):
        def __dlpack__(self, **options):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        vm.run(floats(3), Stops(floats(3)))
    np.testing.assert_array_equal(vm.run(floats(3), floats(3)), floats(3) * 3)


def test_scalars_keep_their_bits(vm):
    for i, x in ((3, 0.5), (-(1 << 62), float("inf")), (np.int64(7), np.float64(0.25))):
        doubled, product = vm.invoke("scalar", i, x)
        assert doubled == np.multiply(np.int64(i), 2) and product == float(i) * x


def test_a_machine_is_collected_with_its_prepared_calls(exe):
    machine = VirtualMachine(exe)
    machine.run(floats(2), floats(2))
    machine.run(floats(2), floats(2))
    gone = weakref.ref(machine)
    del machine
    gc.collect()
    assert gone() is None


def test_a_class_of_its_own_may_change_run(exe):
    class Doubled(VirtualMachine):
        def run(self, *args, out=None, **named):
            return 2 * super().run(*args, out=out, **named)

    machine = Doubled(exe)
    for _ in range(2):
        np.testing.assert_array_equal(machine.run(floats(2), floats(2)), floats(2) * 6)


def test_a_manifest_that_is_wrong_about_sizes_harms_nobody(exe):
    program = exe.program()
    entries = []
    for entry in program.entries:
        if entry.name in ("same", "large"):
            result = dataclasses.replace(entry.result, dims=(3,))
            entry = dataclasses.replace(entry, result=result)
        entries.append(entry)
    wrong = load(encode(dataclasses.replace(program, entries=tuple(entries))), native=True)
    vm = VirtualMachine(wrong, num_threads=1)
    for i in range(4):
        np.testing.assert_array_equal(vm.invoke("same", floats(4, i)), floats(4, i))
        assert len(vm.invoke("large", floats(2000, i), 1.0)) == 2000
        rows = vm.invoke_many("same", [(floats(4, i),), (floats(4, i + 1),)])
        np.testing.assert_array_equal(rows, [floats(4, i), floats(4, i + 1)])
    with pytest.raises((RelayError, ValueError)):
        vm.invoke("same", floats(4), out=np.empty(3, np.float32))


# --- results into arrays of the caller's ----------------------------------------------------------


def test_results_go_into_the_arrays_that_are_given(vm):
    x, y, out = floats(3), floats(3, 5), np.empty(3, np.float32)
    for _ in range(2):
        assert vm.run(x, y, out=out) is out
        np.testing.assert_array_equal(out, x * 2 + y)
    assert vm.run(x, y) is not out


def test_a_tuple_of_arrays_takes_a_tuple_and_none_is_made(vm):
    x = floats(4)
    first, last = np.empty(4, np.float32), np.empty((), np.float32)
    results = vm.invoke("fixed", x, out=(first, None, last))
    assert results[0] is first and results[2] is last
    np.testing.assert_array_equal(first, x + 1)
    assert (results[1], last) == (6, 2)
    assert vm.invoke("fixed", x)[0] is not first


def test_an_argument_may_take_the_result(vm):
    for entry, args in (("same", ()), ("large", (3.0,))):
        x = floats(2000 if args else 4)
        expected = x * (args[0] if args else 1)
        assert vm.invoke(entry, x, *args, out=x) is x
        np.testing.assert_array_equal(x, expected)
    wide = floats(5)
    vm.invoke("same", wide[:4], out=wide[1:])
    np.testing.assert_array_equal(wide, [0, 0, 1, 2, 3])


@pytest.mark.parametrize("count", [4, 3000])
@pytest.mark.parametrize("named", [False, True])
def test_results_that_are_the_argument_do_not_see_it_overwritten(vm, count, named):
    x, y = floats(count), floats(count)
    outs = (x, y, None)
    given = vm.invoke("shift", x=x, out=outs) if named else vm.invoke("shift", x, out=outs)
    assert given[0] is x
    assert given[1] is y
    np.testing.assert_array_equal(x, floats(count, 1))
    for result in (y, given[2][0], given[2][1].fields[0]):
        np.testing.assert_array_equal(result, floats(count))


def read_only() -> np.ndarray:
    array = np.zeros(4, np.float32)
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    ("out", "message"),
    [
        (np.zeros(5, np.float32), r"`out` of `same` is `Tensor\[\(4\), float32\]`, but"),
        (np.zeros(4, np.float64), r"but `Tensor\[\(4\), float64\]` was given"),
        (np.zeros(4, ">f4"), "was given"),
        (np.zeros((4, 1), np.float32), "was given"),
        ([0.0] * 4, "was given"),
        (read_only(), "`out` of `same` is read-only"),
        (np.zeros(8, np.float32)[::2], "the elements of `out` of `same` do not lie in order"),
    ],
)
def test_arrays_that_cannot_take_a_result_are_refused_before_the_run(vm, out, message):
    with pytest.raises(RelayError, match=message) as caught:
        vm.invoke("same", floats(4), out=out)
    assert caught.value.code == "wrong-argument"
    assert vm.stats()["invocations"] == 0
    np.testing.assert_array_equal(vm.invoke("same", floats(4)), floats(4))


def test_the_number_of_arrays_is_that_of_the_results(vm):
    for out in (np.empty(4, np.float32), (np.empty(4, np.float32),), ()):
        with pytest.raises(RelayError, match="`out` of `fixed` is a tuple of 3 arrays") as caught:
            vm.invoke("fixed", floats(4), out=out)
        assert caught.value.code == "wrong-argument"


def test_arrays_for_results_share_no_memory(vm):
    memory = np.empty(4096, np.float32)
    outs = memory[:2000], memory[1999:3999], None
    arrays = [floats(2000)] * 5
    with pytest.raises(RelayError, match="two arrays of `out` share memory"):
        vm.invoke("five", *arrays, out=outs)
    first, second, _ = vm.invoke("five", *arrays, out=(memory[:2000], memory[2000:4000], None))
    assert not first.any() and not second.any()


def test_values_that_are_no_tensors_go_into_no_array(vm):
    for entry, at in (("list", 0), ("nested", 1)):
        with pytest.raises(RelayError, match="which goes into no array"):
            out = [None, None]
            out[at] = np.empty(4, np.float32)
            vm.invoke(entry, floats(4), out=out)
    out = np.empty(4, np.float32)
    items, doubled = vm.invoke("list", floats(4), out=(None, out))
    assert doubled is out and items.constructor == "Cons"
    np.testing.assert_array_equal(out, floats(4) * 2)


def test_a_size_that_the_type_leaves_open_is_compared_after_the_run(vm):
    with pytest.raises(RelayError, match=r"the result has the sizes \(3,\), .* \(4,\)") as caught:
        vm.run(floats(3), floats(3), out=np.empty(4, np.float32))
    assert caught.value.code == "wrong-argument"
    assert len(vm.run(floats(3), floats(3))) == 3


def test_a_trap_leaves_the_array_as_it_was(vm):
    out = np.full((), 5, np.float32)
    with pytest.raises(Trap):
        vm.invoke("pick", floats(4), -1, out=out)
    assert out == 5
    assert vm.invoke("pick", floats(4), 3, out=out) is out and out == 3


# --- many calls in one go -------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 1, 5, 1500])
def test_many_calls_give_what_each_gives(vm, count):
    for _ in range(2):
        given = [(floats(i % 7), floats(i % 7, i)) for i in range(count)]
        results = vm.invoke_many("main", given)
        assert len(results) == count and vm.stats()["held_bytes"] < 1 << 22
        for (x, y), result in zip(given, results):
            np.testing.assert_array_equal(result, x * 2 + y)


def test_many_calls_take_all_kinds_of_values(vm):
    lists = vm.invoke_many("list", [(floats(4, i),) for i in range(3)])
    assert [items.fields[0][0] for items, _ in lists] == [0, 1, 2]
    assert vm.invoke_many("scalar", [(1, 2.0), [3, 0.5]]) == [(2, 2), (6, 1.5)]
    large = vm.invoke_many("large", [(floats(2000), float(i)) for i in range(3)])
    assert [array[1] for array in large] == [0, 1, 2]
    assert not np.shares_memory(large[0], large[1])


def test_a_trap_names_its_call_and_keeps_the_results_before(vm):
    calls = [(floats(4), i) for i in (0, 1, -1, 2)]
    with pytest.raises(Trap, match="in call 2 of 4") as caught:
        vm.invoke_many("pick", calls)
    assert caught.value.index == 2 and caught.value.results == (0, 1)
    assert vm.invoke_many("pick", calls[:2]) == [0, 1]


def test_nothing_runs_when_one_of_many_arguments_is_wrong(vm):
    for wrong in ((floats(3), 1), (floats(4),), floats(4)[0], (floats(4), 1, 2)):
        with pytest.raises(RelayError, match="in call 1") as caught:
            vm.invoke_many("pick", [(floats(4), 0), wrong])
        assert caught.value.code == "wrong-argument"
    assert vm.stats()["invocations"] == 0


def test_limits_hold_for_each_of_many_calls(exe):
    vm = VirtualMachine(exe, max_steps=1000)
    assert vm.invoke_many("spin", [(900,)] * 5) == [7] * 5
    with pytest.raises(Trap, match="limit of 1000 steps") as caught:
        vm.invoke_many("spin", [(900,), (1100,), (900,)])
    assert caught.value.index == 1


def test_an_unknown_entry_of_many_calls_is_named(vm):
    with pytest.raises(RelayError, match="there is no entry `other`"):
        vm.invoke_many("other", [])


# --- threads --------------------------------------------------------------------------------------


def test_machines_of_one_executable_run_on_threads_with_right_results(exe):
    wrong: list[str] = []

    def work(seed: int) -> None:
        vm = VirtualMachine(exe, num_threads=1)
        rng = np.random.default_rng(seed)
        for _ in range(100):
            x, y = rng.normal(size=(2, rng.integers(1, 50))).astype(np.float32)
            out = np.empty_like(x)
            if not (vm.run(x, y) == x * 2 + y).all() or not (vm.run(x, y, out=out) == out).all():
                wrong.append("main")
            many = vm.invoke_many("fixed", [(floats(4, i),) for i in range(seed, seed + 9)])
            if [r[2] for r in many] != list(range(seed + 2, seed + 11)):
                wrong.append("fixed")

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_calls_of_one_machine_from_two_threads_are_right_or_refused(exe):
    vm = VirtualMachine(exe, num_threads=1)
    wrong: list[float] = []

    def work(seed: int) -> None:
        for i in range(300):
            try:
                if vm.invoke("same", floats(4, seed * 1000 + i))[0] != seed * 1000 + i:
                    wrong.append(i)
            except RelayError as mistake:
                assert mistake.code == "machine-busy"

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_small_and_large_results_come_together() -> None:
    text = """def @main[n](%x: Tensor[(n, 400), float32]) {
        let %ones = ones(shape=[2], dtype="int32");
        (sum(%x, axis=[0]), mean(%x, axis=[1]), %x + 1f, max(%x), exp(%x), %ones)
    }"""
    vm = relayvm.VirtualMachine(relayvm.compile(relayvm.parse(text)))
    for rows in (1, 1, 9, 9, 400, 400, 2):
        x = np.full((rows, 400), 0.5, np.float32)
        total, mean, more, most, powers, ones = vm.run(x)
        np.testing.assert_array_equal(total, x.sum(0))
        np.testing.assert_array_equal(mean, x[:, 0])
        np.testing.assert_array_equal(more, x + 1)
        np.testing.assert_allclose(powers, np.exp(x), rtol=1e-6)
        assert most == 0.5 and ones.tolist() == [1, 1]


WITH_DATA = """
type Tree { Leaf(Tensor[(4), float32]), Node(Tree, Tree) }
def @total(%t: Tree) -> Tensor[(4), float32] {
  match (%t) { Leaf(%x) => %x, Node(%l, %r) => @total(%l) + @total(%r) }
}
def @main(%t: Tree, %x: Tensor[(2000), float32], %i: int64) {
  let %none: List[float32] = Nil;
  let %item = if (%i < 0i64) { match? (%none) { Cons(%v, _) => %v } } else { take(%x, %i) };
  (@total(%t), %item, %t)
}
def @swap(%p: (Tree, int64), %x: Tensor[(2000), float32]) { (%x * 2f, %p.0) }
"""


@pytest.fixture(scope="module")
def trees() -> tuple[VirtualMachine, object]:
    exe = relayvm.compile(relayvm.parse(WITH_DATA), entries=["main", "swap"])
    make = exe.adt("Tree")
    leaf = make.Leaf(np.arange(4, dtype=np.float32))
    return VirtualMachine(exe, num_threads=1), make.Node(leaf, make.Node(leaf, leaf))


def test_data_comes_beside_arrays_of_any_order(trees) -> None:
    vm, tree = trees
    x = np.arange(4000, dtype=np.float32)
    for given in (x[:2000], x[::2], x[:2000], x[:2000].tolist(), x[2000:]):
        total, item, same = vm.run(tree, given, 3)
        assert total.tolist() == [0, 3, 6, 9]
        assert item == given[3]
        again, _, _ = vm.run(same, given, np.int64(1))
        assert again.tolist() == [0, 3, 6, 9]
        twice, part = vm.invoke("swap", (tree, 1), given)
        np.testing.assert_array_equal(twice, 2 * np.asarray(given, np.float32))
        assert vm.run(part, given, 0)[0].tolist() == [0, 3, 6, 9]


def test_data_is_still_the_hosts_behind_calls_that_fail(trees) -> None:
    vm, tree = trees
    x = np.zeros(2000, np.float32)
    for _ in range(3):
        with pytest.raises(Trap):
            vm.run(tree, x, -1)
        with pytest.raises(RelayError):
            vm.run(tree, x, "one")
        with pytest.raises(RelayError):
            vm.run(x, x, 1)
        with pytest.raises(RelayError):
            vm.run(tree, np.zeros(3, np.float32), 1)
        assert vm.run(tree, x, 5)[0].tolist() == [0, 3, 6, 9]
    assert repr(tree).count("Leaf") == 3


def test_what_a_call_was_given_is_dropped_with_the_last_name_of_it(trees) -> None:
    vm, _ = trees
    make, kept = vm.executable.adt("Tree"), []
    apart = np.zeros(4000, np.float32)[::2]
    for given in (np.zeros(2000, np.float32), apart):
        tree = make.Leaf(np.ones(4, np.float32))
        for index in (1, -1):
            with contextlib.suppress(Trap):
                vm.run(tree, given, index)
        kept.append(tree)
        # The count is the first field of an object; negative ones are of the host.
        counts = [ffi.cast("int32_t *", t._item)[0] for t in kept]
        assert counts == [-1] * len(kept)
