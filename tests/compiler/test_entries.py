"""Parameters given at compile time."""

from __future__ import annotations

import re

import numpy as np
import pytest

import relayvm

RECURSIVE = """
type Tree { Leaf(Tensor[(2), float32]), Node(Tree, Tree) }
def @main(%t: Tree, %w: Tensor[(2), float32]) -> Tensor[(2), float32] {
  match (%t) { Leaf(%x) => %x * %w, Node(%l, %r) => @main(%l, %w) + @main(%r, %w) }
}
"""


def test_a_recursive_main_takes_weights_as_constants() -> None:
    weight = np.array([2, 3], np.float32)
    exe = relayvm.compile(relayvm.parse(RECURSIVE), params={"w": weight})
    make = exe.adt("Tree")
    leaf = make.Leaf(np.ones(2, np.float32))
    result = relayvm.VirtualMachine(exe).run(make.Node(leaf, make.Node(leaf, leaf)))
    np.testing.assert_array_equal(result, 3 * weight)
    assert [p.name for p in exe.manifest.entry("main").parameters] == ["t"]


@pytest.mark.parametrize(
    ("value", "given"),
    [
        (np.ones(2), r"Tensor\[\(2\), float64\]"),
        (np.ones(3, np.float32), r"Tensor\[\(3\), float32\]"),
        (np.float32(1), "float32"),
    ],
)
def test_an_array_of_another_type_is_refused(value, given) -> None:
    module = relayvm.parse(RECURSIVE)
    with pytest.raises(relayvm.RelayError, match=given) as caught:
        relayvm.compile(module, params={"w": value})
    assert caught.value.code == "wrong-argument"


def test_an_unknown_parameter_lists_the_known() -> None:
    with pytest.raises(relayvm.RelayError, match="it has `%t`, `%w`"):
        relayvm.compile(relayvm.parse(RECURSIVE), params={"weight": np.ones(2, np.float32)})


def test_an_entry_can_be_an_instance() -> None:
    exe = relayvm.compile(
        relayvm.parse("def @main(%l: List[int32]) -> int32 { @length(%l) }"),
        entries=["main", "length[int32]"],
    )
    vm = relayvm.VirtualMachine(exe)
    make = exe.adt("List[int32]")
    numbers = make.Cons(1, make.Cons(2, make.Nil()))
    assert vm.run(numbers) == vm.invoke("length[int32]", numbers) == 2


def test_an_entry_without_its_type_arguments_says_how_to_write_them() -> None:
    with pytest.raises(relayvm.RelayError, match=r"`length\[int32\]`") as caught:
        relayvm.compile(
            relayvm.parse("def @main(%l: List[int32]) -> int32 { @length(%l) }"),
            entries=["length"],
        )
    assert caught.value.code == "polymorphic-entry"


@pytest.mark.parametrize(
    ("head", "message"),
    [
        ("main[A, m](%l: A)", "`@main` has type parameters and nothing says which"),
        ("main[A](%l: A)", "`@main` has type parameters and nothing says which"),
    ],
)
def test_a_polymorphic_main_beside_another_entry_is_refused(head: str, message: str) -> None:
    text = f"def @{head} {{ %l }}\ndef @other(%x: int32) {{ %x }}"
    with pytest.raises(relayvm.RelayError, match=re.escape(message)) as caught:
        relayvm.compile(relayvm.parse(text))
    assert caught.value.code == "polymorphic-entry"
    assert relayvm.compile(relayvm.parse(text), entries=["other"]).entries == ("other",)


@pytest.mark.parametrize("opt_level", [0, 3])
@pytest.mark.parametrize(
    "text",
    [
        "def @main[T](%x: Tensor[(2), float32]) { %x }",
        "def @main[T, n: ShapeVar](%x: Tensor[(2), float32]) { %x }",
        "def @main[T, n](%x: Tensor[(n), float32]) -> Tensor[(n), float32] { %x }",
        "def @main[T](%x: Tensor[(2), float32]) { %x }\n"
        "def @other(%x: Tensor[(2), float32]) { @main[int32](%x) }",
        "def @main[T](%x: Tensor[(2), float32]) { let %l: List[T] = Nil; %x }",
    ],
)
def test_a_type_parameter_that_no_argument_tells_needs_no_type(text: str, opt_level: int) -> None:
    exe = relayvm.compile(relayvm.parse(text), opt_level=opt_level)
    x = np.ones(2, np.float32)
    np.testing.assert_array_equal(relayvm.VirtualMachine(exe).run(x), x)


def test_a_size_that_a_constant_fixes_is_fixed_for_all_parameters() -> None:
    text = "def @main[n](%x: Tensor[(n), float32], %y: Tensor[(n), float32]) { %x + %y }"
    exe = relayvm.compile(relayvm.parse(text), params={"x": np.arange(3, dtype=np.float32)})
    assert exe.manifest.entry("main").parameters[0].type.text == "Tensor[(3), float32]"
    with pytest.raises(relayvm.RelayError, match=r"`y` of `main` is `Tensor\[\(3\), float32\]`"):
        relayvm.VirtualMachine(exe).run(np.ones(1, np.float32))


def test_arrays_that_disagree_on_a_size_are_refused() -> None:
    text = "def @main[n](%x: Tensor[(n), float32], %y: Tensor[(n), float32]) { %x + %y }"
    arrays = {"x": np.ones(3, np.float32), "y": np.ones(4, np.float32)}
    with pytest.raises(relayvm.RelayError) as caught:
        relayvm.compile(relayvm.parse(text), params=arrays)
    assert caught.value.code == "wrong-argument"


def test_numbers_and_lists_become_arrays_of_the_declared_dtype() -> None:
    text = 'def @main(%k: int32, %x: Tensor[(2), float32]) { cast(%k, dtype="float32") * %x }'
    exe = relayvm.compile(relayvm.parse(text), params={"k": 5, "x": [1, 2.5]})
    np.testing.assert_array_equal(relayvm.VirtualMachine(exe).run(), [5, 12.5])


@pytest.mark.parametrize("value", [np.ones((2, 3), np.float32), "abc"])
def test_only_tensors_can_be_bound(value) -> None:
    with pytest.raises(relayvm.RelayError, match="only tensors") as caught:
        relayvm.compile(relayvm.parse(RECURSIVE), params={"t": value})
    assert caught.value.code == "wrong-argument"


def test_text_is_no_tensor() -> None:
    with pytest.raises(relayvm.RelayError, match="is a tensor, not a `str`"):
        relayvm.compile(relayvm.parse("def @main(%x: int32) { %x }"), params={"x": "abc"})


def test_a_lifted_function_of_a_text_is_called_like_others():
    text = """
def @main(%x: float32) -> float32 { @made(%x)(%x) }
def @made(%x: float32, Closure=1) -> fn (float32) -> float32 {
  fn (%y: float32) -> float32 { let %f = fn (%z: float32) { add(%z, %x) }; %f(%y) }
}
def @plain(%x: float32, Closure=1) -> float32 { negative(%x) }
"""
    for level in (0, 3):
        vm = relayvm.VirtualMachine(relayvm.compile(relayvm.parse(text), opt_level=level))
        assert vm.run(np.float32(2)) == 4
        assert vm.invoke("made", np.float32(2))(np.float32(5)) == 7
        assert vm.invoke("plain", np.float32(2)) == -2


def test_functions_with_parameters_that_no_host_can_hold_are_no_entries() -> None:
    deep = "(" * 10_001 + "int32" + ",)" * 10_001
    text = f"""
        def @deep(%x: {deep}) {{ 1 }}
        def @twice(%f: fn [A](A) -> A) {{ (%f(1), %f(True)) }}
        def @main() {{ @twice(fn [A](%x: A) -> A {{ %x }}) }}"""
    executable = relayvm.compile(relayvm.parse(text))
    assert [entry.name for entry in executable.manifest.entries] == ["main"]


def test_a_polymorphic_function_as_a_parameter_of_main_is_refused() -> None:
    module = relayvm.parse("def @main(%f: fn [A](A) -> A) { (%f(1), %f(True)) }")
    with pytest.raises(relayvm.RelayError, match="cannot hold polymorphic functions") as caught:
        relayvm.compile(module)
    assert caught.value.code == "polymorphic-entry"


DEPTH = 5_000
DEEP = {
    "tuples": ("(", ",)", lambda value: (value,)),
    "pairs": ("(int32, ", ")", lambda value: (np.int32(1), value)),
    "lists of tuples": ("(List[int32], ", ")", lambda value: ([1, 2], value)),
    "references": ("ref(", ")", lambda value: value),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", DEEP)
def test_values_of_deep_types_go_in_and_out(name, tmp_path) -> None:
    opened, closed, wrap = DEEP[name]
    kind = opened * DEPTH + "int32" + closed * DEPTH
    text = f"def @main(%x: {kind}) -> {kind} {{ %x }}"
    path = tmp_path / "deep.rvm"
    relayvm.compile(relayvm.parse(text)).save(path)
    assert path.stat().st_size < 2_000 * DEPTH
    value = np.int32(7)
    for _ in range(DEPTH):
        value = wrap(value)
    result = relayvm.VirtualMachine(relayvm.load(path)).run(value)
    for _ in range(DEPTH):
        result = result.read() if name == "references" else result[-1]
    assert int(result) == 7


def test_a_wrong_value_deep_inside_is_named_by_what_is_around() -> None:
    kind = "(" * 300 + "int32" + ",)" * 300
    machine = relayvm.VirtualMachine(
        relayvm.compile(relayvm.parse(f"def @main(%x: {kind}) {{ %x }}"))
    )
    value: object = "seven"
    for _ in range(300):
        value = (value,)
    with pytest.raises(relayvm.RelayError) as raised:
        machine.run(value)
    assert len(str(raised.value)) < 1_000
    assert "field 0 of field 0 of" in str(raised.value) and "`x` of `main`" in str(raised.value)
