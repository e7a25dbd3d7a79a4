"""Programs that are hard for lowering, in `machine/*.relay`, run as the evaluator says; and values
that go in and out of entries.

A first line `// sizes: 3 5` gives the unknown dims of the parameters of `main`, in order.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from test_machine import is_close, is_same, outcome, result_of

import relayvm
from relayvm.base.dtypes import COMPUTED, dtype_of
from relayvm.compiler.evaluate import Evaluator
from relayvm.compiler.infer_types import infer_types

FILES = sorted((Path(__file__).parent / "machine").glob("*.relay"))
SIZES = "// sizes:"
PLAIN = [row.name for row in COMPUTED if row.name != "bool"]


def arguments(text: str, module: relayvm.Module) -> list[np.ndarray]:
    """Return arguments of main: vectors count up from 1, numbers are 3."""
    first = text.splitlines()[0]
    sizes = iter(map(int, first.removeprefix(SIZES).split() if first.startswith(SIZES) else ()))
    args = []
    for param in module["main"].params:
        kind = param.type_annotation
        shape = tuple(d if isinstance(d, int) else next(sizes) for d in kind.shape)
        count = np.arange(np.prod(shape, dtype=int)).reshape(shape) + (1 if shape else 3)
        args.append(count.astype(kind.dtype.numpy))
    assert next(sizes, None) is None
    return args


def check(module: relayvm.Module, args, levels=(0, 1, 3)) -> None:
    typed = infer_types(module)
    expected = outcome(lambda: Evaluator(typed).call("main", args))
    for level in levels:
        exe = relayvm.compile(typed, opt_level=level, entries=["main"])
        first, second = result_of(exe, args), result_of(exe, args)
        assert is_close(expected, first), f"level {level}: {expected!r}, got {first!r}"
        assert is_same(first, second), level


@pytest.mark.slow
@pytest.mark.parametrize("uniform", ["0", "1"])
@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_a_hard_program_gives_what_the_evaluator_gives(path, uniform, monkeypatch):
    monkeypatch.setenv("RELAYVM_UNIFORM", uniform)
    text = path.read_text(encoding="utf-8")
    module = relayvm.parse(text)
    check(module, arguments(text, module))


SCALARS = """
type B {{ C({d}, {d}, List[{d}]) }}
def @turn[A](%x: A, %y: A) -> (A, A) {{ (%y, %x) }}
def @pick(%x: {d}, %y: {d}) -> {d} {{ if (equal(%x, %y)) {{ %x }} else {{ %y }} }}
def @loop(%n: int32, %x: {d}) -> {d} {{
  if (equal(%n, 0)) {{ %x }} else {{ @loop(subtract(%n, 1), maximum(%x, %x)) }}
}}
def @main(%x: {d}, %v: Tensor[(3), {d}]) {{
  let %r = ref(%x);
  let %old = ref_read(%r);
  ref_write(%r, @pick(%old, %x));
  let %f = fn (%q: {d}) -> {d} {{ @pick(%q, %x) }};
  let %b = C(%x, ref_read(%r), Cons(%f(%x), Nil));
  let %p = @turn(%x, %f(%x));
  let %g = @pick;
  let %m = match (%b) {{
    C(%i, %j, Cons(%k, _)) => (%i, %j, %k),
    C(%i, _, _) => (%i, %i, %i),
  }};
  let %w = where(less(%x, %x), %x, %p.0);
  let %t = take(%v, 1, mode="clip");
  (%b, %p, %g(%x, %m.1), %m, @loop(3, %x), %w, stack((%x, %w), axis=0), %t,
   @map(%f, Cons(%t, Cons(%x, Nil))),
   @foldl(fn (%a: {d}, %c: {d}) {{ maximum(%a, %c) }}, %x, Cons(%t, Nil)))
}}
"""


@pytest.mark.slow
@pytest.mark.parametrize("uniform", ["0", "1"])
@pytest.mark.parametrize("dtype", PLAIN)
def test_numbers_keep_their_bits_through_calls_cells_closures_and_references(
    dtype, uniform, monkeypatch
):
    monkeypatch.setenv("RELAYVM_UNIFORM", uniform)
    value = 200 if dtype.startswith("u") else -5
    args = [np.array(v).astype(dtype_of(dtype).numpy) for v in (value, [1, 0, 3])]
    check(relayvm.parse(SCALARS.format(d=dtype)), args, levels=(0, 3))


@pytest.mark.slow
def test_a_kernel_may_have_more_inputs_than_can_be_given_away():
    count = 45
    lets = " ".join(f"let %a{i} = @f(%n, multiply(%x, {i}f));" for i in range(count))
    total = "%a0"
    for i in range(1, count):
        total = f"add({total}, %a{i})"
    text = f"""
def @f(%n: int32, %x: Tensor[(3), float32]) -> Tensor[(3), float32] {{
  if (less(%n, 0)) {{ %x }} else {{ exp(@f(subtract(%n, 1), %x)) }}
}}
def @main(%x: Tensor[(3), float32], %n: int32) {{ {lets} {total} }}
"""
    check(relayvm.parse(text), [np.zeros(3, np.float32), np.array(1, np.int32)], levels=(0, 3))


# -- Entries ---------------------------------------------------------------------------------------

ENTRIES = """
type Shape { Point, Line(Tensor[(?), float32], int32), Both(Shape, Shape) }
def @make_ref(%x: int32) -> ref(int32) { ref(%x) }
def @read(%r: ref(int32)) -> int32 { ref_read(%r) }
def @adder(%x: Tensor[(3), float32], %r: ref(int32))
    -> fn (int32) -> (Tensor[(3), float32], int32) {
  fn (%k: int32) {
    let %old = ref_read(%r);
    ref_write(%r, add(%old, %k));
    (add(%x, cast(%k, dtype="float32")), %old)
  }
}
def @apply(%f: fn (int32) -> (Tensor[(3), float32], int32), %k: int32) { %f(%k) }
def @shape(%x: Tensor[(?), float32], %n: int32) -> Shape { Both(Line(%x, %n), Point) }
def @join(%a: Shape, %b: Shape) -> Shape { Both(%a, %b) }
def @size(%s: Shape) -> int32 {
  match (%s) { Point => 0, Line(_, %n) => %n, Both(%a, %b) => add(@size(%a), @size(%b)) }
}
def @write_after(%r: ref(int32), %x: Tensor[(?), float32], %y: Tensor[(?), float32]) {
  let %a = add(%x, %y);
  let %b = sum(%a);
  let %u = ref_write(%r, 99);
  (exp(%a), %b)
}
def @write_after_index(%r: ref(int32), %x: Tensor[(3), float32], %i: Tensor[(2), int32]) {
  let %a = take(%x, %i, axis=0, mode="fast");
  let %u = ref_write(%r, 99);
  exp(%a)
}
def @sized[n](%x: Tensor[(n), float32]) -> fn (Tensor[(n), float32]) -> Tensor[(n), float32] {
  fn (%y: Tensor[(n), float32]) { add(%y, ones(shape=[n], dtype="float32")) }
}
def @same(%x: Tensor[(3), float32]) -> (Tensor[(3), float32], Tensor[(3), float32]) { (%x, %x) }
def @constant() -> Tensor[(3), float32] { ones(shape=[3], dtype="float32") }
"""
VECTOR = np.array([1, 2, 3], np.float32)


@pytest.fixture(scope="module", params=[0, 3], ids=["level 0", "level 3"])
def exe(request) -> relayvm.Executable:
    return relayvm.compile(relayvm.parse(ENTRIES), opt_level=request.param)


@pytest.fixture
def vm(exe) -> relayvm.VirtualMachine:
    return relayvm.VirtualMachine(exe)


def test_a_closure_keeps_what_it_captured_between_calls(vm):
    reference = vm.invoke("make_ref", 5)
    adder = vm.invoke("adder", VECTOR, reference)
    assert [int(adder(k)[1]) for k in (1, 2, 3)] == [5, 6, 8]
    values, old = vm.invoke("apply", adder, 10)
    np.testing.assert_array_equal(values, VECTOR + 10)
    assert old == 11
    assert vm.invoke("read", reference) == 21


def test_data_values_go_in_and_out(exe, vm):
    made = vm.invoke("shape", np.ones(4, np.float32), 4)
    host = exe.adt("Shape").Line(VECTOR, 3)
    joined = vm.invoke("join", vm.invoke("join", made, host), made)
    assert vm.invoke("size", joined) == 11
    np.testing.assert_array_equal(joined.fields[0].fields[1].fields[0], VECTOR)
    assert vm.invoke("size", made) == 4


def test_nothing_is_left_behind_when_results_are_dropped(exe):
    vm = relayvm.VirtualMachine(exe)
    held = vm.stats()["held_bytes"]
    reference = vm.invoke("make_ref", 5)
    adder = vm.invoke("adder", VECTOR, reference)
    shape = vm.invoke("shape", np.ones(4, np.float32), 4)
    results = [vm.invoke("apply", adder, 1), vm.invoke("join", shape, shape)]
    del reference, adder, shape, results
    vm.trim()
    assert vm.stats()["held_bytes"] == held


@pytest.mark.parametrize(
    ("entry", "argument", "code"),
    [
        ("write_after", np.ones(5, np.float32), "run-time-shape"),
        ("write_after_index", np.array([0, 7], np.int32), "index-out-of-range"),
    ],
)
def test_a_trap_leaves_references_as_they_were_at_its_place(vm, entry, argument, code):
    reference = vm.invoke("make_ref", 5)
    with pytest.raises(relayvm.Trap) as trap:
        vm.invoke(entry, reference, VECTOR, argument)
    assert trap.value.code == code
    assert vm.invoke("read", reference) == 5


def test_a_closure_compares_with_a_size_that_it_captured(vm):
    closure = vm.invoke("sized", VECTOR)
    np.testing.assert_array_equal(closure(VECTOR), VECTOR + 1)
    with pytest.raises(relayvm.Trap) as trap:
        closure(np.ones(5, np.float32))
    assert trap.value.code == "run-time-shape"


def test_results_share_memory_with_nothing(vm):
    first, second = vm.invoke("same", VECTOR)
    assert not np.shares_memory(first, VECTOR)
    assert not np.shares_memory(first, second)
    vm.invoke("constant")[...] = 7
    np.testing.assert_array_equal(vm.invoke("constant"), np.ones(3, np.float32))


SIZES_OF_ARGUMENTS = """
def @even[n](%x: Tensor[(n*2), float32]) { sum(%x) }
def @more[n](%x: Tensor[(n + 4), float32]) { sum(%x) }
def @both[n](%x: Tensor[(n*2 + 1), float32], %y: Tensor[(n), float32]) { sum(%x) + sum(%y) }
"""


def test_arguments_have_sizes_that_their_types_allow():
    machine = relayvm.VirtualMachine(relayvm.compile(relayvm.parse(SIZES_OF_ARGUMENTS)))

    def call(name, *sizes):
        return machine.invoke(name, *(np.ones(size, np.float32) for size in sizes))

    for _ in range(2):
        assert [call("even", 6), call("more", 4), call("both", 7, 3)] == [6, 4, 10]
        for name, sizes, message in (
            ("even", (3,), "axis 0 of `x` of `even` has size 3, which `n*2` never is"),
            ("more", (3,), "axis 0 of `x` of `more` has size 3, which `n + 4` never is"),
            (
                "both",
                (7, 4),
                "size `n` is 3 on axis 0 of `x` of `both` (`n*2 + 1`) and 4 on axis 0",
            ),
        ):
            with pytest.raises(relayvm.RelayError) as caught:
                call(name, *sizes)
            assert caught.value.code == "wrong-argument"
            assert caught.value.message.startswith(message)
