"""Arrays of the language on both engines: values, in-place changes, traps, nothing left behind."""

from __future__ import annotations

import numpy as np
import pytest

import relayvm
from relayvm import Trap, VirtualMachine
from relayvm.compiler.evaluate import Evaluator
from tests.compiler.programs_text import typed

X = np.arange(3, dtype=np.float32)

# A program, its arguments, and its result as lists, tuples and arrays.
PROGRAMS = {
    "numbers": (
        "def @main(%n: int32) { @array_build(%n, fn (%i: int32) -> int32 { %i * %i }) }",
        (4,),
        [0, 1, 4, 9],
    ),
    "an empty array": ("def @main() -> Array[float32] { array.new(10) }", (), []),
    "tensors of any size": (
        "def @main(%a: Array[Tensor[(?), float32]], %x: Tensor[(3), float32]) "
        "{ (array.length(%a), array.push(%a, %x + 1f)) }",
        ([X[:2]], X),
        (1, [X[:2], X + 1]),
    ),
    "the array given stays as it is": (
        "def @main(%a: Array[float32]) { (array.set(%a, 0, 9f), array.push(%a, 8f), %a) }",
        ([1.0, 2.0],),
        ([9.0, 2.0], [1.0, 2.0, 8.0], [1.0, 2.0]),
    ),
    "tuples": (
        "def @main(%a: Array[(int32, float32)]) { "
        "@array_foldl(fn (%s: int32, %p: (int32, float32)) -> int32 { %s + %p.0 }, 0, %a) }",
        ([(1, 1.0), (5, 2.0)],),
        6,
    ),
    "arrays of arrays": (
        "def @main(%a: Array[Array[int32]]) { array.push(%a, array.push(array.get(%a, 1), 7)) }",
        ([[1], [2, 3]],),
        [[1], [2, 3], [2, 3, 7]],
    ),
    "functions": (
        "def @main(%n: int32) { let %fs = @array_fill(%n, fn (%x: int32) -> int32 { %x + %n }); "
        "array.get(%fs, 1)(5) }",
        (3,),
        8,
    ),
    "lists": (
        "def @main(%n: int32) { @array_map(fn (%l: List[int32]) -> int32 { @sum(%l) }, "
        "array.push(@array_fill(%n, Nil), Cons(4, Cons(5, Nil)))) }",
        (2,),
        [0, 0, 9],
    ),
    "to a list and back": (
        "def @main(%a: Array[int32]) { @array_from_list(@rev(@array_to_list(%a))) }",
        ([3, 1, 2],),
        [2, 1, 3],
    ),
    "parts": (
        "def @main(%a: Array[int32]) { @array_concat(@array_slice(%a, 2, 4), %a) }",
        ([0, 1, 2, 3],),
        [2, 3, 0, 1, 2, 3],
    ),
    "folds from both ends": (
        "def @main(%a: Array[int32]) { let %f = fn (%x: int32, %y: int32) -> int32 { %x - %y }; "
        "(@array_foldl(%f, 0, %a), @array_foldr(%f, 0, %a)) }",
        ([1, 2, 4],),
        (-7, 3),
    ),
    "in a reference": (
        "def @main(%a: Array[int32]) { let %r = ref(%a); "
        "ref_write(%r, array.push(ref_read(%r), 5)); (ref_read(%r), %a) }",
        ([1],),
        ([1, 5], [1]),
    ),
    "in a data type": (
        "type Box[A] { Box(Array[A], int32) } def @main(%a: Array[int32]) -> int32 "
        "{ match (Box(array.push(%a, 1), 2)) { Box(%b, %n) => array.length(%b) * %n } }",
        ([1],),
        4,
    ),
    "a narrower array goes where any size is declared": (
        "def @f(%a: Array[Tensor[(?), float32]]) { array.push(%a, array.get(%a, 0)) } "
        "def @main(%a: Array[Tensor[(3), float32]]) { (@f(%a), %a) }",
        ([X],),
        ([X, X], [X]),
    ),
    "items of different sizes": (
        "def @main(%x: Tensor[(3), float32], %y: Tensor[(2), float32]) "
        "{ array.push(array.push(array.new(0), %x), %y) }",
        (X, X[:2]),
        [X, X[:2]],
    ),
    "a polymorphic box at three types": (
        "type Box[A] { Box(Array[A]) } "
        "def @open[A](%b: Box[A]) -> Array[A] { match (%b) { Box(%a) => %a } } "
        "def @one[A](%x: A) -> Array[A] { @open(Box(array.push(array.new(1), %x))) } "
        "def @main(%a: Array[int32], %x: float32) { (@open(Box(%a)), @one(%x), @one((%x, 1))) }",
        ([1, 2], 3.0),
        ([1, 2], [3.0], [(3.0, 1)]),
    ),
    "a tree of arrays": (
        "type T { L, N(Array[T], int32) } "
        "def @total(%t: T) -> int32 { match (%t) { L => 0, N(%a, %n) => "
        "@array_foldl(fn (%s: int32, %u: T) -> int32 { %s + @total(%u) }, %n, %a) } } "
        "def @main(%n: int32) "
        "{ @total(N(array.push(array.push(array.new(2), N(array.new(0), %n)), L), 5)) }",
        (7,),
        12,
    ),
    "a polymorphic local function": (
        "def @main(%n: int32) { let %pick = fn [A](%a: Array[A]) -> A { array.get(%a, 0) }; "
        "(%pick(@array_fill(1, %n)), %pick(@array_fill(1, 2f))) }",
        (7,),
        (7, 2.0),
    ),
    "types that never close": (
        "def @grow[A](%n: int32, %x: A) -> int32 "
        "{ if (%n == 0) { array.length(@array_fill(2, %x)) } "
        "else { 1 + @grow(%n - 1, array.push(array.new(1), %x)) } } "
        "def @main(%n: int32) { @grow(%n, 1f) }",
        (5,),
        7,
    ),
    "a reference of the host": (
        "def @main(%r: ref(Array[int32])) "
        "{ ref_write(%r, array.push(ref_read(%r), 1)); array.length(ref_read(%r)) }",
        ([5],),
        2,
    ),
    "references in an array": (
        "def @main(%a: Array[(float32, ref(int32))]) { let %p = array.get(%a, 0); "
        "ref_write(%p.1, 4); ref_read(array.get(%a, 0).1) }",
        ([(1.0, 1)],),
        4,
    ),
    "items of one byte, two, and none": (
        "def @main(%a: Array[bool], %b: Array[()], %c: Array[float16]) "
        "{ (array.get(%a, 0), array.get(%b, 0), array.set(%c, 0, 2f16)) }",
        ([True], [()], [1.0]),
        (True, (), [2.0]),
    ),
    "type arguments that are written": (
        "def @main(%n: int32) { array.length(array.push[float32](array.new[float32](%n), 1f)) }",
        (3,),
        1,
    ),
    "a value that others hold too": (
        "def @main(%a: Array[Tensor[(3), float32]]) { let %x = array.get(%a, 0); "
        "let %b = array.set(%a, 0, %x + 1f); (%x, array.get(%b, 0)) }",
        ([X],),
        (X, X + 1),
    ),
}


def plain(value):
    """Return a result of either engine as lists, tuples and arrays."""
    if isinstance(value, (list, tuple)):
        return type(value)(plain(v) for v in value)
    return np.asarray(value)


def same(got, wanted) -> bool:
    if isinstance(wanted, (list, tuple)):
        return (
            type(got) is type(wanted)
            and len(got) == len(wanted)
            and all(same(g, w) for g, w in zip(got, wanted))
        )
    return np.array_equal(got, np.asarray(wanted))


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_evaluator_gives(name):
    text, args, wanted = PROGRAMS[name]
    assert same(plain(Evaluator(typed(text)).call("main", args)), wanted)


@pytest.mark.parametrize("uniform", [False, True])
@pytest.mark.parametrize("opt_level", [0, 3])
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_machine_gives(name, opt_level, uniform, monkeypatch):
    if uniform:
        monkeypatch.setenv("RELAYVM_UNIFORM", "1")
    text, args, wanted = PROGRAMS[name]
    exe = relayvm.compile(relayvm.parse(text), opt_level=opt_level)
    vm = VirtualMachine(relayvm.load(exe.to_bytes(), native=True))
    assert same(plain(vm.run(*args)), wanted)


TRAPS = {
    "array.get(%a, %i)": "index-out-of-range",
    "array.set(%a, %i, 1f)": "index-out-of-range",
    "{ let %b: Array[float32] = array.new(%i - 7); array.length(%b) }": "size-overflow",
}


@pytest.mark.parametrize("index", [2, -1, 1 << 30])
@pytest.mark.parametrize("body", TRAPS)
def test_what_is_outside_of_an_array_traps_at_its_place(body, index):
    if "new" in body:
        index = min(index, 2)
    text = f"def @main(%a: Array[float32], %i: int32) {{\n  {body}\n}}"
    messages = []
    with pytest.raises(Trap) as caught:
        Evaluator(typed(text)).call("main", [[1.0, 2.0], index])
    messages.append(caught.value.diagnostics[0])
    vm = VirtualMachine(relayvm.compile(relayvm.parse(text)))
    held = vm.stats()["held_bytes"]
    for _ in range(3):
        with pytest.raises(Trap) as caught:
            vm.run([1.0, 2.0], index)
    messages.append(caught.value.diagnostics[0])
    assert {m.code for m in messages} == {TRAPS[body]}
    assert len({m.message for m in messages}) == 1
    assert all(m.span is not None and m.span.line == 2 for m in messages)
    assert vm.stats()["held_bytes"] <= held + (32 << 10)


def test_calls_with_arrays_leave_nothing_behind():
    text = "def @main(%a: Array[Tensor[(?), float32]]) { array.push(%a, array.get(%a, 0)) }"
    vm = VirtualMachine(relayvm.compile(relayvm.parse(text)))
    for _ in range(3_000):
        vm.run([X, X])
    assert vm.stats()["held_bytes"] < 3 << 20


def test_a_wrong_argument_names_the_item():
    vm = VirtualMachine(relayvm.compile(relayvm.parse("def @main(%a: Array[int32]) { %a }")))
    with pytest.raises(relayvm.RelayError, match="item 1 of"):
        vm.run([1, 2.5])
    with pytest.raises(relayvm.RelayError):
        vm.run(3)


LOOPS = {
    "push": "array.push(%a, %i)",
    "set": "array.set(array.push(%a, 0), %i, %i)",
    "set through a function": "@put(array.push(%a, 0), %i)",
}


@pytest.mark.parametrize("opt_level", [0, 3])
@pytest.mark.parametrize("name", LOOPS)
def test_a_loop_that_hands_an_array_along_copies_nothing(name, opt_level):
    text = f"""
    def @put(%a: Array[int32], %i: int32) -> Array[int32] {{
      if (%i < 0) {{ %a }} else {{ array.set(%a, %i, %i) }}
    }}
    def @go(%a: Array[int32], %i: int32, %n: int32) -> Array[int32] {{
      if (%i == %n) {{ %a }} else {{ @go({LOOPS[name]}, %i + 1, %n) }}
    }}
    def @main(%n: int32) -> int32 {{ array.get(@go(array.new(0), 0, %n), %n - 1) }}
    """
    assert_linear(text, opt_level)


@pytest.mark.parametrize("opt_level", [0, 3])
@pytest.mark.parametrize("update", ["array.push(ref_read(%r), %i)", "@put(ref_read(%r), %i)"])
def test_an_array_in_a_reference_is_changed_in_place(update, opt_level):
    text = f"""
    def @put(%a: Array[int32], %i: int32) -> Array[int32] {{
      if (%i < 0) {{ %a }} else {{ array.push(%a, %i) }}
    }}
    def @main(%n: int32) -> int32 {{
      let %r: ref(Array[int32]) = ref(array.new(0));
      let %go = fn (%i: int32) -> int32 {{
        if (%i == %n) {{ array.get(ref_read(%r), %n - 1) }}
        else {{ ref_write(%r, {update}); %go(%i + 1) }}
      }};
      %go(0)
    }}
    """
    assert_linear(text, opt_level)


def assert_linear(text: str, opt_level: int) -> None:
    """Assert that no item is copied and that steps and memory are in proportion to the length."""
    exe = relayvm.compile(relayvm.parse(text), opt_level=opt_level)
    used = []
    for n in (1_000, 100_000):
        vm = VirtualMachine(exe)
        assert int(vm.run(n)) == n - 1
        stats = vm.stats()
        assert stats["copied_items"] == 0
        used.append((stats["steps"], stats["peak_bytes"]))
    (steps, _), (many_steps, many_bytes) = used
    assert many_steps <= 101 * steps
    assert many_bytes < 8 << 20


@pytest.mark.parametrize(
    "update",
    [
        "{ let %old = ref_read(%r); let %new = array.push(%old, 1); "
        "let %seen = array.length(ref_read(%r)); ref_write(%r, %new); %seen }",
        "{ let %old = ref_read(%r); ref_write(%r, array.push(%old, 1)); array.length(%old) }",
        "{ let %old = ref_read(%r); let %seen = @look(%r); ref_write(%r, array.push(%old, 1)); "
        "%seen }",
        "{ let %old = ref_read(%r); let %seen = %look(); ref_write(%r, array.push(%old, 1)); "
        "%seen }",
        "{ let %old = ref_read(%r); let %new = if (array.length(%old) > 0) "
        "{ array.push(ref_read(%r), 1) } else { array.push(%old, 1) }; ref_write(%r, %new); "
        "array.length(%old) }",
    ],
)
@pytest.mark.parametrize("opt_level", [0, 3])
def test_a_reference_is_never_seen_empty(update, opt_level):
    text = f"""
    def @look(%r: ref(Array[int32])) -> int32 {{ array.length(ref_read(%r)) }}
    def @main(%a: Array[int32]) {{
      let %r = ref(%a);
      let %look = fn () -> int32 {{ array.length(ref_read(%r)) }};
      let %n = {update};
      (%n, ref_read(%r))
    }}
    """
    vm = VirtualMachine(relayvm.compile(relayvm.parse(text), opt_level=opt_level))
    wanted = Evaluator(typed(text)).call("main", [[4, 5]])
    assert same(plain(vm.run([4, 5])), plain(wanted))


def test_a_reference_of_the_host_keeps_its_value_when_the_update_traps():
    text = """
    def @make() { ref(@array_fill(2, 0)) }
    def @main(%r: ref(Array[int32]), %i: int32) { ref_write(%r, array.set(ref_read(%r), %i, 1)) }
    """
    vm = VirtualMachine(relayvm.compile(relayvm.parse(text)))
    reference = vm.invoke("make")
    with pytest.raises(Trap):
        vm.run(reference, 7)
    vm.run(reference, 1)
    assert [int(x) for x in reference.read()] == [0, 1]


def test_arrays_may_be_made_without_memory():
    text = "def @main(%n: int32) -> int32 { array.length(@array_fill(%n, 1)) }"
    vm = VirtualMachine(relayvm.compile(relayvm.parse(text)), max_memory=4 << 20)
    with pytest.raises(Trap) as caught:
        vm.run(10_000_000)
    assert caught.value.code == "out-of-memory"
    assert vm.run(1000) == 1000


MANY = """
def @fill(%n: int32, %a: Array[Tensor[(8), float32]], %x: Tensor[(8), float32]) {
  if (%n < 1) { %a } else { @fill(%n - 1, array.push(%a, %x * cast(%n, dtype="float32")), %x) }
}
def @rows(%n: int32, %m: int32, %a: Array[Array[Tensor[(8), float32]]], %x: Tensor[(8), float32]) {
  if (%n < 1) { %a }
  else { @rows(%n - 1, %m, array.push(%a, @fill(%m, array.new(0), %x)), %x) }
}
def @main(%n: int32, %m: int32, %x: Tensor[(8), float32]) {
  array.length(@rows(%n, %m, array.new(0), %x))
}
"""


@pytest.mark.parametrize("engine", ["interpreter", "jit"])
@pytest.mark.parametrize(("rows", "items"), [(1, 1000), (100, 100), (33, 31), (3, 33)])
def test_many_small_tensors_take_two_lines_each_and_go_with_their_arrays(engine, rows, items):
    vm = VirtualMachine(relayvm.compile(typed(MANY)), engine=engine)
    x = np.ones(8, np.float32)
    assert vm.run(np.int32(rows), np.int32(items), x) == rows
    stats = vm.stats()
    # A tensor, its memory of 64 bytes, and its place in an array that grew; and what is small.
    assert stats["peak_bytes"] - stats["stack_bytes"] < 176 * rows * items + (1 << 15)
    for _ in range(3):
        vm.run(np.int32(rows), np.int32(items), x)
    assert vm.stats()["peak_bytes"] == stats["peak_bytes"]
